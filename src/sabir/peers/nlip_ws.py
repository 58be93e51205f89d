"""A remote NLIP end-point over WebSocket (ECMA-432): CBOR in binary frames, JSON in text frames where it must be.

One connection carries many conversations at once. Which answer belongs to which question is told by our own token,
which every end-point returns (CORE-6.2); within a conversation answers come in order. The connection is opened with
the first question, and again after it was lost.
"""

from __future__ import annotations

import asyncio
import secrets
import ssl
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Final
from urllib.parse import urlsplit, urlunsplit

import websockets.exceptions
from websockets.asyncio.client import ClientConnection, connect

from ..errors import BadInput, BadSetup, PeerRefused, PeerUnavailable, PeerUnreadable
from ..message import CONTROL, Message, Part, json_part
from ..wire import cbor, nlip
from ..wire.rules import Limits
from .base import SECONDS, Call, Clock, Identity, OnWire, choose, without_credentials
from .nlip import NlipPeer, is_partial
from .tokens import PeerTokens

REPLY_LIMITS: Final = Limits(body=64 * 1024 * 1024, tokens=64, submessages=4096)
PATH: Final = "/nlip/ws"
TEXT_PATH: Final = "/nlip/ws/text"


class _Waiting:
    """One question under way, and the messages that have come for it."""

    __slots__ = ("arrived", "key")

    def __init__(self, key: str) -> None:
        self.key = key  # the content of our own token on it
        self.arrived: asyncio.Queue[Message | PeerUnavailable | PeerUnreadable] = asyncio.Queue()


