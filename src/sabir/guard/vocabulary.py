"""Replies in a few agreed words (NLIP paper: a client asks the server to use a limited vocabulary). Pure.

A word is never made up: where the agent's reply names none of the agreed words clearly, the reply has no words, and a
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
    """The reply in the agreed words alone: as it is, or the one word that it says."""
    said = _WORD.findall(reply.text)
    known = {word.casefold(): word for word in words}
    if said and all(word.casefold() in known for word in said):
        text = reply.text
    else:
        text = _one_word([word.casefold() for word in said], known)
    note = () if text else (json_part({"words": list(words), "unmatched": True}, label=VOCABULARY),)
    return Message.text(text, parts=note, messagetype=reply.messagetype)


def _one_word(said: Sequence[str], known: dict[str, str]) -> str:
    """The word with which a reply begins, or the only one that it names, if nothing in it is denied."""
    if said and said[0] in known:
        return known[said[0]]
    named = {word for word in said if word in known}
    denies = any(word in _NEGATIONS and word not in known for word in said)
    return known[named.pop()] if len(named) == 1 and not denies else ""
