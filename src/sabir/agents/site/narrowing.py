"""What the things here say about the words of a question: whether a word is a part, and which types a category has."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Final

import msgspec

from sabir.search import Condition, Engine, Not, OfType, Parsed, SearchQuery
from sabir.search.answers.coverage import Word, forms_of, found_in, texts_of
from sabir.search.answers.speaking_of import asks_the_same, looks_for_things
from sabir.search.items.attributes import KIND, recalled
from sabir.search.items.types import TYPE_WORDS, is_a
from sabir.search.query.categories import LINKING_WORDS, CategoryCandidate
from sabir.search.query.conditions import AnyOf, During, Has, Is, Range
from sabir.search.query.glossary import likenesses
from sabir.search.query.predicates import IDLE
from sabir.search.query.relaxing import inner
from sabir.search.query.structured import PART_FIELDS, kinds
from sabir.search.query.words import content_words, tokens

from .wording import coming_next

UNASKED: Final = Not(OfType(("Question",)))  # "electric cars" is no category because a site is asked about them
_COMING: Final = 200  # items searched for what comes next
_PAGE: Final = 50  # things by which the types of a category are judged
_CATEGORIES: Final = ("category", "recipecategory", "genre")
_KINDS: Final = (*_CATEGORIES, "recipecuisine", "servescuisine")
# Words that say no more than that things are wanted: "things to borrow that aren't tools".
_THINGS: Final = frozenset(
    "thing item stuff product article borrow buy rent hire get sell stock lend shop everything kind sort else".split()  # noqa: SIM905
)


async def next_events(
    engine: Engine,
    asked_for: Parsed,
    where: tuple[Condition, ...],
    own: tuple[Condition, ...],
    now: datetime,
    least: float,
) -> str:
    """The next events that meet ``where``; if no concert is free, the next concerts. ``least``: the score of those
    that a text is searched for."""
    after = During("startdate", now.timestamp())
    text = asked_for.text
    found = await engine.search(SearchQuery(text, (*where, after), 0, _COMING, least if text else 0.0))
    if not (hint := coming_next(found.hits)) and (types := _narrowed_events(asked_for.conditions)):
        hint = coming_next((await engine.search(SearchQuery("", (*own, *types, after), 0, _COMING))).hits)
    return hint


def _narrowed_events(conditions: Sequence[Condition]) -> list[Condition]:
    """The types of events among some conditions, if others narrow them; empty otherwise."""
    types = [one for one in conditions if isinstance(one, OfType)]
    are_events = all(is_a(name, "Event") for one in types for name in one.types)
    return [*types] if are_events and len(types) < len(conditions) else []


async def part_apart(
    engine: Engine, spoken: Parsed, head: Sequence[str], where: tuple[Condition, ...], condition: Condition
) -> str:
    """The preceding word that names an ingredient ("pumpkin soup"), if nothing of that category has it and other things
    here do; empty otherwise. Those are closer to what is meant than another soup.
    """
    said = {word for words in spoken.said for word in tokens(words)}
    there = tokens(spoken.text)
    at = there.index(head[0]) if head[0] in there else 0
    word = there[at - 1] if at else ""
    if word in said or word in TYPE_WORDS or word in LINKING_WORDS or not content_words(word):
        return ""
    has = Has((word,))
    stated = AnyOf(tuple(Is(field, (word,)) for field in PART_FIELDS))
    if await engine.count((*where, condition, has)) or not await engine.count((*where, has, stated)):
        return ""
    return word


_SERVICES: Final = frozenset({"rent", "hire", "borrow", "lend", "lease", "repair", "mend", "fix"})


async def is_served_elsewhere(
    engine: Engine, text: str, candidate: CategoryCandidate, where: tuple[Condition, ...]
) -> bool:
    """ "Where can I rent a bicycle?": whether nothing of the category is for rent, and something else here is that
    speaks of bicycles."""
    forms = ((word, word.removesuffix("ed"), word.removesuffix("d")) for word in tokens(text))
    verb = next((form for row in forms for form in row if form in _SERVICES), "")
    if not verb:
        return False
    served = (*where, Has(kinds(verb)))
    if any([await engine.count((*served, condition)) for condition in candidate.conditions]):
        return False
    return await engine.count((*served, Has(kinds(candidate.words)))) > 0


async def is_meant_otherwise(
    engine: Engine, text: str, candidate: CategoryCandidate, where: tuple[Condition, ...]
) -> bool:
    """Whether words that may be a category here mean something else."""
    return (
        await is_served_elsewhere(engine, text, candidate, where)
        or await _is_rather_tag(engine, candidate, where)
        or await _is_rather_name(engine, text, candidate, where)
    )


async def _is_rather_name(
    engine: Engine, text: str, candidate: CategoryCandidate, where: tuple[Condition, ...]
) -> bool:
    """Whether something is called by a word of a short question, and the candidate is another thing that states it in a
    field of its own: who only teaches "Früherziehung" is not that course."""
    stated = {one.field for one in inner(candidate.conditions) if isinstance(one, Is)}
    if (
        len(content_words(text)) > _SHORT
        or " " in candidate.words
        or "name" in stated
        or stated.issubset((*_KINDS, KIND))
    ):
        return False
    called = Is("name", (candidate.words,))
    return await engine.count((*where, called, Not(AnyOf(candidate.conditions)), UNASKED)) > 0


async def _is_rather_tag(engine: Engine, candidate: CategoryCandidate, where: tuple[Condition, ...]) -> bool:
    """ "Gifts": whether the only category with the word is about another thing ("Gift Card"), and more things here have
    the word itself as their tag."""
    stated = [one for one in inner(candidate.conditions) if isinstance(one, Is)]
    if " " in candidate.words or not stated or any(one.field not in _KINDS for one in stated):
        return False
    named = (await engine.search(SearchQuery("", (*where, AnyOf(candidate.conditions)), 0, _PAGE))).hits
    tag = Is("keywords", (candidate.words,))
    if not named or await engine.count((*where, tag)) <= len(named):
        return False
    labels = [
        words
        for hit in named
        for field, values in recalled(hit.item).labels.items()
        if field.casefold() in _KINDS
        for value in values
        for part in _PARTS.split(value)
        if candidate.words in (words := tokens(part))
    ]
    return bool(labels) and all(words[-1] != candidate.words for words in labels)


_SHORT: Final = 2  # words of a question
_PARTS: Final = re.compile(r"\s*(?:[&,/>|]|\band\b|\bor\b)\s*", re.IGNORECASE)


async def types_of(engine: Engine, where: tuple[Condition, ...]) -> OfType:
    """The types of the things that meet these conditions, judged by one page of them."""
    hits = (await engine.search(SearchQuery("", where, 0, _PAGE))).hits
    return OfType(tuple(dict.fromkeys(kind for hit in hits for kind in hit.item.types)))


async def by_own_kinds(engine: Engine, spoken: Parsed, own: tuple[Condition, ...]) -> Parsed:
    """The same, with a word that only stands for a type ("cottages" for places to stay) by what the site itself calls
    so, if it calls anything so; what somebody works as stands for these people, too."""
    conditions = list(spoken.conditions)
    for at, (condition, words) in enumerate(zip(spoken.conditions, spoken.said, strict=True)):
        said = tokens(words)
        if not isinstance(condition, OfType) or len(said) != 1 or len(condition.types) != 1:
            continue
        works_as = Is("jobtitle", (said[0], *likenesses().get(said[0], ())))
        if await engine.count((*own, works_as)):  # "a vet who speaks German" is a person
            conditions[at] = AnyOf((condition, works_as))
            continue
        if said[0] == condition.types[0].casefold():
            continue  # it is the type's own name
        called = Is(KIND, (said[0],))
        if await engine.count((*own, called, condition)):
            conditions[at] = called
    return msgspec.structs.replace(spoken, conditions=tuple(conditions))


async def among_others(engine: Engine, spoken: Parsed, own: tuple[Condition, ...]) -> Parsed:
    """ "Things that aren't tools": the things of the same types as tools, if that is a category here and nothing else
    says which things are wanted. "Presents under $20": what is sold, if nothing here is called a present. "Which
    electric cars do you have?": things, and none of the site's own questions."""
    if looks_for_things(spoken.text):
        return await _things(engine, spoken, own)
    if _GIFTS.issuperset(content_words(spoken.text)) and content_words(spoken.text) and spoken.conditions:
        return await _sold(engine, spoken, own)
    refused = [condition for condition in spoken.conditions if isinstance(condition, Not)]
    if refused and not _ASKS.search(spoken.text) and len(content_words(spoken.text)) <= _FEW:
        where = (*own, *spoken.conditions, UNASKED)
        if (await engine.search(SearchQuery(spoken.text, where, 0, 1, _PLAIN))).hits:
            return spoken.narrowed(UNASKED, "")  # "a room, but not the large one": no question of the site's own
    words = content_words(spoken.text)
    if len(refused) != 1 or len(spoken.conditions) != 1 or not _THINGS.issuperset(words) or not words:
        return spoken
    named = [one for one in inner(refused) if isinstance(one, Is) and one.field in _CATEGORIES]
    for condition in named:
        if await engine.count((*own, condition)):
            types = await types_of(engine, (*own, condition))
            return msgspec.structs.replace(spoken.narrowed(types, ""), text="")
    return spoken


