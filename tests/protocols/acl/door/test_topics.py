"""Subscriptions to what an agent publishes and to a task's events, and directories of several gateways."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from conftest import Served, serving
from deadline import DEADLINE
from gates import Gate
from protocols.acl.conftest import Speaker
from sabir.agent import agent
from sabir.card import Card, Skill
from sabir.errors import NotFound
from sabir.events import Progress
from sabir.federation.gateways import RemoteGateway
from sabir.gateway.gateway import Gateway
from sabir.turn import Turn


def weather(gate: Gate) -> Any:
    @agent(card=Card("weather", "Watches the sky", publishes=("storms",)))
    async def weather(turn: Turn) -> AsyncIterator[Any]:
        await gate.passed()
        yield Progress(0.5, "half way")
        yield "sunny"

    return weather


@pytest.fixture
def sky(tmp_path: Path, gate: Gate) -> Any:
    gate.reset()
    with serving(Gateway(weather(gate), home=tmp_path)) as served:
        yield served
    gate.open()


def notify(served: Served, *events: Any, key: str = "") -> list[int]:
    """Publish from the gateway's own event loop, as an agent of it does."""
    loop = served.server.loop
    assert loop is not None
    sent = (served.gateway.notify("weather", "storms", event, key=key) for event in events)
    return [asyncio.run_coroutine_threadsafe(item, loop).result(DEADLINE) for item in sent]


async def test_subscribers_get_what_an_agent_publishes_once(sky: Served) -> None:  # ACL-19
    eddy, jane = Speaker(sky.url, "eddy"), Speaker(sky.url, "jane")
    for item in (eddy, jane):
        reply = await item.say("SUBSCRIBE", "weather", {"topic": "storms", "lease_seconds": 60})
        assert reply["performative"] == "TASK_ACCEPT"
    assert await asyncio.to_thread(notify, sky, {"wind": 10}, {"wind": 10}, key="storm 1") == [2, 0]
    ((_, first),) = await eddy.read(1)
    assert (first["performative"], first["payload"]) == ("NOTIFY", {"topic": "storms", "event": {"wind": 10}})
    mine = (await jane.read(1))[0][1]
    await jane.say("CANCEL", "weather", {}, in_reply_to=mine["in_reply_to"])
    assert await asyncio.to_thread(notify, sky, {"wind": 12}) == [1]
    for entry in (eddy, jane):
        await entry.http.aclose()


async def test_a_topic_that_nobody_publishes_is_rejected_with_the_known_ones(sky: Served) -> None:  # ACL-19
    eddy = Speaker(sky.url, "eddy")
    reply = await eddy.say("SUBSCRIBE", "weather", {"topic": "gossip"})
    assert (reply["performative"], reply["payload"]["reason_code"]) == ("TASK_REJECT", "unsupported_value")
    assert "expected one of storms, task" in reply["payload"]["reason_text"]
    topics = await eddy.say("QUERY_REF", "weather", {"reference": "agent.topics"})
    assert topics["payload"]["value"] == ["storms"]
    with pytest.raises(NotFound, match="does not publish 'gossip'"):
        await sky.gateway.notify("weather", "gossip", {})
    await eddy.http.aclose()


async def test_a_lost_subscriber_is_forgotten_when_its_lease_ends(sky: Served) -> None:  # ACL-19, ACL-27
    eddy = Speaker(sky.url, "eddy")
    await eddy.say("SUBSCRIBE", "weather", {"topic": "storms", "lease_seconds": 0.5})
    ((_, answer),) = await eddy.read(1)
    assert (answer["performative"], answer["payload"]["error_code"]) == ("FAILURE", "timeout")
    assert await asyncio.to_thread(notify, sky, {"wind": 10}) == [0]
    await eddy.http.aclose()


async def test_the_events_of_a_task_are_followed_by_subscription(sky: Served, gate: Gate) -> None:  # ACL-19
    eddy = Speaker(sky.url, "eddy")
    accepted = await eddy.say("TASK_REQUEST", "weather")
    template = {"task_id": accepted["payload"]["task_id_assigned"]}
    reply = await eddy.say("SUBSCRIBE", "weather", {"topic": "task", "template": template, "lease_seconds": 60})
    assert reply["performative"] == "TASK_ACCEPT"
    missing = await eddy.say("SUBSCRIBE", "weather", {"topic": "task", "template": {"task_id": "none"}})
    assert missing["performative"] == "TASK_REJECT"
    gate.open()
    events: list[dict[str, Any]] = []
    last = None
    while not events or events[-1]["kind"] != "end":
        ((last, message),) = await eddy.read(1, last)
        if message["performative"] == "NOTIFY":
            events.append(message["payload"]["event"])
    assert {event["task_id"] for event in events} == {template["task_id"]}
    assert any(event.get("note") == "half way" for event in events)
    assert events[-1]["state"] == "completed"
    await eddy.http.aclose()


# -- directories of several gateways ----------------------------------------------------------------


def named(name: str) -> Any:
    @agent(card=Card(name, f"The agent {name}", skills=(Skill("carve", "carve", "Carves wood"),)))
    async def carver(turn: Turn) -> str:
        return name

    return carver


def found(url: str, depth: int, results: int = 100) -> list[str]:
    given = {"skills": "carve", "max_depth": depth, "max_results": results}
    entries = httpx.get(f"{url}/acl/directory", params=given).json()["entries"]
    return [entry["name"] for entry in entries]


def test_a_search_includes_other_gateways_within_its_depth(tmp_path: Path) -> None:  # ACL-41
    def gateway(name: str, to: dict[str, RemoteGateway | str]) -> Gateway:
        return Gateway(named(name), home=tmp_path / name, gateways=to)

    with serving(gateway("far", {})) as far:
        beyond = RemoteGateway(f"{far.url}/acl", protocol="acl", only=())
        with serving(gateway("middle", {"far": beyond})) as middle:
            next_door = RemoteGateway(f"{middle.url}/acl", protocol="acl", only=())
            away = RemoteGateway("http://127.0.0.1:1/acl", protocol="acl", only=())
            with serving(gateway("near", {"middle": next_door, "away": away})) as near:
                assert [found(near.url, depth) for depth in (0, 1, 2, 9)] == [
                    ["near"],
                    ["near", "middle"],
                    ["near", "middle", "far"],
                    ["near", "middle", "far"],
                ]
                assert found(near.url, 9, results=2) == ["near", "middle"]
                invalid = httpx.get(f"{near.url}/acl/directory", params={"max_depth": -1})
    assert invalid.status_code == 400
    assert "max_depth" in invalid.text


def test_gateways_that_know_each_other_are_asked_once(tmp_path: Path) -> None:  # ACL-41
    one = Gateway(named("one"), home=tmp_path / "one")
    with serving(one) as first:
        two = Gateway(named("two"), home=tmp_path / "two", gateways={"one": RemoteGateway(first.url, only=())})
        with serving(two) as second:
            assert found(second.url, 8) == ["two", "one"]
