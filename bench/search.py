"""Hybrid search on 10,000 and 100,000 items with 384-dimensional vectors, compared with LanceDB and chromadb.

    python bench/search.py [--items 10000 100000] [--queries 300] [--engines sabir lancedb chromadb]

Each engine runs in its own process, peers in their own environment (``.venvs/``), on the same synthetic items: words by
Zipf's law, vectors in clusters. Prints build time, memory, query p50 and p99 (words and meaning together; chromadb has
meaning alone), recall@10 of the vectors, growth from the smaller to the larger number of items, and the ratio of
queries per second to the best peer. Exits with 1 if Sabir is slower than the best hybrid peer at the larger size, or
grows at least linearly.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Protocol

import numpy as np

SIZE = 384
VOCABULARY = 20_000
WORDS = 40
ROOT = Path(__file__).resolve().parent.parent
HYBRID = ("lancedb",)  # chromadb's embedded mode has no full-text search to combine
PEERS = {"lancedb": ("lancedb", "pyarrow", "numpy"), "chromadb": ("chromadb", "numpy")}


class Data:
    """Items and queries, the same in every process."""

    def __init__(self, count: int, queries: int) -> None:
        rng = np.random.default_rng(7)
        centres = rng.normal(size=(200, SIZE)).astype(np.float32)
        self.vectors = _unit(
            centres[rng.integers(0, 200, count)] + 0.8 * rng.normal(size=(count, SIZE)).astype(np.float32)
        )
        ranks = np.arange(1, VOCABULARY + 1)
        law = (1 / ranks) / (1 / ranks).sum()
        drawn = rng.choice(VOCABULARY, size=(count, WORDS), p=law)
        self.texts = [" ".join(f"w{number}x" for number in row) for row in drawn]
        self.prices = rng.integers(1, 1000, count).astype(float)
        of = rng.integers(0, count, queries)
        noise = rng.normal(size=(queries, SIZE)).astype(np.float32)
        self.query_vectors = _unit(self.vectors[of] + 0.05 * noise)
        # Three words of an item: one common, two random.
        self.query_texts = [" ".join([f"w{min(drawn[at])}x", *(f"w{word}x" for word in drawn[at][:2])]) for at in of]
        # In slices, because the whole product of 100,000 rows would itself count as memory.
        self.nearest = [set(np.argsort(-(self.vectors @ query))[:10].tolist()) for query in self.query_vectors]


def _unit(rows: np.ndarray) -> np.ndarray:
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


class Engine(Protocol):
    """The interface of a measured engine."""

    def build(self, data: Data, folder: str) -> None: ...
    def hybrid(self, text: str, vector: np.ndarray) -> list[int]: ...
    def nearest(self, vector: np.ndarray) -> list[int]: ...


class Sabir:
    def build(self, data: Data, folder: str) -> None:
        import asyncio

        from sabir.search import Item, LocalIndex, MiniLM, Range, SearchQuery

        class Given:
            """The vectors of the items, by the number in their names."""

            name, size, floor = "given", SIZE, 0.0

            async def embed(self, texts: Any) -> Any:
                return np.stack([data.vectors[int(text.split(".", 1)[0].split()[1])] for text in texts])

        self.query, self.range = SearchQuery, Range
        self.index = LocalIndex(folder, Given())
        self.model = MiniLM()

        async def fill() -> None:
            for start in range(0, len(data.texts), 2_000):
                stop = min(start + 2_000, len(data.texts))
                await self.index.put(
                    [
                        Item(str(at), "bench", f"Item {at}", ("Product",), text=data.texts[at],
                             fields={"offers": {"price": float(data.prices[at])}})
                        for at in range(start, stop)
                    ]
                )  # fmt: skip
            await self.index.settled()

        asyncio.run(fill())

    def hybrid(self, text: str, vector: np.ndarray) -> list[int]:
        return [int(hit.item.id) for hit in self.index.search_now(self.query(text), vector).hits]

    def filtered(self, text: str, vector: np.ndarray, high: float) -> list[int]:
        where = (self.range("price", None, high),)
        return [int(hit.item.id) for hit in self.index.search_now(self.query(text, where), vector).hits]

    def embedded(self, text: str, vector: np.ndarray) -> list[int]:
        self.model.embed_now([text])
        return self.hybrid(text, vector)

    def nearest(self, vector: np.ndarray) -> list[int]:
        hits = self.index.search_now(self.query("nothingatall"), vector).hits
        return [int(hit.item.id) for hit in hits]


class LanceDB:
    def build(self, data: Data, folder: str) -> None:
        import lancedb
        import pyarrow as pa
        from lancedb.rerankers import RRFReranker

        schema = pa.schema(
            [
                ("id", pa.int64()),
                ("text", pa.string()),
                ("price", pa.float64()),
                ("vector", pa.list_(pa.float32(), SIZE)),
            ]
        )
        rows = pa.table(
            {
                "id": np.arange(len(data.texts)),
                "text": data.texts,
                "price": data.prices,
                "vector": pa.FixedSizeListArray.from_arrays(pa.array(data.vectors.ravel()), SIZE),
            },
            schema=schema,
        )
        self.table = lancedb.connect(folder).create_table("items", rows)
        self.table.create_index(metric="cosine", vector_column_name="vector", index_type="IVF_HNSW_SQ")
        self.table.create_fts_index("text", use_tantivy=False)
        self.reranker = RRFReranker()

    def hybrid(self, text: str, vector: np.ndarray) -> list[int]:
        found = self.table.search(query_type="hybrid", vector_column_name="vector").vector(vector).text(text)
        rows = found.rerank(self.reranker).limit(10).select(["id", "text"]).to_arrow()
        return rows.column("id").to_pylist()

    def nearest(self, vector: np.ndarray) -> list[int]:
        found = self.table.search(vector, vector_column_name="vector").metric("cosine")  # as hybrid has it
        return found.limit(10).select(["id"]).to_arrow().column("id").to_pylist()


class Chroma:
    def build(self, data: Data, folder: str) -> None:
        import chromadb

        client = chromadb.PersistentClient(folder, settings=chromadb.Settings(anonymized_telemetry=False))
        self.table = client.create_collection("items", metadata={"hnsw:space": "cosine"}, embedding_function=None)
        for start in range(0, len(data.texts), 2_000):
            stop = min(start + 2_000, len(data.texts))
            self.table.add(
                ids=[str(at) for at in range(start, stop)],
                embeddings=data.vectors[start:stop],
                documents=data.texts[start:stop],
            )

    def hybrid(self, text: str, vector: np.ndarray) -> list[int]:
        found = self.table.query(query_embeddings=[vector.tolist()], n_results=10, include=["documents"])
        return [int(item) for item in found["ids"][0]]

    def nearest(self, vector: np.ndarray) -> list[int]:
        return self.hybrid("", vector)


ENGINES: dict[str, type[Any]] = {"sabir": Sabir, "lancedb": LanceDB, "chromadb": Chroma}


def resident() -> float:
    """Megabytes of this process."""
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def timed(call: Any, data: Data, *more: Any) -> dict[str, float]:
    pairs = list(zip(data.query_texts, data.query_vectors, strict=True))
    for text, vector in pairs[:20]:
        call(text, vector, *more)
    times = []
    for text, vector in pairs:
        at = time.perf_counter()
        call(text, vector, *more)
        times.append((time.perf_counter() - at) * 1000)
    times.sort()
    return {
        "p50": statistics.median(times),
        "p99": times[int(len(times) * 0.99) - 1],
        "rate": 1000 / statistics.fmean(times),
    }


def measure(name: str, items: int, queries: int) -> dict[str, Any]:
    """One engine at one size; runs in its own process."""
    data = Data(items, queries)
    engine = ENGINES[name]()
    with tempfile.TemporaryDirectory() as folder:
        before, at = resident(), time.perf_counter()
        engine.build(data, folder)
        seconds = time.perf_counter() - at
        result: dict[str, Any] = {
            "build": items / seconds,
            "memory": resident() - before,
            "hybrid": timed(engine.hybrid, data),
        }
        right = [
            len(near.intersection(engine.nearest(q))) for near, q in zip(data.nearest, data.query_vectors, strict=True)
        ]
        result["recall"] = sum(right) / (10 * queries)
        if name == "sabir":
            result["embedded"] = timed(engine.embedded, data)
            result["filter 1%"] = timed(engine.filtered, data, 10.0)
            result["filter 50%"] = timed(engine.filtered, data, 500.0)
    return result


def run(name: str, items: int, queries: int) -> dict[str, Any] | None:
    python = Path(sys.executable)
    if name in PEERS:
        sys.path.insert(0, str(ROOT / "bench"))
        from venvs import python_with

        try:
            python = python_with(f"search-{name}", *PEERS[name])
        except subprocess.CalledProcessError:
            print(f"{name} does not install here")
            return None
    command = [str(python), __file__, "--measure", name, "--items", str(items), "--queries", str(queries)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"{name} failed: {done.stderr.strip().splitlines()[-1:]}")
        return None
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--items", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--engines", nargs="+", default=list(ENGINES))
    parser.add_argument("--measure")
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.measure, options.items[0], options.queries)))
        return 0
    found: dict[tuple[str, int], dict[str, Any]] = {}
    print(f"{'engine':<10}{'items':>8}{'build/s':>9}{'MB':>7}{'p50 ms':>8}{'p99 ms':>8}{'q/s':>7}{'recall@10':>11}")
    for items in options.items:
        for name in options.engines:
            result = run(name, items, options.queries)
            if result is None:
                continue
            found[name, items] = result
            hybrid = result["hybrid"]
            print(
                f"{name:<10}{items:>8}{result['build']:>9.0f}{result['memory']:>7.0f}{hybrid['p50']:>8.2f}"
                f"{hybrid['p99']:>8.2f}{hybrid['rate']:>7.0f}{result['recall']:>11.3f}",
                flush=True,
            )
            for kind in ("embedded", "filter 1%", "filter 50%"):
                if kind in result:
                    row = result[kind]
                    print(f"  {kind:<32}{row['p50']:>8.2f}{row['p99']:>8.2f}{row['rate']:>7.0f}", flush=True)
    return verdict(found, options.items)


def verdict(found: dict[tuple[str, int], dict[str, Any]], sizes: list[int]) -> int:
    small, large = min(sizes), max(sizes)
    if ("sabir", large) not in found:
        return 1
    ours = found["sabir", large]["hybrid"]
    right = True
    peers = {name: found[name, large] for name in PEERS if (name, large) in found}
    for name, peer in peers.items():
        ratio = ours["rate"] / peer["hybrid"]["rate"]
        alone = "" if name in HYBRID else " (vectors alone)"
        recalls = f"recall {found['sabir', large]['recall']:.3f} against {peer['recall']:.3f}{alone}"
        print(f"sabir / {name} at {large}: {ratio:.2f} times the queries a second, {recalls}")
        right = right and (ratio >= 1 or name not in HYBRID)
    if small != large and ("sabir", small) in found:
        growth = ours["p50"] / found["sabir", small]["hybrid"]["p50"]
        print(f"growth from {small} to {large}: {growth:.2f} times the time for {large / small:.0f} times the items")
        right = right and growth < large / small
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
