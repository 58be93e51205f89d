"""Whether what a site says answers what a visitor asks, or speaks of something else with the same words. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from sabir.search.items.item import Item
from sabir.search.items.schema_org import strings
from sabir.search.items.types import lineage
from sabir.search.query.asking import asks_whether_there, begins_open, is_yes_no
from sabir.search.query.glossary import glossed, language_of
from sabir.search.query.predicates import IDLE
from sabir.search.query.words import content_words, spaced, tokens

from .fields import labels
from .polarity import obliges, speaks_of_duty
from .reading import WHERE, WHO, has, kind_asked, naming, telling

# "Which electric cars do you have?", "what bikes are there?"
_WHICH: Final = re.compile(
    r"^\W*(?:which|what)\s+.{2,60}\b(?:(?:do|can)\s+(?:you|i|we)\s+(?:have|sell|stock|offer|get|buy|rent|hire|borrow)|have\s+you\s+got"
    r"|(?:is|are)\s+there|(?:is|are)\s+available)\W*$",
    re.IGNORECASE,
)


def looks_for_things(english: str) -> bool:
    """Whether a question asks which things there are, or whether there are any: "do you have electric cars?"."""
    return asks_whether_there(english) or _WHICH.match(english) is not None


def lists_things(english: str) -> bool:
    """Whether a question says which of several things are wanted: "doctors who are there on Fridays"."""
    return _SEVERAL.match(english) is not None


_SEVERAL: Final = re.compile(
    r"^\W*(?!(?:is|does|has|was|this|his)\b)(?:[a-z-]+\s+){0,2}[a-z-]{2,}s,?\s+(?:who|that|which|without|except)\b",
    re.IGNORECASE,
)


def asks_the_same(english: str, item: Item) -> bool:
    """Whether the answer to a site's own question answers another one.

    Where things are looked for, the site's question must not ask for more than that: "do you service electric cars?"
    is not about which cars there are. Where a price or a time is asked for, an answer without one answers only a
    question with the same words.
    """
    if is_yes_no(english) and not asks_whether_there(english) and begins_open(_in_english(item)):
        whole = {*tokens(item.name), *tokens(f"{item.description} {item.text}")}  # "where can I buy a cap?"
        return all(has(whole, word) for word in telling(english) if word not in IDLE)
    if obliges(english) and not (obliges(_in_english(item)) or speaks_of_duty(item.description)):
        return False  # "do I need to bring my passport?" is not "do you issue passports?"
    kind = kind_asked(english) if begins_open(english) else None
    answer = f"{item.description} {item.text}".strip()
    if kind is WHO and answer and not (kind.search(answer) or kind_asked(_in_english(item)) is WHO):
        return False  # "who roasts it?" is not "how is it roasted?"
    if answer and kind is not None and kind not in (WHO, WHERE) and not kind.search(answer):
        name = tokens(item.name)
        return all(has(name, word) for word in telling(english))
    if not looks_for_things(english):
        return True
    said = tokens(english)
    name = content_words(_in_english(item))
    left = [word for word in name if word not in IDLE and not has(said, word)]
    return not left or "".join(left) in said  # "Wi-Fi" is "wifi"


def _in_english(own_question: Item) -> str:
    return glossed(own_question.name, language_of(own_question.name))


def is_called(words: Collection[str], item: Item) -> bool:
    """Whether the name, the type and the keywords of an item have all of these words, apart from idle ones."""
    telling = [word for word in words if word not in IDLE]
    own = {*naming(item), *tokens(" ".join(strings(item.fields.get("keywords"))))}
    return bool(telling) and all(word in own if word.isdigit() else has(own, word) for word in telling)


def is_plainly_called(words: Collection[str], item: Item) -> bool:
    """The same, if the last word of its name or its type is one of them: a café cook is no café."""
    own = {*tokens(item.name)[-1:], *(word for kind in lineage(item.types) for word in tokens(spaced(kind)))}
    return is_called(words, item) and any(has(own, word) for word in words if word not in IDLE)


def is_only_part(words: Collection[str], item: Item) -> bool:
    """Whether short values of an item have all of these words, but only as part of another thing: "electric vehicle
    charging" is no electric vehicle."""
    rows = [tokens(label) for label in labels(item)]
    named = [row for row in rows if words and len(row) <= _SHORT and all(has(row, word) for word in words)]
    return bool(named) and not any(row[-1] in _THERE or has(list(words), row[-1]) for row in named)


_SHORT: Final = 4  # words of a value that names one thing
_THERE: Final = frozenset(
    "accessible available allowed welcome permitted included provided offered friendly free access".split()  # noqa: SIM905
)
