"""What a question about one thing asks for: a fact, by its field, or a yes or no. Pure.

It reads English; questions in other languages are translated first (``glossary``).
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final

import msgspec

from sabir.search.engine.base import Fields

from . import predicates
from .conditions import Condition
from .prefilter import PatternTable
from .structured import Around
from .vocabulary import NUTRIENTS
from .words import fold

_OPENED: Final = r"(?:days?|evenings?|house|studios?|mic|air|weekend|morning|afternoon)\b"  # an open day is an event
_NO_EVENT: Final = rf"(?!\s+{_OPENED})"
# Fields by the words that ask for them; the first match counts.
_FACTS: Final = PatternTable[tuple[str, ...]](
    (
        (r"\b(?:phone|telephone|phone\s+number|telephone\s+number)\b|\b(?:can|do|could)\s+i\s+(?:call|ring|phone)\b|\bthe\s+number\s+(?:of|for)\b"
         r"|\b(?:direct|mobile|cell|contact|emergency|whose|his|her|their|your)\s+(?:direct\s+|mobile\s+|office\s+)?(?:number|line)\b",
         ("telephone",)),
        (r"\be-?mail\b", ("email",)),
        (r"\b(?:how|where)\b.*\b(?:contact|get\s+in\s+touch)\b|\bcontact\s+details\b", ("email", "telephone")),
        (r"\b(?:when|how\s+soon|(?:what|which)\s+(?:day|date|month))\b.*\b(?:available|vacant|move\s+in(?:to)?|moving\s+in|(?:can|could|may)\s+(?:i|we)\s+(?:have|rent|get)|(?:is|are|be|becomes?|falls?)\s+(?:\w+\s+){0,3}free)\b",
         ("availabilitystarts", "availablefrom", "date", "time")),
        (r"\bwhen\s+(?:was|were)\b.*\b(?:opened|founded|established|launched|built|set\s+up)\b",
         ("foundingdate", "datecreated")),  # not the day of an event there
        (r"\b(?:opening|closing|open|business)\s+(?:hours|times?)\b|\bhours\b", ("openinghours",)),
        (r"\bstart(?:ing)?\s+time\b", ("time",)),
        (rf"\bwhen\b.*\bopen\s+{_OPENED}", ("date",)),
        (rf"\bwhat\s+time\b.*\bopen\s+{_OPENED}", ("time", "date")),
        (rf"\b(?:when|what\s+time|how\s+late|until\s+when|how\s+early)\b.*\b(?:opens?|closes?|closed)\b{_NO_EVENT}",
         ("openinghours",)),
        (r"\b(?:what|which)\s+days?\b.*\b(?:open|closed?)\b", ("openinghours",)),
        (rf"\b(?:when|what\s+time|how\s+late)\b\s+(?:is|are)\b.*\bopen\b{_NO_EVENT}", ("openinghours",)),
        (r"\b(?:do|would|will|must|should|can)\s+(?:i|we|one)\s+(?:have\s+to\s+)?pay\b", ("price", "pricerange")),
        (rf"\bhow\s+long\b.*\bopen\b{_NO_EVENT}", ("openinghours",)),
        (r"\b(?:salary|salaries|wages?|earns?|paid|pay)\b", ("basesalary", "estimatedsalary")),
        (r"\b(?:apply|applications?|deadline|closing\s+date)\b", ("validthrough", "applicationdeadline")),
        (r"\bhow\s+many\s+pages\b|\bpage\s+count\b", ("numberofpages",)),
        (r"\bisbn\b", ("isbn",)),
        (r"\b(?:web\s?site|home\s?page|web\s+address|url)\b", ("url",)),
        (r"\bwho\s+(?:teaches|taught|leads|instructs)\b|\b(?:teacher|instructor|tutor)\b",
         ("instructor", "performer", "author")),
        (r"\b(?:published|released|came\s+out)\b", ("datepublished", "datecreated", "date")),
        (r"\bmade\s+(?:of|from)\b|\bmaterials?\b",
         ("material", "artmaterial", "artmedium", "artworksurface", "recipeingredient")),
        (r"\bingredients?\b|\bwhat\s+(?:is|goes)\s+in\b|\bwhat\s+do\s+(?:i|we|you)\s+need\s+(?:for|to\s+(?:make|cook|bake))\b",
         ("recipeingredient", "supply")),
        *((rf"\bhow\s+much\s+{name}\b|\b(?:grams?|g)\s+of\s+{name}\b|^\W*{name}\s+(?:content\s+)?(?:in|of)\b", (field,))
          for name, field in NUTRIENTS.items()),
        (r"\bcalories\b|\bkcal\b", ("calories",)),
        (r"\bhow\s+many\s+(?:places|spots|seats|participants)\b(?!\s+(?:are\s+)?(?:left|free|available|remain))|\b(?:group|class)\s+size\b"
         r"|\bhow\s+(?:big|large)\s+(?:is|are)\s+the\s+(?:groups?|class(?:es)?)\b",
         ("maximumattendeecapacity", "recipeyield")),
        (r"\bhow\s+many\s+(?:people|servings?|portions?|guests)\b|\bserves?\s+how\s+many\b|\bhow\s+many\b.*\b(?:feeds?|serves?|makes?|yields?)\b",
         ("recipeyield", "maximumattendeecapacity")),
        (r"\bhow\s+(?:tall|high)\b|\bheight\b", ("height",)), (r"\bhow\s+wide\b|\bwidth\b", ("width",)),
        (r"\bhow\s+deep\b|\bdepth\b", ("depth",)),
        (r"\bhow\s+(?:big|large)\b|\bdimensions?\b", ("size", "height", "width")),
        (r"\bhow\s+old\b(?=\s+(?:do|does|must|should|can|may|will)\b)", ("typicalagerange",)),
        (r"\bhow\s+old\b", ("foundingdate", "datecreated", "datepublished", "typicalagerange")),
        (r"\b(?:what|which)\s+year\b|\bwhen\b.*\b(?:paint(?:ed)?|made|built|created|carved|drawn|woven|written)\b",
         ("datecreated", "datepublished", "date")),
        (r"\bwho\s+(?:made|painted|created|carved|drew|built|sculpted|designed)\b|\bartist\b",
         ("creator", "artist", "brand", "manufacturer", "author")),
        (r"\bhow\s+far\b|\bwhat\s+(?:range|distance)\b", ("distance", "range")),
        (r"\bset\s+(?:me|us|you)\s+back\b|\bwhat\s+do(?:es)?\b.*\bgo\s+for\b", ("price", "pricerange")),
        (r"\bwhat(?:['’]?s|\s+is)\b.*\b(?:a|per|each)\s+(?:month|week|night|year|hour|day|person|head)\W*$|\bwhat(?:['’]?s|\s+is)\s+the\s+(?:monthly\s+|weekly\s+)?rent\b"
         r"|\bhow\s+much\s+rent\b", ("price", "pricerange")),
        (r"\bhow\s+heavy\b|\bhow\s+much\b.*\bweigh\b|\bweigh(?:t|s)?\b", ("weight",)),
        (r"\bhow\s+(?:much(?!\s+time)|expensive)\b|\b(?:price|prices|cost|costs|priced|fee|fees|admission)\b|\bwhat\s+do(?:es)?\b.*\bcosts?\b",
         ("price", "pricerange", "basesalary", "estimatedsalary")),
        (r"\bhow\s+(?:long|much\s+time|many\s+(?:minutes|hours)|fast|quick(?:ly)?)\b|\b(?:cooking|baking|prep(?:aration)?)\s+time\b"
         r"|\bduration\b", ("totaltime", "duration", "courseworkload", "span")),
        (r"\b(?:when|what\s+time|how\s+late|until\s+when)\b.*\b(?:ends?|finish(?:es)?|over|goes?\s+on|runs?|lasts?)\b",
         ("endtime", "enddate", "openinghours")),
        (r"\bwhat\s+time\b", ("time", "openinghours", "date")),
        (r"\bwhen\b.*\b(?:starts?|begins?)\b", ("time", "date", "openinghours")),
        (r"\b(?:what|which)\s+days\b", ("openinghours", "date")),
        (r"\bwhen\b|\bwhat\s+(?:day|date)\b|\bwhich\s+day\b", ("date", "openinghours")),
        (r"\bwhere\b|\baddress\b|\blocat(?:ed|ion)\b|\bhow\s+do\s+i\s+get\s+to\b|\bvenue\b|\b(?:what|which)\s+(?:street|city|town|place)\b"
         r"|\bdirections\b", ("address",)),
        (r"\bin\s+(?:what|which)\s+(?:room|hall|building|studio)\b"
         r"|\b(?:what|which)\s+(?:room|hall|building|studio)\s+(?:is|are|was|will)\b.*\b(?:in|at|held)\W*$",
         ("address",)),
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
        (r"\b(?:what|which)\s+ages?\b", ("typicalagerange",)),
        (r"\bgenre\b", ("genre",)),
        (r"\bpublisher\b", ("publisher",)),
    )
)  # fmt: skip

_LEADS: Final = r"^\W*(?:(?:and|so|but|ok|okay|hi|hello|hey|please|sorry|also|then)[\s,]+)*"
_YES_NO: Final = re.compile(
    _LEADS + r"(?:is|are|am|was|were|does|do|did|can|could|has|have|will|would|may|must|should"
    r"|isn['’]t|aren['’]t|doesn['’]t)\b",
    re.IGNORECASE,
)
_OPEN: Final = re.compile(
    _LEADS + r"(?:(?:at|until|on|in|for|from|by|of)\s+)?(?:what|whats|which|who|whose|when|where|why|how)\b",
    re.IGNORECASE,
)
_IS_LATER: Final = re.compile(
    r"\b(?:is|does)\b(?!\s+there\b)", re.IGNORECASE
)  # the word order of other languages, once glossed
# "An episode that is not about tea" asks for neither yes nor no.
_RELATIVE: Final = re.compile(
    r"\w\W+(?:(?:that|which|who)\s+(?:is|are|was|were|does|do|has|have|not|never)|what\s+not)\b", re.IGNORECASE
)
# "Do you have ...?", "is there ...?" look for things, unless they name one and say more of it.
_LOOKS_FOR: Final = re.compile(
    r"^\W*(?:do\s+you\s+(?:have|sell|know|offer|stock)|have\s+you\s+got|is\s+there|are\s+there|can\s+you|could\s+you"
    r"|would\s+you|can\s+i\s+(?:get|buy|find|have)|do\s+we\s+have(?!\s+to\b))\b",
    re.IGNORECASE,
)
_THERE_IN: Final = re.compile(r"^\W*(?:is|are)\s+there\s+[\w\s,'’-]{1,80}\b(?:in|at|on|for|with)\W*$", re.IGNORECASE)
# "Are there still tickets for it?" asks whether it is sold out.
_LEFT: Final = re.compile(r"\b(?:tickets?|seats?|spots?|places)\b", re.IGNORECASE)
_PLACES_LEFT: Final = re.compile(
    r"\b(?:tickets?|seats?|spots?|places|spaces)\b(?:\s+still)?\s+(?:left|available|free)\b", re.IGNORECASE
)


def asks_for_places(question: str) -> bool:
    """Whether it asks if there is room: "are there places left on the tour?"."""
    return _PLACES_LEFT.search(question) is not None


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


# "How many eggs are in it?", "how much butter do I need?": the ingredients state that.
_COUNTED: Final = re.compile(r"\bhow\s+(?:many|much)\s+(?P<thing>[^\W\d_]+)\b", re.IGNORECASE)
_NOT_COUNTED: Final = frozenset(
    """and or do does is are it they the a an for to time money people persons person servings serving portions pages
    page would will should can could shall was were must have has cost costs on in of if this that these those your my i
    we you he she money per longer more less each one grams gram weight minutes hours calories stars
    reviews reservations tickets days weeks seats places rooms""".split()  # noqa: SIM905
) | frozenset(word for name in NUTRIENTS for word in name.split())


# Other words for what a field states.
_OTHER_WORDS: Final = {"price": ("rent",), "address": ("room", "hall", "building", "studio")}


class Asked(msgspec.Struct, frozen=True):
    """What is asked about a thing: the ``fields`` that state it, or ``conditions`` that are true of it or not.

    ``words`` are what the conditions were read from; ``unread`` those that no rule understands.
    """

    fields: tuple[str, ...] = ()
    conditions: tuple[Condition, ...] = ()
    words: str = ""
    unread: tuple[str, ...] = ()
    is_yes_no: bool = False
    around: tuple[Around, ...] = ()
    about: str = ""  # the words of a question that asks for a fact
    whole: str = ""  # the same with those that name the thing
    read: tuple[str, ...] = ()  # the words that name the field

    def __bool__(self) -> bool:
        return bool(self.fields) or self.is_yes_no


def asked(question: str, rest: str, known: Fields, now: datetime, *, is_named: bool = False) -> Asked:
    """What a question asks of the thing it is about; ``rest`` is the question without the name.

    ``is_named``: the question has the thing's own name, so that what else it says is said of that thing: "do you have
    the Heron tent in red?", "Strand Library open on Sunday?".
    """
    question, rest = _POLITE.sub("", question, count=1), _POLITE.sub("", rest, count=1)
    said, rest = rest, predicates.plain(rest)
    if _LOOKS_FOR.match(question) and not (_THERE_IN.match(rest) or _LEFT.search(rest) or _RESERVES.search(rest)):
        return _of_named(rest, known, now) if is_named else Asked()
    possible = _FACTS.possible(rest, said)
    fields = next((fields for pattern, fields in possible if pattern.search(rest) or pattern.search(said)), ())
    if (counted := _COUNTED.search(rest)) and fold(counted["thing"]) not in _NOT_COUNTED:
        return Asked(fields or ("recipeingredient",), words=counted["thing"])
    is_later = bool(_IS_LATER.search(rest)) and not (fields or _OPEN.match(question) or _RELATIVE.search(rest))
    starts = is_later or bool(_YES_NO.match(question) or _YES_NO.match(rest))
    if not starts:
        is_verbless = is_named and not fields and question.rstrip().endswith("?") and not _OPEN.match(question)
        if is_verbless:
            return _of_named(rest, known, now)
        return Asked(fields, about=rest, read=_OTHER_WORDS.get(fields[0], ()) if fields else ())
    read = predicates.read(rest, known, now)
    if fields and (fields[0] == "telephone" or not (read.conditions or read.around)):
        return Asked(fields)
    is_read = bool(read.conditions or read.around or read.unread)
    return Asked((), read.conditions, read.words, read.unread, is_read, read.around)


# An introduction before a question: "We are coming by car, where can we park?".
_LED_UP: Final = re.compile(
    r"^(?!\W*(?:is|are|can|could|do|does|may|must|will|should)\b)(?=[^?]*?\b(?:i|we|my|our|i['’]m|we['’]re|he|she|hello|hi)\b)[^?]{4,160}?(?:\s[-–—]|[.!:;,])\s+(?=(?:is|are|do|does|can|could|how|what|when|where|which|who|will|may)\s)",
    re.IGNORECASE,
)


_AGE_LED: Final = re.compile(
    r"\b(?:is|are|am|turned|aged?|in|['’]s|['’]m)\s+(?P<a>\d{1,2}|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)\b"
    r"|\b(?P<b>\d{1,2})[\s-](?:years?[\s-]old|ans|años|jahre)\b",
    re.IGNORECASE,
)


def first_asked(text: str) -> str:
    """The question, without what follows it: "Does it contain peanuts? My son is allergic."."""
    before, mark, behind = text.partition("?")
    text = before + mark if mark and len(before.split()) > 1 and "?" not in behind else text
    led = _LED_UP.match(text)
    age = _AGE_LED.search(led.group()) if led is not None else None
    if led is not None and age is not None:  # "my son is six, can he come?"
        return f"{text[led.end() :].rstrip(' ?')} aged {age['a'] or age['b']}?"
    return _LED_UP.sub("", text, count=1)


_WHETHER_THERE: Final = re.compile(
    r"^\W*(?:do\s+you\s+(?:have|sell|stock|offer|carry)|have\s+you\s+got|is\s+there|are\s+there|can\s+(?:i|we)\s+(?:get|buy|find)"
    r"|gibt\s+es|gibts|habt\s+ihr|haben\s+sie|verkauft\s+ihr|hay|ten[eé]is|tienen|venden|avez-vous|vendez-vous|y\s+a-t-il"
    r"|est-ce\s+qu['’]il\s+y\s+a)\b|.{1,80}(?:あります|売っています|置いています)か",
    re.IGNORECASE,
)


def asks_whether_there(question: str) -> bool:
    """Whether a question asks if there is such a thing: "do you have …?", "gibt es …?"."""
    return _WHETHER_THERE.match(question) is not None


def _of_named(rest: str, known: Fields, now: datetime) -> Asked:
    """What is asked about a named thing, if every other word is understood."""
    read = predicates.read(_LOOKS_FOR.sub("", rest, count=1), known, now)
    if not (read.conditions or read.around) or read.unread:
        return Asked()
    return Asked((), read.conditions, read.words, (), True, read.around)


def plainly_asked(question: str) -> str:
    """The question without words that only ask to be told: "I'd like to know …"."""
    return _POLITE.sub("", question, count=1)


def is_asking(question: str) -> bool:
    """Whether a question asks for a fact, or for yes or no."""
    return bool(_YES_NO.match(question)) or any(pattern.search(question) for pattern, _ in _FACTS.possible(question))


def is_open(question: str) -> bool:
    """Whether a question asks for a fact ("how many …", "who …"), or only names one ("mileage of the van")."""
    return _OPEN.match(question) is not None or _YES_NO.match(question) is None


def is_yes_no(question: str) -> bool:
    """Whether a question is to be answered by yes or no."""
    return _YES_NO.match(question) is not None


def begins_open(question: str) -> bool:
    """Whether a question begins with "how", "when", "where" and the like."""
    return _OPEN.match(question) is not None


def asks_whether(question: str, english: str) -> bool:
    """Whether a question, also read in English, is to be answered by yes or no, however it begins: "my cat stays
    indoors, does she need jabs?", "on peut louer une raquette ?"."""
    is_abroad = english != question
    if begins_open(english) or _TELL.search(english) or (is_abroad and _WH_ABROAD.search(question)):
        return False
    if is_yes_no(english) or asks_whether_there(question) or asks_whether_there(english):
        return True
    inverted = _INVERTED.search(english)
    if inverted is not None:
        return _WH.search(english[: inverted.start()]) is None
    return is_abroad and question.rstrip().endswith(_ASKING) and _WH.search(english) is None


_ASKING: Final = ("?", "か", "か？", "か。")
_TELL: Final = re.compile(
    r"\b(?:tell|know|say|explain|show)\s+(?:me\s+|us\s+)?(?:what|which|who|whose|when|where|why|how)\b", re.IGNORECASE
)
_WH: Final = re.compile(r"\b(?:what|whats|which|who|whose|whom|when|where|why|how)\b", re.IGNORECASE)
_WH_ABROAD: Final = re.compile(
    r"\b(?:qué|cuál\w*|cuánt\w*|dónde|cuándo|quién\w*|cómo|quels?|quelles?|combien|où|quand|comment|pourquoi"
    r"|qui|quoi|wer|wen|wem|was|wie|wo|wann|wohin|woher|welche[rsnm]?|warum|wieviele?)\b|何|いつ|どこ|誰|いくら|どう|どの|どれ",
    re.IGNORECASE,
)
_INVERTED: Final = re.compile(
    r"(?:^|[\s,;:–-])(?:is|are|do|does|did|can|could|may|must|will|would|should|has|have)\s+"
    r"(?:i|we|you|they|he|she|it|that|those|there|one|my|our|your|the|this)\b",
    re.IGNORECASE,
)
