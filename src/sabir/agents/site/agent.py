"""The site agent: a searchable site that answers in plain words, with sources, filters and follow-up questions.

It works without a language model; with one (``SiteModel``) it rewrites the question, and ranks or writes better, in at
most two calls per turn. The list never waits for it: a model that says nothing for ``patience`` seconds is skipped, and
a summary follows the results.

**Input.** The message's text is the question. A ``structured/json`` part labelled ``"ask"`` may carry a ``SiteAsk``
(all keys optional): filters, modes, paging, earlier questions, memory, answers.

**Output**, in this order:

- ``Delta``, part ``structured/json`` labelled ``"meta"``: a ``SiteMeta`` (``question``: the question as it
  was understood; ``ignored``; ``applied``; ``total``; ``coverage``: below 1 while vectors are computed).
- ``Question`` by ``turn.ask``, if one narrows much: one ``Field`` of kind ``multi_select`` whose ``id`` is the
  schema.org property and whose ``options`` end in their count, ``"Dessert (12)"``. Its answer is a part
  ``"ask"`` with ``answers``, a JSON object by field id, or words. A ``"meta"`` follows it again.
- ``Delta``, part labelled ``"result"``, one per result, best first and each as soon as its rank is final, while later
  ones are still being ranked (``site_ranking``): an NLWeb result object (``@type``, ``@id``, ``url``,
  ``name``, ``site``, ``score`` from 0 to 100, ``description``, the type's own fields, ``grounding``, ``actions``).
- ``Delta`` texts, which join to the Reply's text: a list of the results for people, or, in the modes
  ``summarize`` and ``generate``, sentences from the items, each followed by ``[n]``: the number of its result.
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

from sabir.aio import cancel_and_wait
from sabir.errors import SabirError, TurnFailed
from sabir.events import Delta, Event, Fault, Field, Progress, Question, Reply
from sabir.message import Message, Part, json_part, text_part
from sabir.misfits import misfit
from sabir.search import Engine, Hit, Item, OnSite, Quote, SearchQuery, from_text, result
from sabir.search.answers import clarify as elicit
from sabir.search.answers import extract
from sabir.search.answers.facts import facts
from sabir.search.answers.speaking_of import is_called
from sabir.search.answers.statements import yes
from sabir.search.query.asking import asks_whether_there
from sabir.search.query.conditions import Has, Is, OfType
from sabir.search.query.followup import decontextualized, is_more, with_nth
from sabir.search.query.glossary import glossed, language_of
from sabir.search.query.languages import accepted
from sabir.search.query.predicates import IDLE
from sabir.search.query.relaxing import inner, is_time, without_asides
from sabir.search.query.words import content_words, spaced
from sabir.turn import PastTurn, Turn

from .features import named_features
from .following import compared, continued, held_to, kept_to
from .grounding import grounded
from .model import SiteModel
from .pronouns import with_subject
from .ranking import Weight, evident, led, settled
from .request import MAX_QUESTION, SiteAsk, SiteMeta, asked_in, json_of, question_of
from .search import POOL, Finding
from .wording import answers_in, introduction, is_greeting, listing, nothing, site_card

MODES: Final = ("list", "summarize", "generate")
PATIENCE: Final = 1.0  # how long the end of a list waits for a model; its results do not wait
SOON: Final = 2.0  # seconds; a search that takes longer reports progress
REST: Final = 30.0  # how long a model that was late is not asked about lists
MODEL_CALLS: Final = 2  # per question
_MODEL_SECONDS: Final = 8.0  # for a summary, which follows the list
_SURE: Final = 60.0  # a hit with this score or more is what was asked for
_WEAK: Final = 40.0  # below this score, the best that rules found may not be what was meant
_ABOUT: Final = re.compile(r"^\W*(?:and\s+|ok\s+|so\s+)?(?:what|how)\s+about\s+", re.IGNORECASE)

_HIRAGANA: Final = re.compile(r"[\u3040-\u309f]+")

T = TypeVar("T")


class Site:
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
        self.patience = PATIENCE  # how long the end of a list waits for the model
        self.weight = weight
        self.card = site_card(site, name, description, tuple(examples))
        self._questions, self._limit, self._now = questions, limit, now
        self._rested = 0.0  # when the model may help with lists again

    @property
    def model_rests(self) -> bool:
        """Whether the model was recently too late for a list, and is therefore not asked about lists for a while."""
        return time.monotonic() < self._rested

    def let_model_rest(self) -> None:
        self._rested = time.monotonic() + REST

    def __call__(self, turn: Turn, /) -> AsyncIterator[Event]:
        return self._answer(turn)

    async def held(self, text: str) -> dict[str, float]:
        """The sites of the index that match a question, each with the score of its best item."""
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
        search = _Search(Site(self.engine, site), SiteAsk(), Turn(Message.text(text)), self._now(), 1)
        await search.run(text)
        return () if search.is_remote else search.pool  # what only comes closest does not match

    async def _answer(self, turn: Turn) -> AsyncIterator[Event]:
        try:
            ask = asked_in(turn.message)
        except msgspec.ValidationError as exc:
            where, expected = misfit(exc, SiteAsk)
            yield Fault(f"in the part 'ask' at {where}: expected {expected}", "invalid")
            return
        unknown = [mode for mode in ask.modes if mode not in MODES]
        if unknown:
            yield Fault(f"expected list, summarize or generate, not {unknown[0]!r}", "invalid")
            return
        if missing := await self._missing_site(ask):
            yield Fault(missing, "not_found")
            return
        said = question_of(turn)
        if is_greeting(said) and not ask.filters:
            yield Reply(Message.text(introduction(self.card)))
            return
        search = _Search(self, ask, turn, self._now(), self._limit)
        text = without_asides(said)
        searching = asyncio.create_task(search.run(text))
        try:
            done, _ = await asyncio.wait({searching}, timeout=SOON)
            if not done:
                yield Progress(0.1, "Searching")
            await searching
        finally:
            if not searching.done():
                await cancel_and_wait([searching])
        if self.model is not None or not done:
            yield Progress(0.4, f"Found {search.total}")
        yield Delta(search.meta())
        if self._questions and ask.questions and await search.asked_back():
            yield Delta(search.meta())
        elif self._questions and not ask.questions:
            await search.suggest()
        async for event in _answer_events(search, text, search.ask.modes or ("list",)):
            yield event

    async def _missing_site(self, ask: SiteAsk) -> str:
        wanted = ask.filters.get("site")
        names = [item for item in (wanted if isinstance(wanted, list) else [wanted]) if isinstance(item, str)]
        names = [name for name in names if name and name.casefold() not in ("all", "*")]
        here = {site.name for site in await self.engine.sites()} if names else set()
        unknown = [name for name in names if name not in here or (self.site and name != self.site)]
        return f"there is no site {unknown[0][:80]!r} here" if unknown and len(unknown) == len(names) else ""


class _Search(Finding):
    """One question: parsed, searched, clarified and searched again."""

    def __init__(self, agent: Site, ask: SiteAsk, turn: Turn, now: datetime, limit: int) -> None:
        super().__init__(agent.engine, agent.site, ask, now, limit)
        self._agent, self.said = agent, question_of(turn)
        self.model, self.weight, self.turn = agent.model, agent.weight, turn
        self._searched: dict[str, Any] = {}  # the filters of the last search
        self.before = ""  # the name of the thing that was asked about before
        self.beside = ""  # a follow-up question shown with the results
        self._calls = 0  # of the model
        self._patience = agent.patience
        self._until = time.monotonic() + agent.patience
        self.examples = agent.card.skills[0].examples
        self.answers = dict(ask.answers)
        self.asked = tuple(dict.fromkeys((*self._last_meta().get("asked", ()), *ask.asked)))

    async def run(self, text: str) -> None:
        """Parse the question and search."""
        previous = self._previous()
        self.start = self.ask.start
        if is_more(text) and previous and not self.ask.start:
            self.start = self.limit * (1 + sum(1 for item in reversed(previous) if is_more(item)))
        ruled = await self._by_rule(text)
        follows = bool(previous) and (is_more(text) or ruled != " ".join(text.split()))
        self.question = self.ask.rewritten or ruled
        given = {**self.ask.filters, **elicit.answered(self.answers)}
        kept = self._last_meta().get("filters") if follows else None
        carried = {**await self._chosen_anew(kept, text), **given} if isinstance(kept, dict) else given
        self._searched = carried
        await self.find(carried)
        if not self.pool and carried != given:  # earlier filters no longer fit: "what about desserts?"
            await self.find(given)
        if not self.pool and follows and _ABOUT.match(text) and not self.ask.rewritten:  # another kind of thing
            self.question = _ABOUT.sub("", " ".join(text.split()))
            await self.find(given)
        if self.before and not self.ask.rewritten:
            await held_to(self, text, self.before, given)

    async def improve(self, text: str, *, ranks: bool) -> None:
        """Let the model rewrite the question and, with ``ranks``, order the results.

        The list found by rules has been sent by then: a model that hangs only delays the end of the answer, and is not
        asked for a while after that.
        """
        if self.model is None or self._agent.model_rests:
            return
        self._until = time.monotonic() + self._patience
        if not self.ask.rewritten:
            await self._rephrase(text)
        if ranks and self.pool and self.parsed.text and not self.parsed.order and self._calls < MODEL_CALLS:
            async with aclosing(await self._judged(self.page.stop, by_model=True)) as judged:
                self.hits = tuple([hit async for hit in judged])[self.page]

    async def _rephrase(self, text: str) -> None:
        """Ask the model for a self-contained question, if it follows another or rules found little for it; keep the
        model's wording if it finds more."""
        previous = self._understood()
        is_weak = not self.pool or self.pool[0].score < _WEAK
        if not previous and (self.subject is not None or not (is_weak or language_of(text) != "en")):
            return
        before, best = self.question, self.pool[0].score if self.pool else 0.0
        rewritten = await self._in_patience(lambda model: model.rewrite(self.turn, text, previous), before)
        if rewritten == before:
            return
        self.question = rewritten
        await self.find(self._searched)
        if not self.pool or (not previous and self.pool[0].score <= best):
            self.question = before
            await self.find(self._searched)

    async def _chosen_anew(self, kept: dict[str, Any], text: str) -> dict[str, Any]:
        """Earlier filters, except a choice that a follow-up replaces: "what about breakfast?"."""
        fields = tuple(name for name in kept if name in elicit.QUESTIONS)
        if not fields:
            return kept
        own = (OnSite((self.site,)),) if self.site is not None else ()
        facets = (await self.engine.search(SearchQuery("", own, 0, 1, facets=fields))).facets
        said = {facet.field: elicit.chosen(text, [spaced(value) for value, _ in facet.counts]) for facet in facets}
        return {**kept, **{field: named[0] for field, named in said.items() if named is not None and named[0]}}

    async def ranked(self) -> AsyncGenerator[Hit, None]:
        """The page, best first, each hit as soon as its rank is final."""
        if self.parsed.order and self.pool:  # sorted by a field: all must be known
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

    async def _judged(self, count: int | None, *, by_model: bool = False) -> AsyncGenerator[Hit, None]:
        """The best of the pool in order: by score, or by the model in one call."""
        said = from_text(", ".join(self.ask.memory), await self.engine.fields(), self.now).conditions
        wishes = [item for item in said if all(isinstance(one, Is | Has) for one in inner((item,)))]
        languages = accepted(self.ask.languages)
        timed = any(is_time(one) for one in inner(self.parsed.conditions))
        now = None if timed else self.now.timestamp()

        async def weigh(hit: Hit) -> float:
            own = await self._tried(self.weight(self.turn, hit), 1.0) if self.weight is not None else 1.0
            return own * evident(hit, wishes, languages, now)

        if not by_model or self.model is None:
            return settled(self.pool, weigh, count)
        self._calls += 1
        asker = [*self.ask.memory, self.ask.about, f"reads {self.ask.languages}" if languages else ""]
        named = self.model.rank(self.turn, self.question, self.pool, [item for item in asker if item], count)
        return led(self._in_time(named), self.pool, settled(self.pool, weigh), count)

    async def suggest(self) -> None:
        """Show the most helpful question with the results, for callers who cannot be asked."""
        question = await self._narrowing()
        if question is not None:
            self.beside = f"{question.text} {', '.join(question.options)}"

    async def asked_back(self) -> bool:
        """Ask the most helpful question, and search again with its answer; False if there is no such question."""
        question = await self._narrowing()
        if question is None:
            return False
        self.asked = (*self.asked, question.id)
        field = Field(question.id, question.text, "multi_select", question.options, required=False)
        try:
            answer = await self.turn.ask(Question(question.text, (field,), id=question.id))
        except TurnFailed:  # nobody can be asked: show the results
            return False
        await self._take(answer, field)
        return True

    async def _narrowing(self) -> elicit.Elicited | None:
        """The question whose answer narrows the results most, or None."""
        conditions = inner(self.parsed.conditions)
        fixed = {name.casefold() for name in (*self.filters, *self.answers, *self.asked)}
        fixed |= {field for field, words in elicit.QUESTIONS.items() if words in self._said_before()}
        fixed |= {condition.field for condition in conditions if isinstance(condition, Is)}
        if self.start or len(self.pool) <= self.limit or self.parsed.order:
            return None
        narrowing = sum(1 for item in conditions if not isinstance(item, OfType | OnSite))
        question = elicit.question(self.parsed.text, self.pool, asked=fixed, conditions=narrowing)
        if question is None:
            return None
        if not self.parsed.text:  # everything that meets the conditions was found, and the pool is a part of it
            counted = (await self.engine.search(SearchQuery("", self.where(), 0, 1, facets=(question.id,)))).facets
            question = elicit.recounted(question, counted[0].counts if counted else ())
        return question

    async def _take(self, answer: Message, field: Field) -> None:
        """Continue with what came back: an answer, a follow-up to the question, or another question."""
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
        # nothing of the first question applies, except where it was asked
        if decontextualized(text, (self.question,)) == text:
            before: tuple[str, ...] = ()
            self.answers = {}
        else:
            before, here = (self.question,), self.filters
        self.ask = msgspec.structs.replace(ask, prev=before, rewritten="", filters={**here, **ask.filters})
        return await self.run(text)

    @property
    def _statement(self) -> str:
        """The fact that answers the question; protocols whose lists have no text carry it as a note."""
        return self.subject.statement if self.subject is not None and self.pool else ""

    def meta(self) -> Part:
        far_off = _FAR_OFF if self.is_far_off else ""
        meta = SiteMeta(
            question=self.question,
            rewritten=self.question.split() != self.said.split(),
            applied=tuple(item for item in (*self.parsed.said, self.parsed.ordered) if item),
            ignored=self.parsed.ignored,
            total=self.total,
            coverage=round(self.coverage, 4),
            sites=tuple(dict.fromkeys(hit.item.site for hit in self.hits)),
            filters=self.filters,
            asked=self.asked,
            note=" ".join(text for text in (self._statement, far_off, self.note, self.beside) if text),
            subject=self.subject.hit.item.name if self.subject is not None else "",
        )
        return json_part(json_of(meta), label="meta")

    def listed(self) -> str:
        """The results as text."""
        if not self.hits:
            return nothing(self.start, self.hint, self.examples)
        note = " ".join(item for item in (self.note, self.beside) if item)
        found = listing(self.hits, self.start, self.parsed, note, self.coverage)
        if self._is_there():
            found = f"{yes(language_of(self.said))}\n{found}"
        if self.unmet:
            return f'Nothing here meets "{self.unmet}". What comes closest:\n{found}'
        return f"{_FAR_OFF} What comes closest:\n{found}" if self.is_far_off else found

    def _is_there(self) -> bool:
        """Whether what "do you have …?" asks for is plainly there: the best result has it, or is called so."""
        if not asks_whether_there(self.said) or not self.hits or self.start or self._statement:
            return False
        best = self.hits[0]  # a question only asks; its answer may be no
        is_doubtful = "Question" in best.item.types or self.is_far_off or self.is_weighed
        if is_doubtful or self.unmet or self.note or self.parsed.ignored:
            return False
        if self.said_in:  # only a word of a name is sure to mean the same; Japanese may have lost a word
            return self.said_in != "ja" and is_called(self.meant(self.worded), best.item)
        is_sure = best.score >= _SURE and (self._is_only_named() or self.has_all(best))
        return is_sure or is_called(self.meant(glossed(self.question, language_of(self.question))), best.item)

    def _is_only_named(self) -> bool:
        """Whether the question has nothing but the name of a thing: "親子丼はありますか"."""
        left = content_words(self.subject.rest) if self.subject is not None else ["?"]
        return all(word in IDLE or _HIRAGANA.fullmatch(word) for word in left)

    def _previous(self) -> tuple[str, ...]:
        if self.ask.prev is not None:
            return self.ask.prev
        return tuple(past.asked.text[:MAX_QUESTION] for past in self.turn.conversation.turns if past.asked.text)

    def _understood(self) -> tuple[str, ...]:
        """Earlier questions as they were understood, without answers to follow-up questions ("breakfast") and small
        talk ("thanks")."""
        asked = self.ask.prev
        if asked is None:
            asked = tuple(text for past in self.turn.conversation.turns if (text := _question_of(past)))
        return tuple(text for text in asked if not is_greeting(text))

    def _said_before(self) -> set[str]:
        return {past.answered.text for past in self.turn.conversation.turns}

    def _last_meta(self) -> dict[str, Any]:
        """How the last question of the conversation was understood."""
        metas = (past.answered.labelled("meta") for past in reversed(self.turn.conversation.turns))
        return next((meta.value for meta in metas if meta is not None and isinstance(meta.value, dict)), {})

    async def _by_rule(self, text: str) -> str:
        names = [
            str(part.value.get("name"))
            for past in self.turn.conversation.turns[-1:]
            for part in past.answered.parts
            if part.label == "result" and isinstance(part.value, dict)
        ]
        subject, text = str(self._last_meta().get("subject") or ""), with_nth(text, names)
        alone = subject or (names[0] if len(names) == 1 else "")
        self.before = alone or "".join(names[:1])
        if read := await compared(text, alone, "".join(self._understood()[-1:]), self.engine, self.own()):
            return read
        if subject:
            last, known = self._understood()[-1:], await self.engine.fields()
            if read := await continued(text, subject, "".join(last), self.engine, self.own(), known, self.now):
                return read
            if read := await kept_to(text, subject, self.engine, self.own()):
                return read
        if named := with_subject(text, subject, tuple(names)):
            return named
        language = language_of(text)
        previous = tuple(glossed(item, language) for item in self._understood())
        joined = decontextualized(english := glossed(text, language), previous, names)
        return text if not previous or joined == english else joined

    async def _in_patience(self, call: Callable[[SiteModel], Awaitable[T]], otherwise: T) -> T:
        """The model's output before the list is due, or the result without it."""
        left = min(self._until - time.monotonic(), self.turn.remaining / 2)
        if self.model is None or self._calls >= MODEL_CALLS or left <= 0:
            return otherwise
        self._calls += 1
        said = await self._tried(call(self.model), otherwise, left)
        if time.monotonic() >= self._until:
            self._agent.let_model_rest()
        return said

    async def quotes(self, mode: str) -> tuple[Quote, ...]:
        """Sentences that answer the question, each from a source; the model's only if a source supports them."""
        rule = extract.generated if mode == "generate" else extract.summarized
        unmet = (str(item.value) for item in self.parsed.ignored if item.name == "text")
        about = " ".join((self.parsed.text, *unmet)).strip() or self.question  # the filters hold for all results
        if stated := self._stated():
            return stated
        if self.model is not None and self.hits and self._calls < MODEL_CALLS:
            self._calls += 1
            written = await self._tried(self.model.write(self.turn, self.question, self.hits, mode), ())
            borne = tuple(quote for item in written if (quote := grounded(item, self.hits)))
            if borne:
                return borne
        count = _SUMMED if mode == "summarize" else _GENERATED
        return self._by_field(count) or self._by_feature(count) or rule(about, self.hits)

    def _stated(self) -> tuple[Quote, ...]:
        """The fact that the question asks for, which is the whole answer."""
        subject = self.subject
        if subject is None or not subject.asked or not subject.statement or not self.hits:
            return ()
        item = subject.hit.item
        return (Quote(subject.statement, item.id, item.name, item.page),)

    def _by_field(self, count: int) -> tuple[Quote, ...]:
        """What the results state about the fields that were asked for; a teaser says nothing about them."""
        rows = [(hit.item, facts(hit.item, self.parsed)) for hit in self.hits[:count]]
        by_fields = self.parsed.conditions or self.parsed.order or self.parsed.about
        if not by_fields or not all(stated for _, stated in rows):
            return ()
        return tuple(_quote_of(item, ", ".join(stated.values())) for item, stated in rows)

    def _by_feature(self, count: int) -> tuple[Quote, ...]:
        """The features of the results that the question names; without the results that do not state them."""
        rows = [(hit.item, named_features(hit.item, self.parsed)) for hit in self.hits[:count]]
        return tuple(_quote_of(item, stated) for item, stated in rows if stated)

    async def _tried(self, call: Awaitable[T], otherwise: T, seconds: float = _MODEL_SECONDS) -> T:
        """The result within half of the remaining time, or the fallback."""
        try:
            async with asyncio.timeout(min(seconds, self.turn.remaining / 2)):
                return await call
        except (SabirError, TimeoutError):
            return otherwise

    async def _in_time(self, pieces: AsyncGenerator[T, None]) -> AsyncGenerator[T, None]:
        """The model's output before the list is due, each piece soon after the one before; ends if the model fails or
        is late."""
        end = min(self._until, time.monotonic() + self.turn.remaining / 2)
        async with aclosing(pieces):
            while True:
                try:
                    async with asyncio.timeout(max(0.0, end - time.monotonic())):
                        piece = await anext(pieces)
                except TimeoutError:
                    self._agent.let_model_rest()
                    return
                except (StopAsyncIteration, SabirError):
                    return
                yield piece
                end = time.monotonic() + min(self._patience, self.turn.remaining / 2)


