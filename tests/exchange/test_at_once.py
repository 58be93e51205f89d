"""Several at once on one conversation, one token, one key: nothing is lost, done twice, or waited for in vain."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from sabir import Gateway, Message, Question, Reply, Turn, agent
from sabir.agents.echo import echo
from sabir.errors import RateLimited, ShuttingDown
from sabir.events import Event
from sabir.exchange.conversations import OneAtATime
from sabir.exchange.request import EventSink, TurnRequest
from sabir.guard import Credentials, Quotas
from sabir.message import Part, token_part
from sabir.turn import Caller


@asynccontextmanager
async def started(gateway: Gateway) -> AsyncIterator[Gateway]:
    await gateway.start()
    try:
        yield gateway
    finally:
        await gateway.stop()


class OnProgress:
    """One request as a door makes it: its events, and their tokens."""

    def __init__(self, gateway: Gateway, text: str, *tokens: Part, key: str | None = None, **who: Any) -> None:
        self.events: list[Event] = []
        self.line = EventSink(self._hear)
        self._heard = asyncio.Event()
        ask = TurnRequest(Message.text(text, parts=tokens), "test", credentials=Credentials(**who), key=key)
        self.running = asyncio.create_task(gateway.exchange.ask(ask, self.line))

    async def _hear(self, event: Event) -> None:
        self.events.append(event)
        self._heard.set()

    async def words(self) -> str:
        """Its first event: an answer, or a question."""
        hearing = asyncio.create_task(self._heard.wait())
        await asyncio.wait([self.running, hearing], return_when="FIRST_COMPLETED")
        hearing.cancel()
        if not self.events:
            await self.running
        event = self.events[0]
        return event.text if isinstance(event, Question) else event.message.text if isinstance(event, Reply) else ""


@agent
async def asking(turn: Turn) -> str:
    answer = await turn.ask(f"what of {turn.text}?")
    return f"{turn.text}: {answer.text}"


async def until(condition: Any) -> None:
    while not condition():
        await asyncio.sleep(0)


async def test_two_questions_in_one_conversation_are_answered_in_their_order(home: Path) -> None:
    gate = asyncio.Event()

    @agent
    async def gated(turn: Turn) -> str:
        if turn.text != "hello":
            await gate.wait()
            return f"{turn.text}: {(await turn.ask(f'what of {turn.text}?')).text}"
        return "hello"

    async with started(Gateway(gated, home=home)) as gateway:
        hello = OnProgress(gateway, "hello")
        await hello.words()
        own = hello.line.tokens[-1]
        both = [
            OnProgress(gateway, "one", own),
            OnProgress(gateway, "two", own),
        ]  # the second waits for the conversation
        await until(lambda: gateway.exchange.running == 2)
        gate.set()
        assert [await item.words() for item in both] == ["what of one?", "what of two?"]
        answers = [OnProgress(gateway, "A", own), OnProgress(gateway, "B", own)]
        assert [await answer.words() for answer in answers] == ["one: A", "two: B"]
        await asyncio.gather(*(item.running for item in (*both, *answers)))
        assert not gateway.exchange.waits


async def test_a_request_repeated_while_its_turn_asks_back_is_asked_the_same(home: Path) -> None:
    """The response with the question was lost: the same key again must not wait for an answer nobody can give."""
    async with started(Gateway(asking, home=home)) as gateway:
        me = Caller("key:me", "key")
        first, again = (OnProgress(gateway, "one", key="k", caller=me) for _ in range(2))
        assert [await first.words(), await again.words()] == ["what of one?"] * 2
        own = again.line.tokens[-1]
        later = OnProgress(
            gateway, "one", own, key="k", caller=me
        )  # with the token, too, it is a repetition and no answer
        assert await later.words() == "what of one?"
        answer = OnProgress(gateway, "A", own, key="another", caller=me)
        assert await answer.words() == "one: A"
        await first.running
        after = OnProgress(gateway, "one", key="k", caller=me)
        assert await after.words() == "one: A"
        assert await gateway.store.count_conversations(me.id) == 1


async def test_one_key_on_two_connections_calls_the_agent_once(home: Path) -> None:
    called: list[str] = []

    @agent
    async def counting(turn: Turn) -> str:
        called.append(turn.id)
        await asyncio.sleep(0)
        return f"call {len(called)}"

    async with started(Gateway(counting, home=home)) as gateway:
        store, found = gateway.store, gateway.store.turn

        async def slowly(item_id: str) -> Any:  # as a store behind a network does
            past = await found(item_id)
            await asyncio.sleep(0)
            return past

        store.turn = slowly  # type: ignore[method-assign]
        answer = [OnProgress(gateway, "x", key="k") for _ in range(5)]
        assert [await item.words() for item in answer] == ["call 1"] * 5
        assert len(called) == 1


async def test_a_key_whose_turn_failed_may_be_tried_again(home: Path) -> None:
    called: list[str] = []

    @agent
    async def failing(turn: Turn) -> str:
        called.append(turn.id)
        if len(called) == 1:
            raise RateLimited("not now", retry_after=1.0)
        return "now"

    async with started(Gateway(failing, home=home)) as gateway:
        found = [OnProgress(gateway, "x", key="k") for _ in range(2)]
        with pytest.raises(RateLimited):
            await found[0].words()
        assert await found[1].words() == "now"


LONG = token_part("a-token-that-nobody-can-guess-0123456789", "conversation_peer")


async def test_two_first_messages_with_one_token_of_the_peer_begin_one_conversation(home: Path) -> None:
    """D-16: the peer's own token finds the conversation, also before its first turn has ended."""

    @agent
    async def remembering(turn: Turn) -> str:
        await asyncio.sleep(0)
        return " ".join(past.asked.text for past in turn.conversation.turns)

    async with started(Gateway(remembering, home=home)) as gateway:
        found = [OnProgress(gateway, text, LONG) for text in ("one", "two", "three")]
        assert [await item.words() for item in found] == ["", "one", "one two"]
        await asyncio.gather(*(item.running for item in found))
        conversations = gateway.exchange.conversations
        assert (conversations._begun, conversations.taken._taken) == ({}, {})


