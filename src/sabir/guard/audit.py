"""The audit log: verified, exported, kept for as long as policy says, and not to be flooded.

Each line's hash covers the line and all before it, so a line that is removed, changed or moved breaks the chain at
a place that can be named. Two things a chain cannot show by itself: that its end was cut off, and that all of it
was written anew. Against both there is the anchor, ``number:hash`` of a line, kept elsewhere and given to ``verify``.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from typing import Any, Final, TypeAlias

import msgspec

from ..ending import end
from ..errors import BadSetup, StoreUnavailable
from ..stores.base import GENESIS, AuditLine, ChainedLine, Store, chain
from ..turn import Turn

logger = logging.getLogger("sabir")

TURNS: Final = "turns"  # the kind of line that tells of many, see Notes
RETENTION: Final = "retention"  # the kind of line that says how much was removed from the front
_PAGE: Final = 1000
_TOGETHER: Final = 500  # turns in one line, at most

Note: TypeAlias = tuple[
    float, str, str, str, str, int, dict[str, str] | None
]  # when, who, where, agent, turn, bytes, tools


class Broken(msgspec.Struct, frozen=True):
    """Where the chain is broken, and how."""

    number: int
    how: str

    def __str__(self) -> str:
        return f"line {self.number}: {self.how}"


class Verdict(msgspec.Struct, frozen=True):
    """What ``verify`` found. ``anchor`` is to be kept elsewhere, for the next time."""

    lines: int
    first: int
    anchor: str
    broken: tuple[Broken, ...] = ()

    @property
    def whole(self) -> bool:
        return not self.broken


async def verify(store: Store, *, anchor: str | None = None, most: int = 100) -> Verdict:
    """Follow the chain from its first line to its last.

    After a break the chain is followed on from what stands there, so that one change is told once.

    Raises:
        BadSetup: the anchor is not ``number:hash``.
    """
    wanted = _anchor(anchor)
    broken: list[Broken] = []
    last: ChainedLine | None = None
    first: ChainedLine | None = None
    pruned: set[tuple[Any, Any]] = set()  # number and hash of each line through which a policy removed what was before
    count = 0
    async for number, line in _lines(store):
        if line is None:
            broken.append(Broken(number, "cannot be read; it was changed"))
            last = None
            continue
        broken += _judge(line, last, is_first=first is None and count == 0)
        first, last, count = first or line, line, count + 1
        if line.line.kind == RETENTION:  # several nodes may have done it at once, the last to tell not the last to do
            pruned.add((line.line.detail.get("through"), line.line.detail.get("hash")))
        if wanted is not None and wanted[0] == line.number:
            if not hmac.compare_digest(wanted[1], line.hash):
                broken.append(Broken(line.number, "is not the line that the anchor was taken of"))
            wanted = None
    if first is not None and first.number > 1 and (first.number - 1, first.previous) not in pruned:
        broken.insert(0, Broken(first.number, f"the {first.number - 1} lines before it are gone, and no policy did it"))
    if wanted is not None and (first is None or wanted[0] >= first.number):
        broken.append(Broken(wanted[0], "is gone; the anchor says that it was there"))
    told = f"{last.number}:{last.hash}" if last is not None else f"0:{GENESIS}"
    return Verdict(count, first.number if first is not None else 0, told, tuple(broken[:most]))


def _judge(line: ChainedLine, last: ChainedLine | None, *, is_first: bool) -> list[Broken]:
    broken: list[Broken] = []
    if last is not None and line.number != last.number + 1:
        gone = f"{last.number + 1} to {line.number - 1}" if line.number - last.number > 2 else f"{last.number + 1}"
        broken.append(Broken(last.number + 1, f"is gone (lines {gone})" if " to " in gone else "is gone"))
    elif last is not None and line.previous != last.hash:
        broken.append(Broken(line.number, "does not follow the line before it; one of the two was moved or changed"))
    elif is_first and line.number == 1 and line.previous != GENESIS:
        broken.append(Broken(1, "does not begin the chain; it was changed"))
    if chain(line.previous, msgspec.json.encode(line.line)) != line.hash:
        broken.append(Broken(line.number, "was changed"))
    return broken


async def _lines(store: Store) -> AsyncIterator[tuple[int, ChainedLine | None]]:
    """Every line in order; None for one that cannot be read any more."""
    since, page = 0, _PAGE
    while True:
        try:
            lines = await store.audit_lines(since, page)
        except (msgspec.DecodeError, msgspec.ValidationError):
            if page > 1:
                page = 1  # find which one it is
                continue
            since += 1
            yield since, None
            continue
        if not lines:
            return
        for line in lines:
            yield line.number, line
        since, page = lines[-1].number, _PAGE


def _anchor(text: str | None) -> tuple[int, str] | None:
    if text is None:
        return None
    number, _, digest = text.partition(":")
    if not number.isdigit() or len(digest) != len(GENESIS):
        raise BadSetup("an anchor is written number:hash, as verify prints it")
    return int(number), digest.lower()


# -- export and redaction -------------------------------------------------------------------------


class AuditSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is kept, for how long, and what an export shows; as it stands in the configuration file.

    ``redact`` names fields: ``caller``, ``conversation``, ``turn`` become pseudonyms (the same caller, the same
    pseudonym, under one secret); any other name is a key of ``detail`` that is left out.
    """

    days: float | None = None  # None: for ever
    redact: tuple[str, ...] = ()
    refusals_per_minute: int = 60  # lines of one kind of refusal and caller; more are counted in one line


