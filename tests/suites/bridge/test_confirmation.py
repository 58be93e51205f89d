"""A tool that needs consent asks for it by the caller's own protocol: given, refused, unanswered (MW-20, MW-49)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from conftest import Served, serving
from deadline import DEADLINE
from sabir import Gateway
from sabir.agents.llm import LLM, ScriptedModel
from sabir.guard import Quotas
from sabir.guard.build import GuardSettings
from sabir.testing import FakeTool
from suites.bridge.bridge_clients import TALKERS, McpTalker, Talker

ANSWERS: dict[str, dict[bool, Any]] = {"mcp": {True: True, False: False}}  # a form has a box to tick
IN_WORDS: dict[bool, Any] = {True: "yes", False: "no"}
SCRIPT = [
    {"when": "paid 5", "say": "It is paid."},
    {"when": "refused by the caller", "say": "As you wish."},
    {"when": "Pay", "tool_calls": [{"name": "pay", "arguments": {"amount": 5}}]},
]
EVERY = pytest.mark.parametrize("protocol", list(TALKERS))


class Till:
    """An agent that pays when it may."""

    def __init__(self, quotas: Quotas, tmp: pytest.TempPathFactory) -> None:
        self.pay = FakeTool("pay", "paid 5", confirm=True)
        agent = LLM("till", ScriptedModel(SCRIPT), tools=[self.pay.tool])
        self.gateway = Gateway(agent, home=tmp.mktemp("till"), guard=GuardSettings(quotas=quotas))


@pytest.fixture(scope="module")
def till(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Till, Served]]:
    made = Till(Quotas(), tmp_path_factory)
    with serving(made.gateway) as served:
        yield made, served


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Till, Served]]:
    made = Till(Quotas(answer_seconds=0.5), tmp_path_factory)
    with serving(made.gateway) as served:
        yield made, served


@pytest.fixture
async def talker(protocol: str, till: tuple[Till, Served]) -> AsyncIterator[Talker]:
    made = TALKERS[protocol](till[1].url)
    yield made
    await made.aclose()


@EVERY
@pytest.mark.parametrize("agrees", [True, False], ids=["given", "refused"])
async def test_consent_is_asked_for_by_the_callers_protocol(
    talker: Talker, till: tuple[Till, Served], agrees: bool
) -> None:
    pay = till[0].pay
    pay.calls.clear()
    answer = ANSWERS.get(talker.protocol, IN_WORDS)[agrees]
    asked, ended = await talker.questioned("till", "Pay", answer)
    assert asked.question == "Run pay(amount=5)? Reply yes to confirm."
    assert ended.text == ("It is paid." if agrees else "As you wish."), ended
    assert pay.calls == ([{"amount": 5}] if agrees else [])


@pytest.mark.parametrize("protocol", ["nlip", "nlweb", "mcp"])
async def test_without_an_answer_nothing_is_done(protocol: str, hasty: tuple[Till, Served]) -> None:
    till, served = hasty
    talker = TALKERS[protocol](served.url)
    asking = asyncio.create_task(_only_ask(talker))
    exchange = served.gateway.exchange
    async with asyncio.timeout(DEADLINE):
        while not exchange.waits:  # the question is open
            await asyncio.sleep(0.005)
        while exchange.waits or exchange.running:  # and then the time for an answer is over
            await asyncio.sleep(0.005)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    await talker.aclose()
    assert till.pay.calls == []


async def _only_ask(talker: Talker) -> None:
    if isinstance(talker, McpTalker):
        async with talker.client("till", elicitation_callback=_never) as client:
            await client.call_tool("till", {"text": "Pay"})
    else:
        assert (await talker.ask("till", "Pay")).question


async def _never(context: Any, params: Any) -> Any:
    await asyncio.Event().wait()


@pytest.mark.parametrize("protocol", ["a2a", "acl"])
async def test_a_task_waits_for_its_answer_and_does_nothing_meanwhile(
    protocol: str, hasty: tuple[Till, Served]
) -> None:
    """Where a turn is a task, its question is stored with it: the answer may come days later."""
    till, served = hasty
    till.pay.calls.clear()
    talker = TALKERS[protocol](served.url)
    asked, ended = await talker.questioned("till", "Pay", "no")
    assert asked.question and ended.text == "As you wish."
    assert (await talker.ask("till", "Pay")).question
    await talker.aclose()
    assert till.pay.calls == []


async def test_several_confirmations_are_asked_one_after_the_other(tmp_path_factory: pytest.TempPathFactory) -> None:
    first, second = FakeTool("first", "done 1", confirm=True), FakeTool("second", "done 2", confirm=True)
    both = [{"name": "first", "arguments": {}}, {"name": "second", "arguments": {}}]
    model = ScriptedModel([{"tool_calls": both}, "Ready."])
    agent = LLM("both", model, tools=[first.tool, second.tool])
    with serving(Gateway(agent, home=tmp_path_factory.mktemp("both"))) as served:
        talker = TALKERS["nlip"](served.url)
        one = await talker.ask("both", "Go")
        two = await talker.ask("both", "yes", one.place)
        end = await talker.ask("both", "no", two.place)
        await talker.aclose()
    assert "first" in one.question and "second" in two.question and end.text == "Ready."
    assert (len(first.calls), len(second.calls)) == (1, 0)
