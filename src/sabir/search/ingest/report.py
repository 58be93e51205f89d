"""The report of a run: its progress, and its result. Pure."""

from __future__ import annotations

from collections import Counter
from typing import Final

import msgspec

from sabir.search.items.item import Problem

MAX_PROBLEMS: Final = 1_000  # listed one by one; the rest are counted by reason
_MAX_REASONS: Final = 100
_OTHER: Final = "another reason"


class IngestProgress(msgspec.Struct, frozen=True):
    """The progress of a run, in documents; ``total`` grows while further ones are found."""

    done: int
    total: int
    items: int
    rate: float  # items a second
    part: float = 0.0  # of the current document, from 0 to 1, if its length is known

    @property
    def share(self) -> float:
        """The share that is done, from 0 to 1."""
        return min(1.0, (self.done + self.part) / self.total) if self.total else 0.0

    @property
    def remaining(self) -> float | None:
        """Remaining seconds, by the rate so far."""
        return (1 - self.share) / self.share * self.items / self.rate if self.rate and self.share else None


class IngestReport(msgspec.Struct, frozen=True):
    """The result of a run. ``read`` records became items: new, changed or unchanged ones, or were ``merged`` with
    another of the same id; the rest is in ``skipped``, counted by reason, and in ``problems``, one by one.

    ``way`` is how the documents were found: file, folder, document, sitemap, schema map or crawl. ``unfollowed``: the
    source is a site without a sitemap, and its links were not followed, because no crawl was requested.
    """

    documents: int = 0
    read: int = 0
    added: int = 0
    updated: int = 0
    unchanged: int = 0
    removed: int = 0
    merged: int = 0
    skipped: dict[str, int] = {}
    unknown_columns: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    way: str = ""
    unfollowed: bool = False
    problems: tuple[Problem, ...] = ()

    @property
    def items(self) -> int:
        return self.added + self.updated + self.unchanged

    @property
    def not_read(self) -> int:
        """Records, documents and links that were left out, for any reason."""
        return sum(self.skipped.values())


class Columns(msgspec.Struct, frozen=True):
    """What a table's reader made of its header: unknown columns, and its guesses."""

    unknown: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class Skips:
    """Problems as they occur: listed while they are few, all counted by reason."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self._counts: Counter[str] = Counter()

    def add(self, problem: Problem, reason: str = "") -> None:
        """``reason`` is what it is counted under, if that differs from its text."""
        self.count(reason or problem.reason)
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(problem)

    def count(self, reason: str, number: int = 1) -> None:
        self._counts[reason if reason in self._counts or len(self._counts) < _MAX_REASONS else _OTHER] += number

    def counts(self) -> dict[str, int]:
        return dict(self._counts.most_common())
