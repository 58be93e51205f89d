"""Servers close connections that are idle. Whoever keeps connections must not lose a request by that."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpcore
import httpcore2
import httpx2
import pytest

from conftest import Serve
from deadline import DEADLINE
from openai_server import scripted
from raw_http import RawServer, http, raw_server
from sabir.agents.echo import echo
from sabir.agents.llm.service import ModelService
from sabir.gateway.gateway import Gateway
from sabir.guard.egress.addresses import GuardedClient, Outbound, OutboundRules
from sabir.guard.egress.keep_alive import IDLE_SECONDS
from sabir.http.client import http_client, system_trust
from sabir.protocols.connect import connect, speakers
from sabir.protocols.options import PeerOptions
from sabir.protocols.peer import Clock
from tcp_proxy import tcp_proxy
from tcp_server import TcpServer

USUAL_SECONDS = 5.0  # after which uvicorn, Node and Apache close an idle connection
Ask = Callable[[], Awaitable[object]]


class Relay:
    """Passes bytes on to a server that is named later, and closes its clients' connections when it is told to."""

    def __init__(self) -> None:
        self.target = 0
        self.proxy: TcpServer

    @property
    def url(self) -> str:
        return self.proxy.url

    @property
    def accepted(self) -> int:
        return self.proxy.accepted

    async def cut(self) -> int:
        """Close all connections; returns how many there were."""
        cut = self.proxy.cut()
        await self.proxy.drained()
        return cut


@asynccontextmanager
async def relaying() -> AsyncIterator[Relay]:
    relay = Relay()
    async with tcp_proxy(lambda number: ("127.0.0.1", relay.target)) as relay.proxy:
        yield relay


@asynccontextmanager
async def a_peer(protocol: str, relay: Relay, serve: Serve, home: Path) -> AsyncIterator[Ask]:
    if protocol in ("mcp", "a2a"):
        pytest.importorskip(protocol)
    served = serve(Gateway(echo, home=home))
    served.gateway.services.public_url = relay.url  # A2A goes where the card says
    relay.target = served.port
    async with connect(relay.url, protocol=protocol) as peer:
        yield lambda: peer.ask("hello")


@asynccontextmanager
async def a_model(relay: Relay) -> AsyncIterator[Ask]:
    with scripted() as server:
        relay.target = int(server.url.removesuffix("/v1").rpartition(":")[2])
        service = ModelService(f"{relay.url}/v1")

        async def ask() -> object:
            clock = Clock(20.0)
            async with service.asked("/chat/completions", {"model": "m", "messages": []}, clock) as response:
                return await service.body(response, clock)

        try:
            yield ask
        finally:
            await service.aclose()


@asynccontextmanager
async def a_fetcher(relay: Relay, serve: Serve, home: Path) -> AsyncIterator[Ask]:
    relay.target = serve(Gateway(echo, home=home)).port
    async with GuardedClient(Outbound(OutboundRules(allow=("127.0.0.1",)))) as client:
        yield lambda: client.get(f"{relay.url}/health")


def open_pools() -> list[Any]:
    """The pools of all HTTP clients of this process that have a connection."""
    kinds = (httpcore.AsyncConnectionPool, httpcore2.AsyncConnectionPool)
    # By type: isinstance asks the object itself, and what it is a weak proxy of may be gone.
    return [found for found in gc.get_objects() if issubclass(type(found), kinds) and found.connections]


WHO = (*speakers("http"), "a model service", "fetched documents")


def asker(who: str, relay: Relay, serve: Serve, home: Path) -> AbstractAsyncContextManager[Ask]:
    if who == "a model service":
        return a_model(relay)
    if who == "fetched documents":
        return a_fetcher(relay, serve, home)
    return a_peer(who, relay, serve, home)


@pytest.mark.parametrize("who", WHO)
async def test_requests_in_a_row_use_one_connection(who: str, serve: Serve, home: Path) -> None:
    """The A2A client once closed a stream after its last event and before its end, and so its connection."""
    async with relaying() as relay:
        async with asker(who, relay, serve, home) as ask:
            await ask()
            before = relay.accepted
            for _ in range(5):
                await ask()
            assert relay.accepted == before


