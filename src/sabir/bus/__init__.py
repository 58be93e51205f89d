"""How agents reach each other across processes: durable letters, and calls with answers."""

from __future__ import annotations

from .base import Bus, BusCall, Called, DeadLetter, Letter, LetterReceiver, Receiving
from .framing import BusLimits
from .open import open_bus

__all__ = [
    "Bus",
    "BusCall",
    "BusLimits",
    "Called",
    "DeadLetter",
    "Letter",
    "LetterReceiver",
    "Receiving",
    "open_bus",
]
