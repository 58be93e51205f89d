"""What stands in front of the A2A operations over HTTP: limits on what comes in, and how answers are written."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Mapping
from typing import Any, Final, TypeVar

import msgspec
from starlette.types import Receive, Scope, Send

from ..ending import end
from ..errors import (
    BadInput,
    BadMediaType,
    BadMessage,
    MissingExtra,
    SabirError,
    TooBig,
    Unreadable,
)
from ..wire import a2a as wire
from ..wire.rules import Limits, depth_of
from .base import hops_of

try:
    from a2a.types import a2a_pb2 as pb
    from a2a.utils.errors import JSON_RPC_ERROR_CODE_MAP, A2AError
    from google.protobuf.json_format import ParseDict, ParseError
    from google.protobuf.message import Message as Proto
except ImportError as missing:
    raise MissingExtra("A2A", "a2a") from missing

JSON: Final = b"application/json"
A2A_JSON: Final = b"application/a2a+json"
KEEP_ALIVE: Final = 15.0  # seconds between comments on a silent event stream
_AROUND: Final = 8  # levels of JSON that the protocol itself puts around a content
_INFO: Final = "type.googleapis.com/google.rpc.ErrorInfo"
_BAD: Final = "type.googleapis.com/google.rpc.BadRequest"
_DOMAIN: Final = "a2a-protocol.org"
_BASE64: Final = re.compile(r"[A-Za-z0-9+/_-]*={0,2}")
_FIELD: Final = re.compile(r"Failed to parse (\w+) field")


P = TypeVar("P", bound=Proto)


class Headers(msgspec.Struct):
    """The headers that matter here."""

    content_type: str = ""
    encoding: str = ""
    length: int = 0
    version: str = ""
    trace: str | None = None
    hops: int = 0
    if_none_match: str = ""
    token: str = ""  # of a notification


def headers_of(scope: Scope) -> Headers:
    found = Headers()
    for name, value in scope["headers"]:
        if name == b"content-type":
            found.content_type = value.decode("latin-1").partition(";")[0].strip().lower()
        elif name == b"content-length":
            found.length = int(value) if value.isdigit() and len(value) < 19 else 0
        elif name == b"content-encoding":
            found.encoding = value.decode("latin-1").strip().lower()
        elif name == b"a2a-version":
            found.version = value.decode("latin-1").strip()[:32]
        elif name == b"traceparent":
            found.trace = value.decode("latin-1")[:64]
        elif name == b"x-sabir-hops":
            found.hops = hops_of(value)
        elif name == b"x-a2a-notification-token":
            found.token = value.decode("latin-1")
        elif name == b"if-none-match":
            found.if_none_match = value.decode("latin-1")
    return found


# -- in -------------------------------------------------------------------------------------------


async def read_json(receive: Receive, headers: Headers, limits: Limits) -> Any:
    """The JSON body of a request.

    Raises:
        BadMediaType: it is packed, or says that it is not JSON.
        TooBig: it is too long or too deep; the rest is left unread.
        Unreadable: it is not JSON.
    """
    if headers.encoding not in ("", "identity"):
        raise BadMediaType(wire.PROTOCOL, "Content-Encoding", "identity")
    if headers.content_type not in ("", "application/json", "application/a2a+json"):
        raise BadMediaType(wire.PROTOCOL, "Content-Type", "application/json")
    if headers.length > limits.body:
        raise TooBig(wire.PROTOCOL, "$", f"at most {limits.body} bytes")
    return json_of(await _body(receive, limits.body), limits)


async def _body(receive: Receive, most: int) -> bytes:
    pieces: list[bytes] = []
    size = 0
    while True:
        packet = await receive()
        if packet["type"] == "http.disconnect":
            raise Unreadable(wire.PROTOCOL, "$", "the whole body")
        pieces.append(packet.get("body", b""))
        size += len(pieces[-1])
        if size > most:
            raise TooBig(wire.PROTOCOL, "$", f"at most {most} bytes")
        if not packet.get("more_body"):
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def json_of(body: bytes, limits: Limits) -> Any:
    most = limits.depth + _AROUND
    try:
        value = msgspec.json.decode(body)
    except RecursionError:
        raise TooBig(wire.PROTOCOL, "$", f"at most {most} levels of nesting") from None
    except (msgspec.DecodeError, ValueError):
        raise Unreadable(wire.PROTOCOL, "$", "JSON in UTF-8") from None
    if body.count(b"{") + body.count(b"[") > most and depth_of(value, most) > most:
        raise TooBig(wire.PROTOCOL, "$", f"at most {most} levels of nesting")
    return value


def parsed(value: Any, kind: type[P], where: str) -> P:
    """A protocol value of plain JSON; fields of later versions are passed over.

    Raises:
        BadMessage: a field does not have its type; says which.
    """
    if not isinstance(value, dict):
        raise BadMessage(wire.PROTOCOL, where, "an object")
    if kind is pb.SendMessageRequest:
        _check_files(value, where)
    try:
        return ParseDict(value, kind(), ignore_unknown_fields=True)
    except (ParseError, TypeError, ValueError, AttributeError, RecursionError) as wrong:
        # Its text repeats the input and names Python types; the way to the field is what the sender needs.
        steps = "".join(f".{name}" for name in _FIELD.findall(str(wrong)))
        raise BadMessage(wire.PROTOCOL, f"{where}{steps}", f"a value as A2A defines it in {kind.__name__}") from None


def _check_files(value: dict[str, Any], where: str) -> None:
    """Files are base64. The SDK passes over every letter that is not, and hands on what is left."""
    message = value.get("message")
    parts = message.get("parts") if isinstance(message, dict) else None
    for index, part in enumerate(parts if isinstance(parts, list) else ()):
        raw = part.get("raw") if isinstance(part, dict) else None
        if isinstance(raw, str) and not is_base64(raw):
            raise BadMessage(wire.PROTOCOL, f"{where}.message.parts[{index}].raw", "base64 text")


def is_base64(text: str) -> bool:
    """Whether a text is base64, in either alphabet, padded or not."""
    return _BASE64.fullmatch(text) is not None


# -- out ------------------------------------------------------------------------------------------


class Problem(msgspec.Struct, frozen=True):
    """A failure in every spelling that the bindings have."""

    code: int
    reason: str
    word: str
    status: int
    text: str
    carried: bool  # whether the HTTP status tells it in JSON-RPC too
    where: str = ""
    expected: str = ""


def problem_of(wrong: SabirError | A2AError) -> Problem:
    if isinstance(wrong, A2AError):
        code = JSON_RPC_ERROR_CODE_MAP.get(type(wrong), -32603)
        reason, word, status = wire.REASONS[code]
        text = wrong.message if code != -32603 else "Internal error"
        return Problem(code, reason, word, status, text, False)
    code = wire.CODES[type(wrong)]
    reason, word, status = wire.REASONS[code]
    told = next((wire.STATUSES[kind] for kind in type(wrong).__mro__ if kind in wire.STATUSES), None)
    if told is not None:
        status, reason, word = told
    where, expected = (wrong.where, wrong.expected) if isinstance(wrong, BadInput) else ("", "")
    return Problem(code, reason, word, status, str(wrong), told is not None, where, expected)


def details(problem: Problem) -> list[dict[str, Any]]:
    """What a client's program reads of a failure."""
    told: list[dict[str, Any]] = [{"@type": _INFO, "reason": problem.reason, "domain": _DOMAIN, "metadata": {}}]
    if problem.where:
        violation = {"field": problem.where, "description": f"expected {problem.expected}"}
        told.append({"@type": _BAD, "fieldViolations": [violation]})
    return told


