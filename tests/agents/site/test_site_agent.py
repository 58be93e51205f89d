"""The site agent: what it yields, in which order, and what it makes of a conversation (W-5, W-10, W-11, W-12)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import pytest

from sabir.agents.site.agent import Site, SiteAsk
from sabir.errors import TurnFailed
from sabir.events import Delta, Event, Fault, Progress, Question, Reply
from sabir.message import Message, Part, json_part, text_part
from sabir.search import Hit, Item, LocalIndex, OfType, SearchQuery, ingest
from sabir.search.answers.clarify import QUESTIONS
from sabir.search.sample import SITES
from sabir.turn import Conversation, PastTurn, Turn
from search.shelf import NOW, shelf


async def _sample() -> LocalIndex:
    index = LocalIndex(None, None)
    for site, files in SITES.items():
        for file in files:
            assert not (await ingest(index, str(file), site=site)).problems
    return index


@pytest.fixture(scope="module")
def sample() -> LocalIndex:
    return asyncio.run(_sample())


@pytest.fixture(scope="module")
def shop() -> LocalIndex:
    index = LocalIndex(None, None)
    asyncio.run(index.put(shelf()))
    return index


class Asker:
    """Somebody who asks, and who answers questions back with the given messages, in order."""

    def __init__(self, agent: Site, *answers: Message) -> None:
        self.agent = agent
        self.answers = list(answers)
        self.questions: list[Question] = []
        self.past: tuple[PastTurn, ...] = ()

    async def events(self, text: str, ask: SiteAsk | None = None) -> list[Event]:
        parts = [text_part(text), *([ask.part()] if ask else [])]
        turn = Turn(Message.of(*parts), Conversation("c", self.past), ask_back=self._answer)
        events = [event async for event in self.agent(turn)]
        if isinstance(events[-1], Reply):
            self.past = (*self.past, PastTurn("t", 0.0, "site", turn.message, events[-1].message))
        return events

    async def reply(self, text: str, ask: SiteAsk | None = None) -> Message:
        end = (await self.events(text, ask))[-1]
        assert isinstance(end, Reply), end
        return end.message

    async def _answer(self, question: Question) -> Message:
        self.questions.append(question)
        self.past = (*self.past, PastTurn("q", 0.0, "site", Message.text("?"), Message.text(question.text)))
        if not self.answers:
            raise TurnFailed("the caller cannot be asked")
        return self.answers.pop(0)


def agent(index: LocalIndex, **options: Any) -> Site:
    return Site(index, now=lambda: NOW, **options)


def results(message: Message) -> list[dict[str, Any]]:
    return [part.value for part in message.parts if part.label == "result"]


def meta(message: Message) -> dict[str, Any]:
    part = message.labelled("meta")
    assert part is not None
    return dict(part.value)


def ids(message: Message) -> list[str]:
    return [result["@id"] for result in results(message)]


def labels(events: Sequence[Event]) -> list[str | None]:
    return [event.part.label or event.part.format for event in events if isinstance(event, Delta)]


async def test_pieces_come_in_the_order_that_the_contract_names(shop: LocalIndex) -> None:
    events = await Asker(agent(shop)).events("pumpkin soup")
    assert labels(events)[:2] == ["meta", "result"]
    assert labels(events)[-1] == "text"
    reply = events[-1]
    assert isinstance(reply, Reply)
    sent = [event.part for event in events if isinstance(event, Delta) and event.part.label == "result"]
    assert [part for part in reply.message.parts if part.label == "result"] == sent
    assert reply.message.first.format == "text"
    assert reply.message.text.startswith("1. Pumpkin soup: A bowl of autumn.")


async def test_a_result_has_all_that_nlweb_clients_need(shop: LocalIndex) -> None:
    [first, *_] = results(await Asker(agent(shop)).reply("pumpkin soup"))
    assert first["@type"] == "Recipe"
    assert first["@id"] == "r1"
    assert first["site"] == "shop.example"
    assert 20 <= first["score"] <= 100
    assert first["recipeCuisine"] == "American"
    assert first["grounding"] == {
        "source_urls": ["r1"],
        "citations": [{"text": "A bowl of autumn.", "url": "r1"}],
    }


async def test_the_example_of_the_nlweb_document_obeys_its_filters(sample: LocalIndex) -> None:
    ask = SiteAsk(
        filters={"site": "pumpkins-r-us.com", "itemType": "Recipe", "location": "Idaho", "price": "less than $20"},
        prev=("breakfast muffins", "high fiber snacks"),
        memory=("vegetarian, has a sweet tooth",),
    )
    message = await Asker(agent(sample)).reply("something protein rich that has cinnamon in it", ask)
    found = [item_id.rsplit("/", 1)[-1] for item_id in ids(message)]
    assert "pumpkin-spice-pudding-with-coconut" in found[:5]
    assert "pumpkin-cottage-cheese-pancakes" in found
    assert "sugar-pumpkin-stuffed-with-turkey-and-rice" not in found  # $24
    assert "cinnamon-toast-pumpkin-hummus" not in found  # from Portland
    assert {result["site"] for result in results(message)} == {"pumpkins-r-us.com"}
    assert meta(message)["ignored"] == []
    assert all(result["actions"] for result in results(message) if "pudding" in result["@id"])


async def test_ignored_filters_are_reported_in_meta_and_in_text(shop: LocalIndex) -> None:
    message = await Asker(agent(shop)).reply("pumpkin soup", SiteAsk(filters={"flavour": "sour"}))
    assert meta(message)["ignored"] == [{"name": "flavour", "value": "sour", "reason": "no item states flavour"}]
    assert message.text.endswith('(I did not go by flavour "sour": no item states flavour.)')


async def test_nothing_found_is_a_reply_with_a_total_of_zero(shop: LocalIndex) -> None:
    message = await Asker(agent(shop)).reply("quantum chromodynamics")
    assert (meta(message)["total"], results(message), message.text) == (0, [], "I found nothing for that.")


async def test_nothing_found_is_reported_alike_in_every_mode(shop: LocalIndex) -> None:
    for modes in (("list", "summarize"), ("generate",), ("summarize", "list")):
        message = await Asker(agent(shop)).reply("quantum chromodynamics", SiteAsk(modes=modes))
        assert message.text == "I found nothing for that."


async def test_a_site_that_is_not_here_is_not_fetched_but_refused(shop: LocalIndex) -> None:
    events = await Asker(agent(shop)).events("soup", SiteAsk(filters={"site": "http://169.254.169.254/"}))
    assert events == [Fault("there is no site 'http://169.254.169.254/' here", "not_found")]


async def test_an_agent_of_one_site_answers_for_no_other(shop: LocalIndex) -> None:
    blog = agent(shop, site="blog.example")
    assert blog.card.site == "blog.example"
    assert {result["site"] for result in results(await Asker(blog).reply("boots nuts baking"))} == {"blog.example"}
    assert isinstance((await Asker(blog).events("soup", SiteAsk(filters={"site": "shop.example"})))[-1], Fault)


@pytest.mark.parametrize("content", [{"modes": ["sing"]}, {"limit": "many"}, {"nonsense": 1}])
async def test_an_invalid_ask_is_a_fault(shop: LocalIndex, content: dict[str, Any]) -> None:
    turn = Turn(Message.of(text_part("soup"), json_part(content, label="ask")))
    [event] = [event async for event in agent(shop)(turn)]
    assert isinstance(event, Fault)
    assert event.code == "invalid"


# Follow-ups


async def test_a_follow_up_keeps_the_topic_and_the_rewritten_question_is_reported(shop: LocalIndex) -> None:
    asker = Asker(agent(shop, questions=False))
    await asker.reply("recipes")
    message = await asker.reply("without nuts")
    assert meta(message)["question"] == "recipes without nuts"
    assert meta(message)["rewritten"] is True
    assert set(ids(message)) == {"r1", "r3", "r5"}
    assert set(ids(await asker.reply("under $10"))) == {"r1"}


async def test_earlier_questions_may_come_with_the_ask_instead(shop: LocalIndex) -> None:
    message = await Asker(agent(shop, questions=False)).reply("without nuts", SiteAsk(prev=("recipes",)))
    assert set(ids(message)) == {"r1", "r3", "r5"}


async def test_cheaper_ones_come_in_the_order_of_their_price(shop: LocalIndex) -> None:
    message = await Asker(agent(shop, questions=False)).reply("cheaper ones", SiteAsk(prev=("recipes",)))
    assert ids(message)[:3] == ["r1", "r4", "r2"]


async def test_more_gives_the_next_page(shop: LocalIndex) -> None:
    asker = Asker(agent(shop, questions=False, limit=2))
    seen = [ids(await asker.reply(text)) for text in ("recipes", "more", "show me more")]
    assert [len(page) for page in seen] == [2, 2, 1]
    assert len({item_id for page in seen for item_id in page}) == 5
    assert (await asker.reply("more")).text == "No more results."


# Questions back


async def test_a_vague_question_is_asked_about_and_the_answer_applied(sample: LocalIndex) -> None:
    answer = Message.of(text_part(""), SiteAsk(answers={"recipeCategory": ["Dessert (9)"]}).part())
    asker = Asker(agent(sample), answer)
    message = await asker.reply("recipes")
    [question] = asker.questions
    assert question.text in QUESTIONS.values()
    assert question.fields[0].kind == "multi_select"
    assert all(option.endswith(")") for option in question.fields[0].options)
    if question.id == "recipeCategory":
        assert {result["recipeCategory"] for result in results(message)} == {"Dessert"}


async def test_an_answer_in_words_is_understood(sample: LocalIndex) -> None:
    asker = Asker(agent(sample), Message.text("Dessert, please"))
    message = await asker.reply("recipes")
    assert asker.questions[0].id == "recipeCategory"
    assert {result["recipeCategory"] for result in results(message)} == {"Dessert"}


async def test_an_answer_that_names_no_option_is_a_follow_up(sample: LocalIndex) -> None:
    message = await Asker(agent(sample), Message.text("without nuts")).reply("recipes")
    assert meta(message)["question"] == "recipes without nuts"


@pytest.mark.parametrize(
    ("other", "found"),
    [
        ("What is on in Boise in January?", "Event"),
        ("I want a chocolate cake", "Recipe"),
        ("do you sell an enamel kettle?", "Product"),
    ],
)
async def test_another_question_in_place_of_an_answer_is_one(sample: LocalIndex, other: str, found: str) -> None:
    asker = Asker(agent(sample), Message.text(other))
    message = await asker.reply("recipes", SiteAsk(filters={"price": "less than $20"}))
    assert len(asker.questions) == 1
    assert found in " ".join(str(result["@type"]) for result in results(message))
    assert meta(message)["filters"] == {}
    assert "recipes" not in meta(message)["question"]


async def test_another_question_comes_with_filters_of_its_own(sample: LocalIndex) -> None:
    instead = Message.of(text_part("mugs and plates"), SiteAsk(filters={"price": "under $40"}).part())
    message = await Asker(agent(sample), instead).reply("recipes", SiteAsk(filters={"price": "less than $20"}))
    assert meta(message)["filters"] == {"price": "under $40"}


async def test_an_answer_with_more_to_it_is_both(sample: LocalIndex) -> None:
    message = await Asker(agent(sample), Message.text("Dessert, without nuts")).reply("recipes")
    assert {result["recipeCategory"] for result in results(message)} == {"Dessert"}
    assert meta(message)["question"] == "recipes, without nuts"


async def test_filters_and_answers_are_kept_by_follow_ups(sample: LocalIndex) -> None:
    """W-11: "cheaper ones", then "only vegan"."""
    asker = Asker(agent(sample), Message.text("Dessert"))
    await asker.reply("recipes", SiteAsk(filters={"price": "less than $20"}))
    for text, question in (("cheaper ones", "cheapest recipes"), ("only vegan", "vegan cheapest recipes")):
        message = await asker.reply(text)
        assert meta(message)["question"] == question
        assert meta(message)["filters"] == {"price": "less than $20", "recipeCategory": "Dessert"}
        assert {result["recipeCategory"] for result in results(message)} == {"Dessert"}
    assert all("Vegan" in str(result["suitableForDiet"]) for result in results(message))
    message = await asker.reply("enamel mug")
    assert meta(message)["filters"] == {}


async def test_a_new_filter_takes_the_place_of_the_old_one_in_a_follow_up(sample: LocalIndex) -> None:
    asker = Asker(agent(sample, questions=False))
    await asker.reply("soup", SiteAsk(filters={"suitableForDiet": "vegan", "site": "harbour.example"}))
    message = await asker.reply("quicker ones", SiteAsk(filters={"suitableForDiet": "vegetarian"}))
    assert meta(message)["filters"] == {"suitableForDiet": "vegetarian", "site": "harbour.example"}


async def test_a_time_filters_only_what_has_one(sample: LocalIndex) -> None:
    message = await Asker(agent(sample, questions=False)).reply("What should I cook tonight?")
    assert results(message)
    assert [item["value"] for item in meta(message)["ignored"]] == ["tonight"]
    message = await Asker(agent(sample, questions=False)).reply("concerts in January 1999")
    assert not results(message)
    assert re.fullmatch(r"I found nothing for that\. Next: .+ \(\d+ \w+ 202\d\), .+\.", message.text)


async def test_nobody_is_asked_twice_for_the_same_in_a_conversation(sample: LocalIndex) -> None:
    asker = Asker(agent(sample), *(Message.text("any") for _ in range(9)))
    for text in ("recipes", "recipes", "recipes", "recipes"):
        await asker.reply(text)
    ids = [question.id for question in asker.questions]
    assert len(ids) == len(set(ids))


async def test_where_nobody_can_be_asked_the_results_are_shown(sample: LocalIndex) -> None:
    asker = Asker(agent(sample))
    message = await asker.reply("recipes")
    assert len(asker.questions) == 1
    assert len(results(message)) == 10


async def test_questions_that_are_not_welcome_are_not_asked(sample: LocalIndex) -> None:
    asker = Asker(agent(sample))
    await asker.reply("recipes", SiteAsk(questions=False))
    assert asker.questions == []


# Modes


def source_holds(sample_texts: dict[str, Item], citation: dict[str, str]) -> bool:
    item = sample_texts[citation["item"]]
    return citation["text"] in item.description or citation["text"] in item.text


@pytest.mark.parametrize(("mode", "label"), [("summarize", "summary"), ("generate", "answer")])
@pytest.mark.parametrize("text", ["pumpkin pie", "a warm drink for a cold evening", "what can I do with children?"])
async def test_no_sentence_is_said_that_no_source_holds(sample: LocalIndex, mode: str, label: str, text: str) -> None:
    message = await Asker(agent(sample, questions=False)).reply(text, SiteAsk(modes=(mode,)))
    part = message.labelled(label)
    assert part is not None
    citations = part.value["citations"]
    items = {citation["item"]: await _item(sample, citation["item"]) for citation in citations}
    assert citations
    assert all(source_holds(items, citation) for citation in citations)
    said = message.text
    for item in citations:
        said = said.replace(item["text"], "", 1)
    assert not any(char.isalpha() for char in said)  # what is left are the numbers of the sources


async def _item(index: LocalIndex, item_id: str) -> Item:
    found = [item for site in SITES if (item := await index.get(site, item_id))]
    return found[0]


async def test_memory_moves_items_that_it_speaks_against_down(shop: LocalIndex) -> None:
    async def scores(*memory: str) -> dict[str, float]:
        message = await Asker(agent(shop, questions=False)).reply(
            "chicken curry or soup", SiteAsk(memory=memory, min_score=0.0)
        )
        return {result["@id"]: result["score"] for result in results(message)}

    plain, remembered = await scores(), await scores("vegan", "likes the sea")
    assert remembered["r1"] == plain["r1"]
    assert remembered["r3"] == pytest.approx(0.7 * plain["r3"], abs=0.1)
    assert set(plain) == set(remembered)


# With a model


class Model:
    """A scripted language model."""

    def __init__(self, written: Sequence[tuple[str, int]] = (), fails: bool = False) -> None:
        self.written, self.fails = written, fails
        self.calls: list[str] = []

    async def rewrite(self, turn: Turn, question: str, previous: Sequence[str]) -> str:
        self._called("rewrite")
        return "pumpkin soup"

    async def rank(
        self, turn: Turn, question: str, hits: Sequence[Hit], known: Sequence[str], count: int | None
    ) -> AsyncGenerator[tuple[int, float], None]:
        self._called("rank")
        for place in range(len(hits)):
            yield place, 90.0 - place

    async def write(self, turn: Turn, question: str, hits: Sequence[Hit], mode: str) -> Sequence[tuple[str, int]]:
        self._called("write")
        return self.written

    def _called(self, name: str) -> None:
        self.calls.append(name)
        if self.fails:
            raise TurnFailed("the model is unavailable")


async def test_a_model_is_called_once_for_each_step_and_not_for_each_item(shop: LocalIndex) -> None:
    model = Model([("It freezes well and needs no stirring.", 0)])
    ask = SiteAsk(prev=("x",), modes=("summarize",))
    message = await Asker(agent(shop, model=model, questions=False)).reply("and that?", ask)
    assert model.calls == ["rewrite", "write"]  # a summary follows the list, which does not wait for a ranking
    assert meta(message)["question"] == "pumpkin soup"


async def test_a_sentence_of_a_model_that_its_source_does_not_bear_is_removed(shop: LocalIndex) -> None:
    invented = [("It freezes well.", 0), ("It was served to the Queen in 1953.", 0), ("It freezes well.", 99)]
    model = Model(invented)
    message = await Asker(agent(shop, model=model, questions=False)).reply("pumpkin soup", SiteAsk(modes=("generate",)))
    part = message.labelled("answer")
    assert part is not None
    assert [citation["text"] for citation in part.value["citations"]] == ["It freezes well."]


async def test_without_its_model_the_agent_goes_on(shop: LocalIndex) -> None:
    model = Model(fails=True)
    ask = SiteAsk(prev=("recipes",), modes=("summarize",))
    message = await Asker(agent(shop, model=model, questions=False)).reply("without nuts", ask)
    assert set(ids(message)) == {"r1", "r3", "r5"}
    assert message.labelled("summary") is not None


def test_the_card_says_what_the_site_is() -> None:
    card = Site(LocalIndex(None, None), "shop.example", description="Tents and soup").card
    assert (card.name, card.site, card.description) == ("shop.example", "shop.example", "Tents and soup")
    assert card.skills[0].id == "ask"
    assert isinstance(SiteAsk(limit=3).part(), Part)


async def test_the_inputs_of_an_action_are_read_from_its_address() -> None:
    template = "https://h.example/book/{room}{?date,people}"
    target = {"@type": "EntryPoint", "urlTemplate": template, "httpMethod": "POST"}
    action = {"@type": "ReserveAction", "target": target, "people-input": "required"}
    index = LocalIndex(None, None)
    await index.put([Item("1", "s", "Harbour inn", ("Hotel",), fields={"potentialAction": action})])
    [found] = results(await Asker(agent(index)).reply("harbour inn"))
    assert found["actions"][0]["params"] == {
        "room": {"required": True},
        "date": {"required": False},
        "people": {"required": True},
    }


async def test_the_options_of_a_question_count_all_that_was_found(sample: LocalIndex) -> None:
    asker = Asker(agent(sample), Message.text("any"))
    await asker.reply("recipes")
    [field] = asker.questions[0].fields
    counts = {option.rpartition(" (")[0]: int(option.rpartition("(")[2][:-1]) for option in field.options}
    where = (OfType(("Recipe",)),)
    [facet] = (await sample.search(SearchQuery("", where, 0, 1, facets=(field.id,)))).facets
    assert counts == {value: count for value, count in facet.counts if value in counts}
    assert sum(counts.values()) > 50  # more than were looked at


async def test_another_choice_takes_the_place_of_the_one_before(sample: LocalIndex) -> None:
    asker = Asker(agent(sample), Message.text("Dessert"))
    assert {result["recipeCategory"] for result in results(await asker.reply("recipes"))} == {"Dessert"}
    assert {result["recipeCategory"] for result in results(await asker.reply("only vegan"))} == {"Dessert"}
    found = results(await asker.reply("what about breakfast?"))
    assert found and {item["recipeCategory"] for item in found} == {"Breakfast"}
    assert all("Vegan" in str(item["suitableForDiet"]) for item in found)


async def test_for_how_many_it_is_filters_only_what_says_so(sample: LocalIndex) -> None:
    message = await Asker(agent(sample)).reply("a tent for two people")
    assert results(message)[0]["name"] == "Reed Bed Two-Person Tent"
    assert meta(message)["ignored"][0]["reason"] == "what was found does not say for how many"
    stew = results(await Asker(agent(sample), Message.text("any")).reply("a stew for four people"))
    assert stew and all(int(item["recipeYield"].split()[0]) >= 4 for item in stew)


@pytest.mark.parametrize("part", [{"limit": 0}, {"start": -1}, {"limit": "many"}, {"limt": 3}])
async def test_an_ask_that_is_not_right_is_refused(shop: LocalIndex, part: dict[str, Any]) -> None:
    turn = Turn(Message.of(text_part("soup"), json_part(part, label="ask")))
    [fault] = [event async for event in agent(shop)(turn)]
    assert isinstance(fault, Fault) and fault.code == "invalid"


async def test_as_many_as_are_asked_for_come(sample: LocalIndex) -> None:
    found = results(await Asker(agent(sample)).reply("recipes", SiteAsk(limit=150)))
    assert len(found) == 111


async def test_a_weight_that_fails_weighs_nothing(shop: LocalIndex) -> None:
    async def away(turn: Turn, hit: Hit) -> float:
        raise TurnFailed("the stock is unavailable")

    plain = await Asker(agent(shop)).reply("pumpkin soup")
    assert results(await Asker(agent(shop, weight=away)).reply("pumpkin soup")) == results(plain)


async def test_what_is_over_comes_after_what_is_to_come() -> None:
    def fair(year: int) -> Item:
        dates = {"startDate": f"{year}-06-01", "endDate": f"{year}-06-02"}
        return Item(
            f"f{year}", "s", "Apple fair", ("Event",), description="A fair.", fields={"@type": "Event", **dates}
        )

    index = LocalIndex(None, None)
    await index.put([fair(NOW.year - 1), fair(NOW.year + 1), fair(NOW.year - 2)])
    asker = Asker(agent(index))
    assert ids(await asker.reply("apple fair"))[0] == f"f{NOW.year + 1}"
    assert ids(await Asker(agent(index)).reply(f"apple fair in June {NOW.year - 2}")) == [f"f{NOW.year - 2}"]


@pytest.mark.parametrize("text", ["what is new here?", "show me everything", "what do you have?"])
async def test_who_asks_for_nothing_in_particular_is_shown_what_there_is(text: str) -> None:
    index = LocalIndex(None, None)
    await index.put([Item("1", "s", "Ferry times"), Item("2", "s", "Ferry prices")])
    assert set(ids(await Asker(agent(index)).reply(text))) == {"1", "2"}


async def test_a_search_that_takes_long_reports_progress_without_a_model(
    shop: LocalIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = [event async for event in Site(shop, questions=False)(Turn(Message.text("pumpkin soup")))]
    assert not [event for event in events if isinstance(event, Progress)]
    monkeypatch.setattr("sabir.agents.site.agent.SOON", 0.0)
    events = [event async for event in Site(shop, questions=False)(Turn(Message.text("pumpkin soup")))]
    reported = [event.fraction for event in events if isinstance(event, Progress)]
    assert reported == [0.1, 0.4] and isinstance(events[-1], Reply)
