"""What must not come in: malformed, oversized, foreign, of a wrong version. The protocol's codes, nothing leaked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from conftest import Served, serving
from sabir.agent import agent
from sabir.gateway.gateway import Gateway
from sabir.guard import Authenticator, Rights, Rule
from sabir.guard.identity.callers import Credentials
from sabir.message import Part
from sabir.protocols.mcp.door import streamable_http
from sabir.protocols.mcp.door.door import Mcp
from sabir.turn import Caller, Turn

HEADERS = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
INITIALIZE: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}},
}


@agent(description="Repeats")
async def echo(turn: Turn) -> str:
    return turn.text


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(Gateway(echo, home=tmp_path_factory.mktemp("open"), store="memory:")) as served:
        yield served


def post(served: Served, body: bytes | dict[str, Any], **headers: str) -> httpx2.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    content = {"content": body} if isinstance(body, bytes) else {"json": body}
    return httpx2.post(f"{served.url}/mcp", headers={**HEADERS, **named}, **content)  # type: ignore[arg-type]


def call(method: str, params: dict[str, Any] | None = None, request_id: object = 7) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params or {}}


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"{", 400, -32700),
        (b"\xff\xfe", 400, -32700),
        (b"[" * 100_000, 413, -32600),
        (b"[]", 400, -32600),
        (b'"hello"', 400, -32600),
        (b"{}", 400, -32600),
        (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', 400, -32600),
        (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', 400, -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}', 400, -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"no/such"}', 200, -32601),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"arguments":7}}', 200, -32602),
    ],
)
def test_an_invalid_request_is_answered_in_json_rpc(served: Served, body: bytes, status: int, code: int) -> None:
    response = post(served, body)
    assert (response.status_code, response.json()["error"]["code"]) == (status, code)
    assert "Traceback" not in response.text
    assert "pydantic" not in response.text


def test_too_much_is_413(served: Served) -> None:
    response = post(served, b"x" * (served.gateway.services.limits.body + 1))
    assert response.status_code == 413


def test_compressed_bodies_are_not_unpacked(served: Served) -> None:
    assert post(served, b"\x1f\x8b", content_encoding="gzip").status_code == 415


def test_another_content_type_is_415(served: Served) -> None:
    assert post(served, b"{}", content_type="text/plain").status_code == 415


@pytest.mark.parametrize("method", ["PUT", "PATCH", "OPTIONS"])
def test_another_method_is_405(served: Served, method: str) -> None:
    response = httpx2.request(method, f"{served.url}/mcp", headers=HEADERS)
    assert response.status_code == 405
    assert "POST" in response.headers["allow"]


def test_an_unknown_version_is_named_with_those_we_speak(served: Served) -> None:
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2099-01-01",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    body = call("tools/list", {"_meta": meta})
    response = post(served, body, mcp_protocol_version="2099-01-01", mcp_method="tools/list")
    assert response.status_code == 400
    assert response.json()["error"]["code"] == -32022
    assert response.json()["error"]["data"]["supported"] == ["2026-07-28"]


@pytest.mark.parametrize("invalid", [{"mcp_method": "tools/call"}, {"mcp_protocol_version": "2099-01-01"}])
def test_headers_that_say_something_else_than_the_body_are_refused(served: Served, invalid: dict[str, str]) -> None:
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    headers = {"mcp_protocol_version": "2026-07-28", "mcp_method": "tools/list", **invalid}
    response = post(served, call("tools/list", {"_meta": meta}), **headers)
    assert (response.status_code, response.json()["error"]["code"]) == (400, -32020)


@pytest.mark.parametrize("header", ["host", "origin"])
def test_a_page_from_elsewhere_cannot_call(served: Served, header: str) -> None:
    value = "evil.example.com" if header == "host" else "http://evil.example.com"
    assert post(served, INITIALIZE, **{header: value}).status_code == 403


def test_an_agent_that_is_not_there_is_404(served: Served) -> None:
    response = httpx2.post(f"{served.url}/mcp/nobody", headers=HEADERS, json=INITIALIZE)
    assert response.status_code == 404


@pytest.mark.parametrize("session", ["made-up", "sb1.AAAA"])
def test_a_session_that_was_not_given_is_404(served: Served, session: str) -> None:
    assert post(served, call("tools/list"), mcp_session_id=session).status_code == 404


def test_a_changed_session_is_404(served: Served) -> None:
    session = post(served, INITIALIZE).headers["mcp-session-id"]
    last = "A" if session[-2] != "A" else "B"
    assert post(served, call("tools/list"), mcp_session_id=session).status_code == 200
    assert post(served, call("tools/list"), mcp_session_id=session[:-2] + last + session[-1]).status_code == 404


def test_a_conversation_that_is_not_ours_begins_a_new_one(served: Served) -> None:
    body = call("tools/call", {"name": "echo", "arguments": {"text": "hi", "conversation": "sb1.forged"}})
    result = post(served, body).json()["result"]
    assert result["structuredContent"]["conversation"] != "sb1.forged"


class ByName:
    """Whoever says a name is believed; enough to tell two callers apart."""

    challenge = "Bearer"
    issuer = "https://login.example.com"

    async def verify(self, credentials: Credentials, tokens: tuple[Part, ...]) -> Caller | None:
        if credentials.authorization is None:
            return None
        name = credentials.authorization.removeprefix("Bearer ")
        return Caller(id=name, kind="subject", roles=frozenset({"member"}))


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    rights, identity = Rights((Rule(roles=("member",)),)), Authenticator([ByName()])
    home = tmp_path_factory.mktemp("guarded")
    with serving(Gateway(echo, home=home, store="memory:", identity=identity, rights=rights)) as served:
        yield served


def test_an_unauthenticated_caller_learns_where_to_get_a_token(guarded: Served) -> None:
    response = post(guarded, INITIALIZE)
    assert response.status_code == 401
    place = f"{guarded.url}/.well-known/oauth-protected-resource/mcp"
    assert response.headers["www-authenticate"] == f'Bearer resource_metadata="{place}"'
    about = httpx2.get(place).json()
    assert about["resource"] == f"{guarded.url}/mcp"
    assert about["authorization_servers"] == ["https://login.example.com"]


def test_a_session_of_one_caller_is_not_there_for_another(guarded: Served) -> None:
    session = post(guarded, INITIALIZE, authorization="Bearer ada").headers["mcp-session-id"]
    mine = post(guarded, call("tools/list"), authorization="Bearer ada", mcp_session_id=session)
    theirs = post(guarded, call("tools/list"), authorization="Bearer bob", mcp_session_id=session)
    assert (mine.status_code, theirs.status_code) == (200, 404)


def test_conversations_are_resources_of_their_owner_alone(guarded: Served) -> None:
    say = call("tools/call", {"name": "echo", "arguments": {"text": "a secret"}})
    assert post(guarded, say, authorization="Bearer ada").status_code == 200
    listed = post(guarded, call("resources/list"), authorization="Bearer ada").json()["result"]["resources"]
    uri = next(item["uri"] for item in listed if item["uri"].startswith("sabir://conversations/"))
    read = call("resources/read", {"uri": uri})
    assert "a secret" in post(guarded, read, authorization="Bearer ada").text
    refused = post(guarded, read, authorization="Bearer bob")
    assert refused.json()["error"]["code"] == -32602
    assert "a secret" not in refused.text


def test_a_session_keeps_little_of_what_a_client_says_about_itself(served: Served) -> None:
    large = {"experimental": {"x": {"y": "z" * 100_000}}}
    refused = post(served, {**INITIALIZE, "params": {**INITIALIZE["params"], "capabilities": large}})
    assert refused.status_code == 413
    assert "$.params.capabilities" in refused.json()["error"]["message"]
    info = {"name": "n" * 100_000, "version": "v" * 100_000, "title": "t" * 100_000}
    taken = post(served, {**INITIALIZE, "params": {**INITIALIZE["params"], "clientInfo": info}})
    session = taken.headers["mcp-session-id"]
    assert len(session) < 1000
    long = call("resources/subscribe", {"uri": "x:" + "y" * 100_000})
    answer = post(served, long, mcp_session_id=session)
    assert answer.json()["error"] == {
        "code": -32602,
        "message": "mcp: at $.params.uri: expected at most 4096 characters",
    }


def test_a_caller_who_opens_many_sessions_loses_only_its_own(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streamable_http, "MAX_SESSIONS", 5)

    def opened(address: str) -> str:
        with httpx2.Client(transport=httpx2.HTTPTransport(local_address=address)) as client:
            return str(client.post(f"{served.url}/mcp", json=INITIALIZE, headers=HEADERS).headers["mcp-session-id"])

    mine = [opened("127.0.0.9") for _ in range(2)]
    theirs = [opened("127.0.0.8") for _ in range(20)]
    door = next(door for door in served.gateway.services.doors if isinstance(door, Mcp))
    kept = list(door.app.sessions)
    assert len(kept) <= 5
    assert set(mine) <= set(kept)
    assert theirs[-1] in kept
