"""NLIP over AMQP 1.0: the draft of ECMA-433, tested from outside, through a broker.

The address is ``amqp://user:password@broker/address-of-the-agent``. All checks refer to a draft; we have not seen the
published text.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from typing import Any, Final
from urllib.parse import unquote, urlsplit
from uuid import uuid4

import cbor2
import msgspec

from sabir.errors import PeerError, PeerRefused
from sabir.protocols.nlip.amqp.connection import AmqpConnection, Incoming
from sabir.protocols.nlip.wire import amqp
from sabir.protocols.nlip.wire.amqp import AmqpMessage

from .answer import CheckedAnswer, from_cbor, from_json
from .base import CheckFailed, Exchanged, Skipped, Suite, Wire, demand, shown
from .core import Samples, add_core_checks
from .messages import HELLO, MALFORMED, token

WAIT: Final = 5.0  # seconds in which an answer must arrive
SILENCE: Final = 0.2  # how long to wait for an answer that must not arrive, once another one has


class AmqpSession:
    """One connection, shared by the checks of a run; reopened after it was lost."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection: AmqpConnection | None = None
        self.to = unquote(urlsplit(url).path).removeprefix("/")
        self.samples = Samples()
        self.last: AmqpTarget | None = None  # the target of the previous check
        self.repeats = False  # whether it sends more answers than requested

    async def connection(self) -> AmqpConnection:
        if self._connection is not None and not self._connection.is_open:
            await self.close()
        if self._connection is None:
            self._connection = AmqpConnection(self._url, container=f"sabir-check-{secrets.token_hex(4)}")
            await self._connection.open()
        return self._connection

    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.close()
        self._connection = None


class AmqpTarget:
    """One agent behind a broker, and our own reply address."""

    def __init__(self, session: AmqpSession, connection: AmqpConnection, wire: Wire) -> None:
        self._wire = wire
        self._session = session
        self._connection = connection
        self.to = session.to
        self.samples = session.samples
        self.place = ""
        self._owed = 0  # answers that have not arrived yet
        self._answers: asyncio.Queue[AmqpMessage] = asyncio.Queue()

    @classmethod
    async def open(cls, session: AmqpSession, wire: Wire) -> AmqpTarget:
        """A target for one check; it takes over the address of the previous one, unless an answer may still arrive
        there."""
        connection = await session.connection()
        target = cls(session, connection, wire)
        before = session.last
        is_quiet = before is not None and before._owed == 0 and not session.repeats
        if before is not None and before._connection is connection and is_quiet:
            target.place, target._answers = before.place, before._answers
        else:
            target.place = await target.other_place(target._answers)
        session.last = target
        return target

    def evidence(self) -> list[Exchanged]:
        return self._wire.log

    async def other_place(self, answers: asyncio.Queue[AmqpMessage] | None = None) -> str:
        """A new address; messages to it are put into these answers, or into the default ones."""
        place = f"nlip-reply.check-{secrets.token_hex(6)}"
        queue = answers if answers is not None else self._answers

        def keep(incoming: Incoming) -> None:
            queue.put_nowait(incoming.letter)
            incoming.settle("accepted")

        await self._connection.receive(place, keep)
        return place

    async def exchange(self, message: Any) -> CheckedAnswer:
        """The answer to a message in JSON. An agent may refuse a message by not answering."""
        letter = await self.answer_or_silence(json.dumps(message).encode(), content_type=amqp.JSON)
        return read(letter) if letter is not None else CheckedAnswer(None, refusal="no answer came")

    async def send(self, body: bytes, **fields: Any) -> None:
        letter = AmqpMessage(body, **{"to": self.to, "reply_to": self.place, **fields})
        self._owed += 1
        try:
            await self._connection.send(letter)
        except PeerError as exc:
            self._wire.keep(_bytes(letter), f"refused: {exc}".encode())
            if not isinstance(exc, PeerRefused):
                raise
            raise CheckFailed(f"the letter was refused: {exc}") from None
        self._wire.keep(_bytes(letter), b"taken by the broker")

    async def answer(self, body: bytes, **fields: Any) -> AmqpMessage:
        """The answer to a letter.

        Raises:
            Failed: no answer arrived.
        """
        await self.send(body, **fields)
        [letter] = await self.answers(1)
        return letter

    async def answers(self, count: int) -> list[AmqpMessage]:
        got: list[AmqpMessage] = []
        try:
            async with asyncio.timeout(WAIT):
                while len(got) < count:
                    got.append(await self._next())
        except TimeoutError:
            raise CheckFailed(f"{len(got)} of {count} answers came within {WAIT:g} seconds") from None
        return got

    async def answers_at(self, places: asyncio.Queue[AmqpMessage], count: int) -> list[AmqpMessage]:
        """The answers to one letter, until this many addresses have one or the time is over."""
        got: list[AmqpMessage] = []
        try:
            async with asyncio.timeout(WAIT):
                while len({letter.to for letter in got}) < count:
                    got.append(await places.get())
                    self._wire.keep(b"", _bytes(got[-1]))
        except TimeoutError:
            pass
        self._owed -= 1 if got else 0  # otherwise one may still arrive at the default address
        return got

    async def one_more(self) -> AmqpMessage | None:
        """An unexpected answer, if one arrives. Later checks then use their own reply addresses."""
        try:
            async with asyncio.timeout(SILENCE):
                letter = await self._next()
        except TimeoutError:
            return None
        self._session.repeats = True
        return letter

    async def answer_or_silence(self, body: bytes, **fields: Any) -> AmqpMessage | None:
        """The answer to a letter, or None if a later letter was answered and this one was not."""
        await self.send(body, **fields)
        try:
            async with asyncio.timeout(SILENCE):
                return await self._next()
        except TimeoutError:
            pass
        later: asyncio.Queue[AmqpMessage] = asyncio.Queue()
        place = await self.other_place(later)
        began = time.monotonic()
        await self.send(json.dumps(HELLO).encode(), content_type=amqp.JSON, reply_to=place)
        try:
            async with asyncio.timeout(WAIT):
                await later.get()
                self._owed -= 1
            async with asyncio.timeout(max(SILENCE, time.monotonic() - began)):
                return await self._next()
        except TimeoutError:
            return None

    async def _next(self) -> AmqpMessage:
        letter = await self._answers.get()
        self._owed -= 1
        self._wire.keep(b"", _bytes(letter))
        return letter


