"""The one thing that a question is about: found by its name, or by the words left after parsing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

import msgspec

from sabir.search import Condition, Engine, Fields, Hit, Not, OfType, Parsed, SearchQuery, resolved
from sabir.search.answers.fields import asked_field, covered, flag
from sabir.search.answers.offers import is_sold_out
from sabir.search.answers.polarity import obliges
from sabir.search.answers.reading import WEAK, has, kind_asked, readings, telling
from sabir.search.answers.statements import (
    decided,
    decides,
    denies,
    field_value,
    flagged,
    is_unsaid,
    stated_fact,
    yes_or_no,
)
from sabir.search.answers.whether import on_feast, otherwise
from sabir.search.items.attributes import OPEN_AT, OPEN_ON, recalled
from sabir.search.items.schema_org import strings
from sabir.search.items.types import PARENTS, TYPE_WORDS, is_a
from sabir.search.query import names
from sabir.search.query.asking import Asked, asked, asks_whether_there, first_asked, is_open, is_yes_no
from sabir.search.query.conditions import AnyOf, Has, Is, Range, holds, meets
from sabir.search.query.glossary import glossary, glossed, language_of, likenesses
from sabir.search.query.negation import before_refused
from sabir.search.query.predicates import IDLE
from sabir.search.query.relaxing import inner
from sabir.search.query.structured import DIET_FIELDS
from sabir.search.query.text import from_text
from sabir.search.query.words import STOPWORDS, content_words, tokens

from .hits import starts_in
from .nearly import WHOM
from .own import YOURS, own_thing, says_you

MAX_LENGTH: Final = 300  # characters of a question; a longer one is prose
_LOOKED_AT: Final = 30  # hits whose names are compared
_FEW: Final = 6  # words that may be a name
# Words before a name that only tell where, or like what: "events at The Ropewalk".
_BESIDE: Final = frozenset(
    """near like by at from than around beside opposite besides au aux chez dans vers im am beim bei neben en
    al""".split()  # noqa: SIM905
)
_ARTICLES: Final = frozenset("the a an la le les l der die das dem den el los las".split())  # noqa: SIM905
# Facts of a single thing; whoever asks for them means one, even without "the".
_OF_ONE: Final = frozenset(
    {"openinghours", "availabilitystarts", "telephone", "address", "email", "instructor", "numberofpages", "isbn"}
)
DEFINITE: Final = re.compile(r"\b(?:the|its|this|that|your)\b", re.IGNORECASE)
# Words for what is asked about a thing, not for which one.
ASKING: Final = frozenset(
    word
    for words in """
    open opened close closed closing opening hour time when start begin beginning end cost price much many long
    take place phone telephone number address located location calorie people person serve serving rating rated star
    ingredient cheap expensive free available stock ticket admission reservation book table date day today tomorrow
    monday tuesday wednesday thursday friday saturday sunday still currently cancelled postponed sold out going ahead
    phone call reach fee entry admission salary pay earn teach teacher instructor page write wrote written author made
    make maker brand cuisine food kind colour color size material apply deadline venue street city hosts cook cooking
    bake minutes cost anything work weigh weight run last contain gram protein fat sugar fibre fiber carb sodium pls
    reserve booking heavy tall high wide deep big large late early year paint painted set back far old she he
    included provided allowed
    permitted needed required necessary include left organizer organiser moment wifi
    email mail feed finish pay charge charged bookable enrol enroll register kick exactly roughly need gps sat
    nav door ring move moving month week full booked""".split()  # noqa: SIM905
    for word in (words, *content_words(words), *content_words(f"{words}s"))
)
FOR_WHOM: Final = re.compile(
    r"\bfor\s+(?:an?\s+|the\s+)?(?:child|children|kid|kids|adult|adults|student|students|senior|seniors|family|families"
    r"|group|groups|two|three|four|five|one)\b|\baged\s+\w+(?=\W*$)",
    re.IGNORECASE,
)


class Subject(msgspec.Struct, frozen=True):
    """The thing that a question names, what is asked about it, and the answer in a sentence, if it states one."""

    hit: Hit
    asked: Asked
    rest: str  # of the question, without the name, in English
    statement: str = ""
    is_refused: bool = False  # it is what is not wanted: "a show that isn't Robin Hood"


async def subject_of(
    question: str, engine: Engine, where: tuple[Condition, ...], known: Fields, now: datetime, said_in: str = ""
) -> Subject | None:
    """The thing that a question is about; None if it searches for things and names none.

    ``said_in`` is the language of the statement, if the question was translated.
    """
    if not question.strip() or len(question) > MAX_LENGTH:
        return None
    question = first_asked(question)
    found = await engine.search(SearchQuery(question, where, 0, _LOOKED_AT))
    language = language_of(question)
    named = _named(question, found.hits) or await _named_by_few(question, engine, where)
    if named is not None:
        hit, match = named
        masked = f"{question[: match.start]} {question[match.end :]}"
        language = language_of(masked)  # a name says nothing about the language of the question
        rest = first_asked(glossed(masked, language))
        if (
            match.whole
            and match.words > 1
            and (wanted_part := before_refused(glossed(question[: match.start], language)))
        ):
            return Subject(hit, Asked(), f"{wanted_part} {question[match.end :]}", is_refused=True)
        opening = glossed(question[: match.start], language) if language == "en" else rest
        whole = f"{opening} {rest}" if not opening else first_asked(glossed(question, language))
        wanted = asked(whole, rest, known, now, is_named=match.whole)
        wanted = _by_field(hit, wanted, rest) or _by_flag(hit, question, rest, language)
        twins = sum(item.item.name == hit.item.name for item in found.hits)
        if not wanted and (twins > 1 or _is_beside(question[: match.start])):
            return None
        if not wanted and not _suits(hit, match, rest, known, now):
            return None
        subject = await answered_subject(hit, wanted, rest, engine, known, said_in or language)
        return with_others(subject, rest, known, now, said_in or language)
    english = glossed(question, language)
    described = await _described(english, said_in or language, engine, where, known, now)
    described = described or await _described_by_field(english, said_in or language, engine, where, known)
    return described or await _of_site_itself(english, said_in or language, engine, where, known, now)


def others_than(refused: Subject, known: Fields, now: datetime) -> Parsed:
    """What is wanted besides the thing that a question refuses."""
    return from_text(refused.rest, known, now).narrowed(Not(Is("name", (refused.hit.item.name,))), "")


# What is asked of a site itself, without its name: "your phone number", "are you open on Sunday?".
_OPENING: Final = (OPEN_ON, OPEN_AT)
_OF_SITE: Final = frozenset({"telephone", "email", "address", "openinghours"})


async def _of_site_itself(
    english: str, language: str, engine: Engine, where: tuple[Condition, ...], known: Fields, now: datetime
) -> Subject | None:
    wanted = asked(english, english, known, now, is_named=True)
    opening = [one for one in inner(wanted.conditions) if isinstance(one, Is) and one.field in _OPENING]
    is_opening = bool(opening) and len(opening) == len(inner(wanted.conditions)) and not wanted.unread
    if not (is_opening or not _OF_SITE.isdisjoint(wanted.fields)) or asks_whether_there(english):
        return None
    left = [word for word in content_words(YOURS.sub("your", english)) if word not in ASKING and word not in IDLE]
    is_meant = says_you(english) or (not left and "address" not in wanted.fields)  # "where to eat?" looks for a place
    if not is_meant or searches(english) or (own := await own_thing(engine, where)) is None:
        return None
    said = {word for words in from_text(english, known, now).said for word in tokens(words)}
    if not covered([word for word in left if word not in said], own.item, ASKING):
        return None
    found = await answered_subject(own, wanted, english, engine, known, language)
    return found if found.statement and not is_unsaid(found.statement) else None


def with_others(subject: Subject, rest: str, known: Fields, now: datetime, language: str) -> Subject:
    """The same with every fact of a question that asks for several: "who organizes it, and where is it?"."""
    parts = [part for part in _ALSO.split(rest) if part.strip(" ?")]
    if len(parts) < 2 or subject.asked.is_yes_no:
        return subject
    wanted = [_by_field(subject.hit, asked(part, part, known, now, is_named=True), part) for part in parts]
    if any(one.is_yes_no or not one.fields for one in wanted):
        return subject
    stated = [stated_fact(subject.hit.item, one, language) for one in wanted]
    wanted = [one for one, said in zip(wanted, stated, strict=True) if said] or wanted
    return msgspec.structs.replace(
        subject, asked=wanted[0], statement=" ".join(dict.fromkeys(one for one in stated if one))
    )


_ALSO: Final = re.compile(r",?\s+and\s+(?=(?:how|what|when|where|who|which)\b)", re.IGNORECASE)


def _by_field(hit: Hit, wanted: Asked, rest: str) -> Asked:
    """What is asked, or the field of the thing that the question names: "how many bedrooms does X have?".

    A field's own word ("bedrooms", "check-in") says more than a pattern for common fields ("how many", "what time").
    """
    if wanted.is_yes_no or not is_open(rest):
        return wanted
    found = asked_field(hit.item, rest)
    is_stated = any(field_value(hit.item, field) for field in wanted.fields)
    if found is None or (is_stated and ASKING.issuperset(found.words)):
        return wanted
    left = [word for word in content_words(rest) if word not in found.words]
    return Asked((found.name,), read=tuple(found.words)) if covered(left, hit.item, ASKING | IDLE) else wanted


def _by_flag(hit: Hit, question: str, rest: str, language: str) -> Asked:
    """The same, for a thing of which it is asked whether it has something that it states by yes or no."""
    if not (asks_whether_there(question) or asks_whether_there(rest)):
        return Asked()
    idle = glossary(language).words if language != "en" else frozenset[str]()
    words = [word for word in _said_of(rest) if word not in idle]
    return Asked(words=" ".join(words), is_yes_no=True) if flag(hit.item, words) else Asked()


def _said_of(predicate: str) -> tuple[str, ...]:
    words = content_words(predicate)
    return tuple(word for word in words if word not in IDLE) or tuple(words)


def _named(question: str, hits: tuple[Hit, ...]) -> tuple[Hit, names.Named] | None:
    matches = [(match, -place, hit) for place, hit in enumerate(hits) if (match := names.find(question, hit.item.name))]
    if not matches:
        return None
    match, _, hit = max(matches, key=lambda item: (item[0].worth, item[1]))
    alike = {other.item.name for found, _, other in matches if found.worth == match.worth}
    if not match.whole and len(alike) > 1:
        return None  # "moka pot", if there is one of 3 cups and one of 6
    return hit, match


async def _named_by_few(question: str, engine: Engine, where: tuple[Condition, ...]) -> tuple[Hit, names.Named] | None:
    """The same, by the few words that are not part of asking: in a large index, "take bookings" finds too much else."""
    left = [word for word in content_words(question) if word not in ASKING and word not in IDLE]
    if not 1 <= len(left) <= _FEW:
        return None
    found = _named(question, (await engine.search(SearchQuery(" ".join(left), where, 0, _LOOKED_AT))).hits)
    return found if found is not None and found[1].whole else None


async def names_one(question: str, engine: Engine, where: tuple[Condition, ...]) -> bool:
    """Whether a question has the full name of a thing here, in more than one word."""
    found = _named(question, (await engine.search(SearchQuery(question, where, 0, _LOOKED_AT))).hits)
    return found is not None and found[1].whole and found[1].words > 1


def _is_beside(before: str) -> bool:
    words = re.findall(r"[\w'’]+", before.casefold())
    words = words[:-1] if words and words[-1] in _ARTICLES else words
    return bool(words) and words[-1] in _BESIDE


def _suits(hit: Hit, match: names.Named, rest: str, known: Fields, now: datetime) -> bool:
    """Whether the thing is what was searched for: it meets the rest of the question, and its name is not just a common
    word."""
    read = from_text(rest, known, now)
    left = [word for word in content_words(read.text) if word not in ASKING]
    if match.words == 1 and match.typos:
        return not left and not read.conditions
    if not match.whole and left:
        return False
    if match.words == 1 and len(left) > 1:
        return False
    return meets(hit.item, read.conditions)


async def _described(
    english: str, language: str, engine: Engine, where: tuple[Condition, ...], known: Fields, now: datetime
) -> Subject | None:
    """ "What time does the library close?": the only thing whose name has all the identifying words."""
    wanted = asked(english, english, known, now)
    if wanted.fields[:1] == ("address",) and SEARCHES.search(english):
        return None  # "where do you sell records?"
    is_definite = DEFINITE.search(english) or language != "en" or not _OF_ONE.isdisjoint(wanted.fields)
    if not wanted:
        return None
    read = from_text(english, known, now)
    rows = zip(read.conditions, read.said, strict=True)
    said = {word for condition, words in rows if not isinstance(condition, OfType) for word in content_words(words)}
    left = [word for word in content_words(english) if word not in ASKING and word not in said]
    left = [word for word in left if word not in STOPWORDS and word not in content_words(_for_whom(english))]
    if not 1 <= len(left) <= 5 or asks_price_for(left, wanted):
        return None
    found = await _only_of_type(left, engine, where)
    if found is None:
        hits = (await engine.search(SearchQuery(" ".join(left), where, 0, _LOOKED_AT))).hits
        is_filter = searches(english) or (wanted.fields and read.conditions)
        one = None if is_filter else _only_named(left, hits, wanted)
        telling = [word for word in left if word not in _PREMISES] or left
        found = one or (_best_described(telling, hits, said) if is_definite else None)
    if found is None:
        return None
    hit, named = found
    for words in _shares_of_name(left, named):
        rest = without_words(english, words)
        wanted = msgspec.structs.replace(asked(english, rest, known, now), whole=english)
        if wanted and not (wanted.fields and any(not _tells(hit, word) for word in set(left) - words)):
            subject = await answered_subject(hit, wanted, rest, engine, known, language)
            is_stated = subject.statement and not is_unsaid(subject.statement)
            is_named = words.issuperset(left) and (len(words) > 1 or words.issuperset(tokens(hit.item.name)))
            return subject if is_stated or is_named else None  # another thing may say it
    return None


async def _described_by_field(
    english: str, language: str, engine: Engine, where: tuple[Condition, ...], known: Fields
) -> Subject | None:
    """ "How many seats does the minibus have?": the thing whose name has some of the words, and one of whose fields has
    the others."""
    if not (is_open(english) and (language != "en" or DEFINITE.search(english))) or _DENIED.search(english):
        return None
    words = [word for word in content_words(english) if word not in IDLE]
    if not 2 <= len(words) <= _FEW:
        return None
    hits = (await engine.search(SearchQuery(" ".join(words), where, 0, _LOOKED_AT))).hits
    best = best_named(words, hits)
    if len(best) != 1:
        return None
    hit, named = best[0]
    rest = without_words(english, named)
    wanted = _by_field(hit, Asked(), rest)
    return await answered_subject(hit, wanted, rest, engine, known, language) if wanted else None


def best_named(words: Sequence[str], hits: Sequence[Hit]) -> list[tuple[Hit, set[str]]]:
    """The hits whose name has the most of some words, each with those words; none if no name has any."""
    rows = [(hit, set(words).intersection(tokens(hit.item.name))) for hit in hits]
    longest = max((len(named) for _, named in rows), default=0)
    return [(hit, named) for hit, named in rows if longest and len(named) == longest]


def without_words(text: str, words: set[str]) -> str:
    """A text without each word that has one of these."""
    return " ".join(word for word in text.split() if words.isdisjoint(content_words(word)))


_DENIED: Final = re.compile(r"\b(?:not|without|no)\b|n['’]t\b", re.IGNORECASE)  # "trips that are not hard"


def asks_price_for(words: Sequence[str], wanted: Asked) -> bool:
    """Whether a price is asked for and words only say for whom: "for children" names no course for them."""
    is_paid = "price" in wanted.fields or any(isinstance(one, Range) for one in inner(wanted.conditions))
    return is_paid and all(word in WHOM or word.isdigit() or word in _YEARS for word in words)


def _for_whom(text: str) -> str:
    return " ".join(match.group() for match in FOR_WHOM.finditer(text))


async def _only_of_type(left: list[str], engine: Engine, where: tuple[Condition, ...]) -> tuple[Hit, set[str]] | None:
    """ "The museum", "the café": the one thing here of that type, where nothing else says which is meant."""
    types = {word: TYPE_WORDS[word] for word in left if word in TYPE_WORDS}
    if len(types) != 1 or len([word for word in left if word not in IDLE]) > 2:
        return None
    word, kind = next(iter(types.items()))
    for types_named in ((kind,), tuple(sorted(PARENTS.get(kind, ())))):
        hits = (await engine.search(SearchQuery("", (*where, OfType(types_named)), 0, 2))).hits
        if types_named != (kind,) and not all(_mentions(hit, word) for hit in hits):
            return None
        if len(hits) == 1 and any(is_a(one, "Place") for one in hits[0].item.types):
            others = {other for other in left if other != word and not names.covers(other, hits[0].item.name)}
            return (hits[0], {word}) if all(_mentions(hits[0], other) for other in others) else None
    return None


_YEARS: Final = frozenset({"year", "jahre", "jahr", "jahren", "ano", "an", "ans"})
# Words for a place that tell it from no other one: "the central branch" is the Central Library.
_PREMISES: Final = frozenset({"branch", "location", "building", "premises", "site"})


def _tells(hit: Hit, word: str) -> bool:
    """Whether a word that is not in an item's name may still refer to it: its type, or a word from its text."""
    return word in TYPE_WORDS or word in IDLE or _mentions(hit, word)


