"""The AMQP door and peer together, through the real broker: lost connections, identity, order, hops."""

from __future__ import annotations

import asyncio
import shutil
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from deadline import DEADLINE
from free_ports import free_port
from protocols.nlip.amqp.conftest import amqp_gateway, door_of, rabbitmqctl
from sabir.agent import Agent, agent
from sabir.agents.echo import echo
from sabir.errors import ConfigError, PeerRefused, PeerUnavailable, Unavailable
from sabir.gateway.gateway import Gateway
from sabir.message import Message, binary_part
from sabir.protocols.connect import connect
from sabir.protocols.nlip.amqp.connection import AmqpConnection, Incoming
from sabir.protocols.nlip.peer.amqp import NlipAmqpPeer
from sabir.protocols.nlip.wire import amqp
from sabir.protocols.nlip.wire.amqp import CBOR, JSON, AmqpMessage
from sabir.turn import Turn
from tcp_proxy import tcp_proxy
from tcp_server import TcpServer


@pytest.fixture
def seen() -> list[Turn]:
    return []


@pytest.fixture
def noting(seen: list[Turn]) -> Agent:
    @agent(name="noting")
    async def noting(turn: Turn) -> str:
        seen.append(turn)
        return f"noted {turn.text}, after {len(turn.conversation.turns)}"

    return noting


@pytest.mark.parametrize("kind", [JSON, CBOR])
async def test_a_peer_talks_with_the_door_and_keeps_its_conversation(
    home: Path, broker: str, prefix: str, kind: str, noting: Agent, seen: list[Turn]
) -> None:
    address = f"{prefix}-talk"
    async with amqp_gateway(home, broker, address, noting):
        async with connect(f"{broker}/{address}", content_type=kind) as peer:
            assert (await peer.ask("one")).text == "noted one, after 0"
            message = Message.text("two").with_part(binary_part(b"\x00\xff", "image/png"))
            assert (await peer.ask(message)).text == "noted two, after 1"
    assert seen[1].parts[1].content == b"\x00\xff"
    assert seen[0].door == "nlip-amqp"


async def test_answers_find_their_questions_in_any_order(home: Path, broker: str, prefix: str) -> None:  # AMQP-8
    free = asyncio.Event()

    @agent(name="slow", remembers=False)
    async def slow(turn: Turn) -> str:
        if turn.text == "first":
            await free.wait()
        return turn.text

    async with amqp_gateway(home, broker, f"{prefix}-order", slow):
        async with NlipAmqpPeer(f"{broker}/{prefix}-order") as peer:
            first = asyncio.create_task(peer.ask("first"))
            assert (await peer.ask("second")).text == "second"
            assert not first.done()
            free.set()
            assert (await first).text == "first"


async def test_control_is_answered_as_control_over_amqp(home: Path, broker: str, prefix: str) -> None:  # CORE-6.3
    async with amqp_gateway(home, broker, f"{prefix}-control", echo):
        async with NlipAmqpPeer(f"{broker}/{prefix}-control") as peer:
            reply = await peer.control("What are your limits?")
    assert reply.is_control and reply.labelled("limits") is not None


BROKER = ("127.0.0.1", 5672)


def amqp_url(proxy: TcpServer) -> str:
    return f"amqp://guest:guest@127.0.0.1:{proxy.port}"


async def test_an_agent_that_comes_later_has_an_address_too(home: Path, broker: str, prefix: str) -> None:
    address = f"{prefix}-later"
    async with amqp_gateway(home, broker, address, echo) as gateway:

        @agent(name="newcomer", remembers=False)
        async def newcomer(turn: Turn) -> str:
            return "I am new"

        gateway.agents["newcomer"] = newcomer
        await gateway._agents_changed()
        async with connect(f"{broker}/{address}/newcomer") as peer:
            assert (await peer.ask("hello")).text == "I am new"
            del gateway.agents["newcomer"]
            with pytest.raises(PeerRefused, match="there is no agent 'newcomer' here"):
                await peer.ask("hello")


