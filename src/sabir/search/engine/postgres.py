"""PostgresIndex: the engine for several machines. PostgreSQL with pgvector, any number of processes.

Words are ranked by BM25 over a table of postings, made by PostgreSQL's own stemmers (English, and that of the language
of the item or the question), meaning by an HNSW index of half-precision vectors; both are combined as in the embedded
engine, so that scores are comparable.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any, Final, Self

import msgspec

from sabir.errors import ConfigError, MissingExtra, SabirError, StoreUnavailable
from sabir.search.items.attributes import Attributes, attributes
from sabir.search.items.item import Item
from sabir.search.query.conditions import Condition, In
from sabir.search.query.glossary import language_of, likenesses, telling
from sabir.search.query.words import alike, fold, segmented

from .base import Facet, Fields, Found, Hit, IndexedSite, SearchQuery
from .embed import Embedder, Vectors
from .meaning import Background, QuestionVectors
from .passages import Passage, embedded, item_key, passages
from .postgres_where import Where
from .rank import Ranked, above_floor, balanced, contenders, fused, rarity, unknown
from .stems import READ, STEMMERS, language_of_item

try:
    import asyncpg
except ImportError as missing:
    raise MissingExtra("the PostgreSQL index", "postgres") from missing

logger = logging.getLogger("sabir.search")

DEPTH: Final = 64
NAME_WEIGHT: Final = 0.5
_BATCH: Final = 32
COMMON: Final = 0.05  # as in the embedded engine
_K1, _B = 1.2, 0.75

_TABLES: Final = """
CREATE TABLE IF NOT EXISTS search_items (
    key bigint PRIMARY KEY, site text NOT NULL, id text NOT NULL, item bytea NOT NULL,
    fingerprint text NOT NULL, source text NOT NULL, types text[] NOT NULL, words jsonb NOT NULL,
    numbers jsonb NOT NULL, dates jsonb NOT NULL, labels jsonb NOT NULL, places text[] NOT NULL,
    has text[] NOT NULL, lat float8, lon float8, born float8 NOT NULL, UNIQUE (site, id));
CREATE INDEX IF NOT EXISTS search_items_words ON search_items USING gin (words jsonb_path_ops);
CREATE INDEX IF NOT EXISTS search_items_types ON search_items USING gin (types);
CREATE INDEX IF NOT EXISTS search_items_places ON search_items USING gin (places);
CREATE INDEX IF NOT EXISTS search_items_has ON search_items USING gin (has);
CREATE TABLE IF NOT EXISTS search_passages (
    key bigint PRIMARY KEY, item bigint NOT NULL REFERENCES search_items (key) ON DELETE CASCADE,
    ordinal int NOT NULL, name text NOT NULL, body text NOT NULL, length int NOT NULL DEFAULT 0,
    embedding {vectors}.halfvec({size}));
CREATE INDEX IF NOT EXISTS search_passages_item ON search_passages (item);
CREATE INDEX IF NOT EXISTS search_passages_missing ON search_passages (key) WHERE embedding IS NULL;
CREATE INDEX IF NOT EXISTS search_passages_near
    ON search_passages USING hnsw (embedding {vectors}.halfvec_cosine_ops);
CREATE TABLE IF NOT EXISTS search_postings (
    term text NOT NULL, field "char" NOT NULL, passage bigint NOT NULL
    REFERENCES search_passages (key) ON DELETE CASCADE, count int NOT NULL, PRIMARY KEY (term, field, passage));
CREATE INDEX IF NOT EXISTS search_postings_passage ON search_postings (passage);
CREATE TABLE IF NOT EXISTS search_fields (kind text NOT NULL, name text NOT NULL, PRIMARY KEY (kind, name));
"""

_POSTINGS: Final = """
INSERT INTO search_postings (term, field, passage, count)
SELECT t.lexeme, f.field, p.key, array_length(t.positions, 1)
FROM unnest($1::bigint[], $2::text[], $3::text[]) AS p (key, body, name)
CROSS JOIN LATERAL (VALUES ('b'::"char", p.body), ('n'::"char", p.name)) AS f (field, text)
CROSS JOIN LATERAL unnest(to_tsvector('english', f.text)) AS t
WHERE octet_length(t.lexeme) < 200
"""
_MAX_TERM: Final = 200  # bytes
_STEMS: Final = """
SELECT r.key, r.field, t.lexeme, coalesce(array_length(t.positions, 1), 1) AS count
FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[]) AS r (key, field, configuration, text)
CROSS JOIN LATERAL unnest(to_tsvector(r.configuration::regconfig, r.text)) AS t
"""
_LENGTHS: Final = """
UPDATE search_passages AS p SET length = coalesce(
    (SELECT sum(count) FROM search_postings WHERE passage = p.key AND field = 'b'), 0)
