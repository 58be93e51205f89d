"""Servers with one fault each, invented from the clauses of the standard in a trial of the suite, which missed them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import cbor2

from .agent import Reply, encode, error
from .faults import (
    amqp,
    bodies,
    changing_tokens,
    everywhere,
    http,
    ignoring,
    parts,
    posted,
    refusing,
    responding,
    websocket,
    without,
)
from .rules import Message


def adding(part: dict[str, Any]) -> dict[str, Any]:
    """Its replies have one more submessage."""
    return {"reply": lambda _, reply: {**reply, "submessages": [*reply["submessages"], part]}}


def spelled(*formats: str) -> dict[str, Any]:
    """It refuses messages with a format spelled like this."""
    return refusing(lambda message: any(part.get("format") in formats for part in parts(message)))


def no_capitals(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {name: "data" if item == "CONTROL" else item for name, item in value.items()}


def showing_tokens(message: Message, reply: Reply) -> Reply:
    shown = [token["content"] for token in message.tokens if token["subformat"] == "authentication"]
    part = {"format": "structured", "subformat": "json", "content": {"got": shown}}
    return {**reply, "submessages": [*reply["submessages"], part]} if shown else reply


def one_token_for_all(_: Message, reply: Reply) -> Reply:
    own = [{**p, "content": "own:1"} if str(p["content"]).startswith("own:") else p for p in reply["submessages"]]
    return {**reply, "submessages": own}


def once_by_content(_: Message, reply: Reply) -> Reply:
    kept = {json.dumps([part["format"], part["content"]], default=str): part for part in reply["submessages"]}
    return {**reply, "submessages": list(kept.values())}


def at_most_four_tokens(message: Message, reply: Reply) -> Reply:
    return {**reply, "submessages": [part for part in reply["submessages"] if part not in message.tokens[4:]]}


def data_if(word: str) -> dict[str, Any]:
    """It answers control messages with this word by data."""
    return {
        "reply": lambda message, reply: (
            without(reply, "messagetype") if message.is_control and word in message.text else reply
        )
    }


everywhere("wants structured in lower case", "CORE-5.0.2-values", **spelled("Structured"))
everywhere("wants binary and location in lower case", "CORE-5.0.2-values", **spelled("Binary", "Location"))
everywhere("does not read CONTROL in capitals", "CORE-6.3-case", before=no_capitals)
everywhere("shows tokens in a JSON part", "SEC-P3.3", reply=showing_tokens)
everywhere("answers control that it does not understand with data", "CORE-6.3-unknown", **data_if("plants"))
everywhere("names an upload place in a data message", "CORE-6.3-upload", **data_if("upload"))
http("gives all one conversation token", "CORE-6.2.1-own", "TR-7.3.2", reply=one_token_for_all)
for binding in (websocket, amqp):
    binding("gives all one conversation token", "CORE-6.2.1-own", reply=one_token_for_all)
everywhere("sends back at most four tokens", "CORE-6.2-many", reply=at_most_four_tokens)
everywhere(
    "cuts tokens at 2,000 characters",
    "CORE-6.2.1-b",
    **changing_tokens(lambda content: content[:2000] if isinstance(content, str) else content),
)
everywhere("sends tokens of one content once", "CORE-6.2-same", reply=once_by_content)
http("fails on messages of type error", "CORE-5.1.1-types", **refusing(lambda m: m.get("messagetype") == "error", 500))
everywhere(
    "answers with a geohash",
    "CORE-5.2.3-sent",
    **adding({"format": "location", "subformat": "geohash", "content": "u"}),
)
everywhere(
    "answers with binary of no kind",
    "CORE-5.2.3-sent",
    **adding({"format": "binary", "subformat": "png", "content": "iVBORw0KGgo="}),
)
everywhere("takes binary that is not base64", "CORE-5.3-binary-not", **ignoring("base64 content"))

http(
    "says that errors are plain text",
    "HTTP-6.2-type-not",
    **responding(lambda _, response: response.status >= 400, headers={"content-type": "text/plain"}),
)
http(
    "reads ASCII only",
    "CORE-5.0.4-raw",
    **responding(
        lambda request, response: posted(request, response) and not request.body.isascii() and response.status < 300,
        status=400,
        body=encode(error("ASCII only")),
    ),
)
http(
    "does not take blanks before the object",
    "CORE-5.0.4-blanks",
    **responding(
        lambda request, response: posted(request, response) and request.body[:1] == b" " and response.status < 300,
        status=400,
        body=encode(error("no blanks")),
    ),
)
http(
    "fails on Basic credentials",
    "CORE-7.2",
    **responding(lambda request, _: request.headers.get("authorization", "").startswith("Basic"), status=500),
)
http(
    "fails on an authorization of one word",
    "CORE-7.2",
    **responding(lambda request, _: " " not in request.headers.get("authorization", "none shown"), status=500),
)
http(
    "answers with half of a surrogate pair",
    "CORE-5.0.4-sent",
    **bodies(lambda body: body.replace(b'"content": "', b'"content": "\\ud800', 1)),
)
http(
    "reads a weight of zero only as q=0",
    "HTTP-6.2-q0",
    request=lambda request: replace(
        request, headers={**request.headers, "accept": request.headers.get("accept", "").replace("q=0.000", "q=1")}
    ),
)
http(
    "wants a blank before the charset",
    "HTTP-6.2-charset",
    **responding(
        lambda request, _: request.headers.get("content-type") == "application/json;charset=UTF-8", status=415
    ),
)
websocket(
    "answers what is not CBOR in German",
    "WS-11",
    frame=lambda asked, answer: (
        answer.replace('"english"', '"german"') if isinstance(answer, str) and isinstance(asked, bytes) else answer
    ),
)
websocket(
    "does not put fragments of text together",
    "WS-9-text",
    quirks=frozenset({"no text fragments"}),
)
amqp(
    "wants content-type in lower case",
    "AMQP-5-case",
    letter=lambda asked, letter: (
        replace(letter, body=encode(error("no"))) if str(asked.content_type)[:1] == "A" else letter
    ),
)
amqp(
    "answers elsewhere only where there is a reply-to",
    "AMQP-7-alone",
    letter=lambda asked, letter: letter if asked.reply_to else None,
)
amqp(
    "does not copy correlation-id into errors",
    "AMQP-4-not",
    letter=lambda _, letter: replace(letter, correlation_id=None) if _is_error(letter.body) else letter,
)
amqp(
    "does not say to in errors",
    "AMQP-4-not",
    letter=lambda _, letter: replace(letter, to=None) if _is_error(letter.body) else letter,
)


def _is_error(body: bytes) -> bool:
    value = json.loads(body) if body[:1] == b"{" else cbor2.loads(body)
    return bool(value.get("messagetype") == "error")
