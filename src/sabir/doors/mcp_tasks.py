"""MCP's tasks (the extension ``io.modelcontextprotocol/tasks`` of 2026-07-28): calls that outlive their request.

They are the gateway's tasks: stored, owned, shared between nodes. The server decides: a call that takes longer than
``task_after`` seconds becomes a task, if its client has said that it knows tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import mcp_types as types
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import Field

from ..card import Skill
from ..errors import BadMessage, Conflict, NotFound
from ..stores.base import TaskRow
from ..turn import Caller
from ..wire import mcp as wire
from ..wire import mcp_ask
from .base import House
from .mcp_stream import Visit
from .mcp_turns import Context, askable

Json = dict[str, Any]
EXTENSION: Final = "io.modelcontextprotocol/tasks"
TOOL: Final = "mcp"  # under which a task keeps the name of its tool
TASK_AFTER: Final = 10.0  # seconds
POLL_MS: Final = 1000

# Our states, as the extension names them.
STATUS: Final[Mapping[str, str]] = {
    "submitted": "working",
    "working": "working",
    "input-required": "input_required",
    "completed": "completed",
    "failed": "completed",  # the tool ran and failed: its result says so with isError
    "cancelled": "cancelled",
    "expired": "failed",
}


class GetTask(types.RequestParams):
    task_id: str


class UpdateTask(types.RequestParams):
    task_id: str
    input_responses: dict[str, Any] = Field(default_factory=dict)


def knows_tasks(ctx: Context) -> bool:
    """Whether this client has said that it knows tasks."""
    capabilities = ctx.session.client_capabilities
    extensions = capabilities.extensions if capabilities is not None else None
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS and EXTENSION in (extensions or {})


def created(task: TaskRow) -> Json:
    """The result of a call that has become a task."""
    return {"resultType": "task", **_about(task)}


def _about(task: TaskRow) -> Json:
    about: Json = {
        "taskId": task.id,
        "status": STATUS[task.state],
        "createdAt": moment(task.created),
        "lastUpdatedAt": moment(task.updated),
        "ttlMs": max(0, int((task.expires - task.created) * 1000)),
        "pollIntervalMs": POLL_MS,
    }
    if task.note:
        about["statusMessage"] = task.note
    return about


def moment(at: float) -> str:
    """A time as the protocol writes it."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class McpTasks:
    """``tasks/get``, ``tasks/update`` and ``tasks/cancel``."""

    def __init__(self, house: House, skill_of: Callable[[Caller, str], Skill | None]) -> None:
        self._tasks = house.tasks
        self._guard = house.guard
        self._skill_of = skill_of

    async def get(self, ctx: Context, visit: Visit, params: GetTask) -> Json:
        """How a task stands, with its result once there is one."""
        task = await self._find(ctx, visit, params.task_id)
        told = {"resultType": "complete", **_about(task)}
        if task.state == "completed" and task.reply is not None:
            tool = str(task.detail.get(TOOL, ""))
            told["result"] = wire.result_of(task.reply, self._skill_of(visit.caller, tool))
        elif task.state == "failed":
            told["result"] = wire.failed_result(task.fault or "it failed")
        elif task.state == "expired":
            told["error"] = {"code": wire.INTERNAL_ERROR, "message": task.fault or "it was not finished in time"}
        elif task.state == "input-required" and task.question is not None:
            question = mcp_ask.question_in(task.question)
            wanted = {**mcp_ask.each(question), **askable(ctx, question)}
            told["inputRequests"] = {key: mcp_ask.request_of(one) for key, one in wanted.items()}
        return told

    async def update(self, ctx: Context, visit: Visit, params: UpdateTask) -> Json:
        """Answer what a task waits for."""
        task = await self._find(ctx, visit, params.task_id)
        if task.state != "input-required" or task.question is None:
            return {"resultType": "complete"}  # it was answered meanwhile; how it stands is told by tasks/get
        question = mcp_ask.question_in(task.question)
        try:
            given = {
                key: mcp_ask.answer_of(one, params.input_responses[key])
                for key, one in mcp_ask.each(question).items()
                if key in params.input_responses
            }
        except BadMessage as wrong:
            raise MCPError(wire.INVALID_PARAMS, str(wrong)) from None
        if len(given) < len(mcp_ask.each(question)):
            missing = ", ".join(key for key in mcp_ask.each(question) if key not in given)
            raise MCPError(wire.INVALID_PARAMS, f"inputResponses: {missing} is still wanted; answer all at once")
        several = isinstance(question, mcp_ask.Several)
        answer = mcp_ask.together(given) if several else next(iter(given.values()))
        await self._tasks.answer(task.id, visit.caller, answer)
        return {"resultType": "complete"}

    async def cancel(self, ctx: Context, visit: Visit, params: GetTask) -> Json:
        """End a task. One that has ended stays as it is."""
        await self._find(ctx, visit, params.task_id)
        try:
            await self._tasks.cancel(params.task_id, visit.caller)
        except Conflict:
            pass
        return {"resultType": "complete"}

    async def _find(self, ctx: Context, visit: Visit, id: str) -> TaskRow:
        if not knows_tasks(ctx):
            if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
                raise MCPError(wire.METHOD_NOT_FOUND, "Method not found", ctx.method)
            needed: dict[str, Any] = {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
            raise MCPError(wire.MISSING_CAPABILITY, f"the client must declare {EXTENSION}", needed)
        self._guard.rates.check(visit.caller)
        try:
            return await self._tasks.find(id, visit.caller)
        except NotFound:
            raise MCPError(wire.INVALID_PARAMS, "there is no such task") from None