def _shares_of_name(left: list[str], named: set[str]) -> Iterator[set[str]]:
    """Words that identify the thing: its whole name first, then fewer, for a name that contains what is asked about:
    "does the vegetable biryani (with cashews) contain cashews?"."""
    yield named
    if len(named) == len(left):
        for count in range(len(left) - 1, 0, -1):
            yield set(left[:count])
            yield set(left[-count:])


# "Where can I get ramen?" looks for things, and does not ask where one is.
SEARCHES: Final = re.compile(
    r"\b(?:(?:can|could|should|do)\s+(?:i|we|you|one)|where\s+to)\s+(?:get|find|buy|eat|have(?!\s+to\b)|see|go|do|make|try|drink|stay|sleep|rent|hire|swim|learn)\b"
    r"|\bwhere\s+do\s+you\s+(?:sell|stock|keep|serve)\b",
    re.IGNORECASE,
)


_FOR_TIME: Final = re.compile(
    r"^\W*(?:and\s+|from\s+|until\s+)*(?:when|what\s+time|how\s+(?:long|soon|late|early))\b", re.IGNORECASE
)


def searches(english: str) -> bool:
    """Whether a question looks for things: "where can I get ramen?", but not "when can I have the flat?"."""
    return SEARCHES.search(english) is not None and not _FOR_TIME.match(english)


