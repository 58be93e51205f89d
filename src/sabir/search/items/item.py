"""Item: one thing of a site, as a frozen value; what is ingested, indexed, found and cited."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, TypeAlias

import msgspec

JSON: TypeAlias = Any  # a JSON value

_encode = msgspec.json.Encoder(order="deterministic").encode


class Provenance(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where an item was read: ``source`` as given to ingest, ``place`` within it (a line, a path, a URL)."""

    source: str = ""
    place: str = ""


class Item(msgspec.Struct, frozen=True, omit_defaults=True):
    """One recipe, product, event, place, article …

    ``id`` is unique within ``site``. ``fields`` is the schema.org object as it was read, without
    ``@context``; ``text`` is the prose that is searched and quoted: every sentence of it stands in
    the source. ``types`` are schema.org names, the most specific ones only.
    """

    id: str
    site: str
    name: str
    types: tuple[str, ...] = ("Thing",)
    url: str = ""
    description: str = ""
    text: str = ""
    fields: dict[str, JSON] = {}
    provenance: Provenance = Provenance()

    @property
    def fingerprint(self) -> str:
        """The same for the same content, wherever it was read."""
        content = (
            self.id,
            self.site,
            self.name,
            self.types,
            self.url,
            self.description,
            self.text,
            self.fields,
        )
        return blake2b(_encode(content), digest_size=16).hexdigest()

    @property
    def page(self) -> str:
        """The address to cite: the item's page, or its id where it has none."""
        return self.url or self.id


class Problem(msgspec.Struct, frozen=True):
    """Something that could not be read, where it stands, and why. It does not stop the rest."""

    place: str
    reason: str

    def __str__(self) -> str:
        return f"{self.place}: {self.reason}"
