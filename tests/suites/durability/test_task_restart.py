"""A gateway on SQLite is killed with tasks under way, and started again: what a client sees over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from deadline import DEADLINE
from suites.durability.scripts import load_script

AGENTS = """
import asyncio
from pathlib import Path
from sabir import agent

calls = Path(__file__).with_name("calls")

async def work(turn):
    with calls.open("a") as file:
        file.write(turn.text + "\\n")
    if turn.text not in calls.with_name("go").read_text().split():
        await asyncio.Event().wait()
    return f"done: {turn.text}"

@agent(name="repeatable", repeatable=True)
async def repeatable(turn):
    return await work(turn)

@agent(name="single")
async def single(turn):
    return await work(turn)

@agent(name="asker", repeatable=True)
async def asker(turn):
    colour = await turn.ask("Which colour?")
    size = await turn.ask("How big?")
    return f"{colour.text}, {size.text}"
"""
CONFIG = """
doors: {mcp: false, a2a: false, nlip-amqp: false}
tasks: {lease: 1.0, look: 0.1}
agents:
  - {id: repeatable, use: "slow_agents:repeatable"}
  - {id: single, use: "slow_agents:single"}
  - {id: asker, use: "slow_agents:asker"}
"""


class Killed:
    """A gateway process, and the calls of a client that polls."""

    def __init__(self, gateway: Any, http: httpx2.AsyncClient, home: Path) -> None:
        self.gateway = gateway
        self.http = http
        self.home = home

    async def submit(self, agent: str, text: str) -> str:
        message = {"format": "text", "subformat": "english", "content": text}
        reply = await self.http.post(
            f"{self.gateway.url}/nlip/{agent}", json=message, headers={"prefer": "respond-async"}
        )
        assert reply.status_code == 202, reply.text
        return reply.headers["location"]

    async def begun(self, *texts: str) -> None:
        async with asyncio.timeout(DEADLINE):
            while not set(texts) <= set(self.calls()):
                await asyncio.sleep(0.02)

    def calls(self) -> list[str]:
        path = self.home / "calls"
        return path.read_text().split() if path.exists() else []

    async def poll(self, place: str, *, until: set[int]) -> httpx2.Response:
        async with asyncio.timeout(DEADLINE):
            while True:
                reply = await self.http.get(self.gateway.url + place, headers={"prefer": "wait=5"})
                if reply.status_code in until:
                    return reply

    async def answer(self, place: str, text: str) -> httpx2.Response:
        message = {"format": "text", "subformat": "english", "content": text}
        return await self.http.post(self.gateway.url + place, json=message, headers={"prefer": "wait=5"})

    async def restart(self) -> None:
        await self.gateway.kill()
        await self.gateway.start()


@pytest.fixture
async def killed(tmp_path: Path) -> AsyncIterator[Killed]:
    (tmp_path / "slow_agents.py").write_text(AGENTS)
    (tmp_path / "go").write_text("")
    config = tmp_path / "sabir.yaml"
    config.write_text(CONFIG)
    gateway = load_script("killed").GatewayProcess(config, "--home", str(tmp_path))
    await gateway.start()
    async with httpx2.AsyncClient(verify=False) as http:
        yield Killed(gateway, http, tmp_path)
    await gateway.kill()


async def test_work_that_was_under_way_is_started_again_or_fails_with_the_reason(killed: Killed) -> None:
    again = await killed.submit("repeatable", "first")
    never = await killed.submit("single", "second")
    await killed.begun("first", "second")
    (killed.home / "go").write_text("first second third")  # from the next start on, nothing is held up
    await killed.restart()
    done = await killed.poll(again, until={200})
    assert done.json()["content"] == "done: first"
    failed = await killed.poll(never, until={500})
    assert "not repeatable, so it was not restarted" in failed.json()["content"]
    assert sorted(killed.calls()) == ["first", "first", "second"]
    assert (await killed.poll(await killed.submit("single", "third"), until={200})).json()["content"] == "done: third"


async def test_a_question_waits_across_two_restarts(killed: Killed) -> None:
    place = await killed.submit("asker", "paint")
    asked = await killed.poll(place, until={200})
    assert asked.json()["content"] == "Which colour?"
    await killed.restart()
    assert (await killed.poll(place, until={200})).json()["content"] == "Which colour?"
    assert (await killed.answer(place, "red")).status_code in (200, 202)
    async with asyncio.timeout(DEADLINE):
        while (await killed.poll(place, until={200})).json()["content"] != "How big?":
            await asyncio.sleep(0.05)
    await killed.restart()
    assert (await killed.answer(place, "large")).status_code in (200, 202)
    async with asyncio.timeout(DEADLINE):
        while (done := await killed.poll(place, until={200})).json()["content"] == "How big?":
            await asyncio.sleep(0.05)
    assert done.json()["content"] == "red, large"
