"""The MCP wire: converts Messages, Cards and failures to JSON objects of the Model Context Protocol, and back.

Objects, not bytes: JSON-RPC framing and version checks are the official SDK's, on both sides. What a content block
cannot express of a Part (its language, its label, its format) goes into the block's ``_meta`` under ``PART``, which
other software ignores. Questions are in ``elicitation``.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from sabir import errors
from sabir.card import Skill
from sabir.errors import BadMessage, SabirError
from sabir.message import Message, Part, json_part, text_part, token_part, uri_part
from sabir.misfits import NOT_JSON

PROTOCOL: Final = "mcp"
Json = dict[str, Any]

PART: Final = "io.sabir/part"  # in a block's _meta: the fields of the Part that do not fit the block
CONVERSATION: Final = "io.sabir/conversation"  # in a result's _meta: the token that continues the conversation
HOPS: Final = "io.sabir/hops"  # in a request's _meta: how many gateways it has passed
STRUCTURED: Final = "structuredContent"  # label of the part that holds a tool's structured result

# What MCP cannot carry. A test sends each of them through and finds it gone.
LOSSES: Final[tuple[str, ...]] = (
    "tokens other than the conversation's",
    "message types other than error",
    "unknown fields of a message",
    "streamed pieces of binary content",
    "streamed pieces of text, which arrive as progress notes",
)

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
MISSING_CAPABILITY: Final = -32021

# The JSON-RPC code of each failure. A test checks it against all errors.
CODES: Final[Mapping[type[errors.SabirError], int]] = errors.ErrorTable(
    {
        errors.SabirError: INTERNAL_ERROR,
        errors.BadInput: INVALID_PARAMS,
        errors.Unreadable: PARSE_ERROR,
        errors.BadMessage: INVALID_PARAMS,
        errors.TooLarge: INVALID_REQUEST,
        errors.BadMediaType: INVALID_REQUEST,
        errors.BadMethod: METHOD_NOT_FOUND,
        errors.UnknownVersion: INVALID_REQUEST,
        errors.Refused: -32003,
        errors.Unauthenticated: -32001,
        errors.Forbidden: -32003,
        errors.RateLimited: -32029,
        errors.PolicyRequired: -32003,
        errors.NotFound: INVALID_PARAMS,
        errors.Conflict: INVALID_REQUEST,
        errors.Cancelled: INVALID_REQUEST,
        errors.TurnFailed: INTERNAL_ERROR,
        errors.DeadlineExceeded: INTERNAL_ERROR,
        errors.Unavailable: -32005,
        errors.ShuttingDown: -32005,
        errors.StoreUnavailable: -32005,
        errors.BusUnavailable: -32005,
        errors.PeerError: INTERNAL_ERROR,
        errors.PeerUnavailable: INTERNAL_ERROR,
        errors.PeerRefused: INTERNAL_ERROR,
        errors.PeerUnreadable: INTERNAL_ERROR,
        errors.ConfigError: INTERNAL_ERROR,
        errors.MissingExtra: INTERNAL_ERROR,
    }
)

# An error that a model can act on is the result of its call, with isError; the rest are protocol errors.
TOLD_AS_RESULT: Final[tuple[type[SabirError], ...]] = (
    errors.TurnFailed,
    errors.PeerError,
    errors.BadInput,
    errors.Conflict,
    errors.Cancelled,
)

# The HTTP status of a rejection, if nothing has been sent yet.
STATUS: Final[Mapping[type[SabirError], int]] = {
    errors.Unreadable: 400,
    errors.TooLarge: 413,
    errors.BadMediaType: 415,
    errors.BadMethod: 405,
    errors.Unauthenticated: 401,
    errors.Forbidden: 403,
    errors.PolicyRequired: 403,
    errors.Refused: 403,
    errors.RateLimited: 429,
    errors.Unavailable: 503,
    errors.ShuttingDown: 503,
    errors.StoreUnavailable: 503,
    errors.BusUnavailable: 503,
}


def error_of(exc: SabirError) -> Json:
    """A failure as the ``error`` of a JSON-RPC response."""
    return {"code": CODES[type(exc)], "message": str(exc)}


def failed_result(reason: str, meta: Json | None = None) -> Json:
    """A failure as the result of a tool call."""
    result: Json = {"content": [{"type": "text", "text": reason}], "isError": True}
    if meta:
        result["_meta"] = meta
    return result


# -- parts and content blocks ----------------------------------------------------------------------

_json = msgspec.json.Encoder().encode


def parts_of(message: Message) -> tuple[Part, ...]:
    """Every part, with the address of an embedded resource on the first as well."""
    first = Part(message.format, message.subformat, message.content, message.label, message.extra)
    return (first, *message.submessages)


def block_of(part: Part, number: int = 0) -> Json:
    """One content block for one part."""
    extra = part.extra or {}
    uri = extra.get("uri")
    if isinstance(uri, str):
        return _kept({"type": "resource", "resource": contents_of(part, uri)}, part)
    if part.format == "text":
        return _kept({"type": "text", "text": str(part.content)}, part)
    if part.format == "binary" and isinstance(part.content, bytes):
        kind, encoding = part.media
        if kind in ("image", "audio"):
            data = base64.b64encode(part.content).decode()
            return _kept({"type": kind, "data": data, "mimeType": f"{kind}/{encoding}"}, part)
        return _kept({"type": "resource", "resource": contents_of(part, f"sabir:part/{number}")}, part)
    if part.format == "structured" and part.kind == "uri":
        return _kept(_link(part), part)
    return _kept({"type": "text", "text": _words(part)}, part)


def contents_of(part: Part, uri: str) -> Json:
    """A part as the contents of a resource."""
    media = (part.extra or {}).get("mimeType")
    if isinstance(part.content, bytes):
        kind, encoding = part.media
        blob = base64.b64encode(part.content).decode()
        return {"uri": uri, "mimeType": media or media_type(kind, encoding), "blob": blob}
    return {"uri": uri, "mimeType": media or _text_type(part), "text": _words(part)}


def _words(part: Part) -> str:
    if isinstance(part.content, str):
        return part.content
    return _json(part.content).decode()


def media_type(kind: str, encoding: str) -> str:
    """The media type of a binary part by its kind and encoding."""
    return f"{'application' if kind in ('generic', 'sensor') else kind}/{encoding or 'octet-stream'}"


_TEXT_TYPES: Final = {"json": "application/json", "html": "text/html", "xml": "application/xml"}


def _text_type(part: Part) -> str:
    return _TEXT_TYPES.get(part.kind, "text/plain") if part.format == "structured" else "text/plain"


def _link(part: Part) -> Json:
    uri = str(part.content)
    name = part.label or uri.rstrip("/").rpartition("/")[2].partition("?")[0] or uri
    return {"type": "resource_link", "uri": uri, "name": name}


def _kept(block: Json, part: Part) -> Json:
    """The block with the fields of the part that do not fit it, if any."""
    meta = dict((part.extra or {}).get("_meta") or {})
    annotations = (part.extra or {}).get("annotations")
    if isinstance(annotations, dict):
        block["annotations"] = annotations
    if block["type"] == "text" and (part.format, part.subformat, part.label) != ("text", "english", None):
        said: Json = {"format": part.format, "subformat": part.subformat}
        if part.label is not None:
            said["label"] = part.label
        meta[PART] = said
    elif part.label is not None and block["type"] != "resource_link":
        meta[PART] = {"label": part.label}
    if meta:
        block["_meta"] = meta
    return block


def part_of(block: Any) -> Part:
    """The part that a content block represents.

    Raises:
        BadMessage: it is not a content block.
    """
    if not isinstance(block, Mapping):
        raise BadMessage(PROTOCOL, "$.content", "a content block, which is an object with a type")
    said = _meta_of(block).get(PART)
    said = said if isinstance(said, Mapping) else {}
    label = said.get("label") if isinstance(said.get("label"), str) else None
    match block:
        case {"type": "text", "text": str() as text}:
            part = _text_part(text, said, label)
        case {"type": "image" | "audio" as kind, "data": str() as data}:
            subformat = str(block.get("mimeType") or f"{kind}/generic")
            part = Part("binary", subformat, _bytes(data), label)
        case {"type": "resource_link", "uri": str() as uri}:
            part = uri_part(uri, label=label or _given_name(block, uri))
        case {"type": "resource", "resource": {"uri": str() as uri} as resource}:
            part = part_of_contents(resource, label)
        case _:
            raise BadMessage(PROTOCOL, "$.content", "text, image, audio, resource or resource_link")
    return _with_extra(part, block)


def _meta_of(block: Mapping[str, Any]) -> Mapping[str, Any]:
    meta = block.get("_meta")
    return meta if isinstance(meta, Mapping) else {}


def _given_name(block: Mapping[str, Any], uri: str) -> str | None:
    name = block.get("name")
    return name if isinstance(name, str) and name and name != uri else None


def _text_part(text: str, said: Mapping[str, Any], label: str | None) -> Part:
    format_, subformat = said.get("format"), said.get("subformat")
    if not isinstance(format_, str) or not isinstance(subformat, str):
        return text_part(text, label=label)
    if format_ == "structured" and subformat == "json":
        try:
            return Part(format_, subformat, msgspec.json.decode(text), label)
        except NOT_JSON:
            return Part(format_, subformat, text, label)
    return Part(format_, subformat, text, label)


def _with_extra(part: Part, block: Mapping[str, Any]) -> Part:
    """Annotations and foreign metadata, so that a block is passed on unchanged."""
    extra = dict(part.extra or {})
    if isinstance(block.get("annotations"), dict):
        extra["annotations"] = block["annotations"]
    meta = {key: value for key, value in _meta_of(block).items() if key != PART}
    if meta:
        extra["_meta"] = meta
    return msgspec.structs.replace(part, extra=extra) if extra and extra != part.extra else part


def part_of_contents(contents: Mapping[str, Any], label: str | None = None) -> Part:
    """The part for the contents of a resource, with its address."""
    uri, media = str(contents.get("uri", "")), str(contents.get("mimeType") or "")
    extra: Json = {} if uri.startswith("sabir:part/") else {"uri": uri}
    if media and extra:
        extra["mimeType"] = media
    if isinstance(contents.get("blob"), str):
        return Part("binary", media or "generic/octet-stream", _bytes(contents["blob"]), label, extra=extra or None)
    text = str(contents.get("text", ""))
    subformat = {value: key for key, value in _TEXT_TYPES.items()}.get(media)
    if subformat is not None:
        return Part("structured", subformat, text, label, extra=extra or None)
    return Part("text", "english", text, label, extra=extra or None)


def _bytes(data: str) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise BadMessage(PROTOCOL, "$.content", "base64 data") from None


# -- a reply as the result of a tool call, and back ---------------------------------------------------


def result_of(message: Message, skill: Skill | None = None) -> Json:
    """A reply as a CallToolResult: blocks for people, ``structuredContent`` for programs.

    Without a skill's own schema, the structured result is ``OUTPUT``: the text, the data, the conversation.
    """
    token = conversation_of(message)
    said = message.without_tokens()
    structured = said.labelled(STRUCTURED)
    parts = [part for part in parts_of(said) if part != structured]
    blocks = [block_of(part, number) for number, part in enumerate(parts)]
    result: Json = {"content": blocks}
    if skill is None:
        result[STRUCTURED] = _output(said, token)
    else:
        value = structured.value if structured is not None else _only_object(parts)
        if value is not None and (structured is not None or skill.output_schema is not None):
            result[STRUCTURED] = value
    if token is not None:
        result["_meta"] = {CONVERSATION: token}
    if said.is_error:
        result["isError"] = True
    return result


def _output(said: Message, token: str | None) -> Json:
    output: Json = {"text": said.text}
    data = [part.value for part in said.parts if part.format == "structured" and part.kind == "json"]
    if data:
        output["data"] = data[0] if len(data) == 1 else data
    if token is not None:
        output["conversation"] = token
    return output


def _only_object(parts: Iterable[Part]) -> Json | None:
    return next((p.value for p in parts if p.kind == "json" and isinstance(p.value, dict)), None)


def conversation_of(message: Message) -> str | None:
    """Our own conversation token, which the exchange puts last."""
    last = message.submessages[-1] if message.submessages else None
    return str(last.content) if last is not None and last.format == "token" else None


def message_of(result: Mapping[str, Any]) -> Message:
    """The message that the result of a tool call represents; with ``isError`` it is of type error."""
    parts = [part_of(block) for block in result.get("content") or () if isinstance(block, Mapping)]
    structured = result.get(STRUCTURED)
    token = _meta_of(result).get(CONVERSATION)
    if structured is not None and token is None:
        parts.append(json_part(structured, label=STRUCTURED))
    if isinstance(token, str):
        parts.append(token_part(token))
    message = Message.of(*parts) if parts else Message("text", "english", "")
    return message.with_type("error") if result.get("isError") else message


# -- arguments --------------------------------------------------------------------------------------

INPUT: Final[Json] = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "description": "What to say to the agent"},
        "conversation": {
            "type": "string",
            "description": "The conversation of an earlier result, to continue it; omit it to start a new one",
        },
        "data": {
            "type": "object",
            "description": "Structured data that belongs to the text",
            "additionalProperties": True,
        },
        "content": {
            "type": "array",
            "items": {"type": "object"},
            "description": "Further content blocks: text, image, audio, resource, resource_link",
        },
    },
    "required": ["text"],
}
# ``data`` may be given as well: any JSON value, which no portable schema can express.
OUTPUT: Final[Json] = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "description": "What the agent says"},
        "conversation": {"type": "string", "description": "Pass this as an argument to continue the conversation"},
    },
    "required": ["text"],
}


def arguments_of(message: Message, token: str | None = None) -> Json:
    """The arguments that carry a message to an agent's tool; the inverse of ``asked``."""
    said = message.without_tokens()
    arguments: Json = {"text": said.text}
    rest = [part for part in parts_of(said) if part.format != "text"]
    only = rest[0] if len(rest) == 1 else None
    if only is not None and only.kind == "json" and only.label is None and isinstance(only.value, dict):
        arguments["data"] = only.value
    elif rest:
        arguments["content"] = [block_of(part, number) for number, part in enumerate(rest)]
    if token is not None:
        arguments["conversation"] = token
    return arguments


