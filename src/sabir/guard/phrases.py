"""Phrases in short form: ``(cancel|stop) [the|my] task`` is six phrases. Pure."""

from __future__ import annotations

import re
from itertools import product
from typing import Final

_PHRASE: Final = re.compile(r"(?:\([^()]*\)|\[[^\[\]]*\]|[^|()\[\]])+")
_PIECE: Final = re.compile(r"\(([^()]*)\)|\[([^\[\]]*)\]|([^()\[\]]+)")


def expanded(phrases: str) -> list[str]:
    """The phrases of a list separated by ``|``: round brackets hold choices, square ones choices that may be absent."""
    return [
        " ".join(" ".join(words).split())
        for phrase in _PHRASE.findall(phrases)
        for words in product(*(_choices(*piece) for piece in _PIECE.findall(phrase)))
    ]


def _choices(choices: str, optional: str, words: str) -> list[str]:
    if optional:
        return ["", *optional.split("|")]
    return choices.split("|") if choices else [words]
