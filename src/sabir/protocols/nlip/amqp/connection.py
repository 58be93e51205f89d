"""One AMQP 1.0 connection on asyncio: python-qpid-proton's engine speaks the protocol, this class moves its bytes.

The engine never waits and never touches a socket; the socket, the timers and the futures are here. Used by both the
AMQP door and the AMQP peer, because over AMQP both sides are equals (AMQP-8).
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import ssl
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import quote

import proton

from sabir.aio import cancel_and_wait
from sabir.errors import PeerError, PeerRefused, PeerUnavailable
from sabir.http.connect_errors import why_no_connection
from sabir.protocols.nlip.wire.amqp import AmqpMessage

from .broker import Broker, BrokerOffer

logger = logging.getLogger("sabir")

CREDIT: Final = 64  # letters in flight to us on one link
HEARTBEAT: Final = 30.0  # seconds of silence after which a connection counts as lost
MAX_SENDERS: Final = 256  # links kept open to addresses we answer to
MAX_BYTES: Final = 64 * 1024 * 1024
# Errors that mean we did something wrong; other reasons mean that there is no receiver.
_OURS: Final = frozenset(
    f"amqp:{why}"
    for why in ("unauthorized-access", "not-allowed", "invalid-field", "decode-error", "link:message-size-exceeded")
)
_PROPERTIES: Final = 0x73
_APPLICATION_PROPERTIES: Final = 0x74
_DATA: Final = 0x75
_VALUE: Final = 0x77


class Incoming:
    """A received letter, which must be settled once."""

    __slots__ = ("_connection", "_delivery", "letter")

    def __init__(self, connection: AmqpConnection, delivery: Any, letter: AmqpMessage) -> None:
        self._connection = connection
        self._delivery = delivery
        self.letter = letter

    def settle(self, outcome: str) -> None:
        """Settle it as ``accepted``, ``rejected`` or ``released``; after a lost connection the broker redelivers it."""
        if self._connection.is_open:
            self._delivery.update(getattr(proton.Delivery, outcome.upper()))
            self._delivery.settle()
            self._connection.kick()


OnLetter = Callable[[Incoming], None]


class _Receiving:
    def __init__(self, link: Any, on_letter: OnLetter, max_bytes: int, loop: asyncio.AbstractEventLoop) -> None:
        self.link = link
        self.on_letter = on_letter
        self.max_bytes = max_bytes
        self.opened: asyncio.Future[str] = loop.create_future()
        self.buffer = bytearray()
        self.dropped = False


class _Sending:
    def __init__(self, link: Any, loop: asyncio.AbstractEventLoop) -> None:
        self.link = link
        self.opened: asyncio.Future[None] = loop.create_future()
        self.credit = asyncio.Event()
        self.outcomes: dict[str, asyncio.Future[str]] = {}


class AmqpConnection:
    """``await open()``; then receive from addresses and send to them; ``lost`` is done when the connection has
    ended."""

    def __init__(
        self,
        url: str,
        *,
        container: str = "sabir",
        tls: ssl.SSLContext | None = None,
        external: bool = False,
        heartbeat: float = HEARTBEAT,
        seconds: float = 10.0,
    ) -> None:
        """``external``: the certificate in ``tls`` authenticates us (SASL EXTERNAL), and no other mechanism is
        accepted.

        Raises:
            ConfigError: the address is invalid, or a secret would be sent in the clear.
        """
        self._broker = Broker.at(url, external=external)
        self.address = self._broker.address
        self._tls = (tls or ssl.create_default_context()) if self._broker.encrypted else None
        self._container = container
        self._heartbeat = heartbeat
        self._seconds = seconds
        self._names = itertools.count(1)
        self._receiving: dict[str, _Receiving] = {}
        self._sending: dict[str, _Sending] = {}
        self._senders: OrderedDict[tuple[str, bool], _Sending] = OrderedDict()
        self._sessions: dict[bool, Any] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._why = "the connection was lost"
        self._kicking = self._flushing = False
        self._writer: asyncio.StreamWriter | None = None
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    # -- opening and closing ----------------------------------------------------------------------

    async def open(self) -> None:
        """Raises:
        PeerUnavailable: no connection, not in time, or the configured authentication is not offered.
        PeerRefused: the credentials are not accepted.
        """
        try:
            async with asyncio.timeout(self._seconds):
                reader, self._writer = await asyncio.open_connection(
                    self._broker.host, self._broker.port, ssl=self._tls
                )
                self._start()
                self._tasks = [
                    asyncio.create_task(self._read(reader), name="amqp read"),
                    asyncio.create_task(self._tick(), name="amqp tick"),
                ]
                await self._opened
        except (OSError, TimeoutError) as exc:
            self._end("no connection")
            raise PeerUnavailable(self.address, why_no_connection(exc)) from (
                None if isinstance(exc, TimeoutError) else exc
            )
        except PeerError:
            await self.close()
            raise

    def _start(self) -> None:
        loop = asyncio.get_running_loop()
        self._opened: asyncio.Future[None] = loop.create_future()
        self._connection = proton.Connection()
        self._connection.container = self._container
        self._connection.hostname = self._broker.host
        self._collector = proton.Collector()
        self._connection.collect(self._collector)
        self._transport = proton.Transport()
        self._transport.idle_timeout = self._heartbeat
        sasl = self._transport.sasl()
        if self._broker.user:
            self._connection.user, self._connection.password = self._broker.user, self._broker.password
            sasl.allow_insecure_mechs = True  # whether a password may be sent in the clear was decided before
        sasl.allowed_mechs(" ".join(self._broker.mechanisms))
        self._connection.open()
        self._transport.bind(self._connection)
        self.kick()

    @property
    def is_open(self) -> bool:
        return not self.lost.done()

    async def close(self) -> None:
        """Close the connection gracefully, as far as possible."""
        if self.is_open and self._writer is not None:
            self._connection.close()
            self.kick()
            self._flush()
        self._end("the connection was closed")
        await cancel_and_wait(self._tasks)
        if self._writer is not None:
            self._writer.close()
            try:
                await self._writer.wait_closed()
            except (OSError, ssl.SSLError):
                pass

    def _end(self, why: str) -> None:
        """Fail everything that waits on the connection."""
        if self.lost.done():
            return
        self._why = why
        self.lost.set_result(None)
        gone = PeerUnavailable(self.address, why)
        for receiving in self._receiving.values():
            _fail(receiving.opened, gone)
        for sending in self._sending.values():
            _fail(sending.opened, gone)
            sending.credit.set()
            for outcome in sending.outcomes.values():
                _fail(outcome, gone)
        if hasattr(self, "_opened"):
            _fail(self._opened, gone)

    # -- bytes ------------------------------------------------------------------------------------

    async def _read(self, reader: asyncio.StreamReader) -> None:
        offer = BrokerOffer()
        try:
            while self.is_open and (data := await reader.read(65536)):
                if not self._opened.done() and (why := self._broker.why_not(offer.take(data))) is not None:
                    self._why = why  # the engine gives no answer
                    break
                while data and (room := self._transport.capacity()) > 0:
                    self._transport.push(data[:room])
                    data = data[room:]
                    self.kick()
        except (OSError, proton.ProtonException) as exc:
            logger.debug("AMQP connection to %s broke: %s", self.address, exc)
        self._end(self._why)

    async def _tick(self) -> None:
        """Send heartbeats in time, and notice missing ones."""
        while self.is_open:
            await asyncio.sleep(self._heartbeat / 4)
            self._transport.tick(time.monotonic())
            self.kick()

    def kick(self) -> None:
        """Let the engine process events, and write its output."""
        if self._kicking:
            return  # called by a handler: the loop below continues with what it caused
        self._kicking = True
        try:
            while (event := self._collector.peek()) is not None:
                react = self._reactions.get(event.type.name)
                if react is not None:
                    react(self, event)
                self._collector.pop()
        finally:
            self._kicking = False
        if not self._flushing:  # once per pass of the event loop
            self._flushing = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        if self._writer is None or self._writer.is_closing():
            return
        while (size := self._transport.pending()) > 0:
            data = self._transport.peek(size) or b""
            self._writer.write(data)
            self._transport.pop(len(data))

    # -- events of the engine ---------------------------------------------------------------------

    def _on_open(self, event: Any) -> None:
        if not self._opened.done():
            self._opened.set_result(None)

    def _on_close(self, event: Any) -> None:
        condition = event.connection.remote_condition
        self._end(_words(condition) or "the other side closed the connection")

    def _on_transport_error(self, event: Any) -> None:
        condition = event.transport.condition
        why = _words(condition) or "the connection broke"
        if condition is not None and "unauthorized" in condition.name:
            _fail(self._opened, PeerRefused(self.address, "the credentials are not accepted", condition.name))
        self._end(why)

    def _on_session_close(self, event: Any) -> None:
        session, condition = event.session, event.session.remote_condition
        for kind in [kind for kind, item in self._sessions.items() if item == session]:
            del self._sessions[kind]
        for table in (self._receiving, self._sending):
            for name in [name for name, item in table.items() if item.link.session == session]:
                self._drop(name, condition)
        session.close()

    def _on_link_open(self, event: Any) -> None:
        link = event.link
        if link.is_receiver:
            receiving = self._receiving.get(link.name)
            address = link.remote_source.address
            if receiving is not None and address is not None and not receiving.opened.done():
                receiving.opened.set_result(address)
        else:
            sending = self._sending.get(link.name)
            if sending is not None and link.remote_target.address is not None and not sending.opened.done():
                sending.opened.set_result(None)

    def _on_link_close(self, event: Any) -> None:
        self._drop(event.link.name, event.link.remote_condition)
        event.link.close()

    def _drop(self, name: str, condition: Any) -> None:
        why = getattr(condition, "name", None)
        gone = PeerRefused(self.address, _words(condition) or "the link was closed", why, broken=why not in _OURS)
        receiving = self._receiving.pop(name, None)
        if receiving is not None:
            if receiving.opened.done():
                self._end(f"the place we read from was closed ({_words(condition) or 'no reason given'})")
            _fail(receiving.opened, gone)
        sending = self._sending.pop(name, None)
        if sending is not None:
            for key in [key for key, item in self._senders.items() if item is sending]:
                del self._senders[key]
            _fail(sending.opened, gone)
            sending.credit.set()
            for outcome in sending.outcomes.values():
                _fail(outcome, gone)

    def _on_flow(self, event: Any) -> None:
        sending = self._sending.get(event.link.name)
        if sending is not None and event.link.credit > 0:
            sending.credit.set()

    def _on_delivery(self, event: Any) -> None:
        delivery, link = event.delivery, event.link
        if link.is_receiver:
            self._on_incoming(delivery, link)
            return
        if delivery.updated:
            sending = self._sending.get(link.name)
            waiting = sending.outcomes.pop(delivery.tag, None) if sending is not None else None
            if waiting is not None and not waiting.done():
                waiting.set_result(_OUTCOMES.get(delivery.remote_state, "released"))
            delivery.settle()

    def _on_incoming(self, delivery: Any, link: Any) -> None:
        receiving = self._receiving.get(link.name)
        if receiving is None or not delivery.readable:
            return
        if delivery.pending:
            receiving.buffer += link.recv(delivery.pending)
        if len(receiving.buffer) > receiving.max_bytes:  # read to its end, but not kept
            receiving.buffer, receiving.dropped = bytearray(), True
        if delivery.partial:
            return
        raw, receiving.buffer = bytes(receiving.buffer), bytearray()
        dropped, receiving.dropped = receiving.dropped, False
        link.advance()
        link.flow(1)
        try:
            letter = letter_of(b"" if dropped else raw)
        except (proton.ProtonException, ValueError, TypeError, AttributeError):
            delivery.update(proton.Delivery.REJECTED)
            delivery.settle()
            return
        receiving.on_letter(Incoming(self, delivery, letter))

    _reactions: Final = {
        "PN_CONNECTION_REMOTE_OPEN": _on_open,
        "PN_CONNECTION_REMOTE_CLOSE": _on_close,
        "PN_TRANSPORT_ERROR": _on_transport_error,
        "PN_SESSION_REMOTE_CLOSE": _on_session_close,
        "PN_LINK_REMOTE_OPEN": _on_link_open,
        "PN_LINK_REMOTE_CLOSE": _on_link_close,
        "PN_LINK_REMOTE_DETACH": _on_link_close,
        "PN_LINK_FLOW": _on_flow,
        "PN_DELIVERY": _on_delivery,
    }

    # -- links ------------------------------------------------------------------------------------

    def _session(self, control: bool) -> Any:
        """Control messages have a separate session, so that bulk traffic cannot block them (AMQP-8)."""
        session = self._sessions.get(control)
        if session is None:
            session = self._sessions[control] = self._connection.session()
            session.incoming_capacity = MAX_BYTES
            session.open()
        return session

    @property
    def is_rabbit(self) -> bool:
        """Whether the remote is a RabbitMQ, as far as it says so; known once it is open."""
        answer = self._connection.remote_properties or {}
        return bool(answer.get(proton.symbol("product")) == "RabbitMQ")

    def _terminus(self, address: str) -> str:
        """An address as the remote expects it: RabbitMQ requires a prefix for queues."""
        if not self.is_rabbit or address.startswith("/"):
            return address
        answer = self._connection.remote_properties or {}
        major = str(answer.get(proton.symbol("version"), "3")).partition(".")[0]
        kind = "queues" if major.isdigit() and int(major) >= 4 else "queue"
        return f"/{kind}/{quote(address, safe='')}"

    async def receive(
        self, address: str | None, on_letter: OnLetter, *, credit: int = CREDIT, max_bytes: int = MAX_BYTES
    ) -> str:
        """Receive letters from an address (None: one that the remote generates); returns the address.

        Letters of more than ``max_bytes`` bytes are rejected unread.

        Raises:
            PeerError: the remote does not allow it.
        """
        self._check()
        session = self._session(False)
        if address is None:  # a refusal may end the whole session, so it gets a separate one
            session = self._connection.session()
            session.open()
        name = f"{self._container}-in-{next(self._names)}"
        link = session.receiver(name)
        if address is None:
            link.source.dynamic = True
        else:
            link.source.address = self._terminus(address)
        link.max_message_size = max_bytes
        receiving = self._receiving[name] = _Receiving(link, on_letter, max_bytes, asyncio.get_running_loop())
        link.open()
        link.flow(credit)
        self.kick()
        opened: str = await self._in_time(receiving.opened)
        return opened

    async def send(self, letter: AmqpMessage, *, control: bool = False) -> None:
        """Send a letter to its address and wait until it is accepted.

        Raises:
            PeerRefused: it was rejected or released, or the address has no receiver.
            PeerUnavailable: the connection was lost, or it took too long.
        """
        self._check()
        sending = await self._sender(letter.to, control)
        async with _TimeLimit(self._seconds, self.address):
            while sending.link.credit <= 0:
                sending.credit.clear()
                self.kick()
                if sending.link.credit <= 0:
                    await sending.credit.wait()
                self._check()
        tag = f"{next(self._names)}"
        outcome = sending.outcomes[tag] = asyncio.get_running_loop().create_future()
        sending.link.delivery(tag)
        sending.link.stream(encoded(letter))
        sending.link.advance()
        self.kick()
        if self._writer is not None:
            await self._writer.drain()
        said = await self._in_time(outcome)
        if said != "accepted":
            raise PeerRefused(self.address, f"the letter was {said}", said, broken=said == "released")

    async def _sender(self, address: str, control: bool) -> _Sending:
        key = (address, control)
        sending = self._senders.get(key)
        if sending is None:
            name = f"{self._container}-out-{next(self._names)}"
            link = self._session(control).sender(name)
            link.target.address = self._terminus(address)
            sending = self._senders[key] = self._sending[name] = _Sending(link, asyncio.get_running_loop())
            link.open()
            self.kick()
            self._retire()
        self._senders.move_to_end(key)
        await self._in_time(asyncio.shield(sending.opened))
        return sending

    def _retire(self) -> None:
        """Close the least recently used link, if there are too many and it is idle."""
        if len(self._senders) <= MAX_SENDERS:
            return
        key, idle = next(((k, s) for k, s in self._senders.items() if not s.outcomes and s.opened.done()), (None, None))
        if key is not None and idle is not None:
            del self._senders[key]
            self._sending.pop(idle.link.name, None)
            idle.link.close()

    async def _in_time(self, waiting: asyncio.Future[Any]) -> Any:
        async with _TimeLimit(self._seconds, self.address):
            return await waiting

    def _check(self) -> None:
        if not self.is_open:
            raise PeerUnavailable(self.address, self._why)


class _TimeLimit:
    """A time limit that raises PeerUnavailable."""

    def __init__(self, seconds: float, address: str) -> None:
        self._timeout = asyncio.timeout(seconds)
        self._address = address

    async def __aenter__(self) -> None:
        await self._timeout.__aenter__()

    async def __aexit__(self, kind: Any, exc: Any, trace: Any) -> None:
        try:
            await self._timeout.__aexit__(kind, exc, trace)
        except TimeoutError:
            raise PeerUnavailable(self._address, "it did not react in time") from None


_OUTCOMES: Final = {
    proton.Delivery.ACCEPTED: "accepted",
    proton.Delivery.REJECTED: "rejected",
    proton.Delivery.RELEASED: "released",
    proton.Delivery.MODIFIED: "released",
}


def _fail(waiting: asyncio.Future[Any], exc: PeerError) -> None:
    if not waiting.done():
        waiting.set_exception(exc)
        waiting.exception()  # mark it as retrieved, in case nobody waits


def _words(condition: Any) -> str:
    return f"{condition.name}: {condition.description}" if condition is not None else ""


# -- letters and AMQP's own encoding --------------------------------------------------------------


def encoded(letter: AmqpMessage) -> bytes:
    """A letter as an AMQP message with a Data section (D-43)."""
    message = proton.Message()
    message.inferred = True
    message.body = letter.body if letter.is_data else letter.body.decode()
    message.durable = True
    message.address = letter.to
    if letter.reply_to:
        message.reply_to = letter.reply_to
    if letter.correlation_id is not None:
        message.correlation_id = letter.correlation_id
    if letter.message_id is not None:
        message.id = letter.message_id
    if letter.user_id:
        message.user_id = letter.user_id.encode()
    if letter.content_type:
        message.content_type = letter.content_type
    if letter.properties:
        message.properties = dict(letter.properties)  # type: ignore[assignment]  # its type says None only
    raw: bytes = message.encode()
    return raw


def letter_of(raw: bytes) -> AmqpMessage:
    """The letter in an AMQP message; several Data sections are joined (D-43).

    Raises:
        ValueError: it has no payload that could be an NLIP message.
    """
    properties: list[Any] = []
    more: dict[str, Any] = {}
    payload: list[bytes] = []
    is_data = True
    while raw:
        data = proton.Data()
        raw = raw[data.decode(raw) :]
        data.rewind()
        data.next()
        section: Any = data.get_object()
        code, value = int(section.descriptor), section.value
        if code == _PROPERTIES:
            properties = [_own(item) for item in value]
        elif code == _APPLICATION_PROPERTIES:
            more = {str(key): _own(item) for key, item in value.items()}
        elif code in (_DATA, _VALUE):
            is_data = code == _DATA
            payload.append(value.encode() if isinstance(value, str) else bytes(memoryview(value)))
    if not payload:
        raise ValueError("no payload")
    said = [*properties, *[None] * 7]
    return AmqpMessage(
        b"".join(payload),
        to=said[2] or "",
        reply_to=said[4] or "",
        correlation_id=said[5],
        content_type=str(said[6] or ""),
        user_id=bytes(said[1] or b"").decode("utf-8", "replace"),
        message_id=said[0],
        properties=more,
        is_data=is_data,
    )


def _own(value: Any) -> Any:
    """A value that outlives the buffer it was decoded from."""
    return bytes(value) if isinstance(value, memoryview) else value
