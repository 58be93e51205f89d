"""A remote NLIP endpoint over WebSocket (ECMA-432): CBOR in binary frames, JSON in text frames if necessary.

One connection carries many conversations at once. Our own token, which every endpoint echoes (CORE-6.2), matches
answers to questions; within a conversation answers come in order. The connection is opened with the first question, and
again after it was lost.
"""

from __future__ import annotations

import asyncio
import functools
import secrets
import ssl
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Final, Unpack
from urllib.parse import urlsplit, urlunsplit

import msgspec
import websockets.exceptions
from websockets.asyncio.client import ClientConnection, connect

from sabir.aio import cancel_and_wait
from sabir.errors import BadInput, ConfigError, PeerRefused, PeerUnavailable, PeerUnreadable
from sabir.http.connect_errors import why_no_connection
from sabir.ids import new_id
from sabir.limits import Limits
from sabir.message import CONTROL, JSON, Message, json_part
from sabir.protocols.nlip.wire import cbor
from sabir.protocols.nlip.wire import json as nlip
from sabir.protocols.peer import Call, Clock, PeerOptions, choose, without_credentials

from .base import NlipOptionNames, NlipPeer, is_partial
from .enveloped import answered_id, enveloped, from_envelope, shown_answer
from .tokens import PeerTokens

REPLY_LIMITS: Final = Limits(body=64 * 1024 * 1024, values=10_000_000, tokens=64, submessages=4096)
PATH: Final = "/nlip/ws"
TEXT_PATH: Final = "/nlip/ws/text"
# sent only to those that announce the field
_USES_FIELDS: Final = Message("text", "english", "", extra={nlip.TRACE: ""})
MAX_LINKS: Final = 64  # connections of one peer, each with other credentials; beyond that idle ones are closed


class _Waiting:
    """One running question, and the messages received for it."""

    __slots__ = ("arrived", "key")

    def __init__(self, key: str) -> None:
        self.key = key  # the content of our own token on it, or the message_id of its envelope
        self.arrived: asyncio.Queue[Message | PeerUnavailable | PeerUnreadable] = asyncio.Queue()


