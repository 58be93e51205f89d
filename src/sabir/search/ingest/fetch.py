"""Documents from a path or by a fetcher that the caller gives, so that its rules on addresses hold here, too."""

from __future__ import annotations

import asyncio
import gzip
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import urljoin, urlsplit
from urllib.robotparser import RobotFileParser

import msgspec

from ...errors import SabirError

AGENT: Final = "sabir"
MAX_BODY: Final = 64 * 1024 * 1024  # a sitemap may have 50 MB; a document above this is refused
_SUFFIXES: Final = frozenset(
    {".json", ".jsonld", ".jsonl", ".ndjson", ".html", ".htm", ".xhtml", ".xml", ".rss", ".atom", ".csv", ".tsv",
     ".md", ".markdown", ".txt"}
)  # fmt: skip


class Fetched(msgspec.Struct, frozen=True):
    """What an address gave. ``url`` is the address after redirects."""

    url: str
    status: int
    body: bytes
    content_type: str = ""


class Fetcher(Protocol):
    """Fetches an address, or raises a ``SabirError`` if it may not or cannot; which ones are allowed is its rule."""

    async def __call__(self, url: str) -> Fetched: ...


class Document(msgspec.Struct, frozen=True):
    """One file or page. ``place`` is how it is named in reports; ``url`` its address, if it has one."""

    place: str
    body: bytes
    url: str = ""
    content_type: str = ""


class Unreachable(Exception):
    """A document that could not be had; the rest goes on. Caught within ingest, and reported with its place."""


def files(path: Path) -> Iterator[Path]:
    """The file, or the files of a folder that a reader knows, in order; hidden ones left out."""
    if path.is_file():
        yield path
        return
    for each in sorted(path.rglob("*")):
        hidden = any(part.startswith(".") for part in each.relative_to(path).parts)
        if each.is_file() and not hidden and each.suffix.lower() in _SUFFIXES:
            yield each


def is_address(source: str) -> bool:
    return urlsplit(source).scheme in ("http", "https")


class Web:
    """Pages by the given fetcher, with robots.txt obeyed and asked for once a host."""

    def __init__(self, fetch: Fetcher) -> None:
        self._fetch = fetch
        self._robots: dict[str, tuple[RobotFileParser, str]] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    async def get(self, url: str) -> Document:
        """The document at an address.

        Raises:
            Unreachable: robots.txt says no, it is not there, or it is too big.
        """
        rules, _ = await self._rules(url)
        if not rules.can_fetch(AGENT, url):
            raise Unreachable("robots.txt does not allow it")
        delay = rules.crawl_delay(AGENT)
        host = urlsplit(url).netloc
        if delay:
            async with self._locks.setdefault(host, asyncio.Lock()):
                await asyncio.sleep(min(float(delay), 10.0))
        return await self._get(url)

    async def robots(self, url: str) -> str:
        """The text of the host's robots.txt, empty if it has none."""
        return (await self._rules(url))[1]

    async def _get(self, url: str) -> Document:
        try:
            fetched = await self._fetch(url)
        except SabirError as refused:
            raise Unreachable(str(refused)) from refused
        if fetched.status != 200:
            raise Unreachable(f"the server answered {fetched.status}")
        return Document(url, _unpacked(fetched.body), fetched.url or url, fetched.content_type)

    async def _rules(self, url: str) -> tuple[RobotFileParser, str]:
        host = urljoin(url, "/")
        async with self._locks.setdefault(f"robots {host}", asyncio.Lock()):
            if host not in self._robots:
                rules, text = RobotFileParser(), ""
                try:
                    fetched = await self._fetch(urljoin(host, "/robots.txt"))
                    # RFC 9309: no robots.txt allows all; one that cannot be had for now allows nothing.
                    if fetched.status == 200:
                        text = fetched.body[:512_000].decode("utf-8", "replace")
                    elif fetched.status >= 500:
                        text = "User-agent: *\nDisallow: /"
                except SabirError:
                    pass  # the page itself will say why
                rules.parse(text.splitlines())
                self._robots[host] = (rules, text)
        return self._robots[host]


def _unpacked(body: bytes) -> bytes:
    if body[:2] == b"\x1f\x8b":
        try:
            with gzip.GzipFile(fileobj=io.BytesIO(body)) as packed:
                body = packed.read(MAX_BODY + 1)
        except (OSError, EOFError) as broken:
            raise Unreachable("not a whole gzip file") from broken
    if len(body) > MAX_BODY:
        raise Unreachable(f"larger than {MAX_BODY // 1_048_576} MiB")
    return body
