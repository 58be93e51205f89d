"""The A2A wire: the hub's values as A2A says them, and back; errors and losses as data."""

from __future__ import annotations

import pytest
from a2a.types import a2a_pb2 as pb
from a2a.utils.errors import A2A_ERROR_MAPPING, JSON_RPC_ERROR_CODE_MAP
from google.protobuf.json_format import MessageToDict

from sabir.errors import BadMessage, SabirError, TooLarge, UnknownVersion, tree
from sabir.events import Delta, Fault, Field, Progress, Question, Reply
from sabir.limits import Limits
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
from sabir.protocols.a2a.door.http import problem_of
from sabir.protocols.a2a.wire import content as a2a
from sabir.protocols.a2a.wire import tasks
from sabir.protocols.a2a.wire.client import TaskReader
from sabir.protocols.a2a.wire.parts import keep, part_from, part_to
from sabir.protocols.a2a.wire.parts import value_to as a2a_value

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
    "a table": (binary_part(b"a,b", "generic/csv"), {"raw": "YSxi", "mediaType": "text/csv"}),
    "any bytes": (binary_part(b"\x00", "generic/octet-stream"), {
        "raw": "AA==", "mediaType": "application/octet-stream"}),
    "a reading": (binary_part(b"\x01", "sensor/csv"), {
        "raw": "AQ==", "mediaType": "text/csv", "metadata": {"nlip": {"subformat": "sensor/csv"}}}),
    "a place in words": (Part("location", "text", "Ghent"), {
        "text": "Ghent", "metadata": {"nlip": {"format": "location", "subformat": "text"}}}),
    "an extension": (Part("generic", "x-vote", {"for": "a"}), {
        "data": {"for": "a"}, "mediaType": "application/json",
        "metadata": {"nlip": {"format": "generic", "subformat": "x-vote"}}}),
}  # fmt: skip


@pytest.mark.parametrize("name", VECTORS)
def test_parts_are_the_same_after_the_way_there_and_back(name: str) -> None:
    part, answer = VECTORS[name]
    made = part_to(part)
    assert a2a.plain(made) == answer
    assert part_from(made) == part


# Parts of other agents, which must come out as they went in.
FOREIGN = {
    "a file of text": pb.Part(raw=b"a,b", media_type="text/csv; charset=latin-1", filename="a.csv"),
    "a model": pb.Part(raw=b"glTF", media_type="model/gltf-binary"),
    "Markdown": pb.Part(text="# hi", media_type="text/markdown"),
    "words that say that they are": pb.Part(text="hi", media_type="text/plain", filename="hi.txt"),
    "a link to a PDF": pb.Part(url="https://example.com/a", media_type="application/pdf", filename="a.pdf"),
    "data of another type": pb.Part(data=a2a_value({"a": 1}), media_type="application/geo+json", filename="a.json"),
}


@pytest.mark.parametrize("name", FOREIGN)
@pytest.mark.parametrize("metadata", [{}, {"https://example.com/ext": {"n": [1, {"deep": True}]}}])
def test_a_part_of_another_agent_survives_unchanged(name: str, metadata: dict[str, object]) -> None:
    part = pb.Part()
    part.CopyFrom(FOREIGN[name])
    if metadata:
        part.metadata.update(metadata)
    message = a2a.message_from(pb.Message(parts=[pb.Part(text="first"), part]))
    assert a2a.message_to(message, message_id="m").parts[1] == part
    alone = a2a.message_from(pb.Message(parts=[part]))
    assert a2a.message_to(alone, message_id="m").parts[0] == part


def test_a_message_of_another_agent_keeps_its_metadata_and_extensions() -> None:
    sent = pb.Message(message_id="m", parts=[pb.Part(text="hi")], extensions=["https://example.com/ext"])
    sent.metadata.update({"https://example.com/ext": {"trace": 7}})
    sent.role = pb.ROLE_USER
    assert a2a.message_to(a2a.message_from(sent), message_id="m") == sent


