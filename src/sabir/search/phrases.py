"""Filters in the free text of a query: "vegetarian recipes under 20 dollars without nuts near Boise". Pure.

Rules are a table, tried in its order; each takes the words it understands out of the text (or leaves
them, where they help ranking, too). What a rule understands but no item states is reported as ignored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container
from datetime import datetime
from typing import Final, TypeAlias

import msgspec

from . import dates, places
from .attributes import OPEN_ON
from .base import Fields
from .comparisons import PATTERN, Bounds, from_comparison, plus_first
from .conditions import AnyOf, Condition, Has, In, Is, Not, OfType, Range
from .filters import (
    DATE_OPERATORS,
    DIET_FIELDS,
    Around,
    Ignored,
    Parsed,
    Wanted,
    dated,
    diet,
    kilometres,
    kinds,
    numeric,
)
from .taxonomy import TYPE_WORDS, ancestors
from .vocabulary import COUNTED, DIETS, MEASURES, NUTRIENTS
from .words import STOPWORDS, fold, singular

# Filters are looked for in so many characters; what is longer is prose, and patterns are dear on it.
MAX_READ: Final = 400


class _Said(msgspec.Struct, frozen=True):
    """What a rule read. ``keep`` is what stays in the text in place of the words it was read from."""

    conditions: tuple[Condition, ...] = ()
    around: Around | None = None
    order: tuple[str, bool] | None = None
    ignored: str = ""
    wanted: tuple[tuple[str, ...], ...] = ()
    keep: str = ""
    cut: int | None = None  # how many characters of the match were used; None: all


_Rule: TypeAlias = Callable[[re.Match[str], Fields, datetime], _Said | None]

# A word that ends a list of things to have or to avoid.
_ENDS: Final = STOPWORDS | frozenset(
    """near around within without under over below above between before after since until less least most max cheap
    cheaper costing priced rated made taking ready serving please thanks today tomorrow tonight available
    """.split()  # noqa: SIM905
)
_THING = r"[^\W\d_][\w'’-]*"
_LEAD = (
    r"(?:\b(?:that\s+|which\s+)?(?:takes?|taking|costs?|costing|priced(?:\s+at)?|weighs?|weighing|is|are|for|with|in"
    r"|ready\s+in|made\s+in|done\s+in|lasting|having|has|have)\s+)?(?:a\s+(?:price|budget|rating)\s+(?:of\s+)?)?"
)


def from_text(text: str, known: Fields, now: datetime) -> Parsed:
    """The filters that a question states in words, and the text without them."""
    question = words = " ".join(text.split())
    end = len(words) if len(words) <= MAX_READ else words.rfind(" ", 0, MAX_READ)
    rest, prose = dates.both_full(plus_first(words[: max(0, end)])), words[max(0, end) :]
    parsed = Parsed()
    for pattern, rule in _RULES:
        at = 0
        while match := pattern.search(rest, at):
            said = rule(match, known, now) if match.group() else None
            if said is None:
                at = match.end() if match.end() > match.start() else match.start() + 1
                continue
            end = match.end() if said.cut is None else match.start() + said.cut
            words = rest[match.start() : end].strip(" ,.;")
            rest = f"{rest[: match.start()]} {said.keep} {rest[end:]}"
            at = match.start() + len(said.keep) + 1
            parsed |= Parsed(
                conditions=said.conditions,
                said=(words,) * len(said.conditions),
                around=(said.around,) if said.around else (),
                order=said.order,
                ignored=(Ignored("text", words, said.ignored),) if said.ignored else (),
                wanted=tuple(Wanted(words, things) for things in said.wanted),
                ordered=words if said.order else "",
            )
    about = tuple(field for pattern, field in _ASKED if pattern.search(question[:MAX_READ]))
    return msgspec.structs.replace(parsed, text=f"{_tidy(rest)}{prose}", about=about)


# What a question asks to be told, by the field that tells it.
_ASKED: Final = tuple(
    (re.compile(pattern, re.IGNORECASE), field)
    for pattern, field in (
        (r"\bhow\s+(?:much|expensive)\b(?!\s+(?:time|protein|fat|sugar|salt))|\b(?:price|cost)s?\b", "price"),
        (r"\bhow\s+(?:long|much\s+time|fast|quick(?:ly)?)\b", "totaltime"),
        (
            r"\b(?:opening|open)\s+(?:hours|times)\b|\b(?:when|what\s+time|how\s+late)\b.*\b(?:open|close)s?\b",
            "openinghours",
        ),
        (r"\bwhen\b|\bwhat\s+(?:day|date|time)\b", "date"),
        (r"\bcalories\b", "calories"),
        (r"\b(?:how\s+good|ratings?|rated|stars)\b", "stars"),
        (r"\bhow\s+many\s+(?:people|servings|portions)\b", "recipeyield"),
        (r"\bhow\s+heavy\b|\bweigh(?:t|s)?\b", "weight"),
        *((rf"\bhow\s+much\s+{name}\b", field) for name, field in NUTRIENTS.items()),
    )
)


def _tidy(text: str) -> str:
    """What is left, without the conjunctions that joined what is gone."""
    text = re.sub(r"\s+([,.;!?])", r"\1", " ".join(text.split()))
    text = re.sub(
        r"(?:[\s,;]*\b(?:and|or|but|with|for|that|which|is|are|in|at|on|from)\b[\s,;]*)+$", "", text.rstrip(" ,;")
    )
    text = re.sub(r"(?:,\s*|\s+(?:and|or|but)\s+)+(?=[,.;!?]|$)", "", text)
    return re.sub(r"^(?:[\s,;]*\b(?:and|or|but)\b[\s,;]*)+", "", text).strip(" ,;")


# Places


def _place_at(words: str, known: Fields, *, loose: bool) -> tuple[str, int] | None:
    """The longest name of a place that a text starts with, and its length."""
    found = [match.end() for match in re.finditer(r"[^\W_]['’.\w-]*(?=\W|$)", words)][:5]
    for end in reversed(found):
        name = words[:end]
        if singular(fold(name)) in STOPWORDS or (len(name) < 3 and name.islower()):
            continue
        if _is_place(name, known, places.CITIES):
            region = re.match(r",?\s+([A-Z]{2}|[A-Z][a-z]+)\b", words[end:])
            within = region and _is_place(region[1], known, places.REGIONS.values())
            return name, end + (region.end() if region and within else 0)
    if loose and (capital := re.match(r"(?:[A-Z][\w'’.-]*)(?:\s+[A-Z][\w'’.-]*){0,3}", words)):
        return capital.group().rstrip("."), capital.end()
    return None


def _is_place(name: str, known: Fields, more: Container[str]) -> bool:
    return any(each in known.places or each in more for each in places.names(name))


def _near(match: re.Match[str], known: Fields, now: datetime) -> _Said | None:
    found = _place_at(match["rest"], known, loose=True)
    if not found:
        return None
    cut = match.start("rest") - match.start() + found[1]
    if not known.places:
        return _Said(ignored="no item states a place", cut=cut)
    return _Said(around=Around(found[0], kilometres(match["far"], match["unit"])), cut=cut)


def _in(match: re.Match[str], known: Fields, now: datetime) -> _Said | None:
    found = _place_at(match["rest"], known, loose=False)
    if not found:
        return None
    cut = match.start("rest") - match.start() + found[1]
    if not known.places:
        return _Said(ignored="no item states a place", keep=match.group()[:cut], cut=cut)
    condition: Condition = In(found[0])
    return _Said((Not(condition) if match["negated"] else condition,), cut=cut)


# Dates


def _date(match: re.Match[str], known: Fields, now: datetime) -> _Said | None:
    words = " ".join(match["when"].casefold().split())
    operator = " ".join((match["operator"] or "").casefold().split())
    relative = re.fullmatch(dates.PHRASE, words, re.IGNORECASE)
    form = relative.lastgroup if relative else ""
    if not operator and form in ("month", "year", "my", "weekday", "feast") and not match["published"]:
        return None  # "June bugs", "2024 wheat": not said as a date
    field = _date_field(match["published"], known)
    if field is None:
        return _Said(ignored="no item states a date")
    when = dates.span(words, now, past=field != "date")
    return _Said((dated(field, DATE_OPERATORS.get(operator, "in"), when),)) if when else None


def _dates(match: re.Match[str], known: Fields, now: datetime) -> _Said | None:
    field = _date_field(match["published"], known)
    if field is None:
        return _Said(ignored="no item states a date")
    first, last = (dates.span(match[each], now, past=field != "date") for each in ("first", "last"))
    return _Said((dated(field, "in", first, last),)) if first and last else None


def _open(match: re.Match[str], known: Fields, now: datetime) -> _Said | None:
    """ "Open on Sunday" is about the hours of a place and not about what happens then."""
    word = match["day"].casefold()
    ahead = {"today": 0, "tonight": 0, "now": 0, "tomorrow": 1}
    days = ("saturday", "sunday") if word.startswith("weekend") else (word.rstrip("s"),)
    if word in ahead:
        days = (dates.WEEKDAYS[(now.weekday() + ahead[word]) % 7],)
    if OPEN_ON not in known.words:
        return _Said(ignored="no item states when it is open", keep=match.group())
    return _Said((AnyOf(tuple(Is(OPEN_ON, (day,)) for day in days)),), keep="open")


def _every(match: re.Match[str], known: Fields, now: datetime) -> _Said | None:
    field = _date_field(None, known)
    if field is None:
        return _Said(ignored="no item states a date")
    days = dates.every(match["every"], now)
    return _Said((AnyOf(tuple(dated(field, "in", day) for day in days)),)) if days else None


def _date_field(published: str | None, known: Fields) -> str | None:
    fields = ("datepublished", "dateposted", "datecreated", "date") if published else ("date", "datepublished")
    return next((each for each in fields if each in known.dates), None)


# Numbers


def _measure(match: re.Match[str], known: Fields, now: datetime) -> _Said | None:
    given = from_comparison(match)
    if given is None:
        return None
    if given.bare:
        # "a 30-minute dinner", "for $20" set a limit; "a 2 kg bag" only says what it is.
        spoken = match.group().casefold()
        if not (given.unit == "min" or (given.unit == "money" and spoken.startswith(("for ", "with ", "costing ")))):
            return None
        given = msgspec.structs.replace(given, low=None)
    if not given.unit:
        # Numbers of nothing are prices, if nothing that could be counted follows.
        if match["link"] or not re.match(
            r"\s*(?:$|[,.;!?]|(?:and|or|but|near|in|with|without|for|please)\b)", _after(match)
        ):
            return None
        given = msgspec.structs.replace(given, unit="money")
    field = next((each for each in MEASURES.get(given.unit, ()) if each in known.numbers), None)
    if field is None:
        return _Said(ignored=f"no item states {_OF_UNIT.get(given.unit, 'such a number')}")
    return _Said((numeric(field, given),))


_OF_UNIT: Final = {"money": "a price", "min": "a time", "star": "a rating", "kcal": "calories", "g": "a weight"}


def _after(match: re.Match[str]) -> str:
    return match.string[match.end() :]


def _rated(match: re.Match[str], known: Fields, now: datetime) -> _Said | None:
    given = from_comparison(match)
    if given is None or given.unit not in ("", "star"):
        return None
    if given.bare:
        given = msgspec.structs.replace(given, high=None)
    return _known(Range("stars", given.low, given.high, given.with_low, given.with_high), known, "a rating")


def _nutrient(match: re.Match[str], known: Fields, now: datetime) -> _Said | None:
    given = from_comparison(match)
    if given is None or given.unit not in ("", "g"):
        return None
    if given.bare:
        given = msgspec.structs.replace(given, high=None)
    field = NUTRIENTS[" ".join(match["nutrient"].casefold().split())]
    return _known(numeric(field, given), known, match["nutrient"])


def _counted(match: re.Match[str], known: Fields, now: datetime) -> _Said | None:
    given = from_comparison(match)
    if given is None or given.unit:
        return None
    return _known(numeric(COUNTED[match["counted"].casefold()], given), known, match["counted"])


def _serves(match: re.Match[str], known: Fields, now: datetime) -> _Said | None:
    given = from_comparison(match)
    if given is None or given.unit not in ("", "person", "serving"):
        return None
    if given.bare:
        given = msgspec.structs.replace(given, high=None)
    field = next((each for each in MEASURES["person"] if each in known.numbers), "recipeyield")
    return _known(numeric(field, given), known, "how many it serves")


def _known(condition: Range, known: Fields, what: str) -> _Said:
    if condition.field not in known.numbers:
        return _Said(ignored=f"no item states {what}")
    return _Said((condition,))


def _free(match: re.Match[str], known: Fields, now: datetime) -> _Said | None:
    return _known(numeric("price", Bounds(0.0, 0.0)), known, "a price")


# Things to have, to avoid and to keep to


def _diet(match: re.Match[str], known: Fields, now: datetime) -> _Said | None:
    condition = diet(match["diet"])
    if condition is None or known.words.isdisjoint(DIET_FIELDS):
        return None
    if match["negated"]:
        return _Said((Not(condition),))
    return _Said((condition,), keep=match["diet"])


def _without(match: re.Match[str], known: Fields, now: datetime) -> _Said | None:
    things, used = _things(match["things"])
    if not things:
        return None
    words = tuple(dict.fromkeys(word for thing in things for word in kinds(thing)))
    return _Said((Not(Has(words)),), cut=match.start("things") - match.start() + used)


def _having(match: re.Match[str], known: Fields, now: datetime) -> _Said | None:
    things, used = _things(match["things"])
    if not things:
        return None
    tail = re.match(r"\s+in\s+(?:it|them)\b", match["things"][used:])
    cut = match.start("things") - match.start() + used + (tail.end() if tail else 0)
    return _Said(tuple(Has(kinds(thing)) for thing in things), keep=" ".join(["with", *things]), cut=cut)


def _with(match: re.Match[str], known: Fields, now: datetime) -> _Said | None:
    """ "With mushrooms": things in a word each; "with a view of the lake" is left to the ranking."""
    things, used = _things(match["things"])
    rest = match["things"][used:]
    if not things or not re.match(rf"\s*(?:$|[,.;!?]|(?:{'|'.join(_ENDS)})\b)", rest, re.IGNORECASE):
        return None
    cut = match.start("things") - match.start() + used
    alternatives = re.search(r"\bor\b", match["things"][:used], re.IGNORECASE) is not None
    wanted = (tuple(things),) if alternatives else tuple((thing,) for thing in things)
    return _Said(wanted=wanted, keep=match.group()[:cut], cut=cut)


def _things(text: str) -> tuple[list[str], int]:
    """The things that a text starts with ("nuts, dairy or red meat"), and how much of it they take."""
    things: list[str] = []
    at = used = 0
    while match := re.match(rf"\s*(?:(?:,\s*)?(?:and|or|nor)\s+(?:no\s+|any\s+)?|,\s*)?({_THING})", text[at:]):
        joined = not things or bool(re.match(r"\s*(?:,|and\b|or\b|nor\b)", text[at:]))
        word = fold(match[1])
        if word in _ENDS or word in TYPE_WORDS or not joined:
            break
        at += match.end()
        pair = re.match(rf"\s+({_THING})", text[at:])
        name = match[1]
        if pair and " ".join((singular(word), singular(fold(pair[1])))) in _PAIRS:
            name, at = f"{name} {pair[1]}", at + pair.end()
        things.append(name)
        used = at
    return things, used


_PAIRS: Final = frozenset(
    """red meat;tree nut;peanut butter;soy sauce;goat cheese;cream cheese;ice cream;sour cream;bell pepper;olive oil
    ;coconut milk;pine nut;corn syrup;maple syrup;brown sugar;egg yolk;egg white;green onion;sweet potato;palm oil
    ;artificial sweetener;food coloring;brussels sprout;blue cheese;black pepper;dairy product;animal product"""
    .replace("\n    ", "").split(";")
)  # fmt: skip


def _stock(match: re.Match[str], known: Fields, now: datetime) -> _Said | None:
    if "availability" not in known.words:
        return _Said(ignored="no item states whether it is in stock")
    return _Said((Is("availability", ("in stock", "limited availability")),))


_ORDERS: Final = (
    (r"cheapest|least\s+expensive|lowest[\s-]price[sd]?|most\s+affordable", "price", True),
    (r"most\s+expensive|priciest", "price", False),
    (r"newest|latest|most\s+recent", "date", False),
    (r"soonest|earliest", "date", True),
    (r"(?:best|top|highest)[\s-]rated|most\s+popular", "stars", False),
    (r"quickest|fastest|shortest", "totaltime", True),
)


def _ordered(field: str, ascending: bool) -> _Rule:
    def rule(match: re.Match[str], known: Fields, now: datetime) -> _Said | None:
        if field not in known.numbers and field not in known.dates:
            return None
        return _Said(order=(field, ascending))

    return rule


def _typed(match: re.Match[str], known: Fields, now: datetime) -> _Said | None:
    """A type's name as what is looked for, and not as what it is about or a part of another word."""
    words = re.split(r"\s*,\s*(?:and\s+|or\s+)?|\s+(?:and|or)\s+", match["types"].casefold())
    types = tuple(dict.fromkeys(TYPE_WORDS[word] for word in words))
    if not all(any(each in ancestors(there) for there in known.types) for each in types):
        return None
    before = re.search(r"(\w+)\W*$", match.string[: match.start()])
    if before and before[1].casefold() in ("about", "like", "of", "from", "with", "without", "on", "this"):
        return None
    follows = re.match(r"\W*(\w+)?", _after(match))
    after = (follows[1] or "").casefold() if follows else ""
    ends = after in ("", "near", "under", "in", "that", "this") or after in _ENDS
    plural = words[-1].endswith("s") and words[-1] not in ("class", "bus")
    return _Said((OfType(types),), keep=match.group()) if plural or ends else None


