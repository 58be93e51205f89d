"""HTTP helpers of the A2A door: limits, parsing, responses and errors."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Mapping
from typing import Any, Final, TypeVar, cast

import msgspec
from a2a.types import a2a_pb2 as pb
from a2a.utils.errors import JSON_RPC_ERROR_CODE_MAP, A2AError
from google.protobuf.json_format import ParseDict, ParseError
from google.protobuf.message import Message as Proto
from starlette.types import Receive, Scope, Send

from sabir.aio import cancel_and_wait
from sabir.errors import BadInput, BadMessage, SabirError
from sabir.http.admission import Admission
from sabir.http.disconnect import disconnected
from sabir.http.request import hops_of, read_json, trace_of
from sabir.http.response import COMMENT, JSON, KEEP_ALIVE, send_events, send_json, start_events
from sabir.protocols.a2a.wire import content as wire
from sabir.protocols.a2a.wire.misfits import find_misfit
from sabir.protocols.a2a.wire.values import value_to

_TYPES: Final = ("", "application/json", "application/a2a+json")
WEIGHT: Final = 4  # the SDK turns each value into protobuf and back, in Python
_PLAIN_FIELDS: Final = {
    "messageId": "message_id",
    "contextId": "context_id",
    "taskId": "task_id",
    "role": "role",
    "parts": "parts",
}
_ROLES: Final = dict(pb.Role.items())
_TEXT: Final = {"text"}
_CONTENTS: Final = ("text", "raw", "url", "data")
_EMPTY: Final[dict[str, Any]] = {"text": "", "data": None}
LONG_TEXT: Final = 16 * 1024  # characters
_AROUND: Final = 8  # levels of JSON that the protocol puts around a content
_INFO: Final = "type.googleapis.com/google.rpc.ErrorInfo"
_BAD: Final = "type.googleapis.com/google.rpc.BadRequest"
_DOMAIN: Final = "a2a-protocol.org"
_BASE64: Final = re.compile(r"[A-Za-z0-9+/_-]*={0,2}")


P = TypeVar("P", bound=Proto)


class A2aOptions(msgspec.Struct):
    """The headers that matter here."""

    version: str = ""
    trace: str | None = None
    hops: int = 0
    if_none_match: str = ""
    token: str = ""  # of a notification


def parse_headers(headers: Mapping[bytes, bytes]) -> A2aOptions:
    return A2aOptions(
        headers.get(b"a2a-version", b"").decode("latin-1").strip()[:32],
        trace_of(headers),
        hops_of(headers.get(b"x-sabir-hops", b"")),
        headers.get(b"if-none-match", b"").decode("latin-1"),
        headers.get(b"x-a2a-notification-token", b"").decode("latin-1"),
    )


# -- in -------------------------------------------------------------------------------------------


def read_body(scope: Scope, receive: Receive, admission: Admission) -> Awaitable[Any]:
    """The JSON value of a body, as ``sabir.http.request.read_json`` reads it."""
    return read_json(scope, receive, admission, wire.PROTOCOL, types=_TYPES, around=_AROUND, weight=WEIGHT)


def parsed(value: Any, kind: type[P], where: str) -> P:
    """A protocol value from plain JSON; unknown fields are ignored.

    Raises:
        BadMessage: a field has the wrong type; says which.
    """
    if not isinstance(value, dict):
        raise BadMessage(wire.PROTOCOL, where, "an object")
    given = value
    contents: dict[int, tuple[str, Any]] = {}
    if kind is pb.SendMessageRequest:
        if (plain := _plain_request(value)) is not None:
            return cast("P", plain)
        _check_files(value, where)
        value, contents = _without_contents(value)
    try:
        made = ParseDict(value, kind(), ignore_unknown_fields=True)
        for index, (field, content) in contents.items():
            part = made.message.parts[index]  # type: ignore[attr-defined]  # it is a SendMessageRequest
            if field == "text":
                part.text = content
            else:
                part.data.CopyFrom(value_to(content))
        return made
    except (ParseError, TypeError, ValueError, AttributeError, RecursionError, OverflowError):
        raise BadMessage(wire.PROTOCOL, *find_misfit(given, kind, where)) from None


def _plain_request(value: dict[str, Any]) -> pb.SendMessageRequest | None:
    """A request that consists of a message of texts, as most do; None for any other. ParseDict takes 15 times as
    long."""
    message = value.get("message")
    if len(value) != 1 or not isinstance(message, dict) or not message.keys() <= _PLAIN_FIELDS.keys():
        return None
    parts = message.get("parts", [])
    if not isinstance(parts, list):
        return None
    made = pb.SendMessageRequest()
    filled = made.message
    filled.SetInParent()
    try:
        for name, given in message.items():
            if name != "parts":
                setattr(filled, _PLAIN_FIELDS[name], _ROLES[given] if name == "role" else given)
        for part in parts:
            if part.keys() != _TEXT:
                return None
            filled.parts.add().text = part["text"]
    except (TypeError, ValueError, AttributeError, KeyError):  # not plain, or invalid; ParseDict reports the error
        return None
    return made


def _without_contents(value: dict[str, Any]) -> tuple[dict[str, Any], dict[int, tuple[str, Any]]]:
    """Separate long texts and data from the request, by the number of their part, with the name of their field.

    ParseDict searches texts for lone surrogates with a regular expression, which blocks the loop for 15 ms per
    megabyte, and is slow for data with many values. Setting the fields directly makes the same checks faster.
    """
    message = value.get("message")
    parts = message.get("parts") if isinstance(message, dict) else None
    if not isinstance(parts, list):
        return value, {}
    contents: dict[int, tuple[str, Any]] = {}
    for index, part in enumerate(parts):
        if not isinstance(part, dict) or sum(name in part for name in _CONTENTS) != 1:
            continue  # invalid; ParseDict reports the error
        text, data = part.get("text"), part.get("data")
        if isinstance(text, str) and len(text) > LONG_TEXT:
            contents[index] = "text", text
        elif isinstance(data, dict | list):
            contents[index] = "data", data
    if not contents:
        return value, {}
    short = [
        {**part, contents[index][0]: _EMPTY[contents[index][0]]} if index in contents else part
        for index, part in enumerate(parts)
    ]
    return {**value, "message": {**message, "parts": short}}, contents  # type: ignore[dict-item]  # it has parts


def _check_files(value: dict[str, Any], where: str) -> None:
    """Check that files are valid base64. The SDK ignores invalid characters and decodes the rest."""
    message = value.get("message")
    parts = message.get("parts") if isinstance(message, dict) else None
    for index, part in enumerate(parts if isinstance(parts, list) else ()):
        raw = part.get("raw") if isinstance(part, dict) else None
        if isinstance(raw, str) and not is_base64(raw):
            raise BadMessage(wire.PROTOCOL, f"{where}.message.parts[{index}].raw", "base64 text")


def is_base64(text: str) -> bool:
    """Whether a text is base64, in either alphabet, padded or not."""
    return _BASE64.fullmatch(text) is not None and len(text.rstrip("=")) % 4 != 1


# -- out ------------------------------------------------------------------------------------------


class RpcProblem(msgspec.Struct, frozen=True):
    """A failure in the formats of all bindings."""

    code: int
    reason: str
    word: str
    status: int
    text: str
    carried: bool  # whether JSON-RPC uses this HTTP status, too
    where: str = ""
    expected: str = ""


def problem_of(exc: SabirError | A2AError) -> RpcProblem:
    if isinstance(exc, A2AError):
        code = JSON_RPC_ERROR_CODE_MAP.get(type(exc), -32603)
        reason, word, status = wire.REASONS[code]
        text = exc.message if code != -32603 else "Internal error"
        return RpcProblem(code, reason, word, status, text, False)
    code = wire.CODES[type(exc)]
    reason, word, status = wire.REASONS[code]
    answer = next((wire.STATUSES[kind] for kind in type(exc).__mro__ if kind in wire.STATUSES), None)
    if answer is not None:
        status, reason, word = answer
    where, expected = (exc.where, exc.expected) if isinstance(exc, BadInput) else ("", "")
    return RpcProblem(code, reason, word, status, str(exc), answer is not None, where, expected)


def details(problem: RpcProblem) -> list[dict[str, Any]]:
    """The machine-readable part of a failure."""
    entries: list[dict[str, Any]] = [{"@type": _INFO, "reason": problem.reason, "domain": _DOMAIN, "metadata": {}}]
    if problem.where:
        violation = {"field": problem.where, "description": f"expected {problem.expected}"}
        entries.append({"@type": _BAD, "fieldViolations": [violation]})
    return entries


def rpc_error(request_id: str | int | None, exc: SabirError | A2AError) -> dict[str, Any]:
    problem = problem_of(exc)
    error = {"code": problem.code, "message": problem.text, "data": details(problem)}
    return {"jsonrpc": "2.0", "id": request_id, "error": error}


def rest_error(exc: SabirError | A2AError) -> dict[str, Any]:
    problem = problem_of(exc)
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
    await send_json(send, status, body, headers or (), kind)


async def stream(receive: Receive, send: Send, events: AsyncGenerator[bytes]) -> None:
    """Send events as they arrive until they end or the client disconnects; the first must be available at once, so that
    an error is a response and not a stream."""
    try:
        first = await anext(events)
        await start_events(send)
        await send_events(send, first)
        await _pump(receive, send, events)
    finally:
        await events.aclose()


async def _pump(receive: Receive, send: Send, events: AsyncGenerator[bytes]) -> None:
    gone = asyncio.ensure_future(disconnected(receive))
    step: asyncio.Task[bytes] | None = None
    try:
        while not gone.done():
            step = step or asyncio.create_task(_next(events))
            both: set[asyncio.Future[Any]] = {step, gone}
            await asyncio.wait(both, timeout=KEEP_ALIVE, return_when=asyncio.FIRST_COMPLETED)
            if step.done():
                body = step.result()
                await send_events(send, body, last=not body)
                if not body:
                    return
                step = None
            elif not gone.done():
                await send_events(send, COMMENT)
    finally:
        await cancel_and_wait([gone, step])


async def _next(events: AsyncGenerator[bytes]) -> bytes:
    """The next event, or nothing at the end."""
    return await anext(events, b"")


def event(value: Mapping[str, Any], *, exc: bool = False) -> bytes:
    """One server-sent event."""
    return (b"event: error\n" if exc else b"") + b"data: " + msgspec.json.encode(value) + b"\n\n"
