"""What every engine must do, run over the embedded one and over PostgreSQL with pgvector."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from sabir.search import (
    AnyOf,
    Condition,
    During,
    Engine,
    Has,
    In,
    Is,
    Item,
    Near,
    Not,
    OfType,
    OnSite,
    Range,
    SearchQuery,
    resolved,
    structured,
)
from sabir.search.engine.embed import MiniLM, Vectors
from sabir.search.items.attributes import attributes
from sabir.search.items.schema_org import items
from sabir.search.query.conditions import holds
from search.engines import Hashed, opened
from search.query.test_filters import STRUCTURED
from search.shelf import ALL, NOW, shelf


def words(number: int, text: str, **fields: object) -> Item:
    return Item(f"w{number}", "site", f"Item {number}", ("Product",), text=text, fields=fields)


async def ids(engine: Engine, text: str = "", *where: Condition, limit: int = 100) -> list[str]:
    return [hit.item.id for hit in (await engine.search(SearchQuery(text, where, limit=limit))).hits]


async def test_what_was_put_is_found_at_once_by_its_words(engine: Engine) -> None:
    await engine.put(shelf())
    assert (await ids(engine, "pumpkin"))[0] == "r1"
    assert (await ids(engine, "brownie"))[0] == "r2"  # "brownies", by its stem


async def test_a_word_is_as_rare_as_the_whole_site_has_it_and_not_as_its_names_have_it(engine: Engine) -> None:
    """Two words that as many items say count the same, though one of them stands in fewer names (BM25F)."""
    pumpkins = [Item(f"p{n}", "site", f"Pumpkin {n}", ("Recipe",), text=f"pumpkin dish number{n}") for n in range(9)]
    soups = [Item(f"s{n}", "site", f"Dish {n}", ("Recipe",), text=f"soup dish number{n}") for n in range(8)]
    one = Item("s9", "site", "Soup 9", ("Recipe",), text="soup dish number9")
    await engine.put([*pumpkins, *soups, one])
    found = {hit.item.id: hit.lexical for hit in (await engine.search(SearchQuery("pumpkin soup", limit=100))).hits}
    assert found["s9"] == pytest.approx(found["p0"], rel=0.02)


async def test_a_word_is_found_where_another_says_the_same(engine: Engine) -> None:
    await engine.put([words(1, "a morning for children up to five"), words(2, "a bicycle with eight gears")])
    await engine.put([words(3, "a morning of quiet"), words(4, "knives that keep their edge")])
    for asked, meant in (("kids", "w1"), ("child", "w1"), ("a bike", "w2"), ("knife", "w4")):
        found = (await engine.search(SearchQuery(asked))).hits
        assert [hit.item.id for hit in found if hit.lexical > 0.3] == [meant], asked


@pytest.mark.parametrize(
    ("question", "first"),
    [("Käse", "de"), ("kase", "de"), ("味噌汁", "ja"), ("豆腐", "ja"), ("who has the cheese?", "de"), ("œufs", "fr")],
)
async def test_words_are_found_with_and_without_accents_and_in_scripts_without_spaces(
    engine: Engine, question: str, first: str
) -> None:
    await engine.put(
        [
            Item("de", "site", "Spätzle", ("Recipe",), text="Mit viel Käse geschichtet."),
            Item("ja", "site", "豆腐とわかめの味噌汁", ("Recipe",), text="だしを温め、味噌を溶く。"),
            Item("fr", "site", "Mousse", ("Recipe",), text="Six œufs et du chocolat."),
        ]
    )
    assert (await ids(engine, question))[0] == first


# The language, what an item says, and questions with another form of its word; none is found by an English stem.
FORMS = [
    ("de", "Häuser am See", "Wo ist das Haus?"),
    ("de", "Häuser am See", "places with Haus"),
    ("de", "Gebackene Äpfel", "Wie mache ich einen gebackenen Fisch?"),
    ("es", "Coplas cantadas", "¿Dónde se puede cantar?"),
    ("fr", "Chevaux de trait", "Où est le cheval ?"),
]


async def test_other_forms_of_a_word_are_found_by_the_rules_of_its_language(engine: Engine) -> None:
    for number, (language, said, _) in enumerate(FORMS):
        right = Item(f"{number}", f"site{number}", said, ("Article",), fields={"inLanguage": language})
        other = Item(f"z{number}", f"site{number}", "Zebra", ("Article",), fields={"inLanguage": language})
        await engine.put([right, other])
    await engine.settled()
    for number, (_, said, asked) in enumerate(FORMS):
        found = await engine.search(SearchQuery(asked, (OnSite((f"site{number}",)),)))
        lexical = [hit.item.id for hit in found.hits if hit.lexical > 0]
        assert lexical == [f"{number}"], (said, asked)


async def test_an_item_of_the_same_site_and_id_is_replaced(engine: Engine) -> None:
    await engine.put([words(1, "old zebra")])
    await engine.put([words(1, "new giraffe")])
    await engine.settled()
    assert await ids(engine, "giraffe") == ["w1"]
    assert [hit.lexical for hit in (await engine.search(SearchQuery("zebra"))).hits if hit.lexical] == []
    assert (await engine.get("site", "w1")) == words(1, "new giraffe")
    assert [site.items for site in await engine.sites()] == [1]


async def test_of_two_with_one_id_in_one_put_the_last_counts(engine: Engine) -> None:
    await engine.put([words(1, "first"), words(1, "second")])
    assert (await engine.get("site", "w1")) == words(1, "second")


async def test_deleted_items_are_gone_and_counted(engine: Engine) -> None:
    await engine.put(shelf())
    await engine.settled()
    assert await engine.delete("shop.example", ["r1", "r2", "nothing"]) == 2
    assert "r1" not in await ids(engine, "pumpkin soup")
    assert await engine.delete("shop.example") == len(ALL) - 4
    assert [(site.name, site.items) for site in await engine.sites()] == [("blog.example", 2)]
    assert await engine.delete("nowhere") == 0


async def test_sites_are_listed_with_their_types(engine: Engine) -> None:
    await engine.put(shelf())
    sites = {site.name: site for site in await engine.sites()}
    assert sites["blog.example"].types == {"Article": 1, "BlogPosting": 1}
    assert sites["shop.example"].types["Recipe"] == 5


async def test_items_are_listed_with_fingerprint_and_source(engine: Engine) -> None:
    await engine.put(shelf())
    listed = {item_id: (fingerprint, source) async for item_id, fingerprint, source in engine.listed("blog.example")}
    expected = {item.id: (item.fingerprint, "blog") for item in shelf() if item.site == "blog.example"}
    assert listed == expected


async def test_filters_let_through_what_the_table_says(engine: Engine) -> None:
    await engine.put(shelf())
    fields = await engine.fields()
    for filters, expected in STRUCTURED:
        parsed = await resolved(structured(filters, fields, NOW), engine)
        assert set(await ids(engine, "", *parsed.conditions)) == set(expected.split()), filters
        assert await engine.count(parsed.conditions) == len(expected.split()), filters


CONDITIONS: list[Condition] = [
    OfType(("Event", "Recipe")),
    OnSite(("shop.example",)),
    Is("brand", ("Acme Outdoor",)),
    Is("nothing", ("at all",)),
    Range("price", None, 25.0, with_high=False),
    Range("price", 25.0, None, currencies=("USD",)),
    Range("price", 12.0, 12.0),
    Range("price", None, None),
    Range("stars", 4.0, 4.5, with_low=False),
    During("date", None, 1_780_000_000.0),
    During("date", 1_780_000_000.0, None),
    During("date", 1_767_225_600.0, 1_780_000_000.0),
    Near(43.6, -116.2, 1.0),
    Near(43.6, -116.2, 40.0, "Boise"),
    Near(43.68, -114.36, 5.0, "Ketchum"),
    Near(0.0, 179.9, 100.0),
    In("OR"),
    Has(("egg", "pumpkin")),
    Has(("peanut butter",)),
    Not(Has(("butter",))),
    Not(Range("price", None, 100.0)),
    AnyOf((In("Portland"), OfType(("BlogPosting",)))),
    AnyOf(()),
    Not(AnyOf((Is("color", ("black",)), Not(OfType(("Product",)))))),
]


async def test_a_condition_means_what_its_definition_says(engine: Engine) -> None:
    await engine.put(shelf())
    for condition in CONDITIONS:
        defined = {item.id for item in shelf() if holds(condition, attributes(item))}
        assert set(await ids(engine, "", condition)) == defined, condition


async def test_conditions_hold_for_what_is_found_by_words_and_by_meaning(engine: Engine) -> None:
    await engine.put(shelf())
    await engine.settled()
    assert set(await ids(engine, "soup of pumpkin or chicken curry", Range("price", 10.0, None))) <= {
        "r2", "r3", "p1", "p2", "p3", "p4", "e2", "e3", "e4",
    }  # fmt: skip


async def test_a_rare_item_is_found_behind_a_filter_among_many_that_are_nearer(engine: Engine) -> None:
    crowd = [words(number, "green tea cup saucer", color="white") for number in range(400)]
    await engine.put([*crowd, words(999, "kettle", color="red")])
    await engine.settled()
    assert await ids(engine, "green tea cup", Is("color", ("red",))) == ["w999"]


async def test_facets_count_what_was_found(engine: Engine) -> None:
    await engine.put(shelf())
    await engine.settled()
    found = await engine.search(SearchQuery("", (OfType(("Recipe",)),), facets=("recipeCuisine", "@type", "nothing")))
    facets = {facet.field: dict(facet.counts) for facet in found.facets}
    assert facets == {
        "recipeCuisine": {"American": 2, "French": 1, "Indian": 1, "Thai": 1},
        "@type": {"Recipe": 5},
        "nothing": {},
    }


async def test_pages_do_not_overlap_and_leave_nothing_out(engine: Engine) -> None:
    await engine.put([words(number, f"lamp number {number}") for number in range(25)])
    await engine.settled()
    for text in ("lamp", ""):
        pages = [(await engine.search(SearchQuery(text, start=start, limit=10))).hits for start in (0, 10, 20, 30)]
        assert [len(page) for page in pages] == [10, 10, 5, 0]
        assert len({hit.item.id for page in pages for hit in page}) == 25
    assert (await engine.search(SearchQuery("lamp", limit=1))).total == 25


async def test_scores_fall_and_stay_within_0_and_100(engine: Engine) -> None:
    await engine.put(shelf())
    await engine.settled()
    scores = [hit.score for hit in (await engine.search(SearchQuery("pumpkin soup with cinnamon", limit=30))).hits]
    assert scores == sorted(scores, reverse=True)
    assert 0 <= scores[-1] <= scores[0] <= 100
    assert scores[0] > 45


async def test_min_score_cuts_what_is_below(engine: Engine) -> None:
    await engine.put(shelf())
    await engine.settled()
    every = (await engine.search(SearchQuery("pumpkin soup", limit=30))).hits
    cut = (await engine.search(SearchQuery("pumpkin soup", limit=30, min_score=30.0))).hits
    assert [hit.item.id for hit in cut] == [hit.item.id for hit in every if hit.score >= 30.0]


async def test_what_the_asker_likes_moves_up_and_nothing_is_left_out(engine: Engine) -> None:
    await engine.put([words(1, "cake plain"), words(2, "cake chocolate"), words(3, "cake lemon")])
    await engine.settled()
    assert (await engine.search(SearchQuery("cake", liking="lemon"))).hits[0].item.id == "w3"
    assert (await engine.search(SearchQuery("cake", liking="chocolate"))).hits[0].item.id == "w2"
    assert len((await engine.search(SearchQuery("cake", liking="chocolate"))).hits) == 3


async def test_a_long_article_is_found_by_any_of_its_passages_and_only_once(engine: Engine) -> None:
    filler = [f"Sentence {number} speaks about weather and wind." for number in range(200)]
    text = " ".join([*filler[:150], "The quagga is a kind of zebra that died out.", *filler[150:]])
    await engine.put([Item("long", "site", "An essay", ("Article",), url="https://s.example/essay", text=text)])
    await engine.settled()
    hits = (await engine.search(SearchQuery("quagga weather"))).hits
    assert [hit.item.id for hit in hits] == ["long"]
    assert "The quagga is a kind of zebra" in hits[0].passage
    assert len(hits[0].passage.split()) < 400
    assert hits[0].item.page == "https://s.example/essay"


async def test_a_place_is_located_by_the_items_in_it(engine: Engine) -> None:
    await engine.put(shelf())
    located = await engine.locate("Boise")
    assert located is not None
    assert located == pytest.approx((43.606, -116.199))
    assert await engine.locate("Atlantis") is None


async def test_fields_name_what_items_state(engine: Engine) -> None:
    await engine.put(shelf())
    fields = await engine.fields()
    assert {"brand", "recipecuisine"} <= fields.words
    assert {"price", "price:usd", "totaltime", "stars", "weight", "volume", "storage"} <= fields.numbers
    assert {"date", "startdate", "datepublished"} <= fields.dates
    assert {"Recipe", "HowTo", "Festival"} <= fields.types
    assert {"boise", "idaho", "oregon"} <= fields.places


async def test_strange_texts_do_no_harm(engine: Engine) -> None:
    node = {
        "@type": "Thing",
        "@id": "x\x00y",
        "name": "N\x00ul \U0001f600",
        "text": "a\x00b",
        "weird.key: []": "v\x00",
        "": 1,
    }
    strange = [item for item in items(node, site="site") if isinstance(item, Item)]
    await engine.put(strange)
    await engine.settled()
    assert (await ids(engine, "nul"))[0] == strange[0].id
    for text in ("\U0001f600", '"unclosed AND (', "a:b [1 TO", "x" * 10_000, "\x00", "   ", "+-*/~^"):
        await engine.search(SearchQuery(text))


class Slow(Hashed):
    """Hashed, but not before it is let."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.asked = asyncio.Event()

    async def embed(self, texts: Sequence[str]) -> Vectors:
        self.asked.set()
        await self.go.wait()
        return await super().embed(texts)


