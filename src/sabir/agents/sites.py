"""Sites: the index in the home folder, what is read into it at start, and the agents that answer from it.

One agent answers for all sites that are in the index, also those that ``sabir ingest`` adds while the gateway
runs; each site that is configured has an agent of its own besides, so that every protocol can name it.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final, TextIO

import msgspec

from ..agent import Agent
from ..errors import BadSetup, PeerError, SabirError
from ..guard.outbound import Fetcher, Outbound
from ..peers.base import Clock
from ..search import (
    Condition,
    Embedder,
    Endpoint,
    Engine,
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
from .llm import Service, secret
from .site import SiteAgent, SiteModel
from .site_model import AgentModel
from .sources import SearchSettings, SiteSettings

logger = logging.getLogger("sabir")

FOLDER: Final = "index"  # within the home folder
ALL: Final = "sites"  # the name of the agent that answers for all
_PATIENCE: Final = 20.0  # seconds that the start waits for sites to be read; the rest is read while others are asked


SAMPLES: Final = tuple(
    SiteSettings(name, tuple(str(file) for file in files), "The sample site that comes with Sabir")
    for name, files in SAMPLE.items()
)


class HomeIndex:
    """The index that a home folder stands for, as an Engine, opened when first used: a process that forks must not
    hold it. It is in the folder itself, or in the database that the settings name."""

    def __init__(self, directory: Path, search: SearchSettings | None = None) -> None:
        self.directory = directory
        self._search = search or SearchSettings()
        self._opening = asyncio.Lock()
        self._opened: Engine | None = None
        self._service: Service | None = None  # of a remote embedder

    async def open(self) -> Engine:
        """The engine, opened.

        Raises:
            StoreUnavailable: the database does not answer.
            BadSetup: it cannot be had as it is configured.
        """
        async with self._opening:
            if self._opened is None:
                await asyncio.to_thread(self.directory.mkdir, parents=True, exist_ok=True, mode=0o700)
                embedder = await self._embedder()
                if self._search.index is None:
                    self._opened = await asyncio.to_thread(LocalIndex, self.directory, embedder)
                else:
                    self._opened = await _postgres(self._search.index, embedder)
        return self._opened

    async def _embedder(self) -> Embedder | None:
        wanted = self._search.embeddings
        if isinstance(wanted, bool):
            return MiniLM() if wanted else None
        service = self._service = Service(wanted.url.rstrip("/").removesuffix("/embeddings"), secret(wanted.key))

        async def post(url: str, body: bytes, headers: dict[str, str]) -> bytes:
            clock = Clock(wanted.seconds)
            async with service.asked("/embeddings", msgspec.Raw(body), clock) as response:
                return await service.body(response, clock)

        if wanted.size is not None:
            return Endpoint(service.base_url, wanted.model, wanted.size, post=post, floor=wanted.floor)
        try:
            return await Endpoint.measured(service.base_url, wanted.model, post=post, floor=wanted.floor)
        except PeerError as wrong:
            words = f"search.embeddings: {wrong}; give the size of its vectors to start without asking it"
            raise BadSetup(words) from wrong

    async def put(self, items: Sequence[Item]) -> None:
        await (await self.open()).put(items)

    async def delete(self, site: str, ids: Iterable[str] | None = None) -> int:
        return await (await self.open()).delete(site, ids)

    async def get(self, site: str, id: str) -> Item | None:
        return await (await self.open()).get(site, id)

    async def listed(self, site: str) -> AsyncIterator[tuple[str, str, str]]:
        async for each in (await self.open()).listed(site):
            yield each

    async def sites(self) -> tuple[Site, ...]:
        return await (await self.open()).sites()

    async def fields(self) -> Fields:
        return await (await self.open()).fields()

    async def locate(self, place: str) -> tuple[float, float] | None:
        return await (await self.open()).locate(place)

    async def search(self, query: Query) -> Found:
        return await (await self.open()).search(query)

    async def count(self, where: tuple[Condition, ...]) -> int:
        return await (await self.open()).count(where)

    async def settled(self) -> None:
        await (await self.open()).settled()

    async def close(self) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened.close()
        service, self._service = self._service, None
        if service is not None:
            await service.aclose()


async def _postgres(address: str, embedder: Embedder | None) -> Engine:
    if not address.startswith(("postgresql://", "postgres://")):
        raise BadSetup("search.index: expected postgresql://…; without it the index is in the home folder")
    from ..search.postgres import PostgresIndex  # noqa: PLC0415  (needs the postgres extra)

    return await PostgresIndex(address, embedder).open()


class Sites:
    """The index while the gateway runs, and the agents in front of it. An async context manager."""

    def __init__(
        self,
        home: Path,
        sites: Sequence[SiteSettings] | None = None,
        outbound: Outbound | None = None,
        *,
        search: SearchSettings | None = None,
        agents: Mapping[str, Agent] | None = None,
    ) -> None:
        """``sites`` None: the sample, if nothing was ever ingested here. ``agents`` are those that may be models.

        Raises:
            BadSetup: a model is named that is no agent.
        """
        self._settings = search or SearchSettings()
        self.index = HomeIndex(home / FOLDER, self._settings)
        self._begun = self.index.directory / "sample.unfinished"
        if sites is None:
            first = not self.index.directory.exists() or self._begun.exists()
            sites = SAMPLES if first and self._settings.index is None else ()
        self._read = tuple(site for site in sites if site.sources)
        self._outbound = outbound or Outbound()
        self._reading: asyncio.Task[None] | None = None
        about = {name: SiteSettings(name) for name in noted(self.index.directory)} | {site.name: site for site in sites}
        words = f"Answers questions about {', '.join(about)}" if about else "Answers questions about ingested sites"
        usual = _model(self._settings.model, agents or {}, "search")
        self.agents = [SiteAgent(self.index, name=ALL, description=words, model=usual)]
        for site in about.values():
            model = _model(site.model, agents or {}, f"sites: {site.name!r}") or usual
            self.agents.append(SiteAgent(self.index, site.name, description=site.description, model=model))

    async def __aenter__(self) -> Sites:
        """Words can be asked for when this returns, unless reading them takes long; vectors come behind."""
        if self._read or self._settings != SearchSettings():  # what is wrong there is told now, not to who asks first
            await self.index.open()
        if self._read:
            self._reading = asyncio.create_task(self._take_in_all())
            done, _ = await asyncio.wait({self._reading}, timeout=_PATIENCE)
            for each in done:
                each.result()
            if not done:
                logger.info("sites are still being read; what was read can be asked for")
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._reading is not None:
            self._reading.cancel()
            with suppress(asyncio.CancelledError):
                await self._reading
        await self.index.close()

    async def _take_in_all(self) -> None:
        sample = self._read == SAMPLES
        if sample:  # so that a sample half read by a process that was ended is read again
            await asyncio.to_thread(self._begun.touch)
        for site in self._read:
            for source in site.sources:
                await self._take_in(site.name, source)
        if sample:
            await asyncio.to_thread(self._begun.unlink, missing_ok=True)

    async def _take_in(self, site: str, source: str) -> None:
        """A bad source stops nothing."""
        try:
            report = await taken_in(self.index, source, site=site, outbound=self._outbound, sync=True)
        except SabirError as wrong:
            logger.error("site %s: %s could not be read: %s", site, source, wrong)
            return
        for problem in report.problems:
            logger.warning("site %s: %s", site, problem)
        if report.added or report.updated or report.removed:
            logger.info("site %s: %d items of %s", site, report.items, source)


def _model(name: str | None, agents: Mapping[str, Agent], place: str) -> SiteModel | None:
    if name is None:
        return None
    if name not in agents:
        raise BadSetup(
            f"{place}: model: there is no agent {name!r}" + (f"; there are {', '.join(agents)}" if agents else "")
        )
    return AgentModel(agents[name])


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
