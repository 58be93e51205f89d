"""The timeline of a turn, and the members of an ensemble and a federation, on the page in a real browser."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from conftest import Served, serving
from sabir import Gateway, Turn, agent
from sabir.agents.ensemble import Ensemble
from sabir.agents.federation import Federation
from sabir.agents.llm import LLM, ScriptedModel
from sabir.errors import Unavailable
from sabir.tools.tool import ToolCall, tool
from sabir.tools.toolbox import Toolbox
from web.conftest import Drive

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

PROTOCOLS = ("nlip", "nlip-ws", "nlweb", "mcp", "a2a", "acl")
rung = asyncio.Event()


@tool
async def price_list(item: str) -> str:
    """Look a price up."""
    return f"{item}: 12 EUR"


@agent(description="Looks prices up")
async def clerk(turn: Turn) -> str:
    results = await Toolbox([price_list]).call(turn, [ToolCall("1", "price_list", {"item": turn.text})])
    return results[0].text


@agent(description="Asks the clerk")
async def manager(turn: Turn) -> str:
    return (await turn.call("clerk", turn.message)).text


@agent(description="Fails")
async def broken(turn: Turn) -> str:
    raise Unavailable("out of order")


@agent(description="Answers when the bell has rung")
async def slow(turn: Turn) -> str:
    await rung.wait()
    rung.clear()
    return "14 EUR"


@agent(description="Rings the bell")
async def bell(turn: Turn) -> str:
    rung.set()
    return "rung"


def votes(text: str, choice: str) -> LLM:
    """A member of an ensemble: it answers once and then votes."""

    def step(messages: Any) -> Any:
        if "Your own answer" in messages[-1].content:
            return {"tool_calls": [{"name": "vote", "arguments": {"agent_id": choice, "reason": "it is longer"}}]}
        return {"tool_calls": [{"name": "new_answer", "arguments": {"content": text}}]}

    return LLM(text.lower(), ScriptedModel([step] * 12))


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    team = Federation([clerk, broken, slow], name="team")
    panel = Ensemble([votes("Rhine", "agent2"), votes("Danube", "agent2"), votes("Elbe", "agent2")], name="panel")
    agents = (manager, clerk, broken, team, panel, bell)
    with serving(Gateway(*agents, home=tmp_path_factory.mktemp("home"))) as served:
        yield served


@pytest.fixture(scope="module")
def found(chromium: str, drive: Drive, gateway: Served, shots: Path) -> dict[str, Any]:
    return drive("views.mjs", chromium, gateway.url, str(shots))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_turn_shows_its_hops_over_each_protocol(found: dict[str, Any], protocol: str) -> None:
    seen = found["traced"][protocol]
    hops = [hop.split(",")[0] for hop in seen["hops"]]
    assert hops[0].startswith("Door ") and seen["bars"] == len(hops)
    assert [hop for hop in hops if hop.startswith(("Agent", "Tool"))] == [
        "Agent manager",
        "Agent clerk",
        "Tool price_list",
    ]
    assert {"Guard", "Conversation", "Record"} <= set(hops)
    assert seen["failed"] == 0


def test_the_hop_that_failed_is_marked(found: dict[str, Any]) -> None:
    assert found["failing"]["hops"][-1] == "Agent broken, failed"
    assert found["failing"]["failed"] == 2  # and the whole


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_members_of_a_federation_are_shown_while_they_answer(found: dict[str, Any], protocol: str) -> None:
    seen = found["panels"][protocol]
    during = [" ".join(member.split()) for member in seen["during"]]
    assert during[0] == "clerk has answered"
    assert during[1].startswith("broken failed: ") and "out of order" in during[1]
    assert during[2] == "slow is answering"
    assert " ".join(seen["after"][2].split()) == "slow has answered"
    if protocol != "acl":  # where the summary has every text of the reply
        assert seen["words"].count("14 EUR") == 1


def test_the_members_of_an_ensemble_vote_and_the_winner_is_shown(found: dict[str, Any]) -> None:
    members = [" ".join(member.split()) for member in found["ensemble"]["members"]]
    assert members == ["rhine votes for danube", "danube presents the answer 3 votes", "elbe votes for danube"]


def test_a_panel_is_replayed_also_after_a_reload(found: dict[str, Any]) -> None:
    assert found["again"]["before"] == found["again"]["after"] == found["ensemble"]["members"]
    assert found["kept"]["before"] == found["kept"]["after"] == found["ensemble"]["members"]
    assert found["keptHops"] > 5


def test_everybody_can_read_the_views_on_every_screen(found: dict[str, Any]) -> None:
    assert found["ensemble"]["axe"] == []
    for name, look in found["looks"].items():
        assert look == {"overflow": 0, "axe": []}, name


def test_nothing_leaves_the_origin_and_nothing_fails(found: dict[str, Any], gateway: Served) -> None:
    assert found["hosts"] == [urlsplit(gateway.url).netloc]
    assert [line for line in found["wrong"] if "503" not in line] == []  # which is what the broken agent answers
