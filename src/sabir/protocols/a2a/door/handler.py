"""The operations of A2A on the gateway's own tasks: the SDK's ``RequestHandler``, without its task manager.

Every A2A task is a row of ``sabir.tasks``: stored before it is acknowledged, found only by its owner, the same on every
node, and still there after a restart. Every binding (JSON-RPC, HTTP+JSON, gRPC, 0.3) calls these operations.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import AsyncGenerator, Sequence
from typing import Any, Final

import msgspec
from a2a.server.context import ServerCallContext
from a2a.server.request_handlers.request_handler import RequestHandler
from a2a.types import a2a_pb2 as pb
from a2a.utils.errors import ExtendedAgentCardNotConfiguredError, TaskNotCancelableError

from sabir.errors import BadMessage, Conflict, NotFound, Unauthenticated
from sabir.exchange.conversations import KIND
from sabir.exchange.request import TurnRequest
from sabir.guard import Credentials
from sabir.http.admission import Admission
from sabir.http.door import DoorContext
from sabir.message import Message, token_part
from sabir.protocols.a2a.wire import content as wire
from sabir.protocols.a2a.wire.tasks import STATES, task_to
from sabir.stores.base import TaskEvent, TaskRow
from sabir.tasks import FINAL
from sabir.tasks.run_or_adopt import StoredTurn, new_task_id
from sabir.tasks.states import rests
from sabir.turn import Caller

from .cards import Cards
from .nlweb_messages import NLWEB, NlwebRequest, asks_in_reply, request_in
from .push import Webhooks
from .task_view import context_of, events_of, updates, view_of

DOOR: Final = "a2a"
PATIENCE: Final = 0.25  # seconds; a turn that takes longer becomes a task that others can see
MAX_PER_PAGE: Final = 100
PER_PAGE: Final = 50
_SCAN: Final = 200  # rows read at once while a page fills
_UNGUESSABLE: Final = 22  # characters: 128 bits in base64

StreamEvent = pb.Task | pb.Message | pb.TaskStatusUpdateEvent | pb.TaskArtifactUpdateEvent


class A2aCall(msgspec.Struct, frozen=True):
    """What a binding knows of one request besides its parameters; kept in the SDK's call context."""

    agent: str
    admission: Admission
    version: str = wire.VERSION
    trace: str | None = None
    hops: int = 0


class Sent(msgspec.Struct, frozen=True):
    """An accepted message: its task, and the number of events before it."""

    row: TaskRow
    caller: Caller
    events: Sequence[TaskEvent] = ()
    patience: float = 0.0  # how long the client waits for the end of the task


def calling(call: A2aCall) -> ServerCallContext:
    version = {"a2a-version": call.version}  # the SDK's 0.3 layer looks for it
    return ServerCallContext(state={"call": call, "headers": version})


