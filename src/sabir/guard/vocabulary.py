"""Restricts replies to a few agreed words (NLIP paper: a client asks the server to use a limited vocabulary). Pure.

No word is made up: if the agent's reply does not clearly name one of the agreed words, the reply has no words, and a
labelled part says so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from sabir.message import Message, json_part

VOCABULARY: Final = "vocabulary"
_WORD: Final = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
_NEGATIONS: Final = frozenset({
    "not", "no", "never", "neither", "nor", "don't", "doesn't", "isn't", "can't", "cannot", "won't",
    "nicht", "kein", "keine", "nie", "pas", "jamais", "non", "ni", "nunca",
})  # fmt: skip


def in_vocabulary(reply: Message, words: Sequence[str]) -> Message:
    """The reply in agreed words only: unchanged, or the one word that it says."""
    said = _WORD.findall(reply.text)
    known = {word.casefold(): word for word in words}
    if said and all(word.casefold() in known for word in said):
        text = reply.text
    else:
        text = _one_word([word.casefold() for word in said], known)
    note = () if text else (json_part({"words": list(words), "unmatched": True}, label=VOCABULARY),)
    return Message.text(text, parts=note, messagetype=reply.messagetype)


def _one_word(said: Sequence[str], known: dict[str, str]) -> str:
    """The word that a reply starts with, or the only one that it names, unless it is negated."""
    if said and said[0] in known:
        return known[said[0]]
    named = {word for word in said if word in known}
    denies = any(word in _NEGATIONS and word not in known for word in said)
    return known[named.pop()] if len(named) == 1 and not denies else ""
