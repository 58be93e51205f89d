"""What a caller may put is one limit for all nodes on one store, to the place and to the byte."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from conftest import Served, serving
from sabir.agents.echo import echo
from sabir.gateway.gateway import Gateway
from sabir.uploads import UploadLimits
from stores.places import schema

ASKING = {"messagetype": "control", "format": "text", "subformat": "english", "content": "Where can I upload a file?"}
PLACES, BYTES = 12, 100_000


@pytest.fixture
async def nodes(home: Path) -> AsyncIterator[list[Served]]:
    """Two nodes on one PostgreSQL, with one folder for what is put."""
    limits = UploadLimits(bytes_per_caller=BYTES, places_per_caller=PLACES)
    async with schema() as address:
        gateways = [Gateway(echo, home=home, store=address, uploads=limits) for _ in range(2)]
        with serving(gateways[0]) as one, serving(gateways[1]) as two:
            yield [one, two]


@pytest.fixture
async def http() -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(trust_env=False, timeout=600) as client:
        yield client


async def place(http: httpx2.AsyncClient, node: Served) -> str | None:
    reply = (await http.post(f"{node.url}/nlip", json=ASKING)).json()
    found = [part["content"] for part in reply["submessages"] if part["subformat"] == "uri"]
    assert found or "used up" in reply["content"]
    return found[0] if found else None


def at(node: Served, place: str) -> str:
    """The same place, by way of this node."""
    return node.url + place[place.index("/nlip/upload/") :]


def on_disk(home: Path) -> int:
    return sum(path.stat().st_size for path in (home / "uploads").iterdir())


async def test_two_nodes_together_grant_no_more_upload_addresses_than_one(
    nodes: list[Served], http: httpx2.AsyncClient
) -> None:
    given = await asyncio.gather(*(place(http, nodes[number % 2]) for number in range(4 * PLACES)))
    places = [item for item in given if item is not None]
    assert len(places) == PLACES
    assert (await http.delete(at(nodes[0], places[0]))).status_code == 200
    assert await place(http, nodes[1]) is not None  # what was given up on one is free on the other
    assert await place(http, nodes[0]) is None


@pytest.mark.parametrize("announced", [True, False])
async def test_two_nodes_together_accept_no_more_bytes_than_one(
    nodes: list[Served], http: httpx2.AsyncClient, home: Path, announced: bool
) -> None:
    size = BYTES // 5
    places = [item for item in [await place(http, nodes[0]) for _ in range(PLACES)] if item is not None]

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(10):
            yield bytes(size // 10)
            await asyncio.sleep(0)

    async def put(number: int) -> int:
        body = bytes(size) if announced else pieces()
        return (await http.put(at(nodes[number % 2], places[number]), content=body)).status_code

    answers = Counter(await asyncio.gather(*(put(number) for number in range(PLACES))))
    assert set(answers) <= {201, 429}
    assert on_disk(home) <= BYTES
    if announced:  # all of each, or nothing
        assert answers == {201: 5, 429: PLACES - 5}
        assert on_disk(home) == BYTES


async def test_what_was_put_on_one_node_counts_on_the_other_until_it_is_given_up(
    nodes: list[Served], http: httpx2.AsyncClient, home: Path
) -> None:
    first, second = [item for item in [await place(http, nodes[0]) for _ in range(2)] if item is not None]
    assert (await http.put(at(nodes[0], first), content=bytes(BYTES - 10))).status_code == 201
    assert (await http.put(at(nodes[1], second), content=bytes(11))).status_code == 429
    assert (await http.put(at(nodes[1], second), content=bytes(10))).status_code == 201
    assert (await http.delete(at(nodes[1], first))).status_code == 200
    third = await place(http, nodes[0])
    assert third is not None
    assert (await http.put(at(nodes[0], third), content=bytes(BYTES - 10))).status_code == 201
    assert on_disk(home) <= BYTES
