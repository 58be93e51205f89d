"""schema.org JSON-LD in any of the shapes that sites publish, to Items. Pure: no files, no network.

Supported: single objects, arrays, ``@graph`` with references between its nodes, lists and feeds of things
(``ItemList``,
``DataFeed``), things inside pages (``mainEntity``), prefixed and full property names, ``@value`` objects and language
maps.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import urljoin

from sabir.search.query.words import fold, spaced

from .item import JSON, Item, Problem, Provenance
from .links import without_unsafe_links
from .types import PARENTS, ancestors, bare, named

MAX_DEPTH: Final = 32

# Properties whose values are separate items.
_CONTAINERS: Final = ("mainEntity", "itemListElement", "dataFeedElement", "subEvent", "blogPost")
# Containers, which are never items themselves.
_WRAPPERS: Final = frozenset({"ItemList", "DataFeed", "OfferCatalog", "ListItem", "DataFeedItem", "BreadcrumbList"})
# Things that accompany the content of a page; items only if a graph has nothing else.
SUPPORTING: Final = frozenset(
    {"WebSite", "WebPage", "Organization", "Person", "ImageObject", "SearchAction", "PostalAddress", "Offer",
     "SiteNavigationElement", "WebPageElement", "AggregateRating", "GeoCoordinates", "Brand"}
)  # fmt: skip

_NAMES: Final = ("name", "headline", "title", "alternateName", "caption")
_SUMMARIES: Final = ("description", "abstract", "disambiguatingDescription")
# Where the prose is, in reading order.
_PROSE: Final = (
    "articleBody", "text", "reviewBody", "transcript", "recipeIngredient", "ingredients", "supply", "tool",
    "recipeInstructions", "step", "instructions", "acceptedAnswer", "suggestedAnswer", "positiveNotes",
    "negativeNotes", "responsibilities", "qualifications", "award", "slogan",
)  # fmt: skip
# Short values that are worth searching.
_WORDS: Final = (
    "keywords", "alternateName", "genre", "category", "recipeCategory", "recipeCuisine", "suitableForDiet",
    "cookingMethod", "servesCuisine", "brand", "manufacturer", "model", "color", "material", "author",
    "performer", "organizer", "location", "address", "areaServed", "about", "amenityFeature", "audience",
    "byArtist", "director", "actor", "hiringOrganization", "isPartOf", "containedInPlace", "additionalProperty",
)  # fmt: skip


def items(data: JSON, *, site: str, base: str = "", source: str = "", place: str = "") -> Iterator[Item | Problem]:
    """Every item in a JSON-LD value; ``base`` is the address of its page."""
    if not isinstance(data, dict | list):
        yield Problem(place, f"expected a JSON-LD object or array, found {_kind(data)}")
        return
    found = 0
    taken: set[str] = set()
    for node, at in _things(without_unsafe_links(_cleaned(data)), place):
        found += 1
        yield _item(node, site=site, base=base, provenance=Provenance(source, at), taken=taken)
    if not found and not _only_wrappers(data):
        yield Problem(place, "nothing in it has an @type and can be an item")


def plain(value: str) -> str:
    """A string without markup and entities, with white space collapsed, line breaks kept."""
    if "<" in value:
        value = re.sub(r"(?is)<(script|style)\b.*?(?:</\1\s*>|$)", " ", re.sub(r"(?s)<!--.*?(?:-->|$)", "", value))
        value = re.sub(r"(?i)</?(?:a|abbr|b|cite|code|em|i|mark|q|small|span|strong|sub|sup|u)\b[^<>]*>", "", value)
        value = re.sub(r"(?i)<(br|/p|/li|/h\d|/div|/tr)\b[^<>]*>", "\n", value)
        value = re.sub(r"<[^<>]*>", " ", value)
    if "&" in value:
        value = html.unescape(value)
    return re.sub(r" ?\n\s*", "\n", re.sub(r"[^\S\n]+", " ", value)).strip()


def strings(value: JSON, depth: int = 0) -> Iterator[str]:
    """The text of a value: strings as they are, named things by their name, lists in order."""
    if isinstance(value, str):
        if value.strip():
            yield plain(value)
    elif isinstance(value, bool) or value is None or depth > 6:
        return
    elif isinstance(value, int | float):
        yield f"{value:g}" if isinstance(value, float) else str(value)
    elif isinstance(value, list):
        for item in value:
            yield from strings(item, depth + 1)
    elif isinstance(value, dict):
        if is_absent(value):
            return
        keys = ("name", "text", "value", *_ADDRESS, "itemListElement", "url") if depth < 6 else ("name",)
        kept = [key for key in keys if key in value]
        if ("name" in kept or "text" in kept) and "url" in kept:
            kept.remove("url")
        if "text" in kept and "name" in kept and plain_equal(value["name"], value["text"]):
            kept.remove("name")
        for key in kept:
            yield from strings(value[key], depth + 1)


def is_absent(node: Mapping[str, JSON]) -> bool:
    """Whether an object says that a thing does not have a feature: ``{"name": "Wi-Fi", "value": false}``."""
    return "name" in node and str(node.get("value")).strip().casefold() in ("false", "no")


_ADDRESS: Final = (
    "streetAddress",
    "addressLocality",
    "addressRegion",
    "postalCode",
    "addressCountry",
    "address",
)


def plain_equal(one: JSON, other: JSON) -> bool:
    return isinstance(one, str) and isinstance(other, str) and plain(other).startswith(plain(one).rstrip("…."))


def _kind(value: JSON) -> str:
    return {str: "a string", bool: "a boolean", type(None): "null"}.get(type(value), "a number")


def _cleaned(value: JSON, depth: int = 0) -> JSON:
    """Strip prefixes from property names, and unwrap ``@value`` objects and language maps."""
    if depth > MAX_DEPTH:
        return None
    if isinstance(value, list):
        return [_cleaned(item, depth + 1) for item in value]
    if isinstance(value, str):
        return value.replace("\x00", "")  # no text has it, and not every store accepts it
    if not isinstance(value, dict):
        return value
    if "@value" in value:
        return value["@value"]
    node: dict[str, JSON] = {}
    for key, item in value.items():
        if key == "@context":
            continue
        name = key if key.startswith("@") else bare(key)
        node[name] = _cleaned(item, depth + 1)
    if "@type" not in node and isinstance(node.get("type"), str) and bare(node["type"]) in PARENTS:
        node["@type"] = node.pop("type")
    if "@id" not in node and isinstance(node.get("id"), str):
        node["@id"] = node.pop("id")
    if "@type" in node:
        node["@type"] = [named(item) for item in _listed(node["@type"]) if isinstance(item, str)]
    return node


def _listed(value: JSON) -> list[JSON]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _types(node: Mapping[str, JSON]) -> list[str]:
    return [item for item in _listed(node.get("@type")) if isinstance(item, str)]


def _things(value: JSON, place: str) -> Iterator[tuple[dict[str, JSON], str]]:
    if isinstance(value, list):
        for number, item in enumerate(value):
            yield from _things(item, f"{place}[{number}]")
    elif isinstance(value, dict):
        if "@graph" in value:
            yield from _graph(value["@graph"], f"{place}.@graph")
        else:
            yield from _node(value, place)


def _graph(value: JSON, place: str) -> Iterator[tuple[dict[str, JSON], str]]:
    nodes = [item for item in _listed(value) if isinstance(item, dict)]
    by_id = {item["@id"]: item for item in nodes if isinstance(item.get("@id"), str)}
    pairs = [
        pair
        for number, node in enumerate(nodes)
        for pair in _node(_linked(node, by_id, frozenset()), f"{place}[{number}]")
    ]
    content = [pair for pair in pairs if not SUPPORTING.issuperset(_types(pair[0]))]
    seen: set[str] = set()
    for node, at in content or pairs:
        identity = node.get("@id")
        if isinstance(identity, str):
            if identity in seen:
                continue
            seen.add(identity)
        yield node, at


def _linked(node: JSON, by_id: Mapping[str, dict[str, JSON]], above: frozenset[str]) -> JSON:
    """Replace references inside a graph by what they refer to; a cycle is followed once."""
    if isinstance(node, list):
        return [_linked(item, by_id, above) for item in node]
    if not isinstance(node, dict):
        return node
    identity = node.get("@id")
    if isinstance(identity, str):
        if identity in above or len(above) > 4:
            return {key: node[key] for key in ("@id", "@type", "name") if key in node}
        if len(node) == 1 and identity in by_id:
            node = by_id[identity]
        above = above | {identity}
    return {key: _linked(item, by_id, above) if key != "@id" else item for key, item in node.items()}


def _node(node: dict[str, JSON], place: str) -> Iterator[tuple[dict[str, JSON], str]]:
    types = _types(node)
    inner = [
        pair
        for key in _CONTAINERS
        if key in node and not ("Question" in types or "Recipe" in types)
        for pair in _inner(node[key], f"{place}.{key}")
    ]
    wraps = _WRAPPERS.issuperset(types) or (bool(inner) and "WebPage" in {a for t in types for a in ancestors(t)})
    if types and not wraps:
        yield node, place
    elif not types and not inner and any(isinstance(node.get(key), str) for key in _NAMES):
        yield {**node, "@type": ["Thing"]}, place
    yield from ((_on_page(child, node), at) for child, at in inner) if wraps else inner


def _on_page(child: dict[str, JSON], page: Mapping[str, JSON]) -> dict[str, JSON]:
    """A thing on a page without an address of its own, such as a question of an FAQ: the address is an anchor there."""
    address = next((item for item in (page.get("url"), page.get("@id")) if isinstance(item, str) and item), "")
    if not address or address.startswith("_:") or child.get("@id") or child.get("url"):
        return child
    return {**child, "url": f"{address.split('#')[0]}#{_slug(_first(child, _NAMES))}"}


def _inner(value: JSON, place: str) -> Iterator[tuple[dict[str, JSON], str]]:
    for number, item in enumerate(_listed(value)):
        at = f"{place}[{number}]" if isinstance(value, list) else place
        if isinstance(item, dict):
            held = item.get("item") if _WRAPPERS.intersection(_types(item)) or "@type" not in item else None
            if isinstance(held, dict):
                yield from _node(held, f"{at}.item")
            elif "@type" in item:
                yield from _node(item, at)


def _only_wrappers(data: JSON) -> bool:
    """A page's breadcrumb list has no item, and that is not a problem."""
    return all(
        isinstance(node, dict) and _WRAPPERS.issuperset(_types(_cleaned(node)) or ["?"]) for node in _listed(data)
    )


