"""Federation: one question to many agents, and one answer out of theirs (DEP-FED).

    Federation([hotel, taxi], integrator=writer)

Members are any Agents: functions, peers over NLIP or another protocol, other federations. They are asked at the same
time, each within its own time; who fails or is late is left out and named. The integrator is an Agent too: it gets the
question and all answers as submessages, labelled with who said them. ``cheapest`` and ``cross_check`` are two of them.
"""

from __future__ import annotations

import asyncio
import logging
import math
import re
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final

from ..agent import Agent, agent
from ..card import Card
from ..ending import end
from ..errors import SabirError, TurnFailed
from ..events import Delta, Event, Fault, Progress, Question, Reply
from ..message import Message, Part, json_part, text_part
from ..turn import Turn

logger = logging.getLogger("sabir")

SOURCES: Final = "sources"  # label of the part that says who answered and who did not
QUESTION: Final = "asked"  # label of the question in what the integrator gets


@dataclass(frozen=True, slots=True)
class Said:
    """What one member said, or why it said nothing."""

    source: str
    message: Message | None = None
    failure: str = ""


class Federation:
    """Asks all members and combines their answers.

    ``seconds`` is what each member has; ``quorum`` is how many must answer. Without an integrator the answers are
    put one below the other.
    """

    def __init__(
        self,
        members: Sequence[Agent],
        *,
        integrator: Agent | None = None,
        name: str = "federation",
        description: str = "",
        seconds: float = 30.0,
        quorum: int = 1,
    ) -> None:
        names = [member.card.name for member in members]
        if not members or len(set(names)) != len(names):
            raise ValueError("a federation needs members, each with a name of its own")
        words = description or f"Asks {', '.join(names)} and combines what they say"
        skills = tuple(skill for member in members for skill in member.card.skills)
        self.card = Card(name=name, description=words, skills=skills)
        self.members = tuple(members)
        self.integrator = integrator
        self.seconds = seconds
        self.quorum = quorum

    async def __call__(self, turn: Turn, /) -> AsyncIterator[Event]:
        said: list[Said] = []
        asking = asyncio.Lock()  # the caller is asked one question at a time
        asked = {asyncio.create_task(self._ask(member, turn, asking)): member.card.name for member in self.members}
        tasks = set(asked)
        try:
            while tasks:
                done, tasks = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    said.append(_outcome(task, asked[task]))
                    yield Progress(len(said) / (len(self.members) + 1), f"{said[-1].source} has answered")
        finally:
            await end(tasks)
        order = {member.card.name: place for place, member in enumerate(self.members)}
        said.sort(key=lambda each: order[each.source])
        answered = [each for each in said if each.message is not None]
        if len(answered) < self.quorum:
            yield Fault("; ".join(f"{each.source}: {each.failure}" for each in said if each.failure), "unavailable")
            return
        async with aclosing(self._combined(turn, said)) as events:
            async for event in events:
                yield event

    async def _ask(self, member: Agent, turn: Turn, asking: asyncio.Lock) -> Said:
        name = member.card.name
        try:
            sub = turn.sub(turn.message, member)
            whole = sub.ask_back

            async def ask_back(question: Question) -> Message:
                async with asking:
                    return await whole(question)

            sub.ask_back = ask_back
            async with asyncio.timeout(min(self.seconds, turn.remaining)):
                async for event in member(sub):
                    if isinstance(event, Reply):
                        return Said(name, event.message.without_tokens())
                    if isinstance(event, Fault):
                        return Said(name, failure=event.reason)
        except TimeoutError:
            return Said(name, failure="no answer in time")
        except SabirError as wrong:
            return Said(name, failure=str(wrong))
        return Said(name, failure="it ended without an answer")

    async def _combined(self, turn: Turn, said: list[Said]) -> AsyncGenerator[Event, None]:
        sources = {
            "answered": [each.source for each in said if each.message is not None],
            "failed": {each.source: each.failure for each in said if each.message is None},
        }
        told = json_part(sources, label=SOURCES)
        parts = [part for each in said if each.message is not None for part in labelled(each.source, each.message)]
        if self.integrator is None:
            words = [f"{each.source}: {each.message.text}" for each in said if each.message is not None]
            yield Reply(Message.text("\n".join(words), parts=[*parts, told]))
            return
        brief = Message.text(turn.text, parts=[text_part(turn.text, label=QUESTION), *parts, told])
        sub = turn.sub(brief, self.integrator)
        async for event in self.integrator(sub):
            if isinstance(event, Reply):
                reply = event.message
                yield Reply(reply if reply.labelled(SOURCES) is not None else reply.with_part(told))
                return
            if isinstance(event, Fault | Delta | Progress):
                yield event
        raise TurnFailed("the integrator ended without an answer")

    async def propose_anonymous(self, conversation: str) -> str | None:
        """Anonymity holds only if every member that passes questions on agrees to it (PAPER-ANON)."""
        for member in (*self.members, *((self.integrator,) if self.integrator is not None else ())):
            propose = getattr(member, "propose_anonymous", None)
            why = await propose(conversation) if propose is not None else None
            if why is not None:
                return f"{member.card.name}: {why}"
        return None


