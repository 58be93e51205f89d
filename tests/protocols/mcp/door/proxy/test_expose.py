"""``doors: {mcp: {expose: …}}``: tools of servers behind the gateway, as their servers describe and answer them."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import ToolsListChanged

from conftest import Serve, Served, serving
from deadline import DEADLINE
from free_ports import free_port
from mcp_servers.shelf_server import FOUND, LOOKUP, PICTURE, PNG, SIGN, TORN, running
from sabir.agent import agent
from sabir.agents.echo import echo
from sabir.errors import ConfigError
from sabir.gateway.gateway import Gateway
from sabir.guard import Quotas, Rule
from sabir.guard.build import GuardSettings
from sabir.protocols.mcp.peer.peer import McpPeer, Program
from sabir.protocols.mcp.wire.cards import AGENT
from sabir.turn import Turn

SHELF = Path(__file__).resolve().parents[4] / "mcp_servers" / "shelf_server.py"


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("notes") / "notes"


@pytest.fixture(scope="module")
def url(notes: Path) -> Iterator[str]:
    """A server that all tests share which leave it as it is."""
    with running(notes) as address:
        yield address


@pytest.fixture(scope="module", params=["auto", "legacy", "program"])
def front(
    request: pytest.FixtureRequest, url: str, notes: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    """A gateway that exposes it, by each way to speak with it."""
    program = Program(sys.executable, (str(SHELF), str(notes)))
    peer = (
        McpPeer(program, name="shelf")
        if request.param == "program"
        else McpPeer(url, name="shelf", version=request.param)
    )
    home = tmp_path_factory.mktemp("front")
    with serving(Gateway(echo, peer, home=home, doors={"mcp": {"expose": ["shelf"]}})) as served:
        until(lambda: bool(peer.tools))
        yield served


def behind(serve: Serve, home: Path, peer: McpPeer, expose: Any, **more: Any) -> Served:
    served = serve(Gateway(echo, peer, home=home, doors={"mcp": {"expose": expose}}, **more))
    until(lambda: bool(peer.tools))
    return served


def talking(served: Served, mode: str = "auto", **more: Any) -> Client:
    """A client that looks anew each time."""
    return Client(f"{served.url}/mcp", mode=mode, cache=None, **more)


def until(holds: Callable[[], bool], seconds: float = DEADLINE) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it did not come to be in time"
        time.sleep(0.01)


def plain(value: Any) -> dict[str, Any]:
    return value.model_dump(mode="json", by_alias=True, exclude_none=True)  # type: ignore[no-any-return]


def result_of(value: Any) -> dict[str, Any]:
    """A result without what a client adds by itself."""
    answer = plain(value)
    answer.pop("resultType", None)
    meta = answer.pop("_meta", {})
    server = meta.pop("io.modelcontextprotocol/serverInfo", {"name": "sabir"})
    assert server["name"] == "sabir"
    if meta:
        answer["_meta"] = meta
    if answer.get("isError") is False:
        del answer["isError"]
    return answer


async def named(client: Client) -> dict[str, dict[str, Any]]:
    return {tool.name: plain(tool) for tool in (await client.list_tools()).tools}


# -- listed -------------------------------------------------------------------------------------------


async def test_a_tool_is_listed_as_its_server_describes_it(front: Served) -> None:
    async with talking(front) as client:
        tools = await named(client)
    answer = tools["shelf-lookup"]
    meta = answer.pop("_meta")
    assert answer == {**{key: value for key, value in LOOKUP.items() if key != "_meta"}, "name": "shelf-lookup"}
    assert meta["shelf.example/rack"] == 7
    assert (meta[AGENT]["name"], meta[AGENT]["skill"]) == ("shelf", "lookup")
    assert "shelf" not in tools, "it is not also there translated"
    assert {"echo", "shelf-picture", "shelf-torn"} <= tools.keys()


@pytest.mark.parametrize(
    ("expose", "names"),
    [
        ({"shelf": ["lookup", "t*"]}, ["shelf-lookup", "shelf-torn"]),
        ({"shelf": {"only": ["*o*"], "except": ["*ow*", "torn"]}}, ["shelf-lookup", "shelf-locked"]),
        ({"shelf": {"only": ["lookup"], "prefix": ""}}, ["lookup"]),
        ({"shelf": {"only": ["lookup"], "prefix": "my shelf."}}, ["my-shelf-lookup"]),
        ({"shelf": []}, []),
    ],
)
async def test_globs_choose_and_a_prefix_names(
    serve: Serve, home: Path, url: str, expose: Any, names: list[str]
) -> None:
    served = behind(serve, home, McpPeer(url, name="shelf"), expose)
    async with talking(served) as client:
        assert sorted(await named(client)) == sorted(["echo", *names])
        if names:
            assert result_of(await client.call_tool(names[0], {"number": 1})) == FOUND
        with pytest.raises(MCPError, match="there is no tool 'shelf-grow' here"):
            await client.call_tool("shelf-grow", {})
    async with Client(f"{served.url}/mcp/shelf") as client:
        assert "grow" in await named(client), "the server itself is whole at its own address"


async def test_names_that_clash_are_left_out_and_said(
    serve: Serve, home: Path, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    @agent(description="A lookup of our own")
    async def lookup(turn: Turn) -> str:
        return "ours"

    one, two = McpPeer(url, name="one"), McpPeer(url, name="two")
    expose = {"one": {"only": ["lookup", "torn"], "prefix": ""}, "two": {"only": ["torn"], "prefix": ""}}
    served = serve(Gateway(lookup, one, two, home=home, doors={"mcp": {"expose": expose}}))
    until(lambda: bool(one.tools and two.tools))
    async with talking(served) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert sorted(names) == ["lookup", "torn"]
        assert "ours" in str(await client.call_tool("lookup", {"text": "x"}))
    said = [record.getMessage() for record in caplog.records if "is left out" in record.getMessage()]
    assert said == [
        "doors.mcp.expose: lookup of one is left out: lookup is the agent lookup; choose a prefix",
        "doors.mcp.expose: torn of two is left out: torn is torn of one; choose a prefix",
    ]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"expose": ["shelv"]}, "there is no MCP server 'shelv' among the agents: did you mean shelf?"),
        ({"expose": ["echo"]}, "there is no MCP server 'echo' among the agents: choose from shelf"),
        ({"expose": {"shelf": {"onyl": ["x"]}}}, "unknown key doors.mcp.expose.shelf.onyl: did you mean only?"),
        ({"expose": {"shelf": {"refresh": 0}}}, "doors.mcp.expose[...].refresh: expected a number above 0"),
        ({"expose": 7}, "doors.mcp.expose: expected a mapping or a list, not a whole number"),
        ({"exposes": ["shelf"]}, "unknown key doors.mcp.exposes: did you mean expose?"),
        ({"taskafter": 1}, "unknown key doors.mcp.taskafter: did you mean task_after?"),
        ({"task_after": "soon"}, "doors.mcp.task_after: expected a number, not text"),
        ({"zzz": 1}, "unknown key doors.mcp.zzz: choose from task_after, authorization_servers, scopes, expose"),
    ],
)
def test_wrong_settings_are_reported_at_the_start(home: Path, settings: Any, said: str) -> None:
    peer = McpPeer("http://127.0.0.1:9/mcp", name="shelf")
    with pytest.raises(ConfigError) as raised:
        Gateway(echo, peer, home=home, doors={"mcp": settings})
    assert said in str(raised.value)


# -- called -------------------------------------------------------------------------------------------

MODES = ("legacy", "2026-07-28")


@pytest.mark.parametrize("mode", MODES)
async def test_results_come_as_the_server_gave_them(front: Served, mode: str) -> None:
    async with talking(front, mode=mode) as client:
        await named(client)  # the client checks results against the schemas
        assert result_of(await client.call_tool("shelf-lookup", {"number": 1})) == FOUND
        assert result_of(await client.call_tool("shelf-picture", {})) == PICTURE
        assert result_of(await client.call_tool("shelf-torn", {})) == TORN
        with pytest.raises(MCPError, match="the shelf is locked") as raised:
            await client.call_tool("shelf-locked", {})
        assert (raised.value.error.code, raised.value.error.data) == (-32050, {"until": "noon"})


async def test_in_2025_11_25_a_call_can_be_a_task(front: Served) -> None:
    async with talking(front, mode="legacy") as client:
        assert (await named(client))["shelf-lookup"]["execution"] == {"taskSupport": "optional"}

        async def said(method: str, params: dict[str, Any]) -> dict[str, Any]:
            return await client.session._dispatcher.send_raw_request(method, params, {"timeout": 20})

        call = {"name": "shelf-lookup", "arguments": {"number": 1}, "task": {"ttl": 60_000}}
        task = (await said("tools/call", call))["task"]
        result = await said("tasks/result", {"taskId": task["taskId"]})
        assert result["structuredContent"] == FOUND["structuredContent"]
        assert result["content"][0]["text"] == "Herons"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("sure", "result"), [(True, FOUND), (False, TORN)])
async def test_what_the_server_asks_is_asked_of_the_client(front: Served, mode: str, sure: bool, result: Any) -> None:
    asked: list[str] = []

    async def elicit(context: Any, params: Any) -> types.ElicitResult:
        asked.append(params.message)
        return types.ElicitResult(action="accept", content={"sure": sure})

    async with talking(front, mode=mode, elicitation_callback=elicit) as client:
        assert result_of(await client.call_tool("shelf-burn", {})) == result
    assert asked == ["Are you sure?"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("action", ["accept", "decline"])
async def test_url_elicitation_is_passed_on_to_the_client(front: Served, mode: str, action: Any) -> None:
    asked: list[Any] = []

    async def elicit(context: Any, params: Any) -> types.ElicitResult:
        asked.append(plain(params))
        return types.ElicitResult(action=action)

    async with talking(front, mode=mode, elicitation_callback=elicit) as client:
        result = await client.call_tool("shelf-sign", {})
    assert result.content[0].text == f"{action} None"  # type: ignore[union-attr]
    assert [{**item, "_meta": None, "elicitationId": ""} for item in asked] == [
        {**SIGN, "_meta": None, "elicitationId": ""}
    ]


async def test_progress_comes_and_a_cancelled_call_is_cancelled_at_the_server(front: Served, notes: Path) -> None:
    notes.unlink(missing_ok=True)
    heard: list[tuple[float, float | None, str | None]] = []
    begun = asyncio.Event()

    async def progress(done: float, total: float | None, message: str | None) -> None:
        heard.append((done, total, message))
        begun.set()

    async with talking(front) as client:
        call = asyncio.create_task(client.call_tool("shelf-slow", {}, progress_callback=progress))
        async with asyncio.timeout(DEADLINE):
            await begun.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert heard == [(25.0, 100.0, "one of four")]
        async with asyncio.timeout(DEADLINE):
            while not notes.exists():
                await asyncio.sleep(0.01)


async def test_over_stdio_they_are_there_too(home: Path, url: str, tmp_path: Path) -> None:
    from mcp import StdioServerParameters
    from mcp.client.stdio import stdio_client

    config = tmp_path / "sabir.yaml"
    config.write_text(
        f"home: {home}\nstore: 'memory:'\nsites: []\n"
        f"agents:\n  - {{id: shelf, peer: '{url}'}}\n"
        "doors: {mcp: {expose: {shelf: [lookup]}}}\n"
    )
    command = StdioServerParameters(command=sys.executable, args=["-m", "sabir", "mcp", str(config)])
    async with Client(stdio_client(command), cache=None) as client:
        async with asyncio.timeout(DEADLINE):
            while "shelf-lookup" not in (names := await named(client)):
                await asyncio.sleep(0.05)
        assert sorted(names) == ["shelf-lookup"]
        assert result_of(await client.call_tool("shelf-lookup", {"number": 1})) == FOUND


# -- who may, how much, and what is on record ---------------------------------------------------------


async def test_rights_on_tools_hold_by_every_door(serve: Serve, home: Path, url: str) -> None:
    rules = (Rule(roles=("anonymous",), agents=("echo", "shelf"), tools=("lookup", "picture")),)
    peer = McpPeer(url, name="shelf")
    served = behind(serve, home, peer, ["shelf"], guard=GuardSettings(rights=rules))
    async with talking(served) as client:
        assert sorted(await named(client)) == ["echo", "shelf-lookup", "shelf-picture"]
        assert result_of(await client.call_tool("shelf-lookup", {"number": 1})) == FOUND
        with pytest.raises(MCPError, match="there is no tool 'shelf-torn' here"):
            await client.call_tool("shelf-torn", {})
    message = {
        "format": "text",
        "subformat": "english",
        "content": "",
        "submessages": [{"format": "structured", "subformat": "json", "content": {}, "label": "torn"}],
    }
    import httpx2

    async with httpx2.AsyncClient(trust_env=False) as http:
        answer = await http.post(f"{served.url}/nlip/shelf", json=message)
    assert answer.status_code == 401
    assert "page 7" not in answer.text


async def test_a_call_counts_and_leaves_its_line(serve: Serve, home: Path, url: str) -> None:
    peer = McpPeer(url, name="shelf")
    quotas = Quotas(rate_per_caller=0.001, rate_per_address=0.001, burst=3)
    served = behind(serve, home, peer, ["shelf"], quotas=quotas)
    async with talking(served, mode="2026-07-28") as client:
        refused = 0
        for _ in range(5):
            try:
                await client.call_tool("shelf-lookup", {"number": 1})
            except MCPError as exc:
                refused += "requests a second" in exc.error.message or "too many" in exc.error.message.lower()
    assert refused
    from sabir.stores import open_store

    store = open_store(f"sqlite:///{home / 'sabir.db'}")
    await store.open()
    lines = [audit_line.line for audit_line in await store.audit_lines()]
    await store.close()
    turns = [line for line in lines if line.kind == "turn" and line.agent == "shelf" and line.door == "mcp"]
    assert turns
    assert {line.detail["tool"] for line in turns} == {"lookup"}


async def test_where_a_filter_is_configured_results_pass_it(serve: Serve, home: Path, url: str) -> None:
    peer = McpPeer(url, name="shelf")
    served = behind(serve, home, peer, ["shelf"], guard=GuardSettings(filters=({"secrets": {}},)))
    async with talking(served) as client:
        result = await client.call_tool("shelf-picture", {})
    assert result.content[0].data == PNG  # type: ignore[union-attr]


# -- changes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["auto", "legacy"])
async def test_a_list_that_changes_is_reported(serve: Serve, home: Path, version: str) -> None:
    with running() as url:
        served = behind(serve, home, McpPeer(url, name="shelf", version=version), {"shelf": {"refresh": 0.2}})
        async with talking(served, "2026-07-28") as client, asyncio.timeout(DEADLINE):
            async with client.listen(tools_list_changed=True) as stream:
                await client.call_tool("shelf-grow", {})
                async for event in stream:
                    assert event == ToolsListChanged()
                    if "shelf-new8" in await named(client):
                        break


async def test_a_dead_server_is_unavailable_and_comes_back(serve: Serve, home: Path) -> None:
    port = free_port()
    with running(port=port) as url:
        served = behind(serve, home, McpPeer(url, name="shelf"), {"shelf": {"refresh": 0.2}})
        async with talking(served) as client:
            assert result_of(await client.call_tool("shelf-lookup", {"number": 1})) == FOUND
    async with talking(served) as client:
        result = await client.call_tool("shelf-lookup", {"number": 1})
        assert result.is_error
        assert "shelf-lookup is unavailable: shelf: " in str(result.content)
        assert str(port) not in str(result.content)
        assert {"echo", "shelf-lookup"} <= (await named(client)).keys()
        with running(port=port):
            async with asyncio.timeout(DEADLINE):
                while (result := await client.call_tool("shelf-lookup", {"number": 1})).is_error:
                    await asyncio.sleep(0.1)
            assert result_of(result) == FOUND


async def test_one_that_is_dead_at_the_start_appears_later(serve: Serve, home: Path) -> None:
    port = free_port()
    peer = McpPeer(f"http://127.0.0.1:{port}/mcp", name="shelf")
    served = serve(Gateway(echo, peer, home=home, doors={"mcp": {"expose": {"shelf": {"refresh": 0.2}}}}))
    async with talking(served) as client:
        assert sorted(await named(client)) == ["echo"]
        with running(port=port):
            async with asyncio.timeout(DEADLINE):
                while "shelf-lookup" not in await named(client):
                    await asyncio.sleep(0.1)
