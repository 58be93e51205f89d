"""Many requests on one connection: each gets its own answer, whatever the one before it was."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from conftest import Serve
from deadline import DEADLINE
from sabir import Gateway, Turn, agent


def request(text: str, *more: bytes, path: bytes = b"/nlip") -> bytes:
    body = json.dumps({"format": "text", "subformat": "english", "content": text}).encode()
    lines = (b"POST %s HTTP/1.1" % path, b"Host: 127.0.0.1", b"Content-Length: %d" % len(body), *more)
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


class Client:
    """One connection that stays open."""

    def __init__(self, port: int, host: str = "127.0.0.1") -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=DEADLINE, source_address=(host, 0))
        self._buffer = b""

    def ask(self, *pieces: bytes) -> tuple[bytes, dict[str, object]]:
        for piece in pieces:
            self.socket.sendall(piece)
        return self.answer()

    def answer(self) -> tuple[bytes, dict[str, object]]:
        while b"\r\n\r\n" not in self._buffer:
            self._more()
        head, _, rest = self._buffer.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
        while len(rest) < length:
            self._more()
            rest = self._buffer.partition(b"\r\n\r\n")[2]
        self._buffer = rest[length:]
        return head.split(b"\r\n")[0], json.loads(rest[:length])

    def _more(self) -> None:
        data = self.socket.recv(65536)
        assert data, "the connection was closed"
        self._buffer += data


@contextmanager
def connected(port: int, host: str = "127.0.0.1") -> Iterator[Client]:
    client = Client(port, host)
    try:
        yield client
    finally:
        client.socket.close()


@agent(remembers=False)
async def echo(turn: Turn) -> str:
    return f"{turn.text} from {turn.caller.address}"


def test_the_same_head_with_other_words_gets_its_own_answers(serve: Serve, home: Path) -> None:
    with connected(serve(Gateway(echo, home=home)).port) as client:
        for word in ("one", "two", "six", "ten"):
            status, reply = client.ask(request(word))
            assert (status, reply["content"]) == (b"HTTP/1.1 200 OK", f"{word} from 127.0.0.1")


def test_the_caller_comes_from_the_connection_and_not_from_the_head(serve: Serve, home: Path) -> None:
    port = serve(Gateway(echo, home=home)).port
    with connected(port) as one, connected(port, "127.0.0.2") as two:
        for client, address in ((one, "127.0.0.1"), (two, "127.0.0.2")) * 3:
            assert client.ask(request("hey"))[1]["content"] == f"hey from {address}"


def test_a_body_may_come_later_or_in_pieces(serve: Serve, home: Path) -> None:
    with connected(serve(Gateway(echo, home=home)).port) as client:
        known = request("one")
        client.ask(known)
        for cut in (10, known.index(b"\r\n\r\n") + 4, len(known) - 3):
            client.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            assert client.ask(known[:cut], known[cut:])[1]["content"] == "one from 127.0.0.1"
            assert client.ask(known)[1]["content"] == "one from 127.0.0.1"


def test_less_or_more_than_a_body_is_not_a_whole_request(serve: Serve, home: Path) -> None:
    with connected(serve(Gateway(echo, home=home)).port) as client:
        known = request("one")
        client.ask(known)
        client.socket.sendall(known + request("two") + known[:-5])
        assert [client.answer()[1]["content"] for _ in range(2)] == ["one from 127.0.0.1", "two from 127.0.0.1"]
        assert client.ask(known[-5:])[1]["content"] == "one from 127.0.0.1"


def test_requests_that_do_not_wait_for_their_answers_get_them_in_order(serve: Serve, home: Path) -> None:
    @agent(remembers=False)
    async def slow(turn: Turn) -> str:
        await asyncio.sleep(0.02)
        return turn.text

    with connected(serve(Gateway(slow, home=home)).port) as client:
        client.ask(request("zero"))
        words = ["four", "five", "nine", "last"]
        for word in words:
            client.socket.sendall(request(word))
        assert [client.answer()[1]["content"] for _ in words] == words


def test_a_client_that_leaves_frees_its_agent_at_a_later_request_too(serve: Serve, home: Path) -> None:
    freed = threading.Event()
    begun = threading.Event()

    @agent(remembers=False)
    async def patient(turn: Turn) -> str:
        if turn.text == "now!":
            return "here"
        begun.set()
        try:
            await asyncio.sleep(600)
        finally:
            freed.set()
        return "too late"

    with connected(serve(Gateway(patient, home=home)).port) as client:
        assert client.ask(request("now!"))[1]["content"] == "here"
        client.socket.sendall(request("wait"))
        assert begun.wait(DEADLINE)
    assert freed.wait(DEADLINE)


def test_a_later_request_may_ask_for_a_stream(serve: Serve, home: Path) -> None:
    @agent(remembers=False)
    async def pieces(turn: Turn):  # type: ignore[no-untyped-def]
        yield "a "
        yield turn.text

    port = serve(Gateway(pieces, home=home)).port
    with connected(port) as client:
        for word in ("one", "two"):
            client.socket.sendall(request(word, b"Accept: text/event-stream"))
            heard = b""
            while not heard.endswith(b"0\r\n\r\n"):
                heard += client.socket.recv(65536)
            assert heard.startswith(b"HTTP/1.1 200 OK\r\n") and word.encode() in heard


def test_a_refusal_between_two_answers_is_a_refusal(serve: Serve, home: Path) -> None:
    with connected(serve(Gateway(echo, home=home)).port) as client:
        known = request("one")
        client.ask(known)
        status, reply = client.ask(known.replace(b'"content"', b'"cOntenz"'))
        assert status.startswith(b"HTTP/1.1 4") and reply["messagetype"] == "error"
        assert client.ask(known)[0] == b"HTTP/1.1 200 OK"
