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
from .agent import Agent, agent, reply_of
from .card import Card, Policy, Skill
from .errors import SabirError
from .events import Delta, Event, Fault, Field, Progress, Question, Reply
from .message import Message, Part, json_part, text_part
from .turn import Caller, Conversation, Turn

if TYPE_CHECKING:
    from .agents.back_level import BackLevel, audio_part
    from .agents.confirm import Confirm
    from .agents.ensemble import Ensemble
    from .agents.federation import Federation, cheapest
    from .agents.llm import LLM
    from .agents.site.agent import Site
    from .federation.gateways import RemoteGateway
    from .gateway.gateway import Gateway
    from .gateway.options import GatewayOptions
    from .guard import Quotas
    from .protocols.acl.peer.messenger import Messenger
    from .protocols.connect import connect
    from .protocols.options import Identity, PeerOptions
    from .tools import tool

__all__ = [
    "LLM",
    "Agent",
    "BackLevel",
    "Caller",
    "Card",
    "Confirm",
    "Conversation",
    "Delta",
    "Ensemble",
    "Event",
    "Fault",
    "Federation",
    "Field",
    "Gateway",
    "GatewayOptions",
    "Identity",
    "Message",
    "Messenger",
    "Part",
    "PeerOptions",
    "Policy",
    "Progress",
    "Question",
    "Quotas",
    "RemoteGateway",
    "Reply",
    "SabirError",
    "Site",
    "Skill",
    "Turn",
    "__version__",
    "agent",
    "audio_part",
    "cheapest",
    "connect",
    "json_part",
    "reply_of",
    "text_part",
    "tool",
]

# Names that import a server, a client or an extra are loaded on first use: most commands need none of them.
_LATER = {
    "BackLevel": "sabir.agents.back_level",
    "Confirm": "sabir.agents.confirm",
    "Ensemble": "sabir.agents.ensemble",
    "Federation": "sabir.agents.federation",
    "Gateway": "sabir.gateway.gateway",
    "GatewayOptions": "sabir.gateway.options",
    "Identity": "sabir.protocols.options",
    "LLM": "sabir.agents.llm",
    "Messenger": "sabir.protocols.acl.peer.messenger",
    "PeerOptions": "sabir.protocols.options",
    "Quotas": "sabir.guard",
    "RemoteGateway": "sabir.federation.gateways",
    "Site": "sabir.agents.site.agent",
    "audio_part": "sabir.agents.back_level",
    "cheapest": "sabir.agents.federation",
    "connect": "sabir.protocols.connect",
    "tool": "sabir.tools",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(_LATER[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
