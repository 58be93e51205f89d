"""A2A tasks: the state of a task and its updates as ``a2a.types``, built from the stored data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

import msgspec
from a2a.types import a2a_pb2 as pb
from google.protobuf import timestamp_pb2

from sabir.events import Question
from sabir.message import Message, Part, text_part

from .content import message_to, question_parts, spoken
from .parts import MARK, kept, part_to
from .values import plain, struct_to

REPLY: Final = "reply"  # the artifact of an answer without artifacts of its own
_OF_A_REPLY: Final[Mapping[str, Any]] = {"artifactId": REPLY, "name": REPLY}  # nothing worth keeping

STATES: Final[Mapping[str, pb.TaskState]] = {
    "submitted": pb.TASK_STATE_SUBMITTED,
    "working": pb.TASK_STATE_WORKING,
    "input-required": pb.TASK_STATE_INPUT_REQUIRED,
    "completed": pb.TASK_STATE_COMPLETED,
    "failed": pb.TASK_STATE_FAILED,
    "cancelled": pb.TASK_STATE_CANCELED,
    "expired": pb.TASK_STATE_FAILED,
}
ENDS: Final = frozenset({pb.TASK_STATE_COMPLETED, pb.TASK_STATE_FAILED, pb.TASK_STATE_CANCELED, pb.TASK_STATE_REJECTED})

Update: TypeAlias = pb.TaskStatusUpdateEvent | pb.TaskArtifactUpdateEvent


class TaskView(msgspec.Struct, frozen=True):
    """A task as clients see it, built from the stored row and its events."""

    id: str
    context: str
    state: str
    updated: float
    asked: Message
    reply: Message | None = None
    pieces: tuple[Part, ...] = ()
    question: Question | None = None
    fault: str = ""
    fault_code: str = ""
    note: str = ""
    talk: tuple[tuple[bool, Message], ...] = ()  # messages after the first: whether the agent sent it, and the message
    asked_id: str = ""
    status: tuple[Part, ...] = ()  # the text of the status, if it does not follow from the rest


def task_to(view: TaskView, *, history: int | None = None, artifacts: bool = True) -> pb.Task:
    """A task in A2A's form. ``history`` is how many of its messages are wanted; None: all."""
    task = pb.Task(id=view.id, context_id=view.context, status=status_to(view))
    if artifacts:
        parts = spoken(view.reply) if view.reply is not None else list(view.pieces)
        task.artifacts.extend(artifacts_of(parts))
    said = _history(view)
    task.history.extend(said if history is None else said[max(0, len(said) - history) :])
    return task


def _history(view: TaskView) -> list[pb.Message]:
    said = [message_to(view.asked, message_id=view.asked_id or f"{view.id}-0", context=view.context, task=view.id)]
    for number, (by_agent, message) in enumerate(view.talk, 1):
        role = pb.ROLE_AGENT if by_agent else pb.ROLE_USER
        said.append(
            message_to(message, message_id=f"{view.id}-{number}", context=view.context, task=view.id, role=role)
        )
    return said


def status_to(view: TaskView) -> pb.TaskStatus:
    """The state of a task with its text: the question, the failure, the progress, the answer."""
    status = pb.TaskStatus(state=_state(view), timestamp=_time(view.updated))
    parts = view.status or _status_parts(view)
    if parts:
        said = Message.of(*parts)
        status.message.CopyFrom(
            message_to(said, message_id=f"{view.id}-status", context=view.context, task=view.id, role=pb.ROLE_AGENT)
        )
        if view.fault_code:
            status.message.metadata.update({MARK: {"fault": view.fault_code}})
    return status


def _state(view: TaskView) -> pb.TaskState:
    if view.state == "failed" and view.fault_code == "refused":
        return pb.TASK_STATE_REJECTED
    if view.state == "input-required" and view.question is not None and view.question.is_authentication:
        return pb.TASK_STATE_AUTH_REQUIRED
    return STATES[view.state]


def _status_parts(view: TaskView) -> list[Part]:
    match view.state:
        case "completed" if view.reply is not None:
            return final_words(spoken(view.reply))
        case "input-required" if view.question is not None:
            return list(question_parts(view.question))
        case "failed" | "cancelled" if view.fault:
            return [text_part(view.fault)]
        case "expired":
            return [text_part(view.fault or "the task has expired")]
        case "working" if view.note:
            return [text_part(view.note)]
        case _:
            return []


