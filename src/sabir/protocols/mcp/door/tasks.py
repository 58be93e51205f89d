"""MCP's tasks (the extension ``io.modelcontextprotocol/tasks`` of 2026-07-28): calls that outlive their request.

They are the gateway's tasks: stored, owned, shared between nodes. The server decides: a call that takes longer than
``task_after`` seconds becomes a task, if its client has declared support for tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import mcp_types as types
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import Field

from sabir.errors import BadMessage, Conflict, NotFound
from sabir.http.door import DoorContext
from sabir.message import Message
from sabir.protocols.mcp.wire import content as wire
from sabir.protocols.mcp.wire import elicitation as mcp_ask
from sabir.stores.base import TaskRow
from sabir.turn import Caller

from .response import McpRequestContext
from .turns import Context, askable

Json = dict[str, Any]
EXTENSION: Final = "io.modelcontextprotocol/tasks"
TOOL: Final = "mcp"  # the key of a task's tool name
GIVEN: Final = "mcp-given"  # the key of its answers, until all answers to a question are there
TASK_AFTER: Final = 10.0  # seconds
POLL_MS: Final = 1000
_ACKNOWLEDGED: Final[Json] = {"resultType": "complete"}

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
    """Whether this client has declared support for tasks."""
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


def _given(task: TaskRow) -> Json:
    """The answers so far to the question that a task waits on."""
    kept = task.detail.get(GIVEN)
    if not isinstance(kept, Mapping) or kept.get("question") != len(task.answers):
        return {}
    return dict(kept["responses"])


class McpTasks:
    """``tasks/get``, ``tasks/update`` and ``tasks/cancel``."""

    def __init__(self, services: DoorContext, result_of: Callable[[Caller, str, Message], Json]) -> None:
        self._tasks = services.tasks
        self._services = services
        self._result_of = result_of

    async def get(self, ctx: Context, context: McpRequestContext, params: GetTask) -> Json:
        """The state of a task, with its result once there is one."""
        task = await self._find(ctx, context, params.task_id)
        answer = {"resultType": "complete", **_about(task)}
        if task.state == "completed" and task.reply is not None:
            tool = str(task.detail.get(TOOL, ""))
            answer["result"] = self._result_of(context.caller, tool, task.reply)
        elif task.state == "failed":
            answer["result"] = wire.failed_result(task.fault or "it failed")
        elif task.state == "expired":
            answer["error"] = {"code": wire.INTERNAL_ERROR, "message": task.fault or "it was not finished in time"}
        elif task.state == "input-required" and task.question is not None:
            question = mcp_ask.question_in(task.question)
            wanted = {**mcp_ask.single_questions(question), **askable(ctx, question)}
            given = _given(task)
            answer["inputRequests"] = {key: mcp_ask.request_of(one) for key, one in wanted.items() if key not in given}
        return answer

    async def update(self, ctx: Context, context: McpRequestContext, params: UpdateTask) -> Json:
        """Answer a task's questions, all at once or one by one; answers that it did not ask for are ignored."""
        task = await self._find(ctx, context, params.task_id)
        if task.state != "input-required" or task.question is None:
            return dict(_ACKNOWLEDGED)  # it was answered in the meantime; tasks/get returns its state
        question = mcp_ask.question_in(task.question)
        wanted = mcp_ask.single_questions(question)
        new = {key: value for key, value in params.input_responses.items() if key in wanted}
        given = {**_given(task), **new}
        try:
            answers = {key: mcp_ask.answer_of(wanted[key], value) for key, value in given.items()}
        except BadMessage as exc:
            raise MCPError(wire.INVALID_PARAMS, str(exc)) from None
        if len(answers) == len(wanted):
            several = isinstance(question, mcp_ask.Several)
            answer = mcp_ask.together(answers) if several else next(iter(answers.values()))
            await self._tasks.answer(task.id, context.caller, answer)
        elif new:
            await self._tasks.keep_detail(task, {GIVEN: {"question": len(task.answers), "responses": given}})
        return dict(_ACKNOWLEDGED)

    async def cancel(self, ctx: Context, context: McpRequestContext, params: GetTask) -> Json:
        """Cancel a task. One that has ended stays as it is."""
        await self._find(ctx, context, params.task_id)
        try:
            await self._tasks.cancel(params.task_id, context.caller)
        except Conflict:
            pass
        return {"resultType": "complete"}

    async def _find(self, ctx: Context, context: McpRequestContext, task_id: str) -> TaskRow:
        if not knows_tasks(ctx):
            if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
                raise MCPError(wire.METHOD_NOT_FOUND, "Method not found", ctx.method)
            needed: dict[str, Any] = {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
            raise MCPError(wire.MISSING_CAPABILITY, f"the client must declare {EXTENSION}", needed)
        return await find_task(self._services, context, task_id)


async def find_task(services: DoorContext, context: McpRequestContext, task_id: str) -> TaskRow:
    """A task of this caller, charged.

    Raises:
        MCPError: there is no such task.
    """
    context.charge(services.rates)
    try:
        return await services.tasks.find(task_id, context.caller)
    except NotFound as exc:
        if context.admission is not None:
            await context.admission.rejected(exc)
        raise MCPError(wire.INVALID_PARAMS, "task not found") from None