def _item(node: dict[str, JSON], *, site: str, base: str, provenance: Provenance, taken: set[str]) -> Item | Problem:
    name = _first(node, _NAMES)
    description = _first(node, _SUMMARIES)
    text = _prose(node)
    if not description and "Question" in _types(node):  # what it says is its answer
        description = next((line for line in strings(node.get("acceptedAnswer")) if line), "")
    if not name:
        words = (description or text).split()
        if not words:
            kind = "/".join(_types(node))
            article = "an" if kind[:1] in "AEIOU" else "a"
            return Problem(provenance.place, f"{article} {kind} without a name, a description and text")
        name = " ".join(words[:10])
    url = _address(node, base)
    identity = node.get("@id")
    given = _joined(base, identity) if isinstance(identity, str) and not identity.startswith("_:") else ""
    key = given or url or f"{base}#{_slug(name)}"
    unique, number = key, 1
    while unique in taken:
        number += 1
        unique = f"{key}{'&' if '#' in key else '#'}{number}"
    taken.add(unique)
    return Item(
        id=unique,
        site=site,
        name=name,
        types=tuple(dict.fromkeys(_types(node))) or ("Thing",),
        url=next((item for item in (url, given, base) if item.startswith(("http://", "https://"))), url),
        description=description,
        text=text,
        fields={key: value for key, value in node.items() if key != "@id"},
        provenance=provenance,
    )


