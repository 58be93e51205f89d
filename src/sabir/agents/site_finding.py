"""Finding: one question of a site searched for by what is understood of it, and by less where nothing meets it all.

What is not heeded in the end is told: in ``parsed.ignored`` with the reason, in ``note``, or in ``hint`` where nothing
is found.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from ..search import (
    Condition,
    Engine,
    Fields,
    Found,
    Hit,
    Ignored,
    Not,
    OfType,
    OnSite,
    Parsed,
    Query,
    from_text,
    resolved,
    structured,
)
from ..search.aspects import CLOSE, apart, coloured, states_colour
from ..search.conditions import During
from ..search.relaxing import asks_for_anything, freed, is_company, is_time, only_filters, unheld
from ..search.results import by_coming, has_value, reordered
from ..search.taxonomy import is_a
from ..search.words import content_words, tokens
from .site_asks import SiteAsk
from .site_words import coming_next

MOST: Final = 1_000  # results of one answer
CHANCE: Final = 20.0  # a score below which a hit is chance; see search.Hit
POOL: Final = 50  # hits that are looked at before the page is cut
_COMING: Final = 200  # items that are looked through for what comes next
_MISSED: Final = 6  # conditions that are tried one by one, where nothing meets them all
_OF_COLOUR: Final = 0.6  # share of the best score that a thing of the colour that was asked for must have
_ALONE: Final = "what was found does not say for how many"
_UNTIMED: Final = "what was found is not tied to a day"
_STATED: Final = {"price": "a price", "date": "a date", "stars": "a rating", "totaltime": "a time"}


class Finding:
    """What a question found so far: ``pool`` by falling score, ``hits`` the page of it, ``parsed`` what it went by."""

    def __init__(self, engine: Engine, site: str | None, ask: SiteAsk, now: datetime, limit: int) -> None:
        self.engine, self.site, self.ask, self.now = engine, site, ask, now
        self._usual = limit
        self.question = ""
        self.start = ask.start
        self.pool: tuple[Hit, ...] = ()
        self.hits: tuple[Hit, ...] = ()
        self.parsed = Parsed()
        self.filters: dict[str, Any] = {}
        self.note = ""  # what to know of what was found
        self.hint = ""  # what to say besides that nothing was found
        self.total = 0
        self.coverage = 1.0

    @property
    def limit(self) -> int:
        return min(MOST, self.ask.limit or self._usual)

    async def find(self, filters: dict[str, Any]) -> None:
        """Search for ``question`` within these filters."""
        self.filters, self.hint = filters, ""
        known = await self.engine.fields()
        spoken = from_text(self.question, known, self.now)
        if only_filters(spoken):
            spoken = msgspec.structs.replace(spoken, text="")
        given = await self._given(filters, known)
        self.parsed = await resolved(given | spoken, self.engine)
        await self._search()
        if not self.pool and self.parsed.text and asks_for_anything(self.parsed.text):
            await self._find_anything()
        if not self.pool and (free := freed(spoken, is_time, _UNTIMED)) is not None:
            await self._find_untimed(await resolved(given | free, self.engine))
        if not self.pool and (free := unheld(spoken)) is not None:
            self.parsed = await resolved(given | free, self.engine)
            await self._search()
        if (free := freed(spoken, is_company, _ALONE)) is not None:
            await self._find_for_any(await resolved(given | free, self.engine))
        if not self.pool and not self.hint:
            await self._find_nearly()
        if not self.pool and not self.hint:
            self.hint = await self._nearest_miss()
        await self._heed_colour()
        self._tell_unmet()

    async def _given(self, filters: dict[str, Any], known: Fields) -> Parsed:
        """The filters that were given beside the words; of several sites, one that is not here is told."""
        given = structured(filters, known, self.now)
        wanted = filters.get("site")
        if not isinstance(wanted, list):
            return given
        here = {site.name for site in await self.engine.sites()}
        strange = [each for each in wanted if isinstance(each, str) and each not in here and each.casefold() != "all"]
        told = tuple(Ignored("site", each, f"there is no site {each[:80]!r} here") for each in strange)
        return msgspec.structs.replace(given, ignored=(*given.ignored, *told))

    async def _find_anything(self) -> None:
        """What there is, newest first, for who asks for nothing in particular."""
        self.parsed = msgspec.structs.replace(self.parsed, text="")
        await self._search()

    async def _find_for_any(self, freed: Parsed) -> None:
        """ "A tent for two people" is no dish for two: what fits best need not say for how many it is."""
        bound, pool, total = self.parsed, self.pool, self.total
        self.parsed = freed
        await self._search()
        if pool and (not self.pool or pool[0].score >= CLOSE * self.pool[0].score):
            self.parsed, self.total = bound, total
            self._show(pool)

    async def _find_nearly(self) -> None:
        """What meets the conditions, where there are some and nothing that meets them is about the words."""
        narrowing = [each for each in self.parsed.conditions if not isinstance(each, OnSite)]
        if len(narrowing) < 2 or not self.parsed.text or self.ask.min_score is not None:
            return
        found = await self.engine.search(Query(self.parsed.text, self.where(), 0, self._depth))
        if not found.hits:  # not even one of the words
            found = await self.engine.search(Query("", self.where(), 0, self._depth))
        said = {word for words in self.parsed.said for word in tokens(words)}
        words = " ".join(word for word in self.parsed.text.split() if not said.issuperset(tokens(word)))
        if found.hits:
            self.parsed = self.parsed.without(words, "nothing that meets the rest is about it")
            self._show(found.hits[: self.start + self.limit])
            self.total = len(self.pool)

    async def _nearest_miss(self) -> str:
        """Which one condition keeps everything out, where it is one: who asks may do without it."""
        parsed, own = self.parsed, self.where()[: len(self.where()) - len(self.parsed.conditions)]
        least = self.ask.min_score if self.ask.min_score is not None else CHANCE
        most, best = (False, 0), ""
        for at, words in enumerate(parsed.said[:_MISSED]):
            rest = (*own, *parsed.conditions[:at], *parsed.conditions[at + 1 :])
            many = (await self.engine.search(Query(parsed.text, rest, 0, 1, least if parsed.text else 0.0))).total
            worth = (not isinstance(parsed.conditions[at], OfType), many)  # what it is can be done without the least
            if many and words and worth > most:
                most, best = worth, words
        return f' Without "{best}" there would be {most[1]}.' if best else ""

    async def _heed_colour(self) -> None:
        """ "Blue" is a filter where the things that are found state a colour."""
        named = coloured(self.parsed.text)
        if named is None or not states_colour(self.pool, named[0]):
            return
        colour, rest, condition = named
        text = rest if content_words(rest) else ""
        plain = await self.engine.search(Query(text, self.where(), 0, self._depth, CHANCE if text else 0.0))
        least = _OF_COLOUR * plain.hits[0].score if text and plain.hits else 0.0
        there = await self.engine.search(Query(text, (*self.where(), condition), 0, self._depth, least))
        parsed = msgspec.structs.replace(self.parsed, text=text)
        if there.hits:
            conditions, said = (*parsed.conditions, condition), (*parsed.said, colour)
            self.parsed = msgspec.structs.replace(parsed, conditions=conditions, said=said)
        elif plain.hits:
            self.parsed = parsed.without(colour, f"nothing that was found is said to be {colour}")
        if there.hits or plain.hits:
            self._show((there if there.hits else plain).hits)
            self.total = (there if there.hits else plain).total

    async def _soonest(self, where: tuple[Condition, ...]) -> Found:
        """Things that happen, those that come soonest first."""
        found = await self.engine.search(Query("", where, 0, MOST))
        return msgspec.structs.replace(found, hits=by_coming(found.hits, self.now.timestamp()))

    def _tell_unmet(self) -> None:
        """What was asked for and is in nothing that was found."""
        order = self.parsed.order
        if order is not None and self.pool and not has_value(self.pool, order[0], mixed=not self.parsed.text):
            reason = f"what was found does not state {_STATED.get(order[0], order[0])}"
            self.parsed = msgspec.structs.replace(
                self.parsed.without(self.parsed.ordered, reason), order=None, ordered=""
            )
        words = apart(self.parsed.text, self.pool)
        self.note = f"Nothing here is about {' and '.join(words)} together; these come nearest." if words else ""

    async def _find_untimed(self, freed: Parsed) -> None:
        """ "What should I cook tonight?" is not about what happens tonight: the time filters only what has one."""
        bound, self.parsed = self.parsed, freed
        await self._search()
        happening = sum(map(_happens, self.hits))
        if 2 * happening >= len(self.hits):  # events, and not then: that is the answer, and what comes next
            coming = (*self.where(), During("startdate", self.now.timestamp()))
            least = CHANCE if freed.text else 0.0
            self.hint = coming_next((await self.engine.search(Query(freed.text, coming, 0, _COMING, least))).hits)
            self.parsed, self.total = bound, 0
            self._show(())
        elif happening:  # those happen, and not then
            conditions, said = (*freed.conditions, Not(OfType(("Event",)))), (*freed.said, "")
            self.parsed = msgspec.structs.replace(freed, conditions=conditions, said=said)
            await self._search()

    async def _search(self) -> None:
        memory = "; ".join((*self.ask.memory, self.ask.about)).strip("; ")
        where = self.where()
        text = self.parsed.text
        least = self.ask.min_score if self.ask.min_score is not None else CHANCE
        pool = self._depth
        found = await self.engine.search(Query(text, where, 0, pool, least if text else 0.0, memory))
        if text and self.ask.min_score is None and all(hit.semantic is None for hit in found.hits):
            found = await self._by_words(Query(text, where, 0, pool, CHANCE / 2, memory))
        if not found.hits and found.coverage < 1.0 and self.parsed.conditions:
            # Meaning is not known of all yet, and words found none: what meets the conditions is better than nothing.
            found = await self.engine.search(Query("", where, 0, pool, 0.0, memory))
        if not text and not self.parsed.order and found.hits and all(_happens(hit) for hit in found.hits):
            found = await self._soonest(where)
        self.coverage = found.coverage
        self._show(found.hits)
        self.total = max(found.total, len(self.pool))

    def where(self) -> tuple[Condition, ...]:
        own = (OnSite((self.site,)),) if self.site is not None else ()
        return (*own, *self.parsed.conditions)

    async def _by_words(self, query: Query) -> Found:
        """What has some of the words, where meaning is not known to say that it is chance."""
        found = await self.engine.search(query)
        hits = tuple(hit for hit in found.hits if hit.semantic is None)
        return msgspec.structs.replace(found, hits=hits, total=len(hits))

    def _show(self, hits: tuple[Hit, ...]) -> None:
        """What was found, by falling score, and the page of it as far as it is known before it is ranked."""
        self.pool = hits
        self.hits = self.in_order(hits)[self.page]

    def in_order(self, hits: Sequence[Hit]) -> tuple[Hit, ...]:
        order = self.parsed.order
        return reordered(hits, order, mixed=not self.parsed.text) if order and hits else tuple(hits)

    @property
    def _depth(self) -> int:
        """How many hits are looked at; all, where they are put in order by a field and not by how they fit."""
        return MOST if self.parsed.order and not self.parsed.text else max(POOL, self.start + self.limit)

    @property
    def page(self) -> slice:
        return slice(self.start, self.start + self.limit)


def _happens(hit: Hit) -> bool:
    return any(is_a(kind, "Event") for kind in hit.item.types)