async def by_period(engine: Engine, spoken: Parsed, own: tuple[Condition, ...]) -> Parsed:
    """ "Under 15 euros a month": what states a price by the month, if anything here does."""
    match = _PERIOD.search(spoken.text) if len(content_words(spoken.text)) <= _FEW else None
    if match is None or not any(isinstance(one, Range) and one.field == "price" for one in spoken.conditions):
        return spoken
    words = next(names for names in _PERIODS if match["period"].casefold() in names)
    stated = Has(words)
    where = (*own, *spoken.conditions, OfType(("Product", "Service", "Offer", "LodgingBusiness", "Accommodation")))
    if not await engine.count((*where, stated)):
        return spoken
    text = f"{spoken.text[: match.start()]} {spoken.text[match.end() :]}".strip()
    return msgspec.structs.replace(spoken.narrowed(stated, match.group()).narrowed(where[-1], ""), text=text)


def is_period(condition: Condition) -> bool:
    """Whether a condition is that a price is by the month, or by another time."""
    return isinstance(condition, Has) and condition.words in _PERIODS


_PERIODS: Final = (
    ("month", "monat", "mes", "mois", "monthly", "monatlich", "mensual", "mensuel", "ヶ月", "か月"),
    ("week", "woche", "semana", "semaine", "weekly", "wöchentlich", "semanal", "週間"),
    ("night", "nacht", "noche", "nuit", "nightly", "泊"),
    ("year", "jahr", "año", "année", "yearly", "jährlich", "anual", "annuel"),
)
_PERIOD: Final = re.compile(
    rf"\b(?:in|im|a|per|pro|al|por|par|each)\s+(?P<period>{'|'.join(word for names in _PERIODS for word in names)})\b",
    re.IGNORECASE,
)
_ASKS: Final = re.compile(
    r"\?|\b(?:is|are|do|does|can|may|must|should|will|what|when|where|who|why|how|which)\b", re.IGNORECASE
)
_PLAIN: Final = 40.0  # score of something that is plainly about the question
_GIFTS: Final = frozenset({"gift", "present", "souvenir"})


