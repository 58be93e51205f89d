"""Connections as bytes: headers without end, and offers of another protocol."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import socket
import time
from pathlib import Path

import pytest

from conftest import Serve
from deadline import DEADLINE
from sabir import Gateway, Turn, agent
from sabir.agents.echo import echo

BODY = b'{"format":"text","subformat":"english","content":"Upgrade: h2c"}'


def heard(port: int, *pieces: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE) as connection:
        try:
            for piece in pieces:
                connection.sendall(piece)
        except (BrokenPipeError, ConnectionResetError):
            pass  # it has been told, and closed
        answer = b""
        while data := connection.recv(65536):
            answer += data
        return answer


def head(*more: bytes) -> bytes:
    lines = (b"POST /nlip HTTP/1.1", b"Host: 127.0.0.1", b"Connection: close", b"Content-Length: %d" % len(BODY), *more)
    return b"\r\n".join(lines) + b"\r\n\r\n"


def test_headers_without_end_are_refused(serve: Serve, home: Path) -> None:
    port = serve(Gateway(echo, home=home)).port
    with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE) as connection:
        connection.sendall(b"POST /nlip HTTP/1.1\r\nHost: 127.0.0.1\r\n")
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            for _ in range(10_000):
                connection.sendall(b"X-More: %s\r\n" % (b"a" * 8000))


def test_headers_a_little_too_long_are_reported_in_nlip(serve: Serve, home: Path) -> None:
    port = serve(Gateway(echo, home=home)).port
    answer = heard(port, b"POST /nlip HTTP/1.1\r\nHost: 127.0.0.1\r\nX-More: " + b"a" * 66_000)
    assert answer.startswith(b"HTTP/1.1 431 ")
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["messagetype"] == "error"


def test_a_request_that_offers_http2_keeps_its_body(serve: Serve, home: Path) -> None:
    """As Java's HttpClient sends it."""
    port = serve(Gateway(echo, home=home)).port
    offer = head(b"Upgrade: h2c", b"HTTP2-Settings: AAEAAEAAAAIAAAAB").replace(
        b"Connection: close", b"Connection: close, Upgrade, HTTP2-Settings"
    )
    for pieces in ((offer + BODY,), (offer, BODY)):
        answer = heard(port, *pieces)
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert b"You said: Upgrade: h2c" in answer


def test_many_requests_on_one_connection_have_heads_of_their_own(serve: Serve, home: Path) -> None:
    port = serve(Gateway(echo, home=home)).port
    again = head(b"X-More: " + b"a" * 30_000).replace(b"Connection: close\r\n", b"") + BODY
    answer = heard(port, again, again, again, head() + BODY)
    assert answer.count(b"HTTP/1.1 200 ") == 4


def kept_open(text: str) -> bytes:
    body = json.dumps({"format": "text", "subformat": "english", "content": text}).encode()
    return b"POST /nlip HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)


def test_an_answer_is_one_piece_on_the_wire(serve: Serve, home: Path) -> None:
    port = serve(Gateway(echo, home=home)).port
    with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE) as connection:
        for text in ("one", "two"):
            connection.sendall(kept_open(text))
            head, end, body = connection.recv(65536).partition(b"\r\n\r\n")
            assert end and text in json.loads(body)["content"]
            assert f"content-length: {len(body)}".encode() in head


def test_requests_that_do_not_wait_for_their_answers_get_them_in_order(serve: Serve, home: Path) -> None:
    port = serve(Gateway(echo, home=home)).port
    words = [f"word {n}" for n in range(8)]
    answer = heard(port, b"".join(kept_open(word) for word in words), head() + BODY)
    assert answer.count(b"HTTP/1.1 200 ") == 9
    places = [answer.index(word.encode()) for word in words]
    assert places == sorted(places)


def test_a_head_request_gets_no_body_and_an_old_client_a_closed_connection(serve: Serve, home: Path) -> None:
    port = serve(Gateway(echo, home=home)).port
    answer = heard(port, b"HEAD /nlip HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 405 ") and answer.endswith(b"\r\n\r\n")
    old = heard(port, kept_open("old").replace(b"HTTP/1.1", b"HTTP/1.0"))
    assert old.startswith(b"HTTP/1.1 200 ") and b"connection: close\r\n" in old and b" old" in old


# What may follow a request on its connection and is rejected, or cannot be answered while that is running.
FOLLOWED_BY = {
    "not HTTP": [b"\x00\x01 what?\r\n\r\n"],
    "a bad chunk": [b"POST /nlip HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n"],
    "a body that goes bad": [
        b"POST /nlip HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
        b"cdeXXXX\r\n",
    ],
    "an unknown version": [b"POST /nlip HTTP/7.7\r\nHost: 127.0.0.1\r\n\r\n"],
    "a request and then a bad one": [
        b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"POST /nlip HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
    ],
    "a WebSocket": [
        b"GET /nlip/ws HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    ],
}


@agent
async def slow(turn: Turn) -> str:
    await asyncio.sleep(0.3)
    return f"You said: {turn.text}"


@pytest.mark.parametrize("what", FOLLOWED_BY)
def test_what_follows_a_running_request_never_overtakes_its_answer(
    what: str, serve: Serve, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Answers have no ids: the first answer on the wire is taken for that of the first request."""
    port = serve(Gateway(slow, home=home)).port
    first, *more = FOLLOWED_BY[what]
    answer = heard(port, kept_open("first") + first, *more)
    statuses = re.findall(rb"HTTP/1\.1 (\d+) ", answer)
    assert statuses[0] == b"200" and b"You said: first" in answer.split(b"HTTP/1.1 ")[1]
    assert statuses[1:] == ([b"200"] if "then" in what else [])
    assert [record.message for record in caplog.records if record.levelno >= logging.ERROR] == []


def test_an_old_client_that_sends_more_than_one_request_gets_one_answer(
    serve: Serve, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    port = serve(Gateway(echo, home=home)).port
    old = kept_open("old").replace(b"HTTP/1.1", b"HTTP/1.0")
    answer = heard(port, old + kept_open("new") + b"\x00\x01")
    assert answer.count(b"HTTP/1.1 200 ") == 1 and b" old" in answer
    assert [record.message for record in caplog.records if record.levelno >= logging.ERROR] == []


def test_a_client_that_leaves_with_requests_in_the_pipeline_leaves_no_error(
    serve: Serve, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ended: list[str] = []

    @agent
    async def long(turn: Turn) -> str:
        try:
            await asyncio.sleep(20)
        except asyncio.CancelledError:
            ended.append(turn.text)
            raise
        return "too late"

    server = serve(Gateway(long, home=home))
    with socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE) as connection:
        connection.sendall(kept_open("first") + kept_open("second"))
        time.sleep(0.5)
    until = time.monotonic() + DEADLINE
    while not ended and time.monotonic() < until:
        time.sleep(0.05)
    assert ended == ["first"]
    assert [record.message for record in caplog.records if record.levelno >= logging.ERROR] == []
