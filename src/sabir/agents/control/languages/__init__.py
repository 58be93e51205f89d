"""The vocabulary of control messages, one file of phrases per language.

A line of a file is ``tag = phrase | phrase``, and goes on in lines that are indented; ``(a|b) [c]`` in a phrase is
written out by ``sabir.guard.phrases``. A tag names the meaning of a phrase; the grammar
(``sabir.agents.control.grammar``) is written in tags and is the same for all languages. A tag such as ``format:text``
has a value after the colon. Words with the tag ``filler`` carry no meaning and are skipped, and those of ``inner`` may
stand inside a phrase; a word in no file is unknown, and a sentence with an unknown word never acts.

Phrases are composed where they can be: ``set:mine = my | our`` names words, and ``({mine}) name`` uses them;
``verbs:erase = borrar`` adds all forms of a verb (``forms``); ``throw…away`` may have other words in its middle.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

from sabir.guard.phrases import expanded

from .forms import FORMS, tags_of

LANGUAGES: Final = ("english", "german", "spanish", "french")
_SET: Final = re.compile(r"\{([a-z_]+)\}")


@cache
def table_of(language: str) -> Mapping[str, str]:
    """The phrases of a language by tag, separated by ``|`` alone. Takes a moment, so it waits until they are needed."""
    table: dict[str, list[str]] = {}
    sets: dict[str, str] = {}
    text = Path(__file__).with_name(f"{language}.txt").read_text(encoding="utf-8")
    for line in text.replace("\n    ", " ").splitlines():
        if line.startswith("#"):
            continue
        tag, _, phrases = line.partition(" = ")
        phrases = _SET.sub(lambda match: sets[match.group(1)], phrases)
        kind, _, name = tag.partition(":")
        if kind == "set":
            sets[name] = "|".join(phrase.strip() for phrase in phrases.split("|"))
        elif kind == "verbs":
            _add_forms(table, language, name, phrases)
        else:
            table.setdefault(tag, []).extend(expanded(phrases))
    return {tag: "|".join(found) for tag, found in table.items()}


def _add_forms(table: dict[str, list[str]], language: str, name: str, verbs: str) -> None:
    tags = tags_of(name)
    for verb in verbs.split("|"):
        for kind, found in FORMS[language](verb.strip()).items():
            if kind in tags:
                table.setdefault(tags[kind], []).extend(found)
