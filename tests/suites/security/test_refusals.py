"""A refusal is one audit entry at every door, and names the caller if it is known.

And every HTTP answer, refusals too, tells what is left.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2
import pytest
from websockets.sync.client import connect

from conftest import Serve, Served, serving
from deadline import DEADLINE
from protocols.nlip.amqp.conftest import door_of
from sabir import Turn, agent
from sabir.card import Skill
from sabir.gateway.gateway import Gateway
from sabir.guard.build import GuardSettings
from sabir.guard.quotas.rates import Quotas
from sabir.protocols.a2a.door.routes import A2aDoor
from sabir.stores.base import AuditLine
from sabir.stores.sqlite.store import SQLiteStore
from suites.security.attackers import add_key, say, token
from suites.security.letter_writer import Client

from .conftest import RULES, memory, vault

grpc = pytest.importorskip("grpc")
pb = pytest.importorskip("a2a.types.a2a_pb2")
pb_grpc = pytest.importorskip("a2a.types.a2a_pb2_grpc")

WRONG = "sbk_000000000000_wrong"
TASK = "0" * 64
HTTP = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
Headers = dict[str, str]


def send_as(served: Served, method: str, path: str, key: str, body: Any = None, **headers: str) -> Headers | None:
    """Ask over HTTP; the headers of the answer."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    all_of_them = {**HTTP, "authorization": f"Bearer {key}", **named}
    content = None if body is None else json.dumps(body)
    with httpx2.Client(base_url=served.url, trust_env=False) as http:
        return dict(http.request(method, path, content=content, headers=all_of_them).headers)


def over_websocket(served: Served, key: str, agent: str) -> None:
    with connect(
        f"{served.ws_url}/nlip/{agent}/ws/text", additional_headers={"authorization": f"Bearer {key}"}
    ) as socket:
        socket.send(json.dumps(say("hi")))
        socket.recv(timeout=DEADLINE)


def in_the_message(served: Served, key: str, agent: str) -> None:
    with connect(f"{served.ws_url}/nlip/{agent}/ws/text") as socket:
        socket.send(json.dumps(say("hi", token(key, "authentication"))))
        socket.recv(timeout=DEADLINE)


def over_amqp(served: Served, key: str, agent: str) -> None:
    settings = door_of(served.gateway).settings

    async def ask() -> None:
        async with Client(settings.url, settings.address) as client:
            await client.ask(say("hi", token(key, "authentication")), agent)

    asyncio.run(ask())


def over_grpc(served: Served, key: str, agent: str) -> None:
    door = next(door for door in served.gateway.doors if isinstance(door, A2aDoor))
    message = pb.Message(message_id="1", role=pb.ROLE_USER, parts=[pb.Part(text="hi")])
    request = pb.SendMessageRequest(tenant=agent, message=message)
    with grpc.insecure_channel(door.cards.grpc) as channel:
        try:
            pb_grpc.A2AServiceStub(channel).SendMessage(
                request, metadata=(("authorization", f"Bearer {key}"),), timeout=DEADLINE
            )
        except grpc.RpcError:
            pass


def rpc(method: str, params: Any) -> Any:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


MESSAGE = {"message": {"role": "ROLE_USER", "messageId": "1", "parts": [{"text": "hi"}]}}
OLD = {"message": {"role": "user", "messageId": "1", "kind": "message", "parts": [{"kind": "text", "text": "hi"}]}}
MODERN = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "x", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


@dataclass(frozen=True)
class Way:
    """One way to ask: by which door, and whether an agent is asked or something that is nobody's."""

    name: str
    door: str
    ask: Callable[[Served, str, str], Headers | None]
    names_agent: bool = True


def http(name: str, door: str, method: str, path: str, body: Any = None, *, agent: bool = True, **headers: str) -> Way:
    def ask(served: Served, key: str, named: str) -> Headers | None:
        filled = json.loads(json.dumps(body).replace("AGENT", named)) if body is not None else None
        there = {header: value.replace("AGENT", named) for header, value in headers.items()}
        return send_as(served, method, path.replace("AGENT", named), key, filled, **there)

    return Way(name, door, ask, agent)


CALL = rpc("tools/call", {"name": "AGENT", "arguments": {"text": "hi"}})
NEW_CALL = rpc("tools/call", {"name": "AGENT", "arguments": {"text": "hi"}, "_meta": MODERN})
ASKED = {"query": {"text": "hi"}, "prefer": {"streaming": False}}
V1 = {"a2a_version": "1.0"}

ACL = {
    "message_id": "m-1",
    "performative": "TASK_REQUEST",
    "sender": {"agent_id": "mallory"},
    "receiver": {"agent_id": "AGENT"},
    "payload": {"task_type": "ask", "task_description": "hi"},
}

