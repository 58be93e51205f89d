"""The fact of a thing that a question describes without its name: "the phone number of the vet".

Something is stated only of a thing that has every meaningful word of the question, in its name, its text, its fields or
its types. That is what tells it from others; without it, the best matches are shown and nothing is claimed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Final

import msgspec

from sabir.search import Condition, Engine, Fields, Hit, OfType, SearchQuery
from sabir.search.answers.fields import covered, feature_flags, flag, labels
from sabir.search.answers.offers import offer_named_in
from sabir.search.answers.reading import WHERE, has, kind_asked, naming, telling
from sabir.search.answers.speaking_of import is_called, is_plainly_called, lists_things, looks_for_things
from sabir.search.answers.statements import field_value, is_unsaid, stated_fact, yes
from sabir.search.items.attributes import recalled
from sabir.search.items.types import is_a
from sabir.search.query.asking import (
    Asked,
    asked,
    asks_for_places,
    asks_whether_there,
    begins_open,
    is_yes_no,
    plainly_asked,
)
from sabir.search.query.conditions import During, Is, meets
from sabir.search.query.field_names import all_named
from sabir.search.query.glossary import glossary, likenesses
from sabir.search.query.predicates import IDLE
from sabir.search.query.relaxing import asks_elsewhere, inner, without_day
from sabir.search.query.text import from_text
from sabir.search.query.words import content_words, tokens

from .hits import starts_in
from .quoting import own_question, quoted
from .reader import leads, read_answer, read_denial
from .subject import (
    ASKING,
    DEFINITE,
    MAX_LENGTH,
    Subject,
    answered_subject,
    asks_price_for,
    best_named,
    is_named_by,
    searches,
    with_others,
    without_words,
)
from .variants import asks_for_variant, stated_variant

_LOOKED_AT: Final = 8  # hits that may be meant
_CLEARLY: Final = 1.25  # times the score of the next
_FEW: Final = 8  # words that describe a thing


class SiteQuestion(msgspec.Struct, frozen=True):
    """A question of a site in English, and what was found for it.

    ``subject`` is the thing that it names, ``pool`` what the search found, ``language`` that of the statement.
    ``is_there``: it asks whether there is such a thing.
    """

    english: str
    language: str
    engine: Engine
    where: tuple[Condition, ...]
    known: Fields
    now: datetime
    pool: Sequence[Hit] = ()
    subject: Subject | None = None
    is_there: bool = False
    asked: str = ""  # as the visitor asked it, if that is in another language

    async def search(self, words: Iterable[str]) -> tuple[Hit, ...]:
        """The few best hits for some words."""
        return (await self.engine.search(SearchQuery(" ".join(words), self.where, 0, _LOOKED_AT))).hits

    async def answered(self, hit: Hit, wanted: Asked, rest: str) -> Subject:
        return await answered_subject(hit, wanted, rest, self.engine, self.known, self.language)


def is_brief(words: Sequence[str]) -> bool:
    """Whether one sentence may answer a question of these words; prose is ranked best by the index alone."""
    return len([word for word in words if word not in _MODALS]) <= _STATED_WORDS


_STATED_WORDS: Final = 8
_MODALS: Final = frozenset({"may", "might", "must", "shall"})


async def stated_subject(question: SiteQuestion) -> Subject | None:
    """The thing that answers a question, with its statement, where what was named states nothing; None if nothing
    does."""
    english, subject = question.english, question.subject
    if lists_things(english) or (looks_for_things(english) and not question.is_there):
        return None
    named_hit = subject.hit if subject is not None else None
    if denied := await read_denial(english, named_hit, question.pool, question.engine, question.where):
        return denied
    if asks_for_variant(english) and (varied := await _of_variant(question, named_hit)):
        return varied
    is_open = not question.is_there or asks_for_places(english)
    if subject is None and is_open and (found := await _described(question)) is not None:
        return found
    if asks_elsewhere(english):
        return None
    if question.is_there:
        flagged = await _has_feature(question) if subject is None else None
        return flagged or await _there(question)
    if subject is None and (offered := await _by_offer(question)):
        return offered
    named = subject.hit.item.name if subject is not None else ""
    if found := await quoted(english, question.engine, question.where, named, question.known, question.now):
        return found
    if subject is None and (asked_here := await _own_question(question)) is not None:
        return asked_here
    return await _read(question)


async def _of_variant(question: SiteQuestion, named: Hit | None) -> Subject | None:
    for pool in (question.pool, await question.search(content_words(question.english))):
        if varied := stated_variant(question.english, named, pool, question.language):
            return varied
    return None


async def _own_question(question: SiteQuestion) -> Subject | None:
    best = question.pool[0].score if question.pool else 0.0
    return await own_question(question.english, question.engine, question.where, question.language, best)


async def _there(question: SiteQuestion) -> Subject | None:
    """What says that such a thing is there; the thing that is called so, rather than one that only speaks of it: "is
    there a pharmacy?"."""
    found, words = await _read(question), content_words(question.english)
    if found is None or question.subject is not None or is_called(words, found.hit.item):
        return found
    called = next((hit for hit in question.pool[:_LOOKED_AT] if is_plainly_called(words, hit.item)), None)
    if called is None or not found.statement.startswith(yes(question.language)):
        return found
    return Subject(called, Asked(), question.english, f"{yes(question.language)} {called.item.name}.")


