"""Item: one thing of a site, as a frozen value that is ingested, indexed, found and cited."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Any, Final, Generic, TypeAlias, TypeVar

import msgspec

JSON: TypeAlias = Any  # a JSON value
T = TypeVar("T")
BREAK: Final = "\f"  # in a text: what follows is from elsewhere on the page, and is ranked by itself

_encode = msgspec.json.Encoder(order="deterministic").encode


class Provenance(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where an item was read: ``source`` as given to ingest, ``place`` within it (a line, a path, a URL)."""

    source: str = ""
    place: str = ""


class Item(msgspec.Struct, frozen=True, omit_defaults=True):
    """One recipe, product, event, place, article …

    ``id`` is unique within ``site``. ``fields`` is the original schema.org object without ``@context``; ``text`` is the
    prose that is searched and quoted: every sentence of it is in the source. ``types`` are schema.org names, only the
    most specific ones.
    """

    id: str
    site: str
    name: str
    types: tuple[str, ...] = ("Thing",)
    url: str = ""
    description: str = ""
    text: str = ""
    fields: dict[str, JSON] = {}
    provenance: Provenance = Provenance()

    @property
    def fingerprint(self) -> str:
        """A hash of the content, independent of where it was read."""
        content = (
            self.id,
            self.site,
            self.name,
            self.types,
            self.url,
            self.description,
            self.text,
            self.fields,
        )
        return blake2b(_encode(content), digest_size=16).hexdigest()

    @property
    def page(self) -> str:
        """The address to cite: the item's page, or otherwise its id."""
        return self.url or self.id


class ByItem(Generic[T]):
    """A function of an item whose latest results are kept: one answer asks the same of an item several times.

    By identity, because to compare items means to read them; each is kept, so that its identity stays valid.
    """

    def __init__(self, compute: Callable[[Item], T], limit: int) -> None:
        self._compute, self._limit = compute, limit
        self._kept: dict[int, tuple[Item, T]] = {}

    def __call__(self, item: Item) -> T:
        kept = self._kept.get(id(item))
        if kept is not None and kept[0] is item:
            return kept[1]
        found = self._compute(item)
        make_room(self._kept, self._limit)
        self._kept[id(item)] = (item, found)
        return found


def make_room(kept: dict[Any, Any], limit: int) -> None:
    """If a cache is full, drop its oldest quarter. Its latest entries are the most likely to be needed again."""
    if len(kept) >= limit:
        for key in list(kept)[: max(1, limit // 4)]:
            kept.pop(key, None)  # another thread may have been here


class Problem(msgspec.Struct, frozen=True):
    """Something that could not be read, its place, and why. It does not stop the rest."""

    place: str
    reason: str

    def __str__(self) -> str:
        return f"{self.place}: {self.reason}"
