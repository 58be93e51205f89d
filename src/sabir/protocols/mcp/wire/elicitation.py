"""Questions over MCP: an agent's questions as elicitation, sampling or roots requests, and their answers.

In versions up to 2025-11-25 these are requests from the server to the client; in 2026-07-28 they are the
``inputRequests`` of a result, answered by a retry. The objects are the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from sabir.errors import BadMessage, Forbidden
from sabir.events import Field, Question, field_kind
from sabir.message import Message, Part, json_part, text_part
from sabir.misfits import NOT_JSON

from .content import PROTOCOL, Json, block_of, part_of

ANSWER: Final = "answer"  # label of the part that holds an answer's values
ACTION: Final = "action"  # label of the part that says an answer was declined or cancelled
DONE: Final = "done"  # the only field for something done elsewhere
URL: Final = "url"  # the mode of a request that sends the person to an address
_WEB: Final = re.compile(r"https?://[^\s/?#]", re.IGNORECASE)
KEY: Final = "question"  # the key of a question without an id


@dataclass(frozen=True, slots=True)
class Sampling(Question):
    """A question for the caller's model. Without a model, its text is shown to the person."""

    params: Json = field(default_factory=dict)

    @classmethod
    def of(cls, text: str, *, max_tokens: int = 1024, system: str = "", question_id: str = "") -> Sampling:
        messages = [{"role": "user", "content": {"type": "text", "text": text}}]
        params: Json = {"messages": messages, "maxTokens": max_tokens}
        if system:
            params["systemPrompt"] = system
        return cls(text, id=question_id, params=params)

    @classmethod
    def from_params(cls, params: Mapping[str, Any], question_id: str = "") -> Sampling:
        """The question that a ``sampling/createMessage`` request asks."""
        texts = [block.get("text", "") for message in params.get("messages") or () for block in _blocks(message)]
        return cls("\n".join(text for text in texts if text), id=question_id, params=dict(params))


@dataclass(frozen=True, slots=True)
class Roots(Question):
    """Asks the caller's software which directories it works in."""


@dataclass(frozen=True, slots=True)
class ByUrl(Question):
    """Asks the person to do something at an address, such as to sign in; nobody else learns what is done there.

    If it cannot be shown as such, it is its text and address, and whether it was done.
    """

    params: Json = field(default_factory=dict)

    @classmethod
    def from_params(cls, params: Mapping[str, Any], question_id: str = "") -> ByUrl:
        """The question of an ``elicitation/create`` request without a form; raises as ``check_address`` does."""
        check_address(params)
        words = f"{params.get('message', '')} {params.get('url', '')}".strip()
        return cls(words, (Field(DONE, words, "boolean"),), None, question_id, dict(params))


def check_address(params: Mapping[str, Any]) -> None:
    """Check that an address only shows a page: people may open it with a click.

    Raises:
        Forbidden: it could run a script or open a program.
    """
    url = params.get("url")
    if url is not None and not (isinstance(url, str) and _WEB.match(url)):
        raise Forbidden("URL elicitation requires an http or https URL")


@dataclass(frozen=True, slots=True)
class Several(Question):
    """Several questions at once. The answer has a part for each, labelled with the question's id."""

    questions: tuple[Question, ...] = ()

    @classmethod
    def of(cls, *questions: Question) -> Several:
        return cls("\n".join(question.text for question in questions), questions=questions)


