"""Verifies that the audit log is unchanged, in its store or in an exported file.

Each entry's hash covers the entry and all before it, so removing, changing or moving one breaks the chain at a known
place. A missing end shows in the head, which the store keeps beside the entries. Somebody with write access to the
store could forge all of this; the protection is an anchor, the ``number:hash`` of an entry, kept elsewhere and passed
back in.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Iterable
from itertools import groupby
from typing import Any, Final, TypeAlias

import msgspec

from sabir.errors import ConfigError
from sabir.stores.base import GENESIS, AuditLine, ChainedLine, Store, chain

from .log import RETENTION, expand, gathered, lines_of

Head: TypeAlias = tuple[int, str] | None
_MAX_BREAKS: Final = 100  # breaks that are reported at most
# Older versions stored a slightly different time beside the entry.
_A_MOMENT: Final = 1.0


class Broken(msgspec.Struct, frozen=True):
    """Where and how the chain is broken."""

    number: int  # 0: no entry in particular
    how: str

    def __str__(self) -> str:
        return f"line {self.number}: {self.how}" if self.number else self.how


class Verdict(msgspec.Struct, frozen=True):
    """The result. Keep ``anchor`` elsewhere, for the next time."""

    lines: int
    first: int
    last: int
    anchor: str
    broken: tuple[Broken, ...] = ()  # the first ones, if there are very many
    redacted: int = 0  # entries whose content cannot be checked, only their position

    @property
    def whole(self) -> bool:
        return not self.broken


async def verify(store: Store, *, anchor: str | None = None) -> Verdict:
    """Follow the chain of a store from its first entry to its last.

    Raises:
        ConfigError: the anchor is not ``number:hash``.
    """
    head = await store.audit_head()  # read before the entries: later ones come after it
    walk = _Walk(anchor, head)
    async for line in lines_of(store):
        walk.step(line)
    walk.look_at_the_front()
    walk.look_at_the_end(await store.audit_head())
    return walk.verdict()


def verify_export(lines: Iterable[bytes], *, anchor: str | None = None) -> Verdict:
    """Follow the chain of an exported log, or part of one, from its first entry to its last.

    Raises:
        ConfigError: the anchor is not ``number:hash``, or there is no entry.
    """
    walk = _Walk(anchor)
    for place, head in groupby(_read(lines, walk), lambda item: (item.number, item.previous, item.hash)):
        parts = list(head)
        line, is_redacted = _as_written(parts), any(part.redacted for part in parts)
        walk.step(ChainedLine(place[0], line, place[1], place[2], parts[-1].at), is_redacted=is_redacted)
    if walk.last is None and not walk.broken:
        raise ConfigError("the file has no audit entry; sabir audit export writes them")
    return walk.verdict()


class _Walk:
    """Checks entry after entry. After a break it continues from the stored value, so that one change is reported
    once."""

    def __init__(self, anchor: str | None, head: Head = (0, GENESIS)) -> None:
        self.wanted = _anchor(anchor)
        self.head = head
        self.broken: list[Broken] = []
        self.first: ChainedLine | None = None
        self.last: ChainedLine | None = None
        self.lines = self.redacted = 0
        self.unread = 0  # the number of an entry that exists but cannot be read
        self._pruned: set[tuple[Any, Any]] = set()  # number and hash of entries up to which a policy removed

    def step(self, line: ChainedLine, *, is_redacted: bool = False) -> None:
        self._judge_place(line)
        if not is_redacted:
            self._judge_words(line)
        if self.wanted is not None and self.wanted[0] == line.number:
            if not hmac.compare_digest(self.wanted[1].encode(), line.hash.encode()):
                self._report(line.number, "is not the line that the anchor was taken of")
            self.wanted = None
        if self.head is not None and self.head[0] == line.number and self.head[1] != line.hash:
            self._report(line.number, "is not the line that the store wrote last")
        self.first, self.last = self.first or line, line
        self.lines += 1
        self.redacted += is_redacted

    def _judge_place(self, line: ChainedLine) -> None:
        last = self.last
        if last is None:
            if (line.number == 1) != (line.previous == GENESIS):
                how = "does not start the chain" if line.number == 1 else "starts the chain, but has another number"
                self._report(line.number, f"{how}; it was changed")
        elif line.number <= last.number:
            self._report(line.number, "is a duplicate, or was moved")
        elif line.number > last.number + 1 and not self.unread == last.number + 1 == line.number - 1:
            self._gone(last.number + 1, line.number - 1)
        elif line.previous != last.hash and line.number == last.number + 1:
            self._report(line.number, "does not follow the line before it; one of the two was moved or changed")

    def _judge_words(self, line: ChainedLine) -> None:
        is_right = chain(line.previous, line.written) == line.hash
        try:
            said = line.line
        except msgspec.MsgspecError:
            if not is_right:
                self._report(line.number, "cannot be read; it was changed" if line.written else "was changed")
            return
        if not is_right:
            self._report(line.number, "was changed")
        elif not abs(line.at - said.at) <= _A_MOMENT:
            self._report(line.number, "has another time beside it than the one it was written with")
        if said.kind == RETENTION:  # nodes may prune concurrently and report out of order
            self._pruned.add((said.detail.get("through"), said.detail.get("hash")))

    def look_at_the_front(self) -> None:
        """Check that entries missing before the first were removed by a policy, which an entry records."""
        first = self.first
        if first is not None and first.number > 1 and (first.number - 1, first.previous) not in self._pruned:
            gone = Broken(first.number, f"the {first.number - 1} lines before it are gone, and no policy did it")
            self.broken.insert(0, gone)

    def look_at_the_end(self, now: Head) -> None:
        """Check that exactly the entries that the store wrote are there; ``now`` is its head after reading them."""
        last = self.last.number if self.last is not None else 0
        if self.head is None or now is None:
            self._report(0, "the store no longer knows which line it wrote last; somebody removed that")
            return
        if last < self.head[0]:
            self._gone(last + 1, self.head[0])
        if last > now[0]:
            self._report(now[0] + 1, "was not written by a gateway; the store knows of no entry after the one before")

    def verdict(self) -> Verdict:
        first, last = self.first, self.last
        if self.wanted is not None and (first is None or self.wanted[0] >= first.number):
            self._report(self.wanted[0], "is gone; the anchor says that it was there")
        head = f"{last.number}:{last.hash}" if last is not None else f"0:{GENESIS}"
        numbers = (first.number, last.number) if first is not None and last is not None else (0, 0)
        return Verdict(self.lines, *numbers, head, tuple(self.broken[:_MAX_BREAKS]), self.redacted)

    def _gone(self, first: int, last: int) -> None:
        self._report(first, "is gone" if first == last else f"is gone (lines {first} to {last})")

    def _report(self, number: int, how: str) -> None:
        self.broken.append(Broken(number, how))


def _anchor(text: str | None) -> tuple[int, str] | None:
    if text is None:
        return None
    number, _, digest = text.partition(":")
    if not number.isdigit() or len(digest) != len(GENESIS):
        raise ConfigError("an anchor is written number:hash, as verify prints it")
    return int(number), digest.lower()


# -- an exported file -----------------------------------------------------------------------------


class ExportedLine(AuditLine, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A line of an export: its content, its position, and whether it is complete."""

    number: int
    previous: str
    hash: str
    part: int = 0  # among turns recorded together; 0: single
    redacted: bool = False


def _read(lines: Iterable[bytes], walk: _Walk) -> Iterable[ExportedLine]:
    number = 0
    for place, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            json.loads(line, object_pairs_hook=_once)
            read = msgspec.json.decode(line, type=ExportedLine)
        except (ValueError, RecursionError):  # msgspec's errors are ValueErrors, too
            walk.unread = number + 1
            walk.broken.append(Broken(walk.unread, f"cannot be read; it was changed (line {place} of the file)"))
            continue
        number = read.number
        yield read


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Reject duplicate keys: different readers would see different values."""
    if len({name for name, _ in pairs}) != len(pairs):
        raise ValueError("duplicate name")
    return dict(pairs)


def _as_written(parts: list[ExportedLine]) -> bytes:
    """The entry that these lines make up, as it was hashed; None if something was changed that no hash covers."""
    lines = [AuditLine(*(getattr(part, name) for name in AuditLine.__struct_fields__)) for part in parts]
    if not parts[0].part:
        return msgspec.json.encode(lines[0]) if len(parts) == 1 else b""
    whole = gathered(lines)
    is_right = [part.part for part in parts] == list(range(1, len(parts) + 1)) and expand(whole) == lines
    return msgspec.json.encode(whole) if is_right else b""
