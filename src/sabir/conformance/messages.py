"""The messages that the checks send: valid ones, and ones that no server should accept."""

from __future__ import annotations

from typing import Any, Final

from .base import Level

Json = dict[str, Any]

HELLO: Final[Json] = {"format": "text", "subformat": "english", "content": "Hello"}
POLICIES: Final[Json] = {**HELLO, "content": "What are your policies?", "messagetype": "control"}
UPLOAD: Final[Json] = {
    **HELLO,
    "content": "I have a large file; where can I upload it?",
    "messagetype": "control",
}
PIXEL: Final = "iVBORw0KGgo="
OVER_64_BITS: Final = 2**64


def text(content: str = "Hello", *parts: Json, **more: Any) -> Json:
    """A text message with these submessages and further fields."""
    message: Json = {**HELLO, "content": content, **more}
    return {**message, "submessages": list(parts)} if parts else message


def part(format_: str, subformat: str, content: Any, **more: Any) -> Json:
    return {"format": format_, "subformat": subformat, "content": content, **more}


def token(subformat: str, content: Any, **more: Any) -> Json:
    return part("token", subformat, content, **more)


# Name, clause and submessage: Table 1 of ECMA-430.
FORMATS: Final[dict[str, tuple[str, Json]]] = {
    "text": ("CORE-5.3-text", HELLO),
    "text with letters beyond ASCII": ("CORE-5.3-text", part("text", "english", "naïve 東京 \U0001f600")),
    "text with a language tag": ("CORE-5.3-text", part("text", "en-US", "Hello")),
    "structured/json, an object": ("CORE-5.3-structured", part("structured", "json", {"a": [1, {"b": None}]})),
    "structured/json, as text": ("CORE-5.3-structured", part("structured", "json", '{"a":1}')),
    "structured/json, an array": ("CORE-5.3-structured", part("structured", "json", ["a", {"b": 1}])),
    "structured/json, a number": ("CORE-5.3-structured", part("structured", "json", 7)),
    "structured/json, a truth value": ("CORE-5.3-structured", part("structured", "json", False)),
    "structured/uri": ("CORE-5.3-structured", part("structured", "uri", "https://example.org/")),
    "structured/xml": ("CORE-5.3-structured", part("structured", "xml", "<a/>")),
    "structured/html": ("CORE-5.3-structured", part("structured", "html", "<p>x</p>")),
    "code in an unknown language": ("CORE-5.3-prog", part("structured", "cobol", "STOP RUN.")),
    "binary/image": ("CORE-5.3-binary", part("binary", "image/png", PIXEL)),
    "binary/audio": ("CORE-5.3-binary", part("binary", "audio/mp3", PIXEL)),
    "binary/sensor": ("CORE-5.3-binary", part("binary", "sensor/raw", PIXEL)),
    "binary/generic": ("CORE-5.3-binary", part("binary", "generic/zip", PIXEL)),
    "binary/video": ("CORE-5.3-binary", part("binary", "video/mp4", PIXEL)),
    "binary/image with a dot (image/.png)": ("CORE-5.3-binary", part("binary", "image/.png", PIXEL)),
    "location/text": ("CORE-5.3-location", part("location", "text", "12 Elm Street")),
    "location/gps": ("CORE-5.3-location", part("location", "gps", "47.37,8.54")),
    "an unknown extension": ("CORE-5.3-generic", part("generic", "com.example.unknown", "?")),
}

# Name, clause, level and token.
TOKENS: Final[dict[str, tuple[str, Level, Json]]] = {
    "a conversation token": ("CORE-6.2", "must", token("conversation", "check-1")),
    "a conversation token with a suffix": ("CORE-6.2-suffix", "must", token("conversation_check", "check-2")),
    "a suffix in mixed letter case": ("CORE-6.2-suffix", "must", token("Conversation_Agent.7", "check-s")),
    "an authentication token": ("CORE-6.2-auth", "must", token("authentication", "check-3")),
    "an authentication token with a suffix": ("CORE-6.2-auth", "must", token("authentication_check.9", "check-7")),
    "a token of the application's own kind": ("CORE-6.2-c", "must", token("group", "check-4")),
    "a token with blanks around its content": ("CORE-6.2.1-b", "must", token("conversation", "  check-5\n")),
    "a token with capitals": ("CORE-6.2.1-b", "must", token("conversation", "CHECK-Five")),
    "a token with letters beyond ASCII": ("CORE-6.2.1-b", "must", token("conversation", "e\u0301 東 \U0001f600")),
    "a token of 1,000 characters": ("CORE-6.2.1-b", "must", token("conversation", "0123456789" * 100)),
    "a token of 3,000 characters": ("CORE-6.2.1-b", "should", token("conversation", "0123456789" * 300)),
    "a token whose content is empty": ("CORE-6.2.1-b", "must", token("conversation_check", "")),
    "a token whose content is zero": ("CORE-6.2.1-b", "should", token("conversation_check", 0)),
    "a token whose content is true": ("CORE-6.2.1-b", "should", token("conversation_check", True)),
    "a token whose content is a list": ("CORE-6.2.1-b", "should", token("conversation", ["check", 8])),
    "a token whose content is an object": ("CORE-6.2.1-b", "should", token("conversation", {"sid": 7, "z": [1]})),
    "the label of a token": ("D-17", "ours", token("conversation", "check-6", label="main")),
}

