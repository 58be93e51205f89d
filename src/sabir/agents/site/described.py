"""What a language model gets of an item: its fields on one line, with those that only say yes or no."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sabir.search import Item
from sabir.search.answers.statements import described, field_value
from sabir.search.query.words import spaced

_IS_SO: Final = {"true": "yes", "yes": "yes", "false": "no", "no": "no"}
_SHOWN: Final = 12  # fields that say yes or no


def fields_of(item: Item) -> str:
    """The fields of an item: "price: $12; open: Wed–Sun 11:30–21:00; not accepts reservations"."""
    ends = field_value(item, "endtime")
    rows = (described(item), f"ends: {ends}" if ends else "", *list(_flags(item))[:_SHOWN])
    return "; ".join(row for row in rows if row)


def _flags(item: Item) -> Iterator[str]:
    for name, value in item.fields.items():
        said = _IS_SO.get(str(value).rsplit("/", 1)[-1].casefold()) if isinstance(value, str | bool) else None
        if said is not None:
            label = spaced(name).lower()
            yield label if said == "yes" else f"not {label}"
