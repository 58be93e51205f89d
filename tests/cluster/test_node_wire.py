"""What nodes say to each other, as bytes."""

from __future__ import annotations

import msgspec
import pytest

from sabir.cluster import wire as nodes
from sabir.errors import Unreadable
from sabir.events import Delta, Event, Fault, Field, Progress, Question, Reply
from sabir.message import Message, binary_part, json_part, text_part
from sabir.turn import Caller, Conversation, PastTurn, Turn

MESSAGE = Message.of(text_part("hi"), json_part({"a": [1, None]}), binary_part(b"\x00\xff", "image/png"))


@pytest.mark.parametrize(
    ("event", "wire"),
    [
        (Delta(text_part("a")), ["delta", {"format": "text", "subformat": "english", "content": "a"}]),
        (Progress(0.5, "half"), ["progress", [0.5, "half"]]),
        (Progress(), ["progress", [None, ""]]),
        (Fault("no", "refused"), ["fault", ["no", "refused"]]),
        (Reply(Message.text("hi")), ["reply", {"format": "text", "subformat": "english", "content": "hi"}]),
    ],
)
def test_an_event_on_the_wire(event: Event, wire: object) -> None:
    assert msgspec.msgpack.decode(nodes.encode_event(event)) == wire
    assert nodes.decode_event(msgspec.msgpack.encode(wire)) == event


@pytest.mark.parametrize(
    "event",
    [
        Question("How many?", (Field("n", "Number", "number", ("1", "2"), False),), {"type": "integer"}, "q1"),
        Reply(MESSAGE),
        Delta(binary_part(b"\x00", "image/png", label="l")),
    ],
)
def test_an_event_comes_back_unchanged(event: Event) -> None:
    assert nodes.decode_event(nodes.encode_event(event)) == event


def test_a_turn_comes_back_with_its_caller_but_without_credentials() -> None:
    past = PastTurn("t0", 1.0, "hotel", MESSAGE, Message.text("yes"))
    caller = Caller("key:ann", "key", frozenset({"guest"}), "10.0.0.1", "Ann", {"email": "ann@example.com"})
    turn = Turn(MESSAGE, Conversation("c", (past,), {"x": 1}, 7), caller, id="t1", hops=2, seen=("guide",), door="mcp")
    wire = nodes.encode(nodes.NodeRequest.of(turn))
    for hidden in (b"10.0.0.1", b"example.com"):
        assert hidden not in wire
    asked = nodes.decode_asked(wire)
    assert (asked.message, asked.conversation, asked.turn) == (MESSAGE, turn.conversation, "t1")
    assert (asked.hops, asked.seen, asked.door, asked.seconds) == (3, ("guide",), "mcp", None)
    there = asked.as_caller()
    assert there == Caller("key:ann", "key", frozenset({"guest"}), name="Ann", handed_on=True)
    assert there.effective_roles == caller.effective_roles


def test_an_anonymous_caller_stays_one() -> None:
    there = nodes.NodeRequest.of(Turn(Message.text("hi"))).as_caller()
    assert there.is_anonymous
    assert (there.on_behalf_of, there.effective_roles) == ("", frozenset({"anonymous"}))


@pytest.mark.parametrize("wire", [b"", b"\xc1", b"\x01", msgspec.msgpack.encode(["what", 1]), nodes.ELSEWHERE])
def test_an_invalid_event_is_rejected(wire: bytes) -> None:
    with pytest.raises(Unreadable, match="nodes: at event: expected delta or progress or question or reply or fault"):
        nodes.decode_event(wire)


@pytest.mark.parametrize(
    "decode", [nodes.decode_asked, nodes.decode_answer, nodes.decode_message, nodes.decode_anonymity]
)
@pytest.mark.parametrize("wire", [b"", b"\xc1", b"\x80", b"\x90"])
def test_what_is_not_the_thing_is_refused(decode: object, wire: bytes) -> None:
    with pytest.raises(Unreadable, match=r"nodes: at \$: expected (an? \w+|agreement or an objection) in MessagePack"):
        decode(wire)  # type: ignore[operator]


def test_a_proposal_of_anonymity_and_its_answer_on_the_wire() -> None:
    proposal = nodes.encode(nodes.AnonymityProposal("c"))
    assert msgspec.msgpack.decode(proposal) == {"type": "anonymity", "conversation": "c"}
    assert nodes.decode_proposal(proposal) == nodes.AnonymityProposal("c")
    assert nodes.decode_anonymity(msgspec.msgpack.encode(["it keeps names"])).objection == "it keeps names"
    assert nodes.decode_anonymity(nodes.encode(nodes.AnonymityAnswer(None))).objection is None


@pytest.mark.parametrize("wire", [b"", b"\xc1", nodes.ANYBODY, nodes.encode(nodes.NodeRequest(MESSAGE, "t"))])
def test_a_turn_is_not_a_proposal_of_anonymity(wire: bytes) -> None:
    assert nodes.decode_proposal(wire) is None