def _outcome(task: asyncio.Task[Said], source: str) -> Said:
    """What a member said. One that breaks is a member that is down: the others are heard, the log learns why."""
    broken = task.exception()
    if broken is None:
        return task.result()
    if not isinstance(broken, Exception):
        raise broken
    logger.error("member %s of a federation failed", source, exc_info=broken)
    return Said(source, failure="it failed")


def labelled(source: str, message: Message) -> list[Part]:
    """The parts of an answer, each with the name of who gave it."""
    return [Part(part.format, part.subformat, part.content, source) for part in message.parts if not _empty(part)]


def _empty(part: Part) -> bool:
    return part.format == "text" and part.content == ""


def answers_in(message: Message) -> dict[str, list[Part]]:
    """Source → parts, out of what an integrator is given."""
    found: dict[str, list[Part]] = {}
    for part in message.submessages:
        if part.label is not None and part.label not in (SOURCES, QUESTION):
            found.setdefault(part.label, []).append(part)
    return found


# -- integrators ----------------------------------------------------------------------------------

# 1,299.00 and 1'299.00; 1.299,00; 12.50 and 12,50. A group of three behind a mark is thousands.
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
    told = json_part({"prices": offers}, label="prices")
    if not priced:
        return Message.text("No offer has a price that can be read.", parts=[told])
    said = {source: currency_in(parts) for source, parts in answers_in(turn.message).items() if source in priced}
    if len({each for each in said.values() if each}) > 1:
        listed = "; ".join(f"{source}: {price:g} {said[source] or ''}".strip() for source, price in priced.items())
        return Message.text(
            f"The offers are in different currencies, so none is called cheapest. {listed}", parts=[told]
        )
    best = min(priced, key=lambda source: priced[source])
    words = " ".join(str(p.content) for p in answers_in(turn.message)[best] if p.format == "text")
    return Message.text(f"{best} is cheapest, at {priced[best]:g}. {words}".strip(), parts=[told])


def price_in(parts: Sequence[Part]) -> float | None:
    """The price that an answer states: a ``price`` field of its JSON, or an amount in its words."""
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
    """The currency that an answer names first, if it names any."""
    for part in parts:
        value = part.value if part.format == "structured" else None
        said = str(value.get("currency", "")) if isinstance(value, dict) else str(part.content)
        match = _CURRENCY.search(said) if part.format == "text" or isinstance(value, dict) else None
        if match is not None:
            return _CURRENCIES[match.group().lower()]
    return None


@agent(name="cross-check", description="Answers only what most sources agree on")
async def cross_check(turn: Turn) -> Message:
    """An integrator as a guard-rail: what most sources say is the answer; where they differ, that is said."""
    answers = {source: _said(parts) for source, parts in answers_in(turn.message).items()}
    if not answers:
        return Message.text("No source has said anything.")
    counted = Counter(_canonical(words) for words in answers.values())
    said, votes = counted.most_common(1)[0]
    against = sorted(source for source, words in answers.items() if _canonical(words) != said)
    told: dict[str, Any] = {"agree": votes, "of": len(answers), "differ": against}
    if 2 * votes <= len(answers) and len(answers) > 1:
        listed = "; ".join(f"{source}: {words}" for source, words in answers.items())
        return Message.text(f"The sources do not agree. {listed}", parts=[json_part(told, label="agreement")])
    words = next(words for words in answers.values() if _canonical(words) == said)
    return Message.text(words, parts=[json_part(told, label="agreement")])


def _said(parts: Sequence[Part]) -> str:
    return " ".join(str(part.content) for part in parts if part.format == "text")


def _canonical(words: str) -> str:
    """Answers that differ only in case, blanks and punctuation are the same; numbers are compared as numbers."""
    words = re.sub(r"\d+(?:\.\d+)?", lambda m: f"{float(m.group()):g}", words.lower())
    return " ".join(re.findall(r"[^\W_]+(?:\.\d+)?", words))
