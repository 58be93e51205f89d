"""The run: find the documents of a source, read them, and bring the index to what they say."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Final
from urllib.parse import quote, urljoin

import msgspec

from ...errors import BadSetup, NotFound
from ..base import Engine
from ..item import Item, Problem
from .feeds import Listing, listing, schema_maps, sitemaps
from .fetch import Document, Fetcher, Unreachable, Web, files, is_address
from .html import markdown_items, page_items
from .tables import csv_items, json_items, line_items

BATCH: Final = 250  # items that are written in one commit
PARALLEL: Final = 4  # pages fetched at once
MAX_PAGES: Final = 50_000
_AT_ONCE: Final = 50  # items read between two looks at the loop


class Progress(msgspec.Struct, frozen=True):
    """How far a run is, in documents; ``total`` grows while further ones are found."""

    done: int
    total: int
    items: int
    rate: float  # items a second
    part: float = 0.0  # of the document that is being read, from 0 to 1, where its length is known

    @property
    def share(self) -> float:
        """How much is done, from 0 to 1."""
        return min(1.0, (self.done + self.part) / self.total) if self.total else 0.0

    @property
    def remaining(self) -> float | None:
        """Seconds to go, by the rate so far."""
        return (1 - self.share) / self.share * self.items / self.rate if self.rate and self.share else None


class Report(msgspec.Struct, frozen=True):
    """What a run did."""

    added: int = 0
    updated: int = 0
    unchanged: int = 0
    removed: int = 0
    problems: tuple[Problem, ...] = ()

    @property
    def items(self) -> int:
        return self.added + self.updated + self.unchanged


async def ingest(
    engine: Engine,
    source: str,
    *,
    site: str,
    fetch: Fetcher | None = None,
    sync: bool = False,
    mapping: Mapping[str, str] | None = None,
    base: str = "",
    progress: Callable[[Progress], None] | None = None,
    max_pages: int = MAX_PAGES,
) -> Report:
    """Read a source (a path or an address) into a site of the index.

    Items that did not change are skipped. With ``sync``, items that this source gave before and no longer
    gives are removed, unless a document could not be read. ``mapping`` is for CSV; ``base`` is the address
    that a folder's files are published under.

    Raises:
        NotFound: the path does not exist.
        BadSetup: an address without a fetcher.
    """
    run = _Run(engine, site, source, {id: print_ async for id, print_ in _before(engine, site)}, progress)
    documents = _documents(source, fetch, base, max_pages, run)
    async for document, more in documents:
        run.total = max(run.total, run.done + 1)
        read = _read(document, site=site, source=source, mapping=mapping, listed=more)
        rows, taken = document.body.count(b"\n") if _kind(document) in ("lines", "csv") else 0, 0
        while some := await asyncio.to_thread(list, islice(read, _AT_ONCE)):  # whoever asks meanwhile is answered
            taken += len(some)
            run.part = min(1.0, taken / rows) if rows else 0.0
            for each in some:
                await run.take(each)
        run.done, run.part = run.done + 1, 0.0
        run.tell()
    await run.flush()
    if sync:
        await run.remove_vanished()
    return run.report()


async def _before(engine: Engine, site: str) -> AsyncIterator[tuple[str, tuple[str, str]]]:
    async for id, fingerprint, source in engine.listed(site):
        yield id, (fingerprint, source)


class _Run:
    def __init__(
        self,
        engine: Engine,
        site: str,
        source: str,
        before: dict[str, tuple[str, str]],
        progress: Callable[[Progress], None] | None,
    ) -> None:
        self.engine, self.site, self.source, self.before = engine, site, source, before
        self.done = self.total = 0
        self.part = 0.0
        self._progress, self._started = progress, time.monotonic()
        self._seen: set[str] = set()
        self._held: list[Item] = []
        self._counts = {"added": 0, "updated": 0, "unchanged": 0, "removed": 0}
        self.problems: list[Problem] = []
        self.unread = 0

    async def take(self, each: Item | Problem) -> None:
        if isinstance(each, Problem):
            self.problems.append(each)
            return
        if each.id in self._seen:
            return
        self._seen.add(each.id)
        before = self.before.get(each.id)
        if before is not None and before[0] == each.fingerprint:
            self._counts["unchanged"] += 1
            return
        self._counts["added" if before is None else "updated"] += 1
        self._held.append(each)
        if len(self._held) >= BATCH:
            await self.flush()
            self.tell()

    async def flush(self) -> None:
        if self._held:
            await self.engine.put(self._held)
            self._held = []

    async def remove_vanished(self) -> None:
        gone = [id for id, (_, source) in self.before.items() if source == self.source and id not in self._seen]
        if gone and self.unread:
            reason = f"{len(gone)} items are kept, because {self.unread} documents could not be read"
            self.problems.append(Problem(self.source, reason))
        elif gone:
            self._counts["removed"] = await self.engine.delete(self.site, gone)

    def tell(self) -> None:
        if self._progress:
            taken = len(self._seen)
            rate = taken / max(1e-6, time.monotonic() - self._started)
            self._progress(Progress(self.done, max(self.total, self.done), taken, rate, self.part))

    def report(self) -> Report:
        return Report(**self._counts, problems=tuple(self.problems))


_Documents = AsyncIterator[tuple[Document, Listing | None]]


def _documents(source: str, fetch: Fetcher | None, base: str, max_pages: int, run: _Run) -> _Documents:
    if is_address(source):
        if fetch is None:
            raise BadSetup("an address can only be ingested with a fetcher")
        return _pages(source, Web(fetch), max_pages, run)
    path = Path(source)
    if not path.exists():
        raise NotFound(f"no file or folder {source}")
    return _files(path, base, run)


async def _files(path: Path, base: str, run: _Run) -> _Documents:
    found = await asyncio.to_thread(lambda: list(files(path)))
    run.total = len(found)
    for each in found:
        relative = each.relative_to(path).as_posix() if each != path else each.name
        published = f"{base.rstrip('/')}/{quote(relative)}" if base else ""
        try:
            body = await asyncio.to_thread(each.read_bytes)
        except OSError as failed:
            run.unread += 1
            run.problems.append(Problem(relative, f"cannot be read: {failed.strerror}"))
            continue
        yield Document(relative, body, published), None


async def _pages(source: str, web: Web, max_pages: int, run: _Run) -> _Documents:
    queue = [source]
    seen = {source}
    first = True
    while queue:
        wave, queue = queue[:PARALLEL], queue[PARALLEL:]
        for document in await asyncio.gather(*(_page(url, web, run) for url in wave)):
            if document is None:
                continue
            more: Listing | None = None
            following: tuple[str, ...] = ()
            if _kind(document) == "xml":
                more = listing(document.body, site=run.site, url=document.url, source=run.source, place=document.place)
                following = more.listings + more.pages
            elif first and _kind(document) == "html":
                following = await _described(document.url, web)
            first = False
            fresh = [url for url in dict.fromkeys(following) if url not in seen and is_address(url)]
            if len(seen) + len(fresh) > max_pages:
                run.problems.append(Problem(document.place, f"only {max_pages} pages are read"))
                fresh = fresh[: max(0, max_pages - len(seen))]
            seen.update(fresh)
            queue.extend(fresh)
            run.total = len(seen)
            yield document, more


async def _page(url: str, web: Web, run: _Run) -> Document | None:
    try:
        return await web.get(url)
    except Unreachable as why:
        run.unread += 1
        run.problems.append(Problem(url, str(why)))
        return None


async def _described(url: str, web: Web) -> tuple[str, ...]:
    """Where a site says its content is: schemaMap in robots.txt, else its schema_map.xml, else its sitemap."""
    if url.split("?")[0].split("#")[0] != urljoin(url, "/"):
        return ()
    robots = await web.robots(url)
    if maps := schema_maps(robots, url):
        return maps
    for default in (urljoin(url, "/schema_map.xml"), *sitemaps(robots, url)):
        try:
            await web.get(default)
        except Unreachable:
            continue
        return (default,)
    return ()


def _kind(document: Document) -> str:
    name = (document.url or document.place).split("?")[0].split("#")[0].casefold().removesuffix(".gz")
    media = document.content_type.split(";")[0].strip().casefold()
    for kind, suffixes, types in _KINDS:
        if media in types or (media in ("", "application/octet-stream", "text/plain") and name.endswith(suffixes)):
            return kind
    start = document.body[:512].lstrip().lower()
    if start.startswith((b"<?xml", b"<rss", b"<feed", b"<urlset", b"<sitemapindex")):
        return "xml"
    if start.startswith((b"{", b"[")):
        return "lines" if name.endswith(".txt") else "json"
    return "html" if b"<html" in start or b"<!doctype html" in start or media == "text/html" else "markdown"


_KINDS: Final = (
    ("lines", (".jsonl", ".ndjson"), ("application/jsonl", "application/x-ndjson", "application/x-jsonlines")),
    ("json", (".json", ".jsonld"), ("application/json", "application/ld+json")),
    ("xml", (".xml", ".rss", ".atom"), ("application/xml", "text/xml", "application/rss+xml", "application/atom+xml")),
    ("csv", (".csv", ".tsv"), ("text/csv", "text/tab-separated-values")),
    ("html", (".html", ".htm", ".xhtml"), ("text/html", "application/xhtml+xml")),
    ("markdown", (".md", ".markdown"), ("text/markdown",)),
)


def _read(
    document: Document, *, site: str, source: str, mapping: Mapping[str, str] | None, listed: Listing | None
) -> Iterator[Item | Problem]:
    kind = _kind(document)
    url = document.url or document.place
    if kind == "xml":
        found = listed or listing(document.body, site=site, url=url, source=source, place=document.place)
        yield from found.items
        if listed is None and found.pages:
            yield Problem(document.place, "a sitemap on disk lists addresses; ingest it by its own")
        return
    text = _decoded(document.body)
    if text is None:
        yield Problem(document.place, "not text")
        return
    where = {"site": site, "url": url, "source": source, "place": document.place}
    match kind:
        case "json":
            yield from _json(text, where)
        case "lines":
            yield from line_items(text, **where)
        case "csv":
            yield from csv_items(text, mapping=mapping, **where)
        case "html":
            yield from page_items(text, **where)
        case _:
            yield from markdown_items(text, **where)


def _json(text: str, where: Mapping[str, str]) -> Iterator[Item | Problem]:
    """One document; or, where a file of that name holds a document a line, those."""
    read = list(json_items(text, **where))
    if len(read) == 1 and isinstance(read[0], Problem) and "trailing" in read[0].reason:
        yield from line_items(text, **where)
    else:
        yield from read


def _decoded(body: bytes) -> str | None:
    """The text of a document in the encoding that it shows or names; None if it is none."""
    if body.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return body.decode("utf-16", "replace")
    if b"\x00" in body[:4096]:
        return None
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError:
        named = re.search(rb"(?:charset|encoding)\s*=\s*[\"']?([\w.:-]+)", body[:2048], re.IGNORECASE)
    with contextlib.suppress(LookupError):
        return body.decode(named[1].decode("ascii") if named else "cp1252", "replace")
    return body.decode("cp1252", "replace")
