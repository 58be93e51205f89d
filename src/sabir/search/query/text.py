"""Filters in the free text of a query: "vegetarian recipes under 20 dollars without nuts near Boise". Pure.

Rules are a table, tried in order; each takes the words it understands out of the text (or leaves them, if they also
help ranking). What a rule understands but no item states is reported as ignored.
"""

from __future__ import annotations

import re
from datetime import datetime
from functools import lru_cache
from itertools import pairwise
from typing import Final

import msgspec

from sabir.search.engine.base import Fields
from sabir.search.items.attributes import PRICE_LEVEL
from sabir.search.items.types import TYPE_WORDS, ancestors

from . import amounts, date_words, dates, placing
from .amounts import FREE
from .aspects import COLOURS
from .budget import READ_BUDGET, Budget
from .categories import stating
from .comparisons import PATTERN, plus_first
from .conditions import AnyOf, Condition, During, Has, Is, Not, OfType, Range
from .flags import FLAG_PATTERN, ORDER_PATTERN, STATED_PATTERN, flagged, ordered, refused_flag, stated_flag
from .measures import AGE_PATTERN, ROOM_PATTERN, aged, counted, roomy
from .negation import FILLER, GONE, NEGATOR, THERE, chooses, is_lacked, opposite, scope_of
from .phrase import Phrase, Rule, after
from .plainly import said_plainly
from .prefilter import PatternTable
from .relaxing import inner
from .structured import (
    DATE_OPERATORS,
    DIET_FIELDS,
    PART_FIELDS,
    Constraint,
    Ignored,
    Parsed,
    diet,
    kinds,
)
from .things import ENDS, is_food, named_things, one_thing, things_in
from .tidying import tidy
from .vocabulary import DIETS, HYPERNYMS, LANGUAGES, NUTRIENTS
from .when import (
    AT_WORK_PATTERN,
    OPEN_AT_PATTERN,
    at_hours,
    at_work,
    between_dates,
    closed_on,
    days_of_month,
    every_day,
    nth_event,
    on_date,
    open_at,
    open_on,
    repeated,
    starting,
    to_be_had,
)
from .words import content_words, fold, singular, tokens

# Filters are searched for in this many characters; a longer text is prose, and patterns are slow on it.
MAX_READ: Final = 400
# A question with more meaningful words is prose: only clear constraints (prices, times, dates, places, diets, ratings,
# things not to eat) filter there, and the rest only ranks.
PROSE: Final = 10


_LEAD = (
    r"(?:\b(?:that\s+|which\s+)?(?:takes?|taking|costs?|costing|priced(?:\s+at)?|weighs?|weighing|is|are|for|with|in"
    r"|ready\s+in|made\s+in|done\s+in|lasting|having|has|have)\s+)?(?:a\s+(?:price|budget|rating)\s+(?:of\s+)?)?"
)


def from_text(text: str, known: Fields, now: datetime) -> Parsed:
    """The filters that a question states in words, and the remaining text."""
    words = " ".join(text.split())
    read = parsed_question if len(words) <= MAX_READ else parsed_question.__wrapped__
    return read(words, known, now)


