"""Anonymity of agents that pass questions on: they agree if everyone behind them does (PAPER-ANON)."""

from __future__ import annotations

from collections.abc import Iterable

from sabir.agent import Agent


async def why_not_anonymous(agents: Iterable[Agent], conversation: str) -> str | None:
    """The first objection of an agent that forwards questions, with its name; None if nobody objects."""
    for agent in agents:
        propose = getattr(agent, "propose_anonymous", None)
        why = await propose(conversation) if propose is not None else None
        if why is not None:
            return f"{agent.card.name}: {why}"
    return None
