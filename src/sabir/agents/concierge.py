"""Concierge: the agent that answers control messages for the gateway (CORE-6.3).

It reads requests from labelled JSON parts or, by rules, from text (``control.intents``), and answers each in text
followed by a labelled JSON part, which old peers can ignore. Agreements are stored in the conversation
(``control.proposals``) and enforced from the next message on. Before it erases anything or records consent, it asks for
confirmation.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from sabir.agent import Agent
from sabir.card import Card, Policy
from sabir.errors import SabirError
from sabir.events import Event, Field, Question, Reply
from sabir.exchange.conversations import Conversations
from sabir.guard import size_of
from sabir.guard.agreements import HISTORY, is_context, past_turns, policies_of
from sabir.guard.assent import assent
from sabir.guard.identity.passes import Passes
from sabir.guard.quotas.rates import Quotas, Remaining
from sabir.limits import Limits
from sabir.message import Message, json_part, text_part, uri_part
from sabir.stores.base import ConversationRow, Store, TurnEntry
from sabir.turn import Caller, PastTurn, Turn, no_back_channel
from sabir.uploads import Uploads

from .control.guesses import with_guess
from .control.intents import EXAMPLES, TOPICS, Wish, has_phrases, load_phrases, read
from .control.proposals import (
    ProposalAnswer,
    consents,
    on_accept,
    on_context,
    on_limits,
    on_policy,
    on_stream,
    on_vocabulary,
)
from .control.questions import question_for

NAME: Final = "concierge"
EDITIONS: Final = (
    "ECMA-430:2025",
    "ECMA-431:2025",
    "ECMA-432:2025",
    "ECMA-433 (draft of August 2025)",
    "ECMA-434:2025",
)
MAX_HISTORY: Final = 200
OF_THE_CONVERSATION: Final = frozenset({"history", "sessions", "cancel"})  # the owner's, whatever else is allowed

Reader = Callable[[str], Awaitable[Wish | None]]


async def _nothing_under_way(conversation: str) -> bool:
    return False


async def _nothing_beside(conversation: str, caller: Caller) -> None:
    return None


def _everybody(caller: Caller, door: str) -> None:
    return None


async def _nothing_counted(caller: Caller) -> list[Remaining]:
    return []


@dataclass(kw_only=True)
class ConciergeServices:
    """What the concierge needs from its gateway.

    ``cards``, ``agents`` and ``check`` get the caller and the door, and respect the caller's rights.
    """

    cards: Callable[[Caller, str], list[Card]]
    limits: Limits
    quotas: Quotas
    store: Store
    conversations: Conversations
    # what the gateway publishes about itself: ``policies``, ``ethics``, ``security``, ``report``
    facts: Mapping[str, Any]
    public_url: str
    uploads: Uploads | None = None
    agents: Callable[[Caller, str], Iterable[Agent]] = lambda caller, door: ()
    cancel: Callable[[str], Awaitable[bool]] = _nothing_under_way
    reader: Reader | None = None  # interprets a sentence that no rule matches (an embedding, or an LLM)
    erase: Callable[[str, Caller], Awaitable[None]] = _nothing_beside
    passes: Passes | None = None
    remaining: Callable[[Caller], Awaitable[list[Remaining]]] = _nothing_counted
    check: Callable[[Caller, str], None] = _everybody


class Concierge:
    """Answers for the gateway."""

    def __init__(self, services: ConciergeServices) -> None:
        self.card = Card(name=NAME, description="Answers control messages for this gateway")
        self.services = services
        self._answers: Mapping[str, Callable[[Wish, Turn], Awaitable[ProposalAnswer]]] = {
            "capabilities": self._capabilities,
            "limits": self._on_limits,
            "policy": self._policy,
            "upload": self._upload,
            "context": self._context,
            "history": self._history,
            "sessions": self._sessions,
            "anonymous": self._anonymous,
            "accept": self._accept,
            "stream": self._stream,
            "vocabulary": self._vocabulary,
            "ethics": self._ethics,
            "security": self._security,
            "authentication": self._authentication,
            "cancel": self._on_cancel,
        }

    async def __call__(self, turn: Turn, /) -> AsyncIterator[Event]:
        if turn.text.strip() and not has_phrases():
            await asyncio.to_thread(load_phrases)  # other turns continue meanwhile
        wishes = await self._read(turn)
        if not wishes:
            yield Reply(_not_understood().with_type("control"))
            return
        if any(wish.topic not in OF_THE_CONVERSATION for wish in wishes):
            self.services.check(turn.caller, turn.door)
        if not await self._is_confirmed(wishes, turn):
            yield Reply(Message.text("Nothing was changed.", messagetype="control"))
            return
        answers = await self._answered(wishes, turn)
        text = "\n".join(answer.text for answer in answers)
        parts = [part for answer in answers for part in answer.parts]
        yield Reply(Message.text(text, messagetype="control", parts=parts))

    async def _read(self, turn: Turn) -> list[Wish]:
        """What a message asks for: by the rules, by the operator's own reader, or probably."""
        wishes = read(turn.message)
        if not wishes and self.services.reader is not None:
            wish = await self.services.reader(turn.text)
            if wish is not None and wish.topic in TOPICS:
                return [wish]
        likely = with_guess(turn.message, wishes)
        if turn.ask_back is no_back_channel and any(wish.is_guess for wish in likely):
            return wishes  # a guess is not carried out without a yes, and nobody can be asked for one
        return likely

    async def _answered(self, wishes: Iterable[Wish], turn: Turn) -> list[ProposalAnswer]:
        agreed = dict(turn.conversation.agreed)
        answers: list[ProposalAnswer] = []
        for wish in wishes:
            turn.conversation = msgspec.structs.replace(turn.conversation, agreed=agreed)
            answer = await self._answers[wish.topic](wish, turn)
            answers.append(_with_hint(answer, wish) if wish.is_unclear or wish.problem else answer)
            for topic, terms in (answer.agreed or {}).items():
                agreed = {key: value for key, value in agreed.items() if key != topic}
                if terms is not None:
                    agreed[topic] = terms
        if any(answer.agreed for answer in answers):
            await self.services.conversations.agree(await self._row(turn), agreed)
        return answers

    async def _is_confirmed(self, wishes: Iterable[Wish], turn: Turn) -> bool:
        """Confirm acts that cannot be undone or that bind the caller, unless a part already confirms them."""
        asked = [words for wish in wishes if (words := self._to_confirm(wish, turn))]
        if not asked:
            return True
        text = f"{' '.join(asked)} Reply yes to confirm."
        question = Question(text, (Field("confirm", text, "boolean"),), id="confirm", control=True)
        return assent(await turn.ask(question)) is True

    def _to_confirm(self, wish: Wish, turn: Turn) -> str:
        """What to ask before this is done; empty if no confirmation is needed."""
        if wish.value.get("confirmed") is True:
            return ""
        if wish.topic == "sessions" and wish.value.get("erase") is True:
            count = turn.conversation.count
            return f"Erase {count} turn{'s' * (count != 1)} of this conversation?"
        if wish.is_guess and (text := question_for(wish.act, wish.value)):
            return text
        if wish.topic != "policy":
            return ""
        policies, _ = self._policies(turn)
        text = "; ".join(
            f"{consent.kind}: {_line(consent.text)}"
            for consent in consents(wish.value, policies, turn.conversation.agreed)
        )
        return f"Do you accept this? {text}" if text else ""

    async def _row(self, turn: Turn) -> ConversationRow:
        """The stored conversation of this turn, or the row it will be stored as."""
        row = await self.services.store.conversation(turn.conversation.id)
        if row is not None:
            return row
        now = time.time()
        expires = self.services.conversations.expiry(turn.caller, now)
        return ConversationRow(turn.conversation.id, turn.caller.id, now, now, expires)

    # -- who is here ------------------------------------------------------------------------------

    async def _capabilities(self, wish: Wish, turn: Turn) -> ProposalAnswer:
        cards = sorted(self.services.cards(turn.caller, turn.door), key=lambda card: card.name != turn.named)
        if wish.terse:  # nlip_swarm reads one AGENT line and CAP lines
            lines = [f"AGENT:{cards[0].name if cards else 'sabir'}"]
            lines += [f"CAP:{card.name}: {_line(card.description)}" for card in cards]
            lines += [f"CAP:{skill.id}: {_line(skill.description or skill.name)}" for c in cards for skill in c.skills]
            text = "\n".join(lines)
        else:
            agents = "; ".join(f"{card.name} ({_line(card.description)})".removesuffix(" ()") for card in cards)
            text = f"Agents here: {agents}. Control messages are answered on: {', '.join(TOPICS)}."
        details = {
            "agents": [msgspec.to_builtins(card) for card in cards],
            "gateway": self.services.facts.get("gateway", ""),
            "control": dict(TOPICS),
            "editions": list(EDITIONS),
            "bindings": list(self.services.facts.get("bindings", ("http", "websocket"))),
            "formats": ["text", "token", "structured", "binary", "location", "generic"],
            "streaming": True,
            "idempotency_key": True,
        }
        return ProposalAnswer.of(text, "capabilities", details)

    async def _ethics(self, wish: Wish, turn: Turn) -> ProposalAnswer:
        text = str(self.services.facts.get("ethics") or ETHICS)
        return ProposalAnswer.of(text, "ethics", {"text": text, "uri": f"{self.services.public_url}/ethics"})

    async def _security(self, wish: Wish, turn: Turn) -> ProposalAnswer:
        report = self.services.facts.get("report")
        answer = report() if callable(report) else report
        answer = answer if isinstance(answer, dict) else {"profile": None}
        profile, degree = answer.get("profile"), answer.get("degree")
        words = f"ECMA-434 profile {profile} ({degree}) holds." if profile else "No ECMA-434 profile holds in full."
        held = ", ".join(str(name) for name in answer.get("holds", ()))
        names = f" What holds: {held}." if held else ""
        text = f"{words}{names} The security statement is at {self.services.public_url}/security."
        return ProposalAnswer.of(text, "security", answer)

    async def _authentication(self, wish: Wish, turn: Turn) -> ProposalAnswer:
        caller = turn.caller
        who = "I do not know who you are" if caller.is_anonymous else f"You are {caller.name or caller.id}"
        text = f"{who}. Send a token part of subformat authentication, or an Authorization header, to authenticate."
        life = self.services.passes.life(caller) if self.services.passes is not None else 0.0
        if self.services.passes is not None and life > 0:
            turn.issued.append(self.services.passes.issue_to(caller))
            text = f"{who}. The authentication token in this answer says so for {life:.0f} seconds."
        return ProposalAnswer.of(text, "authentication", {"known": not caller.is_anonymous, "kind": caller.kind})

    # -- agreements -------------------------------------------------------------------------------

    async def _on_limits(self, wish: Wish, turn: Turn) -> ProposalAnswer:
        answer = on_limits(wish.value, self.services.limits, self.services.quotas, turn.conversation.agreed)
        left = await self.services.remaining(turn.caller)
        if not left:
            return answer
        details = {item.name: item.plain for item in left}
        return ProposalAnswer(answer.text, (*answer.parts, json_part(details, label="remaining")), answer.agreed)

    async def _policy(self, wish: Wish, turn: Turn) -> ProposalAnswer:
        policies, holders = self._policies(turn)
        return on_policy(wish.value, policies, turn.conversation.agreed, holders)

    def _policies(self, turn: Turn) -> tuple[list[Policy], dict[str, list[str]]]:
        """The policies that apply: the gateway's own, those of the named agent (or of all agents), and the gateway's
        defaults; and which agents alone require a kind."""
        own = list(policies_of(self.services.facts))
        cards = self.services.cards(turn.caller, turn.door)
        if turn.named:
            cards = [card for card in cards if card.name == turn.named]
        stated = own + [policy for card in cards for policy in card.policies]
        kinds = {policy.kind for policy in stated}
        days = self.services.conversations.expiry(turn.caller, 0.0) / 86400.0
        everywhere = {policy.kind for policy in own if policy.required}
        holders: dict[str, list[str]] = {}
        for card in () if turn.named else cards:
            for policy in card.policies:
                if policy.required and policy.kind not in everywhere:
                    holders.setdefault(policy.kind, []).append(card.name)
        return stated + [policy for policy in default_policies(days) if policy.kind not in kinds], holders

    async def _context(self, wish: Wish, turn: Turn) -> ProposalAnswer:
        answer = on_context(wish.value, self.services.quotas, turn.conversation.agreed)
        keeper = (answer.agreed or {}).get("context", {}).get("keeper")
        brought = turn.message.labelled(HISTORY)
        if brought is not None and keeper in ("server", "both"):
            await self._take_over(turn, past_turns(brought.value, turn.id)[-self.services.quotas.context_turns :])
        if wish.value.get("resume") or keeper in ("client", "both"):
            # A client that takes over the context needs the history so far.
            handed = json_part(history(await self._past(turn, MAX_HISTORY)), label=HISTORY)
            return ProposalAnswer(answer.text, (*answer.parts, handed), answer.agreed)
        return answer

    async def _take_over(self, turn: Turn, turns: Iterable[PastTurn]) -> None:
        """Store the history that the client kept until now, as if it had been said here.

        It begins with the turns that the gateway gave to the client and has itself.
        """
        row = await self._row(turn)
        known = Counter((past.asked.text, past.answered.text) for past in await self._past(turn, MAX_HISTORY))
        for past in turns:
            said = past.asked.text, past.answered.text
            if known[said]:
                known[said] -= 1
                continue
            past = msgspec.structs.replace(past, conversation=row.id)
            await self.services.store.record(TurnEntry(row, past, size=size_of(past.asked) + size_of(past.answered)))

    async def _accept(self, wish: Wish, turn: Turn) -> ProposalAnswer:
        return on_accept(wish.value)

    async def _stream(self, wish: Wish, turn: Turn) -> ProposalAnswer:
        return on_stream(wish.value, turn.conversation.agreed, turn.door)

    async def _vocabulary(self, wish: Wish, turn: Turn) -> ProposalAnswer:
        return on_vocabulary(wish.value, turn.conversation.agreed)

    async def _anonymous(self, wish: Wish, turn: Turn) -> ProposalAnswer:
        held = bool(turn.conversation.agreed.get("anonymous"))
        proposed = wish.value.get("propose", wish.value.get("is"))
        if proposed is None:
            text = (
                "This conversation is anonymous." if held else "This conversation is not anonymous; you may propose it."
            )
            return ProposalAnswer.of(text, "anonymous", {"anonymous": held})
        if proposed is False:
            if not held:
                return ProposalAnswer.of("This conversation is not anonymous.", "anonymous", {"anonymous": False})
            return ProposalAnswer.of(
                "An anonymous conversation stays anonymous; start a new one.", "anonymous",
                {"anonymous": True, "refused": "downgrade"},
            )  # fmt: skip
        why = await self._why_not_anonymous(turn)
        if why is not None:
            return ProposalAnswer.of(
                f"Anonymous mode is refused: {why}.", "anonymous", {"anonymous": False, "refused": why}
            )
        return ProposalAnswer.of(
            "Anonymous mode is agreed by all agents on the way.", "anonymous",
            {"anonymous": True, "accepted": True}, _anonymous_terms(turn),
        )  # fmt: skip

    async def _why_not_anonymous(self, turn: Turn) -> str | None:
        if not turn.caller.is_anonymous:
            return "you are authenticated; start a conversation without credentials"
        if self.services.facts.get("anonymous") is False:
            return "it is not offered here"
        for agent in self.services.agents(turn.caller, turn.door):
            if turn.named and agent.card.name != turn.named:
                continue  # only agents in the interaction count: the named one, and those it forwards to
            propose = getattr(agent, "propose_anonymous", None)
            if propose is None:
                continue
            try:
                why = await propose(turn.conversation.id)
            except SabirError:
                why = "it cannot be reached"
            if why is not None:
                return f"{agent.card.name} does not agree ({why})"
        return None

    # -- the conversation itself ------------------------------------------------------------------

    async def _history(self, wish: Wish, turn: Turn) -> ProposalAnswer:
        horizon = wish.value.get("horizon", wish.value.get("last"))
        last = horizon if isinstance(horizon, int) and not isinstance(horizon, bool) and horizon > 0 else MAX_HISTORY
        turns = await self._past(turn, min(last, MAX_HISTORY))
        answer = history(turns)
        lines = [f"{item['at']} {item['speaker']}: {item['said']}" for item in answer]
        count = turn.conversation.count
        text = "\n".join(lines) if lines else "Nothing has been said yet."
        return ProposalAnswer.of(text, "history", {"turns": answer, "horizon": last, "count": count})

    async def _past(self, turn: Turn, last: int) -> list[PastTurn]:
        turns = await self.services.store.turns(turn.conversation.id, min(2 * last, 2 * MAX_HISTORY))
        return [item for item in turns if is_context(item)][-last:]

    async def _sessions(self, wish: Wish, turn: Turn) -> ProposalAnswer:
        value = wish.value
        if value.get("end") or value.get("erase"):
            return await self._end(turn, erase=bool(value.get("erase")))
        marks = _marks(value)
        if marks:
            held = {**turn.conversation.agreed.get("session", {}), **marks}
            words = ", ".join(name for name, on in marks.items() if on)
            return ProposalAnswer.of(
                f"This session is noted as: {words}.", "sessions", {"session": held}, {"session": held}
            )
        rows = [await self._row(turn)]
        if not turn.caller.is_anonymous:  # anonymous callers share one id, so they see only what their token opens
            rows = await self.services.store.conversations(turn.caller.id) or rows
        entries = [_session(row, turn.conversation.id) for row in rows]
        number = f"{len(entries)} open session{'s' * (len(entries) != 1)}"
        text = f"You have {number}. A message without my token starts a new one."
        return ProposalAnswer.of(text, "sessions", {"sessions": entries})

    async def _end(self, turn: Turn, *, erase: bool) -> ProposalAnswer:
        row = await self._row(turn)
        if erase:
            await self.services.erase(row.id, turn.caller)  # its tasks and uploads
            await self.services.store.forget(row.id)
            row = msgspec.structs.replace(row, turns=0, bytes=0)
        await self.services.store.agree(msgspec.structs.replace(row, ended=True))
        text = "This session is ended" + (" and its content is erased." if erase else ".")
        return ProposalAnswer.of(
            f"{text} The next message starts a new one.", "sessions", {"ended": True, "erased": erase}
        )

    async def _on_cancel(self, wish: Wish, turn: Turn) -> ProposalAnswer:
        cancelled = await self.services.cancel(turn.conversation.id)
        text = "It is cancelled." if cancelled else "Nothing is under way in this conversation."
        return ProposalAnswer.of(text, "cancel", {"cancelled": cancelled})

    # -- uploads ----------------------------------------------------------------------------------

    async def _upload(self, wish: Wish, turn: Turn) -> ProposalAnswer:
        if self.services.uploads is None:
            return ProposalAnswer.of("Uploads are not taken here.", "upload", {"offered": False})
        path, upload = await self.services.uploads.offer(turn.conversation.id, turn.caller)
        until = datetime.fromtimestamp(upload.expires, UTC).isoformat(timespec="seconds")
        text = (
            f"Put up to {upload.max_bytes} bytes to this address until {until}, by POST (multipart or raw) or PUT; "
            "then refer to it in a message of this conversation."
        )
        details = {
            "bytes": upload.max_bytes,
            "expires": until,
            "methods": ["POST", "PUT", "PATCH", "HEAD"],
            "fields": ["contents", "file"],
            "resume": "HEAD returns Upload-Offset; PATCH with Upload-Offset resumes there",
        }
        return ProposalAnswer(
            text,
            (
                uri_part((self.services.uploads.public_url or self.services.public_url) + path, label="upload"),
                json_part(details, label="upload-terms"),
            ),
        )


