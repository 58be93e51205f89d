"""Whether an item supports a sentence that a model wrote: its figures, its days, what it denies, and its words.

The fields of an item are stated in many ways: "Tue–Fri 09:00–17:30" as "on Tuesday it opens at 9 am", a price as "it
costs". So each field allows the words by which it is stated; what the words claim is checked by the figures and days.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import date
from functools import cache, lru_cache
from typing import Final

import msgspec

from sabir.search import Hit, Item, Quote
from sabir.search.answers.polarity import clauses
from sabir.search.query.dates import MONTHS, WEEKDAYS
from sabir.search.query.field_names import is_kin
from sabir.search.query.glossary import detected_language, glossed, without_idle
from sabir.search.query.hours import open_days, stated
from sabir.search.query.stated import in_english
from sabir.search.query.units import CURRENCIES, UNITS
from sabir.search.query.words import STOPWORDS, content_words, segmented, sentences, spaced, tokens

from .described import fields_of
from .figures import Figures, figures, of_fields, unsupported
from .money_and_dates import is_dated_alike, spends_alike

_BORNE: Final = 0.7  # share of a sentence's words that its source must contain
_READ: Final = 10_000  # characters of a text
_LOOKED_AT: Final = 400  # characters of a text by which its language is known
_WORD: Final = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_PARTICLE: Final = re.compile(r"[\u3040-\u309f]")  # of Japanese
# The words by which a field is stated.
_WORDS: Final[Mapping[str, str]] = {
    "openingHours": " ".join(
        ("every except open opening close closing hour daily day week weekend time noon midnight", *WEEKDAYS)
    ),
    "offers": "cost price priced charge fee ticket euro dollar pound available availability stock",
    "priceRange": "cost price priced",
    "startDate": "take place begin start end last run finish happen held day date time hour minute",
    "telephone": "phone telephone number call ring reach contact",
    "email": "email mail address write contact reach",
    "address": "address located location street find town city",
    "location": "take place venue located location held",
    "servesCuisine": "serve cuisine food dish kitchen",
    "acceptsReservations": "accept take reservation booking book reserve table",
    "recipeYield": "serve serving portion person yield make",
    "totalTime": "take time minute hour need ready total cook cooking prepare preparation long",
    "prepTime": "take time minute hour prepare preparation",
    "cookTime": "take time minute hour cook cooking",
    "duration": "take last time minute hour long run duration",
    "suitableForDiet": "suitable diet suit friendly",
    "recipeIngredient": "need ingredient contain use include made",
    "nutrition": "contain serving per kcal",
    "aggregateRating": "rating rated star review average score",
    "brand": "brand made maker",
    "author": "author written writer wrote",
    "color": "color colour come",
    "material": "material made",
    "weight": "weigh weight",
    "datePublished": "published date",
    "numberOfPages": "page long",
}  # fmt: skip
_SAME: Final = {"openingHoursSpecification": "openingHours", "eventSchedule": "startDate", "endDate": "startDate",
                "price": "offers", "performTime": "totalTime"}  # fmt: skip
_DAY_NAMES: Final = {form: day for day in WEEKDAYS for form in (day, day[:3], f"{day}s", "tues", "thurs")
                     if form.startswith(day[:3])}  # fmt: skip
_DAYS: Final = re.compile(
    rf"\b(?P<first>{'|'.join(sorted(_DAY_NAMES, key=len, reverse=True))})\b\.?"
    rf"(?:\s*(?:-|–|to|through|until)\s*(?P<last>{'|'.join(sorted(_DAY_NAMES, key=len, reverse=True))})\b)?",
    re.IGNORECASE,
)
_WEEK: Final = re.compile(r"\bweek[- ]?(end|day)s?\b", re.IGNORECASE)
_WORDS_TOO: Final = ("sun", "sat", "wed")  # "the sun terrace is closed"
_ON: Final = re.compile(r"\b(?:on|every|each|and|or)\s+$", re.IGNORECASE)
_OF_HOURS: Final = re.compile(r"\b(?:open|opens|opened|close|closes|closed|closing|opening|shut)\b", re.IGNORECASE)
_CLOSED: Final = re.compile(
    r"\b(?:closed(?!\s+(?:at|by)\s+(?!(?:the\s+)?week))|shut|not\s+open|isn['’]t\s+open)\b", re.IGNORECASE
)
_EXCEPT: Final = re.compile(r"\b(?:except(?:\s+(?:for|on))?|apart\s+from|but\s+not)\b", re.IGNORECASE)
_DAILY: Final = re.compile(r"\b(?:daily|every\s+day|seven\s+days)\b", re.IGNORECASE)
_PARTS: Final = re.compile(
    r"\s*[;,]\s*(?:and\s+|but\s+)?|\s+(?:but|while|and)\s+(?=(?:it\s+)?(?:is\s+)?(?:open|close|shut))"
)


def grounded(written: tuple[str, int], hits: Sequence[Hit]) -> Quote | None:
    """A model's sentence as a quote, if its hit supports it: all of its numbers and days, nearly all of its words."""
    sentence, place = written
    if not 0 <= place < len(hits) or not sentence.strip():
        return None
    hit = hits[place]
    if not _is_supported(sentence.strip(), hit):
        return None
    return Quote(sentence.strip(), hit.item.id, hit.item.name, hit.item.page)


