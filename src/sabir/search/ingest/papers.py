"""PDF files as documents with their text. Pure."""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Iterator
from typing import Final

from sabir.errors import MissingExtra
from sabir.search.items.item import JSON, Item, Problem
from sabir.search.items.schema_org import items

MAX_SHEETS: Final = 1_000
MAX_TEXT: Final = 2_000_000  # characters
_PLACEHOLDER: Final = re.compile(r"(untitled|microsoft word.*|document\d*|.*\.(docx?|indd|tex|pdf))", re.IGNORECASE)


def pdf_items(body: bytes, *, site: str, url: str, source: str, place: str) -> Iterator[Item | Problem]:
    """A PDF file as one item: its title, text, author and date."""
    try:  # imported late: it is slow, and few sites have PDF files
        from pypdf import PdfReader  # noqa: PLC0415
        from pypdf.errors import PyPdfError  # noqa: PLC0415
    except ImportError as missing:
        raise MissingExtra("reading PDF files", "search") from missing
    logging.getLogger("pypdf").setLevel(logging.ERROR)  # it warns about every defect that it repairs
    try:
        reader = PdfReader(io.BytesIO(body))
        if reader.is_encrypted and not reader.decrypt(""):
            yield Problem(place, "the PDF needs a password")
            return
        pages = [_clean(page.extract_text()) for page in reader.pages[:MAX_SHEETS]]
        about = {str(key): str(value) for key, value in (reader.metadata or {}).items()}
    except (PyPdfError, ValueError, TypeError, KeyError, IndexError, AttributeError, OSError, RecursionError) as exc:
        yield Problem(place, f"not a PDF that can be read: {exc or type(exc).__name__}")
        return
    text = "\n".join(page for page in pages if page)[:MAX_TEXT]
    if not text:
        yield Problem(place, "a PDF without text: its pages are pictures")
        return
    node: dict[str, JSON] = {
        "@type": "DigitalDocument",
        "@id": url,
        "name": _title(about, text, place),
        "description": about.get("/Subject", ""),
        "text": text,
        "author": about.get("/Author", ""),
        "keywords": about.get("/Keywords", ""),
        "datePublished": _date(about.get("/CreationDate", "")),
        "numberOfPages": len(reader.pages),
        "encodingFormat": "application/pdf",
    }
    filled = {key: value for key, value in node.items() if value}
    yield from items(filled, site=site, base=url, source=source, place=place)


def _clean(text: str) -> str:
    """The text with hyphenated words joined again, line by line."""
    joined = re.sub(r"(\w)[-\u00ad]\n(?=[a-zà-ÿ])", r"\1", text.replace("\x00", ""))
    return "\n".join(line for item in joined.splitlines() if (line := " ".join(item.split())))


def _title(about: dict[str, str], text: str, place: str) -> str:
    title = " ".join(about.get("/Title", "").split())
    if title and not _PLACEHOLDER.fullmatch(title):
        return title
    first = text.split("\n", 1)[0]
    return first if len(first) <= 120 else re.sub(r"[-_]+", " ", place.rsplit("/", 1)[-1].removesuffix(".pdf"))


def _date(written: str) -> str:
    """``D:20260214101500+01'00'`` as an ISO date."""
    found = re.match(r"D:(\d{4})(\d{2})(\d{2})", written)
    return "-".join(found.groups()) if found else ""