def history(turns: Iterable[PastTurn]) -> list[dict[str, Any]]:
    """The messages with time and speaker, oldest first (TR-7.2.2-b)."""
    entries = []
    for turn in turns:
        at = datetime.fromtimestamp(turn.at, UTC).isoformat(timespec="milliseconds")
        entries.append({"at": at, "speaker": turn.speaker or "anonymous", "role": "user", "said": turn.asked.text})
        entries.append({"at": at, "speaker": turn.agent, "role": "agent", "said": turn.answered.text})
    return entries


def default_policies(days: float) -> list[Policy]:
    """The gateway's default behaviour, if the operator states nothing else."""
    return [
        Policy(
            "privacy",
            f"Messages are stored for {days:g} {'day' if days == 1 else 'days'} after the last message, seen only "
            "by its conversation, and erased when you ask for it.",
            {"retention_days": days, "erasable": True, "shared_with": []},
        ),
        Policy("regulatory", "The operator has stated no jurisdiction.", {"jurisdiction": None}),
        Policy("attributes", "No attribute of yours (location, identity, language) is required.", {"required": []}),
    ]


ETHICS: Final = (
    "People decide; this agent assists. It says that it is software, does no covert profiling, treats callers "
    "alike, can be stopped at any time, and its answers may be wrong."
)


