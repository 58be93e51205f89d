"""``/who``: which agents match a query, by their cards and, for sites, by their contents."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from sabir.card import Card
from sabir.http.door import Door, DoorContext
from sabir.protocols import registry
from sabir.protocols.nlweb.wire.models import WhoRequest
from sabir.protocols.nlweb.wire.responses import VERSIONS
from sabir.protocols.protocol import DoorEntry
from sabir.turn import Caller

VERSION: Final = "0.1"  # of the agent finder draft
MAX_AGENTS: Final = 50  # agents in a response, by default
MAX_READ: Final = 2048  # characters of a question that are compared with agents and sites
_WORD: Final = re.compile(r"[^\W_]{2,}")
_COMMON: Final = frozenset({
    "a", "an", "and", "any", "are", "can", "do", "does", "find", "for", "give", "has", "have", "how", "in",
    "is", "me", "my", "of", "on", "or", "some", "the", "to", "what", "where", "which", "who", "with", "you", "your",
})  # fmt: skip


def found(
    request: WhoRequest, services: DoorContext, caller: Caller, held: Mapping[str, float] | None = None
) -> list[dict[str, Any]]:
    """The matching agents, best first, one row for each address at which this caller can ask them.

    ``held`` is the score of the best matching item of a card's site, by the name of the card.
    """
    ways = _ways(services, caller)
    wanted = (request.type or "agent").lower()
    suiting: list[tuple[float, int, Card]] = []
    asked = _words([request.text[:MAX_READ]]) - _COMMON
    capabilities = [_words([capability]) for capability in request.capabilities]
    for place, card in enumerate(services.cards(caller, "nlweb")):
        score = _score(request, asked, capabilities, card, (held or {}).get(card.name, 0.0))
        if score > 0:
            suiting.append((-score, place, card))
    rows: list[dict[str, Any]] = []
    for score, _, card in sorted(suiting, key=lambda item: item[:2])[: request.meta.max_results or MAX_AGENTS]:
        for protocol, endpoint in ways.get(card.name, ()):
            if wanted in (protocol, "agent"):
                definition = _definition(card)
                row = {"protocol": protocol, "endpoint": endpoint, "score": round(-score, 1), "definition": definition}
                rows.append(row)
    return rows[: request.meta.max_results]


def _ways(services: DoorContext, caller: Caller) -> dict[str, list[tuple[str, str]]]:
    """For each agent by name: the protocol and address of every door that is open to this caller."""
    ways: dict[str, list[tuple[str, str]]] = {}
    doors = {door.name: door for door in services.doors}
    known = registry.doors().items()
    for name, (protocol, entry) in sorted(known, key=lambda row: row[1][0].name != "nlweb"):  # our own protocol first
        if name not in doors or not entry.reaches_agents:
            continue
        base = _base(services, doors[name], entry)
        for card in services.cards(caller, name) if base else ():
            path = entry.default_path if card.name == services.default_agent else entry.agent_path
            ways.setdefault(card.name, []).append((protocol.name, base + path.format(name=card.name)))
    return ways


def _base(services: DoorContext, door: Door, entry: DoorEntry) -> str:
    """The base address of a door's paths."""
    if entry.scheme == "ws":
        return services.public_url.replace("http", "ws", 1)
    if entry.scheme:
        return services.public_url
    return next((address for _, address in door.addresses()), "")


def answer_of(rows: list[dict[str, Any]], request: WhoRequest) -> dict[str, Any]:
    asked = request.meta.version
    meta = {
        "response_type": "Answer",
        "version": asked if asked in VERSIONS else VERSION,
        "result_count": len(rows),
    }
    return {"_meta": meta, "results": rows}


def _score(request: WhoRequest, asked: set[str], capabilities: list[set[str]], card: Card, held: float) -> float:
    """From 0 to 100: the share of the query's words in the card, or the score of its site, whichever is higher.

    Without a text every agent matches; outside the domain, or without a requested capability, none does.
    """
    if request.domain is not None and request.domain.lower() not in (card.site or "").lower():
        return 0.0
    offered = _words([card.name, *(w for s in card.skills for w in (s.id, s.name, *s.tags))])
    if any(not wanted <= offered for wanted in capabilities):
        return 0.0
    if not asked:
        return 50.0
    texts = [card.description, card.site or "", *(t for s in card.skills for t in (s.description, *s.examples))]
    known = offered | _words(texts)
    return max(held, 100.0 * len(asked & known) / len(asked))


def _words(texts: Iterable[str]) -> set[str]:
    return {_stem(word) for text in texts for word in _WORD.findall(text.lower())}


def _stem(word: str) -> str:
    """Enough for cards: plural and singular count as the same word."""
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def _definition(card: Card) -> dict[str, Any]:
    return {name: value for name, value in msgspec.to_builtins(card).items() if name != "limits"}
