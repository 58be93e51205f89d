"""The sample site that a new installation answers from: a fictional harbour town, written for this project.

``SITES`` names each sample site and the JSON lines files that it is ingested from; README.md says what
is in them and what to ask.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

HERE: Final = Path(__file__).parent

# The second site bears the name that the NLWeb 0.54 document's example request asks for.
SITES: Final[Mapping[str, tuple[Path, ...]]] = MappingProxyType(
    {
        "harbour.example": tuple(HERE / f"{name}.jsonl" for name in ("recipes", "products", "events", "places")),
        "pumpkins-r-us.com": (HERE / "pumpkins-r-us.jsonl",),
    }
)
