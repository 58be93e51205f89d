"""Follow-ups on the thing that was asked about: the same question of another thing, or another one of the same thing.

A reading is taken only if it is answered: "and check-out?" is about the cottage before if that states its check-out.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final

from sabir.search import Condition, Engine, Fields
from sabir.search.answers.statements import is_unsaid
from sabir.search.query import names
from sabir.search.query.words import content_words

from .subject import MAX_LENGTH, subject_of

_GOES_ON: Final = re.compile(
    r"^\W*(?:(?:ok|okay|thanks|great)[\s,]+)*(?:(?:and\s+|or\s+|but\s+)?(?:what|how)\s+about|and|or|und|oder|y|o|et|ou)\b[\s,]*",
    re.IGNORECASE,
)
_FEW: Final = 4  # meaningful words of a question that goes on with a thing


async def continued(
    text: str,
    subject: str,
    last: str,
    engine: Engine,
    where: tuple[Condition, ...],
    known: Fields,
    now: datetime,
) -> str:
    """The follow-up as it would be asked on its own; empty if it does not go on with the thing before.

    ``subject`` is the name of that thing, and ``last`` the question about it, as it was understood.
    """
    goes_on = _GOES_ON.match(text)
    if not subject or goes_on is None or len(text) > MAX_LENGTH:
        return ""
    bare = text[goes_on.end() :].strip(" ?!.,")
    if not 1 <= len(content_words(bare)) <= _FEW + len(content_words(subject)):
        return ""
    other = await subject_of(bare, engine, where, known, now)
    if other is not None and not other.asked:
        at = names.find(last, subject)
        is_other = other.hit.item.name != subject and at is not None
        return f"{last[: at.start]}{other.hit.item.name}{last[at.end :]}" if at is not None and is_other else ""
    if other is not None or len(content_words(bare)) > _FEW:
        return ""
    for question in (f"{bare} {subject}?", f"what is the {bare} of {subject}?"):
        found = await subject_of(question, engine, where, known, now)
        if found is not None and found.hit.item.name == subject and found.statement:
            return "" if is_unsaid(found.statement) else question
    return ""
