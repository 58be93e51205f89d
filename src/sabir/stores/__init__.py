"""Where state lives. ``open_store`` picks the implementation by address."""

from __future__ import annotations

from .base import Store
from .open import open_store

__all__ = ["Store", "open_store"]
