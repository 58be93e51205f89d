"""ACL end-points with one fault each: our own door behind a proxy that breaks one rule.

Each stands below a path of its own, ``/NAME/acl``; requests and replies pass through its functions.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from starlette.types import ASGIApp, Receive, Scope, Send

Value = dict[str, Any]
AGENT = "jules"


@dataclass(frozen=True)
class Reply:
    """What the door answered."""

    status: int
    value: Value
    request: Value


@dataclass(frozen=True)
class Fault:
    """One server with one fault, and the check that must find it."""

    name: str
    clause: str
    request: Callable[[Value], Value] = lambda value: value
    reply: Callable[[Reply], tuple[int, Value]] = lambda reply: (reply.status, reply.value)
    event: Callable[[Value], Value] = lambda value: value
    headers: Callable[[Mapping[bytes, bytes]], Mapping[bytes, bytes]] = lambda headers: headers
    inbox: Callable[[str], Value | None] = lambda agent: None  # what stands in for the inbox of an agent
    may_also: frozenset[str] = field(default_factory=frozenset)  # checks that it can break, by how quickly it answers


def _in(act: str, **changes: Any) -> Callable[[Reply], tuple[int, Value]]:
    """Change fields of replies of one act; None removes the field."""

    def change(reply: Reply) -> tuple[int, Value]:
        if reply.value.get("performative") != act:
            return reply.status, reply.value
        value = {**reply.value, **changes}
        return reply.status, {name: given for name, given in value.items() if given is not None}

    return change


def _payload(act: str, change: Callable[[Value], Value], when: str = "") -> Callable[[Reply], tuple[int, Value]]:
    """Change the payload of replies of one act, if the request has this text in it."""

    def changed(reply: Reply) -> tuple[int, Value]:
        if reply.value.get("performative") != act or when not in json.dumps(reply.request):
            return reply.status, reply.value
        return reply.status, {**reply.value, "payload": change(reply.value["payload"])}

    return changed


def _acknowledges_other(reply: Reply) -> tuple[int, Value]:
    known = reply.status == 202 and "message_id" in reply.value
    return reply.status, {**reply.value, "message_id": str(uuid4())} if known else reply.value


def _repeats_id(reply: Reply) -> tuple[int, Value]:
    return _in("TASK_ACCEPT", message_id=reply.value.get("in_reply_to"))(reply)


def _reason(was: str, now: str) -> Callable[[Reply], tuple[int, Value]]:
    """Another reason than the right one."""

    def changed(reply: Reply) -> tuple[int, Value]:
        payload = reply.value.get("payload", {})
        names = [name for name in ("reason_code", "error_code") if payload.get(name) == was]
        return reply.status, {**reply.value, "payload": {**payload, **dict.fromkeys(names, now)}}

    return changed


def _completes_payload(value: Value) -> Value:
    empty = value.get("payload") == {} and value.get("performative") == "TASK_REQUEST"
    return {**value, "payload": {"task_type": "ask", "task_description": ""}} if empty else value


def _takes_answers_to_nothing(reply: Reply) -> tuple[int, Value]:
    if reply.request.get("performative") == "TASK_ACCEPT" and "in_reply_to" not in reply.request:
        return 202, {"status": "accepted", "message_id": reply.request["message_id"]}
    return reply.status, reply.value


def _takes_everything(reply: Reply) -> tuple[int, Value]:
    if reply.value.get("payload", {}).get("reason_code") == "unexpected_act":
        return 202, {"status": "accepted", "message_id": reply.request["message_id"]}
    return reply.status, reply.value


class _Forgetful:
    """Takes a message that comes twice for two."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def __call__(self, value: Value) -> Value:
        known = str(value.get("message_id"))
        if known in self._seen:
            return {**value, "message_id": str(uuid4())}
        self._seen.add(known)
        return value


def _refuses_unknown_fields(reply: Reply) -> tuple[int, Value]:
    if "x_own_field" in reply.request:
        return 400, {"error": "x_own_field"}
    return reply.status, reply.value


def _lends_the_name(value: Value) -> Value:
    if value.get("sender") == {"agent_id": AGENT}:
        return {**value, "sender": {"agent_id": f"mallory-{uuid4().hex[:8]}"}}
    return value


def _without(*names: bytes) -> Callable[[Mapping[bytes, bytes]], Mapping[bytes, bytes]]:
    return lambda headers: {name: value for name, value in headers.items() if name not in names}


def _result_of_nothing(value: Value) -> Value:
    return {**value, "in_reply_to": str(uuid4())} if value["performative"] == "INFORM_RESULT" else value


def _wrapped(payload: Value) -> Value:
    return {"status": "success", "capabilities": payload}


