"""XML lists: RSS and Atom feeds, sitemaps, and NLWeb's schemaMap. Pure."""

from __future__ import annotations

import io
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping
from email.utils import parsedate_to_datetime
from html.entities import html5
from typing import Any, Final
from urllib.parse import urljoin

import feedparser
import msgspec

from sabir.search.items.item import JSON, Item, Problem
from sabir.search.items.schema_org import items, plain

from .anchors import anchored, publishable
from .merchant import NAMESPACE, attribute, product
from .numbering import numbered
from .xml_safety import has_dtd

_LONG: Final = 600  # characters of a description that counts as the article itself


class Listing(msgspec.Struct, frozen=True):
    """What an XML document lists: feed entries as items, and further addresses."""

    items: tuple[Item | Problem, ...] = ()
    pages: tuple[str, ...] = ()
    listings: tuple[str, ...] = ()  # further sitemaps


def listing(body: bytes, *, site: str, url: str, source: str, place: str) -> Listing:
    """Read a feed, a sitemap or a schemaMap. Feeds are read even if they are not well-formed, as many are not."""
    cited = publishable(url)
    # Entities allow XML to expand without limit; none of these formats needs a DTD.
    if has_dtd(body):
        return Listing((Problem(place, "XML with a DTD is not read"),))
    try:
        root = _parsed(body)
    except (ET.ParseError, ValueError, LookupError) as exc:
        found = _feed(body, site=site, url=cited, source=source, place=place)
        return Listing(tuple(found) or (Problem(place, f"not XML: {exc}"),))
    match _tag(root):
        case "rss" | "RDF" | "feed" if any(_is_product(node) for node in root.iter()):
            return Listing(tuple(numbered(_products(root, site=site, url=cited, source=source, place=place))))
        case "rss" | "RDF" | "feed":
            body = ET.tostring(root) if b"\0" in body else body  # feedparser does not read UTF-16
            return Listing(tuple(_feed(body, site=site, url=cited, source=source, place=place)))
        case "sitemapindex":
            return Listing(listings=tuple(_locations(root, url)))
        case "urlset":
            structured = tuple(_locations(root, url, structured=True))
            return Listing(pages=structured or tuple(_locations(root, url)))
        case other:
            return Listing((Problem(place, f"expected rss, feed, urlset or sitemapindex, found {other}"),))


def _parsed(body: bytes) -> ET.Element:
    """The document; HTML entities, which many feeds contain, are resolved."""
    try:
        return ET.fromstring(body)
    except ET.ParseError as exc:
        if "undefined entity" not in str(exc):
            raise
    return ET.fromstring(_ENTITY.sub(_character, body))


_ENTITY: Final = re.compile(rb"&([A-Za-z][A-Za-z0-9]{1,31});")
_OWN: Final = ("amp", "lt", "gt", "quot", "apos")


def _character(entity: re.Match[bytes]) -> bytes:
    name = entity[1].decode("ascii")
    found = html5.get(f"{name};") if name not in _OWN else None
    return "".join(f"&#{ord(item)};" for item in found).encode("ascii") if found else entity[0]


def schema_maps(robots: str, url: str) -> tuple[str, ...]:
    """The addresses in ``schemaMap:`` lines of a robots.txt."""
    return tuple(urljoin(url, found) for found in re.findall(r"(?im)^[ \t]*schemaMap[ \t]*:[ \t]*(\S+)", robots))


def sitemaps(robots: str, url: str) -> tuple[str, ...]:
    return tuple(urljoin(url, found) for found in re.findall(r"(?im)^[ \t]*Sitemap[ \t]*:[ \t]*(\S+)", robots))


def _tag(node: ET.Element) -> str:
    return node.tag.rsplit("}", 1)[-1]


def _locations(root: ET.Element, url: str, structured: bool = False) -> Iterator[str]:
    for entry in root:
        kind = entry.get("contentType", "")
        if structured and not kind.casefold().startswith("structureddata/schema.org"):
            continue
        for child in entry:
            if _tag(child) == "loc" and child.text and child.text.strip():
                yield urljoin(url, child.text.strip())


def _feed(body: bytes, *, site: str, url: str, source: str, place: str) -> Iterator[Item | Problem]:
    """The entries of RSS or Atom, of any version."""
    # A stream, never bytes: feedparser would take those for a file name. Its own cleaning is not needed: texts become
    # plain below.
    parsed = feedparser.parse(
        io.BytesIO(body),
        response_headers={"content-location": url},
        sanitize_html=False,
        resolve_relative_uris=False,
    )
    own = str(parsed.feed.get("link", ""))
    base = own if own.startswith("http") and not url.startswith("http") else url
    entries = (
        item
        for number, entry in enumerate(parsed.entries)
        for item in _entry(_article(dict(entry), base), site=site, url=url, source=source, place=f"{place}#{number}")
    )
    return numbered(entries)


def _article(entry: Mapping[str, Any], base: str) -> dict[str, JSON]:
    """A feed's entry as a schema.org object; ``base`` is what its links are relative to."""
    link, entry_id = str(entry.get("link", "")), str(entry.get("id", ""))
    if link:
        link = _joined(base, link)
    contents = entry.get("content") or ()
    whole = " ".join(plain(_text(content.get("value"))) for content in contents)
    short = plain(_text(entry.get("summary")))
    if contents and short == plain(_text(contents[0].get("value"))):
        short = ""  # feedparser repeats the content if there is no summary
    if not whole and len(short) >= _LONG:
        whole, short = short, ""
    published = _text(entry.get("published") or entry.get("updated"))
    return {
        "@id": link or entry_id,
        "url": link or anchored(entry_id, base),
        "name": plain(_text(entry.get("title"))),
        "description": short,
        "articleBody": whole,
        "datePublished": _date(published),
        "dateModified": _date(_text(entry.get("updated"))) if entry.get("published") else "",
        "author": plain(_text(entry.get("author"))),
        "keywords": [str(tag["term"]) for tag in entry.get("tags") or () if tag.get("term")],
    }


def _joined(base: str, link: str) -> str:
    try:
        return urljoin(base, link)
    except ValueError:
        return link


def _text(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""


def _products(root: ET.Element, *, site: str, url: str, source: str, place: str) -> Iterator[Item | Problem]:
    """The products of a merchant feed: feedparser keeps only one of several values of an attribute."""
    for number, node in enumerate(item for item in root.iter() if _tag(item) in ("item", "entry")):
        yield from _product(node, site=site, url=url, source=source, place=f"{place}#{_tag(node)}[{number}]")


def _is_product(node: ET.Element) -> bool:
    """Whether a feed's entry is a product in Google's merchant format."""
    return any(child.tag in (f"{{{NAMESPACE}}}price", f"{{{NAMESPACE}}}id") for child in node)


def _product(node: ET.Element, *, site: str, url: str, source: str, place: str) -> Iterator[Item | Problem]:
    values: dict[str, list[str]] = {}
    for child in node:
        text = "".join(child.itertext()).strip() or child.get("href", "")
        values.setdefault(attribute(_tag(child)), []).append(text)
    values.setdefault("description", values.get("summary", []))
    yield from items(product(values, url), site=site, base=url, source=source, place=place)


def _entry(node: dict[str, JSON], *, site: str, url: str, source: str, place: str) -> Iterator[Item | Problem]:
    filled = {key: value for key, value in node.items() if value}
    yield from items({"@type": "Article", **filled}, site=site, base=url, source=source, place=place)


def _date(text: str) -> str:
    try:
        return parsedate_to_datetime(text).isoformat()
    except (ValueError, TypeError):
        return text
