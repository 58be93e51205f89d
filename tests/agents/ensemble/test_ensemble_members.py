"""Members of an ensemble behind every protocol, and what they are given (MW-42, MW-45, MW-46, MW-48 to MW-50)."""

from __future__ import annotations

import functools
import json
import re
import tracemalloc
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from conftest import Serve, Served, serving
from sabir import Gateway, Message, Turn, agent, connect
from sabir.agent import FunctionAgent
from sabir.agents.ensemble import Ensemble, EnsembleOptions, panel_events
from sabir.agents.ensemble.state import PanelState
from sabir.agents.llm import LLM, LLMOptions, Price, ScriptedModel
from sabir.errors import TurnFailed
from sabir.events import Question
from sabir.message import binary_part
from sabir.protocols.connect import place_of_agent
from sabir.stores.sqlite.store import SQLiteStore
from sabir.testing import Answered, FakeAgent, MemoryJournal, ask
from sabir.turn import Meter

PROTOCOLS = {"alice": "nlip", "bob": "nlweb", "carol": "mcp", "dave": "a2a", "erin": "acl"}
QUICK = EnsembleOptions(present=False)


def panelist(name: str, first: str = "") -> FunctionAgent:
    """Answers as long as nobody else has, and then votes for the first answer that it sees."""

    @agent(name=name, description="Sits on a panel")
    async def sits(turn: Turn) -> str:
        for number in range(1, 6):
            if f"agent{number} says" in turn.text:
                return f"VOTE: agent{number} because it is good"
        own = re.search(r"Your own answer so far, as (agent\d)", turn.text)
        return f"VOTE: {own[1]}" if own is not None else first or "The Rhine."

    return sits


def outcome(answer: Answered) -> dict[str, Any]:
    part = answer.message.labelled("ensemble")
    assert part is not None
    return dict(part.value)


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    agents = [panelist(name) for name in PROTOCOLS]
    with serving(Gateway(*agents, home=tmp_path_factory.mktemp("remote"))) as served:
        yield served


async def test_one_member_sits_behind_each_protocol_at_once(remote: Served) -> None:
    async with AsyncExitStack() as stack:
        peers = []
        for name, protocol in PROTOCOLS.items():
            place = place_of_agent(remote.url, name, protocol)
            peers.append(await stack.enter_async_context(connect(place, protocol=protocol, name=name)))
        answer = await ask(Ensemble(peers, options=QUICK), "Which river?", seconds=60)
    reply = outcome(answer)
    assert reply["failed"] == {} and reply["ended"] == "all members have voted"
    assert set(reply["votes"]) == set(PROTOCOLS)


# -- what members are given ---------------------------------------------------------------------------


async def test_members_see_the_conversation_and_the_images_of_the_question() -> None:  # MW-48
    bob = FakeAgent("bob", "Elbe", "VOTE: agent1")
    call = {"name": "new_answer", "arguments": {"content": "Rhine"}}
    vote = {"tool_calls": [{"name": "vote", "arguments": {"agent_id": "agent1"}}]}
    model = ScriptedModel([{"tool_calls": [call]}, *[vote] * 5])
    image = binary_part(b"png", "image/png")
    question = Message.text("And this one?").with_part(image)
    options = EnsembleOptions(present=False, interrupt=False)
    history = [("Which river is this?", "The Elbe.")]
    await ask(Ensemble([LLM("alice", model), bob], options=options), question, history=history)
    assert [message.content for message in model.asked[0][:2]] == list(history[0])
    assert model.asked[0][-1].images == (image,)
    assert bob.turns[0].conversation.turns[0].answered.text == "The Elbe."
    assert image in bob.turns[0].parts


async def test_the_budget_of_the_turn_holds_for_all_members_together() -> None:
    call = {"tool_calls": [{"name": "new_answer", "arguments": {"content": "Rhine"}}]}
    members = [LLM(name, ScriptedModel([call] * 9), options=LLMOptions(price=Price(1, 1, 1))) for name in "ab"]
    meter = Meter(max_tokens=400)
    answer = await ask(Ensemble(members, options=EnsembleOptions(present=False, answers=9)), "Which?", budget=meter)
    reply = outcome(answer)
    assert reply["ended"] == "the budget of the turn is used up" or set(reply["failed"]) == {"a", "b"}
    assert reply["tokens"] == meter.tokens == meter.own_tokens and reply["cost"] == pytest.approx(meter.cost)
    assert meter.tokens >= 400 and meter.calls >= 4


