"""Roundabout wordings of a question, as the rules and the items say them. Pure."""

from __future__ import annotations

from typing import Final

from . import dates
from .prefilter import PatternTable


def said_plainly(text: str) -> str:
    """The text with roundabout wordings replaced by those of the rules and the items."""
    return _PLAINLY.replaced(text)


_WHERE: Final = r"\bwhere\s+(?:(?:can|could|should|do)\s+(?:i|we|you|one)|to)\s+"
_TAKE: Final = r"(?:have|get|grab|eat|drink|find|go\s+(?:out\s+)?for)"
_SOME: Final = r"(?:an?\s+|some\s+|good\s+|something\s+for\s+)*"
_WHEN: Final = rf"(?:on\s+|at\s+)?(?:an?\s+|the\s+)?(?:(?:{'|'.join(dates.WEEKDAYS)}|weekend)s?|today|tonight|tomorrow)"
# "That you can send me now", "ready to ship", "on the shelf right now".
_AT_HAND: Final = (
    r"\b(?:that\s+|which\s+)?(?:you|i|we)\s+can\s+(?:ship|send|deliver|buy|get|borrow|take)(?:\s+(?:me|us|it|them|home))?\s+"
    r"(?:right\s+)?(?:now|today|immediately|straight\s+away)\b|\bready\s+to\s+(?:ship|go)\b"
    r"|\b(?:that\s+(?:is|are)\s+)?(?:on\s+the\s+shel(?:f|ves)|available|here)\s+(?:right\s+)?now\b"
)
# "Open right now, it's Monday noon": the time of asking is known.
_IT_IS_NOW: Final = (
    rf"(?<=\bnow)(?P<between>[^?]{{0,60}}),?\s+it['’]?s\s+(?:{'|'.join(dates.WEEKDAYS)})(?:\s+\w+){{0,2}}\W*$"
)
# What a house does for its visitors: "anything you are putting on this month?", "what do you run in May?".
_PUT_ON: Final = (
    r"\b(?:what|anything|something|things)\s+(?:else\s+)?(?:that\s+)?"
    r"(?:(?:you|they)(?:['’]re|\s+are)|(?:are|do|will)\s+(?:you|they)(?:\s+be)?)\s+(?:(?:putting|put|laying|lay)\s+on|hosting|staging)\b"
)
# "A flat, anywhere but Riverside".
_ELSEWHERE: Final = (
    r"\b(?:anywhere|everywhere|somewhere|any\s+(?:place|part))(?:\s+(?:else|at\s+all))?\s+"
    r"(?:but|except(?:\s+for)?|other\s+than|apart\s+from|besides)\s+(?:(?:in|at)\s+)?"
)
_PLAINLY: Final = PatternTable[str](
    (
        (r"^\W*do\s+you\s+(?:sell|stock|carry)\s+(?:any\s+|some\s+|an?\s+)?(?=[^\W\d_])", ""),
        (
            r"\b(?:without|with\s+no|no|free\s+of)\s+(?:any\s+|the\s+)?caffeine\b|\bcaffeine[\s-]free\b|\bnot\s+caffeinated\b",
            "decaf",
        ),
        (
            r"\b(?:(?:that|which)\s+)?(?:do(?:es)?n['’]?t|do(?:es)?\s+not|without)\s+(?:(?:have|need|require|use|needing|using)\s+)?(?:to\s+be\s+|any\s+|an?\s+)?"
            r"(?:plug(?:ging|ged)?(?:\s+in)?|mains(?:\s+power)?|electricity|sockets?|power\s+(?:cord|cable|outlet|socket))\b",
            "not electric",
        ),
        (_AT_HAND, "in stock"),
        (r"\b(\w+)[\s-]seaters?\b", r"with \1 seats"),
        (r"\b(\w+)[\s-]berths?\b", r"sleeps \1"),
        (r"\bone[\s-](?=(?:bed(?:room)?|bath(?:room)?|seat|storey|door|person)s?\b)", "1 "),
        (r"\bopen\s+right\s+now\b", "open now"),
        (_PUT_ON, "what is on"),
        (_ELSEWHERE, "not in "),
        (_IT_IS_NOW, r"\g<between>"),
        (r"\b(?:that\s+)?(?:i|you|we)\s+can\s+(?:do|take|attend|follow|study|join)\s+(?:from|at)\s+home\b", "online"),
        (rf"\b({'|'.join(dates.MONTHS)})\s+(events?|concerts?|courses?|classes|talks?|programmes?)\b", r"\2 in \1"),
        (rf"\bfor\s+({'|'.join(dates.MONTHS)})\b", r"in \1"),
        (
            rf"\b({'|'.join(dates.WEEKDAYS)})s?\s+((?:(?:morning|afternoon|evening|night)s?\s+)?)(courses|classes|lessons|workshops)\b",
            r"\3 on a \1 \2",
        ),
        (r"\b(?:things?|items?|stuff)\s+(?:that\s+)?(?:you|they)\s+sell\b", "products"),
        (r"\b(?:we\s+are\s+|i['’]?m\s+|i\s+am\s+)?on\s+a\s+(?:tight\s+|small\s+|low\s+)?budget\b", "cheap"),
        (r"\b(?:places?|somewhere)\s+to\s+(?:stay|sleep)\b|\baccommodations?\b", "where can i stay"),
        (
            rf"{_WHERE}(?P<when>{_WHEN}\s+)?(?:{_TAKE}\s+{_SOME})?(?P<meal>breakfast|brunch|coffee)\b",
            r"where can i eat \g<meal> \g<when>",
        ),
        (
            rf"{_WHERE}(?P<when>{_WHEN}\s+)?(?:(?:{_TAKE}\s+{_SOME})?(?:lunch|dinner|supper|food|meal|bite)|eat|dine)\b",
            r"where can i eat \g<when>",
        ),
        (rf"\b(where\s+can\s+i\s+eat(?:\s+(?:breakfast|brunch|coffee))?)\s+(?=(?:{_WHEN})\b)", r"\1 open "),
    )
)