def asked(arguments: Mapping[str, Any], skill: Skill | None = None) -> Message:
    """The message that the arguments of a tool call represent.

    Raises:
        BadMessage: it does not match the tool's input schema.
    """
    token = arguments.get("conversation")
    if token is not None and not isinstance(token, str):
        raise BadMessage(PROTOCOL, "$.arguments.conversation", "a string")
    tokens = (token_part(token),) if token else ()
    if skill is not None:
        takes = (skill.input_schema or {}).get("properties") or {}
        given = {key: value for key, value in arguments.items() if key != "conversation" or key in takes}
        return Message("structured", "json", given, label=skill.id, submessages=tokens)
    text = arguments.get("text", "")
    if not isinstance(text, str):
        raise BadMessage(PROTOCOL, "$.arguments.text", "a string")
    parts: list[Part] = []
    if "data" in arguments:
        parts.append(json_part(arguments["data"]))
    content = arguments.get("content", [])
    if not isinstance(content, list):
        raise BadMessage(PROTOCOL, "$.arguments.content", "a list of content blocks")
    parts.extend(part_of(block) for block in content)
    return Message("text", "english", text, submessages=(*parts, *tokens))


_KINDS: Final[Mapping[str, type | tuple[type, ...]]] = {
    "string": str,
    "number": (int, float),
    "integer": int,
    "boolean": bool,
    "array": list,
    "object": dict,
}


def check_arguments(
    schema: Mapping[str, Any] | None, arguments: Mapping[str, Any], *, missing_is_asked: bool = False
) -> None:
    """Check what can be checked at once: missing arguments and wrong types. The rest is up to the agent.

    ``missing_is_asked``: the agent asks for missing arguments, and the client can be asked.

    Raises:
        BadMessage: an argument is missing or of the wrong kind.
    """
    for name in (schema or {}).get("required") or ():
        if name not in arguments and not missing_is_asked:
            raise BadMessage(PROTOCOL, f"$.arguments.{name}", "a value, because it is required")
    for name, shape in ((schema or {}).get("properties") or {}).items():
        if name not in arguments or not isinstance(shape, Mapping):
            continue
        kind, value = shape.get("type"), arguments[name]
        wanted = _KINDS.get(kind) if isinstance(kind, str) else None
        if wanted is not None and (
            not isinstance(value, wanted) or (isinstance(value, bool) and kind in ("number", "integer"))
        ):
            raise BadMessage(PROTOCOL, f"$.arguments.{name}", f"a value of type {kind}")
