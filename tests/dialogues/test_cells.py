"""Every cell of the table through the service: a legal act moves the stored conversation; every other one is answered
by NOT_UNDERSTOOD and changes nothing."""

from __future__ import annotations

import msgspec
import pytest

from acl_messages import message
from sabir.bus.store import StoreBus
from sabir.dialogues.service import Dialogues
from sabir.dialogues.states import CANCEL_FAILED, CANCELLING, ENDED, OPENERS, PROTOCOLS, I, Role, cells
from sabir.errors import Conflict, SabirError
from sabir.protocols.acl.door.intake import error_of
from sabir.protocols.acl.wire.acts import ACTS
from sabir.protocols.acl.wire.envelope import Envelope, encode, envelope_of
from sabir.stores.letters import DialogueEntry, DialogueRow, UtteranceRow
from sabir.stores.memory import MemoryStore

FAR = 4_000_000_000.0
CELLS = list(cells(ACTS))


async def at(protocol: str, state: str) -> tuple[Dialogues, DialogueRow]:
    """A store that holds one conversation of Eddy with Jules in this state."""
    store = MemoryStore()
    await store.open()
    cancel = "msg_cancel" if state.endswith(CANCELLING) else ""
    row = DialogueRow("c1", "eddy", "jules", protocol, state, "msg_open", 0.0, 0.0, FAR, cancel)
    for version, (name, act) in enumerate((("msg_open", PROTOCOLS[protocol].opens[0]), ("msg_cancel", "CANCEL"))):
        body = encode(envelope_of(message(act, message_id=name, conversation_id="c1", in_reply_to="x")))
        said = UtteranceRow(name, "eddy", "jules", "c1", "eddy", "jules", act, 0.0, FAR, body)
        assert await store.converse(DialogueEntry(row, version, (said,))) == "done"
    stored = await store.dialogue("c1", "eddy", "jules")
    assert stored is not None
    return Dialogues(store, StoreBus(store)), stored


def said(act: str, role: Role) -> Envelope:
    sender, receiver = ("eddy", "jules") if role == I else ("jules", "eddy")
    answered = "msg_cancel" if act == CANCEL_FAILED else "msg_open"
    given = message(
        "FAILURE" if act == CANCEL_FAILED else act,
        message_id="msg_new",
        conversation_id="c1",
        sender={"agent_id": sender},
        receiver={"agent_id": receiver},
    )
    # What opens a conversation answers nothing, but for a proposal, which may answer a call.
    if act not in OPENERS or act == "PROPOSE":
        given["in_reply_to"] = answered
    return envelope_of(given)


def opens_another(state: str, act: str, role: Role) -> bool:
    """Whether an act begins a conversation of its own, or the next one after this has ended."""
    return act in OPENERS and (state in ENDED or (role != I and act != "PROPOSE"))


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_every_cell_moves_the_conversation_or_is_not_understood(protocol: str) -> None:  # ACL-24, ACL-13
    legal = illegal = 0
    for _, state, act, role, follows in (cell for cell in CELLS if cell[0] == protocol):
        if act == CANCEL_FAILED and not state.endswith(CANCELLING):
            continue  # then it is a plain FAILURE, which has a cell of its own
        dialogues, before = await at(protocol, state)
        envelope = said(act, role)
        receiver = envelope.receiver_ids[0]
        where = f"{act} by the {role} in {state}"
        if follows is not None:
            legal += 1
            assert (await dialogues.post(envelope, receiver)).dialogue.state == follows, where
        elif not opens_another(state, act, role):
            illegal += 1
            with pytest.raises(Conflict) as raised:
                await dialogues.post(envelope, receiver)
            assert _answer(raised.value, envelope) == ("NOT_UNDERSTOOD", "unexpected_act"), where
            assert await dialogues.store.dialogue("c1", "eddy", "jules") == before, where
            assert await dialogues.store.waiting_letters(receiver) == [], where
    assert legal == sum(len(state.moves) for state in PROTOCOLS[protocol].states.values())
    assert illegal > legal


def _answer(exc: SabirError, envelope: Envelope) -> tuple[str, str]:
    answer = error_of(exc, envelope)
    return answer.performative, str(msgspec.to_builtins(answer.payload)["reason_code"])