async def _sold(engine: Engine, spoken: Parsed, own: tuple[Condition, ...]) -> Parsed:
    sold = (*own, *spoken.conditions, OfType(("Product",)))
    named = AnyOf(tuple(Has((word,)) for word in sorted(_GIFTS)))
    if await engine.count((*sold, named)) or not await engine.count(sold):
        return spoken
    return msgspec.structs.replace(spoken.narrowed(OfType(("Product",)), ""), text="")


async def _things(engine: Engine, spoken: Parsed, own: tuple[Condition, ...]) -> Parsed:
    """The same without the site's own questions, if none of them asks that and a thing has every word."""
    own_questions = OfType(("Question",))
    where = (*own, *spoken.conditions)
    asked = (await engine.search(SearchQuery(spoken.text, (*where, own_questions), 0, _FEW))).hits
    if not asked or any(asks_the_same(spoken.text, hit.item) for hit in asked):
        return spoken
    said = [word for word in content_words(spoken.text) if word not in IDLE]
    words = [Word(word, forms_of(word, "en"), 1.0) for word in said]
    found = (await engine.search(SearchQuery(spoken.text, (*where, Not(own_questions)), 0, _FEW))).hits
    has_all = any(all(found_in(word, texts_of(hit.item)) for word in words) for hit in found)
    return spoken.narrowed(Not(own_questions), "") if words and has_all else spoken


_FEW: Final = 5  # things and questions that are looked at
