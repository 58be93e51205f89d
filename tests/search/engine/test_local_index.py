"""What only the embedded engine promises: what was put survives, processes share it, vectors come back."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import weakref
from pathlib import Path

import msgspec
import numpy as np
import pytest

from sabir.errors import PeerUnreadable
from sabir.search import Endpoint, Item, LocalIndex, MiniLM, SearchQuery
from sabir.search.engine import local
from sabir.search.engine.embed import Vectors
from sabir.search.engine.stems import language_of_item
from sabir.search.engine.vectors import VectorFile
from sabir.search.items.attributes import Attributes, _kinds_named, attributes
from sabir.search.items.item import ByItem
from sabir.search.query.conditions import Has
from sabir.search.query.translated import _is_term
from search.engines import Hashed
from search.shelf import shelf


def item(number: int, text: str) -> Item:
    return Item(f"w{number}", "site", f"Item {number}", ("Product",), text=text)


async def found(index: LocalIndex, text: str) -> list[str]:
    return [hit.item.id for hit in (await index.search(SearchQuery(text))).hits]


async def test_an_index_is_the_same_after_it_was_closed_and_opened(tmp_path: Path) -> None:
    async with LocalIndex(tmp_path, Hashed()) as index:
        await index.put(shelf())
        await index.settled()
        before = (await index.search(SearchQuery("pumpkin soup"))).hits
    async with LocalIndex(tmp_path, Hashed()) as again:
        after = await again.search(SearchQuery("pumpkin soup"))
        assert after.coverage == 1.0
        assert after.hits == before
        assert "recipecuisine" in (await again.fields()).words


async def test_vectors_that_were_lost_are_computed_again(tmp_path: Path) -> None:
    async with LocalIndex(tmp_path, Hashed()) as index:
        await index.put(shelf())
        await index.settled()
    [file] = tmp_path.glob("vectors-*.usearch")
    file.write_bytes(b"not vectors")
    async with LocalIndex(tmp_path, Hashed()) as again:
        await again.settled()
        assert (await again.search(SearchQuery("pumpkin"))).coverage == 1.0


async def test_vectors_of_another_model_are_not_mixed_in(tmp_path: Path) -> None:
    class Other(Hashed):
        name, size = "other", 64

    async with LocalIndex(tmp_path, Hashed()) as index:
        await index.put(shelf())
        await index.settled()
    async with LocalIndex(tmp_path, Other()) as again:
        await again.settled()
        assert (await again.search(SearchQuery("pumpkin soup"))).hits[0].item.id == "r1"


async def test_a_second_reader_sees_what_the_first_writes(tmp_path: Path) -> None:
    async with LocalIndex(tmp_path, Hashed()) as writer, LocalIndex(tmp_path, Hashed()) as reader:
        await writer.put([item(1, "zebra")])
        assert [item_id async for item_id, _, _ in reader.listed("site")] == ["w1"]
        assert await found(reader, "zebra") == ["w1"]
        await writer.delete("site", ["w1"])
        assert await found(reader, "zebra") == []


_WRITER = """
import asyncio, sys
from sabir.search import Item, LocalIndex

async def main() -> None:
    index = LocalIndex(sys.argv[1], None)
    for number in range(100_000):
        await index.put([Item(f"w{number}", "site", f"Item {number}", text="zebra")])
        print(number, flush=True)

