"""Clients are notified of changes: sessions on the stream they opened, from 2026-07-28 on those that listen."""

from __future__ import annotations

import asyncio
import signal
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
from mcp.shared.subscriptions import ResourceUpdated, ToolsListChanged

from callers import ByName
from conftest import Served, serving
from deadline import DEADLINE
from sabir.agent import agent
from sabir.card import Card, Skill
from sabir.errors import Unauthenticated
from sabir.events import Progress
from sabir.gateway.gateway import Gateway
from sabir.guard import Authenticator, Credentials
from sabir.message import Message, Part, token_part
from sabir.protocols.mcp.door import streamable_http
from sabir.protocols.nlip.wire import json as nlip
from sabir.turn import Caller, Turn

URI = "notes://today"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    doors: list[Any] = []

    @agent(description="Changes things")
    async def changer(turn: Turn) -> str:
        await doors[0].changed(turn.text) if "://" not in turn.text else await doors[0].updated(turn.text)
        return "told"

    @agent(description="Writes notes")
    async def talker(turn: Turn) -> Any:
        yield Progress(note="a note")
        yield "done"

    skills = (Skill(URI, "Today", "Today's notes", ("resource",), output_schema={"contentMediaType": "text/plain"}),)

    @agent(card=Card("notes", "Keeps notes", skills=skills))
    async def notes(turn: Turn) -> str:
        return "nothing yet"

    home: Path = tmp_path_factory.mktemp("changes")
    gateway = Gateway(changer, talker, notes, home=home, store="memory:")
    doors.append(next(door for door in gateway.doors if door.name == "mcp"))
    with serving(gateway) as served:
        yield served


class Heard:
    """What a client of a session hears."""

    def __init__(self) -> None:
        self.messages: list[Any] = []

    async def __call__(self, message: Any) -> None:
        self.messages.append(message)

    async def wait(self, kind: type) -> Any:
        async with asyncio.timeout(DEADLINE):
            while True:
                found = [message for message in self.messages if isinstance(message, kind)]
                if found:
                    return found[0]
                await asyncio.sleep(0.01)


async def listening(served: Served) -> None:
    """Until a session has its stream open."""
    door = next(door for door in served.gateway.doors if door.name == "mcp")
    async with asyncio.timeout(DEADLINE):
        while not any(session.stream is not None for session in door.app.sessions.values()):  # type: ignore[attr-defined]
            await asyncio.sleep(0.01)


async def test_a_session_is_notified_that_the_tools_have_changed(served: Served) -> None:
    heard = Heard()
    async with Client(f"{served.url}/mcp", mode="legacy", message_handler=heard) as client:
        await listening(served)
        await client.call_tool("changer", {"text": "tools"})
        await heard.wait(types.ToolListChangedNotification)


async def test_a_session_is_only_notified_of_what_it_subscribed_to(served: Served) -> None:
    heard = Heard()
    async with Client(f"{served.url}/mcp", mode="legacy", message_handler=heard) as client:
        await listening(served)
        await client.session.send_request(
            types.SubscribeRequest(params=types.SubscribeRequestParams(uri=URI)), types.EmptyResult
        )
        await client.call_tool("changer", {"text": "notes://other"})
        await client.call_tool("changer", {"text": URI})
        updated = await heard.wait(types.ResourceUpdatedNotification)
        assert updated.params.uri == URI
        text = (await client.read_resource(URI)).contents[0]
        assert text.text == "nothing yet"  # type: ignore[union-attr]


async def test_listeners_are_notified_of_what_they_asked_for(served: Served) -> None:
    async with Client(f"{served.url}/mcp", mode="2026-07-28") as client, asyncio.timeout(DEADLINE):
        async with client.listen(tools_list_changed=True, resource_subscriptions=[URI]) as stream:
            await client.call_tool("changer", {"text": "prompts"})
            await client.call_tool("changer", {"text": "tools"})
            await client.call_tool("changer", {"text": URI})
            heard = []
            async for event in stream:
                heard.append(event)
                if len(heard) == 2:
                    break
    assert heard == [ToolsListChanged(), ResourceUpdated(URI)]


# -- resources of the gateway ---------------------------------------------------------------------


@pytest.fixture
def known(home: Path) -> Iterator[Served]:
    """A gateway whose callers have names, and so conversations of their own."""

    @agent(description="Repeats")
    async def parrot(turn: Turn) -> str:
        return turn.text

    with serving(Gateway(parrot, home=home, store="memory:", identity=Authenticator([ByName()]))) as served:
        yield served


@asynccontextmanager
async def client_of(served: Served, who: str, mode: str, heard: Any = None) -> AsyncIterator[Client]:
    async with httpx2.AsyncClient(headers={"authorization": f"Bearer {who}"}) as http:
        transport = streamable_http_client(f"{served.url}/mcp", http_client=http)
        async with Client(transport, mode=mode, message_handler=heard, cache=None) as client:
            yield client


