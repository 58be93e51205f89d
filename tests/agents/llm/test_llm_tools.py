"""A language model with tools: the loop, its limits, what the model sees, and what the caller gets (MW-39 to MW-41)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from openai_server import calls, scripted
from sabir import Message, Part, Turn
from sabir.agents.llm import (
    LLM,
    BackendSettings,
    LLMOptions,
    Price,
    RecordingModel,
    ReplayingModel,
    ScriptedModel,
    model_agent,
)
from sabir.errors import ConfigError, Forbidden, PeerUnreadable, TurnFailed
from sabir.events import Delta, Event, Progress, Reply
from sabir.message import binary_part
from sabir.testing import FakeTool, ask
from sabir.tools import CallOptions, Toolbox, tool
from sabir.turn import Conversation, PastTurn

PNG = b"\x89PNG\r\n\x1a\n"


@tool
def weather(town: str) -> dict[str, Any]:
    """The weather of a town."""
    return {"town": town, "sky": "rain"}


@tool
def picture() -> Part:
    return binary_part(PNG, "image/png")


async def events(agent: LLM, turn: Turn) -> list[Event]:
    async with agent:
        return [event async for event in agent(turn)]


async def reply(agent: LLM, turn: Turn) -> Message:
    last = (await events(agent, turn))[-1]
    assert isinstance(last, Reply)
    return last.message


async def test_a_model_calls_a_tool_over_http_and_answers_with_its_result() -> None:
    def script(body: dict[str, Any]) -> Any:
        asked = body["messages"][-1]
        if asked["role"] == "user":
            return calls(("weather", {"town": "Bergen"}), ("weather", {"town": "Oslo"}))
        return "Take an umbrella."

    with scripted(script) as server:
        settings = BackendSettings(model="small", base_url=server.url)
        turn = Turn(Message.text("What is the weather?"))
        heard = await events(model_agent("m", settings, tools=[weather]), turn)
    assert [event.note for event in heard if isinstance(event, Progress)] == ["Calling weather, weather"]
    assert isinstance(heard[-1], Reply) and heard[-1].message.text == "Take an umbrella. "
    first, second = server.chats
    assert first["tools"][0]["function"] == {
        "name": "weather",
        "description": "The weather of a town.",
        "parameters": weather.schema,
    }
    assert [message["role"] for message in second["messages"]] == ["user", "assistant", "tool", "tool"]
    assert second["messages"][1]["tool_calls"][0]["function"]["name"] == "weather"
    assert json.loads(second["messages"][2]["content"]) == {"town": "Bergen", "sky": "rain"}
    assert second["messages"][3]["tool_call_id"] == "call-1"
    assert turn.used == ["weather", "weather"]


async def test_words_between_tool_calls_stream_and_are_part_of_the_reply() -> None:
    model = ScriptedModel(
        [
            {"say": "Let me look.", "tool_calls": [{"name": "weather", "arguments": {"town": "Bergen"}}]},
            "It rains.",
        ]
    )
    heard = await events(LLM("m", model, tools=[weather]), Turn(Message.text("?")))
    pieces = "".join(event.part.content for event in heard if isinstance(event, Delta))
    assert pieces == "Let me look.\n\nIt rains."
    assert isinstance(heard[-1], Reply) and heard[-1].message.text == pieces


async def test_an_error_of_a_tool_goes_to_the_model_which_continues() -> None:
    model = ScriptedModel([{"tool_calls": [{"name": "nosuch"}]}, "Sorry."])
    assert (await reply(LLM("m", model, tools=[weather]), Turn(Message.text("?")))).text == "Sorry."
    assert model.asked[1][-1].content == "Error: there is no tool 'nosuch'; choose from weather"


async def test_a_model_sees_only_the_tools_that_the_caller_may_use() -> None:
    def permit(*, tool: str = "", skill: str = "") -> None:
        if tool == "weather":
            raise Forbidden("no")

    model = ScriptedModel([{"tool_calls": [{"name": "weather", "arguments": {"town": "Bergen"}}]}, "ok"])
    await reply(LLM("m", model, tools=[weather, picture]), Turn(Message.text("?"), permit=permit))
    assert [spec.name for spec in model.options[0].tools] == ["picture"]
    assert model.asked[1][-1].content == "Error: no"


async def test_files_of_tools_go_to_the_caller_and_are_named_to_the_model() -> None:
    model = ScriptedModel([{"tool_calls": [{"name": "picture"}]}, "Here it is."])
    said = await reply(LLM("m", model, tools=[picture]), Turn(Message.text("?")))
    assert said.parts[-1] == binary_part(PNG, "image/png")
    assert model.asked[1][-1].content == "[image/png, given to the user]"


async def test_a_model_that_never_stops_calling_is_ended() -> None:
    model = ScriptedModel([{"tool_calls": [{"name": "picture"}]}] * 5)
    with pytest.raises(TurnFailed, match="did not come to an answer within 3 steps"):
        await reply(LLM("m", model, tools=[picture], options=LLMOptions(steps=3)), Turn(Message.text("?")))


async def test_the_budget_of_the_turn_ends_the_loop() -> None:
    turn = Turn(Message.text("?"))
    turn.meter.max_tokens = 40
    model = ScriptedModel([{"say": "x" * 80, "tool_calls": [{"name": "picture"}]}] * 5)
    with pytest.raises(TurnFailed, match="budget of 40 tokens"):
        await reply(LLM("m", model, tools=[picture]), turn)


async def test_tokens_and_cost_of_every_step_are_counted() -> None:
    turn = Turn(Message.text("?"))
    options = LLMOptions(price=Price(input=1.0, output=2.0, per=1))
    model = ScriptedModel([{"tool_calls": [{"name": "picture"}]}, "done"])
    await reply(LLM("m", model, tools=[picture], options=options), turn)
    assert turn.meter.calls == 3  # two answers and one tool
    assert turn.meter.cost == turn.meter.tokens + turn.meter.own_completion_tokens


# -- what the model sees ------------------------------------------------------------------------------


async def test_images_go_to_a_model_that_reads_them() -> None:
    with scripted() as server:
        agent = model_agent("m", BackendSettings(model="small", base_url=server.url))
        await reply(agent, Turn(Message.text("What is this?").with_part(binary_part(PNG, "image/png"))))
    content = server.chats[0]["messages"][-1]["content"]
    assert content[0] == {"type": "text", "text": "What is this?"}
    assert content[1]["image_url"]["url"].startswith("data:image/png;base64,iVBOR")


@pytest.mark.parametrize("kind", ["image/png", "audio/wav"])
async def test_parts_that_the_model_cannot_read_are_named_and_not_dropped(kind: str) -> None:
    with scripted() as server:
        agent = model_agent("m", BackendSettings(model="small", base_url=server.url, images=False))
        said = await reply(agent, Turn(Message.text("Listen").with_part(binary_part(b"RIFF", kind))))
    assert said.text.startswith(f"(I cannot read {kind}.) ")
    assert server.chats[0]["messages"][-1]["content"] == f"Listen\n[{kind} that you cannot read]"


async def test_structured_parts_are_read_as_json() -> None:
    model = ScriptedModel(["ok"])
    await reply(LLM("m", model), Turn(Message.text("Add").with_part(Part("structured", "json", {"a": 1}))))
    assert model.asked[0][-1].content == 'Add\n{"a":1}'


async def test_an_answer_with_a_shape_is_a_structured_part() -> None:
    schema = {"type": "object", "properties": {"sky": {"type": "string"}}}
    model = ScriptedModel(['{"sky":"rain"}', "not json"])
    agent = LLM("m", model, options=LLMOptions(schema=schema))
    assert (await reply(agent, Turn(Message.text("?")))).parts[0].content == {"sky": "rain"}
    assert model.options[0].schema == schema
    with pytest.raises(PeerUnreadable, match="not JSON"):
        await reply(agent, Turn(Message.text("?")))


def talk(count: int) -> Conversation:
    turns = [
        PastTurn(str(n), 0.0, "m", Message.text(f"question {n}"), Message.text(f"answer {n}")) for n in range(count)
    ]
    return Conversation("c", tuple(turns))


@pytest.mark.parametrize(
    ("policy", "seen"),
    [
        ("truncate", ["question 9", "answer 9", "now?"]),
        ("summarise", ["Earlier in this conversation: They met.", "question 9", "answer 9", "now?"]),
    ],
)
async def test_a_conversation_that_does_not_fit_is_cut_or_summarised(policy: Any, seen: list[str]) -> None:
    model = ScriptedModel(["They met.", "ok"] if policy == "summarise" else ["ok"])
    agent = LLM("m", model, options=LLMOptions(context_tokens=8, context_policy=policy))
    await reply(agent, Turn(Message.text("now?"), talk(10)))
    assert [message.content for message in model.asked[-1]] == seen


# -- models without a service -------------------------------------------------------------------------


async def test_the_mock_backend_follows_its_script_and_then_repeats_the_question() -> None:
    agent = model_agent("m", BackendSettings(type="mock", script=("one", {"say": "two"})))
    said = [(await reply(agent, Turn(Message.text("hi")))).text for _ in range(3)]
    assert said == ["one", "two", "You said: hi"]


def test_a_script_with_an_unknown_key_is_rejected() -> None:
    with pytest.raises(ConfigError, match="expected text or a mapping with answer, error, present, say, seconds"):
        ScriptedModel([{"sya": "hello"}])


async def test_a_recording_answers_the_same_requests_and_no_others(tmp_path: Path) -> None:
    path = tmp_path / "talk.jsonl"
    script = [{"tool_calls": [{"name": "weather", "arguments": {"town": "Bergen"}}]}, "It rains."]
    first = await reply(LLM("m", RecordingModel(ScriptedModel(script), path), tools=[weather]), Turn(Message.text("?")))
    again = await reply(LLM("m", ReplayingModel(path), tools=[weather]), Turn(Message.text("?")))
    assert first == again
    with pytest.raises(PeerUnreadable, match="this request was not recorded"):
        await reply(LLM("m", ReplayingModel(path)), Turn(Message.text("another")))


async def test_the_system_message_never_leaves_in_what_tools_are_given() -> None:
    given: list[Any] = []

    @tool
    def note(turn: Turn, text: str) -> str:
        given.extend([turn.message, text])
        return "ok"

    model = ScriptedModel([{"tool_calls": [{"name": "note", "arguments": {"text": "x"}}]}, "done"])
    said = await reply(LLM("m", model, system_message="planted-secret", tools=[note]), Turn(Message.text("?")))
    assert "planted-secret" not in repr(given) and "planted-secret" not in said.text


@pytest.mark.parametrize("kind", ["text", "json"])
async def test_a_long_result_is_cut_before_the_model_reads_it(kind: str) -> None:
    long = FakeTool("long", "x" * 5000 if kind == "text" else {"found": "x" * 5000})
    model = ScriptedModel([{"tool_calls": [{"name": "long", "arguments": {}}]}, "Done."])
    await ask(LLM("a", model, tools=Toolbox([long.tool], CallOptions(result_bytes=1000))), "Go")
    given = model.asked[1][-1].content
    assert len(given) < 1100 and "[cut: 50" in given


async def test_results_that_do_not_fit_the_window_are_left_out_or_cut() -> None:
    long = FakeTool("long", *(f"{number}" * 3000 for number in (1, 2, 3)))
    call = {"tool_calls": [{"name": "long", "arguments": {}}]}
    model = ScriptedModel([call, call, call, "Done."])
    options = LLMOptions(context_tokens=1000)
    answer = await ask(LLM("a", model, tools=[long.tool], options=options), "Go")
    assert answer.text == "Done."
    for messages in model.asked:
        assert sum(len(message.content) for message in messages) <= 4 * 1000 + 100
    last = [message.content for message in model.asked[3] if message.role == "tool"]
    assert last[0] == "\n[cut: 3000 characters]" and last[2].startswith("333")  # the newest is kept


async def test_a_result_that_is_not_json_is_reported_to_the_model() -> None:
    odd = FakeTool("odd", {"name": "\ud800"})
    model = ScriptedModel([{"tool_calls": [{"name": "odd", "arguments": {}}]}, "Done."])
    assert (await ask(LLM("a", model, tools=[odd.tool]), "Go")).text == "Done."
    assert model.asked[1][-1].content == "Error: the result is not valid JSON"