def _only_named(left: list[str], hits: Sequence[Hit], wanted: Asked) -> tuple[Hit, set[str]] | None:
    """The one hit whose name has every identifying word: "Port Lorne", if there is one branch there.

    Of several, the one that states what is asked is meant: "who teaches welding?" is not about the welder's job.
    """
    words = set(left)
    named = [hit for hit in hits if words.issubset(tokens(hit.item.name))]
    if len(named) > 1 and wanted.fields:
        named = [hit for hit in named if any(field_value(hit.item, field) for field in wanted.fields)]
    return (named[0], words) if len(named) == 1 else None


def _best_described(left: list[str], hits: Sequence[Hit], said: set[str]) -> tuple[Hit, set[str]] | None:
    """The one hit whose name has more of these words than any other's, with those words; None if there are several.

    Of several, one whose name has more of the words that rules have ``said`` is meant: "the twelve week skiff course".
    """
    rows = [(hit, {word for word in left if names.covers(word, hit.item.name)}) for hit in hits]
    longest = max((len(words) for _, words in rows), default=0)
    best = [(hit, words) for hit, words in rows if len(words) == longest]
    if len({hit.item.id for hit, _ in best}) > 1:
        counts = [sum(names.covers(word, hit.item.name) for word in said) for hit, _ in best]
        best = [row for row, count in zip(best, counts, strict=True) if count == max(counts)]
    if not longest or len({hit.item.id for hit, _ in best}) != 1:
        return None
    hit, words = best[0]
    if any(is_named_by(set(left) - words, other, hit) for other in hits):
        return None
    matching = sum(word in words or _tells(hit, word) for word in left)
    return best[0] if 2 * matching >= len(left) else None


