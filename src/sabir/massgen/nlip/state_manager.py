"""``NLIPStateManager``: the sessions of the design, and the contexts of context tokens (MW-28).

Without a store they are in memory. With one (``store=gateway.store``) they are records that expire, that every node
sees and that outlive the process. Sessions are ordered by their last activity, so that a cleanup only looks at expired
ones.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from sabir.packing import pack, unpacker
from sabir.stores.base import Record, Store

from .schema import NLIPMessage

SESSIONS: Final = "massgen.sessions"  # spaces of records in the store
CONTEXTS: Final = "massgen.contexts"
MESSAGES: Final = 100  # kept per session; the oldest are dropped first


class _Session(msgspec.Struct, omit_defaults=True):
    """A session, as small as possible while it is empty."""

    created_at: datetime
    last_activity: datetime
    messages: list[NLIPMessage] | None = None
    metadata: dict[str, Any] | None = None
    state: dict[str, Any] | None = None

    def context(self) -> dict[str, Any]:
        """The session in the design's form; changes to its lists and objects change the session."""
        self.messages = [] if self.messages is None else self.messages
        self.metadata = {} if self.metadata is None else self.metadata
        self.state = {} if self.state is None else self.state
        return {
            "created_at": self.created_at,
            "last_activity": self.last_activity,
            "messages": self.messages,
            "metadata": self.metadata,
            "state": self.state,
        }


_session = unpacker(_Session).decode
_context = unpacker(dict[str, Any]).decode


class NLIPStateManager:
    """Keeps sessions, and contexts by their tokens."""

    def __init__(
        self, cleanup_interval: int = 3600, *, store: Store | None = None, timeout_hours: float = 24.0
    ) -> None:
        """
        Args:
            cleanup_interval: seconds between two cleanups, once ``start`` was called.
            store: where sessions and contexts are kept; None: in memory.
            timeout_hours: the lifetime of an idle session.
        """
        self._sessions: dict[str, _Session] = {}  # least recently active first
        self._contexts: dict[str, tuple[datetime, dict[str, Any]]] = {}
        self._cleanup_interval = cleanup_interval
        self._cleanup_task: asyncio.Task[None] | None = None
        self._timeout = timedelta(hours=timeout_hours)
        self._store = store

    async def start(self) -> None:
        """Clean up periodically, until ``stop``."""
        if self._cleanup_task is None:
            self._cleanup_task = asyncio.create_task(self._cleanup_loop(), name="massgen sessions")

    async def stop(self) -> None:
        if self._cleanup_task is not None:
            self._cleanup_task.cancel()
            with suppress(asyncio.CancelledError):
                await self._cleanup_task
            self._cleanup_task = None

    async def create_session(self, session_id: str, metadata: dict[str, Any] | None = None) -> None:
        """Start a session; one with the same id is replaced."""
        now = _now()
        self._sessions.pop(session_id, None)
        self._sessions[session_id] = _Session(now, now, metadata=dict(metadata) if metadata else None)
        await self._keep(session_id)

    async def update_session(self, session_id: str, message: NLIPMessage) -> None:
        """Add a message to a session, which is created if it does not exist."""
        session = await self._find(session_id) or _Session(_now(), _now())
        session.last_activity = _now()
        if session.messages is None:
            session.messages = []
        session.messages.append(_without_credential(message))
        del session.messages[:-MESSAGES]
        self._sessions.pop(session_id, None)
        self._sessions[session_id] = session  # now the most recently active
        await self._keep(session_id)

    async def get_session_context(self, session_id: str) -> dict[str, Any] | None:
        """The session: created_at, last_activity, messages, metadata and state. None if it does not exist."""
        session = await self._find(session_id)
        if session is None or session.last_activity + self._timeout < _now():
            return None
        return session.context()

    async def store_context_token(self, token: str, context: dict[str, Any]) -> None:
        """Store the context of a token."""
        if self._store is None:
            self._contexts[token] = _now(), context
            return
        await self._store.put(Record(CONTEXTS, token, pack(context), expires=self._expiry(_now())))

    async def retrieve_context_token(self, token: str) -> dict[str, Any] | None:
        """The context of a token; None if it is unknown or has expired."""
        if self._store is not None:
            record = await self._store.get(CONTEXTS, token)
            return _context(record.value) if record is not None else None
        found = self._contexts.get(token)
        return found[1] if found is not None and found[0] + self._timeout >= _now() else None

    async def cleanup_expired_sessions(self, max_age_hours: float = 24) -> int:
        """Remove sessions that were idle for longer, and contexts of that age; returns how many sessions."""
        cutoff = _now() - timedelta(hours=max_age_hours)
        expired = []
        for session_id, session in self._sessions.items():
            if session.last_activity >= cutoff:
                break
            expired.append(session_id)
        for session_id in expired:
            del self._sessions[session_id]
            if self._store is not None:
                await self._store.delete(SESSIONS, session_id)
        while self._contexts:
            token, (at, _) = next(iter(self._contexts.items()))
            if at >= cutoff:
                break
            del self._contexts[token]
        return len(expired)

    async def _find(self, session_id: str) -> _Session | None:
        if self._store is None:
            return self._sessions.get(session_id)
        record = await self._store.get(SESSIONS, session_id)  # another node may have continued it
        return _session(record.value) if record is not None else None

    async def _keep(self, session_id: str) -> None:
        if self._store is None:
            return
        session = self._sessions[session_id]
        expires = self._expiry(session.last_activity)
        await self._store.put(Record(SESSIONS, session_id, pack(session), expires=expires))
        # The store has it; here only its last activity is known.
        self._sessions[session_id] = _Session(session.created_at, session.last_activity)

    def _expiry(self, since: datetime) -> float:
        return (since + self._timeout).timestamp()

    async def _cleanup_loop(self) -> None:
        while True:
            await asyncio.sleep(self._cleanup_interval)
            await self.cleanup_expired_sessions(self._timeout / timedelta(hours=1))


def _now() -> datetime:
    return datetime.now(UTC)


def _without_credential(message: NLIPMessage) -> NLIPMessage:
    """A credential is never kept (MW-10)."""
    if message.control.authentication is None:
        return message
    return message.model_copy(update={"control": message.control.model_copy(update={"authentication": None})})
