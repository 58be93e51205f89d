"""How one answer is made of many: first, all, best, vote, merge; agreement is judged by meaning (MW-51)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from deadline import DEADLINE
from sabir import Message, Turn, agent, connect
from sabir.agent import FunctionAgent
from sabir.agents.agreement import agree, groups
from sabir.agents.federation import Federation, Strategy
from sabir.events import Delta, Event, Fault, Reply
from sabir.testing import served

QUESTION = "What is the capital of France?"


def saying(name: str, text: str, seconds: float = 0.0) -> FunctionAgent:
    @agent(name=name)
    async def member(turn: Turn) -> str:
        await asyncio.sleep(seconds)
        return text

    return member


async def run(federation: Federation) -> tuple[Message, list[Event]]:
    events = [event async for event in federation(Turn(Message.text(QUESTION)))]
    last = events[-1]
    assert isinstance(last, Reply), last
    return last.message, events


def part(message: Message, label: str) -> Any:
    found = message.labelled(label)
    assert found is not None
    return found.content


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("Paris.", "The capital of France is Paris.", True),
        ("It is Paris!", "paris", True),
        ("Paris", "Lyon", False),
        ("It is not Paris.", "It is Paris.", False),
        ("There are 12 of them.", "Twelve.", True),
        ("1,299.50 euros", "1299.5 euros", True),
        ("About 12 minutes", "About 13 minutes", False),
        ("", "Paris", False),
        ("Paris or Lyon", "Paris", False),
    ],
)
def test_two_answers_agree_if_they_say_the_same(one: str, other: str, same: bool) -> None:
    assert agree(one, other, QUESTION) is same
    assert agree(other, one, QUESTION) is same


def test_sources_are_grouped_by_what_they_say_the_largest_group_first() -> None:
    answers = {"a": "Lyon", "b": "Paris", "c": "The capital is Paris."}
    assert groups(answers, QUESTION) == [["b", "c"], ["a"]]


async def test_first_takes_the_quickest_answer_and_ends_the_others() -> None:
    ended = asyncio.Event()

    @agent(name="slow")
    async def slow(turn: Turn) -> str:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            ended.set()
            raise
        return "never"

    said, _ = await run(Federation([slow, saying("quick", "Paris")], strategy="first"))
    assert said.text == "Paris" and part(said, "sources")["answered"] == ["quick"]
    await asyncio.wait_for(ended.wait(), DEADLINE)


async def test_first_passes_over_a_member_that_fails() -> None:
    @agent(name="broken")
    async def broken(turn: Turn) -> Fault:
        return Fault("no")

    said, _ = await run(Federation([broken, saying("b", "Paris", 0.01)], strategy="first"))
    assert said.text == "Paris" and part(said, "sources")["failed"] == {"broken": "no"}


async def test_all_puts_answers_below_each_other_and_streams_each_with_its_source() -> None:
    federation = Federation([saying("a", "Paris", 0.02), saying("b", "Lyon")])
    said, events = await run(federation)
    assert said.text.startswith("a: Paris\nb: Lyon")
    assert streamed(events) == [("b", "b: "), ("b", "Lyon"), ("b", "\n"), ("a", "a: "), ("a", "Paris"), ("a", "\n")]


def streamed(events: list[Event]) -> list[tuple[str | None, str]]:
    return [(event.part.label, event.part.content) for event in events if isinstance(event, Delta)]


async def test_pieces_stream_as_they_come_and_never_mix() -> None:  # MW-51
    begun, finish = asyncio.Event(), asyncio.Event()

    @agent(name="slow", description="Speaks in two pieces")
    async def slow(turn: Turn) -> AsyncIterator[str]:
        yield "Paris"
        begun.set()
        await finish.wait()
        yield ", surely."

    @agent(name="quick", description="Speaks meanwhile")
    async def quick(turn: Turn) -> AsyncIterator[str]:
        await begun.wait()
        yield "Ly"
        yield "on."
        finish.set()

    heard: list[tuple[str | None, str]] = []
    async for event in Federation([quick, slow])(Turn(Message.text(QUESTION))):
        heard += streamed([event])
        if heard == [("slow", "slow: "), ("slow", "Paris")]:
            assert not finish.is_set(), "a piece is sent before the answer is whole"
    assert "".join(text for _, text in heard) == "slow: Paris, surely.\nquick: Lyon.\n"
    assert [source for source, _ in heard] == ["slow"] * 4 + ["quick"] * 4


async def test_a_source_that_fails_while_it_speaks_gives_the_floor_to_the_next() -> None:
    @agent(name="broken", description="Breaks in the middle")
    async def broken(turn: Turn) -> AsyncIterator[str | Fault]:
        yield "Par"
        yield Fault("no")

    said, events = await run(Federation([broken, saying("b", "Lyon", 0.02)]))
    assert "".join(text for _, text in streamed(events)) == "broken: Par\nb: Lyon\n"
    assert said.parts[0].content == "b: Lyon" and part(said, "sources")["failed"] == {"broken": "no"}


async def test_vote_takes_what_most_say_however_they_put_it() -> None:
    members = [saying("a", "Lyon."), saying("b", "Paris"), saying("c", "The capital of France is Paris.")]
    said, _ = await run(Federation(members, strategy="vote"))
    assert said.parts[0].content == "Paris"
    assert part(said, "agreement") == {"agree": ["b", "c"], "differ": ["a"]}


@pytest.mark.parametrize("path", ["/nlip", "/a2a/fed", "/mcp", "/ask", "/acl"])
async def test_a_vote_says_the_outcome_first_and_names_each_source_once(path: str, elections: str) -> None:
    async with connect(f"{elections}{path}") as peer:
        reply = await peer.ask(QUESTION)
    listed = "a: Lyon.\nb: Paris\nc: The capital of France is Paris."
    assert reply.text == f"Paris\n2 of 3 sources agree:\n{listed}"


@pytest.fixture(scope="module")
def elections() -> Iterator[str]:
    members = [saying("a", "Lyon."), saying("b", "Paris"), saying("c", "The capital of France is Paris.")]
    with served(Federation(members, strategy="vote", name="fed")) as url:
        yield url


STRATEGIES: list[tuple[Strategy, list[str], str]] = [
    ("all", ["Paris.", "Lyon."], "m0: Paris.\nm1: Lyon."),
    ("best", ["Lyon.", "Paris.", "It is Paris."], "Paris."),
    ("merge", ["Paris.", "It is Paris. It is old."], "Paris. It is old."),
    ("vote", ["Paris.", "Paris."], "Paris.\nAll 2 sources agree:\nm0: Paris.\nm1: Paris."),
    ("vote", ["Paris."], "Paris."),
    ("vote", ["Paris.", "Lyon."], "The sources do not agree.\nm0: Paris.\nm1: Lyon."),
]


@pytest.mark.parametrize(("strategy", "answers", "text"), STRATEGIES, ids=[f"{s}{len(a)}" for s, a, _ in STRATEGIES])
async def test_no_answer_is_said_twice_or_without_its_source(strategy: Strategy, answers: list[str], text: str) -> None:
    members = [saying(f"m{number}", answer) for number, answer in enumerate(answers)]
    said, _ = await run(Federation(members, strategy=strategy))
    assert said.text == text
    assert part(said, "answers") == {f"m{number}": answer for number, answer in enumerate(answers)}


async def test_a_vote_inside_a_vote_counts_with_its_outcome() -> None:
    inner = Federation([saying("a", "Paris"), saying("b", "Paris")], strategy="vote", name="inner")
    said, _ = await run(Federation([inner, saying("c", "Paris."), saying("d", "Lyon")], strategy="vote"))
    assert part(said, "agreement") == {"agree": ["inner", "c"], "differ": ["d"]}


async def test_vote_without_a_majority_says_so() -> None:
    said, _ = await run(Federation([saying("a", "Lyon"), saying("b", "Paris")], strategy="vote"))
    assert said.parts[0].content == "The sources do not agree.\na: Lyon\nb: Paris"


async def test_best_takes_the_answer_that_most_others_support() -> None:
    members = [saying("a", "Lyon"), saying("b", "Paris"), saying("c", "Paris, certainly")]
    said, _ = await run(Federation(members, strategy="best"))
    assert said.parts[0].content == "Paris" and part(said, "agreement")["chosen"] == "b"


async def test_merge_says_each_thought_once() -> None:
    members = [saying("a", "It is Paris. It lies on the Seine."), saying("b", "Paris. Two million people live there.")]
    said, _ = await run(Federation(members, strategy="merge"))
    assert said.parts[0].content == "It is Paris. It lies on the Seine. Two million people live there."


@pytest.mark.parametrize("strategy", ["best", "merge"])
async def test_an_integrator_gets_the_strategy(strategy: Strategy) -> None:
    asked: list[str] = []

    @agent(name="judge")
    async def judge(turn: Turn) -> str:
        asked.append(str(turn.message.content))
        return "Paris"

    said, _ = await run(Federation([saying("a", "Lyon"), saying("b", "Paris")], strategy=strategy, integrator=judge))
    assert said.text == "Paris" and asked[0].startswith(QUESTION) and len(asked[0]) > len(QUESTION)


async def test_each_source_has_a_time_of_its_own() -> None:
    members = [saying("a", "Paris", 30), saying("b", "Lyon")]
    said, _ = await run(Federation(members, seconds={"a": 0.05}))
    assert part(said, "sources") == {"answered": ["b"], "failed": {"a": "no answer in time"}}
