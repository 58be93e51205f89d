"""An agent as a site's model of language: three calls at most, checked, and done without where it fails."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from sabir import agent
from sabir.agents.site import SiteAgent, SiteAsk
from sabir.agents.site_model import AgentModel
from sabir.events import Reply
from sabir.message import Message, text_part
from sabir.search import LocalIndex
from sabir.turn import Turn

from .shelf import NOW, shelf


@pytest.fixture(scope="module")
def shop() -> LocalIndex:
    index = LocalIndex(None, None)
    asyncio.run(index.put(shelf()))
    return index


async def asked(index: LocalIndex, answers: Callable[[str], str], text: str, ask: SiteAsk) -> tuple[Message, list[str]]:
    prompts: list[str] = []

    @agent(name="model")
    async def model(turn: Turn) -> str:
        prompts.append(turn.text)
        return answers(turn.text)

    site = SiteAgent(index, model=AgentModel(model), questions=False, now=lambda: NOW)
    events = [event async for event in site(Turn(Message.of(text_part(text), ask.part())))]
    assert isinstance(events[-1], Reply)
    return events[-1].message, prompts


def scripted(prompt: str) -> str:
    if prompt.startswith("Rewrite"):
        return "pumpkin soup or chicken curry"
    if prompt.startswith("Score"):
        count = int(prompt.split("JSON array of ")[1].split()[0])
        return f"Here you are: {[float(number) for number in range(count)]}"
    return '```json\n[["It freezes well and needs no stirring.", 2], ["It won a prize in 1999.", 2]]\n```'


async def test_a_model_rewrites_ranks_and_writes_in_three_calls(shop: LocalIndex) -> None:
    ask = SiteAsk(prev=("soup",), modes=("generate",), min_score=0.0)
    message, prompts = await asked(shop, scripted, "and that with curry?", ask)
    assert [prompt.split()[0] for prompt in prompts] == ["Rewrite", "Score", "Answer"]
    results = [part.value for part in message.parts if part.label == "result"]
    assert results[0]["score"] > results[-1]["score"] == 0.0
    meta = message.labelled("meta")
    assert meta is not None
    assert meta.value["question"] == "pumpkin soup or chicken curry"


async def test_what_a_model_makes_up_is_not_said(shop: LocalIndex) -> None:
    def answers(prompt: str) -> str:
        if prompt.startswith("Score"):
            return "[90, 80]" if "2 numbers" in prompt else "no"
        number = next(line.split(".")[0] for line in prompt.splitlines() if ". Pumpkin soup" in line)
        return f'[["It freezes well.", {number}], ["It won a prize in 1999.", {number}], ["Hello.", 99]]'

    message, _ = await asked(shop, answers, "pumpkin soup", SiteAsk(modes=("generate",)))
    part = message.labelled("answer")
    assert part is not None
    assert [each["text"] for each in part.value["citations"]] == ["It freezes well."]


@pytest.mark.parametrize("nonsense", ["", "I cannot do that.", "[1, 2", '["a"]', "[-5]", "[1e9]", "line\nline"])
async def test_nonsense_of_a_model_changes_nothing(shop: LocalIndex, nonsense: str) -> None:
    ask = SiteAsk(prev=("recipes",), modes=("summarize",))
    message, _ = await asked(shop, lambda prompt: nonsense, "without nuts", ask)
    meta = message.labelled("meta")
    assert meta is not None
    assert meta.value["question"] == "recipes without nuts"
    assert {part.value["@id"] for part in message.parts if part.label == "result"} == {"r1", "r3", "r5"}
