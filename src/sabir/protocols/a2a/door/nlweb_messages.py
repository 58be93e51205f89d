"""NLWeb over A2A: a message with a data part that has ``query`` is an NLWeb request.

The agent gets the request as from ``/ask``. The task carries the whole NLWeb body as a data part: an Answer is the
artifact, an Elicitation the message of ``input-required``, a Promise the message of a running task, and a Failure the
message of a failed task.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from sabir.errors import BadInput, BadMessage, TooLarge, UnknownVersion
from sabir.events import Question
from sabir.message import Message, Part, json_part, text_part
from sabir.protocols.a2a.wire import content as wire
from sabir.protocols.a2a.wire.tasks import TaskView, final_words
from sabir.protocols.nlip.wire.json import question_of
from sabir.protocols.nlweb.door.promises import FORMAT, response_of
from sabir.protocols.nlweb.wire.mapping import message_of
from sabir.protocols.nlweb.wire.models import (
    AnswerResponse,
    AskRequest,
    ElicitationResponse,
    FailureResponse,
    plain,
)
from sabir.protocols.nlweb.wire.requests import ask_of, nested
from sabir.protocols.nlweb.wire.responses import ResponseFormat
from sabir.stores.base import TaskRow
from sabir.tasks import FINAL

NLWEB: Final = FORMAT  # the key of a task's detail for the format of its answer
_SECTIONS: Final = ("query", "context", "prefer", "meta")


class NlwebRequest(msgspec.Struct, frozen=True):
    """An NLWeb request in an A2A message: the agent's input, and the format of its answer."""

    message: Message
    format: dict[str, Any]
    wait: float | None  # seconds until a running task is the better answer


def request_in(message: Message, source: str) -> NlwebRequest | None:
    """The NLWeb request in a message, or None if the message is not one.

    Raises:
        BadMessage, TooLarge: it is an invalid one; says where.
    """
    for index, part in enumerate(message.parts):
        if part.format != "structured" or part.label is not None or part.kind != "json":
            continue
        value = part.value
        if isinstance(value, dict) and isinstance(value.get("query"), dict | str):
            return _read(message, index, value, source)
    return None


def _read(message: Message, index: int, value: dict[str, Any], source: str) -> NlwebRequest:
    where = f"$.message.parts[{index}].data"
    others = [part for number, part in enumerate(message.parts) if number != index]
    try:
        request = ask_of(_whole(value, others))
        format_ = ResponseFormat.of(request, source).to_dict()
    except UnknownVersion as exc:
        raise BadMessage(wire.PROTOCOL, f"{where}.meta.api_version", exc.expected) from None
    except BadInput as exc:
        kind = TooLarge if isinstance(exc, TooLarge) else BadMessage
        raise kind(wire.PROTOCOL, f"{where}{exc.where.removeprefix('$')}", exc.expected) from None
    return NlwebRequest(_message(request, message, others), format_, request.prefer.wait)


def _whole(value: dict[str, Any], others: list[Part]) -> dict[str, Any]:
    """The request in its nested form. Its text may be in a separate part, or missing if it has answers."""
    if isinstance(value["query"], str):
        return nested(value)
    given = {name: section for name, section in value.items() if name in _SECTIONS}
    if given["query"].get("text") is not None:
        return given
    words = "\n".join(str(part.content) for part in others if part.format == "text")
    context = given.get("context")
    if words or (isinstance(context, dict) and context.get("answers")):
        given["query"] = {**given["query"], "text": words}
    return given


def _message(request: AskRequest, message: Message, others: list[Part]) -> Message:
    """The request as a Message, with the files and data that came with it."""
    made = message_of(request).without_tokens()
    for part in others:
        if part.format not in ("text", "token"):
            made = made.with_part(part)
    return wire.note(made, **wire.said_of(message))


def asks_in_reply(row: TaskRow) -> bool:
    """Whether an NLWeb task has ended with a question: the answer starts another turn of the conversation."""
    return bool(NLWEB in row.detail and row.reply is not None and question_of(row.reply) is not None)


def with_body(view: TaskView, row: TaskRow) -> TaskView:
    """The task of an NLWeb request as clients see it: with the NLWeb body."""
    response = response_of(row, ResponseFormat())
    body = json_part(plain(response))
    match response:
        case AnswerResponse():
            words = final_words(wire.spoken(row.reply)) if row.reply is not None else []
            return msgspec.structs.replace(view, reply=Message.of(body), status=tuple(words))
        case ElicitationResponse(elicitation=asked):
            state, words = "input-required", [text_part(asked.text)]
            question = view.question or Question(asked.text)
            return msgspec.structs.replace(view, state=state, reply=None, question=question, status=(*words, body))
        case FailureResponse(error=error):
            state = row.state if row.state in FINAL and row.state != "completed" else "failed"
            status = (text_part(error.message), body)
            return msgspec.structs.replace(view, state=state, reply=None, pieces=(), status=status)
        case _:
            return msgspec.structs.replace(view, status=(body,))