def _is_supported(sentence: str, hit: Hit) -> bool:
    item = hit.item
    prose = f"{item.name}\n{hit.passage}\n{item.description}\n{item.text}"[:_READ]
    source = _read(f"{prose}\n{fields_of(item)}")
    language = detected_language(sentence)
    english = in_english(sentence, language)
    if unsupported(figures(english), _with_fields(source.figures, item)):
        return False
    hours = _hours_hold(english, item)
    there = source.words | _licensed(item)
    if not spends_alike(english, source.text, item) or not is_dated_alike(english, source.text, item):
        return False
    if hours is None and not there.issuperset(_named_in_calendar(english)):
        return False
    if not _are_borne(sentence, language, there):
        return False
    if hours is None and _CLOSED.search(english) and not _CLOSED.search(_read(prose).text):
        return False  # only the days on which it is closed are known
    return _agrees(english, source) if hours is None else hours


class _Source(msgspec.Struct, frozen=True):
    """What is compared of an item's text: its words, its clauses, as words, and its figures."""

    words: frozenset[str]
    clauses: tuple[tuple[str, ...], ...]
    figures: Figures
    text: str


@lru_cache(maxsize=16)  # a model writes several sentences about the same items
def _read(text: str) -> _Source:
    english = in_english(text, detected_language(text[:_LOOKED_AT]))
    found = tuple(tuple(tokens(segmented(clause))) for line in _lines(english) for clause in clauses(line))
    return _Source(frozenset(tokens(segmented(f"{text}\n{english}"))), found, figures(english), english)


def _with_fields(found: Figures, item: Item) -> Figures:
    more = of_fields(item.fields)
    best = (frozenset((5.0,)),) if "aggregateRating" in item.fields else ()  # "4.6 out of 5"
    return Figures(
        found.clocks | more.clocks,
        found.hours | more.hours,
        found.numbers + more.numbers + best,
        found.phones | more.phones,
        found.dates + more.dates,
    )


# Words


def _are_borne(sentence: str, language: str, there: Collection[str]) -> bool:
    """Whether nearly all words of a sentence are in the text of the item, or state one of its fields."""
    said = in_english(sentence, language) if language == "ja" else without_idle(sentence, language)
    words = [word for word in _WORD.findall(segmented(said)) if content_words(word) and not _is_idle(word.casefold())]
    if all(word.casefold() in _SAID_ALONE for word in words):
        return any(map(str.isdigit, sentence))
    return sum(1 for word in words if _is_there(word, language, there)) >= _BORNE * len(words)


# What states nothing without other words.
_SAID_ALONE: Final = frozenset("yes no ja nein oui non sí si はい いいえ there".split())  # noqa: SIM905


def _is_idle(word: str) -> bool:
    """Whether a word is a number, a unit or a Japanese particle."""
    return any(map(str.isdigit, word)) or word in UNITS or word in CURRENCIES or _PARTICLE.search(word) is not None


def _is_there(word: str, language: str, there: Collection[str]) -> bool:
    forms = {*tokens(word), *tokens(in_english(word, language)), *tokens(glossed(word, language))}
    if not forms.isdisjoint(there) or not forms.isdisjoint(STOPWORDS):
        return True
    return any(is_kin(form, other) for form in forms for other in there)


def _licensed(item: Item) -> frozenset[str]:
    """The words that state the fields of an item: their own names, others for them, and the names of dates."""
    found = {*_ALWAYS}
    found.update(word for name in item.types for word in tokens(spaced(name)))
    for name, value in item.fields.items():
        if value not in (None, "", [], {}):
            found |= _words_of(_SAME.get(name, name)) | {*tokens(spaced(name))}
            found |= {word for key in value for word in tokens(spaced(key))} if isinstance(value, dict) else set()
    for day in frozenset[date]().union(*of_fields(item.fields).dates):
        found |= {MONTHS[day.month - 1], WEEKDAYS[day.weekday()]}
    return frozenset(found)


