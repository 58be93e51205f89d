"""An agent that a caller may not use, and one that is not there, are answered alike by every door."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from websockets.sync.client import connect

from conftest import Served, serving
from sabir import agent
from sabir.gateway.gateway import Gateway
from sabir.guard.build import GuardSettings, IdentitySettings
from sabir.guard.rights import Rule
from sabir.protocols.a2a.door.routes import A2aDoor
from sabir.turn import Caller as Known
from sabir.turn import Turn
from suites.security.attackers import Caller, add_key, say

grpc = pytest.importorskip("grpc")
pb = pytest.importorskip("a2a.types.a2a_pb2")
pb_grpc = pytest.importorskip("a2a.types.a2a_pb2_grpc")

HIDDEN, ABSENT = "vault", "ghost"
SITE = "vault.example"
VERSION = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": VERSION,
    "io.modelcontextprotocol/clientInfo": {"name": "tester", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
INITIALIZE = {
    "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "tester", "version": "1"},
}  # fmt: skip


@agent(name="open")
async def open_to_all(turn: Turn) -> str:
    return "welcome"


@agent(name=HIDDEN, description="PLANTED description")
async def vault(turn: Turn) -> str:
    return "the vault is open"


class VaultSite:
    """The same, as a site."""

    def __init__(self) -> None:
        self.card = vault.card.__class__(HIDDEN, "PLANTED description", site=SITE)

    def __call__(self, turn: Turn, /) -> Any:
        return vault(turn)


Asked = Callable[[Caller, str, Served], Any]


def post(path: str, body: Any, **headers: str) -> Asked:
    named = {name.replace("_", "-"): value for name, value in headers.items()}

    def ask(caller: Caller, name: str, served: Served) -> Any:
        reply = json.loads(json.dumps(body).replace("NAME", name))
        given = {key: value.replace("NAME", name) for key, value in named.items()}
        return answer(caller.http.post(path.replace("NAME", name), json=reply, headers=given))

    return ask


def get(path: str) -> Asked:
    return lambda caller, name, served: answer(caller.http.get(path.replace("NAME", name)))


def answer(response: httpx2.Response) -> Any:
    left_out = ("content-length", "date", "connection")  # it is closed where the body had not come yet
    headers = {name: value for name, value in response.headers.items() if name not in left_out}
    return response.status_code, headers, response.text


def rpc(method: str, params: Any) -> Any:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def mcp(method: str, params: Any) -> Asked:
    accept = "application/json, text/event-stream"
    body = rpc(method, {**params, "_meta": META})
    return post("/mcp/NAME", body, accept=accept, mcp_protocol_version=VERSION, mcp_method=method, mcp_name="NAME")


def by_websocket(caller: Caller, name: str, served: Served) -> Any:
    headers = {"authorization": f"Bearer {caller.key}"} if caller.key else {}
    url = f"{served.url.replace('http', 'ws', 1)}/nlip/{name}/ws/text"
    with connect(url, additional_headers=headers, proxy=None) as socket:
        socket.send(json.dumps(say("hello")))
        return socket.recv()


def by_grpc(call: str, request: Callable[[str], Any]) -> Asked:
    def ask(caller: Caller, name: str, served: Served) -> Any:
        door = next(door for door in served.gateway.doors if isinstance(door, A2aDoor))
        with grpc.insecure_channel(door.cards.grpc) as channel:
            known = (("authorization", f"Bearer {caller.key}"),) if caller.key else ()
            try:
                return str(getattr(pb_grpc.A2AServiceStub(channel), call)(request(name), metadata=known))
            except grpc.RpcError as refused:
                return refused.code().name, refused.details()

    return ask


SENT = {"message": {"messageId": "1", "role": "ROLE_USER", "parts": [{"text": "hello"}]}}
OLD = {"message": {"messageId": "1", "role": "user", "parts": [{"kind": "text", "text": "hello"}]}}
LATER = {**SENT, "configuration": {"returnImmediately": True}}

DOORS: dict[str, Asked] = {
    "nlip": post("/nlip/NAME", say("hello")),
    "nlip later": post("/nlip/NAME", say("hello"), prefer="respond-async"),
    "nlip stream": post("/nlip/NAME", say("hello"), accept="text/event-stream"),
    "nlip control": post("/nlip/NAME", say("policies", control=True)),
    "nlip websocket": by_websocket,
    "nlweb": post("/ask/NAME", {"query": {"text": "hello"}, "prefer": {"streaming": False}}),
    "nlweb stream": post("/ask/NAME", {"query": {"text": "hello"}, "prefer": {"streaming": True}}),
    "nlweb later": post("/ask/NAME", {"query": {"text": "hello"}, "prefer": {"streaming": False, "wait": 0}}),
    "nlweb get": get("/ask/NAME?query=hello&streaming=false"),
    "nlweb site": post("/ask", {"query": {"text": "hello", "site": "NAME.example"}, "prefer": {"streaming": False}}),
    "mcp initialize": post("/mcp/NAME", rpc("initialize", INITIALIZE), accept="application/json, text/event-stream"),
    "mcp tools": mcp("tools/list", {}),
    "mcp call": mcp("tools/call", {"name": "NAME", "arguments": {"text": "hello"}}),
    "mcp get": get("/mcp/NAME"),
    "mcp metadata": get("/.well-known/oauth-protected-resource/mcp/NAME"),
    "a2a": post("/a2a/NAME", rpc("SendMessage", SENT), a2a_version="1.0"),
    "a2a later": post("/a2a/NAME", rpc("SendMessage", LATER), a2a_version="1.0"),
    "a2a stream": post("/a2a/NAME", rpc("SendStreamingMessage", SENT), a2a_version="1.0"),
    "a2a tasks": post("/a2a/NAME", rpc("ListTasks", {}), a2a_version="1.0"),
    "a2a task": post("/a2a/NAME", rpc("GetTask", {"id": "x"}), a2a_version="1.0"),
    "a2a whole card": post("/a2a/NAME", rpc("GetExtendedAgentCard", {}), a2a_version="1.0"),
    "a2a 0.3": post("/a2a/NAME", rpc("message/send", OLD)),
    "a2a rest": post("/a2a/NAME/message:send", SENT, a2a_version="1.0"),
    "a2a rest 0.3": post("/a2a/NAME/v1/message:send", {"message": {"messageId": "1", "role": "ROLE_USER"}}),
    "a2a rest task": get("/a2a/NAME/tasks/x"),
    "a2a get": get("/a2a/NAME"),
    "a2a card": get("/a2a/NAME/.well-known/agent-card.json"),
    "a2a old card": get("/a2a/NAME/.well-known/agent.json"),
    "a2a grpc": by_grpc(
        "SendMessage",
        lambda name: pb.SendMessageRequest(
            tenant=name, message=pb.Message(message_id="1", role=pb.ROLE_USER, parts=[pb.Part(text="hello")])
        ),
    ),
    "a2a grpc card": by_grpc("GetExtendedAgentCard", lambda name: pb.GetExtendedAgentCardRequest(tenant=name)),
}
BOSS = Known("key:boss", "key", roles=frozenset({"staff"}))
HOUSES = {
    "rights": GuardSettings(rights=(Rule(("anonymous",), agents=("open",)), Rule(("staff",)))),
    "nobody anonymous": GuardSettings(IdentitySettings(anonymous=False), rights=(Rule(("known",), agents=("open",)),)),
    "only anonymous off": GuardSettings(IdentitySettings(anonymous=False)),
}


# In the last one nothing is hidden from who is known.
VISITS = [(services, who) for services in HOUSES for who in ("stranger", "known")][:-1]


@pytest.fixture(scope="module", params=VISITS, ids=" ".join)
def visit(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, Caller]]:
    """A house, and somebody who may use less than all of it."""
    settings, who = HOUSES[request.param[0]], request.param[1]
    home: Path = tmp_path_factory.mktemp("home")
    doors = {"a2a": {"grpc": {"port": 0}}, "mcp": {"authorization_servers": ["https://issuer.example"]}}
    gateway = Gateway(open_to_all, VaultSite(), home=home, guard=settings, doors=doors)  # type: ignore[arg-type]
    with serving(gateway) as services:
        with Caller(services.url, add_key(home, "mallory") if who == "known" else None) as caller:
            yield services, caller


@pytest.mark.parametrize("door", list(DOORS))
def test_what_is_hidden_and_what_is_absent_are_answered_alike(visit: tuple[Served, Caller], door: str) -> None:
    services, caller = visit
    hidden, absent = (alike(DOORS[door](caller, name, services), name) for name in (HIDDEN, ABSENT))
    assert hidden == absent
    assert "PLANTED" not in hidden


def alike(answered: Any, name: str) -> str:
    """What differs from one answer to the next, whatever was asked, is left out."""
    text = json.dumps(answered).replace(name, "NAME")
    return re.sub(
        r"sb1\.[\w-]+|[0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{24,}|\d{4}-\d\d-\d\dT[\d:.]+Z?|r=\d+;t=\d+", "…", text
    )


def test_a_card_is_read_by_those_who_may_use_its_agent(visit: tuple[Served, Caller]) -> None:
    services, caller = visit
    place = f"/a2a/{HIDDEN}/.well-known/agent-card.json"
    with Caller(services.url, add_key(services.gateway.home, "boss", "staff")) as boss:
        refused, read = caller.http.get(place), boss.http.get(place)
    assert refused.status_code == (403 if caller.key else 401)
    if services.gateway.guard.rights.allows(BOSS, agent=HIDDEN):
        assert read.json()["name"] == HIDDEN
        assert read.headers["cache-control"] == "private, max-age=60"
        assert read.json()["securityRequirements"]
    else:
        assert read.status_code == 403


def test_the_default_agent_is_not_named_to_callers_without_access(tmp_path: Path) -> None:
    gateway = Gateway(vault, open_to_all, home=tmp_path, guard=HOUSES["rights"])
    with serving(gateway) as served, Caller(served.url) as stranger:
        reply = [stranger.ask(say("hello")), stranger.http.get("/.well-known/agent-card.json")]
        reply.append(stranger.http.post("/ask", json={"query": {"text": "x"}, "prefer": {"streaming": False}}))
        assert [item.status_code for item in reply] == [401, 401, 401]
        assert not [item.text for item in reply if HIDDEN in item.text]
