"""Calls that outlive their request: the extension ``io.modelcontextprotocol/tasks`` of 2026-07-28 (issue 11, E 20)."""

from __future__ import annotations

import asyncio
import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp_types import HEADER_MISMATCH

from callers import ByName
from conftest import Serve, Served, serving
from deadline import DEADLINE
from mcp_servers.task_agents import curious, failing, hesitant, slow, thorough
from sabir.agents.echo import echo
from sabir.gateway.gateway import Gateway
from sabir.guard import Authenticator

EXTENSION = "io.modelcontextprotocol/tasks"


def gateway(home: Path, task_after: float = 0.05) -> Gateway:
    made = (echo, slow, failing, curious, thorough, hesitant)
    return Gateway(*made, home=home, identity=Authenticator([ByName()]), doors={"mcp": {"task_after": task_after}})


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(gateway(tmp_path_factory.mktemp("tasks"))) as served:
        yield served


def say(
    served: Served,
    method: str,
    params: dict[str, Any],
    who: str = "ada",
    *,
    knows: bool = True,
    elicits: bool = False,
    more: dict[str, str] | None = None,
) -> dict[str, Any]:
    capabilities: dict[str, Any] = {"extensions": {EXTENSION: {}}} if knows else {}
    if elicits:
        capabilities["elicitation"] = {"form": {}}
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
    name = params.get("name", params.get("taskId"))
    if name is not None:
        headers["mcp-name"] = name
    headers |= more or {}
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
    return posted(served, body, headers)


def posted(served: Served, body: dict[str, Any], headers: dict[str, str]) -> dict[str, Any]:
    """Over the standard library's client, because others do not send blanks around a header's value."""
    connection = http.client.HTTPConnection(served.host, served.port, timeout=DEADLINE)
    try:
        connection.request("POST", "/mcp", json.dumps(body), {"content-type": "application/json", **headers})
        answer: dict[str, Any] = json.loads(connection.getresponse().read())
        return answer
    finally:
        connection.close()


def call(served: Served, tool: str, text: str = "soon", **options: Any) -> dict[str, Any]:
    return say(served, "tools/call", {"name": tool, "arguments": {"text": text}}, **options)["result"]  # type: ignore[no-any-return]


async def until(served: Served, task_id: str, *statuses: str) -> dict[str, Any]:
    async with asyncio.timeout(DEADLINE):
        while True:
            task = await asyncio.to_thread(say, served, "tasks/get", {"taskId": task_id})
            if task["result"]["status"] in statuses:
                return task["result"]  # type: ignore[no-any-return]
            await asyncio.sleep(0.05)


def test_the_extension_is_announced(served: Served) -> None:
    assert EXTENSION in say(served, "server/discover", {})["result"]["capabilities"]["extensions"]


def test_a_quick_call_is_not_a_task(serve: Serve, home: Path) -> None:
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
    task_id = call(served, "slow", "later")["taskId"]
    for _ in range(2):
        assert "error" not in say(served, "tasks/cancel", {"taskId": task_id})
    await until(served, task_id, "cancelled")


async def test_a_task_asks_and_is_answered(served: Served) -> None:
    task_id = call(served, "curious")["taskId"]
    asking = await until(served, task_id, "input_required")
    assert asking["inputRequests"]["size"]["method"] == "elicitation/create"
    unknown = say(served, "tasks/update", {"taskId": task_id, "inputResponses": {"colour": {}}})
    assert unknown["result"]["resultType"] == "complete"  # what was not asked for is ignored
    invalid = say(served, "tasks/update", {"taskId": task_id, "inputResponses": {"size": {}}})
    assert invalid["error"]["code"] == -32602
    assert "size" in (await until(served, task_id, "input_required"))["inputRequests"]
    given = {"size": {"action": "accept", "content": {"answer": "large"}}}
    assert "error" not in say(served, "tasks/update", {"taskId": task_id, "inputResponses": given})
    done = await until(served, task_id, "completed")
    assert done["result"]["structuredContent"]["text"] == "You want large"


async def test_several_questions_of_a_task_are_answered_one_after_the_other(home: Path) -> None:
    size = {"size": {"action": "accept", "content": {"answer": "large"}}}
    colour = {"colour": {"action": "accept", "content": {"answer": "red"}}}
    with serving(gateway(home)) as first:
        task_id = call(first, "thorough")["taskId"]
        assert set((await until(first, task_id, "input_required"))["inputRequests"]) == {"size", "colour"}
        say(first, "tasks/update", {"taskId": task_id, "inputResponses": {**size, "shape": {"action": "accept"}}})
        assert set((await until(first, task_id, "input_required"))["inputRequests"]) == {"colour"}
        assert say(first, "tasks/update", {"taskId": task_id, "inputResponses": colour})["result"]
        done = await until(first, task_id, "completed")
    assert done["result"]["structuredContent"]["text"] == "You want large, red"


async def test_a_retry_after_a_question_can_become_a_task(served: Served) -> None:
    arguments = {"name": "hesitant", "arguments": {"text": "soon"}}
    asked = say(served, "tools/call", arguments, elicits=True)["result"]
    assert asked["resultType"] == "input_required"
    given = {"size": {"action": "accept", "content": {"answer": "large"}}}
    retry = {**arguments, "inputResponses": given, "requestState": asked["requestState"]}
    created = say(served, "tools/call", retry, elicits=True)["result"]
    assert created["resultType"] == "task"
    done = await until(served, created["taskId"], "completed")
    assert done["result"]["structuredContent"]["text"] == "You want large"


BLANKS = ("{}", " {}", "{} ", "\t{} \t")


@pytest.mark.parametrize("blanks", BLANKS)
@pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel"])
def test_the_name_in_the_header_is_the_task_id(served: Served, method: str, blanks: str) -> None:
    task_id = call(served, "slow")["taskId"]
    assert "result" in say(served, method, {"taskId": task_id}, more={"mcp-name": blanks.format(task_id)})
    raised = say(served, method, {"taskId": task_id}, more={"mcp-name": blanks.format("another")})
    assert raised["error"]["code"] == HEADER_MISMATCH


@pytest.mark.parametrize("blanks", BLANKS)
@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/call", {"name": "echo", "arguments": {"text": "hi"}}),
        ("prompts/get", {"name": "greet"}),
        ("resources/read", {"uri": "sabir://uploads/1"}),
    ],
)
def test_spaces_around_a_name_are_ignored(served: Served, method: str, params: dict[str, Any], blanks: str) -> None:
    name = params.get("name", params.get("uri"))
    fits = say(served, method, params, more={"mcp-name": blanks.format(name)})
    assert fits.get("error", {}).get("code") != HEADER_MISMATCH
    raised = say(served, method, params, more={"mcp-name": blanks.format("another")})
    assert raised["error"]["code"] == HEADER_MISMATCH


@pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel"])
def test_a_task_of_another_caller_is_not_there(served: Served, method: str) -> None:
    task_id = call(served, "slow")["taskId"]
    theirs = say(served, method, {"taskId": task_id}, who="bob")
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
