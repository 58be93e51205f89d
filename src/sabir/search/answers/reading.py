"""What an item says, statement by statement, and which of them can answer a question. Pure.

A statement is a sentence of its text, or a field with its value. Nothing here knows a type of item or a field: a
statement answers if it has the kind of value that is asked for, and the words that the question has besides those that
name the item.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Final

import msgspec

from sabir.search.items.item import ByItem, Item
from sabir.search.items.types import is_a, lineage
from sabir.search.query.dates import MONTHS, WEEKDAYS
from sabir.search.query.field_names import is_kin, other_words
from sabir.search.query.glossary import likenesses
from sabir.search.query.units import NUMBER_WORDS
from sabir.search.query.words import content_words, sentences, spaced, tokens

from .facts import money
from .fields import feature_flags, is_so_by, stated_fields, written
from .offers import priced
from .polarity import opposes

_READ: Final = 6_000  # characters of an item's text


class Statement(msgspec.Struct, frozen=True):
    """Something that an item says: ``text`` for people, and its words. ``field`` is the name of a field that says it.

    ``is_so`` is set for a field or a feature that says yes or no, in any language.
    """

    text: str
    words: frozenset[str]
    field: str = ""
    is_so: bool | None = None


def statements(item: Item) -> list[Statement]:
    """Everything that an item says."""
    return _said(item)


def _statements(item: Item) -> Iterator[Statement]:
    seen: set[str] = set()
    for name in dict.fromkeys(name for name, _ in stated_fields(item)):
        if value := written(item, name):
            seen.update(value.split(", "))
            label = spaced(name).lower() if name.isidentifier() else name
            yield Statement(f"{label}: {value}", frozenset((*tokens(label), *tokens(value))), name, is_so_by(value))
    for name, _, amount, currency in priced(item):
        text = f"{name}: {money(amount, currency) if amount else 'free'}"
        yield Statement(text, frozenset((*tokens(name), "price", "cost")), "offers")
    for label, is_so in feature_flags(item):
        yield Statement(spaced(label), frozenset(joined(spaced(label))), label, is_so)
    for sentence in sentences(f"{item.description}\n{item.text}"[:_READ]):
        if sentence not in seen and sentence.strip() != item.name:
            yield Statement(sentence, frozenset(joined(sentence)))


_said: Final = ByItem(lambda item: list(_statements(item)), 1_024)


# The kinds of values that a question asks for, and how each is written.
_MONTH: Final = "|".join(MONTHS)
_FIGURE: Final = rf"(?:\d|\b(?:{'|'.join(word for word in NUMBER_WORDS if len(word) > 2 and ' ' not in word)})\b)"
_SPAN: Final = (
    r"(?:seconds?|minutes?|mins?|hours?|hrs?|days?|nights?|weeks?|fortnights?|months?|years?|terms?|semesters?"
    r"|evenings?|lessons?|sessions?)"
)
_CLOCK: Final = (
    r"\b\d{1,2}[:.]\d\d\b|\b\d{1,2}\s?(?:[ap]\.?m\b|o['’]clock|Uhr)"
    r"|\b(?:noon|midnight|midday|dawn|dusk|sunrise|sunset)\b"
)
_DATE: Final = (
    rf"\b(?:{_MONTH}|{'|'.join(WEEKDAYS)})s?\b|\b(?:19|20)\d\d\b|\b\d{{1,2}}\.\s?\d{{1,2}}\."
    r"|\b(?:spring|summer|autumn|winter|christmas|easter|daily|weekly|monthly|yearly|annually|every|always)\b"
)
# "How old is the tower?" is not asked by "how old must one be?".
IS_OLD: Final = r"\bhow\s+old\b(?!\s+(?:do|does|must|should|can|may|will)\b)"
# What says so; not the day of an event.
SINCE: Final = (
    r"^(?!(?:start|end|door|valid)\b).*?(?:\b(?:1\d|20)\d\d\b|\byears?\b|\bcentur(?:y|ies)\b|\bages?\b|\baged\b)"
)
_PRICE: Final = (
    r"[$€£¥]\s?\d|\d\s?(?:€|£|\$|%|euros?|dollars?|pounds?|cents?|pence|francs?|[A-Z]{3}\b)|\b(?:CHF|EUR|USD|GBP)\s?\d"
    r"|\b[a-z]+(?:-[a-z]+)?\s+(?:dollars?|euros?|pounds?|cents|francs)\b|\bfree\b|\bno\s+(?:extra\s+)?(?:charge|cost|fee)|\bnothing\b"
)
_OFTEN: Final = r"every|each|daily|weekly|monthly|yearly|annually|once|twice|times?|per|hourly"
_SHORT_DAYS: Final = "mon|tue|wed|thu|fri|sat|sun|weekend|weekday"
_DAYS: Final = "|".join(WEEKDAYS)
_NOT_PRICE: Final = r"(?:slower|faster|bigger|smaller|longer|more|less|time|space|does\s+\w+\s+(?:weigh|hold))"
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
         rf"{_FIGURE}[\w\s-]{{0,20}}?\b{_SPAN}\b|\d\s?(?:h|min|m|km|cm|ft)\b|\b(?:immediately|at\s+once)\b"
         rf"|{_DATE}|\bmetres?\b", re.IGNORECASE),
        (r"\b(?:what|which)\s+(?:week)?days?\b",
         rf"\b(?:{_DAYS}|{_SHORT_DAYS})s?\b|\bdaily\b|\bevery\s+day\b|\b\d{{1,2}}\s+(?:{_MONTH})\b", re.IGNORECASE),
        (r"\bwhen\b|\bdate\b|\b(?:what|which)\s+(?:dates?|months?|year)\b|\bdeadline\b|\b(?:until|by)\s+when\b",
         rf"{_DATE}|{_CLOCK}"
         rf"|\b(?:after|within|before|in)\s+(?:about\s+)?{_FIGURE}[\w\s-]{{0,16}}?\b{_SPAN}", re.IGNORECASE),
        (rf"\bhow\s+expensive\b|\bhow\s+much\b(?!\s+{_NOT_PRICE})|\bprices?\b|\bcosts?\b|\bfees?\b|\bdeposit\b"
         r"|\bcharge\b|\bdiscount\b|\bpay\b", _PRICE, re.IGNORECASE),
        (IS_OLD, SINCE, re.IGNORECASE),
        (r"\bhow\s+(?:many|much|big|large|tall|high|wide|deep|heavy|old|far|strong|loud|hot|cold|fast|good)\b"
         r"|\bnumber\s+of\b|\b(?:minimum|maximum|size|height|width|weight|range|limit|capacity)\b",
         _FIGURE, re.IGNORECASE),
        (r"\b(?:who|whom|whose)\b", rf"(?<=[a-z,:;]\s)(?!(?i:{_MONTH}|{_DAYS}))[A-ZÀ-Þ][\w'’-]+", 0),
        (r"\bwhere\b",
         r"\b(?:in|at|on|near|behind|next|opposite|above|below|under|by|from|room|hall|street|road)\b", re.IGNORECASE),
    )
)  # fmt: skip


WHO: Final = next(says for asks, says in KINDS if asks.search("who"))
WHERE: Final = next(says for asks, says in KINDS if asks.search("where"))


def kind_asked(question: str) -> re.Pattern[str] | None:
    """How the kind of value is written that a question asks for; None if any statement may answer it."""
    return next((says for asks, says in KINDS if asks.search(question)), None)


# Words of a question that only ask.
ASKS: Final = frozenset(
    """much many time when date day how what where which who whom whose exactly roughly please again
    often there here your you my our i we me us tell say know does did kind sort type actually
    currently number name thing am be do have has get got would could should shall may might must can will need
    want like let hi hello hey thank thanks please sorry quick question just per site onsite mail
    email anyone somebody someone""".split()  # noqa: SIM905
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
    return frozenset((*joined(item.name), *(word for kind in lineage(item.types) for word in tokens(spaced(kind)))))


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


_NOT_WHO: Final = re.compile(r"address|location|place|area|system|language|url|date|time", re.IGNORECASE)
_DATED: Final = re.compile(r"[dD]ate$")
_NAMED: Final = 0.9
_WEAKLY: Final = 0.25
_ELSEWHERE: Final = 0.4
# Words for the kind of value that is asked for, or for doing: a statement may have the value without them.
WEAK: Final = frozenset(
    """size maximum minimum max min length height width weight limit fee charge amount total period duration cost price
    use make do go take get have come offer provide allow start begin happen work live stay pay ask give contain mean
    require support possible available normally usually approximately main current latest new long big large tall high
    wide deep heavy old far fast quick quickly soon strong loud expensive early late good much ahead advance exact often
    open close""".split()  # noqa: SIM905
)


def readings(
    item: Item, words: Sequence[str], kind: re.Pattern[str] | None, *, is_whether: bool = False
) -> list[Reading]:
    """The statements of an item that have a kind of value and may answer a question with these words.

    ``is_whether``: it is a question for yes or no, whose verb may be all that it says.
    """
    names, said = naming(item), statements(item)
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
        own = tuple(word for word in words if has(statement.words, word) or opposes(word, statement.words))
        left = missing([word for word in words if word not in own], names)
        named = tuple(word for word in words if word not in own and word not in left)
        near = [word for word in left if has(around, word)]
        absent = missing(left, whole)
        is_own = bool(own) and (is_whether or bool(named) or not WEAK.issuperset(own))
        if is_own or (kind is not None and (WEAK.issuperset(left) or (named and _DATED.search(statement.field)))):
            elsewhere = tuple(word for word in left if word not in absent and word not in near)
            found.append(Reading(statement, own, named, tuple(near), elsewhere, tuple(absent)))
    return found


def _texts_with(words: Sequence[str], statement: Statement) -> list[str]:
    """The text of a statement; of a list of features, those that have one of the words: free Wi-Fi is no price of the
    dog shower."""
    if statement.field not in _LISTS:
        return [statement.text]
    return [one for one in statement.text.split(", ") if any(has(tokens(one), word) for word in words)]


_LISTS: Final = frozenset({"amenityFeature", "additionalProperty", "keywords"})


def is_narrowed(question: str, reading: Reading) -> bool:
    """Whether a word that the item does not have narrows one that the statement has: "haunted bedrooms"."""
    pairs = pairwise(tokens(question))
    return any(one in reading.absent and one not in WEAK and other in reading.own for one, other in pairs)


def missing(words: Sequence[str], *places: Collection[str]) -> list[str]:
    """Those of some words that none of the places has."""
    return [word for word in words if not any(has(place, word) for place in places)]
