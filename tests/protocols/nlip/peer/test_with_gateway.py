"""The HTTP peer against our own gateway: keys, uploads of their places, pieces, questions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from conftest import Serve
from sabir.agent import Agent, agent, reply_of
from sabir.errors import PeerRefused, PeerUnavailable
from sabir.events import Delta, Reply
from sabir.gateway.gateway import Gateway
from sabir.guard.build import GuardSettings, IdentitySettings
from sabir.guard.egress.credentials import OutgoingCredentials, Service
from sabir.guard.identity.api_keys import ApiKeys
from sabir.message import Message
from sabir.protocols.connect import connect
from sabir.protocols.nlip.peer.http import NlipHttpPeer
from sabir.protocols.nlip.peer.tokens import PeerTokens
from sabir.protocols.peer import Identity
from sabir.stores.sqlite.store import SQLiteStore
from sabir.turn import Turn
from tcp_proxy import tcp_proxy


@pytest.fixture
def calls() -> list[str]:
    return []


@pytest.fixture
def paying(calls: list[str]) -> Agent:
    @agent(name="paying")
    async def paying(turn: Turn) -> str:
        calls.append(turn.text)
        return f"paid {turn.text}, {len(calls)}"

    return paying


@agent(name="asking")
async def asking(turn: Turn) -> str:
    city = await turn.ask("Which city?")
    return f"Sunny in {city.text}"


@agent(name="pieces")
async def pieces(turn: Turn) -> Any:
    yield "Hel"
    yield "lo"


async def test_what_is_sent_again_under_its_key_runs_once(
    serve: Serve, home: Path, paying: Agent, calls: list[str]
) -> None:
    served = serve(Gateway(paying, home=home))
    same = PeerTokens.begin("cli", "a conversation of ours")
    answers = []
    for _ in range(2):  # the same message, as a client sends it that never saw the first answer
        async with NlipHttpPeer(served.url, conversation=same) as peer:
            answers.append(await peer.ask("100", key="k-1"))
            assert peer.repeatable is True  # the server has shown that it honours keys
    assert answers[0] == answers[1]
    assert calls == ["100"]


async def test_a_broken_answer_is_fetched_again_and_the_agent_ran_once(
    serve: Serve, home: Path, paying: Agent, calls: list[str]
) -> None:
    """A pipe breaks after the request has passed: the answer is lost, the payment is not made twice."""
    served = serve(Gateway(paying, home=home))
    broken = {1, 3}

    def lose_answers(data: bytes, connection: int) -> bytes | None:
        return None if connection in broken else data

    async with tcp_proxy((served.host, served.port), to_client=lose_answers) as proxy:
        async with NlipHttpPeer(proxy.url, repeatable=True) as peer:
            assert (await peer.ask("50")).text == "paid 50, 1"
        assert (proxy.accepted, calls) == (2, ["50"])
        async with NlipHttpPeer(proxy.url) as peer:
            with pytest.raises(PeerUnavailable):
                await peer.ask("60")
        assert proxy.accepted == 3


async def test_pieces_and_questions_come_through(serve: Serve, home: Path) -> None:
    served = serve(Gateway(pieces, asking, home=home))
    async with NlipHttpPeer(f"{served.url}/nlip/pieces") as peer:
        events = [event async for event in peer.stream("go")]
    assert events == [Delta.text("Hel"), Delta.text("lo"), Reply(Message.text("Hello"))]
    async with NlipHttpPeer(f"{served.url}/nlip/asking") as peer:
        question = await peer.ask("weather?")
        assert question.labelled("question") is not None
        assert (await peer.ask("Geneva")).text == "Sunny in Geneva"


async def test_an_unknown_agent_is_a_refusal_with_its_reason(serve: Serve, home: Path, paying: Agent) -> None:
    served = serve(Gateway(paying, home=home))
    async with NlipHttpPeer(f"{served.url}/nlip/nobody") as peer:
        with pytest.raises(PeerRefused, match="no agent 'nobody'") as refused:
            await peer.ask("hi")
    assert refused.value.status == 404


async def test_a_task_is_polled_until_it_ends(serve: Serve, home: Path, paying: Agent) -> None:  # D-26
    served = serve(Gateway(paying, home=home))
    seen: list[bytes] = []
    async with NlipHttpPeer(served.url, respond_async=True, on_wire=lambda way, data: seen.append(data)) as peer:
        assert (await peer.ask("70")).text == "paid 70, 1"
    heads = [data.split(b"\r\n")[0] for data in seen if data.startswith((b"GET", b"POST", b"HTTP"))]
    assert heads[0].startswith(b"POST /nlip ") and heads[1].startswith(b"HTTP/1.1 202")
    assert heads[2].startswith(b"GET /nlip/tasks/")


async def test_a_task_is_polled_with_the_credentials_of_its_caller(serve: Serve, home: Path, paying: Agent) -> None:
    """The identity of the call goes with every request of it, and before the one that the peer has by itself."""
    gateway = Gateway(paying, home=home, guard=GuardSettings(IdentitySettings(anonymous=False)))
    served = serve(gateway)
    store = SQLiteStore(home / "sabir.db")
    await store.open()
    key = (await ApiKeys(store).add("front"))[1]
    await store.close()
    raised = (Identity(served.url, "Bearer sbk_000000000000_wrong", at_once=True),)
    for identities in ((), raised):
        async with NlipHttpPeer(served.url, respond_async=True, identities=identities) as peer:
            peer.outgoing = OutgoingCredentials([Service(served.url, token=key)])
            assert (await reply_of(peer(Turn(Message.text("70"))))).text.startswith("paid 70")


@pytest.mark.parametrize("way", ["http", "websocket"])
async def test_a_token_that_comes_with_each_piece_is_kept_once(serve: Serve, home: Path, way: str) -> None:
    served = serve(Gateway(pieces, home=home))
    url = f"{served.url}/nlip" if way == "http" else f"ws://{served.host}:{served.port}/nlip/ws"
    async with connect(url) as peer:
        for _ in range(2):
            assert [event async for event in peer.stream("hello")]
        left = peer.export()["left"]
    kept = [(part["subformat"], part["content"]) for part in left["theirs"]]
    assert len(kept) == len(set(kept)) == 1
