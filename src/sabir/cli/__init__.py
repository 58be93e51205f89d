"""The command line: one file per command. Output for people, ``--json`` for programs, exit codes for scripts."""

from __future__ import annotations

from .main import main

__all__ = ["main"]
