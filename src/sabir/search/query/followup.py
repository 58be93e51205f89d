"""Follow-up questions (W-11): "cheaper ones", "without nuts", "what about soup?". Pure.

A question is split into its subject and its constraints; a follow-up keeps the first and changes the second, or vice
versa. A self-contained question is returned unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from sabir.search.items.types import TYPE_WORDS

from . import dates
from .budget import READ_BUDGET, Budget
from .comparisons import OPERATOR, PATTERN
from .prefilter import PatternTable
from .vocabulary import DIETS, LANGUAGES
from .words import STOPWORDS, fold, singular, tokens

_flat = re.compile(r"\(\?P<\w+>")


def _unnamed(pattern: str) -> str:
    return _flat.sub("(?:", pattern)


_MONEY = r"(?:[$€£¥₹]\s?\d|(?<!\d)\d[\d.,]{0,14}\s*(?:dollars?|bucks|euros?|usd|eur|gbp|pounds|€|£))"
_TIME = r"(?:hours?|hrs?|minutes?|mins?)"
_WORD = r"[^\W\d_][\w'’-]*"
_SIZE = rf"(?:{OPERATOR}|for|in|with)\s+(?:an?\s+)?"
# Constraints by kind; a new one replaces an old one of its kind.
_KINDS: Final = {
    "age": r"\bfor\s+(?:an?\s+|my\s+|our\s+)?\d+[\s-]*(?:year|month)s?[\s-]*olds?\b",
    "price": rf"(?:\b(?:for|priced|costing)\s+)?(?:{_SIZE})"
    rf"(?={_MONEY}|\d+\b(?!\s*(?:{_TIME}|stars?|k?cal|g\b|people)))(?:{_unnamed(PATTERN)})"
    rf"|\b(?:between|from)\s+{_MONEY}\S*\s+(?:and|to)\s+\S+(?:\s+(?:dollars|euros))?"
    rf"|{_MONEY}[\d.,]{0, 14}\s*(?:or\s+(?:less|more)|max)",
    "time": rf"\b(?:that\s+take\s+|ready\s+)?(?:{_SIZE})?(?:[\d.]+|an?|half\s+an)[\s-]*{_TIME}(?:\s+or\s+less)?\b",
    "rating": rf"\b(?:rated\s+|with\s+)?(?:{OPERATOR})?\s*\d(?:\.\d)?\+?\s*stars?(?:\s+or\s+more|\s+and\s+up)?\b"
    r"|\brated\s+\S+",
    "date": rf"\b(?:before|after|since|until|by|on|in|during|from)\s+(?:the\s+)?(?:{_unnamed(dates.PHRASE)})"
    rf"|\bon\s+(?:{_unnamed(dates.EVERY)})"
    r"|\b(?:this|next|last)\s+(?:weekend|week|month|year|summer|winter|spring|fall|autumn)\b"
    r"|\b(?:today|tonight|tomorrow)\b",
    "place": r"\b(?:near(?:by)?|close\s+to|in|around|within\s+\d+\s*(?:km|miles?)\s+(?:of|from))\s+"
    r"(?=[A-Z])[A-Z][\w'’.-]*"
    r"(?:\s+[A-Z][\w'’.-]*)*(?:,\s*[A-Z]{2}\b)?",
    "open": r"\bopen\s+(?:late|early|now|today|all\s+(?:day|night|year))\b",
    "serves": r"\bfor\s+\d+\s+(?:people|persons|guests)\b|\bserves\s+\d+\b",
    "language": rf"\b(?:in|speaking)\s+(?:{'|'.join(LANGUAGES)})\b",
    "without": r"\b(?:but\s+)?(?:without|no|excluding|except(?:\s+for)?|other\s+than|apart\s+from|not)\s+"
    r"(?!more\b|less\b|over\b|under\b)(?:(?:any|the|an?|for|in|by|from|with)\s+){0,2}"
    rf"{_WORD}(?:\s*,\s*{_WORD})*(?:\s*,?\s+(?:or|and|nor)\s+{_WORD})?",
    "with": rf"\b(?:with|containing|including|made\s+with)\s+{_WORD}(?:\s+{_WORD})?(?:\s+(?:and|or)\s+{_WORD})?",
    "for": rf"\bfor\s+(?:(?:the|my|our|a|an)\s+)?{_WORD}(?:\s+{_WORD})?",
    "where": rf"\b(?:in|at|near|by|on)\s+the\s+{_WORD}(?=\W*$)",
    "by": r"\b(?:by|from)\s+[A-Z][\w'’.-]*(?:\s+[A-Z][\w'’.-]*)*",
}
_ADDED: Final = frozenset({"without", "with", "where"})  # a second one does not replace the first

_KIND_PATTERNS: Final = PatternTable[str](
    (re.compile(pattern, re.I if kind not in ("place", "by") else 0), kind) for kind, pattern in _KINDS.items()
)

_ORDERS: Final = {
    "cheaper": "cheapest", "less expensive": "cheapest", "more affordable": "cheapest", "lower priced": "cheapest",
    "cheapest": "cheapest", "least expensive": "cheapest", "more expensive": "most expensive",
    "pricier": "most expensive", "most expensive": "most expensive", "priciest": "most expensive",
    "sooner": "soonest", "earlier": "soonest", "soonest": "soonest", "earliest": "soonest",
    "newer": "newest", "more recent": "newest", "latest": "newest", "newest": "newest",
    "quicker": "quickest", "faster": "quickest", "shorter": "quickest", "quickest": "quickest", "fastest": "quickest",
    "better rated": "top rated", "higher rated": "top rated", "top rated": "top rated", "best rated": "top rated",
    "better": "top rated", "more popular": "top rated",
}  # fmt: skip

# Descriptive words by class; a new one replaces an old one of its class.
_CLASSES: Final = {
    "colour": "red blue green black white yellow orange purple pink brown grey gray silver gold",
    "size": "small large big bigger smaller medium tiny huge light lighter heavy heavier",
    "cuisine": "italian french thai mexican indian chinese japanese greek spanish american korean vietnamese moroccan"
    " ethiopian turkish german southern mediterranean asian basque",
    "diet": "vegetarian vegan",
    "meal": "breakfast lunch dinner dessert",
    "season": "winter summer autumn fall spring",
    "": "warm warmer waterproof wireless new old used organic local fresh spicy spicier mild sweet sweeter savory"
    " savoury healthy healthier easy easier simple simpler quick indoor outdoor family kid-friendly romantic casual"
    " formal modern vintage seasonal free",
}
_CLASS_OF: Final = {word: name for name, words in _CLASSES.items() for word in words.split()}
_ADJECTIVES: Final = frozenset(_CLASS_OF) | frozenset(DIETS)

_OPENING: Final = re.compile(
    r"^(?:(?:ok(?:ay)?|and|but|so|now|then|or|hmm|well|great|thanks|thank you|please|maybe|actually|yes|no(?=,))"
    r"[\s,]+)*"
    r"(?:(?:can|could|would)\s+you\s+)?(?:(?:please\s+)?(?:show|give|find|get|tell)\s+(?:me|us)\s+)?"
    r"(?:(?:i(?:'d|’d|\s+would)?|we)\s+(?P<want>only\s+|just\s+)?(?:want|need|prefer|like|meant)\s+)?"
    r"(?:do\s+you\s+have\s+|are\s+there\s+|is\s+there\s+|any(?:thing|\s+of\s+(?:them|those|these))?\s+(?=\w))?"
    r"(?P<about>(?:what|how)\s+about\s+)?(?P<only>(?:only|just)\s+(?:the\s+|show\s+(?:me\s+)?(?:the\s+)?)?)?"
    r"(?P<make>make\s+(?:it|that|them|those)\s+)?(?P<same>the\s+same|same(?:\s+thing)?)?(?:\s*,?\s*but\s+)?",
    re.IGNORECASE,
)
_JOINS: Final = re.compile(
    r"^(?:(?:ok(?:ay)?|so|now|then|hmm|well|great|thanks|thank you)[\s,]+)*(?:and|but|or)\b", re.I
)
# "Which of them are free?", "any that have a pool?": a constraint on the results.
_WHICH: Final = re.compile(
    r"^(?:which|any|some|are\s+there\s+any)(?:\s+ones?)?(?:\s+of\s+(?:them|those|these))?(?:\s+that|\s+which)?\s+"
    r"(?P<verb>is|are|have|has|come\s+with)\s+(?P<what>.+)$"
    r"|^(?P<does>do|does|is|are)\s+(?:any|some)\s+of\s+(?:them|those|these)\s+(?:have\s+)?(?P<done>.+)$",
    re.IGNORECASE,
)
_NOT_ONE: Final = re.compile(r"(?:not|no)\s+(?:the\s+)?.+\s+ones?$", re.IGNORECASE)
_MODIFYING: Final = 3  # words before "ones" that say which
_ONES: Final = re.compile(r"\b(?:ones?|options?|choices?|results?)\b", re.IGNORECASE)
_PRONOUN: Final = re.compile(
    r"\b(?:(?:which|any|some|all|one|most)\s+of\s+)?(?:them|those|these|it|they|that\s+one|this\s+one)\b(?!\s+(?:is|are)\s+(?:a|the)\b)"
    r"|\b(?:its|their)\b|\bthere\b(?=\s*[?.]?$)",
    re.IGNORECASE,
)
_ORDINALS: Final = {
    "first": 0,
    "second": 1,
    "third": 2,
    "fourth": 3,
    "fifth": 4,
    "last": -1,
    "1st": 0,
    "2nd": 1,
    "3rd": 2,
}
_NTH: Final = re.compile(
    rf"\b(?:the\s+)?({'|'.join(_ORDINALS)})\s+(?:one|result|option|recipe|item|place|event|product)\b"
    rf"|\bthe\s+({'|'.join(_ORDINALS)})(?=\W*$)",
    re.I,
)
# "The other one", "the six cup one": one of the results.
_ONE: Final = re.compile(r"\b(?:the|that)\s+(?P<which>[\w\s'’-]{1,40}?)\s+one\b", re.IGNORECASE)
_COUNTS: Final = {
    "two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7", "eight": "8", "ten": "10",
    "twelve": "12",
}  # fmt: skip
_MORE: Final = re.compile(
    r"(?:show\s+(?:me\s+)?|give\s+me\s+|any(?:thing)?\s*|see\s+|are\s+there\s+(?:any\s+)?|what\s+)?(?:some\s+)?"
    r"(?:more|others?|else|next|next\s+page|more\s+(?:results|options|of\s+(?:these|those|them)|like\s+(?:this|that|these|those)))"
    r"(?:\s+(?:please|ones|results|options|is\s+there))?",
    re.IGNORECASE,
)


MAX_READ: Final = 400  # characters; a longer question is self-contained
MAX_EARLIER: Final = 12  # questions that a follow-up can refer back to


class _Apart(msgspec.Struct, frozen=True):
    """A question split into its subject, and its constraints by kind."""

    core: str
    asked: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        return " ".join([self.core, *(words for _, words in self.asked)]).strip()


def decontextualized(text: str, previous: Sequence[str], results: Sequence[str] = ()) -> str:
    """The question as it would be asked on its own, given the earlier questions, oldest first; as it is, if reading
    these takes too long.

    ``results`` are the names of the last results, for "the second one".
    """
    question = " ".join(text.split())
    if len(question) > MAX_READ or _WHAT_IS_ON.match(question):
        return question
    previous = [earlier for earlier in previous[-MAX_EARLIER:] if len(earlier) <= MAX_READ]
    if (chosen := with_nth(question, results)) != question:
        return chosen
    if results and (one := _ONE.search(question)) and (name := _chosen(one["which"], results)):
        before = question[: one.start()].strip()
        if _JOINS.fullmatch(before) or re.fullmatch(r"(?:and\s+)?(?:what|how)\s+about", before, re.I):
            return _of_another(previous[-1] if previous else "", results[0], name)
        return f"{question[: one.start()]}{name}{question[one.end() :]}".strip()
    budget = Budget(READ_BUDGET)
    context = ""
    for earlier in previous:
        if budget.is_spent:
            return question
        earlier = " ".join(earlier.split())
        context = _joined(context, earlier) if context else earlier
    return _joined(context, question) if context else question


# "Is there anything for kids this weekend?" is asked anew.
_WHAT_IS_ON: Final = re.compile(
    r"^\W*(?:is|are)\s+there\s+(?:anything|something|things|much)\b.*\b(?:today|tonight|tomorrow|(?:this|next|coming)\s+\w+"
    rf"|(?:on|in)\s+(?:{'|'.join((*dates.MONTHS, *dates.WEEKDAYS))})s?)\b",
    re.IGNORECASE,
)


def with_nth(question: str, results: Sequence[str]) -> str:
    """The question with the name of a result in place of "the second one"; unchanged, if it has no such words."""
    nth = _NTH.search(question) if results else None
    if nth is None:
        return question
    place = _ORDINALS[(nth[1] or nth[2]).casefold()]
    if not -len(results) <= place < len(results):
        return question
    return f"{question[: nth.start()]}{results[place]}{question[nth.end() :]}".strip()


def _chosen(which: str, results: Sequence[str]) -> str:
    """The one result that these words identify; empty if there is no such result."""
    wanted = {_COUNTS.get(word, word) for word in tokens(which)}
    if wanted == {"other"}:
        return results[1] if len(results) > 1 else ""
    fitting = [name for name in dict.fromkeys(results) if wanted and wanted.issubset(tokens(name))]
    return fitting[0] if len(fitting) == 1 else ""


def _of_another(question: str, name: str, other: str) -> str:
    """The previous question, asked about another thing."""
    at = question.casefold().find(name.casefold())
    return f"{question[:at]}{other}{question[at + len(name) :]}" if at >= 0 else other


def is_more(text: str) -> bool:
    """Whether only the next page is requested."""
    return len(text) <= MAX_READ and bool(_MORE.fullmatch(_bare(text)))


def _bare(text: str) -> str:
    words = " ".join(text.split()).strip(" ?!.,")
    return re.sub(r"(?<![\s,])[\s,]+(?:please|thanks|thank you)$", "", words, flags=re.IGNORECASE).strip(" ?!.,")


def _joined(context: str, question: str) -> str:
    bare = re.sub(r"\b(get|go)\s+there$", r"\1 to them", _bare(question), flags=re.IGNORECASE)
    bare = _BARE_DATE.sub(_with_preposition, bare)
    if is_more(bare):
        return context
    opening = _OPENING.match(bare)
    assert opening is not None  # it matches the empty string
    rest = re.sub(r"\b(?:instead(?:\s+of\s+[\w\s'’-]+)?|only)$", "", bare[opening.end() :]).strip(" ,")
    only = bool(opening["only"] or opening["want"] or re.search(r"\bonly$", bare))
    marked = opening["about"] or only or opening["make"] or opening["same"] or rest != bare[opening.end() :].strip(" ,")
    before = _apart(context)
    if (order := _order(rest)) is not None:
        return _ordered(before, order)
    if _ONES.search(rest) and not _ONES.sub("", rest).strip():
        return context
    if (chosen := _which(before, bare)) is not None:
        return chosen
    if _refers(rest):
        named = _PRONOUN.sub(before.core, bare, count=1)
        return str(_with(_Apart(named), _Apart("", tuple(item for item in before.asked if item[1] not in named))))
    instead = bare.casefold().endswith("instead")
    if instead and 1 <= len(rest.split()) <= _MODIFYING and not _apart(rest).asked and not _is_adjective(rest):
        return _about(before, rest)
    another = bool(opening["about"]) and _names_things(rest)
    if not _NOT_ONE.match(rest) and not another and (refined := _refined(before, rest, bool(marked))) is not None:
        return refined
    if (of_those := _of_those(before, rest, only)) is not None:
        return of_those
    joins = _JOINS.match(bare) is not None and len(rest.split()) <= _MODIFYING
    if joins and (thing := re.match(r"(?:the|its|their)\s+(.+)", rest, re.IGNORECASE)):
        return f"{before} {thing[1]}"
    if opening["about"] or opening["same"] or joins:
        return _about(before, rest)
    return question


# "What about January?": another time, without a preposition.
_BARE_DATE: Final = re.compile(
    rf"^(?P<about>(?:and\s+)?(?:(?:what|how)\s+about\s+)?)(?P<when>{'|'.join((*dates.MONTHS, *dates.WEEKDAYS))})$",
    re.IGNORECASE,
)


def _with_preposition(match: re.Match[str]) -> str:
    return f"{match['about']}{'in' if match['when'].casefold() in dates.MONTHS else 'on'} {match['when']}"


def _is_adjective(words: str) -> bool:
    return all(_adjective(word, words) for word in tokens(words)) and not _names_things(words)


def _names_things(rest: str) -> bool:
    """ "Desserts", which are things, and not "dessert", which is a kind."""
    word = fold(rest)
    return word != singular(word) and word not in TYPE_WORDS and _CLASS_OF.get(singular(word)) == "meal"


def _which(before: _Apart, bare: str) -> str | None:
    """ "Which of them are free?": the same question with that constraint."""
    which = _WHICH.match(bare)
    if not which:
        return None
    what, verb = which["what"] or which["done"], (which["verb"] or which["does"]).casefold()
    if verb not in ("is", "are"):
        return str(_with(before, _Apart("", (("with", f"with {what}"),))))
    if (order := _order(what)) is not None:
        return _ordered(before, order)
    refined = _refined(before, what, marked=True)
    return refined if refined is not None else str(_with(before, _Apart("", (("", what),))))


def _of_those(before: _Apart, rest: str, only: bool) -> str | None:
    """ "Only wooden ones", "not the red one", "only recipes": a subset of the previous results."""
    ones = re.fullmatch(
        r"(?P<not>not\s+|no\s+)?(?:(?:the|some|any|an?)\s+)?(?P<which>.+?)\s+ones?", rest, re.IGNORECASE
    )
    which = ones["which"] if ones else rest if only else ""
    if not which or len(which.split()) > _MODIFYING:
        return None
    if ones and ones["not"]:
        return str(_with(before, _Apart("", (("without", f"not {which}"),))))
    if all(fold(word) in TYPE_WORDS for word in which.split()):
        kept = " ".join(word for word in before.core.split() if fold(word) not in TYPE_WORDS)
        return str(_Apart(f"{kept} {which}".strip(), before.asked))
    return str(_Apart(_prefixed(which, before.core), before.asked))


def _refers(rest: str) -> bool:
    """Replace a pronoun that refers to the previous question, and not to something in the question itself."""
    pronoun = _PRONOUN.search(rest)
    if not pronoun:
        return False
    named = [word for word in tokens(rest[: pronoun.start()]) if word not in STOPWORDS]
    return len(named) <= 2 and not re.search(r"\b(?:that|which|something|anything)\b", rest[: pronoun.start()], re.I)


def _apart(text: str) -> _Apart:
    rest = text
    asked: list[tuple[int, str, str]] = []
    place = _KIND_PATTERNS.following(rest)
    while place is not None:
        pattern, kind = _KIND_PATTERNS.rows[place]
        at = 0
        while (match := pattern.search(rest, at)) and match.group().strip():
            if kind in ("for", "with") and match.start() == 0:
                break
            asked.append((match.start(), kind, match.group().strip(" ,")))
            rest = rest[: match.start()] + "\x00" * len(match.group()) + rest[match.end() :]
            at = match.end() if kind != "where" else 0  # what stood behind one may have been the end of another
        place = _KIND_PATTERNS.following(rest, place + 1)
    asked.sort()
    core = re.sub(r"\s+(?:and|but|or)$", "", " ".join(rest.replace("\x00", " ").split()).strip(" ,?.!"))
    return _Apart(core, tuple((kind, words) for _, kind, words in asked))


def _order(rest: str) -> str | None:
    words = _ONES.sub(
        "", re.sub(r"^(?:something|some|any|anything|a|an|the|is\s+there)\s+", "", rest, flags=re.I)
    ).strip(" ?")
    words = re.sub(
        r"\s+(?:than\s+(?:that|this|these|those)|of\s+(?:those|these|them|all)|please)$", "", words, flags=re.I
    )
    said = " ".join(words.casefold().split())
    return _ORDERS.get(said) or (said if _SUPERLATIVE.fullmatch(said) else None)


# "The longest": by any number that the site states.
_SUPERLATIVE: Final = re.compile(
    r"(?!(?:rest|west|east|guest|forest|request|honest|interest)\b)[a-z]{3,}est|(?:most|least)\s+[a-z]{4,}"
)


def _ordered(before: _Apart, order: str) -> str:
    for old in set(_ORDERS.values()):
        if before.core.casefold().startswith(f"{old} "):
            before = _Apart(before.core[len(old) + 1 :], before.asked)
    return f"{order} {before}"


def _refined(before: _Apart, rest: str, marked: bool) -> str | None:
    """The context with more constraints, if the follow-up only adds some and names nothing new."""
    clean = _ONES.sub("", re.sub(r"^(?:something|anything|some|any|ones|the|an?)\s+", "", rest, flags=re.I)).strip(" ,")
    clean = re.sub(r"^(?:that\s+(?:is|are)|which\s+(?:is|are)|is|are|in(?=\s+[a-z]+$))\s+", "", clean)
    now = _apart(f"x {clean}") if clean else _Apart("x")
    named = now.core[1:].strip(" ,")
    named = re.sub(r"^(?:and|but|or)\s+|\s+(?:and|but|or)$", "", named)
    if not named and now.asked:
        return str(_with(before, now))
    words = tokens(named)
    plain = [word for word in words if word not in STOPWORDS]
    adjectives = bool(plain) and all(_adjective(word, named) for word in plain)
    if adjectives and (marked or _ONES.search(rest) or len(plain) <= 2):
        return str(_with(_Apart(_prefixed(named, before.core), before.asked), now))
    return None


def _adjective(word: str, phrase: str) -> bool:
    if word in _ADJECTIVES:
        return True
    said = fold(phrase).replace("-", " ")
    return any(word in words and diet in said for diet, words in _DIETS)


_DIETS: Final = tuple((diet.replace("-", " "), tokens(diet)) for diet in DIETS)


def _prefixed(words: str, core: str) -> str:
    """The words before the subject, once; of two of one class the new one counts."""
    new = set(tokens(words))
    classes = {_CLASS_OF[word] for word in new if _CLASS_OF.get(word)}
    kept = [word for word in core.split() if new.isdisjoint(tokens(word)) and _CLASS_OF.get(fold(word)) not in classes]
    return " ".join([words, *kept])


def _with(before: _Apart, now: _Apart) -> _Apart:
    replaced = {kind for kind, _ in now.asked} - _ADDED
    kept = [(kind, words) for kind, words in before.asked if kind not in replaced]
    said = {fold(words) for _, words in kept}
    cleaned = [(kind, re.sub(r"^but\s+", "", words, flags=re.I)) for kind, words in now.asked]
    return _Apart(before.core, (*kept, *((kind, words) for kind, words in cleaned if fold(words) not in said)))


def _about(before: _Apart, rest: str) -> str:
    """ "What about soup?": another subject, the same constraints, and the same type if none is named."""
    now = _apart(rest)
    kind = next((word for word in reversed(before.core.split()) if fold(word) in TYPE_WORDS), "")
    core = now.core
    if kind and not any(fold(word) in TYPE_WORDS for word in core.split()):
        core = f"{core} {kind}"
    diets = [word for word in before.core.split() if fold(word) in DIETS]
    if diets and not any(fold(word) in DIETS for word in core.split()):
        core = " ".join([*diets, core])
    return str(_with(_Apart(core, before.asked), now))