@pytest.mark.parametrize("value", [10**400, 2**70, float("nan"), float("inf"), b"\x00", {1: 2}])
def test_values_of_other_protocols_never_break_a_message(value: object) -> None:
    part = keep(json_part({"n": value}), metadata={"n": value})
    message = a2a.note(Message.of(text_part("hi"), part), metadata={"n": value})
    assert len(a2a.message_to(message, message_id="m").parts) == 2


@pytest.mark.parametrize("uri", ["", "a b", "a,b", "a\r\nx: y", "ü", "x" * 300, 5, None])
def test_an_extension_that_no_header_can_hold_is_left_out(uri: object) -> None:
    message = a2a.note(Message.text("hi"), extensions=["urn:x", uri, "https://example.com/e?v=1#a"])
    assert list(a2a.message_to(message, message_id="m").extensions) == ["urn:x", "https://example.com/e?v=1#a"]


def test_a_place_by_coordinates_keeps_its_point() -> None:
    made = part_to(location_part(47.37, 8.54))
    assert MessageToDict(made.data) == {"latitude": 47.37, "longitude": 8.54}
    assert part_from(made).gps == (47.37, 8.54)


def test_a_message_keeps_its_parts_its_type_and_not_its_tokens() -> None:
    message = Message.of(text_part("a"), json_part({"b": 1}, label="x"), token_part("secret"), messagetype="control")
    made = a2a.message_to(message, message_id="m1", context="c1")
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
    with pytest.raises(TooLarge):
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
        part_from(part)


def test_what_a2a_cannot_carry_is_listed_and_is_all() -> None:
    """Each loss, shown; what is not in the list crosses, as the vectors show."""
    shown = {
        "tokens other than the conversation's": (token_part("t", "authentication_x"), None),
        "byte strings inside JSON values, which become base64 text": (
            json_part({"a": b"\x00"}),
            json_part({"a": "AA=="}),
        ),
        "the difference between 1.0 and 1: both arrive as 1": (json_part({"a": 1.0}), json_part({"a": 1})),
        "metadata of tasks, status messages and stream events, and the ids of tasks that a message refers to": (
            pb.Message(parts=[pb.Part(text="a")], reference_task_ids=["t0"]),
            pb.Message(parts=[pb.Part(text="a")], role=pb.ROLE_USER),
        ),
    }
    assert tuple(shown) == a2a.LOSSES
    for before, after in shown.values():
        if isinstance(before, pb.Message):
            assert a2a.message_to(a2a.message_from(before), message_id="") == after
        elif after is None:
            made = a2a.message_to(Message.of(text_part("a"), before), message_id="m")
            assert a2a.message_from(made) == Message.text("a")
        else:
            assert part_from(before if isinstance(before, pb.Part) else part_to(before)) == after
    assert type(part_from(part_to(json_part({"a": 1.0}))).content["a"]) is int


# -- errors -------------------------------------------------------------------------------------


def test_every_error_has_a_code_of_the_protocol() -> None:
    assert set(a2a.CODES) == set(tree(SabirError))
    assert set(a2a.CODES.values()) <= set(a2a.REASONS)


def test_the_reasons_match_the_sdk() -> None:
    for error, mapping in A2A_ERROR_MAPPING.items():
        assert a2a.REASONS[JSON_RPC_ERROR_CODE_MAP[error]][0] == mapping.reason


# Section 5.4 of the specification, 1.0. The SDK has other words for some of them.
STATUSES = {
    -32001: ("NOT_FOUND", 404),
    -32002: ("FAILED_PRECONDITION", 409),
    -32003: ("UNIMPLEMENTED", 400),
    -32004: ("UNIMPLEMENTED", 400),
    -32005: ("INVALID_ARGUMENT", 415),
    -32006: ("INTERNAL", 502),
    -32007: ("FAILED_PRECONDITION", 400),
    -32008: ("FAILED_PRECONDITION", 400),
    -32009: ("UNIMPLEMENTED", 400),
}


def test_the_statuses_match_the_specification() -> None:
    assert {code: a2a.REASONS[code][1:] for code in STATUSES} == STATUSES


@pytest.mark.parametrize(("asked", "version"), [("", "0.3"), ("1.0", "1.0"), ("1.0.4", "1.0"), ("0.3.0", "0.3")])
def test_a_version_is_read_as_major_and_minor(asked: str, version: str) -> None:
    assert a2a.version_of(asked) == version


