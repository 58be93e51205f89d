"""Asking back (W-10): the one question whose answer narrows what was found the most. Pure.

It is asked when many items fit about equally well and a field splits them; the gain is the entropy of
the answer, weighted by how many items state the field. A field is asked for once in a conversation.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Final

import msgspec

from .attributes import recalled
from .base import Hit
from .item import JSON
from .words import content_words, spaced, squeezed

ENOUGH: Final = 8  # so few good items are shown, not asked about
CLOSE: Final = 0.7  # of the best score: equally good
GAIN: Final = 0.8  # bits that an answer must be worth
OPTIONS: Final = 8
SHORT: Final = 4  # words of a question that may still be vague

# What to call the fields that are worth asking for; others are not asked.
QUESTIONS: Final[Mapping[str, str]] = {
    "@type": "What kind of thing are you looking for?",
    "suitableForDiet": "Do you keep to a diet?",
    "recipeCategory": "Which course should it be?",
    "recipeCuisine": "Which cuisine would you like?",
    "servesCuisine": "Which cuisine would you like?",
    "category": "Which category should it be in?",
    "genre": "Which genre do you prefer?",
    "brand": "Do you prefer a brand?",
    "color": "Which colour would you like?",
    "material": "Which material would you like?",
    "size": "Which size do you need?",
    "audience": "Who is it for?",
    "addressLocality": "Where should it be?",
    "addressRegion": "In which region should it be?",
    "priceRange": "Which price range suits you?",
    "cookingMethod": "How would you like to cook it?",
    "educationalLevel": "Which level suits you?",
    "employmentType": "Which kind of employment do you want?",
    "inLanguage": "In which language should it be?",
    "eventAttendanceMode": "Would you attend in person or online?",
}
_ANY: Final = frozenset({"any", "anything", "all", "no", "none", "noPreference", "no preference", "don't care", "skip"})


class Elicited(msgspec.Struct, frozen=True):
    """A question back. ``id`` is the field; ``options`` carry how many items each would leave."""

    id: str
    text: str
    options: tuple[str, ...]
    gain: float


def question(text: str, hits: Sequence[Hit], *, asked: Collection[str] = ()) -> Elicited | None:
    """The question to ask about what was found, if one is worth it.

    ``asked`` are the fields that were asked for before, or that the query already fixes.
    """
    close = [hit for hit in hits if hit.score >= CLOSE * hits[0].score]  # best first
    if len(close) < ENOUGH or len(content_words(text)) > SHORT:
        return None
    said = {squeezed(word) for word in content_words(text)}
    known = [recalled(hit.item).labels for hit in close]
    best: Elicited | None = None
    for field, words in QUESTIONS.items():
        if field.casefold() in {each.casefold() for each in asked}:
            continue
        counts = Counter(value for labels in known for value in labels.get(field, ())[:3])
        stating = sum(1 for labels in known if field in labels)
        options = {value: count for value, count in counts.most_common(OPTIONS) if count >= max(2, len(close) // 12)}
        if len(options) < 2 or any(squeezed(value) in said for value in options):
            continue
        gain = _entropy([*options.values(), stating - sum(options.values())]) * stating / len(close)
        if gain >= GAIN and (best is None or gain > best.gain):
            shown = tuple(f"{spaced(value)} ({count})" for value, count in options.items())
            best = Elicited(field, words, shown, gain)
    return best


def answered(answers: Mapping[str, JSON]) -> dict[str, JSON]:
    """Answers by question id, as filters: counts taken off the options, "any" taken out."""
    filters: dict[str, JSON] = {}
    for field, value in answers.items():
        values = [_option(each) for each in (value if isinstance(value, list) else [value])]
        kept = [each for each in values if each not in (None, "") and str(each).casefold() not in _ANY]
        if kept:
            filters["itemType" if field == "@type" else field] = kept if len(kept) > 1 else kept[0]
    return filters


def _option(value: JSON) -> JSON:
    return re.sub(r"\s*\(\d+\)$", "", value).strip() if isinstance(value, str) else value


def _entropy(counts: Sequence[int]) -> float:
    shares = [count for count in counts if count > 0]
    total = sum(shares)
    return -sum(share / total * math.log2(share / total) for share in shares) if total else 0.0
