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
- ``Delta``, part labelled ``"result"``, one for each result, best first: an NLWeb result object (``@type``,
  ``@id``, ``url``, ``name``, ``site``, ``score`` from 0 to 100, ``description``, the type's own fields,
  ``grounding``, ``actions``).
- ``Delta`` texts, which join to the Reply's text: a list of the results for people, or, in the modes
  ``summarize`` and ``generate``, sentences of the items, each followed by ``[n]``.
- ``Reply``: the text first, then the same parts ``"meta"``, ``"result"`` …, and in those modes one part
  labelled ``"summary"`` or ``"answer"``: ``{"text", "citations": [{"text", "url", "item", "name"}]}``.

Nothing found is a Reply with ``total`` 0 and no results. ``Fault("not_found")``: no such site here;
``Fault("invalid")``: the ``"ask"`` part is not one.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final, Protocol, TypeVar

import msgspec

from ..card import Card, Skill
from ..errors import SabirError, TurnFailed
from ..events import Delta, Event, Fault, Field, Question, Reply
from ..message import Message, Part, json_part, text_part
from ..search import (
    Condition,
    Engine,
    Found,
    Hit,
    Ignored,
    OnSite,
    Parsed,
    Query,
    Quote,
    elicit,
    extract,
    from_text,
    resolved,
    result,
    structured,
)
from ..search.attributes import recalled
from ..search.conditions import During, Has, Is, Not, OfType, holds
from ..search.followup import decontextualized, is_more
from ..search.results import reordered
from ..search.taxonomy import is_a
from ..search.words import content_words, tokens
from ..turn import PastTurn, Turn

MODES: Final = ("list", "summarize", "generate")
CHANCE: Final = 20.0  # a score below which a hit is chance; see search.Hit
_POOL: Final = 50  # hits that are looked at before the page is cut
_MODEL_SECONDS: Final = 8.0  # for one call of the model; who asks does not wait longer for a better order
_ABOUT: Final = re.compile(r"^\W*(?:and\s+|ok\s+|so\s+)?(?:what|how)\s+about\s+", re.IGNORECASE)
_COMING: Final = 200  # items that are looked through for what comes next
_BORNE: Final = 0.7  # share of a written sentence's words that its source must have
_AGAINST_MEMORY: Final = 0.7  # what is left of the score of an item that the asker's memory speaks against

T = TypeVar("T")


