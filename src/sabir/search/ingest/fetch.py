"""Reads documents from a path or through the caller's fetcher, so that its address rules apply."""

from __future__ import annotations

import asyncio
import gzip
import io
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import urljoin, urlsplit

import msgspec

from sabir.errors import SabirError

from .robots import REFUSE_ALL, Robots

AGENT: Final = "sabir"
MAX_BODY: Final = 64 * 1024 * 1024  # a sitemap may have 50 MB; a larger document is rejected
DELAY: Final = 0.1  # seconds between two pages of a host, unless its robots.txt asks for more
_GONE: Final = (404, 410)
_BUSY: Final = (429, 503)
_TRIES: Final = 3
_MAX_WAIT: Final = 30.0  # longest pause that a busy host can ask for
SUFFIXES: Final = frozenset(
    {".json", ".jsonld", ".jsonl", ".ndjson", ".html", ".htm", ".xhtml", ".xml", ".rss", ".atom", ".csv", ".tsv",
     ".md", ".markdown", ".txt", ".ics", ".ical", ".pdf", ".xlsx", ".xlsm"}
)  # fmt: skip


class Fetched(msgspec.Struct, frozen=True):
    """The response of an address. ``url`` is the address after redirects; ``retry_after`` is what a busy host asks
    for."""

    url: str
    status: int
    body: bytes
    content_type: str = ""
    retry_after: str = ""


class Fetcher(Protocol):
    """Fetches an address, or raises a ``SabirError`` if it is not allowed or fails; the fetcher decides which are
    allowed."""

    async def __call__(self, url: str) -> Fetched: ...


class Document(msgspec.Struct, frozen=True):
    """One file or page. ``place`` is its name in reports; ``url`` its address, if it has one."""

    place: str
    body: bytes
    url: str = ""
    content_type: str = ""


class Unreachable(Exception):
    """A document could not be read; the rest continues. Caught within ingest, and reported with its place."""


class Gone(Unreachable):
    """It no longer exists, or we may not read it: its earlier items may be removed, too."""


def files(path: Path) -> Iterator[Path]:
    """The file, or the files of a folder in order, without hidden ones."""
    if path.is_file():
        yield path
        return
    for item in sorted(path.rglob("*")):
        hidden = any(part.startswith(".") for part in item.relative_to(path).parts)
        if item.is_file() and not hidden:
            yield item


def is_address(source: str) -> bool:
    return urlsplit(source).scheme in ("http", "https")


class Web:
    """Reads pages through the given fetcher: obeys robots.txt, read once per host, and paces requests per host."""

    def __init__(self, fetch: Fetcher, delay: float = DELAY) -> None:
        self._fetch, self._delay = fetch, delay
        self._robots: dict[str, Robots] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._next: dict[str, float] = {}

    async def get(self, url: str) -> Document:
        """The document at an address.

        Raises:
            Gone: it does not exist, or robots.txt forbids it.
            Unreachable: it is unavailable now, or too large.
        """
        rules = await self.rules(url)
        if not rules.allows(url):
            raise Unreachable("robots.txt is unavailable") if rules is REFUSE_ALL else Gone("not allowed by robots.txt")
        for attempt in range(1, _TRIES + 1):
            await self._turn(urlsplit(url).netloc, max(self._delay, rules.delay))
            try:
                fetched = await self._fetch(url)
            except SabirError as exc:
                raise Unreachable(str(exc)) from exc
            if fetched.status not in _BUSY or attempt == _TRIES:
                break
            await asyncio.sleep(_wait(fetched.retry_after, attempt))
        if fetched.status != 200:
            raise (Gone if fetched.status in _GONE else Unreachable)(f"the server answered {fetched.status}")
        return Document(url, _unpacked(fetched.body), fetched.url or url, fetched.content_type)

    async def _turn(self, host: str, delay: float) -> None:
        """Wait until this host may be asked again."""
        now = time.monotonic()
        at = max(now, self._next.get(host, 0.0))
        self._next[host] = at + delay
        if at > now:
            await asyncio.sleep(at - now)

    async def rules(self, url: str) -> Robots:
        """The rules of the host's robots.txt."""
        host = urljoin(url, "/")
        async with self._locks.setdefault(host, asyncio.Lock()):
            if host not in self._robots:
                self._robots[host] = await self._asked(urljoin(host, "/robots.txt"))
        return self._robots[host]

    async def _asked(self, url: str) -> Robots:
        try:
            fetched = await self._fetch(url)
        except SabirError:
            return Robots()  # the page itself will report the reason
        # RFC 9309: without a robots.txt everything is allowed; while it is unavailable, nothing is.
        if fetched.status >= 500:
            return REFUSE_ALL
        text = fetched.body[:512_000].decode("utf-8", "replace") if fetched.status == 200 else ""
        return Robots.parse(text, AGENT)


def _wait(retry_after: str, attempt: int) -> float:
    seconds = float(retry_after) if retry_after.isascii() and retry_after.isdigit() else float(2**attempt)
    return min(seconds, _MAX_WAIT)


def _unpacked(body: bytes) -> bytes:
    if body[:2] == b"\x1f\x8b":
        try:
            with gzip.GzipFile(fileobj=io.BytesIO(body)) as packed:
                body = packed.read(MAX_BODY + 1)
        except (OSError, EOFError) as exc:
            raise Unreachable("not a whole gzip file") from exc
    if len(body) > MAX_BODY:
        raise Unreachable(f"larger than {MAX_BODY // 1_048_576} MiB")
    return body
