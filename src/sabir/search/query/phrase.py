"""The result of a rule, and the type of a rule. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from typing import TypeAlias

import msgspec

from sabir.search.engine.base import Fields

from .conditions import Condition
from .structured import Around


class Phrase(msgspec.Struct, frozen=True):
    """The result of a rule. ``keep`` replaces the words it was read from."""

    conditions: tuple[Condition, ...] = ()
    around: Around | None = None
    order: tuple[str, bool] | None = None
    ignored: str = ""
    wanted: tuple[tuple[str, ...], ...] = ()
    keep: str = ""
    cut: int | None = None  # how many characters of the match were used; None: all


Rule: TypeAlias = Callable[[re.Match[str], Fields, datetime], Phrase | None]


def after(match: re.Match[str]) -> str:
    """The text after a rule's match."""
    return match.string[match.end() :]
