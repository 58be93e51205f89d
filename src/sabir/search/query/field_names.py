"""Which field of an item a question asks about, by the field's own name. Pure.

``numberOfBedrooms`` is "bedrooms", ``checkinTime`` is "check-in", ``departureTime`` is when it departs. No type of item
and no field is known here: what a site states under a name can be asked for by that name, or by another word for it
(``glossaries/fields.txt``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from itertools import pairwise
from typing import Final

import msgspec

from .vocabulary import ALIKE
from .words import fold, spaced, tokens

# Words of a field's name that do not tell it from others.
_PLAIN: Final = frozenset(
    """number maximum of the a an is has in on total value name type text time date vehicle item product capacity
    specification information detail content available accepts from for to allowed feature offered
    included per""".split()  # noqa: SIM905
)
_BEHIND: Final = frozenset({"from", "by", "for", "per", "at", "with"})
_KIN: Final = 4  # letters that two forms of one word share: "seat" and "seating"
_FORMS: Final = 5  # letters that two forms share, if they end differently: "depart" and "departure"


class FieldMatch(msgspec.Struct, frozen=True):
    """The name of a field, and the words of the question that name it."""

    name: str
    words: frozenset[str]


def is_kin(word: str, other: str) -> bool:
    """Whether two words are forms of one: "guides" and "guide", "difficult" and "difficulty"."""
    if word == other:
        return True
    shorter, longer = sorted((word, other), key=len)
    if len(shorter) >= _KIN and longer.startswith(shorter):
        ending = longer[len(shorter) :]
        return ending in _ENDINGS or (ending[:1] == shorter[-1] and ending[1:] in _ENDINGS)  # "knitting"
    stem = shorter[:-1]
    is_long = len(shorter) > _FORMS or (len(shorter) == _FORMS and shorter.endswith("e"))  # "cycle" and "cycling"
    return is_long and longer.startswith(stem) and longer[len(stem) :] in _ENDINGS


_ENDINGS: Final = frozenset(
    "s es e d ed r er or ors y ing ings ly ity ion ions ation ure ures al ment ful able ible en n ence ance".split()  # noqa: SIM905
)


@cache
def other_words() -> Mapping[str, tuple[str, ...]]:
    """For each word that asks for a field, the words that such a field may be named by."""
    text = (files(__package__) / "glossaries" / "fields.txt").read_text(encoding="utf-8")
    found: dict[str, tuple[str, ...]] = {}
    for line in text.splitlines():
        said, _, named = line.partition("=")
        if named and not line.startswith("#"):
            for word in said.split():
                found[fold(word)] = (*found.get(fold(word), ()), *named.split())
    return found


def keys(text: str) -> dict[str, frozenset[str]]:
    """The words of a question by which a field may be named, each with the words that it stands for."""
    words = tokens(text)
    found = {word: frozenset((word,)) for word in words}
    found |= {f"{one}{other}": frozenset((one, other)) for one, other in pairwise(words)}  # "check-in"
    return found


def named_by(name: str) -> tuple[str, ...]:
    """The words of a field's name that tell it from others."""
    words = tokens(spaced(name).replace("_", " ").replace("-", " "))
    at = next((at for at, word in enumerate(words) if at and word in _BEHIND), len(words))  # "mileageFromOdometer"
    return tuple(word for word in words[:at] if word not in _PLAIN)


def match(text: str, names: Iterable[str]) -> list[FieldMatch]:
    """The fields that a question names, those with the most words first."""
    said = keys(text)
    found = []
    for name in names:
        wanted = named_by(name)
        whole = _meaning("".join(wanted), said)
        used = [whole] if whole else [_meaning(word, said) for word in wanted]
        if wanted and all(used):
            found.append(FieldMatch(name, frozenset(word for words in used for word in words)))
    return sorted(found, key=lambda item: -len(item.words))


def _meaning(wanted: str, said: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """The words of a question that mean a word of a field's name; none if there are none."""
    found: set[str] = set()
    for key, words in said.items():
        if is_kin(key, wanted) or any(is_kin(other, wanted) for other in other_words().get(key, ())):
            found |= words
    return frozenset(found)


def all_named(words: Sequence[str], label: str) -> bool:
    """Whether each of some words is in a label, or another word for it is: "parking", "Private parking"."""
    apart = tokens(spaced(label))
    there = {*apart, *tokens(label), *(f"{one}{other}" for one, other in pairwise(apart))}
    return bool(words) and all(
        any(
            is_kin(form, other)
            for form in (word, *ALIKE.get(word, ()), *other_words().get(word, ()))
            for other in there
        )
        for word in words
    )
