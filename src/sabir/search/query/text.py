"""Filters in the free text of a query: "vegetarian recipes under 20 dollars without nuts near Boise". Pure.

Rules are a table, tried in order; each takes the words it understands out of the text (or leaves them, if they also
help ranking). What a rule understands but no item states is reported as ignored.
"""

from __future__ import annotations

import re
from collections.abc import Container
from datetime import datetime
from itertools import pairwise
from time import thread_time
from typing import Final

import msgspec

from sabir.search.engine.base import Fields
from sabir.search.items.attributes import PRICE_LEVEL
from sabir.search.items.types import TYPE_WORDS, ancestors

from . import dates, places
from .comparisons import PATTERN, from_comparison, plus_first
from .conditions import AnyOf, Condition, Has, In, Is, Not, OfType, Range
from .glossary import same_words
from .phrase import Phrase, Rule, after
from .structured import (
    DATE_OPERATORS,
    DIET_FIELDS,
    PART_FIELDS,
    Around,
    Constraint,
    Ignored,
    Parsed,
    diet,
    kilometres,
    kinds,
    numeric,
)
from .vocabulary import COUNTED, DIETS, KINDS, MEASURES, NUTRIENTS
from .when import (
    OPEN_AT_PATTERN,
    at_hours,
    between_dates,
    days_of_month,
    every_day,
    nth_event,
    on_date,
    open_at,
    open_on,
    starting,
)
from .words import STOPWORDS, content_words, fold, singular, tokens

# Filters are searched for in this many characters; a longer text is prose, and patterns are slow on it.
MAX_READ: Final = 400
# A question with more meaningful words is prose: only clear constraints (prices, times, dates, places, diets, ratings,
# things not to eat) filter there, and the rest only ranks.
PROSE: Final = 10
# CPU seconds that the rules may take; what is unread by then is only searched for as words.
READ_BUDGET: Final = 0.05


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
    """The filters that a question states in words, and the remaining text."""
    question = words = " ".join(text.split())
    end = len(words) if len(words) <= MAX_READ else words.rfind(" ", 0, MAX_READ)
    rest, prose = dates.both_full(plus_first(words[: max(0, end)])), words[max(0, end) :]
    parsed = Parsed()
    deadline = thread_time() + READ_BUDGET
    prose_rules = is_prose(question)
    for pattern, rule in _RULES:
        if prose_rules and rule in _LOOSE:
            continue
        at = 0
        while thread_time() < deadline and (match := pattern.search(rest, at)):
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
                wanted=tuple(Constraint(words, things) for things in said.wanted),
                ordered=words if said.order else "",
            )
    if parsed.order and _GENERIC.issuperset(content_words(rest)):
        rest = ""  # "the most expensive thing": no word says what is wanted
    about = tuple(field for pattern, field in _ASKED if pattern.search(question[:MAX_READ]))
    return msgspec.structs.replace(parsed, text=f"{_tidy(rest)}{prose}", about=about)


# Nouns that name nothing in particular.
_GENERIC: Final = frozenset({"thing", "item", "stuff", "article", "everything", "anything"})

# Facts that a question asks for, by field.
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


_TOKEN: Final = re.compile(r"[\w'’-]+|[^\w\s]|\s+")
_CONJUNCTIONS: Final = frozenset({"and", "or", "but"})
_JOINS: Final = _CONJUNCTIONS | {"with", "for", "that", "which", "is", "are", "in", "at", "on", "from"}


def _tidy(text: str) -> str:
    """The remaining text, without the conjunctions that joined the removed words.

    Reads one token after the other, so it takes linear time: an earlier pattern backtracked exponentially on "in in in
    in ...".
    """
    kept: list[str] = []
    for token in _TOKEN.findall(text):
        if token in ",.;!?":
            _drop_last(kept, _CONJUNCTIONS)
            if kept and kept[-1] == "," and token == ",":
                continue
        if token.isspace():
            if kept and kept[-1] != " ":
                kept.append(" ")
        else:
            kept.append(token)
    _drop_last(kept, _JOINS, " ,;")
    first = 0
    while first < len(kept) and (kept[first] in " ,;" or kept[first].casefold() in _CONJUNCTIONS):
        first += 1
    return "".join(kept[first:])


