"""The A2A wire: the hub's values as A2A says them, and back; errors and losses as data."""

from __future__ import annotations

import pytest
from a2a.types import a2a_pb2 as pb
from a2a.utils.errors import A2A_ERROR_MAPPING, JSON_RPC_ERROR_CODE_MAP
from google.protobuf.json_format import MessageToDict

from sabir.doors.a2a_http import problem_of
from sabir.errors import BadMessage, SabirError, TooBig, tree
from sabir.events import Delta, Fault, Field, Progress, Question, Reply
from sabir.message import (
    Message,
    Part,
    binary_part,
    json_part,
    location_part,
    text_part,
    token_part,
    uri_part,
)
from sabir.wire import a2a
from sabir.wire.a2a_heard import Heard
from sabir.wire.rules import Limits

# One part, and what A2A says of it; read both ways.
VECTORS = {
    "words": (text_part("hi"), {"text": "hi"}),
    "French words": (text_part("oui", "french"), {"text": "oui", "metadata": {"nlip": {"subformat": "french"}}}),
    "labelled words": (text_part("hi", label="greeting"), {"text": "hi", "metadata": {"nlip": {"label": "greeting"}}}),
    "an object": (json_part({"a": [1, "b", None, True]}), {
        "data": {"a": [1, "b", None, True]}, "mediaType": "application/json"}),
    "a list": (json_part([1, 2]), {"data": [1, 2], "mediaType": "application/json"}),
    "nothing as JSON": (json_part(None), {"data": None, "mediaType": "application/json"}),
    "a number of 60 bits": (json_part({"id": 2**60}), {
        "text": '{"id":1152921504606846976}', "mediaType": "application/json"}),
    "a link": (uri_part("https://example.com/a"), {"url": "https://example.com/a"}),
    "a named link": (uri_part("https://example.com/a", label="a.pdf"), {
        "url": "https://example.com/a", "filename": "a.pdf"}),
    "a web page": (Part("structured", "html", "<p>"), {"text": "<p>", "mediaType": "text/html"}),
    "XML": (Part("structured", "xml", "<a/>"), {"text": "<a/>", "mediaType": "application/xml"}),
    "code": (Part("structured", "python", "print()"), {"text": "print()", "mediaType": "text/x-python"}),
    "a picture": (binary_part(b"\x89PNG", "image/png", label="a.png"), {
        "raw": "iVBORw==", "mediaType": "image/png", "filename": "a.png"}),
    "sound": (binary_part(b"RIFF", "audio/wav"), {"raw": "UklGRg==", "mediaType": "audio/wav"}),
    "any bytes": (binary_part(b"\x00", "generic/octet-stream"), {
        "raw": "AA==", "mediaType": "application/octet-stream"}),
    "a reading": (binary_part(b"\x01", "sensor/csv"), {
        "raw": "AQ==", "mediaType": "application/csv", "metadata": {"nlip": {"subformat": "sensor/csv"}}}),
    "a place in words": (Part("location", "text", "Ghent"), {
        "text": "Ghent", "metadata": {"nlip": {"format": "location", "subformat": "text"}}}),
    "an extension": (Part("generic", "x-vote", {"for": "a"}), {
        "data": {"for": "a"}, "mediaType": "application/json",
        "metadata": {"nlip": {"format": "generic", "subformat": "x-vote"}}}),
}  # fmt: skip


@pytest.mark.parametrize("name", VECTORS)
def test_parts_are_the_same_after_the_way_there_and_back(name: str) -> None:
    part, told = VECTORS[name]
    made = a2a.part_to(part)
    assert a2a.plain(made) == told
    assert a2a.part_from(made) == part


def test_a_place_by_coordinates_keeps_its_point() -> None:
    made = a2a.part_to(location_part(47.37, 8.54))
    assert MessageToDict(made.data) == {"latitude": 47.37, "longitude": 8.54}
    assert a2a.part_from(made).gps == (47.37, 8.54)


