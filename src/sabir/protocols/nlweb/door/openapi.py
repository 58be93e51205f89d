"""The OpenAPI document of the NLWeb door, generated from the same models that decode and encode."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from sabir import _version
from sabir.protocols.nlweb.wire.models import (
    AnswerResponse,
    AskRequest,
    AwaitRequest,
    ElicitationResponse,
    FailureResponse,
    NlwebModel,
    PromiseResponse,
)
from sabir.protocols.nlweb.wire.requests import ACTIONS, FORMATS, MODES
from sabir.protocols.nlweb.wire.responses import VERSIONS

Json = dict[str, Any]
_REF: Final = "#/components/schemas/{name}"
_MODELS: Final = (
    AskRequest,
    AwaitRequest,
    AnswerResponse,
    ElicitationResponse,
    PromiseResponse,
    FailureResponse,
)
_TEXTS: Final = {"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
# What decoders accept beyond the model's own type: schema, property, its schema.
_GENEROUS: Final[tuple[tuple[str, str, Json], ...]] = (
    ("Query", "site", {**_TEXTS, "description": "Sites that were ingested here; absent or 'all': any."}),
    ("Context", "prev", _TEXTS),
    ("Context", "memory", _TEXTS),
    ("Prefer", "mode", {"type": "string", "description": f"{', '.join(MODES)}, or several joined by commas"}),
    ("Prefer", "response_format", {"type": "string", "enum": list(FORMATS), "default": "chatgpt_app"}),
    ("Meta", "api_version", {"type": "string", "enum": list(VERSIONS), "default": "0.54"}),
    ("AwaitRequest", "action", {"type": "string", "enum": list(ACTIONS)}),
)
_ANSWER: Final = {
    "oneOf": [{"$ref": _REF.format(name=name)} for name in ("AnswerResponse", "ElicitationResponse", "FailureResponse")]
}
_FAILURE: Final = {"$ref": _REF.format(name="FailureResponse")}
_PROMISE: Final = {"$ref": _REF.format(name="PromiseResponse")}


def document(url: str) -> Json:
    """The document, for a gateway at this address."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Sabir: NLWeb",
            "version": _version.__version__,
            "description": "Ask an agent in plain words (NLWeb 0.54 and 0.55).",
        },
        "servers": [{"url": url}],
        "paths": _paths(),
        "components": {"schemas": _schemas()},
    }


def _schemas() -> Json:
    _, schemas = msgspec.json.schema_components(_MODELS, ref_template=_REF)
    for kind in _kinds(NlwebModel):
        schema = schemas.get(kind.__name__)
        if schema is not None and kind.OPEN is not None:
            schema["properties"].pop(kind.OPEN, None)
            schema["additionalProperties"] = True
    for name, of, value in _GENEROUS:
        schemas[name]["properties"][of] = value
    return schemas


def _kinds(root: type[NlwebModel]) -> list[type[NlwebModel]]:
    return [kind for child in root.__subclasses__() for kind in (child, *_kinds(child))]


def _paths() -> Json:
    asked = {"required": True, "content": _json({"$ref": _REF.format(name="AskRequest")})}
    awaited = {"required": True, "content": _json({"$ref": _REF.format(name="AwaitRequest")})}
    agent = _parameter("agent", "path", "The name of an agent of this gateway.")
    token = _parameter("token", "path", "The token of a promise.")
    query = _parameter("query", "query", "The question in words, or the query object as JSON.", required=False)
    return {
        "/ask": {
            "get": _operation("ask_by_get", "Ask, with the request in the URL", _asks(), parameters=[query]),
            "post": _operation("ask", "Ask the default agent, or the one of query.site", _asks(), body=asked),
        },
        "/ask/{agent}": {"post": _operation("ask_agent", "Ask an agent", _asks(), body=asked, parameters=[agent])},
        "/await": {"post": _operation("await", "Check a promise, or cancel it", _awaits(), body=awaited)},
        "/await/{token}": {
            "get": _operation("check_in", "Check a promise", _awaits(), parameters=[token]),
            "delete": _operation("cancel", "Cancel a promise", _awaits(), parameters=[token]),
        },
        "/who": {
            "get": _operation("who", "Which agents here suit a query", _objects(), parameters=[query]),
            "post": _operation(
                "who_by_post",
                "Which agents here suit a query",
                _objects(),
                body={"required": True, "content": _json({"type": "object"})},
            ),
        },
        "/sites": {"get": _operation("sites", "The sites that are here", _objects())},
    }


def _operation(
    operation_id: str, summary: str, responses: Json, *, body: Json | None = None, parameters: Any = ()
) -> Json:
    operation: Json = {"operationId": operation_id, "summary": summary, "responses": responses}
    if body is not None:
        operation["requestBody"] = body
    if parameters:
        operation["parameters"] = list(parameters)
    return operation


def _parameter(name: str, place: str, about: str, *, required: bool = True) -> Json:
    return {"name": name, "in": place, "required": required, "description": about, "schema": {"type": "string"}}


def _json(schema: Json) -> Json:
    return {"application/json": {"schema": schema}}


def _asks() -> Json:
    events = {"text/event-stream": {"schema": {"type": "string"}}}
    return {
        "200": {"description": "An Answer, an Elicitation, or a Failure such as NO_RESULTS",
                "content": {**_json(_ANSWER), **events}},
        "202": {"description": "A Promise; poll Location", "content": _json(_PROMISE)},
        "default": {"description": "A Failure", "content": {**_json(_FAILURE), **events}},
    }  # fmt: skip


def _awaits() -> Json:
    return {
        "200": {"description": "The Answer, a question, or a Failure", "content": _json(_ANSWER)},
        "202": {"description": "Still a Promise", "content": _json(_PROMISE)},
        "default": {"description": "A Failure, such as UNKNOWN_PROMISE", "content": _json(_FAILURE)},
    }


def _objects() -> Json:
    return {"200": {"description": "What was found", "content": _json({"type": "object"})}}
