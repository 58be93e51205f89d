"""The run: finds the documents of a source, reads them, and updates the index."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Final

from sabir.errors import ConfigError, NotFound
from sabir.search.engine.base import Engine
from sabir.search.items.item import Item, Problem
from sabir.search.items.links import dropped_links

from .fetch import Fetcher, is_address
from .kinds import kind, read
from .report import Columns, IngestProgress, IngestReport, Skips
from .walk import Documents, Reach, Walk

BATCH: Final = 250  # items written in one commit
_AT_ONCE: Final = 50  # items read before yielding to the event loop


async def ingest(
    engine: Engine,
    source: str,
    *,
    site: str,
    fetch: Fetcher | None = None,
    sync: bool = False,
    mapping: Mapping[str, str] | None = None,
    base: str = "",
    progress: Callable[[IngestProgress], None] | None = None,
    reach: Reach | None = None,
) -> IngestReport:
    """Read a source (a path or an address) into a site of the index.

    Unchanged items are skipped. With ``sync``, items that this source no longer has are removed, unless a document is
    currently unreadable. ``mapping`` is for tables and adds to the meaning of their column names; ``base`` is the
    address under which a folder's files are published; ``reach`` is how far and how fast a site is read.

    Raises:
        NotFound: the path does not exist.
        ConfigError: an address without a fetcher.
    """
    skips = Skips()
    walk = Walk(source, site, skips)
    documents = _documents(walk, fetch, base, reach or Reach())
    run = _Run(engine, walk, {item_id: print_ async for item_id, print_ in _before(engine, site)}, progress)
    with dropped_links() as dropped:
        async for document, listed in documents:
            records = read(document, site=site, source=source, mapping=mapping or None, listed=listed)
            await run.take_all(records, document.body.count(b"\n") if kind(document) in ("lines", "csv") else 0)
    await run.flush()
    run.note_dropped(dropped)
    if sync:
        await run.remove_vanished()
    return run.report()


def _documents(walk: Walk, fetch: Fetcher | None, base: str, reach: Reach) -> Documents:
    if is_address(walk.source):
        if fetch is None:
            raise ConfigError("an address can only be ingested with a fetcher")
        return walk.pages(fetch, reach)
    path = Path(walk.source)
    if not path.exists():
        raise NotFound(f"no file or folder {walk.source}")
    return walk.files(path, base)


async def _before(engine: Engine, site: str) -> AsyncIterator[tuple[str, tuple[str, str]]]:
    async for item_id, fingerprint, source in engine.listed(site):
        yield item_id, (fingerprint, source)


class _Run:
    def __init__(
        self,
        engine: Engine,
        walk: Walk,
        before: dict[str, tuple[str, str]],
        progress: Callable[[IngestProgress], None] | None,
    ) -> None:
        self._engine, self._walk, self._before = engine, walk, before
        self.done = 0
        self.part = 0.0
        self._progress, self._started = progress, time.monotonic()
        self._seen: dict[str, tuple[int, str]] = {}  # by id: how complete it was, and its outcome
        self._held: dict[str, Item] = {}
        self._counts = {"read": 0, "added": 0, "updated": 0, "unchanged": 0, "removed": 0, "merged": 0}
        self._unknown: dict[str, None] = {}
        self._notes: list[str] = []

    async def take_all(self, records: Iterator[Item | Problem | Columns], rows: int) -> None:
        """Take the records of a document; ``rows``: how many there are, if that is known, else 0."""
        taken = 0
        # other requests are answered in between
        while some := await asyncio.to_thread(list, islice(records, _AT_ONCE)):
            taken += len(some)
            self.part = min(1.0, taken / rows) if rows else 0.0
            for item in some:
                await self.take(item)
        self.done, self.part = self.done + 1, 0.0
        self.report_progress()

    def note_dropped(self, dropped: Mapping[str, int]) -> None:
        for scheme, count in dropped.items():
            links = f"{count} {scheme}: {'link was' if count == 1 else 'links were'}"
            self._notes.append(f"{links} dropped, because following one could run code or show forged content")

    async def take(self, found: Item | Problem | Columns) -> None:
        if isinstance(found, Columns):
            self._unknown.update(dict.fromkeys(found.unknown))
            self._notes.extend(note for note in found.notes if note not in self._notes)
            return
        self._counts["read"] += 1
        if isinstance(found, Problem):
            self._walk.skips.add(found)
            return
        said = len(found.text) + len(found.description) + 20 * len(found.fields)
        met = self._seen.get(found.id)
        if met is not None:
            self._counts["merged"] += 1
            if said <= met[0]:  # a list says less about a thing than its own page
                return
            self._counts[met[1]] -= 1
        await self._hold(found, said, written=met is not None and found.id not in self._held)

    async def _hold(self, found: Item, said: int, *, written: bool) -> None:
        """Keep an item until its batch is full; ``written`` if another with its id was already written."""
        before = self._before.get(found.id)
        same = before is not None and before[0] == found.fingerprint
        outcome = "unchanged" if same else "added" if before is None else "updated"
        self._seen[found.id] = (said, outcome)
        self._counts[outcome] += 1
        if same and not written:
            self._held.pop(found.id, None)
            return
        self._held[found.id] = found
        if len(self._held) >= BATCH:
            await self.flush()
            self.report_progress()

    async def flush(self) -> None:
        if self._held:
            await self._engine.put(list(self._held.values()))
            self._held = {}

    async def remove_vanished(self) -> None:
        walk = self._walk
        gone = [
            item_id
            for item_id, (_, source) in self._before.items()
            if source == walk.source and item_id not in self._seen
        ]
        if gone and walk.incomplete:
            kept = f"{len(gone)} {'item is' if len(gone) == 1 else 'items are'} kept, because {walk.incomplete}"
            self._notes.append(kept)
        elif gone:
            self._counts["removed"] = await self._engine.delete(walk.site, gone)

    def report_progress(self) -> None:
        if self._progress:
            taken = len(self._seen)
            rate = taken / max(1e-6, time.monotonic() - self._started)
            self._progress(IngestProgress(self.done, max(self._walk.total, self.done), taken, rate, self.part))

    def report(self) -> IngestReport:
        walk = self._walk
        return IngestReport(
            documents=self.done,
            **self._counts,
            skipped=walk.skips.counts(),
            unknown_columns=tuple(self._unknown),
            notes=(*walk.notes, *self._notes),
            way=walk.way,
            unfollowed=walk.unfollowed,
            problems=tuple(walk.skips.problems),
        )
