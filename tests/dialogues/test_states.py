"""The table of conversations: every cell, and two sides that talk over a bad line."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acl_messages import message
from sabir.dialogues.states import (
    CANCEL_FAILED,
    CANCELLING,
    ENDED,
    OPENERS,
    PROTOCOLS,
    Dialogue,
    I,
    P,
    Role,
    act_of,
    cells,
    is_remark,
    opened,
)
from sabir.errors import BadMessage, Conflict
from sabir.protocols.acl.wire.acts import ACTS
from sabir.protocols.acl.wire.envelope import envelope_of

CELLS = list(cells(ACTS))


def at(protocol: str, state: str) -> Dialogue:
    return Dialogue("c1", "eddy", "jules", protocol, state, "msg_1", "msg_2" if CANCELLING in state else None)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_cell_of_the_table_is_a_transition_or_out_of_sequence(protocol: str) -> None:  # ACL-24
    mine = [cell for cell in CELLS if cell[0] == protocol]
    assert sum(cell[4] is not None for cell in mine) == sum(len(s.moves) for s in PROTOCOLS[protocol].states.values())
    for _, state, act, role, follows in mine:
        before = at(protocol, state)
        if follows is None:
            with pytest.raises(Conflict, match=f"{act} by the {role} is out of sequence"):
                before.after(act, role)
        else:
            assert before.after(act, role, "msg_3").state == follows


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_state_is_reached_and_leads_on_or_ends(protocol: str) -> None:
    rules = PROTOCOLS[protocol]
    reached = {rules.first} | {follows for state in rules.states.values() for follows in state.moves.values()}
    assert reached - ENDED == set(rules.states)
    assert all(state.moves and state.timer for state in rules.states.values())


# The rows of the specification, word by word: protocol, state, act, who, next.
SPECIFICATION = [
    ("request", "sent", "TASK_ACCEPT", P, "accepted"),
    ("request", "sent", "TASK_REJECT", P, "rejected"),
    ("request", "sent", "NOT_UNDERSTOOD", P, "not_understood"),
    ("request", "sent", "INFORM_RESULT", P, "done"),
    ("request", "sent", "FAILURE", P, "failed"),
    ("request", "sent", "CANCEL", I, "sent+cancelling"),
    ("request", "accepted", "INFORM_PROGRESS", P, "accepted"),
    ("request", "accepted", "REQUEST_INPUT", P, "waiting"),
    ("request", "accepted", "INFORM_RESULT", P, "done"),
    ("request", "accepted", "FAILURE", P, "failed"),
    ("request", "waiting", "INFORM_INPUT", I, "accepted"),
    ("request", "waiting", "CANCEL", I, "waiting+cancelling"),
    ("query", "sent", "INFORM_IF", P, "done"),
    ("query", "sent", "INFORM_REF", P, "done"),
    ("capabilities", "sent", "INFORM_CAPABILITIES", P, "done"),
    ("contract-net", "called", "PROPOSE", P, "proposed"),
    ("contract-net", "called", "TASK_REJECT", P, "rejected"),
    ("contract-net", "called", "NOT_UNDERSTOOD", P, "not_understood"),
    ("contract-net", "called", "FAILURE", P, "failed"),
    ("contract-net", "called", "CANCEL", I, "called+cancelling"),
    ("contract-net", "proposed", "ACCEPT_PROPOSAL", I, "awarded"),
    ("contract-net", "proposed", "REJECT_PROPOSAL", I, "rejected"),
    ("contract-net", "proposed", "CALL_FOR_PROPOSALS", I, "called"),
    ("contract-net", "awarded", "INFORM_RESULT", P, "done"),
    ("contract-net", "awarded", "FAILURE", P, "failed"),
    ("subscribe", "sent", "TASK_ACCEPT", P, "active"),
    ("subscribe", "sent", "TASK_REJECT", P, "rejected"),
    ("subscribe", "active", "NOTIFY", P, "active"),
    ("subscribe", "active", "FAILURE", P, "failed"),
    ("subscribe", "active", "RENEW", I, "active"),
    ("subscribe", "active", "CANCEL", I, "active+cancelling"),
    ("propose", "sent", "ACCEPT_PROPOSAL", P, "agreed"),
    ("propose", "sent", "REJECT_PROPOSAL", P, "rejected"),
    ("propose", "sent", "NOT_UNDERSTOOD", P, "not_understood"),
    ("request", "accepted+cancelling", "INFORM_DONE", P, "cancelled"),
    ("request", "accepted+cancelling", CANCEL_FAILED, P, "accepted"),
    ("request", "accepted+cancelling", "INFORM_RESULT", P, "done"),
    ("request", "accepted+cancelling", "FAILURE", P, "failed"),
    ("subscribe", "active+cancelling", "NOTIFY", P, "active+cancelling"),
]


@pytest.mark.parametrize(("protocol", "state", "act", "role", "follows"), SPECIFICATION)
def test_the_table_says_what_the_specification_says(
    protocol: str, state: str, act: str, role: Role, follows: str
) -> None:  # ACL-24, ACL-28
    assert at(protocol, state).after(act, role).state == follows


@pytest.mark.parametrize("act", ACTS)
def test_a_conversation_is_opened_by_the_acts_that_open_one_and_by_no_other(act: str) -> None:  # ACL-24
    envelope = envelope_of(message(act, in_reply_to="x"))
    if act in OPENERS:
        dialogue = opened(envelope, "jules")
        assert (dialogue.conversation, dialogue.opener) == ("msg_eddy_1", "msg_eddy_1")
        assert dialogue.role_of("eddy") == I
        with pytest.raises(BadMessage, match=r"\$.protocol: expected"):
            opened(envelope_of(message(act, in_reply_to="x", protocol="dance")), "jules")
    else:
        with pytest.raises(Conflict, match="opens no conversation"):
            opened(envelope, "jules")


def test_a_failure_that_answers_the_cancel_is_not_the_end() -> None:  # ACL-28
    dialogue = at("request", "accepted").after("CANCEL", I, "msg_cancel")
    of_cancel = envelope_of(message("FAILURE", in_reply_to="msg_cancel"))
    of_task = envelope_of(message("FAILURE", in_reply_to="msg_1"))
    assert dialogue.after(act_of(of_cancel, dialogue), P).state == "accepted"
    assert dialogue.after(act_of(of_task, dialogue), P).state == "failed"


def test_a_result_that_asks_the_user_is_a_request_for_input() -> None:  # ACL-18, A-7
    payload = {
        "task_status": "PARTIAL_SUCCESS",
        "result_summary": "more",
        "result_details": {"request_for_user": "Which file?"},
    }
    envelope = envelope_of(message("INFORM_RESULT", in_reply_to="msg_1", payload=payload))
    assert at("request", "accepted").after(act_of(envelope, at("request", "accepted")), P).state == "waiting"


def test_not_understood_ends_a_conversation_only_where_it_answers_the_opener() -> None:  # ACL-13
    dialogue = at("request", "sent")
    assert is_remark(envelope_of(message("NOT_UNDERSTOOD", in_reply_to="other")), dialogue)
    assert not is_remark(envelope_of(message("NOT_UNDERSTOOD", in_reply_to="msg_1")), dialogue)


def test_a_timer_ends_a_conversation_and_rejects_a_proposal() -> None:  # ACL-27
    assert at("request", "sent").timed_out().state == "timeout"
    assert at("contract-net", "proposed").timed_out().state == "rejected"


# -- two sides and a bad line -----------------------------------------------------------------------


@dataclass
class Side:
    """One side of a conversation, which keeps its state and the ids it has seen through restarts."""

    role: Role
    dialogue: Dialogue
    seen: set[str] = field(default_factory=set)
    sent: list[tuple[str, str]] = field(default_factory=list)  # id, act; sent again until the other side has it

    def send(self, act: str) -> None:
        item_id = f"{self.role}-{len(self.sent)}"
        self.dialogue = self.dialogue.after(act, self.role, item_id)
        self.sent.append((item_id, act))

    def receive(self, item_id: str, act: str, other: Role) -> None:
        if item_id in self.seen:
            return
        try:
            self.dialogue = self.dialogue.after(act, other, item_id)
        except Conflict:
            pass  # NOT_UNDERSTOOD, and nothing has changed
        self.seen.add(item_id)

    def restart(self) -> None:
        kept = msgspec.json.encode(self.dialogue)
        self.dialogue = msgspec.json.decode(kept, type=Dialogue)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_two_sides_never_disagree_on_how_a_conversation_ended(protocol: str, data: st.DataObject) -> None:  # ACL-24
    first = PROTOCOLS[protocol].first
    sides = {role: Side(role, at(protocol, first)) for role in (I, P)}
    for _ in range(data.draw(st.integers(1, 40))):
        role = data.draw(st.sampled_from([I, P]))
        side, other = sides[role], sides[P if role == I else I]
        match data.draw(st.sampled_from(["act", "deliver", "deliver", "restart"])):
            case "act":
                legal = side.dialogue.legal(role)
                if legal:
                    side.send(data.draw(st.sampled_from(legal)))
            case "deliver":  # any of what was sent, in any order, as often as the line likes; or never
                if other.sent:
                    item_id, act = data.draw(st.sampled_from(other.sent))
                    side.receive(item_id, act, other.role)
            case "restart":
                side.restart()
    for side, other in ((sides[I], sides[P]), (sides[P], sides[I])):  # at last everything arrives
        for item_id, act in other.sent:
            side.receive(item_id, act, other.role)
    one, two = sides[I].dialogue, sides[P].dialogue
    if one.is_over and two.is_over:
        assert one.state == two.state
