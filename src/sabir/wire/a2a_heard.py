"""A2A from the asking side: what a remote agent tells of one task, as Events of the hub."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ..errors import BadMessage, MissingExtra
from ..events import FAULTS, Delta, Event, Fault, Progress, Reply
from ..message import Message, Part
from .a2a import ENDS, MARK, PROTOCOL, continues, message_from, parts_from, question_from, run_together

try:
    from a2a.types import a2a_pb2 as pb
    from google.protobuf.json_format import MessageToDict
except ImportError as missing:
    raise MissingExtra("A2A", "a2a") from missing

_ASKING: Final = frozenset({pb.TASK_STATE_INPUT_REQUIRED, pb.TASK_STATE_AUTH_REQUIRED})
_FAULT_OF: Final[Mapping[int, str]] = {
    pb.TASK_STATE_FAILED: "failed",
    pb.TASK_STATE_CANCELED: "cancelled",
    pb.TASK_STATE_REJECTED: "refused",
}


class Heard:
    """What a remote agent has told of one task so far, turned into Events.

    ``hear`` is fed every answer and update in order, also those after a reconnection, whose first is the
    whole task again; what was heard before is not told twice.
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

    def hear(self, response: pb.StreamResponse) -> list[Event]:
        """The events in one answer or update.

        Raises:
            BadMessage: it is none of the four kinds.
        """
        match response.WhichOneof("payload"):
            case "message":
                self.context = response.message.context_id or self.context
                self.state = pb.TASK_STATE_COMPLETED
                return [Reply(message_from(response.message))]
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
        parts = parts_from(artifact.parts, "$.artifact.parts")
        before = self._artifacts.get(artifact.artifact_id, [])
        now = run_together([*before, *parts]) if append else parts
        self._artifacts[artifact.artifact_id] = now
        return [Delta(part) for part in (_beyond(run_together(before), run_together(now)) if before else now)]

    def _status(self, status: pb.TaskStatus, update: pb.TaskStatusUpdateEvent | None) -> list[Event]:
        self.state = status.state
        if self.asks:
            return [question_from(status.message)]
        if status.state == pb.TASK_STATE_COMPLETED:
            return [Reply(self._reply(status))]
        if status.state in _FAULT_OF:
            words = "\n".join(p.text for p in status.message.parts if p.text)
            return [Fault(words or "the remote agent gave no reason", _fault_code(status))]
        note = "\n".join(p.text for p in status.message.parts if p.text)
        fraction = _fraction(update)
        return [Progress(fraction, note)] if note or fraction is not None else []

    def _reply(self, status: pb.TaskStatus) -> Message:
        parts = [part for artifact in self._artifacts.values() for part in artifact]
        if not parts and status.HasField("message"):
            parts = parts_from(status.message.parts, "$.status.message.parts")
        return Message.of(*parts) if parts else Message.text("")


def _beyond(before: list[Part], now: list[Part]) -> list[Part]:
    """What ``now`` says and ``before`` did not; nothing where it says something else instead."""
    count = len(before)
    if now[: count - 1] != before[: count - 1] or len(now) < count:
        return []
    last, same = before[-1], now[count - 1]
    if last == same:
        return now[count:]
    if continues(last, same) and str(same.content).startswith(str(last.content)):
        rest = Part("text", same.subformat, str(same.content)[len(str(last.content)) :], same.label)
        return [rest, *now[count:]]
    return []


def _mark(holder: pb.Message | pb.TaskStatusUpdateEvent) -> Mapping[str, Any]:
    mark = MessageToDict(holder.metadata).get(MARK) if holder.HasField("metadata") else None
    return mark if isinstance(mark, dict) else {}


def _fault_code(status: pb.TaskStatus) -> str:
    code = _mark(status.message).get("fault")
    return code if isinstance(code, str) and code in FAULTS else _FAULT_OF[status.state]


def _fraction(update: pb.TaskStatusUpdateEvent | None) -> float | None:
    told = _mark(update).get("progress") if update is not None else None
    return float(told) if isinstance(told, int | float) and 0 <= told <= 1 else None
