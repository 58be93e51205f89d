"""The envelope: the message of the MassGen NLIP design (``format``, ``control``, ``token`` as objects), as a Message.

``decode`` and ``encode`` map it to an ECMA-430 message and back without loss: fields that ECMA-430 does not
have are in one submessage ``generic``/``sabir.envelope``. The table is in ``docs/massgen.md``.
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from sabir.errors import BadMessage, MissingExtra, TooLarge, UnknownVersion, Unreadable
from sabir.limits import LIMITS, Limits, check_cost
from sabir.message import ERROR, Message, Part, json_part, text_part, token_kind, token_part
from sabir.misfits import misfit

from . import json as nlip
from .rules import PROTOCOL, check_value, message_from, plain, unbase64

ENVELOPE: Final = "sabir.envelope"  # subformat of the part with the fields that ECMA-430 does not have
TOOL_CALL: Final = "tool_call"  # labels of structured parts
TOOL_RESULT: Final = "tool_result"
MESSAGES: Final = "messages"  # label of the part with the messages before the last one
SUBMESSAGES: Final = "submessages"  # in the metadata of an envelope: parts that fit nowhere else
FIELDS: Final = (nlip.TRACE, nlip.HOPS)  # besides the design's own: what HTTP has in headers, for other transports
VERSIONS: Final = ("1.0",)
ENCODINGS: Final = ("utf-8", "utf8")
COMPRESSIONS: Final = ("gzip", "zstd")
CODES: Final = nlip.CODES
LOSSES: Final[tuple[str, ...]] = ()  # parts that the design does not know go into the metadata
TYPES: Final = ("request", "response", "notification", "error")
MessageType = Literal["request", "response", "notification", "error"]


class EnvelopeOptions(msgspec.Struct, frozen=True):
    """How a gateway answers envelopes: the keys ``nlip.*`` of its configuration."""

    enabled: bool = True
    agents: dict[str, bool] = {}  # those that differ
    schema_version: str = VERSIONS[0]  # of answers
    sessions: bool = True  # whether there are sessions at all
    begins_sessions: bool = True  # whether a request without a session starts one
    counts_turns: bool = True
    keeps_context_tokens: bool = False  # whether context tokens outlive the process

    def takes(self, agent: str) -> bool:
        """Whether this agent accepts envelopes."""
        return self.agents.get(agent, self.enabled)


class NestedControl(msgspec.Struct, omit_defaults=True):
    message_type: MessageType
    message_id: str = ""
    correlation_id: str | None = None
    timestamp: str = ""
    priority: Annotated[int, Meta(ge=0, le=10)] | None = 0
    timeout: Annotated[float, Meta(gt=0)] | None = None
    retry_count: Annotated[int, Meta(ge=0)] = 0
    authentication: str | None = None  # a credential (G-7)

    def __repr__(self) -> str:
        return f"Control({self.message_type!r})"  # never the credential


class Token(msgspec.Struct, omit_defaults=True):
    session_id: str | None = None
    context_token: str | None = None
    state_token: str | None = None
    conversation_turn: int = 0


class Format(msgspec.Struct, omit_defaults=True):
    content_type: str = "application/json"
    encoding: str = ENCODINGS[0]
    schema_version: str = VERSIONS[0]
    compression: str | None = None


class EnvelopeCall(msgspec.Struct, omit_defaults=True):
    tool_id: str
    tool_name: str
    parameters: dict[str, Any] = {}
    require_confirmation: bool = False


class EnvelopeResult(msgspec.Struct, omit_defaults=True):
    tool_id: str
    tool_name: str
    status: Literal["success", "error", "pending"]
    result: Any = None
    error: str | None = None
    metadata: dict[str, Any] = {}


class NestedMessage(msgspec.Struct, omit_defaults=True):
    format: Format
    control: NestedControl
    token: Token
    content: dict[str, Any] | str
    tool_calls: list[EnvelopeCall] | None = None
    tool_results: list[EnvelopeResult] | None = None
    metadata: dict[str, Any] = {}


class Facts(msgspec.Struct, omit_defaults=True):
    """The content of the part ``sabir.envelope``."""

    message_id: str = ""
    correlation_id: str | None = None
    timestamp: str = ""
    priority: int | None = 0
    timeout: float | None = None
    retry_count: int = 0
    conversation_turn: int = 0
    content_type: str = "application/json"
    encoding: str = ENCODINGS[0]
    schema_version: str = VERSIONS[0]
    compression: str | None = None
    metadata: dict[str, Any] = {}
    content: dict[str, Any] | None = None  # if the first part does not contain all of it
    words: str | None = None  # the key of the content whose text is the first part


_TOKENS: Final = (("session_id", "conversation"), ("context_token", "context"), ("state_token", "state"))
_WORDS: Final = ("query", "content")
_SPOKEN: Final = frozenset({"partial", "content", "complete"})


def is_envelope(value: object) -> bool:
    """Whether a decoded object is an envelope: its ``format`` is an object, where ECMA-430 has a string, and its
    ``control`` is an object with a message type. Anything else is read, and rejected, as ECMA-430."""
    if not isinstance(value, Mapping) or not isinstance(value.get("format"), Mapping):
        return False
    control = value.get("control")
    return isinstance(control, Mapping) and "message_type" in control


def decode(body: bytes, *, limits: Limits = LIMITS) -> Message | None:
    """The Message in a JSON envelope; None if it is not an envelope.

    Raises:
        BadInput: it is an invalid envelope; says where and what was expected.
    """
    value = value_in(body, limits=limits)
    return None if value is None else message_of(value, limits=limits)


def value_in(body: bytes, *, limits: Limits = LIMITS) -> dict[str, Any] | None:
    """The envelope in these bytes as plain values, unchecked; None if it is not an envelope."""
    if b'"control"' not in body or len(body) > limits.body:
        return None
    try:
        value = msgspec.json.decode(body)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return None
    return value if is_envelope(value) else None


def message_of(value: Any, *, limits: Limits = LIMITS) -> Message:
    """The Message in an already decoded envelope, from JSON or CBOR; raises as ``decode`` does."""
    check_value(value, "$", limits.depth)
    try:
        envelope = msgspec.convert(value, NestedMessage)
    except msgspec.ValidationError as exc:
        raise BadMessage(PROTOCOL, *misfit(exc, NestedMessage)) from None
    content = _checked_content(envelope, limits)
    facts = _facts_of(envelope)
    first, more = _first_parts(content, facts, envelope.control.message_type)
    listed = envelope.metadata.get(SUBMESSAGES, [])
    if not isinstance(listed, list):
        raise BadMessage(PROTOCOL, f"$.metadata.{SUBMESSAGES}", "an array of submessages")
    parts = [*more, *_token_parts(envelope), *_tool_parts(envelope)]
    parts.append(Part("generic", ENVELOPE, msgspec.to_builtins(facts)))
    messagetype = str(envelope.metadata.get("messagetype", envelope.control.message_type))
    spelled = plain(Message.of(first, *parts, messagetype=messagetype))
    spelled[SUBMESSAGES] += listed
    for name in FIELDS:
        if isinstance(value.get(name), str | int):
            spelled[name] = value[name]
    return message_from(spelled, limits=limits)


def check_format(schema_version: str, encoding: str, compression: str | None) -> None:
    """Raises:
    BadInput: the version, the encoding or the compression is unknown; names the known ones (MW-7, G-12).
    """
    if schema_version not in VERSIONS:
        raise UnknownVersion(PROTOCOL, "$.format.schema_version", " or ".join(VERSIONS))
    if encoding.lower() not in ENCODINGS:
        raise BadMessage(PROTOCOL, "$.format.encoding", ENCODINGS[0])
    if compression is not None and compression not in COMPRESSIONS:
        raise BadMessage(PROTOCOL, "$.format.compression", " or ".join(COMPRESSIONS))


def _checked_content(envelope: NestedMessage, limits: Limits) -> dict[str, Any]:
    form = envelope.format
    check_format(form.schema_version, form.encoding, form.compression)
    if form.compression is None:
        if isinstance(envelope.content, str):
            raise BadMessage(PROTOCOL, "$.content", "an object")
        return envelope.content
    data = envelope.content if isinstance(envelope.content, str) else envelope.content.get("data")
    if not isinstance(data, str):
        raise BadMessage(PROTOCOL, "$.content", "the compressed object in base64, as a string or as its key data")
    unpacked = _unpacked(form.compression, unbase64(data, "$.content"), limits.body)
    check_cost(unpacked, limits, PROTOCOL)
    try:
        content = msgspec.json.decode(unpacked)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        raise Unreadable(PROTOCOL, "$.content", f"JSON inside {form.compression}") from None
    if not isinstance(content, dict):
        raise BadMessage(PROTOCOL, "$.content", "an object")
    check_value(content, "$.content", limits.depth)
    return content


def _unpacked(compression: str, data: bytes, limit: int) -> bytes:
    """Decompress, up to the size limit of a message."""
    try:
        if compression == "gzip":
            with gzip.GzipFile(fileobj=io.BytesIO(data)) as packed:
                found = packed.read(limit + 1)
        else:
            found = _zstd(data, limit)
    except (OSError, EOFError, zlib.error):
        raise Unreadable(PROTOCOL, "$.content", f"{compression} data") from None
    if len(found) > limit:
        raise TooLarge(PROTOCOL, "$.content", f"at most {limit} bytes when unpacked")
    return found


def _zstd(data: bytes, limit: int) -> bytes:
    try:
        import zstandard  # noqa: PLC0415 - an extra
    except ImportError as exc:
        raise MissingExtra("an envelope compressed with zstd", "massgen") from exc
    try:
        with zstandard.ZstdDecompressor(max_window_size=2**27).stream_reader(data) as reader:
            return bytes(reader.read(limit + 1))
    except zstandard.ZstdError as exc:
        raise OSError(str(exc)) from None


def _facts_of(envelope: NestedMessage) -> Facts:
    control, form = envelope.control, envelope.format
    return Facts(
        message_id=control.message_id,
        correlation_id=control.correlation_id,
        timestamp=control.timestamp,
        priority=control.priority,
        timeout=control.timeout,
        retry_count=control.retry_count,
        conversation_turn=envelope.token.conversation_turn,
        content_type=form.content_type,
        encoding=form.encoding,
        schema_version=form.schema_version,
        compression=form.compression,
        metadata={key: value for key, value in envelope.metadata.items() if key not in (SUBMESSAGES, "messagetype")},
    )


def _first_parts(content: dict[str, Any], facts: Facts, kind: MessageType) -> tuple[Part, list[Part]]:
    """The content as the first part: text if it is only text, otherwise JSON; and the messages before the last one."""
    for key in _WORDS:
        if len(content) == 1 and isinstance(content.get(key), str):
            facts.words = key
            return text_part(content[key]), []
    messages = content.get("messages")
    if isinstance(messages, list) and messages:
        words = _last_words(messages)
        if words is not None:
            facts.content = content
            return text_part(words), [json_part({"messages": messages[:-1]}, label=MESSAGES)] if messages[1:] else []
    if kind == ERROR and isinstance(content.get("error"), str):
        facts.content = content
        return text_part(content["error"]), []
    if _SPOKEN.issuperset(content) and "partial" in content and isinstance(content.get("content"), str):
        facts.content = content  # an answer, or a piece of one
        return text_part(content["content"]), []
    if not content:
        facts.content = {}
        return text_part(""), []
    return json_part(content), []


def _last_words(messages: list[Any]) -> str | None:
    last = messages[-1]
    words = last.get("content") if isinstance(last, dict) and last.get("role") == "user" else None
    return words if isinstance(words, str) else None


def _token_parts(envelope: NestedMessage) -> list[Part]:
    parts = []
    for name, subformat in _TOKENS:
        if (found := getattr(envelope.token, name)) is not None:
            parts.append(token_part(found, subformat))
    if envelope.control.authentication is not None:
        parts.append(token_part(envelope.control.authentication, "authentication"))
    return parts


def _tool_parts(envelope: NestedMessage) -> list[Part]:
    calls = [json_part(msgspec.to_builtins(tool_call), label=TOOL_CALL) for tool_call in envelope.tool_calls or ()]
    return calls + [
        json_part(msgspec.to_builtins(tool_result), label=TOOL_RESULT) for tool_result in envelope.tool_results or ()
    ]


# -- back -----------------------------------------------------------------------------------------


def facts_of(message: Message) -> Facts | None:
    """The fields of a message's envelope; None if it did not come in an envelope."""
    for part in message.submessages:
        if part.format == "generic" and part.subformat == ENVELOPE:
            try:
                return msgspec.convert(part.value, Facts)
            except msgspec.ValidationError:
                return None  # not ours
    return None