def is_named_by(words: set[str], other: Hit, hit: Hit) -> bool:
    """Whether another thing of the same type is called by what is only elsewhere in this one: "ceramics with a wheel"
    may be "Pottery on the Wheel"."""
    is_alike = other.item.id != hit.item.id and not set(other.item.types).isdisjoint(hit.item.types)
    telling = [word for word in words if word not in ASKING and not starts_in(hit, word)]
    return is_alike and any(names.covers(word, other.item.name) for word in telling)


async def answered_subject(hit: Hit, wanted: Asked, rest: str, engine: Engine, known: Fields, language: str) -> Subject:
    """A thing, and the statement that answers what is asked of it, if it states that."""
    statement = ""
    if "Question" in hit.item.types:  # its answer is stated
        return Subject(msgspec.structs.replace(hit, score=100.0), Asked(), rest)
    if wanted.is_yes_no:
        if wanted.around:
            near = (await resolved(Parsed(around=wanted.around), engine)).conditions
            wanted = msgspec.structs.replace(wanted, conditions=(*wanted.conditions, *near), around=())
        wanted = await _by_fields(wanted, hit, engine, rest)
        said = flag(hit.item, _said_of(wanted.words))
        known_diets = not known.words.isdisjoint(DIET_FIELDS)
        statement = flagged(hit.item, *said, language) if said else decided(hit.item, wanted, known_diets, language)
        if variant := is_sold_out(hit.item, rest):
            statement = f"{yes_or_no(False, language)} {hit.item.name}: {variant} is not available."
        if on_feast(rest) and any(isinstance(one, Is) and one.field in _OPENING for one in inner(wanted.conditions)):
            statement = ""  # the hours of a week say nothing of Christmas
        if obliges(rest) and statement.startswith(yes_or_no(True, language)):
            statement = ""  # that it has something does not say that one must bring it
        if not decides(statement) and (found := otherwise(hit.item, rest)):
            statement = f"{yes_or_no(found[0], language)} {found[1]}"
    elif wanted.fields:
        statement = stated_fact(hit.item, wanted, language)
        if language == "en" and (better := _better_said(hit, rest, statement, wanted)):
            return Subject(msgspec.structs.replace(hit, score=100.0), wanted, rest, better)
        is_covered = await _accounts(hit, rest, {*wanted.read, *tokens(statement)}, engine, language)
        statement = statement if is_covered else ""
        if not statement and is_yes_no(rest) and (found := otherwise(hit.item, rest)):  # "do children pay?"
            statement = f"{yes_or_no(found[0], language)} {found[1]}"
    return Subject(msgspec.structs.replace(hit, score=100.0), wanted, rest, statement)


