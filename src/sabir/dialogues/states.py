"""The protocols of conversations as one table, and a conversation as a frozen value. Pure.

``PROTOCOLS[name].states[state].moves[act, role]`` is the next state. An act that is not in the table is out of
sequence. A conversation that is being cancelled is in a separate state, ``accepted+cancelling``: what the participant
sent before it read the cancellation is still legal there, and an act that ends the conversation wins (ACL-28).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Literal

import msgspec

from sabir.errors import BadMessage, Conflict
from sabir.protocols.acl.wire.envelope import Envelope
from sabir.protocols.acl.wire.payloads import status_of

Role = Literal["initiator", "participant"]
Timer = Literal["", "reply_by", "result", "lease"]
I: Final[Role] = "initiator"  # noqa: E741  # as the specification has it
P: Final[Role] = "participant"

# How a conversation can end.
ENDED: Final = frozenset({"done", "failed", "rejected", "not_understood", "cancelled", "agreed", "timeout"})
CANCELLING: Final = "+cancelling"
CANCEL_FAILED: Final = "CANCEL_FAILED"  # a FAILURE that answers the CANCEL; not a separate act on the wire

Moves = Mapping[tuple[str, Role], str]


class State(msgspec.Struct, frozen=True):
    """What may follow, and what limits the wait."""

    moves: Moves
    timer: Timer = ""


class Rules(msgspec.Struct, frozen=True):
    """One protocol: the acts that open it, the state they lead to, and all its states."""

    opens: tuple[str, ...]
    first: str
    states: Mapping[str, State]


def _by_participant(**acts: str) -> dict[tuple[str, Role], str]:
    return {(act, P): state for act, state in acts.items()}


def _request(opens: tuple[str, ...], *results: str) -> Rules:
    ends = {**_by_participant(FAILURE="failed"), **{(result, P): "done" for result in results}}
    refusals = _by_participant(TASK_REJECT="rejected", NOT_UNDERSTOOD="not_understood")
    states = {
        "sent": State({**_by_participant(TASK_ACCEPT="accepted"), **refusals, **ends}, "reply_by"),
        "accepted": State(
            {**_by_participant(INFORM_PROGRESS="accepted", REQUEST_INPUT="waiting"), **ends},
            "result",
        ),
        "waiting": State({("INFORM_INPUT", I): "accepted"}, "result"),
    }
    return _with_cancel(opens, "sent", states)


def _with_cancel(opens: tuple[str, ...], first: str, states: dict[str, State]) -> Rules:
    """The cancel protocol, inside any open state of another."""
    out: dict[str, State] = {}
    for name, state in states.items():
        cancelling = name + CANCELLING
        out[name] = State({**state.moves, ("CANCEL", I): cancelling}, state.timer)
        crossed = {
            (act, role): follows if follows in ENDED else follows + CANCELLING
            for (act, role), follows in state.moves.items()
            if role == P
        }
        moves = {**crossed, ("INFORM_DONE", P): "cancelled", (CANCEL_FAILED, P): name}
        out[cancelling] = State(moves, "reply_by")
    return Rules(opens, first, out)


PROTOCOLS: Final[Mapping[str, Rules]] = {
    "request": _request(("TASK_REQUEST",), "INFORM_RESULT"),
    "query": _request(("QUERY_IF", "QUERY_REF"), "INFORM_IF", "INFORM_REF"),
    "capabilities": _request(("QUERY_CAPABILITIES",), "INFORM_CAPABILITIES"),
    "contract-net": _with_cancel(
        ("CALL_FOR_PROPOSALS",),
        "called",
        {
            "called": State(
                _by_participant(
                    PROPOSE="proposed", TASK_REJECT="rejected", NOT_UNDERSTOOD="not_understood", FAILURE="failed"
                ),
                "reply_by",
            ),
            "proposed": State(
                {
                    ("ACCEPT_PROPOSAL", I): "awarded",
                    ("REJECT_PROPOSAL", I): "rejected",
                    ("CALL_FOR_PROPOSALS", I): "called",
                },
                "reply_by",
            ),
            "awarded": State(
                _by_participant(INFORM_RESULT="done", FAILURE="failed", INFORM_PROGRESS="awarded"), "result"
            ),
        },
    ),
    "subscribe": _with_cancel(
        ("SUBSCRIBE",),
        "sent",
        {
            "sent": State(
                _by_participant(TASK_ACCEPT="active", TASK_REJECT="rejected", NOT_UNDERSTOOD="not_understood"),
                "reply_by",
            ),
            "active": State({**_by_participant(NOTIFY="active", FAILURE="failed"), ("RENEW", I): "active"}, "lease"),
        },
    ),
    "propose": _with_cancel(
        ("PROPOSE",),
        "sent",
        {
            "sent": State(
                _by_participant(ACCEPT_PROPOSAL="agreed", REJECT_PROPOSAL="rejected", NOT_UNDERSTOOD="not_understood"),
                "reply_by",
            )
        },
    ),
}
OPENERS: Final[Mapping[str, str]] = {act: name for name, rules in PROTOCOLS.items() for act in rules.opens}


class Dialogue(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A conversation with one participant."""

    conversation: str
    initiator: str
    participant: str
    protocol: str
    state: str
    opener: str  # the id of the message that opened it
    cancel: str | None = None  # the id of an unanswered CANCEL

    @property
    def is_over(self) -> bool:
        return self.state in ENDED

    @property
    def timer(self) -> Timer:
        return "" if self.state in ENDED else PROTOCOLS[self.protocol].states[self.state].timer

    def role_of(self, agent: str) -> Role:
        return I if agent == self.initiator else P

    def peer_of(self, agent: str) -> str:
        return self.participant if agent == self.initiator else self.initiator

    def legal(self, role: Role) -> tuple[str, ...]:
        """The acts that this side may send now."""
        if self.is_over:
            return ()
        moves = PROTOCOLS[self.protocol].states[self.state].moves
        return tuple(act for act, who in moves if who == role)

    def after(self, act: str, role: Role, message_id: str = "") -> Dialogue:
        """The conversation after this act.

        Raises:
            Conflict: it is out of sequence; nothing has changed.
        """
        moves: Moves = {} if self.is_over else PROTOCOLS[self.protocol].states[self.state].moves
        follows = moves.get((act, role))
        if follows is None:
            legal = ", ".join(self.legal(role)) or "nothing"
            place = f"{self.protocol} conversation that has ended" if self.is_over else f"state {self.state}"
            raise Conflict(f"{act} by the {role} is out of sequence in {_article(place)}; expected {legal}")
        cancel = message_id if act == "CANCEL" else self.cancel
        if not follows.endswith(CANCELLING):
            cancel = None
        return msgspec.structs.replace(self, state=follows, cancel=cancel)

    def timed_out(self) -> Dialogue:
        """The conversation after its timer fired: ended. A proposal that was not accepted in time is rejected."""
        return msgspec.structs.replace(self, state="rejected" if self.state == "proposed" else "timeout", cancel=None)


