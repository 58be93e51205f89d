"""The site agent: a searchable site that answers in plain words, with sources, filters and questions back.

It needs no model of language; with one (``SiteModel``) it rewrites, ranks and writes better, in at most
three calls a turn, and goes on without it where it fails or is late.

**What it is asked.** The message's text is the question. A ``structured/json`` part labelled ``"ask"`` may
carry an ``SiteAsk`` (all keys optional): filters, modes, paging, earlier questions, memory, answers.

**What it yields**, in this order:

- ``Delta``, part ``structured/json`` labelled ``"meta"``: a ``SiteMeta`` (``question``: the question as it
  was understood; ``ignored``; ``applied``; ``total``; ``coverage``: below 1 while vectors are computed).
- ``Question`` by ``turn.ask``, if one narrows much: one ``Field`` of kind ``multi_select`` whose ``id`` is the
  schema.org property and whose ``options`` end in their count, ``"Dessert (12)"``. Its answer is a part
  ``"ask"`` with ``answers``, a JSON object by field id, or words. A ``"meta"`` follows it again.
- ``Delta``, part labelled ``"result"``, one for each result, best first and each as soon as its place is settled,
  while later ones are still being ranked (``site_ranking``): an NLWeb result object (``@type``, ``@id``, ``url``,
  ``name``, ``site``, ``score`` from 0 to 100, ``description``, the type's own fields, ``grounding``, ``actions``).
- ``Delta`` texts, which join to the Reply's text: a list of the results for people, or, in the modes
  ``summarize`` and ``generate``, sentences of the items, each followed by ``[n]``: the place of its result.
- ``Reply``: the text first, then the same parts ``"meta"``, ``"result"`` …, and in those modes one part
  labelled ``"summary"`` or ``"answer"``: ``{"text", "citations": [{"text", "url", "item", "name"}]}``.

Nothing found is a Reply with ``total`` 0 and no results. ``Fault("not_found")``: no such site here;
``Fault("invalid")``: the ``"ask"`` part is not one.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

import msgspec

from ..card import Card, Skill
from ..errors import SabirError, TurnFailed
from ..events import Delta, Event, Fault, Field, Question, Reply
from ..message import Message, Part, json_part, text_part
from ..search import (
    Engine,
    Hit,
    OnSite,
    Query,
    Quote,
    elicit,
    extract,
    from_text,
    result,
)
from ..search.conditions import Has, Is, OfType
from ..search.facts import facts
from ..search.followup import decontextualized, is_more
from ..search.languages import accepted
from ..search.relaxing import inner, is_time
from ..search.words import spaced
from ..turn import PastTurn, Turn
from .site_asks import SiteAsk, SiteMeta, asked_in, json_of
from .site_finding import POOL, Finding
from .site_model import SiteModel, grounded
from .site_ranking import Weight, evident, led, settled
from .site_words import answers_in, introduction, is_greeting, listing, nothing

MODES: Final = ("list", "summarize", "generate")
_MODEL_SECONDS: Final = 8.0  # for one call of the model; who asks does not wait longer for a better order
_ABOUT: Final = re.compile(r"^\W*(?:and\s+|ok\s+|so\s+)?(?:what|how)\s+about\s+", re.IGNORECASE)

T = TypeVar("T")


class SiteAgent:
    """Answers for one site of an index, or for all of them."""

    def __init__(
        self,
        engine: Engine,
        site: str | None = None,
        *,
        name: str | None = None,
        description: str = "",
        examples: Sequence[str] = (),
        model: SiteModel | None = None,
        weight: Weight | None = None,
        questions: bool = True,
        limit: int = 10,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.engine = engine
        self.site = site
        self.model = model
        self.weight = weight
        self.card = _card(site, name, description, tuple(examples))
        self._questions, self._limit, self._now = questions, limit, now

    def __call__(self, turn: Turn, /) -> AsyncIterator[Event]:
        return self._answer(turn)

    async def held(self, text: str) -> dict[str, float]:
        """The sites of the index that hold something for a question, each with the score of its best item."""
        found = await self._found(None, text)
        best: dict[str, float] = {}
        for hit in found:
            best.setdefault(hit.item.site, hit.score)
        if len(found) >= POOL:  # one site may have filled it
            others = [site.name for site in await self.engine.sites() if site.name not in best]
            for site in others[:POOL]:
                best |= {hit.item.site: hit.score for hit in (await self._found(site, text))[:1]}
        return best

    async def _found(self, site: str | None, text: str) -> tuple[Hit, ...]:
        search = _Search(SiteAgent(self.engine, site), SiteAsk(), Turn(Message.text(text)), self._now(), 1)
        await search.run(text)
        return search.pool

    async def _answer(self, turn: Turn) -> AsyncIterator[Event]:
        try:
            ask = asked_in(turn.message)
        except msgspec.ValidationError as wrong:
            yield Fault(f"the part 'ask' is not right: {wrong}", "invalid")
            return
        unknown = [mode for mode in ask.modes if mode not in MODES]
        if unknown:
            yield Fault(f"expected list, summarize or generate, not {unknown[0]!r}", "invalid")
            return
        if missing := await self._missing_site(ask):
            yield Fault(missing, "not_found")
            return
        if is_greeting(turn.text) and not ask.filters:
            yield Reply(Message.text(introduction(self.card)))
            return
        search = _Search(self, ask, turn, self._now(), self._limit)
        await search.run(turn.text)
        yield Delta(search.meta())
        if self._questions and ask.questions and await search.asked_back():
            yield Delta(search.meta())
        async for event in _told(search, search.ask.modes or ("list",)):
            yield event

    async def _missing_site(self, ask: SiteAsk) -> str:
        wanted = ask.filters.get("site")
        names = [each for each in (wanted if isinstance(wanted, list) else [wanted]) if isinstance(each, str)]
        names = [each for each in names if each and each.casefold() not in ("all", "*")]
        here = {site.name for site in await self.engine.sites()} if names else set()
        unknown = [each for each in names if each not in here or (self.site and each != self.site)]
        return f"there is no site {unknown[0][:80]!r} here" if unknown and len(unknown) == len(names) else ""


def _card(site: str | None, name: str | None, description: str, examples: tuple[str, ...]) -> Card:
    title = name or re.sub(r"[^A-Za-z0-9_.-]+", "-", site or "sites").strip("-._") or "site"
    words = description or (f"Answers questions about {site}" if site else "Answers questions about the sites here")
    skill = Skill(
        id="ask",
        name=f"Ask {site or 'the sites'}",
        description="Finds items by words and meaning, with filters, follow-up questions and sources",
        tags=("search", "nlweb", *((site,) if site else ())),
        examples=examples,
    )
    return Card(title, words, skills=(skill,), says=("text", "structured"), site=site, repeatable=True)


class _Search(Finding):
    """One question as it is understood, searched for, asked about and searched for again."""

    def __init__(self, agent: SiteAgent, ask: SiteAsk, turn: Turn, now: datetime, limit: int) -> None:
        super().__init__(agent.engine, agent.site, ask, now, limit)
        self.model, self.weight, self.turn = agent.model, agent.weight, turn
        self.examples = agent.card.skills[0].examples
        self.answers = dict(ask.answers)
        self.asked = tuple(dict.fromkeys((*self._last_meta().get("asked", ()), *ask.asked)))

    async def run(self, text: str) -> None:
        """Understand and search."""
        previous = self._previous()
        self.start = self.ask.start
        if is_more(text) and previous and not self.ask.start:
            self.start = self.limit * (1 + sum(1 for each in reversed(previous) if is_more(each)))
        ruled = self._by_rule(text)
        follows = bool(previous) and (is_more(text) or ruled != " ".join(text.split()))
        self.question = self.ask.rewritten or await self._on_its_own(text, ruled)
        given = {**self.ask.filters, **elicit.answered(self.answers)}
        kept = self._last_meta().get("filters") if follows else None
        carried = {**await self._chosen_anew(kept, text), **given} if isinstance(kept, dict) else given
        await self.find(carried)
        if not self.pool and carried != given:  # what was asked before no longer fits: "what about desserts?"
            await self.find(given)
        if not self.pool and follows and _ABOUT.match(text) and not self.ask.rewritten:  # another kind of thing
            self.question = _ABOUT.sub("", " ".join(text.split()))
            await self.find(given)

    async def _chosen_anew(self, kept: dict[str, Any], text: str) -> dict[str, Any]:
        """Filters of before, but for a choice that a follow-up takes back by another: "what about breakfast?"."""
        fields = tuple(name for name in kept if name in elicit.QUESTIONS)
        if not fields:
            return kept
        own = (OnSite((self.site,)),) if self.site is not None else ()
        facets = (await self.engine.search(Query("", own, 0, 1, facets=fields))).facets
        said = {each.field: elicit.chosen(text, [spaced(value) for value, _ in each.counts]) for each in facets}
        return {**kept, **{field: named[0] for field, named in said.items() if named is not None and named[0]}}

    async def ranked(self) -> AsyncGenerator[Hit, None]:
        """The page, best first, each hit as soon as its place is settled."""
        if self.parsed.order and self.pool:  # by a field of those that fit well: all must be known
            self.hits = self.in_order([hit async for hit in await self._judged(None)])[self.page]
            for hit in self.hits:
                yield hit
            return
        shown: list[Hit] = []
        place = 0
        async with aclosing(await self._judged(self.page.stop)) as judged:
            async for hit in judged:
                if place >= self.start:
                    shown.append(hit)
                    yield hit
                place += 1
        self.hits = tuple(shown)

    async def _judged(self, count: int | None) -> AsyncGenerator[Hit, None]:
        """The best of the pool in order: by the model in one call, if there is one, and else by what is known."""
        said = from_text(", ".join(self.ask.memory), await self.engine.fields(), self.now).conditions
        wishes = [each for each in said if all(isinstance(one, Is | Has) for one in inner((each,)))]
        languages = accepted(self.ask.languages)
        timed = any(is_time(one) for one in inner(self.parsed.conditions))
        now = None if timed else self.now.timestamp()

        async def weigh(hit: Hit) -> float:
            own = await self._tried(self.weight(self.turn, hit), 1.0) if self.weight is not None else 1.0
            return own * evident(hit, wishes, languages, now)

        if self.model is None or not self.pool or not self.parsed.text:
            return settled(self.pool, weigh, count)
        asker = [*self.ask.memory, self.ask.about, f"reads {self.ask.languages}" if languages else ""]
        named = self.model.rank(self.turn, self.question, self.pool, [each for each in asker if each], count)
        return led(self._in_time(named), self.pool, settled(self.pool, weigh), count)

    async def asked_back(self) -> bool:
        """Ask the one question that helps, and search again with its answer; False if there is none."""
        conditions = inner(self.parsed.conditions)
        fixed = {name.casefold() for name in (*self.filters, *self.answers, *self.asked)}
        fixed |= {field for field, words in elicit.QUESTIONS.items() if words in self._said_before()}
        fixed |= {condition.field for condition in conditions if isinstance(condition, Is)}
        if self.start or len(self.pool) <= self.limit or self.parsed.order:
            return False
        narrowing = sum(1 for each in conditions if not isinstance(each, OfType | OnSite))
        question = elicit.question(self.parsed.text, self.pool, asked=fixed, conditions=narrowing)
        if question is None:
            return False
        if not self.parsed.text:  # all that meets the conditions was found, and the pool is a part of it
            counted = (await self.engine.search(Query("", self.where(), 0, 1, facets=(question.id,)))).facets
            question = elicit.recounted(question, counted[0].counts if counted else ())
        self.asked = (*self.asked, question.id)
        field = Field(question.id, question.text, "multi_select", question.options, required=False)
        try:
            answer = await self.turn.ask(Question(question.text, (field,), id=question.id))
        except TurnFailed:  # nobody can be asked: show what there is
            return False
        await self._take(answer, field)
        return True

    async def _take(self, answer: Message, field: Field) -> None:
        """Go on with what came: an answer, a follow-up on the question as it was, or another question."""
        if given := answers_in(answer, field):
            self.answers |= given
            return await self.run(self.question)
        text = " ".join(answer.text.split())
        if not text:
            return None
        if (said := elicit.chosen(text, field.options)) is not None:
            named, more = said
            self.answers |= {field.id: named} if named else {}
            return await self.run(f"{self.question}, {more}" if more else self.question) if named else None
        here = {name: value for name, value in self.filters.items() if name == "site"}
        ask = SiteAsk(modes=self.ask.modes, limit=self.ask.limit, memory=self.ask.memory, about=self.ask.about)
        with suppress(msgspec.ValidationError):
            ask = asked_in(answer) if answer.labelled("ask") is not None else ask
        if decontextualized(text, (self.question,)) == text:  # nothing of the first holds, but where it was asked
            before: tuple[str, ...] = ()
            self.answers = {}
        else:
            before, here = (self.question,), self.filters
        self.ask = msgspec.structs.replace(ask, prev=before, rewritten="", filters={**here, **ask.filters})
        return await self.run(text)

    def meta(self) -> Part:
        meta = SiteMeta(
            question=self.question,
            rewritten=self.question.split() != self.turn.text.split(),
            applied=tuple(each for each in (*self.parsed.said, self.parsed.ordered) if each),
            ignored=self.parsed.ignored,
            total=self.total,
            coverage=round(self.coverage, 4),
            sites=tuple(dict.fromkeys(hit.item.site for hit in self.hits)),
            filters=self.filters,
            asked=self.asked,
            note=self.note,
        )
        return json_part(json_of(meta), label="meta")

    def listed(self) -> str:
        """The results for people."""
        if not self.hits:
            return nothing(self.start, self.hint, self.examples)
        return listing(self.hits, self.start, self.parsed, self.note, self.coverage)

    def _previous(self) -> tuple[str, ...]:
        if self.ask.prev is not None:
            return self.ask.prev
        return tuple(past.asked.text for past in self.turn.conversation.turns if past.asked.text)

    def _understood(self) -> tuple[str, ...]:
        """Earlier questions as they were understood: "breakfast", said in answer to a question, is no topic itself, and
        neither is "thanks"."""
        asked = self.ask.prev
        if asked is None:
            asked = tuple(text for past in self.turn.conversation.turns if (text := _question_of(past)))
        return tuple(text for text in asked if not is_greeting(text))

    def _said_before(self) -> set[str]:
        return {past.answered.text for past in self.turn.conversation.turns}

    def _last_meta(self) -> dict[str, Any]:
        """How the last question of the conversation was understood."""
        metas = (past.answered.labelled("meta") for past in reversed(self.turn.conversation.turns))
        return next((each.value for each in metas if each is not None and isinstance(each.value, dict)), {})

    def _by_rule(self, text: str) -> str:
        names = [
            str(part.value.get("name"))
            for past in self.turn.conversation.turns[-1:]
            for part in past.answered.parts
            if part.label == "result" and isinstance(part.value, dict)
        ]
        return decontextualized(text, self._understood(), names)

    async def _on_its_own(self, text: str, ruled: str) -> str:
        previous = self._understood()
        if self.model is None or not previous:
            return ruled
        return await self._tried(self.model.rewrite(self.turn, text, previous), ruled)

    async def quotes(self, mode: str) -> tuple[Quote, ...]:
        """Sentences that answer, each from a source; the model's only where a source holds them."""
        rule = extract.generated if mode == "generate" else extract.summarized
        unmet = (str(each.value) for each in self.parsed.ignored if each.name == "text")
        about = " ".join((self.parsed.text, *unmet)).strip() or self.question  # what was filtered by is true of all
        if self.model is not None and self.hits:
            written = await self._tried(self.model.write(self.turn, self.question, self.hits, mode), ())
            borne = tuple(quote for each in written if (quote := grounded(each, self.hits)))
            if borne:
                return borne
        return rule(about, self.hits)

    async def _tried(self, call: Awaitable[T], otherwise: T) -> T:
        """What another says within half of the time that is left, or what is known without it."""
        try:
            async with asyncio.timeout(min(_MODEL_SECONDS, self.turn.remaining / 2)):
                return await call
        except (SabirError, TimeoutError):
            return otherwise

    async def _in_time(self, pieces: AsyncGenerator[T, None]) -> AsyncGenerator[T, None]:
        """What a model says within the same time, as it says it; where it fails or is late, that is all."""
        end = time.monotonic() + min(_MODEL_SECONDS, self.turn.remaining / 2)
        async with aclosing(pieces):
            while True:
                try:
                    async with asyncio.timeout(end - time.monotonic()):
                        piece = await anext(pieces)
                except (StopAsyncIteration, SabirError, TimeoutError):
                    return
                yield piece


