"""Tools, federations, ensembles and the orchestrator out of a YAML file (MW-33, MW-52 to MW-59)."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from sabir import Message, Turn
from sabir.agent import Agent
from sabir.agents.ensemble import Ensemble
from sabir.agents.federation import Federation
from sabir.agents.llm import LLM
from sabir.config.agents import build_agents
from sabir.config.build import gateway_of, quotas_of
from sabir.config.load import load, settings_of
from sabir.errors import ConfigError
from sabir.events import Delta, Reply
from sabir.message import json_part
from sabir.testing import ask
from sabir.tools.router import Router

SERVER = Path(__file__).parent.parent / "mcp_servers" / "shelf_server.py"


def calling(name: str, **arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [{"name": name, "arguments": arguments}]}


def model(item_id: str, *script: Any, **more: Any) -> dict[str, Any]:
    return {"id": item_id, "backend": {"type": "mock", "script": list(script)}, **more}


def built(values: dict[str, Any], beside: Path | None = None) -> dict[str, Agent]:
    return {agent.card.name: agent for agent in build_agents(settings_of(values), beside).agents}


async def said(agent: Agent, message: Message | str = "go") -> Message:
    asked = Message.text(message) if isinstance(message, str) else message
    events = [event async for event in agent(Turn(asked))]
    last = events[-1]
    assert isinstance(last, Reply), last
    return last.message


def tool_call(name: str, **arguments: Any) -> Message:
    part = json_part({"tool_id": "1", "tool_name": name, "parameters": arguments}, label="tool_call")
    return Message.text("").with_part(part)


def result(message: Message) -> dict[str, Any]:
    part = message.labelled("tool_result")
    assert part is not None
    return dict(part.content)


# -- tools (MW-33) --------------------------------------------------------------------------------------


async def test_a_model_uses_a_function_beside_the_file(tmp_path: Path) -> None:
    (tmp_path / "mw33_shop.py").write_text("def price(item: str) -> str:\n    return f'{item} is 3 EUR'\n")
    agents = built({"agents": [model("m", calling("price", item="tea"), "done", tools=["mw33_shop:price"])]}, tmp_path)
    assert (await said(agents["m"])).text == "done"
    assert "tea is 3 EUR" in agents["m"].model.asked[1][-1].content  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("more", "seen"),
    [
        ({}, ["first " * 20, "one", "second", "two", "now"]),
        ({"past_turns": 1}, ["second", "two", "now"]),
        ({"context_tokens": 10}, ["second", "two", "now"]),
        ({"context_tokens": 10, "context_policy": "summarise"}, ["Earlier in this conversation: A summary", "second"]),
    ],
)
async def test_how_much_of_the_conversation_a_model_sees_is_configured(more: dict[str, Any], seen: list[str]) -> None:
    entry = model("m", {"when": "Summarise", "say": "A summary"}, {"when": "now", "say": "Yes"})
    agent = built({"agents": [{**entry, "backend": {**entry["backend"], **more}}]})["m"]
    await ask(agent, "now", history=[("first " * 20, "one"), ("second", "two")])
    shown = [message.content for message in agent.model.asked[-1]]  # type: ignore[attr-defined]
    assert shown[: len(seen)] == seen


async def test_steps_and_the_shape_of_answers_are_configured() -> None:
    entry = model("m", '{"n": 1}')
    shaped = {**entry["backend"], "schema": {"type": "object"}, "steps": 1}
    agents = built({"agents": [{**entry, "backend": shaped}]})
    assert (await ask(agents["m"], "How many?")).data == {"n": 1}
    with pytest.raises(ConfigError, match="context_policy"):
        built({"agents": [{**entry, "backend": {**entry["backend"], "context_policy": "forget"}}]})


async def test_file_tools_work_in_the_workspace_beside_the_file(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("hello")
    values = {
        "workspace": "notes",
        "agents": [model("m", calling("read_file", path="a.txt"), "ok", tools=["read_file"])],
    }
    agent = built(values, tmp_path)["m"]
    assert (await said(agent)).text == "ok"
    assert "hello" in agent.model.asked[1][-1].content  # type: ignore[attr-defined]


def test_a_workspace_that_is_not_writable_has_no_tools_that_write(tmp_path: Path) -> None:
    values = {"workspace": {"path": str(tmp_path), "writable": False}, "agents": [model("m", tools=["write_file"])]}
    with pytest.raises(ConfigError, match="write_file writes, and the workspace is not writable"):
        built(values)


async def test_the_tools_of_an_mcp_server_are_offered_under_its_name() -> None:
    values = {
        "mcp_servers": {"shelf": {"command": sys.executable, "args": [str(SERVER)], "only": ["find"]}},
        "agents": [model("m", "hi", tools=[{"mcp": "shelf"}])],
    }
    made = build_agents(settings_of(values))
    (server,) = [item for item in made.beside if not isinstance(item, LLM)]
    async with server:
        agent = made.agents[0]
        assert isinstance(agent, LLM)
        await agent.toolbox.load()
        assert all(name.startswith("mcp__shelf__") for name in agent.toolbox)


async def test_another_agent_is_a_tool() -> None:
    values = {
        "agents": [
            model("boss", calling("helper", text="2+2"), "It is 4.", tools=[{"agent": "helper"}]),
            model("helper", "4"),
        ]
    }
    agents = built(values)
    assert (await said(agents["boss"])).text == "It is 4."
    assert agents["helper"].model.asked[0][-1].content == "2+2"  # type: ignore[attr-defined]


async def test_massgens_own_spelling_of_tools_is_read(tmp_path: Path) -> None:
    (tmp_path / "two.py").write_text("def add(a: int, b: int) -> int:\n    return a + b\n")
    custom = [
        {"name": ["add_two"], "category": "math", "path": "two.py", "function": ["add"], "description": ["Adds."]}
    ]
    servers = [{"name": "shelf", "type": "stdio", "command": sys.executable, "args": [str(SERVER)]}]
    backend = {"type": "mock", "script": [calling("add_two", a=2, b=3), "five"], "custom_tools": custom}
    agents = built({"agents": [{"id": "m", "backend": backend}]}, tmp_path)
    assert (await said(agents["m"])).text == "five"
    assert agents["m"].model.asked[1][-1].content == "5"  # type: ignore[attr-defined]
    both = built({"agents": [{"id": "m", "backend": {**backend, "mcp_servers": servers}}]}, tmp_path)
    assert isinstance(both["m"], LLM)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"agents": [model("m", tools=["read_file"])]}, "set the key workspace"),
        ({"agents": [model("m", tools=["nonsense"])]}, "expected module:function or one of read_file"),
        ({"agents": [model("m", tools=[{"mcp": "x"}])]}, "there is no MCP server 'x' in mcp_servers; there are none"),
        ({"agents": [model("m", tools=[{"agent": "mm"}])]}, "'m': there is no agent 'mm'"),
        ({"agents": [model("m", tools=[{"mpc": "x"}])]}, r"unknown key agents\[0\].tools\[0\].mpc: did you mean"),
        ({"agents": [model("m", tools=[{"agent": "m"}])]}, "m → m: an agent cannot need itself"),
        ({"agents": [{"id": "e", "use": "echo", "tools": ["a:b"]}]}, "tools: requires backend"),
        ({"mcp_servers": {"x": {}}, "agents": [model("m", tools=[{"mcp": "x"}])]}, "expected either url or command"),
        (
            {"mcp_servers": {"x": {"comand": "a"}}},
            r"unknown key mcp_servers.x.comand: did you mean mcp_servers.x.command",
        ),
        ({"workspace": "/no/such/folder", "agents": [model("m", tools=["read_file"])]}, "expected a folder"),
    ],
)
def test_unavailable_tools_are_reported(values: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        built(values)


# -- federations and ensembles (MW-52) ------------------------------------------------------------------


async def test_a_federation_of_yaml_votes() -> None:
    text = """
    agents:
      - {id: a, backend: {type: mock, script: [Paris]}}
      - {id: b, backend: {type: mock, script: [It is Paris.]}}
      - {id: c, backend: {type: mock, script: [Lyon]}}
      - {id: all, federation: {members: [a, b, c], strategy: vote, seconds: 5, quorum: 2}}
    """
    agent = built(yaml.safe_load(text))["all"]
    assert isinstance(agent, Federation) and agent.quorum == 2 and agent.seconds == 5
    assert (await said(agent)).parts[0].content == "Paris"


async def test_an_ensemble_of_yaml_answers_and_votes() -> None:
    members = [
        model("a", calling("new_answer", content="Rhine"), *[calling("vote", agent_id="agent1")] * 6),
        model("b", *[calling("vote", agent_id="agent1")] * 6),
    ]
    values = {"agents": [*members, {"id": "panel", "ensemble": {"members": ["a", "b"], "present": False}}]}
    agent = built(values)["panel"]
    assert isinstance(agent, Ensemble)
    assert (await said(agent)).text.startswith("Rhine")


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"federation": {"members": []}}, "members: expected the ids of agents"),
        ({"federation": {"members": ["aa"]}}, "there is no agent 'aa'; did you mean a?"),
        ({"federation": {"members": ["a"], "strategy": "most"}}, "strategy: expected first, all, best, vote or merge"),
        ({"federation": {"members": ["a"], "seconds": {"b": 1}}}, "'b' is not a member"),
        ({"federation": {"members": ["a"]}, "ensemble": {"members": ["a"]}}, "exactly one of use, peer, backend"),
        (
            {"ensemble": {"members": ["a"], "anwsers": 2}},
            r"ensemble.anwsers: did you mean agents\[1\].ensemble.answers",
        ),
        ({"ensemble": {"members": ["x"]}}, "x → x: an agent cannot need itself"),
    ],
)
def test_a_group_that_cannot_be_made_is_reported(entry: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        built({"agents": [model("a"), {"id": "x", **entry}]})


# -- nlip (MW-53 to MW-59) ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("top", "own", "routed"),
    [
        ({}, {}, False),
        ({"nlip": {"enabled": True}}, {}, True),
        ({"nlip": {"enabled": False}}, {}, False),
        ({"nlip": {"enabled": False}}, {"nlip": {"enabled": True}}, True),
        ({"nlip": {"enabled": True}}, {"nlip": {"enabled": False}}, False),
        ({}, {"enable_nlip": True}, True),
        ({"orchestrator": {"nlip": {"enabled": True}}}, {}, True),
        ({"orchestrator": {"enable_nlip": True}}, {}, True),
        ({"orchestrator": {"enable_nlip": True}}, {"enable_nlip": False}, False),
    ],
)
def test_routing_follows_the_agent_and_then_the_file(
    top: dict[str, Any], own: dict[str, Any], routed: bool
) -> None:  # MW-53, MW-57, MW-59
    assert isinstance(built({**top, "agents": [model("m", **own)]})["m"], Router) is routed


@pytest.mark.parametrize(
    ("router", "remembers"),
    [
        ({}, True),
        ({"enable_message_tracking": False}, False),
        ({"enable_state_management": False}, False),
    ],
)
def test_without_tracking_or_state_no_history_is_kept(router: dict[str, Any], remembers: bool) -> None:  # MW-54
    agent = built({"nlip": {"router": router}, "agents": [model("m")]})["m"]
    assert agent.card.remembers is remembers


def test_a_session_lives_as_long_as_configured() -> None:  # MW-54
    assert quotas_of(settings_of({})).conversation_seconds == 30 * 86400
    shorter = quotas_of(settings_of({"nlip": {"router": {"session_timeout_hours": 2}}}))
    assert (shorter.conversation_seconds, shorter.anonymous_seconds) == (7200, 7200)


KINDS = [
    ("mcp_enabled", "mcp__shelf__find", "No translator for protocol: mcp"),
    ("custom_tools_enabled", "price", "No translator for protocol: custom"),
    ("builtin_tools_enabled", "list_directory", "No translator for protocol: builtin"),
]


@pytest.mark.parametrize(("key", "tool", "words"), KINDS)
@pytest.mark.parametrize("enabled", [True, False])
async def test_a_kind_of_tools_that_is_off_is_not_offered(
    key: str, tool: str, words: str, enabled: bool, tmp_path: Path
) -> None:  # MW-55
    (tmp_path / "mw55_shop.py").write_text("def price(item: str = 'tea') -> str:\n    return item\n")
    values = {
        "nlip": {"translation": {key: enabled}},
        "workspace": str(tmp_path),
        "mcp_servers": {"shelf": {"command": sys.executable, "args": [str(SERVER)]}},
        "agents": [model("m", tools=["mw55_shop:price", "list_directory", {"mcp": "shelf"}])],
    }
    made = build_agents(settings_of(values), tmp_path)
    router = made.agents[0]
    assert isinstance(router, Router)
    try:
        answer = result(await said(router, tool_call(tool)))
        assert (answer.get("error") == words) is not enabled
        assert any(name.startswith(tool[:5]) for name in router.toolbox) is enabled
    finally:
        for item in made.beside:
            await item.__aexit__(None, None, None)


async def pieces(agent: Agent) -> list[str]:
    events = [event async for event in agent(Turn(Message.text("go")))]
    assert isinstance(events[-1], Reply)
    return [event.part.content for event in events if isinstance(event, Delta)]


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, ["One", " two.", " Three", " four."]),
        ({"enable_streaming": False}, []),
        ({"buffer_partial_responses": True}, ["One two.", " Three four."]),
    ],
)
async def test_pieces_are_sent_gathered_or_left_out(config: dict[str, Any], expected: list[str]) -> None:  # MW-57
    entry = model("m", "One two. Three four.", nlip={"enabled": True, "router_config": config})
    assert await pieces(built({"agents": [entry]})["m"]) == expected


@pytest.mark.parametrize(("seconds", "status"), [(0.05, "error"), (20, "success")])
async def test_a_tool_has_the_default_timeout(seconds: float, status: str, tmp_path: Path) -> None:  # MW-57
    (tmp_path / "mw57_slow.py").write_text(
        "import asyncio\nasync def nap() -> str:\n    await asyncio.sleep(0.5)\n    return 'ok'\n"
    )
    entry = model("m", tools=["mw57_slow:nap"], nlip={"enabled": True, "router_config": {"default_timeout": seconds}})
    answer = result(await said(built({"agents": [entry]}, tmp_path)["m"], tool_call("nap")))
    assert answer["status"] == status


def test_an_orchestrator_is_an_ensemble_of_all_agents_and_the_default(tmp_path: Path) -> None:  # MW-58
    values: dict[str, Any] = {"home": str(tmp_path), "agents": [model("a"), model("b")]}
    gateway = gateway_of(settings_of({**values, "orchestrator": {"answers": 2}}))
    panel = gateway.agents["orchestrator"]
    assert isinstance(panel, Ensemble)
    assert [member.card.name for member in panel.members] == ["a", "b"] and panel.options.answers == 2
    assert gateway.default == "orchestrator"
    without = gateway_of(settings_of(values))
    assert "orchestrator" not in without.agents and without.default == "a"


@pytest.mark.parametrize("on", [True, False])
def test_coordination_by_nlip_is_switched_by_the_orchestrator(on: bool) -> None:  # MW-58
    panel = built({"orchestrator": {"nlip": {"coordinate_via_nlip": on}}, "agents": [model("a")]})["orchestrator"]
    assert isinstance(panel, Ensemble) and panel.options.coordinate_via_nlip is on


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"nlip": {"routr": {}}}, "unknown key nlip.routr: did you mean nlip.router?"),
        ({"nlip": {"router": {"session_timeout": 1}}}, "did you mean nlip.router.session_timeout_hours?"),
        ({"nlip": {"translation": {"mcp_enable": 1}}}, "did you mean nlip.translation.mcp_enabled?"),
        ({"nlip": {"tokens": {"persist": 1}}}, "unknown key nlip.tokens.persist"),
        ({"nlip": {"schema_version": "2.0"}}, "nlip.schema_version"),
        ({"nlip": {"router": {"session_timeout_hours": 0}}}, "nlip.router.session_timeout_hours: expected"),
        ({"agents": [model("m", nlip={"enable": True})]}, r"did you mean agents\[0\].nlip.enabled"),
        ({"agents": [model("m", nlip={"router_config": {"timeout": 1}})]}, "router_config.timeout"),
        ({"orchestrator": {"nlip": {"cordinate": 1}}}, "did you mean orchestrator.nlip.coordinate_via_nlip"),
        ({"orchestrator": {}, "agents": [model("orchestrator")]}, "is made by the key orchestrator"),
        ({"orchestrator": {}}, "orchestrator: requires agents"),
    ],
)
def test_unknown_keys_are_rejected_with_a_suggestion(values: dict[str, Any], words: str) -> None:  # MW-59
    with pytest.raises(ConfigError, match=words):
        built(values)


def test_the_yaml_of_the_design_makes_an_orchestrator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    design = Path(__file__).parent.parent / "vectors" / "massgen" / "nlip_enabled_config.yaml"
    values = load(design)
    made = {agent.card.name: agent for agent in build_agents(values).agents}
    assert list(made) == ["research_agent", "analysis_agent", "orchestrator"]
    assert isinstance(made["research_agent"], Router)
