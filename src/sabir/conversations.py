"""Conversations: found by a sealed token, held by one turn at a time, loaded within a window.

Own tokens are sealed and bound to their caller, so any node finds the conversation and nobody else can.
Tokens of others are an echo duty (CORE-6.2) and, where they are a conversation token too long to guess
or of a known caller, a second way to find the conversation (D-16).
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from dataclasses import dataclass
from typing import Any

import msgspec

from .errors import TooBig, TooMany
from .guard.limits import DEFAULT_CONVERSATIONS, Buckets, Quotas, most_conversations, place_of
from .guard.seal import PREFIX, Seal
from .message import Message, Part, token_kind, token_part
from .randomness import ordered_id
from .stores.base import ConversationRow, Store
from .turn import Caller, Conversation

KIND = "conversation"
_UNGUESSABLE = 22  # characters: 128 bits in base64


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of one message: the one we made, and those that must go back as they came."""

    echo: tuple[Part, ...] = ()
    own: Part | None = None
    conversation: str | None = None  # the id that the own token holds

    @property
    def suffixed(self) -> bool:
        """Whether the peer names makers behind ``conversation_`` (D-16)."""
        return any(p.subformat.lower().startswith("conversation_") for p in self.echo)


class Held:
    """A conversation while a turn has it. A turn that waits for input lets go of it meanwhile."""

    __slots__ = ("_lock", "conversation", "is_new", "mine", "row")

    def __init__(self, lock: asyncio.Lock, row: ConversationRow, conversation: Conversation, is_new: bool) -> None:
        self._lock = lock
        self.mine = True
        self.row = row
        self.conversation = conversation
        self.is_new = is_new

    def let_go(self) -> None:
        if self.mine:
            self.mine = False
            self._lock.release()

    async def take(self) -> None:
        if not self.mine:
            await self._lock.acquire()
            self.mine = True


