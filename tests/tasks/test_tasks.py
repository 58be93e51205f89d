"""Tasks on one node: the state machine, progress and events, questions, cancel, limits, expiry."""

from __future__ import annotations

import asyncio
import time

import msgspec
import pytest

from deadline import DEADLINE
from sabir.agent import agent
from sabir.errors import Conflict, NotFound, RateLimited, ShuttingDown, TurnFailed
from sabir.events import Delta, Progress, Question
from sabir.exchange.request import EventSink, TurnRequest
from sabir.message import Message, token_part
from sabir.stores.base import ENDED
from sabir.tasks import FINAL, LIVE, TRANSITIONS, part_of
from sabir.turn import Caller, Turn

from .conftest import ADA, EVE, MakeNode, asked, until


@agent(name="echo")
async def echo(turn: Turn) -> str:
    return f"You said: {turn.text}"


@agent(name="painter")
async def painter(turn: Turn) -> str:
    colour = await turn.ask("Which colour?")
    size = await turn.ask(Question("How big?"))
    return f"{colour.text}, {size.text}"


def test_every_state_leads_somewhere_or_is_an_end() -> None:
    assert set(LIVE) == {"submitted", "working", "input-required"}
    assert FINAL == set(ENDED) == {"completed", "failed", "cancelled", "expired"}
    assert all(following <= TRANSITIONS.keys() for following in TRANSITIONS.values())
    assert all(TRANSITIONS[state] >= FINAL for state in LIVE)


async def test_a_task_is_stored_at_once_and_its_reply_when_it_comes(node: MakeNode) -> None:
    here = await node(echo)
    task = await here.tasks.submit(asked("hello"))
    assert await here.store.task(task.id) is not None
    done = await here.tasks.wait(task.id, ADA, 30)
    assert (done.state, done.progress, done.fault) == ("completed", 1.0, None)
    assert done.reply is not None and done.reply.text == "You said: hello"
    token = done.reply.tokens[-1]
    conversation = here.exchange.conversations.opened(token, ADA)
    assert conversation is not None
    assert [turn.answered.text for turn in await here.store.turns(conversation, 9)] == ["You said: hello"]


async def test_a_task_is_found_only_by_its_owner(node: MakeNode) -> None:
    here = await node(echo)
    task = await here.tasks.submit(asked("hello"))
    for call in (
        here.tasks.find(task.id, EVE),
        here.tasks.wait(task.id, EVE, 0),
        here.tasks.cancel(task.id, EVE),
        here.tasks.answer(task.id, EVE, Message.text("x")),
        anext(here.tasks.follow(task.id, EVE)),
        here.tasks.find("0" * 64, ADA),
    ):
        with pytest.raises(NotFound, match="task not found"):
            await call


async def test_progress_and_pieces_are_read_on_from_a_cursor(node: MakeNode) -> None:
    go_on = asyncio.Event()

    @agent(name="slow")
    async def slow(turn: Turn):  # type: ignore[no-untyped-def]
        yield Progress(0.25, "a quarter")
        yield "one "
        await go_on.wait()
        yield Delta.text("two")

    here = await node(slow)
    task = await here.tasks.submit(asked("go"))
    events = here.tasks.follow(task.id, ADA)
    first, second = await anext(events), await anext(events)
    assert (first.number, first.kind, first.body) == (1, "progress", {"fraction": 0.25, "note": "a quarter"})
    assert (second.number, part_of(second.body).content) == (2, "one ")
    seen = await here.tasks.find(task.id, ADA)
    assert (seen.state, seen.progress, seen.note) == ("working", 0.25, "a quarter")
    go_on.set()
    rest = [event async for event in events]
    assert [(event.number, event.kind) for event in rest] == [(3, "delta"), (4, "reply")]
    again = [event.number async for event in here.tasks.follow(task.id, ADA, since=2)]
    assert again == [3, 4]


async def test_more_events_than_a_page_are_all_followed(node: MakeNode) -> None:
    here = await node(echo)
    task = await here.tasks.submit(asked("x"))
    await here.tasks.wait(task.id, ADA, 30)
    store = here.store
    event = (await store.task_events(task.id))[-1]
    await asyncio.gather(*(store.add_task_event(task.id, event) for _ in range(1200)))
    assert len([event async for event in here.tasks.follow(task.id, ADA)]) == 1201


async def test_a_failure_says_why(node: MakeNode) -> None:
    @agent(name="broken")
    async def broken(turn: Turn) -> str:
        raise TurnFailed("the oven is cold")

    here = await node(broken)
    task = await here.tasks.submit(asked("bake"))
    done = await here.tasks.wait(task.id, ADA, 30)
    assert (done.state, done.fault, done.fault_code, done.reply) == ("failed", "the oven is cold", "failed", None)
    assert [e.kind for e in await here.store.task_events(task.id)] == ["fault"]