def _bytes(letter: AmqpMessage) -> bytes:
    """A letter as evidence: its properties, then its payload."""
    said = {name: value for name, value in msgspec.structs.asdict(letter).items() if value and name != "body"}
    return (
        "".join(f"{name}: {value!r}\n" for name, value in said.items()).encode() + b"\n" + shown(letter.body).encode()
    )


def read(letter: AmqpMessage) -> CheckedAnswer:
    """An answer, decoded by its content type or its first byte.

    Raises:
        Failed: it is not a JSON object, nor a CBOR map.
    """
    return from_json(letter.body) if letter.body.lstrip()[:1] == b"{" else from_cbor(letter.body)


def body(**more: Any) -> bytes:
    return json.dumps({**HELLO, **more}).encode()


def taken(letter: AmqpMessage) -> CheckedAnswer:
    """The answer to a message that must be accepted.

    Raises:
        Failed: it is refused.
    """
    found = read(letter)
    demand(not found.refusal, f"it is refused: {found.refusal}")
    return found


SUITE: Final[Suite[AmqpTarget]] = Suite("amqp")
check = SUITE.check
DRAFT: Final = "ECMA-433 draft"


@check("AMQP-0", DRAFT, "must", "one NLIP message in one AMQP message is answered, and once only")
async def _answered(target: AmqpTarget) -> None:
    taken(await target.answer(body(), content_type=amqp.JSON))
    demand(await target.one_more() is None, "a second answer came")


@check("AMQP-1", DRAFT, "must", "a user-id that is not the sender's is not taken as the originator")
async def _originator(target: AmqpTarget) -> None:
    """The first intermediary checks it; if it passes, the agent must refuse, or answer with an error."""
    try:
        letter = await target.answer_or_silence(body(), content_type=amqp.JSON, user_id="sabir-check-of-nobody")
    except (CheckFailed, PeerError):  # the broker refused the letter, or closed the connection
        return
    if letter is not None:
        demand(read(letter).refusal, "it is answered as if it came from there")