def _better_said(hit: Hit, rest: str, statement: str, wanted: Asked) -> str:
    """Another statement of a thing that has a word of the question that the one about a common field has not: "how much
    is delivery of the piano?" is not answered by what the piano costs; empty if there is none."""
    stated = {*wanted.read, *tokens(statement), *tokens(hit.item.name)}
    words = [word for word in telling(rest) if word not in ASKING and word not in IDLE and not has(stated, word)]
    words = [word for word in words if word not in WEAK] or words
    if not words or not statement:
        return ""
    found = [row for row in readings(hit.item, words, kind_asked(rest)) if len(row.own) == len(words)]
    best = max(found, key=lambda row: bool(row.statement.field), default=None)
    return f"{hit.item.name}: {best.statement.text.rstrip('.')}." if best is not None else ""


async def _accounts(hit: Hit, rest: str, stated: set[str], engine: Engine, language: str) -> bool:
    """Whether every meaningful word of a question is part of asking, of the thing, or of what is stated of it.

    A word that nothing here has ("exactly", "for my GPS") tells no other thing from this one.
    """
    if language != "en":
        return True
    words = [word for word in content_words(FOR_WHOM.sub("", rest)) if word not in ASKING and word not in IDLE]
    left = [word for word in words if not covered((word,), hit.item, stated) and not starts_in(hit, word)]
    return not any([await engine.count((Has((word,)),)) for word in left[:_FEW]])


