"""An ensemble is killed with ``kill -9`` in the middle of a round, and goes on without paying twice (MW-47)."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import yaml

from deadline import DEADLINE
from openai_server import calls, scripted
from sabir.agents.ensemble.state import MemberVoted, PanelEvent
from sabir.stores.sqlite.store import SQLiteStore
from suites.durability.scripts import load_script


class Panel:
    """The models of two members behind one server; bob's second step waits until the gateway was killed."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.held = threading.Event()
        self.release = threading.Event()

    def answer(self, body: dict[str, Any]) -> Any:
        name = body["model"]
        said = str(body["messages"][-1]["content"])
        if "your answer won" in said:
            self.asked.append((name, "present"))
            return "The Rhine it is."
        if "Your own answer" not in said:
            self.asked.append((name, "answer"))
            return calls(("new_answer", {"content": f"Rhine, says {name}"}))
        self.asked.append((name, "vote"))
        if name == "bob" and not self.release.is_set():
            self.held.set()
            return calls(("slow", {}))
        return calls(("vote", {"agent_id": "agent1", "reason": "best"}))


TOOLS = """
import asyncio

async def slow() -> str:
    \"\"\"Takes for ever.\"\"\"
    await asyncio.Event().wait()
    return ""
"""


def config(url: str) -> str:
    agents: list[dict[str, Any]] = [
        {"id": name, "backend": {"model": name, "base_url": url}, "tools": ["slow_tools:slow"]}
        for name in ("alice", "bob")
    ]
    agents.append({"id": "panel", "ensemble": {"members": ["alice", "bob"], "interrupt": False}})
    doors = {"mcp": False, "a2a": False, "nlip-amqp": False}
    return yaml.safe_dump({"doors": doors, "tasks": {"lease": 1.0, "look": 0.1}, "agents": agents})


async def test_a_panel_that_is_killed_in_mid_round_pays_for_nothing_twice(tmp_path: Path) -> None:
    panel = Panel()
    (tmp_path / "slow_tools.py").write_text(TOOLS)
    file = tmp_path / "sabir.yaml"
    with scripted(panel.answer) as server:
        file.write_text(config(server.url))
        gateway = load_script("killed").GatewayProcess(file, "--home", str(tmp_path / "home"))
        await gateway.start()
        try:
            async with httpx2.AsyncClient() as http:
                message = {"format": "text", "subformat": "english", "content": "Which river?"}
                reply = await http.post(f"{gateway.url}/nlip/panel", json=message, headers={"prefer": "respond-async"})
                place = reply.headers["location"]
                assert await asyncio.to_thread(panel.held.wait, DEADLINE)
                async with asyncio.timeout(DEADLINE):
                    while not await stored(tmp_path / "home" / "sabir.db"):
                        await asyncio.sleep(0.05)
                await gateway.kill()
                panel.release.set()
                before = list(panel.asked)
                await gateway.start()
                async with asyncio.timeout(60):
                    while (
                        done := await http.get(gateway.url + place, headers={"prefer": "wait=5"})
                    ).status_code == 202:
                        pass
        finally:
            await gateway.kill()
    after = panel.asked[len(before) :]
    assert done.status_code == 200 and done.json()["content"] == "The Rhine it is. "
    assert set(before) == {("alice", "answer"), ("alice", "vote"), ("bob", "answer"), ("bob", "vote")}
    assert after == [("bob", "vote"), ("alice", "present")]  # only what had not come to an end


async def stored(file: Path) -> bool:
    """Whether the vote of alice that has seen both answers is written down."""
    store = SQLiteStore(file)
    await store.open()
    try:
        records = await store.list("journal", prefix="", limit=100)
    finally:
        await store.close()
    events = [msgspec.json.decode(record.value, type=PanelEvent) for record in records]
    return any(isinstance(event, MemberVoted) and event.member == 0 and event.seen == 2 for event in events)
