"""The documents of a source: the files of a folder, or the pages of a site by its sitemap or by its links."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from hashlib import blake2b
from pathlib import Path
from typing import Final, TypeAlias
from urllib.parse import parse_qs, quote, urlencode, urljoin, urlsplit, urlunsplit

import msgspec

from sabir.misfits import NOT_JSON
from sabir.search.items.item import Problem

from .crawl import Links, Scope, links
from .feeds import Listing, listing, schema_maps, sitemaps
from .fetch import DELAY, SUFFIXES, Document, Fetcher, Gone, Unreachable, Web, files, is_address
from .json_feed import is_json_feed
from .kinds import decoded, kind
from .report import Skips
from .shops import is_shopify, is_woocommerce

PARALLEL: Final = 4  # pages fetched concurrently
MAX_PAGES: Final = 50_000
ELSEWHERE: Final = "links to pages outside the crawled folder"
_KEPT_BODY: Final = 8 * 1024 * 1024  # of a page; larger ones are not searched for links

Documents: TypeAlias = AsyncIterator[tuple[Document, Listing | None]]


class Reach(msgspec.Struct, frozen=True):
    """How far a run goes on the web: the maximum number of pages, the pause between two of a host, and whether links
    are followed (None: if the address is a site or a folder without a sitemap)."""

    max_pages: int = MAX_PAGES
    delay: float = DELAY
    crawl: bool | None = None


class Walk:
    """The walk through a source. ``incomplete`` says why unseen items must not be treated as removed."""

    def __init__(self, source: str, site: str, skips: Skips) -> None:
        self.source, self.site, self.skips = source, site, skips
        self.total = 0
        self.way = ""
        self.incomplete = ""
        self.unfollowed = False  # whether links were seen but not followed, because no crawl was requested
        self.notes: list[str] = []
        self._unread = 0

    def unread(self, place: str, reason: str) -> None:
        self._unread += 1
        documents = "document" if self._unread == 1 else "documents"
        self.incomplete = f"{self._unread} {documents} could not be read"
        self.skips.add(Problem(place, reason))

    def leave_links(self) -> None:
        """The address is a site without a list of pages, and its links are not to be followed: only its first page is
        read.

        Items of an earlier crawl are not treated as removed.
        """
        self.incomplete = "its links were not followed"
        self.unfollowed = True

    # Files

    async def files(self, path: Path, base: str) -> Documents:
        """The files of a folder that have a reader, or one file, whatever its name."""
        found = await asyncio.to_thread(lambda: list(files(path)))
        self.way = "file" if found == [path] else "folder"
        known = [item for item in found if item == path or item.suffix.lower() in SUFFIXES]
        for suffix, count in Counter(item.suffix or "none" for item in found if item not in set(known)).items():
            self.skips.count(f"files of a kind that is not read ({suffix})", count)
        self.total = len(known)
        for item in known:
            relative = item.relative_to(path).as_posix() if item != path else item.name
            published = f"{base.rstrip('/')}/{quote(relative)}" if base else ""
            try:
                body = await asyncio.to_thread(item.read_bytes)
            except OSError as exc:
                self.unread(relative, f"cannot be read: {exc.strerror}")
                continue
            yield Document(relative, body, published), None

    # Pages

    async def pages(self, fetch: Fetcher, reach: Reach) -> Documents:
        """The pages of a site, or the document at an address and those that it names."""
        visit = _Visit(self, Web(fetch, reach.delay), reach)
        while visit.queue:
            wave = [visit.queue.popleft() for _ in range(min(PARALLEL, len(visit.queue)))]
            for document in await asyncio.gather(*(visit.page(url) for url in wave)):
                if document is not None:
                    listed = await visit.go_on(document)
                    yield document, listed
        if visit.scope is not None:
            self.notes.append(visit.summary())


class _Visit:
    """The pages of one site: known, visited and queued."""

    def __init__(self, walk: Walk, web: Web, reach: Reach) -> None:
        self._walk, self._web, self._reach = walk, web, reach
        self.queue = deque([walk.source])
        self.scope: Scope | None = None  # set if links are followed
        self._met = {_key(walk.source)}  # eight bytes per page, however long its address
        self._first = True
        self._read = 0

    async def page(self, url: str) -> Document | None:
        try:
            document = await self._web.get(url)
        except Gone as exc:
            if url == self._walk.source:
                self._walk.unread(url, str(exc))
            else:
                self._walk.skips.add(Problem(url, str(exc)))
            return None
        except Unreachable as exc:
            self._walk.unread(url, str(exc))
            return None
        if self.scope is not None and not self.scope.same_host(document.url):
            self._walk.skips.add(Problem(url, f"it redirects to another host, {document.url}"), "redirects elsewhere")
            return None
        return document

    async def go_on(self, document: Document) -> Listing | None:
        """Queue what a document leads to; returns its entries, if it is a list."""
        self._read += 1
        listed: Listing | None = None
        following: tuple[str, ...] = ()
        found = kind(document)
        if found == "xml":
            walk = self._walk
            listed = listing(document.body, site=walk.site, url=document.url, source=walk.source, place=document.place)
            following = listed.listings + listed.pages
            walk.way = walk.way or ("sitemap" if following else "document")
        elif found == "json":
            following = await asyncio.to_thread(_next_page, document)
        elif found == "html":
            following = await self._from_page(document)
        self._first = False
        self._walk.way = self._walk.way or "document"
        self._enqueue(following, document.place)
        return listed

    async def _from_page(self, document: Document) -> tuple[str, ...]:
        if self._first and self._reach.crawl is not True and document.url == urljoin(document.url, "/"):
            way, named = await _described(document.url, self._web, self._walk.site)
            if named:
                self._walk.way = way
                return named
        if self._first and self._crawls(document.url):
            self.scope, self._walk.way = Scope.of(document.url), "crawl"
        elif self._first and _is_folder(document.url):
            self._walk.leave_links()
        if self.scope is None or len(document.body) > _KEPT_BODY:
            return ()
        found = await asyncio.to_thread(_links, document, self.scope)
        if found.elsewhere:
            self._walk.skips.count(ELSEWHERE, found.elsewhere)
        return found.inside

    def _crawls(self, url: str) -> bool:
        wanted = self._reach.crawl
        return wanted if wanted is not None else _is_folder(url)

    def _enqueue(self, urls: tuple[str, ...], place: str) -> None:
        limit = self._reach.max_pages
        for url in urls:
            key = _key(url)
            if key in self._met or not is_address(url):
                continue
            if len(self._met) >= limit:
                self._walk.incomplete = f"only {limit} pages are read"
                self._walk.skips.add(Problem(place, self._walk.incomplete))
                break
            self._met.add(key)
            self.queue.append(url)
        self._walk.total = len(self._met)

    def summary(self) -> str:
        pages = "page" if self._read == 1 else "pages"
        return f"no sitemap: {self._read} {pages} found by their links, at least {self._reach.delay:g} s apart"


def _is_folder(url: str) -> bool:
    """Whether an address stands for a site or a part of it, and not for one page."""
    path = urlsplit(url).path
    return not path or path.endswith("/")


def _links(document: Document, scope: Scope) -> Links:
    text = decoded(document.body)
    return links(text, document.url, scope) if text is not None else Links()


def _key(url: str) -> bytes:
    """A key for an address: those that differ only in ``www.`` and spelling are one page."""
    parts = urlsplit(url)
    plain = f"{parts.netloc.casefold().removeprefix('www.')}{parts.path or '/'}?{parts.query}"
    return blake2b(plain.encode("utf-8", "replace"), digest_size=8).digest()


async def _described(url: str, web: Web, site: str) -> tuple[str, tuple[str, ...]]:
    """Where a site lists its content: schemaMap in robots.txt, else its schema_map.xml, else its sitemap."""
    robots = (await web.rules(url)).text
    if maps := schema_maps(robots, url):
        return "schema map", maps
    usual = (urljoin(url, "/schema_map.xml"), *(sitemaps(robots, url) or (urljoin(url, "/sitemap.xml"),)))
    for address in usual:
        try:
            document = await web.get(address)
        except Unreachable:
            continue
        if kind(document) == "xml":
            found = listing(document.body, site=site, url=document.url, source="", place=address)
            if found.pages or found.listings:
                return "schema map" if address.endswith("schema_map.xml") else "sitemap", (address,)
    return "", ()


def _next_page(document: Document) -> tuple[str, ...]:
    """The next page of a shop's products or of a JSON Feed."""
    try:
        data = msgspec.json.decode(document.body)
    except NOT_JSON:
        return ()
    if is_json_feed(data):
        following = data.get("next_url")
        return (urljoin(document.url, following),) if isinstance(following, str) and following else ()
    if not (is_shopify(data) and "products" in data) and not (is_woocommerce(data) and isinstance(data, list)):
        return ()
    parts = urlsplit(document.url)
    asked = parse_qs(parts.query)
    page = asked.get("page", ["1"])[-1]
    asked["page"] = [str(int(page) + 1 if page.isascii() and page.isdigit() else 2)]
    return (urlunsplit(parts._replace(query=urlencode(asked, doseq=True))),)