def without_facts(message: Message) -> Message:
    """The same message as agents see it."""
    kept = tuple(part for part in message.submessages if part.subformat != ENVELOPE)
    if len(kept) == len(message.submessages):
        return message
    return msgspec.structs.replace(message, submessages=kept)


def value_of(message: Message, facts: Facts | None = None) -> dict[str, Any]:
    """The envelope of a message as plain values. ``facts`` defaults to its own."""
    facts = facts or facts_of(message) or Facts()
    tokens: dict[str, Any] = {}
    calls: list[Any] = []
    results: list[Any] = []
    others: list[Part] = []
    for part in message.submessages:
        kind = token_kind(part.subformat) if part.is_token else ""
        if kind in ("conversation", "context", "state", "authentication") and kind not in tokens:
            tokens[kind] = part.content
        elif part.label == TOOL_CALL and isinstance(part.value, dict):
            calls.append(part.value)
        elif part.label == TOOL_RESULT and isinstance(part.value, dict):
            results.append(part.value)
        elif part.subformat != ENVELOPE and not (part.label == MESSAGES and facts.content is not None):
            others.append(part)
    written: dict[str, Any] = {
        "format": _spelled(Format(facts.content_type, facts.encoding, facts.schema_version, facts.compression)),
        "control": _control(message, facts, tokens.get("authentication")),
        "token": _spelled(
            Token(tokens.get("conversation"), tokens.get("context"), tokens.get("state"), facts.conversation_turn)
        ),
        "content": _content_of(message, facts, results),
    }
    if calls:
        written["tool_calls"] = calls
    if results:
        written["tool_results"] = results
    metadata = _metadata_of(message, facts, others)
    if metadata:
        written["metadata"] = metadata
    for name, value in (message.extra or {}).items():
        if name in FIELDS:
            written[name] = value
    return written


