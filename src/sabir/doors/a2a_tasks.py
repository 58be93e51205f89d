"""The operations of A2A on the gateway's own tasks: the SDK's ``RequestHandler``, without its task manager.

Every A2A task is a row of ``sabir.tasks``: stored before it is acknowledged, found only by its owner, the same
on every node, and there after a restart. Every binding (JSON-RPC, HTTP+JSON, gRPC, 0.3) calls these operations.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import secrets
from collections.abc import AsyncGenerator
from typing import Any, Final
from uuid import uuid4

import msgspec

from ..conversations import KIND, Tokens
from ..errors import BadMessage, Conflict, MissingExtra, NotFound, Unauthenticated
from ..guard import Credentials
from ..line import Ask
from ..message import Message, Part, token_part
from ..stores.base import TaskRow
from ..tasks import FINAL
from ..tasks.states import rests
from ..turn import Caller
from ..wire import a2a as wire
from .a2a_cards import Cards
from .a2a_push import Webhooks
from .a2a_quick import Quick
from .a2a_told import context_of, events_of, told_of, updates
from .base import House
from .visitor import Visitor

try:
    from a2a.server.context import ServerCallContext
    from a2a.server.request_handlers.request_handler import RequestHandler
    from a2a.types import a2a_pb2 as pb
    from a2a.utils.errors import TaskNotCancelableError
except ImportError as missing:
    raise MissingExtra("A2A", "a2a") from missing

DOOR: Final = "a2a"
MOST_PER_PAGE: Final = 100
PER_PAGE: Final = 50
_SCAN: Final = 200  # rows read at once while a page fills
_UNGUESSABLE: Final = 22  # characters: 128 bits in base64

StreamEvent = pb.Task | pb.Message | pb.TaskStatusUpdateEvent | pb.TaskArtifactUpdateEvent


class Call(msgspec.Struct, frozen=True):
    """What a binding knows of one request beside its parameters; kept in the SDK's call context."""

    agent: str
    visitor: Visitor
    version: str = wire.VERSION
    trace: str | None = None
    hops: int = 0


def calling(call: Call) -> ServerCallContext:
    version = {"a2a-version": call.version}  # the SDK's 0.3 layer looks for it
    return ServerCallContext(state={"call": call, "headers": version})


