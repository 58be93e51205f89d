"""The AMQP door, through a real broker: authentication, ownership, limits and errors."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from uuid import uuid4

import pytest

from deadline import DEADLINE
from protocols.nlip.amqp.conftest import door_of
from sabir import Turn, agent
from sabir.errors import PeerRefused
from sabir.gateway.gateway import Gateway
from sabir.guard.build import GuardSettings, IdentitySettings
from sabir.guard.egress.credentials import OutgoingCredentials, Service
from sabir.guard.quotas.rates import Quotas
from sabir.guard.rights import Rule
from sabir.message import Message
from sabir.protocols.nlip.peer.amqp import NlipAmqpPeer
from sabir.protocols.nlip.wire.amqp import AmqpMessage
from suites.security.attackers import JSON, add_key, say, token
from suites.security.letter_writer import Client
from tcp_proxy import tcp_proxy

from .conftest import PLANTED, RULES, endless, leaky, memory, vault


def conversation(answer: JSON) -> JSON:
    return next(part for part in answer["submessages"] if part["subformat"].startswith("conversation"))


@asynccontextmanager
async def gateway(home: Path, broker: str, address: str, settings: GuardSettings) -> AsyncIterator[Gateway]:
    doors = {"nlip-amqp": {"url": broker, "address": address}}
    made = Gateway(memory, vault, leaky, endless, who, home=home, guard=settings, doors=doors)
    await made.start()
    try:
        await asyncio.wait_for(door_of(made).ready.wait(), DEADLINE)
        yield made
    finally:
        await made.stop()


@agent(description="Says who asks")
async def who(turn: Turn) -> str:
    return f"{turn.caller.kind} {turn.caller.name}"


HOUSE = GuardSettings(rights=(*RULES, Rule(("anonymous",), agents=("who",))))


@pytest.fixture
def address(prefix: str) -> str:
    return f"{prefix}-{uuid4().hex[:8]}"


async def test_a_key_in_the_message_authenticates_its_sender_and_a_wrong_one_is_rejected(
    home: Path, broker: str, address: str
) -> None:
    async with gateway(home, broker, address, HOUSE), Client(broker, address) as client:
        key = await asyncio.to_thread(add_key, home, "alice", "staff")
        assert (await client.ask(say("?"), "who"))["content"] == "anonymous "
        assert (await client.ask(say("?", token(key, "authentication")), "who"))["content"] == "key alice"
        opened = await client.ask(say("open", token(key, "authentication")), "vault")
        assert opened["content"] == "the vault is open"
        for raised in ("sbk_000000000000_wrong", key[:-4], f"{key}x"):
            refused = await client.ask(say("open", token(raised, "authentication")), "vault")
            assert "vault is open" not in refused["content"] and "not known here" in refused["content"]
        assert "vault is open" not in (await client.ask(say("open"), "vault"))["content"]


async def test_this_door_rejects_anonymous_callers_where_anonymous_access_is_disabled(
    home: Path, broker: str, address: str
) -> None:
    settings = GuardSettings(IdentitySettings(anonymous=False))
    async with gateway(home, broker, address, settings), Client(broker, address) as client:
        refused = await client.ask(say("hello"), "who")
        assert refused["messagetype"] in ("control", "error") and "anonymous" not in refused["content"]
        known = await client.ask(say("hello"), "who", user_id="guest")  # the broker has checked it
        assert known["content"] == "subject guest"


async def test_a_conversation_opens_for_its_caller_only(home: Path, broker: str, address: str) -> None:
    async with gateway(home, broker, address, HOUSE), Client(broker, address) as client:
        keys = [await asyncio.to_thread(add_key, home, name) for name in ("alice", "mallory")]
        alice, mallory = (token(key, "authentication") for key in keys)
        mine = conversation(await client.ask(say("my diagnosis is gout", alice)))
        assert "gout" in (await client.ask(say("and?", alice, mine)))["content"]
        for thief in ((mallory,), ()):
            assert "gout" not in json.dumps(await client.ask(say("and?", *thief, mine)))
        # Nor by the broker's own name for another caller.
        assert "gout" not in json.dumps(await client.ask(say("and?", mine), user_id="guest"))
        bent = {**mine, "content": mine["content"][:-6] + "AAAAAA"}
        assert "gout" not in json.dumps(await client.ask(say("and?", alice, bent)))


async def test_a_letter_again_is_answered_once_and_strangers_with_its_id_get_nothing_of_it(
    home: Path, broker: str, address: str
) -> None:
    async with gateway(home, broker, address, HOUSE), Client(broker, address) as one, Client(broker, address) as other:
        first = await one.ask(say("mine alone"), "memory", message_id="same")
        again = await one.ask(say("mine alone"), "memory", message_id="same")
        assert again["content"] == first["content"]
        stolen = await other.ask(say("mine alone"), "memory", message_id="same")
        assert conversation(stolen) != conversation(first)


@pytest.mark.parametrize(
    "body",
    [
        b"", b"\xff\xfe", b"[" * 100_000, b'{"format":"text"', b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
        b'{"format":"text","subformat":"english","content":"x","format":"token"}', b"{}" * 10,
    ],
    ids=["empty", "bytes", "depth", "cut", "nested", "twice", "two"],
)  # fmt: skip
async def test_nonsense_is_refused_in_words_and_the_next_letter_is_answered(
    home: Path, broker: str, address: str, body: bytes
) -> None:
    async with gateway(home, broker, address, HOUSE), Client(broker, address) as client:
        await client.write(body)
        refused = await client.answer()
        assert refused["messagetype"] == "error"
        assert "Traceback" not in refused["content"] and "Recursion" not in refused["content"]
        assert (await client.ask(say("?"), "who"))["content"] == "anonymous "


async def test_a_flood_is_turned_away_and_others_are_still_answered(home: Path, broker: str, address: str) -> None:
    settings = GuardSettings(quotas=Quotas(rate_per_caller=0.01, rate_per_address=0.01, burst=10.0))
    async with gateway(home, broker, address, settings), Client(broker, address) as client:
        answers = [await client.ask(say(f"{n}"), "who", user_id="guest") for n in range(30)]
        refused = [answer for answer in answers if answer.get("messagetype") == "error"]
        assert len(refused) >= 15
        assert (await client.ask(say("me, too"), "who"))["content"] == "anonymous "


async def test_an_anonymous_flood_leaves_some_rate_for_others_and_all_of_it_for_named_callers(
    home: Path, broker: str, address: str
) -> None:
    settings = GuardSettings(quotas=Quotas(rate_per_caller=0.01, rate_per_address=0.01, burst=10.0))
    async with (
        gateway(home, broker, address, settings),
        Client(broker, address) as flood,
        Client(broker, address) as other,
    ):
        answers = [await flood.ask(say(f"{n}"), "who") for n in range(30)]
        said = [answer["content"] for answer in answers]
        assert said[:10] == ["anonymous "] * 10 and set(said[12:]) == {"too many requests; slow down"}
        assert (await other.ask(say("me, too"), "who"))["content"] == "anonymous "
        assert (await flood.ask(say("and as myself"), "who", user_id="guest"))["content"] == "subject guest"


async def test_a_made_up_place_for_each_answer_gains_a_flood_nothing(home: Path, broker: str, address: str) -> None:
    asked: list[str] = []

    @agent(description="Counts", remembers=False)
    async def counting(turn: Turn) -> str:
        asked.append(turn.text)
        return "one more"

    quotas = Quotas(rate_per_caller=0.01, rate_per_address=0.01, burst=20.0)
    doors = {"nlip-amqp": {"url": broker, "address": address}}
    made = Gateway(counting, home=home, guard=GuardSettings(quotas=quotas), doors=doors)
    await made.start()
    try:
        await asyncio.wait_for(door_of(made).ready.wait(), DEADLINE)
        async with Client(broker, address) as client:
            for n in range(60):
                nowhere = AmqpMessage(
                    json.dumps(say(f"{n}")).encode(), to=address, reply_to=f"{address}-made-up-{n % 40}"
                )
                await client.connection.send(nowhere)
            assert (await client.ask(say("last"), user_id="guest"))["content"] == "one more"
    finally:
        await made.stop()
    assert "last" in asked and 10 <= len(asked) <= 41  # of the strangers no more than they have together


async def test_a_user_id_counts_only_where_the_broker_checks_it(home: Path, broker: str, address: str) -> None:
    """RabbitMQ does. Of one that says it is something else nobody knows, and anybody could write any name there."""
    for url, said, known in (
        (broker, {}, "subject guest"),
        (broker, {"user_ids": False}, "anonymous "),
        ("", {}, "anonymous "),
        ("", {"user_ids": True}, "subject guest"),
    ):

        @agent(name=f"who-{uuid4().hex[:8]}", description="Says who asks")
        async def asked(turn: Turn) -> str:
            return f"{turn.caller.kind} {turn.caller.name}"

        async with AsyncExitStack() as stack:
            url = url or await stack.enter_async_context(by_another_name(broker))
            # A place that is spelt the same whatever the broker is called.
            doors = {"nlip-amqp": {"url": url, "address": "/exchange/amq.topic", **said}}
            made = Gateway(asked, home=home, doors=doors)
            await made.start()
            stack.push_async_callback(made.stop)
            await asyncio.wait_for(door_of(made).ready.wait(), DEADLINE)
            client = Client(broker, "/exchange/amq.topic")
            client.place = f"{address}-answers"
            await stack.enter_async_context(client)
            assert (await client.ask(say("?"), asked.card.name, user_id="guest"))["content"] == known


@asynccontextmanager
async def by_another_name(broker: str) -> AsyncIterator[str]:
    """The same broker, which says that it is another product."""
    host, _, port = broker.rpartition("@")[2].partition(":")

    def rename(data: bytes, connection: int) -> bytes:
        return data.replace(b"RabbitMQ", b"HareMail")

    async with tcp_proxy((host, int(port or 5672)), to_server=rename, to_client=rename) as proxy:
        yield f"amqp://guest:guest@127.0.0.1:{proxy.port}"


async def test_callers_named_by_the_broker_are_not_exempt_from_limits(home: Path, broker: str, address: str) -> None:
    """The loopback is; a letter has no address, and must not be taken for one from there."""
    async with gateway(home, broker, address, GuardSettings()) as made, Client(broker, address) as client:
        assert (await client.ask(say("?"), "who", user_id="guest"))["content"] == "subject guest"
        assert "amqp:guest" in made.exchange.guard.rates._callers._levels  # it has an account, and this is on it


async def test_a_door_named_as_the_place_for_answers_does_not_talk_to_itself(
    home: Path, broker: str, address: str
) -> None:
    """Cost amplification and loops: each answer would be a question again, eight at a time."""
    asked: list[str] = []

    @agent(description="Counts")
    async def counting(turn: Turn) -> str:
        asked.append(turn.text)
        return "and again"

    doors = {"nlip-amqp": {"url": broker, "address": address}}
    made = Gateway(counting, home=home, doors=doors)
    await made.start()
    try:
        await asyncio.wait_for(door_of(made).ready.wait(), DEADLINE)
        async with Client(broker, address) as client:
            places = {f"nlip-reply-{kind}": address for kind in ("text", "structured", "binary", "location", "generic")}
            letter = AmqpMessage(json.dumps(say("loop")).encode(), to=address, properties=places)
            await client.connection.send(letter)
            for n in range(5):  # each is read behind what the loop would have put there
                assert (await client.ask(say(f"after {n}")))["content"] == "and again"
    finally:
        await made.stop()
    assert sorted(asked) == sorted(["loop", *(f"after {n}" for n in range(5))])


async def test_a_failing_agent_shows_nothing_of_why_and_what_was_said_is_not_logged(
    home: Path, broker: str, address: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "sabir")
    said, carried = "PLANTED-IN-CONTENT", "PLANTED-IN-TOKEN"
    async with gateway(home, broker, address, HOUSE), Client(broker, address) as client:
        failed = await client.ask(say("go"), "leaky")
        assert PLANTED not in json.dumps(failed) and "RuntimeError" not in json.dumps(failed)
        await client.ask(say(said, token(carried, "authentication")), "memory")
        await client.write(f'{{"format": "{said}", "content": "{carried}"'.encode())
        assert said not in (await client.answer())["content"]
    ours = "\n".join(record.getMessage() for record in caplog.records)
    for planted in (said, carried, "guest:guest"):
        assert planted not in ours


async def test_our_peer_shows_each_caller_in_the_message_and_keeps_nothing_of_it(
    home: Path, broker: str, address: str
) -> None:
    """Token passthrough: the identity of the call, not of the caller; and never on the next one's message."""
    async with gateway(home, broker, address, HOUSE):
        key = await asyncio.to_thread(add_key, home, "front gateway")
        peer = NlipAmqpPeer(f"{broker}/{address}/who")
        peer.outgoing = OutgoingCredentials([Service(f"{broker.replace('guest:guest@', '')}", token=key)])
        async with peer:
            turn = Turn(Message.text("?"), agent="front")
            events = [event async for event in peer(turn)]
            assert events[-1].message.text == "key front gateway"  # type: ignore[union-attr]
            peer.outgoing = None
            assert (await peer.ask("?")).text == "anonymous "
            assert key not in json.dumps(peer.tokens(turn.conversation.id).export())
            peer.outgoing = OutgoingCredentials(
                [Service(f"{broker.replace('guest:guest@', '')}", token="sbk_000000000000_no")]
            )
            with pytest.raises(PeerRefused, match="not known here"):
                _ = [event async for event in peer(Turn(Message.text("?"), agent="front"))]