def _drop_last(tokens: list[str], words: Container[str], separators: str = " ,") -> None:
    """Drop these words and separators from the end of a list of tokens."""
    while tokens and (tokens[-1] in separators or tokens[-1].casefold() in words):
        tokens.pop()


# Places


def _place_at(words: str, known: Fields, *, loose: bool) -> tuple[str, int] | None:
    """The longest place name that a text starts with, and its length."""
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
    return any(item in known.places or item in more for item in places.names(name))


def _near(match: re.Match[str], known: Fields, now: datetime) -> Phrase | None:
    found = _place_at(match["rest"], known, loose=True)
    if not found:
        return None
    cut = match.start("rest") - match.start() + found[1]
    if not known.places:
        return Phrase(ignored="no item states a place", cut=cut)
    return Phrase(around=Around(found[0], kilometres(match["far"], match["unit"])), cut=cut)


def _in(match: re.Match[str], known: Fields, now: datetime) -> Phrase | None:
    found = _place_at(match["rest"], known, loose=False)
    at = match.start("rest")
    if not found and match["article"]:  # "The Net Loft" includes its article
        at = match.start("article")
        found = _place_at(match.string[at : match.end()], known, loose=False)
    if not found:
        return None
    cut = at - match.start() + found[1]
    if not known.places:
        return Phrase(ignored="no item states a place", keep=match.group()[:cut], cut=cut)
    named = [found[0]]
    while more := _OR_IN.match(match.group()[cut:]):
        found = _place_at(match.group()[cut + more.end() :], known, loose=False)
        if not found:
            break
        named.append(found[0])
        cut += more.end() + found[1]
    places_named = tuple(In(name) for name in named)
    condition: Condition = AnyOf(places_named) if len(named) > 1 else places_named[0]
    return Phrase((Not(condition) if match["negated"] else condition,), cut=cut)


_OR_IN: Final = re.compile(r"\s*(?:,|,?\s+(?:or|nor))\s+(?:in\s+)?(?:the\s+)?", re.IGNORECASE)


# Numbers


def _measure(match: re.Match[str], known: Fields, now: datetime) -> Phrase | None:
    given = from_comparison(match)
    if given is None:
        return None
    if given.bare:
        # "a 30-minute dinner" and "for $20" set a limit; "a 2 kg bag" only describes.
        spoken = match.group().casefold()
        if not (given.unit == "min" or (given.unit == "money" and spoken.startswith(("for ", "with ", "costing ")))):
            return None
        given = msgspec.structs.replace(given, low=None)
    if not given.unit:
        # Bare numbers are prices, if nothing countable follows.
        if match["link"] or not re.match(
            r"\s*(?:$|[,.;!?]|(?:and|or|but|near|in|with|without|for|please)\b)", after(match)
        ):
            return None
        given = msgspec.structs.replace(given, unit="money")
    field = next((item for item in MEASURES.get(given.unit, ()) if item in known.numbers), None)
    if field is None:
        return Phrase(ignored=f"no item states {_OF_UNIT.get(given.unit, 'such a number')}")
    return Phrase((numeric(field, given),))


_OF_UNIT: Final = {"money": "a price", "min": "a time", "star": "a rating", "kcal": "calories", "g": "a weight"}


def _rated(match: re.Match[str], known: Fields, now: datetime) -> Phrase | None:
    given = from_comparison(match)
    if given is None or given.unit not in ("", "star"):
        return None
    if given.bare:
        given = msgspec.structs.replace(given, high=None)
    return _known(Range("stars", given.low, given.high, given.with_low, given.with_high), known, "a rating")