async def _read(question: SiteQuestion) -> Subject | None:
    """What any statement says; not if the question looks for things by conditions: "which branches open on Sunday?"."""
    english, subject = question.english, question.subject
    read = from_text(english, question.known, question.now) if len(english) <= MAX_LENGTH else None
    if read is None or (searches(english) and not is_yes_no(english)):
        return None
    narrowing = [condition for condition in read.conditions if not isinstance(condition, OfType)]
    is_open_to_any = kind_asked(english) in (None, WHERE) and not is_yes_no(english)
    is_listing = bool(narrowing or read.order) and (question.is_there or is_open_to_any)
    if is_listing and subject is None:
        return None
    if subject is None and not narrowing and (found := await _of_leader(question)) is not None:
        return found
    named = subject.hit if subject else None
    where, language = question.where, question.language
    return await read_answer(english, named, question.pool, question.engine, where, language, question.asked)


async def _of_leader(question: SiteQuestion) -> Subject | None:
    """The fact that is asked for, of the thing that is clearly the best match, if it has most words of the question."""
    english, pool = question.english, question.pool
    wanted = asked(english, english, question.known, question.now)
    is_asked = wanted.fields and not wanted.is_yes_no and (begins_open(english) or DEFINITE.search(english))
    if not is_asked or not leads(pool):
        return None
    item = pool[0].item
    words = telling(english)
    left = [word for word in words if word not in ASKING and not has_every((word,), pool[0])]
    # A word that was not translated may tell this thing from another one.
    is_meant = not left if question.language != "en" else 2 * len(left) < len(words)
    if is_meant and left and _names_another(left, await question.search(left), pool[0]):
        return None
    is_meant = is_meant and not _may_mean_another(words, pool[0], pool[:_LOOKED_AT])
    statement = stated_fact(item, wanted, question.language) if is_meant else ""
    return (
        Subject(pool[0], wanted, english, statement)
        if statement and _is_of(pool[0], words, statement, wanted)
        else None
    )


async def _by_offer(question: SiteQuestion) -> Subject | None:
    """ "A replacement card, price?": the one thing with an offer whose name is in the question, word for word."""
    english = question.english
    wanted = asked(english, english, question.known, question.now) if len(english) <= MAX_LENGTH else Asked()
    words = [word for word in content_words(english) if word not in ASKING and word not in IDLE]
    if "price" not in wanted.fields or not 2 <= len(words) <= _FEW:
        return None
    hits = await question.search(words)
    found = [(hit, offer) for hit in hits if (offer := offer_named_in(hit.item, words)) is not None]
    if len(found) != 1:
        return None
    hit, (name, _, written) = found[0]
    return Subject(hit, Asked(("price",), about=english), english, f"{hit.item.name}: {name} {written}.")


async def _has_feature(question: SiteQuestion) -> Subject | None:
    """ "Is there free parking at Eastside?": the one thing of that name, if it says yes or no to the rest by a
    feature, or the rest is plainly so of it."""
    words = [word for word in content_words(question.english) if word not in IDLE]
    if not 2 <= len(words) <= _FEW:
        return None
    best = best_named(words, await question.search(words))
    said = [(hit, left) for hit, named in best if (left := [word for word in words if word not in named])]
    flags = [(hit, left) for hit, left in said if flag(hit.item, left) is not None]
    if len(flags) == 1:
        hit, left = flags[0]
        wanted = Asked(words=" ".join(left), is_yes_no=True)
        return await question.answered(hit, wanted, " ".join(left))
    if len(best) != 1:
        return None
    hit, named = best[0]
    rest = without_words(question.english, named)
    wanted = asked(rest, rest, question.known, question.now, is_named=True)
    if not wanted.conditions or not all(
        isinstance(one, Is) and one.field in _VARIES for one in inner(wanted.conditions)
    ):
        return None
    found = await question.answered(hit, wanted, rest)
    return found if found.statement.startswith(yes(question.language)) else None


_VARIES: Final = frozenset({"color", "size", "material"})  # fields by which the variants of one thing differ