async def test_the_door_comes_back_after_the_connection_was_cut(
    home: Path, broker: str, prefix: str, noting: Agent
) -> None:
    address = f"{prefix}-cut"
    async with tcp_proxy(BROKER) as pipe, amqp_gateway(home, broker, address, noting, url=amqp_url(pipe)) as gateway:
        async with NlipAmqpPeer(f"{broker}/{address}") as peer:
            await peer.ask("before")
            ready = door_of(gateway).ready
            pipe.cut()
            while ready.is_set():
                await asyncio.sleep(0)
            waiting = asyncio.create_task(peer.ask("meanwhile", seconds=20))  # it waits in the queue
            await ready.wait()
            assert (await waiting).text == "noted meanwhile, after 1"


async def test_what_was_under_way_when_the_door_was_cut_off_is_answered_once(
    home: Path, broker: str, prefix: str, seen: list[Turn]
) -> None:
    address = f"{prefix}-half"
    started, free = asyncio.Event(), asyncio.Event()

    @agent(name="held")
    async def held(turn: Turn) -> str:
        seen.append(turn)
        started.set()
        await free.wait()
        return f"done {turn.text}"

    async with tcp_proxy(BROKER) as pipe, amqp_gateway(home, broker, address, held, url=amqp_url(pipe)) as gateway:
        async with NlipAmqpPeer(f"{broker}/{address}") as peer:
            asking = asyncio.create_task(peer.ask("work", seconds=20))
            await started.wait()
            pipe.cut()  # the broker gives the letter out again, under the same message-id
            while door_of(gateway).ready.is_set():
                await asyncio.sleep(0)
            free.set()
            assert (await asking).text == "done work"
    assert len(seen) == 1


async def test_the_peer_connects_again_with_its_next_question(
    home: Path, broker: str, prefix: str, noting: Agent
) -> None:
    address = f"{prefix}-again"
    async with amqp_gateway(home, broker, address, noting), tcp_proxy(BROKER) as pipe:
        async with NlipAmqpPeer(f"{amqp_url(pipe)}/{address}") as peer:
            await peer.ask("one")
            pipe.cut()
            while peer._connection is not None and peer._connection.is_open:
                await asyncio.sleep(0)
            assert (await peer.ask("two")).text == "noted two, after 1"


async def test_a_gateway_that_cannot_answer_now_gives_the_letter_back(home: Path, broker: str, prefix: str) -> None:
    tries = 0

    @agent(name="busy", remembers=False)
    async def busy(turn: Turn) -> str:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise Unavailable("not now")
        return "now"

    async with amqp_gateway(home, broker, f"{prefix}-busy", busy):
        async with NlipAmqpPeer(f"{broker}/{prefix}-busy") as peer:
            assert (await peer.ask("hi", seconds=20)).text == "now"
    assert tries == 2


@pytest.mark.skipif(shutil.which("rabbitmqctl") is None, reason="users are made with rabbitmqctl")
async def test_a_user_id_that_is_not_the_originators_is_rejected(
    home: Path, broker: str, prefix: str, noting: Agent, seen: list[Turn]
) -> None:  # amqp-005
    """An impersonating user may send any user-id through the broker; the door still compares it (AMQP-1)."""
    user, address, dead = f"{prefix}-impersonator", f"{prefix}-id", f"{prefix}-dead"
    rabbitmqctl("add_user", user, "secret")
    rabbitmqctl("set_permissions", user, ".*", ".*", ".*")
    rabbitmqctl("set_user_tags", user, "impersonator")
    terms = f'{{"dead-letter-exchange":"","dead-letter-routing-key":"{dead}","expires":60000}}'
    rabbitmqctl(
        "set_policy", f"{prefix}-dlx", f"^{address}$", terms,
        "--apply-to", "queues", "--priority", "10",
    )  # fmt: skip
    connection = AmqpConnection(broker.replace("guest:guest", f"{user}:secret"))
    rejected: asyncio.Queue[AmqpMessage] = asyncio.Queue()
    answers: asyncio.Queue[AmqpMessage] = asyncio.Queue()

    def put(queue: asyncio.Queue[AmqpMessage], incoming: Incoming) -> None:
        queue.put_nowait(incoming.letter)
        incoming.settle("accepted")

    body = b'{"format":"text","subformat":"english","content":"Hello"}'
    try:
        await connection.open()
        await connection.receive(dead, lambda incoming: put(rejected, incoming))
        await connection.receive(f"{prefix}-id-answers", lambda incoming: put(answers, incoming))
        async with amqp_gateway(home, broker, address, noting, originator="alice"):
            for claimed in ("mallory", "alice"):
                await connection.send(
                    AmqpMessage(body, to=address, reply_to=f"{prefix}-id-answers", user_id=claimed, content_type=JSON)
                )
            gone = await asyncio.wait_for(rejected.get(), DEADLINE)
            replies = [amqp.decode(await asyncio.wait_for(answers.get(), DEADLINE)) for _ in range(2)]
    finally:
        await connection.close()
        rabbitmqctl("delete_user", user)
        rabbitmqctl("clear_policy", f"{prefix}-dlx")
    assert gone.user_id == "mallory"  # rejected, so the broker put it aside
    assert sorted(reply.is_error for reply in replies) == [False, True]
    assert [turn.caller.id for turn in seen] == ["amqp:alice"]  # amqp-006


