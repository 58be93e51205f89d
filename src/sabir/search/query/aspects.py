"""Aspects: words of a question that say how a thing should be, where the things that are found state it. Pure.

"Blue" filters jackets, which state a colour; "red lentils" are no lentils in red. So it is what was found that says
whether a word is an aspect.
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

CLOSE: Final = 0.75  # of the best score: it fits well
_FEW: Final = 3  # words of a question of which all should be met
_LOOKED_AT: Final = 20  # hits; one that has all the words is among the first
_SURE: Final = 60.0  # a score from which on a hit is about what was asked; see search.Hit
# A colour as people say it, to what things state for it.
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
    """The colour that a question names ("red", "red or blue"), the question without it, and the condition for it."""
    found = list(_COLOUR.finditer(text))
    if len(found) != 1:
        return None
    said = " ".join(fold(found[0]["colours"]).split())
    named = [colour for colour in re.split(r"\W+", said) if colour in COLOURS]
    rest = " ".join(f"{text[: found[0].start()]} {text[found[0].end() :]}".split())
    return said, rest, Is("color", tuple(dict.fromkeys(shade for colour in named for shade in COLOURS[colour])))


def states_colour(hits: Sequence[Hit], colour: str) -> bool:
    """Whether a colour is an aspect of what was found: most of the best state one, and none is called by it."""
    best = fitting(hits)
    if not best or not set(tokens(colour)).isdisjoint(tokens(best[0].item.name)):
        return False
    return 2 * sum("color" in recalled(hit.item).words for hit in best) >= len(best)


def fitting(hits: Sequence[Hit]) -> list[Hit]:
    """Those that fit well; hits come best first."""
    return [hit for hit in hits if hit.score >= CLOSE * hits[0].score]


def apart(text: str, hits: Sequence[Hit]) -> tuple[str, ...]:
    """The few words of a question of which each is met and all together by nothing that was found; else none.

    "Pumpkin soup", where there are pumpkins and soups: who asks should know that there is none.
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
    """Whether an item says a word or one of its kin: cook, cooks, cooking."""
    return any(kin.search(text) for text in (hit.item.name, hit.item.description, hit.item.text))
