"""Search: items of sites, an index that finds them by words and by meaning, and the language processing around it.

::

    async with LocalIndex("index", MiniLM()) as index:
        await ingest(index, "pages/", site="example.com")
        found = await index.search(SearchQuery("pumpkin soup", where=(OfType(("Recipe",)),)))

Everything here works offline and without a language model; nothing here depends on agents or protocols.
"""

from .answers.clarify import Elicited
from .answers.extract import Quote
from .answers.results import result
from .engine.base import Engine, Facet, Fields, Found, Hit, IndexedSite, SearchQuery
from .engine.embed import Embedder, Endpoint, MiniLM
from .engine.local import LocalIndex
from .ingest import Fetched, Fetcher, IngestProgress, IngestReport, Reach, ingest
from .items.item import Item, Problem, Provenance
from .query.conditions import AnyOf, Condition, During, Has, In, Is, Near, Not, OfType, OnSite, Range
from .query.followup import decontextualized
from .query.structured import Ignored, Parsed, resolved, structured
from .query.text import from_text

__all__ = [
    "AnyOf",
    "Condition",
    "During",
    "Elicited",
    "Embedder",
    "Endpoint",
    "Engine",
    "Facet",
    "Fetched",
    "Fetcher",
    "Fields",
    "Found",
    "Has",
    "Hit",
    "Ignored",
    "In",
    "IndexedSite",
    "IngestProgress",
    "IngestReport",
    "Is",
    "Item",
    "LocalIndex",
    "MiniLM",
    "Near",
    "Not",
    "OfType",
    "OnSite",
    "Parsed",
    "Problem",
    "Provenance",
    "Quote",
    "Range",
    "Reach",
    "SearchQuery",
    "decontextualized",
    "from_text",
    "ingest",
    "resolved",
    "result",
    "structured",
]
