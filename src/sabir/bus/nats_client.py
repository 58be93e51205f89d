"""nats-py's client with a fast path for calls.

In nats-py, one task writes, another reads the socket and a third handles messages: each costs a pass of the event loop,
on both sides of a call. A late call is worthless, so here packets are written at the end of the current pass, together
with others posted in it, and packets for calls are handled where they arrive. Everything else (connecting, login, TLS,
subscriptions, JetStream) is nats-py's, and so is any data that is not whole messages for calls.

The fast path uses private names of nats-py: ``_transport`` with its reader and writer, ``_ps`` with its buffer,
``_pending_data_size``, ``_read_loop``, ``_process_msg``. If one of them is missing, or the connection is down or
behind, the normal path is used: ``put`` returns False, and a subscription always has its callback.
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

Came = Callable[[bytes], None]  # handles the data of a message; does not wait


class QuickClient(Client):
    """A client with the fast path for calls."""

    def __init__(self, behind_bytes: int) -> None:
        super().__init__()
        self._behind_bytes = behind_bytes
        self.quick: dict[int, Came] = {}  # by subscription number
        self.wire: asyncio.WriteTransport | None = None  # of the connection that uses the fast path
        self._joined: list[bytes] = []  # written together at the end of this pass of the event loop

    async def listen(self, subject: str, came: Came, *, queue: str = "", status: Came | None = None) -> Subscription:
        """Subscribe with a callback that does not wait; ``status`` gets the subject of a 503: no responders."""

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
        """Wait until the server has read everything sent so far.

        nats-py's ping overtakes what its flusher has still to write. After the first pong that is written, and after
        the second the server has read it.
        """
        await super().flush(timeout)
        await super().flush(timeout)

    def put(self, subject: str, data: bytes, reply: str = "") -> bool:
        """Write a message in this pass of the event loop, if that needs no waiting; returns whether it will be
        written."""
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
        """One system call for all messages of a pass: under load that is most of the cost of a message."""
        joined, self._joined = self._joined, []
        if self.wire is not None and not self.wire.is_closing():  # it may have been lost since
            self.wire.writelines(joined)

    async def _read_loop(self) -> None:
        """Runs once per connection."""
        _Shortcut.into(self)
        await super()._read_loop()

    async def _process_msg(self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes) -> None:
        """Handle what nats-py has read at once, too, so that it stays in order with the fast path."""
        came = None if headers else self.quick.get(sid)
        if came is None:
            await super()._process_msg(sid, subject, reply, data, headers)
        else:
            _handle(came, data)


def _handle(came: Came, body: bytes) -> None:
    try:
        came(body)
    except Exception:  # of one message: it must not end the reading of others
        logger.exception("Could not handle a message for a call")


class _Shortcut(asyncio.Protocol):
    """Sits in front of a connection's protocol and takes messages for calls, as long as nothing before them is
    pending."""

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
