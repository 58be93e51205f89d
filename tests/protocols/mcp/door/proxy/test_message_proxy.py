"""Programs behind the gateway, and servers behind its filters: they speak for themselves, message by message."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import mcp_types as types
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import ToolsListChanged

from callers import ByName
from conftest import Serve, Served, serving
from deadline import DEADLINE
from mcp_servers.nursery import SDK_SERVER, Nursery
from sabir.agents.echo import echo
from sabir.gateway.gateway import Gateway
from sabir.guard import Authenticator, Filters, Rights, Rule
from sabir.guard.filters.base import TextFilter
from sabir.protocols.mcp.door.proxy import messages as message_proxy
from sabir.protocols.mcp.peer.peer import McpPeer, Program
from sabir.turn import MAX_HOPS

MODES = ("legacy", "2026-07-28")
OWN = """
import asyncio, os, sys
from typing import Any
import mcp_types as types
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.stdio import stdio_server

async def listed(ctx: Any, params: Any) -> Any:
    shape = {"type": "object", "properties": {}}
    names = ("pid", "die", "endless", "meta")
    return types.ListToolsResult(tools=[types.Tool(name=name, input_schema=shape) for name in names])

async def called(ctx: Any, params: Any) -> Any:
    if params.name == "die":
        os._exit(1)
    if params.name == "endless":
        try:
            await asyncio.sleep(600)
        finally:
            print("cancelled", file=open(sys.argv[1], "a"), flush=True)
    said = str(os.getpid()) if params.name == "pid" else str(dict(ctx.meta or {}))
    return types.CallToolResult(content=[types.TextContent(type="text", text=said)])

async def main() -> None:
    server = Server("own", on_list_tools=listed, on_call_tool=called)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options(NotificationOptions()))

