"""A remote NLIP end-point over AMQP 1.0 (ECMA-433, from its draft).

``amqp://user:password@host/address``: the path is where the agent is reached. Answers come to a place of our own,
made by the other side where it can (a dynamic source), else named by us; they are matched by ``correlation-id`` and
may come in any order (AMQP-8). The connection is opened with the first question and again after it was lost.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, Mapping
from typing import Final, Unpack
from urllib.parse import unquote, urlsplit
from uuid import uuid4

import msgspec

from sabir.errors import BadInput, ConfigError, PeerRefused, PeerUnavailable, PeerUnreadable
from sabir.ids import new_id
from sabir.limits import Limits
from sabir.message import Message, Part, token_part
from sabir.protocols.nlip.amqp.broker import Broker
from sabir.protocols.nlip.amqp.connection import AmqpConnection, Incoming
from sabir.protocols.nlip.wire import amqp
from sabir.protocols.peer import Call, Clock, PeerOptions, choose, origin_of

from .base import NlipOptionNames, NlipPeer
from .enveloped import enveloped, from_envelope, shown_answer

REPLY_LIMITS: Final = Limits(body=64 * 1024 * 1024, values=10_000_000, tokens=64, submessages=4096)
# Where a broker makes up no address for us. RabbitMQ before version 4 is such a one, and keeps the queue when we go:
# rabbitmqctl set_policy nlip-replies '^nlip-reply\.' '{"expires":600000}' --apply-to queues
REPLY_PLACE: Final = "nlip-reply.{id}"


class NlipAmqpPeer(NlipPeer):
    """``async with NlipAmqpPeer("amqp://guest:guest@localhost/nlip") as peer: await peer.ask("hello")``."""

    def __init__(
        self,
        url: str,
        options: PeerOptions | None = None,
        *,
        content_type: str = amqp.CBOR,
        reply_place: str = REPLY_PLACE,
        retries: int = 2,
        repeatable: bool = False,
        external: bool = False,
        limits: Limits = REPLY_LIMITS,
        **named: Unpack[NlipOptionNames],
    ) -> None:
        """Args beside those of every NLIP peer:

        content_type: in which notation we speak; the answer comes in the same.
        reply_place: our own address for answers, where the broker makes up none; ``{id}`` is replaced.
        external: the certificate in ``verify`` says who we are; a broker that does not ask for it is left.
        identities: goes along at once, or not at all: nobody asks for it here.
        repeatable: the agent drops what comes again under its message-id, so it may be sent again.
        """
        super().__init__(url, options, **named)
        self.to = unquote(urlsplit(url).path).removeprefix("/")
        if not self.to:
            raise ConfigError(f"{self.address}: the path says to which address messages go, such as /nlip")
        self._content_type = content_type
        self._reply_place = reply_place.replace("{id}", secrets.token_hex(12))
        self._retries = retries
        self._repeatable = repeatable
        self._tls, self._external = self.options.verify, external
        Broker.at(url, external=external)  # report an invalid address now
        self._authorization = choose(self.options.identities, origin_of(url), None)
        self._limits = limits
        self._on_wire = self.options.on_wire
        self._connection: AmqpConnection | None = None
        self._opening = asyncio.Lock()
        self._reply_to = ""
        self._waiting: dict[str, asyncio.Future[amqp.AmqpMessage]] = {}

    @property
    def shows_itself(self) -> bool:
        return "@" in urlsplit(self.url).netloc  # the broker names who is logged in

    async def aclose(self) -> None:
        if self._connection is not None:
            await self._connection.close()

    # -- one message ------------------------------------------------------------------------------

    async def exchange(self, message: Message, call: Call) -> AsyncGenerator[Message, None]:
        clock = Clock(call.seconds)
        own = {"authorization": self._authorization} if self._authorization is not None else {}
        shown = _shown(call.headers or ({} if call.anonymous else own))
        message = message.with_parts(shown)
        key = call.key or uuid4().hex
        attempt = 0
        while True:
            try:
                letter = await self._ask(message, call, key, clock)
                break
            except PeerUnavailable:
                attempt += 1
                if not self._repeatable or attempt > self._retries or clock.left <= 0.2 * attempt:
                    raise
                await asyncio.sleep(0.2 * attempt)
        if self._on_wire is not None:
            self._on_wire("received", self._masked(letter.body))
        try:
            reply = self._read(letter)
        except BadInput as exc:
            raise PeerUnreadable(self.address, f"its answer is not an NLIP message: {exc}") from None
        reply = shown_answer(reply, message) if self.envelope else reply
        # Who we are belongs to this message alone, and not to the tokens of the conversation.
        kept = tuple(part for part in reply.submessages if part not in shown)
        yield reply if len(kept) == len(reply.submessages) else msgspec.structs.replace(reply, submessages=kept)

    def _read(self, letter: amqp.AmqpMessage) -> Message:
        if self.envelope:
            binary = amqp.kind_of(letter) == amqp.CBOR
            if (found := from_envelope(letter.body, self._limits, binary=binary)) is not None:
                return found
        return amqp.decode(letter, limits=self._limits)

    def _written(self, message: Message) -> bytes:
        if self.envelope:
            return enveloped(message, new_id(), binary=self._content_type == amqp.CBOR)
        return amqp.encode(message, self._content_type)

    async def _ask(self, message: Message, call: Call, key: str, clock: Clock) -> amqp.AmqpMessage:
        connection = await self._connected()
        properties: dict[str, str | int] = {}
        if call.trace is not None:
            properties["traceparent"] = call.trace
        if call.hops:
            properties["x-sabir-hops"] = call.hops
        correlation = uuid4().hex
        letter = amqp.AmqpMessage(
            self._written(message),
            to=self.to,
            reply_to=self._reply_to,
            correlation_id=correlation,
            content_type=self._content_type,
            message_id=key,
            properties=properties,
        )
        if self._on_wire is not None:
            self._on_wire("sent", self._masked(letter.body))
        answer: asyncio.Future[amqp.AmqpMessage] = asyncio.get_running_loop().create_future()
        self._waiting[correlation] = answer
        try:
            await connection.send(letter, control=message.is_control)
            async with asyncio.timeout(clock.left):
                await asyncio.wait((answer, connection.lost), return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError:
            raise PeerUnavailable(self.address, "no answer in time") from None
        finally:
            del self._waiting[correlation]
        if not answer.done():
            raise PeerUnavailable(self.address, "the connection was lost before the answer came")
        return answer.result()

    def _masked(self, body: bytes) -> bytes:
        """A body for those who look, our own credential hidden: here it goes and comes in the message itself."""
        credential = (self._authorization or "").partition(" ")[2].encode()
        return body.replace(credential, b"*" * len(credential)) if credential else body

    async def _connected(self) -> AmqpConnection:
        async with self._opening:
            if self._connection is not None:
                if self._connection.is_open:
                    return self._connection
                await self._connection.close()
            connection = AmqpConnection(
                self.url, container=f"sabir-{secrets.token_hex(4)}", tls=self._tls, external=self._external
            )
            self._connection = connection
            await connection.open()
            try:
                self._reply_to = await connection.receive(None, self._on_letter)
            except PeerRefused:
                await connection.receive(self._reply_place, self._on_letter)
                self._reply_to = self._reply_place
            return connection

    def _on_letter(self, incoming: Incoming) -> None:
        """An answer; one that nobody waits for any more, or again, is dropped."""
        waiting = self._waiting.get(str(incoming.letter.correlation_id))
        if waiting is not None and not waiting.done():
            waiting.set_result(incoming.letter)
        incoming.settle("accepted")


def _shown(headers: Mapping[str, str]) -> tuple[Part, ...]:
    """Who we are to this service, for this caller, as NLIP's own token (D-18): AMQP has no header for it."""
    written = headers.get("authorization")
    if written is not None:
        written = written.partition(" ")[2]
    credential = written or next(iter(headers.values()), "")
    return (token_part(credential, "authentication"),) if credential else ()
