"""The table in docs/control.md says what the rules read; neither can fall behind."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from sabir.agents.control.intents import TOPICS, read, read_words
from sabir.message import Message, json_part

DOCS = Path(__file__).resolve().parents[3] / "docs" / "control.md"
ROWS = [
    [cell.strip() for cell in line.strip("|\n ").split("|")]
    for line in DOCS.read_text(encoding="utf-8").split("\n")
    if line.startswith("| `")
]


def labels(row: list[str]) -> list[str]:
    return re.findall(r"`(\w+)`", row[0])


def test_every_topic_has_a_row() -> None:
    assert {label for row in ROWS for label in labels(row)} == set(TOPICS)


NO_WORDS = "(JSON only)"


def test_only_a_policy_has_no_words() -> None:
    assert [labels(row) for row in ROWS if row[1] in ("", NO_WORDS)] == [["policy"]]


@pytest.mark.parametrize("row", [row for row in ROWS if row[1] not in ("", NO_WORDS)], ids=lambda row: row[1])
def test_what_the_table_says_in_words_is_read(row: list[str]) -> None:
    wish = read_words(row[1])
    assert wish is not None and wish.topic in labels(row)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[2])
def test_what_the_table_says_in_json_is_read(row: list[str]) -> None:
    found = re.match(r"`(\{.*?\})`(?: |$)", row[2])
    assert found is not None
    value = json.loads(found.group(1))
    for label in labels(row):
        (wish,) = read(Message.text("", parts=[json_part(value, label=label)]))
        assert (wish.topic, wish.value) == (label, value)
