"""The timeline of a turn: each hop with its times, only for callers who ask for it, and nothing of what was said."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import httpx2
import pytest

from conftest import Served, serving
from sabir import Gateway, Turn, agent
from sabir.agents.federation import Federation
from sabir.observe.timeline import MAX_HOPS_KEPT, NO_TIMELINE, Hop, Timeline, Timelines
from sabir.protocols.connect import connect
from sabir.server import Serving
from sabir.tools.tool import ToolCall, tool
from sabir.tools.toolbox import Toolbox

SECRET = "the launch code is 0000"


@tool
async def lookup(word: str) -> str:
    """Look a word up."""
    return f"{word}: {SECRET}"


@agent(description="Uses a tool")
async def clerk(turn: Turn) -> str:
    results = await Toolbox([lookup]).call(turn, [ToolCall("1", "lookup", {"word": turn.text})])
    return results[0].text


@agent(description="Asks another agent")
async def manager(turn: Turn) -> str:
    return (await turn.call("clerk", turn.message)).text


@agent(description="Fails")
async def broken(turn: Turn) -> str:
    raise ValueError(SECRET)


@agent(description="Remembers nothing", remembers=False)
async def parrot(turn: Turn) -> str:
    return turn.text


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(Gateway(parrot, home=tmp_path_factory.mktemp("remote"))) as remote:
        far = connect(f"{remote.url}/nlip", name="far")
        team = Federation([parrot, far, broken], name="team")
        agents = (parrot, clerk, manager, broken, team)
        with serving(Gateway(*agents, home=tmp_path_factory.mktemp("home"))) as served:
            yield served


def reserved(gateway: Served) -> str:
    return str(httpx2.post(f"{gateway.url}/operate/traces").json()["trace_ids"][0])


def hops(gateway: Served, trace_id: str) -> list[dict[str, Any]]:
    response = httpx2.get(f"{gateway.url}/operate/traces/{trace_id}")
    assert response.status_code == 200 and response.headers["cache-control"] == "no-store"
    assert SECRET not in response.text
    return list(response.json()["hops"])


def traced(gateway: Served, path: str, body: dict[str, Any], **headers: str) -> list[dict[str, Any]]:
    trace_id = reserved(gateway)
    parent = {"traceparent": f"00-{trace_id}-00f067aa0ba902b7-01"}
    httpx2.post(f"{gateway.url}{path}", json=body, headers={**parent, **headers})
    return hops(gateway, trace_id)


def names(found: list[dict[str, Any]]) -> list[str]:
    return [f"{hop['kind']} {hop['name']}".strip() for hop in found]


MESSAGE = {"format": "text", "subformat": "english", "content": SECRET}
RPC = {"jsonrpc": "2.0", "id": 1}
DOORS: dict[str, tuple[str, dict[str, Any], dict[str, str]]] = {
    "nlip-http": ("/nlip/parrot", MESSAGE, {}),
    "nlweb": ("/ask/parrot", {"query": {"text": SECRET}}, {}),
    "a2a": (
        "/a2a/parrot",
        {
            **RPC,
            "method": "SendMessage",
            "params": {"message": {"messageId": "1", "role": "ROLE_USER", "parts": [{"text": SECRET}]}},
        },
        {"A2A-Version": "1.0"},
    ),
    "mcp": (
        "/mcp",
        {
            **RPC,
            "method": "tools/call",
            "params": {
                "name": "parrot",
                "arguments": {"text": SECRET},
                "_meta": {
                    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
                    "io.modelcontextprotocol/clientCapabilities": {},
                },
            },
        },
        {
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": "2026-07-28",
            "Mcp-Method": "tools/call",
            "Mcp-Name": "parrot",
        },
    ),
}


@pytest.mark.parametrize("door", DOORS)
def test_a_turn_has_a_timeline_by_every_door(gateway: Served, door: str) -> None:
    path, body, headers = DOORS[door]
    found = traced(gateway, path, body, **headers)
    assert names(found) == [f"door {door}", "guard", "agent parrot", "reply"]
    assert all(hop["ended"] >= hop["began"] >= 0 and not hop["failed"] for hop in found)
    assert found[0]["ended"] == max(hop["ended"] for hop in found)


def test_agents_and_tools_inside_a_turn_are_hops(gateway: Served) -> None:
    found = traced(gateway, "/nlip/manager", MESSAGE)
    stages = [
        "door nlip-http",
        "guard",
        "conversation",
        "agent manager",
        "agent clerk",
        "tool lookup",
        "record",
        "reply",
    ]
    assert names(found) == stages
    assert [hop["parent"] for hop in found] == [None, 0, 0, 0, 3, 4, 0, 0]
    inner, outer = found[5], found[3]
    assert outer["began"] <= inner["began"] <= inner["ended"] <= outer["ended"]


def test_members_and_peers_are_hops_and_a_failed_one_is_marked(gateway: Served) -> None:
    found = traced(gateway, "/nlip/team", MESSAGE)
    assert {"agent team", "agent parrot", "agent far", "peer far", "agent broken"} <= set(names(found))
    parents = {hop["name"]: found[hop["parent"]]["name"] for hop in found if hop["kind"] == "agent"}
    assert parents == {"team": "nlip-http", "parrot": "team", "far": "team", "broken": "team"}
    assert [found[hop["parent"]]["name"] for hop in found if hop["kind"] == "peer"] == ["far"]
    assert {hop["name"] for hop in found if hop["failed"]} == {"broken"}
    assert all(hop["ended"] is not None for hop in found)


def test_a_turn_that_fails_has_a_timeline_too(gateway: Served) -> None:
    found = traced(gateway, "/nlip/broken", MESSAGE)
    assert names(found) == ["door nlip-http", "guard", "conversation", "agent broken"]
    assert found[0]["failed"] and found[-1]["failed"]


def test_other_turns_are_not_recorded(gateway: Served) -> None:
    trace_id = "4bf92f3577b34da6a3ce929d0e0e4736"
    httpx2.post(f"{gateway.url}/nlip", json=MESSAGE, headers={"traceparent": f"00-{trace_id}-00f067aa0ba902b7-01"})
    unknown = httpx2.get(f"{gateway.url}/operate/traces/{trace_id}")
    assert unknown.status_code == 404 and "no timeline has this trace id" in unknown.json()["content"]
    assert hops(gateway, reserved(gateway)) == []


def test_strangers_may_read_a_timeline_within_their_rate(tmp_path: Path) -> None:
    with serving(Gateway(parrot, home=tmp_path, serving=Serving(behind_tls_proxy=True))) as served:
        assert hops(served, reserved(served)) == []


# -- without a gateway ----------------------------------------------------------------------------


def test_the_oldest_ids_are_forgotten() -> None:
    timelines = Timelines(limit=3)
    first, *others = timelines.reserve(4)
    assert timelines.hops(first) is None
    assert [timelines.hops(trace_id) for trace_id in others] == [[], [], []]
    assert timelines.of(f"00-{first}-00f067aa0ba902b7-01") is NO_TIMELINE
    assert timelines.of("") is NO_TIMELINE


def test_a_timeline_is_bounded_and_keeps_the_first_end() -> None:
    ticks = count()
    kept: list[Hop] = []
    timeline = Timeline(kept, now=lambda: float(next(ticks)))
    with timeline.span("peer", "far") as hop:
        hop.end()
    assert (hop.began, hop.ended) == (0.0, 1.0)
    for number in range(2 * MAX_HOPS_KEPT):
        timeline.stage("agent", str(number))
    assert len(kept) == MAX_HOPS_KEPT
