"""Numbers different records with the same id, so that none is lost. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from sabir.search.items.item import Item, Problem


def numbered(read: Iterable[Item | Problem]) -> Iterator[Item | Problem]:
    """The same records; one whose id was already used with other content gets a number appended."""
    prints: dict[str, set[str]] = {}
    for item in read:
        if isinstance(item, Item):
            known = prints.setdefault(item.id, set())
            fingerprint = item.fingerprint
            if known and fingerprint not in known:
                item = msgspec.structs.replace(item, id=f"{item.id}{'&' if '#' in item.id else '#'}{len(known) + 1}")
            known.add(fingerprint)
        yield item
