"""The full-text part of an index (tantivy): items and passages as documents, conditions as queries, BM25.

One document is one passage; each carries the filterable attributes of its whole item, and the first carries the item
itself.
Not durable until ``Writer`` is left without an error.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import msgspec

from sabir.errors import MissingExtra, StoreUnavailable
from sabir.private_files import own_folder
from sabir.search.items.attributes import Attributes
from sabir.search.items.item import Item
from sabir.search.query import places
from sabir.search.query.conditions import (
    AnyOf,
    Condition,
    During,
    Has,
    In,
    Is,
    Near,
    Not,
    OfType,
    OnSite,
    Range,
    gram,
    keys_of,
    number_fields,
    place_keys,
)
from sabir.search.query.glossary import language_of, likenesses, telling
from sabir.search.query.words import alike, segmented

from .passages import Passage, item_key
from .rank import rarity, unknown
from .stems import READ, STEMMERS, language_of_item, stems

try:
    import tantivy
    from tantivy import Occur
except ImportError as missing:
    raise MissingExtra("the search index", "search") from missing

NAME_WEIGHT: Final = 0.5  # of a word in the name, in addition to the text
_TEXTS: Final = {"body": 1.0, "name": NAME_WEIGHT}
COMMON: Final = 0.05  # share of the rarest word's weight below which a word is dropped
_K1: Final = 1.2  # tantivy's, for the maximum of BM25
_ANALYZER: Final = "words"
_HEAP: Final = 64_000_000
_FEW: Final = 250
_PATIENCE: Final = 60.0  # seconds to wait for another writer

Doc = Any  # tantivy's addresses, documents and queries; its stubs are partial


class Terms(msgspec.Struct, frozen=True):
    """A query's words as the index has them, and the maximum BM25 score for them."""

    query: Doc
    highest: float


class Lexical:
    """Documents on disk (or in memory, without a directory) and their reader."""

    def __init__(self, directory: Path | None, language: str = "english") -> None:
        self._schema = _schema()
        if directory is not None:
            own_folder(directory)
        self._index = tantivy.Index(self._schema, path=str(directory) if directory else None)
        self._analyzer = (
            tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
            .filter(tantivy.Filter.remove_long(60))
            .filter(tantivy.Filter.lowercase())
            .filter(tantivy.Filter.ascii_fold())
            .filter(tantivy.Filter.stopword(language))
            .filter(tantivy.Filter.stemmer(language))
            .build()
        )
        self._index.register_tokenizer(_ANALYZER, self._analyzer)
        self._index.reload()

    @contextmanager
    def writer(self) -> Iterator[Writer]:
        """A writer; its changes become durable and visible when the block ends, or not at all."""
        inner = self._writer()
        try:
            yield Writer(inner, self._schema)
            inner.commit()
        except BaseException:
            inner.rollback()
            raise
        finally:
            inner.wait_merging_threads()
        self._index.reload()

    def _writer(self) -> Doc:
        """tantivy's writer, of which there is one at a time across all processes; waits for it."""
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                return self._index.writer(_HEAP, 1)
            except ValueError as busy:
                if "lock" not in str(busy).lower() or time.monotonic() > deadline:
                    raise StoreUnavailable("another process is writing to the search index") from busy
            time.sleep(0.05)  # runs on its own thread

    def reload(self) -> None:
        self._index.reload()

    def reader(self) -> Reader:
        """A snapshot of the documents."""
        return Reader(self._index, self._schema, self._analyzer)


class Writer:
    """Adds and removes documents in one commit."""

    def __init__(self, inner: Doc, schema: Doc) -> None:
        self._inner, self._schema = inner, schema

    def add(self, item: Item, found: Attributes, parts: Sequence[Passage]) -> None:
        language = language_of_item(item)
        shared: dict[str, Any] = {
            "uid": [_uid(item.site, item.id)],
            "site": [item.site],
            "item_key": [item_key(item.site, item.id)],
            "name": [" ".join((segmented(item.name), *stems(item.name, language)))],
            "born": [found.dates["date"].start if "date" in found.dates else 0.0],
            "w": [_words(found)],
            "n": [_numbers(found)],
            "v": [{_safe(field): list(values) for field, values in found.labels.items()}],
        }
        if found.point:
            shared["lat"], shared["lon"] = [found.point[0]], [found.point[1]]
        for part in parts:
            fields = {**shared, "key": [part.key], "first": [int(part.ordinal == 0)]}
            fields["body"] = [" ".join((segmented(part.text), *stems(part.text, language)))]
            fields["passage"] = [msgspec.json.encode((item.name, part.text))]
            if part.ordinal == 0:
                fields["item"] = [msgspec.json.encode(item)]
                fields["about"] = [msgspec.json.encode((item.id, item.fingerprint, item.provenance.source))]
            self._inner.add_document(tantivy.Document.from_dict(fields, self._schema))

    def remove(self, site: str, item_id: str) -> None:
        self._inner.delete_documents_by_term("uid", _uid(site, item_id))

    def remove_site(self, site: str) -> None:
        self._inner.delete_documents_by_term("site", site)


