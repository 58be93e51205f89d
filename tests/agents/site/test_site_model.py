"""An agent as a site's language model: at most two calls, checked, and skipped if it fails or is late."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable

import msgspec
import pytest

from sabir import agent
from sabir.agents.site.agent import Site, SiteAsk
from sabir.agents.site.model import AgentModel
from sabir.events import Delta, Reply
from sabir.message import Message, text_part
from sabir.search import Item, LocalIndex
from sabir.turn import Turn
from search.shelf import NOW, shelf


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

    site = Site(index, model=AgentModel(model), questions=False, now=lambda: NOW)
    events = [event async for event in site(Turn(Message.of(text_part(text), ask.part())))]
    assert isinstance(events[-1], Reply)
    return events[-1].message, prompts


def backwards(prompt: str) -> str:
    """A ranking that turns the order round, in lines."""
    count = len(re.findall(r"^\d+\. ", prompt, re.MULTILINE))
    return "\n".join(f"{number} {10 * number}" for number in range(count, 0, -1))


def scripted(prompt: str) -> str:
    if prompt.startswith("Rewrite"):
        return "pumpkin soup or chicken curry"
    if prompt.startswith("Name"):
        return f"Here you are:\n{backwards(prompt)}"
    return '```json\n[["It freezes well and needs no stirring.", 2], ["It won a prize in 1999.", 2]]\n```'


async def test_a_model_rewrites_and_ranks_in_two_calls(shop: LocalIndex) -> None:
    ask = SiteAsk(prev=("soup",), min_score=0.0)
    message, prompts = await asked(shop, scripted, "and that with curry?", ask)
    assert [prompt.split()[0] for prompt in prompts] == ["Rewrite", "Name"]
    results = [part.value for part in message.parts if part.label == "result"]
    assert [result["score"] for result in results] == [10.0 * number for number in range(len(results), 0, -1)]
    meta = message.labelled("meta")
    assert meta is not None
    assert meta.value["question"] == "pumpkin soup or chicken curry"


@pytest.mark.parametrize("modes", [("generate",), ("list", "summarize"), ("summarize", "generate"), ("list",), ()])
@pytest.mark.parametrize("prev", [None, ("soup",)])
async def test_a_question_takes_two_calls_at_most(
    shop: LocalIndex, modes: tuple[str, ...], prev: tuple[str, ...] | None
) -> None:
    _, prompts = await asked(shop, scripted, "and that with curry?", SiteAsk(prev=prev, modes=modes))
    assert len(prompts) <= 2


async def test_a_first_question_that_finds_little_is_rewritten_and_kept_as_it_was_where_that_finds_no_more(
    shop: LocalIndex,
) -> None:
    for rewritten, understood in (("pumpkin soup", "pumpkin soup"), ("zebra crossing", "Blotzsuppn?")):
        message, prompts = await asked(shop, lambda prompt, said=rewritten: said, "Blotzsuppn?", SiteAsk())
        assert prompts[0].startswith("Rewrite the question") and "Question: Blotzsuppn?" in prompts[0]
        meta = message.labelled("meta")
        assert meta is not None and meta.value["question"] == understood


@pytest.mark.parametrize("modes", [("list",), ("summarize",), ("list", "generate")])
async def test_a_model_that_hangs_does_not_hold_the_list_back(shop: LocalIndex, modes: tuple[str, ...]) -> None:
    async def silent(turn: Turn) -> AsyncIterator[str]:
        await asyncio.Event().wait()
        yield ""

    async def events(model: AgentModel | None) -> list[object]:
        site = Site(shop, model=model, questions=False, now=lambda: NOW)
        site.patience = 0.05
        turn = Turn(Message.of(text_part("pumpkin soup"), SiteAsk(modes=modes).part()), deadline=time.monotonic() + 3)
        found: list[object] = []
        async for event in site(turn):
            if isinstance(event, Delta) and event.part.label == "result":
                found.append(event.part.value["@id"])
                assert time.monotonic() < turn.deadline - 1.6  # long before the model is given up for the summary
        return found

    plain = await events(None)
    assert plain and await events(AgentModel(agent(name="hung")(silent))) == plain


async def test_the_fields_of_an_item_are_in_the_prompt_and_what_they_state_may_be_said() -> None:
    index = LocalIndex(None, None)
    cafe = Item(
        "c", "s", "Salt & Sedge", ("Restaurant",), description="Beets, dressed up.",
        fields={"openingHours": ["We-Su 11:30-21:00"], "telephone": "+1-208-555-0102", "priceRange": "$$"},
    )  # fmt: skip
    await index.put([cafe])
    said = [
        "It is open Wednesday to Sunday, 11:30 to 21:00.", "It closes at 9 pm on Sunday.", "It is open until 23:45.",
        "The phone number is +1-208-555-0102.",
    ]  # fmt: skip
    answers = msgspec.json.encode([[item, 1] for item in said]).decode()
    message, prompts = await asked(index, lambda _: answers, "beets sedge evening", SiteAsk(modes=("generate",)))
    prompt = next(item for item in prompts if item.startswith("Answer"))
    assert "open: Wed–Sun 11:30–21:00, closed Mon and Tue" in prompt and "phone: +1-208-555-0102" in prompt
    assert prompt.count("Beets, dressed up.") == 1
    part = message.labelled("answer")
    assert part is not None
    assert [citation["text"] for citation in part.value["citations"]] == [said[0], said[1], said[3]]


async def test_a_model_that_writes_reads_the_text_beside_the_passage_that_matched_once() -> None:
    index = LocalIndex(None, None)
    text = "\f\nThe river runs below the window.\nDogs stay for £10 a night.\nBreakfast: £14"
    await index.put([Item("r", "s", "Heron Room", ("HotelRoom",), description="A double room.", text=text)])
    _, prompts = await asked(index, lambda _: "[]", "heron room river", SiteAsk(modes=("generate",)))
    prompt = next(item for item in prompts if item.startswith("Answer"))
    for line in ("A double room.", "The river runs below the window.", "Dogs stay for £10 a night.", "Breakfast: £14"):
        assert prompt.count(line) == 1


async def test_what_a_model_makes_up_is_not_said(shop: LocalIndex) -> None:
    def answers(prompt: str) -> str:
        if prompt.startswith("Name"):
            return "no"
        number = next(line.split(".")[0] for line in prompt.splitlines() if ". Pumpkin soup" in line)
        return f'[["It freezes well.", {number}], ["It won a prize in 1999.", {number}], ["Hello.", 99]]'

    message, _ = await asked(shop, answers, "pumpkin soup", SiteAsk(modes=("generate",)))
    part = message.labelled("answer")
    assert part is not None
    assert [citation["text"] for citation in part.value["citations"]] == ["It freezes well."]


@pytest.mark.parametrize(
    "nonsense", ["", "I cannot do that.", "1", "10.5", "[1, 2, 3]", '["a"]', "99 50", "1 1000", "0 50", "line\nline"]
)
async def test_nonsense_of_a_model_changes_nothing(shop: LocalIndex, nonsense: str) -> None:
    ask = SiteAsk(prev=("recipes",), modes=("summarize",))
    message, _ = await asked(shop, lambda prompt: nonsense, "without nuts", ask)
    meta = message.labelled("meta")
    assert meta is not None
    assert meta.value["question"] == "recipes without nuts"
    assert {part.value["@id"] for part in message.parts if part.label == "result"} == {"r1", "r3", "r5"}


async def names_found(
    index: LocalIndex, speaks: Callable[[Turn], AsyncIterator[str]], seconds: float = 60.0
) -> list[str]:
    """The ids of the whole answer, ranked by an agent that speaks piece by piece."""
    judge = agent(name="judge")(speaks)
    site = Site(index, model=AgentModel(judge), questions=False, now=lambda: NOW)
    turn = Turn(Message.of(text_part("a recipe with curry or soup")), deadline=time.monotonic() + seconds)
    [reply] = [event async for event in site(turn) if isinstance(event, Reply)]
    return [part.value["@id"] for part in reply.message.parts if part.label == "result"]


async def test_a_model_that_was_late_for_a_list_is_left_alone_for_a_while(shop: LocalIndex) -> None:
    calls: list[str] = []

    async def silent(turn: Turn) -> AsyncIterator[str]:
        calls.append(turn.text)
        await asyncio.Event().wait()
        yield ""

    site = Site(shop, model=AgentModel(agent(name="hung")(silent)), questions=False, now=lambda: NOW)
    site.patience = 0.05
    for _ in range(3):
        events = [event async for event in site(Turn(Message.of(text_part("pumpkin soup"))))]
        assert isinstance(events[-1], Reply)
    assert len(calls) == 1


async def test_a_model_that_stops_in_the_middle_has_ranked_what_it_named(shop: LocalIndex) -> None:
    closed: list[bool] = []

    async def stuck(turn: Turn) -> AsyncIterator[str]:
        try:
            yield "2 9"
            yield "0\n3"
            await asyncio.Event().wait()
        finally:
            closed.append(True)

    async def silent(turn: Turn) -> AsyncIterator[str]:
        await asyncio.Event().wait()
        yield ""

    plain = await names_found(shop, silent, 0.5)
    assert len(plain) > 1
    assert await names_found(shop, stuck, 0.5) == [plain[1], plain[0], *plain[2:]]
    assert closed and all(closed)


async def test_what_a_model_only_thinks_is_no_ranking(shop: LocalIndex) -> None:
    async def thinking(turn: Turn) -> AsyncIterator[str]:
        yield "<think>\n1 99\n"
        yield "3 98\n</think>\n"
        yield "2: 90/100\n"

    async def silent(turn: Turn) -> AsyncIterator[str]:
        yield "nothing"

    plain = await names_found(shop, silent)
    assert await names_found(shop, thinking) == [plain[1], plain[0], *plain[2:]]


async def test_a_model_gets_what_is_known_about_the_caller(shop: LocalIndex) -> None:
    ask = SiteAsk(memory=("vegetarian",), about="cooks for two", languages="de, en;q=0.5")
    _, prompts = await asked(shop, lambda prompt: "no", "pumpkin soup", ask)
    assert "Known about the user: vegetarian; cooks for two; reads de, en;q=0.5" in prompts[0]
