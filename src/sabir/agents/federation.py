"""Federation: one question to many agents, one answer combined from theirs (DEP-FED).

    Federation([hotel, taxi], integrator=writer)
    Federation([alice, bob, carol], strategy="vote")

The strategy says how answers are combined: ``all`` lists them or hands them to the integrator, ``first`` takes the
first to arrive, ``best`` the one that agrees most with the others, ``vote`` what most say, and ``merge`` all of them
without repetitions. If there is an integrator, it decides ``best`` and writes ``merge``.

Members are any Agents: functions, peers over NLIP or another protocol, other federations. They are asked concurrently,
each with its own deadline; members that fail or are late are left out and named. The integrator is an Agent, too: it
gets the question and all answers as submessages, labelled with their sources. ``cheapest`` and ``cross_check`` are
integrators.
"""

from __future__ import annotations

import asyncio
import logging
import math
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final, Literal

from sabir.agent import Agent, agent, why_not_anonymous
from sabir.aio import Closing, cancel_and_wait
from sabir.card import Card, required_policies
from sabir.errors import SabirError, TurnFailed
from sabir.events import Delta, Event, Fault, Progress, Question, Reply
from sabir.message import Message, Part, json_part, text_part
from sabir.turn import Turn

from .agreement import agree, groups
from .turn_taking import TurnTaking

logger = logging.getLogger("sabir")

SOURCES: Final = "sources"  # label of the part that says who answered and who did not
QUESTION: Final = "asked"  # label of the question in what the integrator gets
AGREEMENT: Final = "agreement"  # label of the part that says who agreed
ANSWERS: Final = "answers"  # label of the part with the text of each source
VOTES: Final = "votes"  # label of the text that says how many agree, and what each source said
SECONDS: Final = 30.0  # time limit of a member
Strategy = Literal["first", "all", "best", "vote", "merge"]


@dataclass(frozen=True, slots=True)
class Said:
    """The answer of one member, or why it failed."""

    source: str
    message: Message | None = None
    failure: str = ""

    @property
    def text(self) -> str | None:
        return self.message.text if self.message is not None else None


@dataclass(frozen=True, slots=True)
class _Piece:
    """A piece of a member's answer."""

    source: str
    text: str


