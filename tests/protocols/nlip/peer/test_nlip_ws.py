"""The NLIP peer over WebSocket: against our own door, and against servers that behave as others do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection
from websockets.asyncio.server import serve as serve_ws

from conftest import Serve
from deadline import DEADLINE
from sabir.agent import agent, reply_of
from sabir.errors import ConfigError, PeerRefused, PeerUnavailable, PeerUnreadable
from sabir.events import Delta, Reply
from sabir.gateway.gateway import Gateway
from sabir.guard.egress.credentials import OutgoingCredentials
from sabir.message import Message, binary_part
from sabir.protocols.connect import connect
from sabir.protocols.nlip.peer.websocket import NlipWsPeer
from sabir.protocols.nlip.wire import cbor
from sabir.protocols.nlip.wire import json as nlip
from sabir.protocols.peer import Identity
from sabir.turn import Caller, Conversation, Turn


@agent(name="counting")
async def counting(turn: Turn) -> str:
    size = sum(len(part.content) for part in turn.parts if part.format == "binary")
    return f"{turn.text}, after {len(turn.conversation.turns)}, {size} bytes"


@agent(name="pieces")
async def pieces(turn: Turn) -> Any:
    for word in ("one ", "two ", "three"):
        yield word


@pytest.mark.parametrize("path", ["", "/nlip/ws", "/nlip/ws/text", "/nlip/counting/ws"])
async def test_a_conversation_continues_over_one_connection(serve: Serve, home: Path, path: str) -> None:
    served = serve(Gateway(counting, home=home))
    async with connect(served.ws_url + path) as peer:
        assert (await peer.ask("hi")).text == "hi, after 0, 0 bytes"
        message = Message.text("again").with_part(binary_part(bytes(100_000), "image/png"))
        assert (await peer.ask(message)).text == "again, after 1, 100000 bytes"


async def test_pieces_come_before_the_answer(serve: Serve, home: Path) -> None:  # D-34
    served = serve(Gateway(pieces, home=home))
    async with connect(served.ws_url) as peer:
        events = [event async for event in peer.stream("go")]
    assert events == [Delta.text("one "), Delta.text("two "), Delta.text("three"), Reply(Message.text("one two three"))]


Answer = Callable[[ServerConnection], Awaitable[None]]


@asynccontextmanager
async def ws_server(answer: Answer, **options: Any):  # type: ignore[no-untyped-def]
    async with serve_ws(answer, "127.0.0.1", 0, **options) as server:
        yield f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_answers_find_their_questions_by_our_token_in_any_order() -> None:  # CORE-6.2
    async def backwards(socket: ServerConnection) -> None:
        two = [cbor.decode(await socket.recv()), cbor.decode(await socket.recv())]  # type: ignore[arg-type]
        for message in reversed(two):
            await socket.send(cbor.encode(Message.text(f"to {message.text}").with_parts(message.tokens)))

    async with ws_server(backwards) as url, NlipWsPeer(url) as peer:
        link = await peer.link({})
        await link.connected()
        link.streams = True  # this server is not asked for pieces
        turns = [Turn(Message.text(word), Conversation(word)) for word in ("a", "b")]
        assert [(await reply).text for reply in [asyncio.create_task(reply_of(peer(turn))) for turn in turns]] == [
            "to a",
            "to b",
        ]


async def test_a_late_answer_is_not_taken_for_the_next_one() -> None:
    release = asyncio.Event()

    async def slow_first(socket: ServerConnection) -> None:
        first = cbor.decode(await socket.recv())  # type: ignore[arg-type]
        second = cbor.decode(await socket.recv())  # type: ignore[arg-type]
        for message in (first, second):
            await socket.send(cbor.encode(Message.text(f"to {message.text}").with_parts(message.tokens)))
        release.set()

    async with ws_server(slow_first) as url, NlipWsPeer(url) as peer:
        with pytest.raises(PeerUnavailable, match="in time"):
            await peer.ask("first", seconds=0.1)
        assert (await peer.ask("second")).text == "to second"


async def test_a_server_without_cbor_is_spoken_to_in_text_frames() -> None:  # WS-6.1, WS-11
    paths: list[str] = []

    async def only_text(socket: ServerConnection) -> None:
        assert socket.request is not None
        paths.append(socket.request.path)
        async for frame in socket:
            if isinstance(frame, bytes):
                error = Message.error("CBOR decoding failed. Please fall back to the text endpoint.")
                await socket.send(nlip.encode(error).decode())
            else:
                message = nlip.decode(frame.encode())
                await socket.send(nlip.encode(Message.text("read").with_parts(message.tokens)).decode())

    async with ws_server(only_text) as url, NlipWsPeer(url) as peer:
        assert (await peer.ask("one")).text == "read"
        assert (await peer.ask("two")).text == "read"
    assert paths == ["/nlip/ws", "/nlip/ws/text"]


async def test_a_lost_connection_ends_the_question_and_the_next_one_opens_another() -> None:
    async def once(socket: ServerConnection) -> None:
        message = cbor.decode(await socket.recv())  # type: ignore[arg-type]
        if message.text == "die":
            await socket.close(1011, "sorry")
        else:
            await socket.send(cbor.encode(Message.text("ok").with_parts(message.tokens)))
            await socket.wait_closed()

    async with ws_server(once) as url, NlipWsPeer(url) as peer:
        with pytest.raises(PeerUnavailable, match="1011 sorry"):
            await peer.ask("die")
        assert (await peer.ask("live")).text == "ok"


async def test_frames_that_are_not_nlip_are_reported() -> None:
    async def noise(socket: ServerConnection) -> None:
        await socket.recv()
        await socket.send(b"\xff\x00")
        await socket.wait_closed()

    async with ws_server(noise) as url, NlipWsPeer(url) as peer:
        with pytest.raises(PeerUnreadable, match="not an NLIP message"):
            await peer.ask("hi")


async def test_401_to_the_handshake_is_answered_from_the_identities() -> None:
    shown: list[str | None] = []

    def locked(socket: ServerConnection, request: Any) -> Any:
        shown.append(request.headers.get("authorization"))
        if shown[-1] == "Bearer blue":
            return None
        response = socket.respond(401, "who?")
        response.headers["www-authenticate"] = "Bearer"
        return response

    async def answer(socket: ServerConnection) -> None:
        message = cbor.decode(await socket.recv())  # type: ignore[arg-type]
        await socket.send(cbor.encode(Message.text("in").with_parts(message.tokens)))
        await socket.wait_closed()

    async with ws_server(answer, process_request=locked) as url:
        mine = (Identity(url.replace("ws", "http", 1), "Bearer blue"),)
        async with NlipWsPeer(url, identities=mine) as peer:
            assert (await peer.ask("hi")).text == "in"
            assert await peer.propose_anonymous("x") == "its connection shows who we are"
        async with NlipWsPeer(url) as peer:
            with pytest.raises(PeerRefused) as refused:
                await peer.ask("hi")
    assert refused.value.status == 401
    assert shown == [None, "Bearer blue", None]


async def test_each_caller_is_shown_on_a_connection_of_its_own() -> None:
    shown: list[str | None] = []

    def note(socket: ServerConnection, request: Any) -> None:
        shown.append(request.headers.get("authorization"))

    async def answer(socket: ServerConnection) -> None:
        mine = socket.request.headers.get("authorization") if socket.request else None
        async for frame in socket:
            message = cbor.decode(frame)  # type: ignore[arg-type]
            await socket.send(cbor.encode(Message.text(f"{mine}").with_parts(message.tokens)))

    class Exchanged(OutgoingCredentials):
        async def headers(self, url: str, caller: Caller) -> dict[str, str]:
            return {"authorization": f"Bearer for-{caller.id}"} if not caller.is_anonymous else {}

    async with ws_server(answer, process_request=note) as url, NlipWsPeer(url) as peer:
        peer.outgoing = Exchanged()
        callers = [Caller("alice", "subject"), Caller("bob", "subject"), Caller(), Caller("alice", "subject")]
        answers = [
            (await reply_of(peer(Turn(Message.text("hi"), Conversation(f"{n}"), caller)))).text
            for n, caller in enumerate(callers)
        ]
    assert answers == ["Bearer for-alice", "Bearer for-bob", "None", "Bearer for-alice"]
    assert shown == ["Bearer for-alice", "Bearer for-bob", None]


async def test_credentials_do_not_follow_a_redirect() -> None:
    asked: list[str | None] = []

    async def never(socket: ServerConnection) -> None:
        await socket.wait_closed()

    def elsewhere(socket: ServerConnection, request: Any) -> None:
        asked.append(request.headers.get("authorization"))

    async with ws_server(never, process_request=elsewhere) as trap:

        def away(socket: ServerConnection, request: Any) -> Any:
            response = socket.respond(302, "")
            response.headers["location"] = trap
            return response

        async with ws_server(never, process_request=away) as url:
            mine = (Identity(url.replace("ws", "http", 1), "Bearer blue", at_once=True),)
            async with NlipWsPeer(url, identities=mine) as peer:
                with pytest.raises(PeerRefused, match="302"):
                    await peer.ask("hi")
    assert asked == []


async def test_refused_connections_and_invalid_addresses_are_reported() -> None:
    async with NlipWsPeer("ws://127.0.0.1:1") as peer:
        with pytest.raises(PeerUnavailable, match="connection refused"):
            await peer.ask("hi")
    with pytest.raises(ConfigError, match="is not a ws or wss address"):
        NlipWsPeer("http://127.0.0.1")


# -- what belongs to one turn --------------------------------------------------------------------------


def traces(*numbers: int) -> list[str]:
    return [f"00-{number:032x}-{number:016x}-01" for number in numbers]


@pytest.mark.parametrize("path", ["/nlip/ws", "/nlip/ws/text"])
async def test_turns_that_share_a_connection_keep_their_own_traces(serve: Serve, home: Path, path: str) -> None:
    both = asyncio.Barrier(2)

    @agent(name="traced")
    async def traced(turn: Turn) -> str:
        async with asyncio.timeout(DEADLINE):
            await both.wait()  # at the same time
        return f"{turn.trace} after {turn.hops}"

    served = serve(Gateway(traced, home=home))
    async with NlipWsPeer(served.ws_url + path) as peer:
        turns = [Turn(Message.text("x"), Conversation(item), trace=item, hops=2) for item in traces(1, 2)]
        answers = await asyncio.gather(*(reply_of(peer(turn)) for turn in turns))
    assert [item.text for item in answers] == [f"{item} after 3" for item in traces(1, 2)]


async def test_a_server_that_does_not_list_our_fields_is_sent_none() -> None:  # D-05
    heard: list[Message] = []

    async def other(socket: ServerConnection) -> None:
        async for frame in socket:
            heard.append(message := cbor.decode(frame))  # type: ignore[arg-type]
            await socket.send(cbor.encode(Message.text("well").with_parts(message.tokens)))

    async with ws_server(other) as url, NlipWsPeer(url) as peer:
        turn = Turn(Message.text("x"), Conversation("x"), trace=traces(1)[0], hops=2)
        assert (await reply_of(peer(turn))).text == "well"
    assert {message.extra for message in heard} == {None}


async def test_an_invalid_trace_context_is_not_forwarded(serve: Serve, home: Path) -> None:
    @agent(name="traced")
    async def traced(turn: Turn) -> str:
        return str(turn.trace)

    served = serve(Gateway(traced, home=home))
    for url in (f"{served.ws_url}/nlip/ws", f"{served.url}/nlip"):
        async with connect(url) as peer:
            for raised in ("x", "00-1-1-1", traces(0)[0], f"{traces(1)[0]}\r\nX-Evil: 1"):
                assert (await reply_of(peer(Turn(Message.text("x"), trace=raised)))).text == "None"