asyncio.run(main())
"""


async def test_what_put_returned_from_survives_a_kill(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", _WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if int(line) >= 5:
                break
        process.send_signal(signal.SIGKILL)
        acknowledged = int((process.stdout.read().split() or [line.strip()])[-1])
    index = LocalIndex(tmp_path, None)
    ids = {item_id async for item_id, _, _ in index.listed("site")}
    assert {f"w{number}" for number in range(acknowledged + 1)} <= ids
    await index.put([item(-1, "still writable")])


async def test_many_search_while_one_writes(tmp_path: Path) -> None:
    async with LocalIndex(tmp_path, Hashed()) as index:
        await index.put(shelf())

        async def write() -> None:
            for number in range(5):
                await index.put([item(number, f"lamp {number}")])

        async def search() -> None:
            for _ in range(10):
                assert (await found(index, "pumpkin soup"))[0] == "r1"

        await asyncio.gather(write(), *(search() for _ in range(5)))
        await index.settled()
        assert len(await found(index, "lamp")) >= 5


async def test_a_word_with_a_slip_is_still_found() -> None:
    index = LocalIndex(None, None)
    await index.put(shelf())
    assert (await found(index, "pumkin"))[0] == "r1"


def test_minilm_gives_unit_vectors_that_know_meaning_and_are_always_the_same() -> None:
    model = MiniLM()
    rows = model.embed_now(["a cat sat on the mat", "the feline rested on a rug", "quantum field theory", ""])
    assert rows.shape == (4, 384)
    assert np.allclose(np.linalg.norm(rows, axis=1), 1.0, atol=1e-5)
    assert rows[0] @ rows[1] > 0.5 > 0.2 > rows[0] @ rows[2]
    assert np.array_equal(model.embed_now(["quantum field theory"])[0], rows[2])


def test_minilm_reads_the_ids_that_bert_has() -> None:
    model = MiniLM()
    model.embed_now(["load"])
    # "the quick brown fox" in bert-base-uncased, as every tokenizer of it gives.
    assert model._ids("The quick brown fox").tolist() == [1996, 4248, 2829, 4419]


class Wire:
    """An embeddings endpoint that records what it is sent."""

    def __init__(self, answer: bytes) -> None:
        self.answer = answer
        self.sent: list[tuple[str, bytes, dict[str, str]]] = []

    async def __call__(self, url: str, body: bytes, headers: dict[str, str]) -> bytes:
        self.sent.append((url, body, headers))
        return self.answer


async def test_an_endpoint_is_asked_as_openai_asks_and_its_vectors_are_made_unit() -> None:
    wire = Wire(b'{"data":[{"index":1,"embedding":[0,2]},{"index":0,"embedding":[3,4]}],"model":"m"}')
    rows: Vectors = await Endpoint("https://e.example/v1", "m", 2, post=wire, key="k").embed(["a", "b"])
    assert rows.tolist() == [[pytest.approx(0.6), pytest.approx(0.8)], [0.0, 1.0]]
    assert wire.sent == [
        (
            "https://e.example/v1/embeddings",
            b'{"model":"m","input":["a","b"]}',
            {"content-type": "application/json", "authorization": "Bearer k"},
        )
    ]


@pytest.mark.parametrize("answer", [b"<html>", b'{"data":[]}', b'{"data":[{"index":0,"embedding":[1,2,3]}]}'])
async def test_an_endpoint_that_answers_otherwise_is_named(answer: bytes) -> None:
    with pytest.raises(PeerUnreadable, match=r"https://e\.example/v1/embeddings"):
        await Endpoint("https://e.example/v1", "m", 2, post=Wire(answer)).embed(["a"])


async def test_search_goes_on_by_words_while_the_endpoint_is_away() -> None:
    class Away(Hashed):
        away = False

        async def embed(self, texts: object) -> Vectors:
            if self.away:
                raise PeerUnreadable("https://e.example", "gone")
            return await super().embed(texts)  # type: ignore[arg-type]

    away = Away()
    index = LocalIndex(None, away)
    await index.put(shelf())
    await index.settled()
    away.away = True
    assert (await found(index, "pumpkin"))[0] == "r1"
    await index.close()


async def test_two_writers_of_one_directory_wait_for_each_other(tmp_path: Path) -> None:
    one, other = LocalIndex(tmp_path, None), LocalIndex(tmp_path, None)
    await asyncio.gather(
        *(index.put([item(number, "lamp")]) for number, index in enumerate([one, other, one, other, one]))
    )
    assert {item_id async for item_id, _, _ in one.listed("site")} == {f"w{number}" for number in range(5)}


def test_vectors_that_were_closed_are_not_owned_again(tmp_path: Path) -> None:
    """A thread that a cancelled task left behind would hold the lock for ever."""
    first, second = (VectorFile(tmp_path, "space", 4) for _ in range(2))
    assert first.own()
    assert not second.own()
    first.close()
    assert not first.own()
    assert second.own()
    second.close()


async def test_an_item_is_read_once_and_again_after_it_changed() -> None:
    index = LocalIndex(None, Hashed())
    await index.put([item(1, "a pumpkin"), item(2, "a marrow and a pumpkin")])
    await index.settled()
    [first, *_] = (await index.search(SearchQuery("pumpkin", limit=1))).hits
    again = (await index.search(SearchQuery("pumpkin", limit=2))).hits
    assert any(hit.item is first.item for hit in again)
    assert await index.count((Has(("pumpkin",)),)) == 2
    await index.put([item(1, "a parsnip")])
    await index.settled()
    found = (await index.search(SearchQuery("pumpkin", limit=2))).hits
    assert {hit.item.text for hit in found} == {"a marrow and a pumpkin", "a parsnip"}
    assert await index.count((Has(("pumpkin",)),)) == 1
    await index.delete("site", ["w2"])
    assert await index.count((Has(("pumpkin",)),)) == 0
    assert {hit.item.id for hit in (await index.search(SearchQuery("pumpkin", limit=2))).hits} <= {"w1"}


async def test_the_attributes_of_many_items_are_never_held_together(monkeypatch: pytest.MonkeyPatch) -> None:
    held: weakref.WeakSet[Attributes] = weakref.WeakSet()
    counts = []

    def counted(given: Item) -> Attributes:
        counts.append(len(held))
        made = Attributes(given)
        held.add(made)
        return made

    monkeypatch.setattr(local, "attributes", counted)
    async with LocalIndex(None, None) as index:
        await index.put([item(number, "pumpkin") for number in range(20)])
        assert len(counts) == 20
        assert max(counts) <= 2
        assert len(await found(index, "pumpkin")) == 10


async def test_what_the_items_of_a_site_share_is_read_once() -> None:
    """The kind that a type names, and the languages that a word is of."""
    first = Item("https://s.example/mugs/1", "s", "Becher 1", ("Product",), description="Ein Becher aus Ton")
    attributes(first), language_of_item(first)
    kinds, terms = _kinds_named.cache_info().misses, _is_term.cache_info().misses
    for number in range(2, 10):
        other = msgspec.structs.replace(first, id=f"https://s.example/mugs/{number}", name="Becher")
        assert attributes(other).words["kind"] == {"mug", "product"}
        assert language_of_item(other) == "de"
    assert _kinds_named.cache_info().misses <= kinds + 2
    assert _is_term.cache_info().misses == terms


def test_a_full_cache_forgets_its_oldest_quarter_and_not_everything() -> None:
    """A question on a site of 10,000 items once read half of them anew, because all were forgotten at once."""
    read: list[Item] = []
    things = [item(number, "pumpkin") for number in range(9)]
    kept = ByItem(lambda given: read.append(given) or len(read), 8)
    assert [kept(thing) for thing in things] == list(range(1, 10))
    assert [kept(thing) for thing in things[2:]] == list(range(3, 10))  # none of these is read again
    assert len(read) == 9
    assert kept(things[0]) == 10
