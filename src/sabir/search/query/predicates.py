"""What a yes/no question says about the thing it names: "open on Fridays", "vegan", "under $20". Pure.

The same thing can be said in many ways. A table rewrites them in the plain way, and one reader reads that. It reads
English; questions in other languages are translated first (``glossary``).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from typing import Final, TypeAlias

import msgspec

from sabir.search.engine.base import Fields
from sabir.search.items.attributes import OPEN_AT, OPEN_ON, START_HOUR

from . import date_words
from .amounts import FREE
from .aspects import COLOURS
from .conditions import AnyOf, Condition, Has, Is, Not, OfType, Range
from .dates import WEEKDAYS
from .glossary import same_words
from .prefilter import PatternTable
from .structured import Around, kinds
from .text import from_text
from .vocabulary import CUISINES, DIETS
from .when import HOURS, OPEN_AT_PATTERN, START_AT_PATTERN, open_then, starts_at
from .words import content_words, tokens

# Words of a yes/no question that say nothing about the thing.
IDLE: Final = frozenset(
    """contain have come go make really still also there any recipe allow allowed welcome permitted possible
    available offer offered provide provided serve served sell sold position job post course class book event place
    product dish suitable they it use used include included accept accepted bring take get find see eat drink stay
    visit wear work fit run along inside taught teach held given made ever actually currently food open shop going
    happening happen count thing item way ok okay fine alright into my menu option do""".split()  # noqa: SIM905
)

_DAY: Final = "|".join(WEEKDAYS)
_WHEN: Final = r"(?=(?:in|on|at|during|this|next|tomorrow|today|tonight|before|after|between|from)\b)"
_GO: Final = (
    r"(?:eat|dine|shop|swim|drink|stop\s+by|drop\s+in|go(?:\s+there)?|come|visit|get\s+(?:in|food|lunch|dinner|coffee)"
    r"|have\s+(?:lunch|dinner|breakfast|brunch|coffee|a\s+(?:drink|coffee|meal)))"
)
# Ways to say a thing, and the plain way.
_PLAIN: Final = PatternTable[str](
    (
        (r"^\W*(?:i['’]?m|i\s+am|we['’]?re|we\s+are|my\s+\w+(?:\s+is|['’]s))\s+(?:an?\s+)?([\w-]+(?:\s+free)?)\s*[,;.:-]*\s*(?:so\s+)?"
         r"(?:can|could|may|would)\s+(?:i|we|he|she|they)\s+(?:still\s+)?(?:eat|have|order|drink|try|use)\b", r"is \1"),
        (r"^\W*(?:can|could|may|would)\s+(?:an?\s+)?(vegan|vegetarian|celiac|coeliac)s?\s+(?:people\s+)?(?:eat|have|order|drink)\b",
         r"is \1"),
        (r"\b(?:suitable|ok|okay|alright|all\s+right|fine|safe|good|right|appropriate|edible|something)\s+for\s+"
         r"(?:an?\s+|people\s+who\s+are\s+|someone\s+(?:who\s+is\s+)?)?(vegan|vegetarian|celiac|coeliac)s?\b", r"\1"),
        (r"\b(?:celiac|coeliac)s?\b", "gluten-free"),
        (r"\b(vegan|vegetarian)s\b", r"\1"),
        (r"\bcalls?\s+for\b|\b(?:has|have|had)?\s*got\b|\bmade\s+(?:out\s+)?(?:of|from|with)\b|\bcomes?\s+with\b(?!out)"
         r"|\bfeatures?\b|\brequires?\b|\b(?:i|we|you)\s+need\b(?!\s+(?:to|for|a\s+(?:reservation|booking|ticket))\b)",
         "contain"),
        (r"(?<=open\s)right\s+now\b", "now"),
        (r"(?<!open\s)\b(?:right\s+now|at\s+the\s+moment|at\s+present|currently|these\s+days|pls|plz|please|as\s+well|though)\b",
         ""),
        (r"^\W*(?:are\s+there\s+|is\s+there\s+)?(?:still\s+)?any\b(?=.*\b(?:left|available)\b)", "are there "),
        (r"\b(?:still\s+)?get\s+(?:an?\s+)?(?:place|spot|seat|ticket)s?\s+(?:on|in|at|for|to)\b", "places left "),
        (rf"^\W*(?:can|could|may)\s+(?:i|we|you|one)\s+(?:[a-z]+\s+){{1,4}}?(?=(?:on\s+)?(?:an?\s+)?(?:{_DAY})s?\b)",
         "is open "),
        (r"\b(?:shut|not\s+open)\b|\bcloses?\s+(?=on\b)|\bday\s+off\b", "closed "),
        (rf"\b{_GO}\s+(?:(?:at|to|in|from)\s+)*(?=(?:on|at|an?|this|next|in|before|after|until|today|tomorrow|tonight|{_DAY})\b)",
         "open "),
        (rf"\b({_DAY})s?\s+(?=\d{{1,2}}(?:[:.]\d\d)?\s*(?:[ap]\.?m\b|o['’]?clock))", r"\1 at "),
        (r"\b(?:tak(?:e|es|ing)\s+place|held|happen(?:s|ing)?|scheduled|falls?|fall|going\s+on|on)\s+" + _WHEN, ""),
        (r"\bthere\s+(?:an?|any)\s+(?:entry\s+|entrance\s+|admission\s+|cover\s+|ticket\s+)?(?:fee|charge|cost)\b"
         r"|\b(?:you|they|we)\s+charge\b|\bcharges?\s+(?:anything|admission|entry|for)\b", "cost anything"),
        (r"\b(?:need|must|got)\s+(?:to\s+)?(?:buy\s+a\s+ticket|pay)\b", "have to pay"),
        (r"\bunavailable\b", "sold out"),
        (r"(?<!on\s)\b(?:still\s+)?(?:for\s+sale|to\s+be\s+bought)\b", "in stock"),
        (r"^\W*(?:can|could)\s+(?:i|we|you|one)\s+(?:still\s+)?(?:buy|order|purchase)\b\s*(?:an?\b|the\b|some\b)?\s*(?:today|now|still)?\W*$",
         "is in stock"),
        (r"\b(?:room|space)s?\s+(?=(?:left|free|available)\b)", "places "),
        (rf"\b(?:in|working|at\s+work|on\s+duty)\s+(?=(?:on\s+)?(?:an?\s+)?(?:{_DAY})s?\b)", "open "),
        (r"\b(?:take|bring)\s+(?:\w+\s+){0,3}?home(?:\s+with\s+(?:me|us))?", "be borrowed"),
        (r"\b(?:available|sold|offered|made)\s+in\s+(?=[a-z]+\W*$)", "in "),
        (r"\b(?:drin|dabei|inbegriffen|enthalten)\b", "included"),
        (r"\blocated\b|\bsituated\b|\bbased\b", ""),
    )
)  # fmt: skip
_OPENER: Final = re.compile(
    r"^\W*(?:(?:and|so|but|ok|okay|please|sorry)[\s,]+)*"
    r"(?:(?:is|are|was|were|does|do|did|can|could|has|have|will|would|may|isn['’]t|aren['’]t|doesn['’]t)\b\s*)?"
    r"(?:(?:i|we|you|it|he|she|they|one)\b\s*)?(?:(?:go\s+to|get|make|cook|buy|visit|come\s+to|be|sell|stock)\b\s*)*",
    re.IGNORECASE,
)
_OPEN_AT: Final = re.compile(OPEN_AT_PATTERN, re.IGNORECASE)
_START_AT: Final = re.compile(START_AT_PATTERN, re.IGNORECASE)
_OFF: Final = ("event cancelled", "cancelled", "event postponed", "postponed")
_IN_STOCK: Final[tuple[str, ...]] = ("in stock", "limited availability", "pre order", "online only", "in store only")


_PARTICLES: Final = re.compile(r"[\u3040-\u309f]{1,3}")  # of Japanese


class Predicate(msgspec.Struct, frozen=True):
    """What is said about a thing. ``words`` are all of its words, ``unread`` those that no rule understands."""

    conditions: tuple[Condition, ...] = ()
    unread: tuple[str, ...] = ()
    around: tuple[Around, ...] = ()
    words: str = ""


def plain(text: str) -> str:
    """The same question, put in the plain way."""
    return _PLAIN.replaced(text)


def read(rest: str, known: Fields, now: datetime) -> Predicate:
    """What a question says about a thing; ``rest`` is the question without the thing's name, put in the plain way."""
    predicate = _OPENER.sub("", rest.strip(" ?!."), count=1).strip(" ?!.,:;")
    predicate = date_words.plain(re.sub(r"\bis\b", " ", predicate).strip(), now)
    special = _at_a_time(predicate, known, now) or _special(predicate, known)
    if special:
        return Predicate(special, words=predicate)
    found = from_text(predicate, known, now)
    said = {word for words in found.said for word in tokens(words)}
    left = tuple(word for word in content_words(found.text) if word not in IDLE and word not in said)
    left = tuple(word for word in left if not _PARTICLES.fullmatch(word))
    if not (found.conditions or found.around) and (contents := _contents(predicate)):
        return Predicate(contents, words=predicate)
    types = [item for item in found.conditions if isinstance(item, OfType)]
    if types and types == list(found.conditions):  # "a gift shop" may be something it has, not what it is
        return Predicate((), tuple(word for word in content_words(predicate) if word not in IDLE), (), predicate)
    return Predicate(found.conditions, left, found.around, predicate)


