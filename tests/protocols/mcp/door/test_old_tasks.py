"""The experimental tasks of 2025-11-25: the client asks for one, waits for its result, and is asked on the way.

The official client has the types of it and no methods, so they are sent as they are, through its session.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import mcp_types as types
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from callers import ByName
from conftest import Served, serving
from deadline import DEADLINE
from mcp_servers.task_agents import curious, failing, slow
from sabir.agent import agent
from sabir.agents.echo import echo
from sabir.card import Card
from sabir.gateway.gateway import Gateway
from sabir.guard import Authenticator
from sabir.turn import Turn

RELATED = "io.modelcontextprotocol/related-task"


@agent(card=Card("kitchen", "Cooks", site="kitchen.example"))
async def kitchen(turn: Turn) -> str:
    return "soup"


def gateway(home: Path) -> Gateway:
    return Gateway(echo, slow, failing, curious, kitchen, home=home, identity=Authenticator([ByName()]))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(gateway(tmp_path_factory.mktemp("old-tasks"))) as served:
        yield served


class Tasks:
    """A client of 2025-11-25 that knows tasks."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def create(self, tool: str, text: str = "soon") -> types.Task:
        params = types.CallToolRequestParams(name=tool, arguments={"text": text}, task=types.TaskMetadata(ttl=60_000))
        raw = await self.raw("tools/call", params.model_dump(by_alias=True, exclude_none=True))
        return types.CreateTaskResult.model_validate(raw).task

    async def get(self, task_id: str) -> types.GetTaskResult:
        return types.GetTaskResult.model_validate(await self.raw("tasks/get", {"taskId": task_id}))

    async def result(self, task_id: str) -> dict[str, Any]:
        return await self.raw("tasks/result", {"taskId": task_id})

    async def raw(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        return await self.client.session._dispatcher.send_raw_request(method, params, {"timeout": 30})

    async def until(self, task_id: str, status: str) -> types.GetTaskResult:
        async with asyncio.timeout(DEADLINE):
            while (task := await self.get(task_id)).status != status:
                await asyncio.sleep(0.05)
        return task


@asynccontextmanager
async def tasks_of(served: Served, who: str = "ada", elicit: Any = None, mode: str = "legacy") -> AsyncIterator[Tasks]:
    headers = {"authorization": f"Bearer {who}"} if who else {}
    async with httpx2.AsyncClient(headers=headers) as http:
        transport = streamable_http_client(f"{served.url}/mcp", http_client=http)
        async with Client(transport, mode=mode, elicitation_callback=elicit) as client:
            yield Tasks(client)


async def test_tasks_are_announced_and_tools_say_that_they_may_be_tasks(served: Served) -> None:
    async with tasks_of(served) as tasks:
        capabilities = tasks.client.server_capabilities
        assert capabilities is not None and capabilities.tasks is not None
        assert capabilities.tasks.list is not None and capabilities.tasks.cancel is not None
        assert capabilities.tasks.requests is not None and capabilities.tasks.requests.tools is not None
        listed = {tool.name: tool for tool in (await tasks.client.list_tools()).tools}
        assert listed["slow"].execution == types.ToolExecution(task_support="optional")
        assert listed["ask"].execution is None
    async with tasks_of(served, who="") as strangers:
        capabilities = strangers.client.server_capabilities
        assert capabilities is not None and capabilities.tasks is not None and capabilities.tasks.list is None
        with pytest.raises(MCPError) as raised:
            await strangers.raw("tasks/list", {})
        assert raised.value.error.code == -32601


async def test_a_call_becomes_a_task_and_its_result_names_it(served: Served) -> None:
    async with tasks_of(served) as tasks:
        task = await tasks.create("slow")
        assert (task.status, isinstance(task.ttl, int)) == ("working", True)
        result = await tasks.result(task.task_id)
        assert result["structuredContent"]["text"] == "here it is"
        assert result["_meta"][RELATED] == {"taskId": task.task_id}
        assert (await tasks.get(task.task_id)).status == "completed"
        assert await tasks.result(task.task_id) == result


async def test_a_call_without_task_is_answered_as_ever(served: Served) -> None:
    async with tasks_of(served) as tasks:
        result = await tasks.client.call_tool("slow", {"text": "soon"})
        assert result.structured_content is not None
        assert result.structured_content["text"] == "here it is"


async def test_a_tool_that_fails_is_a_task_that_failed(served: Served) -> None:
    async with tasks_of(served) as tasks:
        task = await tasks.create("failing")
        result = await tasks.result(task.task_id)
        assert result["isError"] is True
        assert "inside" not in str(result)
        assert (await tasks.get(task.task_id)).status == "failed"


async def test_what_a_task_asks_is_asked_while_its_result_is_waited_for(served: Served) -> None:
    asked: list[Any] = []

    async def elicit(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        asked.append(params)
        return types.ElicitResult(action="accept", content={"answer": "large"})

    async with tasks_of(served, elicit=elicit) as tasks:
        task = await tasks.create("curious")
        waiting = await tasks.until(task.task_id, "input_required")
        assert waiting.status_message == "Which size?"
        result = await tasks.result(task.task_id)
    assert result["structuredContent"]["text"] == "You want large"
    assert asked[0].meta[RELATED] == {"taskId": task.task_id}


async def test_a_client_that_cannot_be_asked_learns_so_and_answers_in_the_conversation(served: Served) -> None:
    async with tasks_of(served) as tasks:
        task = await tasks.create("curious")
        with pytest.raises(MCPError, match="Which size") as raised:
            await tasks.result(task.task_id)
        said = raised.value.error.data
        await tasks.client.call_tool("curious", {"text": "small", "conversation": said["conversation"]})
        await tasks.until(task.task_id, "completed")
        assert (await tasks.result(task.task_id))["structuredContent"]["text"] == "You want small"


async def test_a_task_is_cancelled_once(served: Served) -> None:
    async with tasks_of(served) as tasks:
        task = await tasks.create("slow", "later")
        waiting = asyncio.create_task(tasks.result(task.task_id))
        cancelled = await tasks.raw("tasks/cancel", {"taskId": task.task_id})
        assert (cancelled["taskId"], cancelled["status"]) == (task.task_id, "cancelled")
        with pytest.raises(MCPError, match="cancelled"):
            await waiting
        with pytest.raises(MCPError) as raised:
            await tasks.raw("tasks/cancel", {"taskId": task.task_id})
        assert raised.value.error.code == -32602


@pytest.mark.parametrize("method", ["tasks/get", "tasks/result", "tasks/cancel"])
async def test_a_task_of_another_caller_is_not_there(served: Served, method: str) -> None:
    async with tasks_of(served) as tasks, tasks_of(served, "bob") as theirs:
        task = await tasks.create("slow")
        errors = []
        for task_id in (task.task_id, "made-up"):
            with pytest.raises(MCPError) as raised:
                await theirs.raw(method, {"taskId": task_id})
            errors.append(raised.value.error)
        assert errors[0] == errors[1]
        assert errors[0].code == -32602


async def test_a_caller_lists_its_own_tasks_page_by_page(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sabir.protocols.mcp.door.tasks_2025_11.PAGE", 2)
    async with tasks_of(served, "eve") as tasks:
        made = {(await tasks.create("echo", str(number))).task_id for number in range(5)}
        for task_id in made:
            await tasks.result(task_id)
        found: list[str] = []
        cursor: dict[str, Any] = {}
        while True:
            page = await tasks.raw("tasks/list", cursor)
            found += [task["taskId"] for task in page["tasks"]]
            if "nextCursor" not in page:
                break
            cursor = {"cursor": page["nextCursor"]}
        assert sorted(found) == sorted(made)
        with pytest.raises(MCPError) as raised:
            await tasks.raw("tasks/list", {"cursor": "no such page"})
        assert raised.value.error.code == -32602


async def test_a_tool_without_an_agent_cannot_be_a_task(served: Served) -> None:
    async with tasks_of(served) as tasks:
        call = {"name": "list_sites", "arguments": {}, "task": {}}
        with pytest.raises(MCPError) as raised:
            await tasks.raw("tools/call", call)
        assert raised.value.error.code == -32601


async def test_a_version_without_tasks_has_none(served: Served) -> None:
    begin = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    headers = {"accept": "application/json, text/event-stream", "authorization": "Bearer ada"}
    async with httpx2.AsyncClient(headers=headers) as http:

        async def say(method: str, params: dict[str, Any]) -> dict[str, Any]:
            body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            response = await http.post(f"{served.url}/mcp", json=body)
            if "mcp-session-id" in response.headers:
                http.headers["mcp-session-id"] = response.headers["mcp-session-id"]
            return response.json()  # type: ignore[no-any-return]

        assert "tasks" not in (await say("initialize", begin))["result"]["capabilities"]
        for method in ("tasks/get", "tasks/result", "tasks/cancel"):
            assert (await say(method, {"taskId": "x"}))["error"]["code"] == -32601
        answered = await say("tools/call", {"name": "echo", "arguments": {"text": "hi"}, "task": {}})
        assert answered["result"]["structuredContent"]["text"] == "You said: hi"


async def test_a_task_outlives_a_restart(home: Path) -> None:
    with serving(gateway(home)) as first:
        async with tasks_of(first) as tasks:
            done = (await tasks.create("slow")).task_id
            await tasks.result(done)
            running = (await tasks.create("slow")).task_id
    with serving(gateway(home)) as second:
        async with tasks_of(second) as tasks:
            for task_id in (done, running):
                assert (await tasks.result(task_id))["structuredContent"]["text"] == "here it is"
