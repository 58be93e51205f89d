"""What NLWeb tests share: a gateway with a site, and with other agents."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from conftest import Served, serving
from protocols.nlweb.agents import asker, broken, stepper
from sabir import Gateway
from sabir.agents.echo import echo
from sabir.agents.site.agent import Site
from sabir.search import LocalIndex, ingest
from sabir.search.sample import SITES


class Shop(Site):
    """The site of the seed's example, searched by its words alone."""

    opened: LocalIndex

    async def __aenter__(self) -> None:
        for site, sources in SITES.items():
            for source in sources:
                await ingest(self.opened, str(source), site=site)

    async def __aexit__(self, *exc: object) -> None:
        await self.opened.close()


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A gateway with a site, and with other agents."""
    home: Path = tmp_path_factory.mktemp("nlweb")
    index = LocalIndex(None, None)
    shop = Shop(index, "pumpkins-r-us.com", name="shop", questions=False)
    shop.opened = index
    harbour = Site(index, "harbour.example", name="harbour")  # this one asks back
    with serving(Gateway(shop, echo, asker, broken, stepper, harbour, home=home, beside=(shop,))) as served:
        yield served


@pytest.fixture
def client(gateway: Served) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=gateway.url) as client:
        yield client
