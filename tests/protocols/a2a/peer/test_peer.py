"""A remote A2A agent as a peer: one written with the SDK alone, and one behind our own door."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from conftest import Serve, Served
from deadline import DEADLINE
from protocols.a2a.a2a_bench import PNG, Bench, Keys
from protocols.a2a.a2a_sdk_server import Executor, sdk_server
from sabir.agent import Agent, agent, reply_of
from sabir.errors import PeerRefused, PeerUnavailable, PeerUnreadable, TurnFailed
from sabir.events import Delta, Progress, Question, Reply
from sabir.gateway.gateway import Gateway
from sabir.guard import Authenticator, Rights, Rule
from sabir.guard.egress.credentials import OutgoingCredentials, Service
from sabir.message import Message, binary_part, json_part, text_part
from sabir.protocols.a2a.peer.peer import A2aPeer
from sabir.protocols.peer import Identity
from sabir.turn import Conversation, Turn
from tcp_proxy import tcp_proxy

BINDINGS = [("JSONRPC",), ("HTTP+JSON",)]


@pytest.fixture(scope="module", params=[("1.0",), ("0.3",)], ids=["1.0", "0.3"])
def remote(request: pytest.FixtureRequest) -> Iterator[tuple[str, Executor]]:
    with sdk_server(versions=request.param) as made:
        yield made


@pytest.fixture(params=BINDINGS, ids=lambda names: names[0])
async def peer(remote: tuple[str, Executor], request: pytest.FixtureRequest) -> AsyncIterator[A2aPeer]:
    async with A2aPeer(remote[0], bindings=request.param) as made:
        yield made


async def test_a_message_is_an_answer(peer: A2aPeer) -> None:
    assert (await peer.ask("message")).text == "a message"


async def test_a_task_is_streamed_and_its_pieces_make_the_reply(peer: A2aPeer) -> None:
    events = [event async for event in peer.stream("stream")]
    assert [e.part.content for e in events if isinstance(e, Delta)] == ["one ", "two ", "three"]
    assert Progress(None, "working on it") in events
    assert isinstance(events[-1], Reply)
    assert events[-1].message.text == "one two three"


async def test_the_conversation_is_the_same_context(peer: A2aPeer) -> None:
    first, second = await peer.ask("where"), await peer.ask("where")
    assert first.text == second.text != ""


async def test_conversations_of_different_callers_do_not_meet(peer: A2aPeer) -> None:
    answers = [await reply_of(peer(Turn(Message.text("where"), Conversation(name)))) for name in ("a", "b", "a")]
    texts = [answer.text for answer in answers]
    assert texts[0] == texts[2] != texts[1]


async def test_what_it_asks_back_is_asked_of_our_caller(peer: A2aPeer) -> None:
    async def answer(question: Question) -> Message:
        assert question.text == "Which colour?"
        return Message.text("blue")

    turn = Turn(Message.text("ask"), Conversation("q"), ask_back=answer)
    assert (await reply_of(peer(turn))).text == "answered blue"


async def test_its_failure_is_ours(peer: A2aPeer) -> None:
    with pytest.raises(TurnFailed, match="no luck today"):
        await peer.ask("fail")


async def test_leaving_cancels_the_remote_task(peer: A2aPeer, remote: tuple[str, Executor]) -> None:
    executor = remote[1]
    executor.cancelled.clear()
    async with aclosing(peer.stream("wait")) as stream:
        assert await anext(stream) == Progress(None, "waiting")
    assert await asyncio.to_thread(executor.cancelled.wait, DEADLINE)


async def test_leaving_before_the_first_word_cancels_too(peer: A2aPeer, remote: tuple[str, Executor]) -> None:
    executor = remote[1]
    for event in (executor.cancelled, executor.reached, executor.go_on):
        event.clear()
    asking = asyncio.create_task(peer.ask("late"))
    assert await asyncio.to_thread(executor.reached.wait, DEADLINE)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    executor.go_on.set()
    assert await asyncio.to_thread(executor.cancelled.wait, DEADLINE)


async def test_a_task_is_cancelled_as_its_caller(serve: Serve, home: Path) -> None:
    """A task is cancelled by its owner only, so the goodbye is said as the same caller as the question."""
    ended = threading.Event()

    @agent(description="Works until it is cancelled")
    async def slow(turn: Turn) -> AsyncIterator[Progress]:
        try:
            yield Progress(0.1, "begun")
            await asyncio.sleep(60)
        finally:
            ended.set()

    served = serve(Gateway(slow, home=home, identity=Authenticator((Keys(),))))
    async with A2aPeer(f"{served.url}/a2a/slow") as peer:
        peer.outgoing = OutgoingCredentials([Service(served.url, token="alice")])
        async with aclosing(peer(Turn(Message.text("go")))) as events:  # type: ignore[type-var]
            async for event in events:
                if isinstance(event, Progress) and event.note == "begun":
                    break
        assert await asyncio.to_thread(ended.wait, DEADLINE)


async def test_the_card_becomes_ours(peer: A2aPeer) -> None:
    assert isinstance(peer, Agent)
    await peer.discover()
    assert (peer.card.name, peer.card.description, peer.card.skills[0].id) == ("SDK-agent", "Written with the SDK", "s")


async def test_an_agent_that_does_not_stream_is_polled() -> None:
    with sdk_server(streaming=False) as (url, _):
        async with A2aPeer(url) as peer:
            reply = await peer.ask("stream")
            assert [part.content for part in reply.parts] == ["one ", "two ", "three"]


# -- our own door as the remote --------------------------------------------------------------------


async def test_everything_crosses_between_two_gateways(shared: Served) -> None:
    sent = Message.of(
        text_part("oui", "french", label="answer"),
        binary_part(PNG, "image/png"),
        json_part({"id": 2**60, "list": [1, 2.5, None]}, label="data"),
    )
    async with A2aPeer(f"{shared.url}/a2a/echo") as peer:
        assert await peer.ask(sent) == sent


async def test_polling_sees_a_task_to_its_end(serve, gateway: Gateway, bench: Bench) -> None:
    url = serve(gateway).url
    async with A2aPeer(f"{url}/a2a/slow", streaming=False, seconds=20) as peer:
        running = asyncio.create_task(peer.ask("work"))
        assert await asyncio.to_thread(bench.gate.entered.wait, DEADLINE)
        bench.gate.open()
        assert (await running).text == "first last"


@pytest.mark.parametrize("streaming", [True, False])
async def test_a_task_may_take_longer_than_an_answer_may(
    serve: Serve, gateway: Gateway, bench: Bench, streaming: bool
) -> None:
    """Our turn has the time: it is a task itself, and so is the remote turn."""
    url = serve(gateway).url
    async with A2aPeer(f"{url}/a2a/slow", streaming=streaming, seconds=1) as peer:
        running = asyncio.create_task(reply_of(peer(Turn(Message.text("work")))))
        assert await asyncio.to_thread(bench.gate.entered.wait, DEADLINE)
        await asyncio.wait({running}, timeout=2)
        bench.gate.open()
        assert (await running).text == "first last"


@pytest.mark.parametrize("bindings", BINDINGS, ids=lambda names: names[0])
async def test_a_dropped_connection_is_taken_up_again(
    serve, gateway: Gateway, bench: Bench, bindings: tuple[str, ...]
) -> None:
    served = serve(gateway)
    async with tcp_proxy((served.host, served.port)) as proxy:
        served.gateway.services.public_url = proxy.url  # so that the card sends the peer through the proxy
        async with A2aPeer(f"{proxy.url}/a2a/slow", bindings=bindings, seconds=20) as peer:
            events: list[Any] = []
            async with aclosing(peer.stream("work")) as stream:
                async for event in stream:
                    events.append(event)
                    if event == Delta(text_part("first ")):
                        before = proxy.accepted
                        proxy.cut()
                        bench.gate.open()
            assert proxy.accepted > before, "no new connection was made"
    assert events == [Delta(text_part("first ")), Delta(text_part("last")), Reply(Message.text("first last"))]


async def test_it_sends_our_credentials_when_asked(serve, home) -> None:
    rights = Rights((Rule(("known",)),))
    url = serve(Gateway(*Bench().agents(), home=home, rights=rights, identity=Authenticator((Keys(),)))).url
    async with A2aPeer(f"{url}/a2a/echo") as nobody:
        with pytest.raises(PeerRefused) as refused:
            await nobody.ask("hi")
        assert refused.value.status == 401
    async with A2aPeer(f"{url}/a2a/echo", identities=(Identity(url, "Bearer alice"),)) as alice:
        assert (await alice.ask("hi")).text == "hi"
    async with A2aPeer(f"{url}/a2a/echo", identities=(Identity("https://other.example", "Bearer alice"),)) as stranger:
        with pytest.raises(PeerRefused):
            await stranger.ask("hi")


# -- what may come back -------------------------------------------------------------------------


@asynccontextmanager
async def answering(status: int, body: bytes, headers: str = "content-type: application/json") -> AsyncIterator[str]:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = f"HTTP/1.1 {status} X\r\n{headers}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
        writer.write(head.encode() + body)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        await server.wait_closed()


def card_at(url: str) -> bytes:
    interface = {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
    return json.dumps({"name": "x", "supportedInterfaces": [interface], "capabilities": {"streaming": True}}).encode()


async def test_a_card_may_not_send_us_elsewhere() -> None:
    async with answering(200, card_at("http://169.254.169.254/a2a")) as url:
        async with A2aPeer(url) as peer:
            with pytest.raises(PeerUnreadable, match="names no supported interface"):
                await peer.ask("hi")


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (404, b"", PeerRefused),
        (500, b"<html>oops", PeerRefused),
        (200, b"not json", PeerUnreadable),
        (200, b"[]", PeerUnreadable),
        (200, b'{"name": 5}', PeerUnreadable),
    ],
)
async def test_an_invalid_card(status: int, body: bytes, kind: type[Exception]) -> None:
    async with answering(status, body) as url:
        async with A2aPeer(url) as peer:
            with pytest.raises(kind):
                await peer.ask("hi")


async def test_an_answer_without_end_is_cut_off() -> None:
    async with answering(200, b" " * 200_000) as url:
        async with A2aPeer(url, max_bytes=100_000) as peer:
            with pytest.raises(PeerUnreadable, match="compressed or too long"):
                await peer.ask("hi")


async def test_a_packed_answer_is_not_unpacked() -> None:
    async with answering(200, b"\x1f\x8b", "content-encoding: gzip") as url:
        async with A2aPeer(url) as peer:
            with pytest.raises(PeerUnreadable, match="compressed or too long"):
                await peer.ask("hi")


async def test_nobody_there_is_unavailable() -> None:
    async with A2aPeer("http://127.0.0.1:9") as peer:
        with pytest.raises(PeerUnavailable):
            await peer.ask("hi")
