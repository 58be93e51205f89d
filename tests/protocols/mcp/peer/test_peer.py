"""MCP servers behind the gateway: their tools by the hub, themselves passed on, over HTTP and as programs."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import mcp_types as types
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import ToolsListChanged

from conftest import Serve
from deadline import DEADLINE
from free_ports import free_port
from mcp_servers.nursery import SDK_SERVER, Nursery
from mcp_servers.shelf_server import running as shelf_running
from sabir.agent import agent, reply_of
from sabir.agents.echo import echo
from sabir.errors import BadMessage, Cancelled, PeerRefused, PeerUnavailable
from sabir.events import Event, Progress, Question
from sabir.gateway.gateway import Gateway
from sabir.guard import Rights, Rule
from sabir.message import Message, binary_part, json_part
from sabir.protocols.mcp.peer.peer import McpPeer, Program
from sabir.protocols.mcp.wire import elicitation as mcp_ask
from sabir.turn import Turn

Start = Callable[..., str]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start a server written with the SDK alone; gives its address."""
    running: list[subprocess.Popen[str]] = []

    def begin(port: int = 0) -> str:
        command = [sys.executable, str(SDK_SERVER), "--port", str(port or free_port())]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        running.append(process)
        assert process.stdout is not None
        return process.stdout.readline().strip()

    begin.running = running  # type: ignore[attr-defined]
    yield begin
    for process in running:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


@pytest.fixture(params=["auto", "legacy", "program"])
async def peer(request: pytest.FixtureRequest, sdk_server: str, programs: Nursery) -> Any:
    kind = request.param
    program = Program(*programs.command(SDK_SERVER, "--stdio"))
    made = McpPeer(program, name="program") if kind == "program" else McpPeer(sdk_server, name="behind", version=kind)
    async with made:
        yield made


async def test_each_tool_is_a_skill(peer: McpPeer) -> None:
    await peer.refresh()
    skills = {skill.id: skill for skill in peer.card.skills}
    assert skills["echo"].input_schema == {
        "type": "object",
        "properties": {"text": {"type": "string"}},
        "required": ["text"],
    }


async def test_words_go_to_the_tool_that_takes_words(peer: McpPeer) -> None:
    peer.tool = "echo"
    assert (await peer.ask("hello")).text == "hello"


async def test_data_labelled_with_a_tool_calls_it(peer: McpPeer) -> None:
    reply = await peer.ask(Message("structured", "json", {"text": "labelled"}, label="echo"))
    assert reply.text == "labelled"


async def test_content_arrives_unchanged(peer: McpPeer) -> None:
    reply = await peer.call("test_multiple_content_types", {})
    text, image, resource = reply.parts
    assert text.content == "Multiple content types test:"
    assert image == binary_part(image.content, "image/png")
    assert resource.value == {"test": "data", "value": 123}


async def test_a_failure_of_the_tool_is_an_error_message(peer: McpPeer) -> None:
    assert (await peer.call("test_error_handling", {})).is_error


async def test_an_unknown_tool_is_refused_with_the_servers_code(peer: McpPeer) -> None:
    with pytest.raises(PeerRefused) as caught:
        await peer.call("nobody", {})
    assert caught.value.status == -32602


async def test_progress_is_passed_on(peer: McpPeer) -> None:
    events: list[Event] = []
    await peer.call("test_tool_with_progress", {}, on_event=events.append)
    assert [item.fraction for item in events if isinstance(item, Progress)] == [0.0, 0.5, 1.0]


async def test_what_the_server_asks_is_asked_of_our_caller(peer: McpPeer) -> None:
    asked: list[Question] = []

    async def ask(question: Question) -> Message:
        asked.append(question)
        if isinstance(question, mcp_ask.Sampling):
            return Message.text("Paris")
        return Message.text("", parts=(json_part({"name": "Ada", "username": "ada", "email": "a@b"}, label="answer"),))

    if peer.version != "legacy":
        assert (await peer.call("test_input_required_result_elicitation", {}, ask=ask)).text == "Hello, Ada!"
        assert (await peer.call("test_input_required_result_sampling", {}, ask=ask)).text == "Paris"
        assert [type(question) for question in asked] == [Question, mcp_ask.Sampling]
        asked.clear()
    for _ in range(2):  # tools that ask at once, in the middle of their work, are called over a version that has that
        assert "ada" in (await peer.call("test_elicitation", {"message": "Who?"}, ask=ask)).text
        assert (await peer.call("test_sampling", {"prompt": "Capital?"}, ask=ask)).text == "LLM response: Paris"
    assert [type(question) for question in asked] == [Question, mcp_ask.Sampling] * 2