async def test_the_broker_itself_refuses_a_false_user_id(
    broker: str, prefix: str
) -> None:  # AMQP-1, first intermediary
    connection = AmqpConnection(broker)
    await connection.open()
    with pytest.raises((PeerRefused, PeerUnavailable)):
        await connection.send(AmqpMessage(b"{}", to=f"{prefix}-false", user_id="mallory"))
    await connection.close()


async def test_wrong_credentials_and_missing_brokers_are_reported(broker: str, prefix: str) -> None:
    async with NlipAmqpPeer(f"{broker.replace('guest:guest', 'guest:wrong')}/x") as peer:
        with pytest.raises((PeerRefused, PeerUnavailable)) as refused:
            await peer.ask("hi")
    assert "wrong" not in str(refused.value)
    async with NlipAmqpPeer("amqp://127.0.0.1:1/x") as peer:
        with pytest.raises(PeerUnavailable, match="connection refused"):
            await peer.ask("hi")
    with pytest.raises(ConfigError, match="amqps only"):
        AmqpConnection("amqp://user:password@broker.example/x")
    with pytest.raises(ConfigError, match="the path says"):
        NlipAmqpPeer("amqp://127.0.0.1")


async def test_an_address_without_a_reader_gives_no_answer_in_time(broker: str, prefix: str) -> None:
    async with NlipAmqpPeer(f"{broker}/{prefix}-nobody") as peer:
        with pytest.raises(PeerUnavailable, match="in time"):
            await peer.ask("hi", seconds=0.3)


async def test_the_door_waits_for_a_broker_that_comes_later(home: Path, broker: str, prefix: str) -> None:
    port = free_port()
    address = f"{prefix}-later"
    settings = {"url": f"amqp://guest:guest@127.0.0.1:{port}", "address": address}
    gateway = Gateway(echo, home=home, doors={"nlip-amqp": settings})
    await gateway.start()  # it starts, and says that the broker is not there
    async with AsyncExitStack() as stack:
        stack.push_async_callback(gateway.stop)
        async with tcp_proxy(BROKER, port=port):
            await asyncio.wait_for(door_of(gateway).ready.wait(), DEADLINE)
            async with NlipAmqpPeer(f"{broker}/{address}") as peer:
                assert (await peer.ask("hello")).text == "You said: hello"
            await stack.aclose()


async def test_a_large_letter_is_reported_and_one_far_too_large_is_not_even_kept(
    home: Path, broker: str, prefix: str, noting: Agent, seen: list[Turn]
) -> None:
    address = f"{prefix}-large"
    async with amqp_gateway(home, broker, address, noting):
        async with NlipAmqpPeer(f"{broker}/{address}") as peer:
            with pytest.raises(PeerRefused, match="at most 1048576 bytes"):
                await peer.ask("x" * 1_100_000)
            with pytest.raises(PeerUnavailable, match="in time"):
                await peer.ask("x" * 3_000_000, seconds=3)
            assert (await peer.ask("still there?")).text.startswith("noted still there?")
    assert len(seen) == 1
