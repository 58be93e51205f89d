"""ACL payloads ↔ Messages and Events of the hub."""

from __future__ import annotations

import base64
import binascii
from typing import Any, Final

import msgspec

from sabir.card import Card, Skill
from sabir.errors import SabirError
from sabir.events import Delta, Event, Fault, Field, Progress, Question, Reply
from sabir.message import JSON, Message, Part, binary_part, json_part, language_name, text_part, uri_part

from .acts import JSON_LANGUAGE
from .envelope import Envelope
from .payloads import QueryCapabilities, SpecificQuery, status_of
from .reasons import CODES, FAILURE, ErrorReport, report_of

__all__ = ["CODES", "LOSSES"]  # with the functions below

LOSSES: Final = (
    "the position of text among other parts: the text of a reply comes first, as its summary",
    "labels of parts other than the answer to a question",
    "location and generic parts, which arrive as JSON in result_details",
)
_ANSWER: Final = "answer"
_PROSE: Final = "text"  # the payload of a message in a natural language
_MORE: Final = "parts"  # in result_details: structured parts besides or instead of one object


def message_of(envelope: Envelope) -> Message:
    """The input of an agent: the description is the text, the parameters a structured part."""
    payload = envelope.payload
    language = envelope.languages[0]
    if language != JSON_LANGUAGE and isinstance(payload.get("text"), str):
        rest = {name: value for name, value in payload.items() if name != "text"}
        more = (json_part(rest),) if rest else ()
        return Message.text(payload["text"], language_name(language), parts=more)
    if envelope.performative in ("TASK_REQUEST", "CALL_FOR_PROPOSALS"):
        parts = _parts_of(payload.get("task_parameters") or {})
        return Message.text(payload["task_description"], parts=parts)
    if envelope.performative == "QUERY_IF":
        return Message.text("Is this condition true?", parts=(json_part(payload["condition"], label="condition"),))
    if envelope.performative == "QUERY_REF":
        return Message.text(f"What is the value of {payload['reference']}?")
    return Message.json(payload)


def request_of(message: Message, *, task_type: str = "ask") -> tuple[dict[str, Any], str]:
    """The payload of a TASK_REQUEST for a message, and its language."""
    parts = message.without_tokens().parts
    parameters = _details(parts)
    artifacts = _artifacts(parts)
    if artifacts:
        parameters = {**parameters, "artifacts": artifacts}
    payload: dict[str, Any] = {"task_type": task_type, "task_description": message.text}
    if parameters:
        payload["task_parameters"] = parameters
    return payload, JSON_LANGUAGE


def result_of(message: Message, status: str = "success") -> dict[str, Any]:
    """The payload of an INFORM_RESULT: text → summary, data → details, binary → artifacts."""
    parts = message.without_tokens().parts
    details = _details(parts)
    given = details.pop("task_status", None) if _is_result(details) else None
    payload = {
        "task_status": status_of(given) if given else status,
        "result_summary": message.text,
        "result_details": details,
    }
    artifacts = _artifacts(parts)
    if artifacts:
        payload["artifacts"] = artifacts
    return payload


def _is_result(details: dict[str, Any]) -> bool:
    """Whether an agent reports how its task ended: the task may fail without the agent failing (ACL-12)."""
    return status_of(details.get("task_status")) in ("success", "failure", "partial_success")


def reply_of(payload: dict[str, Any]) -> Message:
    """The Message of an INFORM_RESULT."""
    details = payload.get("result_details") or {}
    summary = payload.get("result_summary") or payload.get(_PROSE)
    parts = [text_part(str(summary))] if summary else []
    parts += _parts_of(details)
    parts += [part for item in payload.get("artifacts") or () if (part := _part_of(item)) is not None]
    return Message.of(*parts) if parts else Message.text("")


def _details(parts: tuple[Part, ...]) -> dict[str, Any]:
    values = [_value(part) for part in parts if part.format in ("structured", "location", "generic")]
    if not values:
        return {}
    if len(values) == 1 and isinstance(values[0], dict):
        return dict(values[0])
    return {_MORE: values}


def _value(part: Part) -> JSON:
    if part.format == "structured" and part.kind == "json":
        return part.value
    return {"format": part.format, "subformat": part.subformat, "content": part.content}


def _parts_of(details: dict[str, Any]) -> list[Part]:
    artifacts = details.get("artifacts")
    if isinstance(artifacts, list) and all(isinstance(item, dict) and "type" in item for item in artifacts):
        details = {name: value for name, value in details.items() if name != "artifacts"}
        files = [part for item in artifacts if (part := _part_of(item)) is not None]
    else:
        files = []
    if set(details) == {_MORE} and isinstance(details[_MORE], list):
        return [*(_structured(value) for value in details[_MORE]), *files]
    return [json_part(details), *files] if details else files


