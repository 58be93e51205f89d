"""The organization or place whose site this is, for questions that name nothing: "are you open on Sundays?"."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final

import msgspec

from sabir.search import Condition, Engine, Fields, Hit, OfType, SearchQuery
from sabir.search.answers.coverage import Word, forms_of, found_in, texts_of
from sabir.search.answers.statements import is_unsaid
from sabir.search.query.asking import asked, begins_open, is_yes_no
from sabir.search.query.glossary import glossary
from sabir.search.query.predicates import IDLE
from sabir.search.query.text import from_text
from sabir.search.query.words import content_words, tokens

from .own import own_thing
from .subject import ASKING, MAX_LENGTH, Subject, answered_subject

_OF_HOME: Final = frozenset({"openinghours", "telephone", "address", "email", "paymentaccepted", "faxnumber"})
_OURS: Final = re.compile(r"\b(?:you|your|yours|we|our|us|here|ihr|euch|euer|eure|hier|vous|votre|vos|ici)\b", re.I)


async def of_home(
    english: str, engine: Engine, where: tuple[Condition, ...], known: Fields, now: datetime, language: str
) -> Subject | None:
    """What the site's own organization states, if a question asks for it and names no other thing."""
    wanted = asked(english, english, known, now) if len(english) <= MAX_LENGTH else None
    if not wanted or not (wanted.is_yes_no or _OF_HOME.intersection(wanted.fields)):
        return None
    home = await own_thing(engine, where)
    if home is None:
        return None
    read = from_text(english, known, now)
    idle = glossary(language).words if language != "en" else frozenset[str]()
    rows = zip(read.conditions, read.said, strict=True)
    said = {word for condition, words in rows if not isinstance(condition, OfType) for word in tokens(words)}
    left = [word for word in content_words(english) if not {word} <= ASKING | IDLE | said | idle]
    is_asked = begins_open(english) or is_yes_no(english) or _OURS.search(english)
    if left and not is_asked:
        return None
    texts = texts_of(home.item)
    if any(not found_in(Word(word, forms_of(word, language), 1.0), texts) for word in left):
        return None
    if left and not _OURS.search(english) and await _is_named_elsewhere(left, engine, where, home):
        return None
    wanted = msgspec.structs.replace(wanted, fields=tuple(field for field in wanted.fields if field in _OF_HOME))
    found = await answered_subject(home, wanted, english, engine, known, language)
    return found if found.statement and not is_unsaid(found.statement) else None


async def _is_named_elsewhere(left: list[str], engine: Engine, where: tuple[Condition, ...], home: Hit) -> bool:
    hits = (await engine.search(SearchQuery(" ".join(left), where, 0, 10))).hits
    own = set(tokens(home.item.name))
    others = (set(tokens(hit.item.name)) for hit in hits if hit.item.id != home.item.id)
    return any(word in name and word not in own for name in others for word in left)
