"""JSON Feed (https://jsonfeed.org/version/1.1) as articles. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sabir.search.items.item import JSON
from sabir.search.items.schema_org import plain

from .anchors import anchored

_VERSION: Final = "jsonfeed.org/version/"


def is_json_feed(data: JSON) -> bool:
    return isinstance(data, dict) and _VERSION in str(data.get("version")) and isinstance(data.get("items"), list)


def articles(feed: dict[str, JSON], url: str) -> Iterator[dict[str, JSON]]:
    """Every entry, as one object each."""
    for entry in feed["items"]:
        yield _article(entry, feed, url) if isinstance(entry, dict) else {"@type": "Article"}


def _article(entry: dict[str, JSON], feed: dict[str, JSON], url: str) -> dict[str, JSON]:
    given = (str(entry.get(name) or "") for name in ("url", "external_url", "id"))
    address = next((item for item in given if item.startswith(("http://", "https://"))), "")
    authors = entry.get("authors") or entry.get("author") or feed.get("authors") or feed.get("author")
    whole = str(entry.get("content_text") or "") or plain(str(entry.get("content_html") or ""))
    node: dict[str, JSON] = {
        "@type": "Article",
        "@id": address or str(entry.get("id") or ""),
        "url": address or anchored(str(entry.get("id") or ""), url),
        "name": entry.get("title") or " ".join(whole.split()[:10]),
        "description": entry.get("summary"),
        "articleBody": whole,
        "image": entry.get("image") or entry.get("banner_image"),
        "datePublished": entry.get("date_published"),
        "dateModified": entry.get("date_modified"),
        "author": [_name(author) for author in (authors if isinstance(authors, list) else [authors]) if author],
        "keywords": entry.get("tags"),
        "inLanguage": entry.get("language") or feed.get("language"),
    }
    return {name: value for name, value in node.items() if value}


def _name(author: JSON) -> JSON:
    return author.get("name") or author.get("url") if isinstance(author, dict) else author