def _nutrient(match: re.Match[str], known: Fields, now: datetime) -> Phrase | None:
    given = from_comparison(match)
    if given is None or given.unit not in ("", "g"):
        return None
    if given.bare:
        given = msgspec.structs.replace(given, high=None)
    field = NUTRIENTS[" ".join(match["nutrient"].casefold().split())]
    return _known(numeric(field, given), known, match["nutrient"])


def _counted(match: re.Match[str], known: Fields, now: datetime) -> Phrase | None:
    given = from_comparison(match)
    if given is None or given.unit:
        return None
    return _known(numeric(COUNTED[match["counted"].casefold()], given), known, match["counted"])


def _paid(match: re.Match[str], known: Fields, now: datetime) -> Phrase | None:
    given = from_comparison(match)
    if given is None or given.unit not in ("", "money") or "basesalary" not in known.numbers:
        return None
    return Phrase((Range("basesalary", given.low, given.high, given.with_low, given.with_high),))


def _serves(match: re.Match[str], known: Fields, now: datetime) -> Phrase | None:
    given = from_comparison(match)
    if given is None or given.unit not in ("", "person", "serving"):
        return None
    if given.bare:
        given = msgspec.structs.replace(given, high=None)
    field = next((item for item in MEASURES["person"] if item in known.numbers), "recipeyield")
    return _known(numeric(field, given), known, "how many it serves")


def _known(condition: Range, known: Fields, what: str) -> Phrase:
    if condition.field not in known.numbers:
        return Phrase(ignored=f"no item states {what}")
    return Phrase((condition,))


def _free(match: re.Match[str], known: Fields, now: datetime) -> Phrase | None:
    if "price" not in known.numbers:
        return Phrase(ignored="no item states a price")
    return Phrase(FREE)


# Free for everybody: not only for children.
FREE: Final[tuple[Condition, ...]] = (Range("price", 0.0, 0.0), Not(Range("price", 0.0, None, with_low=False)))


# Things to have, to avoid and to keep to


def _diet(match: re.Match[str], known: Fields, now: datetime) -> Phrase | None:
    condition = diet(match["diet"])
    if condition is None or known.words.isdisjoint(DIET_FIELDS):
        return None
    if match["negated"]:
        return Phrase((Not(condition),))
    return Phrase((condition,), keep=match["diet"])


def is_prose(text: str) -> bool:
    """Whether a text is so long that a word such as "includes" or "not" does not express a filter."""
    return len(content_words(text[: 4 * MAX_READ])) > PROSE


def _without(match: re.Match[str], known: Fields, now: datetime) -> Phrase | None:
    said = match.group()[: match.start("things") - match.start()]
    things, used = _one_thing(match["things"]) if _NAMES_ONE.search(said) else _things(match["things"])
    if not things or (is_prose(match.string) and not all(_is_food(singular(fold(thing))) for thing in things)):
        return None
    words = tuple(dict.fromkeys(word for thing in things for word in kinds(thing)))
    stated = tuple(Is(field, words) for field in _STATING if field in known.words)
    conditions: tuple[Condition, ...] = (Not(AnyOf((Has(words), *stated)) if stated else Has(words)),)
    if any(_is_food(singular(fold(thing))) for thing in things) and "recipeingredient" in known.words:
        conditions = (*conditions, Not(OfType(("Event", "Place"))))  # they do not state their ingredients
    return Phrase(conditions, cut=match.start("things") - match.start() + used)


# "Except the paring knife", "other than moka pots": all the words together name the excluded thing.
_NAMES_ONE: Final = re.compile(r"\b(?:the|an?)\s+$|^(?:except|other\s+than)\b", re.IGNORECASE)
# Fields whose few words describe a thing: an item "has" what they state.
_STATING: Final = (
    "keywords", "category", "recipecategory", "genre", "recipecuisine", "servescuisine", "educationallevel",
    "employmenttype", "coursemode", "bookformat", "joblocationtype", "amenityfeature", "color", "material",
)  # fmt: skip


