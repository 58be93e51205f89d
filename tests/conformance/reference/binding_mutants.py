"""Servers with one fault each, of a binding: HTTP, WebSocket and AMQP."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import cbor2

from .agent import Reply, Request, Response, encode, error, text
from .faults import (
    PAGE,
    amqp,
    asked,
    body_of,
    changing_tokens,
    http,
    ignoring,
    parts,
    posted,
    quirk,
    refusing,
    responding,
    websocket,
)
from .rules import Message

# -- HTTP -------------------------------------------------------------------------------------------

http("serves only /nlip/", "HTTP-6.1", "D-20", **responding(lambda request, _: request.path == "/nlip", status=404))
http("does not serve /nlip/", "D-20", **responding(lambda request, _: request.path == "/nlip/", status=404))
http("does not take a query", "HTTP-6.2-query", **responding(lambda request, _: request.query, status=404))
http("does not take a charset", "HTTP-6.2-charset", **responding(asked("content-type", "charset"), status=415))
http("answers a charset with a page", "HTTP-6.2-charset", **responding(asked("content-type", "charset"), body=PAGE))
http(
    "says that JSON is HTML",
    "HTTP-6.2-type",
    "HTTP-6.2-type-not",
    **responding(
        lambda _, response: response.headers.get("content-type") == "application/json",
        headers={"content-type": "text/html"},
    ),
)
http(
    "says that JSON is in Latin-1",
    "HTTP-6.2-type",
    **responding(posted, headers={"content-type": "application/json; charset=iso-8859-1"}),
)
http(
    "gives browsers a page",
    "HTTP-6.2-accept",
    **responding(asked("accept", "text/html"), body=PAGE, headers={"content-type": "text/html"}),
)
http("speaks HTTP/1.0", "HTTP-6.3", **responding(lambda request, _: True, version="HTTP/1.0"))
http("refuses unknown preferences", "HTTP-3.1", **responding(asked("prefer", "x-sabir"), status=400))
http(
    "claims to apply unknown preferences",
    "HTTP-3.1",
    **responding(asked("prefer", "x-sabir"), headers={"preference-applied": "x-sabir-check=1"}),
)
http("fails on invalid credentials", "CORE-7.2", **responding(asked("authorization", "nobody"), status=500))
http("refuses credentials without a hint", "CORE-7.2", **responding(asked("authorization", "nobody"), status=401))
http(
    "refuses everybody without words",
    "HTTP-P2",
    "D-23",
    **responding(lambda request, _: True, status=403, body=b'{"detail": "no"}'),
)
http(
    "refuses in words of its own",
    "D-22",
    **responding(lambda _, response: response.status in (400, 422), body=b'{"detail": "no"}'),
)
http("refuses with 200", "D-22", "D-26", **responding(lambda _, response: response.status in (400, 422), status=200))
http("takes words for JSON", "D-21", **responding(lambda request, response: response.status == 415, status=400))
http(
    "answers GET",
    "D-23",
    **responding(lambda request, _: request.method == "GET" and request.path == "/nlip", status=200),
)
http("does not say Allow", "D-23", **responding(lambda _, response: response.status == 405, headers={"allow": None}))
http("fails on deep nesting", "SEC-DOS-depth", **responding(lambda request, _: b"[[[[[[" in request.body, status=500))
http("gives minimal answers", "D-26-minimal", **responding(asked("prefer", "minimal"), status=204, body=b""))
http(
    "is never strict",
    "D-26",
    **responding(
        lambda request, response: response.status == 422 and "strict" in request.headers.get("prefer", ""),
        status=200,
        body=encode(text("fine")),
    ),
)
http(
    "does not confirm strict handling of a refusal",
    "D-26-applied",
    **responding(lambda request, response: response.status == 422, headers={"preference-applied": None}),
)
http(
    "never finishes what it does later",
    "D-26-async",
    **responding(lambda request, _: request.path.startswith("/tasks/"), status=202),
)
http(
    "loses what it does later",
    "D-26-async",
    **responding(lambda request, _: request.path.startswith("/tasks/"), status=404),
)
http(
    "does not say where the later answer will be",
    "D-26-async",
    **responding(lambda _, response: response.status == 202, headers={"location": None}),
)
http(
    "does not confirm respond-async",
    "D-26-async",
    **responding(lambda _, response: response.status == 202, headers={"preference-applied": None}),
)
http(
    "has no address in the body of a 202",
    "CORE-6.1-async",
    response=lambda _, response: (
        replace(response, body=encode({**body_of(response), "submessages": body_of(response)["submessages"][1:]}))
        if response.status == 202
        else response
    ),
)
http(
    "has no message in a 202",
    "CORE-6.1-async",
    "CORE-6.2-async",
    **responding(lambda _, response: response.status == 202, body=b'{"task": 1}'),
)
http(
    "loses tokens in a 202",
    "CORE-6.2-async",
    response=lambda _, response: (
        replace(response, body=encode({**body_of(response), "submessages": body_of(response)["submessages"][:1]}))
        if response.status == 202
        else response
    ),
)
http(
    "loses tokens in the later answer",
    "CORE-6.2-async",
    "CORE-6.3-async",
    response=lambda request, response: (
        replace(response, body=encode(text("done")))
        if request.path.startswith("/tasks/") and response.status == 200
        else response
    ),
)
http(
    "loses tokens in a stream",
    "CORE-6.2-events",
    response=lambda request, response: (
        replace(response, body=response.body.replace(b"conversation_stream", b"conversation"))
        if response.headers["content-type"] == "text/event-stream"
        else response
    ),
)
http(
    "ends a stream with a partial message",
    "D-34",
    response=lambda request, response: (
        replace(response, body=response.body.replace(b'"submessages"', b'"messagetype": "partial", "submessages"'))
        if response.headers["content-type"] == "text/event-stream" and b"control" not in response.body
        else response
    ),
)
http(
    "does not end the last event of a stream",
    "D-34",
    "CORE-6.2-events",
    "CORE-6.3-events",
    response=lambda request, response: (
        replace(response, body=response.body.rstrip(b"\n"))
        if response.headers["content-type"] == "text/event-stream"
        else response
    ),
)
http(
    "streams lines that are not messages",
    "D-34",
    response=lambda request, response: (
        replace(response, body=b'data: {"delta": "You"}\n\n' + response.body)
        if response.headers["content-type"] == "text/event-stream"
        else response
    ),
)
http(
    "streams although that is ruled out",
    "HTTP-6.2-q0",
    request=lambda request: replace(
        request, headers={**request.headers, "accept": request.headers.get("accept", "").replace(";q=0", "")}
    ),
)
http(
    "does not count tokens in an agreed limit",
    "TR-7.3.2",
    reply=lambda message, reply: (
        {**reply, "submessages": [{**reply["submessages"][0], "note": "x" * 1500}, *reply["submessages"][1:]]}
        if "long words" in message.text
        else reply
    ),
)

# -- WebSocket --------------------------------------------------------------------------------------


def frames(change: Callable[[Any, Any], Any]) -> dict[str, Any]:
    return {"frame": change}


def is_error(answer: bytes | str) -> bool:
    value = json.loads(answer) if isinstance(answer, str) else cbor2.loads(answer)
    return value.get("messagetype") == "error"


def not_cbor(question: bytes | str) -> bool:
    return (
        question in (b"\xff\xff\xff", b"\xff", b"")
        or question == cbor2.dumps({"format": "text", "subformat": "english", "content": "Hello"})[:-2]
    )


websocket("has no end-point", "WS-6", **quirk("no /nlip/ws"))
websocket(
    "answers CBOR with JSON in a text frame",
    "WS-7.1",
    "WS-7.1-bytes",
    **frames(
        lambda question, answer: json.dumps(cbor2.loads(answer), default=str) if isinstance(answer, bytes) else answer
    ),
)
websocket("closes after one message", "WS-6-again", "WS-11-open", "WS-7.2", **quirk("once"))
websocket("does not put fragments together", "WS-9", "WS-9-text", **quirk("no fragments"))
websocket("does not answer a ping", "WS-10", **quirk("no pong"))
websocket("takes two messages in one frame", "WS-7.1-one", **ignoring("trailing"))
websocket(
    "takes names that are numbers",
    "WS-7.1-keys",
    before=lambda value: {"format": "text", "content": value[3]} if isinstance(value, dict) and 3 in value else value,
    **ignoring("keys"),
)
websocket(
    "takes undefined content",
    "WS-7.1-undefined",
    before=lambda value: (
        {**value, "content": "x"} if isinstance(value, dict) and value.get("content") is cbor2.undefined else value
    ),
)
websocket(
    "turns bytes in tokens into base64",
    "WS-7.1-bytes",
    **changing_tokens(lambda content: "AAE=" if isinstance(content, bytes) else content),
)
websocket("does not take raw bytes", "WS-7.1-raw", **refusing(lambda m: m.get("content") == b"\x89PNG"))
websocket(
    "does not read indefinite lengths",
    "WS-7.1-indefinite",
    frame=lambda question, answer: cbor2.dumps(error("no")) if question[:1] == b"\xbf" else answer,
)
websocket("does not take the first example", "WS-8", **refusing(lambda m: m.get("Subformat") == "application/json"))
websocket(
    "says nothing of what is not CBOR but closes",
    "WS-11",
    "WS-11-open",
    "D-33",
    frame=lambda question, answer: None if not_cbor(question) else answer,
)
websocket(
    "answers what is not CBOR with a message of no type",
    "WS-11",
    frame=lambda question, answer: (
        answer.replace('"messagetype": "error"', '"messagetype": "oops"') if not_cbor(question) else answer
    ),
)
websocket(
    "answers what is not CBOR in the format error",
    "WS-11",
    frame=lambda question, answer: (
        answer.replace('"format": "text"', '"format": "error"') if not_cbor(question) else answer
    ),
)
websocket(
    "closes after an error in CBOR", "WS-11-open", frame=lambda question, answer: answer, **quirk("closes after error")
)
websocket(
    "does not name the fallback",
    "D-33",
    frame=lambda question, answer: encode(error("not CBOR")).decode() if not_cbor(question) else answer,
)
websocket(
    "answers text frames with binary frames",
    "WS-7.2",
    "D-31",
    frame=lambda question, answer: (
        cbor2.dumps(json.loads(answer)) if isinstance(question, str) and not is_error(answer) else answer
    ),
)
websocket(
    "does not take base64 in text frames", "WS-7.2", **refusing(lambda m: m.get("Subformat") == "audio/wav;base64")
)
websocket(
    "loses tokens in text frames",
    "WS-7.2-tokens",
    frame=lambda question, answer: answer.replace("check-text", "-") if isinstance(answer, str) else answer,
)
websocket(
    "takes what is not JSON in a text frame",
    "WS-7.2-not",
    frame=lambda question, answer: json.dumps(text("fine")) if question == "{bad" else answer,
)
websocket("takes a text frame that is not UTF-8", "WS-7.2-utf8", **quirk("not utf-8"))
websocket(
    "fails on a text frame that is not UTF-8",
    "WS-7.2-utf8",
    frame=lambda question, answer: None if isinstance(question, str) and "\ufffd" in question else answer,
    **quirk("not utf-8", "fails"),
)
websocket("drops the connection on a large message", "WS-7.0", **quirk("drops large"))
websocket("mixes up tokens of a connection", "WS-6-again", **quirk("mixes tokens"))

# -- AMQP -------------------------------------------------------------------------------------------


def letters(**changes: Any) -> dict[str, Any]:
    return {"letter": lambda asked, letter: replace(letter, **changes)}


amqp("does not say to", "AMQP-2", "AMQP-3", "AMQP-4-not", "AMQP-7", "D-42", **letters(to=None))
amqp("says another to", "AMQP-3", "AMQP-4-not", "AMQP-7", "D-42", **letters(to="elsewhere"))
amqp("does not copy correlation-id", "AMQP-4", "AMQP-4-not", "AMQP-3-none", "AMQP-8", **letters(correlation_id=None))
amqp(
    "turns correlation-id into a string",
    "AMQP-4",
    letter=lambda asked, letter: replace(
        letter, correlation_id=str(letter.correlation_id) if letter.correlation_id is not None else None
    ),
)
amqp("does not say its content-type", "AMQP-5-json", "AMQP-5-cbor", "AMQP-7", **letters(content_type=None))
amqp("says JSON of CBOR", "AMQP-5-cbor", "AMQP-7", **letters(content_type="application/json"))
amqp(
    "answers CBOR with JSON",
    "AMQP-5-cbor",
    letter=lambda asked, letter: (
        replace(letter, content_type="application/json", body=encode(cbor2.loads(letter.body)))
        if letter.content_type == "application/cbor" and not asked.properties
        else letter
    ),
)
amqp("does not look at content-type", "AMQP-5-not", **ignoring("sniff"))
amqp(
    "refuses foreign application properties",
    "AMQP-6",
    letter=lambda asked, letter: (
        replace(letter, body=encode(error("no"))) if "x-trace" in (asked.properties or {}) else letter
    ),
)
amqp("does not answer where it is asked to", "AMQP-7", "AMQP-7-alone", "D-42", **quirk("no wishes"))
amqp("does not read CBOR without content-type", "D-41", **quirk("only json"))
amqp("does not read strings", "D-43", **quirk("no strings"))
amqp(
    "loses tokens where there is a correlation-id",
    "AMQP-4-token",
    letter=lambda asked, letter: replace(letter, body=encode(text("x"))) if letter.correlation_id == "r-2" else letter,
)
amqp("answers letters without reply-to", "AMQP-3-none", **quirk("remembers reply-to"))

amqp(
    "does not answer at the place for a format",
    "D-42",
    letter=lambda asked, letter: (
        replace(letter, to=asked.reply_to, address=asked.reply_to)
        if "nlip-reply-text" in (asked.properties or {})
        else letter
    ),
)
amqp(
    "mixes up two questions",
    "AMQP-8",
    letter=lambda asked, letter: replace(letter, correlation_id="one") if letter.correlation_id == "two" else letter,
)
websocket("answers text frames at /nlip/ws with binary frames", "D-31", **quirk("only binary at /nlip/ws"))

# -- faults that were invented from the clauses of the standard, before looking at the checks --------


def first_later_answer() -> dict[str, Any]:
    """Every place for a later answer has the answer of the first."""
    first: list[bytes] = []

    def change(request: Request, response: Response) -> Response:
        if not request.path.startswith("/tasks/") or response.status != 200:
            return response
        first.append(response.body)
        return replace(response, body=first[0])

    return {"response": change}


def one_upload_place(_: Message, reply: Reply) -> Reply:
    return {
        **reply,
        "submessages": [
            {**part, "content": part["content"].rpartition("/")[0] + "/all"} if part["subformat"] == "uri" else part
            for part in reply["submessages"]
        ],
    }


http("reads a content type only in lower case", "HTTP-6.2-case", **responding(asked("content-type", "J"), status=415))
http(
    "wants Content-Length",
    "HTTP-6.3-chunked",
    **responding(asked("transfer-encoding", "chunked"), status=411),
)
http(
    "reads preferences only in lower case",
    "HTTP-3.1-case",
    request=lambda request: (
        replace(request, headers=request.headers | {"prefer": ""})
        if "Respond-Async" in request.headers.get("prefer", "")
        else request
    ),
)
for method in ("PUT", "PATCH", "DELETE"):
    http(
        f"answers {method}",
        "D-23",
        **responding(lambda request, _, method=method: request.method == method, status=200),
    )
http(
    "fails on a large message",
    "SEC-DOS-size",
    **responding(lambda request, _: len(request.body) > 1_000_000, status=500),
)
http(
    "refuses a large message without words",
    "SEC-DOS-size",
    **responding(lambda request, _: len(request.body) > 1_000_000, status=413, body=b""),
)
http(
    "has one upload place for all",
    "CORE-6.4-own",
    reply=one_upload_place,
    **responding(lambda request, _: request.path == "/upload/all", status=201),
)
http("does not take uploads at /nlip/upload/", "D-25", **responding(lambda q, _: q.path == "/nlip/upload/", status=404))
http(
    "answers control with data later",
    "CORE-6.3-async",
    response=lambda request, response: (
        replace(response, body=response.body.replace(b'"messagetype": "control"', b'"messagetype": "data"'))
        if request.path.startswith("/tasks/")
        else response
    ),
)
http("gives the first later answer to everybody", "CORE-6.2-async", "CORE-6.3-async", **first_later_answer())
http(
    "streams pieces that say that they are the whole",
    "D-34",
    response=lambda _, response: (
        replace(response, body=response.body.replace(b'"messagetype": "partial"', b'"messagetype": "data"'))
        if response.headers["content-type"] == "text/event-stream"
        else response
    ),
)
websocket(
    "does not take raw bytes in further submessages",
    "WS-7.1-raw",
    **refusing(lambda m: any(part.get("content") == b"\x89PNG" for part in parts(m)[1:])),
)
websocket(
    "answers control in text frames with data",
    "WS-7.2-control",
    frame=lambda _, answer: (
        answer.replace('"messagetype": "control"', '"messagetype": "data"') if isinstance(answer, str) else answer
    ),
)
amqp(
    "answers every letter twice",
    "AMQP-0",
    "AMQP-8",
    "CORE-6.2-apart",
    "CORE-6.2.1-own",
    "D-19",
    **quirk("answers twice"),
)
amqp("answers at reply-to as well", "AMQP-7-only", **quirk("answers at reply-to too"))
amqp(
    "does not take a charset",
    "AMQP-5-json",
    letter=lambda asked, letter: (
        replace(letter, content_type="text/plain") if ";" in str(asked.content_type) else letter
    ),
)
amqp(
    "answers in an amqp-value section",
    "AMQP-6-data",
    letter=lambda _, letter: (
        replace(letter, body=letter.body.decode()) if letter.content_type == "application/json" else letter
    ),
)
amqp(
    "says nothing to what it refuses",
    "D-22",
    letter=lambda _, letter: None if b"error" in letter.body[:120] else letter,
)