WAYS = [
    http("NLIP", "nlip-http", "POST", "/nlip/AGENT", say("hi"), accept="application/json"),
    http("NLIP, streamed", "nlip-http", "POST", "/nlip/AGENT", say("hi"), accept="text/event-stream"),
    http("NLIP, later", "nlip-http", "POST", "/nlip/AGENT", say("hi"), prefer="respond-async"),
    http("NLIP, a task", "nlip-http", "GET", f"/nlip/tasks/{TASK}", agent=False),
    http("NLIP, taking a task back", "nlip-http", "DELETE", f"/nlip/tasks/{TASK}", agent=False),
    http("NLIP, answering a task", "nlip-http", "POST", f"/nlip/tasks/{TASK}", say("hi"), agent=False),
    http("upload", "upload", "PUT", "/nlip/upload/abc", {}, agent=False),
    Way("NLIP over WebSocket", "nlip-ws", over_websocket),
    Way("NLIP over WebSocket, the key in the message", "nlip-ws", in_the_message),
    Way("NLIP over AMQP", "nlip-amqp", over_amqp),
    http("NLWeb", "nlweb", "POST", "/ask/AGENT", ASKED),
    http("NLWeb, streamed", "nlweb", "POST", "/ask/AGENT", {"query": {"text": "hi"}}),
    http("NLWeb, a promise", "nlweb", "POST", "/ask/AGENT", {**ASKED, "prefer": {"wait": 0}}),
    http("NLWeb, who", "nlweb", "GET", "/who?query=x", agent=False),
    http("NLWeb, sites", "nlweb", "GET", "/sites", agent=False),
    http("NLWeb, await", "nlweb", "GET", f"/await/{TASK}", agent=False),
    http("MCP", "mcp", "POST", "/mcp", CALL, mcp_protocol_version="2025-06-18"),
    http(
        "MCP of 2026", "mcp", "POST", "/mcp", NEW_CALL,
        mcp_protocol_version="2026-07-28", mcp_method="tools/call", mcp_name="AGENT",
    ),
    http("MCP, one agent", "mcp", "POST", "/mcp/AGENT", CALL, mcp_protocol_version="2025-06-18"),
    http("MCP, a list", "mcp", "POST", "/mcp", rpc("tools/list", {}), agent=False, mcp_protocol_version="2025-06-18"),
    http("A2A", "a2a", "POST", "/a2a/AGENT", rpc("SendMessage", MESSAGE), **V1),
    http("A2A, streamed", "a2a", "POST", "/a2a/AGENT", rpc("SendStreamingMessage", MESSAGE), **V1),
    http("A2A, its card", "a2a", "POST", "/a2a/AGENT", rpc("GetExtendedAgentCard", {}), **V1),
    http("A2A, a task", "a2a", "POST", "/a2a/memory", rpc("GetTask", {"id": TASK}), agent=False, **V1),
    http("A2A over REST", "a2a", "POST", "/a2a/AGENT/message:send", MESSAGE, **V1),
    http("A2A over REST, tasks", "a2a", "GET", "/a2a/memory/tasks", agent=False, **V1),
    http("A2A 0.3", "a2a", "POST", "/a2a/AGENT", rpc("message/send", OLD)),
    Way("A2A over gRPC", "a2a", over_grpc),
    http("ACL", "acl", "POST", "/acl", ACL),
    http("ACL, the result", "acl", "POST", "/mcp-request", ACL),
    http("ACL, an inbox", "acl", "GET", "/acl/inbox/mallory", agent=False, accept="application/json"),
    http("ACL, a conversation", "acl", "GET", "/acl/conversations/x", agent=False),
    http("ACL, the directory", "acl", "GET", "/acl/directory", agent=False),
    http("ACL, who is there", "acl", "GET", "/.well-known/acl", agent=False),
]  # fmt: skip
BY_HTTP = [way for way in WAYS if way.ask.__qualname__.startswith("http.")]


@pytest.fixture
def services(request: pytest.FixtureRequest, home: Path, prefix: str, broker: str) -> Iterator[Served]:
    doors = {
        "a2a": {"grpc": {"port": 0}},
        "nlip-amqp": {"url": broker, "address": f"{prefix}-{uuid4().hex[:8]}"},
    }
    settings = GuardSettings(rights=RULES, quotas=getattr(request, "param", Quotas()))
    gateway = Gateway(memory, vault, home=home, guard=settings, doors=doors)
    with serving(gateway) as served:
        door = door_of(gateway)
        asyncio.run(_ready(door))
        yield served


async def _ready(door: Any) -> None:
    async with asyncio.timeout(DEADLINE):
        while not door.ready.is_set():  # set on another thread's loop
            await asyncio.sleep(0.01)