async def test_questions_are_answered_and_the_agent_continues(node: MakeNode) -> None:
    here = await node(painter)
    task = await here.tasks.submit(asked("paint"))
    waiting = await here.tasks.wait(task.id, ADA, 30)
    assert waiting.state == "input-required"
    assert waiting.question is not None and waiting.question["text"] == "Which colour?"
    answered = await here.tasks.answer(task.id, ADA, Message.text("red"))
    assert (answered.state, answered.question) == ("working", None)
    waiting = await here.tasks.wait(task.id, ADA, 30)
    assert waiting.question is not None and waiting.question["text"] == "How big?"
    await here.tasks.answer(task.id, ADA, Message.text("large"))
    done = await here.tasks.wait(task.id, ADA, 30)
    assert done.reply is not None and done.reply.text == "red, large"
    kinds = [event.kind for event in await here.store.task_events(task.id)]
    assert kinds == ["question", "answer", "question", "answer", "reply"]


async def test_a_task_that_waits_for_nothing_takes_no_answer(node: MakeNode) -> None:
    here = await node(echo)
    task = await here.tasks.submit(asked("hello"))
    await here.tasks.wait(task.id, ADA, 30)
    with pytest.raises(Conflict, match=r"does not wait for input \(completed\)"):
        await here.tasks.answer(task.id, ADA, Message.text("red"))


async def test_a_question_is_answered_once(node: MakeNode) -> None:
    @agent(name="asker")
    async def asker(turn: Turn) -> str:
        return (await turn.ask("Which colour?")).text

    here = await node(asker)
    task = await here.tasks.submit(asked("paint"))
    await here.tasks.wait(task.id, ADA, 30)
    colours = ("red", "blue", "green")
    answers = await asyncio.gather(
        *(here.tasks.answer(task.id, ADA, Message.text(colour)) for colour in colours), return_exceptions=True
    )
    assert sorted(type(item).__name__ for item in answers) == ["Conflict", "Conflict", "TaskRow"]
    done = await until(lambda seen: seen.state == "completed", here, task.id)
    taken = next(colour for colour, item in zip(colours, answers, strict=True) if not isinstance(item, Exception))
    assert done.reply is not None and done.reply.text == taken


async def test_an_answer_that_comes_in_the_conversation_completes_the_task(node: MakeNode) -> None:
    @agent(name="asker")
    async def asker(turn: Turn) -> str:
        return f"so: {(await turn.ask('Which?')).text}"

    here = await node(asker)
    task = await here.tasks.submit(asked("paint"))
    await here.tasks.wait(task.id, ADA, 30)
    stored = await here.store.task(task.id)
    assert stored is not None
    replies = []

    async def send(event: object) -> None:
        replies.append(event)

    await here.exchange.ask(
        asked("", message=Message.text("that").with_part(stored.message.tokens[-1])), EventSink(send)
    )
    assert len(replies) == 1
    done = await until(lambda seen: seen.state == "completed", here, task.id)
    assert done.reply is not None and done.reply.text == "so: that"


async def test_cancel_reaches_the_agent(node: MakeNode) -> None:
    begun, stopped = asyncio.Event(), asyncio.Event()

    @agent(name="slow")
    async def slow(turn: Turn) -> str:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return "never"

    here = await node(slow)
    task = await here.tasks.submit(asked("work"))
    await begun.wait()
    ended = await here.tasks.cancel(task.id, ADA)
    assert (ended.state, ended.fault_code) == ("cancelled", "cancelled")
    await asyncio.wait_for(stopped.wait(), DEADLINE)
    with pytest.raises(Conflict, match=r"already ended \(cancelled\)"):
        await here.tasks.cancel(task.id, ADA)
    lines = await here.store.audit_lines()
    assert ("task", "cancelled", task.id) in [(at.line.kind, at.line.outcome, at.line.turn) for at in lines]


async def test_a_question_can_be_cancelled(node: MakeNode) -> None:
    here = await node(painter)
    task = await here.tasks.submit(asked("paint"))
    await here.tasks.wait(task.id, ADA, 30)
    assert (await here.tasks.cancel(task.id, ADA)).state == "cancelled"
    with pytest.raises(Conflict):
        await here.tasks.answer(task.id, ADA, Message.text("red"))


async def test_more_tasks_than_run_at_once_wait_their_turn(node: MakeNode) -> None:
    peak = running = 0

    @agent(name="counting")
    async def counting(turn: Turn) -> str:
        nonlocal peak, running
        running += 1
        peak = max(peak, running)
        await asyncio.sleep(0)
        running -= 1
        return turn.text

    here = await node(counting, running=3)
    tasks = [await here.tasks.submit(asked(str(n))) for n in range(12)]
    done = await asyncio.gather(*(here.tasks.wait(task.id, ADA, 30) for task in tasks))
    assert [item.reply.text for item in done if item.reply is not None] == [str(n) for n in range(12)]
    assert peak <= 3


async def test_an_owner_has_a_limit_and_others_are_not_touched_by_it(node: MakeNode) -> None:
    here = await node(painter, per_owner=2)
    first = await here.tasks.submit(asked("a"))
    await here.tasks.submit(asked("b"))
    with pytest.raises(RateLimited, match="at most 2 tasks at a time"):
        await here.tasks.submit(asked("c"))
    await here.tasks.submit(asked("c", caller=EVE))
    await here.tasks.cancel(first.id, ADA)
    await here.tasks.submit(asked("c"))


