"""``@agent``: functions that return, await or yield, sync or async."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from sabir import Delta, Event, Fault, Message, Part, Progress, Reply, Turn, agent
from sabir.agent import Agent, reply_of
from sabir.errors import Refused, TurnFailed


async def events(made: Agent, text: str = "hi") -> list[Event]:
    return [event async for event in made(Turn(Message.text(text)))]


async def test_a_string_becomes_the_reply() -> None:
    @agent
    async def hello(turn: Turn) -> str:
        """Greets."""
        return f"Hello, {turn.text}"

    assert await events(hello, "Ada") == [Reply(Message.text("Hello, Ada"))]
    assert (hello.card.name, hello.card.description) == ("hello", "Greets.")


async def test_a_message_a_part_and_json_become_the_reply() -> None:
    for given in (Message.text("x"), Part("text", "english", "x"), {"a": 1}, [1, 2], None):

        @agent
        async def giving(turn: Turn, given: Any = given) -> Any:
            return given

        [reply] = await events(giving)
        assert isinstance(reply, Reply)


async def test_yielded_pieces_join_into_the_reply() -> None:
    @agent
    async def teller(turn: Turn) -> AsyncIterator[Any]:
        yield "Once "
        yield Progress(0.5)
        yield "upon a time"

    got = await events(teller)
    assert got[:3] == [Delta.text("Once "), Progress(0.5), Delta.text("upon a time")]
    assert got[3] == Reply(Message.text("Once upon a time"))


async def test_sync_functions_and_generators_run_off_the_loop() -> None:
    main = threading.get_ident()
    seen: list[int] = []

    @agent
    def blocking(turn: Turn) -> str:
        seen.append(threading.get_ident())
        return "done"

    @agent
    def pieces(turn: Turn) -> Iterator[str]:
        seen.append(threading.get_ident())
        yield "a"
        yield "b"

    assert await reply_of(blocking(Turn(Message.text("x")))) == Message.text("done")
    assert await reply_of(pieces(Turn(Message.text("x")))) == Message.text("ab")
    assert all(thread != main for thread in seen)


async def test_a_fault_raises_for_whoever_drains() -> None:
    @agent
    async def refusing(turn: Turn) -> Event:
        return Fault("not today", "refused")

    @agent
    async def failing(turn: Turn) -> Event:
        return Fault("broken")

    with pytest.raises(Refused, match="not today"):
        await reply_of(refusing(Turn(Message.text("x"))))
    with pytest.raises(TurnFailed, match="broken"):
        await reply_of(failing(Turn(Message.text("x"))))


async def test_many_turns_run_at_once_and_share_nothing() -> None:
    @agent
    async def own(turn: Turn) -> str:
        before = turn.text
        await asyncio.sleep(0)
        assert turn.text == before
        return before

    turns = [Turn(Message.text(str(number))) for number in range(50)]
    replies = await asyncio.gather(*(reply_of(own(turn)) for turn in turns))
    assert [reply.text for reply in replies] == [str(number) for number in range(50)]
    assert len({turn.id for turn in turns}) == 50


async def test_a_turn_inside_a_turn_inherits_time_and_hops_but_not_tokens() -> None:
    @agent
    async def inner(turn: Turn) -> str:
        return "x"

    outer = Turn(Message.text("x"), deadline=5.0)
    sub = outer.sub(Message.text("y").with_part(Part("token", "authentication", "secret")), inner)
    assert (sub.deadline, sub.hops, sub.seen) == (5.0, 1, ("inner",))
    assert sub.message.tokens == ()
    deep = outer
    with pytest.raises(TurnFailed, match="a loop is likely"):
        for _ in range(20):
            deep = deep.sub(Message.text("y"), inner)
