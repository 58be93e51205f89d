"""The word order of a question that was put into English word by word: what asks comes first. Pure.

"La piscine ferme à quelle heure ?" is "piscine what time closes ?", "mon chien peut entrer ?" is "my chien can
entrer ?". The rules look for what asks at the beginning.
"""

from __future__ import annotations

import re
from typing import Final

_ASKS: Final = r"(?:how|what|which|when|where|who|why|is|are|can|could|do|does|must|may|should|will|has|have)\b"
_BEGINS: Final = re.compile(rf"^\W*(?:(?:and|but|so)\s+)?{_ASKS}", re.IGNORECASE)
_BEHIND: Final = re.compile(rf",\s+{_ASKS}", re.IGNORECASE)  # "my Sohn is 6, can he …"
# What asks for a fact, behind a few words for the thing: "piscine what time closes".
_ASKED_LAST: Final = re.compile(
    r"^(?P<thing>[^\s?!.;,]+(?:\s+[^\s?!.;,]+){0,7}?),?\s+(?:(?:it\s+)?is\s+)?"
    r"(?P<asks>how\s+(?:much|long|many|old|far)|what\s+time(?:\s+(?:closes|opens|starts|ends))?|what\s+day|which\s+age"
    r"|when(?:\s+(?:open|ends))?|where(?:\s+is)?)\b(?P<rest>[^?!.;,]{0,40})(?P<end>\W*)$",
    re.IGNORECASE,
)
# "My chien can entrer ?": only a question mark says that this is a question.
_VERB_SECOND: Final = re.compile(
    r"^(?P<lead>(?:[^?!.;,]{2,80},\s+)?)(?P<who>[^\s?!.;,]+(?:\s+[^\s?!.;,]+){0,6}?)\s+(?P<verb>is|are|can|must|does)\s+"
    r"(?P<rest>[^?]{2,100}\?\W*)$",
    re.IGNORECASE,
)
_CLAUSE: Final = re.compile(r"\b(?:who|that|which|what|how|when|where|if|because)\b", re.IGNORECASE)


def asks_first(text: str) -> str:
    """The question with what asks before the thing that is asked about."""
    if _BEGINS.match(text) or _BEHIND.search(text):
        return text
    if (asked := _ASKED_LAST.match(text)) and not _CLAUSE.search(asked["thing"]):
        return f"{asked['asks']} {asked['thing']}{asked['rest']}{asked['end']}"
    found = _VERB_SECOND.match(text)
    if found and not _CLAUSE.search(found["who"]) and not _BEGINS.match(found["who"]):
        return f"{found['lead']}{found['verb']} {found['who']} {found['rest']}"
    return text