def _question_of(past: PastTurn) -> str:
    meta = past.answered.labelled("meta")
    understood = meta.value.get("question") if meta is not None and isinstance(meta.value, dict) else None
    return understood if isinstance(understood, str) and understood else past.asked.text


async def _told(search: _Search, modes: tuple[str, ...]) -> AsyncIterator[Event]:
    parts: list[Part] = []
    async with aclosing(search.ranked()) as ranked:
        async for hit in ranked:
            part = json_part(result(hit, search.parsed.text, facts(hit.item, search.parsed)), label="result")
            parts.append(part)
            yield Delta(part)
            await asyncio.sleep(0)  # each result leaves before the next is ranked
    texts: list[str] = []
    for mode in modes if search.hits else ("list",):
        if mode == "list":
            texts.append(search.listed() if len(modes) == 1 or not search.hits else "")
            continue
        quotes = await search.quotes(mode)
        if not quotes:  # things that have a name and no words
            texts.append("" if texts else search.listed())
            continue
        texts.append(extract.rendered(quotes, [hit.item.page for hit in search.hits]))
        citations = [{"text": each.text, "url": each.url, "item": each.item, "name": each.name} for each in quotes]
        parts.append(json_part({"text": texts[-1], "citations": citations}, label=_LABELS[mode]))
    text = "\n\n".join(each for each in texts if each)
    if search.hits:  # that nothing was found is the whole answer, and no piece of one
        yield Delta(text_part(text))
    yield Reply(Message.of(text_part(text), search.meta(), *parts))


_LABELS: Final = {"summarize": "summary", "generate": "answer"}