def _alternatives(words: list[str]) -> str:
    return "|".join(re.escape(word).replace(r"\-", r"[\s-]?") for word in sorted(words, key=len, reverse=True))


_TYPES = _alternatives(list(TYPE_WORDS))
_PUBLISHED = r"(?:(?P<published>published|posted|written|released|updated|created)\s+)?"
_REST = r"(?P<rest>[^\W_].*)"
_OPERATORS = "|".join(
    re.escape(word) for word in sorted(DATE_OPERATORS, key=len, reverse=True) if word and word[0].isalpha()
)

_TABLE: Final[tuple[tuple[str, _Rule], ...]] = (
    (r"\bwithin\s+(?P<far>[\d.,]+)\s*(?P<unit>km|kilomet(?:er|re)s?|mi\b|miles?|m\b|met(?:er|re)s?)\s+(?:of|from)\s+"
     + _REST, _near),
    (rf"{_PUBLISHED}\b(?:between|from)\s+(?P<first>{re.sub('P<[a-z]+>', ':', dates.PHRASE)})\s+(?:and|to|until)\s+"
     rf"(?P<last>{re.sub('P<[a-z]+>', ':', dates.PHRASE)})", _dates),
    (rf"\b(?:(?:that|which)\s+(?:is|are)\s+)?open\s+(?:(?:on|at)\s+)?(?:an?\s+|the\s+)?"
     rf"(?P<day>(?:{'|'.join(dates.WEEKDAYS)}|weekend)s?|today|tonight|tomorrow|now)\b", _open),
    (rf"\b(?:on|at)\s+(?:{dates.EVERY})", _every),
    (rf"{_PUBLISHED}(?:\b(?P<operator>{_OPERATORS})\s+)?(?:the\s+)?(?P<when>{re.sub('P<[a-z]+>', ':', dates.PHRASE)})",
     _date),
    (rf"(?:\bwith\s+)?\b(?:rated|ratings?(?:\s+of)?|scor(?:ed|ing))\s+(?:{PATTERN})", _rated),
    (rf"{_LEAD}(?:{PATTERN})\s*(?:of\s+)?(?P<nutrient>{_alternatives(list(NUTRIENTS))})\b", _nutrient),
    (rf"{_LEAD}(?:{PATTERN})\s+(?P<counted>{_alternatives(list(COUNTED))})\b", _counted),
    (rf"\b(?:(?:that\s+)?(?:serves?|feeds?|serving|feeding)|(?:enough\s+)?for(?=\s+\S+\s+(?:people|persons|guests)))\s+(?:{PATTERN})",
     _serves),
    (rf"{_LEAD}(?:{PATTERN})(?!\s*(?:km|miles?)\s+(?:of|from))", _measure),
    (r"\bfor\s+free\b|\bfree\s+(?=(?:events?|admission|entry|things|activities|concerts?|tours?|museums?|workshops?|classes|festivals?)\b)",
     _free),
    (rf"(?P<negated>\b(?:not|non)[\s-]+)?\b(?P<diet>{_alternatives(list(DIETS))})\b", _diet),
    (r"\b(?:without|exclud(?:ing|e)|except(?:\s+for)?|but\s+not|but\s+no|no|not|minus|other\s+than|free\s+(?:of|from)"
     r"|avoid(?:ing)?|hold\s+the|(?:i\s+|we\s+)?(?:don['’]?t|do\s+not)\s+(?:want|like|eat)|allergic\s+to|i\s+hate"
     r"|(?:that\s+|which\s+)?(?:do(?:es)?n['’]?t|do(?:es)?\s+not)\s+(?:contain|have|include|use))\s+"
     r"(?:any\s+|added\s+|too\s+|much\s+)*(?P<things>.+)", _without),
    (r"\b(?:near(?:by)?|close\s+to|next\s+to|not\s+far\s+from|around)\s+(?P<far>)(?P<unit>)" + _REST, _near),
    (r"\b(?P<negated>not\s+)?(?:in|from|at|around)\s+(?:the\s+)?" + _REST, _in),
    (r"\b(?:(?:that|which)\s+(?:has|have|contains?|includes?|uses?)|contain(?:ing|s)|includ(?:ing|es)|made\s+(?:with|of|from))\s+"
     r"(?:some\s+|any\s+)?(?P<things>.+)", _having),
    (r"\bwith\s+(?:(?:some|fresh|lots\s+of|plenty\s+of|an?|the)\s+)?(?P<things>[^\W\d_].*)", _with),
    (r"\b(?:that\s+(?:is|are)\s+)?in[\s-]stock\b", _stock),
    *((rf"\b(?:the\s+)?(?:{words})\b", _ordered(field, ascending)) for words, field, ascending in _ORDERS),
    (rf"\b(?P<types>(?:{_TYPES})(?:(?:\s*,\s*(?:and\s+|or\s+)?|\s+(?:and|or)\s+)(?:{_TYPES}))*)\b", _typed),
)  # fmt: skip


_RULES: Final = tuple((re.compile(pattern, re.IGNORECASE), rule) for pattern, rule in _TABLE)
