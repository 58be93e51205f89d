"""What a site is read from and where it is kept, as configured. Apart from ``sites``, which needs the search extra."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

FOLDER: Final = "index"  # within the home folder


class SiteSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One site: its name, and the files, folders or addresses that it is read from when the gateway starts."""

    name: str
    source: str | tuple[str, ...] = ()
    description: str = ""
    model: str | None = None  # the id of the agent that helps to rank and write; None: that of ``search``
    base: str = ""  # the address that a folder's files are published under
    mapping: dict[str, str] = {}  # for CSV: from properties to columns, or = and a constant
    crawl: bool = False  # whether the start follows links where the address has no sitemap
    max_pages: Annotated[int, Meta(ge=1)] = 50_000  # pages that the start reads at most
    examples: tuple[str, ...] = ()  # questions to try, for its card; made of its items if there are none

    @property
    def sources(self) -> tuple[str, ...]:
        return (self.source,) if isinstance(self.source, str) else self.source


class EmbeddingSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An OpenAI-compatible endpoint that makes vectors of texts."""

    url: str
    model: str
    key: str | None = None  # may be written env:NAME
    size: int | None = None  # the length of its vectors; None: it is asked at the start
    floor: float = 0.1  # the cosine that unrelated texts have with this model
    seconds: float = 30.0

    def __repr__(self) -> str:
        return f"EmbeddingSettings(url={self.url!r}, model={self.model!r})"  # never the key


class SearchSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where sites are kept, and what helps to search them."""

    index: str | None = None  # postgresql://…; None: in the home folder
    embeddings: EmbeddingSettings | bool = True  # true: the model that the install carries; false: words alone
    model: str | None = None  # the id of the agent that helps to rank and write