@check("AMQP-2", DRAFT, "must", "the answer names its address in the property 'to'")
async def _named(target: AmqpTarget) -> None:
    demand((await target.answer(body(), content_type=amqp.JSON)).to, "the answer has no to")


@check("AMQP-3-none", DRAFT, "must", "without reply-to there is no answer, and the next question is answered")
async def _no_reply_to(target: AmqpTarget) -> None:
    await target.send(body(content="silent"), content_type=amqp.JSON, reply_to="", correlation_id="silent")
    letter = await target.answer(body(), content_type=amqp.JSON, correlation_id="loud")
    demand(letter.correlation_id == "loud", f"an answer came for {letter.correlation_id!r}")


@check("AMQP-5-not", DRAFT, "should", "a content-type that does not match the data is rejected")
async def _mismatch(target: AmqpTarget) -> None:
    for data, kind in ((body(), amqp.CBOR), (cbor2.dumps(HELLO), amqp.JSON)):
        letter = await target.answer_or_silence(data, content_type=kind)
        if letter is not None:
            demand(read(letter).refusal, f"data that are not {kind} are answered as if they were")


@check("AMQP-3", DRAFT, "must", "the answer goes to the address in reply-to, and names it in 'to'")
async def _to(target: AmqpTarget) -> None:
    letter = await target.answer(body(), content_type=amqp.JSON)
    demand(letter.to == target.place, f"the answer's to is {letter.to!r}")


CORRELATIONS: Final = {"a string": "r-1", "a uuid": uuid4(), "a number": 77, "bytes": b"\x00\x01"}


def _add_correlation_checks() -> None:
    def copied(value: Any) -> Any:
        async def run(target: AmqpTarget) -> None:
            letter = await target.answer(body(), content_type=amqp.JSON, correlation_id=value)
            got = letter.correlation_id
            demand(got == value and isinstance(got, type(value)), f"it comes back as {got!r}")

        return run

    for name, value in CORRELATIONS.items():
        check("AMQP-4", DRAFT, "must", f"correlation-id is copied, its type kept: {name}")(copied(value))


_add_correlation_checks()


@check("AMQP-4-not", DRAFT, "must", "an error has the correlation-id of the message, and names its reply-to in 'to'")
async def _correlated_error(target: AmqpTarget) -> None:
    letter = await target.answer_or_silence(body(format="hologram"), content_type=amqp.JSON, correlation_id="bad")
    if letter is None:
        raise Skipped("it is not answered")
    demand(letter.correlation_id == "bad", f"correlation-id comes back as {letter.correlation_id!r}")
    demand(letter.to == target.place, f"the answer's to is {letter.to!r}")


@check("AMQP-5-json", DRAFT, "must", "JSON is answered in JSON, and content-type says so")
async def _json(target: AmqpTarget) -> None:
    letter = await target.answer(body(), content_type="application/json; charset=utf-8")
    demand(letter.content_type.startswith(amqp.JSON), f"content-type is {letter.content_type!r}")
    from_json(letter.body)


@check("AMQP-5-case", DRAFT, "must", "a content-type is read in any letter case")
async def _type_case(target: AmqpTarget) -> None:
    taken(await target.answer(body(), content_type="Application/JSON"))


@check("AMQP-5-cbor", DRAFT, "must", "CBOR with raw bytes is answered in CBOR, and content-type says so")
async def _cbor(target: AmqpTarget) -> None:
    sent = cbor2.dumps({"format": "binary", "subformat": "image/jpeg", "content": b"\xff\xd8"})
    letter = await target.answer(sent, content_type=amqp.CBOR)
    demand(letter.content_type == amqp.CBOR, f"content-type is {letter.content_type!r}")
    from_cbor(letter.body)


@check("AMQP-6", DRAFT, "must", "application properties that do not belong to NLIP are ignored")
async def _properties(target: AmqpTarget) -> None:
    taken(await target.answer(body(), content_type=amqp.JSON, properties={"x-trace": "1"}))