@pytest.mark.parametrize("asked", ["0.2", "0.5", "1", "1.1", "2.0", "99.0", "one"])
def test_other_versions_are_rejected(asked: str) -> None:
    with pytest.raises(UnknownVersion, match=r"A2A-Version: expected 1\.0"):
        a2a.version_of(asked)


@pytest.mark.parametrize("kind", list(tree(SabirError)), ids=lambda kind: kind.__name__)
def test_every_error_can_be_sent(kind: type[SabirError]) -> None:
    raised = kind.__new__(kind)
    Exception.__init__(raised, "why")
    raised.reason, raised.where, raised.expected = "why", "$", "x"  # type: ignore[attr-defined]
    problem = problem_of(raised)
    assert problem.code == a2a.CODES[kind]
    assert 400 <= problem.status < 600


# -- what is read -------------------------------------------------------------------------------


def view(state: str = "working", **more: object) -> tasks.TaskView:
    return tasks.TaskView("t1", "c1", state, 1.5, Message.text("asked"), **more)  # type: ignore[arg-type]


def read(*events: object) -> tuple[TaskReader, list[object]]:
    reader = TaskReader()
    made: list[object] = []
    for event in events:
        names = {
            pb.Task: "task",
            pb.TaskStatusUpdateEvent: "status_update",
            pb.TaskArtifactUpdateEvent: "artifact_update",
        }
        made += reader.feed(pb.StreamResponse(**{names.get(type(event), "message"): event}))
    return reader, made


def test_pieces_are_read_as_they_come_and_make_the_reply() -> None:
    one, two = text_part("one "), text_part("two")
    reader, events = read(
        tasks.task_to(view("submitted")),
        tasks.piece_update(view(), one, ()),
        tasks.progress_update(view(), 0.5, "half"),
        tasks.piece_update(view(), two, (one,)),
        tasks.status_update(view("completed")),
    )
    assert events == [Delta(one), Progress(0.5, "half"), Delta(two), Reply(Message.text("one two"))]
    assert (reader.task, reader.context, reader.ended) == ("t1", "c1", True)


def test_after_a_reconnection_nothing_is_repeated() -> None:
    parts = (text_part("one "),)
    _, events = read(
        tasks.piece_update(view(), text_part("one "), ()),
        tasks.task_to(view(pieces=parts)),
        tasks.task_to(view(pieces=(text_part("one two"),))),
        tasks.piece_update(view(), text_part(" three"), parts),
        tasks.status_update(view("completed")),
    )
    assert events == [
        Delta(text_part("one ")),
        Delta(text_part("two")),
        Delta(text_part(" three")),
        Reply(Message.text("one two three")),
    ]


def test_a_question_keeps_its_shape() -> None:
    question = Question("Which?", (Field("c", "Colour", "single_select", ("red", "blue")),), {"type": "object"}, "q1")
    reader, events = read(tasks.task_to(view("input-required", question=question)))
    assert events == [question]
    assert reader.asks and not reader.ended


def test_a_question_of_an_agent_that_knows_no_shapes_is_its_words() -> None:
    status = pb.TaskStatus(state=pb.TASK_STATE_INPUT_REQUIRED)
    status.message.parts.append(pb.Part(text="When?"))
    assert read(pb.Task(id="t", status=status))[1] == [Question("When?")]
    bare = pb.Task(id="t", status=pb.TaskStatus(state=pb.TASK_STATE_AUTH_REQUIRED))
    assert read(bare)[1] == [Question("Authentication is required.", is_authentication=True)]


@pytest.mark.parametrize(
    ("question", "state"),
    [
        (Question("Which?"), pb.TASK_STATE_INPUT_REQUIRED),
        (Question("Please log in.", is_authentication=True), pb.TASK_STATE_AUTH_REQUIRED),
    ],
)
def test_a_question_has_the_state_of_its_kind(question: Question, state: int) -> None:
    made = tasks.task_to(view("input-required", question=question))
    assert made.status.state == state
    assert read(made)[1] == [question]