async def test_an_orchestrator_can_be_a_member() -> None:  # MW-42
    @agent(name="a", description="Sits on the inner panel")
    async def inside(turn: Turn) -> str:
        if "as subagent1" in turn.text:
            return "VOTE: subagent1"
        return "VOTE: agent2" if "agent2 says" in turn.text else "Rhine"  # a vote on the outer panel is the answer here

    inner = Ensemble([inside], options=QUICK)
    answer = await ask(Ensemble([inner, panelist("c")], name="outer", options=QUICK), "Which river?")
    assert outcome(answer)["failed"] == {} and set(outcome(answer)["votes"]) == {"ensemble", "c"}


async def test_a_member_that_breaks_or_comes_late_is_named_and_the_winner_may_break_too(
    caplog: pytest.LogCaptureFixture,
) -> None:  # MW-46
    @agent(name="broken", description="Has a defect")
    async def broken(turn: Turn) -> str:
        raise ValueError("a secret of the inside")

    @agent(name="winner", description="Cannot present")
    async def winner(turn: Turn) -> str:
        if "your answer won" in turn.text:
            raise ValueError("a secret of the inside")
        return "VOTE: agent1" if "as agent1" in turn.text else "Rhine"

    late = FakeAgent("late", "Elbe", seconds=60)
    voter = FakeAgent("voter", "Oder", "VOTE: agent1")
    options = EnsembleOptions(step_seconds=1.0, interrupt=False)
    answer = await ask(Ensemble([winner, voter, broken, late], options=options), "Which?")
    assert outcome(answer)["failed"] == {"broken": "an internal error", "late": "no answer in time"}
    assert outcome(answer)["winner"] == "winner" and answer.message.content == "Rhine"
    assert "secret" not in str(answer.message) and "secret" in caplog.text


@pytest.mark.parametrize(
    ("first", "then", "failed"),
    [
        ("VOTE: agent9", "Elbe", {}),
        ("", "Elbe", {}),
        ("VOTE: agent9", "VOTE: agent9", {"bob": "it voted for agent9, which has no answer"}),
        ("", "", {"bob": "it said nothing"}),
    ],
)
async def test_a_member_in_words_that_is_not_understood_is_asked_once_more(
    first: str, then: str, failed: dict[str, str]
) -> None:  # MW-43
    bob = FakeAgent("bob", Message.text(first), Message.text(then), "VOTE: agent1")
    options = EnsembleOptions(present=False, interrupt=False)
    answer = await ask(Ensemble([panelist("alice"), bob], options=options), "Which?")
    assert outcome(answer)["failed"] == failed
    assert "could not be used" in bob.asked[1]


async def test_a_panel_that_was_stopped_continues_and_so_do_nested_panels() -> None:  # MW-47
    journal = MemoryJournal()
    blocked = FakeAgent("slow", TurnFailed("x"), seconds=60)
    quick = FakeAgent("quick", "Rhine", "VOTE: subagent1", "VOTE: agent1", "VOTE: subagent1")
    inner = Ensemble([quick, blocked], name="inner", options=QUICK)
    outer = Ensemble([inner], name="outer", options=QUICK)
    with pytest.raises(TimeoutError):
        await ask(outer, "Which?", journal=journal, seconds=1.0)
    assert len(quick.turns) == 2  # it has answered and voted; both are written down
    resumed = Ensemble([quick, FakeAgent("slow", "VOTE: subagent1")], name="inner", options=QUICK)
    answer = await ask(Ensemble([resumed], name="outer", options=QUICK), "Which?", journal=journal)
    assert "Rhine" in answer.text
    assert len(quick.turns) == 4  # two for the vote of the inner panel, none for what was written down


async def test_what_happened_can_be_read_again_and_leads_to_the_same_end() -> None:  # MW-47
    journal = MemoryJournal()
    answer = await ask(Ensemble([busy(0, 2), busy(1, 2)], options=QUICK), "Which river?", journal=journal)
    events = await panel_events(journal, "test")
    state = functools.reduce(PanelState.apply, events, PanelState(2))
    assert state.ended is not None and state.ended.reason == outcome(answer)["ended"]
    assert (state.tokens, state.cost) == (outcome(answer)["tokens"], outcome(answer)["cost"]) and state.tokens > 0
    times = [event.at for event in events]
    assert times == sorted(times) and times[0] > 0


