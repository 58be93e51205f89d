"""``NLIPTokenTracker``: session and context tokens (MW-29, MW-30).

A context token is sealed and bound to its holder: it says which session it belongs to, on every node that has the key,
and nobody can forge one. What is kept here of a session is small and expires.
"""

from __future__ import annotations

import os
import time
import uuid
from typing import Any, Final

import msgspec

from sabir.guard.seal import Seal

from .schema import NLIPTokenField

KIND: Final = "massgen.context"


class _Info(msgspec.Struct):
    """What is known of a session; the context token is recreated on demand."""

    context_token: str
    agent_id: str | None
    metadata: dict[str, Any] | None
    turn_count: int
    until: float


class NLIPTokenTracker:
    """Creates tokens, counts turns, and finds sessions by their context tokens."""

    def __init__(self, *, seal: Seal | None = None, holder: str = "", timeout_hours: float = 24.0) -> None:
        """
        Args:
            seal: seals context tokens; None: a key of this process.
            holder: the owner of the tokens; they do not open for anybody else.
            timeout_hours: how long a token is valid.
        """
        self._seal = seal or Seal(os.urandom(32))
        self._holder = holder
        self._seconds = timeout_hours * 3600
        self._sessions: dict[str, _Info] = {}  # in order of expiry

    def create_session_token(
        self, agent_id: str | None = None, metadata: dict[str, Any] | None = None
    ) -> NLIPTokenField:
        """The tokens of a new session, at turn 0."""
        now = time.time()
        self._forget_expired(now)
        session_id = self._generate_session_id(agent_id)
        until = now + self._seconds
        context_token = self._seal.seal(KIND, f"{until:.0f} {session_id}".encode(), self._holder)
        self._sessions[session_id] = _Info(context_token, agent_id, dict(metadata) if metadata else None, 0, until)
        return NLIPTokenField(session_id=session_id, context_token=context_token)

    def increment_turn(self, token: NLIPTokenField) -> NLIPTokenField:
        """A copy of the token, one turn later."""
        session = self._sessions.get(token.session_id or "")
        if session is not None:
            session.turn_count += 1
        return token.model_copy(update={"conversation_turn": token.conversation_turn + 1})

    def get_session_info(self, session_id: str) -> dict[str, Any] | None:
        """The context token, agent, metadata and turns of a session that started here."""
        found = self._sessions.get(session_id)
        if found is None or found.until <= time.time():
            return None
        return {
            "context_token": found.context_token,
            "agent_id": found.agent_id,
            "metadata": found.metadata or {},
            "turn_count": found.turn_count,
        }

    def get_session_from_context_token(self, context_token: str) -> str | None:
        """The session of one of our context tokens, even if another node created it."""
        opened = self._seal.open(KIND, context_token, self._holder)
        if opened is None:
            return None
        until, _, session_id = opened.decode().partition(" ")
        return session_id if float(until) > time.time() else None

    def _forget_expired(self, now: float) -> None:
        while self._sessions:
            oldest = next(iter(self._sessions))
            if self._sessions[oldest].until > now:
                return
            del self._sessions[oldest]

    def _generate_session_id(self, agent_id: str | None = None) -> str:
        return f"{agent_id or 'nlip'}_{uuid.uuid4()}"
