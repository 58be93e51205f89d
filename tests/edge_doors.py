"""How the tests of the HTTP edge speak to each door. A door of the registry without a row here fails the suite."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import Any
from uuid import uuid4

JSON = {"content-type": "application/json"}
Body = dict[str, Any]


@dataclass(frozen=True, slots=True)
class DoorDriver:
    """One door over HTTP: a valid request, and where its answer says what was wrong."""

    name: str  # as the registry names it
    path: str
    body: Callable[[object], Body]  # a valid body that carries this value
    reason: Callable[[Body], str]  # of an error body
    headers: dict[str, str] = field(default_factory=dict)

    def bytes(self, value: object = "hello") -> bytes:
        return json.dumps(self.body(value)).encode()


def _nlip(value: object) -> Body:
    if isinstance(value, str):
        return {"format": "text", "subformat": "english", "content": value}
    return {"format": "structured", "subformat": "json", "content": value}


def _nlweb(value: object) -> Body:
    query: Body = {"text": value} if isinstance(value, str) else {"text": "hello", "extra": value}
    return {"query": query, "prefer": {"streaming": False}}


def _mcp(value: object) -> Body:
    arguments = {"text": value} if isinstance(value, str) else {"text": "hello", "extra": value}
    params = {"name": "echo", "arguments": arguments}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


def _a2a(value: object) -> Body:
    part = {"text": value} if isinstance(value, str) else {"data": value}
    message = {"messageId": "m-1", "role": "ROLE_USER", "parts": [part]}
    return {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}


def _a2a_rest(value: object) -> Body:
    return dict(_a2a(value)["params"])


def _acl(value: object) -> Body:
    payload: Body = {"task_type": "ask", "task_description": value if isinstance(value, str) else "hello"}
    if not isinstance(value, str):
        payload["extra"] = value
    return {
        "message_id": uuid4().hex,
        "performative": "TASK_REQUEST",
        "sender": {"agent_id": f"edge-{uuid4().hex[:12]}"},  # unique: a name belongs to its first user
        "receiver": {"agent_id": "echo"},
        "payload": payload,
    }


def _content(body: Body) -> str:
    return str(body["content"])


def _failure(body: Body) -> str:
    return json.dumps(body)


def _error(body: Body) -> str:
    return str(body["error"]["message"])


def _acl_reason(body: Body) -> str:
    payload = body["payload"]
    return str(payload.get("reason_text") or payload.get("error_text"))


# Doors of installed packages, which say themselves how to speak to them.
_INSTALLED = tuple(DoorDriver(**entry.load()) for entry in entry_points(group="sabir.edge_drivers"))

DRIVERS = (
    DoorDriver("nlip-http", "/nlip", _nlip, _content),
    DoorDriver("nlweb", "/ask", _nlweb, _failure, {"accept": "application/json"}),
    DoorDriver("mcp", "/mcp", _mcp, _error, {"accept": "application/json, text/event-stream"}),
    DoorDriver("a2a", "/a2a", _a2a, _error, {"a2a-version": "1.0"}),
    DoorDriver("a2a (HTTP+JSON)", "/a2a/echo/message:send", _a2a_rest, _error, {"a2a-version": "1.0"}),
    DoorDriver("acl", "/mcp-request", _acl, _acl_reason),
    DoorDriver("upload", "/nlip/upload/", lambda value: {"value": value}, _content),
    *_INSTALLED,
)
# Doors that are not spoken to by one HTTP request, and their columns in test_edge_elsewhere.py.
ELSEWHERE = {"nlip-ws": "WebSocket", "nlip-amqp": "AMQP"}
