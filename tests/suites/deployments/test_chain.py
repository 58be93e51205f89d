"""Three hops over real sockets: tokens and credentials stay on their hop; trace and anonymity go all the way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx2
import pytest

from conftest import Serve, serving
from sabir.agent import Agent, agent
from sabir.agents.back_level import BackLevel
from sabir.agents.confirm import Confirm
from sabir.errors import SabirError
from sabir.gateway.gateway import Gateway
from sabir.message import Message, token_part
from sabir.protocols.nlip.peer.http import NlipHttpPeer
from sabir.protocols.nlip.wire import json as nlip
from sabir.protocols.nlweb.peer import NlwebPeer
from sabir.protocols.peer import Identity
from sabir.turn import Turn

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def last(seen: list[Turn]) -> Agent:
    """The agent at the end of a chain."""

    @agent(name="last")
    async def answer(turn: Turn) -> str:
        seen.append(turn)
        return f"{turn.text}, after {len(turn.conversation.turns)}"

    return answer


class Wire:
    """All that passed one hop."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []

    def __call__(self, direction: str, data: bytes) -> None:
        if direction == "sent":
            self.sent.append(data)

    @property
    def all(self) -> bytes:
        return b"".join(self.sent)


class Chain:
    """client → first → second → third, where the agent is."""

    def __init__(self, serve: Serve, home: Path, *, third_facts: dict[str, object] | None = None) -> None:
        self.seen: list[Turn] = []
        self.to_second, self.to_third = Wire(), Wire()
        self.third = serve(Gateway(last(self.seen), home=home / "3", facts=third_facts or {}))
        ours = (Identity("*", "Bearer key-of-second", at_once=True),) if third_facts is None else ()
        far = NlipHttpPeer(self.third.url, name="to-third", on_wire=self.to_third, identities=ours)
        self.second = serve(Gateway(far, home=home / "2", beside=[far]))
        near = NlipHttpPeer(self.second.url, name="to-second", on_wire=self.to_second)
        self.first = serve(Gateway(near, home=home / "1", beside=[near]))


async def post(http: httpx2.AsyncClient, url: str, message: Message, **headers: str) -> Message:
    answer = await http.post(f"{url}/nlip", content=nlip.encode(message), headers=headers)
    return nlip.decode(answer.content)


async def test_a_conversation_continues_over_three_hops_with_tokens_of_each_hop(
    serve: Serve, home: Path
) -> None:  # DEP-MID
    chain = Chain(serve, home)
    mine = token_part("a token of the client that nobody else may see", "conversation_client")
    secret = token_part("user-tok", "authentication_client")
    async with httpx2.AsyncClient(trust_env=False) as http:
        said = Message.text("one").with_parts((mine, secret))
        one = await post(http, chain.first.url, said, traceparent=TRACE)
        own = [part for part in one.tokens if part not in (mine, secret)]
        again = Message.text("two").with_parts((mine, secret, *own))
        two = await post(http, chain.first.url, again, traceparent=TRACE)
    assert (one.text, two.text) == ("one, after 0", "two, after 1")
    assert mine in one.tokens and secret in two.tokens  # the echo duty holds on each hop (CORE-6.2)
    for hop in (chain.to_second, chain.to_third):  # core-155: no token crosses a hop
        assert b"user-tok" not in hop.all
        assert b"a token of the client" not in hop.all
        assert all(str(part.content).encode() not in hop.all for part in own)
    second_hop = {part.content for data in chain.to_second.sent for part in _tokens(data)}
    third_hop = {part.content for data in chain.to_third.sent for part in _tokens(data)}
    assert second_hop and third_hop and not second_hop & third_hop
    assert b"key-of-second" not in chain.to_third.all  # hidden in what is shown


async def test_credentials_of_the_first_hop_are_never_seen_at_the_third(serve: Serve, home: Path) -> None:  # SEC-P2.3
    chain = Chain(serve, home)
    async with httpx2.AsyncClient(trust_env=False) as http:
        await post(http, chain.first.url, Message.text("hi"), cookie="session=1", **{"x-api-key": "client-key"})
    for hop in (chain.to_second, chain.to_third):
        assert b"client-key" not in hop.all and b"session=1" not in hop.all
    assert chain.seen[0].caller.id in ("anonymous", "unknown") or "client" not in chain.seen[0].caller.id


async def test_one_trace_joins_all_hops(serve: Serve, home: Path) -> None:  # SEC-P2.4
    chain = Chain(serve, home)
    async with httpx2.AsyncClient(trust_env=False) as http:
        await post(http, chain.first.url, Message.text("hi"), traceparent=TRACE)
    assert chain.seen[0].trace is not None and chain.seen[0].trace.split("-")[1] == TRACE.split("-")[1]
    assert chain.seen[0].hops == 2