async def test_what_callers_do_wrong_is_not_held_against_the_server(peer: McpPeer) -> None:
    async def taken_back(question: Question) -> Message:
        raise Cancelled("the request was cancelled")

    for _ in range(6):
        with pytest.raises(BadMessage, match="labelled with the name of a tool"):
            await reply_of(peer(Turn(Message.text("hello"))))
    if peer.version != "legacy":
        asking = Message.of(json_part({}, label="test_input_required_result_elicitation"))
        for _ in range(6):
            with pytest.raises(Cancelled):
                await reply_of(peer(Turn(asking, ask_back=taken_back)))
    reply = await reply_of(peer(Turn(Message.of(json_part({"text": "still there"}, label="echo")))))
    assert reply.text == "still there"


async def test_many_calls_share_few_connections(peer: McpPeer) -> None:
    replies = await asyncio.gather(*(peer.call("echo", {"text": str(n)}) for n in range(20)))
    assert [reply.text for reply in replies] == [str(n) for n in range(20)]


async def test_a_server_that_is_not_there_is_unavailable_and_says_why() -> None:
    async with McpPeer(f"http://127.0.0.1:{free_port()}/mcp", name="gone") as peer:
        with pytest.raises(PeerUnavailable, match=r"127\.0\.0\.1"):
            await peer.ask("hello")
        assert peer.unavailable is not None
    async with McpPeer(Program("/no/such/program"), name="gone") as peer:
        with pytest.raises(PeerUnavailable):
            await peer.ask("hello")


@pytest.mark.parametrize("version", ["auto", "legacy"])
async def test_a_server_that_comes_back_is_used_again(start: Start, version: str) -> None:
    url = start()
    async with McpPeer(url, name="behind", tool="echo", version=version) as peer:
        assert (await peer.ask("one")).text == "one"
        process = start.running[0]  # type: ignore[attr-defined]
        process.kill()
        process.wait()
        with pytest.raises((PeerUnavailable, PeerRefused)):
            await peer.ask("two")
        assert start(int(url.split(":")[2].split("/")[0])) == url
        async with asyncio.timeout(DEADLINE):
            while True:
                try:
                    assert (await peer.ask("three")).text == "three"
                    break
                except (PeerUnavailable, PeerRefused):
                    await asyncio.sleep(0.05)


async def test_a_dead_server_does_not_take_the_gateway_with_it(serve: Serve, home: Path) -> None:
    dead = McpPeer("http://127.0.0.1:9/mcp", name="dead")
    served = serve(Gateway(echo, dead, home=home, store="memory:"))
    async with Client(f"{served.url}/mcp") as client:
        assert (await client.call_tool("echo", {"text": "hi"})).structured_content["text"] == "You said: hi"  # type: ignore[index]
        result = await client.call_tool("dead", {"text": "hi"})
        assert result.is_error
        assert "connection refused" in str(result.content[0])


async def test_a_server_that_comes_later_or_changes_its_tools_is_followed(
    serve: Serve, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sabir.protocols.mcp.door.door.LIST_SECONDS", 0.2)
    port = free_port()
    served = serve(Gateway(echo, McpPeer(f"http://127.0.0.1:{port}/mcp", name="shelf"), home=home))

    async def names(client: Client) -> list[str]:
        return [tool.name for tool in (await client.list_tools()).tools]

    async with Client(f"{served.url}/mcp", cache=None) as client, asyncio.timeout(DEADLINE):
        assert await names(client) == ["echo", "shelf"]
        with shelf_running(port=port):
            async with client.listen(tools_list_changed=True) as stream:
                assert await anext(aiter(stream)) == ToolsListChanged()
                assert "shelf-lookup" in await names(client)
                await client.call_tool("shelf-grow", {})
                assert await anext(aiter(stream)) == ToolsListChanged()
                assert "shelf-new8" in await names(client)


async def test_the_tools_of_a_server_are_tools_of_the_gateway(serve: Serve, home: Path, sdk_server: str) -> None:
    behind = McpPeer(sdk_server, name="behind")
    served = serve(Gateway(echo, behind, home=home, store="memory:"))
    async with Client(f"{served.url}/mcp") as client, asyncio.timeout(DEADLINE):
        while "behind-echo" not in [tool.name for tool in (await client.list_tools(cache_mode="bypass")).tools]:
            await asyncio.sleep(0.05)
        result = await client.call_tool("behind-echo", {"text": "through the hub"})
        assert str(result.content[0].text) == "through the hub"  # type: ignore[union-attr]
        mixed = await client.call_tool("behind-test_multiple_content_types", {})
        assert [block.type for block in mixed.content] == ["text", "image", "resource"]


async def test_a_server_behind_an_agent_asks_the_client_in_front(serve: Serve, home: Path, sdk_server: str) -> None:
    async def on_elicit(context: Any, params: Any) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content={"name": "Ada"})

    behind = McpPeer(sdk_server, name="behind")
    served = serve(Gateway(echo, behind, home=home, store="memory:"))
    name = "behind-test_input_required_result_elicitation"
    async with Client(f"{served.url}/mcp", elicitation_callback=on_elicit) as client, asyncio.timeout(DEADLINE):
        while name not in [tool.name for tool in (await client.list_tools(cache_mode="bypass")).tools]:
            await asyncio.sleep(0.05)
        result = await client.call_tool(name, {})
        assert result.content[0].text == "Hello, Ada!"  # type: ignore[union-attr]


