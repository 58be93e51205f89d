"""NLIP over WebSocket (ECMA-432): ``/nlip/ws`` in CBOR, ``/nlip/ws/text`` in JSON, either on both.

The answer has the kind of the frame that asked (D-31). What cannot be decoded gets an NLIP error as a text
frame on the same connection, which stays open (WS-11, D-33). Messages of one conversation are answered in
order; those of different conversations at the same time. Going away cancels what is under way.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any, Final

import msgspec
from starlette.routing import BaseRoute, WebSocketRoute
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.types import Message as Packet

from ..errors import BadInput, SabirError, TooBig, TooMany, Unauthenticated, Unreadable
from ..events import Delta, Event, Progress, Question, Reply
from ..guard import Credentials
from ..guard.agreements import takes_back
from ..line import Ask, Line
from ..message import Message, Part, token_kind, uri_part
from ..wire import cbor, nlip
from .base import House, credentials_of, headers_of, hops_of, settings_for
from .visitor import Visitor

DOOR: Final = "nlip-ws"
MAX_FAILURES: Final = 10  # decode errors in a row before the connection is closed with 1007
MAX_UNDER_WAY: Final = 64  # turns of one connection at the same time; more wait in the socket
_TRACE, _HOPS = nlip.TRACE.encode(), nlip.HOPS.encode()
_READS: Final = [(nlip.READS.encode(), f"{nlip.TRACE}, {nlip.HOPS}".encode())]
STREAM_LABEL: Final = "stream"  # a control part of this label asks for partial messages (D-34)


class Settings(msgspec.Struct, frozen=True):
    """What stands under ``doors: {nlip-ws: …}``."""

    strict: bool = False  # follow the published text to the letter
    idle_seconds: Annotated[float, msgspec.Meta(gt=0)] = 300.0  # without a message, before a connection is closed


class NlipWs:
    """The door. Each connection is one ``Connection``."""

    name = DOOR

    def __init__(self, house: House) -> None:
        self.house = house
        self.settings = settings_for(DOOR, Settings, house)

    def raw(self) -> Mapping[str, ASGIApp]:
        return {}

    def routes(self) -> Sequence[BaseRoute]:
        paths = ("/nlip/ws", "/nlip/ws/", "/nlip/ws/text", "/nlip/{agent}/ws", "/nlip/{agent}/ws/text")
        return [WebSocketRoute(path, _App(self)) for path in paths]

    def addresses(self) -> Sequence[tuple[str, str]]:
        return [("NLIP over WebSocket", "/nlip/ws")]

    async def start(self) -> None:
        return None

    async def stop(self) -> None:
        return None


class _App:
    """An ASGI application that Starlette does not take for a view function."""

    def __init__(self, door: NlipWs) -> None:
        self._door = door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await Connection(self._door.house, self._door.settings, scope, receive, send).run()


class Connection:
    """One WebSocket connection."""

    def __init__(self, house: House, settings: Settings, scope: Scope, receive: Receive, send: Send) -> None:
        self.house = house
        self._settings = settings
        self._receive = receive
        self._send = send
        self._text_path = scope["path"].rstrip("/").endswith("/text")
        self._agent: str | None = scope.get("path_params", {}).get("agent")
        headers = headers_of(scope)
        self._credentials: Credentials = credentials_of(scope, behind_proxy=house.behind_proxy, headers=headers)
        self._trace = headers[_TRACE].decode("latin-1")[:64] if _TRACE in headers else None  # of what has none itself
        self._hops = hops_of(headers.get(_HOPS, b""))
        self._until: float | None = None  # when the token ends with which this connection was opened
        self._refused: SabirError | None = None  # what was wrong with its proof
        self._protocol = next((p for p in scope.get("subprotocols", ()) if p.lower().startswith("nlip")), None)
        self._turns: set[asyncio.Task[None]] = set()
        self._lines: dict[asyncio.Task[Any] | None, Line] = {}
        self._last: dict[str, asyncio.Event] = {}
        self._free = asyncio.Semaphore(MAX_UNDER_WAY)
        self._failures = 0
        self._streams = False
        self._open = True

    async def run(self) -> None:
        packet = await self._receive()
        if packet["type"] != "websocket.connect":
            return
        if self._credentials.scheme("dpop") is not None:
            await self._prove()
        accepted = {"type": "websocket.accept", "subprotocol": self._protocol, "headers": _READS}  # D-30
        await self._send(accepted)
        try:
            while (packet := await self._next())["type"] == "websocket.receive":
                await self._frame(packet.get("bytes"), packet.get("text"))
        finally:
            self._open = False
            left = [turn for turn in self._turns if not self._asks(turn)]
            for turn in left:
                turn.cancel("the client went away")
            await asyncio.gather(*left, return_exceptions=True)

    async def _prove(self) -> None:
        """A proof is good for one request, which is the handshake; it is judged now, for all that is said later."""
        shown = msgspec.structs.replace(self._credentials, method="GET")
        try:
            self.house.guard.rates.check_open(shown.address)
            caller = await self.house.guard.identity.caller(shown)
        except SabirError as wrong:
            self._refused = wrong
        else:
            self._credentials = Credentials(shown.address, caller=caller)
            self._until = float(caller.claims.get("exp", 0.0))

    def _check_proof(self) -> None:
        if self._refused is not None:
            raise self._refused
        if self._until is not None and time.time() > self._until:
            raise Unauthenticated("the token of this connection has expired; open another", "DPoP")

    async def _next(self) -> Packet:
        """The next packet; closes a connection on which nothing is said and nothing is under way."""
        while True:
            try:
                async with asyncio.timeout(self._settings.idle_seconds):
                    return await self._receive()
            except TimeoutError:
                if not self._turns:
                    self._open = False
                    await self._send({"type": "websocket.close", "code": 1001, "reason": "idle"})
                    return {"type": "websocket.disconnect"}

    async def _frame(self, data: bytes | None, text: str | None) -> None:
        if not self._open:
            return None
        binary = data is not None and not self._text_path
        rates, address = self.house.guard.rates, self._credentials.address
        try:
            rates.check_open(address)
            message = self._decode(data, text)
        except BadInput as wrong:
            with suppress(TooMany):  # nonsense counts; when the account is empty, the next frame is not read
                rates.check_address(address)
            return await self._undecoded(wrong, binary)
        except TooMany as wrong:
            await self._visitor().refused(wrong)
            return await self._put(nlip.coded_error(wrong), binary, None)
        self._failures = 0
        await self._free.acquire()
        key = _ordering(message)
        before, passed = self._last.get(key), asyncio.Event()
        self._last[key] = passed
        turn = asyncio.create_task(self._turn(message, binary, before, passed))
        self._turns.add(turn)
        turn.add_done_callback(lambda done: self._done(done, key, passed))

    def _decode(self, data: bytes | None, text: str | None) -> Message:
        limits, strict = self.house.limits, self._settings.strict
        if text is not None:
            try:
                return nlip.decode(text.encode(), strict=strict, limits=limits)
            except UnicodeEncodeError:
                raise Unreadable("nlip", "$", "UTF-8") from None
        assert data is not None
        if self._text_path:  # JSON bytes in a binary frame: the clause itself says "binary message" (D-31)
            return nlip.decode(data, strict=strict, limits=limits)
        return cbor.decode(data, strict=strict, limits=limits)

    def _asks(self, turn: asyncio.Task[None]) -> bool:
        """Whether it has asked back, and the answer may come on another connection."""
        line = self._lines.get(turn)
        return line is not None and line.waiting is not None and not line.waiting.answer.done()

    def _done(self, turn: asyncio.Task[None], key: str, passed: asyncio.Event) -> None:
        self._turns.discard(turn)
        self._lines.pop(turn, None)
        self._free.release()
        passed.set()
        if self._last.get(key) is passed:
            del self._last[key]

    async def _turn(self, message: Message, binary: bool, before: asyncio.Event | None, passed: asyncio.Event) -> None:
        if before is not None and not (message.is_control and takes_back(message)):
            await before.wait()
        if message.is_control:
            wish = message.labelled(STREAM_LABEL)
            if wish is not None:
                value = wish.value
                self._streams = value.get("partial") is not False if isinstance(value, dict) else value is not False
        number = 0
        line = self._lines[asyncio.current_task()] = Line(lambda event: show(event))

        async def show(event: Event) -> None:
            nonlocal number
            if isinstance(event, Reply):
                await self._put(event.message, binary, message)
            elif isinstance(event, Question):
                passed.set()  # the answer comes behind it on this connection, and must not wait for it
                await self._put(nlip.question_message(event).with_parts(line.tokens), binary, message)
            elif self._streams and isinstance(event, Delta | Progress):
                number += 1
                await self._put(nlip.partial_message(event, number).with_parts(line.tokens), binary, message)

        ask = self._ask(message)
        try:
            self._check_proof()
            await self.house.exchange.ask(ask, line)
        except SabirError as wrong:
            await self._visitor(line).refused(wrong)
            await self._put(nlip.coded_error(wrong, message, line.tokens or message.tokens), binary, message)

    def _ask(self, message: Message) -> Ask:
        """A message says of itself what HTTP says in headers; what it does not say, the handshake has said."""
        fields = dict(message.extra) if message.extra is not None else {}
        trace, hops = fields.pop(nlip.TRACE, None), hops_of(fields.pop(nlip.HOPS, ""))
        if len(fields) != len(message.extra or ()):
            message = msgspec.structs.replace(message, extra=fields or None)
        trace = trace[:64] if isinstance(trace, str) else self._trace
        return Ask(message, DOOR, self._agent, self._credentials, trace=trace, hops=max(hops, self._hops))

    def _visitor(self, line: Line | None = None) -> Visitor:
        return Visitor(self.house, DOOR, self._credentials, self._agent, line=line)

    async def _undecoded(self, wrong: BadInput, binary: bool) -> None:
        """WS-11: say so in a text frame, point to the fallback, stay open; close after repeated failures."""
        self._failures += 1
        reason = str(wrong)
        parts: tuple[Part, ...] = ()
        if binary and isinstance(wrong, Unreadable):
            reason = f"{reason}. CBOR could not be decoded; JSON text frames are read at /nlip/ws/text."
            base = self.house.public_url.replace("http", "ws", 1)
            parts = (uri_part(f"{base}/nlip/ws/text", label="fallback"),)
        message = Message.error(reason).with_parts(parts)
        await self._put(message, binary and not isinstance(wrong, Unreadable | TooBig), None)
        if self._failures >= MAX_FAILURES and self._open:
            self._open = False
            await self._send({"type": "websocket.close", "code": 1007, "reason": "too many frames without a message"})

    async def _put(self, message: Message, binary: bool, answering: Message | None) -> None:
        if not self._open:
            return
        if binary:
            packet: Packet = {"type": "websocket.send", "bytes": cbor.encode(message, answering=answering)}
        else:
            packet = {"type": "websocket.send", "text": nlip.encode(message, answering=answering).decode()}
        with suppress(OSError):  # the client went away; whoever reads from it learns that, too
            await self._send(packet)


def _ordering(message: Message) -> str:
    """Messages with the same key are answered in order: those of one conversation, and those of none."""
    for part in message.tokens:
        if token_kind(part.subformat) == "conversation" and isinstance(part.content, str):
            return part.content
    return ""