FAULTS = (
    Fault("acknowledges another message", "ACL-C1", reply=_acknowledges_other),
    Fault("answers another message", "ACL-C2", reply=_in("TASK_ACCEPT", in_reply_to=str(uuid4()))),
    Fault("answers under another name", "ACL-C3", reply=_in("TASK_ACCEPT", sender={"agent_id": "gateway"})),
    Fault("repeats the id of the request", "ACL-C4", reply=_repeats_id),
    Fault("numbers its messages", "ACL-C5", reply=_in("TASK_ACCEPT", message_id="msg_1")),
    Fault("leaves its version out", "ACL-C6", reply=_in("TASK_ACCEPT", mcp_version=None)),
    Fault("tells local time", "ACL-C7", reply=_in("TASK_ACCEPT", timestamp="2026-01-01T02:00:00+02:00")),
    Fault("sends results of nothing", "ACL-C8", event=_result_of_nothing),
    Fault(
        "has no topics",
        "ACL-C9",
        reply=_payload("INFORM_CAPABILITIES", lambda p: {**p, "capabilities": {"actions": []}}, "summary"),
    ),
    Fault("wraps the match", "ACL-C10", reply=_payload("INFORM_CAPABILITIES", _wrapped, "specific")),
    Fault(
        "knows every action",
        "ACL-C11",
        reply=_payload("INFORM_CAPABILITIES", lambda _: _wrapped({"action": {}}), "action_details"),
    ),
    Fault("cannot tell unknown acts", "ACL-C12", reply=_reason("unknown_performative", "parsing_error")),
    Fault("cannot tell what is not JSON", "ACL-C13", reply=_reason("parsing_error", "unknown_performative")),
    Fault("takes empty payloads", "ACL-C14", request=_completes_payload),
    Fault("takes answers to nothing", "ACL-C15", reply=_takes_answers_to_nothing),
    Fault("takes acts in any order", "ACL-C16", reply=_takes_everything),
    Fault("handles duplicates", "ACL-C17", request=_Forgetful()),
    Fault("has another word for unknown agents", "ACL-C18", reply=_reason("not_registered", "internal_error")),
    Fault(
        "does not name its version",
        "ACL-C19",
        reply=_payload("NOT_UNDERSTOOD", lambda p: {**p, "reason_text": "no"}, "9.9.9"),
    ),
    Fault("refuses unknown fields", "ACL-C20", reply=_refuses_unknown_fields),
    Fault("lends the names of its agents", "ACL-C21", request=_lends_the_name),
    Fault("shows every inbox", "ACL-C22", inbox=lambda agent: {"messages": []} if agent == AGENT else None),
    # Without it the inbox may begin at the same message each time, so that a result behind it is never reached.
    Fault("overlooks Last-Event-ID", "ACL-C23", headers=_without(b"last-event-id"), may_also=frozenset({"ACL-C8"})),
    Fault("answers QUERY_IF with a word", "ACL-C24", reply=_payload("INFORM_IF", lambda p: {**p, "result": "yes"})),
)


class FaultyServers:
    """All of them as one ASGI application, in front of a correct one."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._faults = {slug(fault): fault for fault in FAULTS}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        _, name, *rest = scope["path"].split("/")
        await _Passing(self._app, self._faults[name], "/" + "/".join(rest)).run(scope, receive, send)


def slug(fault: Fault) -> str:
    return fault.name.replace(" ", "-")


class _Passing:
    """One request on its way through a fault."""

    def __init__(self, app: ASGIApp, fault: Fault, path: str) -> None:
        self._app = app
        self._fault = fault
        self._path = path
        self._request: Value = {}
        self._start: dict[str, Any] = {}
        self._body = b""

    async def run(self, scope: Scope, receive: Receive, send: Send) -> None:
        _, found, agent = self._path.partition("/inbox/")
        shown = self._fault.inbox(agent) if found else None
        if shown is not None:
            self._send = send
            return await self._finish(200, shown)
        headers = list(self._fault.headers(dict(scope["headers"])).items())
        body = self._changed(await _body_of(receive)) if scope["method"] == "POST" else b""
        headers = [(name, value) for name, value in headers if name != b"content-length"]
        headers.append((b"content-length", str(len(body)).encode()))
        given = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay() -> Any:
            return given.pop() if given else await receive()

        self._send = send
        path = self._path.encode()
        await self._app({**scope, "path": self._path, "raw_path": path, "headers": headers}, replay, self._answer)

    def _changed(self, body: bytes) -> bytes:
        try:
            value = json.loads(body)
        except ValueError:
            return body
        self._request = value
        return json.dumps(self._fault.request(value)).encode()

    async def _answer(self, packet: Any) -> None:
        if packet["type"] == "http.response.start":
            self._start = packet
            if self._streams:
                await self._send(packet)
        elif self._streams:
            await self._send({**packet, "body": self._events(packet.get("body", b""))})
        else:
            self._body += packet.get("body", b"")
            if not packet.get("more_body"):
                value = json.loads(self._body)
                await self._finish(*self._fault.reply(Reply(self._start["status"], value, self._request)))

    @property
    def _streams(self) -> bool:
        return dict(self._start["headers"]).get(b"content-type", b"").startswith(b"text/event-stream")

    def _events(self, data: bytes) -> bytes:
        lines = data.split(b"\n")
        return b"\n".join(self._line(line) for line in lines)

    def _line(self, line: bytes) -> bytes:
        if not line.startswith(b"data:"):
            return line
        return b"data: " + json.dumps(self._fault.event(json.loads(line[5:]))).encode()

    async def _finish(self, status: int, value: Value) -> None:
        body = json.dumps(value).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await self._send({"type": "http.response.start", "status": status, "headers": headers})
        await self._send({"type": "http.response.body", "body": body})


async def _body_of(receive: Receive) -> bytes:
    body = b""
    while True:
        packet = await receive()
        body += packet.get("body", b"")
        if not packet.get("more_body"):
            return body
