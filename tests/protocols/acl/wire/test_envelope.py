"""The envelope: what is read, what is kept, what is refused and why."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from acl_messages import BLOCKS, PAYLOADS, TEMPLATE_WORDS, message
from sabir.errors import BadInput, BadMessage, UnknownVersion, Unreadable, tree
from sabir.protocols.acl.wire.acts import ACTS, read_payload
from sabir.protocols.acl.wire.comments import without_comments
from sabir.protocols.acl.wire.envelope import Envelope, decode, encode, envelope_of, plain, stamp, time_of
from sabir.protocols.acl.wire.ide import from_ide, is_ide, to_ide
from sabir.protocols.acl.wire.ontologies import TERMS, result_ontology
from sabir.protocols.acl.wire.payloads import seconds_of
from sabir.protocols.acl.wire.reasons import CODES, report_of


def chosen(text: str) -> str:
    """A block of the draft with its template words replaced."""
    for word, choice in TEMPLATE_WORDS.items():
        text = text.replace(word, choice)
    return text


@pytest.mark.parametrize(("act", "text"), BLOCKS, ids=[f"{n}-{act}" for n, (act, _) in enumerate(BLOCKS)])
def test_every_block_of_the_draft_is_read_and_comes_back_equal(act: str, text: str) -> None:  # ACL-5
    value = json.loads(without_comments(chosen(text)))
    if act == "envelope":
        value["payload"] = PAYLOADS["TASK_REQUEST"]
    else:
        value = message(act, payload=value, in_reply_to="msg_1")
    assert json.loads(encode(envelope_of(value))) == value


@pytest.mark.parametrize(
    ("act", "where", "reason"),
    [
        ("envelope", "$.performative", "unknown_performative"),
        ("INFORM_RESULT", "$.payload.task_status", "invalid_payload_structure"),
        ("QUERY_CAPABILITIES", "$.payload.query_type", "invalid_payload_structure"),
    ],
)
def test_template_words_of_the_draft_are_refused_with_their_path(act: str, where: str, reason: str) -> None:  # ACL-5
    value = json.loads(without_comments(next(text for name, text in BLOCKS if name == act)))
    if act != "envelope":
        value = message(act, payload=value, in_reply_to="msg_1")
    with pytest.raises(BadMessage) as raised:
        envelope_of(value)
    assert (raised.value.where, report_of(raised.value).reason) == (where, reason)


def test_unknown_fields_are_kept() -> None:  # ACL-1
    value = message(hops=3, x_trace={"id": 1})
    value["sender"] = {"agent_id": "eddy", "display": "Eddy"}
    value["payload"] = {**PAYLOADS["TASK_REQUEST"], "color": "blue"}
    assert json.loads(encode(envelope_of(value))) == value


def test_optional_fields_are_kept() -> None:  # ACL-1
    more = {
        "conversation_id": "c1",
        "protocol": "request",
        "reply_by": "2026-11-16T19:00:00+01:00",
        "reply_to": "eddy",
        "reply_with": "r1",
        "signature": "a..b",
    }
    assert plain(envelope_of(message(**more))) == message(**more)


def test_a_message_without_a_version_is_read_as_the_draft_unless_the_door_is_strict() -> None:  # ACL-2
    value = message()
    del value["mcp_version"]
    assert envelope_of(value).mcp_version == "0.1.0"
    with pytest.raises(UnknownVersion):
        envelope_of(value, strict=True)


@pytest.mark.parametrize("version", ["0.2.0", "1.0", 1, ""])
def test_another_version_is_not_understood_and_the_known_one_is_named(version: Any) -> None:  # ACL-2
    with pytest.raises(UnknownVersion, match=r"\$.mcp_version: expected one of the known versions: 0.1.0") as raised:
        envelope_of(message(mcp_version=version))
    assert report_of(raised.value)[:2] == ("NOT_UNDERSTOOD", "unsupported_value")


@pytest.mark.parametrize("message_id", ["msg_eddy_17", "x", "y" * 200, "9a7f1c1e-7f10-4a52-9a57-1c1e7f104a52"])
def test_any_printable_id_is_accepted(message_id: str) -> None:  # ACL-3
    assert envelope_of(message(message_id=message_id)).message_id == message_id


@pytest.mark.parametrize("message_id", ["", "y" * 201, "two\nlines", 7, None])
def test_a_message_without_a_usable_id_is_a_parsing_error(message_id: Any) -> None:  # ACL-3
    with pytest.raises(BadMessage, match=r"\$.message_id: expected 1 to 200 printable characters") as raised:
        envelope_of(message(message_id=message_id))
    assert report_of(raised.value).reason == "parsing_error"


def test_times_are_written_in_utc_and_read_with_any_offset() -> None:  # ACL-4
    assert stamp(1763316000.25) == "2025-11-16T18:00:00.250Z"
    assert time_of("2025-11-16T19:00:00.250+01:00") == 1763316000.25
    assert envelope_of(message(timestamp="2025-11-16T19:00:00+01:00")).at == 1763316000.0
    with pytest.raises(BadMessage, match=r"\$.timestamp"):
        envelope_of(message(timestamp="yesterday"))


def test_comments_are_refused_on_the_wire_with_their_line_and_read_where_people_write() -> None:  # ACL-6, C-12
    text = '{\n  "mcp_version": "0.1.0", // the version\n  "a": 1}'
    with pytest.raises(Unreadable, match=r"line 2, byte \d+: expected JSON without comments"):
        decode(text)
    assert json.loads(without_comments(text)) == {"mcp_version": "0.1.0", "a": 1}
    assert without_comments('{"url": "http://x/*y*/"}') == '{"url": "http://x/*y*/"}'


@pytest.mark.parametrize("act", ACTS)
def test_every_act_has_a_payload_type_and_an_example(act: str) -> None:  # ACL-7 to ACL-17
    value = message(act, in_reply_to="msg_1")
    assert json.loads(encode(envelope_of(value))) == value


@pytest.mark.parametrize("act", ACTS)
def test_a_missing_required_field_is_named(act: str) -> None:  # ACL-7 to ACL-17
    required = ACTS[act].payload.__struct_fields__[: -len(ACTS[act].payload.__struct_defaults__) or None]
    for name in required:
        payload = {key: value for key, value in PAYLOADS[act].items() if key != name}
        with pytest.raises(BadMessage, match=rf"\$.payload.{name}: expected a value, which is required"):
            read_payload(act, payload)


@pytest.mark.parametrize(
    ("task", "parameters", "missing"),
    [
        ("debug_code", {"code_to_debug": "x", "programming_language": "python"}, "desired_outcome"),
        ("refactor_code_snippet", {"programming_language": "python", "desired_outcome": "y"}, "code_snippet"),
    ],
)
def test_the_parameters_of_known_tasks_are_checked(task: str, parameters: dict[str, Any], missing: str) -> None:
    payload = {"task_type": task, "task_description": "do it", "task_parameters": parameters}  # ACL-7
    with pytest.raises(BadMessage, match=rf"\$.payload.task_parameters.{missing}"):
        read_payload("TASK_REQUEST", payload)


@pytest.mark.parametrize("act", [act for act in ACTS if ACTS[act].answers])
def test_an_act_that_answers_names_what_it_answers(act: str) -> None:  # ACL-15, C-4
    with pytest.raises(BadMessage, match=r"\$.in_reply_to: expected the id of the message that this") as raised:
        envelope_of(message(act))
    assert report_of(raised.value).reason == "missing_argument"


@pytest.mark.parametrize(
    ("payload", "said"),
    [
        ({"task_type": "ask", "task_description": 5}, r"\$.payload.task_description: expected a string"),
        ({"task_type": 1, "task_description": "x"}, r"\$.payload.task_type: expected a string"),
        (
            {"task_type": "ask", "task_description": "x", "result_by": "soon"},
            r"\$.payload.result_by: expected an ISO 8601 time",
        ),
    ],
)
def test_a_value_of_another_type_is_named_with_what_was_expected(payload: dict[str, Any], said: str) -> None:  # ACL-7
    with pytest.raises(BadMessage, match=said):
        envelope_of(message("TASK_REQUEST", payload=payload))


def test_the_six_answering_acts_of_the_draft_are_among_them() -> None:  # ACL-15
    answering = {act for act in list(ACTS)[:10] if ACTS[act].answers}
    wanted = {"TASK_ACCEPT", "INFORM_RESULT", "TASK_REJECT", "FAILURE", "NOT_UNDERSTOOD", "INFORM_CAPABILITIES"}
    assert answering == wanted


@pytest.mark.parametrize("status", ["success", "SUCCESS", "TASK_SUCCESS", "Task_Success"])
def test_statuses_are_read_however_they_are_spelled(status: str) -> None:  # A-6
    read = read_payload("INFORM_RESULT", {**PAYLOADS["INFORM_RESULT"], "task_status": status})
    assert read.task_status == "success"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        (300, 300.0),
        ("PT5M", 300.0),
        ("P1DT1H", 90000.0),
        ("300", 300.0),
        ("soon", None),
        ("P", None),
        (10**400, None),
        ("inf", None),
        ("nan", None),
        ("P" + "9" * 400 + "D", None),
    ],
)
def test_estimates_are_seconds_or_durations(given: Any, seconds: float | None) -> None:  # A-6, ACL-8
    assert seconds_of(given) == seconds


@pytest.mark.parametrize(
    ("receiver", "kind", "names"),
    [
        ({"agent_id": "jules"}, "agent", ("jules",)),
        ({"agent_ids": ["a", "b", "a"]}, "agents", ("a", "b")),
        ({"group": "coders"}, "group", ("coders",)),
        ({"agent_id": "*"}, "everybody", ("*",)),
    ],
)
def test_a_receiver_is_one_several_a_group_or_all(receiver: dict[str, Any], kind: str, names: tuple[str, ...]) -> None:
    envelope = envelope_of(message(receiver=receiver))  # A-4
    assert (envelope.receiver_kind, envelope.receiver_ids) == (kind, names)


@pytest.mark.parametrize(
    ("receiver", "where"),
    [
        ({}, "$.receiver"),
        ({"agent_id": "a", "group": "b"}, "$.receiver"),
        ({"agent_ids": []}, "$.receiver.agent_ids"),
        ({"agent_ids": ["ok", "two words"]}, r"$.receiver.agent_ids[1]"),
        ({"agent_id": "x" * 65}, "$.receiver.agent_id"),
        ("jules", "$.receiver"),
    ],
)
def test_an_invalid_receiver_is_refused_with_its_path(receiver: Any, where: str) -> None:  # ACL-42
    with pytest.raises(BadMessage) as raised:
        envelope_of(message(receiver=receiver))
    assert raised.value.where == where


def test_prose_needs_only_its_text() -> None:  # ACL-20, A-12
    envelope = envelope_of(message(language="de", payload={"text": "Sag hallo"}))
    assert envelope.content.text == "Sag hallo"  # type: ignore[attr-defined]
    with pytest.raises(BadMessage, match=r"\$.payload.task_type"):
        envelope_of(message(payload={"text": "Say hello"}))


def test_the_eleven_terms_of_the_draft_are_known_and_name_known_acts() -> None:  # ACL-21, C-6
    assert len(TERMS) == 11
    assert all(act in ACTS for term in TERMS.values() for act in term.acts)
    debug = "elizaos:ontology:code/python/debug_request"
    assert result_ontology(debug, success=True).endswith("solution_provided")
    assert result_ontology(debug, success=False).endswith("debug_analysis")
    assert result_ontology("elizaos:coding", success=True) == "elizaos:coding"


@pytest.mark.parametrize("act", [act for act in ACTS if ACTS[act].ontology])
def test_the_default_ontology_of_an_act_is_a_term_for_it(act: str) -> None:  # ACL-21
    assert act in TERMS[ACTS[act].ontology].acts


@pytest.mark.parametrize("term", ["elizaos:coding", "elizaos:ide:explain_code", ""])
def test_short_forms_of_an_ontology_are_accepted_unless_the_door_is_strict(term: str) -> None:  # ACL-21
    assert envelope_of(message(ontology=term)).ontology == term
    with pytest.raises(BadMessage, match=r"\$.ontology") as raised:
        envelope_of(message(ontology=term), strict=True)
    assert report_of(raised.value).reason == "unknown_ontology"


def test_alternatives_are_listed_in_order_of_preference() -> None:  # ACL-23
    value = message(ontology=["elizaos:coding", "elizaos:general"], language=["de", "application/json"])
    assert envelope_of(value).ontologies == ("elizaos:coding", "elizaos:general")
    assert json.loads(encode(envelope_of(value))) == value


def test_every_error_has_its_act_and_code() -> None:  # ACL-11
    assert set(tree()) == set(CODES)
    assert all(report.act in ACTS for report in CODES.values())


@pytest.mark.parametrize("value", [[], 1, None, "text", {"performative": 1}, {"performative": "HELLO"}])
def test_an_invalid_message_is_rejected_with_the_place_of_the_mistake(value: Any) -> None:
    with pytest.raises(BadInput):
        envelope_of(value)


# -- the envelope of the IDE extension --------------------------------------------------------------


def ide(performative: str, **more: Any) -> dict[str, Any]:
    return {
        "conversation_id": "c1",
        "performative": performative,
        "ontology": "elizaos:ide:explain_code",
        "payload": {"code": "x = 1"},
        "sender": "vscode",
        "receiver": "jules",
        **more,
    }


@pytest.mark.parametrize(
    ("old", "act"), [("REQUEST", "TASK_REQUEST"), ("CANCEL", "CANCEL"), ("QUERY_REF", "QUERY_REF")]
)
def test_the_words_of_the_ide_are_read_as_their_refined_acts(old: str, act: str) -> None:  # ACL-16, A-8
    value = ide(old, payload={"reference": "x"} if old == "QUERY_REF" else {"code": "x = 1"})
    assert is_ide(value)
    envelope = from_ide(value, "id-1")
    assert (envelope.performative, envelope.sender_id, envelope.receiver_ids) == (act, "vscode", ("jules",))
    assert envelope.conversation_id == "c1"


@pytest.mark.parametrize("word", ["REQUEST", "ACCEPT", "INFORM", "REJECT"])
def test_old_words_are_not_acts_of_the_drafts_envelope(word: str) -> None:  # ACL-16
    assert not is_ide(message())
    with pytest.raises(BadMessage, match=r"\$.performative"):
        envelope_of({**message(), "performative": word})


def test_the_ide_is_answered_in_its_own_form() -> None:  # A-8
    answer = envelope_of(message("TASK_REJECT", in_reply_to="id-1", conversation_id="c1"))
    reply = to_ide(answer, "vscode")
    assert (reply["performative"], reply["sender"], reply["receiver"]) == ("REJECT", "eddy", "vscode")
    assert reply["error"] == {"code": "busy", "message": ""}


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"mcp_version": "0.1.7", "language": ("de", "en"), "ontology": ("a", "b")},
        {"in_reply_to": "m0", "reply_with": "r", "conversation_id": "c", "timestamp": "2026-01-01T00:00:00Z"},
        {"protocol": "request", "reply_by": "2026-01-01", "reply_to": "https://x.example", "signature": "s"},
        {"extra": {"about": "jules"}, "ontology": "a"},
    ],
)
def test_a_message_is_written_in_the_order_of_the_draft_with_all_it_has(more: dict[str, Any]) -> None:  # ACL-1
    parties = {"sender": {"agent_id": "eddy"}, "receiver": {"agent_id": "jules"}}
    given = Envelope(message_id="m1", performative="TASK_REQUEST", payload={"task_type": "x"}, **parties, **more)
    text = encode(given)
    assert text == msgspec.json.encode(plain(given))
    assert list(msgspec.json.decode(text))[:1] == ["mcp_version"]
    assert msgspec.json.decode(text)["language"] == (["de", "en"] if "language" in more else "application/json")
