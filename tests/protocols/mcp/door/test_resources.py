"""The gateway's own resources: items of sites, uploads and conversations, each for callers with access."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import mcp_types as types
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from callers import ByName
from conftest import Served, serving
from protocols.nlweb.conftest import Shop
from sabir.agents.echo import echo
from sabir.agents.site.agent import Site
from sabir.gateway.gateway import Gateway
from sabir.guard import Authenticator, Filters, Rights, Rule
from sabir.guard.filters.base import TextFilter
from sabir.protocols import peer as base
from sabir.protocols.mcp.door.resources import MAX_BYTES
from sabir.protocols.nlip.peer.http import NlipHttpPeer
from sabir.search import LocalIndex

MODES = ("legacy", "2026-07-28")
SHOP, HARBOUR = "pumpkins-r-us.com", "harbour.example"
TEMPLATE = "sabir://sites/{site}/items/{id}"


class Hush(TextFilter):
    """Hides a word on its way out."""

    name = "hush"

    def words(self, text: str) -> str:
        return text.replace("Midsummer", "Hidden")


def gateway(home: Path, filters: Filters | None = None) -> Gateway:
    index = LocalIndex(None, None)
    shop = Shop(index, SHOP, name="shop", questions=False)
    shop.opened = index
    harbour = Site(index, HARBOUR, name="harbour")
    rules = (
        Rule(roles=("anonymous",), agents=("shop", "echo")),
        Rule(roles=("id:ada",), agents=("*",)),
    )
    made = (echo, shop, harbour)
    identity = Authenticator([ByName()])
    return Gateway(*made, home=home, identity=identity, rights=Rights(rules), beside=(shop,), filters=filters)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(gateway(tmp_path_factory.mktemp("resources"))) as served:
        yield served


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@asynccontextmanager
async def client_of(
    served: Served, who: str = "", mode: str = "2026-07-28", path: str = "/mcp"
) -> AsyncIterator[Client]:
    headers = {"authorization": f"Bearer {who}"} if who else {}
    async with httpx2.AsyncClient(headers=headers) as http:
        async with Client(streamable_http_client(served.url + path, http_client=http), mode=mode, cache=None) as client:
            yield client


async def every(client: Client) -> list[types.Resource]:
    found: list[types.Resource] = []
    cursor: str | None = None
    while True:
        page = await client.list_resources(cursor=cursor)
        found += page.resources
        cursor = page.next_cursor
        if cursor is None:
            return found


async def uploaded(served: Served, data: bytes, kind: str, name: str, who: str = "ada") -> None:
    shown = base.Identity(served.url, f"Bearer {who}", at_once=True)
    async with NlipHttpPeer(served.url, identities=(shown,)) as peer:
        await peer.upload(data, kind, name)


async def unknown(client: Client, uri: str) -> dict[str, Any]:
    with pytest.raises(MCPError) as raised:
        await client.read_resource(uri)
    said = raised.value.error.model_dump()
    said.pop("data")  # the address that was asked for
    return said


def address(site: str, request_id: str) -> str:
    return f"sabir://sites/{quote(site, safe='')}/items/{quote(request_id, safe='')}"


# -- items of sites -------------------------------------------------------------------------------------


async def test_items_of_the_sites_that_a_caller_may_ask_are_listed_page_by_page(
    served: Served, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sabir.protocols.mcp.door.handlers.PAGE", 100)
    async with client_of(served, "ada", mode) as client:
        assert len((await client.list_resources()).resources) == 100
        mine = [item for item in await every(client) if item.uri.startswith("sabir://sites/")]
    async with client_of(served, "", mode) as client:
        anybodys = await every(client)
    assert len(mine) == len({item.uri for item in mine}) == 12 + 314
    assert len(anybodys) == 12
    assert {item.uri.split("/")[3] for item in anybodys} == {SHOP}


async def test_an_item_is_read_as_schema_org_and_as_words(served: Served, mode: str) -> None:
    async with client_of(served, "ada", mode) as client:
        entry = next(item for item in await every(client) if item.name == "Midsummer Regatta")
        read = await client.read_resource(entry.uri)
    described, words = read.contents
    assert isinstance(described, types.TextResourceContents)
    assert isinstance(words, types.TextResourceContents)
    assert described.mime_type == entry.mime_type == "application/ld+json"
    value = json.loads(described.text)
    assert (value["@context"], value["@type"], value["name"]) == (
        "https://schema.org",
        ["SportsEvent"],
        "Midsummer Regatta",
    )
    assert words.mime_type == "text/plain"
    assert value["description"] in words.text


async def test_an_item_is_found_by_its_own_address_too(served: Served) -> None:
    own = "https://harbour.example/events/midsummer-regatta"
    async with client_of(served, "ada") as client:
        read = await client.read_resource(own)
        assert "Midsummer Regatta" in read.contents[0].text  # type: ignore[union-attr]


async def test_a_site_that_a_caller_may_not_ask_is_not_there(served: Served, mode: str) -> None:
    there = address(HARBOUR, "https://harbour.example/events/midsummer-regatta")
    async with client_of(served, "", mode) as client:
        forbidden = await unknown(client, there)
        assert forbidden == await unknown(client, address("nowhere.example", "x"))
        assert forbidden == await unknown(client, "https://harbour.example/events/midsummer-regatta")
        assert forbidden["code"] == -32602


async def test_the_template_of_items_is_listed_and_completed(served: Served, mode: str) -> None:
    reference = types.ResourceTemplateReference(uri=TEMPLATE)
    async with client_of(served, "ada", mode) as client:
        templates = [template.uri_template for template in (await client.list_resource_templates()).resource_templates]
        assert TEMPLATE in templates
        sites = await client.complete(reference, {"name": "site", "value": "harb"})
        assert sites.completion.values == [HARBOUR]
        begun = {"name": "id", "value": "https://harbour.example/events/mid"}
        ids = await client.complete(reference, begun, context_arguments={"site": HARBOUR})
        assert "https://harbour.example/events/midsummer-regatta" in ids.completion.values
        elsewhere = await client.complete(reference, begun, context_arguments={"site": SHOP})
        assert elsewhere.completion.values == []
        by_words = await client.complete(
            reference, {"name": "id", "value": "regatta"}, context_arguments={"site": HARBOUR}
        )
        assert "https://harbour.example/events/midsummer-regatta" in by_words.completion.values
    async with client_of(served, "", mode) as client:
        hidden = await client.complete(reference, {"name": "site", "value": "harb"})
        assert hidden.completion.values == []


async def test_at_the_address_of_one_site_only_its_items_are(served: Served) -> None:
    async with client_of(served, "ada", path="/mcp/harbour") as client:
        assert {item.uri.split("/")[3] for item in await every(client)} == {HARBOUR}
        await unknown(client, address(SHOP, "x"))


# -- uploads --------------------------------------------------------------------------------------------


async def test_uploads_are_listed_and_read_with_their_media_type(served: Served, mode: str) -> None:
    await uploaded(served, "Grüße".encode(), "text/plain", "hello.txt")
    await uploaded(served, b"\x89PNG", "image/png", "dot.png")
    async with client_of(served, "ada", mode) as client:
        mine = {item.name: item for item in await every(client) if item.uri.startswith("sabir://uploads/")}
        text = (await client.read_resource(mine["hello.txt"].uri)).contents[0]
        image = (await client.read_resource(mine["dot.png"].uri)).contents[0]
    assert mine["dot.png"].size == 4
    assert isinstance(text, types.TextResourceContents)
    assert (text.mime_type, text.text) == ("text/plain", "Grüße")
    assert isinstance(image, types.BlobResourceContents)
    assert (image.mime_type, base64.b64decode(image.blob)) == ("image/png", b"\x89PNG")


async def test_a_large_upload_is_a_link_that_its_owner_can_follow(served: Served) -> None:
    data = b"x" * (MAX_BYTES + 1)
    await uploaded(served, data, "image/png", "large.png")
    async with client_of(served, "ada") as client:
        entry = next(item for item in await every(client) if item.name == "large.png")
        link = (await client.read_resource(entry.uri)).contents[0]
    assert isinstance(link, types.TextResourceContents)
    assert link.mime_type == "text/uri-list"
    assert httpx2.get(link.text, headers={"authorization": "Bearer ada"}).content == data
    assert httpx2.get(link.text, headers={"authorization": "Bearer bob"}).status_code == 404


async def test_an_upload_of_another_caller_is_not_there(served: Served, mode: str) -> None:
    await uploaded(served, b"secret", "text/plain", "mine.txt")
    async with client_of(served, "ada", mode) as client:
        entry = next(item for item in await every(client) if item.name == "mine.txt")
    for who in ("bob", ""):
        async with client_of(served, who, mode) as client:
            assert not [item for item in await every(client) if item.uri.startswith("sabir://uploads/")]
            assert await unknown(client, entry.uri) == await unknown(client, "sabir://uploads/made-up")


# -- conversations ----------------------------------------------------------------------------------------


async def test_a_conversation_of_another_caller_is_not_there(served: Served, mode: str) -> None:
    async with client_of(served, "ada", mode) as client:
        await client.call_tool("echo", {"text": "between us"})
        mine = [item for item in await every(client) if item.uri.startswith("sabir://conversations/")]
        texts = [(await client.read_resource(item.uri)).contents[0].text for item in mine]  # type: ignore[union-attr]
        assert any("between us" in text for text in texts)
    async with client_of(served, "bob", mode) as client:
        assert not [item for item in await every(client) if item.uri.startswith("sabir://conversations/")]
        assert await unknown(client, mine[0].uri) == await unknown(client, "sabir://conversations/made-up")


# -- guard ------------------------------------------------------------------------------------------------


async def test_what_is_read_passes_the_filters_and_leaves_a_line(home: Path) -> None:
    with serving(gateway(home, Filters((Hush(),)))) as served:
        async with client_of(served, "ada") as client:
            uri = address(HARBOUR, "https://harbour.example/events/midsummer-regatta")
            described, words = (await client.read_resource(uri)).contents
            assert json.loads(described.text)["name"] == "Hidden Regatta"  # type: ignore[union-attr]
            assert "Midsummer" not in words.text  # type: ignore[union-attr]
        lines = [chained.line for chained in await served.gateway.store.audit_lines()]
        read = [line for line in lines if line.kind == "read"]
        assert [(line.caller, line.agent, line.detail) for line in read] == [("ada", "harbour", {"resource": "items"})]


@pytest.mark.parametrize("cursor", ["x", "-1", "9" * 30, "٣"])
async def test_a_cursor_that_was_not_given_is_refused(served: Served, cursor: str) -> None:
    async with client_of(served, "ada") as client:
        with pytest.raises(MCPError) as raised:
            await client.list_resources(cursor=cursor)
        assert raised.value.error.code == -32602