def _blocks(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    content = message.get("content") if isinstance(message, Mapping) else None
    return [b for b in (content if isinstance(content, list) else [content]) if isinstance(b, Mapping)]


# -- out: a question as requests ------------------------------------------------------------------------

# The request for each kind of question, and the capability that the client must have declared.
METHODS: Final[Mapping[type[Question], tuple[str, str]]] = {
    Sampling: ("sampling/createMessage", "sampling"),
    Roots: ("roots/list", "roots"),
}
_ELICIT: Final = ("elicitation/create", "elicitation")


def single_questions(question: Question) -> dict[str, Question]:
    """The single questions of a question, by key."""
    if isinstance(question, Several):
        return {part.id or f"{KEY}{number}": part for number, part in enumerate(question.questions, 1)}
    return {question.id or KEY: question}


def capability(question: Question) -> str:
    return METHODS.get(type(question), _ELICIT)[1]


def in_form(question: Question) -> Question:
    """The question for a client that only supports forms."""
    return Question(question.text, question.fields, None, question.id) if isinstance(question, ByUrl) else question


def request_of(question: Question) -> Json:
    """``{"method": …, "params": …}`` for one single question."""
    method = METHODS.get(type(question), _ELICIT)[0]
    if isinstance(question, Sampling | ByUrl):
        return {"method": method, "params": dict(question.params)}
    if isinstance(question, Roots):
        return {"method": method, "params": {}}
    return {"method": method, "params": {"message": question.text, "requestedSchema": schema_of(question)}}


_TYPES: Final[Mapping[str, str]] = {"text": "string", "number": "number", "boolean": "boolean"}


def schema_of(question: Question) -> Json:
    """The JSON Schema of an answer. Text alone is one string named ``answer``."""
    if question.schema is not None:
        return question.schema
    if not question.fields:
        return {"type": "object", "properties": {ANSWER: {"type": "string"}}, "required": [ANSWER]}
    properties: Json = {}
    for one in question.fields:
        if one.kind == "multi_select":
            shape: Json = {"type": "array", "items": {"type": "string", "enum": list(one.options)}}
        elif one.kind == "single_select" and one.options:
            shape = {"type": "string", "enum": list(one.options)}
        else:
            shape = {"type": _TYPES.get(one.kind, "string")}
        properties[one.id] = {**shape, "title": one.text}
    required = [one.id for one in question.fields if one.required]
    return {"type": "object", "properties": properties, "required": required}


def answer_of(question: Question, response: object) -> Message:
    """The answer to a single question in a client's response.

    Raises:
        BadMessage: it is not a response to this kind of question.
    """
    if not isinstance(response, Mapping):
        raise BadMessage(PROTOCOL, "$.inputResponses", "an object for each question")
    if isinstance(question, Sampling):
        blocks = _blocks(response)
        if not blocks:
            raise BadMessage(PROTOCOL, "$.inputResponses", "the content that the model made")
        about = {key: response[key] for key in ("model", "role", "stopReason") if key in response}
        return Message.of(*(part_of(block) for block in blocks), json_part(about, label="sampling"))
    if isinstance(question, Roots):
        if not isinstance(response.get("roots"), list):
            raise BadMessage(PROTOCOL, "$.inputResponses", "a list of roots")
        words = "\n".join(str(root.get("uri", "")) for root in response["roots"] if isinstance(root, Mapping))
        return Message.text(words, parts=(json_part({"roots": response["roots"]}, label="roots"),))
    return _elicited(question, response)


def _elicited(question: Question, response: Mapping[str, Any]) -> Message:
    action, content = response.get("action"), response.get("content")
    if action in ("decline", "cancel"):
        return Message.text("", parts=(json_part({"action": action}, label=ACTION),))
    if action != "accept" or (content is not None and not isinstance(content, Mapping)):
        raise BadMessage(PROTOCOL, "$.inputResponses", "action accept, decline or cancel, and content")
    values = dict(content or {})
    if isinstance(question, ByUrl):
        values.setdefault(DONE, True)
    missing = [name for name in schema_of(question).get("required", ()) if name not in values]
    if missing:
        raise BadMessage(PROTOCOL, "$.inputResponses", f"an answer with {', '.join(missing)}")
    if question.schema is None and not question.fields:
        return Message.text(str(values[ANSWER]))
    words = ", ".join(_shown(value) for value in values.values())
    return Message.text(words, parts=(json_part(values, label=ANSWER),))


def _shown(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def together(answers: Mapping[str, Message]) -> Message:
    """The answers to several questions as one message, each part labelled with its question."""
    parts = [msgspec.structs.replace(_best(message), label=key, extra=None) for key, message in answers.items()]
    return Message.of(*parts) if parts else Message.text("")


def _best(message: Message) -> Part:
    return message.labelled(ANSWER) or message.labelled("roots") or message.first


# -- in: a request as a question ---------------------------------------------------------------------------


def question_of(method: str, params: Mapping[str, Any], question_id: str = "") -> Question:
    """The question for our caller in a server's request.

    Raises:
        BadMessage: it is not a request that asks something.
    """
    if method == "sampling/createMessage":
        return Sampling.from_params(params, question_id)
    if method == "roots/list":
        return Roots("Which directories do you work in?", id=question_id)
    if method == "elicitation/create":
        schema = params.get("requestedSchema")
        if isinstance(schema, Mapping):
            return Question(str(params.get("message", "")), fields_of(schema), dict(schema), question_id)
        return ByUrl.from_params(params, question_id)
    raise BadMessage(PROTOCOL, "$.method", "elicitation/create, sampling/createMessage or roots/list")


def question_in(stored: Mapping[str, Any]) -> Question:
    """The question that a task keeps as plain values, with its kind."""
    if stored.get("questions"):
        return Several.of(*(question_in(item) for item in stored["questions"]))
    question_id, text = str(stored.get("id", "")), str(stored.get("text", ""))
    if stored.get("params"):
        if stored["params"].get("mode") == URL:
            return ByUrl.from_params(stored["params"], question_id)
        return Sampling(text, id=question_id, params=dict(stored["params"]))
    schema = stored.get("schema")
    fields = tuple(
        Field(
            str(item.get("id", "")),
            str(item.get("text", "")),
            field_kind(item.get("kind")),
            tuple(item.get("options", ())),
            bool(item.get("required", True)),
        )
        for item in stored.get("fields") or ()
    )
    return Question(text, fields, dict(schema) if isinstance(schema, Mapping) else None, question_id)


def fields_of(schema: Mapping[str, Any]) -> tuple[Field, ...]:
    required = set(schema.get("required") or ())
    fields = []
    for name, shape in (schema.get("properties") or {}).items():
        if not isinstance(shape, Mapping):
            continue
        options = _options(shape)
        kind = {"array": "multi_select", "number": "number", "integer": "number", "boolean": "boolean"}.get(
            str(shape.get("type")), "single_select" if options else "text"
        )
        text = str(shape.get("title") or shape.get("description") or name)
        fields.append(Field(name, text, kind, options, name in required))
    return tuple(fields)


def _options(shape: Mapping[str, Any]) -> tuple[str, ...]:
    inner = shape["items"] if isinstance(shape.get("items"), Mapping) else shape
    listed = inner.get("enum") or [one.get("const") for one in inner.get("oneOf") or inner.get("anyOf") or ()]
    return tuple(str(one) for one in listed)


def response_of(question: Question, answer: Message) -> Json:
    """The client's response for an answer; the inverse of ``answer_of``."""
    if isinstance(question, Sampling):
        about = answer.labelled("sampling")
        parts = [part for part in answer.parts if part != about and not part.is_token]
        blocks = [block_of(part, number) for number, part in enumerate(parts)]
        content = blocks[0] if len(blocks) == 1 else blocks
        said = about.value if about is not None and isinstance(about.value, dict) else {}
        return {"role": "assistant", "model": "sabir", "stopReason": "endTurn", **said, "content": content}
    if isinstance(question, Roots):
        part = answer.labelled("roots")
        return {"roots": part.value["roots"] if part is not None and isinstance(part.value, dict) else []}
    action = answer.labelled(ACTION)
    if action is not None and isinstance(action.value, dict):
        return {"action": action.value.get("action", "decline")}
    values = _values(question, answer)
    if isinstance(question, ByUrl):  # its answer is whether it was done, never what
        done = values is not None and str(values.get(DONE)).lower() in _YES
        return {"action": "accept" if done else "decline"}
    return {"action": "accept", "content": _filled(question, values)} if values is not None else {"action": "decline"}


def _filled(question: Question, values: Json) -> Json:
    """Fill in defaults of the form."""
    properties = schema_of(question).get("properties") or {}
    proposed = {name: shape["default"] for name, shape in properties.items() if "default" in shape}
    return {**proposed, **values}


def _values(question: Question, answer: Message) -> Json | None:
    part = answer.labelled(ANSWER) or next((p for p in answer.parts if p.kind == "json"), None)
    if part is not None and isinstance(part.value, dict):
        return part.value
    text = answer.text.strip()
    if not text:
        return None
    properties = schema_of(question).get("properties") or {}
    if len(properties) == 1:
        name, shape = next(iter(properties.items()))
        return {name: _typed(text, shape)}
    try:
        given = msgspec.json.decode(text)
    except NOT_JSON:
        return None
    return given if isinstance(given, dict) else None


_YES: Final = frozenset({"yes", "true", "y", "1", "ok", "done"})


def _typed(text: str, shape: Mapping[str, Any]) -> object:
    kind = shape.get("type")
    if kind == "boolean":
        return text.lower() in _YES
    if kind in ("number", "integer"):
        try:
            return int(text) if kind == "integer" else float(text)
        except ValueError:
            return text
    if kind == "array":
        return [piece.strip() for piece in text.split(",")]
    return text


def asked_in_words(question: Question) -> Message:
    """A question as a message, for a client that cannot be asked: the next call answers it."""
    parts = tuple(text_part(f"- {one.text}" + _choices(one)) for one in question.fields)
    return Message.text(question.text, parts=parts)


def _choices(one: Field) -> str:
    return f" ({', '.join(one.options)})" if one.options else ""
