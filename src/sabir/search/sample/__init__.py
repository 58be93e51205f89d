"""The sample site of a new installation: a fictional harbour town, written for this project.

``SITES`` names each sample site and its JSON lines files, ``EXAMPLES`` are questions for them; README.md describes
their content.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

HERE: Final = Path(__file__).parent

# The second site has the name from the example request of the NLWeb 0.54 document.
SITES: Final[Mapping[str, tuple[Path, ...]]] = MappingProxyType(
    {
        "harbour.example": tuple(HERE / f"{name}.jsonl" for name in ("recipes", "products", "events", "places")),
        "pumpkins-r-us.com": (HERE / "pumpkins-r-us.jsonl",),
    }
)
EXAMPLES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "harbour.example": (
            "vegetarian dinner under 30 minutes without nuts",
            "what is on in December for children?",
            "a gift for a child, less than 30 dollars",
        ),
        "pumpkins-r-us.com": ("something protein rich that has cinnamon in it", "a pumpkin dish for breakfast"),
    }
)


def is_sample(source: str) -> bool:
    """Whether an item of this source came with an installation of Sabir, this one or an earlier one elsewhere."""
    return Path(source).parent.parts[-3:] == HERE.parts[-3:]
