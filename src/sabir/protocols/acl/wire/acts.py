"""The acts: the payload of each, whether it is an answer, and its default ontology."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from sabir.errors import BadMessage
from sabir.misfits import misfit

from . import payloads as p
from .payloads import Payload

PROTOCOL: Final = "acl"
JSON_LANGUAGE: Final = "application/json"
_GENERAL: Final = "elizaos:ontology:general/"
_AGENT: Final = "elizaos:ontology:agent/"
_WITH_TASK: Final = (p.TaskRequest, p.CallForProposals)


class Act(msgspec.Struct, frozen=True):
    """One act (performative)."""

    name: str
    payload: type[Payload]
    answers: bool  # it must name the message it answers (C-4)
    ontology: str = ""


def _table(*acts: Act) -> Mapping[str, Act]:
    return {act.name: act for act in acts}


ACTS: Final = _table(
    # from the draft
    Act("TASK_REQUEST", p.TaskRequest, False),
    Act("TASK_ACCEPT", p.TaskAccept, True, f"{_GENERAL}task_acceptance"),
    Act("INFORM_RESULT", p.InformResult, True),
    Act("QUERY_IF", p.QueryIf, False),
    Act("QUERY_REF", p.QueryRef, False),
    Act("TASK_REJECT", p.TaskReject, True, f"{_GENERAL}task_rejection"),
    Act("FAILURE", p.Failure, True, f"{_GENERAL}action_execution_failure"),
    Act("NOT_UNDERSTOOD", p.NotUnderstood, True, f"{_GENERAL}message_not_understood"),
    Act("QUERY_CAPABILITIES", p.QueryCapabilities, False, f"{_AGENT}capability_query"),
    Act("INFORM_CAPABILITIES", p.InformCapabilities, True, f"{_AGENT}capability_information"),
    # additions
    Act("INFORM_IF", p.InformIf, True),
    Act("INFORM_REF", p.InformRef, True),
    Act("INFORM_PROGRESS", p.InformProgress, True),
    Act("REQUEST_INPUT", p.RequestInput, True),
    Act("INFORM_INPUT", p.InformInput, True),
    Act("CANCEL", p.Cancel, True),
    Act("INFORM_DONE", p.InformDone, True),
    Act("SUBSCRIBE", p.Subscribe, False),
    Act("NOTIFY", p.Notify, True),
    Act("RENEW", p.Renew, True),
    Act("CALL_FOR_PROPOSALS", p.CallForProposals, False),
    Act("PROPOSE", p.Propose, False),  # answers a call, or opens the protocol "propose"
    Act("ACCEPT_PROPOSAL", p.AcceptProposal, True),
    Act("REJECT_PROPOSAL", p.RejectProposal, True),
)


def read_payload(performative: str, payload: Mapping[str, Any], language: str = JSON_LANGUAGE) -> Payload:
    """The payload of an act, typed. In a natural language ``text`` is enough (A-12).

    Raises:
        BadMessage: a field is missing or has the wrong type; says which.
    """
    if language != JSON_LANGUAGE and isinstance(payload.get("text"), str):
        return _convert(payload, p.Prose, "$.payload")
    if performative == "INFORM_RESULT" and "task_status" in payload:
        payload = {**payload, "task_status": p.status_of(payload["task_status"])}
    read = _convert(payload, ACTS[performative].payload, "$.payload")
    if isinstance(read, _WITH_TASK):
        if read.task_type in p.TASK_PARAMETERS:
            _convert(read.task_parameters, p.TASK_PARAMETERS[read.task_type], "$.payload.task_parameters")
    elif isinstance(read, p.QueryCapabilities) and read.query_type in p.QUERY_PARAMETERS:
        _convert(read.query_parameters, p.QUERY_PARAMETERS[read.query_type], "$.payload.query_parameters")
    return read


def structured(performative: str, payload: Mapping[str, Any]) -> Payload:
    """The fields of a payload that must be structured, also beside prose; raises as ``read_payload`` does."""
    return _convert(payload, ACTS[performative].payload, "$.payload")


def _convert(given: Mapping[str, Any], kind: type[Payload], where: str) -> Payload:
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as exc:
        raise BadMessage(PROTOCOL, *misfit(exc, kind, where)) from None
