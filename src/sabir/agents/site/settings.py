"""The configuration of sites: sources and storage. Separate from ``sites``, which needs the search extra."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

FOLDER: Final = "index"  # in the home folder


class SiteSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One site: its name, and the files, folders or addresses that are read when the gateway starts."""

    name: str
    source: str | tuple[str, ...] = ()
    description: str = ""
    model: str | None = None  # the id of the agent that helps to rank and write; None: that of ``search``
    base: str = ""  # the address under which a folder's files are published
    mapping: dict[str, str] = {}  # for CSV: from properties to columns, or = and a constant
    crawl: bool = False  # whether the start follows links if the address has no sitemap
    max_pages: Annotated[int, Meta(ge=1)] = 50_000  # pages that the start reads at most
    examples: tuple[str, ...] = ()  # example questions for its card; generated from its items if empty

    @property
    def sources(self) -> tuple[str, ...]:
        return (self.source,) if isinstance(self.source, str) else self.source


class EmbeddingSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An OpenAI-compatible endpoint that computes embeddings."""

    url: str
    model: str
    key: str | None = None  # may be env:NAME
    size: int | None = None  # dimension of its vectors; None: it is asked at the start
    floor: float = 0.1  # the cosine similarity of unrelated texts in this model
    seconds: float = 30.0

    def __repr__(self) -> str:
        return f"EmbeddingSettings(url={self.url!r}, model={self.model!r})"  # never the key


class SearchSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where sites are stored, and what helps to search them."""

    index: str | None = None  # postgresql://…; None: in the home folder
    embeddings: EmbeddingSettings | bool = True  # true: the bundled model; false: words only
    model: str | None = None  # the id of the agent that helps to rank and write
