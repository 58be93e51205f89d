"""Every amqp vector against the real broker, and every core vector over AMQP, by hand-made letters."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator
from typing import Any

import proton
import pytest
import pytest_asyncio

from deadline import DEADLINE
from protocols.nlip.amqp.conftest import amqp_gateway
from protocols.nlip.test_vectors import SERVED, VECTORS, by_id, check_message, fixture_agent, wire_bytes, with_own
from sabir.gateway.gateway import Gateway
from sabir.guard import Quotas
from sabir.message import Message
from sabir.protocols.nlip.amqp.connection import AmqpConnection, Incoming
from sabir.protocols.nlip.wire import amqp
from sabir.protocols.nlip.wire.amqp import CBOR, JSON, AmqpMessage
from sabir.turn import Caller

AMQP = [v for v in VECTORS if v["binding"] == "amqp"]


class Client:
    """The asking side: sends letters and keeps what comes back, by the address it came to."""

    def __init__(self, connection: AmqpConnection, prefix: str, address: str) -> None:
        self.connection, self.prefix, self.address = connection, prefix, address
        self.places: dict[str, asyncio.Queue[AmqpMessage]] = {}

    async def listen(self, place: str) -> str:
        """The queue that stands for a vector's address."""
        name = f"{self.prefix}-{place}"
        if name not in self.places:
            queue = self.places[name] = asyncio.Queue()

            def put(incoming: Incoming) -> None:
                queue.put_nowait(incoming.letter)
                incoming.settle("accepted")

            await self.connection.receive(name, put)
        return name

    async def next(self, place: str) -> AmqpMessage:
        return await asyncio.wait_for(self.places[f"{self.prefix}-{place}"].get(), DEADLINE)

    def nothing_else_came(self) -> bool:
        return all(queue.empty() for queue in self.places.values())

    async def fence(self) -> None:
        """Ask something plain and wait for it: whatever was to come before has come."""
        await self.listen("fence")
        body = b'{"format":"text","subformat":"english","content":"fence"}'
        reply_to = f"{self.prefix}-fence"
        await self.connection.send(AmqpMessage(body, to=self.address, reply_to=reply_to, content_type=JSON))
        await self.next("fence")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def served(tmp_path_factory: pytest.TempPathFactory, broker: str, prefix: str) -> AsyncIterator[Gateway]:
    home, patient = tmp_path_factory.mktemp("amqp"), Quotas(burst=100_000.0)  # one stranger asks all of this in seconds
    async with amqp_gateway(home, broker, f"{prefix}-srv", fixture_agent, quotas=patient) as gateway:
        yield gateway


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def client(served: Gateway, broker: str, prefix: str) -> AsyncIterator[Client]:
    connection = AmqpConnection(broker, container="vectors")
    await connection.open()
    yield Client(connection, prefix, f"{prefix}-srv")
    await connection.close()


def body_of(given: dict[str, Any]) -> bytes:
    if "data_cbor_hex" in given:
        return bytes.fromhex(given["data_cbor_hex"])
    if "value_section" in given:
        return str(given["value_section"]).encode()
    return json.dumps(given["data_json"]).encode()


@pytest.mark.parametrize("vector", [v for v in AMQP if v["id"] != "amqp-005"], ids=by_id)
@pytest.mark.asyncio(loop_scope="module")
async def test_each_amqp_vector_is_answered_through_the_broker(vector: dict[str, Any], client: Client) -> None:
    given, expect = vector["input"], vector["expect"]
    properties = given["properties"]
    reply_to = await client.listen(properties["reply-to"])
    asked = {key: await client.listen(value) if key.startswith("nlip-reply") else value
             for key, value in given["application_properties"].items()}  # fmt: skip
    letter = AmqpMessage(
        body_of(given),
        to=client.address,
        reply_to=reply_to,
        correlation_id=properties.get("correlation-id"),
        content_type=properties.get("content-type", ""),
        user_id="guest" if properties.get("user-id") else "",  # who this connection is
        properties=asked,
        is_data="value_section" not in given,
    )
    assert expect["accept"]
    check_normalized(amqp.decode(letter), expect.get("normalized", {}))
    if "strict_accept" in expect:
        with pytest.raises(Exception, match="expected"):
            amqp.decode(letter, strict=True)
    await client.connection.send(letter)
    wanted = expect["reply"]
    if "reply_addresses" in wanted:
        for place, kind in wanted["reply_addresses"].items():
            answer = await client.next(place)
            assert answer.content_type == kind
            assert amqp.decode(answer).format == "text"
    else:
        answer = await client.next(properties["reply-to"])
        check_answer(wanted, answer, reply_to)
    await client.fence()
    assert client.nothing_else_came()  # as many answers as were asked for


def check_normalized(message: Message, expected: dict[str, Any]) -> None:
    if "bytes_hex" in expected:
        assert message.content.hex() == expected["bytes_hex"]


def check_answer(wanted: dict[str, Any], answer: AmqpMessage, reply_to: str) -> None:
    reply = amqp.decode(answer)
    for key, value in wanted.items():
        if key != "amqp":
            check_message(key, value, reply)
    seen = {"to": answer.to, "correlation-id": answer.correlation_id, "content-type": answer.content_type}
    expected = dict(wanted.get("amqp", {}))
    if "to" in expected:
        expected["to"] = reply_to
    assert {key: seen[key] for key in expected} == expected


def has_a_cbor_spelling(vector: dict[str, Any]) -> bool:
    """Whether the input is a value; some vectors are about JSON text as such."""
    given = vector["input"]
    return isinstance(given, dict) and vector["expect"]["accept"] and "$gen" not in given and "$hex" not in given


