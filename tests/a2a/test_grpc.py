"""A2A over gRPC: the same operations for the official client and for our peer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from a2a.client import Client, ClientConfig, ClientFactory
from a2a.types import a2a_pb2 as pb
from a2a.utils.errors import InvalidParamsError, TaskNotFoundError
from a2a_bench import PNG, Bench, Keys, said, saying, task_of, text_of

from sabir.errors import BadSetup, PeerRefused
from sabir.events import Delta, Question, Reply
from sabir.gateway import Gateway
from sabir.guard import Identity, Rights, Rule
from sabir.message import Message, binary_part, json_part, text_part
from sabir.peers.a2a import A2aPeer
from sabir.peers.base import Identity as Own
from sabir.turn import Conversation, Turn

grpc = pytest.importorskip("grpc")


@pytest.fixture
def url(serve, bench: Bench, home: Path) -> str:
    doors = {"a2a": {"grpc": {"port": 0}}}
    return serve(Gateway(*bench.agents(), home=home, identity=Identity((Keys(),)), doors=doors)).url


@pytest.fixture
async def connect(url: str, http) -> AsyncIterator:
    made: list[Client] = []

    async def to(agent: str) -> Client:
        config = ClientConfig(
            httpx_client=http, grpc_channel_factory=grpc.aio.insecure_channel, supported_protocol_bindings=["GRPC"]
        )
        client = await ClientFactory(config).create_from_url(f"{url}/a2a/{agent}")
        made.append(client)
        return client

    yield to
    for client in made:
        await client.close()


async def test_the_official_client_sends_streams_and_gets(connect) -> None:
    task = await task_of(await connect("echo"), saying("hello"))
    assert text_of(task) == "hello"
    *_, last = await said(await connect("pieces"), saying("go"))
    assert last.status_update.status.state == pb.TASK_STATE_COMPLETED


async def test_a_question_is_answered_and_a_task_cancelled(connect, bench: Bench) -> None:
    client = await connect("asker")
    *_, asking = await said(client, saying("paint"))
    assert asking.status_update.status.state == pb.TASK_STATE_INPUT_REQUIRED
    *_, done = await said(client, saying("blue", task=asking.status_update.task_id))
    assert done.status_update.status.state == pb.TASK_STATE_COMPLETED
    slow = await connect("slow")
    stream = slow.send_message(saying("work"))
    id = (await anext(stream)).task.id
    assert await asyncio.to_thread(bench.gate.entered.wait, 10)
    assert (await slow.cancel_task(pb.CancelTaskRequest(id=id))).status.state == pb.TASK_STATE_CANCELED
    await stream.aclose()


async def test_failures_have_the_protocol_s_statuses(connect, url: str) -> None:
    client = await connect("echo")
    with pytest.raises(TaskNotFoundError):
        await client.get_task(pb.GetTaskRequest(id="nope"))
    with pytest.raises(InvalidParamsError, match="at least one part"):
        await said(client, pb.SendMessageRequest(message=pb.Message(message_id="1", role=pb.ROLE_USER)))
    with pytest.raises(TaskNotFoundError, match="no agent"):
        await client._transport._base.get_task(pb.GetTaskRequest(id="x", tenant="nobody"))


async def test_our_peer_speaks_it(url: str) -> None:
    sent = Message.of(text_part("oui", "french"), binary_part(PNG, "image/png"), json_part({"id": 2**60}))
    async with A2aPeer(f"{url}/a2a/echo", bindings=("GRPC",)) as peer:
        assert await peer.ask(sent) == sent
    async with A2aPeer(f"{url}/a2a/pieces", bindings=("GRPC",)) as peer:
        events = [event async for event in peer.stream("go")]
        assert [e.part.content for e in events if isinstance(e, Delta)][:2] == ["one, ", "two"]
        assert isinstance(events[-1], Reply)
    async with A2aPeer(f"{url}/a2a/asker", bindings=("GRPC",)) as peer:

        async def answer(question: Question) -> Message:
            return Message.text("red")

        turn = Turn(Message.text("paint"), Conversation("c"), ask_back=answer)
        *_, last = [event async for event in peer(turn)]
        assert last == Reply(Message.text("You chose red."))


async def test_who_asks_is_known(serve, home: Path) -> None:
    rights, doors = Rights((Rule(("known",)),)), {"a2a": {"grpc": {"port": 0}}}
    url = serve(Gateway(*Bench().agents(), home=home, rights=rights, identity=Identity((Keys(),)), doors=doors)).url
    async with A2aPeer(f"{url}/a2a/echo", bindings=("GRPC",)) as nobody:
        with pytest.raises(PeerRefused) as refused:
            await nobody.ask("hi")
        assert refused.value.status == 401
    async with A2aPeer(f"{url}/a2a/echo", bindings=("GRPC",), identities=(Own(url, "Bearer alice"),)) as alice:
        assert (await alice.ask("hi")).text == "hi"


async def test_in_the_clear_only_on_the_loopback(home: Path) -> None:
    with pytest.raises(BadSetup, match="in the clear only on the loopback"):
        Gateway(*Bench().agents(), home=home, doors={"a2a": {"grpc": {"host": "0.0.0.0", "port": 0}}})
    with pytest.raises(BadSetup, match=r"doors\.a2a\.grpc: .*`port`"):
        Gateway(*Bench().agents(), home=home, doors={"a2a": {"grpc": {}}})
