"""A2A over gRPC: the same operations for the official client and for our peer."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from a2a.client import Client, ClientConfig, ClientFactory
from a2a.client.card_resolver import parse_agent_card
from a2a.types import a2a_pb2 as pb
from a2a.types import a2a_pb2_grpc
from a2a.utils.errors import InvalidParamsError, TaskNotFoundError
from joserfc import jwk, jws

from deadline import DEADLINE
from protocols.a2a.a2a_bench import PNG, Bench, Keys, said, saying, task_of, text_of
from sabir.errors import ConfigError, PeerRefused
from sabir.events import Delta, Question, Reply
from sabir.gateway.gateway import Gateway
from sabir.guard import Authenticator, Credentials, Rights, Rule
from sabir.guard.identity.dpop import Dpop
from sabir.message import Message, Part, binary_part, json_part, text_part
from sabir.protocols.a2a.door.handler import Operations
from sabir.protocols.a2a.peer.peer import A2aPeer
from sabir.protocols.peer import Identity
from sabir.stores.memory import MemoryStore
from sabir.turn import Caller, Conversation, Turn

grpc = pytest.importorskip("grpc")


@pytest.fixture
def url(serve, bench: Bench, home: Path) -> str:
    doors = {"a2a": {"grpc": {"port": 0, "listed": True}}}
    return serve(Gateway(*bench.agents(), home=home, identity=Authenticator((Keys(),)), doors=doors)).url


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
    item_id = (await anext(stream)).task.id
    assert await asyncio.to_thread(bench.gate.entered.wait, DEADLINE)
    assert (await slow.cancel_task(pb.CancelTaskRequest(id=item_id))).status.state == pb.TASK_STATE_CANCELED
    await stream.aclose()


async def test_a_defect_shows_nothing(
    connect, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fails(self: object, *_: object) -> None:
        raise RuntimeError("the password is hunter2")

    async def fails_later(self: object, *_: object) -> AsyncIterator[object]:
        raise RuntimeError("the password is hunter2")
        yield

    client = await connect("echo")
    monkeypatch.setattr(Operations, "on_get_task", fails)
    monkeypatch.setattr(Operations, "on_message_send_stream", fails_later)
    for asking in (lambda: client.get_task(pb.GetTaskRequest(id="x")), lambda: said(client, saying("hello"))):
        with pytest.raises(Exception, match=r"Internal error|something here failed") as refused:
            await asking()
        assert "hunter2" not in str(refused.value)
    assert [record.exc_info is not None for record in caplog.records if record.name == "sabir"] == [True, True]


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


async def test_the_caller_is_known(serve, home: Path) -> None:
    rights, doors = Rights((Rule(("known",)),)), {"a2a": {"grpc": {"port": 0, "listed": True}}}
    url = serve(
        Gateway(*Bench().agents(), home=home, rights=rights, identity=Authenticator((Keys(),)), doors=doors)
    ).url
    async with A2aPeer(f"{url}/a2a/echo", bindings=("GRPC",)) as nobody:
        with pytest.raises(PeerRefused) as refused:
            await nobody.ask("hi")
        assert refused.value.status == 401
    async with A2aPeer(f"{url}/a2a/echo", bindings=("GRPC",), identities=(Identity(url, "Bearer alice"),)) as alice:
        assert (await alice.ask("hi")).text == "hi"


PROVER = jwk.ECKey.generate_key("P-256")


class Bound:
    """Knows whoever proves to hold the key that their token is bound to (RFC 9449)."""

    challenge = "DPoP"

    def __init__(self, store: MemoryStore) -> None:
        self._dpop = Dpop(store)

    async def verify(self, credentials: Credentials, tokens: tuple[Part, ...]) -> Caller | None:
        token = credentials.scheme("dpop")
        if token is None:
            return None
        await self._dpop.check(credentials, token, PROVER.thumbprint())
        return Caller(id="alice", kind="subject")


def proof(url: str, item_id: str, method: str = "POST") -> str:
    ath = base64.urlsafe_b64encode(hashlib.sha256(b"token").digest()).rstrip(b"=").decode()
    said = {"htm": method, "htu": url, "iat": int(time.time()), "jti": item_id, "ath": ath}
    head = {"alg": "ES256", "typ": "dpop+jwt", "jwk": PROVER.as_dict(private=False)}
    return jws.serialize_compact(head, json.dumps(said), PROVER, ["ES256"])


async def test_a_call_is_proven_by_dpop_for_its_method_and_address(serve, home: Path, http) -> None:
    store = MemoryStore()
    await store.open()
    known, doors = Authenticator((Bound(store),)), {"a2a": {"grpc": {"port": 0, "listed": True}}}
    rights = Rights((Rule(("known",)),))
    url = serve(Gateway(*Bench().agents(), home=home, rights=rights, identity=known, doors=doors)).url
    card_place = f"{url}/a2a/echo/.well-known/agent-card.json"
    shown = {"authorization": "DPoP token", "dpop": proof(card_place, "0", "GET")}
    card = (await http.get(card_place, headers=shown)).json()
    place = next(item["url"] for item in card["supportedInterfaces"] if item["protocolBinding"] == "GRPC")
    method = "/lf.a2a.v1.A2AService/SendMessage"
    request = saying("hi")
    request.tenant = "echo"

    async def present(dpop: str) -> str:
        async with grpc.aio.insecure_channel(place) as channel:
            stub = a2a_pb2_grpc.A2AServiceStub(channel)
            shown = (("authorization", "DPoP token"), ("dpop", dpop), ("a2a-version", "1.0"))
            try:
                return text_of((await stub.SendMessage(request, metadata=shown)).task)
            except grpc.aio.AioRpcError as exc:
                return exc.code().name

    good = proof(f"http://{place}{method}", "1")
    assert await present(good) == "hi"
    assert await present(good) == "UNAUTHENTICATED"  # it is good once
    assert await present(proof(f"http://{place}/lf.a2a.v1.A2AService/GetTask", "2")) == "UNAUTHENTICATED"
    assert await present(proof(f"http://elsewhere.example{method}", "3")) == "UNAUTHENTICATED"


async def test_a_client_of_0_3_speaks_to_the_default_agent(url: str, http) -> None:
    """From the card that has nothing newer, as the SDK's own layer for 0.3 reads it."""
    card = parse_agent_card((await http.get(f"{url}/.well-known/agent-card.json")).json())
    old = [i for i in card.supported_interfaces if (i.protocol_binding, i.protocol_version) == ("GRPC", "0.3")]
    del card.supported_interfaces[:]
    card.supported_interfaces.extend(old)
    config = ClientConfig(
        httpx_client=http, grpc_channel_factory=grpc.aio.insecure_channel, supported_protocol_bindings=["GRPC"]
    )
    client = ClientFactory(config).create(card)
    task = await task_of(client, saying("hello"))
    assert (text_of(task), task.status.state) == ("hello", pb.TASK_STATE_COMPLETED)
    assert (await client.get_task(pb.GetTaskRequest(id=task.id))).status.state == pb.TASK_STATE_COMPLETED
    with pytest.raises(TaskNotFoundError):
        await client.get_task(pb.GetTaskRequest(id="nope"))
    await client.close()
    others = (await http.get(f"{url}/a2a/pieces/.well-known/agent-card.json")).json()["supportedInterfaces"]
    assert not [i for i in others if (i["protocolBinding"], i["protocolVersion"]) == ("GRPC", "0.3")]


async def test_the_card_says_where_clients_reach_it(serve, home: Path, http) -> None:
    doors = {"a2a": {"grpc": {"port": 0, "address": "agents.example:443", "listed": True}}}
    url = serve(Gateway(*Bench().agents(), home=home, doors=doors)).url
    body = (await http.get(f"{url}/.well-known/agent-card.json")).json()["supportedInterfaces"]
    assert {i["url"] for i in body if i["protocolBinding"] == "GRPC"} == {"agents.example:443"}


async def test_in_the_clear_only_on_the_loopback(home: Path) -> None:
    with pytest.raises(ConfigError, match="in the clear only on the loopback"):
        Gateway(*Bench().agents(), home=home, doors={"a2a": {"grpc": {"host": "0.0.0.0", "port": 0}}})
    with pytest.raises(ConfigError, match=r"doors\.a2a\.grpc: the required key port is missing"):
        Gateway(*Bench().agents(), home=home, doors={"a2a": {"grpc": {}}})
