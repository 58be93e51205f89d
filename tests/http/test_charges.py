"""What is charged to a rate without a turn, and what a strict answer says (issue 11, B 7 and D 16)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from typing import Any

import httpx2
import pytest

from conftest import Served, serving
from sabir import Gateway
from sabir.agents.echo import echo
from sabir.guard import Quotas

ADDRESSES = (f"127.0.4.{number}" for number in count(1))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    gateway = Gateway(echo, home=tmp_path_factory.mktemp("home"), quotas=Quotas(rate_per_address=1.0, burst=5))
    with serving(gateway) as one:
        yield one


@pytest.fixture
def client(served: Served) -> Iterator[httpx2.Client]:
    transport = httpx2.HTTPTransport(local_address=next(ADDRESSES))
    with httpx2.Client(base_url=served.url, transport=transport, trust_env=False) as one:
        yield one


def rpc(method: str, params: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


MESSAGE = {"messageId": "m" * 32, "role": "ROLE_USER", "parts": [{"text": "hello"}]}
CALLS: dict[str, tuple[str, dict[str, Any], dict[str, str]]] = {
    "A2A, an unknown method": ("/a2a", rpc("NoSuchMethod", {}), {"a2a-version": "1.0"}),
    "A2A, no request": ("/a2a", {"hello": "there"}, {"a2a-version": "1.0"}),
    "A2A, the same message again": ("/a2a", rpc("SendMessage", {"message": MESSAGE}), {"a2a-version": "1.0"}),
    "A2A over HTTP+JSON, an unknown path": ("/a2a/echo/message:shout", {}, {"a2a-version": "1.0"}),
    "MCP, an unknown method": ("/mcp", rpc("no/such", {}), {}),
    "MCP, no request": ("/mcp", {"hello": "there"}, {}),
    "MCP, an unknown agent": ("/mcp/nobody", rpc("ping", {}), {}),
    "MCP, an unknown session": ("/mcp", rpc("tools/list", {}), {"mcp-session-id": "none"}),
    "MCP, an unknown version": ("/mcp", rpc("tools/list", {}), {"mcp-protocol-version": "2099-01-01"}),
    "MCP, a ping": ("/mcp", rpc("ping", {}), {}),
    "MCP, a log level": ("/mcp", rpc("logging/setLevel", {"level": "info"}), {}),
    "MCP, an unknown prompt": ("/mcp", rpc("prompts/get", {"name": "none"}), {}),
    "MCP, an unknown resource": ("/mcp", rpc("resources/read", {"uri": "none:"}), {}),
    "NLWeb, no query": ("/ask", {"hello": "there"}, {}),
    "NLIP, no message": ("/nlip", {"hello": "there"}, {}),
}


@pytest.mark.parametrize(("path", "body", "headers"), CALLS.values(), ids=CALLS.keys())
def test_what_no_turn_comes_of_is_charged(
    client: httpx2.Client, path: str, body: dict[str, Any], headers: dict[str, str]
) -> None:
    sent = [client.post(path, json=body, headers={"accept": "application/json", **headers}) for _ in range(15)]
    statuses = [answer.status_code for answer in sent]
    assert 429 not in statuses[:4] and set(statuses[8:]) == {429}, statuses


def test_a_costly_message_is_charged_for_its_values(client: httpx2.Client) -> None:
    body = {"format": "structured", "subformat": "json", "content": [0] * 9_000}
    first = client.post("/nlip", json=body)
    assert first.status_code == 200 and ";r=0;" in first.headers["ratelimit"]
    assert client.post("/nlip", json={"format": "text", "subformat": "english", "content": "hi"}).status_code == 429


def test_a_strict_rejection_says_that_it_was_strict(client: httpx2.Client) -> None:
    body = json.dumps({"format": "text", "subformat": "english", "content": "hi", "submessages": []})
    headers = {"content-type": "application/json", "prefer": "handling=strict, wait=1"}
    answer = client.post("/nlip", content=body, headers=headers)
    assert answer.status_code == 422
    assert answer.headers["preference-applied"] == "handling=strict"


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("text/event-stream", "text/event-stream"),
        ("application/json, text/event-stream", "text/event-stream"),
        ("application/json, text/event-stream;q=0", "application/json"),
        ("application/json, text/event-stream;q=0.5", "application/json"),
        ("application/json;q=0.5, TEXT/EVENT-STREAM", "text/event-stream"),
        ("*/*", "application/json"),
        ("text/event-stream;q=nonsense", "text/event-stream"),
    ],
)
def test_the_weights_of_accept_count(client: httpx2.Client, accept: str, kind: str) -> None:
    body = {"format": "text", "subformat": "english", "content": "hi"}
    answer = client.post("/nlip", json=body, headers={"accept": accept})
    assert answer.headers["content-type"].partition(";")[0] == kind