class Operations(RequestHandler):
    """What A2A can ask of an agent here."""

    def __init__(self, services: DoorContext, cards: Cards, webhooks: Webhooks) -> None:
        self.services = services
        self.tasks = services.tasks
        self.cards = cards
        self.webhooks = webhooks

    # -- messages ---------------------------------------------------------------------------------

    async def on_message_send(self, params: pb.SendMessageRequest, context: ServerCallContext) -> pb.Task | pb.Message:
        configuration = params.configuration
        at_once = configuration.return_immediately or configuration.HasField("task_push_notification_config")
        sent = await self._sent(params, _call(context), waits=not at_once)
        row = sent.row
        if not configuration.return_immediately and not rests(row):
            row = await self.tasks.wait(row.id, sent.caller, sent.patience)
        if row.reply is not None and wire.said_of(row.reply).get("direct") and not params.message.task_id:
            id_ = f"{row.id}-reply"
            return wire.message_to(row.reply, message_id=id_, context=context_of(row), role=pb.ROLE_AGENT)
        plain = row.state == "completed" and not params.message.task_id
        view = view_of(row, () if plain else await events_of(self.tasks, row.id))
        return task_to(view, history=_wanted(configuration))

    async def on_message_send_stream(
        self, params: pb.SendMessageRequest, context: ServerCallContext
    ) -> AsyncGenerator[StreamEvent]:
        sent = await self._sent(params, _call(context))
        view = view_of(sent.row, sent.events)
        yield task_to(view, history=_wanted(params.configuration))
        if sent.row.state in FINAL:
            return  # a repeated message whose task has ended
        since = sent.events[-1].number if sent.events else 0
        async for _, update in updates(self.tasks, view, sent.caller, since):
            yield update

    async def on_subscribe_to_task(
        self, params: pb.SubscribeToTaskRequest, context: ServerCallContext
    ) -> AsyncGenerator[StreamEvent]:
        call = _call(context)
        row, caller = await self._found(params.id, call)
        if row.state in FINAL:
            raise Conflict(f"the task has ended ({row.state}); get it instead")
        events = await events_of(self.tasks, row.id)
        view = view_of(row, events)
        since = events[-1].number if events else 0
        yield task_to(view)
        # A stream of 0.3 ends with a question (``final``); one of 1.0 continues until the task has ended.
        lasting = call.version != wire.OLD_VERSION
        if lasting and row.state == "input-required":
            await self.tasks.answered(row.id, caller, len(row.answers))
        async for _, update in updates(self.tasks, view, caller, since, past_questions=lasting):
            yield update

    async def _sent(self, params: pb.SendMessageRequest, call: A2aCall, *, waits: bool = False) -> Sent:
        """Accept a message: it starts a task, answers a task's question, or repeats an earlier message.

        With ``waits``, a new task is returned once it has ended or asks something.
        """
        sent = params.message
        _check(sent)
        message = wire.note(wire.message_from(sent, self.services.limits), messageId=sent.message_id)
        asked = request_in(message, call.agent)
        message = message if asked is None else asked.message
        caller = await call.admission.authenticate()
        notifies = params.configuration.HasField("task_push_notification_config")
        config = params.configuration.task_push_notification_config
        if notifies:
            await self.webhooks.check(config)  # before anything has started
        events: Sequence[TaskEvent] = ()
        begun = await self._begun(sent, call, caller) if sent.task_id else None
        if begun is not None:
            row, events = await self._answered(begun, message, caller)
        else:
            id_ = _task_id(sent, call, caller)
            known = await self.tasks.store.task(id_) if id_ is not None else None
            if known is not None and _is_repeat(known, message, caller):
                call.admission.charge()
                row, events = known, await events_of(self.tasks, known.id)
            else:
                free = id_ if known is None else None
                seconds = self._patience(asked) if waits else None
                row = await self._submitted(sent, message, call, caller, free, seconds, asked)
        if notifies:
            await self.webhooks.create(config, row, caller, call.version)
        return Sent(row, caller, events, self._patience(asked))

    def _patience(self, asked: NlwebRequest | None) -> float:
        longest = self.services.quotas.turn_seconds
        return longest if asked is None or asked.wait is None else min(max(0.0, asked.wait), longest)

    async def _submitted(
        self,
        sent: pb.Message,
        message: Message,
        call: A2aCall,
        caller: Caller,
        task_id: str | None,
        seconds: float | None,
        asked: NlwebRequest | None,
    ) -> TaskRow:
        """A new task; with ``seconds``, once it has ended or asks something, or the time is over."""
        ask = TurnRequest(
            message,
            DOOR,
            call.agent,
            Credentials(call.admission.credentials.address, caller=caller),
            sent.message_id if task_id is not None else None,
            trace=call.trace,
            hops=call.hops,
        )
        detail: dict[str, Any] = {"context": self._enter(ask, sent.context_id, caller), "message": sent.message_id}
        if asked is not None:
            detail[NLWEB] = asked.format
        if seconds is not None:
            turn = StoredTurn(self.tasks, ask, task_id or new_task_id(), detail)
            return await turn.row(PATIENCE, seconds)
        return await self.tasks.submit(ask, detail=detail, task_id=task_id)

    async def _begun(self, sent: pb.Message, call: A2aCall, caller: Caller) -> TaskRow | None:
        """The task that a message answers; None if it has ended with a question, so that the answer starts another."""
        row, _ = await self._found(sent.task_id, call, caller)
        if sent.context_id and sent.context_id != context_of(row):
            raise BadMessage(wire.PROTOCOL, "$.message.contextId", "the contextId of the task")
        if asks_in_reply(row):
            sent.context_id = context_of(row)
            return None
        if row.state in FINAL:
            raise Conflict(f"the task has ended ({row.state}); send a message with its contextId and no taskId")
        return row

    async def _answered(self, row: TaskRow, message: Message, caller: Caller) -> tuple[TaskRow, Sequence[TaskEvent]]:
        events = await events_of(self.tasks, row.id)
        return await self.tasks.answer(row.id, caller, message), events

    def _enter(self, ask: TurnRequest, context: str, caller: Caller) -> str:
        """Put the request into the conversation with this contextId, or into a new one; returns its contextId."""
        if not context:
            return ask.begin(self.services.conversations.begin(caller))
        if caller.is_anonymous and len(context) < _UNGUESSABLE:
            # A guessable id would be a conversation with everybody.
            raise BadMessage(
                wire.PROTOCOL, "$.message.contextId", f"one we gave, or one of at least {_UNGUESSABLE} characters"
            )
        ask.message = ask.message.with_part(token_part(context, KIND))
        return context

    # -- tasks ------------------------------------------------------------------------------------

    async def on_get_task(self, params: pb.GetTaskRequest, context: ServerCallContext) -> pb.Task:
        row, _ = await self._found(params.id, _call(context))
        return task_to(view_of(row, await events_of(self.tasks, row.id)), history=_wanted(params))

    async def on_cancel_task(self, params: pb.CancelTaskRequest, context: ServerCallContext) -> pb.Task:
        row, caller = await self._found(params.id, _call(context))
        try:
            row = await self.tasks.cancel(row.id, caller)
        except Conflict as ended:
            raise TaskNotCancelableError(str(ended)) from None
        return task_to(view_of(row, await events_of(self.tasks, row.id)))

    async def on_list_tasks(self, params: pb.ListTasksRequest, context: ServerCallContext) -> pb.ListTasksResponse:
        call = _call(context)
        caller = await call.admission.authenticate_and_charge()
        size = params.page_size if params.HasField("page_size") else PER_PAGE
        if not 1 <= size <= MAX_PER_PAGE:
            raise BadMessage(wire.PROTOCOL, "$.pageSize", f"1 to {MAX_PER_PAGE}")
        found = sorted(await self._listed(params, call, caller), key=lambda row: (row.updated, row.id), reverse=True)
        after = _place(params.page_token)
        left = [row for row in found if after is None or (row.updated, row.id) < after]
        page, more = left[:size], len(left) > size
        history = _wanted(params)
        return pb.ListTasksResponse(
            tasks=[task_to(view_of(r, ()), history=history, artifacts=params.include_artifacts) for r in page],
            next_page_token=_page_token(page[-1]) if more else "",
            page_size=len(page),
            total_size=len(found),
        )

    async def _listed(self, params: pb.ListTasksRequest, call: A2aCall, caller: Caller) -> list[TaskRow]:
        """The caller's tasks with this agent that the filters let through, latest first."""
        if caller.is_anonymous and not params.context_id:
            return []  # all anonymous callers are one owner; without the conversation's id they see nothing
        states = tuple(name for name, state in STATES.items() if state == params.status) if params.status else ()
        since = params.status_timestamp_after.ToMilliseconds() / 1000
        found: list[TaskRow] = []
        before: float | None = None
        while True:
            rows = await self.tasks.store.tasks(owner=caller.id, states=states, limit=_SCAN, before=before)
            for row in rows:
                if row.updated < since:
                    return found
                if row.agent == call.agent and (not params.context_id or context_of(row) == params.context_id):
                    found.append(row)
            if len(rows) < _SCAN or rows[-1].updated == before:
                return found
            before = rows[-1].updated

    async def _found(self, task_id: str, call: A2aCall, caller: Caller | None = None) -> tuple[TaskRow, Caller]:
        if not task_id:
            raise BadMessage(wire.PROTOCOL, "$.id", "the id of a task, which is required")
        known = call.admission.credentials
        if caller is not None:
            known = Credentials(known.address, caller=caller)
        caller = await self.services.guard.admit(known, (), call.admission)
        row = await self.tasks.find(task_id, caller)
        if row.agent != call.agent:
            raise NotFound("task not found")
        return row, caller

    # -- webhooks ---------------------------------------------------------------------------------

    async def on_create_task_push_notification_config(
        self, params: pb.TaskPushNotificationConfig, context: ServerCallContext
    ) -> pb.TaskPushNotificationConfig:
        call = _call(context)
        row, caller = await self._found(params.task_id, call)
        events = await events_of(self.tasks, row.id)
        return await self.webhooks.create(params, row, caller, call.version, events[-1].number if events else 0)

    async def on_get_task_push_notification_config(
        self, params: pb.GetTaskPushNotificationConfigRequest, context: ServerCallContext
    ) -> pb.TaskPushNotificationConfig:
        row, _ = await self._found(params.task_id, _call(context))
        return await self.webhooks.get(row, params.id)

    async def on_list_task_push_notification_configs(
        self, params: pb.ListTaskPushNotificationConfigsRequest, context: ServerCallContext
    ) -> pb.ListTaskPushNotificationConfigsResponse:
        row, _ = await self._found(params.task_id, _call(context))
        return pb.ListTaskPushNotificationConfigsResponse(configs=await self.webhooks.listed(row))

    async def on_delete_task_push_notification_config(
        self, params: pb.DeleteTaskPushNotificationConfigRequest, context: ServerCallContext
    ) -> None:
        row, _ = await self._found(params.task_id, _call(context))
        await self.webhooks.delete(row, params.id)

    # -- card -------------------------------------------------------------------------------------

    async def on_get_extended_agent_card(
        self, params: pb.GetExtendedAgentCardRequest, context: ServerCallContext
    ) -> pb.AgentCard:
        call = _call(context)
        if not self.services.identity.verifiers:
            raise ExtendedAgentCardNotConfiguredError("callers cannot authenticate, so there is no extended card")
        caller = await call.admission.authenticate_and_charge()
        if caller.is_anonymous:
            raise Unauthenticated("the extended card requires authentication", self.services.identity.challenge)
        return await self.cards.extended(call.agent, caller)