_PSEUDONYMS: Final = frozenset({"caller", "conversation", "turn"})


async def export(
    store: Store, *, redact: tuple[str, ...] = (), secret: bytes = b"", since: int = 0, until: float | None = None
) -> AsyncIterator[bytes]:
    """The log as JSON lines, each with its number and hash. Redacted lines no longer match their hash, and say so.

    Turns that were noted together have one number and one hash, and a ``part`` each.
    """
    page = since
    while lines := await store.audit_lines(page, _PAGE):
        for each in lines:
            if until is not None and each.line.at > until:
                return
            for part, told in enumerate(spread(each.line), 1):
                yield _exported(each, told, redacted(told, redact, secret), part)
        page = lines[-1].number


def _exported(place: ChainedLine, told: AuditLine, line: AuditLine, part: int) -> bytes:
    values = {"number": place.number, **msgspec.to_builtins(line), "previous": place.previous, "hash": place.hash}
    if told is not place.line:
        values["part"] = part
    if line is not told:
        values["redacted"] = True
    return msgspec.json.encode(values) + b"\n"


def redacted(line: AuditLine, fields: tuple[str, ...], secret: bytes) -> AuditLine:
    """A line with these fields hidden."""
    changes: dict[str, Any] = {
        name: _pseudonym(getattr(line, name), secret) for name in fields if name in _PSEUDONYMS and getattr(line, name)
    }
    hidden = {name for name in fields if name not in _PSEUDONYMS} & line.detail.keys()
    if hidden:
        changes["detail"] = {name: value for name, value in line.detail.items() if name not in hidden}
    return msgspec.structs.replace(line, **changes) if changes else line


def _pseudonym(value: str, secret: bytes) -> str:
    return "~" + hmac.new(secret, value.encode(), hashlib.sha256).hexdigest()[:16]


# -- retention ------------------------------------------------------------------------------------


async def retain(store: Store, days: float, *, now: float | None = None) -> int:
    """Remove what is older than this. What was removed is said in a line first, so that ``verify`` knows it."""
    before = (time.time() if now is None else now) - days * 86400.0
    last: ChainedLine | None = None
    async for _, line in _lines(store):
        if line is None or line.line.at >= before:
            break
        last = line
    if last is None:
        return 0
    detail = {"through": last.number, "hash": last.hash, "days": days}
    await store.audit(AuditLine(time.time() if now is None else now, RETENTION, "gateway", detail=detail))
    return await store.audit_prune(before)


# -- flood ----------------------------------------------------------------------------------------


