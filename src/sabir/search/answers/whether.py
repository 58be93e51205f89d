"""Yes or no by what a thing says of ages, of who pays, and of what it has, where no condition decides it. Pure.

"Can my five-year-old come?" is answered by "3-6", or by "Not for children under six."; "do students pay?" by the price
of the offer for students; "he uses a wheelchair" by the feature "Wheelchair accessible".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from sabir.search.items.item import Item
from sabir.search.items.schema_org import strings
from sabir.search.query.predicates import IDLE
from sabir.search.query.units import number
from sabir.search.query.words import content_words, sentences, spaced, tokens

from .fields import feature_flags
from .offers import named_offer

_NUMBER: Final = (
    r"(?:\d{1,2}|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen"
    r"|seventeen|eighteen|twenty-one|twenty)"
)
_ASKED: Final = re.compile(
    rf"\b(?P<a>{_NUMBER})[\s-](?:years?|yrs?)[\s-]olds?\b|\b(?P<b>{_NUMBER})\s+(?:years?\s+old|jahre\s+alt|a[ñn]os|ans)\b"
    rf"|\b(?:aged?|who\s+(?:is|turned)|(?:he|she)['’]?s)\s+(?P<c>{_NUMBER})\b|\b(?P<d>\d{{1,2}})-?j[äa]hrige",
    re.IGNORECASE,
)
_LEAST: Final = re.compile(
    rf"\b(?:not\s+(?:for|suitable\s+for)\s+(?:children|kids|anyone|those|people|visitors)?\s*(?:under|below)"
    rf"|no\s+(?:children|kids|one|under)\s*(?:under)?|(?:at\s+least|minimum\s+age(?:\s+of|\s+is)?|from\s+age|from\s+the\s+age\s+of"
    rf"|ages?\s+from|over)|ab)\s+(?P<a>{_NUMBER})\b(?!\s*(?:minutes|hours|days|weeks|people|dollars|euros|kg|km|cm|items|books))"
    rf"|\b(?:aged?\s+|ages\s+)?(?P<b>{_NUMBER})\s*(?:\+|(?:years?\s+)?(?:and|or)\s+(?:over|up|older|above))",
    re.IGNORECASE,
)
_BETWEEN: Final = re.compile(
    rf"\b(?:ages?|aged|children|kids|for)\s+(?:of\s+|from\s+|between\s+)?(?P<a>{_NUMBER})\s*(?:to|-|–|and)\s*(?P<b>{_NUMBER})\b"
    r"(?!\s*(?:minutes|hours|days|weeks|people|players|dollars|euros|kg|km|cm))",
    re.IGNORECASE,
)
_RANGE: Final = re.compile(r"^\D{0,12}(?P<a>\d{1,2})\s*(?:-|–|to|\+|and|or)?\s*(?P<b>\d{1,2})?")
_AGE_FIELDS: Final = ("typicalAgeRange", "suggestedAge", "ageRange", "recommendedAge", "age", "minimumAge")
_PAYS: Final = re.compile(r"\b(?:pay|pays|paying|cost|costs|charged?)\b", re.IGNORECASE)
_FREE: Final = re.compile(r"\bfree\b|\bfor\s+nothing\b", re.IGNORECASE)
# Words for who asks, and for getting somewhere, which tell nothing of the thing.
_WHO: Final = frozenset(
    """husband wife mother mum mom father dad son daughter friend partner brother sister grandmother grandma grandfather
    grandpa kid child boy girl aunt uncle guest visitor we i he she they use need have want come go bring get into in
    enter access reach with along able manage""".split()  # noqa: SIM905
)
# Words of a feature that only say that it is there.
_THERE: Final = frozenset("accessible available allowed welcome permitted included provided offered friendly".split())  # noqa: SIM905


def otherwise(item: Item, question: str) -> tuple[bool, str] | None:
    """Whether something is so, and what the item says of it; None if it does not say.

    ``question`` is without the name of the item.
    """
    return _by_age(item, question) or _by_offer(item, question) or _by_feature(item, question)


def _by_age(item: Item, question: str) -> tuple[bool, str] | None:
    asked = _ASKED.search(question)
    age = _value(next((group for group in asked.groups() if group), "")) if asked else None
    if age is None:
        return None
    found = next(_ages(item), None)
    if found is None:
        return None
    low, high, said = found
    return low <= age <= high, said


def _ages(item: Item) -> Iterator[tuple[float, float, str]]:
    """The lowest and the highest age that an item is for, and where it says so."""
    for field in _AGE_FIELDS:
        for text in strings(item.fields.get(field)):
            if match := _RANGE.match(text):
                high = float(match["b"]) if match["b"] else 200.0
                yield float(match["a"]), high, f"{item.name} is for ages {text}."
    for sentence in sentences(f"{item.description}\n{item.text}"):
        if between := _BETWEEN.search(sentence):
            yield _value(between["a"]) or 0.0, _value(between["b"]) or 200.0, sentence
        elif least := _LEAST.search(sentence):
            yield _value(least["a"] or least["b"]) or 0.0, 200.0, sentence


def _value(text: str) -> float | None:
    return number(text.casefold()) if text else None


def _by_offer(item: Item, question: str) -> tuple[bool, str] | None:
    """ "Do under 16s pay?": by the price of the offer of that name."""
    is_paid, is_free = _PAYS.search(question), _FREE.search(question)
    found = named_offer(item, question) if is_paid or is_free else None
    if found is None:
        return None
    name, price, written = found
    return (price > 0) is bool(is_paid), f"{item.name}: {name} {written}."


def _by_feature(item: Item, question: str) -> tuple[bool, str] | None:
    """By a feature whose name is in the question, if nothing else in the question says anything of the thing."""
    words = {word for word in content_words(question) if word not in IDLE and word not in _WHO}
    own = set(tokens(item.name))
    for label, is_so in feature_flags(item):
        named = set(tokens(spaced(label))) - _THERE
        if named and named.issubset(words) and words <= named | own | _THERE:
            return is_so, f"{item.name}: {spaced(label).lower()}{'' if is_so else ' – no'}."
    return None
