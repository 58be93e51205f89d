"""Clarifying questions (W-10): the one question whose answer narrows the results most. Pure.

It is asked if the query is vague, many items match about equally well, and a field that nearly all of them state splits
them; the gain is the entropy of the answer. A field is asked for once per conversation.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Final

import msgspec

from sabir.search.engine.base import Hit
from sabir.search.items.attributes import recalled
from sabir.search.items.item import JSON
from sabir.search.items.types import TYPE_WORDS, is_a
from sabir.search.query.words import content_words, fold, spaced, squeezed

ENOUGH: Final = 8  # this few good items are shown without a question
CLOSE: Final = 0.7  # share of the best score that counts as equally good
GAIN: Final = 0.8  # bits that an answer must gain
STATED: Final = 0.8  # share of the good items that must state a field; otherwise an answer would drop the others
COVERED: Final = 0.6  # share of those that the options must cover
OPTIONS: Final = 8
VAGUE: Final = 1  # a query with this many words or conditions is still vague

# The questions for fields that are worth asking about; others are not asked.
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
_OF_PLACES: Final = frozenset({"addressLocality", "addressRegion"})
_PLACED: Final = ("Event", "Place", "Organization", "JobPosting")  # located things; a recipe is not
_ANYTHING: Final = frozenset(
    """thing stuff idea suggestion recommendation recommend suggest option choice list kind sort some nice great
    interesting favorite favourite help eat cook make buy visit go do try offer sell available have""".split()  # noqa: SIM905
)
_POLITE: Final = frozenset(
    "please thank thanks ok okay yes well maybe prefer rather either both option choose take definitely".split()  # noqa: SIM905
)
MAX_ANSWER: Final = 400  # characters; longer ones are new questions
_INDIFFERENT: Final = re.compile(
    r"\W*(?:no|none|any(?:thing|where|\s+of\s+(?:them|those))?|all(?:\s+of\s+them)?|skip|whatever|no\s+preference"
    r"|(?:i\s+)?(?:don'?t|do\s+not)\s+(?:care|mind|know)|does\s*n[o']t\s+matter|surprise\s+me)\W*"
)
_COUNTED: Final = {"first": 1, "second": 2, "third": 3, "fourth": 4, "fifth": 5}
_NTH: Final = re.compile(rf"^\W*(?:the\s+|number\s+|option\s+)*(?:([1-8])|({'|'.join(_COUNTED)}))(?:\s+one)?\W*$")
_ASKS: Final = re.compile(
    r"\?\s*$|^\W*(?:what|which|where|when|who|how|is|are|do|does|can|could|would|show|find|tell|give|list|search|i\s+want"
    r"|i\s+need|i'?m\s+looking)\b"
)
_ANY: Final = frozenset({"any", "anything", "all", "no", "none", "noPreference", "no preference", "don't care", "skip"})


class Elicited(msgspec.Struct, frozen=True):
    """A clarifying question. ``id`` is the field; ``options`` include how many items each would leave."""

    id: str
    text: str
    options: tuple[str, ...]
    gain: float


def question(text: str, hits: Sequence[Hit], *, asked: Collection[str] = (), conditions: int = 0) -> Elicited | None:
    """The question to ask about these results, or None if none is worth it.

    ``asked`` are fields that were already asked for, or that the query already fixes; ``conditions`` is how many
    conditions it has besides its words.
    """
    close = [hit for hit in hits if hit.score >= CLOSE * hits[0].score]  # best first
    if len(close) < ENOUGH or len(_wanted(text)) + conditions > VAGUE:
        return None
    said = {squeezed(word) for word in content_words(text)}
    known = [recalled(hit.item).labels for hit in close]
    placed = all(any(is_a(kind, of) for kind in hit.item.types for of in _PLACED) for hit in close)
    best: Elicited | None = None
    for field, words in QUESTIONS.items():
        if field.casefold() in {item.casefold() for item in asked} or (field in _OF_PLACES and not placed):
            continue
        counts = Counter(value for labels in known for value in labels.get(field, ())[:3])
        stating = sum(1 for labels in known if field in labels)
        options = {value: count for value, count in counts.most_common(OPTIONS) if count >= max(2, len(close) // 12)}
        if stating < STATED * len(close) or len(options) < 2 or sum(options.values()) < COVERED * stating:
            continue
        if any(squeezed(value) in said for value in options):
            continue
        gain = _entropy([*options.values(), stating - sum(options.values())]) * stating / len(close)
        if gain >= GAIN and (best is None or gain > best.gain):
            shown = tuple(f"{spaced(value)} ({count})" for value, count in options.items())
            best = Elicited(field, words, shown, gain)
    return best


def recounted(asked: Elicited, counts: Sequence[tuple[str, int]]) -> Elicited:
    """The same question with the counts of all results, if only some of them were considered."""
    shown = tuple(f"{spaced(value)} ({count})" for value, count in counts[:OPTIONS] if count > 1)
    return msgspec.structs.replace(asked, options=shown) if len(shown) > 1 else asked


def _wanted(text: str) -> list[str]:
    """The words that say what is wanted, besides its type ("recipes") and common words."""
    return [word for word in content_words(text) if word not in TYPE_WORDS and word not in _ANYTHING]


def chosen(text: str, options: Sequence[str]) -> tuple[list[str], str] | None:
    """The options that a text answer names, and the rest of it; None if it is not an answer at all.

    "Dessert, please" names one; "any" names none and is an answer; "what is on in Boise in January?" is a new question,
    although Boise was an option.
    """
    if len(text) > MAX_ANSWER:
        return None
    bare = [_option(option) for option in options]
    said = fold(" ".join(text.split()))
    if _INDIFFERENT.fullmatch(said.strip()):
        return [], ""
    named = [option for option in bare if re.search(rf"\b{re.escape(fold(option))}\b", said)]
    rest = text
    for option in sorted(named, key=len, reverse=True):
        rest = re.sub(rf"\b{re.escape(option)}\b", " ", rest, flags=re.IGNORECASE)
    place = _NTH.search(said)
    if not named and place is not None and (at := int(place[1] or _COUNTED[place[2]])) <= len(bare):
        return [bare[at - 1]], ""
    more = [word for word in content_words(rest) if word not in _POLITE]
    if not more:
        return (named, "") if named else None
    if not named or _ASKS.search(said) or len(more) > 3:
        return None
    return named, " ".join(rest.split()).strip(" ,.;")


def answered(answers: Mapping[str, JSON]) -> dict[str, JSON]:
    """Answers by question id, as filters: without the counts of options, and without "any"."""
    filters: dict[str, JSON] = {}
    for field, value in answers.items():
        values = [_option(item) for item in (value if isinstance(value, list) else [value])]
        kept = [item for item in values if item not in (None, "") and str(item).casefold() not in _ANY]
        if kept:
            filters["itemType" if field == "@type" else field] = kept if len(kept) > 1 else kept[0]
    return filters


def _option(value: JSON) -> JSON:
    return re.sub(r"\s*\(\d+\)$", "", value).strip() if isinstance(value, str) else value


def _entropy(counts: Sequence[int]) -> float:
    shares = [count for count in counts if count > 0]
    total = sum(shares)
    return -sum(share / total * math.log2(share / total) for share in shares) if total else 0.0
