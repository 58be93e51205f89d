"""An agent that was asked has ended when its reply is there: what it opened is closed."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpcore
import httpcore2
import msgspec
import pytest

from conftest import Serve
from sabir import Event, Message, Reply, Turn, agent
from sabir.agent import Agent, reply_of
from sabir.agents.back_level import BackLevel
from sabir.agents.confirm import Confirm
from sabir.agents.federation import Federation
from sabir.card import Policy
from sabir.events import Question
from sabir.gateway.gateway import Gateway
from sabir.protocols.connect import connect, speakers
from sabir.tools.router import Router
from sabir.tools.toolbox import Toolbox


@pytest.fixture
def ended() -> list[str]:
    return []


@pytest.fixture
def opener(ended: list[str]) -> Agent:
    """An agent that has something to close, which takes more than one pass of the loop."""

    @agent(name="opener")
    async def opener(turn: Turn) -> AsyncIterator[Event]:
        try:
            yield Reply(Message.text("done"))
        finally:
            for _ in range(3):
                await asyncio.sleep(0)
            ended.append("opener")

    return opener


def calling(inner: Agent) -> Agent:
    @agent(name="calling")
    async def calling(turn: Turn) -> Message:
        return await turn.call(inner, "go")

    return calling


WRAPPERS: dict[str, Callable[[Agent], Agent]] = {
    "the agent itself": lambda inner: inner,
    "Turn.call": calling,
    "BackLevel": BackLevel,
    "Confirm": lambda inner: Confirm(inner, parse=lambda message: {"what": message.text}),
    "a member of a Federation": lambda inner: Federation([inner]),
    "the integrator of a Federation": lambda inner: Federation([agent(name="m")(lambda turn: "m")], integrator=inner),
    "Router": lambda inner: Router(inner, Toolbox([])),
}


async def yes(question: Question) -> Message:
    return Message.text("yes")


@pytest.mark.parametrize("wrapper", WRAPPERS)
async def test_an_agent_has_closed_what_it_opened_when_its_reply_is_returned(
    wrapper: str, opener: Agent, ended: list[str]
) -> None:
    turn = Turn(Message.text("go"))
    turn.ask_back = yes
    assert "done" in (await reply_of(WRAPPERS[wrapper](opener)(turn))).text
    assert ended == ["opener"]


@pytest.mark.parametrize("policies", [(), (Policy("privacy", "Nothing is kept."),)], ids=["plain", "with a policy"])
@pytest.mark.parametrize("protocol", speakers("http"))
async def test_a_gateway_closes_its_agent_before_it_answers(
    protocol: str, policies: tuple[Policy, ...], serve: Serve, home: Path, opener: Any, ended: list[str]
) -> None:
    held = opener.with_card(msgspec.structs.replace(opener.card, policies=policies))
    async with connect(serve(Gateway(held, home=home)).url, protocol=protocol) as peer:
        assert "done" in (await peer.ask("go")).text
        assert ended == ["opener"]


KEEPS_A_STREAM = {"acl"}  # that of its inbox, which brings the answers to all its messages


@pytest.mark.parametrize("protocol", [name for name in speakers("http") if name not in KEEPS_A_STREAM])
async def test_a_peer_has_given_its_connection_back_when_its_reply_is_returned(
    protocol: str, serve: Serve, home: Path, opener: Agent
) -> None:
    """A task closed the response while the test ended, and failed the next one."""
    of_others = open_pools()  # kept, so that no new pool gets the id of one of them
    async with connect(serve(Gateway(opener, home=home)).url, protocol=protocol) as peer:
        assert "done" in (await reply_of(peer(Turn(Message.text("go"))))).text
        pools = [pool for pool in open_pools() if not any(pool is other for other in of_others)]
        in_use = [connection for pool in pools for connection in pool.connections if not is_free(connection)]
        assert not in_use


def open_pools() -> list[Any]:
    """The pools of all HTTP clients of this process that have a connection."""
    kinds = (httpcore.AsyncConnectionPool, httpcore2.AsyncConnectionPool)
    # By type: isinstance asks the object itself, and what it is a weak proxy of may be gone.
    return [found for found in gc.get_objects() if issubclass(type(found), kinds) and found.connections]


def is_free(connection: Any) -> bool:
    return bool(connection.is_idle() or connection.is_closed())
