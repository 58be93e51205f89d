"""Sabir: one agent, every tongue.

Write an agent once; reach it over NLIP and more; call others the same way::

    from sabir import Gateway, agent

    @agent(description="Repeats what it hears")
    async def echo(turn):
        return f"You said: {turn.text}"

    Gateway(echo).run()
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ._version import __version__
from .agent import Agent, agent
from .card import Card, Policy, Skill
from .errors import SabirError
from .events import Delta, Event, Fault, Field, Progress, Question, Reply
from .message import Message, Part
from .turn import Caller, Conversation, Turn

if TYPE_CHECKING:
    from .gateway import Gateway
    from .peers.connect import connect

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

# What brings a server or a client with it, loaded when it is first named: most commands need neither.
_LATER = {"Gateway": "sabir.gateway", "connect": "sabir.peers.connect"}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(_LATER[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
