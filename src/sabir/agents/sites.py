"""Sites: the index in the home folder, what is read into it at start, and the agents that answer from it.

One agent answers for all sites that are in the index, also those that ``sabir ingest`` adds while the gateway
runs; each site that is configured has an agent of its own besides, so that every protocol can name it.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, TextIO

import msgspec

from ..errors import SabirError
from ..guard.outbound import Fetcher, Outbound
from ..search import (
    Condition,
    Embedder,
    Fetched,
    Fields,
    Found,
    Item,
    LocalIndex,
    MiniLM,
    Progress,
    Query,
    Report,
    Site,
)
from ..search import ingest as read_into
from ..search.sample import SITES as SAMPLE
from .site import SiteAgent
from .sources import SiteSettings

logger = logging.getLogger("sabir")

FOLDER: Final = "index"  # within the home folder
ALL: Final = "sites"  # the name of the agent that answers for all


SAMPLES: Final = tuple(
    SiteSettings(name, tuple(str(file) for file in files), "The sample site that comes with Sabir")
    for name, files in SAMPLE.items()
)


class HomeIndex:
    """The index of the home folder as an Engine, opened when first used: a process that forks must not hold it."""

    def __init__(self, directory: Path, embedder: Embedder | None = None) -> None:
        self.directory = directory
        self._embedder = embedder
        self._opened: LocalIndex | None = None

    @property
    def _index(self) -> LocalIndex:
        if self._opened is None:
            self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._opened = LocalIndex(self.directory, self._embedder or MiniLM())
        return self._opened

    async def put(self, items: Sequence[Item]) -> None:
        await self._index.put(items)

    async def delete(self, site: str, ids: Iterable[str] | None = None) -> int:
        return await self._index.delete(site, ids)

    async def get(self, site: str, id: str) -> Item | None:
        return await self._index.get(site, id)

    def listed(self, site: str) -> AsyncIterator[tuple[str, str, str]]:
        return self._index.listed(site)

    async def sites(self) -> tuple[Site, ...]:
        return await self._index.sites()

    async def fields(self) -> Fields:
        return await self._index.fields()

    async def locate(self, place: str) -> tuple[float, float] | None:
        return await self._index.locate(place)

    async def search(self, query: Query) -> Found:
        return await self._index.search(query)

    async def count(self, where: tuple[Condition, ...]) -> int:
        return await self._index.count(where)

    async def settled(self) -> None:
        await self._index.settled()

    async def close(self) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened.close()


class Sites:
    """The index while the gateway runs, and the agents in front of it. An async context manager."""

    def __init__(
        self, home: Path, sites: Sequence[SiteSettings] | None = None, outbound: Outbound | None = None
    ) -> None:
        """``sites`` None: the sample, if nothing was ever ingested here."""
        self.index = HomeIndex(home / FOLDER)
        if sites is None:
            sites = SAMPLES if not self.index.directory.exists() else ()
        self._read = tuple(site for site in sites if site.sources)
        self._outbound = outbound or Outbound()
        about = dict.fromkeys(noted(self.index.directory), "") | {site.name: site.description for site in sites}
        words = f"Answers questions about {', '.join(about)}" if about else "Answers questions about ingested sites"
        self.agents = [SiteAgent(self.index, name=ALL, description=words)]
        self.agents += [SiteAgent(self.index, name, description=text) for name, text in about.items()]

    async def __aenter__(self) -> Sites:
        for site in self._read:
            for source in site.sources:
                await self._take_in(site.name, source)
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.index.close()

    async def _take_in(self, site: str, source: str) -> None:
        """Words are found as soon as this returns; their meaning is computed behind it. A bad source stops nothing."""
        try:
            report = await taken_in(self.index, source, site=site, outbound=self._outbound, sync=True)
        except SabirError as wrong:
            logger.error("site %s: %s could not be read: %s", site, source, wrong)
            return
        for problem in report.problems:
            logger.warning("site %s: %s", site, problem)
        if report.added or report.updated or report.removed:
            logger.info("site %s: %d items of %s", site, report.items, source)


async def taken_in(
    index: HomeIndex,
    source: str,
    *,
    site: str,
    outbound: Outbound,
    sync: bool = False,
    progress: Callable[[Progress], None] | None = None,
) -> Report:
    """Read a source into the index of a home folder, one process at a time.

    Raises:
        SabirError: there is no such source, or it may not be fetched.
    """
    async with Fetcher(outbound, most_bytes=64 * 1024 * 1024) as fetcher, alone(index.directory):

        async def fetch(url: str) -> Fetched:
            got = await fetcher.get(url)
            return Fetched(got.url, got.status, got.body, got.headers.get("content-type", ""))

        report = await read_into(index, source, site=site, fetch=fetch, sync=sync, progress=progress)
        await note(index)
        return report


async def removed(index: HomeIndex, site: str) -> int:
    """Remove a site; returns how many items it had."""
    async with alone(index.directory):
        count = await index.delete(site)
        await note(index)
        return count


def noted(directory: Path) -> list[str]:
    """The names of the sites in an index, without opening it."""
    try:
        return msgspec.json.decode((directory / "sites.json").read_bytes(), type=list[str])
    except (OSError, msgspec.DecodeError):
        return []


async def note(index: HomeIndex) -> None:
    names = [site.name for site in await index.sites()]
    await asyncio.to_thread((index.directory / "sites.json").write_bytes, msgspec.json.encode(names))


@asynccontextmanager
async def alone(directory: Path) -> AsyncIterator[None]:
    """Hold the index against other processes that write: it takes one writer at a time."""
    lock = await asyncio.to_thread(_locked, directory)
    try:
        yield
    finally:
        lock.close()


def _locked(directory: Path) -> TextIO:
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    lock = (directory / "writing.lock").open("w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    return lock
