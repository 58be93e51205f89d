"""Questions by the hundred thousand: made of every word that a rule knows, of names, and of texts that hurt."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime
from time import thread_time

from sabir.agents.site.pronouns import with_subject
from sabir.agents.site.subject import MAX_LENGTH
from sabir.agents.site.wording import is_greeting
from sabir.search import Fields, decontextualized, from_text
from sabir.search.items.types import TYPE_WORDS
from sabir.search.query import names
from sabir.search.query.asking import asked
from sabir.search.query.aspects import COLOURS, coloured
from sabir.search.query.categories import candidates
from sabir.search.query.comparisons import ABOUT, ABOVE, BELOW
from sabir.search.query.dates import FEASTS, MONTHS, WEEKDAYS
from sabir.search.query.followup import is_more
from sabir.search.query.glossary import LANGUAGES, detected_language, glossary, glossed, language_of, same_words
from sabir.search.query.places import CITIES
from sabir.search.query.relaxing import only_filters
from sabir.search.query.spelling import corrected, doubtful
from sabir.search.query.structured import DATE_OPERATORS
from sabir.search.query.text import MAX_READ, parsed_question
from sabir.search.query.translated import _is_term, translations
from sabir.search.query.vocabulary import ALIASES, ALIKE, COUNTED, DIETS, KINDS, MEASURES, NUTRIENTS
from sabir.search.query.words import STOPWORDS, readable

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
# A site that states everything, so that every rule applies.
EVERYTHING = Fields(
    types=frozenset(TYPE_WORDS.values()),
    words=frozenset(
        """keywords suitablefordiet recipeingredient availability openon category recipecategory recipecuisine
        servescuisine genre brand author instructor color material amenityfeature employmenttype eventstatus name
        acceptsreservations educationallevel""".split()  # noqa: SIM905
    ),
    numbers=frozenset(
        """price pricelevel totaltime stars calories recipeyield weight numberofpages proteincontent fatcontent
        sugarcontent reviewcount duration volume length""".split()  # noqa: SIM905
    ),
    dates=frozenset({"date", "startdate", "enddate", "datepublished"}),
    places=frozenset({"boise", "portland", "heron harbour", "the net loft"}),
)
OPENERS = (
    "", "how to", "how do I", "how much is", "what is", "what's", "when does", "where can I", "who", "which", "why",
    "is", "are there", "do you have", "does", "can I", "could you", "show me", "find", "tell me about", "I want",
    "and", "but", "or", "what about", "and is it", "only", "now", "instead", "not", "without", "give me the", "any",
    "wie lange", "was kostet", "ist", "¿cuánto cuesta", "¿es", "combien de temps", "est-ce que", "où est", "いくら",
)  # fmt: skip
JOINS = (
    "and", "or", "but", "with", "without", "in", "on", "at", "from", "to", "for", "that", "which", "is", "are", "near",
    "between", "under", "over", "not", "no", "by", "until", "of", ",", ";", ".", "?", "!", "-", "/", "&", "und", "y",
    "et",
    "の", "は", "aus", "sin", "sans", "than", "than the", "it", "them", "the", "a",
)  # fmt: skip
WORDS = tuple(
    dict.fromkeys(
        word
        for table in (TYPE_WORDS, DIETS, KINDS, MEASURES, NUTRIENTS, COUNTED, ALIASES, ALIKE, COLOURS, FEASTS, CITIES,
                      BELOW, ABOVE, ABOUT, DATE_OPERATORS, STOPWORDS, MONTHS, WEEKDAYS, same_words(),
                      *(glossary(language).terms for language in LANGUAGES))
        for word in (sorted(table) if isinstance(table, frozenset) else table)  # the same in each process
    )
)  # fmt: skip
NUMBERS = (
    "20", "$20", "€1.50", "20 dollars", "30 minutes", "an hour", "4 stars", "4.5", "2027", "14 February", "2 kg", "0",
    "1e309", "9" * 60, "-5", "½", "1/2", "3 people", "500 calories", "12:30", "10 km", "１２", "٣", "1,000.50", "NaN",
)  # fmt: skip
ITEMS = (
    "Salt & Sedge", "Low Tide Festival", "Seventy Percent, No Nuts", "Free First Sunday at the Museum",
    "Three-Day Rye in Three Hours", "Bánh Mì Pier", "Käsespätzle mit Röstzwiebeln", "親子丼", "trout", "soup", "",
)  # fmt: skip
ODD = (
    "\x00", "\u202e", "\ud800", "\u200b" * 50, "(" * 60, "\\" * 40, "[a-z]*", "(?P<x>", "%s%s%n", "{{7*7}}", "${x}",
    "' OR 1=1 --", "<script>", "👩‍👩‍👧‍👦" * 10, "ﷺ", "İ", "ß" * 40, "ﬁ",
    "a" * 500, "in " * 80, "and, " * 60, "1 " * 120,
    "between 1 and " * 25, "not " * 90, "without without without", "." * 200, "'" * 200, "-" * 200, "$" * 100,
    "open on open on " * 20, "ー" * 100, "¿" * 50, "\n\t\r" * 20, "x and " * 70, "from January to " * 22,
)  # fmt: skip
# Pieces that backtracking patterns are slow on, when they come again and again.
ADVERSE = ("ー", "の", "漢", "a", "in ", "and, ", "1 ", "between 1 and ", "not ", "'", "-", "the 1st of ", "this may ",
           "next ", "from January to ", "free ", "4 oz ")  # fmt: skip
BEFORE = "vegan soups under $20"
PLAIN = "vegan soups under $20 near Boise"
# How many times the processor time of a plain question any other may take: a busy machine slows both.
MAX_TIMES = 30
LETTERS = 400  # more letters than these are allowed the time of another plain question, so time stays linear


def questions(count: int, seed: int = 0) -> Iterator[str]:
    """Generated questions, the same for the same seed."""
    chance = random.Random(seed)
    for _ in range(count):
        pieces = [chance.choice(OPENERS)]
        for _ in range(chance.choice((1, 1, 2, 2, 3, 4, 6, 12))):
            table = chance.choices((WORDS, JOINS, NUMBERS, ITEMS, ODD), (50, 25, 12, 10, 3))[0]
            pieces.append(chance.choice(table))
        text = chance.choice((" ", " ", " ", "  ", "")).join(pieces) + chance.choice(("", "?", "!", " ", " ?"))
        yield _mangled(text, chance)


def _mangled(text: str, chance: random.Random) -> str:
    """Sometimes in other letters, cut, doubled or with a letter swapped."""
    way = chance.randrange(12)
    if way == 0:
        return text.upper()
    if way == 1:
        return text.title()
    if way == 2 and len(text) > 2:
        at = chance.randrange(len(text) - 1)
        return text[:at] + text[at + 1] + text[at] + text[at + 2 :]
    if way == 3:
        return text[: chance.randrange(len(text) + 1)]
    if way == 4:
        return f"{text} {text}"
    if way == 5:
        return text * chance.choice((3, 9, 40))
    return text


def read(question: str, before: str = BEFORE) -> float:
    """Read a question by every rule there is, as a site agent does; the seconds of processor time that it took."""
    for kept in (parsed_question, detected_language, names.words_of, translations, _is_term):
        kept.cache_clear()  # each time as if for the first time
    started = thread_time()
    text = readable(question)
    is_greeting(text)
    is_more(text)
    language = language_of(text[:MAX_READ])
    with_subject(text, "Salt & Sedge")
    decontextualized(glossed(text, language) if len(text) <= MAX_READ else text, (before,), ("Salt & Sedge",))
    english = glossed(text, language)
    if len(english) <= MAX_READ:
        english = corrected(english, dict(doubtful(english)))
    if len(text) <= MAX_LENGTH:
        for item in ITEMS:
            names.find(text, item)
        asked(english, english, EVERYTHING, NOW)
    parsed = from_text(english, EVERYTHING, NOW)
    only_filters(parsed)
    coloured(parsed.text[:MAX_READ])
    candidates(parsed.text, parsed.said, EVERYTHING)
    return thread_time() - started


def limit_of(question: str) -> float:
    """The seconds of processor time that reading this question may take now, by what a plain one takes now."""
    plain = min(read(PLAIN) for _ in range(5))
    return plain * (MAX_TIMES + len(question) / LETTERS)


def is_slow(question: str, before: str = BEFORE) -> bool:
    """Whether a question takes too long, three times out of three: it may have been disturbed."""
    return all(read(question, before) > limit_of(question) for _ in range(3))
