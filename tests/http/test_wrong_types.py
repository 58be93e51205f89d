"""Every field of every kind of message, given as another type: the door answers, and an error says where and what.

A value that does not fit is either read (doors are generous with numbers as text) or refused in the protocol's own
form, with the JSON path of the field, what was expected there, and no word of Python or of a library.
"""

from __future__ import annotations

import copy
import json
import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import httpx2
import pytest

from conftest import Served, serving
from sabir import Gateway
from sabir.agents.echo import echo

Steps = tuple[str | int, ...]
HUGE = 10**400  # JSON has it, neither a double nor protobuf does
WRONG: tuple[Any, ...] = (None, True, 5, 1.5, HUGE, "", "x", [], [None], ["x"], {}, {"a": 1}, {"\ud800": 1})
# Words of Python and of the libraries that read JSON.
INSIDE = re.compile(r"\b(str|int|dict|NoneType|msgspec|pydantic|Traceback|defines it)\b|got `|Expected `|\| null")


def _rpc(method: str, **params: object) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def _acl(performative: str, payload: dict[str, Any], **more: str) -> dict[str, Any]:
    return {
        "mcp_version": "0.1.0",
        "message_id": "m",
        "performative": performative,
        "sender": {"agent_id": "wrong-types"},
        "receiver": {"agent_id": "echo"},
        "language": "application/json",
        "timestamp": "2026-01-31T12:00:00Z",
        "payload": payload,
        **more,
    }


def _part(format_: str, subformat: str, content: object) -> dict[str, Any]:
    return {"format": format_, "subformat": subformat, "content": content, "label": "x"}


@dataclass(frozen=True)
class Sent:
    """A valid message with every field, and where it goes."""

    name: str
    path: str
    body: dict[str, Any]
    headers: dict[str, str] = field(default_factory=dict)


MCP = {"accept": "application/json, text/event-stream"}
A2A = {"a2a-version": "1.0"}
PARTS_1_0 = [
    {"text": "hello", "mediaType": "text/plain", "metadata": {"a": 1}},
    {"data": {"x": 1}},
    {"raw": "aGVsbG8=", "filename": "a.txt"},
    {"url": "https://example.com/x"},
]
PARTS_0_3 = [
    {"kind": "text", "text": "hello"},
    {"kind": "data", "data": {"x": 1}},
    {"kind": "file", "file": {"bytes": "aGVsbG8=", "name": "a.txt", "mimeType": "text/plain"}},
]
SEND_1_0 = {
    "message": {"messageId": "m", "role": "ROLE_USER", "parts": PARTS_1_0, "metadata": {"k": "v"}, "extensions": ["x"]},
    "configuration": {"acceptedOutputModes": ["text/plain"], "historyLength": 3, "returnImmediately": False},
    "metadata": {"a": 1},
}
SEND_0_3 = {
    "message": {"kind": "message", "messageId": "m", "role": "user", "parts": PARTS_0_3},
    "configuration": {"acceptedOutputModes": ["text"], "blocking": True, "historyLength": 2},
    "metadata": {"a": 1},
}
LISTED = {"status": "TASK_STATE_WORKING", "pageSize": 5, "statusTimestampAfter": "2026-01-01T00:00:00Z"}
NLIP = {
    **_part("text", "english", "hello"),
    "messagetype": "data",
    "submessages": [
        _part("structured", "json", {"a": 1}),
        _part("binary", "image/png", "aGVsbG8="),
        _part("location", "gps", "1,2"),
        _part("structured", "uri", "https://example.com"),
    ],
}
ASK = {
    "query": {"text": "soup", "site": "x", "itemType": "Recipe", "num_results": 3, "min_score": 1},
    "context": {"prev": ["a"], "text": "t", "memory": ["m"], "answers": {"q": ["a"]}},
    "prefer": {"streaming": False, "response_format": "conv_search", "mode": "list", "accept-language": "en"},
    "meta": {"api_version": "0.54", "session_context": {"conversation_id": "c"}, "request_id": "r", "start_num": 0},
}
WHO = {
    "query": {"text": "x", "type": "t", "domain": "d", "capabilities": ["a"]},
    "meta": {"version": "0.1", "max_results": 3},
}
CLIENT = {"protocolVersion": "2025-06-18", "capabilities": {"roots": {}}, "clientInfo": {"name": "f", "version": "1"}}
TASK = {"task_type": "t", "task_description": "d", "task_parameters": {"a": 1}, "priority": "high"}
CAPABLE = {"query_type": "specific", "query_parameters": {"capabilities": ["x"], "match_type": "all"}}

