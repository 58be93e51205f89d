"""The vocabulary of control messages, one file of phrases per language.

A line of a file is ``tag = phrase | phrase``, and goes on in lines that are indented; ``(a|b) [c]`` in a phrase is
written out by ``sabir.guard.phrases``. A tag names the meaning of a phrase; the grammar
(``sabir.agents.control.grammar``) is written in tags and is the same for all languages. A tag such as ``format:text``
has a value after the colon. Words with the tag ``filler`` carry no meaning and are skipped, and those of ``inner`` may
stand inside a phrase; a word in no file is unknown, and a sentence with an unknown word never acts.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from sabir.guard.phrases import expanded


def _read(language: str) -> Mapping[str, str]:
    """The phrases of a language by tag, separated by ``|``."""
    table: dict[str, str] = {}
    text = Path(__file__).with_name(f"{language}.txt").read_text(encoding="utf-8")
    for line in text.replace("\n    ", " ").splitlines():
        if not line.startswith("#"):
            tag, _, phrases = line.partition(" = ")
            table[tag] = " | ".join(expanded(phrases))
    return table


ENGLISH: Final = _read("english")
FRENCH: Final = _read("french")
GERMAN: Final = _read("german")
SPANISH: Final = _read("spanish")
