"""Runs an agent: streams its output to the caller, returns its reply, and cleans up."""

from __future__ import annotations

import asyncio
from typing import Protocol

from sabir.agent import Agent
from sabir.aio import Closing
from sabir.errors import SabirError, TurnFailed
from sabir.events import Fault, Reply, check
from sabir.guard import Guard
from sabir.guard.agreements import Agreements
from sabir.message import Message
from sabir.turn import Turn

from .deadlines import TurnTimer
from .request import EventSink
from .states import TurnStep


class Services(Protocol):
    """What running an agent needs from the exchange."""

    @property
    def guard(self) -> Guard: ...

    @property
    def agreements(self) -> Agreements: ...

    @property
    def timer(self) -> TurnTimer: ...


async def answer_of(agent: Agent, turn: Turn, sink: EventSink, services: Services) -> Message:
    """Call the agent, send its output to the sink, and return its reply without tokens.

    Raises:
        SabirError: it failed, was ended early, or replied with a Fault.
    """
    filters = services.guard.filters
    sink.take(TurnStep.BEGIN)
    turn.carries = sink.tokens
    services.timer.enter(sink)
    try:
        if filters.filters:
            sink.is_screened = True
            turn.message = sink.asked = await filters.inbound(turn.message, turn.caller)
            sink.is_screened = False
        unreadable = agent.card.cannot_read(turn.message)
        if unreadable is not None:
            return Message("text", "english", unreadable)
        events = services.agreements.bind(agent, turn)
        if filters.filters:
            events = filters.passing(events, turn.caller)
        async with Closing(events):
            async for event in events:
                check(event)
                if isinstance(event, Reply):
                    return event.message.without_tokens()
                if isinstance(event, Fault):
                    raise event.error()
                await sink.send(event)
    except asyncio.CancelledError:
        if not sink.ended_early or (task := asyncio.current_task()) is None or task.uncancel():
            raise
        raise sink.why_ended(turn.agent) from None
    except SabirError:
        raise
    except Exception as exc:
        raise sink.failed(exc) from None  # the reason is logged; the caller only learns that it failed
    finally:
        services.timer.leave(sink)
        sink.take(TurnStep.END)
    raise TurnFailed(f"{turn.agent} ended without a reply")