async def test_words_find_while_vectors_are_computed_and_the_answer_says_so(place: tuple[str, Path | str]) -> None:
    slow = Slow()
    async with opened(*place, slow) as engine:
        await engine.put([words(1, "zebra crossing"), words(2, "lion")])
        await slow.asked.wait()
        if place[0] == "postgres":
            slow.go.set()  # its query is embedded, too; nothing but time is left to see
        found = await engine.search(SearchQuery("zebra"))
        assert found.hits[0].item.id == "w1"
        if place[0] == "local":
            assert found.coverage == 0.0
            assert found.hits[0].semantic is None
        slow.go.set()
        await engine.settled()
        assert (await engine.search(SearchQuery("zebra"))).coverage == 1.0


async def test_meaning_finds_what_shares_no_word_with_the_question(place: tuple[str, Path | str]) -> None:
    async with opened(*place, MiniLM()) as engine:
        texts = ("a puppy for a small flat", "repair of diesel engines", "how to file taxes", "growing tomatoes")
        await engine.put([words(number, text) for number, text in enumerate(texts)])
        await engine.settled()
        for question, text in (
            ("an animal companion", "a puppy for a small flat"),
            ("vegetable garden", "growing tomatoes"),
        ):
            hits = (await engine.search(SearchQuery(question))).hits
            assert hits[0].item.text == text
            assert hits[0].lexical == 0


async def test_without_an_embedder_words_alone_are_searched(place: tuple[str, Path | str]) -> None:
    async with opened(*place, None) as engine:
        await engine.put(shelf())
        found = await engine.search(SearchQuery("pumpkin"))
        assert found.hits[0].item.id == "r1"
        assert found.coverage == 1.0
        await engine.settled()


async def test_texts_are_compared_in_meaning_with_others(engine: Engine) -> None:
    await engine.put(shelf())
    await engine.settled()
    likest, least = await engine.similarities("a warm soup", ["warm soup", "a cold bicycle"]) or (0.0, 0.0)
    assert 1.01 > likest > 0.9 > least