def test_a_message_keeps_its_parts_its_type_and_not_its_tokens() -> None:
    message = Message.of(text_part("a"), json_part({"b": 1}, label="x"), token_part("secret"), messagetype="control")
    made = a2a.message_to(message, id="m1", context="c1")
    assert (made.message_id, made.context_id, made.role) == ("m1", "c1", pb.ROLE_USER)
    assert "secret" not in str(made)
    assert a2a.message_from(made) == message.without_tokens()


@pytest.mark.parametrize(
    ("message", "where"),
    [
        (pb.Message(), r"\$\.message\.parts: expected at least one part"),
        (pb.Message(parts=[pb.Part(text="a"), pb.Part()]), r"\$\.message\.parts\[1\]: expected text, raw, url or data"),
    ],
)
def test_a_message_without_content_is_refused(message: pb.Message, where: str) -> None:
    with pytest.raises(BadMessage, match=where):
        a2a.message_from(message)


def test_too_many_parts_are_refused() -> None:
    with pytest.raises(TooBig):
        a2a.message_from(pb.Message(parts=[pb.Part(text="a")] * 5), Limits(submessages=3))


@pytest.mark.parametrize(
    "mark",
    [
        {"format": "token", "subformat": "authentication"},
        {"format": "nonsense"},
        {"subformat": 5},
        {"label": {}},
        {"format": "structured", "subformat": "uri"},
        {"format": "location", "subformat": "moon"},
    ],
)
def test_a_mark_that_does_not_fit_is_refused(mark: dict[str, object]) -> None:
    part = pb.Part(text="hello")
    part.metadata.update({"nlip": mark})
    with pytest.raises(BadMessage):
        a2a.part_from(part)


def test_what_a2a_cannot_carry_is_listed_and_is_all() -> None:
    """Each loss, shown; what is not in the list crosses, as the vectors show."""
    shown = {
        "tokens other than the conversation's": (token_part("t", "authentication_x"), None),
        "the media type of a text, unless it is HTML, XML, JSON or code": (
            pb.Part(text="# hi", media_type="text/markdown"),
            text_part("# hi"),
        ),
        "byte strings inside JSON values, which become base64 text": (
            json_part({"a": b"\x00"}),
            json_part({"a": "AA=="}),
        ),
        "whole numbers written as fractions (1.0), which become whole": (json_part({"a": 1.0}), json_part({"a": 1})),
    }
    assert tuple(shown) == a2a.LOSSES
    for before, after in shown.values():
        if after is None:
            made = a2a.message_to(Message.of(text_part("a"), before), id="m")
            assert a2a.message_from(made) == Message.text("a")
        else:
            assert a2a.part_from(before if isinstance(before, pb.Part) else a2a.part_to(before)) == after
    assert type(a2a.part_from(a2a.part_to(json_part({"a": 1.0}))).content["a"]) is int


# -- errors -------------------------------------------------------------------------------------


def test_every_error_has_a_code_of_the_protocol() -> None:
    assert set(a2a.CODES) == set(tree(SabirError))
    assert set(a2a.CODES.values()) <= set(a2a.REASONS)


def test_the_reasons_are_those_of_the_sdk() -> None:
    for error, mapping in A2A_ERROR_MAPPING.items():
        reason, word, _ = a2a.REASONS[JSON_RPC_ERROR_CODE_MAP[error]]
        assert (reason, word) == (mapping.reason, mapping.grpc_status)


@pytest.mark.parametrize("kind", list(tree(SabirError)), ids=lambda kind: kind.__name__)
def test_every_error_can_be_told(kind: type[SabirError]) -> None:
    wrong = kind.__new__(kind)
    Exception.__init__(wrong, "why")
    wrong.reason, wrong.where, wrong.expected = "why", "$", "x"  # type: ignore[attr-defined]
    problem = problem_of(wrong)
    assert problem.code == a2a.CODES[kind]
    assert 400 <= problem.status < 600