async def _by_fields(wanted: Asked, hit: Hit, engine: Engine, rest: str) -> Asked:
    """The same, with words that no rule reads as conditions on the fields in which this site states such things.

    "Is it full time?" is about the field in which another item says full time: so "no" differs from "not stated".
    """
    of = recalled(hit.item)
    unread, conditions = list(wanted.unread), list(wanted.conditions)
    only_has = conditions and not _denies(hit, conditions) and all(isinstance(item, Has) for item in inner(conditions))
    is_met = all(holds(condition, of) for condition in conditions)
    if is_met and any(denies(hit.item, word) for word in content_words(wanted.words)):
        is_met = False
    if only_has and not hit.item.fields.get(_CONTENTS) and not is_met:
        unread, conditions = content_words(wanted.words), []
        unread = [word for word in unread if word not in IDLE]
    left = []
    unasked = _UNASKED | _MAKERS if _HAS.search(wanted.words) else _UNASKED
    for word in unread:
        if denies(hit.item, word):
            left.append(word)
            continue
        alternatives = (word, *likenesses().get(word, ()))
        stated = [Is(field, alternatives) for field in of.words if field not in unasked]
        stating = [item for item in stated if await engine.count((item,))]
        if any(holds(item, of) for item in stating):
            conditions.append(AnyOf(tuple(item for item in stating if holds(item, of))))
        elif stating and not _mentions(hit, word) and not _MAY.match(rest):
            conditions.append(AnyOf(tuple(stating)))
        else:
            left.append(word)
    return msgspec.structs.replace(wanted, conditions=tuple(conditions), unread=tuple(left))


