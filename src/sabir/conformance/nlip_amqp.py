"""NLIP over AMQP 1.0: the draft of ECMA-433, seen from outside, through a broker.

The address is ``amqp://user:password@broker/address-of-the-agent``. All rows are of a draft; the published text was
not seen.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from typing import Any, Final
from urllib.parse import unquote, urlsplit
from uuid import uuid4

import cbor2
import msgspec

from ..errors import BadInput, PeerError, PeerRefused
from ..message import Message
from ..peers.amqp_connection import AmqpConnection, Incoming
from ..wire import amqp
from ..wire.amqp import Letter
from .base import Failed, Suite, Wire, demand, shown

HELLO: Final = {"format": "text", "subformat": "english", "content": "Hello"}
WAIT: Final = 5.0  # seconds in which an answer must come, or must not


class AmqpTarget:
    """One agent behind a broker; a connection and a place for answers of our own."""

    def __init__(self, url: str, wire: Wire) -> None:
        self._wire = wire
        self.to = unquote(urlsplit(url).path).removeprefix("/")
        self._connection = AmqpConnection(url, container=f"sabir-check-{secrets.token_hex(4)}")
        self.place = f"nlip-reply.check-{secrets.token_hex(6)}"
        self._answers: asyncio.Queue[Letter] = asyncio.Queue()

    async def open(self) -> AmqpTarget:
        await self._connection.open()
        await self._connection.receive(self.place, self._on_letter)
        return self

    async def other_place(self) -> str:
        place = f"nlip-reply.check-{secrets.token_hex(6)}"
        await self._connection.receive(place, self._on_letter)
        return place

    def _on_letter(self, incoming: Incoming) -> None:
        self._answers.put_nowait(incoming.letter)
        incoming.settle("accepted")

    async def send(self, body: bytes, **fields: Any) -> None:
        letter = Letter(body, **{"to": self.to, "reply_to": self.place, **fields})
        try:
            await self._connection.send(letter)
        except PeerError as refused:
            self._wire.keep(_bytes(letter), f"refused: {refused}".encode())
            if not isinstance(refused, PeerRefused):
                raise
            raise Failed(f"the letter was refused: {refused}") from None
        self._wire.keep(_bytes(letter), b"taken by the broker")

    async def answer(self, body: bytes, **fields: Any) -> Letter:
        """The answer to a letter.

        Raises:
            Failed: none came.
        """
        await self.send(body, **fields)
        [letter] = await self.answers(1)
        return letter

    async def answers(self, count: int) -> list[Letter]:
        got: list[Letter] = []
        try:
            async with asyncio.timeout(WAIT):
                while len(got) < count:
                    got.append(await self._answers.get())
                    self._wire.keep(b"", _bytes(got[-1]))
        except TimeoutError:
            raise Failed(f"{len(got)} of {count} answers came within {WAIT:g} seconds") from None
        return got

    async def close(self) -> None:
        await self._connection.close()


def _bytes(letter: Letter) -> bytes:
    """A letter as evidence: its properties, then its payload."""
    said = {name: value for name, value in msgspec.structs.asdict(letter).items() if value and name != "body"}
    return (
        "".join(f"{name}: {value!r}\n" for name, value in said.items()).encode() + b"\n" + shown(letter.body).encode()
    )


def read(letter: Letter) -> Message:
    try:
        return amqp.decode(letter)
    except BadInput as wrong:
        raise Failed(f"the answer is not an NLIP message ({wrong})") from None


def body(**more: Any) -> bytes:
    return json.dumps({**HELLO, **more}).encode()


SUITE: Final[Suite[AmqpTarget]] = Suite("amqp")
check = SUITE.check
DRAFT: Final = "ECMA-433 draft"


@check("AMQP-0", DRAFT, "must", "one NLIP message in one AMQP message is answered")
async def _answered(target: AmqpTarget) -> None:
    read(await target.answer(body(), content_type=amqp.JSON))


@check("AMQP-1", DRAFT, "must", "a user-id that is not the sender's is not taken as the originator")
async def _originator(target: AmqpTarget) -> None:
    """The first intermediary checks it; where that lets it pass, the agent must refuse, or say an error."""
    await target.answer(body(), content_type=amqp.JSON)  # so that no answer to the next one means something
    try:
        letter = await target.answer(body(), content_type=amqp.JSON, user_id="sabir-check-of-nobody")
    except (Failed, PeerError):  # returned, put aside, or the broker has hung up
        return
    demand(read(letter).is_error, "it is answered as if it came from there")


@check("AMQP-2", DRAFT, "must", "the answer names the place that it goes to, in to")
async def _named(target: AmqpTarget) -> None:
    demand((await target.answer(body(), content_type=amqp.JSON)).to, "the answer has no to")


@check("AMQP-3-none", DRAFT, "must", "without reply-to there is no answer, and the next question is answered")
async def _no_reply_to(target: AmqpTarget) -> None:
    await target.send(body(content="silent"), content_type=amqp.JSON, reply_to="", correlation_id="silent")
    letter = await target.answer(body(), content_type=amqp.JSON, correlation_id="loud")
    demand(letter.correlation_id == "loud", f"an answer came for {letter.correlation_id!r}")


@check("AMQP-5-not", DRAFT, "should", "a content-type that lies about the data is refused")
async def _lie(target: AmqpTarget) -> None:
    for data, kind in ((body(), amqp.CBOR), (cbor2.dumps(HELLO), amqp.JSON)):
        try:
            letter = await target.answer(data, content_type=kind)
        except Failed:  # rejected without a word
            continue
        demand(read(letter).is_error, f"data that are not {kind} are answered as if they were")


@check("AMQP-3", DRAFT, "must", "the answer goes to reply-to, and says so in to")
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


@check("AMQP-5-json", DRAFT, "must", "JSON is answered in JSON, and said so in content-type")
async def _json(target: AmqpTarget) -> None:
    letter = await target.answer(body(), content_type="application/json; charset=utf-8")
    demand(letter.content_type.startswith(amqp.JSON), f"content-type is {letter.content_type!r}")
    read(letter)


@check("AMQP-5-cbor", DRAFT, "must", "CBOR with raw bytes is answered in CBOR, and said so in content-type")
async def _cbor(target: AmqpTarget) -> None:
    sent = cbor2.dumps({"format": "binary", "subformat": "image/jpeg", "content": b"\xff\xd8"})
    letter = await target.answer(sent, content_type=amqp.CBOR)
    demand(letter.content_type == amqp.CBOR, f"content-type is {letter.content_type!r}")
    read(letter)


@check("AMQP-6", DRAFT, "must", "application properties that are not NLIP's are ignored")
async def _properties(target: AmqpTarget) -> None:
    read(await target.answer(body(), content_type=amqp.JSON, properties={"x-trace": "1"}))


@check("AMQP-7", DRAFT, "should", "nlip-reply-<content-type> gives one answer in each asked type, at its own place")
async def _fan_out(target: AmqpTarget) -> None:
    machine, audit = await target.other_place(), await target.other_place()
    wishes = {"nlip-reply-application/json": machine, "nlip-reply-application/cbor": audit}
    await target.send(body(), content_type=amqp.JSON, properties=wishes)
    got = {letter.to: letter.content_type for letter in await target.answers(2)}
    demand(got == {machine: amqp.JSON, audit: amqp.CBOR}, f"answers came as {got}")


@check("D-42", "our decision", "ours", "nlip-reply-<format> asks for an answer at a place, too")
async def _by_format(target: AmqpTarget) -> None:
    place = await target.other_place()
    await target.send(body(), content_type=amqp.JSON, properties={"nlip-reply-text": place})
    [letter] = await target.answers(1)
    demand(letter.to == place, f"the answer came to {letter.to!r}")


@check("AMQP-8", DRAFT, "should", "two questions under way are told apart by correlation-id")
async def _two(target: AmqpTarget) -> None:
    for number in ("one", "two"):
        await target.send(body(content=number), content_type=amqp.JSON, correlation_id=number)
    got = sorted(str(letter.correlation_id) for letter in await target.answers(2))
    demand(got == ["one", "two"], f"answers came for {got}")


@check("CORE-6.2-amqp", "ECMA-430 6.2", "must", "a token comes back unchanged; correlation-id is not the token")
async def _token(target: AmqpTarget) -> None:
    token = {"format": "token", "subformat": "conversation_check", "content": "check-amqp"}
    letter = await target.answer(body(submessages=[token]), content_type=amqp.JSON, correlation_id="r-2")
    demand(any(part.content == "check-amqp" for part in read(letter).tokens), "the token does not come back")


@check("CORE-6.3-amqp", "ECMA-430 6.3", "must", "a control message is answered by a control message")
async def _control(target: AmqpTarget) -> None:
    letter = await target.answer(body(messagetype="control"), content_type=amqp.JSON)
    demand(read(letter).is_control, "the answer is not a control message")


@check("D-41", "our decision", "ours", "without a content-type the first byte tells JSON from CBOR")
async def _no_type(target: AmqpTarget) -> None:
    read(await target.answer(body()))
    read(await target.answer(cbor2.dumps(HELLO)))


@check("D-43", "our decision", "ours", "a string in an amqp-value section is read, too")
async def _value(target: AmqpTarget) -> None:
    read(await target.answer(body(), content_type=amqp.JSON, is_data=False))
