"""The thing that has what is asked for: of all that is about a lighthouse, only a place has a phone number.

It comes before things that cannot have such a field. Its fact is stated if no other thing may be meant.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

import msgspec

from sabir.search import Fields
from sabir.search.answers.coverage import Measure
from sabir.search.answers.reading import has, naming
from sabir.search.answers.statements import field_value, stated_fact
from sabir.search.items.types import is_a
from sabir.search.query.asking import asked, asks_whether_there, begins_open, is_yes_no
from sabir.search.query.words import fold, tokens

from .subject import MAX_LENGTH, SEARCHES, Subject
from .weighing import Row, unexplained

if TYPE_CHECKING:
    from .search import Finding

_OF_PLACES: Final = frozenset({"telephone", "email", "address", "openinghours"})
_HOLDERS: Final = ("Place", "Organization", "Person")
_HOW: Final = re.compile(r"\bhow\s+(?:do|can|could)\b", re.IGNORECASE)
_TIMES: Final = frozenset(
    """today tonight tomorrow morning afternoon evening night now soir soiree matin apres-midi heure heures demain
    aujourd'hui heute abend abends morgen nacht uhr hoy noche tarde manana hora""".split()  # noqa: SIM905
)
_CLEARLY: Final = 0.1  # more worth than the next


def has_what_is_asked(
    finding: Finding, rows: Sequence[Row], measure: Measure, english: str, known: Fields, now: datetime, language: str
) -> Subject | None:
    """The one place with the field that a question asks for, and its fact; None unless it is exactly one place."""
    is_search = SEARCHES.search(english) and not _HOW.search(english)  # "how do I get to …?" asks for an address
    if len(english) > MAX_LENGTH or is_yes_no(english) or asks_whether_there(english) or is_search:
        return None
    wanted = asked(english, english, known, now)
    if wanted.fields[:1] == ("address",) and not begins_open(english) and "where" in tokens(english):
        return None  # "a pub where dogs are welcome"
    fields = tuple(field for field in wanted.fields if field in _OF_PLACES)
    words = [word for word in measure.words if not word.is_light]
    if not fields or fields[0] != wanted.fields[0] or not words:
        return None
    is_open = fields[0] == "openinghours"  # "what time do you close tonight?"
    left = [(row, unexplained(row.covered, finding, measure)) for row in rows]
    about = [row for row, missing in left if not missing or (is_open and _TIMES.issuperset(map(fold, missing)))]
    holders = [row for row in about if any(is_a(kind, held) for kind in row.hit.item.types for held in _HOLDERS)]
    holders = [row for row in holders if any(field_value(row.hit.item, field) for field in fields)]
    named = {row.hit.item.id: sum(_names(row, word.forms) for word in words) for row in holders}
    holders.sort(key=lambda row: (-named[row.hit.item.id], -row.worth))
    if not holders or (len(holders) > 1 and not _is_clear(holders[0], holders[1], named)):
        return None
    wanted = msgspec.structs.replace(wanted, fields=fields)
    statement = stated_fact(holders[0].hit.item, wanted, language)
    return Subject(holders[0].hit, wanted, english, statement) if statement else None


def _names(row: Row, forms: Sequence[str]) -> bool:
    return any(has(naming(row.hit.item), form) for form in forms)


def _is_clear(first: Row, second: Row, named: dict[str, int]) -> bool:
    is_better_named = named[first.hit.item.id] > named[second.hit.item.id]
    return is_better_named or first.worth >= second.worth + _CLEARLY
