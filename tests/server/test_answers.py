"""How an answer of an ASGI application is written, and how a request is handed to it: the server without sockets."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import uvicorn

from sabir.server.http_protocol import MAX_HEAD, Http

Application = Callable[[Any, Any, Any], Awaitable[None]]


class Wire(asyncio.Transport):
    """A connection that keeps what is written to it."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 5000), "sockname": ("127.0.0.1", 80)})
        self.written: list[bytes] = []
        self.closed = False

    def write(self, data: Any) -> None:
        self.written.append(bytes(data))

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.closed = True

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


def connect(app: Application, wire: Wire | None = None) -> tuple[Http, Wire]:
    config = uvicorn.Config(app, http=Http, log_config=None, lifespan="off", server_header=False, date_header=False)
    config.load()
    protocol = Http(config=config, server_state=uvicorn.Server(config).server_state, app_state={})
    wire = wire or Wire()
    protocol.connection_made(wire)
    return protocol, wire


def request(body: bytes = b"", method: bytes = b"POST", *more: bytes) -> bytes:
    lines = (b"%s / HTTP/1.1" % method, b"Host: localhost", b"Content-Length: %d" % len(body), *more)
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


async def settle(passes: int = 5) -> None:
    for _ in range(passes):
        await asyncio.sleep(0)


def start(*headers: tuple[bytes, bytes], status: int = 200) -> dict[str, Any]:
    return {"type": "http.response.start", "status": status, "headers": list(headers)}


def body(data: bytes, more: bool = False) -> dict[str, Any]:
    return {"type": "http.response.body", "body": data, "more_body": more}


async def test_a_head_goes_out_with_the_first_piece_of_its_body() -> None:
    go_on = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(start((b"content-length", b"4")))
        await go_on.wait()
        await send(body(b"ab", more=True))
        await send(body(b"cd"))

    protocol, wire = connect(app)
    protocol.data_received(request())
    await settle()
    assert wire.written == []  # ASGI: a response does not start before its first body message
    go_on.set()
    await settle()
    assert wire.written == [b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nab", b"cd"]


class StrictWire(Wire):
    """A connection that rejects what is written after it was lost, as uvloop's do."""

    is_lost = False

    def write(self, data: Any) -> None:
        if self.is_lost:
            raise RuntimeError("the handler is closed")
        super().write(data)


UNWRITTEN: dict[str, list[Any]] = {
    "head": [start()],
    "head and piece": [start(), body(b"one", more=True)],
    "piece": [start(), None, body(b"one", more=True)],
    "end": [start(), body(b"one", more=True), body(b"two")],
}


@pytest.mark.parametrize("what", ["lost", "cut off"])
@pytest.mark.parametrize("fails", [False, True], ids=["ends", "fails"])
@pytest.mark.parametrize("sent", UNWRITTEN)
async def test_nothing_is_written_after_the_connection_has_ended(sent: str, fails: bool, what: str) -> None:
    """uvicorn logged "Exception in callback Cycle.flush"."""
    errors: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))

    async def app(scope: Any, receive: Any, send: Any) -> None:
        for message in UNWRITTEN[sent]:
            await (settle() if message is None else send(message))
        before.extend(wire.written)
        wire.abort()
        if what == "lost":  # before the next pass of the event loop
            wire.is_lost = True
            protocol.connection_lost(None)
        if fails:
            raise ValueError("of the application")

    before: list[bytes] = []
    wire = StrictWire()
    protocol, _ = connect(app, wire)
    protocol.data_received(request())
    await settle(20)
    assert errors == [] and wire.written == before


async def test_the_head_of_a_stream_does_not_wait_for_its_first_event() -> None:
    never = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(start((b"content-type", b"text/event-stream")))
        await never.wait()

    protocol, wire = connect(app)
    protocol.data_received(request())
    await settle()
    [head] = wire.written
    assert head.endswith(b"transfer-encoding: chunked\r\n\r\n")
    protocol.connection_lost(None)
    never.set()
    await settle()


async def test_chunks_are_written_as_such() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(start())
        await send(body(b"one", more=True))
        await send(body(b"", more=True))
        await send(body(b"three"))

    protocol, wire = connect(app)
    protocol.data_received(request())
    await settle()
    sent = b"".join(wire.written).partition(b"\r\n\r\n")[2]
    assert sent == b"3\r\none\r\n5\r\nthree\r\n0\r\n\r\n"


async def fails_late(scope: Any, receive: Any, send: Any) -> None:
    await send(start((b"content-length", b"4")))
    raise ValueError("a defect")


async def ends_early(scope: Any, receive: Any, send: Any) -> None:
    await send(start((b"content-length", b"4")))


async def says_nothing(scope: Any, receive: Any, send: Any) -> None:
    return None


@pytest.mark.parametrize("app", [fails_late, ends_early, says_nothing])
async def test_an_application_that_wrote_nothing_is_a_500(app: Application) -> None:
    protocol, wire = connect(app)
    protocol.data_received(request())
    await settle()
    answer = b"".join(wire.written)
    assert answer.startswith(b"HTTP/1.1 500 ") and answer.endswith(b"\r\n\r\nInternal Server Error")
    assert wire.closed