async def test_a_question_is_answered_with_the_peers_own_token(home: Path) -> None:
    async with started(Gateway(asking, home=home)) as gateway:
        question = OnProgress(gateway, "one", LONG)
        assert await question.words() == "what of one?"
        answer = OnProgress(gateway, "A", LONG)
        assert await answer.words() == "one: A"
        assert [part.content[:4] for part in answer.line.tokens] == ["a-to", "sb1."]


async def test_no_question_is_asked_by_a_gateway_that_stops(home: Path) -> None:
    gate = asyncio.Event()

    @agent
    async def late(turn: Turn) -> str:
        await gate.wait()
        return (await turn.ask("and?")).text

    async with started(Gateway(late, home=home)) as gateway:
        answer = OnProgress(gateway, "x")
        await until(lambda: gateway.exchange.running == 1)
        closing = asyncio.create_task(gateway.exchange.close(30.0))
        await until(lambda: gateway.exchange.closing)
        gate.set()
        with pytest.raises(ShuttingDown):
            await answer.words()
        assert await closing


async def test_open_conversations_are_counted_for_a_place_and_given_back(home: Path) -> None:
    """In IPv6 one house has 2^64 addresses; and an account that is full must not stay so for ever."""

    async with started(Gateway(echo, home=home, quotas=Quotas(conversations=2))) as gateway:
        conversations = gateway.exchange.conversations
        for number in range(2):
            assert await OnProgress(gateway, "x", address=f"2001:db8::{number}").words() == "You said: x"
        with pytest.raises(RateLimited, match="at most 2"):
            await OnProgress(gateway, "x", address="2001:db8::ffff").words()
        assert await OnProgress(gateway, "x", address="2001:db8:0:1::1").words() == "You said: x"

        known = Caller("key:k", "key", address="192.0.2.1")
        found = [OnProgress(gateway, "x", caller=known) for _ in range(2)]
        assert [await item.words() for item in found] == ["You said: x"] * 2
        with pytest.raises(RateLimited):
            await OnProgress(gateway, "x", caller=known).words()
        for row in await gateway.store.conversations(known.id):
            await gateway.store.forget(row.id)
        conversations.forget_counts()
        assert await OnProgress(gateway, "x", caller=known).words() == "You said: x"


async def test_a_turn_that_outlives_the_drain_time_gets_an_error(home: Path) -> None:
    """Its caller gets 503 and when to come back, not a connection that breaks."""

    @agent
    async def endless(turn: Turn) -> str:
        await asyncio.Event().wait()
        return "never"

    async with started(Gateway(endless, home=home)) as gateway:
        answer = OnProgress(gateway, "x")
        await until(lambda: gateway.exchange.running == 1)
        assert await gateway.exchange.close(0.01)
        with pytest.raises(ShuttingDown, match="endless had not answered") as stopped:
            await answer.words()
        assert stopped.value.retry_after > 0


async def test_a_caller_who_stops_waiting_for_a_conversation_does_not_block_the_next() -> None:
    taken = OneAtATime()
    assert taken.take("c") and not taken.take("c")
    first, second, third = (asyncio.create_task(taken.wait("c")) for _ in range(3))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0)
    taken.free("c")  # to the second, who is cancelled before it notices
    second.cancel()
    await third
    assert first.cancelled() and second.cancelled() and "c" in taken
    taken.free("c")
    assert "c" not in taken
