"""A gateway lists the agents of another as its own: by every protocol, over real sockets."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest
from mcp import Client
from mcp.shared.subscriptions import ToolsListChanged

from conftest import Serve, Served, serving
from deadline import DEADLINE
from sabir.agent import FunctionAgent, agent
from sabir.agents.group import AgentGroup
from sabir.card import Card, Policy, Skill
from sabir.config.build import gateway_of
from sabir.config.load import settings_of
from sabir.errors import ConfigError
from sabir.events import Field, Progress, Question
from sabir.federation.gateways import RemoteGateway
from sabir.gateway.gateway import Gateway
from sabir.guard import Authenticator, Credentials, Quotas
from sabir.guard.build import GuardSettings, IdentitySettings
from sabir.guard.egress.credentials import Service
from sabir.guard.rights import Rule
from sabir.message import Message, Part, json_part
from sabir.protocols.nlip.wire import json as nlip
from sabir.turn import Caller, Turn

PROTOCOLS = ("nlip", "a2a", "nlweb", "mcp", "auto")
SIZE = {"type": "object", "properties": {"size": {"type": "integer"}}, "required": ["size"]}


def agents() -> list[FunctionAgent]:
    @agent(description="Says it back")
    async def echo(turn: Turn) -> str:
        return f"You said: {turn.text}"

    @agent(description="Counts the turns of a conversation")
    async def counter(turn: Turn) -> str:
        return f"turn {len(turn.conversation.turns) + 1}"

    @agent(description="Asks which colour")
    async def asker(turn: Turn) -> str:
        colour = Field("colour", "Colour", "single_select", ("red", "blue"))
        answer = await turn.ask(Question("Which colour?", (colour,), id="q1"))
        given = next((p.value for p in answer.parts if p.label == "answer" and isinstance(p.value, dict)), {})
        return f"You chose {given.get('colour') or answer.text}."

    @agent(description="Answers in pieces")
    async def pieces(turn: Turn) -> AsyncIterator[Any]:
        yield "one, "
        yield Progress(0.5, "half way")
        yield "two"

    skills = (Skill("double", "Double", "Doubles a size", input_schema=SIZE),)

    @agent(card=Card("surveyor", "Measures herons", skills=skills))
    async def surveyor(turn: Turn) -> Message:
        given = next((part for part in turn.parts if part.label == "double"), None)
        return Message.json({"twice": 2 * given.value["size"]}) if given is not None else Message.text("Measured.")

    return [echo, counter, asker, pieces, surveyor]


@agent(description="Here")
async def local(turn: Turn) -> str:
    return "I am here"


def until(holds: Callable[[], bool], seconds: float = DEADLINE) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it did not come to be in time"
        time.sleep(0.01)


async def ask(url: str, name: str, said: str | Message, tokens: tuple[Any, ...] = ()) -> Message:
    """Over NLIP, the answer whatever its status."""
    message = (Message.text(said) if isinstance(said, str) else said).with_parts(tokens)
    async with httpx2.AsyncClient(trust_env=False) as http:
        answer = await http.post(f"{url}/nlip/{name}", content=nlip.encode(message))
    return nlip.decode(answer.content)


def near_of(home: Path, far: Served, protocol: str = "auto", **more: Any) -> Gateway:
    gateways = {"acme": RemoteGateway(far.url, protocol=protocol, **more)}  # type: ignore[arg-type]
    return Gateway(local, home=home / "near", gateways=gateways)


@pytest.fixture(scope="module")
def far(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(Gateway(*agents(), home=tmp_path_factory.mktemp("far"))) as served:
        yield served


@pytest.fixture(scope="module", params=PROTOCOLS)
def near(request: pytest.FixtureRequest, far: Served, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    home = tmp_path_factory.mktemp(f"near-{request.param}")
    with serving(near_of(home, far, request.param)) as served:
        until(lambda: len(served.gateway.agents) == 6)
        yield served


# -- listed and asked ---------------------------------------------------------------------------------


async def test_the_agents_of_the_other_are_here(near: Served) -> None:
    assert sorted(near.gateway.agents) == [
        "acme-asker", "acme-counter", "acme-echo", "acme-pieces", "acme-surveyor", "local",
    ]  # fmt: skip
    assert near.gateway.agents["acme-echo"].card.description == "Says it back"
    assert near.gateway.default == "local"


async def test_one_is_asked_over_nlip(near: Served) -> None:
    assert (await ask(near.url, "acme-echo", "hello")).text == "You said: hello"


async def test_one_is_asked_over_mcp(near: Served) -> None:
    async with Client(f"{near.url}/mcp") as client:
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert {"acme-echo", "acme-asker", "acme-surveyor", "local"} <= set(listed)
        result = await client.call_tool("acme-echo", {"text": "hello"})
    assert result.structured_content is not None
    assert result.structured_content["text"] == "You said: hello"


async def test_one_has_an_agent_card_and_is_asked_over_a2a(near: Served) -> None:
    async with httpx2.AsyncClient(trust_env=False) as http:
        card = (await http.get(f"{near.url}/a2a/acme-echo/.well-known/agent-card.json")).json()
        assert card["name"] == "acme-echo"
        assert card["supportedInterfaces"][0]["url"] == f"{near.url}/a2a/acme-echo"
        said = {"message": {"messageId": "1", "role": "ROLE_USER", "parts": [{"text": "hello"}]}}
        body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": said}
        answer = await http.post(f"{near.url}/a2a/acme-echo", json=body, headers={"a2a-version": "1.0"})
    assert "You said: hello" in answer.text


async def test_one_is_found_by_who_and_asked_over_nlweb(near: Served) -> None:
    async with httpx2.AsyncClient(trust_env=False) as http:
        response = (await http.post(f"{near.url}/who", json={"query": "colour"})).json()
        assert f"{near.url}/ask/acme-asker" in [row["endpoint"] for row in response["results"]]
        body = {"query": {"text": "hello"}, "prefer": {"streaming": False}}
        answer = await http.post(f"{near.url}/ask/acme-echo", json=body)
    assert "You said: hello" in answer.text


async def test_a_conversation_continues(near: Served) -> None:
    one = await ask(near.url, "acme-counter", "a")
    two = await ask(near.url, "acme-counter", "b", one.tokens)
    other = await ask(near.url, "acme-counter", "c")
    assert (one.text, two.text, other.text) == ("turn 1", "turn 2", "turn 1")


async def test_a_question_comes_back_and_its_answer_goes_there(near: Served) -> None:
    asked = await ask(near.url, "acme-asker", "paint")
    assert "Which colour?" in asked.text
    assert (await ask(near.url, "acme-asker", "blue", asked.tokens)).text == "You chose blue."


def accepting(*kinds: str) -> Message:
    wish = json_part({"accept": list(kinds), "confirmed": True}, label="policy")
    return Message.text("I accept your policies", parts=(wish,)).with_type("control")


@pytest.mark.parametrize("requires", ["agent", "gateway"])
async def test_a_policy_of_the_other_is_shown_and_accepted_here(serve: Serve, home: Path, requires: str) -> None:
    notes = Policy("privacy", "I keep notes for a day.", {"retention_days": 1}, required=True)

    @agent(description="Keeps notes", policies=(notes,) if requires == "agent" else ())
    async def keeper(turn: Turn) -> str:
        return f"noted: {turn.text}"

    @agent(description="Keeps nothing")
    async def plain(turn: Turn) -> str:
        return "nothing noted"

    stated = {"policies": [msgspec.to_builtins(notes)]} if requires == "gateway" else {}
    other = serve(Gateway(keeper, plain, home=home / "far", facts=stated))
    near = serve(near_of(home, other))
    until(lambda: "acme-keeper" in near.gateway.agents)
    refused = await ask(near.url, "acme-keeper", "hello")
    assert "privacy" in refused.text and refused.is_control
    answer = await ask(near.url, "acme-keeper", Message.text("What are your policies?").with_type("control"))
    assert "I keep notes for a day." in answer.text
    agreed = await ask(near.url, "acme-keeper", accepting("privacy"))
    said = await ask(near.url, "acme-keeper", "hello", agreed.tokens)
    assert said.text == "noted: hello"
    again = await ask(near.url, "acme-keeper", "once more", said.tokens)
    assert again.text == "noted: once more"
    if requires == "agent":
        assert (await ask(near.url, "acme-plain", "hello")).text == "nothing noted"


async def test_pieces_come_as_they_are_made(near: Served) -> None:
    async with httpx2.AsyncClient(trust_env=False) as http:
        message = nlip.encode(Message.text("go"))
        headers = {"accept": "text/event-stream"}
        answer = await http.post(f"{near.url}/nlip/acme-pieces", content=message, headers=headers)
    events = [nlip.decode(line[6:].encode()) for line in answer.text.split("\n") if line.startswith("data: ")]
    assert events[-1].without_tokens().text == "one, two"
    assert len(events) > 1


async def test_a_skill_is_called_where_the_protocol_carries_its_data(near: Served, far: Served) -> None:
    if near.gateway.remote_gateways["acme"].protocol not in ("nlip", "mcp"):
        return  # an agent card has no schema for it, and NLWeb no place
    async with Client(f"{near.url}/mcp") as client:
        result = await client.call_tool("acme-surveyor-double", {"size": 4})
    assert not result.is_error
    assert "8" in str(result.content)


def test_auto_finds_nlip_first(far: Served, home: Path) -> None:
    with serving(near_of(home, far)) as near:
        until(lambda: "acme-echo" in near.gateway.agents)
        assert near.gateway.remote_gateways["acme"].protocol == "nlip"


@pytest.mark.parametrize(
    ("closed", "found"),
    [(("nlip-http",), "a2a"), (("nlip-http", "a2a"), "nlweb"), (("nlip-http", "a2a", "nlweb"), "mcp")],
)
async def test_auto_takes_what_is_spoken(serve: Serve, home: Path, closed: tuple[str, ...], found: str) -> None:
    far = serve(Gateway(*agents(), home=home / "far", doors=dict.fromkeys(closed, False)))
    near = serve(near_of(home, far))
    until(lambda: "acme-echo" in near.gateway.agents)
    assert near.gateway.remote_gateways["acme"].protocol == found
    assert (await ask(near.url, "acme-echo", "hello")).text == "You said: hello"


# -- prefix and filter --------------------------------------------------------------------------------


def test_a_filter_and_a_prefix_choose_and_name(far: Served, home: Path) -> None:
    near = near_of(home, far, prefix="far.", only=("e*", "*er"), except_=("counter",))
    with serving(near):
        until(lambda: len(near.agents) > 1)
        assert sorted(near.agents) == ["far.asker", "far.echo", "local"]


async def test_a_name_that_is_taken_is_left_out_and_said(
    far: Served, serve: Serve, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    @agent(name="echo", description="Mine")
    async def mine(turn: Turn) -> str:
        return "mine"

    gateway = Gateway(mine, home=home / "near", gateways={"acme": RemoteGateway(far.url, prefix="")})
    near = serve(gateway)
    until(lambda: "asker" in gateway.agents)
    assert (await ask(near.url, "echo", "hello")).text == "mine"
    assert gateway.remote_gateways["acme"].left_out == {
        "echo": "an agent of this name is here already; choose another prefix"
    }
    assert "gateways.acme: echo is left out: an agent of this name is here already" in caplog.text


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"acme": "amqp://host/x"}, "gateways.acme.url: expected an http or https address, not 'amqp://host/x'"),
        ({"acme": "acme.example"}, "gateways.acme.url: expected an http or https address, not 'acme.example'"),
        ({"acme": "https://u:p@acme.example"}, "credentials do not belong in an address"),
        (
            {"acme": RemoteGateway("https://acme.example", prefix="a b/")},
            "gateways.acme.prefix: no agent can be called",
        ),
        ({"a b": "https://acme.example"}, "gateways.a b.prefix: no agent can be called"),
    ],
)
def test_what_cannot_be_is_refused_at_the_start(given: Any, said: str, home: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        Gateway(local, home=home, gateways=given)
    assert said in str(raised.value)
    assert "u:p" not in str(raised.value)


def test_the_configuration_names_them(home: Path) -> None:
    values = {
        "home": str(home),
        "gateways": {
            "acme": {
                "url": "https://acme.example",
                "protocol": "a2a",
                "prefix": "",
                "only": ["*search*"],
                "except": ["x"],
            },
            "plain": "https://plain.example",
        },
    }
    made = gateway_of(settings_of(values)).remote_gateways
    assert [item.name for item in made] == ["acme", "plain"]
    assert made["acme"].settings == RemoteGateway("https://acme.example", "a2a", "", ("*search*",), ("x",))
    assert (made["plain"].settings.url, made["plain"].prefix) == ("https://plain.example", "plain-")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"acme": {"url": "https://a.example", "protocl": "mcp"}}, "did you mean gateways.acme.protocol?"),
        ({"acme": {"url": "https://a.example", "excep": []}}, "did you mean gateways.acme.except?"),
        ({"acme": {"url": "https://a.example", "refresh": 0}}, "expected a number above 0"),
        ({"acme": {"prefix": "a-"}}, "the required key url is missing"),
        ({"acme": 5}, "expected text or a mapping, not a whole number"),
    ],
)
def test_misspelt_settings_are_reported(given: Any, said: str) -> None:
    with pytest.raises(ConfigError) as raised:
        settings_of({"gateways": given})
    assert said.lower() in str(raised.value).lower()


def test_a_protocol_that_lists_no_agents_is_rejected() -> None:
    with pytest.raises(ConfigError, match=r"gateways\.acme\.protocol: expected one of auto, nlip, a2a, .*not 'smtp'"):
        gateway_of(settings_of({"gateways": {"acme": {"url": "https://a.example", "protocol": "smtp"}}}))


# -- coming and going ---------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_what_comes_and_goes_there_comes_and_goes_here(serve: Serve, home: Path, protocol: str) -> None:
    far = serve(Gateway(*agents(), home=home / "far"))
    near = serve(near_of(home, far, protocol, refresh=0.1))
    until(lambda: "acme-echo" in near.gateway.agents)

    @agent(description="New there")
    async def newcomer(turn: Turn) -> str:
        return "I am new"

    async with Client(f"{near.url}/mcp", mode="2026-07-28") as client, asyncio.timeout(DEADLINE):
        async with client.listen(tools_list_changed=True) as stream:
            far.gateway.agents["newcomer"] = newcomer
            del far.gateway.agents["pieces"]
            async for event in stream:
                assert event == ToolsListChanged()
                if "acme-newcomer" in near.gateway.agents and "acme-pieces" not in near.gateway.agents:
                    break
        names = {tool.name for tool in (await client.list_tools()).tools}
        assert "acme-newcomer" in names
        assert "acme-pieces" not in names
    assert (await ask(near.url, "acme-newcomer", "hello")).text == "I am new"
    assert "there is no agent 'acme-pieces' here" in (await ask(near.url, "acme-pieces", "hello")).text


async def test_what_it_says_of_itself_is_kept_up_to_date(serve: Serve, home: Path) -> None:
    far = serve(Gateway(*agents(), home=home / "far"))
    near = serve(near_of(home, far, refresh=0.1))
    until(lambda: "acme-echo" in near.gateway.agents)
    there = far.gateway.agents["echo"]
    there.card = Card("echo", "Says it back, louder")
    until(lambda: near.gateway.agents["acme-echo"].card.description == "Says it back, louder")


async def test_an_answer_under_way_ends_though_its_agent_goes(serve: Serve, home: Path) -> None:
    entered, go_on = asyncio.Event(), asyncio.Event()
    loops: list[asyncio.AbstractEventLoop] = []

    @agent(description="Takes its time")
    async def slow(turn: Turn) -> str:
        loops.append(asyncio.get_running_loop())
        entered.set()
        await go_on.wait()
        return "done at last"

    far = serve(Gateway(*agents(), slow, home=home / "far"))
    near = serve(near_of(home, far, refresh=0.1))
    until(lambda: "acme-slow" in near.gateway.agents)
    asking = asyncio.create_task(ask(near.url, "acme-slow", "go"))
    while not loops:
        await asyncio.sleep(0.01)
    del far.gateway.agents["slow"]
    while "acme-slow" in near.gateway.agents:
        await asyncio.sleep(0.01)
    loops[0].call_soon_threadsafe(go_on.set)
    assert (await asking).text == "done at last"


# -- away ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_gateway_that_is_unavailable_at_the_start_is_found_later(
    serve: Serve, home: Path, protocol: str, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(Gateway(*agents(), home=home / "far")) as far:
        port = far.port
    gateways = {"acme": RemoteGateway(f"http://127.0.0.1:{port}", protocol=protocol, refresh=0.1)}  # type: ignore[arg-type]
    near = serve(Gateway(local, home=home / "near", gateways=gateways))
    assert (await ask(near.url, "local", "hello")).text == "I am here"
    assert near.gateway.remote_gateways["acme"].unavailable
    assert "Gateway acme is unavailable" in caplog.text
    with serving(Gateway(*agents(), home=home / "far"), port=port):
        until(lambda: "acme-echo" in near.gateway.agents)
        assert (await ask(near.url, "acme-echo", "hello")).text == "You said: hello"


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_agents_of_an_unavailable_gateway_say_why_they_cannot_answer(
    serve: Serve, home: Path, protocol: str
) -> None:
    with serving(Gateway(*agents(), home=home / "far")) as far:
        near = serve(near_of(home, far, protocol, refresh=0.1))
        until(lambda: "acme-echo" in near.gateway.agents)
        assert (await ask(near.url, "acme-echo", "hello")).text == "You said: hello"
    until(lambda: near.gateway.remote_gateways["acme"].unavailable is not None)
    assert "acme-echo" in near.gateway.agents
    said = await ask(near.url, "acme-echo", "hello")
    assert said.is_error
    assert "acme-echo: unavailable: its gateway acme does not answer (" in said.text
    assert str(far.port) not in said.text
    async with Client(f"{near.url}/mcp") as client:
        result = await client.call_tool("acme-echo", {"text": "hello"})
    assert result.is_error
    assert "unavailable" in str(result.content)


async def test_the_agents_of_an_unavailable_gateway_are_known_after_a_restart(home: Path) -> None:
    with serving(Gateway(*agents(), home=home / "far")) as far:
        with serving(near_of(home, far)) as near:
            until(lambda: "acme-echo" in near.gateway.agents)
    with serving(near_of(home, far)) as near:
        said = await ask(near.url, "acme-echo", "hello")
        assert "unavailable: its gateway acme does not answer" in said.text
    moved = Gateway(local, home=home / "near", gateways={"acme": "http://127.0.0.1:9"})
    with serving(moved):
        assert list(moved.agents) == ["local"]


# -- loops --------------------------------------------------------------------------------------------


def named(name: str) -> FunctionAgent:
    @agent(name=name, description=f"Is {name}")
    async def one(turn: Turn) -> str:
        return f"{name} heard {turn.text}"

    return one


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_two_that_list_each_other_do_not_multiply(serve: Serve, home: Path, protocol: str) -> None:
    first = serving(Gateway(named("a"), home=home / "a"))
    with first as at_a:
        port = at_a.port
        settings = RemoteGateway(at_a.url, protocol=protocol, refresh=0.1, depth=8)  # type: ignore[arg-type]
        at_b = serve(Gateway(named("b"), home=home / "b", gateways={"A": settings}))
        until(lambda: "A-a" in at_b.gateway.agents)
    back = RemoteGateway(at_b.url, protocol=protocol, refresh=0.1, depth=8)  # type: ignore[arg-type]
    with serving(Gateway(named("a"), home=home / "a", gateways={"B": back}), port=port) as at_a:
        until(lambda: "B-b" in at_a.gateway.agents)
        looked = at_b.gateway.remote_gateways["A"]
        until(lambda: looked.unavailable is None)
        for _ in range(20):  # several looks of both
            await asyncio.sleep(0.05)
            assert sorted(at_a.gateway.agents) == ["B-b", "a"]
            assert sorted(at_b.gateway.agents) == ["A-a", "b"]
        assert (await ask(at_a.url, "B-b", "x")).text == "b heard x"
        assert (await ask(at_b.url, "A-a", "y")).text == "a heard y"


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_chain_of_three_is_listed_within_its_depth(serve: Serve, home: Path, protocol: str) -> None:
    c = serve(Gateway(named("c"), home=home / "c"))
    to_c = RemoteGateway(c.url, protocol=protocol, refresh=0.1)  # type: ignore[arg-type]
    b = serve(Gateway(named("b"), home=home / "b", gateways={"C": to_c}))
    until(lambda: "C-c" in b.gateway.agents)
    near = RemoteGateway(b.url, protocol=protocol, refresh=0.1)  # type: ignore[arg-type]
    deep = RemoteGateway(b.url, protocol=protocol, refresh=0.1, depth=2)  # type: ignore[arg-type]
    one = serve(Gateway(named("a"), home=home / "1", gateways={"B": near}))
    two = serve(Gateway(named("a"), home=home / "2", gateways={"B": deep}))
    direct = serve(Gateway(named("a"), home=home / "3", gateways={"C": to_c, "B": deep}))
    until(lambda: "B-b" in one.gateway.agents and "B-C-c" in two.gateway.agents)
    assert sorted(one.gateway.agents) == ["B-b", "a"]
    assert sorted(two.gateway.agents) == ["B-C-c", "B-b", "a"]
    until(lambda: sorted(direct.gateway.agents) == ["B-b", "C-c", "a"])  # what is reached directly takes no detour
    assert (await ask(two.url, "B-C-c", "x")).text == "c heard x"
    assert len(two.gateway.agents["B-C-c"].card.via) == 2


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_group_is_listed_as_a_group(serve: Serve, home: Path, protocol: str) -> None:
    """Otherwise a message to everybody would reach its members twice."""
    member = named("b")
    far = serve(Gateway(member, AgentGroup([member], name="crew"), home=home / "far"))
    near = serve(near_of(home, far, protocol))
    until(lambda: len(near.gateway.agents) == 3)
    assert {name for name, agent in near.gateway.agents.items() if agent.card.group} == {"acme-crew"}


async def test_a_gateway_that_lists_itself_is_reported(home: Path) -> None:
    with serving(Gateway(named("a"), home=home)) as served:
        port = served.port
    itself = {"me": RemoteGateway(f"http://127.0.0.1:{port}", refresh=0.1)}
    with serving(Gateway(named("a"), home=home, gateways=itself), port=port) as served:
        until(lambda: "the gateway's own address" in (served.gateway.remote_gateways["me"].unavailable or ""))
        assert list(served.gateway.agents) == ["a"]


# -- who may what -------------------------------------------------------------------------------------


class Friends:
    """Knows those who show the right key."""

    challenge = "Bearer"

    async def verify(self, credentials: Credentials, tokens: tuple[Part, ...]) -> Caller | None:
        return Caller("near", "key") if credentials.headers.get("x-api-key") == "friend" else None


@pytest.mark.parametrize("protocol", ("nlip", "a2a", "nlweb", "mcp"))
async def test_we_see_there_what_our_own_identity_may(serve: Serve, home: Path, protocol: str) -> None:
    rules = (Rule(roles=("anonymous",), agents=("echo",)), Rule(roles=("known",), agents=("*",)))
    identity = Authenticator((Friends(),))
    far = serve(Gateway(*agents(), home=home / "far", guard=GuardSettings(rights=rules), identity=identity))
    settings = RemoteGateway(far.url, protocol=protocol)  # type: ignore[arg-type]
    stranger = serve(Gateway(local, home=home / "1", gateways={"acme": settings}))
    guard = GuardSettings(services=(Service(far.url, key="friend"),))
    known = serve(Gateway(local, home=home / "2", gateways={"acme": settings}, guard=guard))
    until(lambda: "acme-echo" in stranger.gateway.agents and "acme-counter" in known.gateway.agents)
    assert sorted(stranger.gateway.agents) == ["acme-echo", "local"]
    assert (await ask(known.url, "acme-counter", "x")).text == "turn 1"


async def test_a_caller_sees_and_uses_only_what_it_may(far: Served, serve: Serve, home: Path) -> None:
    rules = (Rule(roles=("anonymous",), agents=("local", "acme-echo")), Rule(roles=("known",), agents=("*",)))
    guard = GuardSettings(IdentitySettings(), rules, Quotas())
    near = serve(Gateway(local, home=home, gateways={"acme": RemoteGateway(far.url)}, guard=guard))
    until(lambda: "acme-asker" in near.gateway.agents)
    async with Client(f"{near.url}/mcp") as client:
        assert {tool.name for tool in (await client.list_tools()).tools} == {"local", "acme-echo"}
    assert (await ask(near.url, "acme-echo", "x")).text == "You said: x"
    assert "authentication" in (await ask(near.url, "acme-asker", "x")).text
    async with httpx2.AsyncClient(trust_env=False) as http:
        body = (await http.post(f"{near.url}/who", json={"query": ""})).json()
        card = (await http.get(f"{near.url}/.well-known/agent-card.json")).json()
    assert {row["definition"]["name"] for row in body["results"]} == {"local", "acme-echo"}
    listed = next(e for e in card["capabilities"]["extensions"] if e["uri"] == "urn:sabir:gateway:1")
    assert [item["name"] for item in listed["params"]["agents"]] == ["local", "acme-echo"]