def rpc_error(id: str | int | None, wrong: SabirError | A2AError) -> dict[str, Any]:
    problem = problem_of(wrong)
    error = {"code": problem.code, "message": problem.text, "data": details(problem)}
    return {"jsonrpc": "2.0", "id": id, "error": error}


def rest_error(wrong: SabirError | A2AError) -> dict[str, Any]:
    problem = problem_of(wrong)
    return {
        "error": {
            "code": problem.status,
            "status": problem.word,
            "message": problem.text,
            "details": details(problem),
        }
    }


async def respond(
    send: Send,
    value: Any,
    status: int = 200,
    *,
    kind: bytes = JSON,
    headers: list[tuple[bytes, bytes]] | None = None,
) -> None:
    body = value if isinstance(value, bytes) else msgspec.json.encode(value)
    start = [(b"content-type", kind), (b"content-length", str(len(body)).encode()), *(headers or ())]
    await send({"type": "http.response.start", "status": status, "headers": start})
    await send({"type": "http.response.body", "body": body})


async def stream(receive: Receive, send: Send, events: AsyncGenerator[bytes]) -> None:
    """Send events as they come until they end or the client goes away; the first must be there at once, so that a
    refusal is an answer and not a stream."""
    try:
        first = await anext(events)
        start = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-store")]
        await send({"type": "http.response.start", "status": 200, "headers": [*start, (b"x-accel-buffering", b"no")]})
        await send({"type": "http.response.body", "body": first, "more_body": True})
        await _pump(receive, send, events)
    finally:
        await events.aclose()


async def _pump(receive: Receive, send: Send, events: AsyncGenerator[bytes]) -> None:
    gone = asyncio.ensure_future(_disconnected(receive))
    step: asyncio.Task[bytes] | None = None
    try:
        while not gone.done():
            step = step or asyncio.create_task(_next(events))
            both: set[asyncio.Future[Any]] = {step, gone}
            await asyncio.wait(both, timeout=KEEP_ALIVE, return_when=asyncio.FIRST_COMPLETED)
            if step.done():
                body = step.result()
                if not body:
                    await send({"type": "http.response.body", "body": b""})
                    return
                await send({"type": "http.response.body", "body": body, "more_body": True})
                step = None
            elif not gone.done():
                await send({"type": "http.response.body", "body": b": still here\n\n", "more_body": True})
    finally:
        await end([gone, step])


async def _next(events: AsyncGenerator[bytes]) -> bytes:
    """The next event, or nothing at the end."""
    return await anext(events, b"")


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def event(value: Mapping[str, Any], *, wrong: bool = False) -> bytes:
    """One server-sent event."""
    return (b"event: error\n" if wrong else b"") + b"data: " + msgspec.json.encode(value) + b"\n\n"
