"""What a gateway says to the next, byte by byte: taken off the socket, so that nothing the sender hides is hidden."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest

from conftest import Serve, Served
from sabir.agent import Agent, agent
from sabir.gateway.gateway import Gateway
from sabir.guard.identity.api_keys import ApiKeys
from sabir.message import Message, token_part
from sabir.protocols.nlip.peer.http import NlipHttpPeer
from sabir.protocols.nlip.wire import json as nlip
from sabir.protocols.peer import Identity
from sabir.stores.sqlite.store import SQLiteStore
from sabir.turn import Turn
from tcp_proxy import tcp_proxy

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def seen() -> list[Turn]:
    return []


@pytest.fixture
def last(seen: list[Turn]) -> Agent:
    @agent(name="last")
    async def last(turn: Turn) -> str:
        seen.append(turn)
        return f"heard {turn.text}"

    return last


class Tap:
    """Keeps every byte that is sent to a server."""

    def __init__(self) -> None:
        self.url = ""
        self.sent = bytearray()

    def keep(self, data: bytes, connection: int) -> bytes:
        self.sent += data
        return data


@asynccontextmanager
async def tapped(served: Served) -> AsyncIterator[Tap]:
    tap = Tap()
    async with tcp_proxy((served.host, served.port), to_server=tap.keep) as proxy:
        tap.url = proxy.url
        yield tap


async def test_nothing_that_identifies_the_client_leaves_the_first_hop(
    serve: Serve, home: Path, last: Agent, seen: list[Turn]
) -> None:  # SEC-P2.3
    (home / "1").mkdir(parents=True)
    store = SQLiteStore(home / "1" / "sabir.db")
    await store.open()
    _, key = await ApiKeys(store).add("alice")
    await store.close()
    ours = (Identity("*", "Bearer key-of-the-second-hop", at_once=True),)
    third = serve(Gateway(last, home=home / "3"))
    async with tapped(third) as to_third:
        far = NlipHttpPeer(to_third.url, name="to-third", identities=ours)
        second = serve(Gateway(far, home=home / "2", beside=[far]))
        async with tapped(second) as to_second:
            near = NlipHttpPeer(to_second.url, name="to-second")
            first = serve(Gateway(near, home=home / "1", beside=[near]))
            said = Message.text("hello").with_part(token_part("token-of-alice", "authentication_alice"))
            headers = {
                "authorization": f"Bearer {key}", "cookie": "session=of-alice", "x-forwarded-for": "203.0.113.9",
                "traceparent": TRACE, "user-agent": "agent-of-alice", "idempotency-key": "key-of-alice-" + "k" * 20,
            }  # fmt: skip
            async with httpx2.AsyncClient(trust_env=False) as http:
                who = nlip.encode(Message.text("Who am I?", messagetype="control"))
                known = await http.post(f"{first.url}/nlip", content=who, headers={"authorization": f"Bearer {key}"})
                assert "You are alice" in nlip.decode(known.content).text
                answer = await http.post(f"{first.url}/nlip", content=nlip.encode(said), headers=headers)
            reply = nlip.decode(answer.content)
            assert reply.text == "heard hello"
            own = [str(part.content) for part in reply.tokens if part.subformat == "conversation"]
            hop_two, hop_three = bytes(to_second.sent), bytes(to_third.sent)
    secrets = [key, "of-alice", "203.0.113.9", *own]
    assert len(secrets) == 4
    for hop in (hop_two, hop_three):
        assert b"hello" in hop  # the tap works
        assert TRACE.split("-")[1].encode() in hop  # SEC-P2.4: the trace is joined
        for secret in secrets:
            assert secret.encode() not in hop, secret
    assert b"key-of-the-second-hop" not in hop_two
    assert b"key-of-the-second-hop" in hop_three  # its own identity is all that the third sees
    assert seen[0].hops == 2
    assert seen[0].trace is not None and seen[0].trace.split("-")[1] == TRACE.split("-")[1]