# -- what a request says ---------------------------------------------------------------------------


def _call(context: ServerCallContext) -> A2aCall:
    call = context.state["call"]
    assert isinstance(call, A2aCall)
    return call


def _check(sent: pb.Message) -> None:
    """Check what A2A requires of a message besides its parts."""
    if not sent.message_id:
        raise BadMessage(wire.PROTOCOL, "$.message.messageId", "an id, which is required")
    if sent.role != pb.ROLE_USER:
        raise BadMessage(wire.PROTOCOL, "$.message.role", "ROLE_USER")


def _is_repeat(known: TaskRow, message: Message, caller: Caller) -> bool:
    """Whether a client repeats a message because it did not get our answer.

    A client that has answered or cancelled the task did get it, so it means a new one.
    """
    if known.owner != caller.id or known.message.without_tokens() != message:
        return False
    return not known.answers and known.state != "cancelled"


def _task_id(sent: pb.Message, call: A2aCall, caller: Caller) -> str | None:
    """The id of the task that a message starts: the same for a repeated message, another for a different message with
    the same id. None if the message's id could be guessed."""
    if len(sent.message_id) < _UNGUESSABLE:
        return None
    said = hashlib.sha256(sent.SerializeToString(deterministic=True)).hexdigest()
    whole = "\x00".join((DOOR, caller.id, call.agent, sent.context_id, sent.message_id, said))
    return hashlib.sha256(whole.encode()).hexdigest()


def _wanted(params: Any) -> int | None:
    """How many messages of the history are wanted; None: all.

    Raises:
        BadMessage: a negative number.
    """
    if not params.HasField("history_length"):
        return None
    if params.history_length < 0:
        raise BadMessage(wire.PROTOCOL, "$.historyLength", "0 or more")
    return int(params.history_length)


def _page_token(row: TaskRow) -> str:
    return base64.urlsafe_b64encode(f"{row.updated!r} {row.id}".encode()).decode().rstrip("=")


def _place(token: str) -> tuple[float, str] | None:
    if not token:
        return None
    try:
        updated, _, task_id = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode().partition(" ")
        return float(updated), task_id
    except (binascii.Error, ValueError):
        raise BadMessage(wire.PROTOCOL, "$.pageToken", "the nextPageToken of an earlier answer") from None
