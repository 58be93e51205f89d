"""What is not wanted, in all the ways a question may say so. Pure.

A negator ("not", "aren't", "other than", "lacking") opens a scope. If rules read the whole scope as conditions ("in
December", "open on Mondays", "over $20"), the opposite of those must hold; otherwise the scope names things to leave
out, which is up to the caller.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import Final

from sabir.search.items.attributes import OPEN_ON, denials, recalled
from sabir.search.items.item import Item

from .aspects import COLOURS
from .conditions import AnyOf, Condition, During, Has, Is, Not, Range
from .dates import MONTH, WEEKDAYS
from .vocabulary import FOODS
from .words import tokens

_NT: Final = r"(?:n['’]?t|\s+not|\s+never)"
_PRONOUN: Final = r"(?:that\s+|which\s+|who\s+|where\s+(?:they|it|there)\s+)?"
_ARE: Final = r"(?:is|are|was|were)"
_DO: Final = r"(?:do|does|did|ca|can|could|would|wo|should)"
_VERB: Final = (
    r"(?:contain|have|include|use|serve|sell|offer|allow|need|require|involve|feature|want|like|eat|drink|tolerate|stand"
    r"|(?:talk|speak|deal|tell)(?:\s+(?:about|of|with))?|mention|cover"
    r"|get|show(?:\s+me)?|give(?:\s+me)?|digest|come\s+with|be)"
)
_IDLY: Final = r"(?!\s+(?:care|mind|know|matter|worry|think|understand|see|find)\b)"  # "I don't mind"
_MADE: Final = r"(?:made\s+(?:out\s+)?(?:of|from|with)|by|for|with|about|from|of)"
# A negator. Numbers have their own ("no more than", "not over"), and "not far from" is near.
NEGATOR: Final = (
    r"\b(?!(?:not?|never)\s+(?:more|less|fewer|longer|later|earlier|higher|lower|over|under|above|below|exceeding|far|only|just|matter)\b)"
    r"(?:"
    rf"{_PRONOUN}{_ARE}{_NT}(?:\s+{_MADE})?"
    rf"|(?:that|which|who)\s+ha(?:s|ve){_NT}\s+(?:yet\s+)?(?:been|got)(?:\s+{_MADE})?"
    rf"|(?:(?:because|as|if|since)\s+)?(?:someone\s+who\s+|people\s+who\s+|i\s+|we\s+|he\s+|she\s+|they\s+|{_PRONOUN})?{_DO}{_NT}{_IDLY}(?:\s+{_VERB}\b)?"
    rf"|cannot\s+{_VERB}|{_PRONOUN}(?:ha(?:s|ve)|contain(?:s|ing)?|with|using|including|includes?|uses?)\s+(?:no|neither|zero|nothing)"
    rf"|(?:that\s+)?(?:never|without)(?:\s+(?:using|containing|having|any\s+use\s+of|{_VERB}s?))?|with\s+neither|neither|nothing\s+with"
    r"|(?:in\s+)?(?:any(?:thing)?|every(?:thing)?|all)(?:\s+[a-z]+)?\s+(?:but|except(?:\s+for)?|other\s+than|apart\s+from|besides)"
    r"|(?:that\s+)?(?:leav(?:e|es|ing)\s+out|omit(?:s|ting)?|exclud(?:e|es|ing)|lack(?:s|ing)?|avoid(?:s|ing)?|skip(?:s|ping)?)"
    r"|except(?:\s+for)?|apart\s+from|aside\s+from|other\s+than|rather\s+than|instead\s+of|minus|hold\s+the|but\s+nothing\s+with"
    rf"|free\s+(?:of|from)(?!\s+(?:the\s+)?(?:\d|(?:{MONTH}|now|today|tomorrow|next|this)\b))|(?:(?:i['’]?m|(?:i|(?:my|our)\s+[a-z]+|he|she|we|they|who)\s+(?:am|is|are))\s+)?(?:allergic|intolerant)\s+to|i\s+(?:hate|dislike)|outside(?:\s+of)?"
    r"|nothing(?!\s+but\b)|but\s+no(?:t|ne)?|(?<!why\s)(?<!or\s)not|no"
    r")[\s-]+"
)
# Words that do not tell what is not wanted.
_OF_WHAT: Final = (*COLOURS, "oils?", "watercolou?r", "pencil", "ink", "wood", "glass", "wool", "bronze", "leather",
                   "metal", "plastic", "cotton", "steel")  # fmt: skip
FILLER: Final = (
    r"(?:(?:any|added|too|much|the|an?|be|being|taking|costing|really|actually|necessarily|held|made\s+(?:of|from|with)"
    r"|called|named|(?:anything\s+)?to\s+do\s+with|based\s+on|(?:made|meant|intended|designed|suitable|right)\s+for"
    r"|(?:written|taught|given|run|led|directed|played|sung)\s+by|set\s+in"
    r"|ones?(?=\s+(?:in|from|by|for|with|about)\b)|(?:for|by|with|about)(?=\s)"
    rf"|(?:in|of)(?=\s+(?:{'|'.join(_OF_WHAT)})\b))\s+)*"
)
# What ends the scope of a negator.
_END: Final = re.compile(
    r"\s*(?:[.;!?]|,(?!\s*(?:and|or|nor)\b)|\s(?:but|that|which|who|because|please|instead|and\s+(?:under|over|with|in|on|not|no|that))\b"
    r"|(?<=\w)\s+(?:under|below|over|above|near|within|before|after|with|for|between|cheaper|less|up\s+to|ones?)\b)",
    re.IGNORECASE,
)
HAS_HOURS: Final = AnyOf(tuple(Is(OPEN_ON, (day,)) for day in WEEKDAYS))
GONE: Final = ("out of stock", "discontinued", "back order")
THERE: Final = ("in stock", "limited availability")


def scope_of(text: str) -> str:
    """The part of a text that a preceding negator applies to."""
    end = _END.search(text, 1)
    return text[: end.start()] if end else text


_REFUSED_NEXT: Final = re.compile(rf"{NEGATOR}{FILLER}$", re.IGNORECASE)


# "I have the yarn but no needles": what the asker lacks is wanted.
_HAS_OTHERS: Final = re.compile(r"^\W*(?:(?:i|we)(?:['’]ve|\s+(?:have|own|got))|(?:i|we)['’]ve\s+got)\b", re.IGNORECASE)


def is_lacked(before: str, negator: str) -> bool:
    """Whether the asker only says what is missing at home: "I have the yarn, but no needles"."""
    return _HAS_OTHERS.match(before) is not None and negator.casefold().startswith("but no")


# "Not the used one", "anything but the papers": one or more of the things that are there, by their names.
_CHOOSES: Final = re.compile(
    r"^(?:(?:but\s+)?not?|(?:in\s+)?(?:any|every|all).*(?:but|except|than|from|for|besides)"
    r"|except(?:\s+for)?|apart\s+from|aside\s+from|other\s+than|rather\s+than|instead\s+of)\s+the\s+$",
    re.IGNORECASE,
)


def chooses(negator: str) -> bool:
    """Whether things are refused by their names, so that what only mentions them is meant: "apart from the lids"."""
    return _CHOOSES.match(negator) is not None


def before_refused(text: str) -> str:
    """What is wanted, if a text ends in a negator of what follows it: "a show that isn't"; empty otherwise."""
    negator = _REFUSED_NEXT.search(f"{text.strip()} ")
    return text[: negator.start()].strip(" ,") if negator else ""


def refused(conditions: Iterable[Condition]) -> frozenset[str]:
    """The stems of the things that a question leaves out: "swimming" is "swim". Foods have lists of their kinds."""
    found = set()
    for condition in conditions:
        match condition:
            case Not(AnyOf((Has((thing, *_)) | Is("name", (thing, *_)), *_))) | Not(Has((thing, *_))) if (
                thing not in FOODS
            ):
                found.add(_stem(thing))
            case _:
                pass
    return frozenset(stem for stem in found if (len(stem) >= _STEM or _is_short(stem)) and " " not in stem)


def _is_short(word: str) -> bool:
    """Whether a word is an abbreviation by its initials: it has no vowel."""
    return 2 <= len(word) < _STEM and word.isalpha() and not _VOWEL.search(word)


_VOWEL: Final = re.compile("[aeiouy]")


@cache
def _spelt_out(initials: str) -> re.Pattern[str]:
    rest = r"[a-z]{2,}"
    return re.compile(r"\b" + rf"{rest}[\s-]+".join(initials) + rest, re.IGNORECASE)


def _stem(word: str) -> str:
    plain = _DOUBLED.sub(r"\1", word)
    for end in ("ing", "al", "ed", "s") if plain == word else ():
        if word.endswith(end) and len(word) - len(end) >= _STEM:
            return word[: len(word) - len(end)]
    return plain


_DOUBLED: Final = re.compile(r"([mntpg])\1ing$")  # "swimming"
_STEM: Final = 4  # letters


def is_refused(item: Item, stems: frozenset[str]) -> bool:
    """Whether the name or the tags of an item have a form of something that is left out ("lake", "Lakeside Pitch"), or
    its text spells out an abbreviation of it: "GP", "general practitioner"."""
    if not stems:
        return False
    short = [stem for stem in stems if len(stem) < _STEM]
    if short and any(_spelt_out(stem).search(f"{item.name}. {item.description}") for stem in short):
        return True
    stems = stems.difference(short)
    of = recalled(item)
    tags = (label for field in _TAGS for label in of.labels.get(field, ()))
    said = of.has.intersection(word for text in (item.name, *tags) for word in tokens(text))
    return any(word.startswith(stem) and not _is_free(word, stem) for word in said for stem in stems)


def _is_free(word: str, stem: str) -> bool:
    """Whether a word says that something is absent: "thornless", "fettfrei", "kabellos"."""
    return word.startswith(stem) and word.endswith(("less", "free", "frei", "los"))


def denies(item: Item, stems: frozenset[str]) -> bool:
    """Whether an item says itself that it is without something that is left out: "no interval"."""
    texts = (item.name, item.description, item.text[:_READ])
    said = [word for text in texts for denied in denials(text) for word in tokens(denied)]
    if any(word.startswith(stem) for word in said for stem in stems):
        return True
    tags = (label for field in _TAGS for label in recalled(item).labels.get(field, ()))
    return any(_is_free(word, stem) for text in (*texts, *tags) for word in tokens(text) for stem in stems)


_READ: Final = 4_000  # characters of a text
_TAGS: Final = ("keywords", "category", "genre", "employmentType", "recipeCategory")


def opposite(conditions: tuple[Condition, ...]) -> tuple[Condition, ...]:
    """The conditions of a thing that states such things and does not meet all of these."""
    turned = [_turned(condition) for condition in conditions if condition != HAS_HOURS]
    if len(turned) > 1:
        return (AnyOf(tuple(item for items in turned for item in items[:1])),)
    return turned[0]


def _turned(condition: Condition) -> tuple[Condition, ...]:
    match condition:
        case Not(inner):
            return (inner,)
        case Range(field, low, high, with_low, with_high, currencies):
            below = Range(field, None, low, True, not with_low, currencies) if low is not None else None
            above = Range(field, high, None, not with_high, True, currencies) if high is not None else None
            sides = tuple(side for side in (below, above) if side is not None)
            return (sides[0] if len(sides) == 1 else AnyOf(sides),)
        case During(field) | AnyOf((During(field), *_)):
            return (Not(condition), During(field))  # on another day; not without a day
        case Is("availability", values):
            return (Is("availability", GONE if "in stock" in values else THERE),)
        case Is("acceptsreservations", values):
            return (Is("acceptsreservations", ("false", "no") if "true" in values else ("true", "yes")),)
        case _:
            return (Not(condition),)