async def test_a_relay_keeps_rights_audit_and_credentials(serve: Serve, home: Path, sdk_server: str) -> None:
    rights = Rights((Rule(roles=("anonymous",), tools=("echo",)),))
    behind = McpPeer(sdk_server, name="behind")
    served = serve(Gateway(echo, behind, home=home, store="memory:", rights=rights))
    async with Client(f"{served.url}/mcp/behind", mode="legacy") as client:
        result = await client.call_tool("echo", {"text": "hi"})
        assert result.content[0].text == "hi"  # type: ignore[union-attr]
        with pytest.raises(MCPError) as refused:
            await client.call_tool("test_simple_text", {})
        assert "test_simple_text" in str(refused.value) or refused.value.error.code in (-32001, -32003)
    store = served.gateway.store
    lines = [chained.line for chained in await store.audit_lines()]
    relayed = [line for line in lines if line.kind == "relay" and line.detail.get("tool") == "echo"]
    assert [(line.agent, line.outcome) for line in relayed] == [("behind", "ok")]


def test_the_session_of_the_server_behind_is_not_shown(serve: Serve, home: Path, sdk_server: str) -> None:
    body = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}},
    }
    served = serve(Gateway(echo, McpPeer(sdk_server, name="behind"), home=home, store="memory:"))
    headers = {"accept": "application/json, text/event-stream", "authorization": "Bearer of-the-client"}
    response = httpx2.post(f"{served.url}/mcp/behind", json=body, headers=headers)
    assert response.status_code == 200
    session = response.headers["mcp-session-id"]
    assert session.startswith("sb1.")
    forged = httpx2.post(
        f"{served.url}/mcp/behind",
        json={"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
        headers={**headers, "mcp-session-id": "0" * 32},
    )
    assert forged.status_code == 404


async def test_an_agent_made_of_words_can_use_a_server(sdk_server: str) -> None:
    async with McpPeer(sdk_server, name="behind", tool="echo") as behind:

        @agent
        async def front(turn: Turn) -> str:
            reply = await reply_of(behind(turn.sub(turn.message, behind)))
            return f"it said {reply.text}"

        assert (await reply_of(front(Turn(Message.text("hi"))))).text == "it said hi"


async def test_a_gateway_behind_a_gateway_remembers_the_conversation(serve: Serve, tmp_path: Path) -> None:
    @agent(description="Counts")
    async def memory(turn: Turn) -> str:
        return f"{turn.conversation.count + 1}: {turn.text}"

    inner = serve(Gateway(memory, echo, home=tmp_path / "inner", store="memory:"))
    remote = McpPeer(f"{inner.url}/mcp", name="remote")
    outer = serve(Gateway(remote, home=tmp_path / "outer", store="memory:"))
    async with Client(f"{outer.url}/mcp") as client:
        arguments: dict[str, Any] = {"text": "hello"}
        for number in (1, 2, 3):
            result = await client.call_tool("remote", arguments)
            assert result.structured_content is not None
            assert result.structured_content["text"] == f"{number}: hello"
            arguments["conversation"] = result.structured_content["conversation"]


def test_a_loop_of_relays_is_stopped(serve: Serve, home: Path) -> None:
    loop = McpPeer("http://127.0.0.1:9/mcp", name="loop")
    served = serve(Gateway(echo, loop, home=home, store="memory:"))
    loop.url = f"{served.url}/mcp/loop"
    headers = {"accept": "application/json, text/event-stream"}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    response = httpx2.post(f"{served.url}/mcp/loop", json=body, headers=headers)
    assert response.status_code == 403
    assert "the server behind the gateway refuses it" in response.text
