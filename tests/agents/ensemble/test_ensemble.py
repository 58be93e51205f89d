"""An ensemble: members answer, see each other's answers, vote, and the winner presents (MW-42 to MW-47)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from deadline import DEADLINE
from sabir import Gateway, Message, Question, Turn, agent
from sabir.agents.ensemble import Ensemble, EnsembleOptions
from sabir.agents.ensemble.state import MemberAnswered, MemberFailed, MemberVoted, PanelState
from sabir.agents.ensemble.step import NewAnswer, Vote, read
from sabir.agents.llm import LLM, ScriptedModel
from sabir.errors import ConfigError, TurnFailed
from sabir.events import Delta, Event, Progress, Reply
from sabir.exchange.journal import StoreJournal
from sabir.stores.memory import MemoryStore


def answer(text: str) -> dict[str, Any]:
    return {"tool_calls": [{"name": "new_answer", "arguments": {"content": text}}]}


def vote(name: str) -> dict[str, Any]:
    return {"tool_calls": [{"name": "vote", "arguments": {"agent_id": name, "reason": "it is best"}}]}


def member(name: str, *script: Any) -> LLM:
    return LLM(name, ScriptedModel(script))


def when(ready: Callable[[str], bool], then: Any, otherwise: Any) -> Callable[[Any], Any]:
    """A step that looks at what the member is shown."""
    return lambda messages: then if ready(messages[-1].content) else otherwise


def steady(text: str, choice: str) -> list[Any]:
    """Answers once, however often it is interrupted, and then votes."""
    return [when(lambda said: "Your own answer" in said, vote(choice), answer(text))] * 8


async def run(ensemble: Ensemble, turn: Turn | None = None) -> tuple[Message, list[Event]]:
    events = [event async for event in ensemble(turn or Turn(Message.text("Which river?")))]
    last = events[-1]
    assert isinstance(last, Reply)
    return last.message, events


def outcome(message: Message) -> dict[str, Any]:
    part = message.labelled("ensemble")
    assert part is not None
    return dict(part.content)


# -- the state, by itself -----------------------------------------------------------------------------


def test_a_new_answer_ends_the_votes_given_before_it() -> None:
    state = PanelState(2).apply(MemberAnswered(0, "Rhine")).apply(MemberVoted(1, 0, seen=1))
    assert state.has_voted(1)
    assert not state.apply(MemberAnswered(0, "Danube")).has_voted(1)


def test_a_vote_that_has_not_seen_the_newest_answer_does_not_count() -> None:
    state = PanelState(2).apply(MemberAnswered(0, "Rhine")).apply(MemberAnswered(1, "Elbe"))
    assert not state.apply(MemberVoted(1, 0, seen=1)).has_voted(1)
    assert state.apply(MemberVoted(1, 0, seen=2)).has_voted(1)


def test_a_tie_falls_to_the_earlier_answer() -> None:
    state = PanelState(2).apply(MemberAnswered(1, "Elbe")).apply(MemberAnswered(0, "Rhine"))
    state = state.apply(MemberVoted(0, 0, seen=2)).apply(MemberVoted(1, 1, seen=2))
    assert state.is_decided and state.winner() == 1


def test_without_votes_the_first_answer_wins_and_without_answers_nobody() -> None:
    assert PanelState(3).winner() is None
    assert PanelState(3).apply(MemberAnswered(2, "a")).apply(MemberAnswered(0, "b")).winner() == 2


def test_a_member_that_failed_is_not_waited_for() -> None:
    state = (
        PanelState(2).apply(MemberAnswered(0, "Rhine")).apply(MemberVoted(0, 0, seen=1)).apply(MemberFailed(1, "gone"))
    )
    assert state.is_decided


@pytest.mark.parametrize(
    ("said", "decision"),
    [
        ("The Danube.", NewAnswer("The Danube.")),
        ("VOTE: agent1 because it is right", Vote(0, "it is right")),
        ("vote: Agent 2", Vote(1)),
        ("I would vote: agent1", NewAnswer("I would vote: agent1")),
    ],
)
def test_a_reply_in_words_is_a_vote_or_an_answer(said: str, decision: NewAnswer | Vote) -> None:
    assert read(Message.text(said), PanelState(2), frozenset({0, 1})) == decision


def test_a_vote_for_nobody_is_rejected() -> None:
    with pytest.raises(TurnFailed, match="which has no answer"):
        read(Message.text("VOTE: agent7"), PanelState(2), frozenset({0}))
    assert PanelState(5).member_of("agent٣") is None and PanelState(5).member_of("agent0") is None


def test_members_of_a_panel_within_a_panel_have_other_names() -> None:
    inner = PanelState(2, depth=1)
    assert inner.alias(0) == "subagent1" and inner.member_of("subagent2") == 1
    assert read(Message.text("VOTE: subagent2"), inner, frozenset({0, 1})) == Vote(1)
    assert read(Message.text("VOTE: agent2"), inner, frozenset({0, 1})) == NewAnswer("VOTE: agent2")  # for the outer


# -- the panel ----------------------------------------------------------------------------------------


async def test_members_answer_vote_and_the_winner_presents_streamed() -> None:
    alice = member("alice", answer("Rhine"), vote("agent1"), vote("agent1"), "The Rhine it is.")
    bob = member("bob", when(lambda said: "Rhine" in said, vote("agent1"), {"seconds": 5, "say": ""}), vote("agent1"))
    said, events = await run(Ensemble([alice, bob]))
    assert said.text == "The Rhine it is." or said.text == "Rhine"
    reply = outcome(said)
    assert reply["winner"] == "alice" and reply["votes"] == {"alice": "alice", "bob": "alice"}
    assert reply["ended"] == "all members have voted"
    notes = [event.note for event in events if isinstance(event, Progress)]
    assert notes[:2] == ["Asking alice, bob", "alice has answered"]
    assert any(isinstance(event, Delta) for event in events)


async def test_a_new_answer_interrupts_those_who_have_not_seen_it() -> None:
    slow = when(lambda said: "Rhine" in said, vote("agent1"), {"seconds": 60, "say": ""})
    bob = member("bob", slow, slow, slow)
    alice = member("alice", answer("Rhine"), vote("agent1"))
    said, _ = await asyncio.wait_for(run(Ensemble([alice, bob])), DEADLINE)
    assert outcome(said)["votes"] == {"alice": "alice", "bob": "alice"}
    assert len(bob.model.asked) == 2  # type: ignore[attr-defined]  # interrupted once, then asked with the answer


async def test_a_member_in_words_sits_on_the_same_panel() -> None:
    @agent(name="carol", description="A function")
    async def carol(turn: Turn) -> str:
        return "VOTE: agent1 because I agree" if "agent1 says" in turn.text else "The Elbe."

    alice = member("alice", *steady("Rhine", "agent1"))
    said, _ = await run(Ensemble([alice, carol], options=EnsembleOptions(present=False)))
    assert said.text == "Rhine"


async def test_others_are_shown_by_alias_and_never_by_name() -> None:
    alice, bob = member("alice", *steady("Rhine", "agent2")), member("bob", *steady("Elbe", "agent2"))
    await run(Ensemble([alice, bob], options=EnsembleOptions(present=False)))
    shown = "".join(message.content for asked in alice.model.asked for message in asked)  # type: ignore[attr-defined]
    assert "agent2 says" in shown and "bob" not in shown


@pytest.mark.parametrize(
    ("script", "fails"),
    [
        (["just words", "words again"], True),
        (["just words", answer("Elbe"), vote("agent1"), vote("agent1")], False),
        ([{"tool_calls": [*answer("a")["tool_calls"], *vote("agent1")["tool_calls"]]}] * 2, True),
    ],
    ids=["never decides", "decides when asked again", "both at once"],
)
async def test_a_step_ends_with_exactly_one_of_answer_and_vote(script: list[Any], fails: bool) -> None:
    alice = member("alice", answer("Rhine"), *[vote("agent1")] * 6)
    options = EnsembleOptions(present=False, interrupt=False)
    said, _ = await run(Ensemble([alice, member("bob", *script)], options=options))
    assert ("bob" in outcome(said)["failed"]) is fails


async def test_crashing_and_silent_members_are_named_and_the_others_continue() -> None:
    @agent(name="crash", description="Breaks")
    async def crash(turn: Turn) -> str:
        raise TurnFailed("the disk is full")

    @agent(name="silent", description="Says nothing for a long time")
    async def silent(turn: Turn) -> str:
        await asyncio.Event().wait()
        return ""

    alice = member("alice", answer("Rhine"), *[vote("agent1")] * 5)
    options = EnsembleOptions(step_seconds=1.0, present=False)
    said, _ = await run(Ensemble([alice, crash, silent], options=options))
    assert outcome(said)["failed"] == {"crash": "the disk is full", "silent": "no answer in time"}
    assert said.text == "Rhine"


async def test_if_no_member_answers_the_reasons_are_reported() -> None:
    @agent(name="crash", description="Breaks")
    async def crash(turn: Turn) -> str:
        raise TurnFailed("the disk is full")

    with pytest.raises(TurnFailed, match=r"no member has answered \(crash: the disk is full\)"):
        await run(Ensemble([crash]))


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (EnsembleOptions(seconds=1.0, present=False), "the time of 1 s is up"),
        (EnsembleOptions(tokens=1, present=False), "the budget of 1 tokens is used up"),
        (EnsembleOptions(steps=1, present=False, interrupt=False), "every member has taken all its steps"),
    ],
    ids=["time", "tokens", "steps"],
)
async def test_a_limit_ends_the_vote_and_the_best_answer_so_far_is_given(options: EnsembleOptions, reason: str) -> None:
    alice = member("alice", answer("Rhine"), {"seconds": 60, "say": ""})
    bob = member("bob", answer("Elbe"), {"seconds": 60, "say": ""})
    said, _ = await asyncio.wait_for(run(Ensemble([alice, bob], options=options)), DEADLINE)
    assert outcome(said)["ended"] == reason
    assert said.text in ("Rhine", "Elbe")


async def test_a_member_that_has_given_all_its_answers_may_only_vote() -> None:
    alice = member("alice", answer("one"), answer("two"), *[vote("agent1")] * 3)
    said, _ = await run(Ensemble([alice], options=EnsembleOptions(answers=1, present=False)))
    assert outcome(said)["answers"] == {"alice": 1}
    assert said.text == "one"


async def test_questions_of_members_reach_the_caller_one_at_a_time() -> None:
    asking = 0

    async def ask(question: Question) -> Message:
        nonlocal asking
        asking += 1
        assert asking == 1, "two questions at once"
        await asyncio.sleep(0)
        asking -= 1
        return Message.text("blue")

    def asker(name: str) -> Any:
        @agent(name=name, description="Asks back")
        async def asks(turn: Turn) -> str:
            if "says" in turn.text or "Your own answer" in turn.text:
                return "VOTE: agent1"
            return (await turn.ask("Which colour?")).text

        return asks

    turn = Turn(Message.text("Paint"), ask_back=ask)
    said, _ = await run(Ensemble([asker("a"), asker("b"), asker("c")], options=EnsembleOptions(present=False)), turn)
    assert said.text == "blue"


async def test_a_panel_continues_from_its_journal_and_pays_for_nothing_twice() -> None:
    store = MemoryStore()
    await store.open()
    journal = StoreJournal(store)
    for event in (MemberAnswered(0, "Rhine", tokens=7), MemberAnswered(1, "Elbe"), MemberVoted(0, 0, "best", 2)):
        await journal.append("turn-1", msgspec.json.encode(event))
    alice, bob = member("alice"), member("bob", vote("agent1"))
    turn = Turn(Message.text("Which river?"), id="turn-1", journal=journal)
    said, _ = await run(Ensemble([alice, bob], options=EnsembleOptions(present=False)), turn)
    assert said.text == "Rhine"
    assert alice.model.asked == []  # type: ignore[attr-defined]
    assert outcome(said)["tokens"] >= 7
    await store.close()


async def test_ten_members_and_many_rounds_stay_within_bounds() -> None:
    def busy(number: int) -> LLM:
        return member(f"m{number}", *[answer(f"{number}.{turn}") for turn in range(20)], *[vote("agent1")] * 40)

    options = EnsembleOptions(answers=20, steps=60, present=False)
    said, _ = await run(Ensemble([busy(number) for number in range(10)], options=options))
    reply = outcome(said)
    assert sum(reply["answers"].values()) <= 200
    assert reply["ended"] in ("all members have voted", "every member has taken all its steps")


def test_an_ensemble_needs_members_with_names_of_their_own() -> None:
    with pytest.raises(ConfigError, match="unique names"):
        Ensemble([member("a"), member("a")])
    with pytest.raises(ConfigError):
        Ensemble([])


async def test_an_ensemble_is_served_like_any_agent(home: Path) -> None:
    panel = Ensemble([member("alice", answer("Rhine"), *[vote("agent1")] * 3)], options=EnsembleOptions(present=False))
    gateway = Gateway(panel, home=home)
    assert gateway.agents["ensemble"].card.repeatable