# -- coordination by messages (MW-45) -------------------------------------------------------------------


@pytest.mark.parametrize("through_nlip", [True, False])
async def test_coordination_goes_as_nlip_messages_over_the_wire_and_into_the_audit(
    remote: Served, serve: Serve, home: Path, through_nlip: bool
) -> None:
    sent: list[dict[str, Any]] = []

    def on_wire(direction: str, data: bytes) -> None:
        if direction == "sent" and b"{" in data:
            sent.append(json.loads(data[data.index(b"{") :]))

    peer = connect(place_of_agent(remote.url, "alice", "nlip"), protocol="nlip", name="alice", on_wire=on_wire)
    options = EnsembleOptions(present=False, coordinate_via_nlip=through_nlip)
    panel = Ensemble([peer, panelist("bob", "The Elbe.")], name="panel", options=options)
    members = [peer, panelist("bob")]
    async with peer:
        served = serve(Gateway(panel, *members, home=home))
        async with connect(f"{served.url}/nlip/panel") as client:
            reply = await client.ask("Which river?")
    part = reply.labelled("ensemble")
    assert part is not None and part.value["failed"] == {}
    assert sent and all(message["format"] == "text" for message in sent)
    assert any("Which river?" in message["content"] and "agent" in message["content"] for message in sent)
    doors = [line.door for line in await audited(home) if line.agent in ("alice", "bob")]
    assert (set(doors) == {"internal"}) is through_nlip and bool(doors) is through_nlip


async def audited(home: Path) -> list[Any]:
    store = SQLiteStore(home / "sabir.db")
    await store.open()
    try:
        return [chained.line for chained in await store.audit_lines(0, 1000)]
    finally:
        await store.close()


async def test_tokens_and_questions_of_members_that_are_asked_by_message_are_the_turns(
    serve: Serve, home: Path
) -> None:
    asking = FakeAgent("bob", Question("Which colour?"), "Blue", "VOTE: agent1")
    model = ScriptedModel(["Red"] + ["VOTE: agent1"] * 5)
    options = EnsembleOptions(present=False, coordinate_via_nlip=True, interrupt=False)
    alice = LLM("alice", model)
    panel = Ensemble([alice, asking], name="panel", options=options)
    served = serve(Gateway(panel, alice, asking, home=home))
    async with connect(f"{served.url}/nlip/panel") as client:
        question = await client.ask("Paint")
        assert "Which colour?" in question.text
        reply = await client.ask("Blue, please")
    part = reply.labelled("ensemble")
    assert part is not None and part.value["failed"] == {} and part.value["tokens"] > 0


# -- size (MW-50) ---------------------------------------------------------------------------------------


def busy(number: int, rounds: int) -> LLM:
    def call(name: str, **arguments: str) -> dict[str, Any]:
        return {"tool_calls": [{"name": name, "arguments": arguments}]}

    answers = [call("new_answer", content=f"{number}.{turn} ".ljust(1000, "x")) for turn in range(rounds)]
    made = LLM(f"m{number}", ScriptedModel([*answers, *[call("vote", agent_id="agent1")] * (12 * rounds)]))
    made.model.asked = _Forgetful()  # type: ignore[attr-defined]  # a real model keeps nothing, either
    return made


class _Forgetful(list[Any]):
    def append(self, item: Any) -> None:
        return None


async def panel_of(members: int, rounds: int, **options: Any) -> dict[str, Any]:
    limits = EnsembleOptions(answers=rounds, steps=40 * rounds, present=False, **options)
    panel = Ensemble([busy(number, rounds) for number in range(members)], options=limits)
    return outcome(await ask(panel, "Which river?", seconds=120))


async def test_ten_members_and_twenty_rounds_stay_in_bounded_memory() -> None:
    tracemalloc.start()
    try:
        answer = await panel_of(10, 20)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert sum(answer["answers"].values()) > 100 and answer["ended"] == "all members have voted"
    # 200 answers of 1 KB, each kept once in the state and once in the journal; briefs are made and dropped.
    assert peak < 8 * 1024 * 1024, f"{peak} bytes"


async def test_what_a_panel_costs_grows_as_the_page_says() -> None:
    tokens = {members: (await panel_of(members, 2, interrupt=False))["tokens"] for members in (2, 4, 8)}
    assert 3 < tokens[4] / tokens[2] < 6 and 3 < tokens[8] / tokens[4] < 6, tokens
