"""Builds the Turn that an agent gets from a request, its caller and its conversation."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Protocol

import msgspec

from sabir.agent import Agent
from sabir.ids import counted_id
from sabir.turn import Caller, Conversation, OpensUploads, Turn

from .request import EventSink, TurnRequest

if TYPE_CHECKING:
    from .exchange import Exchange


class HoldsUploads(Protocol):
    """Where uploads are stored (``sabir.uploads.Uploads``)."""

    def of(self, conversation: str, caller: Caller) -> OpensUploads: ...


def with_agreed(conversation: Conversation, ask: TurnRequest) -> Conversation:
    """The conversation of a request, with the agreements of the turn that an agent sends it for."""
    if not ask.agreed:
        return conversation
    return msgspec.structs.replace(conversation, agreed={**conversation.agreed, **ask.agreed})


def new_turn(
    exchange: Exchange,
    ask: TurnRequest,
    agent: Agent,
    caller: Caller,
    conversation: Conversation,
    sink: EventSink,
    turn_id: str | None = None,
) -> Turn:
    """Build the turn of a request, and set it on the sink."""
    guard, attachments = exchange.guard, exchange.attachments
    conversation = with_agreed(conversation, ask)
    seconds = guard.quotas.turn_seconds if ask.seconds is None else ask.seconds
    turn = sink.turn = Turn(
        message=ask.message.without_tokens(),
        conversation=conversation,
        caller=caller,
        deadline=time.monotonic() + seconds,
        id=counted_id() if turn_id is None else turn_id,
        agent=agent.card.name,
        hops=ask.hops,
        seen=(*ask.seen, agent.card.name),
        trace=ask.trace,
        door=ask.door,
        named=ask.agent or "",
        attachments=None if attachments is None else attachments.of(conversation.id, caller),
        permit=guard.permit(caller, ask.agent or exchange.default, ask.door),
        meter=guard.meter(caller, ask.meter),
        journal=exchange.journal,
        siblings=exchange.siblings,
        timeline=sink.timeline,
    )
    if guard.filters.filters:
        turn.screen = partial(guard.filters.inbound, caller=caller)
    sink.asked = turn.message
    sink.timeline.stage("agent", agent.card.name)
    return turn
