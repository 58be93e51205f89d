"""The flow of ``exchange.py``, step by step and without a door: guard, conversation, agent, record, reply."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sabir import Gateway, Message, Turn, agent
from sabir.errors import NotFound, SabirError, ShuttingDown, TurnFailed
from sabir.events import Delta, Event, Reply
from sabir.exchange.request import EventSink, TurnRequest
from sabir.turn import ANONYMOUS


@agent
async def counter(turn: Turn) -> str:
    return f"{turn.text} after {len(turn.conversation.turns)}"


@agent(remembers=False)
async def forgetful(turn: Turn) -> str:
    return f"{turn.text}, once"


@agent
async def speaker(turn: Turn) -> AsyncIterator[Event]:
    yield Delta.text("in ")
    yield Delta.text("pieces")


@agent
async def failing(turn: Turn) -> str:
    raise TurnFailed("no")


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Gateway]:
    gateway = Gateway(counter, forgetful, speaker, failing, home=tmp_path)
    await gateway.start()
    yield gateway
    await gateway.stop()


async def events_of(gateway: Gateway, message: Message, **circumstances: str) -> list[Event]:
    events: list[Event] = []

    async def send(event: Event) -> None:
        events.append(event)

    await gateway.exchange.ask(TurnRequest(message, "nlip-http", **circumstances), EventSink(send))  # type: ignore[arg-type]
    return events


async def reply_of(gateway: Gateway, message: Message, **circumstances: str) -> Message:
    last = (await events_of(gateway, message, **circumstances))[-1]
    assert isinstance(last, Reply)
    return last.message


async def test_a_reply_has_the_token_that_continues_the_conversation(gateway: Gateway) -> None:
    first = await reply_of(gateway, Message.text("one"))
    assert first.text == "one after 0"
    second = await reply_of(gateway, Message.text("two", parts=first.tokens))
    assert second.text == "two after 1"


async def test_a_turn_is_recorded_before_its_reply_is_sent(gateway: Gateway) -> None:
    recorded: list[str] = []

    async def send(event: Event) -> None:
        for row in await gateway.store.conversations(ANONYMOUS.id):
            recorded.extend(turn.asked.text for turn in await gateway.store.turns(row.id, 10))

    await gateway.exchange.ask(TurnRequest(Message.text("one"), "nlip-http"), EventSink(send))
    assert recorded == ["one"]


async def test_an_agent_that_remembers_nothing_leaves_no_conversation(gateway: Gateway) -> None:
    assert (await reply_of(gateway, Message.text("one"), agent="forgetful")).text == "one, once"
    assert await gateway.store.conversations(ANONYMOUS.id) == []


async def test_pieces_come_before_the_reply_and_the_reply_is_whole(gateway: Gateway) -> None:
    *pieces, last = await events_of(gateway, Message.text("go"), agent="speaker")
    assert [piece.part.content for piece in pieces if isinstance(piece, Delta)] == ["in ", "pieces"]
    assert isinstance(last, Reply) and last.message.text == "in pieces"


async def test_the_same_key_and_message_run_once(gateway: Gateway) -> None:
    first = await reply_of(gateway, Message.text("pay"), key="k1")
    again = await reply_of(gateway, Message.text("pay"), key="k1")
    assert (first.text, again.text) == ("pay after 0", "pay after 0")
    assert len(await gateway.store.conversations(ANONYMOUS.id)) == 1


@pytest.mark.parametrize(("name", "error"), [("nobody", NotFound), ("failing", TurnFailed)])
async def test_a_rejected_or_failed_request_is_audited_once_and_raises(
    gateway: Gateway, name: str, error: type[SabirError]
) -> None:
    with pytest.raises(error):
        await events_of(gateway, Message.text("x"), agent=name)
    outcomes = [line.line.outcome for line in await gateway.store.audit_lines()]
    assert outcomes == [error.__name__]
    assert gateway.exchange.running == 0


async def test_a_gateway_that_stops_takes_no_new_requests(gateway: Gateway) -> None:
    gateway.exchange.closing = True
    with pytest.raises(ShuttingDown):
        await events_of(gateway, Message.text("x"))