def _slug(name: str) -> str:
    return re.sub(r"[^\w]+|_", "-", fold(name)).strip("-")


def _first(node: Mapping[str, JSON], keys: tuple[str, ...]) -> str:
    for key in keys:
        for words in strings(node.get(key)):
            if words:
                return words
    return ""


def _address(node: Mapping[str, JSON], base: str) -> str:
    for key in ("url", "mainEntityOfPage", "sameAs"):
        for value in _listed(node.get(key)):
            address = value.get("@id") or value.get("url") if isinstance(value, dict) else value
            if isinstance(address, str) and address.strip() and not (key == "sameAs" and base):
                return _joined(base, address.strip())
    return ""


def _joined(base: str, address: str) -> str:
    """An address resolved against its page; a file path is not a page."""
    return urljoin(base, address) if address and base.startswith(("http://", "https://")) else address


def _prose(node: Mapping[str, JSON]) -> str:
    lines = [line for key in _PROSE for line in strings(node.get(key))]
    known = set(lines)
    for key in _WORDS:
        for line in _named_values(node.get(key)) if key in _NAMED else strings(node.get(key)):
            line = bare(line) if line.startswith(("http://schema.org", "https://schema.org")) else line
            if line not in known and not line.startswith(("http://", "https://")):
                known.add(line)
                lines.append(line)
    lines += (line for line in dict.fromkeys(_other_words(node)) if line not in known)
    return "\n".join(lines)