class Conversations:
    """Finds, locks and loads; makes the tokens."""

    def __init__(self, store: Store, seal: Seal, quotas: Quotas, *, identity: str = "sabir") -> None:
        self.store = store
        self.quotas = quotas
        self.identity = identity
        self._seal = seal
        self._locks: dict[str, tuple[asyncio.Lock, int]] = {}
        self._begun: dict[str, str] = {}  # the ids of conversations that begin now, by the peer's token
        self._open: dict[str, int] = {}  # by known caller; counted anew after each sweep
        most = DEFAULT_CONVERSATIONS if quotas.conversations is None else quotas.conversations
        # The store does not know strangers apart. A place takes as many as it may, and gets them back as they expire.
        self._strangers = Buckets(max(most, 1) / max(quotas.anonymous_seconds, 1.0), float(most))

    # -- tokens -----------------------------------------------------------------------------------

    def sort(self, message: Message, caller: Caller) -> Tokens:
        """Tell our own token from those of others."""
        tokens = message.tokens
        if not tokens:
            return _NONE
        echo: list[Part] = []
        own: Part | None = None
        id: str | None = None
        for part in tokens:
            opened = self.opened(part, caller)
            if opened is None:
                echo.append(part)
            elif own is None:
                own, id = part, opened
        return Tokens(tuple(echo), own, id)

    def opened(self, part: Part, caller: Caller) -> str | None:
        """The conversation id in a token we made for this caller, or None."""
        content = part.content
        if type(content) is not str or not content.startswith(PREFIX) or token_kind(part.subformat) != KIND:
            return None
        payload = self._seal.open(KIND, content, caller.id)
        return payload.decode() if payload is not None else None

    def token(self, id: str, caller: Caller, tokens: Tokens) -> Part:
        """Our token for this conversation: the one we got, or a new one."""
        if tokens.own is not None and tokens.conversation == id:
            return tokens.own
        subformat = f"{KIND}_{self.identity}" if tokens.suffixed else KIND
        return token_part(self._seal.seal(KIND, id.encode(), caller.id), subformat)

    # -- holding ----------------------------------------------------------------------------------

    async def locate(self, tokens: Tokens, caller: Caller) -> tuple[ConversationRow | None, str | None]:
        """The stored conversation these tokens mean, and the digest of the peer's own token."""
        if tokens.conversation is not None:
            return await self.store.conversation(tokens.conversation), None
        if not tokens.echo:
            return None, None
        digest = _peer_token(tokens.echo, caller)
        if digest is None:
            return None, None
        return await self.store.conversation_by_token(caller.id, digest), digest

    def hold(self, tokens: Tokens, caller: Caller, window: int | None = None) -> Holding:
        """The conversation of these tokens, new if there is none, held against other turns.

        Raises (on entering):
            TooMany: the caller has too many open conversations.
            TooBig: the stored context is full.
        """
        return Holding(self, tokens, caller, window)

    async def _enter(self, tokens: Tokens, caller: Caller, window: int | None) -> Held:
        row, digest = await self.locate(tokens, caller)
        usable = row is not None and not row.ended and row.owner == caller.id
        if row is not None and usable:
            id = row.id
        else:
            # A token of ours whose conversation has expired keeps its id; any other case begins anew.
            id = tokens.conversation if row is None and tokens.conversation else ordered_id()
            if digest is not None:  # two messages at once, both with the token of a conversation to be
                id = self._begun.setdefault(digest, id)
        lock, users = self._locks.get(id) or (asyncio.Lock(), 0)
        self._locks[id] = (lock, users + 1)
        acquired = False
        try:
            await lock.acquire()
            acquired = True
            held = await self._load(lock, id, caller, window, digest) if usable or users else None
            return held or Held(lock, await self._fresh(id, caller, digest), Conversation(id), True)
        except BaseException:
            if acquired:
                lock.release()
            self._leave(id, digest)
            raise

    def _exit(self, held: Held) -> None:
        held.let_go()
        self._leave(held.row.id, held.row.peer_token)

    def _leave(self, id: str, digest: str | None) -> None:
        lock, users = self._locks[id]
        if users == 1:
            del self._locks[id]
            if digest is not None and self._begun.get(digest) == id:
                del self._begun[digest]
        else:
            self._locks[id] = (lock, users - 1)

    async def _load(
        self, lock: asyncio.Lock, id: str, caller: Caller, window: int | None, digest: str | None
    ) -> Held | None:
        row = await self.store.conversation(id)  # again, now that it is ours: a turn may have ended meanwhile
        if row is None:
            return None
        if row.bytes > self.quotas.context_bytes:
            raise TooBig(
                "nlip",
                "conversation",
                f"at most {self.quotas.context_bytes} bytes of context; begin a new one",
            )
        agreed = row.agreed.get("context", {}).get("window") if row.agreed else None
        last = min(w for w in (window, agreed, self.quotas.context_turns) if w is not None)
        turns = await self.store.turns(id, last)
        if any(turn.asked.is_control for turn in turns):  # talk about the talk is no context (PAPER-CDS)
            more = await self.store.turns(id, 3 * last + 10)
            turns = tuple(turn for turn in more if not turn.asked.is_control)[-last:]
        return Held(lock, row, Conversation(id, turns, row.agreed, row.turns), False)

    async def _fresh(self, id: str, caller: Caller, digest: str | None) -> ConversationRow:
        most = most_conversations(self.quotas, caller)
        if most is not None:
            over = TooMany(f"at most {most} open conversations", retry_after=60.0)
            if caller.is_anonymous:
                if most < 1 or self._strangers.take(place_of(caller.address)):
                    raise over
            else:
                count = self._open.get(caller.id)
                if count is None:
                    count = await self.store.count_conversations(caller.id)
                if count >= most:
                    raise over
                self._open[caller.id] = count + 1
        now = time.time()
        return ConversationRow(id, caller.id, now, now, self.expiry(caller, now), peer_token=digest)

    def expiry(self, caller: Caller, now: float) -> float:
        quotas = self.quotas
        return now + (quotas.anonymous_seconds if caller.is_anonymous else quotas.conversation_seconds)

    def forget_counts(self) -> None:
        """Count open conversations anew: some have expired or were ended, and some turns began none after all."""
        self._open.clear()

    async def agreed_in(self, tokens: Tokens, caller: Caller) -> Conversation:
        """The conversation as an agent that remembers nothing sees it: no turns, but what was agreed in it."""
        row, _ = await self.locate(tokens, caller)
        if row is None or row.ended or row.owner != caller.id:
            return _NOWHERE
        return Conversation(row.id, (), row.agreed)

    # -- agreements -------------------------------------------------------------------------------

    async def agree(self, held: ConversationRow, agreed: dict[str, Any]) -> ConversationRow:
        """Store what was negotiated for a conversation."""
        row = msgspec.structs.replace(held, agreed=agreed)
        await self.store.agree(row)
        return row


class Holding:
    """Stands around a turn: ``async with conversations.hold(…) as held``."""

    __slots__ = ("_caller", "_conversations", "_held", "_tokens", "_window")

    def __init__(self, conversations: Conversations, tokens: Tokens, caller: Caller, window: int | None) -> None:
        self._conversations, self._tokens, self._caller, self._window = conversations, tokens, caller, window
        self._held: Held | None = None

    async def __aenter__(self) -> Held:
        self._held = await self._conversations._enter(self._tokens, self._caller, self._window)
        return self._held

    async def __aexit__(self, *_: object) -> None:
        if self._held is not None:
            self._conversations._exit(self._held)


_NONE = Tokens()
_NOWHERE = Conversation("")


def _peer_token(echo: tuple[Part, ...], caller: Caller) -> str | None:
    for part in echo:
        content = part.content
        if token_kind(part.subformat) != KIND or not isinstance(content, str | bytes):
            continue
        if caller.is_anonymous and len(content) < _UNGUESSABLE:
            continue
        raw = content.encode() if isinstance(content, str) else content
        return hashlib.sha256(caller.id.encode() + b"\x00" + raw).hexdigest()
    return None
