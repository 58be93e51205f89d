"""Calls that a server turns into tasks: followed to their end, answered on the way, and cancelled there if we leave.

In 2025-11-25 we ask for a task, if the tool requires it or our own turn has the time for it; from 2026-07-28 on (the
extension ``io.modelcontextprotocol/tasks``) the server decides. Either way the answer may take as long as our turn
has, because no connection waits for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Literal, NoReturn

import mcp_types as types
from mcp.client import ClientSession
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp.shared.dispatcher import CallOptions, ProgressFnT
from mcp.shared.exceptions import MCPError

from sabir.errors import PeerRefused, PeerUnavailable, PeerUnreadable
from sabir.events import Event, Progress

Json = dict[str, Any]
Request = Callable[[str, Json], Awaitable[Json]]
Answer = Callable[[str, Mapping[str, Any]], Awaitable[Json]]

EXTENSION: Final = "io.modelcontextprotocol/tasks"
OLD_VERSION: Final = "2025-11-25"
_PAUSE: Final = 1.0  # seconds between polls, if the server does not say
_SHORTEST: Final = 0.05
_LONGEST: Final = 30.0
_FAILURES: Final = 5  # consecutive polls that may fail: the server may be restarting
_LONG: Final = 600.0  # seconds; a turn with more time is a task itself, and nobody waits on a connection for it
_OPEN: Final = frozenset({"working", "input_required"})


class Created(types.Result):
    """The result of a call that the server has turned into a task (2026-07-28)."""

    result_type: Literal["task"] = "task"
    task_id: str
    status: str = "working"
    poll_interval_ms: float | None = None


async def _followed_elsewhere(created: Created, context: ClaimContext) -> NoReturn:
    raise PeerUnreadable(context.tool_name, "a task that nobody follows")


class TasksExtension(ClientExtension):
    """Tells servers of 2026-07-28 that we support tasks."""

    identifier = EXTENSION

    def claims(self) -> Sequence[ResultClaim[Any]]:
        return (ResultClaim(result_type="task", model=Created, resolve=_followed_elsewhere),)


def is_long(seconds: float) -> bool:
    """Whether a turn with this much time left outlives its request."""
    return seconds > _LONG


def offers_old_tasks(session: ClientSession) -> bool:
    """Whether a server of 2025-11-25 supports tasks for tool calls."""
    tasks = session.server_capabilities.tasks if session.server_capabilities is not None else None
    requests = tasks.requests if tasks is not None else None
    offered = requests is not None and requests.tools is not None and requests.tools.call is not None
    return offered and session.protocol_version == OLD_VERSION


async def raw_request(
    session: ClientSession, method: str, params: Json, on_progress: ProgressFnT | None = None
) -> Json:
    """A request that the SDK's tables do not know, with the headers of its version and its unchanged result."""
    data: Json = {"method": method, "params": params}
    options: CallOptions = {}
    session._stamp(data, options)
    if "taskId" in params:
        options.setdefault("headers", {})["Mcp-Name"] = params["taskId"]
    if on_progress is not None:
        options["on_progress"] = on_progress
    return await session._dispatcher.send_raw_request(method, data["params"], options)


class Following:
    """One remote task. ``request`` sends a request to its server, ``answer`` provides the input that it asks for."""

    def __init__(
        self,
        peer: str,
        about: Mapping[str, Any],
        request: Request,
        answer: Answer,
        on_event: Callable[[Event], None] | None,
        left: Callable[[], float],
    ) -> None:
        """Raises:
        PeerUnreadable: it has no id.
        """
        task_id = about.get("taskId")
        if not isinstance(task_id, str) or not task_id:
            raise PeerUnreadable(peer, "its task has no id")
        self.id = task_id
        self.ended = False
        self._peer = peer
        self._about = about
        self._request = request
        self._answer = answer
        self._on_event = on_event
        self._left = left
        self._note = ""
        self._answered: set[str] = set()

    async def result(self) -> Json:
        """The result of the call, once there is one (2026-07-28).

        Raises:
            MCPError: the call ended with this error.
            PeerError: the server ended it, or it is no longer available.
        """
        about: Mapping[str, Any] = self._about
        while about.get("status") in _OPEN:
            if about.get("status") == "input_required":
                await self._give(about.get("inputRequests"))
            about = await self._next(about)
        self.ended = True
        if about.get("status") == "completed" and isinstance(about.get("result"), dict):
            return dict(about["result"])
        raise self._failure(about)

    async def old_result(self) -> Json:
        """The same in 2025-11-25: the result is requested separately, and so are the task's questions."""
        about: Mapping[str, Any] = self._about
        while about.get("status") == "working":
            about = await self._next(about)
        if about.get("status") not in ("input_required", "completed", "failed"):
            self.ended = True
            raise self._failure(about)
        result = await self._request("tasks/result", {"taskId": self.id})
        self.ended = True
        return result

    async def cancel(self) -> None:
        """Cancel it, because nobody waits for it any more."""
        await self._request("tasks/cancel", {"taskId": self.id})

    async def _next(self, about: Mapping[str, Any]) -> Json:
        """The state of the task after a pause.

        Raises:
            PeerUnavailable: our time is over, or its server no longer answers.
        """
        failed = 0
        while True:
            if not self._left():
                raise PeerUnavailable(self._peer, "no answer in time")
            await asyncio.sleep(min(_pause(about), self._left()))
            try:
                answer = await self._request("tasks/get", {"taskId": self.id})
            except PeerUnavailable:
                failed += 1
                if failed >= _FAILURES:
                    raise
                continue
            note = answer.get("statusMessage")
            if isinstance(note, str) and note and note != self._note and self._on_event is not None:
                self._on_event(Progress(note=note[:1000]))
                self._note = note
            return answer

    async def _give(self, wanted: object) -> None:
        """Answer the task's open questions."""
        asked = {k: v for k, v in wanted.items() if k not in self._answered} if isinstance(wanted, Mapping) else {}
        given: Json = {}
        for key, one in asked.items():
            method, params = (one.get("method"), one.get("params")) if isinstance(one, Mapping) else ("", None)
            given[key] = await self._answer(str(method), params if isinstance(params, Mapping) else {})
        if given:
            await self._request("tasks/update", {"taskId": self.id, "inputResponses": given})
            self._answered.update(given)

    def _failure(self, about: Mapping[str, Any]) -> MCPError | PeerRefused:
        error = about.get("error")
        if isinstance(error, Mapping) and isinstance(error.get("code"), int):
            return MCPError(error["code"], str(error.get("message", "")), error.get("data"))
        said = about.get("statusMessage") or f"its task ended as {str(about.get('status'))[:20]}"
        return PeerRefused(self._peer, str(said)[:500])


def _pause(about: Mapping[str, Any]) -> float:
    """Seconds until the next poll, as the server wishes, within reason."""
    wished = about.get("pollIntervalMs", about.get("pollInterval"))
    seconds = wished / 1000 if isinstance(wished, int | float) else _PAUSE
    return min(_LONGEST, max(_SHORTEST, seconds))
