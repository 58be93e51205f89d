"""The arguments of a typed agent, from a JSON object or text. The caller is asked for a missing one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from .errors import BadInput
from .events import Field, Question
from .message import Message
from .signature import Signature
from .turn import Turn

_KINDS: Final[Mapping[str, str]] = {"integer": "number", "number": "number", "boolean": "boolean"}
_FALSE: Final = frozenset({"no", "false", "off", "0"})
_TRUE: Final = frozenset({"yes", "true", "on", "1"})
ATTEMPTS: Final = 3  # at a valid answer


async def arguments_of(turn: Turn, signature: Signature) -> dict[str, Any]:
    """The arguments in the function's types.

    Raises:
        BadInput: one is unknown or invalid.
        TurnFailed: one is missing, and the caller cannot be asked.
    """
    given = _given(turn.message, signature)
    for name in signature.missing(given):
        given[name] = await _asked(turn, name, signature)
    return signature.read(given)


def _given(message: Message, signature: Signature) -> dict[str, Any]:
    for part in message.parts:
        value = part.value if part.format == "structured" else None
        if isinstance(value, Mapping):
            return dict(value)
    words = message.text.strip()
    required = signature.missing({})
    names = required or list(signature.schema.get("properties", {}))
    if words and len(names) == 1:  # text alone can only be the single required argument
        return {names[0]: value_of_words(words, _schema(signature, names[0]))}
    return {}


async def _asked(turn: Turn, name: str, signature: Signature) -> Any:
    """Ask for one argument; repeats the question if the answer is invalid."""
    schema = _schema(signature, name)
    title = name.replace("_", " ").capitalize()
    described = str(schema.get("description") or "")
    about = f"{title} ({described})" if described else title
    options = tuple(str(item) for item in schema.get("enum", ()))
    kind = "single_select" if options else _KINDS.get(str(schema.get("type")), "text")
    words = f"{title}? ({described})" if described else f"{title}?"
    question = Question(words, (Field(name, about, kind, options),))
    for attempt in range(1, ATTEMPTS + 1):
        value = _answer(await turn.ask(question), name, schema)
        try:
            signature.check(name, value)
        except BadInput as exc:
            if attempt == ATTEMPTS:
                raise
            question = Question(f"{words} ({exc.expected})", question.fields)
        else:
            return value
    raise BadInput("arguments", f"$.{name}", "an answer")


def _answer(answer: Message, name: str, schema: Mapping[str, Any]) -> Any:
    for part in answer.parts:
        value = part.value if part.format == "structured" else None
        if isinstance(value, Mapping) and name in value:
            return value[name]
    return value_of_words(answer.text.strip(), schema)


def _schema(signature: Signature, name: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = signature.schema.get("properties", {}).get(name, {})
    return found


def value_of_words(words: str, schema: Mapping[str, Any]) -> Any:
    """Text as a value of the wanted type, or the text itself if it is not one."""
    if schema.get("type") == "boolean" and words.casefold() in _TRUE | _FALSE:
        return words.casefold() in _TRUE
    if schema.get("type") == "array":
        return [item.strip() for item in words.split(",")]
    return words