CASES = [
    *(pytest.param(vector, JSON, id=f"{by_id(vector)} json") for vector in SERVED),
    *(pytest.param(vector, CBOR, id=f"{by_id(vector)} cbor") for vector in SERVED if has_a_cbor_spelling(vector)),
]


@pytest.mark.parametrize(("vector", "kind"), CASES)
@pytest.mark.asyncio(loop_scope="module")
async def test_each_core_vector_is_answered_over_amqp(vector: dict[str, Any], kind: str, client: Client) -> None:
    given, expect = vector["input"], vector["expect"]
    own = await own_token(client)
    given, expect = with_own(given, own), with_own(expect, own)
    body = wire_bytes(given) if kind == JSON else cbor_of(given)
    reply_to = await client.listen("core")
    await client.connection.send(
        AmqpMessage(body, to=client.address, reply_to=reply_to, correlation_id="c", content_type=kind)
    )
    answer = await client.next("core")
    assert answer.content_type == kind
    reply = amqp.decode(answer)
    for key, value in expect["reply"].items():
        if key != "status" and not key.startswith("header:"):
            check_message(key, value, reply)


def cbor_of(given: Any) -> bytes:
    import cbor2

    return cbor2.dumps(given)


async def own_token(client: Client) -> str:
    reply_to = await client.listen("own")
    body = b'{"format":"text","subformat":"english","content":"hello"}'
    await client.connection.send(AmqpMessage(body, to=client.address, reply_to=reply_to, content_type=JSON))
    return str(amqp.decode(await client.next("own")).tokens[-1].content)


# -- rows of the binding that no vector shows -------------------------------------------------------

_STRANGER = Caller(address="amqp")
HELLO = b'{"format":"text","subformat":"english","content":"Hello"}'


@pytest.mark.parametrize(
    "correlation",
    ["r-1", uuid.UUID(int=7), proton.ulong(2**63), b"\x00\xff"],
    ids=["string", "uuid", "ulong", "binary"],
)
@pytest.mark.asyncio(loop_scope="module")
async def test_the_correlation_id_comes_back_with_its_type(correlation: Any, client: Client) -> None:  # AMQP-4
    reply_to = await client.listen("types")
    await client.connection.send(
        AmqpMessage(HELLO, to=client.address, reply_to=reply_to, correlation_id=correlation, content_type=JSON)
    )
    answer = await client.next("types")
    assert answer.correlation_id == correlation
    assert isinstance(answer.correlation_id, type(correlation))


@pytest.mark.asyncio(loop_scope="module")
async def test_without_a_reply_to_there_is_no_answer(client: Client, served: Gateway) -> None:  # AMQP-3
    await client.connection.send(AmqpMessage(HELLO, to=client.address, correlation_id="r-9", content_type=JSON))
    await client.fence()
    assert client.nothing_else_came()


@pytest.mark.parametrize(
    ("body", "kind"), [(HELLO, CBOR), (b"\xa0", JSON), (HELLO, "text/html"), (b"{}", JSON)],
    ids=["json as cbor", "cbor as json", "unknown type", "no message"],
)  # fmt: skip
@pytest.mark.asyncio(loop_scope="module")
async def test_a_wrong_content_type_is_reported_and_not_tried_again(
    body: bytes, kind: str, client: Client
) -> None:  # AMQP-5
    reply_to = await client.listen("lies")
    await client.connection.send(
        AmqpMessage(body, to=client.address, reply_to=reply_to, correlation_id="lie", content_type=kind)
    )
    answer = await client.next("lies")
    assert amqp.decode(answer).is_error
    assert answer.correlation_id == "lie"
    await client.fence()
    assert client.nothing_else_came()


@pytest.mark.asyncio(loop_scope="module")
async def test_a_letter_that_comes_again_gets_the_recorded_answer(client: Client, served: Gateway) -> None:
    reply_to = await client.listen("again")
    letter = AmqpMessage(HELLO, to=client.address, reply_to=reply_to, message_id="m-1", content_type=JSON)
    for _ in range(2):
        await client.connection.send(letter)
    one, two = amqp.decode(await client.next("again")), amqp.decode(await client.next("again"))
    assert one.text == two.text
    conversations = {
        served.exchange.conversations.opened(part, _STRANGER) for reply in (one, two) for part in reply.tokens
    }
    (conversation,) = conversations  # it was the same turn
    assert conversation is not None
    assert len(await served.store.turns(conversation, 10)) == 1


@pytest.mark.asyncio(loop_scope="module")
async def test_several_data_sections_are_joined(client: Client) -> None:  # D-43
    from sabir.protocols.nlip.amqp.connection import letter_of

    def section(code: int, value: Any) -> bytes:
        data = proton.Data()
        data.put_object(proton.Described(proton.ulong(code), value))
        return bytes(data.encode())

    raw = section(0x75, HELLO[:10]) + section(0x75, HELLO[10:])
    assert amqp.decode(letter_of(raw)).text == "Hello"
    assert amqp.decode(letter_of(section(0x77, HELLO))).text == "Hello"
    with pytest.raises(ValueError, match="no payload"):
        letter_of(section(0x74, {"a": "b"}))


@pytest.mark.asyncio(loop_scope="module")
async def test_an_agent_has_its_own_address(client: Client) -> None:
    reply_to = await client.listen("named")
    place = f"{client.address}/fixture"
    await client.connection.send(AmqpMessage(HELLO, to=place, reply_to=reply_to, content_type=JSON))
    assert amqp.decode(await client.next("named")).text == "I heard you: Hello"


def test_no_amqp_vector_is_left_out() -> None:
    assert {v["id"] for v in AMQP} >= {"amqp-001", "amqp-005", "amqp-014"}