class Reader:
    """Queries over one state of the index."""

    def __init__(self, index: Doc, schema: Doc, analyzer: Doc) -> None:
        self._index, self._schema, self._analyzer = index, schema, analyzer
        self._searcher = index.searcher()

    def __len__(self) -> int:
        return int(self._searcher.num_docs)

    def terms(self, text: str) -> Terms | None:
        """The text as a query of its words; None if none of them is in the index."""
        language = language_of(text)
        text = telling(text)
        others = {
            stem: [other for other in self._analyzer.analyze(segmented(words)) if other != stem]
            for word, words in alike(text, likenesses()).items()
            for stem in self._analyzer.analyze(word)
        }
        terms = self._analyzer.analyze(segmented(text))[:64]
        known, strange = self._weighed(terms, self._with_stems(text, others, (language,)))
        if strange and language not in STEMMERS:  # its words may still be of the site's language: "recipes with Kraut"
            known, strange = self._weighed(terms, self._with_stems(text, others, READ, strange))
        # A word in nearly all passages costs the most time and changes nothing.
        least = COMMON * max((worth for _, worth in known), default=0.0)
        kept = [(query, worth) for query, worth in known if worth >= least]
        worth = unknown([worth for _, worth in kept])
        for term in strange:
            # A word that nothing has may be misspelt; it counts even if nothing is similar.
            if len(term) > 4:
                fuzzy = [tantivy.Query.fuzzy_term_query(self._schema, field, term, distance=1) for field in _TEXTS]
                like = tantivy.Query.disjunction_max_query(fuzzy)
                kept.append((tantivy.Query.boost_query(like, worth), worth))
        if not kept:
            return None
        highest = sum(worth for _, worth in kept) + worth * sum(len(term) <= 4 for term in strange)
        query = tantivy.Query.boolean_query([(Occur.Should, query) for query, _ in kept])
        return Terms(query, max(highest * (_K1 + 1), 1e-9))

    def _with_stems(
        self, text: str, others: Mapping[str, Sequence[str]], languages: Sequence[str], only: Sequence[str] = ()
    ) -> dict[str, list[str]]:
        """``others`` with the stems of words in these languages; only of the words in ``only``, or of all."""
        found = {stem: list(words) for stem, words in others.items()}
        for word in text.split():
            own = [
                item for language in languages for one in stems(word, language) for item in self._analyzer.analyze(one)
            ]
            for stem in self._analyzer.analyze(word):
                if own and (not only or stem in only):
                    found[stem] = [
                        *found.get(stem, ()),
                        *(form for form in dict.fromkeys(own) if form != stem),
                    ]
        return found

    def _weighed(
        self, terms: Sequence[str], others: Mapping[str, Sequence[str]]
    ) -> tuple[list[tuple[Doc, float]], list[str]]:
        """The known words with their weights, and the unknown ones; one of ``others`` is enough."""
        found: list[tuple[Doc, float]] = []
        strange: list[str] = []
        count = max(1, len(self))
        for term in terms:
            names = (term, *others.get(term, ()))
            having = {(field, name): self._searcher.doc_freq(field, name) for field in _TEXTS for name in names}
            if not any(having.values()):
                strange.append(term)
            # Its rarity in both together (BM25F): a word in few names is not rare because of that.
            rare = rarity(count, max(having.values()))
            for field, weight in _TEXTS.items():
                worth = weight * rare
                queries = [
                    self._worth(field, name, worth, count, many) for name in names if (many := having[field, name])
                ]
                if queries:
                    best = queries[0] if len(queries) == 1 else tantivy.Query.disjunction_max_query(queries)
                    found.append((best, worth))
        return found, strange

    def _worth(self, field: str, term: str, worth: float, count: int, many: int) -> Doc:
        own = math.log(1 + (count - many + 0.5) / (many + 0.5))  # tantivy's weight for it
        return tantivy.Query.boost_query(tantivy.Query.term_query(self._schema, field, term), worth / max(own, 1e-6))

    def best(self, terms: Terms, where: Doc | None, count: int) -> dict[int, float]:
        """The best matching passages, each with its share of the maximum score."""
        query = terms.query if where is None else _both(terms.query, where)
        hits = self._searcher.search(query, count, count=False).hits
        keys = self._searcher.fast_field_values("key", [address for _, address in hits])
        return {key: min(1.0, score / terms.highest) for (score, _), key in zip(hits, keys, strict=True)}

    def shares(self, terms: Terms, keys: Sequence[int]) -> dict[int, float]:
        """The same for given passages."""
        return self.best(terms, self._keyed(keys), len(keys)) if keys else {}

    def count(self, where: Doc | None, *, items: bool = False) -> int:
        """How many passages, or items, meet a query."""
        query = _both(self._first(), where) if items else where
        query = query if query is not None else tantivy.Query.all_query()
        return int(self._searcher.search(query, 1).count)

    def keys(self, where: Doc | None, limit: int) -> list[int]:
        """The keys of the passages that meet a query."""
        addresses = self._addresses(where, limit)
        return [int(key) for key in self._searcher.fast_field_values("key", addresses)]

    def allowed(self, where: Doc, keys: Sequence[int]) -> list[int]:
        """Those of the given passages that meet a query."""
        return self.keys(_both(where, self._keyed(keys)), len(keys)) if keys else []

    def pairs(self) -> tuple[list[int], list[int]]:
        """The keys of all passages and, at the same positions, the keys of their items."""
        addresses = self._addresses(None, max(1, len(self)))
        columns = (self._searcher.fast_field_values(name, addresses) for name in ("key", "item_key"))
        keys, items = columns
        return keys, items

    def newest(self, where: Doc | None, start: int, limit: int) -> list[tuple[int, int]]:
        """``(passage, item)`` of the first passages of items that meet a query, newest first."""
        query = _both(self._first(), where)
        found = self._searcher.search(query, limit, count=False, order_by_field="born", offset=start)
        addresses = [address for _, address in found.hits]
        own = self._searcher.fast_field_values("key", addresses)
        return list(zip(own, self._searcher.fast_field_values("item_key", addresses), strict=True))

    def passages(self, keys: Sequence[int]) -> dict[int, tuple[str, str]]:
        """``(name, text)`` of passages."""
        found = {}
        for address in self._addresses(self._keyed(keys), len(keys)) if keys else []:
            doc = self._searcher.doc(address)
            found[int(doc.get_first("key"))] = msgspec.json.decode(doc.get_first("passage"), type=tuple[str, str])
        return found

    def items(self, keys: Sequence[int]) -> dict[int, Item]:
        """Items by key."""
        found = {}
        query = _both(self._keyed(keys, "item_key"), self._first()) if keys else None
        for address in self._addresses(query, len(keys)) if keys else []:
            item = msgspec.json.decode(self._searcher.doc(address).get_first("item"), type=Item)
            found[item_key(item.site, item.id)] = item
        return found

    def found(self, keys: Sequence[int]) -> dict[int, tuple[str, Item | None]]:
        """The text of passages, each with its item if it is the item's first."""
        found: dict[int, tuple[str, Item | None]] = {}
        for address in self._addresses(self._keyed(keys), len(keys)) if keys else []:
            doc = self._searcher.doc(address)
            _, text = msgspec.json.decode(doc.get_first("passage"), type=tuple[str, str])
            item = doc.get_first("item")
            found[int(doc.get_first("key"))] = text, msgspec.json.decode(item, type=Item) if item else None
        return found

    def listed(self, site: str) -> Iterator[tuple[str, str, str]]:
        query = tantivy.Query.term_query(self._schema, "site", site)
        for address in self._addresses(_both(self._first(), query), max(1, len(self))):
            yield msgspec.json.decode(self._searcher.doc(address).get_first("about"), type=tuple[str, str, str])

    def counts(self, field: str, where: Doc | None, limit: int = 50) -> tuple[tuple[str, int], ...]:
        """The values of a field over the items that meet a query."""
        query = _both(self._first(), where)
        wanted = {"counts": {"terms": {"field": f"v.{_safe(field)}", "size": limit}}}
        buckets = self._searcher.aggregate(query, wanted)["counts"]["buckets"]
        return tuple((str(bucket["key"]), int(bucket["doc_count"])) for bucket in buckets)

    def site_counts(self) -> tuple[tuple[str, int], ...]:
        wanted = {"counts": {"terms": {"field": "site", "size": 10_000}}}
        buckets = self._searcher.aggregate(self._first(), wanted)["counts"]["buckets"]
        return tuple((str(bucket["key"]), int(bucket["doc_count"])) for bucket in buckets)

    def points(self, where: Doc | None, limit: int) -> list[tuple[int, float, float]]:
        """``(passage, latitude, longitude)`` of what meets a query and has coordinates."""
        addresses = self._addresses(where, limit)
        columns = [self._searcher.fast_field_values(name, addresses) for name in ("key", "lat", "lon")]
        rows = zip(*columns, strict=True)
        return [(int(key), lat, lon) for key, lat, lon in rows if lat is not None and lon is not None]

    def item_keys(self, keys: Sequence[int]) -> Doc:
        """A query for the items of these keys."""
        return self._keyed(keys, "item_key")

    def site(self, site: str) -> Doc:
        return tantivy.Query.term_query(self._schema, "site", site)

    def where(self, conditions: Sequence[Condition]) -> Doc | None:
        """Conditions as one query, or None without conditions."""
        if not conditions:
            return None
        return _scoreless(_all([self._condition(condition) for condition in conditions]))

    def _condition(self, condition: Condition) -> Doc:
        match condition:
            case OfType(types):
                return self._term_set("w._type", types)
            case OnSite(sites):
                return self._term_set("site", sites)
            case Is(field, values):
                sets = [keys for value in values for keys in keys_of(value)]
                name = f"w.{_safe(field.lower())}"
                return _any([_all([self._term(name, key) for key in keys]) for keys in sets])
            case Range():
                return _any([self._range(name, condition) for name in number_fields(condition)])
            case During(field, start, end):
                return self._during(field.lower(), start, end)
            case Near():
                return self._near(condition)
            case In(name):
                return self._term_set("w._place", place_keys(name))
            case Has(words):
                return self._term_set("w._has", [gram(word) for word in words])
            case Not(inner):
                return _without(self._condition(inner))
            case AnyOf(inner):
                return _any([self._condition(item) for item in inner])

    def _term(self, field: str, value: str) -> Doc:
        return tantivy.Query.term_query(self._schema, field, value)

    def _term_set(self, field: str, values: Iterable[str]) -> Doc:
        return _any([self._term(field, value) for value in values])

    def _keyed(self, keys: Sequence[int], field: str = "key") -> Doc:
        # A set is built as an automaton, which only pays off for many keys.
        if len(keys) > _FEW:
            return tantivy.Query.term_set_query(self._schema, field, list(keys))
        return _any([tantivy.Query.term_query(self._schema, field, key) for key in keys])

    def _first(self) -> Doc:
        return _scoreless(tantivy.Query.term_query(self._schema, "first", 1))

    def _range(self, field: str, bounds: Range) -> Doc:
        return self._between(_safe(field), bounds.low, bounds.high, bounds.with_low, bounds.with_high)

    def _between(
        self, name: str, low: float | None, high: float | None, with_low: bool = True, with_high: bool = True
    ) -> Doc:
        left = "{*" if low is None else f"[{_nudged(low, -1 if with_low else 1):.12f}"
        right = "*}" if high is None else f"{_nudged(high, 1 if with_high else -1):.12f}]"
        if low is None and high is None:
            left = "[-1000000000000000.5"
        return self._index.parse_query(f"n.{name}:{left} TO {right}", [])

    def _during(self, field: str, start: float | None, end: float | None) -> Doc:
        begins, ends = _safe(f"{field}:from"), _safe(f"{field}:to")
        clauses = [self._between(begins, None, end, with_high=False)]
        if start is not None:
            over = self._between(ends, start, None, with_low=False)
            clauses.append(_any([over, self._between(begins, start, None)]))
        return _all(clauses)

    def _near(self, near: Near) -> Doc:
        """Exact: the bounding box from the index, the circle by computing distances."""
        height = near.km / 110.5
        width = min(180.0, height / max(0.01, math.cos(math.radians(min(89.0, abs(near.lat) + height)))))
        box = [self._box("lat", near.lat, height), self._box("lon", near.lon, width)]
        if abs(near.lon) + width > 180:
            box = box[:1]
        points = self.points(_all(box), max(1, len(self)))
        centre = (near.lat, near.lon)
        keys = [key for key, lat, lon in points if places.kilometres(centre, (lat, lon)) <= near.km]
        found = self._keyed(keys) if keys else tantivy.Query.empty_query()
        if not near.name:
            return found
        nowhere = _without(tantivy.Query.exists_query("lat"))
        return _any([found, _all([self._term_set("w._place", place_keys(near.name)), nowhere])])

    def _box(self, field: str, middle: float, half: float) -> Doc:
        kind = tantivy.FieldType.Float
        return tantivy.Query.range_query(self._schema, field, kind, middle - half, middle + half)

    def _addresses(self, where: Doc | None, limit: int) -> list[Doc]:
        query = where if where is not None else tantivy.Query.all_query()
        return [address for _, address in self._searcher.search(query, max(1, limit), count=False).hits]


