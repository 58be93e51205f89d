"""NLIP over AMQP 1.0 (ECMA-433, from its draft): reads from addresses of a broker or router, answers to ``reply-to``.

Settings of the door ``nlip-amqp``:

- ``url``: ``amqps://user:password@host``; without it the door is closed.
- ``address``: the address of the default agent; ``{address}/{agent}`` reaches the others. Default ``nlip``.
- ``originator``: the required sender of every letter, if one connection is one client (AMQP-1).
- ``user_ids``: whether the broker verifies ``user-id``. RabbitMQ is known to; for others it must be set, or the
  property is ignored.
- ``tls_ca``, ``tls_cert``, ``tls_key``: files, for a private CA and for SASL EXTERNAL, which the broker must
  offer if ``url`` names no user.

A letter is settled only after its answers were accepted, so none is lost when this process dies; a letter redelivered
under its ``message-id`` gets the recorded answer, and the agent is not called twice. Unreadable letters are rejected;
letters that cannot be answered now are released for others (AMQP-5).
"""

from __future__ import annotations

import asyncio
import logging
import random
import ssl
from collections.abc import Sequence
from contextlib import aclosing, suppress
from typing import Annotated, Final

import msgspec

from sabir.aio import cancel_and_wait
from sabir.errors import BadMessage, ConfigError, Forbidden, PeerError, PeerRefused, PeerUnavailable, SabirError
from sabir.events import Event, Question, Reply
from sabir.exchange.request import EventSink, TurnRequest
from sabir.guard import Credentials
from sabir.http.admission import Admission
from sabir.http.door import Door, settings_for
from sabir.http.fallback import BROKEN
from sabir.http.request import hops_of
from sabir.message import Message
from sabir.protocols.nlip.amqp.broker import Broker
from sabir.protocols.nlip.amqp.connection import AmqpConnection, Incoming
from sabir.protocols.nlip.door.context import NlipContext
from sabir.protocols.nlip.wire import amqp
from sabir.protocols.nlip.wire import json as nlip
from sabir.turn import Caller

from .batch import Batch, MakeRequest
from .envelope import EnvelopeTurn
from .subscription import Subscription

DOOR: Final = "nlip-amqp"
PLACE: Final = "amqp"  # the address of all senders that the broker does not name
BACKOFF: Final = (0.2, 30.0)  # seconds: the first pause before reconnecting, and the longest
ANSWER: Final = "x-sabir-answer"  # a property of our answers, so that one sent to a door is not taken for a question
RELEASE_PAUSE: Final = 0.5  # seconds before a letter is released, so that it is not redelivered at once

logger = logging.getLogger("sabir")


class NlipAmqpSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The settings under ``doors: {nlip-amqp: …}``."""

    url: str = ""
    address: str = "nlip"
    originator: str = ""
    user_ids: bool | None = None
    credit: Annotated[int, msgspec.Meta(ge=1)] = 64
    strict: bool = False
    tls_ca: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None

    @property
    def external(self) -> bool:
        """Whether a certificate authenticates us."""
        return self.tls_cert is not None

    def check(self) -> None:
        """Raises:
        ConfigError: the address is invalid or would show a password, or a file is missing.
        """
        if not self.url:
            return
        try:
            Broker.at(self.url, external=self.external)
            self.context()
        except ConfigError as exc:
            raise ConfigError(f"doors.{DOOR}.url: {exc}") from None
        except OSError as exc:  # of ssl, too
            raise ConfigError(f"doors.{DOOR}: tls_ca, tls_cert or tls_key: {exc.strerror or exc}") from None

    def context(self) -> ssl.SSLContext | None:
        if self.tls_ca is None and self.tls_cert is None:
            return None
        context = ssl.create_default_context(cafile=self.tls_ca)
        if self.tls_cert is not None:
            context.load_cert_chain(self.tls_cert, self.tls_key)
        return context


class NlipAmqp(Door):
    """The door. It keeps one connection and reconnects when that is lost."""

    name = DOOR

    def __init__(self, services: NlipContext) -> None:
        self.services = services
        self.settings = settings_for(DOOR, NlipAmqpSettings, services)
        self.settings.check()
        self.ready = asyncio.Event()  # set while it reads from all its addresses
        self._running: asyncio.Task[None] | None = None
        self._letters: set[asyncio.Task[None]] = set()
        self._reading: tuple[AmqpConnection, set[str]] | None = None  # the connection, and the addresses read from

    def addresses(self) -> Sequence[tuple[str, str]]:
        if not self.settings.url:
            return []
        shown = self.settings.url.rpartition("@")[2].partition("/")[0]
        return [("NLIP over AMQP", f"amqp://{shown}/{self.settings.address}")]

    def places(self) -> dict[str, str | None]:
        """Address → agent; None is the default agent."""
        base = self.settings.address
        return {base: None, **{f"{base}/{name}": name for name in self.services.agents}}

    def trouble(self) -> str | None:
        if not self.settings.url or self.ready.is_set():
            return None
        return "the broker is unavailable; messages over AMQP wait there"

    async def start(self) -> None:
        if self.settings.url:
            self._running = asyncio.create_task(self._run(), name="amqp door")

    async def stop(self) -> None:
        await cancel_and_wait([self._running])
        await cancel_and_wait(list(self._letters))

    # -- the connection ---------------------------------------------------------------------------

    async def _run(self) -> None:
        pause = BACKOFF[0]
        while True:
            connection = AmqpConnection(
                self.settings.url,
                container=f"sabir-{random.getrandbits(32):08x}",
                tls=self.settings.context(),
                external=self.settings.external,
            )
            try:
                await connection.open()
                self._reading = connection, set()
                await self._listen(*self._reading)
                pause = BACKOFF[0]
                self.ready.set()
                await connection.lost
                logger.warning("AMQP: the connection to %s was lost", connection.address)
            except PeerError as exc:
                logger.warning("AMQP: %s; retrying in %.1f s", exc, pause)
            finally:
                self.ready.clear()
                self._reading = None
                await connection.close()
            await asyncio.sleep(pause * (0.5 + random.random()))
            pause = min(2 * pause, BACKOFF[1])

    async def agents_changed(self) -> None:
        """Give new agents an address; messages to a removed agent are answered with an error."""
        if self._reading is None:
            return  # all of them, once connected
        try:
            await self._listen(*self._reading)
        except PeerError as exc:
            logger.warning("AMQP: the addresses of new agents cannot be read from: %s", exc)

    async def _listen(self, connection: AmqpConnection, known: set[str]) -> None:
        for address, agent in self.places().items():
            if address in known:
                continue
            known.add(address)
            await connection.receive(
                address,
                lambda incoming, agent=agent: self._begin(connection, incoming, agent),  # type: ignore[misc]
                credit=self.settings.credit,
                max_bytes=2
                * self.services.limits.body,  # slightly over the limit gets an error; far over it is not read
            )

    def _begin(self, connection: AmqpConnection, incoming: Incoming, agent: str | None) -> None:
        letter = asyncio.create_task(self._letter(connection, incoming, agent))
        self._letters.add(letter)
        letter.add_done_callback(self._letters.discard)

    # -- one letter -------------------------------------------------------------------------------

    async def _letter(self, connection: AmqpConnection, incoming: Incoming, agent: str | None) -> None:
        letter = incoming.letter
        if letter.properties.get(ANSWER):  # our own answer, sent to our own address
            incoming.settle("rejected")
            return
        turn = LetterTurn(connection, letter)
        outcome = "accepted"
        try:
            await self._take(connection, letter, agent, turn)
        except Forbidden as exc:
            outcome = "rejected" if turn.asked is None else "accepted"
            await turn.refuse(exc)
        except _NotSent:
            outcome = "released"  # the answer is sent again when the letter is redelivered
        except SabirError as exc:
            outcome = amqp.outcome(exc)
            if outcome == "released":
                await asyncio.sleep(RELEASE_PAUSE)
            else:
                await turn.refuse(exc)
        except asyncio.CancelledError:
            incoming.settle("released")
            raise
        except Exception:
            logger.exception("a message over AMQP failed")
            await turn.refuse(SabirError(BROKEN))
        incoming.settle(outcome)

    async def _take(
        self, connection: AmqpConnection, letter: amqp.AmqpMessage, agent: str | None, turn: LetterTurn
    ) -> None:
        admission = Admission(self.services, DOOR, _stranger(letter), agent, line=turn.line, size=len(letter.body))
        try:
            sender = self._sender(connection, letter)
            if not sender:
                admission.check_open()
            cost = amqp.cost_of(letter, self.services.limits)
            async with self.services.heavy.work(cost, None if sender else admission):
                message = turn.asked = self._read(letter, agent, turn)
            if turn.batch is not None:
                await turn.answer_batch(turn.batch, lambda item, n: self._ask(letter, item, agent, sender, f":{n}"))
                return
            ask = self._ask(letter, message, agent, sender)
            subscription = Subscription.of(self.services, message, DOOR) if message.messagetype is not None else None
            if subscription is not None:
                await turn.notify(subscription, ask.credentials)
                return
            await self.services.exchange.ask(turn.envelope.adjust(ask) if turn.envelope is not None else ask, turn.line)
        except SabirError as exc:
            raise await admission.rejected(exc) from None

    def _read(self, letter: amqp.AmqpMessage, agent: str | None, turn: LetterTurn) -> Message:
        try:
            return amqp.decode(letter, strict=self.settings.strict, limits=self.services.limits)
        except BadMessage as exc:
            if self.settings.strict:
                raise  # the standard has no envelopes
            binary = amqp.kind_of(letter) == amqp.CBOR
            turn.batch = Batch.read(self.services, letter.body, exc, agent, binary=binary)
            if turn.batch is not None:
                return Message.text("")
            found = turn.envelope = EnvelopeTurn.read(self.services, letter.body, exc, agent, binary=binary)
            found.line = turn.line
            found.check()
            return found.message

    def _sender(self, connection: AmqpConnection, letter: amqp.AmqpMessage) -> str:
        """The sender according to the broker or the configuration; anonymous if neither names one."""
        sender, checked = amqp.originator(letter, self.settings.originator), self.settings.user_ids
        vouched = connection.is_rabbit if checked is None else checked
        return sender if vouched or self.settings.originator else ""

    def _ask(
        self, letter: amqp.AmqpMessage, message: Message, agent: str | None, sender: str, place: str = ""
    ) -> TurnRequest:
        # Anonymous senders share one id, so their reply address keeps their message-ids apart.
        key = f"amqp:{letter.reply_to}:{letter.message_id!r}{place}" if letter.message_id is not None else None
        # A sender that the broker does not name is authenticated by a token in the message, or is anonymous.
        # The origin of a letter is unknown; but it must not count as this machine, which is exempt from limits.
        known = Caller(id=f"amqp:{sender}", kind="subject", name=sender, address=PLACE) if sender else None
        trace = letter.properties.get("traceparent")
        return TurnRequest(
            message,
            DOOR,
            agent,
            Credentials(caller=known) if known is not None else _stranger(letter),
            key,
            trace=trace[:64] if isinstance(trace, str) else None,
            hops=hops_of(letter.properties.get("x-sabir-hops", "")),
        )


def _stranger(letter: amqp.AmqpMessage) -> Credentials:
    """All senders that the broker does not name share one address; their reply addresses distinguish them."""
    return Credentials(PLACE, sender=" ".join(sorted({address for address, _ in amqp.addresses(letter)})))


class LetterTurn:
    """The answers to one letter."""

    def __init__(self, connection: AmqpConnection, letter: amqp.AmqpMessage) -> None:
        self._connection = connection
        self._letter = letter
        self.asked: Message | None = None
        self.batch: Batch | None = None  # if the letter has several messages
        self.envelope: EnvelopeTurn | None = None  # if the question came in one
        self.line = EventSink(self._show)

    async def _show(self, event: Event) -> None:
        if isinstance(event, Reply):
            if self.envelope is None or not self.envelope.is_notification:  # a notification gets no answer (G-11)
                await self._answer(event.message)
        elif isinstance(event, Question):
            await self._answer(nlip.question_message(event).with_parts(self.line.tokens))

    async def refuse(self, exc: SabirError) -> None:
        """Send an error, if there is anywhere to send it."""
        tokens = self.line.tokens or (self.asked.tokens if self.asked is not None else ())
        with suppress(_NotSent):
            await self._answer(nlip.coded_error(exc, self.asked, tokens))

    def _written(self, message: Message, content_type: str, *, answering: Message | None = None) -> bytes:
        if self.envelope is None:
            return amqp.encode(message, content_type, answering=answering)
        return self.envelope.write_cbor(message) if content_type == amqp.CBOR else self.envelope.write(message)

    async def notify(self, subscription: Subscription, credentials: Credentials) -> None:
        """Send events to the reply address until the lease ends; then the letter is settled."""
        async with aclosing(subscription.notifications(credentials)) as found:
            async for message in found:
                await self._answer(message)

    async def answer_batch(self, batch: Batch, make: MakeRequest) -> None:
        async def put(body: bytes) -> None:
            kind = amqp.kind_of(self._letter)
            for answer in amqp.answers(self._letter, Message.text("")):
                await self._send(msgspec.structs.replace(answer, body=body, content_type=kind), control=False)

        await batch.answer(make, put)

    async def _answer(self, reply: Message) -> None:
        for answer in amqp.answers(self._letter, reply, self.asked, self._written):
            await self._send(answer, control=reply.is_control)

    async def _send(self, answer: amqp.AmqpMessage, *, control: bool) -> None:
        marked = msgspec.structs.replace(answer, properties={ANSWER: True})
        try:
            await self._connection.send(marked, control=control)
        except PeerRefused:
            # The receiver has gone; that is no reason to answer again.
            logger.info("AMQP: no receiver at the reply-to address")
        except PeerUnavailable as gone:
            raise _NotSent from gone


class _NotSent(Exception):
    """The connection was lost before the answer was sent."""
