"""LocalIndex: the embedded engine. Words by tantivy, meaning by usearch, in one directory, without another process.

Words are durable when ``put`` returns; vectors follow in the background. Several processes may read, and one at a time
computes vectors. After a crash, missing ones are computed again.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self, TypeAlias, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from sabir.errors import SabirError
from sabir.search.items.attributes import Attributes, attributes
from sabir.search.items.item import Item, make_room
from sabir.search.query.conditions import Condition, In

from .base import Facet, Fields, Found, Hit, IndexedSite, SearchQuery
from .embed import Embedder, Vectors
from .lexical import Lexical, Reader, Writer
from .meaning import Background, QuestionVectors
from .memory import give_back
from .passages import embedded, item_key, passages
from .rank import Ranked, above_floor, balanced, contenders, fused
from .vectors import VectorFile

_Column: TypeAlias = NDArray[np.int64]
_K = TypeVar("_K")
_V = TypeVar("_V")
logger = logging.getLogger("sabir.search")

DEPTH: Final = 64  # passages that each ranking returns, at least
SCAN: Final = 4_000  # this few passages are compared one by one; more by the graph, then checked
_BATCH: Final = 8  # passages embedded at a time: few, so that closing does not wait long
_SAVE: Final = 15.0  # seconds between saves while vectors are being computed
_CACHED: Final = 512  # filters kept
_RESULTS: Final = 64  # results of searches kept
_READ: Final = 2_048  # counts, passages and items kept


class _Owners:
    """Which item each passage belongs to, as two sorted columns; rebuilt for each state of the index."""

    def __init__(self, keys: Sequence[int] | _Column, items: Sequence[int] | _Column) -> None:
        unsorted = np.asarray(keys, np.int64)
        order = np.argsort(unsorted)
        self._keys, self._items = unsorted[order], np.asarray(items, np.int64)[order]

    def items_of(self, keys: Sequence[int]) -> list[int | None]:
        wanted = np.asarray(keys, np.int64)
        if not len(self._keys):
            return [None] * len(keys)
        at = np.minimum(np.searchsorted(self._keys, wanted), len(self._keys) - 1)
        there = self._keys[at] == wanted
        return [item if known else None for item, known in zip(self._items[at].tolist(), there.tolist(), strict=True)]

    def put(self, passages_of: dict[int, list[int]]) -> _Owners:
        """With these items' passages replaced."""
        kept = ~np.isin(self._items, np.fromiter(passages_of, np.int64, len(passages_of)))
        keys = np.array([key for keys in passages_of.values() for key in keys], np.int64)
        items = np.array([item for item, keys in passages_of.items() for _ in keys], np.int64)
        return _Owners(np.concatenate((self._keys[kept], keys)), np.concatenate((self._items[kept], items)))


@dataclass(slots=True)
class _Kept:
    """What was read and counted in one state of the index: one question asks for the same again and again.

    Taken before the reader, so that what an older reader has read is never kept for a newer state.
    """

    state: _Owners
    filters: dict[tuple[Condition, ...], _Filter] = field(default_factory=dict)
    counts: dict[tuple[Condition, ...], int] = field(default_factory=dict)
    found: dict[tuple[SearchQuery, int, bool], Found] = field(default_factory=dict)
    passages: dict[int, str] = field(default_factory=dict)
    items: dict[int, Item] = field(default_factory=dict)


def _keep(kept: dict[_K, _V], key: _K, value: _V, limit: int) -> _V:
    """Keep a value, at most this many at a time."""
    make_room(kept, limit)
    return kept.setdefault(key, value)


@dataclass(frozen=True, slots=True)
class _Filter:
    """Conditions as a query (None: everything meets them), how many passages meet them, and which, if few."""

    query: object | None
    count: int
    keys: list[int] | None


def _filter(kept: _Kept, reader: Reader, conditions: tuple[Condition, ...]) -> _Filter:
    """Conditions resolved against the index; kept until it changes, because sites repeat the same ones."""
    if not conditions:
        return _Filter(None, len(reader), None)
    found = kept.filters.get(conditions)
    if found is not None:
        return found
    query = reader.where(conditions)
    count = reader.count(query)
    if count == len(reader):
        query = None  # everything meets them: nothing to filter
    keys = reader.keys(query, count) if query is not None and 0 < count <= SCAN else None
    return _keep(kept.filters, conditions, _Filter(query, count, keys if count else []), _CACHED)


