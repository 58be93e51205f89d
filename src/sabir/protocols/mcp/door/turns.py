"""One MCP request as one turn: progress while it runs, questions to the client, its end as the result.

A question goes to the client as a request, if the version has those; in 2026-07-28 it ends the request with the input
that is needed, and the turn waits for the retry. A client that cannot be asked gets the question as text, and its next
call in the same conversation answers it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

import mcp_types as types
import msgspec
from mcp.server.connection import allowed_log_levels
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel

from sabir.aio import cancel_and_wait
from sabir.errors import BadMessage, Cancelled, Conflict, Refused, SabirError
from sabir.events import Delta, Event, Progress, Question, Reply
from sabir.exchange.request import TurnRequest
from sabir.http.door import DoorContext
from sabir.ids import new_id
from sabir.message import Message
from sabir.protocols.mcp.wire import content as wire
from sabir.protocols.mcp.wire import elicitation as mcp_ask
from sabir.stores.base import TaskRow
from sabir.tasks.run_or_adopt import RunningTurn, run_or_adopt

from .response import McpRequestContext

Context = ServerRequestContext[Any, Any]
Finish = Callable[[Message], dict[str, Any]]
_SEALED: Final = "mcp-input"
_LEVELS: Final[tuple[types.LoggingLevel, ...]] = (
    "debug",
    "info",
    "notice",
    "warning",
    "error",
    "critical",
    "alert",
    "emergency",
)
_REQUESTS: Final[Mapping[str, tuple[type[BaseModel], type[BaseModel]]]] = {
    "elicitation/create": (types.ElicitRequest, types.ElicitResult),
    "sampling/createMessage": (types.CreateMessageRequest, types.CreateMessageResult),
    "roots/list": (types.ListRootsRequest, types.ListRootsResult),
}
_encode = msgspec.json.Encoder().encode


class Turns:
    """The turns that MCP requests started, and those that wait for a retry."""

    def __init__(self, services: DoorContext) -> None:
        self.services = services
        self._waiting: dict[str, OneTurn] = {}
        self._running: set[asyncio.Task[None]] = set()

    async def answer(
        self, ctx: Context, context: McpRequestContext, ask: TurnRequest, finish: Finish
    ) -> dict[str, Any]:
        """The result of one request: of a new turn, or of one that waits for this request's input.

        Raises:
            SabirError: rejected or failed.
            MCPError: the request is invalid.
        """
        params = ctx.params or {}
        given = params.get("inputResponses")
        given = given if isinstance(given, Mapping) else {}
        state = params.get("requestState")
        if state is None:
            return await OneTurn(self, ctx, ask, finish, given).begin()
        turn = await self._resume(state, ctx, context, ask)
        return await turn.resume(ctx, given)

    async def answer_within(
        self,
        ctx: Context,
        context: McpRequestContext,
        ask: TurnRequest,
        finish: Finish,
        seconds: float,
        detail: dict[str, Any],
    ) -> dict[str, Any] | TaskRow:
        """The result, or the task that the turn has become because it took longer than this.

        Raises:
            SabirError: rejected or failed.
        """
        params = ctx.params or {}
        given = params.get("inputResponses")
        given = given if isinstance(given, Mapping) else {}
        state = params.get("requestState")
        if state is not None:
            turn = await self._resume(state, ctx, context, ask)
            asked_again = turn.take(ctx, given)
            if asked_again is not None:
                return asked_again
        else:
            turn = OneTurn(self, ctx, ask, finish, given, may_become_task=True)
            turn.running.make_findable()
            self.start(turn)
        row = await run_or_adopt(turn.running, seconds, detail) if turn.may_become_task else None
        if row is None:
            return await turn.outcome()
        if turn.running.task is not None:
            self._running.discard(turn.running.task)  # from now on the task worker owns it
        self._waiting.pop(turn.id, None)
        return row

    async def _resume(self, state: object, ctx: Context, context: McpRequestContext, ask: TurnRequest) -> OneTurn:
        opened = self.services.seal.open(_SEALED, state, context.caller.id)
        if opened is None:
            raise MCPError(wire.INVALID_PARAMS, "requestState: was not issued to this caller")
        about = msgspec.json.decode(opened)
        if about["a"] != ask.agent or about["m"] != ctx.method:
            raise MCPError(wire.INVALID_PARAMS, "requestState: it belongs to another request")
        await self.services.guard.admit(context.credentials, ())
        turn = self._waiting.get(about["t"])
        if turn is None:
            raise Conflict("the turn that asked this has ended; ask again from the beginning")
        return turn

    def start(self, turn: OneTurn) -> asyncio.Task[None]:
        task = turn.running.start(turn.run())
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    def wait(self, turn: OneTurn) -> None:
        self._waiting[turn.id] = turn

    def forget(self, turn: OneTurn) -> None:
        self._waiting.pop(turn.id, None)

    def state(self, turn: OneTurn) -> str:
        about = {"t": turn.id, "a": turn.ask.agent, "m": turn.ctx.method}
        caller = turn.line.caller
        return self.services.seal.seal(_SEALED, _encode(about), caller.id if caller is not None else "")

    async def close(self) -> None:
        await cancel_and_wait(list(self._running))


class OneTurn:
    """A turn and the request that waits for it now."""

    def __init__(
        self,
        turns: Turns,
        ctx: Context,
        ask: TurnRequest,
        finish: Finish,
        given: Mapping[str, Any],
        *,
        may_become_task: bool = False,
    ) -> None:
        self.id = new_id()
        self.may_become_task = may_become_task
        self.ctx = ctx
        self.ask = ask
        self.running = RunningTurn(turns.services.tasks, ask, self._event)
        self.line = self.running.line
        self._turns = turns
        self._finish = finish
        self._given = given
        self._question: Question | None = None
        self._lacking: dict[str, Any] | None = None
        self._at = -1.0  # the last reported progress; it must always grow
        self._outcome: asyncio.Future[dict[str, Any] | SabirError] = asyncio.get_running_loop().create_future()

    async def begin(self) -> dict[str, Any]:
        self._turns.start(self)
        return await self.outcome()

    async def resume(self, ctx: Context, given: Mapping[str, Any]) -> dict[str, Any]:
        """Handle a retry: its input is the answer, or the question is repeated."""
        asked_again = self.take(ctx, given)
        return await self.outcome() if asked_again is None else asked_again

    def take(self, ctx: Context, given: Mapping[str, Any]) -> dict[str, Any] | None:
        """Hand the answer of a retry to the turn; returns the result that asks again if there is no answer.

        Raises:
            Conflict: the turn does not wait for input.
        """
        question = self._question
        if question is None:
            raise Conflict("the turn does not wait for input")
        answer = self._answer(question, given)
        self.ctx = ctx
        if answer is None:
            return self._wanted(question)
        self._question = None
        self._outcome = asyncio.get_running_loop().create_future()
        self.running.unsettle()
        self.line.answer(answer)
        return None

    async def run(self) -> None:
        try:
            await self._turns.services.exchange.ask(self.ask, self.line)
        except SabirError as exc:
            self._settle(exc)
        finally:
            self._turns.forget(self)
        self._settle(Cancelled("the turn went on in another request"))

    async def outcome(self) -> dict[str, Any]:
        try:
            outcome = await self._outcome
        except asyncio.CancelledError:
            self.running.cancel()
            raise
        if not isinstance(outcome, SabirError):
            return outcome
        if self._lacking is not None and self.ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            raise MCPError(wire.MISSING_CAPABILITY, str(outcome), {"requiredCapabilities": self._lacking})
        raise outcome

    def _settle(self, outcome: dict[str, Any] | SabirError) -> None:
        self.running.settle()
        if not self._outcome.done():
            self._outcome.set_result(outcome)

    # -- events -----------------------------------------------------------------------------------

    async def _event(self, event: Event) -> None:
        match event:
            case Reply(message):
                self._settle(self._finish(message))
            case Question():
                await self._ask_back(event)
            case Progress(fraction, note):
                await self._progress(fraction, note)
            case Delta(part):
                if part.format == "text":
                    await self._progress(None, str(part.content), log=False)

    async def _progress(self, fraction: float | None, note: str, *, log: bool = True) -> None:
        if (self.ctx.meta or {}).get("progress_token") is not None:
            at = self._at + 0.001 if fraction is None else fraction * 100
            self._at = max(0.0, at if at > self._at else self._at + 0.001)
            await self.ctx.session.report_progress(self._at, 100 if fraction is not None else None, note or None)
        if log and note and fraction is None:
            await self._log("info", note)

    async def _log(self, level: types.LoggingLevel, note: str) -> None:
        """Send a log message: from 2026-07-28 on only if this request asked for them."""
        context = self.ctx.request
        wanted = context.state.get("level", "debug") if context is not None else "debug"
        if level not in allowed_log_levels(self.ctx.protocol_version, self.ctx.meta):
            return
        if _LEVELS.index(level) < _LEVELS.index(wanted):
            return
        params = types.LoggingMessageNotificationParams(level=level, data=note, logger=self.ask.agent)
        await self.ctx.session.send_notification(
            types.LoggingMessageNotification(params=params), related_request_id=self.ctx.request_id
        )

    # -- questions --------------------------------------------------------------------------------

    async def _ask_back(self, question: Question) -> None:
        answer = self._answer(question, self._given)
        if answer is not None:
            self.line.answer(answer)
            return
        can = askable(self.ctx, question)
        if not can:
            self._in_words(question)
        elif self.ctx.session.can_send_request:
            self.line.answer(await ask_client(self.ctx, question, can))
        elif self.ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            self._question = question
            self._turns.wait(self)
            self._settle(self._wanted(question))
        else:
            self._in_words(question)

    def _answer(self, question: Question, given: Mapping[str, Any]) -> Message | None:
        """The answer, if the input is complete. An invalid part counts as missing."""
        wanted = mcp_ask.single_questions(question)
        if not isinstance(question, mcp_ask.Several):
            ((key, one),) = wanted.items()
            return _read(one, given[key]) if key in given else None
        can = askable(self.ctx, question)
        answers = {key: _read(one, given[key]) for key, one in wanted.items() if key in given}
        whole = answers and all(answers.get(key) is not None for key in can)
        return mcp_ask.together({k: m for k, m in answers.items() if m is not None}) if whole else None

    def _wanted(self, question: Question) -> dict[str, Any]:
        """The result that asks for input (2026-07-28)."""
        requests = {key: mcp_ask.request_of(one) for key, one in askable(self.ctx, question).items()}
        return {"resultType": "input_required", "inputRequests": requests, "requestState": self._turns.state(self)}

    def _in_words(self, question: Question) -> None:
        """The question as text for a client that cannot be asked; its next call in the conversation answers it.

        Raises:
            Refused: the question is for the client's model or its directories, which text cannot replace.
        """
        lacking = {mcp_ask.capability(one) for one in mcp_ask.single_questions(question).values()} - {"elicitation"}
        if lacking:
            self._lacking = {name: {} for name in sorted(lacking)}
            raise Refused(f"the client must offer {', '.join(sorted(lacking))} for this")
        said = mcp_ask.asked_in_words(question)
        token = self.line.conversation
        self._settle(self._finish(said.with_part(token) if token is not None else said))


def _read(question: Question, response: object) -> Message | None:
    try:
        return mcp_ask.answer_of(question, response)
    except BadMessage:
        return None


def askable(ctx: Context, question: Question) -> dict[str, Question]:
    """The single questions that this client supports, in the form it supports."""
    capabilities = ctx.session.client_capabilities
    elicits = capabilities.elicitation if capabilities is not None else None
    shows = elicits is not None and elicits.url is not None
    return {
        key: one if shows else mcp_ask.in_form(one)
        for key, one in mcp_ask.single_questions(question).items()
        if getattr(capabilities, mcp_ask.capability(one), None) is not None
    }


def can_fill_in(ctx: Context) -> bool:
    """Whether this client supports forms."""
    capabilities = ctx.session.client_capabilities
    return capabilities is not None and capabilities.elicitation is not None


async def ask_client(
    ctx: Context, question: Question, can: Mapping[str, Question], meta: Mapping[str, Any] | None = None
) -> Message:
    """Ask the client at once (up to 2025-11-25).

    Raises:
        Cancelled: it did not answer.
    """
    answers: dict[str, Message] = {}
    for key, one in can.items():
        wanted = mcp_ask.request_of(one)
        if isinstance(one, mcp_ask.ByUrl):  # later versions have no such id
            wanted["params"].setdefault("elicitationId", new_id())
        if meta is not None:
            wanted["params"] = {**wanted["params"], "_meta": dict(meta)}
        request, result = _REQUESTS[wanted["method"]]
        try:
            response = await ctx.session.send_request(
                request.model_validate(wanted),  # type: ignore[arg-type]  # one of the three of the table
                result,
                metadata=ServerMessageMetadata(related_request_id=ctx.request_id),
            )
        except MCPError as exc:
            raise Cancelled(f"the client did not answer: {exc.error.message[:200]}") from None
        raw = response.model_dump(mode="json", by_alias=True, exclude_none=True)
        answers[key] = mcp_ask.answer_of(one, raw)
    if isinstance(question, mcp_ask.Several):
        return mcp_ask.together(answers)
    return next(iter(answers.values()))