@pytest.mark.parametrize("who", WHO)
async def test_a_request_after_the_server_has_closed_idle_connections_is_answered(
    who: str, serve: Serve, home: Path
) -> None:
    assert IDLE_SECONDS < USUAL_SECONDS - 1
    of_others = open_pools()  # kept, so that no new pool gets the id of one of them
    async with relaying() as relay:
        async with asker(who, relay, serve, home) as ask:
            await ask()
            pools = [pool for pool in open_pools() if not any(pool is other for other in of_others)]
            assert {pool._keepalive_expiry for pool in pools} == {IDLE_SECONDS}
            before = relay.accepted
            assert await relay.cut(), "no connection was kept"
            await ask()
            assert relay.accepted > before


# -- a request that is cancelled while its pool closes connections -----------------------------------


def sockets_to(port: int) -> set[str]:
    """The sockets of this process that are connected to a port, even if the other side has closed them.

    Other threads, and what is left of other tests, may open and close theirs at any time.
    """
    lines = Path("/proc/self/net/tcp").read_text().splitlines()[1:]
    fields = [line.split() for line in lines]
    connected = {f"socket:[{field[9]}]" for field in fields if int(field[2].rpartition(":")[2], 16) == port}
    held = set()
    for name in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # that of the listing itself
            held.add(str(name.readlink()))
    return connected & held


def httpx2_client() -> Any:
    return http_client(PeerOptions())


def httpx_client() -> Any:
    httpx = pytest.importorskip("httpx")
    transport = pytest.importorskip("sabir.protocols.a2a.peer.transport")
    return httpx.AsyncClient(transport=transport.LimitedTransport(system_trust(), 8, 1_000_000), trust_env=False)


@pytest.mark.parametrize("is_closed", [True, False], ids=["closed", "left"])
@pytest.mark.parametrize("client_of", [httpx2_client, httpx_client])
async def test_a_cancelled_request_leaves_no_socket_open(
    client_of: Callable[[], Any], is_closed: bool, serve: Serve, home: Path
) -> None:
    """The pool forgot the connections that it was closing; uvloop could then not close its loop ("resource busy")."""
    async with relaying() as relay:
        relay.target = serve(Gateway(echo, home=home)).port
        assert not sockets_to(relay.proxy.port)
        for steps in range(12):  # passes of the loop before the cancellation
            client = client_of()
            await asyncio.gather(*(client.get(f"{relay.url}/health") for _ in range(4)))
            assert sockets_to(relay.proxy.port)
            await relay.cut()
            asking = asyncio.create_task(client.get(f"{relay.url}/health"))
            for _ in range(steps):
                await asyncio.sleep(0)
            asking.cancel()
            await asyncio.wait([asking])
            if is_closed:
                await client.aclose()
            else:
                await client.__aexit__(None, None, None)
            await relay.cut()
        async with asyncio.timeout(DEADLINE):
            while sockets_to(relay.proxy.port):
                await asyncio.sleep(0.01)


# -- a request that a closed connection has swallowed ------------------------------------------------


@asynccontextmanager
async def swallowing(times: int) -> AsyncIterator[RawServer]:
    """A server that answers the first request, then closes so many connections on which another one arrives."""

    def respond(heard: object, number: int) -> bytes | None:
        return None if 2 <= number <= 1 + times else http(200, b"ok")

    async with raw_server(respond) as server:
        yield server


@pytest.mark.parametrize(("method", "again"), [("GET", True), ("HEAD", True), ("DELETE", True), ("POST", False)])
async def test_only_what_may_be_repeated_is_sent_again(method: str, again: bool) -> None:
    """The server may have acted on a request before it closed the connection."""
    async with swallowing(1) as server, http_client(PeerOptions(verify=system_trust())) as client:
        assert (await client.request("GET", server.url)).status_code == 200
        if again:
            assert (await client.request(method, server.url)).status_code == 200
        else:
            with pytest.raises(httpx2.RemoteProtocolError):
                await client.request(method, server.url, content=b"x")
        assert [heard.line.split()[0] for heard in server.heard][1:] == [method] * (2 if again else 1)


async def test_a_server_that_closes_new_connections_is_not_asked_again() -> None:
    async with raw_server(lambda heard, number: None) as server, http_client(PeerOptions()) as client:
        with pytest.raises(httpx2.RemoteProtocolError):
            await client.get(server.url)
        assert len(server.heard) == 1
