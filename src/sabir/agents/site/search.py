"""Search: runs one question of a site by everything that was understood of it, and by less if nothing meets it all.

Whatever was left out is reported: in ``parsed.ignored`` with the reason, in ``note``, or in ``hint`` if nothing is
found.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from sabir.search import (
    Condition,
    Engine,
    Fields,
    Found,
    Hit,
    Ignored,
    Not,
    OfType,
    Parsed,
    SearchQuery,
    from_text,
    resolved,
    structured,
)
from sabir.search.answers.results import by_coming, has_value, reordered
from sabir.search.answers.statements import is_unsaid
from sabir.search.items.attributes import recalled
from sabir.search.query.asking import asks_whether_there
from sabir.search.query.aspects import CLOSE, apart, coloured, states_colour
from sabir.search.query.categories import candidates
from sabir.search.query.conditions import During, Has, Is, holds
from sabir.search.query.glossary import glossary, glossed, language_of, without_idle
from sabir.search.query.negation import refused
from sabir.search.query.predicates import IDLE
from sabir.search.query.relaxing import (
    asks_elsewhere,
    asks_for_anything,
    asks_what_is_on,
    freed,
    inner,
    is_company,
    is_time,
    only_filters,
    unheld,
    without_day,
)
from sabir.search.query.structured import kinds
from sabir.search.query.text import MAX_READ, is_prose
from sabir.search.query.words import content_words, tokens

from .fallbacks import fall_back
from .hits import happens, is_hard, matches_of_words, speaks_of, widened, without_refused
from .narrowing import (
    UNASKED,
    among_others,
    by_own_kinds,
    by_period,
    is_meant_otherwise,
    next_events,
    part_apart,
    types_of,
)
from .nearly import find_for_anybody, find_nearly
from .own_words import SiteWords
from .quoting import site_answer
from .ranking import evened
from .reader import denied
from .request import SiteAsk
from .spoken import SpokenQuestion
from .stating import SiteQuestion, is_brief, stated_subject
from .subject import Subject, names_one, others_than, subject_of

MAX_RESULTS: Final = 1_000  # results of one answer
CHANCE: Final = 20.0  # a hit below this score is chance; see search.Hit
POOL: Final = 50  # hits considered before the page is cut
_FEW: Final = 2  # with fewer results of a type than this, those of its wider type follow
_MISSED: Final = 6  # conditions tried one by one if nothing meets them all
_OF_COLOUR: Final = 0.6  # share of the best score that a thing in the requested colour must have
_SHORT: Final = 3  # meaningful words of a short question; in a longer one, the tail may matter
_FAR: Final = 35.0  # below this score, even the best hit is only remotely related
_GOOD: Final = 40.0  # from this score, the best hit shows what is meant
_TAIL: Final = 0.6  # share of the best score below which a hit of a short question is chance
_MET: Final = 80.0  # minimum score of what meets all conditions of a question with nothing else
_SURE: Final = 60.0  # from this score, something here is about the question
_REMOTE: Final = 14.0  # below this score, something is not even related
_CLOSEST: Final = 3  # results that are shown if none is plainly about the question
_DOUBTFUL: Final = 25.0  # below this score, even the best is chance, if nothing else was asked for
_ALONE: Final = "what was found does not say for how many"
_UNTIMED: Final = "what was found is not tied to a day"
_STATED: Final = {"price": "a price", "date": "a date", "stars": "a rating", "totaltime": "a time"}


class Finding(SpokenQuestion):
    """The state of a search: ``pool`` by falling score, ``hits`` the page of it, ``parsed`` what it was based on."""

    def __init__(self, engine: Engine, site: str | None, ask: SiteAsk, now: datetime, limit: int) -> None:
        super().__init__(engine, site)
        self.ask, self.now = ask, now
        self._usual = limit
        self.start = ask.start
        self.pool: tuple[Hit, ...] = ()
        self.hits: tuple[Hit, ...] = ()
        self.parsed = Parsed()
        self.subject: Subject | None = None
        self.filters: dict[str, Any] = {}
        self.note = ""  # what to know about the results
        self.hint = ""  # what to say besides that nothing was found
        self._ruled = 0  # conditions read by rules, besides words that are field values
        self.unmet = ""  # the filter that nothing meets, if the closest results are shown instead
        self.total = 0
        self.is_remote = False  # whether only what comes closest is shown
        self.is_weighed = False  # whether it was mended, because the first result left words unexplained
        self.said_in = ""  # the language of a question that is read in English
        self.worded = ""  # the question in the words of the site
        self.coverage = 1.0

    @property
    def limit(self) -> int:
        return min(MAX_RESULTS, self.ask.limit or self._usual)

    @property
    def keeps_tail(self) -> bool:
        """Whether what matches less well follows the rest: whoever asks for more than a page wants it."""
        return self.limit > self._usual

    async def find(self, filters: dict[str, Any]) -> None:
        """Search for ``question`` within these filters: by rules, and by fallbacks where the rules are unsure."""
        await self._find_by_rules(filters)
        await fall_back(self)

    async def _find_by_rules(self, filters: dict[str, Any]) -> None:
        """The same by rules; in the words of the site, if the question is in another language."""
        language = language_of(self.question)
        if language != "en":
            self.question = await self._spelt()
        asked = self.question
        self.said_in = ""
        words = SiteWords(self.engine, self.own())
        self.worded = worded = await words.asked(asked, language) if len(asked) <= MAX_READ else asked
        if worded == asked or await names_one(asked, self.engine, self.own()):  # a name is not translated
            return await self._find(filters)
        self.question, self.said_in = worded, language
        await self._find(filters)
        self.question = asked
        if not self._found_little:
            return None
        found, best = self.saved(), self.pool[0].score if self.pool else 0.0
        self.said_in = ""
        await self._find(filters)  # a word of it may be a name
        if not (self.pool and self.pool[0].score > best and not self.unmet):
            self.restore(found)
            self.said_in = language
        return None

    def saved(self) -> tuple[Any, ...]:
        read = self.question, self.worded, self.said_in, self.is_remote, self.is_weighed, self.filters
        return read, self.pool, self.parsed, self.subject, self.note, self.hint, self.unmet, self.total

    def restore(self, saved: tuple[Any, ...]) -> None:
        read, pool, self.parsed, self.subject, self.note, self.hint, self.unmet, total = saved
        self.question, self.worded, self.said_in, self.is_remote, self.is_weighed, self.filters = read
        self._show(pool)
        self.total = total

    @property
    def _statement(self) -> str:
        return self.subject.statement if self.subject is not None else ""

    @property
    def _found_little(self) -> bool:
        is_weak = not self.pool or self.pool[0].score < _FAR
        return is_weak and not self._statement and not asks_elsewhere(self.question)

    async def _find(self, filters: dict[str, Any]) -> None:
        self.filters, self.subject, self.hint, self.unmet = filters, None, "", ""
        self.is_remote = self.is_weighed = False
        known = await self.engine.fields()
        if not filters and self.ask.min_score is None:
            asked = await self._spelt(foods=False)
            self.subject = await subject_of(asked, self.engine, self.own(), known, self.now, self.said_in)
        if self.subject is not None and self.subject.asked:
            self.subject = await denied(self.subject, self.question, self.engine, self.own())
            await self._find_subject(self.subject)
            self._heed_answer()
            return await self._state_described(known)
        if self.subject is not None and self.subject.is_refused:
            spoken, self.subject = others_than(self.subject, known, self.now), None
        elif self.subject is not None:  # what was read from its name is not a filter
            spoken = from_text(self.subject.rest, known, self.now)
            spoken = msgspec.structs.replace(spoken, text=self.question)
        else:
            spoken = from_text(await self._in_english(), known, self.now)
        spoken = without_day(spoken)
        if only_filters(spoken):
            spoken = msgspec.structs.replace(spoken, text="")
        spoken = await by_own_kinds(self.engine, spoken, self.own())
        spoken = await among_others(self.engine, await by_period(self.engine, spoken, self.own()), self.own())
        given = await self._given(filters, known)
        self._ruled = len(given.conditions) + len(spoken.conditions)
        if "openinghours" not in spoken.about:  # what is asked for tells the thing that has it
            spoken = await self._categorized(given, spoken, known)
        if spoken.order and only_filters(spoken):
            spoken = msgspec.structs.replace(spoken, text="")  # everything that meets it is sorted
        self.parsed = await resolved(given | spoken, self.engine)
        await self._search()
        found, asked_for = self.pool, self.parsed.conditions
        self._cut_chance()
        await self._relax(given, spoken)
        await self._heed_colour(found)
        self._credit(asked_for)
        if self.subject is not None:
            self.lead(self.subject.hit)
        self._note_unmet()
        self._heed_answer()
        await self._state_described(known)
        await self._find_remote()

    async def _state_described(self, known: Fields) -> None:
        """State the fact of the one thing that has every word of the question, or what a page says of it."""
        is_own = not self.filters and self.ask.min_score is None
        asked = self.question if self.subject is None else self.subject.rest
        if not is_own or self.is_stated or not is_brief(self.meant(asked)):
            return
        found = await stated_subject(self.asked_of_site(known))
        if found is not None:
            await self.state(found)

    def asked_of_site(self, known: Fields) -> SiteQuestion:
        """The question, with what was found for it."""
        said_in = language_of(self.question)
        english = without_idle(glossed(self.question, said_in), said_in)
        is_there = asks_whether_there(self.question) or asks_whether_there(english)
        asked = self.question if english != self.question else ""
        heard = (english, self.said_in or said_in, self.engine, self.own(), known, self.now)
        return SiteQuestion(*heard, self.pool, self.subject, is_there, asked)

    async def state(self, found: Subject) -> None:
        """Answer by what a thing states."""
        self.subject, self.unmet, self.note, self.hint = found, "", "", ""
        await self._find_subject(found)

    @property
    def is_stated(self) -> bool:
        return bool(self._statement) and not is_unsaid(self._statement)

    def _heed_answer(self) -> None:
        """If the best match is one of the site's own questions, its answer is the answer."""
        best = self.pool[0] if self.pool else None
        is_open = self.subject is None or not self.subject.statement
        if is_open and best is not None and "Question" in best.item.types and best.score >= _FAR:
            self.subject = site_answer(self.question, self.worded, best, self.said_in) or self.subject

    def _credit(self, asked_for: tuple[Condition, ...]) -> None:
        """Give a high score to what meets every condition of a question with only conditions, in the same order.

        How similar the words are says little there: "dinner under 30 minutes" is met, or it is not.
        """
        is_met = self.parsed.conditions[: len(asked_for)] == asked_for and not self.unmet
        if is_met and self.parsed.text and self.ask.min_score is None and only_filters(self.parsed):
            share = (100.0 - _MET) / 100.0
            self._show(tuple(msgspec.structs.replace(hit, score=_MET + share * hit.score) for hit in self.pool))

    async def _relax(self, given: Parsed, spoken: Parsed) -> None:
        """Drop requirements one by one, while nothing meets them all; not for a question that no site answers."""
        if not self.pool and asks_elsewhere(self.question):
            return
        if not self.pool and self.parsed.text and asks_for_anything(self.parsed.text):
            self.parsed = msgspec.structs.replace(self.parsed, text="")  # everything, newest first
            await self._search()
        if not self.pool:
            await find_for_anybody(self, self._depth)
        if not self.pool and (free := freed(spoken, is_time, _UNTIMED)) is not None:
            await self._find_untimed(await resolved(given | free, self.engine))
            self._ruled = len(self.parsed.conditions)
            self._cut_chance()
        if not self.pool and (free := unheld(spoken)) is not None:
            self.parsed = await resolved(given | free, self.engine)
            await self._search()
        if (free := freed(spoken, is_company, _ALONE)) is not None:
            await self._find_for_any(await resolved(given | free, self.engine))
        await self._widen()
        if not self.pool and not self.hint:
            await self._find_closest()
        if not self.pool and not self.hint:
            await self._find_regardless()
        if not self.pool and not self.hint:
            await find_nearly(self, self._depth)

    async def _widen(self) -> None:
        """If there are few restaurants, add other places that serve food, and so on."""
        wider = tuple(widened(condition) for condition in self.parsed.conditions)
        if len(self.pool) >= _FEW or self.start or wider == self.parsed.conditions or self.parsed.order:
            return
        narrow, pool, total = self.parsed, self.pool, self.total
        self.parsed = msgspec.structs.replace(self.parsed, conditions=wider)
        await self._search()
        shown = {(hit.item.site, hit.item.id) for hit in pool}
        others = [hit for hit in self.pool if (hit.item.site, hit.item.id) not in shown]
        least = pool[-1].score if pool else 100.0
        behind = tuple(msgspec.structs.replace(hit, score=min(least, hit.score)) for hit in others)
        if not behind:
            self.parsed = narrow
        self.total = max(total, len(pool) + len(behind))
        self._show((*pool, *behind))

    async def _categorized(self, given: Parsed, spoken: Parsed, known: Fields) -> Parsed:
        """Turn words that are categories or cuisines here into conditions, while something meets them all."""
        where = (*self.own(), *given.conditions, *spoken.conditions)
        read: set[str] = set()
        best: Hit | None = None
        for candidate in sorted(
            candidates(spoken.text, spoken.said, known),
            key=lambda candidate: not (candidate.sure or candidate.is_foreign),
        ):
            words = tokens(candidate.words)
            if not read.isdisjoint(words) or await is_meant_otherwise(self.engine, spoken.text, candidate, where):
                continue
            for condition in candidate.conditions:
                if await self.engine.count((*where, condition, UNASKED)) < candidate.least:
                    continue
                named = (Is("name", candidate.names), Not(condition)) if candidate.names else ()
                if named and await self.engine.count((*where, *named)):
                    continue
                if not candidate.sure and not (candidate.is_foreign and not await self._is_here(candidate.words)):
                    best = best or await self._best(spoken.text, where)
                    if best is None or not holds(condition, recalled(best.item)):
                        continue
                if candidate.is_head and (part := await part_apart(self.engine, spoken, words, where, condition)):
                    has = Has((part,))
                    types = await types_of(self.engine, (*where, condition))
                    if await self.engine.count((*where, types, has)):
                        where, spoken = (*where, types), spoken.narrowed(types, "")
                    where, spoken = (*where, has), spoken.narrowed(has, part)
                    read.update((part, *words))
                    break
                where = (*where, condition)
                spoken = spoken.narrowed(condition, candidate.words)
                read.update(words)
                break
        return spoken

    async def _best(self, text: str, where: tuple[Condition, ...]) -> Hit | None:
        """The best matches, if they match at all."""
        return next(iter((await self.engine.search(SearchQuery(text, where, 0, 1, CHANCE))).hits), None)

    def _cut_chance(self) -> None:
        """For a short question, only what matches about as well as the best; the rest is dropped.

        A model judges for itself, and while vectors are missing scores say too little.
        """
        words = self.meant(self.parsed.text)
        if not words or is_prose(self.parsed.text) or self.ask.min_score is not None:
            return
        if only_filters(self.parsed) or not self.pool:
            return
        best, is_elsewhere = self.pool[0].score, asks_elsewhere(self.question)
        if self.pool[0].semantic is None and not is_elsewhere:
            return
        least = _TAIL * best if best >= _GOOD and len(words) <= _SHORT else 0.0
        is_chance = best < _DOUBTFUL and not self._ruled
        if is_chance or (best < _SURE and is_elsewhere):
            least = 100.1
        kept = tuple(hit for hit in self.pool if hit.score >= least)
        if len(kept) < len(self.pool):
            self.total = len(kept)
            self._show(kept)

    def meant(self, text: str) -> list[str]:
        """The meaningful words of a text in the language of the question."""
        language = language_of(self.question)
        idle = glossary(language).words if language != "en" else frozenset[str]()
        return [word for word in content_words(text) if word not in idle]

    def has_all(self, hit: Hit) -> bool:
        """Whether an item has every meaningful word of the question that no condition stands for; a number must be in
        its name."""
        said = {word for words in self.parsed.said for word in tokens(words)}
        left = [word for word in self.meant(self.parsed.text) if word not in said and word not in IDLE]
        named, of = tokens(hit.item.name), recalled(hit.item)
        return all(word in named if word.isdigit() else holds(Has(kinds(word)), of) for word in left)

    async def _find_subject(self, subject: Subject) -> None:
        """The thing that the question asks about. Where its fact is stated, a page has only what speaks of it."""
        self.parsed = Parsed(text=self.question, about=subject.asked.fields)
        await self._search()
        if subject.statement and not is_unsaid(subject.statement) and not self.keeps_tail:
            self._show(tuple(hit for hit in self.pool if hit.score >= _GOOD or speaks_of(hit, subject.hit)))
            self.total = len(self.pool)
        self.lead(subject.hit)

    def lead(self, first: Hit) -> None:
        """Put this hit first."""
        others = tuple(hit for hit in self.pool if hit.item != first.item)
        first = msgspec.structs.replace(first, score=max(first.score, *(hit.score for hit in others), 0.0))
        self.total = max(self.total, len(others) + 1)
        self._show((first, *others))

    async def _given(self, filters: dict[str, Any], known: Fields) -> Parsed:
        """The filters given besides the text; an unknown site among several is reported."""
        given = structured(filters, known, self.now)
        wanted = filters.get("site")
        if not isinstance(wanted, list):
            return given
        here = {site.name for site in await self.engine.sites()}
        strange = [item for item in wanted if isinstance(item, str) and item not in here and item.casefold() != "all"]
        entries = tuple(Ignored("site", item, f"there is no site {item[:80]!r} here") for item in strange)
        return msgspec.structs.replace(given, ignored=(*given.ignored, *entries))

    async def _find_for_any(self, freed: Parsed) -> None:
        """ "A tent for two people" is not a dish for two: the best match need not say for how many it is."""
        bound, pool, total = self.parsed, self.pool, self.total
        self.parsed = freed
        await self._search()
        if pool and (not self.pool or pool[0].score >= CLOSE * self.pool[0].score):
            self.parsed, self.total = bound, total
            self._show(pool)

    async def _find_regardless(self) -> None:
        """What the words are about, if nothing of that is at the time: "somewhere to practise in the afternoon"."""
        parsed = self.parsed
        said = [words for words in parsed.said if words]
        is_own = self.ask.min_score is None and bool(said and parsed.text)
        if not is_own or any(map(is_hard, inner(parsed.conditions))):
            return
        found = await self.engine.search(SearchQuery(parsed.text, self.own(), 0, self._depth, CHANCE))
        least = _TAIL * found.hits[0].score if found.hits else 0.0
        if found.hits:
            self.unmet = " ".join(said)
            self.parsed = msgspec.structs.replace(
                parsed.without(self.unmet, "nothing here meets it"), conditions=(), said=()
            )
            self._show(tuple(hit for hit in found.hits if hit.score >= least))
            self.total = len(self.pool)

    async def _find_remote(self) -> None:
        """What comes closest, if nothing is plainly about the question; it is shown as such."""
        is_asked = self.question and not self.filters and self.ask.min_score is None and not self.start
        if self.pool or self.hint or not is_asked or asks_elsewhere(self.question):
            return
        without = tuple(condition for condition in self.parsed.conditions if isinstance(condition, Not))
        text = self.parsed.text if without and self.parsed.text else self.question  # never what is not wanted
        found = await self.engine.search(SearchQuery(text, (*self.own(), *without), 0, _CLOSEST, _REMOTE))
        if found.hits and all(hit.semantic is not None for hit in found.hits):
            self.parsed = msgspec.structs.replace(self.parsed, conditions=(), said=(), order=None, ordered="")
            self.is_remote = True
            self._show(tuple(hit for hit in found.hits if hit.score >= _TAIL * found.hits[0].score))
            self.total = len(self.pool)

    async def _find_closest(self) -> None:
        """If one condition excludes everything: say which, and show what meets the others."""
        parsed, own = self.parsed, self.where()[: len(self.where()) - len(self.parsed.conditions)]
        least = self.ask.min_score if self.ask.min_score is not None else CHANCE
        best_worth = (False, 0)
        at: int | None = None
        for place, words in enumerate(parsed.said[:_MISSED]):
            rest = (*own, *parsed.conditions[:place], *parsed.conditions[place + 1 :])
            many = (await self.engine.search(SearchQuery(parsed.text, rest, 0, 1, least if parsed.text else 0.0))).total
            is_type = isinstance(parsed.conditions[place], OfType | Not)  # these matter most
            if many and parsed.text:  # only if something is clearly about the words
                many = (await self.engine.search(SearchQuery(parsed.text, rest, 0, 1, _GOOD))).total
            worth = (not is_type, many)
            if many and words and worth > best_worth:
                best_worth, at = worth, place
        if at is None:
            return
        words = parsed.said[at]
        conditions = (*parsed.conditions[:at], *parsed.conditions[at + 1 :])
        self.parsed = msgspec.structs.replace(
            parsed.without(words, "nothing here meets it"),
            conditions=conditions,
            said=(*parsed.said[:at], *parsed.said[at + 1 :]),
        )
        await self._search()
        self._cut_chance()
        if self.pool:
            self.unmet = words
        else:
            self.parsed = parsed

    async def _heed_colour(self, found: Sequence[Hit]) -> None:
        """ "Blue" is a filter if the results state a colour; ``found``: including weaker matches."""
        named = coloured(self.parsed.text)
        if named is None or not (states_colour(self.pool, named[0]) or states_colour(found, named[0])):
            return
        colour, rest, condition = named
        text = rest if content_words(rest) else ""
        plain = await self.engine.search(SearchQuery(text, self.where(), 0, self._depth, CHANCE if text else 0.0))
        is_ranked = bool(text) and not only_filters(msgspec.structs.replace(self.parsed, text=text))
        least = _OF_COLOUR * plain.hits[0].score if is_ranked and plain.hits else 0.0
        there = await self.engine.search(SearchQuery(text, (*self.where(), condition), 0, self._depth, least))
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
        """Events, soonest first."""
        found = await self.engine.search(SearchQuery("", where, 0, MAX_RESULTS))
        asked = [item.start for item in inner(self.parsed.conditions) if isinstance(item, During) and item.start]
        return msgspec.structs.replace(found, hits=by_coming(found.hits, self.now.timestamp(), min(asked, default=0.0)))

    def _note_unmet(self) -> None:
        """What was asked for and is in none of the results."""
        order = self.parsed.order
        if order is not None and self.pool and not has_value(self.pool, order[0], mixed=not self.parsed.text):
            reason = f"what was found does not state {_STATED.get(order[0], order[0])}"
            self.parsed = msgspec.structs.replace(
                self.parsed.without(self.parsed.ordered, reason), order=None, ordered=""
            )
        words = apart(self.parsed.text, self.pool)
        self.note = f"Nothing here is about {' and '.join(words)} together; these come nearest." if words else ""

    @property
    def is_far_off(self) -> bool:
        """Whether even the best result is only remotely related to the question."""
        if self.is_remote:
            return bool(self.pool) and not self._statement
        if self.subject is not None or self.unmet or not self.pool or self.parsed.order or only_filters(self.parsed):
            return False
        best = self.pool[0]
        return best.semantic is not None and best.score < _FAR and len(self.meant(self.parsed.text)) > 1

    async def _find_untimed(self, freed: Parsed) -> None:
        """ "What should I cook tonight?" is not about events tonight: the time filters only what has one."""
        anything = asks_for_anything(freed.text)  # "what is on this weekend?" is about events
        bound, self.parsed = self.parsed, msgspec.structs.replace(freed, text="") if anything else freed
        await self._search()
        if asks_what_is_on(freed.text):
            self._show(tuple(hit for hit in self.pool if happens(hit)))
        happening = sum(map(happens, self.hits))
        if 2 * happening >= len(self.hits):  # events, but not at that time: that is the answer, with the next ones
            self.hint = await next_events(self.engine, freed, self.where(), self.own(), self.now, CHANCE)
            self.parsed, self.total = bound, 0
            self._show(())
        elif happening:  # those are events, but not at that time
            conditions, said = (*freed.conditions, Not(OfType(("Event",)))), (*freed.said, "")
            self.parsed = msgspec.structs.replace(freed, conditions=conditions, said=said)
            await self._search()

    async def _search(self) -> None:
        memory = "; ".join((*self.ask.memory, self.ask.about)).strip("; ")
        where = self.where()
        text = self.parsed.text
        least = self.ask.min_score if self.ask.min_score is not None else CHANCE
        if self.ask.min_score is None and only_filters(self.parsed):
            least = 0.0  # all of them meet it
        is_long = self.ask.min_score is None and len(self.meant(text)) > _SHORT  # the tail may matter, too
        floor = least if text and not is_long else 0.0
        found = await self.engine.search(SearchQuery(text, where, 0, self._depth, floor, memory))
        if is_long and found.hits and found.hits[0].score < least:
            found = msgspec.structs.replace(found, hits=(), total=0)
        if text and self.ask.min_score is None and all(hit.semantic is None for hit in found.hits):
            found = matches_of_words(
                await self.engine.search(SearchQuery(text, where, 0, self._depth, CHANCE / 2, memory))
            )
        if not found.hits and found.coverage < 1.0 and self.parsed.conditions:
            # Vectors are incomplete, and words matched nothing: what meets the conditions is better than nothing.
            found = await self.engine.search(SearchQuery("", where, 0, self._depth, 0.0, memory))
        if not text and not self.parsed.order and found.hits and all(happens(hit) for hit in found.hits):
            found = await self._soonest(where)
        self.coverage = found.coverage
        self._show(without_refused(found.hits, refused(self.parsed.conditions)))
        self.total = max(found.total, len(self.pool))

    def where(self) -> tuple[Condition, ...]:
        return (*self.own(), *self.parsed.conditions)

    def show_all(self, hits: tuple[Hit, ...]) -> None:
        self._show(hits)
        self.total = len(hits)

    def _show(self, hits: tuple[Hit, ...]) -> None:
        """The hits by falling score, and the page of them before ranking."""
        self.pool = hits
        self.hits = self.in_order(hits)[self.page]

    def in_order(self, hits: Sequence[Hit]) -> tuple[Hit, ...]:
        order = self.parsed.order
        return evened(reordered(hits, order, mixed=not self.parsed.text)) if order and hits else tuple(hits)

    @property
    def _depth(self) -> int:
        """How many hits are considered; all, if they are sorted by a field and not by score."""
        return MAX_RESULTS if self.parsed.order and not self.parsed.text else max(POOL, self.start + self.limit)

    @property
    def page(self) -> slice:
        return slice(self.start, self.start + self.limit)
