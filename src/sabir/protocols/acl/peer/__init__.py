"""The outbound side of ACL: an agent that speaks it (``Messenger``), and conversation patterns."""

from __future__ import annotations

from .codons import (
    Awarded,
    Candidate,
    Saga,
    SagaState,
    cheapest,
    contract_net,
    delegate,
    first_replies,
    results,
    run_saga,
    subscribe,
    whispering_wind,
)
from .messenger import AclConversation, Messenger

__all__ = [
    "AclConversation",
    "Awarded",
    "Candidate",
    "Messenger",
    "Saga",
    "SagaState",
    "cheapest",
    "contract_net",
    "delegate",
    "first_replies",
    "results",
    "run_saga",
    "subscribe",
    "whispering_wind",
]
