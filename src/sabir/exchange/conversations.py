"""Conversations: found by a sealed token, locked by one turn at a time, loaded within a window.

Our own tokens are sealed and bound to their caller, so any node finds the conversation, and no other caller can.
Tokens from others must be echoed (CORE-6.2). A conversation token from a known caller, or one too long to guess, is
also a second way to find the conversation (D-16).
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import deque
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

import msgspec

from sabir.aio import Changes
from sabir.errors import RateLimited, TooLarge
from sabir.guard.agreements import is_context
from sabir.guard.quotas.rates import DEFAULT_CONVERSATIONS, Buckets, Quotas, max_conversations, rate_limit_key
from sabir.guard.seal import PREFIX, Seal
from sabir.ids import ordered_id, random_bytes
from sabir.message import Part, token_kind, token_part
from sabir.stores.base import ConversationRow, Store
from sabir.turn import NO_CONVERSATION, Caller, Conversation

KIND = "conversation"
CONTEXT = "context"
_MAX_COUNTED = 100_000  # known callers
_UNGUESSABLE = 22  # characters: 128 bits in base64


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of one message: our own, and those that must be echoed unchanged."""

    echo: tuple[Part, ...] = ()
    own: Part | None = None
    conversation: str | None = None  # the id in our own token
    is_new: bool = False  # True if the door began the conversation with this request, so it is not stored yet

    def __bool__(self) -> bool:
        return bool(self.echo) or self.own is not None

    @property
    def suffixed(self) -> bool:
        """Whether the peer names makers behind ``conversation_`` (D-16)."""
        return bool(self.echo) and any(p.subformat.lower().startswith("conversation_") for p in self.echo)


class OneAtATime:
    """Per-conversation locks: one turn at a time, waiters in order of arrival."""

    __slots__ = ("_taken",)

    def __init__(self) -> None:
        self._taken: dict[str, deque[asyncio.Future[None]] | None] = {}  # waiting turns, if any

    def __contains__(self, conversation_id: str) -> bool:
        return conversation_id in self._taken

    async def wait(self, conversation_id: str) -> None:
        """Acquire the lock, after those that hold it or wait for it."""
        waiting = self._taken[conversation_id]
        if waiting is None:
            waiting = self._taken[conversation_id] = deque()
        turn = asyncio.get_running_loop().create_future()
        waiting.append(turn)
        try:
            await turn
        except BaseException:
            if turn.done() and not turn.cancelled():
                self.free(conversation_id)  # the lock was already handed to us
            raise

    def take(self, conversation_id: str) -> bool:
        """Take the lock if it is free."""
        if conversation_id in self._taken:
            return False
        self._taken[conversation_id] = None
        return True

    def free(self, conversation_id: str) -> None:
        waiting = self._taken[conversation_id]
        while waiting:
            following = waiting.popleft()
            if not following.done():
                following.set_result(None)
                return
        del self._taken[conversation_id]


class Held:
    """A conversation locked by a turn: ``async with conversations.hold(…) as held``.

    A turn that waits for input releases the lock until the answer arrives.
    """

    __slots__ = ("_caller", "_conversations", "_id", "_tokens", "_window", "conversation", "is_new", "mine", "row")
    _id: str
    row: ConversationRow
    conversation: Conversation

    def __init__(self, conversations: Conversations, tokens: Tokens, caller: Caller, window: int | None) -> None:
        self._conversations, self._tokens, self._caller, self._window = conversations, tokens, caller, window
        self.mine = False
        self.is_new = True

    def __aenter__(self) -> Coroutine[Any, Any, Held]:
        return self._conversations._enter(self)

    async def __aexit__(self, *_: object) -> None:
        self.let_go()
        if self.row.peer_token is not None:
            self._conversations._begin_no_more(self.row.peer_token, self._id)

    def let_go(self) -> None:
        if self.mine:
            self.mine = False
            self._conversations.taken.free(self._id)
            self._conversations.changes.notify(self._id)

    async def take(self) -> None:
        if not self.mine:
            taken = self._conversations.taken
            if not taken.take(self._id):
                await taken.wait(self._id)
            self.mine = True


