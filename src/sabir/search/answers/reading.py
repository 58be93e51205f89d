"""What an item says, statement by statement, and which of them can answer a question. Pure.

A statement is a sentence of its text, or a field with its value. Nothing here knows a type of item or a field: a
statement answers if it has the kind of value that is asked for, and the words that the question has besides those that
name the item.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Final

import msgspec

from sabir.search.items.item import ByItem, Item
from sabir.search.items.types import is_a, lineage
from sabir.search.query.dates import MONTHS, WEEKDAYS
from sabir.search.query.field_names import is_kin, other_words
from sabir.search.query.glossary import likenesses
from sabir.search.query.stated import in_english, item_language
from sabir.search.query.units import NUMBER_WORDS
from sabir.search.query.words import content_words, sentences, spaced, tokens

from .facts import money
from .fields import feature_flags, is_so_by, stated_fields, written
from .offers import offered_on, priced
from .polarity import opposes

_READ: Final = 6_000  # characters of an item's text


class Statement(msgspec.Struct, frozen=True):
    """Something that an item says: ``text`` for people, and its words. ``field`` is the name of a field that says it.

    ``is_so`` is set for a field or a feature that says yes or no, in any language. ``english`` is what patterns read:
    the text with its words for whether, when and how much in English.
    """

    text: str
    words: frozenset[str]
    field: str = ""
    is_so: bool | None = None
    english: str = ""


def statements(item: Item) -> list[Statement]:
    """Everything that an item says."""
    return _said(item)


def _statements(item: Item) -> Iterator[Statement]:
    seen: set[str] = set()
    language = item_language(item)

    def said(text: str, words: Iterable[str], field: str = "", is_so: bool | None = None) -> Statement:
        english = in_english(text, language)
        read = tokens(english) if english != text else ()
        feasts = [feast for pattern, feast in _FEASTS if pattern.search(english)]
        return Statement(text, frozenset((*words, *read, *feasts)), field, is_so, english)

    for name in dict.fromkeys(name for name, _ in stated_fields(item)):
        if value := written(item, name):
            seen.update(value.split(", "))
            label = spaced(name).lower() if name.isidentifier() else name
            yield said(f"{label}: {value}", (*tokens(label), *tokens(value)), name, is_so_by(value))
    for name, _, amount, currency in priced(item):
        text = f"{name}: {money(amount, currency) if amount else 'free'}"
        yield said(text, (*tokens(name), "price", "cost"), "offers")
    for name, label in _AVAILABLE.items():
        if day := offered_on(item, name):
            yield said(f"{label} {day}", tokens(f"{label} {day}"), name)
    for label, is_so in feature_flags(item):
        yield said(spaced(label), joined(spaced(label)), label, is_so)
    for sentence in sentences(f"{item.description}\n{item.text}"[:_READ]):
        if sentence not in seen and sentence.strip() != item.name:
            yield said(sentence, joined(sentence))


# Days that are asked for by the name of a feast.
_FEASTS: Final = tuple(
    (re.compile(pattern, re.IGNORECASE), feast)
    for pattern, feast in (
        (r"\b2[4-6](?:th)?\s+dec(?:ember)?\b|\bdec(?:ember)?\s+2[4-6]\b", "christmas"),
        (
            r"\b31(?:st)?\s+dec(?:ember)?\b|\bdec(?:ember)?\s+31\b|\b1(?:st)?\s+jan(?:uary)?\b|\bjan(?:uary)?\s+1\b",
            "year",
        ),
    )
)
_AVAILABLE: Final = {"availabilityStarts": "available from", "availabilityEnds": "available until"}
_said: Final = ByItem(lambda item: list(_statements(item)), 1_024)


# The kinds of values that a question asks for, and how each is written.
_MONTH: Final = "|".join(MONTHS)
_FIGURE: Final = rf"(?:\d|\b(?:{'|'.join(word for word in NUMBER_WORDS if len(word) > 2 and ' ' not in word)})\b)"
_SPAN: Final = (
    r"(?:seconds?|minutes?|mins?|hours?|hrs?|days?|nights?|weeks?|fortnights?|months?|years?|terms?|semesters?"
    r"|evenings?|lessons?|sessions?)"
)
# "Takes a day"; not "follow a day in the maze".
_A_SPAN: Final = (
    r"\b(?:half\s+)?an\s+hour\b|\bhalf\s+a\s+(?:day|year)\b"
    r"|\b(?:for|in|within|takes?|lasts?|about|after|over|under|up\s+to|at\s+least|at\s+most|than|of|and|to)\s+an?\s+(?:day|week|month|year|evening)\b"
)
_FEW_WORDS: Final = "two|three|four|five|six|few"
_CLOCK: Final = (
    r"\b\d{1,2}[:.]\d\d\b|\b\d{1,2}\s?(?:[ap]\.?m\b|o['’]clock|Uhr)"
    r"|\b(?:noon|midnight|midday|dawn|dusk|sunrise|sunset)\b"
)
_DATE: Final = (
    rf"\b(?:{_MONTH}|{'|'.join(WEEKDAYS)})s?\b|\b(?:19|20)\d\d\b|\b\d{{1,2}}\.\s?\d{{1,2}}\."
    r"|\b(?:spring|summer|autumn|winter|christmas|easter|daily|weekly|monthly|yearly|annually)\b"
    rf"|\bevery\s+(?:(?:other|second|\d+|{_FEW_WORDS})\s+)?(?:{_SPAN}|mornings?|afternoons?|weekdays?|weekends?|{_MONTH}|{'|'.join(WEEKDAYS)})\b"
    r"|\balways\s+(?:open|available|on|there)\b"
)
# "How old is the tower?" is not asked by "how old must one be?".
IS_OLD: Final = r"\bhow\s+old\b(?!\s+(?:do|does|must|should|can|may|will)\b)"
# What says so; not the day of an event.
SINCE: Final = (
    r"^(?!(?:start|end|door|valid)\b).*?(?:\b(?:1\d|20)\d\d\b|\byears?\b|\bcentur(?:y|ies)\b|\bages?\b|\baged\b)"
)
AGE: Final = (
    rf"\bage(?:s|d)?\b[^.]{{0,20}}?{_FIGURE}|{_FIGURE}[\s-]{{0,3}}years?\b|\byears?\b[^.]{{0,10}}?{_FIGURE}|\b\d{{1,2}}\+(?!\d)|{_FIGURE}\w*\s+(?:or|and)\s+(?:older|over|above|up)\b"
    rf"|\b(?:under|over|from|least)\s+{_FIGURE}[\d\w]*(?=\s*(?:[.,;)]|$|and\b|or\b|may\b|can\b|must\b|are\b|to\s+\d))|\badults?\b|\bteen"
)
_PRICE: Final = (
    r"[$€£¥]\s?\d|\d\s?(?:€|£|\$|%|euros?|dollars?|pounds?|cents?|pence|francs?|[A-Z]{3}\b)|\b(?:CHF|EUR|USD|GBP)\s?\d"
    r"|\b[a-z]+(?:-[a-z]+)?\s+(?:dollars?|euros?|pounds?|cents|francs)\b|\bfree\b|\bno\s+(?:extra\s+)?(?:charge|cost|fee)|\bnothing\b"
)
_OFTEN: Final = r"every|each|daily|weekly|monthly|yearly|annually|once|twice|times?|per|hourly"
_SHORT_DAYS: Final = "mon|tue|wed|thu|fri|sat|sun|weekend|weekday"
_DAYS: Final = "|".join(WEEKDAYS)
_NOT_PRICE: Final = r"(?:slower|faster|bigger|smaller|longer|more|less|time|space|does\s+\w+\s+(?:weigh|hold))"
_WEIGHT: Final = (
    rf"{_FIGURE}[\w\s-]{{0,20}}?(?:kg|kilos?|kilograms?|grams?|g|lbs?|pounds?|oz|ounces?|stone|tonnes?|tons?)\b"
)
_WHO_COMES: Final = "people|persons|participants|guests|visitors|children|kids|adults|students|learners|players|members"
_HOW_MANY_PEOPLE: Final = (
    rf"\bhow\s+many\s+(?:{_WHO_COMES}|places|spots|seats|of\s+us)\b(?:\s+(?:can|may|could|will|do)\s+(?:take\s+part|attend|join|come|fit|go))?"
    r"|\b(?:group|class|party)\s+size\b|\bhow\s+(?:big|large)\s+(?:is|are)\s+the\s+(?:groups?|class(?:es)?|part(?:y|ies))\b"
)
_PEOPLE: Final = (
    rf"{_FIGURE}[\s-]+(?:[\w-]+\s+){{0,2}}?(?:{_WHO_COMES}|places|spots|seats|couples|teams|pairs)\b"
    rf"|\b(?:groups?|class(?:es)?|part(?:y|ies)|up\s+to|at\s+most|no\s+more\s+than|maximum(?:\s+of)?|limited\s+to|seats|sleeps|holds|serves"
    rf"|room\s+for)\s+(?:of\s+)?(?:up\s+to\s+|at\s+most\s+)?{_FIGURE}"
    rf"|\b(?:(?:group|class|party)\s+size|capacity|participants|places|seats|occupancy)\W{{1,3}}{_FIGURE}"
)
_HOW_OLD_TO_COME: Final = (
    r"\bhow\s+old\b(?=\s+(?:do|does|must|should|can|may|will)\b)|\b(?:minimum|lowest|youngest)\s+age\b|\bage\s+limit\b"
    r"|\bfrom\s+(?:which|what)\s+age\b|\b(?:what|which)\s+ages?\b"
)
_AGE: Final = (
    rf"\bage[sd]?\b[^.]{{0,30}}?{_FIGURE}|{_FIGURE}[^.]{{0,20}}?\bof\s+age\b|\ball\s+ages\b|\b(?:under|over|from|below)[\s-]{_FIGURE}[\w-]*\b(?!\s*(?:people|minutes|hours|days|km|kg|metres))|{_FIGURE}[\s-]years?\b|\b\d\d?\+(?!\d)"
    rf"|\b(?:children|kids|adults?)\b[^.]{{0,20}}?{_FIGURE}|\badults?\s+only\b|\bonly\s+adults\b|\bfor\s+adults\b"
)
# "A present for someone who likes camping" does not ask who it is.
_ANTECEDENTS: Final = (
    "someone somebody anyone anybody everyone people those friend friends man woman men women girl boy kids children"
    " guests visitors guy lady person beginners one ones"
)
_NO_ANTECEDENT: Final = "".join(rf"(?<!\b{word}\s)" for word in _ANTECEDENTS.split())
KINDS: Final = tuple(
    (re.compile(asks, re.IGNORECASE), re.compile(says, flags))
    for asks, says, flags in (
        (r"\be-?mail\b|\bwrite\s+to\b", r"\S@\S", 0),
        (r"\b(?:phone|telephone|call|ring)\b", r"\b(?:\d[\s()/.-]{0,2}){6,}|\b\d{3}\b(?=\W*$)", 0),
        (r"\b(?:opening|closing|business|office)\s+(?:hours|times)\s+(?:of|for|at)\b",
         rf"{_CLOCK}|\b(?:{_DAYS}|{_SHORT_DAYS})s?\b|\bdaily\b", re.IGNORECASE),
        (r"\bwhat\s+time\b|\bhow\s+(?:late|early)\b|\b(?:closing|opening|starting)\s+time\b", _CLOCK, re.IGNORECASE),
        (r"\bhow\s+often\b|\bhow\s+frequently\b", rf"\b(?:{_OFTEN}|{_DAYS})s?\b", re.IGNORECASE),
        (r"\bhow\s+(?:long|soon|quickly|quick|fast|far\s+(?:ahead|in\s+advance|before))\b|\bhow\s+much\s+time\b"
         r"|\bhow\s+many\s+(?:minutes|hours|days|weeks|months|years)\b|\bduration\b",
         rf"{_FIGURE}[\w\s-]{{0,20}}?\b{_SPAN}\b|{_A_SPAN}|\d\s?(?:h|min|m|km|cm|ft)\b|\b(?:immediately|at\s+once)\b"
         rf"|{_DATE}|\bmetres?\b", re.IGNORECASE),
        (r"\b(?:what|which)\s+(?:week)?days?\b",
         rf"\b(?:{_DAYS}|{_SHORT_DAYS})s?\b|\bdaily\b|\bevery\s+day\b|\b\d{{1,2}}\s+(?:{_MONTH})\b", re.IGNORECASE),
        (r"\bwhen\b|\bdate\b|\b(?:what|which)\s+(?:dates?|months?|year)\b|\bdeadline\b|\b(?:until|by)\s+when\b",
         rf"{_DATE}|{_CLOCK}"
         rf"|\b(?:after|within|before|in)\s+(?:about\s+)?{_FIGURE}[\w\s-]{{0,16}}?\b{_SPAN}", re.IGNORECASE),
        (rf"\bhow\s+expensive\b|\bhow\s+much\b(?!\s+{_NOT_PRICE})|\bprices?\b|\bcosts?\b|\bfees?\b|\bdeposit\b"
         r"|\bcharge\b|\bdiscount\b|\bpay\b", _PRICE, re.IGNORECASE),
        (IS_OLD, SINCE, re.IGNORECASE),
        (_HOW_OLD_TO_COME, _AGE, re.IGNORECASE),
        (r"\btemperatures?\b|\bhow\s+(?:hot|warm|cold)\b|\bdegrees\b",
         r"\d\s?(?:°|degrees?\b|º|C\b|F\b|grad\b)", re.IGNORECASE),
        (r"\bhow\s+heavy\b|\bweigh(?:s|t|ing)?\b(?!\s+(?:limit|loss|training))", _WEIGHT, re.IGNORECASE),
        (_HOW_MANY_PEOPLE, _PEOPLE, re.IGNORECASE),
        (r"\bhow\s+old\b|\b(?:what|which|minimum)\s+age\b", AGE, re.IGNORECASE),
        (r"\bhow\s+(?:many|much|big|large|tall|high|wide|deep|heavy|old|far|strong|loud|hot|cold|fast|good)\b"
         r"|\bnumber\s+of\b|\b(?:minimum|maximum|size|height|width|weight|range|limit|capacity)\b",
         _FIGURE, re.IGNORECASE),
        (rf"{_NO_ANTECEDENT}\b(?:who|whom|whose)\b", rf"(?<=[a-z,:;]\s)(?!(?i:{_MONTH}|{_DAYS}))[A-ZÀ-Þ][\w'’-]+", 0),
        (r"\bwhere\b",
         r"\b(?:in|at|on|near|behind|next|opposite|above|below|under|by|from|room|hall|street|road)\b", re.IGNORECASE),
    )
)  # fmt: skip


KIND_OF_PEOPLE: Final = next(says for asks, says in KINDS if asks.search("how many people"))
KIND_OF_WEIGHT: Final = next(says for asks, says in KINDS if asks.search("how heavy"))
WHO: Final = next(says for asks, says in KINDS if asks.search("who"))
PRICE: Final = next(says for asks, says in KINDS if asks.search("how much"))
WHERE: Final = next(says for asks, says in KINDS if asks.search("where"))


def kind_asked(question: str) -> re.Pattern[str] | None:
    """How the kind of value is written that a question asks for; None if any statement may answer it."""
    return next((says for asks, says in KINDS if asks.search(question)), None)


def asks_how_many_come(question: str) -> re.Match[str] | None:
    """The part of a question that asks for how many people something is."""
    return _ASKS_PEOPLE.search(question)


_ASKS_PEOPLE: Final = re.compile(_HOW_MANY_PEOPLE, re.IGNORECASE)
# Words of a question that only ask.
ASKS: Final = frozenset(
    """much many time when date day how what where which who whom whose exactly roughly please again
    often there here your you my our i we me us tell say know does did kind sort type actually
    currently number name thing am be do have has get got would could should shall may might must can will need
    want like let hi hello hey thank thanks please sorry quick question just per site onsite mail
    email anyone somebody someone able myself yourself ourselves themselves himself herself""".split()  # noqa: SIM905
)


_FOCUS: Final = re.compile(
    r"^\W*(?:\w+\s+){0,3}?(?:what|which)\s+(?:is\s+the\s+|are\s+the\s+|kind\s+of\s+|type\s+of\s+)?(?P<noun>[a-z]{3,})\b",
    re.IGNORECASE,
)


def telling(question: str) -> list[str]:
    """The words of a question that say what it is about, each once."""
    words = [word for word in content_words(question) if word not in ASKS and (len(word) > 1 or word.isdigit())]
    return list(dict.fromkeys(words))


def focus(question: str) -> str:
    """The thing that is asked for by "which" or "what": "which port does it use?"; empty if there is none."""
    match = _FOCUS.match(question)
    words = [word for word in content_words(match["noun"]) if word not in ASKS] if match else []
    return words[0] if words else ""


_IRREGULAR: Final = (
    "make made", "teach taught", "write wrote written", "give gave given", "take took taken", "build built",
    "sell sold", "run ran", "buy bought", "bring brought", "begin began begun", "hold held", "keep kept", "leave left",
    "pay paid", "speak spoke spoken", "swim swam", "wear wore worn", "drive drove driven", "eat ate eaten",
    "sleep slept", "meet met", "lead led", "grow grew grown", "know knew known", "show shown", "draw drew drawn",
    "sing sang sung", "send sent", "lend lent", "choose chose chosen",
)  # fmt: skip
_FORMS: Final = {word: frozenset(group.split()) for group in _IRREGULAR for word in group.split()}


@lru_cache(maxsize=20_000)
def same(word: str, other: str) -> bool:
    """Whether two words are forms of one, or mean the same."""
    return (
        is_kin(word, other)
        or other in _FORMS.get(word, ())
        or any(is_kin(form, other) for form in (*likenesses().get(word, ()), *other_words().get(word, ())))
    )


def has(words: Collection[str], word: str) -> bool:
    return word in words or any(same(word, other) for other in words)


def joined(text: str) -> Iterator[str]:
    """The words of a text, and each two neighbours as one: "back up" is also "backup"."""
    words = tokens(text)
    yield from words
    yield from (f"{one}{other}" for one, other in pairwise(words))


def naming(item: Item) -> frozenset[str]:
    """The words that name an item: those of its name and of its types."""
    own = _OF_PLACE.sub("", item.name) if any(is_a(kind, "Event") for kind in item.types) else item.name
    name = in_english(own, item_language(item))
    read = tokens(name) if name != own else ()
    return frozenset((*joined(own), *read, *(word for kind in lineage(item.types) for word in tokens(spaced(kind)))))


# "A Night at the Museum" is an event, and no museum.
_OF_PLACE: Final = re.compile(r"(?<=\w)\s+(?:at|im|in\s+the|en\s+el|en\s+la|au|à\s+la)\s+.*$", re.IGNORECASE)


def defined(item: Item) -> tuple[str, ...]:
    """What its description says that a place is: a lighthouse, of "The only working lighthouse in Idaho, …"."""
    if not any(is_a(kind, "Place") for kind in item.types):
        return ()
    match = _DEFINITION.match(in_english(item.description, item_language(item)))
    return tuple(tokens(match["noun"])[-1:]) if match is not None else ()


_DEFINITION: Final = re.compile(
    r"(?:an?|the|our)\s+(?:[\w'’-]+,?\s+){0,5}?(?P<noun>[a-z][\w'’-]+)"
    r"(?=\s+(?:in|of|that|which|with|for|at|on|from|where|who|whose|by|to|between|beside|near|under|above|across)\b|[.;:—–])",
    re.IGNORECASE,
)


class Reading(msgspec.Struct, frozen=True):
    """A statement of an item, and the words of a question: those that it has, those that only the item's name or type
    has, those that are elsewhere in the item, and those that are nowhere in it."""

    statement: Statement
    own: tuple[str, ...]
    named: tuple[str, ...]
    near: tuple[str, ...]  # in the sentence before it
    elsewhere: tuple[str, ...]
    absent: tuple[str, ...]

    @property
    def fit(self) -> float:
        """The share of the words that the statement accounts for, from 0 to 1."""
        weak = len([word for word in (*self.absent, *self.elsewhere) if word in WEAK])
        missing = len([word for word in self.absent if word not in WEAK])
        elsewhere = len([word for word in self.elsewhere if word not in WEAK])
        whole = len(self.own) + len(self.named) + len(self.near) + elsewhere + missing + _WEAKLY * weak
        found = len(self.own) + _NAMED * (len(self.named) + len(self.near)) + _ELSEWHERE * elsewhere
        return found / whole if whole else 0.0


def _says_only_which(
    own: Sequence[str], near: Sequence[str], left: Sequence[str], names: Collection[str], kind: re.Pattern[str] | None
) -> bool:
    """Whether a statement has only words in common that tell which thing is meant: "what should I wear to the parade?"
    is not answered by what the parade is, nor "where can I park my car?" by something else about cars."""
    if near or WEAK.issuperset(left):
        return False
    is_of_thing = any(has(names, word) for word in own)
    return all(has(names, word) for word in own) or (kind is WHERE and not is_of_thing)


# Where something is answers no question for anything else, although its name is often in its address.
_PLACED: Final = frozenset(
    """address streetAddress addressLocality addressRegion addressCountry postalCode location url
    containedInPlace""".split()  # noqa: SIM905
)
_CODED: Final = re.compile(r"(?:[cC]ode|[iI]dentifier|[sS]ku|[mM]pn)$")  # says nothing but which one it is
_NOT_WHO: Final = re.compile(r"address|location|place|area|system|language|url|date|time", re.IGNORECASE)
_NAMES_PLACE: Final = re.compile(
    r"address|location|place|area|room|hall|venue|building|floor|town|city|street|where|url", re.IGNORECASE
)
_DATED: Final = re.compile(r"[dD]ate$")
_NAMED: Final = 0.9
_WEAKLY: Final = 0.25
_ELSEWHERE: Final = 0.4
# Words for the kind of value that is asked for, or for doing: a statement may have the value without them.
WEAK: Final = frozenset(
    """size maximum minimum max min length height width weight limit fee charge amount total period duration cost price
    use make do go take get have come offer provide allow start begin happen live stay pay ask give contain mean
    end finish stop require support possible available normally usually approximately main current latest new long big
    large tall high wide deep heavy old far fast quick quickly soon strong loud expensive early late good much ahead
    advance exact often open close temperature""".split()  # noqa: SIM905
)


def readings(
    item: Item, words: Sequence[str], kind: re.Pattern[str] | None, *, is_whether: bool = False
) -> list[Reading]:
    """The statements of an item that have a kind of value and may answer a question with these words.

    ``is_whether``: it is a question for yes or no, whose verb may be all that it says.
    """
    said = statements(item)
    names = naming(item) if is_whether else naming(item).union(defined(item))
    if kind is WHO and any(is_a(name, "Person") for name in item.types):
        kind = None  # the answer is its name
    whole = frozenset[str]().union(*(statement.words for statement in said))
    found = []
    before: frozenset[str] = frozenset()
    for statement in said:
        around, before = before, statement.words if not statement.field else frozenset[str]()
        if kind is not None and not any(kind.search(text) for text in _texts_with(words, statement)):
            continue
        if kind is WHO and _NOT_WHO.search(statement.field):
            continue
        if kind is WHERE and statement.field and not _NAMES_PLACE.search(statement.field):
            continue
        if _CODED.search(statement.field) and "code" not in words:
            continue
        own = tuple(word for word in words if has(statement.words, word) or opposes(word, statement.words))
        is_place = statement.field in _PLACED and kind is not WHERE and not is_whether
        if is_place and all(has(names, word) for word in own):
            continue
        left = missing([word for word in words if word not in own], names)
        named = tuple(word for word in words if word not in own and word not in left)
        near = [word for word in left if has(around, word)]
        absent = missing(left, whole)
        is_own = bool(own) and (is_whether or bool(named) or not WEAK.issuperset(own))
        if kind in (None, WHERE) and not is_whether and _says_only_which(own, near, left, names, kind):
            continue
        is_date = kind is not None and not kind.search("7") and _DATED.search(statement.field)  # "when", not "how many"
        if is_own or (kind is not None and (WEAK.issuperset(left) or (named and is_date))):
            elsewhere = tuple(word for word in left if word not in absent and word not in near)
            found.append(Reading(statement, own, named, tuple(near), elsewhere, tuple(absent)))
    if kind is WHERE and all(has(names, word) for word in words):  # "where is the lighthouse?" asks for its address
        return [reading for reading in found if reading.statement.field in _PLACED] or found
    return found


def _texts_with(words: Sequence[str], statement: Statement) -> list[str]:
    """The text of a statement; of a list of features, those that have one of the words: free Wi-Fi is no price of the
    dog shower."""
    if statement.field not in _LISTS:
        return [statement.english]
    return [one for one in statement.english.split(", ") if any(has(tokens(one), word) for word in words)]


_LISTS: Final = frozenset({"amenityFeature", "additionalProperty", "keywords"})


def is_narrowed(question: str, reading: Reading, by_name: bool = False) -> bool:
    """Whether a word that the item does not have narrows one that the statement has: "haunted bedrooms". ``by_name``:
    or one that only the item's name or type has: the "upholstery course" is no other course."""
    pairs = pairwise(tokens(question))
    there = (*reading.own, *reading.named) if by_name else reading.own
    return any(one in reading.absent and one not in WEAK and other in there for one, other in pairs)


def missing(words: Sequence[str], *places: Collection[str]) -> list[str]:
    """Those of some words that none of the places has."""
    return [word for word in words if not any(has(place, word) for place in places)]
