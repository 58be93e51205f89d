"""The payload of each act: strict about required fields, open about optional ones.

A payload stays a plain object in the envelope, so that unknown fields survive; these types say what it must contain,
and decode it.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

import msgspec

from sabir.message import JSON

Text = Annotated[str, msgspec.Meta(max_length=1_000_000)]
Fraction = Annotated[float, msgspec.Meta(ge=0, le=1)]
Priority = Literal["low", "medium", "high"]
TaskStatus = Literal["success", "failure", "partial_success"]

_DURATION: Final = re.compile(
    r"P(?:(?P<weeks>\d+(?:\.\d+)?)W)?(?:(?P<days>\d+(?:\.\d+)?)D)?"
    r"(?:T(?:(?P<hours>\d+(?:\.\d+)?)H)?(?:(?P<minutes>\d+(?:\.\d+)?)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?"
)
JWE: Final = "jwe"
_COMPACT_JWE: Final = re.compile(r"([A-Za-z0-9_-]+)\.[A-Za-z0-9_-]*\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")
_SECONDS: Final = {"weeks": 604_800.0, "days": 86_400.0, "hours": 3_600.0, "minutes": 60.0, "seconds": 1.0}


class Payload(msgspec.Struct, frozen=True, omit_defaults=True):
    """The payload of an act."""


class Prose(Payload, frozen=True, omit_defaults=True):
    """The payload of a message whose ``language`` is a tag: text for people (A-12)."""

    text: Text


class DebugParameters(Payload, frozen=True, omit_defaults=True):
    """``task_parameters`` of a ``debug_code`` task."""

    code_to_debug: str
    programming_language: str
    desired_outcome: str
    error_log: str | None = None


class RefactorParameters(Payload, frozen=True, omit_defaults=True):
    """``task_parameters`` of a ``refactor_code_snippet`` task."""

    code_snippet: str
    programming_language: str
    desired_outcome: str


TASK_PARAMETERS: Final[dict[str, type[Payload]]] = {
    "debug_code": DebugParameters,
    "refactor_code_snippet": RefactorParameters,
}


class TaskRequest(Payload, frozen=True, omit_defaults=True):
    task_type: str
    task_description: Text
    task_parameters: dict[str, Any] = {}
    priority: Priority = "medium"
    result_by: str | None = None


class TaskAccept(Payload, frozen=True, omit_defaults=True):
    status: Literal["accepted"]
    task_id_assigned: str | None = None
    estimated_completion_time: float | str | None = None
    comments: str | None = None

    @property
    def estimated_seconds(self) -> float | None:
        """The estimate in seconds, if it is valid."""
        return seconds_of(self.estimated_completion_time)


class Artifact(Payload, frozen=True, omit_defaults=True):
    type: str
    path: str | None = None
    content: str | None = None
    description: str | None = None


class InformResult(Payload, frozen=True, omit_defaults=True):
    task_status: TaskStatus
    result_summary: Text
    result_details: dict[str, Any] = {}
    artifacts: tuple[Artifact, ...] = ()


class QueryIf(Payload, frozen=True, omit_defaults=True):
    condition: JSON


class QueryRef(Payload, frozen=True, omit_defaults=True):
    reference: str


class InformIf(Payload, frozen=True, omit_defaults=True):
    result: bool | None
    explanation: str | None = None


class InformRef(Payload, frozen=True, omit_defaults=True):
    reference: str
    value: JSON


class TaskReject(Payload, frozen=True, omit_defaults=True):
    status: Literal["rejected"]
    reason_code: str | None = None
    reason_text: str | None = None


class Failure(Payload, frozen=True, omit_defaults=True):
    status: Literal["failure"]
    error_text: Text
    error_code: str | None = None


class NotUnderstood(Payload, frozen=True, omit_defaults=True):
    reason_code: str
    reason_text: str | None = None


class QueryCapabilities(Payload, frozen=True, omit_defaults=True):
    query_type: Literal["summary", "specific", "action_details"]
    query_parameters: dict[str, Any] = {}


class SpecificQuery(Payload, frozen=True, omit_defaults=True):
    """``query_parameters`` of a ``specific`` query."""

    capabilities: tuple[str, ...]
    match_type: Literal["all", "any"] = "all"


class ActionQuery(Payload, frozen=True, omit_defaults=True):
    """``query_parameters`` of an ``action_details`` query."""

    action_name: str


QUERY_PARAMETERS: Final[dict[str, type[Payload]]] = {"specific": SpecificQuery, "action_details": ActionQuery}


class InformCapabilities(Payload, frozen=True, omit_defaults=True):
    status: Literal["success", "failure"]
    capabilities: dict[str, Any] | None = None
    match_result: bool | None = None
    matched_capabilities: tuple[str, ...] | None = None
    reason_code: str | None = None


class InformProgress(Payload, frozen=True, omit_defaults=True):
    fraction: Fraction | None = None
    note: str | None = None
    partial: JSON = None


class RequestInput(Payload, frozen=True, omit_defaults=True):
    question: Text
    schema: dict[str, Any] | None = None


class InformInput(Payload, frozen=True, omit_defaults=True):
    answer: JSON


class Cancel(Payload, frozen=True, omit_defaults=True):
    reason_text: str | None = None


class InformDone(Payload, frozen=True, omit_defaults=True):
    comments: str | None = None


class Subscribe(Payload, frozen=True, omit_defaults=True):
    """The target of a subscription: ``directory`` changes by template, a ``task``'s events, or an agent's own
    ``topic``."""

    topic: str
    template: dict[str, Any] | None = None
    lease_seconds: Annotated[float, msgspec.Meta(gt=0)] | None = None


class Notify(Payload, frozen=True, omit_defaults=True):
    topic: str
    event: JSON


class Renew(Payload, frozen=True, omit_defaults=True):
    lease_seconds: Annotated[float, msgspec.Meta(gt=0)] | None = None


class CallForProposals(Payload, frozen=True, omit_defaults=True):
    task_type: str
    task_description: Text
    task_parameters: dict[str, Any] = {}
    priority: Priority = "medium"
    result_by: str | None = None


class Propose(Payload, frozen=True, omit_defaults=True):
    proposal: JSON
    price: float | None = None
    comments: str | None = None


class AcceptProposal(Payload, frozen=True, omit_defaults=True):
    comments: str | None = None


class RejectProposal(Payload, frozen=True, omit_defaults=True):
    reason_code: str | None = None
    reason_text: str | None = None


def seconds_of(given: float | str | None) -> float | None:
    """The seconds of a number, or of an ISO 8601 duration such as ``PT5M``; None if it is neither (A-6)."""
    if given is None or isinstance(given, bool):
        return None
    try:
        seconds = float(given)
    except OverflowError:
        return None
    except ValueError:
        seconds = _seconds_in(str(given).strip().upper())
    return seconds if math.isfinite(seconds) else None


def _seconds_in(duration: str) -> float:
    found = _DURATION.fullmatch(duration)
    if found is None or duration in ("P", "PT"):
        return math.nan
    return sum(_SECONDS[unit] * float(count) for unit, count in found.groupdict().items() if count)


def status_of(word: object) -> object:
    """A task status in the output form: ``SUCCESS`` and ``TASK_SUCCESS`` become ``success`` (A-6)."""
    return word.lower().removeprefix("task_") if isinstance(word, str) else word


def is_encrypted(payload: Mapping[str, Any]) -> bool:
    """Whether a payload is encrypted to its receiver: ``{"jwe": "…"}``, a compact JWE (C-2)."""
    if len(payload) != 1 or not isinstance(text := payload.get(JWE), str):
        return False
    found = _COMPACT_JWE.fullmatch(text)
    if found is None:
        return False
    try:
        head = msgspec.json.decode(base64.urlsafe_b64decode(found.group(1) + "=="))
    except (ValueError, msgspec.DecodeError):
        return False
    return isinstance(head, dict) and isinstance(head.get("alg"), str) and isinstance(head.get("enc"), str)
