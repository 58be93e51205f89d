"""XML that lists things: RSS and Atom feeds, sitemaps, and the schemaMap of NLWeb. Pure."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from html.entities import html5
from typing import Final
from urllib.parse import urljoin

import msgspec

from sabir.search.items.item import JSON, Item, Problem
from sabir.search.items.schema_org import items, plain

from .merchant import NAMESPACE, attribute, product
from .numbering import numbered
from .xml_safety import has_dtd


class Listing(msgspec.Struct, frozen=True):
    """What an XML document lists: feed entries as items, and addresses to go on to."""

    items: tuple[Item | Problem, ...] = ()
    pages: tuple[str, ...] = ()
    listings: tuple[str, ...] = ()  # further sitemaps


def listing(body: bytes, *, site: str, url: str, source: str, place: str) -> Listing:
    """Read a feed, a sitemap or a schemaMap."""
    # Entities are how XML expands without end; none of these formats needs a DTD.
    if has_dtd(body):
        return Listing((Problem(place, "XML with a DTD is not read"),))
    try:
        root = _parsed(body)
    except (ET.ParseError, ValueError, LookupError) as exc:
        return Listing((Problem(place, f"not XML: {exc}"),))
    match _tag(root):
        case "rss" | "RDF":
            return Listing(tuple(numbered(_rss(root, site=site, url=url, source=source, place=place))))
        case "feed":
            return Listing(tuple(numbered(_atom(root, site=site, url=url, source=source, place=place))))
        case "sitemapindex":
            return Listing(listings=tuple(_locations(root, url)))
        case "urlset":
            structured = tuple(_locations(root, url, structured=True))
            return Listing(pages=structured or tuple(_locations(root, url)))
        case other:
            return Listing((Problem(place, f"expected rss, feed, urlset or sitemapindex, found {other}"),))


def _parsed(body: bytes) -> ET.Element:
    """The document; where HTML's entities stand in it, as they do in many feeds, they are taken for what they mean."""
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
    """The addresses that ``schemaMap:`` lines of a robots.txt name."""
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


def _texts(node: ET.Element) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for child in node:
        text = "".join(child.itertext()).strip()
        if text:
            found.setdefault(_tag(child), []).append(text)
    return found


def _rss(root: ET.Element, *, site: str, url: str, source: str, place: str) -> Iterator[Item | Problem]:
    for number, node in enumerate(item for item in root.iter() if _tag(item) == "item"):
        if _is_product(node):
            yield from _product(node, site=site, url=url, source=source, place=f"{place}#item[{number}]")
            continue
        texts = _texts(node)
        whole = (texts.get("encoded") or [""])[0]
        short = (texts.get("description") or texts.get("summary") or [""])[0]
        link = (texts.get("link") or [""])[0]
        guid = (texts.get("guid") or [""])[0]
        yield from _entry(
            {
                "@id": link or guid,
                "url": link or (guid if guid.startswith("http") else ""),
                "name": (texts.get("title") or [""])[0],
                "description": plain(short) if whole or len(plain(short)) < 600 else "",
                "articleBody": plain(whole or short) if whole or len(plain(short)) >= 600 else "",
                "datePublished": _rfc822((texts.get("pubDate") or texts.get("date") or [""])[0]),
                "author": (texts.get("creator") or texts.get("author") or [""])[0],
                "keywords": texts.get("category", []),
            },
            site=site, url=url, source=source, place=f"{place}#item[{number}]",
        )  # fmt: skip


def _atom(root: ET.Element, *, site: str, url: str, source: str, place: str) -> Iterator[Item | Problem]:
    for number, node in enumerate(item for item in root if _tag(item) == "entry"):
        if _is_product(node):
            yield from _product(node, site=site, url=url, source=source, place=f"{place}#entry[{number}]")
            continue
        texts = _texts(node)
        links = {item.get("rel", "alternate"): item.get("href", "") for item in node if _tag(item) == "link"}
        author = next((item for item in node if _tag(item) == "author"), None)
        link = urljoin(url, links.get("alternate", ""))
        yield from _entry(
            {
                "@id": link or (texts.get("id") or [""])[0],
                "url": link,
                "name": plain((texts.get("title") or [""])[0]),
                "description": plain((texts.get("summary") or [""])[0]),
                "articleBody": plain((texts.get("content") or [""])[0]),
                "datePublished": (texts.get("published") or texts.get("updated") or [""])[0],
                "dateModified": (texts.get("updated") or [""])[0],
                "author": (_texts(author).get("name") or [""])[0] if author is not None else "",
                "keywords": [item.get("term", "") for item in node if _tag(item) == "category"],
            },
            site=site, url=url, source=source, place=f"{place}#entry[{number}]",
        )  # fmt: skip


def _is_product(node: ET.Element) -> bool:
    """Whether a feed's entry is a product as Google's merchants send them."""
    return any(child.tag in (f"{{{NAMESPACE}}}price", f"{{{NAMESPACE}}}id") for child in node)


def _product(node: ET.Element, *, site: str, url: str, source: str, place: str) -> Iterator[Item | Problem]:
    values: dict[str, list[str]] = {}
    for child in node:
        text = "".join(child.itertext()).strip() or child.get("href", "")
        values.setdefault(attribute(_tag(child)), []).append(text)
    values.setdefault("description", values.get("summary", []))
    yield from items(product(values), site=site, base=url, source=source, place=place)


def _entry(node: dict[str, JSON], *, site: str, url: str, source: str, place: str) -> Iterator[Item | Problem]:
    filled = {key: value for key, value in node.items() if value}
    yield from items({"@type": "Article", **filled}, site=site, base=url, source=source, place=place)


def _rfc822(text: str) -> str:
    try:
        return parsedate_to_datetime(text).isoformat()
    except (ValueError, TypeError):
        return text
