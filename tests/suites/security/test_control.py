"""Control without a named agent: for callers with access to any agent, not only the default; and for the owner."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2
import pytest
from websockets.asyncio.client import connect

from conftest import serving
from deadline import DEADLINE
from gates import Gate
from protocols.nlip.amqp.conftest import door_of
from sabir import Policy, Turn, agent
from sabir.gateway.gateway import Gateway
from sabir.guard.build import GuardSettings
from sabir.guard.quotas.rates import Quotas
from sabir.guard.rights import Rule
from suites.security.attackers import JSON, JSON_TYPE, add_key, say, token
from suites.security.letter_writer import Client

DOORS = ("nlip-http", "nlip-ws", "nlip-amqp")
SECRET = Policy("regulatory", "What the vault holds is under seal.", {"jurisdiction": "Vaultland"})


@agent(description="Only for staff", policies=(SECRET,))
async def vault(turn: Turn) -> str:
    return "the vault is open"


async def _refuses(conversation: str) -> str:
    return "it never does"


vault.propose_anonymous = _refuses  # type: ignore[attr-defined]


@agent(description="Answers everybody")
async def faq(turn: Turn) -> str:
    return "it is so"


@dataclass(frozen=True)
class Way:
    """By which door, and where the broker is, if that is one's way."""

    door: str
    broker: str = ""
    address: str = ""


class Speaker:
    """An NLIP client at one door; returns the answer and its status."""

    def __init__(self, url: str, way: Way) -> None:
        self.url, self.way = url, way
        self.key = ""

    async def __call__(self, message: JSON, agent: str = "") -> tuple[int, JSON]:
        if self.key:
            message = {**message, "submessages": [*message.get("submessages", ()), token(self.key, "authentication")]}
        async with asyncio.timeout(DEADLINE):
            answer, status = await self._exchanged(message, agent)
        response = next((p["content"] for p in answer.get("submessages", ()) if p.get("label") == "status"), None)
        return (status if response is None else response["status"]), answer

    async def _exchanged(self, message: JSON, agent: str) -> tuple[JSON, int]:
        if self.way.door == "nlip-http":
            async with httpx2.AsyncClient(trust_env=False) as http:
                place = f"{self.url}/nlip/{agent}"
                said = await http.post(place, content=json.dumps(message), headers=JSON_TYPE)
                return said.json(), said.status_code
        if self.way.door == "nlip-ws":
            place = f"/nlip/{agent}/ws/text" if agent else "/nlip/ws/text"
            async with connect(self.url.replace("http", "ws") + place, proxy=None) as socket:
                await socket.send(json.dumps(message))
                return json.loads(await socket.recv()), 200
        async with Client(self.way.broker, self.way.address) as client:
            return await client.ask(message, agent), 200

    async def control(self, label: str, value: Any, *tokens: JSON) -> tuple[int, Any]:
        """The status of the answer, and its part of this label, or its words."""
        wish = {"format": "structured", "subformat": "json", "content": value, "label": label}
        status, answer = await self(say("", wish, *tokens, control=True))
        parts = answer.get("submessages", ())
        return status, next((p["content"] for p in parts if p.get("label") == label), answer["content"])


def conversation(answer: JSON) -> JSON:
    return next(part for part in answer["submessages"] if part["subformat"].startswith("conversation"))


@pytest.fixture(params=DOORS)
def way(request: pytest.FixtureRequest) -> Way:
    if request.param != "nlip-amqp":
        return Way(request.param)
    return Way(
        request.param, request.getfixturevalue("broker"), f"{request.getfixturevalue('prefix')}-{uuid4().hex[:8]}"
    )


@asynccontextmanager
async def spoken_to(
    home: Path, way: Way, *rules: Rule, agents: tuple[Any, ...] = (vault, faq), **more: Any
) -> AsyncIterator[Speaker]:
    """A gateway whose default agent is the vault."""
    doors = {"nlip-amqp": {"url": way.broker, "address": way.address}} if way.broker else {}
    gateway = Gateway(*agents, home=home, guard=GuardSettings(rights=rules, **more), doors=doors)
    async with AsyncExitStack() as stack:
        served = serving(gateway)
        url = (await asyncio.to_thread(served.__enter__)).url
        stack.push_async_callback(asyncio.to_thread, served.__exit__, None, None, None)
        if doors:
            async with asyncio.timeout(DEADLINE):
                while not door_of(gateway).ready.is_set():
                    await asyncio.sleep(0.01)
        yield Speaker(url, way)


OPEN_FAQ = (Rule(("anonymous",), agents=("faq",)), Rule(("staff",)))


async def test_a_closed_default_agent_closes_no_control_and_is_not_named(home: Path, way: Way) -> None:
    async with spoken_to(home, way, *OPEN_FAQ) as stranger:
        status, answer = await stranger.control("capabilities", {})
        assert status == 200 and [item["name"] for item in answer["agents"]] == ["faq"]
        assert (await stranger.control("limits", {}))[0] == 200
        status, policies = await stranger.control("policy", {})
        assert status == 200 and "Vaultland" not in json.dumps(policies)
        assert (await stranger.control("anonymous", {"propose": True}))[1] == {"anonymous": True, "accepted": True}
        stranger.key = await asyncio.to_thread(add_key, home, "alice", "staff")
        _, answer = await stranger.control("capabilities", {})
        assert [item["name"] for item in answer["agents"]] == ["vault", "faq"]
        assert "Vaultland" in json.dumps((await stranger.control("policy", {}))[1])