WHERE p.key = ANY($1::bigint[])
"""
# BM25 as in the embedded engine; the idf of each term is passed in.
_BEST: Final = """
SELECT p.key, sum(w.weight * o.count * {highest} / (o.count + {k1} *
       CASE WHEN o.field = 'b' THEN 1 - {b} + {b} * p.length / {mean} ELSE 1 END)) AS score
FROM unnest($1::text[], $2::text[], $3::float8[]) AS w (term, field, weight)
JOIN search_postings AS o ON o.term = w.term AND o.field = w.field::"char"
JOIN search_passages AS p ON p.key = o.passage
{join} WHERE {where} GROUP BY p.key ORDER BY score DESC, p.key LIMIT {limit}
"""


class PostgresIndex:
    """An Engine in a database, or one schema of it (``?search_path=…``). Call ``open`` before use."""

    def __init__(self, address: str, embedder: Embedder | None, *, connections: int = 8) -> None:
        self._address = address
        self._embedder = embedder
        self._connections = connections
        self._made: Any = None  # asyncpg's pool
        self._vectors = "public"
        self._questions = QuestionVectors(embedder)
        self._background = Background(self._embed_missing)
        self._size = (1, 1.0)  # passages and their mean length

    async def open(self) -> Self:
        """Connect and create missing tables.

        Raises:
            StoreUnavailable: no connection.
            ConfigError: the server has no pgvector.
        """
        try:
            self._made = await asyncpg.create_pool(self._address, min_size=1, max_size=self._connections)
        except (OSError, asyncpg.PostgresError) as away:
            raise StoreUnavailable("the search database does not answer") from away
        size = self._embedder.size if self._embedder else 384
        async with self._made.acquire() as connection, connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock(7461261)")  # two processes may start at once
            try:
                await connection.execute("CREATE EXTENSION IF NOT EXISTS vector WITH SCHEMA public")
            except asyncpg.PostgresError as lacking:
                raise ConfigError("search on PostgreSQL needs its extension pgvector") from lacking
            self._vectors = await connection.fetchval(
                "SELECT n.nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace"
                " WHERE e.extname = 'vector'"
            )
            await connection.execute(_TABLES.format(vectors=self._vectors, size=size))
            await self._same_space(connection, size)
        await self._measure()
        self._wake()
        return self

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    # Writing

    async def put(self, items: Sequence[Item]) -> None:
        latest = {(item.site, item.id): item for item in items}
        found = [(item, attributes(item)) for item in latest.values()]
        rows = await asyncio.to_thread(lambda: [_row(item, entry) for item, entry in found])
        keys = [item_key(item.site, item.id) for item in latest.values()]
        parts = await asyncio.to_thread(lambda: [(part, item) for item in latest.values() for part in passages(item)])
        fields = Fields.of(entry for _, entry in found)
        async with self._pool.acquire() as connection, connection.transaction():
            # Nodes that start together read the same sources one after the other; the last result equals the first.
            await connection.execute("SELECT pg_advisory_xact_lock(7461262)")
            await connection.execute("DELETE FROM search_items WHERE key = ANY($1::bigint[])", keys)
            columns = "key,site,id,item,fingerprint,source,types,words,numbers,dates,labels,places,has,lat,lon,born"
            marks = ",".join(f"${at}" for at in range(1, 17))
            await connection.executemany(f"INSERT INTO search_items ({columns}) VALUES ({marks})", rows)
            await connection.executemany(
                "INSERT INTO search_passages (key, item, ordinal, name, body) VALUES ($1, $2, $3, $4, $5)",
                [(p.key, item_key(i.site, i.id), p.ordinal, _clean(i.name), _clean(p.text)) for p, i in parts],
            )
            inserted = [part.key for part, _ in parts]
            texts = [(_worded(part.text), _worded(item.name)) for part, item in parts]
            await connection.execute(_POSTINGS, inserted, [body for body, _ in texts], [name for _, name in texts])
            await connection.execute(_LENGTHS, inserted)
            await self._add_stems(connection, parts)
            await connection.executemany(
                "INSERT INTO search_fields (kind, name) VALUES ($1, $2) ON CONFLICT DO NOTHING",
                sorted((kind, name) for kind in Fields.__struct_fields__ for name in getattr(fields, kind)),
            )
        await self._measure()
        self._wake()

    async def _add_stems(self, connection: Any, parts: Sequence[tuple[Passage, Item]]) -> None:
        """Add the stems of the text's own language to the English ones."""
        languages = {item_key(item.site, item.id): language_of_item(item) for _, item in parts}
        rows = [
            (part.key, field, STEMMERS[language], segmented(_clean(text)))
            for part, item in parts
            if (language := languages[item_key(item.site, item.id)]) in STEMMERS
            for field, text in (("b", part.text), ("n", item.name))
        ]
        if not rows:
            return
        counts: Counter[tuple[str, str, int]] = Counter()
        for row in await connection.fetch(_STEMS, *map(list, zip(*rows, strict=True))):
            counts[fold(row["lexeme"]), row["field"], row["key"]] += row["count"]
        await connection.executemany(
            'INSERT INTO search_postings (term, field, passage, count) VALUES ($1, $2::text::"char", $3, $4)'
            " ON CONFLICT DO NOTHING",
            [(*key, count) for key, count in counts.items() if len(key[0].encode()) < _MAX_TERM],
        )

    async def delete(self, site: str, ids: Iterable[str] | None = None) -> int:
        statement, arguments = "DELETE FROM search_items WHERE site = $1", [site]
        if ids is not None:
            statement, arguments = f"{statement} AND id = ANY($2::text[])", [site, list(ids)]  # type: ignore[list-item]
        done = await self._pool.execute(statement, *arguments)
        await self._measure()
        return int(done.rsplit(" ", 1)[-1])

    # Reading

    async def get(self, site: str, item_id: str) -> Item | None:
        row = await self._pool.fetchval("SELECT item FROM search_items WHERE site = $1 AND id = $2", site, item_id)
        return msgspec.json.decode(row, type=Item) if row else None

    async def listed(self, site: str) -> AsyncIterator[tuple[str, str, str]]:
        statement = "SELECT id, fingerprint, source FROM search_items WHERE site = $1"
        for row in await self._pool.fetch(statement, site):
            yield row["id"], row["fingerprint"], row["source"]

    async def sites(self) -> tuple[IndexedSite, ...]:
        rows = await self._pool.fetch(
            "SELECT site, count(*) AS n FROM search_items GROUP BY site ORDER BY n DESC, site"
        )
        kinds = await self._pool.fetch(
            "SELECT site, t AS kind, count(*) AS n FROM search_items,"
            " jsonb_array_elements_text(labels -> '@type') AS t GROUP BY site, t ORDER BY n DESC, t"
        )
        return tuple(
            IndexedSite(
                row["site"], row["n"], {kind["kind"]: kind["n"] for kind in kinds if kind["site"] == row["site"]}
            )
            for row in rows
        )

    async def fields(self) -> Fields:
        found: dict[str, set[str]] = {}
        for row in await self._pool.fetch("SELECT kind, name FROM search_fields WHERE kind <> 'space:'"):
            found.setdefault(row["kind"], set()).add(row["name"])
        return Fields(**{kind: frozenset(names) for kind, names in found.items()})

    async def count(self, where: tuple[Condition, ...]) -> int:
        sql = Where()
        condition = sql.all(where)
        return int(
            await self._pool.fetchval(f"SELECT count(*) FROM search_items AS i WHERE {condition}", *sql.arguments)
        )

    async def locate(self, place: str) -> tuple[float, float] | None:
        sql = Where()
        statement = f"SELECT avg(lat), avg(lon) FROM search_items AS i WHERE lat IS NOT NULL AND {sql.one(In(place))}"
        row = await self._pool.fetchrow(statement, *sql.arguments)
        return (row[0], row[1]) if row[0] is not None else None

    async def search(self, query: SearchQuery) -> Found:
        coverage = await self.coverage()
        if not query.text.strip():
            return await self._listing(query, coverage)
        ranked = await self._ranked(query)
        owners = await self._owners([item.key for item in ranked])
        best: dict[int, Ranked] = {}
        for item in ranked:
            if item.score >= query.min_score and item.key in owners:
                best.setdefault(owners[item.key], item)
        page = dict(list(best.items())[query.start : query.start + query.limit])
        items = await self._items(list(page))
        texts = await self._texts([item.key for item in page.values()])
        hits = tuple(
            Hit(items[key], item.score, texts.get(item.key, ""), round(item.lexical, 4), item.semantic)
            for key, item in page.items()
            if key in items
        )
        facets = await self._facets(query.facets, "i.key = ANY($1::bigint[])", [list(best)])
        return Found(hits, len(best), facets, coverage)

    async def _listing(self, query: SearchQuery, coverage: float) -> Found:
        sql = Where()
        where = sql.all(query.where)
        total = await self.count(query.where)
        rows = await self._pool.fetch(
            f"SELECT i.key, i.item, p.body FROM search_items AS i JOIN search_passages AS p ON p.item = i.key"
            f" AND p.ordinal = 0 WHERE {where} ORDER BY i.born DESC, i.key"
            f" LIMIT {query.limit:d} OFFSET {query.start:d}",
            *sql.arguments,
        )
        hits = tuple(Hit(msgspec.json.decode(row["item"], type=Item), 100.0, row["body"], 1.0) for row in rows)
        return Found(hits, total, await self._facets(query.facets, where, sql.arguments), coverage)

    async def _ranked(self, query: SearchQuery) -> list[Ranked]:
        depth = max(DEPTH, 2 * (query.start + query.limit))
        weights, highest = await self._weights(query.text)
        lexical = await self._best(weights, highest, query.where, None, depth)
        vector, liking = await self._questions.of(query.text), await self._questions.of(query.liking)
        if vector is None or self._embedder is None:
            return fused(lexical, {}, floor=0.0, semantic=False)
        near = await self._nearest(vector, query.where, depth)
        floor = self._embedder.floor
        count = query.start + query.limit
        shares = balanced(lexical)
        unlike = contenders(shares, above_floor(near, floor), depth, count)
        compared = await self._cosines(vector, unlike)
        wanted = contenders(above_floor(near | compared, floor), shares, depth, count)
        lexical |= await self._best(weights, highest, (), wanted, depth)
        unknown = set(unlike) - compared.keys()  # no vector yet
        near |= compared
        liked = await self._cosines(liking, list(near)) if liking is not None else None
        return fused(lexical, near, floor=floor, semantic=True, unknown=unknown, liking=liked)

    async def _weights(self, text: str) -> tuple[list[tuple[str, str, float]], float]:
        """The weight of each term and field by rarity, and their maximum score together."""
        language = language_of(text)
        names = await self._names(text, (language,))
        having = await self._having(names)
        known = {term for term, _ in having}
        if language not in STEMMERS and any(known.isdisjoint(item) for item in names):
            # Its words may still be of the site's language: "recipes with Kraut".
            others = await self._names(text, READ)
            names = [other if known.isdisjoint(item) else item for item, other in zip(names, others, strict=True)]
            having = await self._having(names)
        weights: list[tuple[list[str], str, float]] = []
        strange = 0
        for item in names:
            # Its rarity, synonyms included, in texts and names together, as in BM25F.
            many = max(having.get((name, field), 0) for name in item for field in "bn")
            strange += not many
            for field, weight in (("b", 1.0), ("n", NAME_WEIGHT)):
                if there := [name for name in item if (name, field) in having]:
                    weights.append((there, field, weight * rarity(self._size[0], many)))
        least = COMMON * max((weight for _, _, weight in weights), default=0.0)
        weights = [item for item in weights if item[2] >= least]
        worth = unknown([weight for _, _, weight in weights])
        highest = (sum(weight for _, _, weight in weights) + worth * strange) * (_K1 + 1)
        return [(name, field, weight) for there, field, weight in weights for name in there], highest

    async def _having(self, names: Sequence[tuple[str, ...]]) -> dict[tuple[str, str], int]:
        """How many passages have each of these terms, by field."""
        rows = await self._pool.fetch(
            "SELECT term, field::text AS field, count(*) AS n FROM search_postings"
            " WHERE term = ANY($1::text[]) GROUP BY term, field",
            list({name for item in names for name in item}),
        )
        return {(row["term"], row["field"]): row["n"] for row in rows}

    async def _names(self, text: str, languages: Sequence[str]) -> list[tuple[str, ...]]:
        """Each word of a text as the index has it, with its stems in these languages and its synonyms."""
        text = telling(text)
        texts = [("english", _worded(text))]
        for word, others in alike(text, likenesses()).items():
            texts += [("english", _worded(word)), ("english", _worded(others))]
        for language in languages:
            for word in dict.fromkeys(text.split()) if language in STEMMERS else ():
                texts += [("english", _worded(word)), (STEMMERS[language], segmented(_clean(word)))]
        rows = await self._pool.fetch(
            "SELECT t.n, u.lexeme, u.positions"
            " FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS t (configuration, words, n),"
            " unnest(to_tsvector(t.configuration::regconfig, t.words)) AS u",
            [configuration for configuration, _ in texts],
            [words for _, words in texts],
        )
        found: list[list[str]] = [[] for _ in texts]
        for row in rows:
            found[row["n"] - 1] += [fold(row["lexeme"])] * len(row["positions"] or (1,))
        others_of: dict[str, list[str]] = {}
        for at in range(1, len(texts), 2):
            for stem in found[at]:
                others_of.setdefault(stem, []).extend(found[at + 1])
        return [tuple(dict.fromkeys((term, *others_of.get(term, ())))) for term in found[0]]

    async def _best(
        self,
        weights: list[tuple[str, str, float]],
        highest: float,
        where: tuple[Condition, ...],
        keys: list[int] | None,
        depth: int,
    ) -> dict[int, float]:
        if not weights or highest <= 0 or keys == []:
            return {}
        sql = Where(*map(list, zip(*weights, strict=True)))
        conditions = [sql.all(where)]
        if keys is not None:
            conditions.append(f"p.key = ANY({sql.argument(keys, 'bigint[]')})")
        statement = _BEST.format(
            highest=_K1 + 1, k1=_K1, b=_B, mean=max(1.0, self._size[1]), limit=depth,
            join="JOIN search_items AS i ON i.key = p.item" if where else "", where=" AND ".join(conditions),
        )  # fmt: skip
        rows = await self._pool.fetch(statement, *sql.arguments)
        return {row["key"]: min(1.0, row["score"] / highest) for row in rows}

    async def _nearest(self, vector: Vectors, where: tuple[Condition, ...], depth: int) -> dict[int, float]:
        sql = Where(_text(vector))
        condition = sql.all(where)
        distance = f"p.embedding OPERATOR({self._vectors}.<=>) $1::{self._vectors}.halfvec"
        join = "JOIN search_items AS i ON i.key = p.item" if where else ""
        statement = (
            f"SELECT p.key, {distance} AS distance FROM search_passages AS p {join}"
            f" WHERE p.embedding IS NOT NULL AND {condition} ORDER BY {distance} LIMIT {depth:d}"
        )
        async with self._pool.acquire() as connection, connection.transaction():
            await connection.execute(f"SET LOCAL hnsw.ef_search = {min(1000, max(128, depth)):d}")
            with contextlib.suppress(asyncpg.UndefinedObjectError):  # pgvector before 0.8
                async with connection.transaction():
                    await connection.execute("SET LOCAL hnsw.iterative_scan = strict_order")
            rows = await connection.fetch(statement, *sql.arguments)
        return {row["key"]: 1.0 - row["distance"] for row in rows}

    async def _cosines(self, vector: Vectors, keys: list[int]) -> dict[int, float]:
        if not keys:
            return {}
        rows = await self._pool.fetch(
            f"SELECT key, embedding OPERATOR({self._vectors}.<=>) $1::{self._vectors}.halfvec AS distance"
            " FROM search_passages WHERE key = ANY($2::bigint[]) AND embedding IS NOT NULL",
            _text(vector),
            keys,
        )
        return {row["key"]: 1.0 - row["distance"] for row in rows}

    async def _facets(self, fields: Sequence[str], where: str, arguments: list[Any]) -> tuple[Facet, ...]:
        found = []
        for field in fields:
            rows = await self._pool.fetch(
                f"SELECT v, count(*) AS n FROM search_items AS i,"
                f" jsonb_array_elements_text(i.labels -> ${len(arguments) + 1}::text) AS v"
                f" WHERE {where} GROUP BY v ORDER BY n DESC, v LIMIT 50",
                *arguments,
                field,
            )
            found.append(Facet(field, tuple((row["v"], row["n"]) for row in rows)))
        return tuple(found)

    async def _owners(self, keys: list[int]) -> dict[int, int]:
        rows = await self._pool.fetch("SELECT key, item FROM search_passages WHERE key = ANY($1::bigint[])", keys)
        return {row["key"]: row["item"] for row in rows}

    async def _items(self, keys: list[int]) -> dict[int, Item]:
        rows = await self._pool.fetch("SELECT key, item FROM search_items WHERE key = ANY($1::bigint[])", keys)
        return {row["key"]: msgspec.json.decode(row["item"], type=Item) for row in rows}

    async def _texts(self, keys: list[int]) -> dict[int, str]:
        rows = await self._pool.fetch("SELECT key, body FROM search_passages WHERE key = ANY($1::bigint[])", keys)
        return {row["key"]: row["body"] for row in rows}

    async def similarities(self, text: str, others: Sequence[str]) -> Sequence[float] | None:
        return await self._questions.similarities(text, others)

    # Vectors in the background

    async def settled(self) -> None:
        self._wake()
        await self._background.settled()

    async def close(self) -> None:
        await self._background.stop()
        if self._made is not None:
            await self._made.close()

    def _wake(self) -> None:
        if self._embedder is not None:
            self._background.wake()

    async def _embed_missing(self) -> None:
        while self._background.pending():
            try:
                while await self._embed_some():
                    pass
            except (SabirError, OSError, asyncpg.PostgresError) as failed:
                logger.warning("Vectors are not being computed: %s", failed)

    async def _embed_some(self) -> bool:
        """Embed some passages that no other process is working on; False when none is left."""
        assert self._embedder is not None
        async with self._pool.acquire() as connection, connection.transaction():
            rows = await connection.fetch(
                "SELECT key, name, body FROM search_passages WHERE embedding IS NULL"
                f" ORDER BY key LIMIT {_BATCH} FOR UPDATE SKIP LOCKED"
            )
            if not rows:
                return False
            vectors = await self._embedder.embed([embedded(row["name"], row["body"]) for row in rows])
            await connection.executemany(
                f"UPDATE search_passages SET embedding = $2::text::{self._vectors}.halfvec WHERE key = $1",
                [(row["key"], _text(vector)) for row, vector in zip(rows, vectors, strict=True)],
            )
        return True

    # Facts about the whole index

    @property
    def _pool(self) -> Any:
        if self._made is None:
            raise StoreUnavailable("the search database is not open")
        return self._made

    async def _measure(self) -> None:
        row = await self._pool.fetchrow("SELECT count(*), coalesce(avg(length), 1.0)::float8 FROM search_passages")
        self._size = (max(1, row[0]), row[1])

    async def coverage(self) -> float:
        if self._embedder is None:
            return 1.0
        missing = await self._pool.fetchval("SELECT count(*) FROM search_passages WHERE embedding IS NULL")
        return max(0.0, 1.0 - int(missing) / self._size[0])

    async def _same_space(self, connection: Any, size: int) -> None:
        """Remove vectors of another model, to compute them again."""
        if self._embedder is None:
            return
        space = f"{self._embedder.name}:{size}"
        before = await connection.fetchval("SELECT name FROM search_fields WHERE kind = 'space:'")
        if before == space:
            return
        if before is not None:
            await connection.execute("DROP INDEX search_passages_near")
            await connection.execute(
                "ALTER TABLE search_passages ALTER COLUMN embedding"
                f" TYPE {self._vectors}.halfvec({size}) USING NULL::{self._vectors}.halfvec({size})"
            )
            await connection.execute(
                "CREATE INDEX search_passages_near ON search_passages"
                f" USING hnsw (embedding {self._vectors}.halfvec_cosine_ops)"
            )
            await connection.execute("DELETE FROM search_fields WHERE kind = 'space:'")
        await connection.execute("INSERT INTO search_fields (kind, name) VALUES ('space:', $1)", space)


def _row(item: Item, found: Attributes) -> tuple[Any, ...]:
    dates = {field: (span.start, span.end) for field, span in found.dates.items()}
    lat, lon = found.point or (None, None)
    words = {field: sorted(values) for field, values in found.words.items()}
    return (
        item_key(item.site, item.id), item.site, item.id, msgspec.json.encode(item), item.fingerprint,
        item.provenance.source, sorted(found.types), _json(words), _json(found.numbers), _json(dates),
        _json(found.labels), sorted(found.places), sorted(found.has), lat, lon,
        found.dates["date"].start if "date" in found.dates else 0.0,
    )  # fmt: skip


def _json(value: Any) -> str:
    return _clean(msgspec.json.encode(value).decode())


def _clean(text: str) -> str:
    """Text without NUL, which PostgreSQL cannot store, neither as a character nor as an escape in JSON."""
    return text.replace("\x00", " ").replace("\\u0000", " ")


def _worded(text: str) -> str:
    """A text for lookup by words: without accents, and with unspaced scripts split."""
    return segmented(fold(_clean(text)))


def _text(vector: Vectors) -> str:
    return "[" + ",".join(f"{value:.6f}" for value in vector.tolist()) + "]"