def _at_a_time(predicate: str, known: Fields, now: datetime) -> tuple[Condition, ...]:
    """ "Open at 8 pm on Fridays", "closed on Sunday mornings", "starts before noon"."""
    is_open = re.sub(r"\bclosed\b", "open", predicate, flags=re.IGNORECASE)
    match = _OPEN_AT.search(is_open)
    condition = open_then(match, now) if match and OPEN_AT in known.words else None
    if condition is not None:
        return (condition,) if is_open == predicate else (Not(condition),)
    starts = _START_AT.search(predicate)
    started = starts_at(starts) if starts and START_HOUR in known.numbers else None
    return (started,) if started is not None else ()


_Read: TypeAlias = Callable[[re.Match[str]], tuple[Condition, ...]]


def _special(predicate: str, known: Fields) -> tuple[Condition, ...]:
    for pattern, conditions in _SPECIAL:
        match = re.search(pattern, predicate, re.IGNORECASE)
        if match:
            return conditions(match)
    return ()


def _contents(predicate: str) -> tuple[Condition, ...]:
    match = next((match for pattern in _CONTENTS if (match := re.search(pattern, predicate, re.IGNORECASE))), None)
    if match is None:
        return ()
    things = [item for item in re.split(r"\s*,\s*|\s+(?:and|or)\s+", match["things"].strip(" ?")) if item]
    return (AnyOf(tuple(Has(kinds(thing)) for thing in things)),) if things else ()


