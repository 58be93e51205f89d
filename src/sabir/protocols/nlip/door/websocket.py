"""NLIP over WebSocket (ECMA-432): ``/nlip/ws`` in CBOR, ``/nlip/ws/text`` in JSON, either on both.

The answer uses the frame type of the question (D-31). A frame that cannot be decoded gets an NLIP error as a text frame
on the same connection, which stays open (WS-11, D-33). Messages of one conversation are answered in order; those of
different conversations concurrently. Disconnecting cancels running turns.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from contextlib import aclosing, suppress
from typing import Annotated, Any, Final

import msgspec
from starlette.routing import BaseRoute, WebSocketRoute
from starlette.types import Message as Packet
from starlette.types import Receive, Scope, Send

from sabir.errors import (
    BadInput,
    BadMessage,
    RateLimited,
    SabirError,
    ShuttingDown,
    TooLarge,
    Unauthenticated,
    Unreadable,
)
from sabir.events import Delta, Event, Progress, Question, Reply
from sabir.exchange.request import EventSink, TurnRequest
from sabir.guard import Credentials
from sabir.guard.assent import takes_back
from sabir.http.admission import Admission
from sabir.http.door import Door, settings_for
from sabir.http.fallback import BROKEN
from sabir.http.request import credentials_of, headers_of, hops_of
from sabir.limits import check_cost
from sabir.message import Message, Part, json_part, token_kind, uri_part
from sabir.protocols.nlip.door.context import NlipContext
from sabir.protocols.nlip.wire import cbor
from sabir.protocols.nlip.wire import json as nlip
from sabir.protocols.nlip.wire.rules import PROTOCOL

from .batch import Batch
from .envelope import EnvelopeTurn
from .subscription import Subscription

logger = logging.getLogger("sabir")

DOOR: Final = "nlip-ws"
MAX_FAILURES: Final = 10  # decode errors in a row before the connection is closed with 1007
MAX_UNDER_WAY: Final = 64  # concurrent turns of one connection; more wait in the socket
_TRACE, _HOPS = nlip.TRACE.encode(), nlip.HOPS.encode()
_READS: Final = [(nlip.READS.encode(), f"{nlip.TRACE}, {nlip.HOPS}".encode())]
STREAM_LABEL: Final = "stream"  # the label of agreements on partial messages (D-34)


class NlipWsSettings(msgspec.Struct, frozen=True):
    """The settings under ``doors: {nlip-ws: …}``."""

    strict: bool = False  # follow the standard to the letter
    idle_seconds: Annotated[float, msgspec.Meta(gt=0)] = 300.0  # without a message, before a connection is closed


class NlipWs(Door):
    """The door. Each connection is one ``Connection``."""

    name = DOOR

    def __init__(self, services: NlipContext) -> None:
        self.services = services
        self.settings = settings_for(DOOR, NlipWsSettings, services)

    def routes(self) -> Sequence[BaseRoute]:
        paths = ("/nlip/ws", "/nlip/ws/", "/nlip/ws/text", "/nlip/{agent}/ws", "/nlip/{agent}/ws/text")
        return [WebSocketRoute(path, _WebSocketApp(self)) for path in paths]

    def addresses(self) -> Sequence[tuple[str, str]]:
        return [("NLIP over WebSocket", "/nlip/ws")]


class _WebSocketApp:
    """An ASGI application that Starlette does not take for a view function."""

    def __init__(self, door: NlipWs) -> None:
        self._door = door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await Connection(self._door.services, self._door.settings, scope, receive, send).run()


class Connection:
    """One WebSocket connection."""

    def __init__(
        self, services: NlipContext, settings: NlipWsSettings, scope: Scope, receive: Receive, send: Send
    ) -> None:
        self.services = services
        self._settings = settings
        self._receive = receive
        self._send = send
        self._text_path = scope["path"].rstrip("/").endswith("/text")
        self._agent: str | None = scope.get("path_params", {}).get("agent")
        headers = headers_of(scope)
        self._credentials: Credentials = credentials_of(scope, behind_proxy=services.behind_proxy, headers=headers)
        # for messages without their own
        self._trace = headers[_TRACE].decode("latin-1")[:64] if _TRACE in headers else None
        self._hops = hops_of(headers.get(_HOPS, b""))
        self._until: float | None = None  # when the token of this connection expires
        self._refused: SabirError | None = None  # why its proof was rejected
        self._protocol = next((p for p in scope.get("subprotocols", ()) if p.lower().startswith("nlip")), None)
        self._turns: set[asyncio.Task[None]] = set()
        self._lines: dict[asyncio.Task[Any] | None, EventSink | Batch] = {}
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
                turn.cancel("the client disconnected")
            await asyncio.gather(*left, return_exceptions=True)

    async def _prove(self) -> None:
        """A proof is valid for one request, which is the handshake; it is checked now, for all later messages."""
        shown = msgspec.structs.replace(self._credentials, method="GET")
        try:
            self.services.rates.check_open(shown.address)
            caller = await self.services.identity.caller(shown)
        except SabirError as exc:
            self._refused = exc
        else:
            self._credentials = Credentials(shown.address, caller=caller)
            self._until = float(caller.claims.get("exp", 0.0))

    def _check_proof(self) -> None:
        if self._refused is not None:
            raise self._refused
        if self._until is not None and time.time() > self._until:
            raise Unauthenticated("the token of this connection has expired; open another", "DPoP")

    async def _next(self) -> Packet:
        """The next packet; closes a connection that is idle."""
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
        rates, address = self.services.rates, self._credentials.address
        admission = self._admission()
        admission.size = len(data or text or "")
        try:
            rates.check_open(address)
            message, form = await self._read(_bytes_of(data, text), binary)
        except BadInput as exc:
            with suppress(RateLimited):  # invalid frames are charged; over the rate, the next frame is not read
                rates.check_address(address)
            await self.services.heavy.rejected(admission.size, admission)
            return await self._undecoded(exc, binary)
        except (RateLimited, ShuttingDown) as exc:
            await admission.rejected(exc)
            return await self._put(nlip.coded_error(exc), binary, None)
        self._failures = 0
        slot = _Slot(self._free)
        await slot.take()
        key = _ordering(message)
        before, passed = self._last.get(key), asyncio.Event()
        self._last[key] = passed
        if isinstance(form, Batch):
            turn = asyncio.create_task(self._answer_batch(form, binary, passed, slot))
            self._lines[turn] = form
        else:
            frames = _Frames(self, binary, message, form)
            turn = asyncio.create_task(self._turn(message, frames, before, passed, slot))
        self._turns.add(turn)
        turn.add_done_callback(lambda done: self._done(done, key, passed, slot))

    async def _answer_batch(self, batch: Batch, binary: bool, passed: asyncio.Event, slot: _Slot) -> None:
        def request(message: Message, _: int) -> TurnRequest:
            self._check_proof()
            return self._ask(message)

        async def put(body: bytes) -> None:
            passed.set()  # a turn that asked back continues; later messages do not wait for it
            slot.give_back()
            await self.put(body, binary)

        await batch.answer(request, put)

    async def _read(self, body: bytes, binary: bool) -> tuple[Message, EnvelopeTurn | Batch | None]:
        """The message in a frame, with its envelope; or the batch that the frame is."""
        try:
            return await self._decode(body, binary), None
        except BadMessage as exc:
            if self._settings.strict:
                raise  # the standard has no envelopes
            batch = Batch.read(self.services, body, exc, self._agent, binary=binary)
            if batch is not None:
                return Message.text(""), batch
            found = EnvelopeTurn.read(self.services, body, exc, self._agent, binary=binary)
            return found.message, found

    async def _decode(self, body: bytes, binary: bool) -> Message:
        """JSON is also read in binary frames at the path for text: the clause itself says "binary message" (D-31)."""
        limits, strict = self.services.limits, self._settings.strict
        cost = cbor.check_cost(body, limits) if binary else check_cost(body, limits, PROTOCOL)
        decode = cbor.decode if binary else nlip.decode
        async with self.services.heavy.work(cost, self._admission()):
            return decode(body, strict=strict, limits=limits, is_counted=True)

    def _asks(self, turn: asyncio.Task[None]) -> bool:
        """Whether it has asked back, so that the answer may arrive on another connection."""
        line = self._lines.get(turn)
        if isinstance(line, Batch):
            return line.asks
        return line is not None and line.waiting is not None and not line.waiting.answer.done()

    def _done(self, turn: asyncio.Task[None], key: str, passed: asyncio.Event, slot: _Slot) -> None:
        self._turns.discard(turn)
        self._lines.pop(turn, None)
        slot.give_back()
        passed.set()
        if self._last.get(key) is passed:
            del self._last[key]

    async def _turn(
        self, message: Message, frames: _Frames, before: asyncio.Event | None, passed: asyncio.Event, slot: _Slot
    ) -> None:
        if before is not None and not (message.is_control and takes_back(message)):
            await before.wait()
        number = 0
        line = self._lines[asyncio.current_task()] = EventSink(lambda event: show(event))
        frames.tie(line)

        async def show(event: Event) -> None:
            nonlocal number
            if isinstance(event, Reply):
                self._note_streaming(event.message)
                await frames.reply(event.message)
            elif isinstance(event, Question):
                passed.set()  # the answer comes after it on this connection, and must not wait for it
                slot.give_back()
                await frames.put(nlip.question_message(event).with_parts(line.tokens))
            elif isinstance(event, Delta | Progress) and (frames.streams or self._sends_pieces(line)):
                number += 1
                await frames.put(nlip.partial_message(event, number).with_parts(line.tokens))

        ask = frames.adjust(self._ask(message))
        try:
            self._check_proof()
            frames.check()
            subscription = Subscription.of(self.services, message, DOOR) if message.messagetype is not None else None
            if subscription is not None:
                passed.set()  # later messages do not wait for the end of the lease
                slot.give_back()
                async with aclosing(subscription.notifications(self._credentials)) as found:
                    async for notification in found:
                        await frames.put(notification)
                return
            await self.services.exchange.ask(ask, line)
        except SabirError as exc:
            await self._admission(line).rejected(exc)
            await frames.put(nlip.coded_error(exc, message, line.tokens or message.tokens))
        except Exception:
            logger.exception("a message over WebSocket failed")
            await frames.put(nlip.coded_error(SabirError(BROKEN), message, line.tokens or message.tokens))

    def _note_streaming(self, reply: Message) -> None:
        """Apply what a control answer confirms to this connection, even if no token is echoed (D-34)."""
        answer = reply.labelled(STREAM_LABEL) if reply.is_control else None
        if answer is not None and isinstance(answer.value, dict) and answer.value.get("agreed") is True:
            self._streams = answer.value.get("on") is True

    def _sends_pieces(self, line: EventSink) -> bool:
        """Whether partial messages are sent: as agreed in the conversation, or otherwise on this connection."""
        agreed = line.turn.conversation.agreed.get(STREAM_LABEL) if line.turn is not None else None
        return self._streams if agreed is None else agreed is True

    def _ask(self, message: Message) -> TurnRequest:
        """Read from the message what HTTP has in headers; the handshake supplies the rest."""
        fields = dict(message.extra) if message.extra is not None else {}
        trace, hops = fields.pop(nlip.TRACE, None), hops_of(fields.pop(nlip.HOPS, ""))
        if len(fields) != len(message.extra or ()):
            message = msgspec.structs.replace(message, extra=fields or None)
        trace = trace[:64] if isinstance(trace, str) else self._trace
        return TurnRequest(message, DOOR, self._agent, self._credentials, trace=trace, hops=max(hops, self._hops))

    def _admission(self, line: EventSink | None = None) -> Admission:
        return Admission(self.services, DOOR, self._credentials, self._agent, line=line)

    async def _undecoded(self, exc: BadInput, binary: bool) -> None:
        """WS-11: report it in a text frame, point to the fallback, stay open; close after repeated failures."""
        self._failures += 1
        reason = str(exc)
        parts: tuple[Part, ...] = (json_part({nlip.STATUS: nlip.CODES[type(exc)]}, label=nlip.STATUS),)
        if binary and isinstance(exc, Unreadable):
            reason = f"{reason}. CBOR could not be decoded; JSON text frames are read at /nlip/ws/text."
            base = self.services.public_url.replace("http", "ws", 1)
            parts = (*parts, uri_part(f"{base}/nlip/ws/text", label="fallback"))
        message = Message.error(reason).with_parts(parts)
        await self._put(message, binary and not isinstance(exc, Unreadable | TooLarge), None)
        if self._failures >= MAX_FAILURES and self._open:
            self._open = False
            await self._send({"type": "websocket.close", "code": 1007, "reason": "too many frames without a message"})

    async def _put(self, message: Message, binary: bool, answering: Message | None) -> None:
        write = cbor.encode if binary else nlip.encode
        await self.put(write(message, answering=answering), binary)

    async def put(self, body: bytes, binary: bool) -> None:
        """Send one frame, if the client is still there."""
        if not self._open:
            return
        packet: Packet = {"type": "websocket.send", **({"bytes": body} if binary else {"text": body.decode()})}
        with suppress(OSError):  # the client disconnected; the reader notices, too
            await self._send(packet)


class _Slot:
    """The place of one turn among the running turns of a connection.

    It is given back early by a turn that waits for its caller: the answer to its question needs a place to be read.
    """

    def __init__(self, free: asyncio.Semaphore) -> None:
        self._free = free
        self._is_taken = False

    async def take(self) -> None:
        await self._free.acquire()
        self._is_taken = True

    def give_back(self) -> None:
        if self._is_taken:
            self._is_taken = False
            self._free.release()


class _Frames:
    """The frames that answer one: same type, same format."""

    def __init__(
        self, connection: Connection, binary: bool, asked: Message, envelope: EnvelopeTurn | None = None
    ) -> None:
        self._connection = connection
        self._binary = binary
        self._asked = asked
        self._envelope = envelope
        self.streams = envelope is not None and envelope.streams

    def tie(self, line: EventSink) -> None:
        if self._envelope is not None:
            self._envelope.line = line

    def adjust(self, ask: TurnRequest) -> TurnRequest:
        return ask if self._envelope is None else self._envelope.adjust(ask)

    def check(self) -> None:
        if self._envelope is not None:
            self._envelope.check()

    async def reply(self, message: Message) -> None:
        if self._envelope is None or not self._envelope.is_notification:  # a notification gets no answer (G-11)
            await self.put(message)

    async def put(self, message: Message) -> None:
        if self._envelope is None:
            write = cbor.encode if self._binary else nlip.encode
            body = write(message, answering=self._asked)
        else:
            body = self._envelope.write_cbor(message) if self._binary else self._envelope.write(message)
        await self._connection.put(body, self._binary)


def _bytes_of(data: bytes | None, text: str | None) -> bytes:
    """The content of a frame.

    Raises:
        Unreadable: its text cannot be encoded as UTF-8.
    """
    if text is None:
        return data or b""
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise Unreadable("nlip", "$", "UTF-8") from None


def _ordering(message: Message) -> str:
    """A key; messages with the same key are answered in order. Each conversation has one, and all messages without a
    conversation share one."""
    for part in message.tokens:
        if token_kind(part.subformat) == "conversation" and isinstance(part.content, str):
            return part.content
    return ""