def _named_in_calendar(sentence: str) -> set[str]:
    """The months and weekdays that a sentence names; "may" and "march" are verbs, too."""
    named = {*MONTHS, *WEEKDAYS}
    found = {word for word in tokens(sentence) if word in named}
    return found - {word for word in ("may", "march") if not re.search(rf"\b{word.title()}\b|\d\W*{word}\b", sentence)}


# Words that state no field: what a thing may be called, and the halves of the day.
_ALWAYS: Final = frozenset("yes am pm clock uhr place shop store business venue product item event page".split())  # noqa: SIM905


@cache
def _words_of(field: str) -> frozenset[str]:
    return frozenset(tokens(_WORDS.get(field, "")))


# Opening hours


def _hours_hold(sentence: str, item: Item) -> bool | None:
    """Whether what a sentence says about opening days and times is so by the fields; None if it says nothing about
    them. That its times are stated is known already."""
    days = open_days(item.fields)
    if not days or not _OF_HOURS.search(sentence):
        return None
    verdicts: list[bool] = []
    closed = False
    for part in _PARTS.split(sentence):
        before, *excepted = _EXCEPT.split(part, maxsplit=1)
        if _OF_HOURS.search(before):
            closed = _CLOSED.search(before) is not None
        verdicts += _verdicts(before, item, days, closed=closed)
        verdicts += [verdict for rest in excepted for verdict in _verdicts(rest, item, days, closed=not closed)]
        if not closed and not excepted and _DAILY.search(before):
            verdicts.append(len(days) == len(WEEKDAYS))
    if not verdicts and figures(sentence).clocks and not any(map(_is_denial, tokens(sentence))):
        return True
    return all(verdicts) if verdicts else None


def _verdicts(part: str, item: Item, days: Collection[str], *, closed: bool) -> Iterator[bool]:
    named = set(_named_days(part))
    yield from ((day in days) is not closed for day in named)
    if named and not closed and named <= set(days):
        there = figures(" ".join(stated(item.fields, day) for day in named))
        said = figures(part)
        yield not unsupported(Figures(clocks=said.clocks, exact=said.exact), there)


def _named_days(part: str) -> Iterator[str]:
    for match in _WEEK.finditer(part):
        yield from WEEKDAYS[5:] if match[1].casefold() == "end" else WEEKDAYS[:5]
    for match in _DAYS.finditer(part):
        if match["first"] in _WORDS_TOO and not match["last"] and not _ON.search(part[: match.start()]):
            continue
        first = WEEKDAYS.index(_DAY_NAMES[match["first"].casefold()])
        last = WEEKDAYS.index(_DAY_NAMES[match["last"].casefold()]) if match["last"] else first
        yield from (WEEKDAYS[(first + step) % 7] for step in range((last - first) % 7 + 1))


# Yes and no


def _agrees(sentence: str, source: _Source) -> bool:
    """Whether no clause of a text that speaks of the same says the opposite; a denial needs one that denies it."""
    spoken = tokens(segmented(sentence))
    words = [word for word in content_words(segmented(sentence)) if not _is_denial(word)]
    is_denial = any(map(_is_denial, spoken))
    same = {said for said in source.words if any(is_kin(word, said) for word in words)}
    found = [(row, [at for at, said in enumerate(row) if said in same]) for row in source.clauses]
    largest = max((len(places) for _, places in found), default=0)
    if not largest:
        return not is_denial
    denials = [
        any(map(_is_denial, row[max(0, min(places) - _AROUND) : max(places) + _AROUND]))
        for row, places in found
        if len(places) == largest
    ]
    return any(denials) if is_denial else not all(denials)


def _lines(text: str) -> Iterator[str]:
    for sentence in sentences(text):
        yield from _ENDS.split(sentence)


def _is_denial(word: str) -> bool:
    return word in _DENIALS or word.endswith(("n't", "n’t"))


_AROUND: Final = 3  # words before and behind those that are compared
_ENDS: Final = re.compile(r"[;。]\s?")
_DENIALS: Final = frozenset(
    "no not never without neither nor cannot nobody none nothing forbidden prohibited banned impossible".split()  # noqa: SIM905
)