async def spoken(client: Client) -> tuple[str, str]:
    """A conversation: its address as a resource, and its token."""
    result = await client.call_tool("parrot", {"text": "one"})
    listed = (await client.list_resources()).resources
    return str(listed[0].uri), result.structured_content["conversation"]


async def by_nlip(served: Served, who: str, token: str) -> None:
    """Go on with the conversation by another door."""
    said = nlip.encode(Message.text("two", parts=(token_part(token),)))
    async with httpx2.AsyncClient(headers={"authorization": f"Bearer {who}"}) as http:
        (await http.post(f"{served.url}/nlip", content=said)).raise_for_status()


async def test_a_session_is_notified_of_turns_elsewhere_in_its_conversation(known: Served) -> None:
    heard = Heard()
    async with client_of(known, "ada", "legacy", heard) as client:
        await listening(known)
        uri, token = await spoken(client)
        subscribe = types.SubscribeRequest(params=types.SubscribeRequestParams(uri=uri))
        await client.session.send_request(subscribe, types.EmptyResult)
        await by_nlip(known, "ada", token)
        assert (await heard.wait(types.ResourceUpdatedNotification)).params.uri == uri
        async with client_of(known, "bob", "legacy") as other:
            with pytest.raises(MCPError, match="resource not found"):
                await other.session.send_request(subscribe, types.EmptyResult)


async def test_only_listeners_are_notified_of_new_turns_of_a_conversation(known: Served) -> None:
    async with client_of(known, "ada", "2026-07-28") as client, asyncio.timeout(DEADLINE):
        uri, token = await spoken(client)
        async with client.listen(resource_subscriptions=[uri]) as stream:
            async with client_of(known, "bob", "2026-07-28") as other:
                async with other.listen(tools_list_changed=True, resource_subscriptions=[uri]) as theirs:
                    await by_nlip(known, "ada", token)
                    assert await anext(aiter(stream)) == ResourceUpdated(uri)
                    door = next(door for door in known.gateway.doors if door.name == "mcp")
                    asyncio.run_coroutine_threadsafe(door.changed("tools"), known.server.loop).result(DEADLINE)  # type: ignore[attr-defined]
                    assert await anext(aiter(theirs)) == ToolsListChanged()  # and nothing before it


@pytest.mark.parametrize(("level", "text"), [("debug", True), ("error", False)])
async def test_the_log_level_of_a_session_is_kept_to(served: Served, level: Any, text: bool) -> None:
    heard = Heard()
    async with Client(f"{served.url}/mcp", mode="legacy", message_handler=heard) as client:
        await client.session.send_request(
            types.SetLevelRequest(params=types.SetLevelRequestParams(level=level)), types.EmptyResult
        )
        await client.call_tool("talker", {"text": "go"})
    notes = [message for message in heard.messages if isinstance(message, types.LoggingMessageNotification)]
    assert [note.params.data for note in notes] == (["a note"] if text else [])


async def test_an_open_stream_ends_when_the_gateway_begins_to_stop(home: Path) -> None:
    @agent(description="Repeats")
    async def parrot(turn: Turn) -> str:
        return turn.text

    headers = {"accept": "application/json, text/event-stream"}
    answer = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": answer}
    with serving(Gateway(parrot, home=home, store="memory:")) as served:
        async with httpx2.AsyncClient(headers=headers) as http:
            session = (await http.post(f"{served.url}/mcp", json=body)).headers["mcp-session-id"]
            async with http.stream("GET", f"{served.url}/mcp", headers={"mcp-session-id": session}) as stream:
                chunks = stream.aiter_raw()
                assert b"still here" in await anext(chunks)
                served.server.handle_exit(signal.SIGTERM, None)
                async with asyncio.timeout(DEADLINE):
                    assert [chunk async for chunk in chunks] == []


class Revocable(ByName):
    """Believes names until they are revoked."""

    revoked = False

    async def verify(self, credentials: Credentials, tokens: tuple[Part, ...]) -> Caller | None:
        if self.revoked:
            raise Unauthenticated("unknown key")
        return await super().verify(credentials, tokens)


async def test_an_open_stream_ends_when_the_key_of_its_caller_is_revoked(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streamable_http, "KEEP_ALIVE", 0.05)

    @agent(description="Repeats")
    async def parrot(turn: Turn) -> str:
        return turn.text

    headers = {"accept": "application/json, text/event-stream", "authorization": "Bearer ada"}
    answer = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": answer}
    keys = Revocable()
    with serving(Gateway(parrot, home=home, store="memory:", identity=Authenticator((keys,)))) as served:
        async with httpx2.AsyncClient(headers=headers) as http:
            session = (await http.post(f"{served.url}/mcp", json=body)).headers["mcp-session-id"]
            async with http.stream("GET", f"{served.url}/mcp", headers={"mcp-session-id": session}) as stream:
                chunks = stream.aiter_raw()
                for _ in range(3):
                    assert b"still here" in await anext(chunks)
                keys.revoked = True
                async with asyncio.timeout(DEADLINE):
                    assert b"data:" not in b"".join([chunk async for chunk in chunks])
