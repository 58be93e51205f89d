"""A server written with the official SDK alone, whose tools take long and so are tasks, in both versions of tasks.

The SDK has the types of tasks and none of their methods, so they are added here: in 2025-11-25 by a middleware, later
as the extension ``io.modelcontextprotocol/tasks``. ``running(port)`` serves it over HTTP.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import AbstractContextManager
from typing import Any

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from pydantic import Field

from mcp_servers.shelf_server import in_thread

Json = dict[str, Any]
EXTENSION = "io.modelcontextprotocol/tasks"
SCHEMA: Json = {"type": "object", "properties": {"text": {"type": "string"}}}
SIZE: Json = {"type": "object", "properties": {"size": {"type": "string"}}, "required": ["size"]}
QUESTION: Json = {"method": "elicitation/create", "params": {"message": "Which size?", "requestedSchema": SIZE}}
AT = "2026-11-16T00:00:00Z"


class TaskParams(types.RequestParams):
    task_id: str
    input_responses: dict[str, Any] = Field(default_factory=dict)


class Oven:
    """The tools ``bake`` (only as a task), ``warm`` (as a task or not) and ``cut`` (asks something)."""

    def __init__(self, seconds: float = 0.3) -> None:
        self.seconds = seconds
        self.calls: list[str] = []  # tools called without a task
        self.begun: list[str] = []  # tasks, by their tool
        self.cancelled: list[str] = []
        self.asked_about: list[str] = []  # tasks that the client has asked about, so that it knows their ids
        self._tasks: dict[str, Json] = {}
        self.server: Server[Any] = Server("oven", version="1.0", on_list_tools=self.list_tools, on_call_tool=self.call)  # type: ignore[arg-type]
        self.server.middleware.insert(0, self.old)
        self.server.extensions[EXTENSION] = {}
        for method, handler in (("get", self.get), ("update", self.update), ("cancel", self.cancel)):
            self.server.add_request_handler(f"tasks/{method}", TaskParams, handler)

    async def list_tools(self, ctx: Any, params: Any) -> Json:
        kinds = {"bake": "required", "warm": "optional", "cut": "required"}
        tools = [{"name": n, "inputSchema": SCHEMA, "execution": {"taskSupport": kind}} for n, kind in kinds.items()]
        return {"tools": tools, "resultType": "complete", "ttlMs": 1000, "cacheScope": "public"}

    async def call(self, ctx: Any, params: types.CallToolRequestParams) -> Json:
        extensions = getattr(ctx.session.client_capabilities, "extensions", None) or {}
        if EXTENSION in extensions:
            return {"resultType": "task", **self.begin(params.name)}
        self.calls.append(params.name)
        if params.name != "warm":
            raise MCPError(types.METHOD_NOT_FOUND, f"{params.name} must be called as a task")
        await asyncio.sleep(self.seconds)
        return {"content": [{"type": "text", "text": "warm"}], "resultType": "complete"}

    def begin(self, tool: str) -> Json:
        id = f"task-{len(self._tasks)}"
        self._tasks[id] = {"tool": tool, "due": time.monotonic() + self.seconds, "answer": None}
        self.begun.append(tool)
        return self.about(id)

    def about(self, id: str) -> Json:
        task = self._tasks[id]
        status = "working" if time.monotonic() < task["due"] else "completed"
        if status == "completed" and task["tool"] == "cut" and task["answer"] is None:
            status = "input_required"
        if id in self.cancelled:
            status = "cancelled"
        times: Json = {"createdAt": AT, "lastUpdatedAt": AT, "ttl": 60_000, "ttlMs": 60_000}
        return {"taskId": id, "status": status, "pollInterval": 50, "pollIntervalMs": 50, **times}

    def result(self, id: str) -> Json:
        task = self._tasks[id]
        words = f"{task['tool']}: {task['answer'] or 'done'}"
        return {"content": [{"type": "text", "text": words}], "isError": False}

    # -- 2026-07-28 ---------------------------------------------------------------------------------

    async def get(self, ctx: Any, params: TaskParams) -> Json:
        self.asked_about.append(params.task_id)
        about = {**self.about(params.task_id), "resultType": "complete"}
        if about["status"] == "completed":
            about["result"] = self.result(params.task_id)
        elif about["status"] == "input_required":
            about["inputRequests"] = {"size": QUESTION}
        return about

    async def update(self, ctx: Any, params: TaskParams) -> Json:
        self._tasks[params.task_id]["answer"] = params.input_responses["size"]["content"]["size"]
        return {"resultType": "complete"}

    async def cancel(self, ctx: Any, params: TaskParams) -> Json:
        self.cancelled.append(params.task_id)
        return {**self.about(params.task_id), "resultType": "complete"}

    # -- 2025-11-25 ---------------------------------------------------------------------------------

    async def old(self, ctx: Any, call_next: Any) -> Any:
        params = dict(ctx.params or {})
        if ctx.method == "initialize":
            result = dict(await call_next(ctx))
            tasks = {"cancel": {}, "requests": {"tools": {"call": {}}}}
            return {**result, "capabilities": {**result["capabilities"], "tasks": tasks}}
        if ctx.method == "tools/call" and params.get("task") is not None:
            return {"task": self.begin(params["name"])}
        if ctx.method == "tasks/result":
            return await self.awaited(ctx, params["taskId"])
        return await call_next(ctx)

    async def awaited(self, ctx: Any, id: str) -> Json:
        self.asked_about.append(id)
        while self.about(id)["status"] == "working":
            await asyncio.sleep(0.02)
        if self.about(id)["status"] == "input_required":
            request = types.ElicitRequest.model_validate(QUESTION)
            about = ServerMessageMetadata(related_request_id=ctx.request_id)
            answer = await ctx.session.send_request(request, types.ElicitResult, metadata=about)
            self._tasks[id]["answer"] = answer.content["size"]
        return self.result(id)


def running(oven: Oven, port: int = 0) -> AbstractContextManager[str]:
    """Serve it; gives its address."""
    return in_thread(oven.server, port)
