"""What is agreed by control holds for work that outlives its request, too: before it is stored, and until it ends."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from conftest import Serve
from deadline import DEADLINE
from sabir.agent import agent
from sabir.card import Policy
from sabir.gateway.gateway import Gateway
from sabir.message import Message, Part, json_part, token_part
from sabir.protocols.nlip.wire import json as nlip
from sabir.turn import Turn

SECRET = "the-words-that-must-not-be-kept"
CAREFUL = Policy("privacy", "I keep notes.", required=True)


@pytest.fixture
async def http() -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(trust_env=False) as client:
        yield client


def written(home: Path) -> bytes:
    """Everything that the gateway has written, its write-ahead log too."""
    return b"".join(path.read_bytes() for path in home.rglob("*") if path.is_file())


class Later:
    """A client that asks for answers later; keeps our token as clients do (D-17)."""

    def __init__(self, http: httpx2.AsyncClient, url: str) -> None:
        self.http, self.url = http, url
        self.tokens: tuple[Part, ...] = ()

    async def post(self, message: Message, **headers: str) -> tuple[httpx2.Response, Message]:
        body = nlip.encode(message.with_parts(self.tokens))
        answer = await self.http.post(f"{self.url}/nlip", content=body, headers=headers)
        reply = nlip.decode(answer.content)
        own = [part for part in reply.tokens if part.subformat == "conversation"]
        self.tokens = (token_part(own[-1].content),) if own else self.tokens
        return answer, reply

    async def submit(self, text: str) -> str:
        answer, _ = await self.post(Message.text(text), prefer="respond-async")
        assert answer.status_code == 202, answer.text
        return answer.headers["location"]

    async def control(self, label: str, value: object) -> object:
        said = Message.text("", messagetype="control", parts=[json_part(value, label=label)])
        part = (await self.post(said))[1].labelled(label)
        assert part is not None
        return part.value

    async def look(self, place: str, seconds: int = 10) -> httpx2.Response:
        return await self.http.get(self.url + place, headers={"prefer": f"wait={seconds}"}, timeout=seconds + 5)


async def test_nothing_is_stored_before_a_required_policy_is_accepted(  # TR-7.1.5.1
    serve: Serve, home: Path, http: httpx2.AsyncClient
) -> None:
    heard: list[str] = []

    @agent(name="careful", policies=(CAREFUL,))
    async def careful(turn: Turn) -> str:
        heard.append(turn.text)
        return "noted"

    client = Later(http, serve(Gateway(careful, home=home)).url)
    for preference in ("respond-async", "wait=5", "respond-async, wait=5"):
        answer, reply = await client.post(Message.text(SECRET), prefer=preference)
        assert answer.status_code == 403
        assert "privacy" in reply.text
    assert heard == []
    assert SECRET.encode() not in written(home)
    await client.control("policy", {"accept": ["privacy"], "confirmed": True})
    place = await client.submit(SECRET)
    assert nlip.decode((await client.look(place)).content).text == "noted"
    assert heard == [SECRET]


async def test_a_task_in_an_anonymous_conversation_keeps_no_address(  # PAPER-ANON
    serve: Serve, home: Path, http: httpx2.AsyncClient
) -> None:
    seen: list[Turn] = []

    @agent(name="listener")
    async def listener(turn: Turn) -> str:
        seen.append(turn)
        return "heard"

    gateway = Gateway(listener, home=home)
    client = Later(http, serve(gateway).url)
    assert await client.control("anonymous", {"propose": True}) == {"anonymous": True, "accepted": True}
    trace = "00-" + "a" * 32 + "-" + "b" * 16 + "-01"
    answer, _ = await client.post(Message.text("hi"), prefer="respond-async", traceparent=trace)
    assert answer.status_code == 202
    assert (await client.look(answer.headers["location"])).status_code == 200
    assert (seen[0].caller.address, seen[0].trace) == ("", None)
    task = await gateway.store.task(answer.headers["location"].rpartition("/")[2])
    assert task is not None
    assert task.detail["caller"] == {}
    assert task.detail["trace"] is None
    assert b"127.0.0.1" not in written(home)


class Work:
    """An agent that never ends by itself, and tells when it began and when it was stopped."""

    def __init__(self) -> None:
        self.started, self.stopped = threading.Event(), threading.Event()
        self.calls = 0

        @agent(name="worker")
        async def worker(turn: Turn) -> str:
            if turn.text == "quick":
                return "done"
            self.calls += 1
            self.started.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.stopped.set()
            return "never"

        self.agent = worker


async def test_cancel_reaches_a_task_and_the_messages_that_wait_behind_it(
    serve: Serve, home: Path, http: httpx2.AsyncClient
) -> None:
    work = Work()
    client = Later(http, serve(Gateway(work.agent, home=home)).url)
    running = await client.submit("long")
    assert client.tokens, "202 names the conversation, so that it can be talked about (D-16)"
    waiting = await client.submit("long too")
    assert await asyncio.to_thread(work.started.wait, DEADLINE)
    assert await client.control("cancel", {}) == {"cancelled": True}
    assert work.stopped.is_set()
    for place in (running, waiting):
        gone = await client.look(place)
        assert gone.status_code == 409
        assert "cancelled" in gone.text
    assert work.calls == 1
    assert await client.control("cancel", {}) == {"cancelled": False}
    assert nlip.decode((await client.look(await client.submit("quick"))).content).text == "done"


async def test_cancel_leaves_the_work_of_other_conversations_alone(
    serve: Serve, home: Path, http: httpx2.AsyncClient
) -> None:
    work = Work()
    url = serve(Gateway(work.agent, home=home)).url
    one, other = Later(http, url), Later(http, url)
    place = await one.submit("long")
    assert await asyncio.to_thread(work.started.wait, DEADLINE)
    assert await other.control("cancel", {}) == {"cancelled": False}
    assert not work.stopped.is_set()
    assert (await one.look(place, 0)).status_code == 202
    await one.control("cancel", {})


async def test_erasing_also_removes_tasks_and_uploads(  # SEC-P2.6
    serve: Serve, home: Path, http: httpx2.AsyncClient
) -> None:
    work = Work()
    url = serve(Gateway(work.agent, home=home)).url
    client, other = Later(http, url), Later(http, url)
    done, kept = await client.submit("quick"), await other.submit("quick")
    assert (await client.look(done)).status_code == (await other.look(kept)).status_code == 200
    asked = Message.text("", messagetype="control", parts=[json_part({}, label="upload")])
    place = (await client.post(asked))[1].labelled("upload")
    assert place is not None
    assert (await http.put(str(place.content), content=b"a secret")).status_code == 201
    running = await client.submit("long")
    await client.control("cancel", {})  # the conversation is its own until then
    assert await client.control("sessions", {"erase": True, "confirmed": True}) == {"ended": True, "erased": True}
    assert (await client.look(done)).status_code == 404
    assert (await client.look(running)).status_code == 404
    assert (await http.get(str(place.content))).status_code == 404
    assert not any((home / "uploads").iterdir())
    assert (await other.look(kept)).status_code == 200


async def test_credentials_are_returned_with_prefer_wait(  # CORE-6.2
    serve: Serve, home: Path, http: httpx2.AsyncClient
) -> None:
    work = Work()
    client = Later(http, serve(Gateway(work.agent, home=home)).url)
    token = token_part("abc", "authentication_other")
    answer, reply = await client.post(Message.text("quick").with_part(token), prefer="wait=10")
    assert answer.status_code == 200
    assert [part for part in reply.tokens if part.subformat == "authentication_other"] == [token]
    assert len([part for part in reply.tokens if part.subformat == "conversation"]) == 1