def _hits(kept: _Kept, reader: Reader, page: dict[int, Ranked]) -> tuple[Hit, ...]:
    texts = _passages(kept, reader, [entry.key for entry in page.values()])
    items = _items(kept, reader, list(page))
    return tuple(
        Hit(items[key], entry.score, texts[entry.key], round(entry.lexical, 4), entry.semantic)
        for key, entry in page.items()
        if key in items and entry.key in texts
    )


def _passages(kept: _Kept, reader: Reader, keys: Sequence[int]) -> dict[int, str]:
    """The texts of passages; an item that was read along with its first passage is kept, too."""
    found = {key: text for key in keys if (text := kept.passages.get(key)) is not None}
    for key, (text, item) in reader.found([key for key in keys if key not in found]).items():
        found[key] = _keep(kept.passages, key, text, _READ)
        if item is not None:
            _keep(kept.items, item_key(item.site, item.id), item, _READ)
    return found


def _items(kept: _Kept, reader: Reader, keys: Sequence[int]) -> dict[int, Item]:
    """Items by key: the same object each time, by which more about it is kept elsewhere."""
    found = {key: item for key in keys if (item := kept.items.get(key)) is not None}
    for key, item in reader.items([key for key in keys if key not in found]).items():
        found[key] = _keep(kept.items, key, item, _READ)
    return found


def _written(writer: Writer, items: Iterable[Item], passages_of: dict[int, list[int]]) -> Iterator[Attributes]:
    """Write items one by one; yields the attributes of each, so that those of many are never held together."""
    for item in items:
        found, parts = attributes(item), list(passages(item))
        writer.remove(item.site, item.id)
        writer.add(item, found, parts)
        passages_of[item_key(item.site, item.id)] = [part.key for part in parts]
        yield found