@check("AMQP-6-data", DRAFT, "must", "the answer is in a Data section")
async def _data(target: AmqpTarget) -> None:
    letter = await target.answer(body(), content_type=amqp.JSON)
    demand(letter.is_data, "the answer is in an amqp-value section")


@check(
    "AMQP-7",
    DRAFT,
    "should",
    "nlip-reply-<content-type> gives one answer in each requested type, each at its own address",
)
async def _fan_out(target: AmqpTarget) -> None:
    places: asyncio.Queue[AmqpMessage] = asyncio.Queue()
    machine, audit = await target.other_place(places), await target.other_place(places)
    wishes = {"nlip-reply-application/json": machine, "nlip-reply-application/cbor": audit}
    await target.send(body(), content_type=amqp.JSON, properties=wishes)
    got = {letter.to: letter.content_type for letter in await target.answers_at(places, 2)}
    demand(got == {machine: amqp.JSON, audit: amqp.CBOR}, f"answers came as {got}")


async def _wish(target: AmqpTarget, name: str, **more: Any) -> tuple[str, list[AmqpMessage]]:
    """A separate address that a letter requests by this property, and what arrived there."""
    places: asyncio.Queue[AmqpMessage] = asyncio.Queue()
    place = await target.other_place(places)
    await target.send(body(), content_type=amqp.JSON, properties={name: place}, **more)
    return place, await target.answers_at(places, 1)


@check("AMQP-7-alone", DRAFT, "should", "nlip-reply-<content-type> is enough, without reply-to")
async def _alone(target: AmqpTarget) -> None:
    _, letters = await _wish(target, "nlip-reply-application/json", reply_to="")
    demand(letters, "no answer came there")


@check("AMQP-7-only", DRAFT, "should", "nlip-reply-<content-type> overrides reply-to, which then gets no answer")
async def _overridden(target: AmqpTarget) -> None:
    _, letters = await _wish(target, "nlip-reply-application/json")
    if not letters:
        raise Skipped("no answer comes to the place that is asked for")
    demand(await target.one_more() is None, "an answer came to reply-to as well")


@check("D-42", "our decision", "ours", "nlip-reply-<format> asks for an answer at an address of its own")
async def _by_format(target: AmqpTarget) -> None:
    place, letters = await _wish(target, "nlip-reply-text")
    demand([letter.to for letter in letters] == [place], f"{len(letters)} answers came there")


@check("AMQP-8", DRAFT, "should", "the answers to two simultaneous questions are distinguished by correlation-id")
async def _two(target: AmqpTarget) -> None:
    for number in ("one", "two"):
        await target.send(body(content=number), content_type=amqp.JSON, correlation_id=number)
    got = sorted(str(letter.correlation_id) for letter in await target.answers(2))
    demand(got == ["one", "two"], f"answers came for {got}")


@check("AMQP-4-token", DRAFT, "must", "a token comes back although the message has a correlation-id, too")
async def _token(target: AmqpTarget) -> None:
    sent = token("conversation_check", "check-amqp")
    letter = await target.answer(body(submessages=[sent]), content_type=amqp.JSON, correlation_id="r-2")
    demand(read(letter).has(sent), "the token does not come back")


add_core_checks(SUITE)


@check("D-41", "our decision", "ours", "without a content-type the first byte shows whether it is JSON or CBOR")
async def _no_type(target: AmqpTarget) -> None:
    taken(await target.answer(body()))
    taken(await target.answer(cbor2.dumps(HELLO)))


@check("D-43", "our decision", "ours", "a string in an amqp-value section is read")
async def _value(target: AmqpTarget) -> None:
    taken(await target.answer(body(), content_type=amqp.JSON, is_data=False))


@check("D-22", "our decision", "ours", "every rejection is an NLIP error in words, not silence")
async def _refusals(target: AmqpTarget) -> None:
    for name, (_, message) in MALFORMED.items():
        answer = await target.exchange(message)
        if answer.refusal:
            demand(answer.is_error and answer.text, f"{name}: {answer.refusal}")