async def test_a_loop_of_gateways_ends(serve: Serve, home: Path) -> None:
    peer = NlipHttpPeer("http://127.0.0.1:9", name="round")
    served = serve(Gateway(peer, home=home, beside=[peer]))
    peer.url = f"{served.url}/nlip"
    async with httpx2.AsyncClient(trust_env=False) as http:
        reply = await post(http, served.url, Message.text("round and round"))
    assert reply.is_error and "loop" in reply.text


async def test_anonymous_mode_is_agreed_by_all_hops_and_leaks_nothing(serve: Serve, home: Path) -> None:  # PAPER-ANON
    chain = Chain(serve, home, third_facts={})
    async with NlipHttpPeer(chain.first.url) as client:
        await client.ask("before")
        assert await client.propose_anonymous("") is None
        before_second, before_third = len(chain.to_second.sent), len(chain.to_third.sent)
        assert (await client.ask("hello")).text == "hello, after 0"  # nothing ties it to what was before
    turn = chain.seen[-1]
    assert (turn.caller.is_anonymous, turn.caller.address, turn.trace) == (True, "", None)
    for wire, count in ((chain.to_second, before_second), (chain.to_third, before_third)):
        earlier = {part.content for data in wire.sent[:1] for part in _tokens(data)}
        later = {part.content for data in wire.sent[count:] for part in _tokens(data)}
        assert later and not earlier & later  # no stable token
        assert b"traceparent" not in b"".join(wire.sent[count:])


async def test_anonymous_mode_is_refused_when_one_hop_refuses(serve: Serve, home: Path) -> None:
    chain = Chain(serve, home, third_facts={"anonymous": False})
    async with NlipHttpPeer(chain.first.url) as client:
        why = await client.propose_anonymous("")
        assert why is not None and "to-second does not agree" in why and "to-third does not agree" in why
        assert (await client.ask("hello")).text == "hello, after 0"  # it goes on, and is not anonymous


@pytest.mark.parametrize("wrapped", [BackLevel, lambda inner: Confirm(inner, parse=lambda message: {})])
async def test_an_agent_wrapped_around_a_hop_asks_the_hop_too(
    serve: Serve, home: Path, wrapped: Any
) -> None:  # PAPER-ANON
    third = serve(Gateway(last([]), home=home / "3", facts={"anonymous": False}))
    peer = NlipHttpPeer(third.url, name="to-third")
    served = serve(Gateway(wrapped(peer), home=home / "2", beside=[peer]))
    async with NlipHttpPeer(served.url) as client:
        why = await client.propose_anonymous("")
    assert why is not None and "it is not offered here" in why


async def test_a_hop_whose_protocol_cannot_agree_does_not(serve: Serve, home: Path) -> None:  # PAPER-ANON
    peer = NlwebPeer("http://127.0.0.1:9", name="old")
    served = serve(Gateway(last([]), peer, home=home, beside=[peer]))
    async with NlipHttpPeer(served.url) as client:
        assert await client.propose_anonymous("") == "old does not agree (nlweb has no way to agree to it)"


async def test_a_hop_that_sends_credentials_does_not_agree_to_anonymity(serve: Serve, home: Path) -> None:
    chain = Chain(serve, home)  # the second shows its own key to the third, but not in anonymous mode
    async with NlipHttpPeer(chain.first.url) as client:
        assert await client.propose_anonymous("") is None
        count = len(chain.to_third.sent)
        await client.ask("hello")
    assert b"authorization" not in b"".join(chain.to_third.sent[count:]).lower()


def _tokens(data: bytes) -> tuple[object, ...]:
    body = data.partition(b"\r\n\r\n")[2]
    return nlip.decode(body).tokens if body else ()


async def test_a_dead_hop_is_reported_in_words(serve: Serve, home: Path) -> None:
    peer = NlipHttpPeer("http://127.0.0.1:9", name="gone", retries=0)
    served = serve(Gateway(peer, home=home, beside=[peer]))
    async with NlipHttpPeer(served.url, retries=0) as client:
        with pytest.raises(SabirError, match="connection refused"):
            await client.ask("hi")


async def test_a_conversation_over_a_middle_gateway_outlives_its_restart(serve: Serve, home: Path) -> None:
    seen: list[Turn] = []
    third = serve(Gateway(last(seen), home=home / "3"))

    def middle() -> Gateway:
        peer = NlipHttpPeer(third.url, name="to-third")
        return Gateway(peer, home=home / "2", beside=[peer])

    with serving(middle()) as before:
        async with NlipHttpPeer(before.url) as client:
            await client.ask("one")
            assert await client.propose_anonymous("") is None
            assert (await client.ask("two")).text == "two, after 0"
            kept = client.conversation
    with serving(middle()) as after:
        async with NlipHttpPeer(after.url, conversation=kept) as client:
            assert (await client.ask("three")).text == "three, after 1"
    assert seen[-1].conversation.agreed.get("anonymous") is True
    raw = (home / "2" / "sabir.db").read_bytes()
    assert b"conversation_sabir" not in raw  # what the next hop gave us is sealed where it is kept