class Federation:
    """Asks all members and combines their answers.

    ``seconds`` is the time limit of each member, or a mapping of limits by name; ``quorum`` is how many must answer.
    """

    def __init__(
        self,
        members: Sequence[Agent],
        *,
        strategy: Strategy = "all",
        integrator: Agent | None = None,
        name: str = "federation",
        description: str = "",
        seconds: float | Mapping[str, float] = SECONDS,
        quorum: int = 1,
    ) -> None:
        names = [member.card.name for member in members]
        if not members or len(set(names)) != len(names):
            raise ValueError("a federation needs members with unique names")
        words = description or f"Asks {len(names)} agents and combines what they say"
        skills = tuple({skill.id: skill for member in members for skill in member.card.skills}.values())
        cards = [member.card for member in (*members, *((integrator,) if integrator is not None else ()))]
        self.card = Card(name=name, description=words, skills=skills, policies=required_policies(cards))
        self.members = tuple(members)
        self.strategy: Strategy = strategy
        self.integrator = integrator
        self.seconds = seconds
        self.quorum = quorum

    async def __call__(self, turn: Turn, /) -> AsyncIterator[Event]:
        said: list[Said] = []
        streams = self.strategy == "all" and self.integrator is None
        floor = TurnTaking()
        yield Progress(0.0, f"Asking {', '.join(member.card.name for member in self.members)}")
        async with aclosing(self._answers(turn)) as answers:
            async for answer in answers:
                if isinstance(answer, _Piece):
                    for delta in floor.piece(answer.source, answer.text) if streams else ():
                        yield delta
                    continue
                said.append(answer)
                yield Progress(len(said) / (len(self.members) + 1), _progress_note(answer))
                if answer.message is not None and self.strategy == "first":
                    yield Reply(answer.message.with_part(_sources(said)))
                    return
                for delta in floor.end(answer.source, answer.text) if streams else ():
                    yield delta
        order = {member.card.name: place for place, member in enumerate(self.members)}
        said.sort(key=lambda item: order[item.source])
        answered = [item for item in said if item.message is not None]
        if len(answered) < self.quorum:
            yield Fault("; ".join(f"{item.source}: {item.failure}" for item in said if item.failure), "unavailable")
            return
        async with aclosing(self._combined(turn, said)) as events:
            async for event in events:
                yield event

    async def _answers(self, turn: Turn) -> AsyncGenerator[Said | _Piece, None]:
        """The pieces of the members' answers as they arrive, and each answer when it is complete."""
        asking = asyncio.Lock()  # the caller is asked one question at a time
        arrived: asyncio.Queue[_Piece | asyncio.Task[Said]] = asyncio.Queue()
        asked = {
            asyncio.create_task(self._ask(member, turn, asking, arrived.put_nowait)): member.card.name
            for member in self.members
        }
        for task in asked:
            task.add_done_callback(arrived.put_nowait)
        left = len(asked)
        try:
            while left:
                event = await arrived.get()
                if isinstance(event, _Piece):
                    yield event
                else:
                    left -= 1
                    yield _outcome(event, asked[event])
        finally:
            await cancel_and_wait([task for task in asked if not task.done()])

    def seconds_of(self, member: str) -> float:
        """The time limit of one member."""
        return self.seconds.get(member, SECONDS) if isinstance(self.seconds, Mapping) else self.seconds

    async def _ask(self, member: Agent, turn: Turn, asking: asyncio.Lock, on_piece: Callable[[_Piece], None]) -> Said:
        with turn.timeline.span("agent", member.card.name) as hop:
            said = await self._answer(member, turn, asking, on_piece)
            hop.end(failed=said.message is None)
        return said

    async def _answer(
        self, member: Agent, turn: Turn, asking: asyncio.Lock, on_piece: Callable[[_Piece], None]
    ) -> Said:
        name = member.card.name
        try:
            unread = member.card.cannot_read(turn.message)
            if unread is not None:
                return Said(name, failure=unread)
            sub = turn.sub(turn.message, member, history=True)
            whole = sub.ask_back

            async def ask_back(question: Question) -> Message:
                async with asking:
                    return await whole(question)

            sub.ask_back = ask_back
            async with asyncio.timeout(min(self.seconds_of(name), turn.remaining)):
                async with Closing(member(sub)) as events:
                    async for event in events:
                        if isinstance(event, Reply):
                            note = member.card.leaves_out(turn.message)
                            parts = (text_part(note, label="unread"),) if note is not None else ()
                            return Said(name, event.message.without_tokens().with_parts(parts))
                        if isinstance(event, Fault):
                            return Said(name, failure=event.reason)
                        if isinstance(event, Delta) and event.part.format == "text":
                            on_piece(_Piece(name, event.part.content))
        except TimeoutError:
            return Said(name, failure="no answer in time")
        except SabirError as exc:
            return Said(name, failure=str(exc))
        return Said(name, failure="it ended without an answer")

    async def _combined(self, turn: Turn, said: list[Said]) -> AsyncGenerator[Event, None]:
        if self.strategy == "vote":
            yield Reply(_voted(turn.text, said))
        elif self.integrator is not None:
            async with Closing(self._integrated(self.integrator, turn, said)) as events:
                async for event in events:
                    yield event
        elif self.strategy == "best":
            yield Reply(_best(turn.text, said))
        elif self.strategy == "merge":
            yield Reply(_merged(turn.text, said))
        else:
            yield Reply(Message.text(_listed(_texts(said)), parts=_beside(said)))

    async def _integrated(self, integrator: Agent, turn: Turn, said: list[Said]) -> AsyncGenerator[Event, None]:
        answer = _sources(said)
        brief = Message.text(
            f"{turn.text}{_WISHES.get(self.strategy, '')}",
            parts=[text_part(turn.text, label=QUESTION), *_parts(said), answer],
        )
        sub = turn.sub(brief, integrator, history=True)
        async with Closing(integrator(sub)) as events:
            async for event in events:
                if isinstance(event, Reply):
                    reply = event.message
                    yield Reply(reply if reply.labelled(SOURCES) is not None else reply.with_part(answer))
                    return
                if isinstance(event, Fault | Delta | Progress):
                    yield event
        raise TurnFailed("the integrator ended without an answer")

    async def propose_anonymous(self, conversation: str) -> str | None:
        """Agree to anonymity only if every member that forwards questions does (PAPER-ANON)."""
        asked = (*self.members, *((self.integrator,) if self.integrator is not None else ()))
        return await why_not_anonymous(asked, conversation)


_WISHES: Final[Mapping[str, str]] = {
    "best": "\n\nSeveral agents have answered below. Repeat the best of their answers as it is.",
    "merge": "\n\nSeveral agents have answered below. Write one answer out of theirs, and name where they differ.",
}


def _progress_note(said: Said) -> str:
    """Report that a member has answered, or why it failed."""
    if said.message is None:
        return f"{said.source} failed: {said.failure}"
    return f"{said.source} has answered"


