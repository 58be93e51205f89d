"""Agents that call each other, and agents that take typed arguments."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import httpx
import pytest

from conftest import Serve
from sabir import Gateway, Message, Question, Turn, agent, tool
from sabir.errors import BadInput, NotFound, TurnFailed
from sabir.events import Delta, Event, Fault, Reply
from sabir.message import json_part
from sabir.protocols.connect import connect
from sabir.turn import MAX_HOPS, Meter


@agent
async def weather(turn: Turn) -> str:
    """Tells the weather."""
    turn.spend(tokens=7)
    return f"sunny in {turn.text} (hop {turn.hops}, for {turn.caller.on_behalf_of or 'nobody'})"


@agent
async def words(turn: Turn):  # type: ignore[no-untyped-def]
    yield "one "
    yield "two"


@agent
async def guide(turn: Turn) -> str:
    if turn.text == "misspelt":
        return (await turn.call("wether", "x")).text
    if turn.text == "stream":
        return "+".join([e.part.content async for e in turn.stream("words", "go") if isinstance(e, Delta)])
    said = await turn.call("weather", "Rome")
    return f"{said.text}; {turn.meter.tokens} tokens, trace {'kept' if turn.trace else 'none'}"


@agent
async def loop(turn: Turn) -> str:
    return (await turn.call("loop", turn.text)).text


@pytest.fixture
def url(serve: Serve, home: Path) -> str:
    return serve(Gateway(guide, weather, words, loop, home=home)).url


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def ask(url: str, text: str, agent: str = "guide") -> tuple[int, str]:
    body = {"format": "text", "subformat": "english", "content": text}
    headers = {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}
    answer = httpx.post(f"{url}/nlip/{agent}", json=body, headers=headers)
    return answer.status_code, answer.json()["content"]


def test_an_agent_calls_another_by_its_name_with_hops_trace_and_budget(url: str) -> None:
    status, said = ask(url, "go")
    assert (status, said) == (200, "sunny in Rome (hop 1, for nobody); 7 tokens, trace kept")


def test_a_called_agent_streams(url: str) -> None:
    assert ask(url, "stream") == (200, "one +two")


def test_an_unknown_name_is_rejected_with_a_suggestion(url: str) -> None:
    status, said = ask(url, "misspelt")
    assert status == 404 and "did you mean weather?" in said


def test_a_loop_of_calls_ends(url: str) -> None:
    status, said = ask(url, "go", "loop")
    assert status == 500 and f"passed {MAX_HOPS} agents" in said


async def test_any_agent_can_be_called_outside_a_gateway_and_none_by_name() -> None:
    turn = Turn(Message.text("x"), meter=Meter(max_tokens=10))
    assert (await turn.call(weather, "Oslo")).text.startswith("sunny in Oslo")
    with pytest.raises(TurnFailed, match="budget of 10 tokens"):
        await turn.call(weather, "Oslo")
    with pytest.raises(NotFound, match="outside a gateway"):
        await turn.call("weather", "Oslo")


@tool
def price(item: str) -> str:
    """Returns a price."""
    return f"{item}: 3 EUR"


@pytest.mark.parametrize("other", [price, len])
async def test_what_is_not_an_agent_cannot_be_called(other: Any) -> None:
    with pytest.raises(TypeError, match="is not an agent; call a function of your own directly"):
        await Turn(Message.text("x")).call(other, "tea")


async def test_a_fault_of_the_called_agent_is_raised() -> None:
    @agent
    async def broken(turn: Turn) -> Fault:
        return Fault("out of order", "unavailable")

    with pytest.raises(Exception, match="out of order"):
        await Turn(Message.text("x")).call(broken, "y")


# -- typed arguments ------------------------------------------------------------------------------------


@agent
async def forecast(turn: Turn, town: str, days: int = 1, unit: Literal["C", "F"] = "C") -> str:
    """Tells the weather of a town.

    Args:
        town: where
        days: how far ahead
    """
    return f"{town}/{days}/{unit}"


@agent
async def book(turn: Turn, size: Literal["S", "M", "L"], nights: int) -> str:
    return f"{size} for {nights!r}"


async def said(which, message: Message, *answers: str) -> str:  # type: ignore[no-untyped-def]
    waiting = list(answers)
    asked: list[Question] = []

    async def answer(question: Question) -> Message:
        asked.append(question)
        return Message.text(waiting.pop(0))

    turn = Turn(message, ask_back=answer) if answers else Turn(message)
    events: list[Event] = [event async for event in which(turn)]
    last = events[-1]
    assert isinstance(last, Reply) and not waiting
    return last.message.text


def test_parameters_become_the_schema_of_a_skill() -> None:
    (skill,) = forecast.card.skills
    assert forecast.card.description == "Tells the weather of a town."
    assert skill.input_schema is not None
    assert skill.input_schema["required"] == ["town"]
    assert skill.input_schema["properties"]["town"] == {"type": "string", "description": "where"}
    assert skill.input_schema["properties"]["unit"]["enum"] == ["C", "F"]


async def test_arguments_arrive_parsed() -> None:
    assert await said(forecast, Message.of(json_part({"town": "Rome", "days": "3"}))) == "Rome/3/C"


async def test_words_alone_are_the_one_required_argument() -> None:
    assert await said(forecast, Message.text("Rome")) == "Rome/1/C"


async def test_missing_arguments_are_asked_for_one_by_one() -> None:
    assert await said(book, Message.text("A room, please"), "M", "2") == "M for 2"
    assert await said(book, Message.of(json_part({"size": "L"})), "4") == "L for 4"


async def test_an_answer_that_cannot_be_read_is_asked_for_again() -> None:
    assert await said(book, Message.of(json_part({"nights": 1})), "XXL", "S") == "S for 1"


async def test_an_invalid_argument_is_reported_by_its_place() -> None:
    with pytest.raises(BadInput, match=r"\$\.days: expected a whole number"):
        await said(forecast, Message.of(json_part({"town": "Rome", "days": "soon"})))
    with pytest.raises(BadInput, match=r"\$\.city: expected only town, days, unit"):
        await said(forecast, Message.of(json_part({"town": "Rome", "city": "Rome"})))


async def test_a_missing_argument_without_anybody_to_ask_fails_with_the_question() -> None:
    with pytest.raises(TurnFailed, match="Size"):
        await said(book, Message.of(json_part({"nights": 1})))


async def test_the_arguments_are_the_input_of_the_mcp_tool_and_the_a2a_skill(serve: Serve, home: Path) -> None:
    url = serve(Gateway(forecast, home=home)).url
    async with connect(f"{url}/mcp") as peer:
        await peer.refresh()  # type: ignore[attr-defined]
        tool = peer.tools["forecast"]  # type: ignore[attr-defined]
        assert tool["inputSchema"]["required"] == ["town"]
        reply = await peer.ask(Message.of(json_part({"town": "Rome", "days": 2}, label="forecast")))
        assert "Rome/2/C" in reply.text
    card = httpx.get(f"{url}/a2a/forecast/.well-known/agent-card.json").json()
    assert [skill["id"] for skill in card["skills"]] == ["forecast"]


async def test_a_missing_argument_is_asked_for_over_nlip(serve: Serve, home: Path) -> None:
    url = serve(Gateway(book, home=home)).url
    async with connect(f"{url}/nlip/book") as peer:
        first = await peer.ask(Message.text("hello"))
        assert first.text.startswith("Size?")
        second = await peer.ask(Message.text("M"))
        assert second.text.startswith("Nights?")
        third = await peer.ask(Message.text("3"))
    assert third.text == "M for 3"
