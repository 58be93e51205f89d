"""Servers with one fault each, of the core: messages, the shape of answers, tokens and control."""

from __future__ import annotations

import json
import unicodedata
from dataclasses import replace
from typing import Any

from .agent import Reply
from .faults import (
    amqp,
    bodies,
    changing_tokens,
    everywhere,
    having,
    http,
    ignoring,
    in_both,
    losing,
    parts,
    posted,
    refusing,
    replying,
    responding,
    websocket,
    without,
)
from .rules import Message, folded

# -- messages that are refused wrongly --------------------------------------------------------------

http("reads Format only in lower case", "CORE-5.0.2-names", **refusing(lambda m: "Format" in m))
websocket("reads Format only in lower case", "CORE-5.0.2-names", "WS-8", "WS-7.2", **refusing(lambda m: "Format" in m))
in_both("does not read names in capitals", "CORE-5.0.2-upper", **refusing(lambda m: "FORMAT" in m))
in_both(
    "does not read SubMessages",
    "CORE-5.0.2-parts",
    before=lambda value: without(value, "SubMessages") if isinstance(value, dict) else value,
)
http("wants values in lower case", "CORE-5.0.2-values", **refusing(having(format="TEXT")))
http("finds TOKEN only in lower case", "CORE-5.0.2-token", **refusing(having(format="TOKEN")))
http("does not take LABEL", "CORE-5.2.1-case", **refusing(lambda m: any("LABEL" in part for part in parts(m))))
http("does not take a language tag", "CORE-5.3-text", **refusing(having(subformat="en-US")))
http(
    "fails on letters beyond ASCII",
    "CORE-5.3-text",
    "CORE-5.0.4-raw",
    **refusing(lambda m: any("東京" in str(part.get("content")) for part in parts(m)), 500),
)
http(
    "does not take JSON objects",
    "CORE-5.3-structured",
    "CORE-6.2-last",
    **refusing(
        lambda m: any(
            part.get("format") == "structured" and isinstance(part.get("content"), dict) and "a" in part["content"]
            for part in parts(m)
        )
    ),
)
http("does not take HTML", "CORE-5.3-structured", **refusing(having(subformat="html")))
in_both("does not take code in an unknown language", "CORE-5.3-prog", **refusing(having(subformat="cobol")))
http("does not take video", "CORE-5.3-binary", **refusing(having(subformat="video/mp4"), 415))
http("does not take a dot before the encoding", "CORE-5.3-binary", **refusing(having(subformat="image/.png")))
http("does not take coordinates", "CORE-5.3-location", "D-61", **refusing(having(subformat="gps")))
http("fails on an unknown extension", "CORE-5.3-generic", **refusing(having(format="generic"), 500))
http("fails on an unknown language", "CORE-5.3", **refusing(having(subformat="klingon"), 500))
http(
    "fails on integers beyond 64 bits",
    "CORE-5.0.4-number",
    **refusing(lambda m: isinstance(m.get("content"), dict) and m["content"].get("n", 0) >= 2**64, 500),
)
amqp(
    "fails on integers beyond 64 bits",
    "CORE-5.0.4-number",
    **refusing(lambda m: isinstance(m.get("content"), dict) and m["content"].get("n", 0) >= 2**64, 500),
)
everywhere(
    "fails on control characters",
    "CORE-5.0.4-control",
    **refusing(lambda m: "\0" in str(m.get("content")), 500),
)
http(
    "does not take three submessages",
    "CORE-5.1.5",
    **refusing(lambda m: [part.get("label") for part in parts(m)][1:] == ["0", "1", "2"]),
)
http("fails on a foreign authentication token", "CORE-6.2.2", **refusing(having(subformat="authorization"), 500))
http(
    "does not take its own token back",
    "CORE-6.2.1",
    "D-16",
    "TR-7.3.2",
    **refusing(lambda m: any(str(part.get("content")).startswith("own:") for part in parts(m))),
)
http(
    "does not take a token as the first submessage",
    "CORE-6.2-alone",
    "CORE-6.2-first",
    **refusing(lambda m: m.get("format") == "token"),
)
websocket(
    "does not take a session id", "WS-10-field", "D-05", **refusing(lambda m: "SessionId" in m or "x-session" in m)
)
http("does not take unknown fields", "D-05", **refusing(lambda m: "x-session" in m))
http(
    "does not take a number as label",
    "D-07",
    **refusing(lambda m: any(isinstance(part.get("label"), int) for part in parts(m))),
)
http("does not take an empty list of submessages", "D-09", **refusing(lambda m: m.get("submessages") == []))