def _article(place: str) -> str:
    return f"a {place}" if "ended" in place else place


def act_of(envelope: Envelope, dialogue: Dialogue) -> str:
    """The act of a message as the table names it."""
    act = envelope.performative
    if act == "FAILURE" and dialogue.cancel is not None and envelope.in_reply_to == dialogue.cancel:
        return CANCEL_FAILED
    if act == "INFORM_RESULT" and asks_for_input(envelope.payload):
        return "REQUEST_INPUT"
    return act


def asks_for_input(payload: Mapping[str, object]) -> bool:
    """Whether a result asks its receiver for more, as known senders write it (A-7, ACL-18)."""
    details = payload.get("result_details")
    asked = isinstance(details, dict) and isinstance(details.get("request_for_user"), str)
    return asked and status_of(payload.get("task_status")) == "partial_success"


def is_remark(envelope: Envelope, dialogue: Dialogue) -> bool:
    """Whether a message is about another one and changes nothing: NOT_UNDERSTOOD that does not answer the opener."""
    return envelope.performative == "NOT_UNDERSTOOD" and envelope.in_reply_to != dialogue.opener


def opened(envelope: Envelope, participant: str) -> Dialogue:
    """The conversation that a message opens with one participant.

    Raises:
        Conflict: this act does not open a conversation.
        BadMessage: ``protocol`` is not the one that its act opens.
    """
    protocol = OPENERS.get(envelope.performative)
    if protocol is None:
        raise Conflict(f"{envelope.performative} opens no conversation; expected {', '.join(OPENERS)}")
    if envelope.protocol is not None and envelope.protocol != protocol:
        raise BadMessage("acl", "$.protocol", f"{protocol}, which {envelope.performative} opens")
    return Dialogue(
        conversation=envelope.conversation_id or envelope.message_id,
        initiator=envelope.sender_id,
        participant=participant,
        protocol=protocol,
        state=PROTOCOLS[protocol].first,
        opener=envelope.message_id,
    )


def cells(acts: Iterable[str]) -> Iterable[tuple[str, str, str, Role, str | None]]:
    """Every (protocol, state, act, role) with the next state, None if it is out of sequence."""
    names = (*acts, CANCEL_FAILED)
    for protocol, rules in PROTOCOLS.items():
        for state in (*rules.states, *sorted(ENDED)):
            moves: Moves = rules.states[state].moves if state in rules.states else {}
            for act in names:
                for role in (I, P):
                    yield protocol, state, act, role, moves.get((act, role))