async def breaks_off(scope: Any, receive: Any, send: Any) -> None:
    await send(start((b"content-length", b"4")))
    await send(body(b"ab", more=True))


async def says_too_much(scope: Any, receive: Any, send: Any) -> None:
    await send(start((b"content-length", b"4")))
    await send(body(b"ab", more=True))
    await send(body(b"cde"))


@pytest.mark.parametrize("app", [breaks_off, says_too_much])
async def test_an_answer_that_is_not_as_long_as_its_head_says_ends_the_connection(app: Application) -> None:
    protocol, wire = connect(app)
    protocol.data_received(request())
    await settle()
    assert b"".join(wire.written).endswith(b"\r\n\r\nab") and wire.closed


async def test_no_header_can_end_its_line() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(start((b"x-name", b"a\r\nx-other: b"), (b"content-length", b"0")))
        await send(body(b""))

    protocol, wire = connect(app)
    protocol.data_received(request())
    await settle()
    assert b"".join(wire.written).startswith(b"HTTP/1.1 500 ") and b"x-other" not in b"".join(wire.written)


async def test_a_body_is_received_in_the_pieces_that_came_and_ends_once() -> None:
    received: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        while True:
            packet = await receive()
            received.append((packet["type"], packet.get("body"), packet.get("more_body")))
            if packet["type"] == "http.disconnect":
                return

    protocol, _ = connect(app)
    whole = request(b"abcdef")
    protocol.data_received(whole[:-4])
    await settle()
    protocol.data_received(whole[-4:-2])
    protocol.data_received(whole[-2:])
    await settle()
    assert received == [("http.request", b"ab", True), ("http.request", b"cdef", False)]
    protocol.connection_lost(None)
    await settle()
    assert received[2:] == [("http.disconnect", None, None)]


async def test_a_client_that_expects_100_continue_gets_it_when_the_body_is_read() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        packet = await receive()
        await send(start((b"content-length", b"%d" % len(packet["body"]))))
        await send(body(packet["body"]))

    protocol, wire = connect(app)
    whole = request(b"ab", b"POST", b"Expect: 100-continue")
    protocol.data_received(whole[:-2])
    await settle()
    assert wire.written == [b"HTTP/1.1 100 Continue\r\n\r\n"]
    protocol.data_received(whole[-2:])
    await settle()
    assert wire.written[1].endswith(b"\r\n\r\nab")


async def test_a_long_body_before_the_beginning_of_a_head_does_not_count_as_head() -> None:
    """Two requests one behind the other, cut somewhere in the second head: a read may bring 256 KiB."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        while (await receive())["more_body"]:
            pass
        await send(start((b"content-length", b"2")))
        await send(body(b"ok"))

    protocol, wire = connect(app)
    second = request(b"")
    protocol.data_received(request(b"x" * (MAX_HEAD + 1000)) + second[:10])
    await settle()
    protocol.data_received(second[10:])
    await settle()
    assert b"".join(wire.written).count(b"HTTP/1.1 200 OK") == 2


async def test_the_last_piece_of_a_stream_goes_out_with_its_end() -> None:
    """Two writes for each streamed answer made ``/mcp/{agent}`` dearer than before (issue 11, line 5)."""
    go_on = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(start())
        await go_on.wait()
        await send(body(b"ab", more=True))
        await send(body(b"cd", more=True))
        await send(body(b""))

    protocol, wire = connect(app)
    protocol.data_received(request())
    await settle()
    assert len(wire.written) == 1 and wire.written[0].endswith(b"transfer-encoding: chunked\r\n\r\n")
    go_on.set()
    await settle()
    assert wire.written[1:] == [b"2\r\nab\r\n2\r\ncd\r\n0\r\n\r\n"]


async def test_a_piece_of_a_stream_does_not_wait_for_the_next() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(start())
        await send(body(b"ab", more=True))
        await asyncio.Event().wait()

    protocol, wire = connect(app)
    protocol.data_received(request())
    await settle()
    assert b"".join(wire.written).endswith(b"\r\n\r\n2\r\nab\r\n")


async def test_long_pieces_of_a_stream_keep_their_order() -> None:
    long = b"x" * 200_000

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(start())
        for piece in (b"a", long, b"b", long):
            await send(body(piece, more=True))
        await send(body(b"c"))

    protocol, wire = connect(app)
    protocol.data_received(request())
    await settle()
    content = b"".join(wire.written).partition(b"\r\n\r\n")[2]
    chunk = b"30d40\r\n" + long + b"\r\n"
    assert content == b"1\r\na\r\n" + chunk + b"1\r\nb\r\n" + chunk + b"1\r\nc\r\n0\r\n\r\n"


async def test_what_was_sent_of_a_stream_that_fails_is_written_before_the_end() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(start())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await send(body(b"ab", more=True))
        raise ValueError("a bug of the application")

    protocol, wire = connect(app)
    protocol.data_received(request())
    await settle(10)
    assert b"".join(wire.written).endswith(b"2\r\nab\r\n") and wire.closed
