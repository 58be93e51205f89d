"""``@agent``: functions that return, await or yield, sync or async."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given as fuzzed
from hypothesis import strategies as st

from sabir import Delta, Event, Fault, Message, Part, Progress, Reply, Turn, agent
from sabir.agent import Agent, joined, reply_of
from sabir.errors import Refused, TurnFailed
from sabir.message import json_part


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


@fuzzed(st.lists(st.tuples(st.sampled_from(["english", "german"]), st.text(max_size=3) | st.none()), max_size=8))
def test_neighbouring_texts_of_one_language_run_together(pieces: list[tuple[str, str | None]]) -> None:
    said = [json_part({"n": 1}) if text is None else Part("text", language, text) for language, text in pieces]
    merged = joined(said).parts
    assert "".join(str(part.content) for part in merged) == "".join(str(part.content) for part in said)
    runs = [(part.format, part.subformat) for part in merged if part.format == "text"]
    for before, after in pairwise(merged):
        assert before.format != "text" or (before.format, before.subformat) != (after.format, after.subformat), runs


def test_joining_many_pieces_takes_time_in_proportion_to_their_length() -> None:
    """4,000 pieces of 4 KiB took 18.6 s (issue 11, D15)."""
    piece = Part("text", "english", "x" * 4096)
    began = time.process_time()
    assert len(joined([piece] * 4000).text) == 4096 * 4000
    assert time.process_time() - began < 1.0
