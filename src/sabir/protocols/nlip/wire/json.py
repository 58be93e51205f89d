"""The NLIP wire in JSON (ECMA-430; ECMA-431 bodies, ECMA-432 text frames).

``decode`` reads the common spelling directly into the typed value, and falls back to a slower, checking path;
``encode`` is its inverse. Lenient by default; ``strict`` follows the standard.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, NoReturn

import msgspec

from sabir import errors
from sabir.errors import BadMessage, PolicyRequired, SabirError, TooLarge, Unauthenticated, Unreadable
from sabir.events import Delta, Event, Field, Progress, Question, Reply, field_kind
from sabir.limits import LIMITS, Limits, check_cost, depth_of
from sabir.message import CONTROL, STRUCTURED, Message, Part, json_part

from .rules import PROTOCOL, check_content, message_from, needs_spelling, plain, token_size

PARTIAL: Final = "partial"
# WebSocket has no headers per message. What HTTP has there is a field of the message, which is only sent to peers that
# named it in a handshake header: others may reject an unknown field (D-05).
TRACE: Final = "traceparent"
HOPS: Final = "x-sabir-hops"
READS: Final = "x-sabir-fields"
STATUS: Final = "status"  # label of the part with the error code, if there is no status line
LOSSES: Final[tuple[str, ...]] = ()  # the hub uses this protocol's own format

# The HTTP status of each failure (D-22). A test checks it against all errors.
CODES: Final[Mapping[type[errors.SabirError], int]] = errors.ErrorTable(
    {
        errors.SabirError: 500,
        errors.BadInput: 422,
        errors.Unreadable: 400,
        errors.BadMessage: 422,
        errors.TooLarge: 413,
        errors.BadMediaType: 415,
        errors.BadMethod: 405,
        errors.UnknownVersion: 400,
        errors.Refused: 403,
        errors.Unauthenticated: 401,
        errors.Forbidden: 403,
        errors.RateLimited: 429,
        errors.PolicyRequired: 403,
        errors.NotFound: 404,
        errors.Conflict: 409,
        errors.Cancelled: 409,
        errors.TurnFailed: 500,
        errors.DeadlineExceeded: 504,
        errors.Unavailable: 503,
        errors.ShuttingDown: 503,
        errors.StoreUnavailable: 503,
        errors.BusUnavailable: 503,
        errors.PeerError: 502,
        errors.PeerUnavailable: 502,
        errors.PeerRefused: 502,
        errors.PeerUnreadable: 502,
        errors.ConfigError: 500,
        errors.MissingExtra: 501,
    }
)

_typed = msgspec.json.Decoder(Message)
_encode = msgspec.json.Encoder().encode
_BOM: Final = b"\xef\xbb\xbf"
_LONG: Final = 32 * 1024  # bytes from which the text of a body is skipped when its surroundings are checked
_SHORT: Final = "x"


def decode(body: bytes, *, strict: bool = False, limits: Limits = LIMITS, is_counted: bool = False) -> Message:
    """Decode one NLIP message from JSON; ``is_counted`` means that its values were already counted (``check_cost``).

    Raises:
        Unreadable: not JSON (CORE-5.0.1, CORE-5.0.4).
        BadMessage: JSON, but not an NLIP message.
        TooLarge: over a limit.
    """
    if len(body) > limits.body:
        raise TooLarge(PROTOCOL, "$", f"at most {limits.body} bytes")
    if not is_counted:
        check_cost(body, limits, PROTOCOL)
    if not strict:
        try:
            message = _typed.decode(body)
        except (msgspec.MsgspecError, RecursionError, ValueError):
            pass
        else:
            checked = _as_is(message, body, limits) if len(body) < _LONG else _long_as_is(message, body, limits)
            if checked is not None:
                return checked
    return _read_carefully(body, strict, limits)


def encode(message: Message, *, answering: Message | None = None) -> bytes:
    """Encode a Message as JSON that ECMA-430 allows and the reference SDK reads.

    ``answering`` is the message it replies to; what that peer uses itself may be sent to it.
    """
    is_words = message.format == "text" and message.subformat == "english" and not message.submessages
    if (is_words and message.label is None and message.extra is None) or not needs_spelling(message, answering):
        return _encode(message)
    return _encode(plain(message, answering))


# -- the common spelling ------------------------------------------------------------------------

_PLAIN_KINDS: Final = frozenset({"json", "xml", "html"})


def _as_is(message: Message, body: bytes, limits: Limits) -> Message | None:
    """The message, if it is in the common spelling and certainly valid; None takes the slow path."""
    listed = message.submessages
    if not listed and message.format == "text" and not (message.messagetype or message.label or message.extra):
        # Text only; exactly as long as we would write it, so no field is duplicated.
        language, words = message.subformat, message.content
        if (
            type(words) is str
            and len(_encode(message)) == len(body)
            and (
                language == "english" or (language.strip() == language and 0 < len(language) <= limits.subformat_length)
            )
        ):
            return message
    if message.extra is not None or len(listed) > limits.submessages or len(listed) >= limits.tokens:
        return None
    if not _is_well_labelled(message, limits.label_length):
        return None
    # In its shortest form it is as long as the input, so nothing is duplicated. (A fraction may have a shorter form
    # than we write, so this only holds for messages without any.)
    if len(_encode(message)) != len(body) or not _is_plain(message, limits.depth):
        if _may_repeat(message, body):
            return None  # check closely (D-03)
        nests = body.count(b"{") + body.count(b"[") > limits.depth
        if nests and _depth(message, limits.depth) > limits.depth:
            return None
    content = _content_as_is(message, limits)
    if content is None:
        return None
    parts = listed
    if listed:
        checked = _parts_as_is(listed, limits)
        if checked is None:
            return None
        parts = checked
    if parts is listed and content is message.content:
        return message
    return msgspec.structs.replace(message, content=content, submessages=parts)


def _long_as_is(message: Message, body: bytes, limits: Limits) -> Message | None:
    """The same for a long message: its text is compared once, and the rest is checked without it."""
    words = message.content
    around = _without_words(words, body) if message.format == "text" and type(words) is str else None
    if around is None:
        return _as_is(message, body, limits)
    short = _as_is(msgspec.structs.replace(message, content=_SHORT), around, limits)
    return None if short is None else msgspec.structs.replace(short, content=words)


def _without_words(words: str, body: bytes) -> bytes | None:
    """The body with ``_SHORT`` in place of its text; None if the text is spelt differently from how we write it."""
    name = body.find(b'"content"')
    start = body.find(b'"', name + 9)
    if name < 0 or body[name + 9 : start].strip() != b":":
        return None
    written = _encode(words)
    if not body.startswith(written, start):
        return None
    return b'%s"%s"%s' % (body[:start], _SHORT.encode(), body[start + len(written) :])


def _is_well_labelled(message: Message, max_length: int) -> bool:
    label, kind = message.label, message.messagetype
    if label is not None and len(label) > max_length:
        return False
    return kind is None or (len(kind) <= max_length and kind == kind.strip())


def _is_plain(message: Message, depth: int) -> bool:
    """Whether no content has a fraction or is nested too deeply."""
    if type(message.content) is not str and not _is_plain_value(message.content, depth):
        return False
    return all(type(part.content) is str or _is_plain_value(part.content, depth) for part in message.submessages)


def _is_plain_value(value: Any, depth: int) -> bool:
    kind = type(value)
    if kind is dict:
        value = value.values()
    elif kind is not list:
        return kind is not float
    return depth > 0 and all(type(item) is str or _is_plain_value(item, depth - 1) for item in value)


def _may_repeat(message: Message, body: bytes) -> bool:
    """Whether a field might be duplicated: its name occurs more often than the message has it."""
    if b"\\u00" in body:  # an escaped letter could hide a name
        return True
    parts = 1 + len(message.submessages)
    labels = (message.label is not None) + sum(part.label is not None for part in message.submessages)
    return (
        body.count(b'"format"') != parts
        or body.count(b'"subformat"') != parts
        or body.count(b'"content"') != parts
        or body.count(b'"label"') > labels
        or body.count(b'"messagetype"') > (message.messagetype is not None)
        or body.count(b'"control"') > (message.control is not None)
        or body.count(b'"submessages"') > bool(message.submessages)
    )


def _depth(message: Message, limit: int) -> int:
    return max(depth_of(part.content, limit) for part in message.parts)


def _parts_as_is(listed: tuple[Part, ...], limits: Limits) -> tuple[Part, ...] | None:
    parts: list[Part] | None = None
    for index, part in enumerate(listed):
        if part.extra is not None or (part.label is not None and len(part.label) > limits.label_length):
            return None
        content = _content_as_is(part, limits)
        if content is None:
            return None
        if content is not part.content:
            parts = parts or list(listed)
            parts[index] = Part(part.format, part.subformat, content, part.label)
    return listed if parts is None else tuple(parts)


def _content_as_is(part: Part | Message, limits: Limits) -> Any:
    """The content of a part in the common spelling, or None."""
    format_, subformat, content = part.format, part.subformat, part.content
    if len(subformat) > limits.subformat_length or not subformat or subformat.strip() != subformat:
        return None
    if format_ == "text":
        return content if type(content) is str else None
    if format_ == "token":
        return content if content is not None and token_size(content) <= limits.token_length else None
    if format_ == "structured":
        if subformat == "json" or type(content) is dict:
            return content if subformat == "json" else None
        return content if type(content) is str and subformat in _PLAIN_KINDS else None
    if format_ == "binary" and type(content) is str and "/" in subformat and subformat not in STRUCTURED:
        with suppress(BadMessage):  # the slow way says which part it is
            return check_content(format_, subformat, content, "$.content", limits=limits)[1]
    return None


# -- every other spelling -----------------------------------------------------------------------


class _Repeating(dict[str, Any]):
    """Raised for an object with a duplicate key, which ``repeated`` names."""

    repeated: frozenset[str] = frozenset()


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) == len(pairs):
        return made
    twice = _Repeating(made)
    twice.repeated = frozenset(key for key, times in Counter(key for key, _ in pairs).items() if times > 1)
    return twice


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_careful = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_no_constant)


def _read_carefully(body: bytes, strict: bool, limits: Limits) -> Message:
    if body.startswith(_BOM) and not strict:
        body = body[3:]  # D-04
    try:
        value = _careful.decode(body.decode())
    except UnicodeDecodeError as exc:
        raise Unreadable(PROTOCOL, f"byte {exc.start}", "UTF-8") from None
    except json.JSONDecodeError as exc:
        expected = "a JSON object" if not body.strip() else f"JSON ({exc.msg.lower()})"
        raise Unreadable(PROTOCOL, f"character {exc.pos}", expected) from None
    except RecursionError:
        raise TooLarge(PROTOCOL, "$", f"at most {limits.depth} levels of nesting") from None
    except ValueError:  # more digits than Python converts, or NaN or Infinity
        raise Unreadable(PROTOCOL, "$", "JSON with numbers of a usual length") from None
    return message_from(value, strict=strict, limits=limits)


# -- events as messages (D-34, and the row "ask back" of the bridge table) --------------------------


def question_message(question: Question) -> Message:
    """A Question in NLIP: its text, and its form as a labelled JSON part that old peers ignore."""
    shape: dict[str, Any] = {"text": question.text}
    if question.id:
        shape["id"] = question.id
    if question.fields:
        shape["questions"] = [
            {
                "id": f.id,
                "text": f.text,
                "type": f.kind,
                **({"options": list(f.options)} if f.options else {}),
                **({} if f.required else {"required": False}),
            }
            for f in question.fields
        ]
    if question.schema is not None:
        shape["schema"] = question.schema
    messagetype = CONTROL if question.control else None
    parts = (json_part(shape, label="question"),)
    return Message("text", "english", question.text, messagetype=messagetype, submessages=parts)


def question_of(message: Message) -> Question | None:
    """The Question in a message, if it is one; also as AG2 asks (D-12)."""
    part = message.labelled("question")
    if part is not None and isinstance(part.value, dict):
        shape = part.value
        fields = tuple(
            Field(
                str(f.get("id", "")),
                str(f.get("text", "")),
                field_kind(f.get("type")),
                tuple(str(option) for option in f.get("options", ())),
                f.get("required") is not False,
            )
            for f in shape.get("questions", ())
            if isinstance(f, dict)
        )
        schema = shape.get("schema")
        return Question(
            str(shape.get("text", message.text)),
            fields,
            schema if isinstance(schema, dict) else None,
            str(shape.get("id", "")),
        )
    asked = message.labelled("input_required")
    return Question(str(asked.content)) if asked is not None else None


def partial_message(event: Delta | Progress, number: int) -> Message:
    """A piece of an answer: ``messagetype: partial``, its part labelled with its number (D-34)."""
    if isinstance(event, Progress):
        how = {
            key: value for key, value in (("fraction", event.fraction), ("note", event.note)) if value not in (None, "")
        }
        return Message("text", "english", event.note, PARTIAL, submessages=(json_part(how, label="progress"),))
    part = event.part
    if part.format == "text":
        piece = Part("text", part.subformat, part.content, str(number))
        return Message("text", part.subformat, "", PARTIAL, submessages=(piece,))
    return Message(
        "text",
        "english",
        "",
        PARTIAL,
        submessages=(Part(part.format, part.subformat, part.content, part.label or str(number)),),
    )


def event_of(message: Message) -> Event:
    """The event that a message from a remote agent represents."""
    if (message.messagetype or "").lower() == PARTIAL:
        progress = message.labelled("progress")
        if progress is not None and isinstance(progress.value, dict):
            fraction = progress.value.get("fraction")
            known = isinstance(fraction, int | float) and not isinstance(fraction, bool)
            return Progress(fraction if known else None, str(progress.value.get("note", "")))
        part = next((p for p in message.submessages if p.format != "token"), message.first)
        label = None if part.label is not None and part.label.isdigit() else part.label
        return Delta(Part(part.format, part.subformat, part.content, label))
    question = question_of(message)
    if question is not None:
        return question
    return Reply(message)


def error_message(exc: SabirError, asked: Message | None = None, tokens: tuple[Part, ...] = ()) -> Message:
    """A failure in NLIP: an error for data, control for control (D-12), and control if it asks for authentication."""
    control = isinstance(exc, Unauthenticated | PolicyRequired) or (asked is not None and asked.is_control)
    message = Message.error(str(exc), control=control)
    if asked is not None and asked.is_control and asked.control is not None:
        message = msgspec.structs.replace(message, control=True)
    return message.with_parts(tokens)


def coded_error(exc: SabirError, asked: Message | None = None, tokens: tuple[Part, ...] = ()) -> Message:
    """The same without a status line (WebSocket, AMQP, a stream): an additional part has the code."""
    code = json_part({STATUS: CODES[type(exc)]}, label=STATUS)
    return error_message(exc, asked).with_parts((code, *tokens))


def code_in(message: Message) -> int | None:
    """The code that ``coded_error`` gave."""
    part = message.labelled(STATUS)
    code = part.value.get(STATUS) if part is not None and isinstance(part.value, dict) else None
    return code if isinstance(code, int) and not isinstance(code, bool) else None