def encode(message: Message, facts: Facts | None = None) -> bytes:
    """Write a Message as an envelope in JSON."""
    return msgspec.json.encode(value_of(message, facts))


def _spelled(value: msgspec.Struct) -> dict[str, Any]:
    """All fields, including defaults, as the design writes them."""
    return {name: getattr(value, name) for name in value.__struct_fields__}


def _control(message: Message, facts: Facts, authentication: Any) -> dict[str, Any]:
    kind = message.messagetype if message.messagetype in TYPES else "response"
    control = {
        "message_type": kind,
        "message_id": facts.message_id,
        "correlation_id": facts.correlation_id,
        "timestamp": facts.timestamp,
        "priority": facts.priority,
        "timeout": facts.timeout,
        "retry_count": facts.retry_count,
    }
    if authentication is not None:
        control["authentication"] = authentication
    return control


def _content_of(message: Message, facts: Facts, results: list[Any]) -> dict[str, Any]:
    if facts.content is not None:
        return facts.content
    if message.messagetype == ERROR:
        return {"error": message.text, "original_request": facts.correlation_id}
    if message.messagetype == nlip.PARTIAL:
        return _piece_of(message)
    if message.format == "structured" and isinstance(message.content, dict):
        return message.content
    if facts.words is not None:
        return {facts.words: str(message.content)}
    if len(results) == 1:
        return {"status": results[0].get("status"), "result": results[0].get("result")}
    if results:
        failed = any(result.get("status") != "success" for result in results)
        return {"status": "error" if failed else "success", "result": [result.get("result") for result in results]}
    question = nlip.question_of(message)
    if question is not None:
        asked = message.labelled("question")
        return {"content": question.text, "question": asked.value if asked is not None else {"text": question.text}}
    return {"partial": False, "content": message.text, "complete": True}


def _piece_of(message: Message) -> dict[str, Any]:
    progress = message.labelled("progress")
    if progress is not None:
        return {"partial": True, "content": "", "progress": progress.value}
    words = [str(part.content) for part in message.submessages if part.format == "text"]
    return {"partial": True, "content": "".join(words)}


def _metadata_of(message: Message, facts: Facts, others: list[Part]) -> dict[str, Any]:
    """The metadata, with the parts that fit nowhere else, without what the content already has."""
    metadata = dict(facts.metadata)
    said = {"question", "progress"} if facts.words is None else set()
    shown = [part for part in others if part.label not in said and not (part.is_token and part.content is None)]
    if message.messagetype == nlip.PARTIAL:
        shown = [part for part in shown if part.format not in ("text", "token")]
    if message.messagetype not in (*TYPES, None, nlip.PARTIAL):
        metadata["messagetype"] = message.messagetype
    is_shown = message.format == "text" or (message.format == "structured" and isinstance(message.content, dict))
    if not is_shown:
        shown.insert(0, message.first)
    if shown:
        metadata[SUBMESSAGES] = plain(Message.of(text_part(""), *shown))[SUBMESSAGES]
    return metadata