class Trail:
    """Lets so many refusals of a kind per minute into the log, and counts the rest: a flood of them must neither
    fill the disk nor hide in silence."""

    def __init__(
        self, per_minute: int = 60, *, most: int = 10_000, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._per_minute = per_minute
        self._most = most
        self._clock = clock
        self._seen: OrderedDict[tuple[str, ...], list[float]] = OrderedDict()  # began, written, left out

    def admit(self, line: AuditLine, address: str = "") -> AuditLine | None:
        """The line to write, with how many like it were left out before; None if this one is left out too."""
        key = (line.kind, line.outcome, line.door, line.caller, address)
        if address:  # who was refused is often nobody known; from where is all there is
            line = msgspec.structs.replace(line, detail={**line.detail, "address": address})
        now = self._clock()
        seen = self._seen.get(key)
        if seen is None or now - seen[0] >= 60.0:
            left_out = seen[2] if seen is not None else 0.0
            self._seen[key] = [now, 1.0, 0.0]
            self._seen.move_to_end(key)
            if len(self._seen) > self._most:
                self._seen.popitem(last=False)
            return _counting(line, left_out)
        if seen[1] >= self._per_minute:
            seen[2] += 1
            return None
        seen[1] += 1
        return line

    def left_out(self) -> list[AuditLine]:
        """What was counted and not yet told; for the end, and for now and then."""
        told: list[AuditLine] = []
        for (kind, outcome, door, caller, address), seen in self._seen.items():
            if seen[2]:
                line = AuditLine(time.time(), kind, caller, door, outcome=outcome, detail={"address": address})
                told.append(_counting(line, seen[2]))
                seen[2] = 0.0
        return told


class Notes:
    """Turns of which nothing else is kept, for the audit: those of one moment in one line, a moment later.

    A commit for each would cost more than most such turns do. Who kills the process loses the notes of that moment;
    the lines of turns that are recorded stand in the same commit as they.
    """

    def __init__(self, store: Store | None = None, *, seconds: float = 0.1, most: int = 100_000) -> None:
        self._store = store
        self._seconds = seconds
        self._most = most  # while the store is away
        self._noted: list[Note] = []
        self._lost = 0
        self._writing: asyncio.Task[None] | None = None

    def add(self, turn: Turn, door: str, size: int) -> None:
        if len(self._noted) >= self._most:
            self._lost += 1
            return
        used = turn.told_used if turn.used else None
        self._noted.append((time.time(), turn.caller.id, door, turn.agent, turn.id, size, used))
        if self._writing is None and self._store is not None:
            self._writing = asyncio.create_task(self._soon(), name="audit notes")

    async def _soon(self) -> None:
        try:
            while self._noted:
                await asyncio.sleep(self._seconds)
                await self._write()
        finally:
            self._writing = None

    async def _write(self) -> None:
        noted, self._noted = self._noted, []
        while noted and self._store is not None:
            some = noted[:_TOGETHER]
            detail: dict[str, Any] = {"turns": some, **({"left_out": self._lost} if self._lost else {})}
            try:
                await self._store.audit(AuditLine(some[-1][0], TURNS, "gateway", detail=detail))
            except StoreUnavailable as wrong:
                if not wrong.detail:  # else the store has told the log
                    logger.warning("%s turns wait for their audit line: %s", len(noted), wrong)
                self._noted = noted + self._noted
                return
            self._lost = 0
            del noted[:_TOGETHER]

    async def close(self) -> None:
        """Write what is still there."""
        await end([self._writing])
        await self._write()


def spread(line: AuditLine) -> list[AuditLine]:
    """A line as one for each turn, where it tells of many."""
    if line.kind != TURNS:
        return [line]
    lines = []
    for at, caller, door, agent, id, size, used in line.detail.get("turns", ()):
        lines.append(AuditLine(at, "turn", caller, door, agent, "ok", id, detail={"bytes": size, **(used or {})}))
    if left_out := line.detail.get("left_out"):
        lines.append(AuditLine(line.at, TURNS, line.caller, detail={"left_out": left_out}))
    return lines


def turn_line(turn: Turn, door: str, size: int, id: str = "", conversation: str = "") -> AuditLine:
    """The line of a turn that was answered."""
    detail: dict[str, Any] = {"bytes": size, **turn.told_used}
    return AuditLine(time.time(), "turn", turn.caller.id, door, turn.agent, "ok", id or turn.id, conversation, detail)


def _counting(line: AuditLine, left_out: float) -> AuditLine:
    if not left_out:
        return line
    return msgspec.structs.replace(line, detail={**line.detail, "left_out": int(left_out)})