asyncio.run(main())
"""


class Hush(TextFilter):
    """Hides a word, whichever way it goes."""

    name = "hush"
    ways = ("inbound", "outbound")

    def words(self, text: str) -> str:
        return text.replace("hunter2", "[hidden]").replace("static text resource", "[quiet]")


async def met(served: Served, name: str) -> None:
    """The gateway has heard from the server what it speaks."""
    peer = served.gateway.agents[name]
    assert isinstance(peer, McpPeer)
    async with asyncio.timeout(DEADLINE):
        while not peer.tools:
            await asyncio.sleep(0.02)


@asynccontextmanager
async def client_of(
    served: Served, name: str, mode: str = "legacy", who: str = "", **more: Any
) -> AsyncIterator[Client]:
    await met(served, name)
    headers = {"authorization": f"Bearer {who}"} if who else {}
    async with httpx2.AsyncClient(headers=headers) as http:
        transport = streamable_http_client(f"{served.url}/mcp/{name}", http_client=http)
        async with Client(transport, mode=mode, **more) as client:
            yield client


def words(result: Any) -> str:
    return str(result.content[0].text)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, sdk_server: str, programs: Nursery) -> Iterator[Served]:
    """The same server as a program and over HTTP, behind a gateway that filters."""
    program = McpPeer(Program(*programs.command(SDK_SERVER, "--stdio")), name="program")
    home = tmp_path_factory.mktemp("pipes")
    gateway = Gateway(echo, program, McpPeer(sdk_server, name="far"), home=home, filters=Filters((Hush(),)))
    with serving(gateway) as served:
        yield served


@pytest.fixture
def own(tmp_path: Path, programs: Nursery) -> Program:
    """A program that says which process it is."""
    script = tmp_path / "own_server.py"
    script.write_text(OWN)
    return Program(*programs.command(script, str(tmp_path / "log")))


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["program", "far"])
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


# -- nothing is lost ------------------------------------------------------------------------------------


async def test_tools_prompts_resources_and_completion_are_the_servers_own(served: Served, name: str, mode: str) -> None:
    async with client_of(served, name, mode) as client:
        if mode == "legacy":
            assert client.server_info is not None
            assert client.server_info.name == "sdk-server"
        assert "echo" in [tool.name for tool in (await client.list_tools()).tools]
        prompts = [prompt.name for prompt in (await client.list_prompts()).prompts]
        assert "test_prompt_with_arguments" in prompts
        got = await client.get_prompt("test_prompt_with_arguments", {"arg1": "one", "arg2": "two"})
        assert "one" in str(got.messages[0].content)
        reference = types.PromptReference(name="test_prompt_with_arguments")
        assert (await client.complete(reference, {"name": "arg1", "value": "p"})).completion.values
        mixed = await client.call_tool("test_multiple_content_types", {})
        assert [block.type for block in mixed.content] == ["text", "image", "resource"]


async def test_progress_and_log_come_with_the_call(served: Served, name: str) -> None:
    received: list[float] = []
    logged: list[Any] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        received.append(progress)

    async def on_log(params: types.LoggingMessageNotificationParams) -> None:
        logged.append(params.data)

    async with client_of(served, name, logging_callback=on_log) as client:
        await client.call_tool("test_tool_with_progress", {}, progress_callback=on_progress)
        await client.call_tool("test_tool_with_logging", {})
    assert received == [0, 50, 100]
    assert logged


async def test_what_the_server_asks_is_asked_of_the_client(served: Served, name: str, mode: str) -> None:
    async def elicit(context: Any, params: Any) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content={"name": "Ada", "username": "ada", "email": "a@b"})

    async def sample(context: Any, params: Any) -> types.CreateMessageResult:
        content = types.TextContent(type="text", text="Paris")
        return types.CreateMessageResult(role="assistant", content=content, model="m")

    async with client_of(served, name, mode, elicitation_callback=elicit, sampling_callback=sample) as client:
        if mode == "legacy":
            assert "ada" in words(await client.call_tool("test_elicitation", {"message": "Who?"}))
            assert "Paris" in words(await client.call_tool("test_sampling", {"prompt": "Capital?"}))
        else:
            assert words(await client.call_tool("test_input_required_result_elicitation", {})) == "Hello, Ada!"


async def test_subscribers_are_notified_of_changes(served: Served, name: str) -> None:
    async with client_of(served, name, "2026-07-28") as client, asyncio.timeout(DEADLINE):
        async with client.listen(tools_list_changed=True) as heard:
            await client.call_tool("test_trigger_tool_change", {})
            async for event in heard:
                assert isinstance(event, ToolsListChanged)
                break


# -- filters --------------------------------------------------------------------------------------------


async def test_what_goes_in_and_out_passes_the_filters(served: Served, name: str, mode: str) -> None:
    async with client_of(served, name, mode) as client:
        assert words(await client.call_tool("echo", {"text": "it is hunter2"})) == "it is [hidden]"
        read = await client.read_resource("test://static-text")
        assert read.contents[0].text == "This is the content of the [quiet]."  # type: ignore[union-attr]
        got = await client.get_prompt("test_prompt_with_arguments", {"arg1": "hunter2", "arg2": "x"})
        assert "hunter2" not in str(got.messages)


# -- guard ------------------------------------------------------------------------------------------------


async def test_rights_and_audit_hold_for_programs(serve: Serve, home: Path, own: Program, mode: str) -> None:
    rights = Rights((Rule(roles=("anonymous",), tools=("pid",)),))
    served = serve(Gateway(echo, McpPeer(own, name="own"), home=home, store="memory:", rights=rights))
    async with client_of(served, "own", mode) as client:
        await client.call_tool("pid", {})
        with pytest.raises(MCPError) as refused:
            await client.call_tool("meta", {})
        assert refused.value.error.code in (-32001, -32003)
    lines = [chained.line for chained in await served.gateway.store.audit_lines()]
    relayed = [
        (line.agent, line.outcome) for line in lines if line.kind == "relay" and line.detail.get("tool") == "pid"
    ]
    assert relayed == [("own", "ok")]


async def test_a_program_gets_the_hops_and_the_trace(serve: Serve, home: Path, own: Program) -> None:
    served = serve(Gateway(echo, McpPeer(own, name="own"), home=home, store="memory:"))
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    async with client_of(served, "own") as client:
        said = words(await client.call_tool("meta", {}, meta={"traceparent": trace, "io.sabir/hops": 2}))  # type: ignore[typeddict-unknown-key]
    assert trace in said
    assert "'io.sabir/hops': 3" in said


@pytest.mark.parametrize("hops", [MAX_HOPS + 1, 999, 10**4, 10**20])
@pytest.mark.parametrize("kind", ["program", "far"])
def test_a_request_that_passed_too_many_gateways_is_refused(
    serve: Serve, home: Path, own: Program, sdk_server: str, hops: int, kind: str
) -> None:
    peer = McpPeer(own if kind == "program" else sdk_server, name="behind")
    served = serve(Gateway(echo, peer, home=home, store="memory:"))
    begin = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    body: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": begin}
    headers = {"accept": "application/json, text/event-stream"}
    shown = httpx2.post(f"{served.url}/mcp/behind", json=body, headers={**headers, "x-sabir-hops": str(hops)})
    body["params"] = {**begin, "_meta": {"io.sabir/hops": hops}}
    said = httpx2.post(f"{served.url}/mcp/behind", json=body, headers=headers)
    for response in (shown, said):
        assert response.status_code == 403
        assert "a loop is likely" in response.json()["error"]["message"]


# -- sessions and programs ----------------------------------------------------------------------------------


async def test_each_session_has_a_program_of_its_own_that_ends_with_it(serve: Serve, home: Path, own: Program) -> None:
    served = serve(Gateway(echo, McpPeer(own, name="own"), home=home, store="memory:"))
    async with client_of(served, "own") as one, client_of(served, "own") as two:
        pids = [words(await client.call_tool("pid", {})) for client in (one, two, one)]
    assert pids[0] == pids[2] != pids[1]
    async with asyncio.timeout(DEADLINE):
        while any(_lives(int(pid)) for pid in pids):
            await asyncio.sleep(0.05)


async def test_callers_never_share_a_program(serve: Serve, home: Path, own: Program) -> None:
    identity = Authenticator([ByName()])
    served = serve(Gateway(echo, McpPeer(own, name="own"), home=home, store="memory:", identity=identity))
    found: list[str] = []
    for who in ("ada", "bob", "ada"):
        async with client_of(served, "own", "2026-07-28", who) as client:
            found.append(words(await client.call_tool("pid", {})))
    assert found[0] == found[2] != found[1]


async def test_strangers_share_a_program_only_where_they_are_one(serve: Serve, home: Path, own: Program) -> None:
    served = serve(Gateway(echo, McpPeer(own, name="own"), home=home, store="memory:"))
    await met(served, "own")
    found: list[str] = []
    for address in ("127.0.0.1", "127.0.0.2", "127.0.0.1"):
        way = httpx2.AsyncHTTPTransport(local_address=address)
        async with httpx2.AsyncClient(transport=way) as http:
            transport = streamable_http_client(f"{served.url}/mcp/own", http_client=http)
            async with Client(transport, mode="2026-07-28") as client:
                found.append(words(await client.call_tool("pid", {})))
    assert found[0] == found[2] != found[1]


async def test_a_program_that_died_is_met_again_in_the_same_session(serve: Serve, home: Path, own: Program) -> None:
    served = serve(Gateway(echo, McpPeer(own, name="own"), home=home, store="memory:"))
    async with client_of(served, "own") as client:
        first = words(await client.call_tool("pid", {}))
        with pytest.raises(MCPError, match="own: the connection was closed"):
            await client.call_tool("die", {})
        assert words(await client.call_tool("pid", {})) != first


async def test_a_session_outlives_a_restart_of_the_gateway(home: Path, own: Program) -> None:
    begin = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    headers = {"accept": "application/json, text/event-stream"}

    def say(served: Served, method: str, params: dict[str, Any]) -> httpx2.Response:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return httpx2.post(f"{served.url}/mcp/own", json=body, headers=headers)

    with serving(Gateway(echo, McpPeer(own, name="own"), home=home)) as served:
        headers["mcp-session-id"] = say(served, "initialize", begin).headers["mcp-session-id"]
    with serving(Gateway(echo, McpPeer(own, name="own"), home=home)) as served:
        answer = say(served, "tools/call", {"name": "pid", "arguments": {}}).json()
        assert answer["result"]["content"][0]["text"].isdigit()
        forged = httpx2.post(
            f"{served.url}/mcp/own",
            json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"},
            headers={**headers, "mcp-session-id": "made up"},
        )
        assert forged.status_code == 404


async def test_a_cancelled_call_is_cancelled_at_the_program(serve: Serve, home: Path, own: Program, mode: str) -> None:
    served = serve(Gateway(echo, McpPeer(own, name="own"), home=home, store="memory:"))
    async with client_of(served, "own", mode) as client:
        with pytest.raises(MCPError):
            await client.call_tool("endless", {}, read_timeout_seconds=1.0)
        log = Path(own.args[-1])
        async with asyncio.timeout(DEADLINE):
            while not log.exists() or "cancelled" not in log.read_text():
                await asyncio.sleep(0.05)
        assert words(await client.call_tool("pid", {})).isdigit()


async def test_one_caller_cannot_start_programs_without_end(
    serve: Serve, home: Path, own: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(message_proxy, "MAX_PER_CALLER", 1)
    served = serve(Gateway(echo, McpPeer(own, name="own"), home=home, store="memory:"))
    async with client_of(served, "own") as one:
        busy = asyncio.create_task(one.call_tool("endless", {}))
        relay = served.gateway.doors  # the door that holds the programs
        door = next(item for item in relay if item.name == "mcp")
        async with asyncio.timeout(DEADLINE):
            while not any(channel.raw.under_way for channel in door._proxies["own"]._open.values()):  # type: ignore[attr-defined]
                await asyncio.sleep(0.02)
        with pytest.raises(BaseExceptionGroup) as refused:
            async with client_of(served, "own") as two:
                await two.list_tools()
        assert "too many sessions" in str(_innermost(refused.value))
        busy.cancel()


async def test_a_program_that_cannot_be_started_says_so_without_saying_where(serve: Serve, home: Path) -> None:
    gone = McpPeer(Program("/no/such/program"), name="gone")
    served = serve(Gateway(echo, gone, home=home, store="memory:"))
    begin = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": begin}
    headers = {"accept": "application/json, text/event-stream"}
    answer = httpx2.post(f"{served.url}/mcp/gone", json=body, headers=headers).json()
    assert "gone: no connection" in answer["error"]["message"]
    assert "/no/such" not in str(answer)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _innermost(invalid: BaseException) -> BaseException:
    while isinstance(invalid, BaseExceptionGroup):
        invalid = invalid.exceptions[0]
    return invalid