class NlipWsPeer(NlipPeer):
    """``async with NlipWsPeer("wss://example.com") as peer: await peer.ask("hello")``."""

    def __init__(
        self,
        url: str,
        *,
        name: str | None = None,
        seconds: float = SECONDS,
        identity: str = "sabir",
        conversation: PeerTokens | None = None,
        identities: tuple[Identity, ...] = (),
        verify: ssl.SSLContext | None = None,
        limits: Limits = REPLY_LIMITS,
        on_wire: OnWire | None = None,
    ) -> None:
        """Args as those of ``NlipHttpPeer``. A path that ends in ``/text`` means JSON in text frames."""
        super().__init__(_endpoint(url), name=name, seconds=seconds, identity=identity, conversation=conversation)
        self.identities = identities
        self._text = urlsplit(self.url).path.rstrip("/").endswith("/text")
        self._authorization = choose(identities, _origin(self.url), None)
        self._tls = verify
        self._limits = limits
        self._on_wire = on_wire
        self._socket: ClientConnection | None = None
        self._reading: asyncio.Task[None] | None = None
        self._opening = asyncio.Lock()
        self._waiting: deque[_Waiting] = deque()
        self._streams = False

    @property
    def shows_itself(self) -> bool:
        return self._authorization is not None  # it was shown when the connection was opened

    async def aclose(self) -> None:
        if self._socket is not None:
            await self._socket.close()
        if self._reading is not None:
            self._reading.cancel()
            with suppress(asyncio.CancelledError):
                await self._reading

    # -- one message ------------------------------------------------------------------------------

    async def exchange(self, message: Message, call: Call) -> AsyncGenerator[Message, None]:
        clock = Clock(call.seconds)
        text = self._text
        try:
            async with asyncio.timeout(clock.left):
                socket = await self._connected()
                if call.pieces and not self._streams:
                    await self._ask_for_pieces(socket)
        except TimeoutError:
            raise PeerUnavailable(self.address, "no connection in time") from None
        while True:
            waiting = await self._put(socket, message)
            async for reply in self._replies(waiting, clock):
                if not text and _says_no_cbor(reply):
                    break
                yield reply
            else:
                return
            socket, text = await self._fall_back(), True  # it could not read it, so it has not taken it (WS-11)

    async def _put(self, socket: ClientConnection, message: Message) -> _Waiting:
        """Send a message. What waits for its answer stays in line until that has come, even if nobody
        wants it any more, so that a late answer is not taken for that of the next question."""
        waiting = _Waiting(_own(message))
        self._waiting.append(waiting)
        try:
            await self._send(socket, message)
        except BaseException:
            with suppress(ValueError):
                self._waiting.remove(waiting)
            raise
        return waiting

    async def _replies(self, waiting: _Waiting, clock: Clock) -> AsyncGenerator[Message, None]:
        while True:
            reply = await self._next(waiting, clock)
            yield reply
            if not is_partial(reply):
                return

    async def _next(self, waiting: _Waiting, clock: Clock) -> Message:
        try:
            async with asyncio.timeout(clock.left):
                arrived = await waiting.arrived.get()
        except TimeoutError:
            raise PeerUnavailable(self.address, "no answer in time") from None
        if isinstance(arrived, Message):
            return arrived
        raise arrived

    async def _send(self, socket: ClientConnection, message: Message) -> None:
        data = nlip.encode(message) if self._text else cbor.encode(message)
        if self._on_wire is not None:
            self._on_wire("sent", data)
        try:
            await socket.send(data.decode() if self._text else data)
        except websockets.exceptions.ConnectionClosed as gone:
            raise PeerUnavailable(self.address, _why(gone)) from None

    async def _ask_for_pieces(self, socket: ClientConnection) -> None:
        """Partial answers come only to those who asked for them (D-34)."""
        wish = Message.text("Please stream your answers.", messagetype=CONTROL, parts=[json_part(True, label="stream")])
        message = PeerTokens.begin(self.identity, secrets.token_urlsafe(18)).on(wish)
        await self._next(await self._put(socket, message), Clock(self.seconds))
        self._streams = True

    # -- the connection ---------------------------------------------------------------------------

    async def _connected(self) -> ClientConnection:
        async with self._opening:
            if self._socket is not None and self._reading is not None and not self._reading.done():
                return self._socket
            return await self._open()

    async def _fall_back(self) -> ClientConnection:
        """Go on in JSON at the place for text frames."""
        async with self._opening:
            if not self._text:
                await self.aclose()
                self._text = True
                self.url = urlunsplit(urlsplit(self.url)._replace(path=f"{urlsplit(self.url).path.rstrip('/')}/text"))
            return await self._open()

    async def _open(self) -> ClientConnection:
        socket = await self._handshake()
        self._socket, self._streams = socket, False
        self._reading = asyncio.create_task(self._read(socket), name=f"read {self.address}")
        return socket

    async def _handshake(self) -> ClientConnection:
        tried = False
        while True:
            headers = {"authorization": self._authorization} if self._authorization is not None else {}
            try:
                return await connect(
                    self.url,
                    additional_headers=headers,
                    max_size=self._limits.body,
                    ssl=self._tls if self.url.startswith("wss") else None,
                    proxy=None,
                    open_timeout=10,
                )
            except websockets.exceptions.InvalidStatus as refused:
                status = refused.response.status_code
                challenge = refused.response.headers.get("www-authenticate", "")
                wanted = choose(self.identities, _origin(self.url), challenge) if status == 401 else None
                if tried or wanted is None or wanted == self._authorization:
                    raise PeerRefused(self.address, f"it answered {status} to the handshake", status) from None
                tried, self._authorization = True, wanted
            except (OSError, TimeoutError, websockets.exceptions.WebSocketException) as wrong:
                raise PeerUnavailable(self.address, f"no connection ({type(wrong).__name__})") from None

    async def _read(self, socket: ClientConnection) -> None:
        """Hand each message to the question it answers; a lost connection ends them all."""
        try:
            async for frame in socket:
                data = frame.encode() if isinstance(frame, str) else frame
                if self._on_wire is not None:
                    self._on_wire("received", data)
                self._arrived(data, isinstance(frame, str))
            gone = PeerUnavailable(self.address, "the connection was closed")
        except websockets.exceptions.ConnectionClosed as closed:
            gone = PeerUnavailable(self.address, _why(closed))
        for waiting in self._waiting:
            waiting.arrived.put_nowait(gone)
        self._waiting.clear()

    def _arrived(self, data: bytes, is_text: bool) -> None:
        try:
            message = (nlip.decode if is_text else cbor.decode)(data, limits=self._limits)
        except BadInput as wrong:
            if self._waiting:
                unread = PeerUnreadable(self.address, f"a frame is no NLIP message: {wrong}")
                self._waiting[0].arrived.put_nowait(unread)
            return
        waiting = self._meant(message.tokens)
        if waiting is not None:
            waiting.arrived.put_nowait(message)
            if not is_partial(message):
                self._waiting.remove(waiting)

    def _meant(self, tokens: tuple[Part, ...]) -> _Waiting | None:
        """The question that a message answers: the oldest with our token on it, or the oldest of all."""
        returned = {part.content for part in tokens if isinstance(part.content, str)}
        for waiting in self._waiting:
            if waiting.key in returned:
                return waiting
        return self._waiting[0] if self._waiting else None


def _own(message: Message) -> str:
    """The content of the last token on a message: ours stands behind those of the server (D-16)."""
    return str(message.tokens[-1].content)


def _says_no_cbor(message: Message) -> bool:
    """Whether the other side could not decode what we sent and points to text frames (WS-11)."""
    if not message.is_error or message.tokens:
        return False
    words = message.text.lower()
    return "cbor" in words or "fallback" in words or TEXT_PATH in words or message.labelled("fallback") is not None


def _why(closed: websockets.exceptions.ConnectionClosed) -> str:
    if closed.rcvd is None:
        return "the connection broke"
    return f"it closed the connection ({closed.rcvd.code} {closed.rcvd.reason[:100]})".replace(" )", ")")


def _endpoint(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme.lower() not in ("ws", "wss") or not parts.hostname:
        raise BadSetup(f"{without_credentials(url)!r} is no ws or wss address")
    if "@" in parts.netloc:
        raise BadSetup("credentials do not belong into a URL; give them as identities")
    return urlunsplit(parts._replace(path=PATH if parts.path in ("", "/") else parts.path, fragment=""))


def _origin(url: str) -> str:
    parts = urlsplit(url)
    scheme = {"ws": "http", "wss": "https"}[parts.scheme.lower()]  # one identity serves both bindings
    return f"{scheme}://{parts.netloc.lower()}"