def _one_thing(text: str) -> tuple[list[str], int]:
    """The one thing that a text starts with, in up to three words ("paring knife"), and its length."""
    words: list[str] = []
    used = 0
    for match in re.finditer(rf"\s*({_THING})", text):
        if match.start() != used or fold(match[1]) in _ENDS or len(words) == _MAX_NAMED:
            break
        words.append(match[1])
        used = match.end()
    return ([" ".join(words)] if words else []), used


_MAX_NAMED: Final = 3


def _is_food(thing: str) -> bool:
    return thing in KINDS or thing in same_words()


def _having(match: re.Match[str], known: Fields, now: datetime) -> Phrase | None:
    things, used = _things(match["things"])
    if not things:
        return None
    tail = re.match(r"\s+in\s+(?:it|them)\b", match["things"][used:])
    cut = match.start("things") - match.start() + used + (tail.end() if tail else 0)
    parts = [field for field in PART_FIELDS if field in known.words]
    if parts and match.group().casefold().startswith("made"):  # "made of brass": a brass band is not
        made = tuple(AnyOf(tuple(Is(field, kinds(thing)) for field in parts)) for thing in things)
        return Phrase(made, keep=" ".join(things), cut=cut)
    return Phrase(tuple(Has(kinds(thing)) for thing in things), keep=" ".join(["with", *things]), cut=cut)


def _with(match: re.Match[str], known: Fields, now: datetime) -> Phrase | None:
    """ "With mushrooms": one-word things; "with a view of the lake" is left to the ranking."""
    things, used = _things(match["things"])
    rest = match["things"][used:]
    if not things or not re.match(rf"\s*(?:$|[,.;!?]|(?:{'|'.join(_ENDS)})\b)", rest, re.IGNORECASE):
        return None
    cut = match.start("things") - match.start() + used
    alternatives = re.search(r"\bor\b", match["things"][:used], re.IGNORECASE) is not None
    wanted = (tuple(things),) if alternatives else tuple((thing,) for thing in things)
    return Phrase(wanted=wanted, keep=match.group()[:cut], cut=cut)


def _things(text: str) -> tuple[list[str], int]:
    """The things that a text starts with ("nuts, dairy or red meat"), and their length."""
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


def _reservations(match: re.Match[str], known: Fields, now: datetime) -> Phrase | None:
    if "acceptsreservations" not in known.words:
        return None
    values = ("false", "no") if match["negated"] or match["none"] else ("true", "yes")
    return Phrase((Is("acceptsreservations", values),))


def _in_the_shop(match: re.Match[str], known: Fields, now: datetime) -> Phrase | None:
    """ "In your shop" only says that it can be bought; "on this site" not even that."""
    is_sold = match["shop"] is not None and "Product" in known.types
    return Phrase((OfType(("Product",)),) if is_sold else ())


def _stock(match: re.Match[str], known: Fields, now: datetime) -> Phrase | None:
    if "availability" not in known.words:
        return Phrase(ignored="no item states whether it is in stock")
    if match["out"]:
        gone = ("out of stock", "discontinued", "back order")
        return Phrase((Is("availability", (*gone, "sold out") if "sold" in match["out"].casefold() else gone),))
    return Phrase((Is("availability", ("in stock", "limited availability")),))


_ORDERS: Final = (
    (r"cheapest|least\s+expensive|lowest[\s-]price[sd]?|most\s+affordable", "price", True),
    (r"most\s+expensive|priciest", "price", False),
    (r"newest|latest|most\s+recent", "date", False),
    (r"soonest|earliest", "date", True),
    (r"(?:best|top|highest)[\s-]rated|most\s+popular", "stars", False),
    (r"quickest|fastest|shortest", "totaltime", True),
)


