"""Calling tools: rights, confirmation, time, retries, size and order (MW-18 to MW-22, MW-32)."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from deadline import DEADLINE
from sabir import Message, Part, Question, Turn
from sabir.errors import ConfigError, Forbidden, TurnFailed
from sabir.tools import CallOptions, Toolbox, ToolCall, tool
from sabir.tools.toolbox import AT_ONCE


def turn(**given: Any) -> Turn:
    return Turn(Message.text("hello"), **given)


def call(name: str, /, **arguments: Any) -> ToolCall:
    return ToolCall(f"id-{name}", name, arguments)


@tool
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@tool
async def greet(turn: Turn, name: str) -> str:
    return f"{name} said {turn.text}"


@tool
def pieces() -> Iterator[str]:
    yield "one"
    yield "two"


@tool
async def later() -> AsyncIterator[Any]:
    yield "text"
    yield {"n": 1}


@tool
def broken() -> str:
    raise ValueError("a secret of the inside")


@tool
def unhappy() -> str:
    raise TurnFailed("the shop is closed")


@tool
def looks_like_an_error() -> dict[str, str]:
    return {"error": "a word in a result"}


BOX = Toolbox([add, greet, pieces, later, broken, unhappy, looks_like_an_error])


async def test_results_of_every_kind_are_parts() -> None:
    calls = [call("add", a=1, b=2), call("greet", name="Zoë"), call("pieces"), call("later")]
    results = await BOX.call(turn(), calls)
    assert [result.status for result in results] == ["success"] * 4
    assert [[part.content for part in result.parts] for result in results] == [
        [3],
        ["Zoë said hello"],
        ["one", "two"],
        ["text", {"n": 1}],
    ]


async def test_a_failure_is_a_result_and_says_only_what_the_tool_meant_to_say() -> None:
    failed, unhappy, unknown, invalid = await BOX.call(
        turn(), [call("broken"), call("unhappy"), call("nosuch"), call("add", a=1)]
    )
    assert failed.status == "error" and "secret" not in failed.error and "log" in failed.error
    assert unhappy.error == "the shop is closed"
    assert unknown.error.startswith("there is no tool 'nosuch'; choose from add, greet")
    assert invalid.error == "arguments: at $.b: expected a value, because it is required"


async def test_a_result_that_contains_the_word_error_is_a_success() -> None:
    (result,) = await BOX.call(turn(), [call("looks_like_an_error")])
    assert result.status == "success"


async def test_calls_run_at_once_and_their_results_keep_the_order() -> None:
    running, together = 0, asyncio.Event()

    @tool
    async def meet(number: int) -> int:
        nonlocal running
        running += 1
        if running == 8:
            together.set()
        await together.wait()
        return number

    results = await Toolbox([meet]).call(turn(), [ToolCall(str(n), "meet", {"number": n}) for n in range(8)])
    assert [result.parts[0].content for result in results] == list(range(8))


async def test_a_tool_that_takes_too_long_is_ended() -> None:
    ended = asyncio.Event()

    @tool
    async def hang() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    (result,) = await Toolbox([hang], CallOptions(seconds=0.05)).call(turn(), [call("hang")])
    assert result.error == "hang did not answer within 0.05 s"
    assert ended.is_set()


@pytest.mark.parametrize(("repeatable", "attempts"), [(True, 3), (False, 1)])
async def test_only_a_repeatable_tool_is_retried(repeatable: bool, attempts: int) -> None:
    tried = 0

    @tool(repeatable=repeatable)
    async def flaky() -> str:
        nonlocal tried
        tried += 1
        raise TurnFailed("not yet")

    (result,) = await Toolbox([flaky], CallOptions(retries=2)).call(turn(), [call("flaky")])
    assert (result.status, tried) == ("error", attempts)


def forbid(*names: str) -> Any:
    def permit(*, tool: str = "", skill: str = "") -> None:
        if tool in names:
            raise Forbidden(f"you may not use {tool}")

    return permit


async def test_a_tool_without_the_right_is_neither_run_nor_listed() -> None:
    asked = turn(permit=forbid("add"))
    (result,) = await BOX.call(asked, [call("add", a=1, b=2)])
    assert (result.status, result.error) == ("error", "you may not use add")
    assert asked.used == []
    assert "add" not in [item.name for item in BOX.allowed(asked)]


async def test_what_was_called_is_noted_for_the_audit() -> None:
    asked = turn(used=[])
    await BOX.call(asked, [call("add", a=1, b=2), call("pieces")])
    assert sorted(asked.used) == ["add", "pieces"]
    assert asked.meter.calls == 2


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (Message.text("yes"), "success"),
        (Message.text("No, never"), "error"),
        (Message.text("yes, but only tomorrow"), "error"),
        (Message.of(Part("structured", "json", {"confirm": True})), "success"),
        (Message.of(Part("structured", "json", {"confirm": "yes"})), "success"),  # as forms over NLWeb say it
        (Message.of(Part("structured", "json", {"confirm": "perhaps"})), "error"),
        (Message.of(Part("structured", "json", {"confirm": 1})), "error"),
    ],
)
async def test_confirmation_is_asked_of_the_caller(answer: Message, status: str) -> None:
    questions: list[str] = []

    async def ask(question: Question) -> Message:
        questions.append(question.text)
        return answer

    @tool(confirm=True)
    def erase(path: str) -> str:
        return f"erased {path}"

    (result,) = await Toolbox([erase]).call(turn(ask_back=ask), [call("erase", path="a.txt")])
    assert questions == ["Run erase(path='a.txt')? Reply yes to confirm."]
    assert result.status == status
    assert result.error == ("" if status == "success" else "refused by the caller")


async def test_without_anyone_to_ask_the_call_is_pending_and_does_not_run() -> None:
    @tool(confirm=True)
    def erase() -> str:
        raise AssertionError("it ran")

    (result,) = await Toolbox([erase]).call(turn(), [call("erase")])
    assert result.status == "pending"


async def test_what_a_tool_says_passes_the_filters_before_anyone_reads_it() -> None:
    async def screen(message: Message) -> Message:
        return Message.text(message.text.replace("swordfish", "[removed]"))

    @tool
    def password() -> str:
        return "it is swordfish"

    (result,) = await Toolbox([password]).call(turn(screen=screen), [call("password")])
    assert result.text == "it is [removed]"


async def test_a_long_text_is_cut_and_says_so() -> None:
    @tool
    def long() -> str:
        return "x" * 5000

    (result,) = await Toolbox([long], CallOptions(result_bytes=100)).call(turn(), [call("long")])
    assert result.text == "x" * 100 + "\n[cut: 5000 characters]"


def test_two_tools_of_one_name_are_rejected() -> None:
    with pytest.raises(ConfigError, match="two tools are called 'add'"):
        Toolbox([add, add])


async def test_functions_that_block_run_at_once_too() -> None:  # MW-19, MW-62
    together = threading.Barrier(8)

    @tool
    def meets() -> str:
        """Waits for seven others."""
        together.wait(DEADLINE)
        return "met"

    results = await Toolbox([meets]).call(turn(), [ToolCall(str(number), "meets") for number in range(8)])
    assert [result.text for result in results] == ["met"] * 8


async def test_functions_that_hang_do_not_hold_up_the_threads_of_others() -> None:
    going = threading.Event()

    @tool
    def hangs() -> str:
        """Never answers in time."""
        going.wait(2 * DEADLINE)
        return "late"

    box = Toolbox([hangs], CallOptions(seconds=0.05))
    results = await box.call(turn(), [ToolCall(str(number), "hangs") for number in range(20)])
    assert {result.status for result in results} == {"error"}
    async with asyncio.timeout(DEADLINE):  # the event loop's own pool is free: uploads and searches need it
        assert await asyncio.to_thread(lambda: "free") == "free"
    going.set()


async def test_a_message_with_many_calls_runs_a_bounded_number_at_once() -> None:
    running = peak = 0

    @tool
    async def counted() -> str:
        """Counts how many run."""
        nonlocal running, peak
        running += 1
        peak = max(peak, running)
        await asyncio.sleep(0)
        running -= 1
        return "ok"

    results = await Toolbox([counted]).call(turn(), [ToolCall(str(number), "counted") for number in range(500)])
    assert len(results) == 500 and {result.status for result in results} == {"success"}
    assert peak == AT_ONCE


async def test_a_long_argument_is_shortened_in_the_question() -> None:
    asked: list[Question] = []

    async def ask_back(question: Question) -> Message:
        asked.append(question)
        return Message.text("no")

    @tool(confirm=True)
    def write(content: str) -> str:
        """Writes."""
        return "done"

    await Toolbox([write]).call(turn(ask_back=ask_back), [ToolCall("1", "write", {"content": "x" * 100_000})])
    assert len(asked[0].text) < 500 and "100002 characters" in asked[0].text


async def test_text_that_no_message_can_carry_is_an_error() -> None:
    @tool
    def odd() -> str:
        """Returns half a surrogate pair."""
        return "\ud800"

    (result,) = await Toolbox([odd]).call(turn(), [ToolCall("1", "odd")])
    assert result.error == "the tool returned text that is not valid Unicode"


async def test_a_timeout_names_the_time_there_was() -> None:
    @tool
    async def slow() -> str:
        """Never answers."""
        await asyncio.Event().wait()
        return ""

    (result,) = await Toolbox([slow]).call(turn(deadline=time.monotonic() + 0.05), [ToolCall("1", "slow")])
    assert "slow did not answer within" in result.error and " 30 s" not in result.error
