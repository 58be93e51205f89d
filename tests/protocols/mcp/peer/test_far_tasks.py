"""Slow tools of remote servers: remote tasks, followed, answered and ended by our peer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from deadline import DEADLINE
from free_ports import free_port
from mcp_servers.oven_server import Oven, running
from mcp_servers.shelf_server import running as shelf_running
from sabir.errors import PeerUnavailable
from sabir.events import Event, Progress, Question, Reply
from sabir.message import Message, json_part
from sabir.protocols.mcp.peer.peer import McpPeer
from sabir.turn import Turn

MODES = ["auto", "legacy"]


@pytest.fixture
def oven() -> Oven:
    return Oven()


@pytest.fixture
def url(oven: Oven) -> Iterator[str]:
    with running(oven) as url:
        yield url


async def until(holds: Callable[[], Any]) -> None:
    async with asyncio.timeout(DEADLINE):
        while not holds():
            await asyncio.sleep(0.02)


def call_of(tool: str) -> Message:
    return Message.of(json_part({}, label=tool))


async def answered(peer: McpPeer, tool: str, **about: Any) -> list[Event]:
    return [event async for event in peer(Turn(call_of(tool), **about))]


@pytest.mark.parametrize("mode", MODES)
async def test_a_tool_that_is_a_task_is_followed_to_its_end(oven: Oven, url: str, mode: str) -> None:
    async with McpPeer(url, name="oven", version=mode) as peer:
        await peer.refresh()
        assert (await peer.call("bake", {})).text == "bake: done"
        assert (oven.begun, oven.calls) == (["bake"], [])


@pytest.mark.parametrize("mode", MODES)
async def test_a_task_may_take_longer_than_an_answer_may(oven: Oven, url: str, mode: str) -> None:
    oven.seconds = 4.0
    async with McpPeer(url, name="oven", version=mode, seconds=2.0) as peer:
        (reply,) = await answered(peer, "bake")
        assert isinstance(reply, Reply) and reply.message.text == "bake: done"
        with pytest.raises(PeerUnavailable, match="in time"):
            await peer.call("bake", {})  # nobody said that there is more time


@pytest.mark.parametrize("mode", MODES)
async def test_what_a_task_asks_is_asked_of_our_caller(oven: Oven, url: str, mode: str) -> None:
    asked: list[str] = []

    async def answer(question: Question) -> Message:
        asked.append(question.text)
        await asyncio.sleep(2.2)  # longer than the server may be silent
        return Message.text("", parts=(json_part({"size": "large"}, label="answer"),))

    async with McpPeer(url, name="oven", version=mode, seconds=2.0) as peer:
        (reply,) = await answered(peer, "cut", ask_back=answer)
        assert isinstance(reply, Reply) and reply.message.text == "cut: large"
        assert asked == ["Which size?"]


@pytest.mark.parametrize("mode", MODES)
async def test_leaving_ends_the_remote_task(oven: Oven, url: str, mode: str) -> None:
    oven.seconds = 600
    async with McpPeer(url, name="oven", version=mode) as peer:
        await peer.refresh()
        calling = asyncio.create_task(peer.call("bake", {}))
        await until(lambda: oven.asked_about)
        calling.cancel()
        await until(lambda: oven.cancelled == ["task-0"])


async def test_a_tool_that_may_be_a_task_is_one_where_our_turn_is(oven: Oven, url: str) -> None:
    async with McpPeer(url, name="oven", version="legacy") as peer:
        await peer.refresh()
        assert (await peer.call("warm", {})).text == "warm"
        assert (oven.begun, oven.calls) == ([], ["warm"])
        assert (await peer.call("warm", {}, left=lambda: 3600.0)).text == "warm: done"
        assert (oven.begun, oven.calls) == (["warm"], ["warm"])


async def test_a_task_is_found_again_after_a_restart_of_its_server(oven: Oven) -> None:
    oven.seconds = 1.0
    port = free_port()
    async with McpPeer(f"http://127.0.0.1:{port}/mcp", name="oven") as peer:
        with running(oven, port):
            await peer.refresh()
            calling = asyncio.create_task(peer.call("bake", {}))
            await until(lambda: oven.begun)
        with running(oven, port):
            assert (await calling).text == "bake: done"


async def test_a_tool_that_says_how_far_it_is_may_take_longer() -> None:
    """The shelf's slow tool tells its progress once; from then on it has its time anew."""
    with shelf_running() as url:
        async with McpPeer(url, name="shelf", seconds=1.0) as peer:
            events: list[Event] = []
            began = asyncio.get_running_loop().time()
            with pytest.raises(PeerUnavailable, match="in time"):
                await peer.call("slow", {}, on_event=events.append, left=lambda: 60.0)
            assert isinstance(events[0], Progress)
            assert asyncio.get_running_loop().time() - began >= 1.0


async def test_a_turn_that_outlives_its_request_waits_for_a_silent_tool(oven: Oven, url: str) -> None:
    oven.seconds = 3.0
    async with McpPeer(url, name="oven", version="legacy", seconds=1.0) as peer:
        await peer.refresh()
        peer.tools["warm"].pop("execution")  # a tool that cannot be a task
        assert (await peer.call("warm", {}, left=lambda: 3600.0)).text == "warm"
        assert oven.calls == ["warm"]
        with pytest.raises(PeerUnavailable, match="in time"):
            await peer.call("warm", {}, left=lambda: 60.0)