def _denies(hit: Hit, conditions: Sequence[Condition]) -> bool:
    """Whether an item says that it is free of something: "gluten free", "contains no nuts"."""
    things = [word for item in inner(conditions) if isinstance(item, Has) for word in item.words[:1]]
    text = " ".join((hit.item.description, hit.item.text, *strings(hit.item.fields.get("keywords"))))
    return bool(things) and all(
        re.search(
            rf"\b{re.escape(thing)}s?[ -]free\b|\b(?:no|without|free\s+(?:of|from))\s+{re.escape(thing)}", text, re.I
        )
        for thing in things
    )


# "Can children come?" is not denied by a list of features without children.
_MAY: Final = re.compile(
    r"\W*(?:can|may|could|might|are\s+(?:\w+\s+){1,2}(?:allowed|permitted|welcome)|is\s+it\s+(?:ok|okay|possible|allowed))\b"
    r"(?!.*\b(?:have|get|buy|order|find|hire|rent|borrow)\b)",
    re.IGNORECASE,
)


def _mentions(hit: Hit, word: str) -> bool:
    return word in content_words(f"{hit.item.name} {hit.item.description} {hit.item.text}")


_CONTENTS: Final = "recipeIngredient"
# What a thing has is not said by who made it.
_HAS: Final = re.compile(r"\b(?:contain|include|have|has|with)\b", re.IGNORECASE)
_MAKERS: Final = frozenset({"brand", "manufacturer", "seller", "provider", "publisher"})
# Fields whose words say nothing about what a thing is like.
_UNASKED: Final = frozenset({"name", "alternatename", "telephone", "isbn", "sku", "openon", "openat", "pricecurrency"})