class Operations(RequestHandler):
    """What A2A can ask of an agent here."""

    def __init__(self, house: House, cards: Cards, webhooks: Webhooks) -> None:
        self.house = house
        self.tasks = house.tasks
        self.cards = cards
        self.webhooks = webhooks

    # -- messages ---------------------------------------------------------------------------------

    async def on_message_send(self, params: pb.SendMessageRequest, context: ServerCallContext) -> pb.Task:
        configuration = params.configuration
        at_once = configuration.return_immediately or configuration.HasField("task_push_notification_config")
        row, caller, _ = await self._sent(params, _call(context), waits=not at_once)
        if not configuration.return_immediately and not rests(row):
            row = await self.tasks.wait(row.id, caller, self.house.guard.quotas.turn_seconds)
        plain = row.state == "completed" and not params.message.task_id
        told = told_of(row, () if plain else await events_of(self.tasks, row.id))
        return wire.task_to(told, history=_wanted(configuration))

    async def on_message_send_stream(
        self, params: pb.SendMessageRequest, context: ServerCallContext
    ) -> AsyncGenerator[StreamEvent]:
        row, caller, since = await self._sent(params, _call(context))
        told = told_of(row, await events_of(self.tasks, row.id) if since else ())
        yield wire.task_to(told, history=_wanted(params.configuration))
        async for _, update in updates(self.tasks, told, caller, since):
            yield update

    async def on_subscribe_to_task(
        self, params: pb.SubscribeToTaskRequest, context: ServerCallContext
    ) -> AsyncGenerator[StreamEvent]:
        row, caller = await self._found(params.id, _call(context))
        if row.state in FINAL:
            raise Conflict(f"the task has ended ({row.state}); get it instead")
        events = await events_of(self.tasks, row.id)
        told = told_of(row, events)
        yield wire.task_to(told)
        async for _, update in updates(self.tasks, told, caller, events[-1].number if events else 0):
            yield update

    async def _sent(
        self, params: pb.SendMessageRequest, call: Call, *, waits: bool = False
    ) -> tuple[TaskRow, Caller, int]:
        """Take in a message: a new task, or the answer that one waits for; and the last event before it.

        With ``waits``, a new task is given back when it has ended or asks something.
        """
        sent = params.message
        _check(sent)
        message = wire.message_from(sent, self.house.limits)
        caller = await call.visitor.known()
        told = params.configuration.HasField("task_push_notification_config")
        config = params.configuration.task_push_notification_config
        if told:
            await self.webhooks.check(config)  # before anything has begun
        if sent.task_id:
            row, since = await self._answered(sent, message, call, caller)
        else:
            row, since = await self._submitted(sent, message, call, caller, waits), 0
        if told:
            await self.webhooks.create(config, row, caller, call.version)
        return row, caller, since

    async def _submitted(self, sent: pb.Message, message: Message, call: Call, caller: Caller, waits: bool) -> TaskRow:
        id = _task_id(sent, call, caller)
        again = await self.tasks.store.task(id) if id is not None else None
        if again is not None and again.owner == caller.id and again.message.without_tokens() == message:
            return again  # the same message once more, from a client that did not hear our answer
        token = self._token(sent.context_id, caller)
        ask = Ask(
            message.with_part(token),
            DOOR,
            call.agent,
            Credentials(call.visitor.credentials.address, caller=caller),
            sent.message_id if id is not None else None,
            trace=call.trace,
            hops=call.hops,
        )
        detail = {"context": token.content, "message": sent.message_id}
        if again is not None:
            id = None
        if waits:
            quick = Quick(self.tasks, ask, id or secrets.token_hex(32), detail)
            return await quick.row(self.house.guard.quotas.turn_seconds)
        return await self.tasks.submit(ask, detail=detail, id=id)

    async def _answered(self, sent: pb.Message, message: Message, call: Call, caller: Caller) -> tuple[TaskRow, int]:
        row, _ = await self._found(sent.task_id, call, caller)
        if sent.context_id and sent.context_id != context_of(row):
            raise BadMessage(wire.PROTOCOL, "$.message.contextId", "the contextId of the task")
        if row.state in FINAL:
            raise Conflict(f"the task has ended ({row.state}); send a message with its contextId and no taskId")
        events = await events_of(self.tasks, row.id)
        return await self.tasks.answer(row.id, caller, message), events[-1].number if events else 0

    def _token(self, context: str, caller: Caller) -> Part:
        """The conversation that a message belongs to: the one its contextId means, or a new one."""
        if not context:
            return self.house.exchange.conversations.token(uuid4().hex, caller, Tokens())
        if caller.is_anonymous and len(context) < _UNGUESSABLE:
            # Anybody could name it, so it would be a conversation with everybody.
            raise BadMessage(
                wire.PROTOCOL, "$.message.contextId", f"one we gave, or one of at least {_UNGUESSABLE} characters"
            )
        return token_part(context, KIND)

    # -- tasks ------------------------------------------------------------------------------------

    async def on_get_task(self, params: pb.GetTaskRequest, context: ServerCallContext) -> pb.Task:
        row, _ = await self._found(params.id, _call(context))
        return wire.task_to(told_of(row, await events_of(self.tasks, row.id)), history=_wanted(params))

    async def on_cancel_task(self, params: pb.CancelTaskRequest, context: ServerCallContext) -> pb.Task:
        row, caller = await self._found(params.id, _call(context))
        try:
            row = await self.tasks.cancel(row.id, caller)
        except Conflict as ended:
            raise TaskNotCancelableError(str(ended)) from None
        return wire.task_to(told_of(row, await events_of(self.tasks, row.id)))

    async def on_list_tasks(self, params: pb.ListTasksRequest, context: ServerCallContext) -> pb.ListTasksResponse:
        call = _call(context)
        caller = await call.visitor.admit()
        size = params.page_size if params.HasField("page_size") else PER_PAGE
        if not 1 <= size <= MOST_PER_PAGE:
            raise BadMessage(wire.PROTOCOL, "$.pageSize", f"1 to {MOST_PER_PAGE}")
        found = sorted(await self._listed(params, call, caller), key=lambda row: (row.updated, row.id), reverse=True)
        after = _place(params.page_token)
        left = [row for row in found if after is None or (row.updated, row.id) < after]
        page, more = left[:size], len(left) > size
        history = _wanted(params)
        return pb.ListTasksResponse(
            tasks=[wire.task_to(told_of(r, ()), history=history, artifacts=params.include_artifacts) for r in page],
            next_page_token=_page_token(page[-1]) if more else "",
            page_size=len(page),
            total_size=len(found),
        )

    async def _listed(self, params: pb.ListTasksRequest, call: Call, caller: Caller) -> list[TaskRow]:
        """The caller's tasks with this agent that the filters let through, latest first."""
        if caller.is_anonymous and not params.context_id:
            return []  # all strangers are one owner; who cannot name the conversation sees none of it
        states = tuple(name for name, state in wire.STATES.items() if state == params.status) if params.status else ()
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

    async def _found(self, id: str, call: Call, caller: Caller | None = None) -> tuple[TaskRow, Caller]:
        if not id:
            raise BadMessage(wire.PROTOCOL, "$.id", "the id of a task, which is required")
        known = call.visitor.credentials
        if caller is not None:
            known = Credentials(known.address, caller=caller)
        caller = await self.house.guard.admit(known, (), call.visitor)
        row = await self.tasks.find(id, caller)
        if row.agent != call.agent:
            raise NotFound("there is no such task")
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
        caller = await call.visitor.admit()
        if caller.is_anonymous:
            raise Unauthenticated(
                "the extended card is for callers who say who they are", self.house.guard.identity.challenge
            )
        return await self.cards.extended(call.agent, caller)


# -- what a request says ---------------------------------------------------------------------------


def _call(context: ServerCallContext) -> Call:
    call = context.state["call"]
    assert isinstance(call, Call)
    return call


def _check(sent: pb.Message) -> None:
    """What A2A requires of a message beside its parts."""
    if not sent.message_id:
        raise BadMessage(wire.PROTOCOL, "$.message.messageId", "an id, which is required")
    if sent.role != pb.ROLE_USER:
        raise BadMessage(wire.PROTOCOL, "$.message.role", "ROLE_USER")


def _task_id(sent: pb.Message, call: Call, caller: Caller) -> str | None:
    """The id of the task that a message begins, the same each time it is sent; None if its id could be guessed."""
    if len(sent.message_id) < _UNGUESSABLE:
        return None
    whole = "\x00".join((DOOR, caller.id, call.agent, sent.context_id, sent.message_id))
    return hashlib.sha256(whole.encode()).hexdigest()


def _wanted(params: Any) -> int | None:
    """How many messages of the history are wanted; None is all.

    Raises:
        BadMessage: less than none.
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
        updated, _, id = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode().partition(" ")
        return float(updated), id
    except (binascii.Error, ValueError):
        raise BadMessage(wire.PROTOCOL, "$.pageToken", "the nextPageToken of an earlier answer") from None
