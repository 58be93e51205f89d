"""Sites: the index in the home folder, what is read into it at the start, and the agents that answer from it.

One agent answers for all sites in the index, including those that ``sabir ingest`` adds while the gateway runs; each
configured site also has its own agent, so that every protocol can name it.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TextIO

import msgspec

from sabir.agent import Agent
from sabir.agents.llm import ModelService, secret
from sabir.aio import cancel_and_wait
from sabir.errors import ConfigError, PeerError, SabirError
from sabir.guard.egress.addresses import GuardedClient, Outbound
from sabir.private_files import own_folder
from sabir.protocols.peer import Clock
from sabir.search import (
    Condition,
    Embedder,
    Endpoint,
    Engine,
    Fetched,
    Fields,
    Found,
    IndexedSite,
    IngestProgress,
    IngestReport,
    Item,
    LocalIndex,
    MiniLM,
    Reach,
    SearchQuery,
)
from sabir.search import ingest as read_into
from sabir.search.answers.examples import COUNT, examples
from sabir.search.sample import EXAMPLES, is_sample
from sabir.search.sample import SITES as SAMPLE

from .agent import Site
from .model import AgentModel, SiteModel
from .settings import FOLDER, SearchSettings, SiteSettings

logger = logging.getLogger("sabir")

ALL: Final = "sites"  # the name of the agent for all sites
UNREAD: Final = ("what is new here?",)  # to try with a site of which nothing is known yet
RETRY: Final = 5.0  # seconds between attempts to reach embeddings that were unavailable at the start
_PATIENCE: Final = 20.0  # how long the start waits for sites to be read; the rest is read in the background


SAMPLES: Final = tuple(
    SiteSettings(
        name, tuple(str(file) for file in files), "The sample site that comes with Sabir", examples=EXAMPLES[name]
    )
    for name, files in SAMPLE.items()
)


class HomeIndex:
    """The index of a home folder as an Engine, in the folder itself or in the configured database. Opened on first use,
    because a process that forks must not hold it."""

    def __init__(self, directory: Path, search: SearchSettings | None = None) -> None:
        self.directory = directory
        self._search = search or SearchSettings()
        self._opening = asyncio.Lock()
        self._opened: Engine | None = None
        self._retired: list[Engine] = []  # opened before the embeddings were available
        self._service: ModelService | None = None  # of a remote embedder
        self._missing_since: float | None = None  # when the embeddings were last unavailable
        self._retry: asyncio.Task[None] | None = None

    async def open(self) -> Engine:
        """The open engine; without embeddings, which are retried, while they are unavailable.

        Raises:
            StoreUnavailable: the database does not answer.
            ConfigError: it cannot be opened as configured.
        """
        async with self._opening:
            if self._opened is None:
                await asyncio.to_thread(self.directory.mkdir, parents=True, exist_ok=True, mode=0o700)
                self._opened = await self._engine(await self._embedder())
        due = self._missing_since is not None and time.monotonic() - self._missing_since >= RETRY
        if due and (self._retry is None or self._retry.done()):
            self._retry = asyncio.get_running_loop().create_task(self._reopen())
        return self._opened

    async def _engine(self, embedder: Embedder | None) -> Engine:
        if self._search.index is None:
            return await asyncio.to_thread(LocalIndex, self.directory, embedder)
        return await _postgres(self._search.index, embedder)

    async def _reopen(self) -> None:
        """Search by meaning as well, as soon as the embeddings are available."""
        embedder = await self._embedder()
        if embedder is None:
            return
        try:
            engine = await self._engine(embedder)
        except SabirError as exc:
            logger.warning("The index could not be opened with embeddings: %s", exc)
            return
        async with self._opening:
            if self._opened is not None:
                self._retired.append(self._opened)  # running questions still use it
            self._opened = engine
        logger.info("Embeddings are available: vectors are computed in the background")

    async def _embedder(self) -> Embedder | None:
        wanted = self._search.embeddings
        if isinstance(wanted, bool):
            return MiniLM() if wanted else None
        if self._service is None:
            base = wanted.url.rstrip("/").removesuffix("/embeddings")
            self._service = ModelService(base, secret(wanted.key))
        service = self._service

        async def post(url: str, body: bytes, headers: dict[str, str]) -> bytes:
            clock = Clock(wanted.seconds)
            async with service.asked("/embeddings", msgspec.Raw(body), clock) as response:
                return await service.body(response, clock)

        if wanted.size is not None:
            return Endpoint(service.base_url, wanted.model, wanted.size, post=post, floor=wanted.floor)
        try:
            found = await Endpoint.measured(service.base_url, wanted.model, post=post, floor=wanted.floor)
        except PeerError as exc:
            self._missing_since = time.monotonic()
            logger.warning("search.embeddings: %s; words alone are searched until it is available", exc)
            return None
        self._missing_since = None
        return found

    async def put(self, items: Sequence[Item]) -> None:
        await (await self.open()).put(items)

    async def delete(self, site: str, ids: Iterable[str] | None = None) -> int:
        return await (await self.open()).delete(site, ids)

    async def get(self, site: str, item_id: str) -> Item | None:
        return await (await self.open()).get(site, item_id)

    async def listed(self, site: str) -> AsyncIterator[tuple[str, str, str]]:
        async for item in (await self.open()).listed(site):
            yield item

    async def sites(self) -> tuple[IndexedSite, ...]:
        return await (await self.open()).sites()

    async def fields(self) -> Fields:
        return await (await self.open()).fields()

    async def locate(self, place: str) -> tuple[float, float] | None:
        return await (await self.open()).locate(place)

    async def search(self, query: SearchQuery) -> Found:
        return await (await self.open()).search(query)

    async def similarities(self, text: str, others: Sequence[str]) -> Sequence[float] | None:
        return await (await self.open()).similarities(text, others)

    async def count(self, where: tuple[Condition, ...]) -> int:
        return await (await self.open()).count(where)

    async def coverage(self) -> float:
        return await (await self.open()).coverage()

    async def settled(self) -> None:
        await (await self.open()).settled()

    async def close(self) -> None:
        await cancel_and_wait([self._retry])
        opened = [*self._retired, *([self._opened] if self._opened is not None else [])]
        self._retired, self._opened = [], None
        for item in opened:
            await item.close()
        service, self._service = self._service, None
        if service is not None:
            await service.aclose()


async def _postgres(address: str, embedder: Embedder | None) -> Engine:
    if not address.startswith(("postgresql://", "postgres://")):
        raise ConfigError("search.index: expected postgresql://…; without it the index is in the home folder")
    from sabir.search.engine.postgres import PostgresIndex  # noqa: PLC0415  (needs the postgres extra)

    return await PostgresIndex(address, embedder).open()


class Sites:
    """The index while the gateway runs, and its agents. An async context manager."""

    def __init__(
        self,
        home: Path,
        sites: Sequence[SiteSettings] | None = None,
        outbound: Outbound | None = None,
        *,
        search: SearchSettings | None = None,
        agents: Mapping[str, Agent] | None = None,
        sample: bool | None = None,
    ) -> None:
        """``sample`` None: the sample is read if no ``sites`` are given and nothing was ever ingested here, and is
        removed again once sites are given. ``agents`` are those that may be models.

        Raises:
            ConfigError: a named model is not an agent.
        """
        self._settings = search or SearchSettings()
        self.index = HomeIndex(home / FOLDER, self._settings)
        self._begun = self.index.directory / "sample.unfinished"
        self._unwanted = _unwanted(sites, sample, self.index.directory)
        if sample is None and sites is None and self._settings.index is None:
            sample = not self.index.directory.exists() or self._begun.exists()
        sites = (*(SAMPLES if sample else ()), *(sites or ()))
        self._read = tuple(site for site in sites if site.sources)
        self._outbound = outbound or Outbound()
        self._reading: asyncio.Task[None] | None = None
        here = (name for name in noted(self.index.directory) if name not in self._unwanted)
        self._about = {name: _found(name) for name in here} | {site.name: site for site in sites}
        words = f"Answers questions about {', '.join(self._about) or 'ingested sites'}"
        usual = _model(self._settings.model, agents or {}, "search")
        self.agents = [Site(self.index, name=ALL, description=words, model=usual)]
        for site in self._about.values():
            model = _model(site.model, agents or {}, f"sites: {site.name!r}") or usual
            self.agents.append(Site(self.index, site.name, description=site.description, model=model))
        self._update_examples()

    async def __aenter__(self) -> Sites:
        """Open the index. Text can be searched when this returns, unless reading takes long; vectors follow."""
        if self._read or self._settings != SearchSettings():  # report errors now, not to the first caller
            await self.index.open()
        for name in self._unwanted:
            await self._remove_sample(name)
        if self._read:
            self._reading = asyncio.create_task(self._take_in_all())
            done, _ = await asyncio.wait({self._reading}, timeout=_PATIENCE)
            for item in done:
                item.result()
            if not done:
                logger.info("Sites are still being ingested; the items so far can be searched")
        return self

    async def __aexit__(self, *exc: object) -> None:
        await cancel_and_wait([self._reading])
        await self.index.close()

    async def _remove_sample(self, site: str) -> None:
        async with alone(self.index.directory):
            ids = [item_id async for item_id, _, source in self.index.listed(site) if is_sample(source)]
            if await self.index.delete(site, ids):
                logger.info("The sample site %s is removed because sites are configured (sample: true keeps it)", site)
                await note(self.index, site)

    def _update_examples(self) -> None:
        """Put example questions on the cards: the configured ones, or those from its items."""
        made = noted(self.index.directory)
        known = {name: site.examples or made.get(name, ()) for name, site in self._about.items()}
        firsts = (examples[place] for place in range(COUNT) for examples in known.values() if len(examples) > place)
        for agent in self.agents:
            answer = tuple(firsts) if agent.site is None else known[agent.site]
            skill = msgspec.structs.replace(agent.card.skills[0], examples=answer[: COUNT + 1] or UNREAD)
            agent.card = msgspec.structs.replace(agent.card, skills=(skill,))

    async def _take_in_all(self) -> None:
        sample = self._read[: len(SAMPLES)] == SAMPLES
        if sample:  # so that a half-read sample is read again after a restart
            await asyncio.to_thread(self._begun.touch)
        for site in self._read:
            for source in site.sources:
                await self._take_in(site, source)
        if sample:
            await asyncio.to_thread(self._begun.unlink, missing_ok=True)
        self._update_examples()

    async def _take_in(self, site: SiteSettings, source: str) -> None:
        """Read a source; a bad one stops nothing."""
        name, mapping = site.name, site.mapping or None
        try:
            report = await taken_in(
                self.index, source, site=name, outbound=self._outbound, sync=True, mapping=mapping, base=site.base,
                reach=Reach(site.max_pages, crawl=None if site.crawl else False),
            )  # fmt: skip
        except SabirError as exc:
            logger.error("Site %s: %s could not be read: %s", name, source, exc)
            return
        if report.unfollowed:
            logger.warning(
                "Site %s: %s has no sitemap, so only this page was read. To crawl it, run: sabir ingest %s --site %s; "
                "or set crawl: true to crawl it at every start (up to max_pages)", name, source, source, name,
            )  # fmt: skip
        for problem in report.problems:
            logger.warning("site %s: %s", name, problem)
        if report.added or report.updated or report.removed:
            logger.info("Site %s: %d items of %s", name, report.items, source)


def _unwanted(sites: Sequence[SiteSettings] | None, sample: bool | None, directory: Path) -> list[str]:
    """The sample sites to remove: users with their own sites do not want them."""
    if sample or (sample is None and sites is None):
        return []
    own = {site.name for site in sites or ()}
    return [name for name in noted(directory) if name in SAMPLE and name not in own]


def _found(name: str) -> SiteSettings:
    """A site that is in the index but not in the configuration."""
    sample = next((site for site in SAMPLES if site.name == name), SiteSettings(name))
    return msgspec.structs.replace(sample, source=())


def _model(name: str | None, agents: Mapping[str, Agent], place: str) -> SiteModel | None:
    if name is None:
        return None
    if name not in agents:
        raise ConfigError(
            f"{place}: model: there is no agent {name!r}" + (f"; choose from {', '.join(agents)}" if agents else "")
        )
    return AgentModel(agents[name])


async def taken_in(
    index: HomeIndex,
    source: str,
    *,
    site: str,
    outbound: Outbound,
    sync: bool = False,
    mapping: Mapping[str, str] | None = None,
    base: str = "",
    progress: Callable[[IngestProgress], None] | None = None,
    reach: Reach | None = None,
) -> IngestReport:
    """Read a source into the index of a home folder, one process at a time; otherwise like ``ingest``.

    Raises:
        SabirError: there is no such source, or it may not be fetched.
    """
    async with GuardedClient(outbound, max_bytes=64 * 1024 * 1024) as fetcher, alone(index.directory):

        async def fetch(url: str) -> Fetched:
            got = await fetcher.get(url)
            named = (got.headers.get(name, "") for name in ("content-type", "retry-after"))
            return Fetched(got.url, got.status, got.body, *named)

        report = await read_into(
            index, source, site=site, fetch=fetch, sync=sync, mapping=mapping, base=base, progress=progress, reach=reach
        )
        await note(index, site)
        return report


async def removed(index: HomeIndex, site: str) -> int:
    """Remove a site; returns how many items it had."""
    async with alone(index.directory):
        count = await index.delete(site)
        await note(index, site)
        return count


def noted(directory: Path) -> dict[str, tuple[str, ...]]:
    """The names of the sites in an index with example questions, without opening it."""
    try:
        found = msgspec.json.decode(
            (directory / "sites.json").read_bytes(), type=dict[str, tuple[str, ...]] | list[str]
        )
    except (OSError, msgspec.DecodeError):
        return {}
    return found if isinstance(found, dict) else dict.fromkeys(found, ())


async def note(index: HomeIndex, changed: str) -> None:
    """Store the names of the sites, and the example questions of the one that changed."""
    before, now = noted(index.directory), datetime.now(UTC)
    names = {
        site.name: await examples(index, site, now) if site.name == changed else before.get(site.name, ())
        for site in await index.sites()
    }
    await asyncio.to_thread((index.directory / "sites.json").write_bytes, msgspec.json.encode(names))


@asynccontextmanager
async def alone(directory: Path) -> AsyncIterator[None]:
    """Lock the index against other writers: it takes one at a time."""
    lock = await asyncio.to_thread(_locked, directory)
    try:
        yield
    finally:
        lock.close()


def _locked(directory: Path) -> TextIO:
    own_folder(directory)
    lock = (directory / "writing.lock").open("w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    return lock