class _Direct(connect):
    """Connects only to the requested address: our credentials do not follow a redirect."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        return exc


class NlipWsPeer(NlipPeer):
    """``async with NlipWsPeer("wss://example.com") as peer: await peer.ask("hello")``.

    Credentials are sent when a connection is opened, so callers with other credentials have other connections.
    """

    def __init__(
        self,
        url: str,
        options: PeerOptions | None = None,
        *,
        limits: Limits = REPLY_LIMITS,
        **named: Unpack[NlipOptionNames],
    ) -> None:
        """Takes the same arguments as ``NlipHttpPeer``. A path that ends in ``/text`` means JSON in text frames."""
        super().__init__(_endpoint(url), options, **named)
        self.identities = self.options.identities
        self.text = urlsplit(self.url).path.rstrip("/").endswith("/text")
        self.authorization = choose(self.identities, _origin(self.url), None)
        self.tls = self.options.verify
        self.limits = limits
        self.on_wire = self.options.on_wire
        self._links: OrderedDict[tuple[tuple[str, str], ...], _Link] = OrderedDict()  # by credentials

    @property
    def shows_itself(self) -> bool:
        return self.authorization is not None  # sent when the connection was opened

    async def aclose(self) -> None:
        for link in self._links.values():
            await link.close()
        self._links.clear()

    async def link(self, headers: Mapping[str, str]) -> _Link:
        """The connection with these credentials."""
        shown = tuple(sorted(headers.items()))
        link = self._links.get(shown)
        if link is None:
            link = self._links[shown] = _Link(self, headers)
            idle = [key for key, item in self._links.items() if key and not item.busy]
            for key in idle[: max(0, len(self._links) - MAX_LINKS)]:
                await self._links.pop(key).close()
        self._links.move_to_end(shown)
        return link

    # -- one message ------------------------------------------------------------------------------

    async def exchange(self, message: Message, call: Call) -> AsyncGenerator[Message, None]:
        clock = Clock(call.seconds)
        text = self.text
        link = await self.link(call.headers)
        with link.used():
            try:
                async with asyncio.timeout(clock.left):
                    await link.connected()
                    if call.pieces and not link.streams and not self.envelope:
                        await link.ask_for_pieces()
            except TimeoutError:
                raise PeerUnavailable(self.address, "no connection in time") from None
            while True:
                waiting = await link.put(message, call)
                async for reply in self._replies(waiting, clock):
                    if not text and _says_no_cbor(reply):
                        break
                    yield shown_answer(reply, message) if self.envelope else reply
                else:
                    return
                await link.fall_back()  # it could not be read, so it was not accepted (WS-11)
                text = True

    async def _replies(self, waiting: _Waiting, clock: Clock) -> AsyncGenerator[Message, None]:
        while True:
            reply = await self.next(waiting, clock)
            yield reply
            if not is_partial(reply):
                return

    async def next(self, waiting: _Waiting, clock: Clock) -> Message:
        """The next message for a question."""
        try:
            async with asyncio.timeout(clock.left):
                arrived = await waiting.arrived.get()
        except TimeoutError:
            raise PeerUnavailable(self.address, "no answer in time") from None
        if isinstance(arrived, Message):
            return arrived
        raise arrived


class _Link:
    """One connection with one set of credentials, and the questions running on it."""

    def __init__(self, peer: NlipWsPeer, headers: Mapping[str, str]) -> None:
        self._peer = peer
        self._headers = dict(headers)  # credentials for this caller; without: the identities of the peer
        self._socket: ClientConnection | None = None
        self._at = ""  # where it was opened
        self._reading: asyncio.Task[None] | None = None
        self._opening = asyncio.Lock()
        self._waiting: deque[_Waiting] = deque()
        self._users = 0
        self._reads = frozenset[str]()  # fields of ours that the remote reads
        self.streams = False

    @property
    def busy(self) -> bool:
        return self._users > 0

    @contextmanager
    def used(self) -> Iterator[None]:
        self._users += 1
        try:
            yield
        finally:
            self._users -= 1

    async def close(self) -> None:
        if self._socket is not None:
            await self._socket.close()
        await cancel_and_wait([self._reading])

    # -- questions --------------------------------------------------------------------------------

    async def put(self, message: Message, call: Call | None = None) -> _Waiting:
        """Send a message with the data of its call. Its question stays in the queue until the answer has arrived, even
        if nobody waits any more, so that a late answer is not mistaken for the answer to the next question."""
        message_id = new_id() if self._peer.envelope else ""
        waiting = _Waiting(message_id or _own(message))
        self._waiting.append(waiting)
        try:
            fields = self._fields(call) if call is not None else {}
            sent = msgspec.structs.replace(message, extra=fields) if fields else message
            if message_id:
                # An id of our own: two callers may have chosen the same one for their envelopes.
                pieces = call is not None and call.pieces
                data = enveloped(sent, message_id, binary=not self._peer.text, streams=pieces, own_id=True)
            else:
                write = nlip.encode if self._peer.text else cbor.encode
                data = write(sent, answering=_USES_FIELDS if fields else None)
            await self._send(data)
        except BaseException:
            with suppress(ValueError):
                self._waiting.remove(waiting)
            raise
        return waiting

    def _fields(self, call: Call) -> dict[str, JSON]:
        """What belongs to one turn and not to the shared connection."""
        details: dict[str, JSON | None] = {nlip.TRACE: call.trace, nlip.HOPS: call.hops or None}
        return {name: value for name, value in details.items() if value is not None and name in self._reads}

    async def _send(self, data: bytes) -> None:
        peer = self._peer
        if peer.on_wire is not None:
            peer.on_wire("sent", data)
        assert self._socket is not None
        try:
            await self._socket.send(data.decode() if peer.text else data)
        except websockets.exceptions.ConnectionClosed as gone:
            raise PeerUnavailable(peer.address, _why(gone)) from None

    async def ask_for_pieces(self) -> None:
        """Ask for partial answers, which are only sent on request (D-34)."""
        wish = Message.text("Please stream your answers.", messagetype=CONTROL, parts=[json_part(True, label="stream")])
        message = PeerTokens.begin(self._peer.identity, secrets.token_urlsafe(18)).on(wish)
        await self._peer.next(await self.put(message), Clock(self._peer.seconds))
        self.streams = True

    # -- the connection ---------------------------------------------------------------------------

    async def connected(self) -> None:
        async with self._opening:
            if self._socket is None or self._reading is None or self._reading.done():
                await self._open()

    async def fall_back(self) -> None:
        """Continue in JSON at the path for text frames."""
        peer = self._peer
        async with self._opening:
            if not peer.text:
                peer.text = True
                peer.url = urlunsplit(urlsplit(peer.url)._replace(path=f"{urlsplit(peer.url).path.rstrip('/')}/text"))
            if self._at != peer.url:  # otherwise another question on this connection has already switched
                await self.close()
                await self._open()

    async def _open(self) -> None:
        socket = await self._handshake()
        self._socket, self._at, self.streams = socket, self._peer.url, False
        answer = socket.response.headers.get(nlip.READS, "") if socket.response is not None else ""
        self._reads = frozenset(name.strip().lower() for name in answer.split(","))
        self._reading = asyncio.create_task(self._read(socket), name=f"read {self._peer.address}")

    async def _handshake(self) -> ClientConnection:
        peer, tried = self._peer, bool(self._headers)
        while True:
            ours = {"authorization": peer.authorization} if peer.authorization is not None else {}
            try:
                return await _Direct(
                    peer.url,
                    additional_headers=self._headers or ours,
                    max_size=peer.limits.body,
                    ssl=(peer.tls or _system_trust()) if peer.url.startswith("wss") else None,
                    proxy=None,
                    open_timeout=10,
                )
            except websockets.exceptions.InvalidStatus as refused:
                status = refused.response.status_code
                challenge = refused.response.headers.get("www-authenticate", "")
                wanted = choose(peer.identities, _origin(peer.url), challenge) if status == 401 else None
                if tried or wanted is None or wanted == peer.authorization:
                    words = f"it answered {status} to the handshake"
                    raise PeerRefused(peer.address, words, status, broken=status >= 500) from None
                tried, peer.authorization = True, wanted
            except (OSError, TimeoutError, websockets.exceptions.WebSocketException) as exc:
                words = why_no_connection(exc, f"no connection ({type(exc).__name__})")
                raise PeerUnavailable(peer.address, words) from None

    async def _read(self, socket: ClientConnection) -> None:
        """Hand each message to the question it answers; a lost connection fails them all."""
        peer = self._peer
        try:
            async for frame in socket:
                data = frame.encode() if isinstance(frame, str) else frame
                if peer.on_wire is not None:
                    peer.on_wire("received", data)
                self._arrived(data, isinstance(frame, str))
            gone = PeerUnavailable(peer.address, "the connection was closed")
        except websockets.exceptions.ConnectionClosed as closed:
            gone = PeerUnavailable(peer.address, _why(closed))
        for waiting in self._waiting:
            waiting.arrived.put_nowait(gone)
        self._waiting.clear()

    def _arrived(self, data: bytes, is_text: bool) -> None:
        limits = self._peer.limits
        message: Message | None = None
        try:
            if self._peer.envelope:
                message = from_envelope(data, limits, binary=not is_text)
            if message is None:
                message = (nlip.decode if is_text else cbor.decode)(data, limits=limits)
        except BadInput as exc:
            if self._waiting:
                unread = PeerUnreadable(self._peer.address, f"a frame is not an NLIP message: {exc}")
                self._waiting[0].arrived.put_nowait(unread)
            return
        waiting = self._meant(message)
        if waiting is not None:
            waiting.arrived.put_nowait(message)
            if not is_partial(message):
                self._waiting.remove(waiting)

    def _meant(self, message: Message) -> _Waiting | None:
        """The question that a message answers: the oldest with our token or id on it, or the oldest of all."""
        returned = {part.content for part in message.tokens if isinstance(part.content, str)}
        returned.add(answered_id(message) or "" if self._peer.envelope else "")
        for waiting in self._waiting:
            if waiting.key in returned:
                return waiting
        return self._waiting[0] if self._waiting else None


@functools.cache
def _system_trust() -> ssl.SSLContext:
    """TLS 1.3 only (D-53), as over HTTP."""
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    return context


def _own(message: Message) -> str:
    """The content of the last token on a message: ours comes after the server's (D-16)."""
    return str(message.tokens[-1].content)


def _says_no_cbor(message: Message) -> bool:
    """Whether the remote could not decode our frame and points to text frames (WS-11)."""
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
        raise ConfigError(f"{without_credentials(url)!r} is not a ws or wss address")
    if "@" in parts.netloc:
        raise ConfigError("credentials do not belong in a URL; pass them as identities")
    return urlunsplit(parts._replace(path=PATH if parts.path in ("", "/") else parts.path, fragment=""))


def _origin(url: str) -> str:
    parts = urlsplit(url)
    scheme = {"ws": "http", "wss": "https"}[parts.scheme.lower()]  # one identity serves both bindings
    return f"{scheme}://{parts.netloc.lower()}"