async def test_an_unknown_agent_and_a_taken_id_are_refused(node: MakeNode) -> None:
    here = await node(echo)
    with pytest.raises(NotFound, match="no agent 'nobody'"):
        await here.tasks.submit(asked("x", "nobody"))
    await here.tasks.submit(asked("x"), task_id="mine")
    with pytest.raises(Conflict, match="of this id already"):
        await here.tasks.submit(asked("y", caller=EVE), task_id="mine")


async def test_the_same_key_again_is_the_same_task(node: MakeNode) -> None:
    calls: list[str] = []

    @agent(name="once")
    async def once(turn: Turn) -> str:
        calls.append(turn.text)
        return turn.text

    here = await node(once)

    def keyed(caller: Caller, key: str = "k" * 22) -> TurnRequest:
        ask = asked("work", caller=caller)
        ask.key = key
        return ask

    first, second = await asyncio.gather(here.tasks.submit(keyed(ADA)), here.tasks.submit(keyed(ADA)))
    assert first.id == second.id
    await here.tasks.wait(first.id, ADA, 30)
    assert (await here.tasks.submit(keyed(ADA))).state == "completed"
    hers = await here.tasks.submit(keyed(EVE))
    assert hers.id != first.id
    stranger = Caller(address="127.0.0.1")
    theirs = await here.tasks.submit(keyed(stranger))
    assert theirs.id == (await here.tasks.submit(keyed(stranger))).id
    guessable = [await here.tasks.submit(keyed(stranger, "1")) for _ in range(2)]
    assert guessable[0].id != guessable[1].id
    await here.tasks.wait(hers.id, EVE, 30)
    await asyncio.gather(*(here.tasks.wait(task.id, stranger, 30) for task in (theirs, *guessable)))
    assert len(calls) == 5


async def test_pieces_beyond_the_limit_are_left_out_and_the_reply_is_whole(node: MakeNode) -> None:
    @agent(name="chatty")
    async def chatty(turn: Turn):  # type: ignore[no-untyped-def]
        for n in range(20):
            yield str(n % 10)

    here = await node(chatty, events=5)
    task = await here.tasks.submit(asked("talk"))
    done = await here.tasks.wait(task.id, ADA, 30)
    assert done.reply is not None and done.reply.text == "01234567890123456789"
    assert [event.kind for event in await here.store.task_events(task.id)] == ["delta"] * 5 + ["reply"]


async def test_a_question_that_nobody_answers_expires(node: MakeNode) -> None:
    here = await node(painter)
    task = await here.tasks.submit(asked("paint"))
    await here.tasks.wait(task.id, ADA, 30)
    await here.tasks.close()  # nobody holds it any more
    stored = await here.store.task(task.id)
    assert stored is not None and stored.state == "input-required"
    await here.store.put_task(msgspec.structs.replace(stored, expires=time.time() - 1))
    await here.tasks.start()
    done = await until(lambda seen: seen.state in FINAL, here, task.id)
    assert (done.state, done.fault, done.fault_code) == ("expired", "its question was not answered in time", "deadline")


async def test_an_ended_task_is_kept_for_its_retention_and_then_swept(node: MakeNode) -> None:
    here = await node(echo, retention=100.0)
    task = await here.tasks.submit(asked("hello"))
    done = await here.tasks.wait(task.id, ADA, 30)
    assert done.expires == pytest.approx(done.updated + 100.0)
    await here.store.sweep(done.expires - 1)
    assert await here.store.task(task.id) is not None
    await here.store.sweep(done.expires)
    assert (await here.store.task(task.id), await here.store.task_events(task.id)) == (None, [])


async def test_credentials_in_a_message_are_not_stored(node: MakeNode) -> None:
    here = await node(echo)
    secret = token_part("s3cret", "authentication_x")
    for message in (Message.text("hi").with_part(secret), Message.of(secret, Message.text("hi").first)):
        task = await here.tasks.submit(asked("", message=message))
        done = await here.tasks.wait(task.id, ADA, 30)
        assert done.reply is not None and done.reply.text.split() == ["You", "said:", "hi"]
        assert b"s3cret" not in msgspec.msgpack.encode(await here.store.task(task.id))


async def test_a_stopping_gateway_takes_no_new_task(node: MakeNode) -> None:
    here = await node(echo)
    here.exchange.closing = True
    with pytest.raises(ShuttingDown):
        await here.tasks.submit(asked("hello"))


async def test_finished_waiters_are_not_kept(node: MakeNode) -> None:
    here = await node(echo)
    task = await here.tasks.submit(asked("hello"))
    await here.tasks.wait(task.id, ADA, 30)
    assert [event async for event in here.tasks.follow(task.id, ADA)]
    with pytest.raises(NotFound):
        await here.tasks.wait("none", ADA, 30)
    assert vars(vars(vars(here.tasks)["_ledger"])["_changes"])["_watching"] == {}