async def _described(question: SiteQuestion) -> Subject | None:
    """The thing that has every word of a question, and what it states; None if nothing does."""
    known, now, language = question.known, question.now, question.language
    english = plainly_asked(question.english)
    wanted = asked(english, english, known, now) if len(english) <= MAX_LENGTH else None
    if not wanted or not _is_asked(english, wanted):
        return None
    read = from_text(english, known, now)
    if "openinghours" in wanted.fields[:1]:
        read = without_day(msgspec.structs.replace(read, about=wanted.fields))
    if wanted.fields and not all(isinstance(condition, OfType) for condition in read.conditions):
        return None  # "snacks under 150 calories" are looked for
    said = {word for words in read.said for word in tokens(words)}
    idle = glossary(language).words if language != "en" else frozenset[str]()
    words = [word for word in content_words(english) if not {word}.issubset(ASKING | IDLE | said | idle)]
    if not 1 <= len(words) <= _FEW or asks_price_for(words, wanted):
        return None
    hits = await question.search(words)
    telling = [word for word in content_words(english) if word not in said]
    fitting = [hit for hit in hits if has_every(words, hit)]
    is_for_places = asks_for_places(english)  # "places left" are no places
    types: list[Condition] = [one for one in read.conditions if isinstance(one, OfType) and not is_for_places]
    if any(not isinstance(condition, During) for condition in inner(wanted.conditions)):
        # "is the class in January full?"
        types += [condition for condition in read.conditions if isinstance(condition, During)]
    of_type = [hit for hit in fitting if meets(hit.item, types)]
    stating = [hit for hit in of_type if any(field_value(hit.item, field) for field in wanted.fields)]
    hit = _only_one(stating or of_type, telling)
    if hit is None or _may_mean_another(words, hit, hits):
        return None
    found = with_others(await question.answered(hit, wanted, english), english, known, now, language)
    is_of_it = wanted.is_yes_no or _is_of(hit, words, found.statement, wanted)
    return found if found.statement and is_of_it and not is_unsaid(found.statement) else None


def _is_of(hit: Hit, words: Collection[str], statement: str, wanted: Asked) -> bool:
    """Whether a fact is one of what was asked about: the thing is called so, or the statement speaks of it. What a room
    costs is no answer to "how much is breakfast?", although breakfast is included."""
    if wanted.fields[:1] in _OF_PLACES and any(is_a(one, "Event") for one in hit.item.types):
        return any(has(tokens(hit.item.name), word) for word in words)  # a talk in the lighthouse is not the lighthouse
    own = {*naming(hit.item), *tokens(statement)}
    things = [word for word in words if word not in _ACTS] or words
    # "Wheelchair accessible" is no wheelchair.
    features = {word for name, _ in feature_flags(hit.item) if len(tokens(name)) > 1 for word in tokens(name)}
    named = [word for word in things if word not in features]
    where = {word for label in recalled(hit.item).labels.get("location", ()) for word in tokens(label)}
    if any(is_a(one, "Event") for one in hit.item.types):
        named = [word for word in named if not has(where, word)]  # an evening on the ferry is not the ferry
    return _words_in_labels(named, hit) > 0 or any(has(own, word) for word in things)


# Words for what is done with a thing, which tell no thing.
_ACTS: Final = frozenset("hire rent buy book borrow visit stay order use get have attend join enter".split())  # noqa: SIM905


_OF_PLACES: Final = (("address",), ("openinghours",), ("telephone",), ("email",))


def _may_mean_another(words: Collection[str], hit: Hit, hits: Sequence[Hit]) -> bool:
    """Whether a word that a thing is not called by is in the name of another one of its type."""
    left = {word for word in words if not _words_in_labels((word,), hit)}
    return any(is_named_by(left, other, hit) for other in hits)


def _names_another(words: Collection[str], others: Iterable[Hit], hit: Hit) -> bool:
    """Whether something else is called by one of some words: how long one may return a kettle is up to "Returns"."""
    names = [tokens(other.item.name) for other in others if other.item.id != hit.item.id]
    return any(has(name, word) for name in names for word in words)


def _only_one(hits: list[Hit], words: Collection[str]) -> Hit | None:
    """The one that is meant: the clearly best, by the words in its name and its short values, then by its score."""
    ranked = sorted(hits, key=lambda hit: (-_words_in_labels(words, hit), -hit.score))
    if len(ranked) > 1 and _words_in_labels(words, ranked[0]) == _words_in_labels(words, ranked[1]):
        return ranked[0] if ranked[0].score >= _CLEARLY * ranked[1].score else None
    return ranked[0] if ranked else None


def _is_asked(english: str, wanted: Asked) -> bool:
    """Whether a question asks something of one thing; "coffee that is not decaf" looks for things."""
    is_search = searches(english) or (asks_whether_there(english) and not asks_for_places(english))
    if is_search or asks_elsewhere(english):
        return False
    if wanted.is_yes_no:
        return is_yes_no(english) and bool(wanted.conditions)
    if wanted.fields[:1] == ("address",) and not begins_open(english) and "where" in tokens(english):
        return False  # "a pub where dogs are welcome"
    return begins_open(english) or DEFINITE.search(english) is not None


def _words_in_labels(words: Collection[str], hit: Hit) -> int:
    """How many of some words are in the name of a thing, or in one of its short values."""
    there = {word for label in (hit.item.name, *labels(hit.item)) for word in tokens(label)}
    return sum(not there.isdisjoint((word, *likenesses().get(word, ()))) for word in words)


def has_every(words: Collection[str], hit: Hit) -> bool:
    """Whether a thing has each of some words, or another word for it."""
    there = labels(hit.item)
    return all(
        any(covered((form,), hit.item, ()) for form in (word, *likenesses().get(word, ())))
        or any(all_named((word,), label) for label in there)
        or starts_in(hit, word)
        for word in words
    )
