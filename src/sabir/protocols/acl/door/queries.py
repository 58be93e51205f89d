"""What the gateway answers on behalf of its agents: capabilities, capacity, ontologies, languages (ACL-10, ACL-14,
ACL-23)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from sabir.card import Card
from sabir.http.door import DoorContext
from sabir.message import Message
from sabir.protocols.acl.wire.acts import JSON_LANGUAGE
from sabir.protocols.acl.wire.content import capabilities_of
from sabir.protocols.acl.wire.envelope import Envelope
from sabir.protocols.acl.wire.ontologies import TERMS, choose
from sabir.protocols.acl.wire.payloads import QueryCapabilities

_ANY_LANGUAGE: Final = "*"


def query_of(envelope: Envelope) -> QueryCapabilities:
    """The query for capabilities; one in prose asks for all of them."""
    asked = envelope.content
    return asked if isinstance(asked, QueryCapabilities) else QueryCapabilities("summary")


def holds(condition: Any, services: DoorContext, agent: str, open_conversations: int) -> dict[str, Any] | None:
    """What the gateway knows about a condition; None if it is a question for the agent."""
    if not isinstance(condition, dict):
        return None
    asked = condition.get("agent_status")
    if isinstance(asked, dict) and isinstance(asked.get("is_busy"), bool):
        busy = services.tasks.free <= 0
        return {"result": asked["is_busy"] == busy, "explanation": f"{agent} is {'busy' if busy else 'not busy'}"}
    if "capacity" in condition:
        free = services.tasks.free
        explanation = f"{open_conversations} conversations are open, {free} more tasks can run"
        return {"result": free > 0, "explanation": explanation}
    return None


def value_of(reference: str, card: Card, terms: Iterable[str]) -> Any:
    """The gateway's value for a reference; None if it is a question for the agent."""
    if reference == "agent.languages":
        return [JSON_LANGUAGE, *(card.languages or (_ANY_LANGUAGE,))]
    if reference == "agent.ontologies":
        return list(card.ontologies or terms)
    if reference == "agent.topics":
        return list(card.publishes)
    if reference == "agent_capabilities" or reference.startswith("agent_capabilities."):
        summary = capabilities_of(QueryCapabilities("summary"), card)["capabilities"]
        _, _, name = reference.partition(".")
        if not name:
            return summary
        details = capabilities_of(QueryCapabilities("action_details", {"action_name": name}), card)
        return summary.get(name) if name in summary else details.get("capabilities", {}).get("action")
    return None


def known_terms(card: Card, own: Iterable[str]) -> tuple[str, ...]:
    """The ontologies of an agent: those of its card, or all that are known here."""
    return card.ontologies or (*TERMS, *own)


def negotiated(envelope: Envelope, card: Card) -> tuple[str, str, str | None]:
    """The chosen language and ontology, or why none fits; alternatives are in order of preference."""
    ontology = envelope.ontologies[0] if envelope.ontologies else ""
    if card.ontologies and envelope.ontologies:
        taken = choose(envelope.ontologies, card.ontologies)
        if taken is None:
            return "", "", f"unknown_ontology: {card.name} knows {', '.join(card.ontologies)}"
        ontology = taken
    for language in envelope.languages:
        if language == JSON_LANGUAGE or card.cannot_read(Message.text("x", language)) is None:
            return language, ontology, None
    known = ", ".join((JSON_LANGUAGE, *card.languages))
    return "", "", f"unsupported_value: {card.name} reads {known}"
