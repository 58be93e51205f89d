"""The experimental tasks of MCP 2025-11-25, on the gateway's own tasks: stored, owned, shared between nodes.

Here the client decides: a ``tools/call`` with ``task`` is answered at once with the task. ``tasks/get`` returns its
state;
``tasks/result`` waits for its end, and passes on its questions to the client. The SDK has its types but not its
methods, so they are handled in front of its tables, as middleware.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import mcp_types as types
from mcp.server.context import HandlerResult
from mcp.shared.exceptions import MCPError

from sabir.errors import Conflict, NotFound
from sabir.exchange.conversations import Tokens
from sabir.exchange.request import TurnRequest
from sabir.http.door import DoorContext
from sabir.message import Message
from sabir.protocols.mcp.wire import content as wire
from sabir.protocols.mcp.wire import elicitation as mcp_ask
from sabir.stores.base import TaskRow
from sabir.turn import Caller

from .response import McpRequestContext
from .tasks import POLL_MS, TOOL, GetTask, find_task, moment
from .turns import Context, ask_client, askable

Json = dict[str, Any]
VERSION: Final = "2025-11-25"
RELATED: Final = "io.modelcontextprotocol/related-task"
OPTIONAL: Final = {"execution": {"taskSupport": "optional"}}  # for each tool that may become a task
PAGE: Final = 100
_PATIENCE: Final = 60.0  # seconds between checks whether a task has ended

# Our states as this version names them. A tool that ran and failed has failed; later versions differ.
STATUS: Final[Mapping[str, str]] = {
    "submitted": "working",
    "working": "working",
    "input-required": "input_required",
    "completed": "completed",
    "failed": "failed",
    "cancelled": "cancelled",
    "expired": "failed",
}


def has_tasks(ctx: Context) -> bool:
    """Whether the negotiated version has these tasks."""
    return ctx.protocol_version == VERSION


def wants_task(ctx: Context) -> bool:
    """Whether a request asks to become a task."""
    return ctx.method == "tools/call" and has_tasks(ctx) and isinstance((ctx.params or {}).get("task"), Mapping)


def capability(caller: Caller) -> Json:
    """The task capabilities of an ``initialize`` result. Anonymous callers cannot list tasks: their owner is
    unknown."""
    offered: Json = {"cancel": {}, "requests": {"tools": {"call": {}}}}
    return offered if caller.is_anonymous else {"list": {}, **offered}


class OldTasks:
    """``tasks/get``, ``tasks/result``, ``tasks/list`` and ``tasks/cancel``, and calls that become tasks."""

    def __init__(self, services: DoorContext, result_of: Callable[[Caller, str, Message], Json]) -> None:
        self._services = services
        self._tasks = services.tasks
        self._result_of = result_of

    async def create(self, ask: TurnRequest, tool: str) -> Json:
        """Accept a call as a task.

        Raises:
            SabirError: rejected.
        """
        return {"task": _about(await self._tasks.submit(ask, detail={TOOL: tool}))}

    async def get(self, ctx: Context, context: McpRequestContext, params: GetTask) -> Json:
        """The state of a task."""
        return _about(await find_task(self._services, context, params.task_id))

    async def cancel(self, ctx: Context, context: McpRequestContext, params: GetTask) -> Json:
        """Cancel a task; one that has ended cannot be cancelled."""
        await find_task(self._services, context, params.task_id)
        try:
            return _about(await self._tasks.cancel(params.task_id, context.caller))
        except Conflict as ended:
            raise MCPError(wire.INVALID_PARAMS, str(ended)) from None

    async def list(self, ctx: Context, context: McpRequestContext, params: types.PaginatedRequestParams) -> Json:
        """The caller's tasks that calls have become, latest first."""
        if context.caller.is_anonymous or not has_tasks(ctx):
            raise MCPError(wire.METHOD_NOT_FOUND, "Method not found", ctx.method)
        context.charge(self._services.rates)
        before = _before(params.cursor)
        page = await self._services.store.tasks(owner=context.caller.id, limit=PAGE, before=before)
        listed: Json = {"tasks": [_about(task) for task in page if TOOL in task.detail]}
        if len(page) == PAGE:
            listed["nextCursor"] = repr(page[-1].updated)
        return listed

    async def result(self, ctx: Context, context: McpRequestContext, params: GetTask) -> Json:
        """The result of a task's call, once there is one; its questions are passed to the client."""
        if not has_tasks(ctx):
            raise MCPError(wire.METHOD_NOT_FOUND, "Method not found", ctx.method)
        task = await find_task(self._services, context, params.task_id)
        while task.state in ("submitted", "working", "input-required"):
            if task.state == "input-required":
                await self._answer(ctx, context, task)
            task = await self._tasks.wait(task.id, context.caller, _PATIENCE)
        return self._ended(context, task)

    def _ended(self, context: McpRequestContext, task: TaskRow) -> Json:
        if task.state == "completed" and task.reply is not None:
            result = self._result_of(context.caller, str(task.detail.get(TOOL, "")), task.reply)
        elif task.state == "failed":
            result = wire.failed_result(task.fault or "it failed")
        elif task.state == "cancelled":
            raise MCPError(wire.INVALID_REQUEST, "the task was cancelled", _related(task))
        else:
            raise MCPError(wire.INTERNAL_ERROR, task.fault or "it was not finished in time", _related(task))
        return {**result, "_meta": {**(result.get("_meta") or {}), **_related(task)}}

    async def _answer(self, ctx: Context, context: McpRequestContext, task: TaskRow) -> None:
        """Ask the client what a task wants to know.

        Raises:
            MCPError: this client cannot be asked; a call in the task's conversation answers the question, too.
        """
        question = mcp_ask.question_in(task.question or {})
        can = askable(ctx, question)
        if not can or not ctx.session.can_send_request:
            within = self._services.conversations.token(str(task.detail.get("within")), context.caller, Tokens())
            words = f"the task waits for an answer, and this client cannot be asked: {question.text}"
            raise MCPError(wire.INVALID_REQUEST, words, {**_related(task), "conversation": within.content})
        answer = await ask_client(ctx, question, can, _related(task))
        try:
            await self._tasks.answer(task.id, context.caller, answer)
        except Conflict:  # somebody else answered it, or it has ended in the meantime
            pass


def _about(task: TaskRow) -> Json:
    failed = task.state == "completed" and task.reply is not None and task.reply.is_error
    about: Json = {
        "taskId": task.id,
        "status": "failed" if failed else STATUS[task.state],
        "createdAt": moment(task.created),
        "lastUpdatedAt": moment(task.updated),
        "ttl": max(0, int((task.expires - task.created) * 1000)),
        "pollInterval": POLL_MS,
    }
    said = task.fault or task.note or (task.question or {}).get("text")
    return {**about, "statusMessage": said} if said else about


def _related(task: TaskRow) -> Json:
    return {RELATED: {"taskId": task.id}}


def _before(cursor: str | None) -> float | None:
    """Raises:
    NotFound: invalid cursor.
    """
    if cursor is None:
        return None
    try:
        return float(cursor[:32])
    except ValueError:
        raise NotFound("invalid cursor") from None


def with_tasks_capability(result: HandlerResult, caller: Caller) -> HandlerResult:
    """An ``initialize`` result with task capabilities, if the negotiated version has them."""
    if not isinstance(result, dict) or result.get("protocolVersion") != VERSION:
        return result
    return {**result, "capabilities": {**result["capabilities"], "tasks": capability(caller)}}
