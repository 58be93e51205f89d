"""Calls between the agents of a gateway: ``turn.call("name", …)`` and messages routed through the exchange."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sabir.agent import Agent
from sabir.errors import NotFound, TurnFailed, suggestion
from sabir.events import Event, Fault, Question, Reply
from sabir.guard import Credentials
from sabir.message import Message
from sabir.turn import Turn

from .request import EventSink, TurnRequest

if TYPE_CHECKING:
    from .exchange import Exchange

DOOR: Final = "internal"  # the door name of such calls in audit entries


class ExchangeSiblings:
    """The agents known to the exchange."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    def find(self, name: str) -> Agent:
        """Raises:
        NotFound: unknown agent; names the nearest.
        """
        agents = self._exchange.agents
        found = agents.get(name)
        if found is not None:
            return found
        hint = suggestion(name, agents, otherwise="")
        raise NotFound(f"there is no agent {name!r}{f'; {hint}' if hint else ''}")

    async def dispatch(self, name: str, turn: Turn) -> Message:
        """Send the message of a turn to an agent as any door would; its questions go to the turn's caller.

        Raises:
            SabirError: it was rejected, or the agent failed.
        """
        self.find(name)
        answers: list[Message] = []

        async def take(event: Event) -> None:
            if isinstance(event, Reply):
                answers.append(event.message)
            elif isinstance(event, Question):
                sink.answer(await turn.ask(event))
            elif isinstance(event, Fault):
                raise event.error()

        sink = EventSink(take)

        ask = TurnRequest(
            turn.message,
            DOOR,
            name,
            Credentials(caller=turn.caller),
            seconds=turn.remaining,
            trace=turn.trace,
            hops=turn.hops,
            seen=turn.seen[:-1],
            meter=turn.meter,
            agreed=turn.conversation.agreed,
        )
        calls, tokens, cost = turn.meter.calls, turn.meter.tokens, turn.meter.cost
        try:
            await self._exchange.ask(ask, sink)
        finally:
            if sink.turn is not None:  # it has its own meter, which started with this turn's usage
                used = sink.turn.meter
                turn.meter.elsewhere(used.calls - calls, used.tokens - tokens, used.cost - cost)
        if not answers:
            raise TurnFailed(f"{name} ended without a reply")
        return answers[0].without_tokens()
