"""Example questions for a site, made from its items: each was tried against the index and found something."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from statistics import median
from typing import Final

from sabir.search.engine.base import Engine, Fields, Hit, IndexedSite, SearchQuery
from sabir.search.items.attributes import Attributes, recalled
from sabir.search.items.types import TYPE_WORDS
from sabir.search.query.conditions import OfType, OnSite
from sabir.search.query.text import from_text
from sabir.search.query.words import content_words, spaced

COUNT: Final = 3
_LOOKED_AT: Final = 60  # items of a type that are considered
_FEW: Final = 0.5  # share of them that must state a property
_SIGNS: Final = {"price:usd": "${}", "price:eur": "{} euros", "price:gbp": "£{}"}
_KINDS: Final = ("recipeCategory", "category", "genre", "recipeCuisine", "articleSection", "keywords")


async def examples(engine: Engine, site: IndexedSite, now: datetime, count: int = COUNT) -> tuple[str, ...]:
    """Up to ``count`` questions, the first about the most frequent type."""
    known = await engine.fields()
    made: list[str] = []
    plain: list[str] = []
    for kind, _ in sorted(site.types.items(), key=lambda pair: -pair[1])[:count]:
        where = (OnSite((site.name,)), OfType((kind,)))
        hits = (await engine.search(SearchQuery("", where, 0, _LOOKED_AT))).hits
        for text in _asked(kind, hits):
            if await _finds(engine, site, text, known, now):
                made.append(text)
                break
        plain += _names(hits)[:count]
    return tuple(dict.fromkeys((*made[:count], *plain)))[:count]


async def _finds(engine: Engine, site: IndexedSite, text: str, known: Fields, now: datetime) -> bool:
    parsed = from_text(text, known, now)
    found = await engine.search(SearchQuery("", (OnSite((site.name,)), *parsed.conditions), 0, 2))
    return bool(parsed.conditions) and not parsed.ignored and len(found.hits) > 1


def _asked(kind: str, hits: Sequence[Hit]) -> Iterator[str]:
    """Questions about a type: by time, by price, by place, by category."""
    things = _things(kind)
    if not things or not hits:
        return
    known = [recalled(hit.item) for hit in hits]
    if (minutes := _middle(known, "totaltime")) and 5 <= minutes <= 24 * 60:
        yield f"{things} in under {_round(minutes)} minutes"
    for field, sign in _SIGNS.items():
        if (price := _middle(known, field)) and price >= 1:
            yield f"{things} under {sign.format(_round(price))}"
    if place := _common(known, "addressLocality"):
        yield f"{things} in {place}"
    for field in _KINDS:
        if value := _common(known, field):
            yield f"{things}, {spaced(value).lower()}"


def _things(kind: str) -> str:
    """The plural of a type in words, if they are known."""
    words = f"{spaced(kind).lower()}s"
    if TYPE_WORDS.get(words) == kind:
        return words
    return next((word for word, means in TYPE_WORDS.items() if means == kind and word.endswith("s")), "")


def _middle(known: Sequence[Attributes], field: str) -> float | None:
    values = [min(item.numbers[field]) for item in known if item.numbers.get(field)]
    return median(values) if values and len(values) >= _FEW * len(known) else None


def _round(value: float) -> int:
    """A round number: 27 becomes 30, 140 becomes 150, 1180 becomes 1200."""
    step = 5 if value < 100 else 50 if value < 1000 else 100
    return max(step, round(value / step) * step)


def _common(known: Sequence[Attributes], field: str) -> str:
    counts = Counter(label for item in known for label in item.labels.get(field, ())[:1])
    best = counts.most_common(1)
    return best[0][0] if best and len(best[0][0]) <= 40 and best[0][1] > 1 else ""


def _names(hits: Sequence[Hit]) -> list[str]:
    """The names of items that can be asked for: those with few words."""
    names = (" ".join(hit.item.name.split()) for hit in hits)
    return [name for name in names if 1 <= len(content_words(name)) <= 8 and len(name) <= 80]
