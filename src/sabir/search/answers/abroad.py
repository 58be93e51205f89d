"""Whether a shop sends to another country, where its page says that it sends to few, or to none. Pure.

"Do you ship to France?" is answered by "We send to Ireland and to nowhere else.", which does not name France.
"""

from __future__ import annotations

import re
from typing import Final

from sabir.search.items.item import Item
from sabir.search.query.words import sentences, tokens

_COUNTRIES: Final = frozenset(
    """france germany spain italy portugal ireland austria switzerland belgium netherlands holland luxembourg denmark
    sweden norway finland iceland poland czechia hungary romania bulgaria greece croatia slovenia slovakia estonia
    latvia lithuania ukraine turkey usa america canada mexico brazil argentina australia zealand japan china korea india
    singapore israel egypt morocco africa asia europe eu abroad overseas""".split()  # noqa: SIM905
)
_SENT: Final = re.compile(
    r"\b(?:deliver|ship|send|post|mail|dispatch|delivery|shipping|postage)\b[^?.!]{0,40}?\bto\s+(?:the\s+)?(?P<place>[^?.!,]{2,30})",
    re.IGNORECASE,
)
_ABROAD: Final = re.compile(
    r"\b(?:(?:deliver|ship|send|post|mail)\s+(?:abroad|overseas|internationally))\b", re.IGNORECASE
)
_SENDS: Final = re.compile(r"\b(?:deliver\w*|ship\w*|send\w*|post|posted|postage|dispatch\w*)\b", re.IGNORECASE)
_NOWHERE_ELSE: Final = re.compile(
    r"\bnowhere\s+else\b|\bno\s+other\s+countr|\bonly\s+(?:with)?in\b|\bonly\s+to\b|\b(?:to|in)\s+[\w\s]{2,30}\s+only\b"
    r"|\b(?:not|cannot|never|n['’]t)\b[^.]{0,80}\b(?:abroad|overseas|internationally|outside)\b",
    re.IGNORECASE,
)


def beyond(item: Item, question: str) -> str:
    """The sentence that says that a shop does not send to the country of a question; empty if none does."""
    asked = _SENT.search(question)
    place = set(tokens(asked["place"])) if asked else set(tokens(question)) & {"abroad", "overseas"}
    if not (asked or _ABROAD.search(question)) or place.isdisjoint(_COUNTRIES):
        return ""
    text = f"{item.description}\n{item.text}"
    if asked and not place.isdisjoint(tokens(text)):
        return ""  # it may say so itself
    said = (one for one in sentences(text) if _SENDS.search(one) and _NOWHERE_ELSE.search(one))
    found = next(said, "")
    return f"{item.name}: {found}" if found else ""
