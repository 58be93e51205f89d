"""The envelope of the IDE extension, converted to the draft's and answered in its own form (A-8).

``{conversation_id, performative, ontology, payload, sender: "name", receiver: "name" | "*", timestamp?, error?}``.
It is recognised by ``sender`` being a string. Its words ``REQUEST``, ``ACCEPT`` … are old names of the refined acts,
and are accepted only here (ACL-16).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sabir.errors import BadMessage
from sabir.message import JSON, printable

from .acts import JSON_LANGUAGE, PROTOCOL
from .envelope import Envelope, envelope_of

_READ: Final[Mapping[str, str]] = {
    "REQUEST": "TASK_REQUEST",
    "ACCEPT": "TASK_ACCEPT",
    "REJECT": "TASK_REJECT",
    "INFORM": "INFORM_RESULT",
    "FAILURE": "FAILURE",
    "INFORM_RESULT": "INFORM_RESULT",
    "QUERY_REF": "QUERY_REF",
    "INFORM_REF": "INFORM_REF",
    "SUBSCRIBE": "SUBSCRIBE",
    "NOTIFY": "NOTIFY",
    "CANCEL": "CANCEL",
}
_WRITTEN: Final[Mapping[str, str]] = {
    "TASK_REQUEST": "REQUEST",
    "TASK_ACCEPT": "ACCEPT",
    "TASK_REJECT": "REJECT",
    "NOT_UNDERSTOOD": "FAILURE",
    "INFORM_IF": "INFORM_REF",
    "INFORM_CAPABILITIES": "INFORM_REF",
    "INFORM_PROGRESS": "NOTIFY",
    "REQUEST_INPUT": "NOTIFY",
    "INFORM_DONE": "INFORM_RESULT",
}


def is_ide(value: JSON) -> bool:
    """Whether a JSON value is in the envelope of the IDE extension."""
    return isinstance(value, dict) and isinstance(value.get("sender"), str)


def from_ide(value: dict[str, Any], message_id: str) -> Envelope:
    """A message in the draft's envelope. The IDE's has no id, so one is generated.

    Raises:
        BadMessage: a field is missing or invalid; says which.
    """
    word = value.get("performative")
    if not isinstance(word, str) or word not in _READ:
        raise BadMessage(PROTOCOL, "$.performative", f"one of {', '.join(_READ)}, not {printable(str(word))!r}")
    payload = value.get("payload")
    if not isinstance(payload, dict):
        raise BadMessage(PROTOCOL, "$.payload", "an object")
    act, conversation = _READ[word], value.get("conversation_id")
    given: dict[str, Any] = {
        "message_id": message_id,
        "performative": act,
        "sender": {"agent_id": value["sender"]},
        "receiver": {"agent_id": value.get("receiver", "*")},
        "language": JSON_LANGUAGE,
        "ontology": value.get("ontology"),
        "payload": _request(payload, value) if act == "TASK_REQUEST" else payload,
        "ide": True,
    }
    if value.get("timestamp") is not None:
        given["timestamp"] = value["timestamp"]
    if conversation is not None:
        given["conversation_id"] = conversation
    if act not in ("TASK_REQUEST", "QUERY_REF", "SUBSCRIBE"):
        given["in_reply_to"] = conversation
    return envelope_of(given)


def _request(payload: dict[str, Any], value: dict[str, Any]) -> dict[str, Any]:
    """A request of the extension as a task: its ontology names the task, its fields are the parameters."""
    if "task_type" in payload and "task_description" in payload:
        return payload
    ontology = str(value.get("ontology") or "")
    task = ontology.rpartition(":")[2] or "request"
    words = next((payload[name] for name in ("query", "question", "text", "prompt") if name in payload), None)
    description = words if isinstance(words, str) and words else task.replace("_", " ")
    return {"task_type": task, "task_description": description, "task_parameters": payload}


def to_ide(envelope: Envelope, receiver: str) -> dict[str, Any]:
    """A message in the extension's form; an error is also in ``error``."""
    payload = envelope.payload
    out: dict[str, Any] = {
        "conversation_id": envelope.conversation_id or envelope.in_reply_to or envelope.message_id,
        "performative": _WRITTEN.get(envelope.performative, envelope.performative),
        "ontology": envelope.ontologies[0] if envelope.ontologies else "",
        "payload": payload,
        "sender": envelope.sender_id,
        "receiver": receiver,
    }
    if envelope.timestamp:
        out["timestamp"] = envelope.timestamp
    if envelope.performative in ("FAILURE", "TASK_REJECT", "NOT_UNDERSTOOD"):
        code = payload.get("error_code") or payload.get("reason_code") or "failure"
        text = payload.get("error_text") or payload.get("reason_text") or ""
        out["error"] = {"code": code, "message": text}
    return out
