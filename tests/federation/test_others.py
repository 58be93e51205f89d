"""Gateways that are not Sabir's, misleading lists, and gateways with many nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client

from conftest import Serve, serving
from deadline import DEADLINE
from mcp_servers.shelf_server import running
from protocols.a2a.a2a_sdk_server import sdk_server
from raw_http import Heard, RawServer, http, raw_server
from sabir.agent import agent
from sabir.bus.memory import MemoryBus
from sabir.cluster.peer import BusPeer
from sabir.federation.gateways import RemoteAgent, RemoteGateway
from sabir.federation.listing import GatewayAddress
from sabir.gateway.gateway import Gateway
from sabir.message import Message, json_part
from sabir.observe.settings import ObserveSettings
from sabir.protocols.nlip.wire import json as nlip
from sabir.stores.memory import MemoryStore
from sabir.turn import Turn


@agent(description="Here")
async def local(turn: Turn) -> str:
    return "I am here"


@agent(description="Says it back")
async def echo(turn: Turn) -> str:
    return f"You said: {turn.text}"


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE):
        while not holds():
            await asyncio.sleep(0.01)


async def ask(url: str, name: str, message: Message) -> Message:
    async with httpx2.AsyncClient(trust_env=False) as client:
        return nlip.decode((await client.post(f"{url}/nlip/{name}", content=nlip.encode(message))).content)


# -- other software -----------------------------------------------------------------------------------


async def test_of_an_mcp_server_each_tool_is_an_agent(serve: Serve, home: Path) -> None:
    with running() as url:
        settings = RemoteGateway(url, protocol="mcp", only=("lookup", "torn"), prefix="shelf-")
        near = serve(Gateway(local, home=home, gateways={"shelf": settings}))
        await until(lambda: len(near.gateway.agents) == 3)
        card = near.gateway.agents["shelf-lookup"].card
        assert card.description == "Finds a book by its number"
        assert card.via == (GatewayAddress(url).gateway_id_of(None),)
        assert "127.0.0.1" not in str(card)
        data = Message.text("").with_part(json_part({"number": 1}, label="shelf-lookup"))
        assert "Herons" in (await ask(near.url, "shelf-lookup", data)).text
        async with Client(f"{near.url}/mcp") as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert sorted(tools) == ["local", "shelf-lookup", "shelf-torn"]
            assert tools["shelf-lookup"].input_schema["required"] == ["number"]
            result = await client.call_tool("shelf-lookup", {"number": 1})
            assert result.structured_content == {"title": "Herons", "pages": 2**53 + 1}
            torn = await client.call_tool("shelf-torn", {})
            assert torn.is_error


async def test_an_a2a_server_is_one_agent(serve: Serve, home: Path) -> None:
    with sdk_server() as (url, _):
        near = serve(Gateway(local, home=home, gateways={"sdk": RemoteGateway(url, protocol="a2a")}))
        await until(lambda: len(near.gateway.agents) == 2)
        name = next(name for name in near.gateway.agents if name != "local")
        assert name.startswith("sdk-")
        assert (await ask(near.url, name, Message.text("message"))).text == "a message"


@pytest.mark.parametrize(
    ("url", "base"),
    [
        ("https://a.example", "https://a.example"),
        ("https://a.example/", "https://a.example"),
        ("https://a.example/nlip", "https://a.example"),
        ("https://a.example/mcp/", "https://a.example"),
        ("https://a.example/sabir/ask", "https://a.example/sabir"),
        ("https://a.example/.well-known/agent-card.json", "https://a.example"),
        ("https://a.example/sabir?x=1#y", "https://a.example/sabir"),
    ],
)
def test_an_address_may_end_in_a_protocol(url: str, base: str) -> None:
    assert GatewayAddress(url).base == base


# -- what leads astray --------------------------------------------------------------------------------


def row(endpoint: str, name: str, **more: Any) -> dict[str, Any]:
    return {"protocol": "nlweb", "endpoint": endpoint, "definition": {"name": name, "description": "x", **more}}


async def listed(home: Path, respond: Callable[[Heard, int], bytes | None], protocol: str) -> tuple[Gateway, RawServer]:
    async with raw_server(respond) as server:
        near = Gateway(local, home=home, gateways={"x": RemoteGateway(server.url, protocol=protocol)})  # type: ignore[arg-type]
        with serving(near):
            await until(
                lambda: len(near.agents) > 1 or "not answered yet" not in (near.remote_gateways["x"].unavailable or "")
            )
            await asyncio.sleep(0.05)
            return near, server


async def test_a_list_that_names_other_places_does_not_lead_there(home: Path) -> None:
    rows = [
        row("http://169.254.169.254/ask/inside", "inside"),
        row("http://169.254.169.254/latest/meta-data", "metadata"),
        row("http://127.0.0.1:1/ask/../../etc", "dots"),
        row("file:///ask", "file"),
        {"protocol": "nlip", "endpoint": "x", "definition": {"name": "other"}},
        row("/ask/bad name", "bad"),
        row("/ask/fine", "bad name"),
        "nonsense",
    ]
    near, server = await listed(home, lambda heard, number: http(200, {"results": rows}), "nlweb")
    found = {name: item.place for name, item in near.remote_gateways["x"].agents.items()}
    assert found == {"x-inside": f"{server.url}/ask/inside", "x-file": f"{server.url}/ask"}


@pytest.mark.parametrize("protocol", ["nlip", "a2a", "nlweb", "mcp"])
async def test_a_list_is_not_fetched_from_where_it_redirects_to(home: Path, protocol: str) -> None:
    async with raw_server(lambda heard, number: http(200, {})) as elsewhere:
        near, _ = await listed(home, lambda heard, number: http(307, b"", location=f"{elsewhere.url}/x"), protocol)
        assert list(near.agents) == ["local"]
        assert near.remote_gateways["x"].unavailable
        assert elsewhere.heard == []


NONSENSE = (b"", b"null", b"[]", b"{}", b"{", b'"x"', b'{"results": 5, "agents": {}, "name": []}', b"\xff\xfe")


@pytest.mark.parametrize("protocol", ["nlip", "a2a", "nlweb", "mcp", "auto"])
async def test_nonsense_is_reported_and_does_no_harm(home: Path, protocol: str) -> None:
    def respond(heard: Heard, number: int) -> bytes:
        return http(200, NONSENSE[int(heard.path.split("/")[1])], content_type="application/json")

    async with raw_server(respond) as server:
        places = {f"x{number}": f"{server.url}/{number}" for number in range(len(NONSENSE))}
        gateways = {name: RemoteGateway(url, protocol=protocol) for name, url in places.items()}  # type: ignore[arg-type]
        near = Gateway(local, home=home, gateways=gateways)
        with serving(near):
            await until(
                lambda: all(
                    "not answered yet" not in (remote_gateway.unavailable or "")
                    for remote_gateway in near.remote_gateways
                )
            )
            assert list(near.agents) == ["local"]
            assert all(remote_gateway.unavailable for remote_gateway in near.remote_gateways)


async def test_a_gateway_that_refuses_us_is_reported(home: Path) -> None:
    near, _ = await listed(home, lambda heard, number: http(401, {}), "auto")
    assert "401" in (near.remote_gateways["x"].unavailable or "")


# -- back again ---------------------------------------------------------------------------------------


async def test_one_that_is_back_is_not_left_alone(serve: Serve, home: Path) -> None:
    with serving(Gateway(echo, home=home / "far")) as far:
        settings = RemoteGateway(far.url, protocol="nlip", refresh=0.1)
        watched = ObserveSettings(metrics=True)
        near = serve(Gateway(local, home=home / "near", gateways={"acme": settings}, observe=watched))
        await until(lambda: "acme-echo" in near.gateway.agents)
    await until(lambda: near.gateway.remote_gateways["acme"].unavailable is not None)
    for _ in range(6):
        assert "unavailable" in (await ask(near.url, "acme-echo", Message.text("x"))).text
    there = near.gateway.agents["acme-echo"]
    assert isinstance(there, RemoteAgent)
    assert there.peer.breaker.state == "open"
    async with httpx2.AsyncClient(trust_env=False) as client:
        response = (await client.get(f"{near.url}/metrics")).text
    assert "sabir_gateways_unavailable 1" in response
    assert "sabir_peers_open 1" in response
    with serving(Gateway(echo, home=home / "far"), port=far.port):
        await until(lambda: near.gateway.remote_gateways["acme"].unavailable is None)
        assert (await ask(near.url, "acme-echo", Message.text("x"))).text == "You said: x"


# -- many nodes ---------------------------------------------------------------------------------------


async def test_nodes_reach_the_agents_through_the_one_that_lists_them(home: Path) -> None:
    store, bus = MemoryStore(), MemoryBus()

    def node(name: str, gateways: dict[str, Any]) -> Gateway:
        made = {"store": store, "bus": bus, "node": name, "secrets": ("shared" * 6,), "gateways": gateways}
        return Gateway(local, home=home / name, **made)

    with serving(Gateway(echo, home=home / "far")) as far:
        acme = {"acme": RemoteGateway(far.url, refresh=0.1)}
        one, two, three = node("one", acme), node("two", {}), node("three", acme)
        for value in (one, two, three):
            await value.start()
        await until(lambda: isinstance(two.agents.get("acme-echo"), BusPeer))
        assert isinstance(one.agents["acme-echo"], RemoteAgent)
        assert isinstance(three.agents["acme-echo"], RemoteAgent)
        offered = await two.directory.find("acme-echo")
        assert {entry.node for entry in offered} == {"one", "three"}
        del far.gateway.agents["echo"]
        await until(lambda: all("acme-echo" not in item.agents for item in (one, two, three)))
        assert await two.directory.find("acme-echo") == []
        for element in (three, two, one):
            await store.open()
            await bus.open()
            await element.stop()
