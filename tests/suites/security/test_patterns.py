"""No regular expression of the source stops the gateway (issue 11, D11): each is given the texts that hurt it most.

The first version of ``_tidy`` took 16 seconds on a query of 75 characters and stopped every door meanwhile.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from time import process_time

import pytest

from sabir.agents.site import pronouns
from sabir.search import decontextualized, from_text, structured
from sabir.search.answers.clarify import chosen
from sabir.search.engine.base import Fields
from sabir.search.query import predicates, stated
from sabir.search.query.followup import is_more
from sabir.search.query.glossary import LANGUAGES, glossary
from sabir.search.query.text import MAX_READ

from .patterns import Found, attacks, collect, seconds

NOW = datetime(2026, 3, 4, 12, tzinfo=UTC)
EVERYTHING = Fields(
    types=frozenset({"Recipe", "Event", "Product", "Restaurant"}),
    words=frozenset({"keywords", "suitablefordiet", "recipeingredient", "availability", "openon"}),
    numbers=frozenset({"price", "totaltime", "stars", "calories", "recipeyield", "weight"}),
    dates=frozenset({"date", "datepublished"}),
    places=frozenset({"boise"}),
)

# Modules that read questions see at most so many characters, with single blanks: the callers clip them.
READERS = ("sabir.search.query.", "sabir.search.answers.", "sabir.agents.site.")
LENGTH = 32_000  # for all others
SLOWEST_READER = 0.05
QUADRATIC = Found("a tag", re.compile(r"<[^>]*>"), "sub")

# Patterns made of local names cannot be collected from the source. Each is listed here with why it is harmless.
MADE_FROM_NAMES = {
    "sabir.agents.site.grounding": "the name of a month between word boundaries, or after a digit",
    "sabir.agents.site.sentences": "compiled into a table, which is collected",
    "sabir.agents.site.subject": "an escaped word after a word boundary",
    "sabir.agents.site.pronouns": "a table of texts, which is tested below",
    "sabir.agents.control.opposites": "rows of words between boundaries",
    "sabir.agents.control.grammar": "over at most 2,000 tags; tests/agents/control/test_reading.py attacks each",
    "sabir.config.load": "an escaped path of the configuration",
    "sabir.guard.filters.injection": "compiled into a table, which is collected",
    "sabir.guard.filters.secrets": "compiled into a table, which is collected",
    "sabir.guard.rights": "names with wildcards from the configuration",
    "sabir.protocols.mcp.wire.cards": "compiled into a table, which is collected",
    "sabir.search.answers.reading": "compiled into a table, which is collected",
    "sabir.search.answers.clarify": "an escaped word between word boundaries",
    "sabir.search.query.predicates": "compiled into a table, which is collected, and tables of texts, tested below",
    "sabir.search.query.aspects": "an escaped word after a word boundary",
    "sabir.search.query.followup": "compiled into a table, which is collected",
    "sabir.search.query.glossary": "the phrases of a language, which are tested below",
    "sabir.search.query.negation": "at most three letters, each before letters and a blank",
    "sabir.search.query.phrasal": "compiled into a table, which is collected",
    "sabir.search.query.sounds": "compiled into a table, which is collected; over one word",
    "sabir.search.answers.holidays": "compiled into a table, which is collected",
    "sabir.search.query.spelling": "an escaped word between word boundaries",
    "sabir.search.query.stated": "the words of a language in sentences, which are tested below",
    "sabir.search.query.structured": "one optional word before the rest, on at most 200 characters",
    "sabir.search.query.prefilter": "tables, whose rows are collected, and the pieces of a pattern that is collected",
}
PATTERNS, UNKNOWN = collect()
# A third of what a quadratic pattern takes on this machine; a linear one takes less than a hundredth.
SLOWEST = min(seconds(QUADRATIC, "<" * LENGTH, 2.0) for _ in range(3)) / 3
# Tables that are kept as texts and compiled where they are used.
PATTERNS += [
    *(
        Found("sabir.search.query.predicates", re.compile(text, re.I), "search")
        for text in (*(text for text, _ in predicates._SPECIAL), *predicates._CONTENTS)
    ),
    *(
        Found("sabir.agents.site.pronouns._PRONOUNS", re.compile(text, re.I), "sub")
        for text in pronouns._PRONOUNS.values()
    ),
    *(Found(f"sabir.search.query.glossary.{language}", glossary(language).pattern, "sub") for language in LANGUAGES),
    *(Found(f"sabir.search.query.stated.{language}", stated._terms(language)[1], "sub") for language in LANGUAGES),
]


def slowest(found: Found, length: int, limit: float, *, blanks: bool) -> tuple[float, str]:
    """The longest time of a pattern over its attacks; a slow one is timed twice more, for other work on the machine."""
    worst = (0.0, "")
    for prefix, pump, suffix in attacks(found.pattern):
        text = prefix + pump * (length // len(pump)) + suffix
        text = text if blanks else " ".join(text.split())
        taken = seconds(found, text, limit)
        if taken >= limit:
            taken = min(taken, seconds(found, text, limit), seconds(found, text, limit))
        worst = max(worst, (taken, f"{prefix[:40]!r} + {pump!r} * n + {suffix!r}"))
        if worst[0] >= limit:
            break
    return worst


@pytest.mark.parametrize("found", PATTERNS, ids=[f"{pattern.where}-{n}" for n, pattern in enumerate(PATTERNS)])
def test_a_pattern_takes_linear_time_on_the_text_that_hurts_it_most(found: Found) -> None:
    reader = found.where.startswith(READERS)
    limit = SLOWEST_READER if reader else SLOWEST
    taken, text = slowest(found, MAX_READ if reader else LENGTH, limit, blanks=not reader)
    assert taken < limit, f"{found.where}: {found.pattern.pattern[:120]} on {text}"


def test_every_pattern_that_is_made_of_names_is_accounted_for() -> None:
    assert len(PATTERNS) > 200
    assert {item.split(":")[0] for item in UNKNOWN} <= MADE_FROM_NAMES.keys()


def test_the_attacks_find_an_exponential_pattern() -> None:
    tidy = re.compile(r"(?:[\s,;]*\b(?:and|or|but|in|at)\b[\s,;]*)+$")
    taken, _ = slowest(Found("the old _tidy", tidy, "sub"), MAX_READ, SLOWEST_READER, blanks=False)
    assert taken >= SLOWEST_READER


def test_the_attacks_find_a_quadratic_pattern() -> None:
    taken, _ = slowest(QUADRATIC, LENGTH, SLOWEST, blanks=True)
    assert taken >= SLOWEST


# The whole reading of a question, over every attack on the patterns of its readers


def attack_texts() -> list[str]:
    texts = {
        " ".join(f"soup {prefix}{pump * (MAX_READ // len(pump))}{suffix}".split())[:MAX_READ]
        for found in PATTERNS
        if found.where.startswith(READERS)
        for prefix, pump, suffix in attacks(found.pattern)
    }
    return sorted(texts)


def test_no_question_takes_longer_to_read_than_the_budget() -> None:
    worst = (0.0, "")
    for text in ["soup" + " in" * 25 + " x", "soup" + " in" * 130 + " x", *attack_texts()[::7]]:
        start = process_time()
        from_text(text, EVERYTHING, NOW)
        worst = max(worst, (process_time() - start, text))
    print(f"slowest question to read: {worst[0] * 1000:.1f} ms: {worst[1][:80]}")
    # The budget is looked at between two matches, so one search may pass it by as much as the slowest pattern takes.
    assert worst[0] < 0.1, worst[1]


def test_no_follow_up_answer_or_filter_takes_longer_than_the_budget() -> None:
    for text in attack_texts()[::29]:
        start = process_time()
        is_more(text)
        decontextualized(text, ["soups under $20", text])
        chosen(text, ["Soup (3)", "Dessert (4)"])
        structured({"price": text, "date": text, "location": text, "keywords": text}, EVERYTHING, NOW)
        assert process_time() - start < 0.2, text


def test_a_question_beyond_the_budget_is_searched_for_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sabir.search.query.text.READ_BUDGET", 0.0)
    parsed = from_text("soup under $20 near Boise", EVERYTHING, NOW)
    assert parsed.text == "soup under $20 near Boise"
    assert parsed.conditions == ()
