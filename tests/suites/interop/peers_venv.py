"""Environments of their own for clients that we did not write, from their PyPI packages."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "bench"))

from venvs import python_of

__all__ = ["python_of"]
