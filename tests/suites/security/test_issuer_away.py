"""An unavailable authorization server: callers with its tokens get "retry later" at every door, and do not count as
guessing."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from joserfc import jwk, jwt
from websockets.sync.client import connect

from conftest import Served, serving
from deadline import DEADLINE
from free_ports import free_port
from guard_site import Site
from sabir import Gateway
from sabir.agents.echo import echo
from sabir.guard.build import GuardSettings, IdentitySettings
from sabir.guard.identity.issuer import Issuer

ISSUER = "https://id.example"
RSA = jwk.RSAKey.generate_key(2048, parameters={"kid": "one"})
TOLD = "the keys of the authorization server are unavailable"


def token(**more: Any) -> str:
    now = int(time.time())
    said = {"iss": ISSUER, "aud": "sabir", "sub": "alice", "iat": now, "exp": now + 300} | more
    return jwt.encode({"alg": "RS256", "kid": "one"}, said, RSA)


@pytest.fixture
def issuer_port() -> int:
    return free_port()


@pytest.fixture
def served(tmp_path: Path, issuer_port: int) -> Iterator[Served]:
    issuer = Issuer(ISSUER, ("sabir",), jwks=f"http://127.0.0.1:{issuer_port}/jwks")
    guard = GuardSettings(identity=IdentitySettings(issuers=(issuer,)))
    with serving(Gateway(echo, home=tmp_path / "home", guard=guard)) as made:
        yield made


@pytest.fixture
def client(served: Served) -> Iterator[httpx2.Client]:
    headers = {"authorization": f"Bearer {token()}"}
    with httpx2.Client(base_url=served.url, headers=headers) as made:
        yield made


NLIP = {"format": "text", "subformat": "english", "content": "hi"}
MCP_HEADERS = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
INITIALIZE = {
    "jsonrpc": "2.0", "id": 1, "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}  # fmt: skip
A2A = {"message": {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": "hi"}]}}
DOORS: dict[str, tuple[str, Any, dict[str, str]]] = {
    "nlip": ("/nlip", NLIP, {}),
    "nlip task": ("/nlip", NLIP, {"prefer": "respond-async"}),
    "nlip stream": ("/nlip", NLIP, {"accept": "text/event-stream"}),
    "nlweb": ("/ask", {"query": {"text": "hi"}}, {}),
    "mcp": ("/mcp", INITIALIZE, MCP_HEADERS),
    "a2a": ("/a2a/echo", {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": A2A}, {"a2a-version": "1.0"}),
    "a2a rest": ("/a2a/echo/message:send", A2A, {"a2a-version": "1.0"}),
    "who": ("/who", {"query": {"text": "hi"}}, {}),
}


@pytest.mark.parametrize("door", DOORS)
def test_every_door_says_in_its_own_form_when_to_retry(client: httpx2.Client, door: str) -> None:
    path, body, headers = DOORS[door]
    answer = client.post(path, json=body, headers=headers)
    assert TOLD in answer.text
    assert answer.status_code == 503 and answer.headers["retry-after"] == "4"


@pytest.mark.parametrize("path", ["/.well-known/nlip", "/nlip/tasks/none", "/who?query=hi", "/a2a/echo/tasks/none"])
def test_reading_requests_say_it_too(client: httpx2.Client, path: str) -> None:
    answer = client.get(path, headers={"a2a-version": "1.0"})
    assert (answer.status_code, TOLD in answer.text) == (503, True)


def test_a_websocket_says_it_too(served: Served) -> None:
    with connect(f"{served.ws_url}/nlip/ws/text", additional_headers={"authorization": f"Bearer {token()}"}) as socket:
        socket.send(json.dumps(NLIP))
        said = str(socket.recv(timeout=DEADLINE))
    assert TOLD in said and "503" in said


def test_no_caller_is_locked_out_and_service_resumes_by_itself(
    client: httpx2.Client, issuer_port: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "sabir")
    assert {client.post("/nlip", json=NLIP).status_code for _ in range(40)} == {503}
    site = Site(issuer_port)
    site.says("/jwks", json.dumps({"keys": [RSA.as_dict(private=False)]}).encode())
    try:
        back = time.monotonic()
        while (status := client.post("/nlip", json=NLIP).status_code) == 503:
            assert time.monotonic() - back < DEADLINE
            time.sleep(0.05)
        assert status == 200
    finally:
        site.close()
    logged = [record.getMessage() for record in caplog.records if ISSUER in record.getMessage()]
    assert len(logged) == 2 and "unavailable" in logged[0] and "available again" in logged[1]
    answer = client.post("/nlip", json=NLIP, headers={"authorization": f"Bearer {token(sub='bob')}"})
    assert answer.status_code == 200  # its keys are known, whoever it was that came first
