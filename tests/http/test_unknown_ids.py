"""Ids that nothing can have, at every door that looks something up: the answer is that it was not found.

PostgreSQL cannot store a NUL, and no database a number beyond 64 bits. What is asked for is not stored, so it is no
failure of the store.
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from conftest import Served, serving
from deadline import DEADLINE
from sabir import Gateway
from sabir.agents.echo import echo
from stores.places import kept

from .test_wrong_types import MESSAGES, Sent, changed, fresh, places_in

NUL = "a\0b"
A2A = {"a2a-version": "1.0"}
EVENTS = {"accept": "text/event-stream"}


@pytest.fixture(params=["sqlite", "postgresql"])
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    async with kept(request.param, tmp_path) as address:
        yield address


@pytest.fixture
def served(place: str, home: Path) -> Iterator[Served]:
    with serving(Gateway(echo, home=home, store=place)) as one:
        yield one


def _rpc(method: str, **params: object) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def _subscribe(topic: str) -> dict[str, Any]:
    part = {"format": "structured", "subformat": "json", "label": "subscribe", "content": {"topic": topic}}
    return {"format": "text", "subformat": "english", "content": "x", "messagetype": "control", "submessages": [part]}


def _config(**fields: object) -> dict[str, Any]:
    return {"taskId": NUL, **fields}


LOOKUPS: tuple[tuple[str, str, dict[str, Any] | None, dict[str, str]], ...] = (
    ("GET", "/await/a%00b", None, {}),
    ("DELETE", "/await/a%00b", None, {}),
    ("POST", "/await", {"promise_token": NUL, "action": "checkin"}, {}),
    ("POST", "/await", {"promise_token": NUL, "action": "cancel"}, {}),
    ("GET", "/nlip/tasks/a%00b", None, {}),
    ("DELETE", "/nlip/tasks/a%00b", None, {}),
    ("POST", "/nlip", _subscribe(f"task:{NUL}"), EVENTS),
    ("GET", "/a2a/echo/tasks/a%00b", None, A2A),
    ("POST", "/a2a/echo/tasks/a%00b:cancel", {}, A2A),
    ("GET", "/a2a/echo/tasks/a%00b:subscribe", None, A2A),
    ("GET", "/a2a/echo/tasks/a%00b/pushNotificationConfigs", None, A2A),
    ("GET", "/a2a/echo/tasks/a%00b/pushNotificationConfigs/a%00b", None, A2A),
    ("DELETE", "/a2a/echo/tasks/a%00b/pushNotificationConfigs/a%00b", None, A2A),
    ("GET", "/a2a/echo/v1/tasks/a%00b", None, {}),
    ("POST", "/a2a", _rpc("GetTask", id=NUL), A2A),
    ("POST", "/a2a", _rpc("CancelTask", id=NUL), A2A),
    ("POST", "/a2a", _rpc("SubscribeToTask", id=NUL), A2A),
    ("POST", "/a2a", _rpc("ListTasks", contextId=NUL), A2A),
    ("POST", "/a2a", _rpc("ListTaskPushNotificationConfigs", **_config()), A2A),
    ("POST", "/a2a", _rpc("GetTaskPushNotificationConfig", **_config(id=NUL)), A2A),
    ("POST", "/a2a", _rpc("DeleteTaskPushNotificationConfig", **_config(id=NUL)), A2A),
    ("POST", "/a2a", _rpc("tasks/get", id=NUL), {}),
    ("POST", "/mcp", _rpc("tasks/get", taskId=NUL), {"mcp-protocol-version": "2025-11-25"}),
    ("GET", "/acl/conversations/a%00b", None, {}),
    ("DELETE", "/acl/conversations/a%00b", None, {}),
    ("GET", "/acl/inbox/a%00b", None, {}),
    ("PUT", "/nlip/upload/a%00b", {}, {}),
)  # fmt: skip


def test_what_no_row_can_have_is_not_found(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    failures = []
    with httpx2.Client(base_url=served.url, trust_env=False) as client:
        for method, path, body, headers in LOOKUPS:
            content = None if body is None else json.dumps(body)
            kind = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
            answer = client.request(method, path, content=content, headers={**kind, **headers})
            if answer.status_code >= 500 or "-32603" in answer.text:
                failures.append(f"{method} {path} {body}: {answer.status_code} {answer.text[:200]}")
    assert not failures, "\n".join(failures)
    assert not caplog.records, caplog.text[:2000]


@pytest.mark.parametrize("sent", MESSAGES, ids=lambda sent: sent.name)
def test_a_nul_in_any_field_is_not_an_internal_error(
    served: Served, sent: Sent, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    failures = []
    with httpx2.Client(base_url=served.url, trust_env=False, timeout=DEADLINE) as client:
        for steps in places_in(sent.body):
            content = fresh(changed(sent.body, steps, NUL))
            headers = {"content-type": "application/json", **sent.headers}
            answer = client.post(sent.path, content=content, headers=headers)
            if answer.status_code >= 500 or "-32603" in answer.text:
                failures.append(f"{steps}: {answer.status_code} {answer.text[:200]}")
    assert not failures, "\n".join(failures)
    assert not caplog.records, caplog.text[:2000]
