"""Reason codes, and which error is reported by which act and code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from sabir.errors import (
    BadInput,
    BadMediaType,
    BadMessage,
    BadMethod,
    BusUnavailable,
    Cancelled,
    ConfigError,
    Conflict,
    DeadlineExceeded,
    ErrorTable,
    Forbidden,
    MissingExtra,
    NotFound,
    PeerError,
    PeerRefused,
    PeerUnavailable,
    PeerUnreadable,
    PolicyRequired,
    RateLimited,
    Refused,
    SabirError,
    ShuttingDown,
    StoreUnavailable,
    TooLarge,
    TurnFailed,
    Unauthenticated,
    Unavailable,
    UnknownVersion,
    Unreadable,
)

NOT_UNDERSTOOD: Final = "NOT_UNDERSTOOD"
TASK_REJECT: Final = "TASK_REJECT"
FAILURE: Final = "FAILURE"


class ErrorReport(NamedTuple):
    """How an error is reported: the act, its reason or error code, and the HTTP status."""

    act: str
    reason: str
    status: int


class Rejected(Exception):  # it is an answer, not a defect
    """A message that is answered with this report and not processed further."""

    def __init__(self, report: ErrorReport, text: str, retry_after: float | None = None) -> None:
        super().__init__(text)
        self.report = report
        self.retry_after = retry_after


# Every error of the tree has a row; a test compares the two (ACL-11).
CODES: Final[Mapping[type[SabirError], ErrorReport]] = ErrorTable(
    {
        SabirError: ErrorReport(FAILURE, "internal_error", 500),
        BadInput: ErrorReport(NOT_UNDERSTOOD, "parsing_error", 400),
        Unreadable: ErrorReport(NOT_UNDERSTOOD, "parsing_error", 400),
        BadMessage: ErrorReport(NOT_UNDERSTOOD, "invalid_payload_structure", 400),
        TooLarge: ErrorReport(TASK_REJECT, "too_large", 413),
        BadMediaType: ErrorReport(NOT_UNDERSTOOD, "parsing_error", 415),
        BadMethod: ErrorReport(NOT_UNDERSTOOD, "unsupported_act", 405),
        UnknownVersion: ErrorReport(NOT_UNDERSTOOD, "unsupported_value", 400),
        Refused: ErrorReport(TASK_REJECT, "unauthorized", 403),
        Unauthenticated: ErrorReport(TASK_REJECT, "unauthorized", 401),
        Forbidden: ErrorReport(TASK_REJECT, "unauthorized", 403),
        RateLimited: ErrorReport(TASK_REJECT, "busy", 429),
        PolicyRequired: ErrorReport(TASK_REJECT, "unauthorized", 403),
        NotFound: ErrorReport(TASK_REJECT, "incapable", 404),
        Conflict: ErrorReport(NOT_UNDERSTOOD, "unexpected_act", 409),
        Cancelled: ErrorReport(FAILURE, "cancelled", 409),
        TurnFailed: ErrorReport(FAILURE, "internal_error", 500),
        DeadlineExceeded: ErrorReport(FAILURE, "timeout", 504),
        Unavailable: ErrorReport(TASK_REJECT, "busy", 503),
        ShuttingDown: ErrorReport(TASK_REJECT, "busy", 503),
        StoreUnavailable: ErrorReport(TASK_REJECT, "busy", 503),
        BusUnavailable: ErrorReport(TASK_REJECT, "busy", 503),
        PeerError: ErrorReport(FAILURE, "peer_error", 502),
        PeerUnavailable: ErrorReport(FAILURE, "peer_unavailable", 502),
        PeerRefused: ErrorReport(FAILURE, "peer_refused", 502),
        PeerUnreadable: ErrorReport(FAILURE, "peer_error", 502),
        ConfigError: ErrorReport(FAILURE, "internal_error", 500),
        MissingExtra: ErrorReport(FAILURE, "unsupported_function", 501),
    }
)

# The code for an invalid field of the envelope; the longest matching path counts.
_BY_PATH: Final[Mapping[str, str]] = {
    "$.performative": "unknown_performative",
    "$.mcp_version": "unsupported_value",
    "$.ontology": "unknown_ontology",
    "$.language": "unsupported_value",
    "$.payload": "invalid_payload_structure",
    "$.in_reply_to": "missing_argument",
    "$.signature": "unauthorised",
    "$.sender.agent_id": "unauthorised",
}


def encrypted_to_nobody(agent: str) -> BadMessage:
    """The error for an encrypted payload to an agent of this gateway, which has no key."""
    return BadMessage("acl", "$.payload", f"a payload that is not encrypted, because {agent} has no key to read it")


def report_of(exc: SabirError) -> ErrorReport:
    """The act, code and status of an error."""
    report = CODES[type(exc)]
    if isinstance(exc, BadMessage):
        return report._replace(reason=_reason_at(exc.where))
    return report


def _reason_at(where: str) -> str:
    for path, reason in _BY_PATH.items():
        if where == path or where.startswith((f"{path}.", f"{path}[")):
            return reason
    return "parsing_error"
