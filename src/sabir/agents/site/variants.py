"""Whether a variant of a thing is to be had: "do you have the shirt in sand, size M?". Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from sabir.search import Hit
from sabir.search.answers.reading import has, naming
from sabir.search.answers.statements import yes_or_no
from sabir.search.query.asking import Asked, asks_whether_there, is_yes_no
from sabir.search.query.predicates import IDLE
from sabir.search.query.words import content_words, tokens

from .hits import starts_in
from .reader import leads
from .subject import ASKING, Subject, best_named

_SPACED: Final = re.compile(r"(?<=\d)\s+(?=(?:kg|g|mg|ml|cl|l|oz|lb|cm|mm|m|inch|litres?|cups?)\b)", re.IGNORECASE)
_IDLE: Final = frozenset({"size", "colour", "color", "version", "bag", "pack", "box", "tin", "one", "stock"})
_THERE: Final = ("InStock", "LimitedAvailability", "PreOrder", "OnlineOnly", "InStoreOnly", "BackOrder")


def asks_for_variant(english: str) -> bool:
    """Whether a question may ask if a variant is to be had."""
    return is_yes_no(english) or asks_whether_there(english)


def stated_variant(english: str, named: Hit | None, pool: Sequence[Hit], language: str) -> Subject | None:
    """Yes or no, by the offers of the one thing that a question is about; None if it names none of its variants."""
    hit = named or (pool[0] if leads(pool) else _only_called(english, pool))
    rows = _variants(hit) if hit is not None else []
    if hit is None or len(rows) < 2:
        return None
    words = set(tokens(_SPACED.sub("", english)))
    own = naming(hit.item)
    asked_for = {word for words_of, _, _ in rows for word in words_of if word in words and word not in own}
    fitting = [(name, is_there) for words_of, name, is_there in rows if asked_for <= words_of]
    left = [word for word in content_words(_SPACED.sub("", english)) if word not in asked_for | _IDLE | ASKING | IDLE]
    is_about = all(has(own, word) or starts_in(hit, word) for word in left)
    if not asked_for or not fitting or not is_about or len(fitting) == len(rows):
        return None
    there = [name for name, is_there in fitting if is_there]
    said = f"{', '.join(there)} in stock" if there else f"{fitting[0][0]} is not available"
    statement = f"{yes_or_no(bool(there), language)} {hit.item.name}: {said}."
    return Subject(hit, Asked(("availability",), about=english), english, statement)


def _only_called(english: str, pool: Sequence[Hit]) -> Hit | None:
    """The one hit whose name has the most words of a question."""
    words = [word for word in content_words(_SPACED.sub("", english)) if word.isalpha() and word not in _IDLE]
    best = best_named(words, pool)
    return best[0][0] if len(best) == 1 else None


def _variants(hit: Hit) -> list[tuple[set[str], str, bool]]:
    """The words and the name of each variant, and whether it is to be had."""
    offers = hit.item.fields.get("offers")
    rows = [row for row in offers if isinstance(row, dict)] if isinstance(offers, list) else []
    named = [(str(row.get("name") or ""), str(row.get("availability") or "InStock")) for row in rows]
    return [(set(tokens(_SPACED.sub("", name))), name, said.endswith(_THERE)) for name, said in named if name]