def _structured(value: JSON) -> Part:
    if isinstance(value, dict) and set(value) == {"format", "subformat", "content"}:
        return Part(str(value["format"]), str(value["subformat"]), value["content"])
    return json_part(value)


def _artifacts(parts: tuple[Part, ...]) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = []
    for part in parts:
        if part.format == "binary" and isinstance(part.content, bytes):
            content = base64.b64encode(part.content).decode()
            out.append({"type": part.subformat, "content": content, "encoding": "base64"})
        elif part.format == "binary":
            out.append({"type": part.subformat, "path": str(part.content)})
    return out


def _part_of(item: dict[str, Any]) -> Part | None:
    kind = str(item.get("type", "file"))
    if item.get("encoding") == "base64":
        try:
            return binary_part(base64.b64decode(str(item.get("content", "")), validate=True), kind)
        except binascii.Error:
            return None
    if item.get("content") is not None:
        return text_part(str(item["content"]), label=kind)
    return uri_part(str(item["path"]), label=kind) if item.get("path") else None


# -- questions and answers ------------------------------------------------------------------------

_TYPES: Final = {"number": "number", "boolean": "boolean"}


def question_payload(question: Question) -> dict[str, Any]:
    """The payload of a REQUEST_INPUT."""
    schema = question.schema or _schema(question.fields)
    return {"question": question.text, **({"schema": schema} if schema else {})}


def _schema(fields: tuple[Field, ...]) -> dict[str, Any] | None:
    if not fields:
        return None
    properties: dict[str, Any] = {}
    for field in fields:
        shape: dict[str, Any] = {"type": _TYPES.get(field.kind, "string"), "title": field.text}
        if field.options:
            shape["enum"] = list(field.options)
        if field.kind == "multi_select":
            shape = {"type": "array", "title": field.text, "items": {"type": "string", "enum": list(field.options)}}
        properties[field.id] = shape
    required = [field.id for field in fields if field.required]
    return {"type": "object", "properties": properties, "required": required}


def question_of(payload: dict[str, Any]) -> Question:
    """The Question of a REQUEST_INPUT."""
    schema = payload.get("schema")
    properties = schema.get("properties") if isinstance(schema, dict) else None
    fields = []
    for name, shape in properties.items() if isinstance(properties, dict) else ():
        if isinstance(shape, dict):
            fields.append(_field(str(name), shape, name in (schema or {}).get("required", ())))
    return Question(str(payload.get("question") or payload.get(_PROSE, "")), tuple(fields), schema)


def _field(name: str, shape: dict[str, Any], required: bool) -> Field:
    items = shape.get("items")
    options = shape.get("enum") or (items.get("enum") if isinstance(items, dict) else None) or ()
    kind = {"number": "number", "integer": "number", "boolean": "boolean", "array": "multi_select"}.get(
        str(shape.get("type")), "single_select" if options else "text"
    )
    return Field(name, str(shape.get("title", name)), kind, tuple(str(option) for option in options), required)


def answer_of(payload: dict[str, Any]) -> Message:
    """The Message of an INFORM_INPUT: text as text, anything else as a part labelled ``answer``."""
    answer = payload.get(_ANSWER, payload.get(_PROSE))
    if isinstance(answer, str):
        return Message.text(answer)
    return Message.of(json_part(answer, label=_ANSWER))


def answer_payload(message: Message) -> dict[str, Any]:
    """The payload of an INFORM_INPUT."""
    part = message.labelled(_ANSWER)
    return {_ANSWER: part.value if part is not None and part.format == "structured" else message.text}


# -- events ---------------------------------------------------------------------------------------


def act_of(event: Event) -> tuple[str, dict[str, Any]]:
    """The act and payload that report an event of a turn."""
    match event:
        case Delta(part):
            return "INFORM_PROGRESS", {"partial": part.content if part.format == "text" else _value(part)}
        case Progress(fraction, note):
            payload: dict[str, Any] = {}
            if fraction is not None:
                payload["fraction"] = min(1.0, max(0.0, fraction))
            return "INFORM_PROGRESS", {**payload, **({"note": note} if note else {})}
        case Question():
            return "REQUEST_INPUT", question_payload(event)
        case Reply(message):
            return "INFORM_RESULT", result_of(message)
        case Fault():
            return FAILURE, failure(report_of(event.error()), event.reason)