class SiteAsk(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """How a site is asked, besides the words; the content of the part labelled ``"ask"``."""

    filters: dict[str, Any] = {}
    modes: tuple[str, ...] = ()
    limit: int | None = None
    start: int = 0
    min_score: float | None = None
    prev: tuple[str, ...] | None = None  # earlier questions, oldest first; None: those of the conversation
    memory: tuple[str, ...] = ()
    about: str = ""  # what is known of the situation, in words
    rewritten: str = ""  # the question as the asker's own model understands it
    answers: dict[str, Any] = {}  # to earlier questions back, by field id
    asked: tuple[str, ...] = ()  # field ids that were asked for before
    questions: bool = True  # whether questions back are welcome

    def part(self) -> Part:
        return json_part(_json(self), label="ask")


class SiteMeta(msgspec.Struct, frozen=True):
    """How a question was understood and how much was found; the content of the part labelled ``"meta"``."""

    question: str
    rewritten: bool
    applied: tuple[str, ...]
    ignored: tuple[Ignored, ...]
    total: int
    coverage: float
    sites: tuple[str, ...] = ()
    filters: dict[str, Any] = {}  # given beside the words, answers to questions back included; a follow-up keeps them
    asked: tuple[str, ...] = ()  # field ids that were asked for in this conversation so far


class SiteModel(Protocol):
    """A model of language, if there is one. Each call may raise ``SabirError``; it is then done without."""

    async def rewrite(self, turn: Turn, question: str, previous: Sequence[str]) -> str:
        """The question on its own."""
        ...

    async def rank(self, turn: Turn, question: str, hits: Sequence[Hit]) -> Sequence[float]:
        """A score from 0 to 100 for each of the hits, in one call."""
        ...

    async def write(self, turn: Turn, question: str, hits: Sequence[Hit], mode: str) -> Sequence[tuple[str, int]]:
        """Sentences, each with the place of the hit that holds it; others are dropped."""
        ...


class SiteAgent:
    """Answers for one site of an index, or for all of them."""

    def __init__(
        self,
        engine: Engine,
        site: str | None = None,
        *,
        name: str | None = None,
        description: str = "",
        model: SiteModel | None = None,
        questions: bool = True,
        limit: int = 10,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.engine = engine
        self.site = site
        self.model = model
        self.card = _card(site, name, description)
        self._questions, self._limit, self._now = questions, limit, now

    def __call__(self, turn: Turn, /) -> AsyncIterator[Event]:
        return self._answer(turn)

    async def _answer(self, turn: Turn) -> AsyncIterator[Event]:
        try:
            ask = _ask(turn.message)
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
        search = _Search(self.engine, self.site, ask, self.model, turn, self._now(), self._limit)
        await search.run(turn.text)
        yield Delta(search.meta())
        if self._questions and ask.questions and await search.asked_back():
            yield Delta(search.meta())
        await search.rank()
        async for event in _told(search, search.ask.modes or ("list",)):
            yield event

    async def _missing_site(self, ask: SiteAsk) -> str:
        wanted = ask.filters.get("site")
        names = [each for each in (wanted if isinstance(wanted, list) else [wanted]) if isinstance(each, str)]
        names = [each for each in names if each and each.casefold() not in ("all", "*")]
        here = {site.name for site in await self.engine.sites()} if names else set()
        unknown = [each for each in names if each not in here or (self.site and each != self.site)]
        return f"there is no site {unknown[0][:80]!r} here" if unknown and len(unknown) == len(names) else ""


def _json(value: msgspec.Struct) -> Any:
    """The JSON value of a struct: lists where it has tuples, as any peer would send it."""
    return msgspec.json.decode(msgspec.json.encode(value))


def _card(site: str | None, name: str | None, description: str) -> Card:
    title = name or re.sub(r"[^A-Za-z0-9_.-]+", "-", site or "sites").strip("-._") or "site"
    words = description or (f"Answers questions about {site}" if site else "Answers questions about the sites here")
    skill = Skill(
        id="ask",
        name=f"Ask {site or 'the sites'}",
        description="Finds items by words and meaning, with filters, follow-up questions and sources",
        tags=("search", "nlweb", *((site,) if site else ())),
        examples=("vegetarian dinner under 30 minutes without nuts", "what is on this weekend?"),
    )
    return Card(title, words, skills=(skill,), says=("text", "structured"), site=site, repeatable=True)


def _ask(message: Message) -> SiteAsk:
    part = message.labelled("ask")
    return msgspec.convert(part.value, SiteAsk) if part is not None else SiteAsk()


class _Search:
    """One question as it is understood, searched for, asked about and searched for again."""

    def __init__(
        self,
        engine: Engine,
        site: str | None,
        ask: SiteAsk,
        model: SiteModel | None,
        turn: Turn,
        now: datetime,
        limit: int,
    ) -> None:
        self.engine, self.site, self.ask, self.model, self.turn, self.now = engine, site, ask, model, turn, now
        self._usual = limit
        self.question = ""
        self.pool: tuple[Hit, ...] = ()
        self.hint = ""  # what to say besides that nothing was found
        self.parsed = Parsed()
        self.hits: tuple[Hit, ...] = ()
        self.total = 0
        self.coverage = 1.0
        self.answers = dict(ask.answers)
        self.filters: dict[str, Any] = {}
        self.asked = tuple(dict.fromkeys((*self._last_meta().get("asked", ()), *ask.asked)))

    @property
    def limit(self) -> int:
        return min(100, self.ask.limit or self._usual)

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
        carried = {**kept, **given} if isinstance(kept, dict) else given
        await self._find(carried)
        if not self.pool and carried != given:  # what was asked before no longer fits: "what about desserts?"
            await self._find(given)
        if not self.pool and follows and _ABOUT.match(text) and not self.ask.rewritten:  # another kind of thing
            self.question = _ABOUT.sub("", " ".join(text.split()))
            await self._find(given)

    async def _find(self, filters: dict[str, Any]) -> None:
        self.filters = filters
        known = await self.engine.fields()
        spoken = from_text(self.question, known, self.now)
        if _only_filters(spoken):
            spoken = msgspec.structs.replace(spoken, text="")
        given = structured(filters, known, self.now)
        self.parsed = await resolved(given | spoken, self.engine)
        await self._search()
        if not self.pool and (freed := _without_times(spoken)) is not None:
            await self._find_untimed(await resolved(given | freed, self.engine))

    async def _find_untimed(self, freed: Parsed) -> None:
        """ "What should I cook tonight?" is not about what happens tonight: the time filters only what has one."""
        bound, self.parsed = self.parsed, freed
        await self._search()
        happening = sum(is_a(kind, "Event") for hit in self.hits for kind in hit.item.types[:1])
        if 2 * happening >= len(self.hits):  # events, and not then: that is the answer, and what comes next
            coming = (*self._where(), During("startdate", self.now.timestamp()))
            least = CHANCE if freed.text else 0.0
            self.hint = _next((await self.engine.search(Query(freed.text, coming, 0, _COMING, least))).hits)
            self.parsed, self.total = bound, 0
            self._show(())

    async def _search(self) -> None:
        memory = "; ".join((*self.ask.memory, self.ask.about)).strip("; ")
        where = self._where()
        text = self.parsed.text
        least = self.ask.min_score if self.ask.min_score is not None else CHANCE
        pool = max(_POOL, self.start + self.limit)
        found = await self.engine.search(Query(text, where, 0, pool, least if text else 0.0, memory))
        if text and self.ask.min_score is None and all(hit.semantic is None for hit in found.hits):
            found = await self._by_words(Query(text, where, 0, pool, CHANCE / 2, memory))
        if not found.hits and found.coverage < 1.0 and self.parsed.conditions:
            # Meaning is not known of all yet, and words found none: what meets the conditions is better than nothing.
            found = await self.engine.search(Query("", where, 0, pool, 0.0, memory))
        self.coverage = found.coverage
        self._show(await self._remembered(found.hits))
        self.total = max(found.total, len(self.pool))

    def _where(self) -> tuple[Condition, ...]:
        own = (OnSite((self.site,)),) if self.site is not None else ()
        return (*own, *self.parsed.conditions)

    async def _by_words(self, query: Query) -> Found:
        """What has some of the words, where meaning is not known to say that it is chance."""
        found = await self.engine.search(query)
        hits = tuple(hit for hit in found.hits if hit.semantic is None)
        return msgspec.structs.replace(found, hits=hits, total=len(hits))

    def _show(self, hits: tuple[Hit, ...]) -> None:
        self.pool = reordered(hits, self.parsed.order) if self.parsed.order and hits else hits
        self.hits = self.pool[self.start : self.start + self.limit]

    async def rank(self) -> None:
        """Let the model put what was found in order, in one call, if there is one."""
        if self.model is None or not self.pool or not self.parsed.text:
            return
        scores = await self._tried(self.model.rank(self.turn, self.question, self.pool), ())
        if len(scores) == len(self.pool):
            judged = [
                msgspec.structs.replace(hit, score=round(float(score), 2))
                for hit, score in zip(self.pool, scores, strict=True)
            ]
            self._show(tuple(sorted(judged, key=lambda hit: -hit.score)))

    async def asked_back(self) -> bool:
        """Ask the one question that helps, and search again with its answer; False if there is none."""
        conditions = _inner(self.parsed.conditions)
        fixed = {name.casefold() for name in (*self.filters, *self.answers, *self.asked)}
        fixed |= {field for field, words in elicit.QUESTIONS.items() if words in self._said_before()}
        fixed |= {condition.field for condition in conditions if isinstance(condition, Is)}
        if self.start or len(self.pool) <= self.limit or self.parsed.order:
            return False
        narrowing = sum(1 for each in conditions if not isinstance(each, OfType | OnSite))
        question = elicit.question(self.parsed.text, self.pool, asked=fixed, conditions=narrowing)
        if question is None:
            return False
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
        if given := _answers(answer, field):
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
            ask = _ask(answer) if answer.labelled("ask") is not None else ask
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
            rewritten=self.question != self.turn.text,
            applied=self.parsed.said,
            ignored=self.parsed.ignored,
            total=self.total,
            coverage=round(self.coverage, 4),
            sites=tuple(dict.fromkeys(hit.item.site for hit in self.hits)),
            filters=self.filters,
            asked=self.asked,
        )
        return json_part(_json(meta), label="meta")

    def _previous(self) -> tuple[str, ...]:
        if self.ask.prev is not None:
            return self.ask.prev
        return tuple(past.asked.text for past in self.turn.conversation.turns if past.asked.text)

    def _understood(self) -> tuple[str, ...]:
        """Earlier questions as they were understood: "breakfast", said in answer to a question, is no topic itself."""
        if self.ask.prev is not None:
            return self.ask.prev
        return tuple(text for past in self.turn.conversation.turns if (text := _question_of(past)))

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

    async def _remembered(self, hits: tuple[Hit, ...]) -> tuple[Hit, ...]:
        """Hits that the asker's memory speaks against ("vegetarian", "no nuts") moved down; none is left out."""
        wishes = from_text(", ".join(self.ask.memory), await self.engine.fields(), self.now).conditions
        firm = [each for each in wishes if all(isinstance(one, Is | Has) for one in _inner((each,)))]
        if not firm or not hits:
            return hits
        weighed = [
            hit
            if all(holds(each, of) for each in firm)
            else msgspec.structs.replace(hit, score=hit.score * _AGAINST_MEMORY)
            for hit in hits
            if (of := recalled(hit.item))
        ]
        return tuple(sorted(weighed, key=lambda hit: -hit.score))

    async def quotes(self, mode: str) -> tuple[Quote, ...]:
        """Sentences that answer, each from a source; the model's only where a source holds them."""
        rule = extract.generated if mode == "generate" else extract.summarized
        if self.model is not None and self.hits:
            written = await self._tried(self.model.write(self.turn, self.question, self.hits, mode), ())
            grounded = tuple(quote for each in written if (quote := _grounded(each, self.hits)))
            if grounded:
                return grounded
        return rule(self.question, self.hits)

    async def _tried(self, call: Awaitable[T], otherwise: T) -> T:
        """A model's answer within half of the time that is left, or what is known without it."""
        try:
            return await asyncio.wait_for(call, min(_MODEL_SECONDS, self.turn.remaining / 2))
        except (SabirError, TimeoutError):
            return otherwise


def _question_of(past: PastTurn) -> str:
    meta = past.answered.labelled("meta")
    understood = meta.value.get("question") if meta is not None and isinstance(meta.value, dict) else None
    return understood if isinstance(understood, str) and understood else past.asked.text


async def _told(search: _Search, modes: tuple[str, ...]) -> AsyncIterator[Event]:
    parts: list[Part] = []
    for hit in search.hits:
        part = json_part(result(hit, search.parsed.text), label="result")
        parts.append(part)
        yield Delta(part)
        await asyncio.sleep(0)  # each result leaves before the next is made
    texts: list[str] = []
    for mode in modes if search.hits else ("list",):
        if mode == "list":
            texts.append(_listed(search) if len(modes) == 1 else "")
            continue
        quotes = await search.quotes(mode)
        texts.append(extract.rendered(quotes))
        citations = [{"text": each.text, "url": each.url, "item": each.item, "name": each.name} for each in quotes]
        parts.append(json_part({"text": texts[-1], "citations": citations}, label=_LABELS[mode]))
    text = "\n\n".join(each for each in texts if each)
    yield Delta(text_part(text))
    yield Reply(Message.of(text_part(text), search.meta(), *parts))


_LABELS: Final = {"summarize": "summary", "generate": "answer"}


def _listed(search: _Search) -> str:
    """The results for people."""
    if not search.hits:
        return f"I found nothing for that.{search.hint}" if search.start == 0 else "There is nothing more."
    lines = [
        f"{number}. {hit.item.name}{_short(hit.item.description)} ({hit.item.page})"
        for number, hit in enumerate(search.hits, search.start + 1)
    ]
    for each in search.parsed.ignored:
        lines.append(f"(Not applied: {each.value if each.name == 'text' else each.name}: {each.reason}.)")
    if search.coverage < 1:
        lines.append("(Part of the site was searched by its words alone: its vectors are still being computed.)")
    return "\n".join(lines)


def _short(description: str, most: int = 140) -> str:
    if not description:
        return ""
    first = description if len(description) <= most else description[:most].rsplit(" ", 1)[0] + " …"
    return f": {first}"


def _only_filters(parsed: Parsed) -> bool:
    """Whether all the words that are left only name a type or a diet that is filtered by already."""
    said = {word for words in parsed.said for word in tokens(words)}
    return bool(parsed.conditions or parsed.around) and said.issuperset(content_words(parsed.text))


def _without_times(spoken: Parsed) -> Parsed | None:
    """The same without the times it names, each told as not applied; None if it names none."""
    timed = [any(isinstance(one, During) for one in _inner((each,))) for each in spoken.conditions]
    if not any(timed):
        return None
    rows = list(zip(timed, spoken.conditions, spoken.said, strict=True))
    return msgspec.structs.replace(
        spoken,
        conditions=tuple(condition for out, condition, _ in rows if not out),
        said=tuple(words for out, _, words in rows if not out),
        ignored=(
            *spoken.ignored,
            *(Ignored("text", words, "what was found has no date") for out, _, words in rows if out),
        ),
    )


def _next(hits: Sequence[Hit], most: int = 3) -> str:
    """What comes next of things that happen."""
    coming = [(when.start, hit.item.name) for hit in hits if (when := recalled(hit.item).dates.get("startdate"))]
    told = [f"{name} ({datetime.fromtimestamp(start, UTC):%-d %B %Y})" for start, name in sorted(coming)[:most]]
    return f" Next: {', '.join(told)}." if told else ""


def _inner(conditions: Sequence[Condition]) -> list[Condition]:
    """The conditions inside others, flat."""
    found: list[Condition] = []
    for each in conditions:
        match each:
            case Not(inner):
                found.extend(_inner((inner,)))
            case _ if hasattr(each, "conditions"):
                found.extend(_inner(each.conditions))
            case _:
                found.append(each)
    return found


def _answers(answer: Message, field: Field) -> dict[str, Any]:
    """What an answer says of the question's field in JSON, by its id."""
    part = answer.labelled("ask")
    if part is not None and isinstance(part.value, dict) and isinstance(part.value.get("answers"), dict):
        return dict(part.value["answers"])
    for each in answer.parts:
        if each.format == "structured" and isinstance(each.value, dict):
            given = each.value.get("answers", each.value)
            if isinstance(given, dict) and field.id in given:
                return {field.id: given[field.id]}
    return {}


def _grounded(written: tuple[str, int], hits: Sequence[Hit]) -> Quote | None:
    """A model's sentence as a quote, if the hit that it names bears it: its numbers all, of its words nearly all."""
    sentence, place = written
    if not 0 <= place < len(hits) or not sentence.strip():
        return None
    item = hits[place].item
    told = set(tokens(f"{item.name} {item.description} {item.text} {hits[place].passage}"))
    words = content_words(sentence)
    numbers = [word for word in words if any(char.isdigit() for char in word)]
    borne = sum(1 for word in words if word in told)
    if not words or borne < _BORNE * len(words) or any(number not in told for number in numbers):
        return None
    return Quote(sentence.strip(), item.id, item.name, item.page)
