"""How agents reach each other across processes: letters that are kept, and calls that are answered."""

from __future__ import annotations

from .base import Bus, Call, Called, DeadLetter, Letter, Receiver, Receiving
from .framing import Limits
from .open import open_bus

__all__ = [
    "Bus",
    "Call",
    "Called",
    "DeadLetter",
    "Letter",
    "Limits",
    "Receiver",
    "Receiving",
    "open_bus",
]
