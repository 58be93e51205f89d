"""The same questions by every door: authentication, visibility, ownership. A bridge must not be a way around."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import httpx2
import pytest

from conftest import Served
from suites.security.attackers import Caller, say

VERSION = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": VERSION,
    "io.modelcontextprotocol/clientInfo": {"name": "tester", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


def mcp(caller: Caller, method: str, params: dict[str, Any] | None = None, **headers: str) -> httpx2.Response:
    named = {
        "accept": "application/json, text/event-stream", "mcp-protocol-version": VERSION, "mcp-method": method,
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }  # fmt: skip
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**(params or {}), "_meta": META}}
    return caller.http.post("/mcp", json=body, headers=named)


def tool(caller: Caller, name: str, text: str, **arguments: str) -> httpx2.Response:
    return mcp(caller, "tools/call", {"name": name, "arguments": {"text": text, **arguments}}, mcp_name=name)


def a2a(caller: Caller, method: str, params: dict[str, Any], path: str = "/a2a") -> httpx2.Response:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return caller.http.post(path, json=body, headers={"a2a-version": "1.0"})


def message(text: str, context: str | None = None) -> dict[str, Any]:
    said = {"messageId": "1", "role": "ROLE_USER", "parts": [{"text": text}]}
    return {"message": said if context is None else {**said, "contextId": context}}


def nlweb(caller: Caller, text: str, conversation: str | None = None, **query: Any) -> httpx2.Response:
    context = {"session_context": {"conversation_id": conversation}} if conversation else {}
    return caller.http.post(
        "/ask", json={"query": {"text": text, **query}, "meta": context, "prefer": {"streaming": False}}
    )


def acl(caller: Caller, text: str) -> httpx2.Response:
    sent = {
        "message_id": uuid4().hex,
        "performative": "TASK_REQUEST",
        "sender": {"agent_id": f"me-{uuid4().hex[:12]}"},
        "receiver": {"agent_id": "memory"},
        "payload": {"task_type": "ask", "task_description": text},
    }
    return caller.http.post("/mcp-request", json=sent)


ASKS = {
    "nlip": lambda caller, text: caller.ask(say(text)),
    "mcp": lambda caller, text: tool(caller, "memory", text),
    "a2a": lambda caller, text: a2a(caller, "SendMessage", message(text)),
    "nlweb": nlweb,
    "acl": acl,
}


@pytest.fixture(params=list(ASKS))
def door(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_wrong_credentials_are_refused_by_every_door(services: Served, door: str) -> None:  # ACL-39
    address = f"127.0.4.{list(ASKS).index(door) + 1}"
    with Caller(services.url, "sbk_000000000000_wrong", address=address) as forger:
        reply = ASKS[door](forger, "hello")
    assert reply.status_code == 401
    assert reply.headers["www-authenticate"].startswith("Bearer")
    assert "Traceback" not in reply.text


def test_right_credentials_are_known_by_every_door(alice: Caller, door: str) -> None:
    reply = ASKS[door](alice, "hello")
    assert reply.status_code == 200 and "alice" in reply.text


def test_an_agent_that_is_not_for_a_caller_is_not_seen_nor_called_by_any_door(
    alice: Caller, mallory: Caller, stranger: Caller
) -> None:
    for caller, sees in ((alice, True), (mallory, False), (stranger, False)):
        listed = mcp(caller, "tools/list").json()["result"]["tools"]
        assert ("vault" in [item["name"] for item in listed]) is sees
        called = [
            tool(caller, "vault", "open"),
            a2a(caller, "SendMessage", message("open"), "/a2a/vault"),
            caller.ask(say("open"), "vault"),
            nlweb(caller, "open", site="vault"),
        ]
        assert any("the vault is open" in reply.text for reply in called) is sees
        assert all("the vault is open" not in reply.text for reply in called) is not sees
        assert "Only for staff" not in caller.http.get("/who", params={"query": "staff"}).text or sees


def test_a_conversation_of_one_caller_is_not_gone_on_with_by_another_through_any_door(
    alice: Caller, mallory: Caller, stranger: Caller
) -> None:
    """The token of a conversation is the same thing by every door, and bound to its caller by every door."""
    begun = alice.ask(say("my diagnosis is gout")).json()
    mine = next(part["content"] for part in begun["submessages"] if part["format"] == "token")
    for caller, sees in ((alice, True), (mallory, False), (stranger, False)):
        replies = [
            tool(caller, "memory", "and?", conversation=mine),
            a2a(caller, "SendMessage", message("and?", mine)),
            nlweb(caller, "and?", mine),
        ]
        assert ["gout" in reply.text for reply in replies] == [sees] * 3


def test_an_a2a_task_of_one_caller_is_not_there_for_another(alice: Caller, mallory: Caller, stranger: Caller) -> None:
    """A2A 13.1: access is checked before anything is looked up."""
    mine = a2a(alice, "SendMessage", message("private")).json()["result"]["task"]["id"]
    assert a2a(alice, "GetTask", {"id": mine}).json()["result"]["id"] == mine
    missing = {"id": mine[:-4] + "0000"}
    for thief in (mallory, stranger):
        for method in ("GetTask", "CancelTask", "SubscribeToTask"):
            theirs, none = a2a(thief, method, {"id": mine}), a2a(thief, method, missing)
            assert "error" in theirs.text and "private" not in theirs.text
            assert theirs.text.replace(mine, "") == none.text.replace(missing["id"], "")
        listed = a2a(thief, "ListTasks", {})
        assert mine not in listed.text
    # The same task by another door's path is nobody else's either.
    for thief in (mallory, stranger):
        assert thief.http.get(f"/nlip/tasks/{mine}").status_code == 404


@pytest.mark.parametrize(("header", "value"), [("mcp-method", "tools/list"), ("mcp-name", "vault")])
def test_headers_that_say_other_than_the_body_are_refused(stranger: Caller, header: str, value: str) -> None:
    """Header and body mismatch at gateways: -32020 (MCP-T, conformance http-header-validation)."""
    headers = {"mcp_name": "memory", header.replace("-", "_"): value}
    body = {"name": "memory", "arguments": {"text": "x"}}
    reply = mcp(stranger, "tools/call", body, **headers)
    assert reply.status_code == 400
    assert reply.json()["error"]["code"] == -32020


def test_a_schema_reference_is_not_followed(stranger: Caller) -> None:
    """json-schema-ref-no-deref: what is in an argument is data."""
    reply = tool(stranger, "memory", "x", data='{"$ref": "http://127.0.0.1:1/schema"}')
    assert reply.status_code == 200
