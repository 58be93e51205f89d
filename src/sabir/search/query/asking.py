"""What a question about one thing asks for: a fact, by its field, or a yes or no. Pure.

It reads English; questions in other languages are translated first (``glossary``).
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final

import msgspec

from sabir.search.engine.base import Fields
from sabir.search.items.attributes import OPEN_AT, OPEN_ON

from .conditions import AnyOf, Condition, Has, Is, Not, Range
from .dates import WEEKDAYS
from .structured import kinds
from .text import FREE, from_text
from .vocabulary import DIETS, NUTRIENTS
from .when import OPEN_AT_PATTERN, open_then
from .words import content_words

# Fields by the words that ask for them; the first match counts.
_FACTS: Final = tuple(
    (re.compile(pattern, re.IGNORECASE), fields)
    for pattern, fields in (
        (r"\b(?:phone|telephone|phone\s+number|telephone\s+number)\b|\bcan\s+i\s+call\b|\bthe\s+number\s+(?:of|for)\W*$",
         ("telephone",)),
        (r"\be-?mail\b", ("email",)),
        (r"\b(?:opening|open|business)\s+(?:hours|times?)\b|\bhours\b", ("openinghours",)),
        (r"\b(?:when|what\s+time|how\s+late|until\s+when|how\s+early)\b.*\b(?:opens?|closes?|closed)\b",
         ("openinghours",)),
        (r"\b(?:what|which)\s+days?\b.*\b(?:open|closed?)\b", ("openinghours",)),
        (r"\b(?:when|what\s+time|how\s+late)\b\s+(?:is|are)\b.*\bopen\b", ("openinghours",)),
        (r"\b(?:salary|salaries|wages?|earns?|paid|pay)\b", ("basesalary", "estimatedsalary")),
        (r"\b(?:apply|applications?|deadline|closing\s+date)\b", ("validthrough", "applicationdeadline")),
        (r"\bhow\s+many\s+pages\b|\bpage\s+count\b", ("numberofpages",)),
        (r"\bisbn\b", ("isbn",)),
        (r"\b(?:web\s?site|home\s?page|web\s+address|url)\b", ("url",)),
        (r"\bwho\s+(?:teaches|taught|leads|instructs)\b|\b(?:teacher|instructor|tutor)\b",
         ("instructor", "performer", "author")),
        (r"\b(?:published|released|came\s+out)\b", ("datepublished", "datecreated", "date")),
        (r"\bmade\s+(?:of|from)\b|\bmaterials?\b", ("material", "recipeingredient")),
        (r"\bingredients?\b|\bwhat\s+(?:is|goes)\s+in\b|\bwhat\s+do\s+(?:i|we|you)\s+need\s+(?:for|to\s+(?:make|cook|bake))\b",
         ("recipeingredient", "supply")),
        *((rf"\bhow\s+much\s+{name}\b", (field,)) for name, field in NUTRIENTS.items()),
        (r"\bcalories\b|\bkcal\b", ("calories",)),
        (r"\bhow\s+many\s+(?:people|servings?|portions?|guests)\b|\bserves?\s+how\s+many\b|\bhow\s+many\b.*\b(?:feeds?|serves?|makes?|yields?)\b",
         ("recipeyield",)),
        (r"\bhow\s+heavy\b|\bhow\s+much\b.*\bweigh\b|\bweigh(?:t|s)?\b", ("weight",)),
        (r"\bhow\s+(?:much(?!\s+time)|expensive)\b|\b(?:price|prices|cost|costs|priced|fee|fees|admission)\b|\bwhat\s+do(?:es)?\b.*\bcosts?\b",
         ("price", "pricerange")),
        (r"\bhow\s+(?:long|much\s+time|many\s+(?:minutes|hours)|fast|quick(?:ly)?)\b|\b(?:cooking|baking|prep(?:aration)?)\s+time\b"
         r"|\bduration\b", ("totaltime", "duration", "courseworkload", "span")),
        (r"\b(?:when|what\s+time|how\s+late|until\s+when)\b.*\b(?:ends?|finish(?:es)?|over|goes?\s+on|runs?|lasts?)\b",
         ("endtime", "enddate", "openinghours")),
        (r"\bwhat\s+time\b", ("time", "openinghours", "date")),
        (r"\bwhen\b.*\b(?:starts?|begins?)\b", ("time", "date", "openinghours")),
        (r"\bwhen\b|\bwhat\s+(?:day|date)\b|\bwhich\s+day\b", ("date", "openinghours")),
        (r"\bwhere\b|\baddress\b|\blocat(?:ed|ion)\b|\bhow\s+do\s+i\s+get\s+to\b|\bvenue\b|\b(?:what|which)\s+(?:street|city|town|place)\b"
         r"|\bdirections\b", ("address",)),
        (r"\bratings?\b|\brated\b|\bstars\b|\bhow\s+good\b|\breviews?\b", ("stars",)),
        (r"\bwhat\s+colou?rs?\b|\bwhich\s+colou?rs?\b", ("color",)),
        (r"\b(?:what|which)\s+sizes?\b", ("size",)),
        (r"\bwho\s+(?:makes?|made|sells?|produces?)\b|\b(?:brand|manufacturer|vendor)\b", ("brand", "manufacturer")),
        (r"\bwho\s+(?:wrote|is\s+the\s+author)\b|\bauthor\b|\bwhose\b", ("author",)),
        (r"\bwho\s+(?:organi[sz]es|hosts|runs)\b|\borgani[sz]er\b", ("organizer",)),
        (r"\bwho\s+(?:plays|performs|is\s+playing)\b", ("performer",)),
        (r"\bwhat\s+(?:kind|sort|type)\s+of\s+(?:food|cuisine)\b|\bcuisine\b",
         ("servescuisine", "recipecuisine")),
        (r"\b(?:what|which)\s+(?:level|difficulty)\b", ("educationallevel",)),
        (r"\b(?:what|which)\s+ages?\b|\bhow\s+old\b", ("typicalagerange",)),
        (r"\bgenre\b", ("genre",)),
        (r"\bpublisher\b", ("publisher",)),
    )
)  # fmt: skip

_YES_NO: Final = re.compile(
    r"^\W*(?:(?:and|so|but|ok|okay|hi|hello|hey|please)[\s,]+)*"
    r"(?:is|are|was|were|does|do|did|can|could|has|have|will|would|may|isn['’]t|aren['’]t|doesn['’]t)\b",
    re.IGNORECASE,
)
_OPEN: Final = re.compile(
    r"^\W*(?:(?:and|so|but|ok|okay|please)[\s,]+)*(?:(?:at|until|on|in|for|from|by|of)\s+)?"
    r"(?:what|whats|which|who|whose|when|where|why|how)\b",
    re.IGNORECASE,
)
_IS_LATER: Final = re.compile(r"\b(?:is|does)\b(?!\s+there\b)", re.IGNORECASE)  # the word order of translated questions
_OPENER: Final = re.compile(
    r"^\W*(?:(?:and|so|but|ok|okay|please)[\s,]+)*(?:(?:is|are|was|were|does|do|did|can|could|has|have|will|would|may)\b\s*)?"
    r"(?:(?:i|we|you|it|he|she|they|one)\b\s*)?(?:(?:go\s+to|get|make|cook|buy|visit|come\s+to|be)\b\s*)?",
    re.IGNORECASE,
)
# "Do you have ...?" and "is there ...?" search for things; they do not ask about one.
_LOOKS_FOR: Final = re.compile(
    r"^\W*(?:do\s+you\s+(?:have|sell|know|offer)|have\s+you\s+got|is\s+there|are\s+there|can\s+you|could\s+you|would\s+you"
    r"|can\s+i\s+(?:get|buy|find|have)|do\s+we\s+have)\b",
    re.IGNORECASE,
)
_THERE_IN: Final = re.compile(r"^\W*(?:is|are)\s+there\s+[\w\s,'’-]{1,80}\b(?:in|at|on|for|with)\W*$", re.IGNORECASE)
# "Are there still tickets for it?" asks whether it is sold out.
_LEFT: Final = re.compile(r"\b(?:tickets?|seats?|spots?|places)\b", re.IGNORECASE)
# Phrases that only ask to be told: "can you give me the number of ...".
_POLITE: Final = re.compile(
    r"^\W*(?:please\s+)?(?:(?:can|could|would|will)\s+you\s+(?:please\s+)?(?:tell|give|show)\s+(?:me|us)\s+"
    r"|do\s+you\s+know\s+(?=what|when|where|how|who|whether|if)|i\s*(?:would|['’]d)?\s+(?:like|want|need)\s+to\s+know\s+)"
    r"(?:if\s+|whether\s+)?",
    re.IGNORECASE,
)
_RESERVES: Final = re.compile(
    r"\b(?:reserv\w+|book\s+(?:a\s+)?(?:table|seat|room)|make\s+a\s+booking)\b", re.IGNORECASE
)
_OPEN_AT: Final = re.compile(OPEN_AT_PATTERN, re.IGNORECASE)
_DAY: Final = "|".join(WEEKDAYS)
_OFF: Final = ("event cancelled", "cancelled", "event postponed", "postponed")
_IN_STOCK: Final[tuple[str, ...]] = ("in stock", "limited availability", "pre order", "online only", "in store only")


class Asked(msgspec.Struct, frozen=True):
    """What is asked about a thing: the ``fields`` that state it, or ``conditions`` that are true of it or not.

    ``words`` are what the conditions were read from; ``unread`` those that no rule understands.
    """

    fields: tuple[str, ...] = ()
    conditions: tuple[Condition, ...] = ()
    words: str = ""
    unread: tuple[str, ...] = ()
    is_yes_no: bool = False

    def __bool__(self) -> bool:
        return bool(self.fields) or self.is_yes_no


def asked(question: str, rest: str, known: Fields, now: datetime) -> Asked:
    """What a question asks about the thing it names; ``rest`` is the question without the name."""
    question, rest = _POLITE.sub("", question, count=1), _POLITE.sub("", rest, count=1)
    asks_of_it = _THERE_IN.match(rest) or _LEFT.search(rest) or _RESERVES.search(rest)
    if _LOOKS_FOR.match(question) and not asks_of_it:
        return Asked()
    fields = next((fields for pattern, fields in _FACTS if pattern.search(rest)), ())
    starts = bool(_YES_NO.match(question)) or bool(_IS_LATER.search(rest) and not fields and not _OPEN.match(question))
    if not starts:
        return Asked(fields)
    predicate = _OPENER.sub("", rest.strip(" ?!."), count=1).strip(" ?!.,")
    predicate = re.sub(r"\bis\b", " ", predicate).strip()
    special = _at_a_time(predicate, known, now) or _special(predicate, known)
    if special and not (fields and fields[0] == "telephone"):
        return Asked((), special, predicate, (), True)
    if fields and not _decides(rest):
        return Asked(fields)
    read = from_text(predicate, known, now)
    unread = tuple(word for word in content_words(read.text) if word not in IDLE) if not read.conditions else ()
    return Asked((), read.conditions, predicate, unread, bool(read.conditions or unread))


def is_asking(question: str) -> bool:
    """Whether a question asks for a fact, or for yes or no."""
    return bool(_YES_NO.match(question)) or any(pattern.search(question) for pattern, _ in _FACTS)


# Words of a yes-or-no question that do not say what is asked.
IDLE: Final = frozenset(
    """contain have come go make really still also there any recipe allow allowed welcome permitted possible
    available offer offered provide provided serve served sell sold position job post course class book event place
    product dish suitable they it use used include included accept accepted bring take get find see eat drink stay
    visit wear work fit run along inside taught teach held given made""".split()  # noqa: SIM905
)


def _decides(rest: str) -> bool:
    """ "Does it cost less than $20?" wants yes or no, "is the price known?" the price."""
    return bool(
        re.search(r"\b(?:under|over|less|more|cheaper|below|above|at\s+least|at\s+most|within|anything)\b", rest, re.I)
    )


def _at_a_time(predicate: str, known: Fields, now: datetime) -> tuple[Condition, ...]:
    """ "Open at 8 pm on Fridays", "closed on Sunday mornings"."""
    is_open = re.sub(r"\bclosed\b", "open", predicate, flags=re.IGNORECASE)
    match = _OPEN_AT.search(is_open)
    condition = open_then(match, now) if match and OPEN_AT in known.words else None
    if condition is None:
        return ()
    return (condition,) if is_open == predicate else (Not(condition),)


def _special(predicate: str, known: Fields) -> tuple[Condition, ...]:
    for pattern, conditions in _SPECIAL:
        match = re.search(pattern, predicate, re.IGNORECASE)
        if match:
            return conditions(match)
    return ()


def _on_day(match: re.Match[str]) -> tuple[Condition, ...]:
    return (Is(OPEN_ON, (match["day"].casefold().rstrip("s"),)),)


def _contains(match: re.Match[str]) -> tuple[Condition, ...]:
    things = [item for item in re.split(r"\s*,\s*|\s+(?:and|or)\s+", match["things"].strip(" ?")) if item]
    return (AnyOf(tuple(Has(kinds(thing)) for thing in things)),)


# "Gluten free" is a diet, not a price.
_NO_DIET: Final = "".join(rf"(?<!\b{word[:-5]}\s)" for word in DIETS if word.endswith("-free"))
_SPECIAL: Final = (
    (rf"\bclosed\s+(?:on\s+)?(?:an?\s+)?(?P<day>{_DAY})s?\b", lambda m: (Not(_on_day(m)[0]),)),
    (rf"\bopen(?:ed)?\b.*?\b(?P<day>{_DAY})s?\b|\b(?P<other>{_DAY})s?\b.*\bopen(?:ed)?\b",
     lambda m: (Is(OPEN_ON, ((m["day"] or m["other"]).casefold().rstrip("s"),)),)),
    (rf"^(?:on\s+)?(?:an?\s+)?(?P<day>{_DAY})s?$", lambda m: (Is("weekday", (m["day"].casefold().rstrip("s"),)),)),
    (rf"(?<![\w-]){_NO_DIET}(?:for\s+)?free(?:\s+of\s+charge)?$|^free\b(?!\s+(?:of|from))", lambda m: FREE),
    (r"\b(?:sold\s+out|out\s+of\s+stock|fully\s+booked)\b", lambda m: (Not(Is("availability", _IN_STOCK)),)),
    (r"\b(?:tickets?|seats?|spots?|places)\b(?:\s+(?:left|available|for|to))?",
     lambda m: (Is("availability", _IN_STOCK),)),
    (r"\bcosts?\s+(?:anything|something|money)\b|\bhave\s+to\s+pay\b",
     lambda m: (Range("price", 0.0, None, with_low=False),)),
    (r"\b(?:going\s+ahead|taking\s+place|take\s+place|happening|still\s+on)$",
     lambda m: (Not(Is("eventstatus", _OFF)),)),
    (r"\b(?:in\s+stock|available|to\s+be\s+had)\b", lambda m: (Is("availability", _IN_STOCK),)),
    (r"\b(?:reserv\w+|book(?:ing)?s?(?:\s+a\s+table)?)\b", lambda m: (Is("acceptsreservations", ("true", "yes")),)),
    (r"\bcancell?ed\b", lambda m: (Is("eventstatus", ("event cancelled", "cancelled")),)),
    (r"\bpostponed\b", lambda m: (Is("eventstatus", ("event postponed", "postponed")),)),
    (r"^(?:[\w'’-]+\s+)?(?:contain|have|include|use|with|made\s+with)s?\s+(?:any\s+)?(?P<things>[\w\s,'’-]+?)(?:\s+in\s+(?:it|the))?$",
     _contains),
    (r"^there\s+(?:any\s+|an?\s+|some\s+)?(?P<things>[\w\s,'’-]+?)\s+(?:in|at|on|for|with)(?:\s+(?:it|the|this|that))?$",
     _contains),
    (r"^(?:any\s+)?(?P<things>[\w\s,'’-]+?)\s+in(?:\s+(?:it|the|this|that))?$", _contains),
)  # fmt: skip
