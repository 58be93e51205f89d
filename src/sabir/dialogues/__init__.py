"""Conversations between agents: which act may follow which, by whom, and until when."""

from __future__ import annotations

from .states import ENDED, PROTOCOLS, Dialogue, Role, opened

__all__ = ["ENDED", "PROTOCOLS", "Dialogue", "Role", "opened"]
