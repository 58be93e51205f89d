"""``/who``: which agents here suit a query, by what their cards say and, of sites, by what they hold."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from ..card import Card
from ..wire.nlweb_models import WhoRequest

VERSION: Final = "0.1"  # of the agent finder draft
PATHS: Final = (("nlweb", "/ask"), ("nlip", "/nlip"))  # where an agent is, by protocol
_WORD: Final = re.compile(r"[^\W_]{2,}")
_COMMON: Final = frozenset({
    "a", "an", "and", "any", "are", "can", "do", "does", "find", "for", "give", "has", "have", "how", "in",
    "is", "me", "my", "of", "on", "or", "some", "the", "to", "what", "where", "which", "who", "with", "you", "your",
})  # fmt: skip


def found(
    request: WhoRequest, cards: Sequence[Card], url: str, held: Mapping[str, float] | None = None
) -> list[dict[str, Any]]:
    """The agents that suit, best first, one row for each protocol they can be asked by.

    ``held`` is the score of the best item that the site of a card has for the query, by the name of the card.
    """
    rows: list[tuple[float, int, dict[str, Any]]] = []
    for place, card in enumerate(cards):
        score = _score(request, card, (held or {}).get(card.name, 0.0))
        if score <= 0:
            continue
        for protocol, path in PATHS:
            if request.type is not None and request.type.lower() not in (protocol, "agent"):
                continue
            endpoint = url + (path if place == 0 else f"{path}/{card.name}")
            row = {"protocol": protocol, "endpoint": endpoint, "score": round(score, 1), "definition": _told(card)}
            rows.append((-score, place, row))
    rows.sort(key=lambda row: row[:2])
    return [row for _, _, row in rows][: request.max_results or 50]


def answer_of(rows: list[dict[str, Any]], request: WhoRequest) -> dict[str, Any]:
    meta = {"response_type": "Answer", "version": request.version or VERSION, "result_count": len(rows)}
    return {"_meta": meta, "results": rows}


def _score(request: WhoRequest, card: Card, held: float) -> float:
    """From 0 to 100: the share of the query's words that the card holds, or what its site holds, whichever is more.

    Without words every agent suits; outside the domain, or without a capability that is asked for, none does.
    """
    if request.domain is not None and request.domain.lower() not in (card.site or "").lower():
        return 0.0
    offered = _words([card.name, *(w for s in card.skills for w in (s.id, s.name, *s.tags))])
    if any(not _words([wanted]) <= offered for wanted in request.capabilities):
        return 0.0
    asked = _words([request.text]) - _COMMON
    if not asked:
        return 50.0
    texts = [card.description, card.site or "", *(t for s in card.skills for t in (s.description, *s.examples))]
    known = offered | _words(texts)
    return max(held, 100.0 * len(asked & known) / len(asked))


def _words(texts: Iterable[str]) -> set[str]:
    return {_stem(word) for text in texts for word in _WORD.findall(text.lower())}


def _stem(word: str) -> str:
    """Enough for cards: plural and singular are one word."""
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def _told(card: Card) -> dict[str, Any]:
    return {name: value for name, value in msgspec.to_builtins(card).items() if name != "limits"}
