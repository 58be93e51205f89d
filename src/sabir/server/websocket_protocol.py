"""uvicorn's WebSocket protocol, with additions: fragments, client certificates, close frames that arrive."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.exceptions import InvalidState, SecurityError

from .http_protocol import LINGER_SECONDS, MAX_LINGER, client_of, rejection

MAX_FRAGMENT: Final = 64 * 1024  # bytes of a message that are sent at once
_TOO_LONG: Final = (431, "a WebSocket handshake has at most 128 headers, and no line of more than 8192 bytes")
_INVALID: Final = (400, "this is not a WebSocket handshake; it must be a GET request without a body")
_MAX_CLOSE_FRAME: Final = 131  # bytes of a client's close frame


class WebSocket(WebSocketsSansIOProtocol):
    """One WebSocket connection. Long messages are sent in fragments, so that other work runs in between.

    Compressing a megabyte takes up to 40 ms. Fragments of two messages must not mix, so messages wait for each other.
    """

    _fragments: asyncio.Lock | None = None  # created for the first long message
    _closed_for: bytes | None = None  # the payload of the close frame that ended the connection
    _discarded = 0
    _tail = b""

    async def send(self, message: Any) -> None:
        body = message.get("text") or message.get("bytes") or b""
        is_long = message["type"] == "websocket.send" and len(body) > MAX_FRAGMENT
        if self._fragments is None:
            if not is_long:
                await super().send(message)
                return
            self._fragments = asyncio.Lock()
        async with self._fragments:
            if not is_long or self.disconnected or self.close_sent or not self.handshake_complete:
                await super().send(message)
                return
            try:
                await self._send_fragments(body)
            except InvalidState:
                raise ClientDisconnected from None

    async def _send_fragments(self, body: str | bytes) -> None:
        begin = self.conn.send_text if isinstance(body, str) else self.conn.send_binary
        data = body.encode() if isinstance(body, str) else body
        begin(data[:MAX_FRAGMENT], fin=False)
        at = MAX_FRAGMENT
        try:
            while True:
                self.transport.write(b"".join(self.conn.data_to_send()))
                await asyncio.sleep(0)
                await self.writable.wait()
                if self.disconnected or self.close_sent:
                    raise ClientDisconnected
                if at + MAX_FRAGMENT >= len(data):
                    break
                self.conn.send_continuation(data[at : at + MAX_FRAGMENT], fin=False)
                at += MAX_FRAGMENT
        finally:  # also when the turn is cancelled: an unfinished message would block all later ones
            if not self.disconnected and not self.close_sent:
                self.conn.send_continuation(data[at:], fin=True)
                self.transport.write(b"".join(self.conn.data_to_send()))

    def data_received(self, data: bytes) -> None:
        if self._closed_for is None:
            super().data_received(data)
            if self.conn.handshake_exc is not None and not self.handshake_initiated:
                self._reject_handshake()
            return
        self._discarded += len(data)
        self._tail = (self._tail + data)[-_MAX_CLOSE_FRAME:]
        if self._discarded > MAX_LINGER or _ends_in_close(self._tail, self._closed_for):
            self.transport.close()

    def _reject_handshake(self) -> None:
        """Answer a handshake that the library could not read, for which uvicorn would keep the connection without an
        answer: it has a body, or too many or too long headers."""
        if not self.transport.is_closing():
            exc = self.conn.handshake_exc
            is_too_long = isinstance(exc, SecurityError) or isinstance(getattr(exc, "__cause__", None), SecurityError)
            self.transport.write(rejection(*(_TOO_LONG if is_too_long else _INVALID)))
            self.transport.close()

    def handle_parser_exception(self) -> None:
        """Send the close frame, then read until the client closes as well, or for some seconds.

        Closing at once, as uvicorn does, resets the connection while the client is still sending, and a reset can
        overtake the close frame on its way through a proxy.
        """
        closing = self.conn.close_sent
        assert closing is not None
        self._closed_for = closing.serialize()
        self.queue.put_nowait({"type": "websocket.disconnect", "code": closing.code, "reason": closing.reason})
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.close_sent = True
        self.close_timer = self.loop.call_later(LINGER_SECONDS, self.transport.close)
        if self.read_paused:
            self.read_paused = False
            self.transport.resume_reading()

    def send_receive_event_to_app(self) -> None:
        """As in uvicorn, but a text frame that is not UTF-8 is the client's error and logs no traceback."""
        if self.curr_msg_data_type == "text" and not _is_utf8(self.frames):
            self.frames = []
            self.conn.fail(1007, "text frames must be UTF-8")
            self.handle_parser_exception()
            return
        super().send_receive_event_to_app()


def _ends_in_close(tail: bytes, payload: bytes) -> bool:
    """True if these bytes end in a client's close frame that returns our payload, or its code alone."""
    for expected in (payload, payload[:2]):
        frame = tail[-6 - len(expected) :]
        if frame[:2] == bytes((0x88, 0x80 | len(expected))) and len(frame) == 6 + len(expected):
            mask = frame[2:6]
            if bytes(byte ^ mask[place % 4] for place, byte in enumerate(frame[6:])) == expected:
                return True
    return False


def _is_utf8(frames: list[bytes]) -> bool:
    try:
        b"".join(frames).decode()
    except UnicodeDecodeError:
        return False
    return True


class WebSocketWithCertificate(WebSocket):
    def handle_connect(self, event: Any) -> None:
        super().handle_connect(event)
        scope: Any = getattr(self, "scope", None)  # missing if the handshake was refused
        if scope is not None:
            scope["extensions"] = {**scope["extensions"], **client_of(self.transport)}