def final_words(parts: Iterable[Part]) -> list[Part]:
    """The text of a task's last status, as a remote agent sent it; otherwise the text of the answer.

    Some clients read the answer from the status only, others from the artifacts only.
    """
    listed = list(parts)
    return [part for part in listed if kept(part).get("status")] or [part for part in listed if part.format == "text"]


def status_update(view: TaskView) -> pb.TaskStatusUpdateEvent:
    return pb.TaskStatusUpdateEvent(task_id=view.id, context_id=view.context, status=status_to(view))


def progress_update(view: TaskView, fraction: float | None, note: str) -> pb.TaskStatusUpdateEvent:
    update = status_update(msgspec.structs.replace(view, state="working", note=note))
    if fraction is not None:
        update.metadata.update({MARK: {"progress": fraction}})
    return update


# -- artifacts ----------------------------------------------------------------------------------


def artifacts_of(parts: Iterable[Part]) -> list[pb.Artifact]:
    """The artifacts of parts, in order; the final text of a status belongs to none."""
    made: dict[str, pb.Artifact] = {}
    for part in parts:
        if kept(part).get("status"):
            continue
        id_ = artifact_id(part)
        if id_ not in made:
            made[id_] = _artifact(part)
        made[id_].parts.append(part_to(part))
    return list(made.values())


def artifact_id(part: Part) -> str:
    said = kept(part).get("artifact")
    id_ = said.get("artifactId") if isinstance(said, dict) else None
    return id_ if isinstance(id_, str) and id_ else REPLY


def artifact_note(artifact: pb.Artifact) -> dict[str, Any]:
    """What is kept of a part's artifact."""
    note: dict[str, Any] = {"artifactId": artifact.artifact_id}
    if artifact.name:
        note["name"] = artifact.name
    if artifact.description:
        note["description"] = artifact.description
    if artifact.extensions:
        note["extensions"] = list(artifact.extensions)
    if artifact.HasField("metadata"):
        note["metadata"] = plain(artifact.metadata)
    return {} if note == _OF_A_REPLY else note


def _artifact(part: Part) -> pb.Artifact:
    said = kept(part).get("artifact")
    note = said if isinstance(said, dict) else _OF_A_REPLY
    made = pb.Artifact(artifact_id=artifact_id(part), name=_text(note, "name"), description=_text(note, "description"))
    extensions, metadata = note.get("extensions"), note.get("metadata")
    if isinstance(extensions, list):
        made.extensions.extend(item for item in extensions if isinstance(item, str))
    if isinstance(metadata, dict):
        made.metadata.MergeFrom(struct_to(metadata))
    return made


def _text(note: Mapping[str, Any], name: str) -> str:
    value = note.get(name)
    return value if isinstance(value, str) else ""


def piece_update(view: TaskView, part: Part, pieces: Iterable[Part]) -> pb.TaskArtifactUpdateEvent | None:
    """A piece of the answer, sent before it; ``pieces`` are those before. None for the final text of a status."""
    made = artifacts_of([part])
    if not made:
        return None
    append = any(artifact_id(piece) == made[0].artifact_id for piece in pieces)
    return pb.TaskArtifactUpdateEvent(task_id=view.id, context_id=view.context, artifact=made[0], append=append)


def reply_updates(view: TaskView) -> Iterator[pb.TaskArtifactUpdateEvent]:
    """The artifacts of the answer, without those already streamed."""
    if view.reply is None:
        return
    parts = spoken(view.reply)
    sent = {made.artifact_id: made for made in artifacts_of(run_together(view.pieces))}
    whole = {made.artifact_id: made for made in artifacts_of(run_together(parts))}
    for made in artifacts_of(parts):
        if sent.get(made.artifact_id) != whole[made.artifact_id]:
            yield pb.TaskArtifactUpdateEvent(
                task_id=view.id, context_id=view.context, artifact=made, append=False, last_chunk=True
            )


def run_together(parts: Iterable[Part]) -> list[Part]:
    """Pieces as one sequence: adjacent texts of one language and artifact are joined."""
    merged: list[Part] = []
    for part in parts:
        if merged and continues(merged[-1], part):
            last = merged[-1]
            merged[-1] = msgspec.structs.replace(last, content=f"{last.content}{part.content}")
        else:
            merged.append(part)
    return merged


def continues(last: Part, part: Part) -> bool:
    return (
        part.format == last.format == "text"
        and part.subformat == last.subformat
        and part.label == last.label
        and part.extra == last.extra
    )


def _time(at: float) -> timestamp_pb2.Timestamp:
    made = timestamp_pb2.Timestamp()
    made.FromMilliseconds(int(at * 1000))
    return made