def _marks(value: Mapping[str, Any]) -> dict[str, bool | str]:
    """The caller's notes about its session: flags, and short names."""
    flags = {name: value[name] for name in ("headless", "background") if isinstance(value.get(name), bool)}
    names = {name: value[name][:100] for name in ("name", "related") if isinstance(value.get(name), str)}
    return {**flags, **names}


def _session(row: ConversationRow, current: str) -> dict[str, Any]:
    return {
        "id": row.id[-8:],  # the first digits are the time, alike for conversations of the same minute
        "current": row.id == current,
        "begun": datetime.fromtimestamp(row.created, UTC).isoformat(timespec="seconds"),
        "last": datetime.fromtimestamp(row.touched, UTC).isoformat(timespec="seconds"),
        "turns": row.turns,
        **{name: row.agreed["session"][name] for name in row.agreed.get("session", {})},
    }


def _anonymous_terms(turn: Turn) -> dict[str, Any]:
    """Who has agreed to anonymity: the named agent, besides those before it, or all."""
    agreed = turn.conversation.agreed
    if not turn.named or (agreed.get("anonymous") and "anonymous_with" not in agreed):
        return {"anonymous": True, "anonymous_with": None}
    return {"anonymous": True, "anonymous_with": sorted({*agreed.get("anonymous_with", ()), turn.named})}


def _with_hint(answer: ProposalAnswer, wish: Wish) -> ProposalAnswer:
    """The answer to text that mentions an act without clearly asking for it, and to an invalid part."""
    hint = f"Nothing was changed: {wish.problem}."
    if not wish.problem:
        hint = f"Nothing was changed. To ask for it, say so plainly, for example: {EXAMPLES[wish.topic]}"
    return ProposalAnswer(f"{answer.text}\n{hint}", answer.parts, answer.agreed)


def _line(text: str) -> str:
    return " ".join(text.split())


def _not_understood() -> Message:
    known = "; ".join(f"{topic}: {words}" for topic, words in TOPICS.items())
    text = f"I did not understand this control message. I can answer on: {known}."
    return Message.text(
        text, parts=[json_part({"topics": dict(TOPICS)}, label="control"), text_part(text, label="error")]
    )
