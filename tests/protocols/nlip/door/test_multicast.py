"""One message to a group of agents, at every door: notifications over the bus, and ACL's ``group`` (MW-71)."""

from __future__ import annotations

import asyncio
import json
import queue
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2
import pytest
from websockets.sync.client import connect

from agents.test_concierge import Talk
from bus.on_nats import NATS, need_nats, remove_streams
from conftest import Serve, Served, serving
from deadline import DEADLINE
from protocols.acl.conftest import Speaker
from sabir import Gateway, Policy, Turn, agent
from sabir.agents.group import AgentGroup
from sabir.bus import Letter
from sabir.guard.build import GuardSettings
from sabir.guard.rights import Rule
from sabir.message import Message, json_part
from sabir.protocols.nlip.wire import json as nlip

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
Heard = queue.Queue[tuple[str, str, str]]


def members(heard: Heard, node: str) -> list[Any]:
    @agent(name="ann")
    async def ann(turn: Turn) -> str:
        heard.put(("ann", turn.text, node))
        return f"ann heard {turn.text}"

    @agent(name="ben")
    async def ben(turn: Turn) -> str:
        heard.put(("ben", turn.text, node))
        return f"ben heard {turn.text}"

    return [ann, ben, AgentGroup([ann, ben], name="crew")]


@pytest.fixture(params=["no bus", "memory", "nats", "own store", "another store"])
def crew(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Served, Heard]]:
    heard: Heard = queue.Queue()
    prefix = f"crew{uuid4().hex[:12]}"
    bus = None
    if request.param == "nats":
        need_nats()
        bus = f"{NATS}?prefix={prefix}"
    elif request.param == "memory":
        bus = "memory:"
    elif request.param == "own store":
        bus = "store:"
    elif request.param == "another store":
        bus = f"sqlite:///{tmp_path}/letters.db"
    with serving(Gateway(*members(heard, "a"), home=tmp_path, bus=bus)) as served:
        yield served, heard
    if request.param == "nats":
        asyncio.run(remove_streams(NATS, prefix))


def notification(words: str) -> dict[str, Any]:
    control = {"message_type": "notification", "message_id": uuid4().hex, "timestamp": "2026-01-01T00:00:00Z"}
    return {"format": {}, "control": control, "token": {}, "content": {"query": words}}


def hears(heard: Heard, count: int) -> set[tuple[str, str]]:
    return {heard.get(timeout=DEADLINE)[:2] for _ in range(count)}


def test_a_notification_to_a_group_reaches_each_member_and_waits_for_none(crew: tuple[Served, Heard]) -> None:
    served, heard = crew
    answer = httpx2.post(f"{served.url}/nlip/crew", json=notification("tea"))
    assert answer.status_code == 202
    assert hears(heard, 2) == {("ann", "tea"), ("ben", "tea")}
    with connect(f"{served.ws_url}/nlip/crew/ws/text") as socket:
        socket.send(json.dumps(notification("cake")))
        assert hears(heard, 2) == {("ann", "cake"), ("ben", "cake")}
    assert heard.empty()


def test_a_message_to_a_group_is_answered_with_a_part_for_each(crew: tuple[Served, Heard]) -> None:
    served, _ = crew
    said = {"format": "text", "subformat": "english", "content": "tea"}
    answer = httpx2.post(f"{served.url}/nlip/crew", json=said).json()
    parts = {part.get("label"): part["content"] for part in answer["submessages"]}
    assert (parts["ann"], parts["ben"]) == ("ann heard tea", "ben heard tea")


async def test_an_acl_message_to_the_group_reaches_each_member(crew: tuple[Served, Heard]) -> None:
    served, heard = crew
    eddy = Speaker(served.url, "eddy")
    payload = {"task_type": "ask", "task_description": "tea"}
    response = await eddy.post(eddy.message("TASK_REQUEST", receiver={"group": "crew"}, payload=payload))
    assert response.status_code < 300, response.text
    found = await asyncio.to_thread(hears, heard, 2)
    assert {name for name, _ in found} == {"ann", "ben"}
    nobody = await eddy.post(eddy.message("TASK_REQUEST", receiver={"group": "nobody"}, payload=payload))
    assert "there is no group 'nobody' here" in nobody.text
    await eddy.http.aclose()


