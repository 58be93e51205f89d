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

from ..errors import BadInput, PeerRefused
from ..message import Message
from ..peers.amqp_connection import AmqpConnection, Incoming
from ..wire import amqp
from ..wire.amqp import Letter
from .base import Failed, Suite, Wire, demand

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
        except PeerRefused as refused:
            raise Failed(f"the letter was refused: {refused}") from None

    async def answer(self, body: bytes, **fields: Any) -> Letter:
        """The answer to a letter.

        Raises:
            Failed: none came.
        """
        await self.send(body, **fields)
        [letter] = await self.answers(1)
        self._wire.keep(body, letter.body)
        return letter

    async def answers(self, count: int) -> list[Letter]:
        got: list[Letter] = []
        try:
            async with asyncio.timeout(WAIT):
                while len(got) < count:
                    got.append(await self._answers.get())
        except TimeoutError:
            raise Failed(f"{len(got)} of {count} answers came within {WAIT:g} seconds") from None
        return got

    async def close(self) -> None:
        await self._connection.close()


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
