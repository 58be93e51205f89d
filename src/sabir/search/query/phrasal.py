"""Verbs of two words by the one word that many sites have for them: "pick my order up" is "collect my order". Pure."""

from __future__ import annotations

import re
from typing import Final

_WHOSE: Final = "my|our|the|a|an|it|them|this|that|these|those|some|his|her|your|something"
_WHAT: Final = rf"(?P<what>(?:\s+(?:{_WHOSE}))?(?:\s+[\w’'-]+){{0,2}}?)"
# A verb, its particle, and the one word.
_VERBS: Final = tuple(
    (re.compile(rf"\b(?:{verb}){_WHAT}\s+{particle}\b", re.IGNORECASE), plain)
    for verb, particle, plain in (
        (r"pick", r"up", "collect"),
        (r"picking", r"up", "collecting"),
        (r"(?:send|give|bring|take|hand|post|ship)", r"back", "return"),
        (r"(?:sending|giving|bringing|taking|handing|posting|shipping)", r"back", "returning"),
        (r"(?:sent|given|brought|taken|handed)", r"back", "returned"),
        (r"call", r"off", "cancel"),
        (r"called", r"off", "cancelled"),
    )
)


def in_one_word(question: str) -> tuple[str, str]:
    """The question with such a verb in one word, and that word; the question and nothing if it has none."""
    for pattern, plain in _VERBS:
        if match := pattern.search(question):
            return f"{question[: match.start()]}{plain}{match['what']}{question[match.end() :]}", plain
    return question, ""
