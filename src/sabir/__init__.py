"""Sabir: one agent, every tongue.

Write an agent once; reach it over NLIP and more; call others the same way::

    from sabir import Gateway, agent

    @agent(description="Repeats what it hears")
    async def echo(turn):
        return f"You said: {turn.text}"

    Gateway(echo).run()
"""

from __future__ import annotations

from ._version import __version__
from .agent import Agent, agent
from .card import Card, Policy, Skill
from .errors import SabirError
from .events import Delta, Event, Fault, Field, Progress, Question, Reply
from .gateway import Gateway
from .message import Message, Part
from .peers.connect import connect
from .turn import Caller, Conversation, Turn

__all__ = [
    "Agent",
    "Caller",
    "Card",
    "Conversation",
    "Delta",
    "Event",
    "Fault",
    "Field",
    "Gateway",
    "Message",
    "Part",
    "Policy",
    "Progress",
    "Question",
    "Reply",
    "SabirError",
    "Skill",
    "Turn",
    "__version__",
    "agent",
    "connect",
]