_NAMED: Final = frozenset({"amenityFeature", "additionalProperty"})


def _named_values(value: JSON) -> Iterator[str]:
    """The features of a thing, each with its value in words: "Depth: 2 m"."""
    for row in _listed(value):
        name, said = (row.get("name"), row.get("value")) if isinstance(row, dict) else (None, None)
        if isinstance(name, str) and isinstance(said, str) and said and said != name:
            yield f"{name}: {said}"
        else:
            yield from strings(row)


def _other_words(node: Mapping[str, JSON]) -> Iterator[str]:
    """The short values of fields that are not known here: a job title, a fuel, a language. They are searched, too;
    codes, dates, numbers and addresses are not."""
    count = 0
    for key, value in node.items():
        if key.startswith("@") or key in _READ_ELSEWHERE or _MEASURED.search(key):
            continue
        for line in strings(value):
            line = spaced(bare(line)) if line.startswith(("http://schema.org", "https://schema.org")) else line
            is_word = len(line) <= _SHORT and line[:1].isalpha() and not _CODE.search(line)
            if is_word and count < _MAX_LINES:
                count += 1
                yield line


_SHORT: Final = 100  # characters of a value; a longer one is prose
_MAX_LINES: Final = 40
_READ_ELSEWHERE: Final = frozenset(
    {*_PROSE, *_WORDS, *_NAMES, *_SUMMARIES, *_CONTAINERS, "url", "sameAs", "image", "photo", "logo", "video", "offers",
     "geo", "telephone", "faxNumber", "email", "openingHours", "openingHoursSpecification",
     "specialOpeningHoursSpecification", "priceRange", "currenciesAccepted", "aggregateRating", "review", "reviews",
     "comment", "inLanguage", "potentialAction", "mainEntityOfPage", "nutrition", "hasPart", "breadcrumb", "publisher",
     "isRelatedTo", "isSimilarTo", "recipeYield", "eventStatus", "eventAttendanceMode", "identifier", "sku", "gtin",
     "mpn", "isbn", "license"}
)  # fmt: skip
_MEASURED: Final = re.compile(r"(?:Time|Date|Url|URL|Id|Code|Number)$")
_CODE: Final = re.compile(r"^P(?:\d|T\d)|://|@|^[^\s\d]*\d\S*$")
