"""A2A on the client's side: the answers and updates of one task, as Events of the hub."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
from a2a.types import a2a_pb2 as pb
from google.protobuf.json_format import MessageToDict

from sabir.errors import BadMessage
from sabir.events import FAULTS, Delta, Event, Fault, Progress, Reply
from sabir.message import Message, Part

from .content import message_from, note, question_from
from .parts import MARK, PROTOCOL, keep, parts_from
from .tasks import ENDS, artifact_note, continues, run_together

_ASKING: Final = frozenset({pb.TASK_STATE_INPUT_REQUIRED, pb.TASK_STATE_AUTH_REQUIRED})
_FAULT_OF: Final[Mapping[int, str]] = {
    pb.TASK_STATE_FAILED: "failed",
    pb.TASK_STATE_CANCELED: "cancelled",
    pb.TASK_STATE_REJECTED: "refused",
}


class TaskReader:
    """Turns what a remote agent sends about one task into Events.

    ``feed`` takes every answer and update in order, including those after a reconnect, which repeat the whole task;
    what was already read is not returned twice.
    """

    __slots__ = ("_artifacts", "context", "state", "task")

    def __init__(self) -> None:
        self.task = ""
        self.context = ""
        self.state: int = pb.TASK_STATE_UNSPECIFIED
        self._artifacts: dict[str, list[Part]] = {}

    @property
    def ended(self) -> bool:
        return self.state in ENDS

    @property
    def asks(self) -> bool:
        return self.state in _ASKING

    def feed(self, response: pb.StreamResponse) -> list[Event]:
        """The events in one answer or update.

        Raises:
            BadMessage: it is not one of the four kinds.
        """
        match response.WhichOneof("payload"):
            case "message":
                self.context = response.message.context_id or self.context
                self.state = pb.TASK_STATE_COMPLETED
                return [Reply(note(message_from(response.message), direct=True))]
            case "task":
                return self._whole(response.task)
            case "status_update":
                self._known(response.status_update.task_id, response.status_update.context_id)
                return self._status(response.status_update.status, response.status_update)
            case "artifact_update":
                update = response.artifact_update
                self._known(update.task_id, update.context_id)
                return self._piece(update.artifact, update.append)
            case _:
                raise BadMessage(PROTOCOL, "$", "a task, a message, or an update of one")

    def _known(self, task: str, context: str) -> None:
        self.task = task or self.task
        self.context = context or self.context

    def _whole(self, task: pb.Task) -> list[Event]:
        self._known(task.id, task.context_id)
        events: list[Event] = []
        for artifact in task.artifacts:
            events += self._piece(artifact, append=False)
        return events + self._status(task.status, None)

    def _piece(self, artifact: pb.Artifact, append: bool) -> list[Event]:
        about = artifact_note(artifact)
        parts = [keep(part, artifact=about) for part in parts_from(artifact.parts, "$.artifact.parts")]
        before = self._artifacts.get(artifact.artifact_id, [])
        now = run_together([*before, *parts]) if append else parts
        self._artifacts[artifact.artifact_id] = now
        return [Delta(part) for part in (_beyond(run_together(before), run_together(now)) if before else now)]

    def _status(self, status: pb.TaskStatus, update: pb.TaskStatusUpdateEvent | None) -> list[Event]:
        self.state = status.state
        if self.asks:
            return [question_from(status.message, authentication=status.state == pb.TASK_STATE_AUTH_REQUIRED)]
        if status.state == pb.TASK_STATE_COMPLETED:
            return self._completed(status)
        if status.state in _FAULT_OF:
            words = "\n".join(p.text for p in status.message.parts if p.text)
            return [Fault(words or "the remote agent gave no reason", _fault_code(status))]
        note = "\n".join(p.text for p in status.message.parts if p.text)
        fraction = _fraction(update)
        return [Progress(fraction, note)] if note or fraction is not None else []

    def _completed(self, status: pb.TaskStatus) -> list[Event]:
        """The reply: all artifacts, followed by the text of the status."""
        parts = [part for artifact in self._artifacts.values() for part in artifact]
        said = parts_from(status.message.parts, "$.status.message.parts")
        if not parts:
            return [Reply(Message.of(*said) if said else Message.text(""))]
        added = [] if _words(said) == _words(parts) else [keep(part, status=True) for part in said if part not in parts]
        return [*(Delta(part) for part in added), Reply(Message.of(*parts, *added))]


def _words(parts: Iterable[Part]) -> list[str]:
    """The words of all texts; differently split texts are equal."""
    return " ".join(str(part.content) for part in parts if part.format == "text").split()


def _beyond(before: list[Part], now: list[Part]) -> list[Part]:
    """What ``now`` adds to ``before``; empty if it replaces it."""
    count = len(before)
    if now[: count - 1] != before[: count - 1] or len(now) < count:
        return []
    last, same = before[-1], now[count - 1]
    if last == same:
        return now[count:]
    if continues(last, same) and str(same.content).startswith(str(last.content)):
        rest = msgspec.structs.replace(same, content=str(same.content)[len(str(last.content)) :])
        return [rest, *now[count:]]
    return []


def _mark(holder: pb.Message | pb.TaskStatusUpdateEvent) -> Mapping[str, Any]:
    mark = MessageToDict(holder.metadata).get(MARK) if holder.HasField("metadata") else None
    return mark if isinstance(mark, dict) else {}


def _fault_code(status: pb.TaskStatus) -> str:
    code = _mark(status.message).get("fault")
    return code if isinstance(code, str) and code in FAULTS else _FAULT_OF[status.state]


def _fraction(update: pb.TaskStatusUpdateEvent | None) -> float | None:
    fraction = _mark(update).get("progress") if update is not None else None
    return float(fraction) if isinstance(fraction, int | float) and 0 <= fraction <= 1 else None
