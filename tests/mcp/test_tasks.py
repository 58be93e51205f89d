"""Calls that outlive their request: the extension ``io.modelcontextprotocol/tasks`` of 2026-07-28."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from callers import ByName
from conftest import Serve, Served, serving
from mcp_servers.task_agents import curious, failing, slow
from sabir.agents.echo import echo
from sabir.gateway import Gateway
from sabir.guard import Identity

EXTENSION = "io.modelcontextprotocol/tasks"


def gateway(home: Path, task_after: float = 0.05) -> Gateway:
    made = (echo, slow, failing, curious)
    return Gateway(*made, home=home, identity=Identity([ByName()]), doors={"mcp": {"task_after": task_after}})


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(gateway(tmp_path_factory.mktemp("tasks"))) as served:
        yield served


def say(served: Served, method: str, params: dict[str, Any], who: str = "ada", *, knows: bool = True) -> dict[str, Any]:
    capabilities = {"extensions": {EXTENSION: {}}} if knows else {}
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    }
    headers = {
        "accept": "application/json, text/event-stream",
        "authorization": f"Bearer {who}",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": method,
    }
    if "name" in params:
        headers["mcp-name"] = params["name"]
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
    answer: dict[str, Any] = httpx2.post(f"{served.url}/mcp", json=body, headers=headers, timeout=20).json()
    return answer


def call(served: Served, tool: str, text: str = "soon", **options: Any) -> dict[str, Any]:
    return say(served, "tools/call", {"name": tool, "arguments": {"text": text}}, **options)["result"]  # type: ignore[no-any-return]


async def until(served: Served, id: str, *statuses: str) -> dict[str, Any]:
    async with asyncio.timeout(20):
        while True:
            task = await asyncio.to_thread(say, served, "tasks/get", {"taskId": id})
            if task["result"]["status"] in statuses:
                return task["result"]  # type: ignore[no-any-return]
            await asyncio.sleep(0.05)


def test_the_extension_is_announced(served: Served) -> None:
    assert EXTENSION in say(served, "server/discover", {})["result"]["capabilities"]["extensions"]


def test_what_is_quick_is_no_task(serve: Serve, home: Path) -> None:
    result = call(serve(gateway(home, task_after=60)), "echo", "hi")
    assert (result["resultType"], result["structuredContent"]["text"]) == ("complete", "You said: hi")


def test_a_client_that_does_not_know_tasks_waits(served: Served) -> None:
    assert call(served, "slow", knows=False)["structuredContent"]["text"] == "here it is"


async def test_what_takes_longer_is_a_task_and_its_result_is_kept(served: Served) -> None:
    created = call(served, "slow")
    assert created["resultType"] == "task"
    assert created["status"] == "working"
    assert isinstance(created["ttlMs"], int)
    done = await until(served, created["taskId"], "completed")
    assert done["result"]["structuredContent"]["text"] == "here it is"


async def test_a_tool_that_fails_is_completed_with_an_error(served: Served) -> None:
    done = await until(served, call(served, "failing")["taskId"], "completed", "failed")
    assert done["status"] == "completed"
    assert done["result"]["isError"] is True
    assert "inside" not in str(done)


async def test_a_task_can_be_cancelled_and_cancelling_twice_is_the_same(served: Served) -> None:
    id = call(served, "slow", "later")["taskId"]
    for _ in range(2):
        assert "error" not in say(served, "tasks/cancel", {"taskId": id})
    await until(served, id, "cancelled")


async def test_a_task_asks_and_is_answered(served: Served) -> None:
    id = call(served, "curious")["taskId"]
    asking = await until(served, id, "input_required")
    assert asking["inputRequests"]["size"]["method"] == "elicitation/create"
    nothing = say(served, "tasks/update", {"taskId": id, "inputResponses": {"colour": {}}})
    assert nothing["error"]["code"] == -32602
    given = {"size": {"action": "accept", "content": {"answer": "large"}}}
    assert "error" not in say(served, "tasks/update", {"taskId": id, "inputResponses": given})
    done = await until(served, id, "completed")
    assert done["result"]["structuredContent"]["text"] == "You want large"


@pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel"])
def test_a_task_of_another_caller_is_not_there(served: Served, method: str) -> None:
    id = call(served, "slow")["taskId"]
    theirs = say(served, method, {"taskId": id}, who="bob")
    unknown = say(served, method, {"taskId": "made-up"})
    assert theirs["error"] == unknown["error"]
    assert theirs["error"]["code"] == -32602


async def test_a_task_outlives_a_restart(home: Path) -> None:
    with serving(gateway(home)) as first:
        done = call(first, "slow")["taskId"]
        await until(first, done, "completed")
        running = call(first, "slow")["taskId"]
    with serving(gateway(home)) as second:
        assert (await until(second, done, "completed"))["result"]["structuredContent"]["text"] == "here it is"
        again = await until(second, running, "completed")
        assert again["result"]["structuredContent"]["text"] == "here it is"
