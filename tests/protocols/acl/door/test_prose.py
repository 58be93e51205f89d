"""Messages that the gateway's own agents cannot read as data: prose, encrypted payloads, and errors on the way."""

from __future__ import annotations

from typing import Any

import pytest

from protocols.acl.conftest import Speaker
from sabir.dialogues.states import CANCEL_FAILED, ENDED, OPENERS, PROTOCOLS, I, P
from sabir.errors import BadInput, SabirError
from sabir.protocols.acl.door.bridge import refusal_of
from sabir.protocols.acl.wire.reasons import CODES

PROSE = {"text": "Was kannst du?"}
JWE = "eyJhbGciOiJFQ0RILUVTK0EyNTZLVyIsImVuYyI6IkEyNTZHQ00ifQ.YQ.YQ.YQ.YQ"
ANSWERS = {
    ("TASK_REQUEST", "jules"): "TASK_ACCEPT",
    ("QUERY_IF", "jules"): "INFORM_IF",
    ("QUERY_REF", "jules"): "INFORM_REF",
    ("QUERY_CAPABILITIES", "jules"): "INFORM_CAPABILITIES",
    ("CALL_FOR_PROPOSALS", "jules"): "PROPOSE",
    ("PROPOSE", "jules"): "REJECT_PROPOSAL",
    ("SUBSCRIBE", "jules"): "NOT_UNDERSTOOD",
    ("QUERY_CAPABILITIES", "df"): "INFORM_CAPABILITIES",
}


@pytest.mark.parametrize("to", ["jules", "df"])
@pytest.mark.parametrize("act", OPENERS)
async def test_every_act_in_prose_is_answered(eddy: Speaker, act: str, to: str) -> None:  # ACL-20, A-12
    reply = await eddy.say(act, to, PROSE, language="de")
    assert reply.get("performative") == ANSWERS.get((act, to), "NOT_UNDERSTOOD"), reply


async def test_a_reference_in_prose_is_a_question_for_the_agent(eddy: Speaker) -> None:  # ACL-10, A-12
    reply = await eddy.say("QUERY_REF", "jules", PROSE, language="de")
    assert reply["payload"] == {"reference": "Was kannst du?", "value": "You said: Was kannst du?"}


async def test_an_answer_in_prose_reaches_the_agent(eddy: Speaker) -> None:  # ACL-20, ACL-37
    asked = await eddy.ask("asker")
    answer = eddy.message(
        "INFORM_INPUT", "asker", in_reply_to=asked["message_id"], payload={"text": "rot"}, language="de"
    )
    response = await eddy.post(answer, "/mcp-request")
    assert response.json()["payload"]["result_summary"] == "You chose rot."


@pytest.mark.parametrize("to", ["jules", "df"])
@pytest.mark.parametrize("act", OPENERS)
async def test_what_an_agent_cannot_decrypt_is_not_understood(eddy: Speaker, act: str, to: str) -> None:  # ACL-48, C-2
    response = await eddy.post(eddy.message(act, to, payload={"jwe": JWE}))
    body = response.json()
    assert (response.status_code, body["performative"]) == (400, "NOT_UNDERSTOOD")
    assert f"{to} has no key" in body["payload"]["reason_text"]


@pytest.mark.parametrize("jwe", ["hello", "", "a.b.c", f"{JWE}.YQ", "e30.YQ.YQ.YQ.YQ", "!.YQ.YQ.YQ.YQ", 1, None])
async def test_an_invalid_jwe_is_an_invalid_payload(eddy: Speaker, jwe: Any) -> None:  # ACL-48, C-2
    response = await eddy.post(eddy.message(payload={"jwe": jwe}))
    body = response.json()
    assert (response.status_code, body["payload"]["reason_code"]) == (400, "invalid_payload_structure")
    assert "a compact JWE" in body["payload"]["reason_text"]


def _error(kind: type[SabirError]) -> SabirError:
    if issubclass(kind, BadInput):
        return kind("acl", "$.payload", "x")
    error = kind.__new__(kind)
    error.reason = "x"
    return error


@pytest.mark.parametrize("kind", CODES, ids=lambda kind: kind.__name__)
def test_an_error_is_reported_by_an_act_that_may_follow(kind: type[SabirError]) -> None:  # ACL-11, ACL-24
    """Whatever an agent of the gateway was sent: its refusal is legal in the state that this led to."""
    dropped = []
    for protocol, rules in PROTOCOLS.items():
        openers = [(act, rules.first) for act in rules.opens]
        moves = [
            (act, state) for item in rules.states.values() for (act, role), state in item.moves.items() if role == I
        ]
        for act, state in (*openers, *moves):
            if state in ENDED:
                continue
            answer, _ = refusal_of(act, _error(kind))
            follows = rules.states[state].moves
            fails_to_cancel = act == "CANCEL" and answer == "FAILURE" and (CANCEL_FAILED, P) in follows
            if answer != "NOT_UNDERSTOOD" and (answer, P) not in follows and not fails_to_cancel:
                dropped.append((protocol, act, state, answer))
    assert dropped == []
