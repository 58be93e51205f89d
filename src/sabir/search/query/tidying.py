"""The text that is left of a question when its filters are taken out, without the words that joined them. Pure."""

from __future__ import annotations

import re
from collections.abc import Container
from typing import Final

_TOKEN: Final = re.compile(r"[\w'’-]+|[^\w\s]|\s+")
_CONJUNCTIONS: Final = frozenset({"and", "or", "but"})
_JOINS: Final = _CONJUNCTIONS | {"with", "for", "that", "which", "is", "are", "in", "at", "on", "from"}


def tidy(text: str) -> str:
    """The remaining text, without the conjunctions that joined the removed words.

    Reads one token after the other, so it takes linear time: an earlier pattern backtracked exponentially on "in in in
    in ...".
    """
    kept: list[str] = []
    for token in _TOKEN.findall(text):
        if token in ",.;!?":
            _drop_last(kept, _CONJUNCTIONS)
            if kept and kept[-1] == "," and token == ",":
                continue
        if token.isspace():
            if kept and kept[-1] != " ":
                kept.append(" ")
        else:
            kept.append(token)
    _drop_last(kept, _JOINS, " ,;")
    first = 0
    while first < len(kept) and (kept[first] in " ,;" or kept[first].casefold() in _CONJUNCTIONS):
        first += 1
    return "".join(kept[first:])


def _drop_last(tokens: list[str], words: Container[str], separators: str = " ,") -> None:
    """Drop these words and separators from the end of a list of tokens."""
    while tokens and (tokens[-1] in separators or tokens[-1].casefold() in words):
        tokens.pop()