class LocalIndex:
    """An Engine in a directory; without one, in memory. Without an embedder, by words alone.

    Use as ``async with LocalIndex(path, MiniLM()) as index``, or call ``close`` when done.
    """

    def __init__(self, directory: str | os.PathLike[str] | None, embedder: Embedder | None) -> None:
        self._directory = Path(directory) if directory is not None else None
        self._lexical = Lexical(self._directory / "words" if self._directory else None)
        self._embedder = embedder
        self._vectors = VectorFile(self._directory, embedder.name, embedder.size) if embedder else None
        self._known = self._read_fields()
        self._owners = _Owners(*self._lexical.reader().pairs())
        self._kept = _Kept(self._owners)
        self._questions = QuestionVectors(embedder)
        self._writing = asyncio.Lock()
        self._background = Background(self._embed_missing)
        self._seen = self._stamp()
        self._checked = 0.0

    async def __aenter__(self) -> Self:
        self._wake()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    # Writing

    async def put(self, items: Sequence[Item]) -> None:
        async with self._writing:
            await asyncio.to_thread(self._put, items)
        self._wake()

    def _put(self, items: Sequence[Item]) -> None:
        latest = {(item.site, item.id): item for item in items}
        passages_of: dict[int, list[int]] = {}
        with self._lexical.writer() as writer:
            known = self._known | Fields.of(_written(writer, latest.values(), passages_of))
        self._owners = self._owners.put(passages_of)
        if known != self._known:
            self._known = known
            self._write_fields(known)
        self._seen = self._stamp()
        give_back()

    async def delete(self, site: str, ids: Iterable[str] | None = None) -> int:
        async with self._writing:
            count = await asyncio.to_thread(self._delete, site, None if ids is None else list(ids))
        self._wake()
        return count

    def _delete(self, site: str, ids: list[str] | None) -> int:
        before = dict(self._lexical.reader().site_counts()).get(site, 0)
        with self._lexical.writer() as writer:
            if ids is None:
                writer.remove_site(site)
            else:
                for item_id in ids:
                    writer.remove(site, item_id)
        self._owners = _Owners(*self._lexical.reader().pairs())
        self._seen = self._stamp()
        return before - dict(self._lexical.reader().site_counts()).get(site, 0)

    # Reading

    async def get(self, site: str, item_id: str) -> Item | None:
        key = item_key(site, item_id)
        reader = await self._reader()
        return (await asyncio.to_thread(reader.items, [key])).get(key)

    async def listed(self, site: str) -> AsyncIterator[tuple[str, str, str]]:
        reader = await self._reader()
        for row in await asyncio.to_thread(lambda: list(reader.listed(site))):
            yield row

    async def sites(self) -> tuple[IndexedSite, ...]:
        reader = await self._reader()
        return tuple(
            IndexedSite(name, count, dict(reader.counts("@type", reader.site(name), 1_000)))
            for name, count in reader.site_counts()
        )

    async def coverage(self) -> float:
        return self._coverage(await self._reader())

    async def fields(self) -> Fields:
        await self._refresh()
        return self._known

    async def count(self, where: tuple[Condition, ...]) -> int:
        await self._refresh()
        kept = self._kept_now()
        if where not in kept.counts:
            reader = self._lexical.reader()
            counted = await asyncio.to_thread(lambda: reader.count(reader.where(where), items=True))
            return _keep(kept.counts, where, counted, _READ)
        return kept.counts[where]

    async def locate(self, place: str) -> tuple[float, float] | None:
        reader = await self._reader()
        points = await asyncio.to_thread(lambda: reader.points(reader.where((In(place),)), 1_000))
        if not points:
            return None
        return sum(lat for _, lat, _ in points) / len(points), sum(lon for _, _, lon in points) / len(points)

    async def search(self, query: SearchQuery) -> Found:
        await self._refresh()
        if not self._background.started:
            self._wake()
        vector = await self._vector(query.text)
        liking = await self._vector(query.liking) if query.text else None
        kept = self._kept_now()
        key = (query, len(self._vectors) if self._vectors else 0, vector is None)
        found = kept.found.get(key)
        if found is not None:
            await asyncio.sleep(0)  # an answer that is made of kept results lets other turns run, too
            return found
        return _keep(kept.found, key, await asyncio.to_thread(self.search_now, query, vector, liking), _RESULTS)

    def _kept_now(self) -> _Kept:
        if self._kept.state is not self._owners:
            self._kept = _Kept(self._owners)
        return self._kept

    def search_now(self, query: SearchQuery, vector: Vectors | None, liking: Vectors | None = None) -> Found:
        """The same on the calling thread, with the query's vector given."""
        kept = self._kept_now()
        reader = self._lexical.reader()
        where = _filter(kept, reader, query.where)
        coverage = self._coverage(reader)
        if not query.text.strip():
            return self._listing(kept, reader, query, where.query, coverage)
        ranked = self._ranked(reader, query, where, vector, liking)
        owners = self._owners.items_of([item.key for item in ranked])
        best: dict[int, Ranked] = {}
        for item, owner in zip(ranked, owners, strict=True):
            if item.score >= query.min_score and owner is not None:
                best.setdefault(owner, item)
        page = dict(list(best.items())[query.start : query.start + query.limit])
        facets = self._facets(reader, query.facets, reader.item_keys(list(best))) if query.facets else ()
        return Found(_hits(kept, reader, page), len(best), facets, coverage)

    def _listing(self, kept: _Kept, reader: Reader, query: SearchQuery, where: object, coverage: float) -> Found:
        page = reader.newest(where, query.start, query.limit)
        items = _items(kept, reader, [item for _, item in page])
        texts = _passages(kept, reader, [passage for passage, _ in page])
        hits = tuple(Hit(items[item], 100.0, texts[passage], 1.0) for passage, item in page if item in items)
        return Found(hits, reader.count(where, items=True), self._facets(reader, query.facets, where), coverage)

    def _facets(self, reader: Reader, fields: Sequence[str], where: object) -> tuple[Facet, ...]:
        return tuple(Facet(field, reader.counts(field, where)) for field in fields)

    def _ranked(
        self, reader: Reader, query: SearchQuery, where: _Filter, vector: Vectors | None, liking: Vectors | None
    ) -> list[Ranked]:
        depth = max(DEPTH, 2 * (query.start + query.limit))
        terms = reader.terms(query.text)
        lexical = reader.best(terms, where.query, depth) if terms else {}
        vectors = self._vectors
        if vectors is None or vector is None or self._embedder is None or not vectors.keys:
            return fused(lexical, {}, floor=0.0, semantic=False)
        unknown = lexical.keys() - vectors.keys  # before the vectors are read: more may be written in the meantime
        near = self._nearest(reader, where, vector, depth)
        floor = self._embedder.floor
        count = query.start + query.limit
        shares, likeness = balanced(lexical), above_floor(near, floor)
        near |= vectors.cosines(vector, contenders(shares, likeness, depth, count))
        if terms:
            lexical |= reader.shares(terms, contenders(above_floor(near, floor), shares, depth, count))
        liked = vectors.cosines(liking, near) if liking is not None else None
        return fused(lexical, near, floor=floor, semantic=True, unknown=unknown, liking=liked)

    def _nearest(self, reader: Reader, where: _Filter, vector: Vectors, depth: int) -> dict[int, float]:
        """The nearest passages among those that meet the conditions: exact if few, otherwise by the graph."""
        vectors = self._vectors
        assert vectors is not None
        if where.query is None:
            return vectors.nearest(vector, depth)
        if where.keys is not None:
            exact = vectors.cosines(vector, where.keys)
            return dict(sorted(exact.items(), key=lambda pair: -pair[1])[:depth])
        wanted = int(1.3 * depth * len(reader) / where.count)
        while True:
            wanted = min(len(vectors), max(depth, wanted))
            near = vectors.nearest(vector, wanted)
            allowed = set(reader.allowed(where.query, list(near)))
            if len(allowed) >= min(depth, where.count) or wanted >= len(vectors):
                return {key: cosine for key, cosine in near.items() if key in allowed}
            wanted *= 3

    async def _vector(self, text: str) -> Vectors | None:
        return await self._questions.of(text) if self._vectors and self._vectors.keys else None

    async def similarities(self, text: str, others: Sequence[str]) -> Sequence[float] | None:
        if not (self._vectors and self._vectors.keys):
            return None
        return await self._questions.similarities(text, others)

    # Vectors in the background

    async def settled(self) -> None:
        self._wake()
        await self._background.settled()

    async def close(self) -> None:
        await self._background.stop()
        if self._vectors is not None:
            await asyncio.to_thread(self._vectors.close)

    def _wake(self) -> None:
        if self._vectors is not None:
            self._background.wake()

    async def _embed_missing(self) -> None:
        vectors = self._vectors
        assert vectors is not None
        if not await asyncio.to_thread(vectors.own):
            return  # another process computes them; its file is read when it changes
        saved = time.monotonic()
        while self._background.pending():
            reader = self._lexical.reader()
            there = set(await asyncio.to_thread(reader.keys, None, max(1, len(reader))))
            await asyncio.to_thread(vectors.keep_only, there)
            missing = sorted(there - vectors.keys)
            for at in range(0, len(missing), _BATCH):
                if not await self._embed_some(reader, missing[at : at + _BATCH]):
                    return
                if time.monotonic() - saved > _SAVE:
                    await asyncio.to_thread(vectors.save)
                    saved = time.monotonic()
                if self._background.woken:
                    break
        await asyncio.to_thread(vectors.save)

    async def _embed_some(self, reader: Reader, keys: list[int]) -> bool:
        assert self._vectors is not None and self._embedder is not None
        texts = await asyncio.to_thread(reader.passages, keys)
        try:
            rows = await self._embedder.embed([embedded(*texts[key]) for key in keys if key in texts])
        except SabirError as failed:
            logger.warning("Vectors are not being computed: %s", failed)
            return False
        await asyncio.to_thread(self._vectors.add, [key for key in keys if key in texts], rows)
        return True

    # Changes by other processes to the directory

    async def _reader(self) -> Reader:
        await self._refresh()
        return self._lexical.reader()

    async def _refresh(self) -> None:
        """Load changes by other processes; off the loop, because a large index takes a while."""
        stamp = self._stamp()
        if stamp != self._seen:
            self._seen = stamp
            await asyncio.to_thread(self._reload)
            self._wake()
        now = time.monotonic()
        if self._vectors is not None and now - self._checked > 1.0:
            self._checked = now
            await asyncio.to_thread(self._vectors.refresh)

    def _reload(self) -> None:
        self._lexical.reload()
        self._owners = _Owners(*self._lexical.reader().pairs())
        self._known = self._read_fields()

    def _stamp(self) -> int:
        if self._directory is None:
            return 0
        try:
            return os.stat(self._directory / "words" / "meta.json").st_mtime_ns
        except FileNotFoundError:
            return 0

    def _coverage(self, reader: Reader) -> float:
        if self._vectors is None or not len(reader):
            return 1.0
        return min(1.0, len(self._vectors) / len(reader))

    def _read_fields(self) -> Fields:
        if self._directory is None:
            return getattr(self, "_known", Fields())
        try:
            return msgspec.json.decode((self._directory / "fields.json").read_bytes(), type=Fields)
        except FileNotFoundError:
            return Fields()

    def _write_fields(self, known: Fields) -> None:
        if self._directory is not None:
            scratch = self._directory / "fields.new"
            scratch.write_bytes(msgspec.json.encode(known))
            os.replace(scratch, self._directory / "fields.json")