def _schema() -> Doc:
    build = tantivy.SchemaBuilder()
    for name in ("key", "item_key"):
        build.add_unsigned_field(name, stored=True, indexed=True, fast=True)
    build.add_unsigned_field("first", indexed=True, fast=True)
    build.add_float_field("born", fast=True)
    for name in ("lat", "lon"):
        build.add_float_field(name, indexed=True, fast=True)
    build.add_text_field("uid", tokenizer_name="raw", index_option="basic")
    build.add_text_field("site", fast=True, tokenizer_name="raw", index_option="basic")
    build.add_text_field("name", tokenizer_name=_ANALYZER, index_option="freq")
    build.add_text_field("body", tokenizer_name=_ANALYZER, index_option="freq")
    for name in ("passage", "about", "item"):
        build.add_bytes_field(name, stored=True)
    build.add_json_field("w", tokenizer_name="raw", index_option="basic")
    build.add_json_field("n", fast=True, tokenizer_name="raw", index_option="basic")
    build.add_json_field("v", fast=True, tokenizer_name="raw", index_option="basic")
    return build.build()


def _uid(site: str, item_id: str) -> str:
    return f"{site}\n{item_id}"


@lru_cache(maxsize=4_096)
def _safe(field: str) -> str:
    """A field's name as a path of tantivy's JSON fields: no dots, colons or spaces."""
    return re.sub(r"\W", lambda char: f"_{ord(char.group()):x}_", field)