@lru_cache(maxsize=64)
def parsed_question(question: str, known: Fields, now: datetime) -> Parsed:
    """The same for a question of single spaces; kept, because several parts of an answer read the same question."""
    words = question
    end = len(words) if len(words) <= MAX_READ else words.rfind(" ", 0, MAX_READ)
    rest, prose = (
        dates.both_full(date_words.plain(plus_first(said_plainly(words[: max(0, end)])), now)),
        words[max(0, end) :],
    )
    parsed = Parsed()
    budget = Budget(READ_BUDGET)
    prose_rules = is_prose(question)
    place = _RULES.following(rest)
    while place is not None:
        pattern, rule = _RULES.rows[place]
        if not (prose_rules and rule in _LOOSE):
            at = 0
            while not budget.is_spent and (match := pattern.search(rest, at)):
                said = rule(match, known, now) if match.group() else None
                if said is None:
                    at = match.end() if match.end() > match.start() else match.start() + 1
                    continue
                end = match.end() if said.cut is None else match.start() + said.cut
                words = rest[match.start() : end].strip(" ,.;")
                rest = f"{rest[: match.start()]} {said.keep} {rest[end:]}"
                at = match.start() + len(said.keep) + 1
                parsed |= _of_phrase(said, words)
        place = _RULES.following(rest, place + 1)
    is_dated = any(isinstance(item, During) for item in inner(parsed.conditions))
    if (is_dated or _ON_FOR.search(rest)) and _stages(known):
        parsed, rest = _happening(parsed, rest)
    if is_dated and _stages(known) and _names_nothing(parsed, rest):
        parsed = parsed.narrowed(OfType(("Event",)), "")
    if parsed.order and _GENERIC.issuperset(content_words(rest)):
        rest = ""  # "the most expensive thing": no word says what is wanted
    conditions = tuple(repeated(condition, known) for condition in to_be_had(parsed.conditions, question, known))
    parsed = msgspec.structs.replace(parsed, conditions=conditions)
    asked = question[:MAX_READ]
    about = tuple(field for pattern, field in _ASKED.possible(asked) if pattern.search(asked))
    return msgspec.structs.replace(parsed, text=f"{tidy(rest)}{prose}", about=about)


def _of_phrase(said: Phrase, words: str) -> Parsed:
    return Parsed(
        conditions=said.conditions,
        said=(words,) * len(said.conditions),
        around=(said.around,) if said.around else (),
        order=said.order,
        ignored=(Ignored("text", words, said.ignored),) if said.ignored else (),
        wanted=tuple(Constraint(words, things) for things in said.wanted),
        ordered=words if said.order else "",
    )


def _happening(parsed: Parsed, rest: str) -> tuple[Parsed, str]:
    """ "Things to do in March", "what is going on": with a date, that is about events."""
    match = _GOING_ON.search(rest)
    if match is None:
        return parsed, rest
    words = match.group().strip()
    return parsed.narrowed(OfType(("Event",)), words), f"{rest[: match.start()]} {rest[match.end() :]}"


def _names_nothing(parsed: Parsed, rest: str) -> bool:
    """Whether a question has nothing but a date ("6 December?"): things that happen are meant, not cars of a year."""
    is_typed = any(isinstance(item, OfType | Is | Has | Range) for item in inner(parsed.conditions))
    return not is_typed and not parsed.order and _GENERIC.issuperset(content_words(rest))


def _stages(known: Fields) -> bool:
    return any("Event" in ancestors(kind) for kind in known.types)


_ON_FOR: Final = re.compile(r"\b(?:something|anything)\s+(?:on|happening|going\s+on)\s+for\b", re.IGNORECASE)
_GOING_ON: Final = re.compile(
    r"\b(?:(?:the\s+)?(?:things|stuff|something|anything|activities)(?:\s+(?:fun|nice|good|interesting))?\s+to\s+(?:do|see|visit|attend)"
    r"|(?:what(?:['’]?s|\s+is|\s+else\s+is)|something|anything|things|is\s+there\s+anything|is\s+something)\s+"
    r"(?:happening|going\s+on|taking\s+place|planned|on)|what\s+(?:can|could|should)\s+(?:i|we)\s+(?:do|see|attend)"
    r"|what\s+happens|what\s+to\s+do|activities|goings[\s-]on|(?:the\s+)?(?:programme|program|schedule|calendar|agenda|line-?up))\b",
    re.IGNORECASE,
)

# Nouns that name nothing in particular.
_GENERIC: Final = frozenset(
    {"thing", "item", "stuff", "article", "everything", "anything", "sell", "offer", "stock", "product"}
)

