"""Follow-ups on the thing that was asked about: the same question of another thing, or another one of the same thing.

A reading is taken only if it is answered: "and check-out?" is about the cottage before if that states its check-out.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from sabir.search import Condition, Engine, Fields, Item, OfType, SearchQuery
from sabir.search.answers.fields import labels, stated_fields
from sabir.search.answers.reading import has, kind_asked, naming, telling
from sabir.search.answers.statements import is_unsaid
from sabir.search.items.attributes import recalled
from sabir.search.items.types import TYPE_WORDS, is_a
from sabir.search.query import names
from sabir.search.query.asking import asks_whether_there, begins_open, is_asking, is_yes_no
from sabir.search.query.glossary import glossed, language_of, likenesses
from sabir.search.query.predicates import IDLE
from sabir.search.query.relaxing import asks_elsewhere, asks_what_is_on
from sabir.search.query.translated import translations
from sabir.search.query.words import content_words, spaced, tokens

from .subject import ASKING, MAX_LENGTH, subject_of

if TYPE_CHECKING:
    from .search import Finding

_GOES_ON: Final = re.compile(
    r"^\W*(?:(?:ok|okay|thanks|great)[\s,]+)*(?:(?:and\s+|or\s+|but\s+)?(?:what|how)\s+about|and|or|und|oder|y(?!\s+a[\s-]t)|o|et|ou)\b[\s,]*",
    re.IGNORECASE,
)
_FEW: Final = 4  # meaningful words of a question that goes on with a thing


_COMPARED: Final = re.compile(
    r"^\W*(?:(?:ok|okay|and|or|but|thanks|hmm|is\s+there|are\s+there|do\s+you\s+have|have\s+you\s+got|got|what\s+about|how\s+about)\b[\s,]*)*"
    r"(?:(?:the|an?|any|anything|something|some|one\s+that\s+is)\s+)*"
    r"(?:(?P<cheaper>cheaper|less\s+expensive|more\s+affordable)|(?P<bigger>bigger|larger|longer)|(?P<smaller>smaller|shorter))"
    r"(?:\s+(?:one|ones|version|option|options|size|model|than\s+that))?(?:[\s,]+please)?\W*$",
    re.IGNORECASE,
)
# A question with a price of its own is narrowed, or sorted anew.
_PRICED: Final = re.compile(r"[$€£]|\b(?:under|below|over|less|cheap\w*|between|up\s+to|at\s+most)\b", re.IGNORECASE)
_SIBLINGS: Final = 20  # things among which another size is looked for


async def compared(text: str, subject: str, last: str, engine: Engine, where: tuple[Condition, ...]) -> str:
    """A follow-up that asks for a cheaper, a bigger or a smaller one, as it would be asked on its own; empty if it is
    none, or if there is none."""
    asked_for = _COMPARED.match(text) if subject and len(text) <= MAX_LENGTH else None
    if asked_for is None:
        return ""
    hits = (await engine.search(SearchQuery(subject, where, 0, _SIBLINGS))).hits
    one = next((hit.item for hit in hits if hit.item.name == subject), None)
    if one is None:
        return ""
    if asked_for["cheaper"]:
        return "" if _PRICED.search(last) else _cheaper(one, last)
    sizes = {hit.item.name: size for hit in hits if (size := _size_beside(hit.item.name, subject)) is not None}
    own = _size_beside(subject, subject)
    fitting = {name: size for name, size in sizes.items() if own is not None and name != subject}
    larger = sorted((size, name) for name, size in fitting.items() if own is not None and size > own)
    smaller = sorted(((size, name) for name, size in fitting.items() if own is not None and size < own), reverse=True)
    found = larger if asked_for["bigger"] else smaller
    if not found:
        return ""
    named = {word for word in tokens(subject) if word.isdecimal() or word not in ASKING}
    rest = " ".join(word for word in last.split() if named.isdisjoint(tokens(word))).rstrip(" ?")
    return f"{rest} {found[0][1]}?"


def _cheaper(one: Item, last: str) -> str:
    """The kind of thing that was asked about, below its price."""
    kind = next((word for word in reversed(content_words(last)) if word in tokens(one.name)), "")
    prices = recalled(one).numbers
    price = next((min(values) for name, values in prices.items() if name.split(":")[0] == "price" and values), None)
    code = next((name.split(":")[1] for name in prices if name.startswith("price:")), "")
    return f"{kind} under {price:g} {code}".strip() if kind and price else ""


def _size_beside(name: str, other: str) -> float | None:
    """The only number of a name that is otherwise the same as another: "Moka Pot, 6 Cups", "Moka Pot, 3 Cups"."""
    words, others = tokens(name), tokens(other)
    numbers = [word for word in words if word.isdecimal()]
    is_same = [word for word in words if not word.isdecimal()] == [word for word in others if not word.isdecimal()]
    return float(numbers[0]) if is_same and len(numbers) == 1 else None


async def continued(
    text: str,
    subject: str,
    last: str,
    engine: Engine,
    where: tuple[Condition, ...],
    known: Fields,
    now: datetime,
) -> str:
    """The follow-up as it would be asked on its own; empty if it does not go on with the thing before.

    ``subject`` is the name of that thing, and ``last`` the question about it, as it was understood.
    """
    goes_on = _GOES_ON.match(text)
    if not subject or goes_on is None or len(text) > MAX_LENGTH:
        return ""
    bare = text[goes_on.end() :].strip(" ?!.,")
    if not 1 <= len(content_words(bare)) <= _FEW + len(content_words(subject)):
        return ""
    other = await subject_of(bare, engine, where, known, now)
    if other is not None and not other.asked:
        at = names.find(last, subject)
        is_other = other.hit.item.name != subject and at is not None
        return f"{last[: at.start]}{other.hit.item.name}{last[at.end :]}" if at is not None and is_other else ""
    if other is not None or len(content_words(bare)) > _FEW:
        return ""
    english = glossed(bare, language_of(text))
    for question in dict.fromkeys((f"{bare} {subject}?", f"{english} {subject}?", f"what is the {bare} of {subject}?")):
        found = await subject_of(question, engine, where, known, now)
        if found is not None and found.hit.item.name == subject and found.statement:
            return "" if is_unsaid(found.statement) else question
    return ""


async def kept_to(text: str, subject: str, engine: Engine, where: tuple[Condition, ...]) -> str:
    """A question about nothing else than the thing before, with its name: "how long do I have to wait?"; empty if it
    does not ask for a fact, or if that thing does not have its words."""
    language = language_of(text)
    english = glossed(text, language)
    words = [word for word in telling(english) if word not in ASKING]
    if not subject or not begins_open(english) or kind_asked(english) is None or not 1 <= len(words) <= _TELLING:
        return ""
    hits = (await engine.search(SearchQuery(subject, where, 0, _SIBLINGS))).hits
    one = next((hit.item for hit in hits if hit.item.name == subject), None)
    if one is None or any(names.find(text, hit.item.name) for hit in hits):
        return ""
    said = tokens(f"{one.description} {one.text}")
    return f"{text.rstrip(' ?.!')} {subject}?" if all(has(said, word) for word in words) else ""


_TELLING: Final = 2  # words that say what is asked of a thing


async def held_to(finding: Finding, text: str, before: str, filters: dict[str, Any]) -> None:
    """Answer a follow-up by the thing before, if it was read on its own and nothing in it names what it found."""
    english = glossed(text, language_of(text))
    words = [word for word in telling(english) if word not in ASKING]
    is_open = begins_open(english)
    is_asked = is_open or is_yes_no(english) or "?" in text
    is_alone = {*tokens(text), *tokens(english)}.issuperset(tokens(finding.question))
    is_new = bool(finding.hint) or asks_elsewhere(text) or asks_what_is_on(english)
    if not is_asked or not is_alone or len(words) > _FEW or is_new:
        return
    is_found = _names_found(finding, words)
    # A list is no answer to "how much is it per person?".
    is_fact = is_open and is_asking(english) and TYPE_WORDS.keys().isdisjoint(words)
    if is_found and (finding.is_stated or not is_fact):
        return
    if (is_open or asks_whether_there(text)) and await _names_another(finding, english, before):
        return
    alone = finding.saved()
    finding.question = f"{text.strip(' ?.!')} {before}?"
    await finding.find(filters)
    is_held = finding.subject is not None and finding.subject.hit.item.name == before
    if not is_held or (is_found and not finding.is_stated):
        finding.restore(alone)


async def _names_another(finding: Finding, english: str, before: str) -> bool:
    """Whether a question names a thing or a kind of its own: one here is called so, and the thing before does not have
    its words."""
    hits = (await finding.engine.search(SearchQuery(before, finding.own(), 0, _SIBLINGS))).hits
    one = next((hit.item for hit in hits if hit.item.name == before), None)
    if one is None:
        return False
    fields = (spaced(name) for name, _ in stated_fields(one))
    own = naming(one).union(*map(tokens, (one.description, one.text, *labels(one), *fields)), ASKING, IDLE)
    called = [
        word
        for hit in finding.pool[:1]
        for name in (hit.item.name, *map(spaced, hit.item.types))
        for word in tokens(name)
    ]
    language = language_of(finding.question)
    worded = glossed(finding.worded, language_of(finding.worded))
    named = (word for text in (english, worded) for word in telling(text))
    for word in dict.fromkeys(named):
        forms = (word, *likenesses().get(word, ()), *translations(word, language))
        if any(has(own, form) for form in forms):
            continue
        kind = TYPE_WORDS.get(word)
        if kind is not None and any(is_a(name, kind) for name in one.types):
            continue
        if kind is not None and await finding.engine.count((*finding.own(), OfType((kind,)))):
            return True
        if any(has(called, form) for form in forms):
            return True
    return False


def _names_found(finding: Finding, words: list[str]) -> bool:
    """Whether the first result is called by one of some words; a list that matches well needs no name."""
    if not finding.pool or finding.is_far_off:
        return False
    if not finding.is_stated:
        return True
    named = tokens(finding.pool[0].item.name)
    return any(form in named for word in words for form in (word, *likenesses().get(word, ())))
