"""The ``meta`` elements of a page: Open Graph with its prices, to schema.org. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sabir.errors import MissingExtra
from sabir.search.items.item import JSON

try:
    from selectolax.lexbor import LexborHTMLParser
except ImportError as missing:
    raise MissingExtra("reading pages", "search") from missing

# https://ogp.me and what shops add.
_TYPES: Final = {"article": "Article", "product": "Product", "product.item": "Product", "og:product": "Product",
                 "book": "Book", "books.book": "Book", "event": "Event", "place": "Place", "business.business":
                 "LocalBusiness", "restaurant.restaurant": "Restaurant", "music.song": "MusicRecording", "music.album":
                 "MusicAlbum", "video.movie": "Movie", "video.episode": "TVEpisode", "video.other": "VideoObject",
                 "profile": "ProfilePage"}  # fmt: skip
_STOCK: Final = {"instock": "InStock", "available": "InStock", "outofstock": "OutOfStock", "oos": "OutOfStock",
                 "preorder": "PreOrder", "pending": "PreOrder", "backorder": "BackOrder"}  # fmt: skip


def metas(tree: LexborHTMLParser) -> dict[str, str]:
    """The ``meta`` elements of a page by name or property, in lower case; of duplicates, the first."""
    found: dict[str, str] = {}
    for node in tree.css("meta[content]"):
        content = " ".join((node.attributes.get("content") or "").split())
        for key in ("property", "name"):
            name = (node.attributes.get(key) or "").strip().casefold()
            if name and content:
                found.setdefault(name, content)
    return found


def kind(said: Mapping[str, str]) -> str:
    """The schema.org type from Open Graph; a page with a price is a product. Empty if neither is given."""
    return "Product" if offer(said) else _TYPES.get(said.get("og:type", "").casefold(), "")


def offer(said: Mapping[str, str]) -> dict[str, JSON]:
    """The price of a page's subject."""
    amount = _first(said, "product:sale_price:amount", "product:price:amount", "og:price:amount", "product:price")
    if not amount:
        return {}
    currency = _first(said, "product:sale_price:currency", "product:price:currency", "og:price:currency")
    stock = _first(said, "product:availability", "og:availability").casefold()
    stock = _STOCK.get(stock.replace(" ", "").replace("_", "").replace("-", ""), "")
    made = {"@type": "Offer", "price": amount, "priceCurrency": currency.upper()}
    made["availability"] = f"https://schema.org/{stock}" if stock else ""
    return {name: value for name, value in made.items() if value}


def properties(said: Mapping[str, str]) -> dict[str, JSON]:
    """Further properties of the subject."""
    found: dict[str, JSON] = {
        "description": _first(said, "description", "og:description", "twitter:description"),
        "image": _first(said, "og:image:secure_url", "og:image", "twitter:image"),
        "brand": _first(said, "product:brand", "og:brand"),
        "sku": _first(said, "product:retailer_item_id"),
        "category": _first(said, "product:category"),
        "color": _first(said, "product:color"),
        "isbn": _first(said, "book:isbn", "books:isbn"),
        "datePublished": _first(said, "article:published_time", "date", "dcterms.date", "book:release_date"),
        "dateModified": _first(said, "article:modified_time", "og:updated_time"),
        "keywords": _first(said, "keywords", "article:tag"),
        "author": _first(said, "author", "article:author"),
        "offers": offer(said),
    }
    return {name: value for name, value in found.items() if value}


def _first(said: Mapping[str, str], *names: str) -> str:
    return next((said[name] for name in names if name in said), "")