def _priced(match: re.Match[str], known: Fields, now: datetime) -> Phrase | None:
    """ "Cheap restaurants" by their price level; "cheap tents" by price."""
    cheap = match["cheap"] is not None
    words = tokens(match.string)
    pairs = (*words, *(" ".join(pair) for pair in pairwise(words)))
    place = "eat" in words or any("Place" in ancestors(TYPE_WORDS[word]) for word in pairs if word in TYPE_WORDS)
    if place and PRICE_LEVEL in known.numbers:
        return Phrase((Range(PRICE_LEVEL, None, 1.0) if cheap else Range(PRICE_LEVEL, 3.0, None),))
    return Phrase(order=("price", cheap)) if "price" in known.numbers else None


def _ordered(field: str, ascending: bool) -> Rule:
    def rule(match: re.Match[str], known: Fields, now: datetime) -> Phrase | None:
        if field not in known.numbers and field not in known.dates:
            return None
        return Phrase(order=(field, ascending))

    return rule


def _typed(match: re.Match[str], known: Fields, now: datetime) -> Phrase | None:
    """A type's name as the wanted thing, and not as its topic or part of another word."""
    said = " ".join(match["types"].casefold().split())
    words = [said] if said in TYPE_WORDS else re.split(r"\s*,\s*(?:and\s+|or\s+)?|\s+(?:and|or)\s+", said)
    types = tuple(dict.fromkeys(TYPE_WORDS[word] for word in words if word in TYPE_WORDS))
    if not types:
        return None
    if not all(any(item in ancestors(there) for there in known.types) for item in types):
        return None
    before = re.findall(r"\w+", match.string[: match.start()])
    if before and before[-1].casefold() in ("about", "like", "of", "from", "with", "without", "on", "this"):
        return None
    follows = re.match(r"\W*(\w+)?", after(match))
    following = (follows[1] or "").casefold() if follows else ""
    ends = following in ("", "near", "under", "in", "that", "this") or following in _ENDS
    plural = words[-1].endswith("s") and words[-1] not in ("class", "bus")
    return Phrase((OfType(types),), keep=match.group()) if plural or ends else None


def _alternatives(words: list[str]) -> str:
    return "|".join(re.escape(word).replace(r"\-", r"[\s-]?") for word in sorted(words, key=len, reverse=True))


_TYPES = _alternatives(list(TYPE_WORDS))
_PUBLISHED = r"(?:(?P<published>published|posted|written|released|updated|created)\s+)?"
_REST = r"(?P<rest>[^\W_].*)"
_OPERATORS = "|".join(
    re.escape(word) for word in sorted(DATE_OPERATORS, key=len, reverse=True) if word and word[0].isalpha()
)

