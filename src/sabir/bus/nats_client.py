"""nats-py's client with a short way for calls.

In nats-py a publish is written by one task, the socket is read by another and a message is handled by a third: each is
a turn of the loop, and a question with its answer takes them on both sides. A call is worth nothing late, so here
what is posted is written at the end of the current turn of the loop, together with what else was posted in it, and what
comes for a call is handled where it arrives. Everything else (connecting, log-in, TLS, subscriptions, JetStream) is
nats-py's, and so is what is not whole messages for calls.

The short way needs names that nats-py does not promise: ``_transport`` with its reader and writer, ``_ps`` with its
buffer, ``_pending_data_size``, ``_read_loop``, ``_process_msg``. Where one of them is missing, or the connection is not
there or is behind, the ordinary way is taken: ``put`` says so by returning False, and a subscription has its
callback in any case.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable
from typing import Any, Final

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.protocol.parser import AWAITING_CONTROL_LINE

logger = logging.getLogger("sabir.bus")

_message: Final = re.compile(rb"MSG [^ \r\n]+ (\d+) (?:[^ \r\n]+ )?(\d+)\r\n").match

Came = Callable[[bytes], None]  # what to do with the data of a message; it does not wait


class QuickClient(Client):
    """A client whose calls take the short way."""

    def __init__(self, behind_bytes: int) -> None:
        super().__init__()
        self._behind_bytes = behind_bytes
        self.quick: dict[int, Came] = {}  # by the number of the subscription
        self.wire: asyncio.WriteTransport | None = None  # of the connection that takes the short way
        self._joined: list[bytes] = []  # to be written together at the end of this turn of the event loop

    async def listen(self, subject: str, came: Came, *, queue: str = "", status: Came | None = None) -> Subscription:
        """Subscribe with a callback that does not wait; ``status`` is given the subject of a 503: nobody is there."""

        async def slowly(message: Msg) -> None:
            if not message.headers:
                _handle(came, message.data)
            elif status is not None and message.headers.get("Status") == "503":
                status(message.subject.encode())

        subscription = await self.subscribe(subject, queue=queue, cb=slowly)
        self.quick[subscription._id] = came
        return subscription

    async def unlisten(self, subscription: Subscription) -> None:
        self.quick.pop(subscription._id, None)
        await subscription.unsubscribe()

    async def flush(self, timeout: int = 10) -> None:
        """Wait until the server knows all that was asked of it so far.

        nats-py's ping overtakes what its flusher has still to write. When the first pong is back that is written, and
        when the second one is back the server has read it.
        """
        await super().flush(timeout)
        await super().flush(timeout)

    def put(self, subject: str, data: bytes, reply: str = "") -> bool:
        """Write a message in this turn of the event loop, if that needs no waiting; returns whether it will be."""
        wire = self.wire
        if wire is None or not self.is_connected or self._pending_data_size or len(data) > self.max_payload:
            return False
        if wire.is_closing() or wire.get_write_buffer_size() > self._behind_bytes:
            return False
        if not self._joined:
            asyncio.get_running_loop().call_soon(self._write_joined)
        self._joined.append(b"PUB %b %b %d\r\n%b\r\n" % (subject.encode(), reply.encode(), len(data), data))
        return True

    def _write_joined(self) -> None:
        """One system call for all messages of a turn: under load that is most of what a message costs."""
        joined, self._joined = self._joined, []
        if self.wire is not None:
            self.wire.writelines(joined)

    async def _read_loop(self) -> None:
        """Runs once for each connection."""
        _Shortcut.into(self)
        await super()._read_loop()

    async def _process_msg(self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes) -> None:
        """What nats-py has read; at once, too, so that it stays in order with what came by the shortcut."""
        came = None if headers else self.quick.get(sid)
        if came is None:
            await super()._process_msg(sid, subject, reply, data, headers)
        else:
            _handle(came, data)


def _handle(came: Came, body: bytes) -> None:
    try:
        came(body)
    except Exception:  # of one message: it must not end the reading of all others
        logger.exception("what came for a call could not be handled")


class _Shortcut(asyncio.Protocol):
    """Stands before the protocol of a connection; takes what is for calls, as long as nothing before it waits."""

    def __init__(self, client: QuickClient, ordinary: asyncio.StreamReaderProtocol, waiting: Any, parser: Any) -> None:
        self._quick = client.quick
        self._ordinary = ordinary
        self._waiting = waiting  # the bytes that the reader holds
        self._parser = parser

    @classmethod
    def into(cls, client: QuickClient) -> None:
        reader = getattr(client._transport, "_io_reader", None)
        writer = getattr(client._transport, "_io_writer", None)
        waiting, parser = getattr(reader, "_buffer", None), getattr(client, "_ps", None)
        known = waiting is not None and hasattr(parser, "buf") and hasattr(Client, "_process_msg")
        if not known or not isinstance(writer, asyncio.StreamWriter):
            return
        ordinary = writer.transport.get_protocol()
        if isinstance(ordinary, asyncio.StreamReaderProtocol):
            writer.transport.set_protocol(cls(client, ordinary, waiting, parser))
            client.wire = writer.transport

    def data_received(self, data: bytes) -> None:
        """Hand over whole messages for calls, as long as nothing else is among them."""
        parser, found = self._parser, []
        at, end = 0, len(data)
        if self._waiting or parser.buf or parser.state != AWAITING_CONTROL_LINE:
            at = end + 1
        while at < end and (head := _message(data, at)) is not None:
            sid, size = head.groups()
            came, begin = self._quick.get(int(sid)), head.end()
            after = begin + int(size) + 2
            if came is None or not data.endswith(b"\r\n", begin, after):
                break
            found.append((came, data[begin : after - 2]))
            at = after
        if at != end:
            self._ordinary.data_received(data)
            return
        for came, body in found:
            _handle(came, body)

    def pause_writing(self) -> None:
        self._ordinary.pause_writing()

    def resume_writing(self) -> None:
        self._ordinary.resume_writing()

    def eof_received(self) -> bool | None:
        return self._ordinary.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._ordinary.connection_lost(exc)
