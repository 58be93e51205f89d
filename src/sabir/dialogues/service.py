"""Dialogues: every message between agents goes through here, in one commit each.

``post`` finds the conversation of a message, checks the act against the table, and writes its id, the new state with
its timer, the letter to its receiver and the audit entry together. A message whose id was written before is a duplicate
and changes nothing. Each timer fires once, on any live node.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Set
from contextlib import contextmanager, suppress
from typing import Any, Final

import msgspec

from sabir.aio import cancel_and_wait
from sabir.bus.base import Letter
from sabir.bus.framing import BusLimits
from sabir.bus.store import PRIORITY, LetterTaker, StoreBus, head_of, letter_of, priority_of
from sabir.errors import BadMessage, Conflict, RateLimited, StoreUnavailable, TooLarge, Unavailable
from sabir.ids import ordered_uuid
from sabir.protocols.acl.wire.acts import ACTS, PROTOCOL
from sabir.protocols.acl.wire.envelope import Envelope, decode, encode, plain, stamp, time_of
from sabir.protocols.acl.wire.ontologies import result_ontology
from sabir.protocols.acl.wire.payloads import status_of
from sabir.stores.base import AuditLine
from sabir.stores.letters import DialogueRow, Letters, MessageEntry, Outcome, UtteranceRow
from sabir.stores.letters import letter_id as _letter_id

from .settings import DialogueSettings
from .states import ENDED, OPENERS, Dialogue, Timer, act_of, is_remark, opened

logger = logging.getLogger("sabir.acl")

GATEWAY: Final = "gateway"  # sender of messages that no agent sent: timeouts
CALLER: Final = "caller"  # the header of a letter that names its sender, for agents of this gateway
_TRIES: Final = 20
_LOOK: Final = 0.25  # seconds between two polls for timers
_COUNT_SECONDS: Final = 1.0  # how often an inbox is recounted


class Posted(msgspec.Struct, frozen=True, gc=False):
    """The outcome of a message: as written, and whether it was a duplicate."""

    envelope: Envelope
    dialogue: Dialogue
    duplicate: bool = False


class _Depth(msgspec.Struct):
    """How many letters of each sender wait in an inbox, as far as is known here."""

    senders: dict[str, int]
    at: float
    total: int = 0

    def __post_init__(self) -> None:
        self.total = sum(self.senders.values())

    def add(self, sender: str, settings: DialogueSettings) -> bool:
        """Count one more; False if there may be no room for it."""
        count = self.senders.get(sender, 0)
        if self.total >= settings.inbox_messages or count >= settings.sender_messages:
            return False
        self.senders[sender] = count + 1
        self.total += 1
        return True


class Dialogues:
    """Conversations between agents, and the inboxes they write to."""

    def __init__(
        self,
        store: Letters,
        bus: StoreBus,
        settings: DialogueSettings | None = None,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.store = store
        self.bus = bus
        self.settings = settings or DialogueSettings()
        self._clock = clock
        self._known_seconds = max(self.settings.keep_seconds, self.settings.remember_seconds)  # what was said
        self._limits = msgspec.structs.replace(
            bus.limits, keep_seconds=self.settings.keep_seconds, letter_bytes=self.settings.message_bytes
        )
        self._depths: dict[str, _Depth] = {}
        self._readers: dict[str, set[asyncio.Event]] = {}  # who reads an inbox or waits for a reply, by agent
        self._timers: asyncio.Task[None] | None = None
        bus.on_letters(self._noticed)

    async def start(self) -> None:
        """Start firing timers."""
        self._timers = asyncio.create_task(self._watch(), name="dialogues: timers")

    async def stop(self) -> None:
        await cancel_and_wait([self._timers])
        self._timers = None

    # -- sending ----------------------------------------------------------------------------------

    async def post(
        self, envelope: Envelope, receiver: str, *, audit: AuditLine | None = None, caller: bytes | None = None
    ) -> Posted:
        """Send a message to one receiver. It is stored when this returns.

        Raises:
            Conflict: the act is out of sequence; nothing has changed.
            BadMessage: ``in_reply_to`` names no message of the conversation, or ``protocol`` is another one.
            RateLimited: the inbox is full, or the sender's share of it is.
            TooLarge: the message is over the limit.
        """
        # A message that opens its own conversation needs no lookup; if there is one, it is a duplicate.
        opens = envelope.performative in OPENERS and envelope.conversation_id is None and envelope.in_reply_to is None
        for attempt in range(_TRIES):
            row = None if opens and not attempt else await self._row_for(envelope, receiver)
            try:
                before, after = self._step(envelope, receiver, row)
            except (Conflict, BadMessage):
                again = await self._said_before(envelope, receiver)
                if again is None:
                    raise
                return again
            said = self._completed(envelope, after)
            sender, now = said.sender_id, self._clock()
            depth = self._depths.get(receiver)
            if depth is None or now - depth.at > _COUNT_SECONDS or not depth.add(sender, self.settings):
                await self._count_room(receiver, sender)
            letter = self._letter(said, sender, receiver, after.conversation, caller, now)
            entry = self._entry(said, letter, row, before, after, audit)
            taker = self.bus.taker(receiver)
            try:
                outcome, number = await self._written(entry, taker)
            except asyncio.CancelledError:  # it may have been written anyway
                self._give_up(letter, taker)
                raise
            if outcome == "done":
                if not number or taker is None or not taker.hand(letter, number):
                    await self._leave(letter, taker, number)
                self._announce(said, receiver)
            if outcome != "changed":
                return Posted(said, after, outcome == "duplicate")
        raise Unavailable("the conversation is busy; retry shortly")

    def _written(self, entry: MessageEntry, taker: LetterTaker | None) -> Awaitable[tuple[Outcome, int]]:
        """Write what a message changes. A receiver in this process gets the letter at once."""
        return self.store.converse_and_hand(entry, "" if taker is None else taker.holder, self.bus.limits.ack_seconds)

    def _give_up(self, letter: Letter, taker: LetterTaker | None) -> None:
        if taker is not None:
            self.bus.release_soon(taker.holder, letter.to, letter.id)

    async def _leave(self, letter: Letter, taker: LetterTaker | None, number: int) -> None:
        """Leave a letter in its box: nobody here took it, or its taker was stopped since then."""
        if taker is not None and number:
            await self.bus.release(taker.holder, (number,), taker.box)
        else:
            self.bus.wake([(letter.to, "")])

    async def _row_for(self, envelope: Envelope, receiver: str) -> DialogueRow | None:
        """The stored conversation that a message belongs to; None if it opens one.

        Raises:
            BadMessage: it replies to a message that is not in its conversation (ACL-15).
        """
        sender, conversation = envelope.sender_id, envelope.conversation_id
        opens = envelope.performative in OPENERS
        if envelope.in_reply_to is not None and not (opens and envelope.performative != "PROPOSE"):
            known = await self._referred(envelope.in_reply_to, sender, receiver)
            if known is not None and conversation in (None, known.conversation):
                return await self.store.dialogue(known.conversation, known.initiator, known.participant)
            if ACTS[envelope.performative].answers:
                raise BadMessage(PROTOCOL, "$.in_reply_to", "the id of a message of this conversation")
        if conversation is None:
            conversation = envelope.message_id
        return await self.store.dialogue(conversation, sender, receiver)

    async def _referred(self, reference: str, one: str, other: str) -> UtteranceRow | None:
        """The message that this one replies to: the other side's, or one's own that is cancelled or renewed."""
        return await self.store.utterance(reference, other, one) or await self.store.utterance(reference, one, other)

    def _step(self, envelope: Envelope, receiver: str, row: DialogueRow | None) -> tuple[Dialogue | None, Dialogue]:
        """The conversation before and after a message; before is None if it opens one.

        Raises:
            Conflict: the act is out of sequence.
        """
        if row is None:
            return None, opened(envelope, receiver)
        before = dialogue_of(row)
        if before.is_over and envelope.performative in OPENERS and envelope.sender_id == before.initiator:
            # A conversation continues with another request once the last one has ended. A late proposal of its
            # participant opens nothing: it is out of sequence.
            follows = opened(envelope, receiver)
            return None, msgspec.structs.replace(follows, conversation=before.conversation)
        if is_remark(envelope, before):
            return before, before
        role = before.role_of(envelope.sender_id)
        return before, before.after(act_of(envelope, before), role, envelope.message_id)

    async def _said_before(self, envelope: Envelope, receiver: str) -> Posted | None:
        """A repeated message that is out of sequence the second time is a duplicate (ACL-25)."""
        known = await self.store.utterance(envelope.message_id, envelope.sender_id, receiver)
        if known is None or known.id != envelope.message_id:
            return None
        row = await self.store.dialogue(known.conversation, known.initiator, known.participant)
        return None if row is None else Posted(decode(known.body), dialogue_of(row), duplicate=True)

    def _completed(self, envelope: Envelope, dialogue: Dialogue) -> Envelope:
        """The message as it is written: with its conversation and time, and the default ontology of its act."""
        changes: dict[str, Any] = {}
        if envelope.conversation_id is None:
            changes["conversation_id"] = dialogue.conversation
        if not envelope.timestamp:
            changes["timestamp"] = stamp(self._clock())
        if not envelope.ontology and ACTS[envelope.performative].ontology:
            changes["ontology"] = ACTS[envelope.performative].ontology
        # A signature covers what was sent, so a signed message is passed on unchanged.
        if not changes or envelope.signature is not None:
            return envelope
        return msgspec.structs.replace(envelope, **changes)

    async def _count_room(self, box: str, sender: str) -> None:
        """Count what waits in an inbox, and one more.

        Raises:
            RateLimited: the inbox is full, or this sender's share of it is. Nothing is dropped (ACL-33).
        """
        settings = self.settings
        if len(self._depths) > 10_000:
            self._depths.clear()
        depth = self._depths[box] = _Depth(await self.store.count_letters(box), self._clock())
        if depth.add(sender, settings):
            return
        if depth.total >= settings.inbox_messages:
            raise RateLimited(f"the inbox of {box} is full ({settings.inbox_messages} messages)", retry_after=5.0)
        reason = f"{settings.sender_messages} messages of {sender} wait for {box}, which is its share"
        raise RateLimited(reason, retry_after=5.0)

    def _entry(
        self,
        envelope: Envelope,
        letter: Letter,
        row: DialogueRow | None,
        before: Dialogue | None,
        after: Dialogue,
        audit: AuditLine | None,
    ) -> MessageEntry:
        now = letter.at
        expect, created, timer, due, detail = -1, now, after.timer, 0.0, b""
        if before is not after:
            expect = 0 if row is None else row.version
            known = {} if row is None or before is None else _detail(row)
            known.update(self._details(envelope))
            due = self._due(envelope, timer, known, row, now) if timer else 0.0
            if row is not None and before is not None:
                created = row.created
            if known:
                detail = msgspec.json.encode(known)
        return MessageEntry(
            envelope.message_id,
            letter.sender,
            letter.to,
            after.conversation,
            after.initiator,
            after.participant,
            envelope.performative,
            now,
            now + self._known_seconds,
            letter.body,
            envelope.reply_with or "",
            self._head(letter),
            now + self._limits.keep_seconds,
            priority_of(letter),
            True,
            expect,
            after.protocol,
            after.state,
            after.opener,
            created,
            (due or now) + self.settings.remember_seconds,
            after.cancel or "",
            timer,
            due,
            detail,
            audit,
        )

    def _letter(
        self, envelope: Envelope, sender: str, receiver: str, conversation: str, caller: bytes | None, now: float
    ) -> Letter:
        headers: dict[str, str] = {}
        if (priority := envelope.payload.get("priority")) in ("low", "high"):
            headers[PRIORITY] = priority
        if caller is not None:
            headers[CALLER] = caller.decode()
        name = _letter_id(sender, envelope.message_id)
        return Letter(receiver, encode(envelope), name, sender, conversation, headers, now)

    def _head(self, letter: Letter) -> bytes:
        try:
            return head_of(letter, self._limits)
        except TooLarge:
            raise TooLarge(PROTOCOL, "$", f"a message of at most {self._limits.letter_bytes} bytes") from None

    def _details(self, envelope: Envelope) -> dict[str, Any]:
        """What a message adds to the data of its conversation."""
        detail: dict[str, Any] = {}
        payload = envelope.payload
        if isinstance(payload.get("result_by"), str):
            detail["result_by"] = time_of(payload["result_by"])
        if envelope.performative in ("SUBSCRIBE", "RENEW"):
            wanted = payload.get("lease_seconds")
            seconds = float(wanted) if isinstance(wanted, int | float) else self.settings.lease_seconds
            detail["lease"] = min(seconds, self.settings.longest_lease)
        if envelope.performative == "SUBSCRIBE":
            detail["topic"] = payload.get("topic", "")
        return detail

    def _due(
        self, envelope: Envelope, timer: Timer, detail: dict[str, Any], row: DialogueRow | None, now: float
    ) -> float:
        """When the timer of the new state fires."""
        if timer == "lease":
            renewed = envelope.performative in ("TASK_ACCEPT", "RENEW") or row is None
            return now + float(detail.get("lease", self.settings.lease_seconds)) if renewed else row.due  # type: ignore[union-attr]
        if timer == "result":
            if row is not None and row.timer == "result":
                return row.due
            return self._within(detail.get("result_by"), now, self.settings.result_seconds)
        wanted = time_of(envelope.reply_by) if envelope.reply_by else None
        return self._within(wanted, now, self.settings.reply_seconds)

    def _within(self, wanted: float | None, now: float, seconds: float) -> float:
        """The deadline to store: never in the past, and never later than the time at which its message is forgotten."""
        if wanted is None:
            return now + seconds
        return min(max(wanted, now), now + self._known_seconds)

    # -- who waits for a reply ----------------------------------------------------------------------

    async def reply(
        self, conversation: str, after: str, receiver: str, seconds: float, *, last: bool = False
    ) -> Envelope | None:
        """The first reply to a message (or, with ``last``, the one that ends or asks for input); None if it does not
        arrive in time."""
        until = time.monotonic() + seconds
        with self.watch((receiver,)) as changed:
            while True:
                changed.clear()
                found = await self._reply(conversation, after, receiver, last)
                left = until - time.monotonic()
                if found is not None or left <= 0:
                    return found
                look = max(_LOOK, self.bus.look_seconds)  # another node may have put the reply
                with suppress(TimeoutError):
                    async with asyncio.timeout(min(left, look)):
                        await changed.wait()

    async def _reply(self, conversation: str, after: str, receiver: str, last: bool) -> Envelope | None:
        asked = False
        for said in await self.store.utterances(conversation):
            if said.id == after and said.sender == receiver:
                asked = True
            elif asked and said.receiver == receiver:
                envelope = decode(said.body)
                if not last or envelope.performative not in ("TASK_ACCEPT", "INFORM_PROGRESS", "NOTIFY"):
                    return envelope
        return None

    @contextmanager
    def watch(self, agents: Iterable[str]) -> Iterator[asyncio.Event]:
        """An event that is set when this process puts a message into one of these inboxes."""
        woken = asyncio.Event()
        names = tuple(agents)
        for name in names:
            self._readers.setdefault(name, set()).add(woken)
        try:
            yield woken
        finally:
            for name in names:
                self._readers[name].discard(woken)
                if not self._readers[name]:
                    del self._readers[name]

    def wake_readers(self, agents: Iterable[str]) -> None:
        """Wake the readers of these agents."""
        for agent in agents:
            for woken in self._readers.get(agent, ()):
                woken.set()

    def _announce(self, envelope: Envelope, receiver: str) -> None:
        if self.settings.log_messages != "off":
            self.log("SENT", envelope)
        if receiver in self._readers:
            self.wake_readers((receiver,))

    def _noticed(self, box: str) -> None:
        """Note that another node put letters into a box, or, without a name, into any."""
        self.wake_readers((box,) if box else tuple(self._readers))

    def log(self, what: str, envelope: Envelope) -> None:
        """Log one line per message, if configured (A-11)."""
        wanted = self.settings.log_messages
        if wanted == "off":
            return
        shown = plain(envelope)
        if wanted == "envelopes":
            shown["payload"] = {"redacted": True}
        logger.info("MCP_MESSAGE_%s: %s", what, msgspec.json.encode(shown).decode())

    # -- timers -----------------------------------------------------------------------------------

    async def _watch(self) -> None:
        while True:
            with suppress(StoreUnavailable):  # then later
                await self.fire()
            await asyncio.sleep(_LOOK)

    async def fire(self) -> int:
        """Fire due timers; returns how many were fired here."""
        fired = 0
        for row in await self.store.due_dialogues(self._clock()):
            fired += await self._fire(row)
        return fired

    async def _fire(self, row: DialogueRow) -> bool:
        now, before = self._clock(), dialogue_of(row)
        after = before.timed_out()
        receiver, act, payload = _on_timeout(before, row.timer)
        envelope = Envelope(
            message_id=ordered_uuid(),
            performative=act,
            sender={"agent_id": GATEWAY},
            receiver={"agent_id": receiver},
            in_reply_to=before.opener,
            conversation_id=before.conversation,
            ontology=ACTS[act].ontology,
            timestamp=stamp(now),
            payload=payload,
            extra={"about": before.participant},  # a call for proposals times out for each participant
        )
        letter = self._letter(envelope, GATEWAY, receiver, before.conversation, None, now)
        outcome = await self.store.converse(self._entry(envelope, letter, row, before, after, None))
        if outcome == "done":  # otherwise somebody spoke, or another node was first
            await self._leave(letter, None, 0)
            self._announce(envelope, receiver)
        return outcome == "done"

    # -- for people ---------------------------------------------------------------------------------

    async def view(self, conversation: str, names: Set[str] | None = None) -> dict[str, Any]:
        """The messages of a conversation, its state with each participant, and its deadlines (ACL-29).

        With ``names``, only what these agents take part in: strangers may use the same conversation id.
        """

        def is_shown(item: DialogueRow | UtteranceRow) -> bool:
            return names is None or item.initiator in names or item.participant in names

        rows = [row for row in await self.store.dialogues(conversation=conversation) if is_shown(row)]
        said = [item for item in await self.store.utterances(conversation) if is_shown(item)]
        return {
            "conversation_id": conversation,
            "dialogues": [
                {
                    "initiator": row.initiator,
                    "participant": row.participant,
                    "protocol": row.protocol,
                    "state": row.state,
                    **({"waits_for": row.timer, "until": stamp(row.due)} if row.due else {}),
                }
                for row in sorted(rows, key=lambda row: row.created)
            ],
            "messages": [{"at": stamp(item.at), **plain(decode(item.body))} for item in said],
        }


def letter_id(envelope: Envelope) -> str:
    """The id of a message's letter: two senders may use the same message ids."""
    return _letter_id(envelope.sender_id, envelope.message_id)


