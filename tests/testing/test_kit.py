"""The testing kit for users: ask without a server, script and record a model, fake peers and tools."""

from __future__ import annotations

from pathlib import Path

import pytest

from sabir import Field, Message, Question, Turn, agent, connect
from sabir.agents.federation import Federation
from sabir.agents.llm import LLM
from sabir.errors import Forbidden, PeerUnavailable, PeerUnreadable, TurnFailed
from sabir.message import binary_part
from sabir.testing import (
    DECLINE,
    FakeAgent,
    FakeTool,
    MemoryJournal,
    ReplayingModel,
    ScriptedModel,
    Unanswered,
    ask,
    ask_sync,
    recorded,
)
from sabir.testing.serving import served
from sabir.turn import Meter


@agent
async def pizza(turn: Turn) -> str:
    size = await turn.ask(Question("Which size?", (Field("size", "S, M or L"),)))
    return f"One pizza, size {size.text or size.parts[0].value['size']}"


async def test_a_question_of_the_agent_is_answered() -> None:
    answer = await ask(pizza, "A pizza, please", answers=["M"])
    assert answer.text == "One pizza, size M"
    assert [question.text for question in answer.questions] == ["Which size?"]


def test_an_agent_is_asked_in_one_line_without_an_event_loop() -> None:
    assert ask_sync(pizza, "A pizza", answers=[{"size": "L"}]).text == "One pizza, size L"
    assert ask_sync(pizza, "A pizza", answers=[lambda question: question.fields[0].text[0]]).text.endswith("S")


async def test_too_few_and_too_many_answers_fail_the_test() -> None:
    with pytest.raises(Unanswered, match="asks 'Which size\\?', and no answer is left"):
        await ask(pizza, "A pizza", answers=[])
    with pytest.raises(Unanswered, match="1 answers are left"):
        await ask(pizza, "A pizza", answers=["M", "L"])
    with pytest.raises(TurnFailed, match="cannot be asked"):
        await ask(pizza, "A pizza")
    with pytest.raises(Exception, match="cancelled the question"):
        await ask(pizza, "A pizza", answers=[DECLINE])


async def test_a_scripted_model_uses_a_fake_tool() -> None:
    price = FakeTool("price", {"eur": 3}, TurnFailed("sold out"))
    call = {"tool_calls": [{"name": "price", "arguments": {"item": "tea"}}]}
    model = ScriptedModel([call, call, "Three euros, and now it is sold out."])
    answer = await ask(LLM("shop", model, tools=[price.tool]), "How much is tea?")
    assert price.calls == [{"item": "tea"}, {"item": "tea"}]
    assert model.asked[1][-1].content == '{"eur":3}' and "sold out" in model.asked[2][-1].content
    assert answer.tools == ("price", "price") and answer.streamed == answer.text
    assert answer.notes == ["Calling price", "Calling price"] and answer.tokens > 0 and answer.cost == 0


async def test_rights_history_budget_and_arguments_come_from_the_test() -> None:
    tool = FakeTool("delete_all", "gone")
    model = ScriptedModel([{"tool_calls": [{"name": "delete_all"}]}, "No."])
    await ask(LLM("m", model, tools=[tool.tool]), "Delete", may_use=["read_*"], history=[("Hi", "Hello")])
    assert tool.calls == [] and [message.content for message in model.asked[0]] == ["Hi", "Hello", "Delete"]
    with pytest.raises(TurnFailed, match="budget"):
        await ask(LLM("m", ScriptedModel(["a", "b"])), "x", budget=Meter(max_tokens=1))

    @agent
    async def add(turn: Turn, a: int, b: int) -> dict[str, int]:
        return {"sum": a + b}

    assert (await ask(add, {"a": 1, "b": 2})).data == {"sum": 3}


async def test_fake_agents_replace_peers() -> None:
    bob = FakeAgent("bob", "Paris.", PeerUnavailable("bob", "down"))
    carol = FakeAgent("carol", ["The capital ", "is Paris."])
    both = Federation([bob, carol], strategy="vote")
    assert (await ask(both, "What is the capital of France?")).message.content == "Paris."
    again = await ask(both, "What is the capital of France?")
    assert again.message.content == "The capital is Paris." and bob.asked == ["What is the capital of France?"] * 2

    @agent
    async def guide(turn: Turn) -> str:
        return f"They say: {(await turn.call('carol', 'Where?')).text}"

    assert (await ask(guide, "?", others=[carol])).text == "They say: The capital is Paris."
    with pytest.raises(Exception, match="give it to ask"):
        await ask(guide, "?")


async def test_a_fake_agent_asks_and_sends_files() -> None:
    asking = FakeAgent("f", Question("Sure?"), Message.text("Done"))
    assert (await ask(asking, "Go", answers=["yes"])).text == "Done"
    image = binary_part(b"png", "image/png")
    slow = FakeAgent("i", ["See: ", image], seconds=0.01)
    assert (await ask(slow, "Go")).parts[-1] == image
    with pytest.raises(TimeoutError):
        await ask(FakeAgent("late", seconds=5), "Go", seconds=0.05)
    with pytest.raises(Forbidden):
        await ask(FakeAgent("no", Forbidden("no")), "Go")


async def test_a_model_is_recorded_once_and_replayed_from_then_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[ScriptedModel] = []

    def model() -> ScriptedModel:
        made.append(ScriptedModel([f"Answer {len(made)}"]))
        return made[-1]

    path = tmp_path / "recordings" / "hello.jsonl"
    first = await ask(LLM("m", recorded(path, model)), "Hello")
    second = await ask(LLM("m", recorded(path, model)), "Hello")
    assert first.text == second.text == "Answer 0" and len(made) == 1
    with pytest.raises(PeerUnreadable, match="not recorded"):
        await ask(LLM("m", ReplayingModel(path)), "Something else")
    monkeypatch.setenv("SABIR_RECORD", "1")
    assert (await ask(LLM("m", recorded(path, model)), "Hello")).text == "Answer 1"


async def test_a_journal_lets_a_turn_continue() -> None:
    journal = MemoryJournal()

    @agent
    async def counting(turn: Turn) -> str:
        await turn.journal.append(turn.id, b"step")
        return str(len(await turn.journal.entries(turn.id)))

    assert [(await ask(counting, "x", journal=journal)).text for _ in range(2)] == ["1", "2"]


async def test_fakes_are_served_over_the_wire_too() -> None:
    with served(FakeAgent("bob", "Paris.")) as url:
        async with connect(url) as peer:
            assert (await peer.ask("Where?")).text == "Paris."
