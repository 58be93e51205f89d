"""Answers to pipelined requests come in the order of the requests, at every HTTP door (RFC 9112, 9.3.2)."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
from collections.abc import Iterator
from hashlib import sha256
from io import BytesIO

import pytest

from conftest import Served, serving
from deadline import DEADLINE
from edge_doors import DRIVERS, DoorDriver
from sabir import Gateway, Turn, agent

TEXTS = ("slowest zero", "number one", "slow two", "number three", "number four")  # with a blank: in no token


@agent(name="echo", description="Answers some later than others")
async def echo(turn: Turn) -> str:
    await asyncio.sleep({"slowest": 0.5, "slow": 0.2}.get(turn.text.partition(" ")[0], 0.0))
    return turn.text


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(Gateway(echo, home=tmp_path_factory.mktemp("home"))) as one:
        yield one


class _Kept(BytesIO):
    """Bytes that stay open after the first response in them was read."""

    def close(self) -> None:
        pass


class _Received:
    """What a socket received, for the parser of the standard library."""

    def __init__(self, file: BytesIO) -> None:
        self._file = file

    def makefile(self, *_: object) -> BytesIO:
        return self._file


def request(door: DoorDriver, body: bytes, *, is_last: bool) -> bytes:
    headers = {
        "host": "127.0.0.1",
        "content-type": "application/json",
        "content-length": str(len(body)),
        "connection": "close" if is_last else "keep-alive",
        **door.headers,
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"POST {door.path} HTTP/1.1\r\n{head}\r\n".encode() + body


def numbered(door: DoorDriver, number: int, text: str) -> bytes:
    """The body of a request; where the protocol has ids, each has its own."""
    body = door.body(text)
    if "jsonrpc" in body:
        body["id"] = 100 + number
    message = body.get("message") or body.get("params", {}).get("message")
    if message is not None:
        message["messageId"] = f"pipelined-{number}"
    return json.dumps(body).encode()


def answers(served: Served, sent: bytes, times: int) -> list[tuple[int, str]]:
    with socket.create_connection((served.host, served.port), timeout=DEADLINE) as connection:
        connection.sendall(sent)
        received = _Kept(b"".join(iter(lambda: connection.recv(65536), b"")))
    found = []
    for _ in range(times):
        response = http.client.HTTPResponse(_Received(received), method="POST")  # type: ignore[arg-type]
        response.begin()
        found.append((response.status, response.read().decode()))
    assert received.read() == b"", "there is more than one answer for each request"
    return found


@pytest.mark.parametrize("door", DRIVERS, ids=lambda door: door.name)
def test_answers_come_in_the_order_of_the_requests(served: Served, door: DoorDriver) -> None:
    bodies = [numbered(door, number, text) for number, text in enumerate(TEXTS)]
    last = len(bodies) - 1
    sent = b"".join(request(door, body, is_last=number == last) for number, body in enumerate(bodies))
    found = answers(served, sent, len(TEXTS))
    assert [status for status, _ in found] == [found[0][0]] * len(TEXTS)
    for (_, answer), text, body in zip(found, TEXTS, bodies, strict=True):
        contained = [other for other in TEXTS if other in answer]  # none of an upload, which is known by its digest
        assert contained == [text] or sha256(body).hexdigest() in answer, answer
