"""Phrases in short form."""

from __future__ import annotations

import pytest

from sabir.guard.phrases import expanded


@pytest.mark.parametrize(
    ("short", "phrases"),
    [
        ("stop", ["stop"]),
        ("stop | halt it", ["stop", "halt it"]),
        ("(stop|halt) it", ["stop it", "halt it"]),
        ("stop [the|my] task", ["stop task", "stop the task", "stop my task"]),
        ("(a|b) [c] | d", ["a", "a c", "b", "b c", "d"]),
        ("(two words| in two lines) here", ["two words here", "in two lines here"]),
    ],
)
def test_choices_are_written_out(short: str, phrases: list[str]) -> None:
    assert expanded(short) == phrases