def _words(found: Attributes) -> dict[str, list[str]]:
    words = {_safe(field): sorted(values) for field, values in found.words.items()}
    return words | {"_type": sorted(found.types), "_place": sorted(found.places), "_has": sorted(found.has)}


def _numbers(found: Attributes) -> dict[str, list[float]]:
    numbers = {_safe(field): list(values) for field, values in found.numbers.items()}
    for field, span in found.dates.items():
        numbers[_safe(f"{field}:from")], numbers[_safe(f"{field}:to")] = [span.start], [span.end]
    return numbers


def _nudged(value: float, direction: int) -> float:
    # tantivy 0.27 fails on a JSON range with one integer and one fractional bound, so neither is ever an integer.
    return value + direction * max(abs(value) * 1e-12, 1e-9)


def _all(queries: Sequence[Doc]) -> Doc:
    return queries[0] if len(queries) == 1 else tantivy.Query.boolean_query([(Occur.Must, query) for query in queries])


def _any(queries: Sequence[Doc]) -> Doc:
    if not queries:
        return tantivy.Query.empty_query()
    return (
        queries[0] if len(queries) == 1 else tantivy.Query.boolean_query([(Occur.Should, query) for query in queries])
    )


def _without(query: Doc) -> Doc:
    return tantivy.Query.boolean_query([(Occur.Must, tantivy.Query.all_query()), (Occur.MustNot, query)])


def _scoreless(query: Doc) -> Doc:
    return tantivy.Query.const_score_query(query, 0.0)


def _both(query: Doc, where: Doc | None) -> Doc:
    if where is None:
        return query
    return tantivy.Query.boolean_query([(Occur.Must, query), (Occur.Must, _scoreless(where))])
