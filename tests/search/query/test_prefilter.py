"""Tables of patterns skip only what cannot match."""

from __future__ import annotations

import re
import sys

import pytest

from sabir.search.query import asking, date_words, followup, plainly, predicates, text
from sabir.search.query.prefilter import PatternTable, needed, starts
from search.generated import questions
from suites.security.patterns import attacks

TABLES = {
    "filters": text._RULES,
    "fields": text._ASKED,
    "facts": asking._FACTS,
    "dates": date_words._TABLE,
    "wordings": plainly._PLAINLY,
    "predicates": predicates._PLAIN,
    "constraints": followup._KIND_PATTERNS,
}


@pytest.mark.parametrize(
    ("pattern", "clauses"),
    [
        (r"\bopen\s+(?:now|today)\b", [{"open ", "today"}]),
        (r"\b(?:the\s+)?cheapest\b", [{"cheap"}]),
        (r"\bfor\s+(?:may|june)\b", [{"for ", "june "}]),
        (r"\b(?:may|june)s?\b", [{"may ", "mays ", "june ", "junes"}]),
        (r"\d+\s*km\b", [{"0"}, {"0", "km "}]),
        (r"\bin\s+\d{4}\b", [{"in "}, {"0"}]),
        (r"^\W*(?:is|are)\b", [{"is ", "are "}]),
        (r"(?<=\bnow)x+", [{"now"}]),
        (r"free\b", []),  # "sugarfree", too
        (r"\b[a-z]+\b", []),
        (r"(?:very\s+)*\bok\b", [{"ok "}]),
        (r"\bcafé\b", [{"caf"}]),
        (r"\b(?:a|.*)\b", []),
    ],
)
def test_what_a_pattern_needs_is_read_from_it(pattern: str, clauses: list[set[str]]) -> None:
    found = needed(re.compile(pattern, re.IGNORECASE))
    assert sorted(map(sorted, found)) == sorted(map(sorted, clauses))


def test_the_starts_of_a_text_know_no_case_and_no_marks() -> None:
    assert starts("Tea, (25) É") == {"t", "te", "tea", "tea ", "0", "00", "00 ", "\x00", "\x00 "}


def test_every_letter_that_a_pattern_takes_for_an_ascii_one_is_that_letter() -> None:
    for letter in "abcdefghijklmnopqrstuvwxyz":
        others = re.findall(letter, "".join(map(chr, range(128, sys.maxunicode + 1))), re.IGNORECASE)
        assert [other for other in others if letter not in starts(other)] == []


@pytest.mark.parametrize("name", TABLES)
def test_no_row_that_matches_is_skipped(name: str) -> None:
    """Texts that come from the patterns themselves, and texts that come from everywhere."""
    table = TABLES[name]
    for place, (pattern, _) in enumerate(table.rows):
        for start, pump, suffix in attacks(pattern):
            for said in (f"{start}{pump}{suffix}", f"{start}{pump}{pump} {suffix}"):
                assert not pattern.search(said) or table.following(said, place) == place, (pattern.pattern, said)
    for question in questions(300, seed=3):
        possible = {pattern for pattern, _ in table.possible(question)}
        assert [row for row, _ in table.rows if row not in possible and row.search(question)] == [], question


def test_a_table_goes_on_with_a_changed_text() -> None:
    table = PatternTable[str]([(r"\bone\b", "two"), (r"\btwo\b", "three"), (r"\bone\b", "four")])
    assert table.replaced("one one") == "three three"
    assert [value for _, value in table.possible("ONE")] == ["two", "four"]
    assert (table.following("one", 1), table.following("none"), table.following("")) == (2, None, None)