def _sources(said: Sequence[Said]) -> Part:
    answered = [item.source for item in said if item.message is not None]
    failed = {item.source: item.failure for item in said if item.message is None}
    return json_part({"answered": answered, "failed": failed}, label=SOURCES)


def _parts(said: Sequence[Said]) -> list[Part]:
    return [part for item in said if item.message is not None for part in labelled(item.source, item.message)]


def _beside(said: Sequence[Said], *judged: Part) -> list[Part]:
    """The parts after the text of a reply: files, who answered and failed, and each answer under its source.

    The answers are data here: as text they would appear twice, and without names.
    """
    files = [part for part in _parts(said) if part.format != "text"]
    return [*files, *judged, _sources(said), json_part(_texts(said), label=ANSWERS)]


def _listed(texts: Mapping[str, str]) -> str:
    return "\n".join(f"{source}: {text}" for source, text in texts.items())


def _texts(said: Sequence[Said]) -> dict[str, str]:
    return {item.source: _own_words(item.message) for item in said if item.message is not None}


def _own_words(message: Message) -> str:
    """A member's answer, without its votes if the member is a federation itself."""
    kept = tuple(part for part in message.submessages if part.label != VOTES)
    return Message.of(message.first, *kept).text


def _voted(question: str, said: Sequence[Said]) -> Message:
    """What most say, followed by what each source said. Without a majority, that comes first."""
    texts = _texts(said)
    winners = groups(texts, question)[0]
    agreement = {"agree": winners, "differ": [source for source in texts if source not in winners]}
    parts = _beside(said, json_part(agreement, label=AGREEMENT))
    if 2 * len(winners) <= len(texts) and len(texts) > 1:
        return Message.text(f"The sources do not agree.\n{_listed(texts)}", parts=parts)
    if len(texts) == 1:
        return Message.text(texts[winners[0]], parts=parts)
    count = f"All {len(texts)}" if len(winners) == len(texts) else f"{len(winners)} of {len(texts)}"
    votes = text_part(f"{count} sources agree:\n{_listed(texts)}", label=VOTES)
    return Message.text(texts[winners[0]], parts=[votes, *parts])


def _best(question: str, said: Sequence[Said]) -> Message:
    """The answer that most others agree with; of equals, the earlier member's."""
    texts = _texts(said)
    support = {one: sum(agree(texts[one], other, question) for other in texts.values()) for one in texts}
    best = max(texts, key=lambda source: support[source])  # the first of equals
    chosen = json_part({"chosen": best, "support": support}, label=AGREEMENT)
    return Message.text(texts[best], parts=_beside(said, chosen))


def _merged(question: str, said: Sequence[Said]) -> Message:
    """The sentences of all answers, without repetitions."""
    kept: list[str] = []
    for text in _texts(said).values():
        for sentence in re.split(r"(?<=[.!?])\s+", text.strip()):
            if sentence and not any(agree(sentence, other, question) for other in kept):
                kept.append(sentence)
    return Message.text(" ".join(kept), parts=_beside(said))


def _outcome(task: asyncio.Task[Said], source: str) -> Said:
    """The answer of a member. A crash counts as a failed member, and its reason is logged."""
    broken = task.exception()
    if broken is None:
        return task.result()
    if not isinstance(broken, Exception):
        raise broken
    logger.error("Member %s of a federation failed", source, exc_info=broken)
    return Said(source, failure="an internal error")


def labelled(source: str, message: Message) -> list[Part]:
    """The parts of an answer, each labelled with its source."""
    return [Part(part.format, part.subformat, part.content, source) for part in message.parts if not _empty(part)]


def _empty(part: Part) -> bool:
    return part.format == "text" and part.content == ""


def answers_in(message: Message) -> dict[str, list[Part]]:
    """Source → parts, from an integrator's input."""
    found: dict[str, list[Part]] = {}
    for part in message.submessages:
        if part.label is not None and part.label not in (SOURCES, QUESTION):
            found.setdefault(part.label, []).append(part)
    return found


# -- integrators ----------------------------------------------------------------------------------

