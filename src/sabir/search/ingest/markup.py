"""Things that a page marks up in place: schema.org microdata and RDFa Lite, to JSON-LD. Pure.

Both express the same with different attributes, so one reader handles both. It never recurses over the untrusted page;
a thing that contains itself (``itemref`` allows it) is cut off.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from urllib.parse import urljoin

import msgspec

from sabir.errors import MissingExtra
from sabir.search.items.item import JSON

try:
    from selectolax.lexbor import LexborHTMLParser, LexborNode
except ImportError as missing:
    raise MissingExtra("reading pages", "search") from missing

_MAX_DEPTH: Final = 8
_MAX_NODES: Final = 2_000
_ADDRESSES: Final = {"a": "href", "area": "href", "link": "href", "img": "src", "audio": "src", "video": "src",
                     "source": "src", "embed": "src", "iframe": "src", "track": "src", "object": "data"}  # fmt: skip
_VALUES: Final = {"data": "value", "meter": "value", "time": "datetime"}
_CLIMB: Final = 300  # parent elements that are searched for the thing of a property


class _Dialect(msgspec.Struct, frozen=True):
    scope: str  # the attribute of a thing's element
    kind: str
    name: str
    identity: str


_MICRODATA: Final = _Dialect("itemscope", "itemtype", "itemprop", "itemid")
_RDFA: Final = _Dialect("typeof", "typeof", "property", "resource")


def microdata(tree: LexborHTMLParser, url: str) -> list[JSON]:
    """The outermost things of a page marked up with ``itemscope``."""
    return _Reader(tree, url, _MICRODATA).things()


def rdfa(tree: LexborHTMLParser, url: str) -> list[JSON]:
    """The things of a page marked up with ``typeof``, if they are schema.org's."""
    if not tree.css_matches('[vocab*="schema.org"], [prefix*="schema.org"], [typeof^="schema:"]'):
        return []
    return _Reader(tree, url, _RDFA).things()


class _Reader:
    def __init__(self, tree: LexborHTMLParser, url: str, dialect: _Dialect) -> None:
        self._tree, self._url, self._dialect = tree, url, dialect
        self._scopes: dict[int, dict[str, JSON]] = {}
        self._adopted: dict[int, dict[str, JSON]] = {}

    def things(self) -> list[JSON]:
        dialect = self._dialect
        outermost: list[dict[str, JSON]] = []
        for element in self._tree.css(f"[{dialect.scope}]"):
            thing = self._scopes[element.mem_id] = self._thing(element)
            if not self._names(element):
                outermost.append(thing)
        if dialect is _MICRODATA:
            self._adopt()
        for element in self._tree.css(f"[{dialect.name}]"):
            if (owner := self._owner(element)) is not None:
                for name in self._names(element):
                    _append(owner, name, self._value(element))
        budget = [_MAX_NODES]
        return [copy for thing in outermost if (copy := _copied(thing, budget, 0)) and "@type" in copy]

    def _thing(self, element: LexborNode) -> dict[str, JSON]:
        dialect = self._dialect
        thing: dict[str, JSON] = {}
        if types := [kind for kind in (element.attributes.get(dialect.kind) or "").split() if _is_known(kind)]:
            thing["@type"] = types
        if identity := (element.attributes.get(dialect.identity) or "").strip():
            thing["@id"] = urljoin(self._url, identity)
        return thing

    def _names(self, element: LexborNode) -> list[str]:
        words = (element.attributes.get(self._dialect.name) or "").split()
        if self._dialect is _MICRODATA:
            return [word.rsplit("/", 1)[-1] for word in words]
        return [word.removeprefix("schema:") for word in words if ":" not in word.removeprefix("schema:")]

    def _adopt(self) -> None:
        """``itemref``: elements elsewhere on the page whose properties belong to this thing."""
        for element in self._tree.css("[itemscope][itemref]"):
            for reference in (element.attributes.get("itemref") or "").split()[:20]:
                quoted = reference.replace("\\", "").replace('"', "")
                found = self._tree.css_first(f'[id="{quoted}"]')
                if found is not None:
                    self._adopted[found.mem_id] = self._scopes[element.mem_id]

    def _owner(self, element: LexborNode) -> dict[str, JSON] | None:
        if element.mem_id in self._adopted:
            return self._adopted[element.mem_id]
        above = element.parent
        for _ in range(_CLIMB):
            if above is None:
                return None
            if above.mem_id in self._scopes:
                return self._scopes[above.mem_id]
            if above.mem_id in self._adopted:
                return self._adopted[above.mem_id]
            above = above.parent
        return None

    def _value(self, element: LexborNode) -> JSON:
        if element.mem_id in self._scopes:
            return self._scopes[element.mem_id]
        attributes = element.attributes
        if (content := attributes.get("content")) is not None:
            return content.strip()
        tag = element.tag or ""
        if (address := attributes.get(_ADDRESSES.get(tag, "resource"))) is not None:
            return urljoin(self._url, address.strip())
        if (value := attributes.get(_VALUES.get(tag, ""))) is not None:
            return value.strip()
        return " ".join(element.text(separator=" ").split())


def _is_known(kind: str) -> bool:
    """schema.org, or no vocabulary, as in RDFa."""
    return "schema.org/" in kind or kind.startswith("schema:") or (":" not in kind and "/" not in kind)


def _append(thing: dict[str, JSON], name: str, value: JSON) -> None:
    if value == "":
        return
    if name not in thing:
        thing[name] = value
    elif isinstance(thing[name], list):
        thing[name].append(value)
    else:
        thing[name] = [thing[name], value]


def _copied(thing: dict[str, JSON], budget: list[int], depth: int) -> dict[str, JSON]:
    budget[0] -= 1
    if depth > _MAX_DEPTH or budget[0] < 0:
        return {}
    return {name: copy for name, value in thing.items() if (copy := _copy(value, budget, depth)) not in ({}, [], "")}


def _copy(value: JSON, budget: list[int], depth: int) -> JSON:
    if isinstance(value, dict):
        return _copied(value, budget, depth + 1)
    if isinstance(value, list):
        return list(_pieces(value, budget, depth))
    return value


def _pieces(values: list[JSON], budget: list[int], depth: int) -> Iterator[JSON]:
    for value in values:
        if (copy := _copy(value, budget, depth)) not in ({}, "", None):
            yield copy