# -- what is heard ------------------------------------------------------------------------------


def told(state: str = "working", **more: object) -> a2a.Told:
    return a2a.Told("t1", "c1", state, 1.5, Message.text("asked"), **more)  # type: ignore[arg-type]


def heard(*events: object) -> tuple[Heard, list[object]]:
    ears = Heard()
    made: list[object] = []
    for event in events:
        names = {
            pb.Task: "task",
            pb.TaskStatusUpdateEvent: "status_update",
            pb.TaskArtifactUpdateEvent: "artifact_update",
        }
        made += ears.hear(pb.StreamResponse(**{names.get(type(event), "message"): event}))
    return ears, made


def test_pieces_are_heard_as_they_come_and_make_the_reply() -> None:
    one, two = text_part("one "), text_part("two")
    ears, events = heard(
        a2a.task_to(told("submitted")),
        a2a.piece_update(told(), one, append=False),
        a2a.progress_update(told(), 0.5, "half"),
        a2a.piece_update(told(), two, append=True),
        a2a.status_update(told("completed")),
    )
    assert events == [Delta(one), Progress(0.5, "half"), Delta(two), Reply(Message.text("one two"))]
    assert (ears.task, ears.context, ears.ended) == ("t1", "c1", True)


def test_after_a_reconnection_nothing_is_told_twice() -> None:
    parts = (text_part("one "),)
    _, events = heard(
        a2a.piece_update(told(), text_part("one "), append=False),
        a2a.task_to(told(pieces=parts)),
        a2a.task_to(told(pieces=(text_part("one two"),))),
        a2a.piece_update(told(), text_part(" three"), append=True),
        a2a.status_update(told("completed")),
    )
    assert events == [
        Delta(text_part("one ")),
        Delta(text_part("two")),
        Delta(text_part(" three")),
        Reply(Message.text("one two three")),
    ]


def test_a_question_keeps_its_shape() -> None:
    question = Question("Which?", (Field("c", "Colour", "single_select", ("red", "blue")),), {"type": "object"}, "q1")
    ears, events = heard(a2a.task_to(told("input-required", question=question)))
    assert events == [question]
    assert ears.asks and not ears.ended


def test_a_question_of_an_agent_that_knows_no_shapes_is_its_words() -> None:
    status = pb.TaskStatus(state=pb.TASK_STATE_INPUT_REQUIRED)
    status.message.parts.append(pb.Part(text="When?"))
    assert heard(pb.Task(id="t", status=status))[1] == [Question("When?")]
    bare = pb.Task(id="t", status=pb.TaskStatus(state=pb.TASK_STATE_AUTH_REQUIRED))
    assert heard(bare)[1] == [Question("Input is required.")]


@pytest.mark.parametrize("code", ["failed", "refused", "deadline", "unavailable", "not_found", "invalid"])
def test_a_fault_keeps_its_code(code: str) -> None:
    assert heard(a2a.task_to(told("failed", fault="why", fault_code=code)))[1] == [Fault("why", code)]


def test_a_message_in_place_of_a_task_is_the_reply() -> None:
    ears, events = heard(pb.Message(message_id="m", context_id="c9", parts=[pb.Part(text="hi")]))
    assert events == [Reply(Message.text("hi"))]
    assert (ears.context, ears.ended) == ("c9", True)


def test_words_beside_a_completed_status_are_the_reply_where_there_are_no_artifacts() -> None:
    status = pb.TaskStatus(state=pb.TASK_STATE_COMPLETED)
    status.message.parts.append(pb.Part(text="done"))
    assert heard(pb.Task(id="t", status=status))[1] == [Reply(Message.text("done"))]


def test_an_answer_of_no_kind_is_refused() -> None:
    with pytest.raises(BadMessage):
        Heard().hear(pb.StreamResponse())