# Facts that a question asks for, by field.
_ASKED: Final = PatternTable[str](
    (
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
    """What is not wanted: the opposite of the stated conditions, or things to leave out."""
    at = match.start("things") - match.start()
    scope = scope_of(match["things"])
    if priced := _TOO_DEAR.match(scope):
        return Phrase(keep="cheap", cut=at + priced.end())
    if free := _COST.match(scope):
        return Phrase(FREE if "price" in known.numbers else (), cut=at + free.end())
    for end in _ends_of(scope):
        if (turned := _opposite_of(scope[:end], known, now)) is not None:
            return msgspec.structs.replace(turned, cut=at + end)
    field, count = refused_flag(scope, known)
    if field:  # "without pets", "that aren't toxic to pets"
        end = [word.end() for word in re.finditer(r"[\w'’-]+", scope)][count - 1]
        return Phrase((Not(Is(field, ("true", "yes"))),), cut=at + end)
    if there := _THERE.match(match["things"]):
        return _elsewhere(match["things"], there.end(), at, known)
    said = match.group()[:at]
    if is_lacked(match.string[: match.start()], said) and not is_food(match["things"].split()[0]):
        return None
    is_one = _NAMES_ONE.search(said) is not None
    whence = _WHENCE.match(match["things"])  # "not from Ethiopia", if no rule reads that as a place
    skipped = whence.end() if whence else 0
    named_at = match["things"][skipped:]
    things, used = named_things(named_at) if is_one else things_in(named_at, types=True)
    used += skipped
    if not things or (is_prose(match.string) and not all(map(is_food, things))):
        return None
    bare = [_NO_MORE.sub("", thing) for thing in things]
    is_kind, things = bare != things, [_without_type(thing) for thing in bare]
    shades = (shade for thing in things for shade in COLOURS.get(fold(thing), ()))
    named = (word for thing in things for word in kinds(thing) if word == thing or word not in HYPERNYMS)
    words = tuple(dict.fromkeys((*named, *shades, *_full_of(things))))
    stated = tuple(Is(field, words) for field in (*_STATING, *stating(known)) if field in known.words)
    types = tuple(TYPE_WORDS[fold(thing)] for thing in things if fold(thing) in TYPE_WORDS)
    is_quality = is_kind or _OF_THAT.match(match["things"][used:]) is not None or any(map(is_food, things))
    mentioned = Is("name", words) if chooses(said) and not is_quality else Has(words)
    out: tuple[Condition, ...] = (mentioned, *stated, *((OfType(types),) if types else ()), *_named_by_all(things))
    conditions: tuple[Condition, ...] = (Not(AnyOf(out) if len(out) > 1 else out[0]),)
    if any(map(is_food, things)) and "recipeingredient" in known.words and not _names_place(match.string):
        conditions = (*conditions, Not(OfType(("Event", "Place"))))  # they do not say what is in their food
    return Phrase(conditions, cut=at + used)


def _named_by_all(things: list[str]) -> tuple[Condition, ...]:
    """What has all words of a thing in its name: "the used tricycle" is the "Cargo Tricycle, Used"."""
    named = (tokens(thing) for thing in things)
    return tuple(Not(AnyOf(tuple(Not(Is("name", (word,))) for word in words))) for words in named if len(words) > 1)


def _without_type(thing: str) -> str:
    """What tells a refused thing from others of its type: "courses ados", "beginners' course" without the course."""
    words = thing.split()
    kept = [word for word in words if fold(word) not in TYPE_WORDS]
    return " ".join(kept) if 0 < len(kept) < len(words) and len(words) == _PAIR else thing


_PAIR: Final = 2  # words


def _full_of(things: list[str]) -> list[str]:
    """ "Thorny" for thorns: what has something is called so. A nutty cheese may have no nuts."""
    said = [(fold(thing), singular(fold(thing))) for thing in things if not is_food(thing)]
    return [f"{one.removesuffix('e')}y" for word, one in said if word == f"{one}s" and len(one) >= _LONG_ENOUGH]


_LONG_ENOUGH: Final = 4  # letters
# "The ericaceous kind": the last word only stands for what is wanted.
_NO_MORE: Final = re.compile(r"(?<=\w)\s+(?:kinds?|types?|sorts?|variety|varieties|versions?|ones?)$", re.IGNORECASE)
_WHENCE: Final = re.compile(r"from\s+(?:the\s+)?", re.IGNORECASE)
_OF_THAT: Final = re.compile(r"\s*(?:ones?|kinds?|types?|sorts?|versions?|stuff)\b", re.IGNORECASE)
_THERE: Final = re.compile(r"(?:at|in)\s+(?:an?\s+|the\s+)?", re.IGNORECASE)


def _elsewhere(text: str, start: int, at: int, known: Fields) -> Phrase | None:
    """ "Not at the Ropewalk", "not in a church": not where the place is called so."""
    things, used = one_thing(text[start:])
    if not things or not known.words.intersection(_WHERE_STATED):
        return None
    stated = tuple(Is(field, (things[0],)) for field in _WHERE_STATED if field in known.words)
    return Phrase((Not(AnyOf((*stated, Has((things[0],))))),), cut=at + start + used)


_WHERE_STATED: Final = ("location", "address", "streetaddress", "addresslocality", "containedinplace")


def _ends_of(scope: str) -> list[int]:
    """Where a scope may end: at its end, or after fewer and fewer of its words."""
    return [match.end() for match in re.finditer(r"[^\s,]+", scope)][:_MAX_SCOPE][::-1]


def _names_place(text: str) -> bool:
    """Whether a question is about places or events: "restaurants that don't serve pork"."""
    words = tokens(text)
    pairs = (*words, *(" ".join(pair) for pair in pairwise(words)))
    kinds_of = [ancestors(TYPE_WORDS[word]) for word in pairs if word in TYPE_WORDS]
    return any("Place" in above or "Event" in above for above in kinds_of)


def _opposite_of(scope: str, known: Fields, now: datetime) -> Phrase | None:
    """The opposite of what a scope says; None if rules do not read all of it."""
    if _NEGATES.search(scope):
        return None
    if _COSTS_NOTHING.fullmatch(scope) and "price" in known.numbers:
        return Phrase((Range("price", 0.0, None, with_low=False),))
    read = from_text(scope, known, now)
    if [word for word in content_words(read.text) if word not in _SAID_TOO]:
        return None
    said = tuple(condition for condition, words in zip(read.conditions, read.said, strict=True) if words)
    if not said or any(isinstance(item, OfType | Has) for item in inner(said)):
        return None
    return Phrase(opposite(said))


_MAX_SCOPE: Final = 6  # words
_TOO_DEAR: Final = re.compile(r"(?:too\s+|so\s+|very\s+)?(?:expensive|pricey|dear)\b", re.IGNORECASE)
_COST: Final = re.compile(r"cost(?:ing)?\s+(?:anything|a\s+thing|money|a\s+penny|a\s+cent)\b", re.IGNORECASE)
_COSTS_NOTHING: Final = re.compile(r"(?:for\s+)?free(?:\s+of\s+charge)?", re.IGNORECASE)
_NEGATES: Final = re.compile(NEGATOR, re.IGNORECASE)
_SAID_TOO: Final = frozenset(
    {"vegan", "vegetarian", "open", "closed", "take", "taking", *DIETS, *tokens(" ".join(DIETS))}
)


# "Except the paring knife", "other than moka pots": all the words together name what is not wanted.
_NAMES_ONE: Final = re.compile(r"\b(?:the|an?|by)\s+$|^(?:except|other\s+than|apart\s+from)\b", re.IGNORECASE)
# Fields whose few words describe a thing; an item "has" what they state.
_STATING: Final = (
    "keywords", "category", "recipecategory", "genre", "recipecuisine", "servescuisine", "educationallevel",
    "employmenttype", "coursemode", "bookformat", "joblocationtype", "amenityfeature", "color", "material",
    "brand", "author", "performer", "instructor", "artform", "artmaterial", "artmedium",
)  # fmt: skip


def _having(match: re.Match[str], known: Fields, now: datetime) -> Phrase | None:
    things, used = things_in(match["things"])
    if not things:
        return None
    tail = re.match(r"\s+in\s+(?:it|them)\b", match["things"][used:])
    cut = match.start("things") - match.start() + used + (tail.end() if tail else 0)
    parts = [field for field in PART_FIELDS if field in known.words]
    is_either = re.search(r"\bor\b", match["things"][:used], re.IGNORECASE) is not None
    if parts and match.group().casefold().startswith("made"):  # "made of brass": a brass band is not
        made = tuple(AnyOf(tuple(Is(field, kinds(thing)) for field in parts)) for thing in things)
        return Phrase((AnyOf(made),) if is_either else made, keep=" ".join(things), cut=cut)
    held: tuple[Condition, ...] = tuple(Has(kinds(thing)) for thing in things)
    return Phrase((AnyOf(held),) if is_either else held, keep=" ".join(["with", *things]), cut=cut)


def _with(match: re.Match[str], known: Fields, now: datetime) -> Phrase | None:
    """ "With mushrooms": one-word things; "with a view of the lake" is left to the ranking."""
    things, used = things_in(match["things"])
    rest = match["things"][used:]
    if not things or not re.match(rf"\s*(?:$|[,.;!?]|(?:{'|'.join(ENDS)})\b)", rest, re.IGNORECASE):
        return None
    cut = match.start("things") - match.start() + used
    alternatives = re.search(r"\bor\b", match["things"][:used], re.IGNORECASE) is not None
    wanted = (tuple(things),) if alternatives else tuple((thing,) for thing in things)
    return Phrase(wanted=wanted, keep=match.group()[:cut], cut=cut)


def _reservations(match: re.Match[str], known: Fields, now: datetime) -> Phrase | None:
    if "acceptsreservations" not in known.words:
        return None
    values = ("false", "no") if match["negated"] or match["none"] else ("true", "yes")
    return Phrase((Is("acceptsreservations", values),))


def _in_the_shop(match: re.Match[str], known: Fields, now: datetime) -> Phrase | None:
    """ "In your shop" only says that it can be bought; "on this site" not even that."""
    is_sold = match["shop"] is not None and "Product" in known.types
    return Phrase((OfType(("Product",)),) if is_sold else ())


def _where(match: re.Match[str], known: Fields, now: datetime) -> Phrase | None:
    """ "Where can I stay the night?" is about places to sleep, "where can we eat?" about places to eat."""
    kind = "LodgingBusiness" if match["sleep"] else "FoodEstablishment"
    if not any(kind in ancestors(there) for there in known.types):
        return None
    return Phrase((OfType((kind,)),), keep="" if match["sleep"] else "eat")


def _in_language(match: re.Match[str], known: Fields, now: datetime) -> Phrase | None:
    """ "A guided tour in French", "a doctor who speaks French", if items state their language."""
    name = match["language"].casefold()
    stated = tuple(Is(field, (LANGUAGES[name], name)) for field in sorted(known.words) if "language" in field)
    stated = tuple(item for item in stated if (item.field == "inlanguage") is (match["speaks"] is None))
    if not stated:
        return None
    return Phrase((AnyOf(stated) if len(stated) > 1 else stated[0],), keep=name)


def _on_sale(match: re.Match[str], known: Fields, now: datetime) -> Phrase | None:
    """ "What is on sale?" is about what is reduced in price, if shops say so."""
    return Phrase((Is("keywords", ("on sale",)),)) if "keywords" in known.words else None


def _stock(match: re.Match[str], known: Fields, now: datetime) -> Phrase | None:
    if "availability" not in known.words:
        return Phrase(ignored="no item states whether it is in stock")
    if match["out"]:
        return Phrase((Is("availability", (*GONE, "sold out") if "sold" in match["out"].casefold() else GONE),))
    return Phrase((Is("availability", THERE),))


_ORDERS: Final = (
    (r"cheapest|least\s+expensive|lowest[\s-]price[sd]?|most\s+affordable", "price", True),
    (r"most\s+expensive|priciest", "price", False),
    (r"newest|latest|most\s+recent", "date", False),
    (r"soonest|earliest", "date", True),
    (
        r"(?:(?:has|have|with)\s+the\s+)?(?:best|top|highest)[\s-](?:rated|ratings?|reviews?|reviewed)|most\s+popular",
        "stars",
        False,
    ),
    (r"(?:best|highest|top)[\s-]paid|highest\s+(?:salary|pay|wage)", "basesalary", False),
    (r"(?:worst|lowest)[\s-]paid|lowest\s+(?:salary|pay|wage)", "basesalary", True),
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
    if "classes" in words and "Course" in known.types:  # who asks for several may mean courses
        types = tuple(dict.fromkeys((*types, "Course")))
    elif not all(any(item in ancestors(there) for there in known.types) for item in types):
        return None
    before = re.findall(r"\w+", match.string[: match.start()])
    if len(before) > 1 and [word.casefold() for word in before[-2:]] in _AT_THE:
        return None  # "jobs at the museum"
    if before and before[-1].casefold() in ("about", "like", "of", "from", "with", "without", "on", "this"):
        return None
    follows = re.match(r"\W*(\w+)?", after(match))
    following = (follows[1] or "").casefold() if follows else ""
    ends = following in ("", "near", "under", "in", "that", "this") or following in ENDS
    plural = words[-1].endswith("s") and words[-1] not in ("class", "bus")
    return Phrase((OfType(types),), keep=match.group()) if plural or ends else None


_AT_THE: Final = [
    [lead, the] for lead in ("at", "in", "of", "from", "to", "for", "near", "with", "about") for the in ("the", "your")
]


def _alternatives(words: list[str]) -> str:
    return "|".join(re.escape(word).replace(r"\-", r"[\s-]?") for word in sorted(words, key=len, reverse=True))


_TYPES = _alternatives(list(TYPE_WORDS))
_DATE = dates.plain_phrase()
_PUBLISHED = r"(?:(?P<published>published|posted|written|released|updated|created)\s+)?"
_REST = r"(?P<rest>[^\W_].*)"
_OPERATORS = "|".join(
    re.escape(word) for word in sorted(DATE_OPERATORS, key=len, reverse=True) if word and word[0].isalpha()
)

_TABLE: Final[tuple[tuple[str, Rule], ...]] = (
    (r"\bwithin\s+(?P<far>[\d.,]+)\s*(?P<unit>km|kilomet(?:er|re)s?|mi\b|miles?|m\b|met(?:er|re)s?)\s+(?:of|from)\s+"
     + _REST, placing.near),
    (rf"{_PUBLISHED}\b(?:between|from)\s+(?P<first>{_DATE})\s+(?:and|to|until)\s+"
     rf"(?P<last>{_DATE})", between_dates),
    (FLAG_PATTERN, flagged),
    (rf"{NEGATOR}{FILLER}(?P<things>\S.*)", _without), (STATED_PATTERN, stated_flag),
    (r"\bwhere\s+(?:(?:can|could|should|do)\s+(?:i|we|you)|to)\s+(?P<sleep>(?:stay|sleep)(?:\s+(?:for\s+)?(?:the|a)\s+night|\s+overnight)?"
     r"|spend\s+the\s+night)\b|\bwhere\s+(?:(?:can|could|should)\s+(?:i|we|you)|to)\s+(?P<eat>eat|dine|have\s+(?:lunch|dinner|breakfast|a\s+meal))\b",
     _where),
    (OPEN_AT_PATTERN, open_at), (AT_WORK_PATTERN, at_work),
    (rf"\b(?:(?:that|which)\s+(?:is|are)\s+)?closed\s+(?:on\s+)?(?:an?\s+)?(?P<day>{'|'.join(dates.WEEKDAYS)})s?\b",
     closed_on),
    (rf"\bon\s+(?P<day>(?:{'|'.join(dates.WEEKDAYS)}|weekend)s?)\s+open\b", open_on),
    (rf"\b(?:(?:that|which)\s+(?:is|are)\s+)?open\s+(?:(?:on|at)\s+)?(?:an?\s+|the\s+)?"
     rf"(?P<day>(?:{'|'.join(dates.WEEKDAYS)}|weekend)s?|today|tonight|tomorrow|now)\b", open_on),
    (rf"\b(?:(?:that|which)\s+)?(?P<verb>start|begin|end|clos(?:e|ing)|appl(?:y|ications?))(?:s|es|ning|ing)?\s+(?:for\s+)?"
     r"(?P<operator>in|on|at|before|after|by|until|from|during)\s+(?:the\s+)?"
     rf"(?P<when>{_DATE})", starting),
    (rf"(?P<published>(?!))?(?:\b(?P<operator>{_OPERATORS})\s+)?(?:the\s+)?(?P<when>{dates.PART})", on_date),
    (rf"\b(?:on\s+)?(?:an?\s+|the\s+)?(?P<day>(?:{'|'.join(dates.WEEKDAYS)}|weekend)s?)\s+(?P<things>(?:[^\W\d_]+\s+){{0,2}})(?:in|of|during)\s+"
     rf"(?P<month>(?:{'|'.join(dates.MONTHS)})(?:\s+\d{{4}})?|next\s+month|this\s+month)\b", days_of_month),
    (r"\b(?:in\s+the\s+)?(?P<part>morning|afternoon|evening|night)s?\s+(?P<things>events?|concerts?|courses?|class(?:es)?|lessons?|workshops?|talks?|walks?)\b"
     r"|(?:(?<=day\s)|(?<=tomorrow\s)|\bin\s+the\s+|\bat\s+(?=night))(?P<alone>mornings?|afternoons?|evenings?|nights?)\b"
     r"|\bthis\s+(?P<today>morning|afternoon|evening)\b", at_hours),
    (rf"\b(?:the\s+)?(?P<nth>next|first|last)\s+(?P<things>(?:guided\s+|free\s+|public\s+|live\s+)?(?:{_TYPES}|tour))(?=\s*(?:$|[?!.,;]|(?:in|of|on|at|near|this|next|before|after)\b))",
     nth_event),
    (rf"\b(?:on|at)\s+(?:{dates.EVERY})", every_day),
    (rf"{_PUBLISHED}(?:\b(?P<operator>{_OPERATORS})\s+)?(?:the\s+)?(?P<when>{_DATE})"
     rf"(?P<more>(?:\s*(?:,|,?\s+(?:and|or|&))\s+(?:(?:on|in)\s+)?(?:{_DATE})){{1,3}})?", on_date),
    (rf"(?:\bwith\s+)?\b(?:rated|ratings?(?:\s+of)?|scor(?:ed|ing))\s+(?:{PATTERN})", amounts.rated),
    (rf"{_LEAD}(?:{PATTERN})\s*(?:of\s+)?(?P<nutrient>{_alternatives(list(NUTRIENTS))})\b", amounts.nutrient),
    (AGE_PATTERN, aged),
    (rf"{_LEAD}(?:{PATTERN})[\s-]+(?P<counted>[^\W\d_]{{3,}})\b", counted),
    (rf"{ROOM_PATTERN}(?:{PATTERN})(?:\s+(?:people|persons|guests|adults))?", roomy),
    (rf"\b(?:(?:that|which)\s+)?(?:pay(?:s|ing)?|earn(?:s|ing)?|(?:with\s+)?(?:an?\s+)?salar(?:y|ies)(?:\s+of)?)\s+(?:{PATTERN})",
     amounts.paid),
    (rf"{_LEAD}(?:{PATTERN})(?!\s*(?:km|miles?)\s+(?:of|from))", amounts.measure),
    (r"\bfor\s+free\b|(?<=\w\s)are\s+free\s*(?=$|[?.!])|\b(?:that|which)\s+(?:is|are)\s+free\b(?!\s+(?:of|from)\b)|\b(?:that\s+|which\s+)?(?:do(?:es)?n['’]?t|do(?:es)?\s+not)\s+cost\s+(?:anything|a\s+thing|money)\b"
     r"|\bfree\s+(?:admission|entry|entrance)\b|\bwithout\s+paying\b|\b(?:at\s+)?no\s+charge\b"
     r"|(?:(?<=events\s)|(?<=concerts\s)|(?<=courses\s)|(?<=museums\s)|(?<=workshops\s))free\b(?!\s+(?:of|from)\b)|\b(?:that\s+|which\s+)?costs?\s+nothing\b|\bfree\s+of\s+charge\b|\bat\s+no\s+cost\b|(?<!gluten\s)(?<!dairy\s)(?<!nut\s)\bfree\s+(?=(?:[a-z]+\s+){0,2}(?:events?|admission|entry|things|activities|concerts?|tours?|museums?|workshops?|classes|festivals?"
     r"|courses?|lectures?|exhibitions?|shows?|films?|markets?|talks?|walks?)\b)",
     amounts.free),
    (rf"(?P<negated>\b(?:not|non)[\s-]+)?\b(?P<diet>{_alternatives(list(DIETS))})\b", _diet),
    (r"\b(?:that\s+|which\s+)?(?P<negated>(?:do(?:es)?n['’]?t|do(?:es)?\s+not)\s+)?(?:takes?|accepts?|taking|accepting)\s+"
     r"(?P<none>no\s+)?(?:reservations?|bookings?)\b", _reservations),
    (r"\b(?:that\s+(?:is|are)\s+|what\s+is\s+|which\s+\w+\s+are\s+)?(?P<out>out[\s-]of[\s-]stock|sold[\s-]out)\b"
     r"(?:\s+(?:right\s+now|at\s+the\s+moment|currently))?", _stock),
    (r"\b(?:i\s+can\s+buy\s+)?(?:in|from|on|at)\s+(?:the|your|this)\s+(?:whole\s+|entire\s+|online\s+|museum\s+|gift\s+|college\s+)?"
     r"(?:(?P<shop>shop|store|catalogu?e|range|inventory)|web\s?site|site|page|collection)\b(?!\s+(?!but\b|under\b|for\b)\w)",
     _in_the_shop),
    (rf"\b(?:in|(?P<speaks>(?:(?:that|which|who)\s+)?(?:speaks?|speaking|understands?)))\s+(?P<language>{'|'.join(LANGUAGES)})\b"
     r"(?!\s+[A-Z])", _in_language),
    (r"\b(?:near(?:by)?|close\s+to|next\s+to|not\s+far\s+from|around)\s+(?P<far>)(?P<unit>)" + _REST, placing.near),
    (r"\b(?P<negated>not\s+)?(?:in|from|at|around)\s+(?P<article>the\s+)?" + _REST, placing.within),
    (r"\b(?:(?:that|which)\s+(?:has|have|contains?|includes?|uses?)|contain(?:ing|s)|includ(?:ing|es)|made\s+(?:with|of|from))\s+"
     r"(?:some\s+|any\s+)?(?P<things>.+)", _having),
    (r"\bwith\s+(?:(?:some|fresh|lots\s+of|plenty\s+of|an?|the)\s+)?(?P<things>[^\W\d_].*)", _with),
    (r"\b(?:on\s+sale|discounted|reduced(?:\s+in\s+price)?|on\s+special\s+offer)\b(?:\s+(?:right\s+now|now|at\s+the\s+moment|currently))?",
     _on_sale),
    (r"\b(?:that\s+(?:is|are)\s+)?(?P<out>(?!))?in[\s-]stock\b", _stock),
    (r"\b(?P<out>(?!))?(?:(?:that\s+(?:is|are)|which\s+are)\s+)?(?:still\s+)?(?:available|bookable|free\s+places|with\s+(?:free\s+)?places\s+left)(?=\s*(?:$|[?.!,]))"
     r"|^(?:only\s+)?(?:still\s+)?available\s+(?=\w)", _stock),
    *((rf"\b(?:the\s+)?(?:{words})\b", _ordered(field, ascending)) for words, field, ascending in _ORDERS),
    (ORDER_PATTERN, ordered),
    (r"\b(?:(?P<cheap>cheap|inexpensive|affordable|low[\s-]priced)|expensive|fancy|upscale|high[\s-]end)\b", _priced),
    (rf"\b(?P<types>(?:{_TYPES})(?:(?:\s*,\s*(?:and\s+|or\s+)?|\s+(?:and|or)\s+)(?:{_TYPES}))*)\b", _typed),
)  # fmt: skip


# Rules for words that are filters in a question, but only mentioned in prose.
_LOOSE: Final = frozenset({_having, _with, _typed, counted, _priced, roomy, aged, every_day, starting})
_RULES: Final = PatternTable[Rule](_TABLE)