MESSAGES = (
    Sent("nlip", "/nlip", NLIP),
    Sent("ask", "/ask", ASK, {"accept": "application/json"}),
    Sent("await", "/await", {"promise_token": "t", "action": "checkin", "meta": {"api_version": "0.54"}}),
    Sent("who", "/who", WHO),
    Sent("mcp initialize", "/mcp", _rpc("initialize", **CLIENT), MCP),
    Sent("mcp call", "/mcp", _rpc("tools/call", name="echo", arguments={"text": "hi"}, _meta={}), MCP),
    Sent("mcp level", "/mcp", _rpc("logging/setLevel", level="info"), MCP),
    Sent("a2a send", "/a2a", _rpc("SendMessage", **SEND_1_0), A2A),
    Sent("a2a list", "/a2a", _rpc("ListTasks", **LISTED), A2A),
    Sent("a2a send, HTTP+JSON", "/a2a/echo/message:send", SEND_1_0, A2A),
    Sent("a2a send, 0.3", "/a2a", _rpc("message/send", **SEND_0_3)),
    Sent("acl task", "/acl", _acl("TASK_REQUEST", TASK, protocol="request")),
    Sent("acl capabilities", "/acl", _acl("QUERY_CAPABILITIES", CAPABLE)),
    Sent("acl reference", "/acl", _acl("QUERY_REF", {"reference": "agent.languages"})),
)


def places_in(value: object, steps: Steps = ()) -> Iterator[Steps]:
    yield steps
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, item in inside:
        yield from places_in(item, (*steps, step))


def changed(body: dict[str, Any], steps: Steps, value: object) -> object:
    if not steps:
        return value
    made = copy.deepcopy(body)
    target: Any = made
    for step in steps[:-1]:
        target = target[step]
    target[steps[-1]] = value
    return made


def fresh(body: object) -> bytes:
    """The body with an id of its own, so that nothing is taken for a repetition."""
    return re.sub(r'"m"', f'"{uuid4().hex}"', json.dumps(body)).encode()


def _reason(answer: httpx2.Response) -> str:
    """What an error says, in whatever form the protocol has; empty if it is none."""
    if answer.headers.get("content-type", "").startswith("text/event-stream") or not answer.content:
        return ""
    body = answer.json()
    error = body.get("error", body.get("result") if body.get("result", {}).get("isError") else None)
    is_error = answer.status_code >= 400 or error is not None
    return re.sub(r"\\+\"", "'", json.dumps(error or body, ensure_ascii=False)) if is_error else ""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(Gateway(echo, home=tmp_path_factory.mktemp("home"))) as one:
        yield one


@pytest.mark.parametrize("sent", MESSAGES, ids=lambda sent: sent.name)
def test_a_field_of_another_type_is_read_or_refused_with_its_place(
    served: Served, sent: Sent, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    lines: list[str] = []
    tried = 0
    with httpx2.Client(base_url=served.url, trust_env=False) as client:
        for steps in places_in(sent.body):
            for value in WRONG:
                if steps == ("sender",) and isinstance(value, str):
                    continue  # then it is the envelope of the IDE (A-8), which has other fields
                body = fresh(changed(sent.body, steps, value))
                answer = client.post(
                    sent.path, content=body, headers={"content-type": "application/json", **sent.headers}
                )
                tried += 1
                lines += _faults(steps, value, answer)
    assert tried > 13 * 4
    assert not lines, f"{len(lines)} of {tried}:\n" + "\n".join(lines[:40])
    assert not caplog.records, caplog.text[:2000]


def _faults(steps: Steps, value: object, answer: httpx2.Response) -> Iterator[str]:
    reason = _reason(answer)
    where = f"{'.'.join(map(str, steps)) or '$'} = {str(value)[:20]!r}: HTTP {answer.status_code} {reason[:300]}"
    if answer.status_code >= 500:
        yield f"500   {where}"
    elif INSIDE.search(reason):
        yield f"words {where}"
    elif reason and _names_a_place(reason) and not _names(reason, steps):
        yield f"place {where}"
    elif reason and steps and isinstance(value, list) and not _names_a_place(reason):
        yield f"where {where}"


def _names_a_place(reason: str) -> bool:
    return re.search(r"at (\$|byte|character)", reason) is not None


def _names(reason: str, steps: Steps) -> bool:
    """Whether the path in a reason is that of the field, or one around or below it."""
    found = re.search(r"at (\$[^:]*(?:https?:)?[^:]*): ", reason)
    named = re.findall(r"[A-Za-z_-]+|\d+", found[1]) if found else []
    asked = [str(step) for step in steps]
    named = [name for name in named if name != "params"]
    asked = [name for name in asked if name != "params"]
    shorter = min(len(named), len(asked))
    return named[:shorter] == asked[:shorter]