def dialogue_of(row: DialogueRow) -> Dialogue:
    return Dialogue(
        row.conversation, row.initiator, row.participant, row.protocol, row.state, row.opener, row.cancel or None
    )


def _detail(row: DialogueRow) -> dict[str, Any]:
    detail: dict[str, Any] = msgspec.json.decode(row.detail) if row.detail else {}
    return detail


def topic_of(row: DialogueRow) -> str:
    """The topic of a subscription."""
    return str(_detail(row).get("topic", ""))


def _on_timeout(dialogue: Dialogue, timer: str) -> tuple[str, str, dict[str, Any]]:
    """Who is notified of a timer, by which act, with which text."""
    if dialogue.state == "proposed":
        reason = "the proposal was not accepted in time"
        return dialogue.participant, "REJECT_PROPOSAL", {"reason_code": "timeout", "reason_text": reason}
    words = {
        "reply_by": f"{dialogue.participant} did not reply in time",
        "result": f"{dialogue.participant} did not finish in time",
        "lease": "the lease of the subscription has ended",
    }
    payload = {"status": "failure", "error_code": "timeout", "error_text": words[timer]}
    return dialogue.initiator, "FAILURE", payload


def answer_to(
    envelope: Envelope, performative: str, payload: dict[str, Any], *, sender: str, message_id: str = ""
) -> Envelope:
    """A reply to a message: its conversation, its id (A-3), and the matching ontology (ACL-21)."""
    asked = envelope.ontologies[0] if envelope.ontologies else ""
    ontology = ACTS[performative].ontology
    if performative == "INFORM_RESULT":
        ontology = result_ontology(asked, success=status_of(payload.get("task_status")) == "success")
    return Envelope(
        message_id=message_id or ordered_uuid(),
        performative=performative,
        sender={"agent_id": sender},
        receiver={"agent_id": envelope.sender_id},
        in_reply_to=envelope.message_id,
        reply_with=envelope.reply_with,
        conversation_id=envelope.conversation_id,
        ontology=ontology or asked,
        payload=payload,
    )


def limits_for(settings: DialogueSettings) -> BusLimits:
    """The limits of the bus that holds the inboxes."""
    return BusLimits(letter_bytes=settings.message_bytes, keep_seconds=settings.keep_seconds, ack_seconds=10.0)


__all__ = [
    "CALLER",
    "ENDED",
    "GATEWAY",
    "Dialogues",
    "Posted",
    "answer_to",
    "dialogue_of",
    "letter_id",
    "letter_of",
    "limits_for",
    "topic_of",
]