async def test_control_at_a_named_agent_is_for_callers_with_access_to_it(home: Path, way: Way) -> None:
    async with spoken_to(home, way, *OPEN_FAQ) as stranger:
        limits = say("What are your limits?", control=True)
        assert (await stranger(limits, "vault"))[0] == 401
        assert (await stranger(limits, "faq"))[0] == 200
        if way.door != "nlip-amqp":  # an unknown agent's address has no reader there
            assert (await stranger(limits, "nobody"))[0] == 401  # a missing one reveals no more


async def test_a_caller_without_any_right_learns_nothing(home: Path, way: Way) -> None:
    async with spoken_to(home, way, Rule(("staff",))) as speaker:
        for label in ("capabilities", "limits", "policy", "history", "sessions", "cancel", "upload"):
            status, words = await speaker.control(label, {})
            assert status == 401 and "vault" not in words and "faq" not in words
        speaker.key = await asyncio.to_thread(add_key, home, "mallory", "guest")
        for label in ("capabilities", "limits", "history", "cancel", "upload"):
            assert await speaker.control(label, {}) == (403, "no right to use any agent here")


async def test_a_control_answer_lists_what_may_be_used_through_its_door(home: Path, way: Way) -> None:
    rules = (
        Rule(("anonymous",), agents=("faq",), doors=(way.door,)),
        Rule(("anonymous",), agents=("vault",), doors=("mcp",)),
    )
    async with spoken_to(home, way, *rules) as speaker:
        status, answer = await speaker.control("capabilities", {})
        assert status == 200 and [item["name"] for item in answer["agents"]] == ["faq"]


async def test_a_question_to_another_agent_is_cancelled_if_no_agent_is_named(home: Path, way: Way) -> None:
    gate = Gate()

    @agent(description="SuspendedTurns")
    async def slow(turn: Turn) -> str:
        if turn.text == "wait":
            await gate.passed()
        return "ready"

    rules = (Rule(("anonymous",), agents=("slow",)), Rule(("staff",)))
    async with spoken_to(home, way, *rules, agents=(vault, slow)) as speaker:
        mine = conversation((await speaker(say("hello"), "slow"))[1])
        asking = asyncio.create_task(speaker(say("wait", mine), "slow"))
        assert await asyncio.to_thread(gate.entered.wait, DEADLINE)
        assert await speaker.control("cancel", {}, mine) == (200, {"cancelled": True})
        assert "cancelled" in (await asking)[1]["content"] and gate.left.is_set()


async def test_what_is_ones_own_stays_ones_own_when_ones_rights_are_gone(home: Path, way: Way) -> None:
    """A caller who may use nothing any more still reads, cancels and erases its conversation, and does nothing else."""
    async with spoken_to(home, way, Rule(("known",), agents=("faq",))) as alice:
        key = alice.key = await asyncio.to_thread(add_key, home, "alice")
        other = await asyncio.to_thread(add_key, home, "mallory")
        mine = conversation((await alice(say("my diagnosis is gout"), "faq"))[1])
    async with spoken_to(home, way, Rule(("staff",))) as speaker:
        for thief in ("", other):
            speaker.key = thief
            for label in ("history", "sessions", "cancel"):
                status, words = await speaker.control(label, {}, mine)
                assert status == (403 if thief else 401) and "gout" not in words
        speaker.key = key
        assert (await speaker(say("and?", mine), "faq"))[0] == 403
        assert "gout" in json.dumps((await speaker.control("history", {}, mine))[1])
        assert await speaker.control("cancel", {}, mine) == (200, {"cancelled": False})
        for label in ("capabilities", "upload", "limits", "context"):
            assert await speaker.control(label, {}, mine) == (403, "no right to use any agent here")
        assert (await speaker.control("history", {}))[0] == 403  # without its token there is nothing of one's own
        assert await speaker.control("sessions", {"erase": True, "confirmed": True}, mine) == (
            200,
            {"ended": True, "erased": True},
        )
        assert (await speaker.control("history", {}, mine))[0] == 403


async def test_control_takes_nothing_from_the_rate_of_the_default_agent(home: Path) -> None:
    quotas = Quotas(rate_per_agent=0.001, burst=3.0)
    rules = (Rule(("anonymous",)),)
    async with spoken_to(home, Way("nlip-http"), *rules, quotas=quotas) as speaker:
        statuses = [(await speaker.control("limits", {}))[0] for _ in range(4)]
        assert statuses == [200, 200, 200, 429]
        assert (await speaker(say("open")))[1]["content"] == "the vault is open"


async def test_control_is_answered_at_once_whatever_is_preferred(home: Path) -> None:
    gateway = Gateway(vault, faq, home=home, guard=GuardSettings(rights=OPEN_FAQ))
    with serving(gateway) as served:
        async with httpx2.AsyncClient(base_url=served.url, trust_env=False) as http:
            body = json.dumps(say("What are your limits?", control=True))
            for wish in ("respond-async", "wait=5", "handling=strict, respond-async"):
                answer = await http.post("/nlip", content=body, headers={**JSON_TYPE, "prefer": wish})
                assert answer.status_code == 200 and answer.json()["messagetype"] == "control"
                assert answer.headers.get("preference-applied", "") == ("handling=strict" if "strict" in wish else "")