# -- messages that are taken wrongly ----------------------------------------------------------------

for binding in (http, websocket, amqp):
    binding("takes an array", "CORE-5.0.1-not", **ignoring("object"))
    binding("takes a format outside Table 1", "CORE-5.3-not", "CORE-5.1.2-not", **ignoring("first format"))
http("takes text after the object", "CORE-5.0.1-not", **ignoring("trailing"))
http(
    "fails on broken JSON",
    "CORE-5.0.1-not",
    "D-22",
    **responding(lambda request, _: request.body == b"{bad", status=500),
)
http("takes UTF-16", "CORE-5.0.4-not", **ignoring("encoding"))
http("takes NaN", "CORE-5.0.4-not", **ignoring("constants"))
http(
    "fails on half of a surrogate pair",
    "CORE-5.0.4-not",
    "D-22",
    **responding(lambda request, _: b"ud800" in request.body, status=500, body=b"UnicodeEncodeError"),
)
http("takes a number as type", "CORE-5.1.1-not", **ignoring("messagetype"))
http("takes a message without subformat", "CORE-5.1.3-not", "D-26", **ignoring("first subformat"))
http("takes a message without content", "CORE-5.1.4-not", **ignoring("first content"))
http("takes submessages that are not an array", "CORE-5.1.5-not", **ignoring("array"))
http("takes a submessage that is not an object", "CORE-5.2-not", **ignoring("submessage"))
http("takes an object as label", "CORE-5.2.1-not", **ignoring("label"))
http("takes a submessage with a format outside Table 1", "CORE-5.2.2-not", **ignoring("later format"))
http("takes a submessage without subformat", "CORE-5.2.3-not", **ignoring("later subformat"))
http("takes a submessage without content", "CORE-5.2.4-not", **ignoring("later content"))
http("takes an object as text", "CORE-5.3-text-not", **ignoring("text content"))
http("takes a number as binary", "CORE-5.3-binary-not", **ignoring("binary content"))
http("takes a relative URI", "CORE-5.3-structured-not", **ignoring("uri content"))
http("takes any location", "CORE-5.3-location-not", **ignoring("location subformat"))
http("takes a field twice", "D-03", **ignoring("duplicates"))
http("takes a thousand tokens", "SEC-DOS-tokens", **ignoring("many"))

# -- the shape of answers ---------------------------------------------------------------------------

everywhere("answers without subformat", "CORE-5.1.3-sent", reply=lambda _, reply: without(reply, "subformat"))
everywhere("answers with null for absent fields", "CORE-A", reply=lambda _, reply: {**reply, "label": None})
in_both(
    "answers with an unknown format in a submessage",
    "CORE-5.2.2-sent",
    reply=lambda _, reply: {
        **reply,
        "submessages": [*reply["submessages"], {"format": "note", "subformat": "english", "content": "x"}],
    },
)
http(
    "answers without format",
    "CORE-5.1.2-sent",
    "CORE-5.3-english",
    "CORE-5.3-prog-words",
    "CORE-5.3-generic-words",
    "SEC-P1.3",
    reply=lambda _, reply: without(reply, "format"),
)
http("answers without content", "CORE-5.1.4-sent", "XSPEC-cap", reply=lambda _, reply: without(reply, "content"))
http(
    "answers with a type that is not a string",
    "CORE-5.1.1-sent",
    reply=lambda message, reply: reply if message.is_control else {**reply, "messagetype": 7},
)
http(
    "answers with a submessage that is not an object",
    "CORE-5.2-sent",
    response=lambda _, response: (
        replace(response, body=response.body[:-2] + b',"x"]}') if response.body.endswith(b"}]}") else response
    ),
)
http(
    "answers with a label that is not a string",
    "CORE-5.2.1-sent",
    reply=lambda _, reply: {
        **reply,
        "submessages": [{**part, "label": 5} if "label" not in part else part for part in reply["submessages"]],
    },
)
http(
    "answers with a submessage without subformat",
    "CORE-5.2.3-sent",
    reply=lambda _, reply: {**reply, "submessages": [*reply["submessages"], {"format": "text", "content": "x"}]},
)
http(
    "answers with a submessage without content",
    "CORE-5.2.4-sent",
    reply=lambda _, reply: {
        **reply,
        "submessages": [*reply["submessages"], {"format": "text", "subformat": "english"}],
    },
)
http("answers in UTF-16", "CORE-5.0.4-sent", "TR-7.3.2", **bodies(lambda body: body.decode().encode("utf-16")))
http("answers with a byte order mark", "CORE-5.0.4-sent", **bodies(lambda body: b"\xef\xbb\xbf" + body))
http(
    "answers in Latin-1",
    "CORE-5.0.4-sent",
    **bodies(lambda body: body.replace(b'"content": "', b'"content": "\xe9', 1)),
)
http("answers with text after the object", "CORE-5.0.1-sent", **bodies(lambda body: body + b" and more"))
http("answers with a field twice", "CORE-5.0.1-sent", **bodies(lambda body: b'{"format": "text", ' + body[1:]))
http(
    "answers with a relative upload address",
    "CORE-5.2.4-sent",
    "HTTP-6.1.1",
    "CORE-6.4-sealed",
    **bodies(
        lambda body: (
            body if b"/upload/" not in body else body.replace(b'"content": "http://127.0.0.1:', b'"content": "/')
        )
    ),
)
http(
    "answers in JSON only, never in words",
    "CORE-5.3-english",
    "CORE-5.3-prog-words",
    "CORE-5.3-generic-words",
    "SEC-P1.3",
    reply=lambda _, reply: {**reply, "format": "structured", "subformat": "json"},
)
http(
    "answers code that it does not know without words",
    "CORE-5.3-prog-words",
    reply=lambda message, reply: (
        {**reply, "format": "structured", "subformat": "json"}
        if message.parts[0].get("subformat") == "cobol"
        else reply
    ),
)

