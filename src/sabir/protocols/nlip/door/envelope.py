"""Envelopes at the NLIP doors: tried after the fast decoder has failed, and answered with envelopes (MW-8)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import cbor2
import msgspec

from sabir.errors import BadInput, BadMessage
from sabir.exchange.request import EventSink, TurnRequest
from sabir.ids import new_id
from sabir.message import Message, Part, text_part, token_kind, token_part
from sabir.protocols.nlip.door.context import NlipContext
from sabir.protocols.nlip.wire import cbor, envelope
from sabir.protocols.nlip.wire import json as nlip
from sabir.protocols.nlip.wire.envelope import Facts
from sabir.turn import ANONYMOUS, Caller

NOT_YOURS = "this session_id is too short to prove that the session is yours; continue with the one of this answer"


class EnvelopeTurn:
    """One question in an envelope. ``message`` goes to the exchange; ``write`` encodes the answer as an envelope."""

    def __init__(
        self, services: NlipContext, asked: Message, agent: str | None = None, error: BadInput | None = None
    ) -> None:
        self._services = services
        self._options = services.envelope
        self._error = error
        self.asked = asked
        self.facts = envelope.facts_of(asked) or Facts()
        self.session = _token(asked, "conversation")
        self.message = self._for_exchange(asked, agent or services.default_agent)
        self.is_notification = asked.messagetype == "notification"
        self.streams = self.facts.metadata.get("stream") is True
        self.line: EventSink | None = None

    @classmethod
    def read(
        cls, services: NlipContext, body: bytes, exc: BadMessage, agent: str | None, *, binary: bool = False
    ) -> EnvelopeTurn:
        """The envelope in a body that is not an ECMA-430 message.

        Raises:
            BadMessage: it is not an envelope either; the error is that of the first decoder.
        """
        value = cbor.item(body, services.limits) if binary else envelope.value_in(body, limits=services.limits)
        return cls.of(services, value, exc, agent)

    @classmethod
    def of(cls, services: NlipContext, value: Any, exc: BadMessage, agent: str | None) -> EnvelopeTurn:
        """The same for a decoded value; raises as ``read`` does."""
        if not services.envelope.takes(agent or services.default_agent):
            raise exc
        if not isinstance(value, dict) or not envelope.is_envelope(value):
            raise exc
        try:
            return cls(services, envelope.message_of(value, limits=services.limits), agent)
        except BadInput as invalid:
            return cls(services, _left_of(value), agent, invalid)

    def check(self) -> None:
        """Raises:
        BadInput: the envelope is invalid; it is answered with an error in an envelope.
        """
        if self._error is not None:
            raise self._error

    def _for_exchange(self, asked: Message, agent: str) -> Message:
        """The message for the exchange. Only a tool router and a peer that uses envelopes get the other fields; without
        state management, session tokens are removed."""
        reads_all = getattr(self._services.agents.get(agent), "envelope", False)  # passed on unchanged (MW-73)
        is_kept = reads_all or asked.labelled(envelope.TOOL_CALL) is not None
        message = asked if is_kept else envelope.without_facts(asked)
        if self._options.sessions:
            return message
        kept = tuple(
            part for part in message.submessages if token_kind(part.subformat) not in ("conversation", "context")
        )
        return msgspec.structs.replace(message, submessages=kept)

    def adjust(self, ask: TurnRequest) -> TurnRequest:
        """Apply the envelope's settings to the turn: its timeout, its priority, and whether it has a session."""
        ask.message = msgspec.structs.replace(self.message, extra=None)  # the door has read its trace and hops
        if self.facts.timeout is not None:
            limit = self._services.quotas.turn_seconds
            ask.seconds = min(self.facts.timeout, limit) if limit else self.facts.timeout
        ask.priority = self.facts.priority or 0
        begins = self._options.begins_sessions or self.session is not None
        ask.stateless = not (self._options.sessions and begins)
        return ask

    def write(self, message: Message) -> bytes:
        """An answer, as JSON."""
        return msgspec.json.encode(self.value(message))

    def write_cbor(self, message: Message) -> bytes:
        """The same in CBOR."""
        return cbor2.dumps(self.value(message), canonical=True)

    def value(self, message: Message) -> dict[str, Any]:
        """An answer, as plain values."""
        tokens, note = self._session_of(message)
        rest = tuple(part for part in message.submessages if not _is_ours(part))
        counted = self._options.counts_turns and message.messagetype != "error"
        facts = Facts(
            message_id=new_id(),
            correlation_id=self.facts.message_id,
            timestamp=f"{datetime.now(UTC).replace(tzinfo=None).isoformat()}Z",
            conversation_turn=self.facts.conversation_turn + counted,
            schema_version=self._options.schema_version,
            metadata={"session": note} if note else {},
        )
        passed_on = envelope.facts_of(message)
        if passed_on is not None:  # the answer of a remote agent, which came in an envelope
            facts.content, facts.words = passed_on.content, passed_on.words
            facts.metadata = {**passed_on.metadata, **facts.metadata}
        if message.is_error:
            message = message.with_type("error")
        if self.is_notification and not message.text and not rest:
            facts.content = {}
        written = msgspec.structs.replace(message, submessages=(*tokens, *rest))
        value = envelope.value_of(written, facts)
        code = nlip.code_in(message)
        if code is not None and "error" in value["content"]:
            value["content"]["code"] = code
        return value

    def _session_of(self, message: Message) -> tuple[list[Part], str]:
        """The tokens of an answer, the session first; and a note if it is not the requested one."""
        found: Mapping[str, Part] = {token_kind(part.subformat): part for part in reversed(message.tokens)}
        echoed = [found[kind] for kind in ("state", "authentication") if kind in found]
        if not self._options.sessions:
            return echoed, ""
        line = self.line
        caller = line.caller if line is not None and line.caller is not None else ANONYMOUS
        own = line.conversation if line is not None else None
        session, note = own, ""
        if self.session is not None and (own is None or _proves(self.session, own, caller)):
            session = token_part(self.session)
        elif self.session is not None:
            note = NOT_YOURS
        context = found.get("context") or self._context(own, caller)
        return [part for part in (session, context) if part is not None] + echoed, note

    def _context(self, own: Part | None, caller: Caller) -> Part | None:
        """A context token for the conversation, if the caller has none (MW-56)."""
        conversations = self._services.conversations
        where = conversations.opened(own, caller) if own is not None else None
        if where is None:
            return None
        return conversations.context_token(where, caller, keeps=self._options.keeps_context_tokens)


def _left_of(value: dict[str, Any]) -> Message:
    """What an error needs in order to refer to an unreadable envelope."""
    control = value.get("control")
    message_id = control.get("message_id") if isinstance(control, dict) else None
    facts = Facts(message_id=message_id if isinstance(message_id, str) else "")
    return Message.of(text_part(""), Part("generic", envelope.ENVELOPE, msgspec.to_builtins(facts)))


def _token(message: Message, kind: str) -> str | None:
    for part in message.tokens:
        if token_kind(part.subformat) == kind and isinstance(part.content, str):
            return part.content
    return None


def _proves(session: str, own: Part, caller: Caller) -> bool:
    """Whether the caller's own session id finds the conversation again."""
    return session == own.content or not caller.is_anonymous or len(session) >= 22


def _is_ours(part: Part) -> bool:
    return part.is_token and token_kind(part.subformat) in ("conversation", "context", "state", "authentication")