def _on_day(match: re.Match[str]) -> tuple[Condition, ...]:
    return (Is(OPEN_ON, (match["day"].casefold().rstrip("s"),)),)


def _free_of(match: re.Match[str]) -> tuple[Condition, ...]:
    return (Not(AnyOf((Has(kinds(match["thing"])),))),)


def _in_colour(match: re.Match[str]) -> tuple[Condition, ...]:
    colour = match["colour"].casefold()
    return (Is("color", (*COLOURS[colour], *same_words().get(colour, ()))),)


def _of_cuisine(match: re.Match[str]) -> tuple[Condition, ...]:
    named = (match["cuisine"] or match["served"]).casefold()
    return (AnyOf(tuple(Is(field, (named,)) for field in ("servescuisine", "recipecuisine"))),)


def _starting_in(match: re.Match[str]) -> tuple[Condition, ...]:
    first, last = HOURS[match["part"].casefold()]
    return (Range(START_HOUR, first, last, with_high=False),)


# "Gluten free" is a diet, not a price.
_DIET_STEMS: Final = tuple(word[:-5] for word in DIETS if word.endswith("-free"))
_NO_DIET: Final = "".join(rf"(?<!\b{word}\s)" for word in _DIET_STEMS)
_NOT_FREE_OF: Final = (
    *_DIET_STEMS,
    "for",
    "an?",
    "it",
    "all",
    "entirely",
    "totally",
    "completely",
    "entry",
    "admission",
)
_FREE_OF: Final = rf"^(?!(?:{'|'.join(_NOT_FREE_OF)})\b)(?P<thing>[^\W\d_]+)(?:-free|\s+free)$"
_AN: Final = r"(?:an?\s+|any\s+|some\s+|the\s+)?"
_SPECIAL: Final[tuple[tuple[str, _Read], ...]] = (
    (rf"\bclosed\s+(?:on\s+)?(?:an?\s+)?(?P<day>{_DAY})s?\b", lambda m: (Not(_on_day(m)[0]),)),
    (rf"\b(?P<day>{_DAY})s?\s+closed\b", lambda m: (Not(_on_day(m)[0]),)),
    (rf"\bopen(?:ed)?\b.*?\b(?P<day>{_DAY})s?\b|\b(?P<other>{_DAY})s?\b.*\bopen(?:ed)?\b",
     lambda m: (Is(OPEN_ON, ((m["day"] or m["other"]).casefold().rstrip("s"),)),)),
    (rf"^(?:on\s+)?(?:an?\s+)?(?P<day>{_DAY})s?$", lambda m: (Is("weekday", (m["day"].casefold().rstrip("s"),)),)),
    (r"^(?:(?:on|at|over|during)\s+)?(?:an?\s+|the\s+)?weekends?$", lambda m: (Is("weekday", tuple(WEEKDAYS[5:])),)),
    (r"^(?:(?:on|during|in)\s+)?(?:an?\s+|the\s+)?(?:weekdays?|week)$",
     lambda m: (Is("weekday", tuple(WEEKDAYS[:5])),)),
    (r"^(?:in\s+the\s+|at\s+)(?P<part>morning|afternoon|evening|night)$", _starting_in),
    (_FREE_OF, _free_of),
    (rf"^(?:(?:come|comes|in)\s+)*(?:the\s+colou?r\s+)?(?P<colour>{'|'.join(COLOURS)})$", _in_colour),
    (rf"^{_AN}(?P<cuisine>{'|'.join(CUISINES)})(?:\s+(?:food|cuisine|dish|recipe|restaurant|place|cooking|meals?|kitchen|eatery))?$"
     rf"|^(?:serve|do|offer|sell|have|contain)s?\s+(?P<served>{'|'.join(CUISINES)})(?:\s+(?:food|cuisine|dishes|cooking|meals?))?$",
     _of_cuisine),
    (rf"(?<![\w-]){_NO_DIET}(?:for\s+)?free(?:\s+(?:of\s+charge|to\s+\w+|event|entry|admission))?$|^free\b(?!\s+(?:of|from))",
     lambda m: FREE),
    (r"\b(?:sold\s+out|out\s+of\s+stock|fully\s+booked|booked\s+(?:up|out))\b|\bfull(?:\s+(?:already|yet|up))?$",
     lambda m: (Not(Is("availability", _IN_STOCK)),)),
    (r"\b(?:tickets?|seats?|spots?|places)\b(?:\s+(?:left|available|for|to))?",
     lambda m: (Is("availability", _IN_STOCK),)),
    (r"\bcosts?\s+(?:anything|something|money)\b|\bhave\s+to\s+pay\b",
     lambda m: (Range("price", 0.0, None, with_low=False),)),
    (r"\b(?:going\s+ahead|taking\s+place|take\s+place|happening|still\s+on)$",
     lambda m: (Not(Is("eventstatus", _OFF)),)),
    (r"\b(?:in\s+stock|available|to\s+be\s+had)$|^(?:in\s+stock|available)\b|^(?:still\s+)?(?:in|on\s+the\s+shelf)$"
     r"|\b(?:bookable|enrol+|register|sign\s+up|join)(?:\s+(?:in|for|on|at))?$|^(?:still\s+)?(?:enrol+|register|sign\s+up|join)\b",
     lambda m: (Is("availability", _IN_STOCK),)),
    (r"\b(?:reserv\w+|book(?:ing)?s?(?:\s+a\s+table)?)\b", lambda m: (Is("acceptsreservations", ("true", "yes")),)),
    (r"\bcancell?ed\b", lambda m: (Is("eventstatus", ("event cancelled", "cancelled")),)),
    (r"\bpostponed\b", lambda m: (Is("eventstatus", ("event postponed", "postponed")),)),
)  # fmt: skip
# What a thing is said to have or contain.
_CONTENTS: Final = (
    rf"^(?:[\w'’-]+\s+)?(?:contain|have|include|use|with|offer|provide|serve)s?\s+{_AN}(?P<things>[\w\s,'’-]+?)(?:\s+(?:in|at|for|on|with)(?:\s+(?:it|the))?)?$",
    rf"^there\s+{_AN}(?P<things>[\w\s,'’-]+?)\s+(?:in|at|on|for|with)(?:\s+(?:it|the|this|that))?$",
    rf"^{_AN}(?P<things>[\w\s,'’-]+?)\s+(?:in|at)(?:\s+(?:it|the|this|that))?$",
)