# 1,299.00 and 1'299.00; 1.299,00; 12.50 and 12,50. A group of three after a mark is thousands.
_AMOUNT: Final = r"\d{1,3}(?:[,'’]\d{3})+(?:\.\d{1,2})?|\d{1,3}(?:\.\d{3})+(?:,\d{1,2})?|\d+(?:[.,]\d{1,2})?"
_PRICE: Final = re.compile(
    rf"(?:(?:price|cost|total|costs|for)\D{{0,12}}|[$€£]\s?|(?:EUR|USD|CHF|GBP)\s?)({_AMOUNT})"
    rf"|(?<![\d.,'])({_AMOUNT})\s?(?:[$€£]|EUR|USD|CHF|GBP|euros?|dollars?|pounds?|francs?)",
    re.IGNORECASE,
)
_CURRENCIES: Final = {
    "$": "USD", "usd": "USD", "dollar": "USD", "€": "EUR", "eur": "EUR", "euro": "EUR", "£": "GBP", "gbp": "GBP",
    "pound": "GBP", "chf": "CHF", "franc": "CHF",
}  # fmt: skip
_CURRENCY: Final = re.compile("|".join(re.escape(name) for name in _CURRENCIES), re.IGNORECASE)


@agent(name="cheapest", description="Takes the answer with the lowest price")
async def cheapest(turn: Turn) -> Message:
    """An integrator: the lowest price wins; offers without a readable price are named and left out."""
    offers = {source: price_in(parts) for source, parts in answers_in(turn.message).items()}
    priced = {source: price for source, price in offers.items() if price is not None}
    part = json_part({"prices": offers}, label="prices")
    if not priced:
        return Message.text("No offer has a price that can be read.", parts=[part])
    said = {source: currency_in(parts) for source, parts in answers_in(turn.message).items() if source in priced}
    if len({item for item in said.values() if item}) > 1:
        listed = "; ".join(f"{source}: {price:g} {said[source] or ''}".strip() for source, price in priced.items())
        return Message.text(
            f"The offers are in different currencies, so none is called cheapest. {listed}", parts=[part]
        )
    best = min(priced, key=lambda source: priced[source])
    words = " ".join(str(p.content) for p in answers_in(turn.message)[best] if p.format == "text")
    return Message.text(f"{best} is cheapest, at {priced[best]:g}. {words}".strip(), parts=[part])


def price_in(parts: Sequence[Part]) -> float | None:
    """The price in an answer: a ``price`` field of its JSON, or an amount in its text."""
    for part in parts:
        value = part.value if part.format == "structured" else None
        if isinstance(value, dict):
            price = value.get("price", value.get("total"))
            if isinstance(price, int | float | str) and not isinstance(price, bool):
                amount = _number(str(price))
                if amount is not None:
                    return amount
    for part in parts:
        match = _PRICE.search(str(part.content)) if part.format == "text" else None
        if match is not None:
            return _number(match.group(1) or match.group(2))
    return None


def _number(said: str) -> float | None:
    thousands = re.fullmatch(r"\d{1,3}([,.'’])\d{3}(?:\1\d{3})*(?:([.,])(\d{1,2}))?", said)
    if thousands is not None:
        whole = said.removesuffix(f"{thousands.group(2)}{thousands.group(3)}") if thousands.group(2) else said
        return float(f"{re.sub(r'[^0-9]', '', whole)}.{thousands.group(3) or 0}")
    try:
        amount = float(said.replace(",", "."))
    except ValueError:
        return None
    return amount if math.isfinite(amount) and amount >= 0 else None


def currency_in(parts: Sequence[Part]) -> str | None:
    """The first currency that an answer names, or None."""
    for part in parts:
        value = part.value if part.format == "structured" else None
        said = str(value.get("currency", "")) if isinstance(value, dict) else str(part.content)
        match = _CURRENCY.search(said) if part.format == "text" or isinstance(value, dict) else None
        if match is not None:
            return _CURRENCIES[match.group().lower()]
    return None


@agent(name="cross-check", description="Answers only what most sources agree on")
async def cross_check(turn: Turn) -> Message:
    """An integrator as a guard rail: it answers what most sources say; if they disagree, it says so."""
    answers = {source: _said(parts) for source, parts in answers_in(turn.message).items()}
    if not answers:
        return Message.text("No source has said anything.")
    asked = turn.message.labelled(QUESTION)
    agreed = groups(answers, str(asked.content) if asked is not None else turn.text)[0]
    against = sorted(source for source in answers if source not in agreed)
    details: dict[str, Any] = {"agree": len(agreed), "of": len(answers), "differ": against}
    if 2 * len(agreed) <= len(answers) and len(answers) > 1:
        listed = "; ".join(f"{source}: {words}" for source, words in answers.items())
        return Message.text(f"The sources do not agree. {listed}", parts=[json_part(details, label=AGREEMENT)])
    return Message.text(answers[agreed[0]], parts=[json_part(details, label=AGREEMENT)])


def _said(parts: Sequence[Part]) -> str:
    return " ".join(str(part.content) for part in parts if part.format == "text")
