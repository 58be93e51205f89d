"""Which links of a page a crawl follows. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Final
from urllib.parse import parse_qsl, urldefrag, urlencode, urljoin, urlsplit, urlunsplit

import msgspec

from sabir.errors import MissingExtra

try:
    from selectolax.lexbor import LexborHTMLParser
except ImportError as missing:
    raise MissingExtra("reading pages", "search") from missing

MAX_ADDRESS: Final = 2_000  # characters; longer ones are generated, endlessly
MAX_STEPS: Final = 16  # folders in an address, for the same reason
# Files without text, and pages that list what other pages already say.
_ASSETS: Final = frozenset(
    {".7z", ".apk", ".atom", ".avi", ".avif", ".bin", ".bmp", ".bz2", ".css", ".dmg", ".doc", ".docx", ".eot", ".exe",
     ".gif", ".gz", ".ico", ".iso", ".jpeg", ".jpg", ".js", ".json", ".m4a", ".map", ".mjs", ".mov", ".mp3", ".mp4",
     ".mpeg", ".ogg", ".otf", ".png", ".ppt", ".pptx", ".psd", ".rar", ".rss", ".svg", ".tar", ".tgz", ".tif", ".tiff",
     ".ttf", ".wasm", ".wav", ".webm", ".webmanifest", ".webp", ".woff", ".woff2", ".xml", ".zip"}
)  # fmt: skip
# Parameters for tracking, or that only change the order.
_NOISE: Final = frozenset({"fbclid", "gclid", "msclkid", "mc_cid", "mc_eid", "ref", "replytocom", "share", "print"})


class Scope(msgspec.Struct, frozen=True):
    """The part of a site that is crawled: one host, and the folder of the start page."""

    host: str
    folder: str

    @classmethod
    def of(cls, url: str) -> Scope:
        parts = urlsplit(url)
        return cls(_host(parts.netloc), parts.path.rpartition("/")[0] + "/")

    def same_host(self, url: str) -> bool:
        return _host(urlsplit(url).netloc) == self.host

    def holds(self, url: str) -> bool:
        return self.same_host(url) and (urlsplit(url).path or "/").startswith(self.folder)


class Links(msgspec.Struct, frozen=True):
    """The links of a page: those to follow, and how many lead elsewhere."""

    inside: tuple[str, ...] = ()
    elsewhere: int = 0


def links(html: str, url: str, scope: Scope) -> Links:
    """The links of a page within the scope. A page or a link with ``nofollow`` is not followed."""
    tree = LexborHTMLParser(html)
    if "nofollow" in directives(tree):
        return Links()
    found: dict[str, None] = {}
    elsewhere = 0
    for address in _addresses(tree, url):
        if scope.holds(address):
            found[address] = None
        else:
            elsewhere += 1
    return Links(tuple(found), elsewhere)


def directives(tree: LexborHTMLParser) -> frozenset[str]:
    """The page's robots directives: noindex, nofollow, none."""
    words: set[str] = set()
    for meta in tree.css("meta[name][content]"):
        if (meta.attributes.get("name") or "").casefold() in ("robots", "sabir"):
            words.update(word.strip() for word in (meta.attributes.get("content") or "").casefold().split(","))
    return frozenset(words | {"noindex", "nofollow"}) if "none" in words else frozenset(words)


def _addresses(tree: LexborHTMLParser, url: str) -> Iterator[str]:
    base = tree.css_first("base[href]")
    start = urljoin(url, (base.attributes.get("href") or "").strip()) if base else url
    for link in tree.css('a[href], area[href], link[rel="next"][href]'):
        if "nofollow" not in (link.attributes.get("rel") or "").casefold():
            address = normal(start, (link.attributes.get("href") or "").strip())
            if address:
                yield address


def normal(base: str, href: str) -> str:
    """The normalized address of a linked page; empty if it is not a page."""
    try:
        parts = urlsplit(urldefrag(urljoin(base, href))[0])
        parts.port  # noqa: B018  (raises for an invalid port)
    except ValueError:
        return ""
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
        return ""
    path = parts.path or "/"
    if PurePosixPath(path).suffix.casefold() in _ASSETS or path.count("/") > MAX_STEPS:
        return ""
    kept = [(key, value) for key, value in parse_qsl(parts.query, keep_blank_values=True) if not _is_noise(key)]
    query = parts.query if len(kept) == parts.query.count("&") + bool(parts.query) else urlencode(kept)
    address = urlunsplit((parts.scheme, parts.netloc.casefold(), path, query, ""))
    return address if len(address) <= MAX_ADDRESS else ""


def _is_noise(key: str) -> bool:
    return key.casefold() in _NOISE or key.casefold().startswith("utm_")


def _host(netloc: str) -> str:
    return netloc.casefold().removeprefix("www.")