# Name, clause and message: invalid in JSON and in CBOR alike.
MALFORMED: Final[dict[str, tuple[str, Any]]] = {
    "an array instead of an object": ("CORE-5.0.1", [HELLO]),
    "a bare string": ("CORE-5.0.1", "hello"),
    "a message type that is not a string": ("CORE-5.1.1", {**HELLO, "messagetype": 5}),
    "a message without format": ("CORE-5.1.2", {"subformat": "english", "content": "x"}),
    "a format that is an object": ("CORE-5.1.2", {**HELLO, "format": {"content_type": "application/json"}}),
    "a message without subformat": ("CORE-5.1.3", {"format": "structured", "content": "{}"}),
    "a subformat that is not a string": ("CORE-5.1.3", {**HELLO, "subformat": 5}),
    "a message without content": ("CORE-5.1.4", {"format": "text", "subformat": "english"}),
    "submessages that are not an array": ("CORE-5.1.5", {**HELLO, "submessages": HELLO}),
    "a submessage that is not an object": ("CORE-5.2", {**HELLO, "submessages": ["y"]}),
    "a label that is not a string": ("CORE-5.2.1", text("x", {**HELLO, "label": {"a": 1}})),
    "a submessage with a format outside Table 1": ("CORE-5.2.2", text("x", {**HELLO, "format": "hologram"})),
    "a submessage without subformat": ("CORE-5.2.3", text("x", {"format": "structured", "content": "{}"})),
    "a submessage without content": ("CORE-5.2.4", text("x", {"format": "text", "subformat": "english"})),
    "a format outside Table 1": ("CORE-5.3", {**HELLO, "format": "hologram"}),
    "text whose content is an object": ("CORE-5.3-text", {**HELLO, "content": {"a": 1}}),
    "binary whose content is a number": ("CORE-5.3-binary", part("binary", "image/png", 12)),
    "binary that is not base64": ("CORE-5.3-binary", part("binary", "image/png", "!?* not base64 *?!")),
    "a URI that is not absolute": ("CORE-5.3-structured", part("structured", "uri", "not a uri")),
    "XML that is a number": ("CORE-5.3-structured", part("structured", "xml", 5)),
    "a location that is neither text nor gps": ("CORE-5.3-location", part("location", "geohash", "u0qj")),
}

_PLAIN: Final = '{"format":"text","subformat":"english","content":"x"}'

# Name, clause and bytes: invalid as JSON.
BROKEN_JSON: Final[dict[str, tuple[str, bytes]]] = {
    "an empty body": ("CORE-5.0.1", b""),
    "broken JSON": ("CORE-5.0.1", b"{bad"),
    "text after the object": ("CORE-5.0.1", _PLAIN.encode() + b" extra"),
    "two objects": ("CORE-5.0.1", _PLAIN.encode() * 2),
    "bytes that are not UTF-8": ("CORE-5.0.4", b'{"format":"text","subformat":"english","content":"\xff\xfe"}'),
    "UTF-16": ("CORE-5.0.4", _PLAIN.encode("utf-16")),
    "NaN": ("CORE-5.0.4", b'{"format":"structured","subformat":"json","content":NaN}'),
    "Infinity": ("CORE-5.0.4", b'{"format":"structured","subformat":"json","content":[-Infinity]}'),
    "half of a surrogate pair": (
        "CORE-5.0.4", rb'{"format":"text","subformat":"english","content":"\ud800"}'),
}  # fmt: skip

# A duplicate field: two readers could disagree on the content.
DUPLICATES: Final[dict[str, bytes]] = {
    "format and Format": b'{"format":"text","Format":"binary","subformat":"english","content":"x"}',
    "content twice": b'{"format":"text","subformat":"english","content":"x","content":"y"}',
    "content twice in a submessage": (
        b'{"format":"text","subformat":"english","content":"x","submessages":'
        b'[{"format":"text","subformat":"english","content":"x","content":"y"}]}'
    ),
}