# -- tokens -----------------------------------------------------------------------------------------

in_both(
    "loses tokens with a suffix in capitals",
    "CORE-6.2-suffix",
    **losing(lambda _, part: part["subformat"] == "Conversation_Agent.7"),
)
everywhere(
    "loses authentication tokens",
    "CORE-6.2-auth",
    "CORE-6.2-b",
    **losing(lambda _, part: part["subformat"].startswith("authentication")),
)
in_both("loses tokens of other kinds", "CORE-6.2-c", **losing(lambda _, part: part["subformat"] == "group"))
everywhere(
    "trims tokens",
    "CORE-6.2.1-b",
    **changing_tokens(lambda content: content.strip() if isinstance(content, str) else content),
)
in_both(
    "loses all tokens but the last",
    "CORE-6.2-b",
    "CORE-6.2-many",
    "CORE-6.2-same",
    "D-17-order",
    **losing(lambda message, part: part is not message.tokens[-1] and part["content"] != "check-shape"),
)
http(
    "loses plain conversation tokens",
    "CORE-6.2",
    "CORE-6.2-b",
    "CORE-6.2-first",
    "CORE-6.2-alone",
    "CORE-6.3-tokens",
    "CORE-6.2.1-b",
    "CORE-6.2-last",
    "CORE-6.2-types",
    "CORE-5.0.2-parts",
    "CORE-5.0.2-token",
    "D-16",
    "D-17",
    **losing(lambda _, part: part["subformat"] == "conversation"),
)
http(
    "turns tokens into lower case",
    "CORE-6.2.1-b",
    **changing_tokens(lambda content: content.lower() if isinstance(content, str) else content),
)
http(
    "normalizes tokens",
    "CORE-6.2.1-b",
    **changing_tokens(lambda content: unicodedata.normalize("NFC", content) if isinstance(content, str) else content),
)
http(
    "cuts tokens at 256 characters",
    "CORE-6.2.1-b",
    **changing_tokens(lambda content: content[:256] if isinstance(content, str) else content),
)
http(
    "turns token objects into text",
    "CORE-6.2.1-b",
    **changing_tokens(lambda content: json.dumps(content) if isinstance(content, dict) else content),
)
http(
    "turns large token numbers into floats",
    "CORE-6.2.1-b",
    **changing_tokens(lambda content: float(content) if isinstance(content, int) else content),
)
http(
    "loses the second of two tokens",
    "CORE-6.2-b",
    "CORE-6.2-many",
    "CORE-6.2-same",
    "D-17-order",
    **losing(
        lambda message, part: part is not message.tokens[0] and not str(part["content"]).startswith("check-shape")
    ),
)
http(
    "looks for tokens in the first three submessages",
    "CORE-6.2-last",
    **losing(lambda message, part: any(part is item for item in message.parts[4:]) and part["content"] == "check-last"),
)
http(
    "loses a token that is the first submessage",
    "CORE-6.2-first",
    "CORE-6.2-alone",
    **losing(lambda message, part: part is message.parts[0]),
)
http("loses tokens in control messages", "CORE-6.3-tokens", **losing(lambda message, part: message.is_control))
http(
    "loses labels of tokens",
    "D-17",
    reply=lambda _, reply: {
        **reply,
        "submessages": [without(part, "label") if part["format"] == "token" else part for part in reply["submessages"]],
    },
)
http(
    "sorts tokens",
    "D-17-order",
    reply=lambda _, reply: {
        **reply,
        "submessages": sorted(
            reply["submessages"], key=lambda part: str(part["content"]) if part["format"] == "token" else ""
        ),
    },
)
http(
    "sends its own token twice",
    "D-16",
    reply=lambda _, reply: {**reply, "submessages": [*reply["submessages"], reply["submessages"][-1]]},
)
http(
    "repeats tokens in its text",
    "SEC-P3.3",
    reply=lambda message, reply: (
        {**reply, "content": f"{reply['content']} {[token['content'] for token in message.tokens]}"}
        if "Print" in message.text
        else reply
    ),
)
http("keeps state in a cookie", "CORE-6.2-a", **responding(posted, headers={"set-cookie": "session=1"}))

