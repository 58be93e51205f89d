"""Every server with one fault, by its binding."""

from __future__ import annotations

from . import binding_mutants, clause_mutants, core_mutants, later_mutants
from .faults import AMQP, HTTP, WEBSOCKET, Mutant

__all__ = ["AMQP", "HTTP", "WEBSOCKET", "Mutant", "binding_mutants", "clause_mutants", "core_mutants", "later_mutants"]
