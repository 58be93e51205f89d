"""Search: items of sites, an index that finds them by words and by meaning, and the language parts around it.

::

    async with LocalIndex("index", MiniLM()) as index:
        await ingest(index, "pages/", site="example.com")
        found = await index.search(Query("pumpkin soup", where=(OfType(("Recipe",)),)))

Everything here works offline and without a model of language; nothing here knows of agents or protocols.
"""

from .base import Engine, Facet, Fields, Found, Hit, Query, Site
from .conditions import AnyOf, Condition, During, Has, In, Is, Near, Not, OfType, OnSite, Range
from .elicit import Elicited
from .embed import Embedder, Endpoint, MiniLM
from .extract import Quote
from .filters import Ignored, Parsed, resolved, structured
from .followup import decontextualized
from .index import LocalIndex
from .ingest import Fetched, Fetcher, Progress, Report, ingest
from .item import Item, Problem, Provenance
from .phrases import from_text
from .results import result

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
    "Progress",
    "Provenance",
    "Query",
    "Quote",
    "Range",
    "Report",
    "Site",
    "decontextualized",
    "from_text",
    "ingest",
    "resolved",
    "result",
    "structured",
]
