"""Questions to try with a site are made of what it holds, and find something there."""

from __future__ import annotations

from pathlib import Path

from sabir.agents.site.agent import Site, SiteAsk
from sabir.events import Reply
from sabir.message import Message, text_part
from sabir.search import Item, LocalIndex, ingest
from sabir.search.answers.examples import examples
from sabir.search.sample import SITES
from sabir.turn import Turn
from search.shelf import NOW


async def test_every_example_finds_something_of_its_site() -> None:
    index = LocalIndex(None, None)
    for site, files in SITES.items():
        for file in files:
            await ingest(index, str(file), site=site)
    for site in await index.sites():
        made = await examples(index, site, NOW)
        assert len(made) == 3
        for text in made:
            ask = SiteAsk(questions=False)
            turn = Turn(Message.of(text_part(text), ask.part()))
            events = [event async for event in Site(index, site.name, now=lambda: NOW)(turn)]
            assert isinstance(events[-1], Reply)
            assert any(part.label == "result" for part in events[-1].message.parts), text
    assert "products under $25" in await examples(index, (await index.sites())[0], NOW)


async def test_pages_are_asked_for_by_their_names(tmp_path: Path) -> None:
    for name in ("Opening hours", "Returns"):
        (tmp_path / f"{name}.md").write_text(f"# {name}\n\nAll about it.\n")
    index = LocalIndex(None, None)
    await ingest(index, str(tmp_path), site="shop.example")
    [site] = await index.sites()
    assert sorted(await examples(index, site, NOW)) == ["Opening hours", "Returns"]


async def test_an_item_whose_name_is_a_page_long_is_no_example() -> None:
    index = LocalIndex(None, None)
    await index.put([Item("1", "s", "word " * 40, ("Product",))])
    [site] = await index.sites()
    assert await examples(index, site, NOW) == ()