def lines(served: Served) -> list[AuditLine]:
    async def read() -> list[AuditLine]:
        store = SQLiteStore(served.gateway.home / "sabir.db")
        await store.open()
        try:
            return [at.line for at in await store.audit_lines(0, 1000)]
        finally:
            await store.close()

    return [line for line in asyncio.run(read()) if line.kind in ("refused", "failed")]


def shown(served: Served) -> list[tuple[str, str, str, str, str]]:
    return [(line.kind, line.outcome, line.door, line.caller, line.agent) for line in lines(served)]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_a_wrong_key_is_one_line(services: Served, way: Way) -> None:
    way.ask(services, WRONG, "memory")
    assert [line[:4] for line in shown(services)] == [("refused", "Unauthenticated", way.door, "unknown")]


@pytest.mark.parametrize("way", [way for way in WAYS if way.names_agent], ids=lambda way: way.name)
def test_an_agent_that_is_not_for_the_caller_is_one_line(services: Served, way: Way) -> None:
    key = add_key(services.gateway.home, "mallory")
    way.ask(services, key, "vault")
    assert shown(services) == [("refused", "Forbidden", way.door, f"key:{key.split('_')[1]}", "vault")]


SECRET_SKILLS = (
    Skill("minutes", "Minutes", tags=("prompt",)),
    Skill("file://minutes", "Minutes", tags=("resource",)),
    Skill("shred", "Shred", input_schema={"type": "object"}),
)


@agent(description="For staff, as is what it can do", skills=SECRET_SKILLS)
async def archive(turn: Turn) -> str:
    return "kept"


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/call", {"name": "archive-shred", "arguments": {}}),
        ("tools/call", {"name": "archive-shred", "arguments": {}, "task": {}}),
        ("prompts/get", {"name": "minutes"}),
        ("resources/read", {"uri": "file://minutes"}),
    ],
)
def test_what_an_mcp_client_may_not_know_of_is_one_line(serve: Serve, home: Path, method: str, params: Any) -> None:
    served = serve(Gateway(memory, archive, home=home, guard=GuardSettings(rights=RULES)))
    key = add_key(home, "mallory")
    send_as(served, "POST", "/mcp", key, rpc(method, params), mcp_protocol_version="2025-11-25")
    send_as(served, "POST", "/mcp", key, rpc(method, {"name": "nothing", "uri": "file://nothing"}))  # nor is there any
    assert shown(served) == [("refused", "Forbidden", "mcp", f"key:{key.split('_')[1]}", "archive")]


@pytest.mark.parametrize("header", [{"host": "evil.example"}, {"origin": "https://evil.example"}], ids=str)
def test_another_host_or_origin_is_one_line(services: Served, header: Headers) -> None:
    send_as(services, "POST", "/nlip", WRONG, say("hi"), **header)
    assert shown(services) == [("refused", "Forbidden", "front", "unknown", "")]


SLOWLY = Quotas(rate_per_caller=0.001, rate_per_address=10_000.0, burst=1.0)


@pytest.mark.parametrize("services", [SLOWLY], indirect=True, ids=["slowly"])
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_a_caller_over_its_rate_is_one_line(services: Served, way: Way) -> None:
    key = add_key(services.gateway.home, "mallory")
    send_as(services, "GET", "/who?query=x", key)
    headers = way.ask(services, key, "memory")
    assert [line[:4] for line in shown(services)] == [("refused", "RateLimited", way.door, f"key:{key.split('_')[1]}")]
    if headers is not None:
        assert headers["ratelimit"].startswith('"requests";r=0;t=') and int(headers["retry-after"]) > 0


DAILY = Quotas(rate_per_caller=100.0, burst=50.0, daily_turns=20, daily_bytes=10_000, daily_cost=0.5)


@pytest.mark.parametrize("services", [DAILY], indirect=True, ids=["daily"])
@pytest.mark.parametrize("way", BY_HTTP, ids=lambda way: way.name)
def test_every_http_response_says_what_is_left(services: Served, way: Way) -> None:
    headers = way.ask(services, add_key(services.gateway.home, "alice"), "memory")
    assert headers is not None and not lines(services)
    policies = '"requests";q=50, "daily-turns";q=20;w=86400, "daily-bytes";q=10000;qu="content-bytes";w=86400, '
    assert headers["ratelimit-policy"] == f'{policies}"daily-cost";q=500000;qu="cost-millionths";w=86400'
    left = {
        name.strip('"'): rest for name, _, rest in (item.partition(";") for item in headers["ratelimit"].split(", "))
    }
    assert list(left) == ["requests", "daily-turns", "daily-bytes", "daily-cost"]
    assert left["daily-turns"].startswith(("r=19;t=", "r=20;t=")) and left["daily-cost"].startswith("r=500000;t=")