# -- control ----------------------------------------------------------------------------------------

in_both(
    "reads control only in lower case",
    "CORE-6.3-case",
    reply=lambda message, reply: (
        without(reply, "messagetype") if message.raw.get("messagetype") == "Control" else reply
    ),
)
everywhere(
    "names no upload place",
    "CORE-6.4",
    reply=lambda message, reply: {
        **reply,
        "submessages": [part for part in reply["submessages"] if part["subformat"] != "uri"],
    },
)
http(
    "answers control with data",
    "CORE-6.3",
    "CORE-6.3-unknown",
    "CORE-6.3-upload",
    "CORE-6.3-first",
    "CORE-6.3-async",
    "CORE-6.3-events",
    "CORE-6.3-case",
    "D-19",
    reply=lambda _, reply: without(reply, "messagetype"),
)
websocket(
    "answers control with data",
    "CORE-6.3",
    "CORE-6.3-unknown",
    "CORE-6.3-upload",
    "CORE-6.3-first",
    "WS-7.2-control",
    "CORE-6.3-case",
    "D-19",
    reply=lambda _, reply: without(reply, "messagetype"),
)
amqp(
    "answers control with data",
    "CORE-6.3",
    "CORE-6.3-unknown",
    "CORE-6.3-upload",
    "CORE-6.3-first",
    "CORE-6.3-case",
    "D-19",
    reply=lambda _, reply: without(reply, "messagetype"),
)
http(
    "answers data with control",
    "CORE-5.1.1-data",
    "CORE-5.1.1",
    "D-19",
    reply=lambda message, reply: {**reply, "messagetype": "control"},
)
http(
    "takes controls for control",
    "CORE-5.1.1",
    reply=lambda message, reply: (
        {**reply, "messagetype": "control"} if str(message.raw.get("messagetype")).startswith("control") else reply
    ),
)
http("does not answer the flag", "D-19", reply=lambda _, reply: without(reply, "control"))
http(
    "names an upload place that takes nothing",
    "HTTP-6.1.1",
    **responding(lambda request, _: request.path.startswith("/upload/"), status=404),
)
http(
    "takes uploads anywhere",
    "CORE-6.4-sealed",
    **responding(lambda request, _: request.path.startswith("/upload/"), status=201),
)

# -- further faults, so that every check has one that it finds ---------------------------------------

