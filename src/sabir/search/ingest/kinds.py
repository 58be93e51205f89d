"""The type of a document, by its media type, its name or its first bytes; and its reader. Pure."""

from __future__ import annotations

import codecs
import contextlib
import re
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from sabir.search.items.item import Item, Problem

from .anchors import publishable, told_apart, without_user
from .calendars import calendar_items
from .feeds import Listing, listing
from .fetch import Document
from .html import markdown_items, page_items
from .papers import pdf_items
from .report import Columns
from .tables import csv_items, json_items, line_items, sheet_items

_KINDS: Final = (
    ("lines", (".jsonl", ".ndjson"), ("application/jsonl", "application/x-ndjson", "application/x-jsonlines")),
    ("json", (".json", ".jsonld"), ("application/json", "application/ld+json", "application/feed+json")),
    ("xml", (".xml", ".rss", ".atom"), ("application/xml", "text/xml", "application/rss+xml", "application/atom+xml")),
    ("calendar", (".ics", ".ical"), ("text/calendar",)),
    ("csv", (".csv", ".tsv"), ("text/csv", "text/tab-separated-values")),
    ("html", (".html", ".htm", ".xhtml"), ("text/html", "application/xhtml+xml")),
    ("markdown", (".md", ".markdown"), ("text/markdown", "text/x-markdown")),
    ("pdf", (".pdf",), ("application/pdf",)),
    ("sheet", (".xlsx", ".xlsm"), ("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",)),
)  # fmt: skip
_PAGES: Final = frozenset({"html", "markdown", "pdf"})  # for people, and their query is a part of what they are
_VAGUE: Final = ("", "application/octet-stream", "binary/octet-stream", "text/plain")
# First bytes of formats that are not text.
_MAGIC: Final = (
    (b"%PDF-", "pdf"), (b"PK\x03\x04", "zip"), (b"\x89PNG", "a picture"), (b"\xff\xd8\xff", "a picture"),
    (b"GIF8", "a picture"), (b"RIFF", "a picture or a recording"), (b"\x1f\x8b", "a packed file"),
    (b"\x7fELF", "a program"), (b"MZ\x90", "a program"), (b"SQLite format 3", "a database"),
    (b"\xd0\xcf\x11\xe0", "an old Office file"), (b"OggS", "a recording"), (b"ID3", "a recording"),
)  # fmt: skip
_CONTROLS: Final = bytes(set(range(32)) - {9, 10, 12, 13, 27})


def kind(document: Document) -> str:
    """``lines``, ``json``, ``xml``, ``calendar``, ``csv``, ``html``, ``markdown``, ``pdf`` or ``sheet``."""
    name = (document.url or document.place).split("?")[0].split("#")[0].casefold().removesuffix(".gz")
    media = document.content_type.split(";")[0].strip().casefold()
    for found, suffixes, types in _KINDS:
        if media in types or (media in _VAGUE and name.endswith(suffixes)):
            return found
    start = document.body[:512].lstrip().lower()
    if start.startswith(b"%pdf-"):
        return "pdf"
    if start.startswith((b"<?xml", b"<rss", b"<feed", b"<urlset", b"<sitemapindex")):
        return "xml"
    if start.startswith((b"{", b"[")):
        return "lines" if name.endswith(".txt") else "json"
    if start.startswith(b"begin:vcalendar"):
        return "calendar"
    return "html" if b"<html" in start or b"<!doctype html" in start or media == "text/html" else "markdown"


def read(
    document: Document, *, site: str, source: str, mapping: Mapping[str, str] | None, listed: Listing | None
) -> Iterator[Item | Problem | Columns]:
    """The records of a document, and its problems."""
    for record in _read(document, site=site, source=source, mapping=mapping, listed=listed):
        if isinstance(record, Item) and record.id.startswith("#"):  # a fragment is only unique within its document
            record = msgspec.structs.replace(record, id=f"{document.place}{record.id}")
        if isinstance(record, Item) and (identity := told_apart(record.id, document.url)) != record.id:
            record = msgspec.structs.replace(record, id=identity)
        yield record


def _read(
    document: Document, *, site: str, source: str, mapping: Mapping[str, str] | None, listed: Listing | None
) -> Iterator[Item | Problem | Columns]:
    found = kind(document)
    problem = _unreadable(document, found)
    if problem:
        yield Problem(document.place, problem)
        return
    address = without_user(document.url) if found in _PAGES else publishable(document.url)
    where = {"site": site, "url": address or document.place, "source": source, "place": document.place}
    match found:
        case "xml":
            feed = listed or listing(document.body, **where)
            yield from feed.items
            if listed is None and feed.pages:
                yield Problem(document.place, "a sitemap on disk lists addresses; ingest it by its own")
        case "pdf":
            yield from pdf_items(document.body, **where)
        case "sheet":
            yield from sheet_items(document.body, mapping=mapping, **where)
        case _:
            text = decoded(document.body)
            if text is None:
                yield Problem(document.place, "not text")
            else:
                yield from _read_text(found, text, mapping, where)


def _read_text(
    found: str, text: str, mapping: Mapping[str, str] | None, where: Mapping[str, str]
) -> Iterator[Item | Problem | Columns]:
    match found:
        case "json":
            yield from _json(text, where)
        case "lines":
            yield from line_items(text, **where)
        case "csv":
            yield from csv_items(text, mapping=mapping, **where)
        case "calendar":
            yield from calendar_items(text, today=None, **where)
        case "html":
            yield from page_items(text, **where)
        case _:
            yield from markdown_items(text, **where)


def _unreadable(document: Document, found: str) -> str:
    if not document.body.strip():
        return "an empty document" if document.url else "an empty file"
    for magic, what in _MAGIC:
        if document.body.startswith(magic) and what != found and not (what == "zip" and found == "sheet"):
            return "not text: a ZIP file" if what == "zip" else f"not text: {what}" if what != "pdf" else ""
    return ""


def _json(text: str, where: Mapping[str, str]) -> Iterator[Item | Problem]:
    """One document; or several, if a file with that name has one document per line."""
    found = list(json_items(text, **where))
    if len(found) == 1 and isinstance(found[0], Problem) and "trailing" in found[0].reason:
        yield from line_items(text, **where)
    else:
        yield from found


def decoded(body: bytes) -> str | None:
    """The text of a document in its declared or detected encoding; None if it is not text."""
    if body.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return body.decode("utf-16", "replace")
    head = body[:4096]
    if b"\x00" in head:
        return None
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError:
        if len(head) - len(head.translate(None, _CONTROLS)) > len(head) // 50:
            return None
        named = re.search(rb"(?:charset|encoding)\s*=\s*[\"']?([\w.:-]+)", body[:2048], re.IGNORECASE)
    with contextlib.suppress(LookupError, UnicodeError):
        return body.decode(named[1].decode("ascii") if named else "cp1252", "replace")
    return body.decode("cp1252", "replace")