def test_a_notification_goes_over_the_bus_if_there_is_one(crew: tuple[Served, Heard]) -> None:
    served, heard = crew
    bus, loop = served.gateway.bus, served.server.loop
    if bus is None:
        assert served.gateway.agents["crew"].publish is None  # type: ignore[attr-defined]
        return
    assert loop is not None
    published: queue.Queue[str] = queue.Queue()

    async def spy(letter: Letter) -> None:
        published.put(letter.to)

    asyncio.run_coroutine_threadsafe(bus.join("group:crew", "spy", spy), loop).result(DEADLINE)
    httpx2.post(f"{served.url}/nlip/crew", json=notification("tea"))
    assert published.get(timeout=DEADLINE) == "group:crew"
    assert hears(heard, 2) == {("ann", "tea"), ("ben", "tea")}


@pytest.mark.parametrize("listed", [False, True], ids=["group", "listed group"])
@pytest.mark.parametrize("bus", [None, "memory:", "store:", NATS])
async def test_a_notification_keeps_the_agreements_of_its_conversation(
    serve: Serve, tmp_path: Path, bus: str | None, listed: bool
) -> None:
    """PAPER-ANON, A-9: a copy that went over the bus was refused by a member whose policy had been accepted."""
    prefix = f"crew{uuid4().hex[:12]}"
    if bus == NATS:
        need_nats()
        bus = f"{NATS}?prefix={prefix}"
    heard: queue.Queue[tuple[dict[str, Any], Turn]] = queue.Queue()

    @agent(name="ann", policies=(Policy("privacy", "I keep notes.", required=True),))
    async def ann(turn: Turn) -> str:
        heard.put((turn.conversation.agreed, turn))
        return ""

    groups = {"acl": {"groups": {"crew": ["ann"]}}} if listed else {}
    agents = [ann] if listed else [ann, AgentGroup([ann], name="crew")]
    url = serve(Gateway(*agents, home=tmp_path, bus=bus, doors=groups)).url
    async with httpx2.AsyncClient(trust_env=False) as http:
        talk = Talk(http, f"{url}/nlip/crew")
        assert (await talk.send_json("anonymous", {"propose": True}))["accepted"] is True
        await talk.control("", json_part({"accept": ["privacy"], "confirmed": True}, label="policy"))
        note = Message("text", "english", "tea", messagetype="notification").with_parts(talk.tokens)
        answer = await http.post(talk.url, content=nlip.encode(note), headers={"traceparent": TRACE})
        assert answer.status_code == 200, answer.text
        agreed, turn = await asyncio.to_thread(heard.get, timeout=DEADLINE)
    assert agreed["anonymous"] is True and agreed["policy"]["accepted"] == ["privacy"]
    assert turn.trace is None and "127.0.0.1" not in str(turn.caller) and turn.text == "tea"
    if bus is not None and bus.startswith(NATS):
        await remove_streams(NATS, prefix)


def test_of_several_nodes_one_takes_the_copy_of_a_member(tmp_path: Path) -> None:
    need_nats()
    heard: Heard = queue.Queue()
    prefix = f"crew{uuid4().hex[:12]}"
    store = f"sqlite:///{tmp_path / 'shared.db'}"
    secret = "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LXNlY3JldA"

    def node(name: str) -> Gateway:
        bus = f"{NATS}?prefix={prefix}"
        return Gateway(*members(heard, name), home=tmp_path / name, store=store, bus=bus, node=name, secrets=(secret,))

    try:
        with serving(node("a")) as first, serving(node("b")) as second:
            for number, served in enumerate((first, second, first, second)):
                answer = httpx2.post(f"{served.url}/nlip/crew", json=notification(f"tea {number}"))
                assert answer.status_code == 202
            assert hears(heard, 8) == {(name, f"tea {number}") for number in range(4) for name in ("ann", "ben")}
            assert heard.empty()
    finally:
        asyncio.run(remove_streams(NATS, prefix))