def _quote_of(item: Item, stated: str) -> Quote:
    return Quote(f"{item.name}: {stated}.", item.id, item.name, item.page)


def _question_of(past: PastTurn) -> str:
    meta = past.answered.labelled("meta")
    understood = meta.value.get("question") if meta is not None and isinstance(meta.value, dict) else None
    return understood if isinstance(understood, str) and understood else past.asked.text


async def _answer_events(search: _Search, text: str, modes: tuple[str, ...]) -> AsyncIterator[Event]:
    parts: list[Part] = []
    shown: set[str] = set()
    async with aclosing(search.ranked()) as ranked:
        async for hit in ranked:
            parts.append(_result_part(search, hit))
            shown.add(hit.item.id)
            yield Delta(parts[-1])
            await asyncio.sleep(0)  # send each result before the next is ranked
    if search.model is not None:  # it may take its time: the list has been sent
        yield Progress(0.5, "Asking the model")
        await search.improve(text, ranks=modes == ("list",))
        parts = [_result_part(search, hit) for hit in search.hits]
        for part, hit in zip(parts, search.hits, strict=True):
            if hit.item.id not in shown:
                yield Delta(part)
    texts: list[str] = []
    for mode in modes if search.hits else ("list",):
        if mode == "list":
            texts.append(search.listed() if len(modes) == 1 or not search.hits else "")
            continue
        if search.model is not None:
            yield Progress(0.7, "Writing the summary")
        quotes = await search.quotes(mode)
        if not quotes:  # items with a name and no text
            texts.append("" if texts else search.listed())
            continue
        texts.append(extract.rendered(quotes, [hit.item.page for hit in search.hits]))
        citations = [{"text": quote.text, "url": quote.url, "item": quote.item, "name": quote.name} for quote in quotes]
        parts.append(json_part({"text": texts[-1], "citations": citations}, label=_LABELS[mode]))
    if search.subject is not None and search.subject.statement and search.hits and modes == ("list",):
        texts.insert(0, search.subject.statement)
    text = "\n\n".join(item for item in texts if item)
    if search.hits:  # "nothing found" is the whole answer, and not a piece of one
        yield Delta(text_part(text))
    yield Reply(Message.of(text_part(text), search.meta(), *parts))


_FAR_OFF: Final = "Nothing here is plainly about that."


def _result_part(search: _Search, hit: Hit) -> Part:
    return json_part(result(hit, search.parsed.text, facts(hit.item, search.parsed)), label="result")


_SUMMED: Final = 4  # results whose fields a summary states
_GENERATED: Final = 6  # results that an answer uses
_LABELS: Final = {"summarize": "summary", "generate": "answer"}