class Conversations:
    """Finds, locks and loads; makes the tokens."""

    def __init__(self, store: Store, seal: Seal, quotas: Quotas, *, identity: str = "sabir") -> None:
        self.store = store
        self.quotas = quotas
        self.identity = identity
        self._seal = seal
        self._brief = Seal(random_bytes(32))  # for tokens that must not outlive this process
        self.taken = OneAtATime()
        self.changes = Changes()  # for those who follow a conversation
        self._begun: dict[str, str] = {}  # ids of conversations that are being created, by the peer's token
        self._open: dict[str, int] = {}  # by known caller; recounted after each sweep, and when it is full
        limit = DEFAULT_CONVERSATIONS if quotas.conversations is None else quotas.conversations
        # The store cannot tell anonymous callers apart, so each address gets a budget that refills as conversations
        # expire.
        self._strangers = Buckets(max(limit, 1) / max(quotas.anonymous_seconds, 1.0), float(limit))

    # -- tokens -----------------------------------------------------------------------------------

    def sort(self, tokens: tuple[Part, ...], caller: Caller) -> Tokens:
        """Separate our own token from the tokens of others."""
        if not tokens:
            return _NONE
        echo: list[Part] = []
        own: Part | None = None
        conversation_id: str | None = None
        for part in tokens:
            opened = self.opened(part, caller)
            if opened is None:
                echo.append(part)
                conversation_id = conversation_id or self._in_context(part, caller)
            elif own is None:
                own, conversation_id = part, opened
        return Tokens(tuple(echo), own, conversation_id)

    def opened(self, part: Part, caller: Caller) -> str | None:
        """The conversation id in a token that we made for this caller, or None."""
        content = part.content
        if type(content) is not str or not content.startswith(PREFIX) or token_kind(part.subformat) != KIND:
            return None
        payload = self._seal.open(KIND, content, caller.id)
        return payload.decode() if payload is not None else None

    def context_token(self, conversation_id: str, caller: Caller, *, keeps: bool) -> Part:
        """A context token of the MassGen design: it finds the conversation by itself (MW-56).

        Without ``keeps``, it is valid for the lifetime of this process.
        """
        seal = self._seal if keeps else self._brief
        return token_part(seal.seal(CONTEXT, conversation_id.encode(), caller.id), CONTEXT)

    def _in_context(self, part: Part, caller: Caller) -> str | None:
        content = part.content
        if type(content) is not str or not content.startswith(PREFIX) or token_kind(part.subformat) != CONTEXT:
            return None
        for seal in (self._brief, self._seal):
            if (payload := seal.open(CONTEXT, content, caller.id)) is not None:
                return payload.decode()
        return None

    def token(self, conversation_id: str, caller: Caller, tokens: Tokens) -> Part:
        """Our token for this conversation: the one we received, or a new one."""
        if tokens.own is not None and tokens.conversation == conversation_id:
            return tokens.own
        subformat = f"{KIND}_{self.identity}" if tokens.suffixed else KIND
        return token_part(self._seal.seal(KIND, conversation_id.encode(), caller.id), subformat)

    def begin(self, caller: Caller) -> Tokens:
        """The token of a new conversation, for doors whose clients must be told its id."""
        conversation_id = ordered_id()
        return Tokens((), self.token(conversation_id, caller, _NONE), conversation_id, is_new=True)

    # -- holding ----------------------------------------------------------------------------------

    async def locate(self, tokens: Tokens, caller: Caller) -> tuple[ConversationRow | None, str | None]:
        """The stored conversation that these tokens refer to, and the digest of the peer's own token."""
        if tokens.is_new:
            return None, None
        if tokens.conversation is not None:
            return await self.store.conversation(tokens.conversation), None
        if not tokens.echo:
            return None, None
        digest = _peer_token(tokens.echo, caller)
        if digest is None:
            return None, None
        return await self.store.conversation_by_token(caller.id, digest), digest

    def hold(self, tokens: Tokens, caller: Caller, window: int | None = None) -> Held:
        """The conversation of these tokens, or a new one, locked against other turns.

        Raises (on entering):
            RateLimited: the caller has too many open conversations.
            TooLarge: the stored context is full.
        """
        return Held(self, tokens, caller, window)

    async def _enter(self, held: Held) -> Held:
        tokens, caller = held._tokens, held._caller
        row, digest = await self.locate(tokens, caller) if tokens else (None, None)
        usable = row is not None and not row.ended and row.owner == caller.id
        if row is not None and usable:
            conversation_id = row.id
        else:
            # A token of ours whose conversation has expired keeps its id; in every other case a new id is made.
            conversation_id = tokens.conversation if row is None and tokens.conversation else ordered_id()
            if digest is not None:  # two concurrent messages may both carry the token of a new conversation
                conversation_id = self._begun.setdefault(digest, conversation_id)
        held._id = conversation_id
        held.mine = at_once = self.taken.take(conversation_id)
        try:
            if not at_once:
                await held.take()
            if (at_once and not usable) or not await self._load(held, conversation_id):
                if (limit := max_conversations(self.quotas, caller)) is not None:
                    await self._check_number(caller, limit)
                now = time.time()
                held.row = ConversationRow(
                    conversation_id, caller.id, now, now, self.expiry(caller, now), peer_token=digest
                )
                held.conversation = Conversation(conversation_id)
        except BaseException:
            held.let_go()
            if digest is not None:
                self._begin_no_more(digest, conversation_id)
            raise
        return held

    def _begin_no_more(self, digest: str, conversation_id: str) -> None:
        if conversation_id not in self.taken and self._begun.get(digest) == conversation_id:
            del self._begun[digest]

    async def _load(self, held: Held, conversation_id: str) -> bool:
        row = await self.store.conversation(
            conversation_id
        )  # load again under the lock: a turn may have ended in between
        if row is None:
            return False
        if row.bytes > self.quotas.context_bytes:
            raise TooLarge(
                "nlip",
                "conversation",
                f"at most {self.quotas.context_bytes} bytes of context; start a new one",
            )
        agreed = row.agreed.get("context", {}).get("window") if row.agreed else None
        last = min(w for w in (held._window, agreed, self.quotas.context_turns) if w is not None)
        turns = await self.store.turns(conversation_id, last)
        if not all(is_context(turn) for turn in turns):
            more = await self.store.turns(conversation_id, 3 * last + 10)
            turns = tuple(turn for turn in more if is_context(turn))[-last:]
        held.row, held.conversation, held.is_new = (
            row,
            Conversation(conversation_id, turns, row.agreed, row.turns),
            False,
        )
        return True

    async def _check_number(self, caller: Caller, limit: int) -> None:
        over = RateLimited(f"at most {limit} open conversations", retry_after=60.0)
        if caller.is_anonymous:
            if limit < 1 or self._strangers.take(rate_limit_key(caller.address)):
                raise over
            return
        count = self._open.get(caller.id)
        if count is None:
            count = await self.store.count_conversations(caller.id)
        if count >= limit:
            raise over
        if len(self._open) >= _MAX_COUNTED:
            self._open.clear()
        self._open[caller.id] = count + 1

    def touched(self, row: ConversationRow, caller: Caller, now: float) -> ConversationRow:
        """The conversation's row with its last-used time set to now."""
        if now < row.touched + 1.0:  # precise enough
            return row
        return msgspec.structs.replace(row, touched=now, expires=self.expiry(caller, now))

    def expiry(self, caller: Caller, now: float) -> float:
        quotas = self.quotas
        return now + (quotas.anonymous_seconds if caller.is_anonymous else quotas.conversation_seconds)

    def forget_counts(self) -> None:
        """Recount open conversations: some expired, some were ended, and some turns never started one."""
        self._open.clear()

    async def find(self, tokens: Tokens, caller: Caller) -> str | None:
        """The id of the conversation that these tokens refer to, or None."""
        return tokens.conversation or (await self.agreed_in(tokens, caller)).id or None

    async def agreed_in(self, tokens: Tokens, caller: Caller) -> Conversation:
        """The conversation as a stateless agent sees it: no turns, only its agreements."""
        row, _ = await self.locate(tokens, caller)
        if row is None or row.ended or row.owner != caller.id:
            return NO_CONVERSATION
        return Conversation(row.id, (), row.agreed)

    # -- agreements -------------------------------------------------------------------------------

    async def agree(self, held: ConversationRow, agreed: dict[str, Any]) -> ConversationRow:
        """Store what was negotiated for a conversation."""
        row = msgspec.structs.replace(held, agreed=agreed)
        await self.store.agree(row)
        return row


_NONE = Tokens()


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
