"""The dialects of NLWeb servers: where the results, texts, errors and questions of one JSON object are.

Servers before 0.54 name each object by ``message_type``; later ones name its sections. ``dialect_of`` chooses the row
of the table for one object, because a server may send both kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from sabir.events import Question

from .mapping import question_of
from .models import Elicitation, ElicitationQuestion, Error, Json

# The names of objects in servers before 0.54, by our meaning.
_OLD_RESULTS: Final = frozenset({"result_batch", "result"})
_OLD_TEXTS: Final = frozenset({"summary", "nlws", "text", "chart_result"})
_OLD_QUESTIONS: Final = frozenset({"ask_user"})


class Dialect(NamedTuple):
    """How one object of a server is read."""

    items: Callable[[Json], list[Any]]
    texts: Callable[[Json], list[str]]
    error: Callable[[Json], Error | None]
    question: Callable[[Json], Question | None]


def dialect_of(data: Json) -> Dialect:
    return DIALECTS["0.5" if data.get("message_type") else "0.54"]


# -- 0.54 and 0.55 --------------------------------------------------------------------------------


def _items(data: Json) -> list[Any]:
    found: list[Any] = [data["item"]] if isinstance(data.get("item"), dict) else []
    for key in ("results", "structuredData"):
        found += data[key] if isinstance(data.get(key), list) else []
    for block in _blocks(data):
        found += _embedded(block)
    return found


def _embedded(block: Json) -> list[Any]:
    """The objects in a resource block, as some servers embed their results."""
    resource = block.get("resource")
    inner = resource.get("data") if isinstance(resource, dict) else None
    if isinstance(inner, dict):
        return [inner]
    return inner if isinstance(inner, list) else []


def _texts(data: Json) -> list[str]:
    found = [data.get("text")] if data.get("type") == "text" else []
    for block in _blocks(data):
        if (block.get("type") or block.get("Type")) == "text":
            found.append(block.get("text") or block.get("Text"))
    return [text for text in found if isinstance(text, str)]


def _blocks(data: Json) -> Iterator[Json]:
    content = data.get("content")
    for block in content if isinstance(content, list) else ():
        if isinstance(block, dict):
            yield block


def _error(data: Json) -> Error | None:
    error = data.get("error")
    if isinstance(error, dict):
        return Error(str(error.get("code", "ERROR")), str(error.get("message", "")))
    return Error("ERROR", error or _words(data)) if isinstance(error, str) else None


def _question(data: Json) -> Question | None:
    value = data.get("elicitation")
    return question_of(_elicitation(value)) if isinstance(value, dict) else None


def _elicitation(value: Json) -> Elicitation:
    questions = tuple(
        ElicitationQuestion(
            str(item.get("id", "")),
            str(item.get("text", "")),
            str(item.get("type", "text")),
            tuple(str(option) for option in item.get("options") or ()),
            item.get("required") is not False,
        )
        for item in value.get("questions") or ()
        if isinstance(item, dict)
    )
    return Elicitation(str(value.get("text", "")), questions)


# -- before 0.54 ----------------------------------------------------------------------------------


def _old_items(data: Json) -> list[Any]:
    content = data.get("content")
    own = content if data["message_type"] in _OLD_RESULTS and isinstance(content, list) else []
    return [*own, *_items(data)]


def _old_texts(data: Json) -> list[str]:
    found = _texts(data)
    if data["message_type"] in _OLD_TEXTS:
        text = data.get("content") or data.get("text")
        found += [text] if isinstance(text, str) else []
    return found


def _old_error(data: Json) -> Error | None:
    if data["message_type"] == "error" and not isinstance(data.get("error"), dict):
        error = data.get("error")
        return Error("ERROR", error if isinstance(error, str) and error else _words(data))
    return _error(data)


def _old_question(data: Json) -> Question | None:
    return Question(_words(data)) if data["message_type"] in _OLD_QUESTIONS else _question(data)


def _words(data: Json) -> str:
    return str(data.get("content") or data.get("message") or "")


DIALECTS: Final[Mapping[str, Dialect]] = {
    "0.54": Dialect(_items, _texts, _error, _question),
    "0.5": Dialect(_old_items, _old_texts, _old_error, _old_question),
}
