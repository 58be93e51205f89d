"""Aspects: words of a question that describe a thing, if the results state such a property. Pure.

"Blue" filters jackets, which state a colour; "red lentils" are not lentils in red. So the results decide whether a word
is an aspect.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from sabir.search.engine.base import Hit
from sabir.search.items.attributes import recalled
from sabir.search.items.types import TYPE_WORDS

from .conditions import Is
from .words import content_words, fold, tokens

CLOSE: Final = 0.75  # share of the best score that counts as a good match
_FEW: Final = 3  # in a question of this many words all should be met
_LOOKED_AT: Final = 20  # hits; one with all the words is among the first
_SURE: Final = 60.0  # from this score, a hit is about the question; see search.Hit
# A colour as people say it, to the values that things state.
COLOURS: Final[Mapping[str, tuple[str, ...]]] = {
    "red": ("red", "crimson", "scarlet", "burgundy", "maroon", "rust"),
    "blue": ("blue", "navy", "indigo", "azure", "cobalt", "turquoise", "teal"),
    "green": ("green", "olive", "moss", "emerald", "lime", "sage", "khaki"),
    "yellow": ("yellow", "amber", "mustard", "lemon"),
    "orange": ("orange", "apricot", "rust"),
    "purple": ("purple", "violet", "lilac", "lavender", "plum"),
    "pink": ("pink", "rose", "magenta"),
    "brown": ("brown", "tan", "chestnut", "walnut", "chocolate"),
    "black": ("black", "charcoal"),
    "white": ("white", "cream", "ivory"),
    "grey": ("gray", "grey", "slate", "silver", "charcoal"),
    "gray": ("gray", "grey", "slate", "silver", "charcoal"),
    "silver": ("silver", "chrome"),
    "gold": ("gold", "golden", "brass"),
    "beige": ("beige", "sand", "oatmeal", "cream", "tan"),
    "navy": ("navy",),
    "turquoise": ("turquoise", "teal"),
}
_NAMED = "|".join(COLOURS)
_COLOUR: Final = re.compile(
    rf"\b(?:in\s+)?(?P<colours>(?:{_NAMED})(?:\s*(?:,|,?\s+or)\s+(?:{_NAMED}))*)(?:[\s-]colou?red)?\b", re.IGNORECASE
)


def coloured(text: str) -> tuple[str, str, Is] | None:
    """The colour that a question names ("red", "red or blue"), the question without it, and its condition."""
    found = list(_COLOUR.finditer(text))
    if len(found) != 1:
        return None
    said = " ".join(fold(found[0]["colours"]).split())
    named = [colour for colour in re.split(r"\W+", said) if colour in COLOURS]
    rest = " ".join(f"{text[: found[0].start()]} {text[found[0].end() :]}".split())
    return said, rest, Is("color", tuple(dict.fromkeys(shade for colour in named for shade in COLOURS[colour])))


def states_colour(hits: Sequence[Hit], colour: str) -> bool:
    """Whether a colour is an aspect of the results: most of the best state one, and none has it in its name."""
    best = fitting(hits)
    if not best or not set(tokens(colour)).isdisjoint(tokens(best[0].item.name)):
        return False
    return 2 * sum("color" in recalled(hit.item).words for hit in best) >= len(best)


def fitting(hits: Sequence[Hit]) -> list[Hit]:
    """The good matches; hits come best first."""
    return [hit for hit in hits if hit.score >= CLOSE * hits[0].score]


def apart(text: str, hits: Sequence[Hit]) -> tuple[str, ...]:
    """The few words of a question that are each met, but never together by one result; otherwise none.

    "Pumpkin soup", if there are pumpkins and soups: the person should know that there is no pumpkin soup.
    """
    wanted = [word for word in dict.fromkeys(content_words(text)) if word not in TYPE_WORDS]
    if [word for word in tokens(text) if word not in TYPE_WORDS] != wanted:
        return ()  # more than a name: "something warm to wear"
    if not 2 <= len(wanted) <= _FEW or not hits or hits[0].score >= _SURE:
        return ()
    kin = {word: re.compile(rf"\b{re.escape(word[: max(4, len(word) - 2)])}", re.IGNORECASE) for word in wanted}
    met = [{word for word in wanted if _says(hit, kin[word])} for hit in hits[:_LOOKED_AT]]
    if any(len(item) == len(wanted) for item in met) or set().union(*met) != set(wanted):
        return ()
    return tuple(wanted)


def _says(hit: Hit, kin: re.Pattern[str]) -> bool:
    """Whether an item contains a word or a related form: cook, cooks, cooking."""
    return any(kin.search(text) for text in (hit.item.name, hit.item.description, hit.item.text))
