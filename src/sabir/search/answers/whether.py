"""Yes or no by what a thing says of ages, of who pays, and of what it has, where no condition decides it. Pure.

"Can my five-year-old come?" is answered by "3-6", or by "Not for children under six."; "do students pay?" by the price
of the offer for students; "he uses a wheelchair" by the feature "Wheelchair accessible".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from sabir.search.items.item import Item
from sabir.search.items.schema_org import strings
from sabir.search.query.dates import WEEKDAYS
from sabir.search.query.predicates import IDLE
from sabir.search.query.stated import in_english, item_language
from sabir.search.query.units import number
from sabir.search.query.words import content_words, sentences, spaced, tokens

from .fields import feature_flags, stated_fields, written
from .holidays import on_holiday
from .offers import is_sold_out, named_offer
from .polarity import OPPOSITE, clauses, obliges, says
from .reading import Reading, has, naming, readings, same, telling

_NUMBER: Final = (
    r"(?:\d{1,2}|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen"
    r"|seventeen|eighteen|twenty-one|twenty)"
)
_ASKED: Final = re.compile(
    rf"\b(?P<a>{_NUMBER})[\s-](?:years?|yrs?)[\s-]olds?\b|\b(?P<b>{_NUMBER})\s+(?:years?\s+old|jahre\s+alt|a[ñn]os|ans)\b"
    rf"|\b(?P<e>\d{{1,2}})\s?(?:歳|才)|\b(?P<f>\d{{1,2}})\s+jahre\b|\b(?:is|are|turned|turns)\s+(?P<g>{_NUMBER})(?=\s*(?:[,;.?!)]|$))"
    rf"|\b(?:aged?|who\s+(?:is|turned)|(?:he|she)['’]?s|i(?:['’]m|\s+am)|at(?=\s+\d\d\W*$))\s+(?P<c>{_NUMBER})\b(?!\s*(?:minutes?|hours?|days?|weeks?|km|miles?))|\b(?P<d>\d{{1,2}})-?j[äa]hrige",
    re.IGNORECASE,
)
_LEAST: Final = re.compile(
    rf"\b(?:not\s+(?:for|suitable\s+for)\s+(?:children|kids|anyone|those|people|visitors)?\s*(?:under|below)"
    rf"|no\s+(?:children|kids|one|under)\s*(?:under)?|(?:at\s+least|minimum\s+age(?:\s+of|\s+is)?|from\s+age|from\s+the\s+age\s+of"
    rf"|ages?\s+from|over)|ab)[\s-]+(?P<a>{_NUMBER})s?\b(?!\s*(?:minutes|hours|days|weeks|people|dollars|euros|kg|km|cm|items|books))"
    rf"|\b(?:aged?\s+|ages\s+)?(?P<b>{_NUMBER})\s*(?:\+|(?:years?\s+)?(?:and|or)\s+(?:over|up|older|above))"
    rf"|\b(?:forbidden|prohibited|banned|not\s+(?:allowed|suitable|recommended|admitted))\b[^.;:]{{0,24}}?\b(?:under|below)[\s-](?P<c>{_NUMBER})\b(?!\s*(?:minutes|hours|days|weeks|people|dollars|euros|kg|km|cm|m\b))"
    rf"|\bunder[\s-](?P<f>{_NUMBER})s?\b[^.;:0-9]{{0,24}}?\b(?:forbidden|prohibited|banned|not\s+(?:allowed|suitable|recommended|admitted))\b"
    rf"|\bfrom\s+(?P<d>{_NUMBER})\s+years\b|\b(?P<adults>adults\s+only|(?:only|reserved\s+for)(?:\s+(?:for|aux|a|para|für))?\s+adults)\b",
    re.IGNORECASE,
)
_BETWEEN: Final = re.compile(
    rf"\b(?:ages?|aged|children|kids|for)\s+(?:of\s+|from\s+|between\s+)?(?P<a>{_NUMBER})\s*(?:to|-|–|and)\s*(?P<b>{_NUMBER})\b"
    r"(?!\s*(?:minutes|hours|days|weeks|people|players|dollars|euros|kg|km|cm))"
    rf"|\b(?P<c>{_NUMBER})\s*(?:to|-|–)\s*(?P<d>{_NUMBER})[\s-]years?(?:[\s-]olds?\b|(?=\s*[.,;)]|$))",
    re.IGNORECASE,
)
_RANGE: Final = re.compile(r"^\D{0,12}(?P<a>\d{1,2})\s*(?:-|–|to|\+|and|or)?\s*(?P<b>\d{1,2})?")
_AGE_FIELDS: Final = ("typicalAgeRange", "suggestedAge", "ageRange", "recommendedAge", "age", "minimumAge")
_PAYS: Final = re.compile(r"\b(?:pay|pays|paying|cost|costs|charged?)\b", re.IGNORECASE)
_FREE: Final = re.compile(r"\bfree\b|\bfor\s+nothing\b", re.IGNORECASE)
# Words for who asks, and for getting somewhere, which tell nothing of the thing.
_WHO: Final = frozenset(
    """husband wife mother mum mom father dad son daughter friend partner brother sister grandmother grandma grandfather
    grandpa kid child boy girl aunt uncle guest visitor we i he she they use need have want come go bring get into in
    enter access reach with along able manage""".split()  # noqa: SIM905
)
# Words of a feature that only say that it is there.
_THERE: Final = frozenset("accessible available allowed welcome permitted included provided offered friendly".split())  # noqa: SIM905


def otherwise(item: Item, question: str) -> tuple[bool, str] | None:
    """Whether something is so, and what the item says of it; None if it does not say.

    ``question`` is without the name of the item.
    """
    found = (
        on_holiday(item, question)
        or _by_age(item, question)
        or _by_offer(item, question)
        or _by_feature(item, question)
    )
    if found is not None:
        return found
    said = by_statement(item, question)
    return said[:2] if said is not None else None


_FEAST: Final = re.compile(
    r"\b(?:christmas|boxing\s+day|new\s+year|easter|good\s+friday|bank\s+holidays?|public\s+holidays?)\b", re.IGNORECASE
)


def on_feast(question: str) -> bool:
    """Whether a question is about a day on which the hours of the week may not apply."""
    return _FEAST.search(question) is not None


_TRIED: Final = re.compile(
    r"^\W*(?:can|could|may|might|must|should|do|does|will|would)\s+(?:i|we|you|one|my\s+\w+|our\s+\w+|an?\s+\w+)\s+(?P<verb>[a-z]+)",
    re.IGNORECASE,
)


def by_statement(item: Item, question: str) -> tuple[bool, str, float] | None:
    """Whether something is so by a statement that has every telling word of the question, what it says, and how well it
    fits; None if there is no such statement.

    A word that is only elsewhere in the item tells which thing is meant, if the statement has two others.
    """
    if _FORBIDDEN.search(question):  # "is smoking forbidden?"
        found = by_statement(item, _FORBIDDEN.sub("", question))
        return (not found[0], *found[1:]) if found is not None else None
    words = telling(question)
    days = [word for word in words if word in WEEKDAYS and not on_feast(question)]  # "Easter Sunday" is one day
    words = [word for word in words if word not in days]
    tried = _TRIED.match(question)
    verb = set(tokens(tried["verb"])) if tried is not None and len(words) > 1 else set[str]()
    proper = {word for name in _PROPER.findall(question) for word in tokens(name)}
    mine = {word for match in _OF_ASKER.finditer(question) for word in tokens(match["thing"])}
    if all(word in verb or word in mine or _says_little(word) for word in words):
        verb = set()  # "can I collect my order": nothing but the verb says what is asked

    def is_idle(word: str) -> bool:  # "can I throw confetti": what matters is the confetti
        return word not in proper and (word in verb or word in mine or _says_little(word))

    names, must = naming(item), obliges(question)

    def worth(reading: Reading) -> float:
        return reading.fit + (_OF_YOU if tried is not None and _YOU_MAY.search(reading.statement.text) else 0.0)

    for reading in sorted(readings(item, words, None, is_whether=True), key=lambda reading: -worth(reading)):
        own = [word for word in reading.own if not is_idle(word)] or list(reading.own)
        elsewhere = [word for word in (*reading.near, *reading.elsewhere) if not is_idle(word)]
        is_short = len(elsewhere) > 1 or (elsewhere and len(own) < _SURE) or not proper.isdisjoint(elsewhere)
        is_only_named = not days and reading.statement.is_so is None and all(has(names, word) for word in reading.own)
        is_unsaid = not verb.isdisjoint((*reading.absent, *reading.elsewhere)) and not _MODAL.search(
            reading.statement.english
        )
        absent = [word for word in reading.absent if not is_idle(word) and not _is_bounded(word, question, reading)]
        if _MODAL.search(reading.statement.english):  # "no smoking" says what is allowed
            absent = [word for word in absent if word not in _PERMITS]
        is_heading = _HEADING.match(reading.statement.text) is not None and not reading.statement.field
        is_other = is_heading or reading.statement.field in _WHOSE or (is_only_named and not must)
        if is_other or is_short or is_unsaid or absent:
            continue
        is_so = _is_so(reading, own, days, question)
        if is_so and reading.statement.field and (variant := is_sold_out(item, question)):
            return False, f"{item.name}: {variant} is not available.", worth(reading)
        if is_so is not None:
            text = reading.statement.text
            return is_so, f"{item.name}: {text}{'' if text.endswith(_ENDS) else '.'}", worth(reading)
    return None


# Fields whose words say nothing of what a thing has: "Needle & Tide" is no needle.
_WHOSE: Final = frozenset(
    "brand manufacturer seller provider publisher startDate endDate validFrom validThrough datePublished".split()  # noqa: SIM905
)
# "What postage costs."
_HEADING: Final = re.compile(r"\W*(?:what|how|when|where|who|which|why)\b", re.IGNORECASE)
_OF_YOU: Final = 0.1  # what it counts that a statement says what visitors may do
_YOU_MAY: Final = re.compile(r"\byou\s+(?:can|may|must|cannot|do|need)\b", re.IGNORECASE)
# "Can I collect my order?" asks about collecting.
_OF_ASKER: Final = re.compile(
    r"\b(?:my|our)\s+(?P<thing>orders?|purchases?|parcels?|packages?|deliver(?:y|ies)|shopping|goods|stuff|things|items?)\b",
    re.IGNORECASE,
)
_PERMITS: Final = frozenset({"allowed", "allow", "permitted", "permit"})
_FORBIDDEN: Final = re.compile(r"\b(?:forbidden|prohibited|banned)\b", re.IGNORECASE)
_AMOUNT: Final = re.compile(r"(?P<number>\d+(?:[.,]\d+)?)[\s-]*(?P<unit>[^\W\d_]+)")
_BOUND: Final = re.compile(
    r"\b(?:(?P<most>under|below|less\s+than|up\s+to|at\s+most|no\s+more\s+than|smaller\s+than|shorter\s+than|lighter\s+than)"
    r"|over|above|more\s+than|at\s+least|larger\s+than|longer\s+than|heavier\s+than)"
    r"\s+(?P<number>\d+(?:[.,]\d+)?)[\s-]*(?P<unit>[^\W\d_]+)",
    re.IGNORECASE,
)


_SIZES: Final = frozenset({"small", "little", "tiny", "short", "large", "big", "long", "heavy"})


def _is_bounded(word: str, question: str, reading: Reading) -> bool:
    """Whether a number of a question is within a bound that the statement has: 10 square metres are "under 25". Beside
    the number, "small" says no more."""
    if word in _SIZES:
        return _AMOUNT.search(question) is not None
    asked = next((found for found in _AMOUNT.finditer(question) if word in tokens(found["number"])), None)
    bounds = _BOUND.finditer(reading.statement.english)
    if asked is None:
        return False
    bound = next((found for found in bounds if tokens(found["unit"]) == tokens(asked["unit"])), None)
    if bound is None:
        return False
    said, limit = (float(found["number"].replace(",", ".")) for found in (asked, bound))
    return said <= limit if bound["most"] else said >= limit


_PROPER: Final = re.compile(r"(?<=\w\s)[A-Z][\w'’-]+|\b\d[\w.,-]*")  # names, and whatever has a number


@lru_cache(maxsize=4_096)
def _says_little(word: str) -> bool:
    """Whether a word of a yes/no question tells nothing of the thing: "taking" in "are you taking new patients?"."""
    stem = word.removesuffix("ing")
    return word not in OPPOSITE and any(form in IDLE or form in _SUPPORTS for form in (word, stem, f"{stem}e"))


# What says that something may be done, or may not.
_MODAL: Final = re.compile(
    r"\b(?:no|not|never|may|can|cannot|must|(?<!\bthe\s)only|allowed|permitted|welcome|fine|ok|okay|forbidden|prohibited|banned|possible|available|free\s+(?:to|for|of)|for\s+free|yes"
    r"|provided|supplied|included|required|mandatory|compulsory)\b|n['’]t\b",
    re.IGNORECASE,
)
_SUPPORTS: Final = frozenset({"support", "supported", "possible", "suitable", "need", "needed", "require", "required"})
_SURE: Final = 2  # words
_ENDS: Final = (".", "!", "?", "…")


def _is_so(reading: Reading, own: list[str], days: list[str], question: str) -> bool | None:
    text = reading.statement.english
    if (clock := _in_hours(text, question)) is not None:
        return clock
    if not days:
        is_flag = reading.statement.is_so is not None
        return reading.statement.is_so if is_flag else says(text, own, same, must=obliges(question))
    on_days = [clause for clause in clauses(text) if days_named(clause).issuperset(days)]
    is_so = says("; ".join(on_days) or text, own, same, must=obliges(question))
    if not days_named(text) or is_so is None:
        return None
    return is_so if on_days else not is_so


_DAYS: Final = re.compile(
    rf"\b(?P<first>{'|'.join(WEEKDAYS)})s?\b(?:\s*(?:to|until|through|-|–)\s*(?P<last>{'|'.join(WEEKDAYS)})s?\b)?",
    re.IGNORECASE,
)


def days_named(text: str) -> frozenset[str]:
    """The weekdays that a text names, with those between two: "Monday to Thursday"."""
    found: set[str] = set()
    for match in _DAYS.finditer(text):
        first = WEEKDAYS.index(match["first"].casefold())
        last = WEEKDAYS.index(match["last"].casefold()) if match["last"] else first
        count = (last - first) % len(WEEKDAYS) + 1
        found.update(WEEKDAYS[(first + at) % len(WEEKDAYS)] for at in range(count))
    if re.search(r"\b(?:every\s+day|daily)\b", text, re.IGNORECASE):
        found.update(WEEKDAYS)
    return frozenset(found)


def _by_age(item: Item, question: str) -> tuple[bool, str] | None:
    asked = _ASKED.search(question)
    age = _value(next((group for group in asked.groups() if group), "")) if asked else None
    if age is None:
        return None
    found = next(_ages(item), None)
    if found is None:
        return None
    low, high, said = found
    return low <= age <= high, said if item.name in said else f"{item.name}: {said}"


def _ages(item: Item) -> Iterator[tuple[float, float, str]]:
    """The lowest and the highest age that an item is for, and where it says so."""
    for field in _AGE_FIELDS:
        for text in strings(item.fields.get(field)):
            if match := _RANGE.match(text):
                high = float(match["b"]) if match["b"] else 200.0
                yield float(match["a"]), high, f"{item.name} is for ages {text}."
    for name in dict.fromkeys(name for name, _ in stated_fields(item) if "age" in tokens(spaced(name))):
        if name not in _AGE_FIELDS and (match := _RANGE.match(value := written(item, name))):
            first, is_most = float(match["a"]), "maximum" in tokens(spaced(name))
            high = float(match["b"]) if match["b"] else first if is_most else 200.0
            yield 0.0 if is_most else first, high, f"{item.name}: {spaced(name).lower()} {value}."
    language = item_language(item)
    for sentence in sentences(f"{item.description}\n{item.text}"):
        said = in_english(sentence, language)
        if between := _BETWEEN.search(said):
            start, end = between["a"] or between["c"], between["b"] or between["d"]
            yield _value(start) or 0.0, _value(end) or 200.0, sentence
        elif least := _LEAST.search(said):
            least_age = next((group for group in least.groups()[:-1] if group), "18")  # or it is for adults
            yield _value(least_age) or 0.0, 200.0, sentence


def _value(text: str) -> float | None:
    return number(text.casefold()) if text else None


def _by_offer(item: Item, question: str) -> tuple[bool, str] | None:
    """ "Do under 16s pay?": by the price of the offer of that name."""
    is_paid, is_free = _PAYS.search(question), _FREE.search(question)
    found = named_offer(item, question) if is_paid or is_free else None
    if found is None:
        return None
    name, price, written = found
    return (price > 0) is bool(is_paid), f"{item.name}: {name} {written}."


def _by_feature(item: Item, question: str) -> tuple[bool, str] | None:
    """By a feature whose name is in the question, if nothing else in the question says anything of the thing."""
    words = {word for word in content_words(question) if word not in IDLE and word not in _WHO}
    own = set(tokens(item.name))
    for label, is_so in feature_flags(item):
        named = set(tokens(spaced(label))) - _THERE
        if named and named.issubset(words) and words <= named | own | _THERE:
            return is_so, f"{item.name}: {spaced(label).lower()}{'' if is_so else ' – no'}."
    return None


_CLOCK: Final = r"(?P<{0}>\d{{1,2}})(?:[:.](?P<{0}m>\d\d))?\s?(?P<{0}h>[ap]\.?m\b)?"
_HOURS: Final = re.compile(
    rf"\b(?:from\s+)?{_CLOCK.format('a')}\s*(?:to|until|till|-|–)\s*{_CLOCK.format('b')}", re.IGNORECASE
)
_AT: Final = re.compile(rf"\bat\s+{_CLOCK.format('a')}", re.IGNORECASE)


def _in_hours(text: str, question: str) -> bool | None:
    """Whether something is open at a time, by a sentence with hours: "open from 8 am to 11 pm every day"."""
    asked, stated = _AT.search(question), _HOURS.search(text)
    if asked is None or stated is None or not (asked["ah"] or asked["am"]):
        return None
    if not (stated["ah"] or stated["am"] or stated["bh"] or stated["bm"]):
        return None
    start, end = _hour(stated, "a"), _hour(stated, "b")
    return start <= _hour(asked, "a") < (end if end > start else end + 24)


def _hour(match: re.Match[str], group: str) -> float:
    half = (match[f"{group}h"] or "").casefold()[:1]
    hour = int(match[group]) % 12 + (12 if half == "p" else 0) if half else int(match[group])
    return hour + int(match[f"{group}m"] or 0) / 60