_TABLE: Final[tuple[tuple[str, Rule], ...]] = (
    (r"\bwithin\s+(?P<far>[\d.,]+)\s*(?P<unit>km|kilomet(?:er|re)s?|mi\b|miles?|m\b|met(?:er|re)s?)\s+(?:of|from)\s+"
     + _REST, _near),
    (rf"{_PUBLISHED}\b(?:between|from)\s+(?P<first>{re.sub('P<[a-z]+>', ':', dates.PHRASE)})\s+(?:and|to|until)\s+"
     rf"(?P<last>{re.sub('P<[a-z]+>', ':', dates.PHRASE)})", between_dates),
    (OPEN_AT_PATTERN, open_at),
    (rf"\bon\s+(?P<day>(?:{'|'.join(dates.WEEKDAYS)}|weekend)s?)\s+open\b", open_on),
    (rf"\b(?:(?:that|which)\s+(?:is|are)\s+)?open\s+(?:(?:on|at)\s+)?(?:an?\s+|the\s+)?"
     rf"(?P<day>(?:{'|'.join(dates.WEEKDAYS)}|weekend)s?|today|tonight|tomorrow|now)\b", open_on),
    (rf"\b(?:(?:that|which)\s+)?(?P<verb>start|begin|end|close|apply)(?:s|ning|ing)?\s+(?:for\s+)?"
     r"(?P<operator>in|on|at|before|after|by|until|from|during)\s+(?:the\s+)?"
     rf"(?P<when>{re.sub('P<[a-z]+>', ':', dates.PHRASE)})", starting),
    (rf"(?P<published>(?!))?(?:\b(?P<operator>{_OPERATORS})\s+)?(?:the\s+)?(?P<when>{dates.PART})", on_date),
    (rf"\b(?:on\s+)?(?:an?\s+|the\s+)?(?P<day>(?:{'|'.join(dates.WEEKDAYS)}|weekend)s?)\s+(?P<things>(?:[^\W\d_]+\s+){{0,2}})(?:in|of|during)\s+"
     rf"(?P<month>(?:{'|'.join(dates.MONTHS)})(?:\s+\d{{4}})?|next\s+month|this\s+month)\b", days_of_month),
    (r"\b(?:in\s+the\s+)?(?P<part>morning|afternoon|evening|night)s?\s+(?P<things>events?|concerts?|classes|workshops?|talks?|walks?)\b"
     r"|(?:(?<=day\s)|(?<=tomorrow\s))(?P<alone>mornings?|afternoons?|evenings?|nights?)\b"
     r"|\bthis\s+(?P<today>morning|afternoon|evening)\b", at_hours),
    (rf"\b(?:the\s+)?(?P<nth>next|first|last)\s+(?P<things>{_TYPES})(?=\s*(?:$|[?!.,;]|(?:in|of|on|at|near|this|next|before|after)\b))",
     nth_event),
    (rf"\b(?:on|at)\s+(?:{dates.EVERY})", every_day),
    (rf"{_PUBLISHED}(?:\b(?P<operator>{_OPERATORS})\s+)?(?:the\s+)?(?P<when>{re.sub('P<[a-z]+>', ':', dates.PHRASE)})",
     on_date),
    (rf"(?:\bwith\s+)?\b(?:rated|ratings?(?:\s+of)?|scor(?:ed|ing))\s+(?:{PATTERN})", _rated),
    (rf"{_LEAD}(?:{PATTERN})\s*(?:of\s+)?(?P<nutrient>{_alternatives(list(NUTRIENTS))})\b", _nutrient),
    (rf"{_LEAD}(?:{PATTERN})\s+(?P<counted>{_alternatives(list(COUNTED))})\b", _counted),
    (rf"\b(?:(?:that\s+)?(?:serves?|feeds?|serving|feeding)|(?:enough\s+)?for(?=\s+\S+\s+(?:people|persons|guests)))\s+(?:{PATTERN})",
     _serves),
    (rf"\b(?:(?:that|which)\s+)?(?:pay(?:s|ing)?|earn(?:s|ing)?|(?:with\s+)?(?:an?\s+)?salar(?:y|ies)(?:\s+of)?)\s+(?:{PATTERN})",
     _paid),
    (rf"{_LEAD}(?:{PATTERN})(?!\s*(?:km|miles?)\s+(?:of|from))", _measure),
    (r"\bfor\s+free\b|\b(?:that|which)\s+(?:is|are)\s+free\b(?!\s+(?:of|from)\b)|\b(?:that\s+|which\s+)?(?:do(?:es)?n['’]?t|do(?:es)?\s+not)\s+cost\s+(?:anything|a\s+thing|money)\b"
     r"|\bfree\s+(?:admission|entry|entrance)\b|\bwithout\s+paying\b|\b(?:at\s+)?no\s+charge\b"
     r"|(?:(?<=events\s)|(?<=concerts\s)|(?<=courses\s)|(?<=museums\s)|(?<=workshops\s))free\b(?!\s+(?:of|from)\b)|\b(?:that\s+|which\s+)?costs?\s+nothing\b|\bfree\s+of\s+charge\b|\bat\s+no\s+cost\b|\bfree\s+(?=(?:events?|admission|entry|things|activities|concerts?|tours?|museums?|workshops?|classes|festivals?"
     r"|courses?|lectures?|exhibitions?|shows?|films?|markets?|talks?|walks?)\b)",
     _free),
    (rf"(?P<negated>\b(?:not|non)[\s-]+)?\b(?P<diet>{_alternatives(list(DIETS))})\b", _diet),
    (r"\b(?:that\s+|which\s+)?(?P<negated>(?:do(?:es)?n['’]?t|do(?:es)?\s+not)\s+)?(?:takes?|accepts?|taking|accepting)\s+"
     r"(?P<none>no\s+)?(?:reservations?|bookings?)\b", _reservations),
    (r"\b(?:that\s+(?:is|are)\s+|what\s+is\s+|which\s+\w+\s+are\s+)?(?P<out>out[\s-]of[\s-]stock|sold[\s-]out|not\s+in\s+stock)\b"
     r"(?:\s+(?:right\s+now|at\s+the\s+moment|currently))?", _stock),
    (r"\b(?:in|from|on|at)\s+(?:the|your|this)\s+(?:whole\s+|entire\s+|online\s+)?"
     r"(?:(?P<shop>shop|store|catalogu?e|range|inventory)|web\s?site|site|page)\b(?!\s+\w)", _in_the_shop),
    (r"\b(?:without|exclud(?:ing|e)|except(?:\s+for)?|but\s+nothing\s+with|nothing\s+with|nothing(?!\s+but\b)|but\s+not(?:\s+(?:with|for))?|but\s+no|no"
     r"|not(?:\s+(?:for|with|made\s+(?:of|from|with)))?|minus|other\s+than|free\s+(?:of|from)"
     r"|avoid(?:ing)?|hold\s+the|(?:i\s+|we\s+)?(?:don['’]?t|do\s+not)\s+(?:want|like|eat)|allergic\s+to|i\s+hate"
     r"|(?:that\s+|which\s+)?(?:do(?:es)?n['’]?t|do(?:es)?\s+not)\s+(?:contain|have|include|use)"
     r"|(?:that\s+|which\s+)?(?:is|are|was|were)(?:n['’]?t|\s+not)(?:\s+(?:made\s+(?:of|from|with)|for|with))?)\s+"
     r"(?:any\s+|added\s+|too\s+|much\s+|the\s+|an?\s+)*(?P<things>.+)", _without),
    (r"\b(?:near(?:by)?|close\s+to|next\s+to|not\s+far\s+from|around)\s+(?P<far>)(?P<unit>)" + _REST, _near),
    (r"\b(?P<negated>not\s+)?(?:in|from|at|around)\s+(?P<article>the\s+)?" + _REST, _in),
    (r"\b(?:(?:that|which)\s+(?:has|have|contains?|includes?|uses?)|contain(?:ing|s)|includ(?:ing|es)|made\s+(?:with|of|from))\s+"
     r"(?:some\s+|any\s+)?(?P<things>.+)", _having),
    (r"\bwith\s+(?:(?:some|fresh|lots\s+of|plenty\s+of|an?|the)\s+)?(?P<things>[^\W\d_].*)", _with),
    (r"\b(?:that\s+(?:is|are)\s+)?(?P<out>(?!))?in[\s-]stock\b", _stock),
    *((rf"\b(?:the\s+)?(?:{words})\b", _ordered(field, ascending)) for words, field, ascending in _ORDERS),
    (r"\b(?:(?P<cheap>cheap|inexpensive|affordable|low[\s-]priced)|expensive|fancy|upscale|high[\s-]end)\b", _priced),
    (rf"\b(?P<types>(?:{_TYPES})(?:(?:\s*,\s*(?:and\s+|or\s+)?|\s+(?:and|or)\s+)(?:{_TYPES}))*)\b", _typed),
)  # fmt: skip


# Rules for words that prose uses without meaning a filter.
_LOOSE: Final = frozenset({_having, _with, _typed, _counted, _priced, _serves, every_day, starting})
_RULES: Final = tuple((re.compile(pattern, re.IGNORECASE), rule) for pattern, rule in _TABLE)