http(
    "takes a message without format",
    "CORE-5.1.2-not",
    before=lambda value: (
        value if not isinstance(value, dict) or "format" in folded(value) else {**value, "format": "text"}
    ),
)
http(
    "answers errors with an empty list of submessages",
    "CORE-5.1.5-sent",
    **bodies(lambda body: body if b'"submessages"' in body else body[:-1] + b', "submessages": []}'),
)
http(
    "answers an unknown extension without words",
    "CORE-5.3-generic-words",
    reply=lambda message, reply: (
        {**reply, "format": "structured", "subformat": "json"} if message.parts[0]["format"] == "generic" else reply
    ),
)
http("does not say what its ethics are", "SEC-P1.3", **refusing(lambda m: "ethics" in str(m.get("content"))))
http(
    "does not take null for an absent field",
    "D-08",
    **refusing(lambda m: "messagetype" in m and m["messagetype"] is None),
)
http("does not take a label on the first submessage", "D-10", **refusing(lambda m: "label" in m))
http("does not take an empty text", "XSPEC-landing", **refusing(lambda m: m.get("content") == ""))
http(
    "streams data in answer to control",
    "CORE-6.3-events",
    response=lambda request, response: (
        replace(response, body=response.body.replace(b'"messagetype": "control"', b'"messagetype": "data"'))
        if response.headers["content-type"] == "text/event-stream"
        else response
    ),
)

# -- faults that were invented from the clauses of the standard, before looking at the checks --------


def one_of_each_kind(reply: Reply) -> Reply:
    """Of tokens with one subformat only the first is kept."""
    kept: dict[int | str, Any] = {}
    for number, part in enumerate(reply["submessages"]):
        kept.setdefault(part["subformat"] if part["format"] == "token" else number, part)
    return {**reply, "submessages": list(kept.values())}


def remembering() -> dict[str, Any]:
    """It sends the tokens of a message to the next caller as well."""
    before: list[Any] = []

    def change(message: Message, reply: Reply) -> None:
        leaked = [item for item in before if item not in reply["submessages"]]
        before[:] = [token for token in message.tokens if token["subformat"] == "conversation_check"]
        reply["submessages"] = [*reply["submessages"], *leaked]

    return replying(change)


def content_is(kind: type, **fields: Any) -> dict[str, Any]:
    """It refuses submessages whose content is of this type."""
    wanted = having(**fields)
    return refusing(
        lambda m: any(type(part.get("content")) is kind and wanted({**part, "submessages": []}) for part in parts(m))
    )


in_both("keeps one token of each kind", "CORE-6.2-b", reply=lambda _, reply: one_of_each_kind(reply))
everywhere("loses empty tokens", "CORE-6.2.1-b", **losing(lambda _, part: part["content"] == ""))
everywhere("loses tokens that are zero", "CORE-6.2.1-b", **losing(lambda _, part: part["content"] == 0))
http("leaks tokens to the next caller", "CORE-6.2-apart", **remembering())
websocket("leaks tokens to the next caller", "CORE-6.2-apart", "WS-6-again", **remembering())
amqp("leaks tokens to the next caller", "CORE-6.2-apart", **remembering())
everywhere(
    "finds control only in messages that start with text",
    "CORE-6.3-first",
    reply=lambda message, reply: without(reply, "messagetype") if message.parts[0]["format"] != "text" else reply,
)
everywhere(
    "answers English in French",
    "CORE-5.3-english-words",
    reply=lambda _, reply: {**reply, "subformat": "french"},
)
in_both("does not take JSON arrays", "CORE-5.3-structured", **content_is(list, format="structured"))
in_both("does not take JSON numbers", "CORE-5.3-structured", **content_is(int, format="structured"))
in_both("does not take JSON truth values", "CORE-5.3-structured", **content_is(bool, format="structured"))
in_both("does not take JSON as text", "CORE-5.3-structured", **content_is(str, format="structured", subformat="json"))
in_both("does not take coordinates in an array", "D-61", **content_is(list, format="location"))
in_both("does not take blanks around a format", "D-04", **refusing(having(format=" text ")))
everywhere(
    "answers with text that is an object",
    "CORE-5.1.4-sent",
    reply=lambda message, reply: reply if message.is_control else {**reply, "content": {"said": reply["content"]}},
)
everywhere(
    "answers with binary that is not base64",
    "CORE-5.2.4-sent",
    reply=lambda _, reply: {
        **reply,
        "submessages": [*reply["submessages"], {"format": "binary", "subformat": "image/png", "content": "@@@"}],
    },
)
everywhere(
    "reads submessages of submessages",
    "D-11",
    reply=lambda message, reply: {
        **reply,
        "submessages": [
            *reply["submessages"],
            *(token for part in parts(message.raw)[1:] for token in part.get("submessages", [])),
        ],
    },
)
everywhere(
    "does not list its capabilities",
    "XSPEC-cap",
    reply=lambda _, reply: {**reply, "content": reply["content"].replace("CAP:", "I can: ")},
)