# Somebody else's task (the first caller submits it to the agent ``memory``): its id stands for TASK in each request.
TASKS = {**MODERN, "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}}}
MCP_TASK = {"mcp_protocol_version": "2026-07-28", "mcp_name": "TASK"}
SUBSCRIBE = {
    **ACL,
    "performative": "SUBSCRIBE",
    "receiver": {"agent_id": "memory"},
    "payload": {"topic": "task", "template": {"task_id": "TASK"}},
}
OTHERS_TASK = {
    "NLIP": ("nlip-http", "GET", "/nlip/tasks/TASK", None, {}),
    "NLIP, cancelling": ("nlip-http", "DELETE", "/nlip/tasks/TASK", None, {}),
    "NLIP, answering": ("nlip-http", "POST", "/nlip/tasks/TASK", say("hi"), {}),
    "NLWeb": ("nlweb", "GET", "/await/TASK", None, {}),
    "NLWeb, by POST": ("nlweb", "POST", "/await", {"promise_token": "TASK", "action": "checkin"}, {}),
    "NLWeb, cancelling": ("nlweb", "POST", "/await", {"promise_token": "TASK", "action": "cancel"}, {}),
    **{
        f"MCP, {method}": (
            "mcp", "POST", "/mcp", rpc(method, {"taskId": "TASK", "_meta": TASKS, **more}),
            {**MCP_TASK, "mcp_method": method},
        )
        for method, more in (("tasks/get", {}), ("tasks/cancel", {}), ("tasks/update", {"inputResponses": {}}))
    },
    "MCP of 2025": (
        "mcp", "POST", "/mcp", rpc("tasks/get", {"taskId": "TASK"}), {"mcp_protocol_version": "2025-11-25"},
    ),
    "MCP of 2025, cancelling": (
        "mcp", "POST", "/mcp", rpc("tasks/cancel", {"taskId": "TASK"}), {"mcp_protocol_version": "2025-11-25"},
    ),
    **{
        f"A2A, {method}": ("a2a", "POST", "/a2a/memory", rpc(method, {"id": "TASK"}), V1)
        for method in ("GetTask", "CancelTask", "SubscribeToTask")
    },
    "A2A, a message to it": (
        "a2a", "POST", "/a2a/memory", rpc("SendMessage", {"message": {**MESSAGE["message"], "taskId": "TASK"}}), V1,
    ),
    "A2A over REST": ("a2a", "GET", "/a2a/memory/tasks/TASK", None, V1),
    "A2A 0.3": ("a2a", "POST", "/a2a/memory", rpc("tasks/get", {"id": "TASK"}), {}),
    "A2A over gRPC": ("a2a", "", "", None, {}),
    "ACL": ("acl", "POST", "/acl", SUBSCRIBE, {}),
}  # fmt: skip


def get_over_grpc(served: Served, key: str, task: str) -> None:
    door = next(door for door in served.gateway.doors if isinstance(door, A2aDoor))
    with grpc.insecure_channel(door.cards.grpc) as channel, pytest.raises(grpc.RpcError):
        metadata = (("authorization", f"Bearer {key}"),)
        pb_grpc.A2AServiceStub(channel).GetTask(pb.GetTaskRequest(tenant="memory", id=task), metadata=metadata)


@pytest.mark.parametrize("name", OTHERS_TASK)
def test_the_task_of_another_caller_is_one_line(services: Served, name: str) -> None:
    """The caller gets what it gets for a task that never was; only the audit log knows the difference."""
    alice, mallory = add_key(services.gateway.home, "alice"), add_key(services.gateway.home, "mallory")
    accepted = send_as(services, "POST", "/nlip/memory", alice, say("hi"), prefer="respond-async")
    assert accepted is not None
    task = accepted["location"].rsplit("/", 1)[1]
    door, method, path, body, headers = OTHERS_TASK[name]
    for asked_for in (TASK, task):
        if not method:
            get_over_grpc(services, mallory, asked_for)
            continue
        filled = None if body is None else json.loads(json.dumps(body).replace('TASK"', f'{asked_for}"'))
        there = {header: value.replace("TASK", asked_for) for header, value in headers.items()}
        if filled is not None and "message_id" in filled:
            filled["message_id"] = asked_for
        send_as(services, method, path.replace("TASK", asked_for), mallory, filled, **there)
    end = time.monotonic() + DEADLINE
    while not lines(services) and time.monotonic() < end:  # a message of ACL is handled after it was accepted
        time.sleep(0.02)
    assert [line[:4] for line in shown(services)] == [("refused", "NotFound", door, f"key:{mallory.split('_')[1]}")]