def event_of(envelope: Envelope) -> Event | None:
    """The event that a message reports to the initiator; None if it reports none, such as an acceptance."""
    payload = envelope.payload
    match envelope.performative:
        case "INFORM_PROGRESS":
            partial = payload.get("partial")
            if isinstance(partial, str):
                return Delta.text(partial)
            if partial is not None:
                return Delta(json_part(partial))
            return Progress(payload.get("fraction"), str(payload.get("note") or payload.get(_PROSE) or ""))
        case "REQUEST_INPUT":
            return question_of(payload)
        case "INFORM_RESULT":
            asked = (payload.get("result_details") or {}).get("request_for_user")
            if isinstance(asked, str) and status_of(payload.get("task_status")) == "partial_success":
                return Question(asked)  # known senders ask like this
            return Reply(reply_of(payload))
        case "INFORM_DONE":
            return Fault("cancelled", "cancelled")
        case "INFORM_IF" | "INFORM_REF" | "INFORM_CAPABILITIES":
            return Reply(Message.json(payload))
        case "FAILURE":
            return Fault(
                str(payload.get("error_text") or payload.get(_PROSE) or "failed"),
                _FAULTS.get(str(payload.get("error_code")), "failed"),
            )
        case "TASK_REJECT" | "NOT_UNDERSTOOD":
            code = str(payload.get("reason_code") or "rejected")
            return Fault(str(payload.get("reason_text") or payload.get(_PROSE) or code), _FAULTS.get(code, "refused"))
    return None


# The fault code for a foreign reason.
_FAULTS: Final = {
    "timeout": "deadline",
    "cancelled": "cancelled",
    "busy": "unavailable",
    "max_load_reached": "unavailable",
    "incapable": "not_found",
    "not_registered": "not_found",
    "unexpected_act": "invalid",
    "parsing_error": "invalid",
    "invalid_payload_structure": "invalid",
    "unknown_performative": "invalid",
    "unknown_ontology": "invalid",
    "unsupported_value": "unsupported",
    "unauthorized": "refused",
    "unauthorised": "refused",
    "peer_error": "peer",
    "peer_unavailable": "peer",
    "peer_refused": "peer",
    "internal_error": "failed",
}


def failure(report: ErrorReport, text: str) -> dict[str, Any]:
    """The payload of a FAILURE."""
    return {"status": "failure", "error_code": report.reason, "error_text": text}


def rejection(report: ErrorReport, text: str) -> dict[str, Any]:
    """The payload of a TASK_REJECT."""
    return {"status": "rejected", "reason_code": report.reason, "reason_text": text}


def not_understood(reason: str, text: str) -> dict[str, Any]:
    return {"reason_code": reason, "reason_text": text}


def payload_for(exc: SabirError) -> tuple[str, dict[str, Any]]:
    """The act and payload that report an error."""
    report, text = report_of(exc), str(exc)
    if report.act == FAILURE:
        return report.act, failure(report, text)
    if report.act == "TASK_REJECT":
        payload = rejection(report, text)
        retry = getattr(exc, "retry_after", None)
        return report.act, {**payload, **({"retry_after": retry} if retry is not None else {})}
    return report.act, not_understood(report.reason, text)


# -- capabilities ---------------------------------------------------------------------------------


def capabilities_of(query: QueryCapabilities, card: Card) -> dict[str, Any]:
    """The INFORM_CAPABILITIES payload of an agent, from its Card (ACL-14)."""
    if query.query_type == "summary":
        return _summary(card)
    if query.query_type == "specific":
        return _specific(msgspec.convert(query.query_parameters, SpecificQuery), card)
    name = str(query.query_parameters.get("action_name", ""))
    skill = next((s for s in card.skills if name.lower() in (s.id.lower(), s.name.lower())), None)
    if skill is None and name.lower() == card.name.lower():
        skill = Skill(card.name, card.name, card.description)
    if skill is None:
        return {"status": "failure", "reason_code": "unsupported_function"}
    return {"status": "success", "capabilities": {"action": _action(skill, card)}}


def _summary(card: Card) -> dict[str, Any]:
    topics = list(dict.fromkeys(word for s in card.skills for word in (*s.tags, s.name) if word))
    actions = [{"name": s.id, "description": s.description or s.name} for s in card.skills]
    if not actions:
        actions = [{"name": card.name, "description": card.description}]
    return {"status": "success", "capabilities": {"topics": topics, "actions": actions}}


def _specific(query: SpecificQuery, card: Card) -> dict[str, Any]:
    words = (word for s in card.skills for word in (s.id, s.name, *s.tags))
    offered = {word.lower() for word in (card.name, *words)}
    matched = [word for word in query.capabilities if word.lower() in offered]
    result = len(matched) == len(query.capabilities) if query.match_type == "all" else bool(matched)
    return {"status": "success", "match_result": result, "matched_capabilities": matched}


def _action(skill: Skill, card: Card) -> dict[str, Any]:
    anything = {"type": "object"}
    return {
        "name": skill.id,
        "description": skill.description or skill.name,
        "parameters": skill.input_schema or anything,
        "result": skill.output_schema or anything,
        "ontology": next(iter(card.ontologies), ""),
        "examples": list(skill.examples),
    }
