"""Engine: the interface of every search index, and its values."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Final, Protocol

import msgspec

from sabir.search.items.attributes import Attributes
from sabir.search.items.item import Item
from sabir.search.query.conditions import Condition

MAX_PLACES: Final = 50_000


class SearchQuery(msgspec.Struct, frozen=True):
    """A search. Without ``text``, everything that meets ``where`` is found, newest first.

    ``liking`` are words that move matching items up a little and exclude none: what is known about the caller.
    ``facets`` are the fields whose values are counted over the results.
    """

    text: str = ""
    where: tuple[Condition, ...] = ()
    start: int = 0
    limit: int = 10
    min_score: float = 0.0
    liking: str = ""
    facets: tuple[str, ...] = ()


class Hit(msgspec.Struct, frozen=True):
    """A found item, with its best matching passage.

    ``score`` is from 0 to 100: the nearly even mean of the share of the query's words (weighted by rarity) in the
    passage and of its similarity in meaning, relative to a passage that is all about the query. Above 60 it is about
    the question, from 30 it is related, below 20 it is chance.
    """

    item: Item
    score: float
    passage: str = ""
    lexical: float = 0.0
    semantic: float | None = None  # None: its vector is not computed yet


class Facet(msgspec.Struct, frozen=True):
    """The values of a field and how many of the results have each, most frequent first."""

    field: str
    counts: tuple[tuple[str, int], ...]


class Found(msgspec.Struct, frozen=True):
    """The results of a query. ``total`` counts everything that was ranked, not only this page.

    ``coverage`` is the share of the index with vectors (from 0 to 1): below 1, the rest was found by words alone,
    because its vectors are still being computed.
    """

    hits: tuple[Hit, ...]
    total: int
    facets: tuple[Facet, ...] = ()
    coverage: float = 1.0


class IndexedSite(msgspec.Struct, frozen=True):
    """One ingested site: the number of its items, and their types."""

    name: str
    items: int
    types: dict[str, int] = {}


class Fields(msgspec.Struct, frozen=True):
    """The names of the items' fields, by type of content, in lower case; their types and places."""

    words: frozenset[str] = frozenset()
    numbers: frozenset[str] = frozenset()
    dates: frozenset[str] = frozenset()
    types: frozenset[str] = frozenset()
    places: frozenset[str] = frozenset()  # names, up to MAX_PLACES

    @classmethod
    def of(cls, found: Iterable[Attributes]) -> Fields:
        """The fields of some items."""
        words, numbers, dates, types, places = set[str](), set[str](), set[str](), set[str](), set[str]()
        for item in found:
            words.update(item.words)
            numbers.update(item.numbers)
            dates.update(item.dates)
            types.update(item.types)
            places.update(item.places)
        return cls(*map(frozenset, (words, numbers, dates, types, places)))

    def __contains__(self, field: str) -> bool:
        return field in self.words or field in self.numbers or field in self.dates

    def __or__(self, other: Fields) -> Fields:
        return Fields(
            self.words | other.words,
            self.numbers | other.numbers,
            self.dates | other.dates,
            self.types | other.types,
            self.places if len(self.places) > MAX_PLACES else self.places | other.places,
        )


class Engine(Protocol):
    """An index of items. After ``put`` and ``delete`` return, their changes are durable and visible.

    Vectors are computed after ``put``; until then, items are found by their words. Safe for concurrent use by many
    coroutines of one loop.
    """

    async def put(self, items: Sequence[Item]) -> None:
        """Add items; one with the same site and id is replaced."""
        ...

    async def delete(self, site: str, ids: Iterable[str] | None = None) -> int:
        """Remove items of a site, or all of it; returns how many there were."""
        ...

    async def get(self, site: str, item_id: str) -> Item | None: ...

    def listed(self, site: str) -> AsyncIterator[tuple[str, str, str]]:
        """``(id, fingerprint, source)`` of every item of a site, for incremental ingest."""
        ...

    async def sites(self) -> tuple[IndexedSite, ...]: ...

    async def fields(self) -> Fields: ...

    async def locate(self, place: str) -> tuple[float, float] | None:
        """The centre of the items in a place of this name, if they have coordinates."""
        ...

    async def search(self, query: SearchQuery) -> Found: ...

    async def similarities(self, text: str, others: Sequence[str]) -> Sequence[float] | None:
        """How similar in meaning a text is to each of some others, from -1 to 1; None without vectors."""
        ...

    async def count(self, where: tuple[Condition, ...]) -> int:
        """How many items meet the conditions."""
        ...

    async def coverage(self) -> float:
        """The share of the index whose vectors are computed, from 0 to 1."""
        ...

    async def settled(self) -> None:
        """Wait until every vector is computed and stored."""
        ...

    async def close(self) -> None: ...
