"""What is not so: "what does the recycling centre not take?" is answered by a sentence that denies it. Pure."""

from __future__ import annotations

import re
from typing import Final

from sabir.search.items.item import Item
from sabir.search.query.words import tokens

from .polarity import says
from .reading import Reading, has, kind_asked, naming, readings, same, statements, telling

_NOT: Final = r"(?:n['’]?t|\s*not)\b"
_OPENED: Final = r"^\W*(?:what|which(?:\s+(?:things?|items?|parts?|ones?|days?|dates?))?|when)\s+"
# "What is not covered?", "which things can't be returned?", "which days is the show not on?"
_ASKS_WHAT_NOT: Final = re.compile(
    rf"{_OPENED}(?:(?:is|are|ca|can|do|does){_NOT}(?!\s+(?:in|on|at|an?|the)\b)"
    rf"|(?:is|are|can|do|does)\s+(?:[^\s?]+\s+){{1,7}}?not\b)(?:\s+(?:i|we|you|they|it)\b)?(?:\s+(?P<verb>[a-z]+))?",
    re.IGNORECASE,
)
_THINGS: Final = frozenset({"thing", "item", "part", "one", "day", "date"})
# "No fridges." names what is left out; "No booking needed." does not.
_NONE: Final = re.compile(
    r"^(?:No|Not|Never|Without|Except)\b(?!.*\b(?:needed|necessary|required|problem|matter)\b)|\b(?:not|never|cannot)\b"
)


def words_denied(english: str) -> list[str]:
    """The telling words of a question for what is not so; empty if it asks for something else."""
    if not _ASKS_WHAT_NOT.match(english):
        return []
    return [word for word in telling(english) if word not in _THINGS and "'" not in word and "’" not in word]


def denials(item: Item, words: list[str]) -> list[Reading]:
    """The sentences of an item that have or imply all of these words and deny what they say."""
    return [
        reading
        for reading in readings(item, words, None)
        if not reading.absent
        and not reading.statement.field
        and says(reading.statement.english, reading.own, same) is False
    ]


def left_out(item: Item, english: str) -> str:
    """The sentence of an item that says what it leaves out, for a question that names the item and says no more than a
    verb; empty if there is none."""
    asks = _ASKS_WHAT_NOT.match(english)
    verb = tokens(asks["verb"]) if asks and asks["verb"] else []
    words = [word for word in words_denied(english) if word not in verb]
    if not words or not all(has(naming(item), word) for word in words):
        return ""
    kind = kind_asked(english)
    said = [one for one in statements(item) if not one.field and one.is_so is None and _NONE.search(one.english)]
    fitting = [one for one in said if kind is None or kind.search(one.english)]
    with_verb = [one for one in fitting if any(has(one.words, word) for word in verb)]
    return next((one.text for one in (*with_verb, *fitting)), "")
