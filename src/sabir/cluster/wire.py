"""The messages between nodes of one gateway about a turn: MessagePack, both ways. Pure.

A node that forwards a turn sends the message, the conversation so far, and the caller: id, kind, name, roles, and on
whose behalf it asks. So an agent sees the same caller on whichever node it runs. Credentials, claims, addresses and
tokens are not sent. With quotas, it also sends the account that the turn is charged to (for an anonymous caller its
address) and what the turn has used of its budget; remote usage is reported back. The bus is trusted as far as its own
login reaches: whoever may publish on it may ask as anybody.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import msgspec

from sabir.errors import Unreadable
from sabir.events import Delta, Event, Fault, Progress, Question, Reply
from sabir.message import Message, Part
from sabir.misfits import NOT_JSON
from sabir.packing import pack, unpacker
from sabir.turn import Caller, Conversation, Meter, Turn

T = TypeVar("T")

LOSSES: Final = ("credentials", "claims", "tokens", "attachments")  # never sent from node to node


class NodeRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """A turn, as it is forwarded to another node."""

    message: Message
    turn: str
    conversation: Conversation = Conversation("")
    caller: str = "agent:gateway"
    kind: str = "agent"
    name: str = ""
    roles: frozenset[str] = frozenset()
    on_behalf_of: str = ""
    seconds: float | None = None
    hops: int = 0
    seen: tuple[str, ...] = ()
    door: str = ""
    meter: Meter | None = None  # None: nothing is counted, and there is no budget

    @classmethod
    def of(cls, turn: Turn) -> NodeRequest:
        caller = turn.caller
        return cls(
            turn.message,
            turn.id,
            turn.conversation,
            caller.id,
            caller.kind,
            caller.name,
            caller.roles,
            caller.on_behalf_of,
            None if turn.remaining == float("inf") else turn.remaining,
            turn.hops + 1,
            turn.seen,
            turn.door,
            turn.meter if turn.meter.account or turn.meter.has_budget else None,
        )

    def as_caller(self) -> Caller:
        """The caller as an agent sees it on either node, except for its address and its token's claims."""
        return Caller(
            self.caller, self.kind, self.roles, name=self.name, on_behalf_of=self.on_behalf_of, handed_on=True
        )


class NodeUsage(msgspec.Struct, frozen=True, array_like=True):
    """What a turn used on another node, charged to its caller's account; and the tools that were called."""

    calls: int = 0
    tokens: int = 0
    cost: float = 0.0
    tools: tuple[str, ...] = ()

    @classmethod
    def of(cls, turn: Turn, before: Meter | None) -> NodeUsage:
        now, was = turn.meter, before or Meter()
        tools = tuple(dict.fromkeys(turn.used))
        return cls(now.calls - was.calls, now.tokens - was.tokens, now.cost - was.cost, tools)

    def __bool__(self) -> bool:
        return bool(self.calls or self.tokens or self.cost or self.tools)


class NodeAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """The answer to a question of a turn on another node; None cancels the question."""

    conversation: str
    message: Message | None = None
    agent: str | None = None  # the agent that the message names, if any


class AnonymityProposal(msgspec.Struct, frozen=True, tag="anonymity"):
    """Instead of a turn: does this agent agree to the anonymity of a conversation? (PAPER-ANON)"""

    conversation: str


class AnonymityAnswer(msgspec.Struct, frozen=True, array_like=True):
    """The objection of an agent on another node; None: it agrees."""

    objection: str | None


_asked = unpacker(NodeRequest)
_proposal = unpacker(AnonymityProposal)
_anonymity = unpacker(AnonymityAnswer)
_answer = unpacker(NodeAnswer)
_message = unpacker(Message)
_event = unpacker(tuple[str, Any])

encode = pack

_WRITERS: Final[Mapping[type, tuple[str, Callable[[Any], object]]]] = {
    Delta: ("delta", lambda event: event.part),
    Progress: ("progress", lambda event: (event.fraction, event.note)),
    Question: ("question", lambda event: event),
    Reply: ("reply", lambda event: event.message),
    Fault: ("fault", lambda event: (event.reason, event.code)),
}
_READERS: Final[Mapping[str, Callable[[Any], Event]]] = {
    "delta": lambda body: Delta(msgspec.convert(body, Part)),
    "progress": lambda body: Progress(*msgspec.convert(body, tuple[float | None, str])),
    "question": lambda body: msgspec.convert(body, Question),
    "reply": lambda body: Reply(msgspec.convert(body, Message)),
    "fault": lambda body: Fault(*msgspec.convert(body, tuple[str, str])),
}


# Instead of events: this node is stopping and has not started; ask another.
ELSEWHERE: Final = pack(("elsewhere", None))

# Instead of a turn: does a node answer for this agent? And the answer.
ANYBODY: Final = pack(("anybody", None))
HERE: Final = pack(("here", None))


def encode_event(event: Event) -> bytes:
    kind, body = _WRITERS[type(event)]
    return pack((kind, body(event)))


def encode_used(used: NodeUsage) -> bytes:
    return pack(("used", used))


def decode_said(data: bytes) -> Event | NodeUsage:
    """What the asked node sends back: events, and before the last the usage.

    Raises:
        Unreadable: it is neither.
    """
    try:
        kind, body = _event.decode(data)
        if kind == "used":
            return msgspec.convert(body, NodeUsage)
    except NOT_JSON:
        pass
    return decode_event(data)


def decode_event(data: bytes) -> Event:
    """Raises:
    Unreadable: it is not an event.
    """
    try:
        kind, body = _event.decode(data)
        read = _READERS.get(kind)
        if read is not None:
            return read(body)
    except NOT_JSON:
        pass
    raise Unreadable("nodes", "event", " or ".join(_READERS))


def decode_asked(data: bytes) -> NodeRequest:
    """Raises:
    Unreadable: it is not a turn.
    """
    return _decoded(_asked, data, "a turn")


def decode_proposal(data: bytes) -> AnonymityProposal | None:
    """None if it is something else."""
    try:
        return _proposal.decode(data)
    except NOT_JSON:
        return None


def decode_anonymity(data: bytes) -> AnonymityAnswer:
    """Raises:
    Unreadable: it is not an answer to such a proposal.
    """
    return _decoded(_anonymity, data, "agreement or an objection")


def decode_answer(data: bytes) -> NodeAnswer:
    """Raises:
    Unreadable: it is not an answer.
    """
    return _decoded(_answer, data, "an answer")


def decode_message(data: bytes) -> Message:
    """Raises:
    Unreadable: it is not a message.
    """
    return _decoded(_message, data, "a message")


def _decoded(decoder: msgspec.msgpack.Decoder[T], data: bytes, what: str) -> T:
    try:
        return decoder.decode(data)
    except NOT_JSON:
        raise Unreadable("nodes", "$", f"{what} in MessagePack") from None


__all__ = [
    "ANYBODY",
    "ELSEWHERE",
    "HERE",
    "LOSSES",
    "AnonymityAnswer",
    "AnonymityProposal",
    "NodeAnswer",
    "NodeRequest",
    "NodeUsage",
    "decode_anonymity",
    "decode_answer",
    "decode_asked",
    "decode_event",
    "decode_message",
    "decode_proposal",
    "decode_said",
    "encode",
    "encode_event",
    "encode_used",
]
