"""Environments of their own for programs that we did not write, from their PyPI packages.

They are made by ``bench/venvs.py``. Its folder stays off the path: ``bench/search.py`` would hide ``tests/search``.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

_PLACE = Path(__file__).resolve().parents[1] / "bench" / "venvs.py"
_SPEC = importlib.util.spec_from_file_location("peers_venvs", _PLACE)
assert _SPEC is not None and _SPEC.loader is not None
_VENVS = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(_VENVS)


def python_of(name: str) -> Path:
    """The interpreter of an environment, which is made if it is missing."""
    python: Path = _VENVS.python_of(name)
    return python