@pytest.mark.parametrize("code", ["failed", "refused", "deadline", "unavailable", "not_found", "invalid"])
def test_a_fault_keeps_its_code(code: str) -> None:
    assert read(tasks.task_to(view("failed", fault="why", fault_code=code)))[1] == [Fault("why", code)]


def test_a_message_in_place_of_a_task_is_the_reply() -> None:
    reader, events = read(pb.Message(message_id="m", context_id="c9", parts=[pb.Part(text="hi")]))
    assert events == [Reply(a2a.note(Message.text("hi"), direct=True))]
    assert (reader.context, reader.ended) == ("c9", True)


def test_the_text_of_a_completed_status_is_the_reply_if_there_are_no_artifacts() -> None:
    status = pb.TaskStatus(state=pb.TASK_STATE_COMPLETED)
    status.message.parts.append(pb.Part(text="done"))
    assert read(pb.Task(id="t", status=status))[1] == [Reply(Message.text("done"))]


def artifact(id_: str, *texts: str, **fields: object) -> pb.Artifact:
    return pb.Artifact(artifact_id=id_, parts=[pb.Part(text=text) for text in texts], **fields)  # type: ignore[arg-type]


def completed(*artifacts: pb.Artifact, words: str = "") -> pb.Task:
    status = pb.TaskStatus(state=pb.TASK_STATE_COMPLETED)
    if words:
        status.message.parts.append(pb.Part(text=words))
    return pb.Task(id="t", status=status, artifacts=artifacts)


def reply_in(task: pb.Task) -> Message:
    last = read(task)[1][-1]
    assert isinstance(last, Reply)
    return last.message


def test_artifacts_stay_apart_and_keep_what_is_said_about_them() -> None:
    one = artifact("a", "first", " half", name="Report", description="of the day", extensions=["urn:x"])
    one.metadata.update({"pages": 2})
    task = completed(one, artifact("b", "second"))
    assert list(tasks.task_to(view("completed", reply=reply_in(task))).artifacts) == list(task.artifacts)


def test_artifacts_stay_apart_while_they_stream() -> None:
    _, events = read(
        pb.TaskArtifactUpdateEvent(task_id="t", artifact=artifact("a", "one ")),
        pb.TaskArtifactUpdateEvent(task_id="t", artifact=artifact("b", "other")),
        pb.TaskArtifactUpdateEvent(task_id="t", artifact=artifact("a", "two"), append=True),
    )
    pieces: list[Part] = []
    sent = []
    for event in events:
        assert isinstance(event, Delta)
        update = tasks.piece_update(view(), event.part, pieces)
        assert update is not None
        sent.append((update.artifact.artifact_id, update.artifact.parts[0].text, update.append))
        pieces.append(event.part)
    assert sent == [("a", "one ", False), ("b", "other", False), ("a", "two", True)]


def test_the_text_of_the_last_status_comes_with_the_artifacts() -> None:
    task = completed(artifact("a", "the report"), words="All done; see the report.")
    _, events = read(task)
    assert [event.part.content for event in events if isinstance(event, Delta)] == [
        "the report",
        "All done; see the report.",
    ]
    made = tasks.task_to(view("completed", reply=reply_in(task)))
    assert [part.text for part in made.status.message.parts] == ["All done; see the report."]
    assert [(item.artifact_id, item.parts[0].text) for item in made.artifacts] == [("a", "the report")]


def test_a_status_that_repeats_the_artifacts_is_read_once() -> None:
    task = completed(artifact("reply", "one", "two", name="reply"), words="one\ntwo")
    assert reply_in(task) == Message.of(text_part("one"), text_part("two"))


def test_the_words_of_the_reply_are_in_the_last_status_too() -> None:
    made = tasks.task_to(view("completed", reply=Message.of(json_part({"a": 1}), text_part("That is all."))))
    assert [part.text for part in made.status.message.parts] == ["That is all."]
    assert len(made.artifacts[0].parts) == 2
    silent = tasks.task_to(view("completed", reply=Message.json({"a": 1})))
    assert not silent.status.HasField("message")


def test_an_answer_of_no_kind_is_refused() -> None:
    with pytest.raises(BadMessage):
        TaskReader().feed(pb.StreamResponse())
