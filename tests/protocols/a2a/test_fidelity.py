"""What A2A clients and agents say to each other through the gateway, unchanged, over every binding (issue 11, E 19)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

import httpx
import pytest
from a2a.client import Client, ClientCallContext, ClientConfig, ClientFactory
from a2a.types import a2a_pb2 as pb
from a2a.types import a2a_pb2_grpc
from a2a.utils.errors import A2AError
from google.protobuf.json_format import MessageToDict
from google.rpc import error_details_pb2, status_pb2

from protocols.a2a.a2a_bench import Bench, Keys, said, saying, task_of, text_of
from protocols.a2a.a2a_sdk_server import sdk_server
from sabir.agent import agent
from sabir.card import Card, Skill
from sabir.errors import ConfigError
from sabir.gateway.gateway import Gateway
from sabir.guard import Authenticator, Rights, Rule
from sabir.protocols.a2a.peer.peer import A2aPeer
from sabir.turn import Turn

grpc = pytest.importorskip("grpc")

BINDINGS = ["JSONRPC", "HTTP+JSON", "GRPC"]


@pytest.fixture(params=BINDINGS)
def binding(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def url(serve, bench: Bench, home) -> Iterator[str]:
    with sdk_server() as (far, _):
        doors = {"a2a": {"grpc": {"port": 0, "listed": True}}}
        agents = [*bench.agents(), A2aPeer(far, name="far")]
        yield serve(Gateway(*agents, home=home, identity=Authenticator((Keys(),)), doors=doors)).url


@pytest.fixture
async def connect(url: str, binding: str) -> AsyncIterator:
    made: list[tuple[Client, httpx.AsyncClient]] = []

    async def to(agent: str, **config) -> Client:
        http = httpx.AsyncClient(trust_env=False, headers={"authorization": "Bearer alice"})
        settings = ClientConfig(
            httpx_client=http,
            grpc_channel_factory=grpc.aio.insecure_channel,
            supported_protocol_bindings=[binding],
            **config,
        )
        client = await ClientFactory(settings).create_from_url(f"{url}/a2a/{agent}")
        made.append((client, http))
        return client

    yield to
    for client, http in made:
        if binding == "GRPC":
            await client.close()
        await http.aclose()


def states(responses: list[pb.StreamResponse]) -> list[int]:
    found = [r.task.status.state if r.HasField("task") else r.status_update.status.state for r in responses]
    return [state for state in found if state]


# -- parts, messages and artifacts ---------------------------------------------------------------


async def test_media_types_metadata_and_extensions_reach_the_agent_and_come_back(connect) -> None:
    client = await connect("far", streaming=False)
    parts = [
        pb.Part(text="echo", media_type="text/markdown"),
        pb.Part(raw=b"a,b", media_type="text/csv", filename="a.csv"),
        pb.Part(url="https://example.com/a", media_type="application/pdf", filename="a.pdf"),
    ]
    parts[0].metadata.update({"urn:example:part": {"n": 1}})
    request = saying(*parts)
    request.message.extensions.append("urn:example:extension")
    request.message.metadata.update({"urn:example:message": ["x"]})
    (response,) = await said(client, request)
    assert list(response.message.parts) == parts
    assert list(response.message.extensions) == ["urn:example:extension"]
    metadata = MessageToDict(response.message.metadata)
    assert metadata["urn:example:message"] == ["x"]
    assert metadata["extensions asked for"] == ["urn:example:extension"]  # by header, as the specification wants it


@pytest.mark.parametrize("streaming", [True, False])
async def test_artifacts_and_last_words_of_an_agent_stay_apart(connect, streaming: bool) -> None:
    task = await task_of(await connect("far", streaming=streaming), saying("report"))
    report, table = task.artifacts
    assert (report.artifact_id, report.name, report.parts[0].text) == ("a", "Report", "All is well.")
    assert MessageToDict(report.metadata) == {"pages": 1}
    assert (table.artifact_id, list(table.extensions)) == ("b", ["urn:example:table"])
    assert table.parts[0] == pb.Part(raw=b"a,b", media_type="text/csv", filename="a.csv")
    assert [part.text for part in task.status.message.parts] == ["See the table, too."]


async def test_artifacts_stay_apart_in_a_stream(connect) -> None:
    responses = await said(await connect("far"), saying("report"))
    updates = [r.artifact_update for r in responses if r.HasField("artifact_update")]
    assert [(u.artifact.artifact_id, u.append) for u in updates] == [("a", False), ("b", False)]
    assert responses[-1].status_update.status.message.parts[0].text == "See the table, too."


async def test_a_direct_message_of_an_agent_stays_a_message(connect) -> None:
    (response,) = await said(await connect("far", streaming=False), saying("message"))
    assert response.message.parts[0].text == "a message"
    assert response.message.role == pb.ROLE_AGENT


async def test_the_words_of_the_answer_are_in_the_status_too(connect) -> None:
    (response,) = await said(await connect("echo", streaming=False), saying("hello"))
    assert text_of(response.task) == "hello"
    assert [part.text for part in response.task.status.message.parts] == ["hello"]


async def test_an_agent_that_wants_authentication_is_not_taken_for_one_that_wants_input(connect) -> None:
    client = await connect("far", streaming=False)
    (response,) = await said(client, saying("login"))
    assert response.task.status.state == pb.TASK_STATE_AUTH_REQUIRED
    assert response.task.status.message.parts[0].text == "Please log in at the desk."


# -- repeated messages ---------------------------------------------------------------------------


async def test_a_message_repeated_after_its_task_has_ended_gives_the_task_and_nothing_else(connect) -> None:
    client, request = await connect("pieces"), saying("go", item_id=uuid4().hex)
    first = await said(client, request)
    assert states(first)[-1] == pb.TASK_STATE_COMPLETED
    (again,) = await said(client, request)
    assert again.task.status.state == pb.TASK_STATE_COMPLETED
    assert again.task.id == first[0].task.id
    assert text_of(again.task) == "one, two"


@pytest.mark.parametrize("other", ["another text", "the same text in another context"])
async def test_another_message_with_the_same_id_is_another_task(connect, other: str) -> None:
    client, id_ = await connect("echo", streaming=False), uuid4().hex
    (first,) = await said(client, saying("the text", item_id=id_))
    changed = (
        saying("another text", item_id=id_)
        if other == "another text"
        else saying("the text", item_id=id_, context="c" * 30)
    )
    (second,) = await said(client, changed)
    assert second.task.id != first.task.id
    assert text_of(second.task) == changed.message.parts[0].text
    (again,) = await said(client, changed)
    assert again.task.id == second.task.id


async def test_the_same_message_is_new_once_its_task_was_answered_or_cancelled(connect) -> None:
    """The official TCK reuses ids so; a client that has answered a task did get our reply."""
    client, request = await connect("asker", streaming=False), saying("go", item_id=uuid4().hex)
    (first,) = await said(client, request)
    (repeated,) = await said(client, request)
    assert repeated.task.id == first.task.id
    await said(client, saying("red", task=first.task.id))
    (second,) = await said(client, request)
    assert second.task.status.state == pb.TASK_STATE_INPUT_REQUIRED
    assert second.task.id != first.task.id


# -- streams and versions ------------------------------------------------------------------------


async def test_a_subscription_stays_open_while_the_task_waits_for_input(connect) -> None:
    client = await connect("asker")
    waiting = (await said(client, saying("go")))[0].task.id
    stream = client.subscribe(pb.SubscribeToTaskRequest(id=waiting))
    first = await anext(stream)
    assert first.task.status.state == pb.TASK_STATE_INPUT_REQUIRED
    rest = asyncio.create_task(_all(stream))
    await said(client, saying("red", task=waiting))
    assert states(await asyncio.wait_for(rest, 20))[-1] == pb.TASK_STATE_COMPLETED


async def _all(stream: AsyncIterator[pb.StreamResponse]) -> list[pb.StreamResponse]:
    return [response async for response in stream]


async def test_a_version_that_is_not_spoken_is_refused(connect) -> None:
    client = await connect("echo", streaming=False)
    asked = ClientCallContext(service_parameters={"a2a-version": "99.0"})
    with pytest.raises(A2AError, match=r"A2A-Version: expected 1\.0"):
        async for _ in client.send_message(saying("hi"), context=asked):
            pass


# -- cards ---------------------------------------------------------------------------------------


async def test_a_card_can_be_limited_to_interfaces_on_its_own_origin(url: str, http: httpx.AsyncClient) -> None:
    """google-adk rejects a card of which any interface has another origin, and gRPC always has another port."""
    place = f"{url}/.well-known/agent-card.json"
    whole = (await http.get(place)).json()
    assert {i["protocolBinding"] for i in whole["supportedInterfaces"]} == set(BINDINGS)
    for limited in (
        f"{place}?binding=JSONRPC",
        f"{url}/.well-known/agent.json",
        f"{url}/a2a/echo/.well-known/agent.json",
    ):
        card = (await http.get(limited)).json()
        assert {urlsplit(i["url"]).netloc for i in card["supportedInterfaces"]} == {urlsplit(url).netloc}
    raised = await http.get(place, params={"binding": "SOAP"})
    assert raised.status_code == 400
    assert "GRPC, HTTP+JSON, JSONRPC" in raised.text


@pytest.mark.parametrize("path", ["/.well-known/agent-card.json", "/a2a/echo/.well-known/agent-card.json"])
async def test_cards_have_one_origin_until_grpc_is_asked_for(path: str, serve, home, http: httpx.AsyncClient) -> None:
    """With gRPC on, google-adk rejected the card (issue 11, E 19): an interface had another origin."""
    served = serve(Gateway(*Bench().agents(), home=home, doors={"a2a": {"grpc": {"port": 0}}}))
    card = (await http.get(f"{served.url}{path}")).json()
    assert {urlsplit(i["url"]).netloc for i in card["supportedInterfaces"]} == {urlsplit(served.url).netloc}
    asked = (await http.get(f"{served.url}{path}", params={"binding": "GRPC"})).json()
    assert {i["protocolBinding"] for i in asked["supportedInterfaces"]} == {"GRPC"}


OLD_FIELDS = {"url", "preferredTransport", "additionalInterfaces", "protocolVersion"}  # which 1.0 does not have


@pytest.mark.parametrize("path", ["/.well-known/agent-card.json", "/a2a/echo/.well-known/agent.json"])
async def test_cards_have_the_versions_that_are_configured(path: str, serve, home, http: httpx.AsyncClient) -> None:
    found = {}
    for versions in (None, ["1.0"]):
        doors = {"a2a": {"card_versions": versions}} if versions else {}
        served = serve(Gateway(*Bench().agents(), home=home / f"{versions}", doors=doors))
        card = (await http.get(f"{served.url}{path}")).json()
        found[versions is None] = {i["protocolVersion"] for i in card["supportedInterfaces"]}, OLD_FIELDS & card.keys()
    assert found == {True: ({"1.0", "0.3"}, OLD_FIELDS), False: ({"1.0"}, set())}


@pytest.mark.parametrize("versions", [[], ["2.0"]])
def test_versions_of_cards_that_are_not_spoken_are_said_at_start(versions: list[str], home: Path) -> None:
    with pytest.raises(ConfigError, match="card_versions"):
        Gateway(*Bench().agents(), home=home, doors={"a2a": {"card_versions": versions}})


async def test_there_is_no_extended_card_where_nobody_can_authenticate(serve, home, http: httpx.AsyncClient) -> None:
    served = serve(Gateway(*Bench().agents(), home=home, identity=Authenticator()))
    answer = await http.get(f"{served.url}/.well-known/agent-card.json")
    assert not answer.json()["capabilities"].get("extendedAgentCard")
    assert "last-modified" in answer.headers
    refused = await http.get(f"{served.url}/a2a/extendedAgentCard", headers={"a2a-version": "1.0"})
    assert refused.json()["error"]["details"][0]["reason"] == "EXTENDED_AGENT_CARD_NOT_CONFIGURED"


async def test_an_error_over_grpc_has_the_reason_and_the_field(url: str, http: httpx.AsyncClient) -> None:
    card = (await http.get(f"{url}/a2a/echo/.well-known/agent-card.json")).json()
    place = next(i["url"] for i in card["supportedInterfaces"] if i["protocolBinding"] == "GRPC")
    async with grpc.aio.insecure_channel(place) as channel:
        stub = a2a_pb2_grpc.A2AServiceStub(channel)
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            await stub.SendMessage(saying("hi", item_id=""), metadata=(("a2a-version", "99.0"),))
        with pytest.raises(grpc.aio.AioRpcError) as invalid:
            await stub.SendMessage(pb.SendMessageRequest(message=pb.Message(message_id="m", role=pb.ROLE_USER)))
    assert failed.value.code() == grpc.StatusCode.UNIMPLEMENTED
    assert reason_in(failed.value) == "VERSION_NOT_SUPPORTED"
    assert invalid.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert b"$.message.parts" in bytes(dict(invalid.value.trailing_metadata())["grpc-status-details-bin"])


def reason_in(error: grpc.aio.AioRpcError) -> str:
    status, info = status_pb2.Status(), error_details_pb2.ErrorInfo()
    status.ParseFromString(bytes(dict(error.trailing_metadata())["grpc-status-details-bin"]))
    assert status.details[0].Unpack(info)
    return str(info.reason)


# -- rights --------------------------------------------------------------------------------------

TOOLBOX = Card(
    "toolbox",
    "Has tools and skills",
    skills=(
        Skill("mend", "Mend", "Mends things", tool="mend"),
        Skill("break", "Break", "Breaks things", tool="break"),
        Skill("advise", "Advise", "Gives advice"),
        Skill("accuse", "Accuse", "Blames others"),
    ),
)


async def test_cards_name_only_what_the_caller_may_use(serve, home, binding: str) -> None:
    """E18, over every binding: the public card and the extended one."""

    @agent(card=TOOLBOX)
    async def toolbox(turn: Turn) -> str:
        return "done"

    rule = Rule(("known",), tools=("mend",), skills=("mend", "break", "advise"))
    doors = {"a2a": {"grpc": {"port": 0, "listed": True}}}
    known = Authenticator((Keys(),))
    served = serve(Gateway(toolbox, home=home, identity=known, rights=Rights((rule,)), doors=doors))
    async with httpx.AsyncClient(trust_env=False, headers={"authorization": "Bearer alice"}) as http:
        public = (await http.get(f"{served.url}/.well-known/agent-card.json")).json()
        assert [skill["id"] for skill in public["skills"]] == ["mend", "advise"]
        config = ClientConfig(
            httpx_client=http,
            grpc_channel_factory=grpc.aio.insecure_channel,
            supported_protocol_bindings=[binding],
        )
        fetched = {"headers": {"authorization": "Bearer alice"}}
        client = await ClientFactory(config).create_from_url(f"{served.url}/a2a", resolver_http_kwargs=fetched)
        shown = ClientCallContext(service_parameters={"authorization": "Bearer alice"})
        card = await client.get_extended_agent_card(pb.GetExtendedAgentCardRequest(), context=shown)
        assert [skill.id for skill in card.skills] == ["mend", "advise"]
        if binding == "GRPC":
            await client.close()
