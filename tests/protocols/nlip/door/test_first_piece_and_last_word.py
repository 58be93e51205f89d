"""The first piece arrives before the agent has finished; a disconnect frees the agent within a second."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from websockets.asyncio.client import connect

from conftest import Serve, Served
from deadline import DEADLINE
from sabir.agent import agent
from sabir.gateway.gateway import Gateway
from sabir.message import Message, json_part, token_part
from sabir.protocols.nlip.wire import json as nlip
from sabir.turn import Turn

SECOND = 1.0


class Slow:
    """An agent that says a word, and then waits until it is let go on or is cancelled."""

    def __init__(self) -> None:
        self.started, self.go_on, self.freed = threading.Event(), threading.Event(), threading.Event()
        self.finished = False
        self.freed_at = 0.0

        @agent(name="slow")
        async def slow(turn: Turn) -> AsyncIterator[Any]:
            try:
                yield "first "
                self.started.set()
                while not self.go_on.is_set():
                    await asyncio.sleep(0.01)
                self.finished = True
                yield "last"
            finally:
                self.freed_at = time.monotonic()
                self.freed.set()

        self.agent = slow


@pytest.fixture
def slow() -> Slow:
    return Slow()


@pytest.fixture
def served(serve: Serve, home: Path, slow: Slow) -> Served:
    return serve(Gateway(slow.agent, home=home))


async def until(event: threading.Event) -> None:
    assert await asyncio.to_thread(event.wait, DEADLINE)


def say(text: str = "go") -> bytes:
    return nlip.encode(Message.text(text))


async def test_the_first_event_comes_before_the_agent_has_finished(served: Served, slow: Slow) -> None:  # D-34
    async with (
        httpx2.AsyncClient(trust_env=False) as http,
        http.stream("POST", f"{served.url}/nlip", content=say(), headers={"accept": "text/event-stream"}) as got,
    ):
        lines = got.aiter_lines()
        first = [await anext(lines), await anext(lines)]
        assert first[0] == "event: partial" and "first " in first[1]
        assert not slow.finished
        slow.go_on.set()
        rest = [line async for line in lines]
    assert slow.finished
    assert any("first last" in line for line in rest)


async def test_the_first_partial_message_comes_before_the_agent_has_finished(
    served: Served, slow: Slow
) -> None:  # D-34, WebSocket
    async with connect(f"{served.ws_url}/nlip/ws/text") as socket:
        wish = Message.text("Please stream", messagetype="control", parts=[json_part({"on": True}, label="stream")])
        await socket.send(nlip.encode(wish).decode())
        agreed = nlip.decode(str(await socket.recv()).encode())
        [own] = [part for part in agreed.tokens if part.subformat == "conversation"]
        await socket.send(nlip.encode(Message.text("go").with_part(token_part(own.content))).decode())
        first = nlip.decode(str(await socket.recv()).encode())
        assert first.messagetype == "partial" and "first " in first.text
        assert not slow.finished
        slow.go_on.set()
        last = first
        while last.messagetype == "partial":
            last = nlip.decode(str(await socket.recv()).encode())
    assert last.text == "first last"


async def leave_plain(served: Served, slow: Slow) -> None:
    _, writer = await asyncio.open_connection(served.host, served.port)
    head = f"POST /nlip HTTP/1.1\r\nhost: {served.host}\r\ncontent-length: {len(say())}\r\n\r\n"
    writer.write(head.encode() + say())
    await until(slow.started)
    writer.close()
    await writer.wait_closed()


async def leave_stream(served: Served, slow: Slow) -> None:
    async with (
        httpx2.AsyncClient(trust_env=False) as http,
        http.stream("POST", f"{served.url}/nlip", content=say(), headers={"accept": "text/event-stream"}) as got,
    ):
        await anext(got.aiter_lines())
        await until(slow.started)


async def leave_websocket(served: Served, slow: Slow) -> None:
    async with connect(f"{served.ws_url}/nlip/ws/text") as socket:
        await socket.send(say().decode())
        await until(slow.started)


async def delete_the_task(served: Served, slow: Slow) -> None:
    async with httpx2.AsyncClient(trust_env=False) as http:
        taken = await http.post(f"{served.url}/nlip", content=say(), headers={"prefer": "respond-async"})
        assert taken.status_code == 202
        await until(slow.started)
        gone = await http.delete(served.url + taken.headers["location"])
        state = nlip.decode(gone.content).labelled("progress")
        assert gone.status_code == 200 and state is not None and state.value == {"state": "cancelled"}
        again = await http.delete(served.url + taken.headers["location"])
        assert again.status_code == 409 and "already ended (cancelled)" in nlip.decode(again.content).text


async def take_back_by_control(served: Served, slow: Slow) -> None:
    async with httpx2.AsyncClient(trust_env=False) as http:
        taken = await http.post(f"{served.url}/nlip", content=say(), headers={"prefer": "respond-async"})
        await until(slow.started)
        own = nlip.decode(taken.content).tokens[-1]
        message = Message.text("Please stop that", messagetype="control").with_part(token_part(own.content))
        answer = await http.post(f"{served.url}/nlip", content=nlip.encode(message))
        details = nlip.decode(answer.content).labelled("cancel")
        assert details is not None and details.value == {"cancelled": True}


WAYS = [leave_plain, leave_stream, leave_websocket, delete_the_task, take_back_by_control]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
async def test_cancelling_frees_the_agent_within_a_second(served: Served, slow: Slow, way: Any) -> None:
    waiting = asyncio.create_task(way(served, slow))
    await until(slow.started)
    began = time.monotonic()
    await waiting
    await until(slow.freed)
    assert not slow.finished
    assert slow.freed_at - began < SECOND
    print(f"{way.__name__}: freed after {1000 * (slow.freed_at - began):.0f} ms")
