"""The thing that a site is itself: who "you" are in "what is your phone number?", "are you open on Sunday?"."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from sabir.search import Condition, Engine, Hit, OfType, SearchQuery
from sabir.search.answers.fields import stated_fields
from sabir.search.items.types import is_a
from sabir.search.query.words import fold, tokens

# What a site may be the site of.
_TYPES: Final = ("Organization", "Place", "CreativeWorkSeries", "SoftwareApplication", "WebSite")
_COMPANY: Final = ("Organization", "LocalBusiness")
_LOOKED_AT: Final = 60  # things that may be meant
_FEW: Final = 2  # things of the site's name
_MUCH: Final = 0.5  # share of the site's own name that a thing's name has
_HOURS: Final = frozenset({"openingHours", "openingHoursSpecification"})
_YOU: Final = re.compile(
    r"\b(?:you|your|yours|u|ur|here|on\s+site|onsite|on\s+the\s+premises|this\s+(?:place|site|shop|business|company)|the\s+(?:business|company|team|staff|office)|reception|front\s+desk)\b",
    re.IGNORECASE,
)
# "Your agency" is whoever is asked.
YOURS: Final = re.compile(
    r"\byour\s+(?:agency|office|company|business|firm|shop|store|school|hotel|clinic|practice|surgery|museum|library|restaurant"
    r"|cafe|café|garage|studio|gallery|centre|center|club|branch|team|place|site|reception|headquarters|agence|bureau"
    r"|magasin|boutique|école|agentur|büro|geschäft|laden|schule|praxis|agencia|oficina|tienda|escuela|clínica)\b",
    re.IGNORECASE,
)
_LABEL: Final = re.compile(r"[^a-z0-9]+")


def says_you(question: str) -> bool:
    """Whether a question speaks to the site: "do you …?", "your …", "… here?"."""
    return _YOU.search(question) is not None


async def own_thing(engine: Engine, where: tuple[Condition, ...]) -> Hit | None:
    """The organization, place, series or program that a site is about; None if it is about many, or about none."""
    hits = (await engine.search(SearchQuery("", (*where, OfType(_TYPES)), 0, _LOOKED_AT))).hits
    if not hits or len({hit.item.site for hit in hits}) > 1:
        return None
    named = [(share, hit) for hit in hits if (share := _share_of_site(hit)) >= _MUCH]
    if named:
        highest = max(share for share, _ in named)
        best = [hit for share, hit in named if share == highest]
        return _fullest(best) if len(best) <= _FEW else None  # a whole town may be named like its site
    companies = [hit for hit in hits if any(is_a(kind, above) for kind in hit.item.types for above in _COMPANY)]
    if len(companies) > 1:  # of a centre and its rooms, the centre is open at some times
        companies = [hit for hit in companies if not _HOURS.isdisjoint(hit.item.fields)]
    return companies[0] if len(companies) == 1 else None


def _share_of_site(hit: Hit) -> float:
    """How much of the site's name is in the name of a thing: "Kestrel Music School" at ``kestrelmusic.example``."""
    labels = [label for label in _LABEL.split(fold(hit.item.site).rsplit(".", 1)[0]) if label not in ("www", "docs")]
    site = "".join(labels)
    there = sum(len(word) for word in dict.fromkeys(tokens(hit.item.name)) if len(word) > 2 and word in site)
    return there / max(len(site), 1)


def _fullest(hits: Sequence[Hit]) -> Hit:
    """The one that says most of itself."""
    return max(hits, key=lambda hit: sum(1 for _ in stated_fields(hit.item)))