@pytest.fixture(params=["no bus", "memory"])
def listed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Served, Heard]]:
    """A group that only ``doors.acl.groups`` names; one member is an ACL agent without a place here."""
    heard: Heard = queue.Queue()
    ann, ben, _ = members(heard, "a")
    bus = "memory:" if request.param == "memory" else None
    doors = {"acl": {"groups": {"crew": ["ann", "ben", "eddy"], "absent": ["eddy"], "ann": ["ben"]}}}
    rules = (Rule(("anonymous",), agents=("ann", "crew")),)
    guard = GuardSettings(rights=rules) if "rights" in request.node.name else None
    with serving(Gateway(ann, ben, home=tmp_path, bus=bus, doors=doors, guard=guard)) as served:
        yield served, heard


async def test_a_group_of_the_acl_door_is_an_address_at_every_door(listed: tuple[Served, Heard]) -> None:
    served, heard = listed
    said = {"format": "text", "subformat": "english", "content": "tea"}
    answer = httpx2.post(f"{served.url}/nlip/crew", json=said).json()
    parts = {part.get("label"): part["content"] for part in answer["submessages"]}
    assert (parts["ann"], parts["ben"]) == ("ann heard tea", "ben heard tea")
    assert hears(heard, 2) == {("ann", "tea"), ("ben", "tea")}
    assert httpx2.post(f"{served.url}/nlip/crew", json=notification("cake")).status_code == 202
    assert hears(heard, 2) == {("ann", "cake"), ("ben", "cake")}
    with connect(f"{served.ws_url}/nlip/crew/ws/text") as socket:
        socket.send(json.dumps(said))
        assert "ben heard tea" in str(socket.recv(timeout=DEADLINE))
    assert hears(heard, 2) == {("ann", "tea"), ("ben", "tea")}
    assert httpx2.post(f"{served.url}/nlip/absent", json=said).status_code == 404  # nobody here
    assert httpx2.post(f"{served.url}/nlip/ann", json=said).json()["content"] == "ann heard tea"
    assert hears(heard, 1) == {("ann", "tea")}  # an agent's own name stays its own
    eddy = Speaker(served.url, "eddy")
    payload = {"task_type": "ask", "task_description": "pie"}
    async with asyncio.timeout(DEADLINE):  # a bus lists the group, too
        while served.gateway.bus is not None and not await served.gateway.directory.find("crew"):
            await asyncio.sleep(0.01)
    for receiver in ({"group": "crew"}, {"agent_id": "*"}):
        response = await eddy.post(eddy.message("TASK_REQUEST", receiver=receiver, payload=payload))
        assert response.status_code < 300, response.text
        assert set(response.json()["receivers"]) - {"df"} == {"ann", "ben"}, response.text
        found = await asyncio.to_thread(hears, heard, 2)
        assert {name for name, _ in found} == {"ann", "ben"}  # once each, also where everybody is meant
    await eddy.http.aclose()
    assert heard.empty(), list(heard.queue)


def test_a_listed_group_keeps_to_the_rights_of_the_caller(listed: tuple[Served, Heard]) -> None:
    served, heard = listed
    said = {"format": "text", "subformat": "english", "content": "tea"}
    answer = httpx2.post(f"{served.url}/nlip/crew", json=said).json()
    assert "ann heard tea" in json.dumps(answer)
    assert "ben" not in json.dumps(answer.get("submessages"))
    assert httpx2.post(f"{served.url}/nlip/crew", json=notification("cake")).status_code == 202
    assert hears(heard, 2) == {("ann", "tea"), ("ann", "cake")}
    assert heard.empty()
