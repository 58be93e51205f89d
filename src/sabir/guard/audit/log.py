"""The audit log: export, retention, and protection against flooding. ``verify`` checks that it is unchanged."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from sabir.aio import cancel_and_wait
from sabir.errors import RateLimited, SabirError, StoreUnavailable, suggestion
from sabir.guard.quotas.rates import rate_limit_key
from sabir.stores.base import AuditLine, ChainedLine, Store
from sabir.turn import Caller, Turn

logger = logging.getLogger("sabir")

TURNS: Final = "turns"  # the kind of an entry for many turns, see AuditBuffer
RETENTION: Final = "retention"  # the kind of an entry that says how much was removed from the front
_PAGE: Final = 1000
_TOGETHER: Final = 500  # turns in one entry, at most

Note: TypeAlias = tuple[
    float, str, str, str, str, int, dict[str, str] | None
]  # when, who, where, agent, turn, bytes, tools


# -- export and redaction -------------------------------------------------------------------------


class AuditSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is kept, for how long, and what an export shows; a section of the configuration file.

    ``redact`` names fields: ``caller``, ``conversation``, ``turn`` become pseudonyms (the same caller has the same
    pseudonym under one secret); any other name is one of ``DETAILS`` and is left out.
    """

    days: float | None = None  # None: forever
    redact: tuple[str, ...] = ()
    refusals_per_minute: int = 60  # entries per kind of refusal and caller; further ones are counted in one entry

    def __post_init__(self) -> None:
        check_redacted(self.redact)


_PSEUDONYMS: Final = ("caller", "conversation", "turn")
# Every key that the detail of an entry can have.
DETAILS: Final = (
    "act", "address", "bytes", "days", "expires", "hash", "left_out", "method", "name", "reason", "resource", "roles",
    "through", "tool",
)  # fmt: skip


def check_redacted(fields: Iterable[str]) -> None:
    """Raises:
    ValueError: unknown field; ignoring it would show what should be hidden.
    """
    known = (*_PSEUDONYMS, *DETAILS)
    for name in fields:
        if name not in known:
            raise ValueError(f"redact: unknown field {name!r}; {suggestion(name, known)}")


async def export(
    store: Store, *, redact: tuple[str, ...] = (), secret: bytes = b"", since: int = 0, until: float | None = None
) -> AsyncIterator[bytes]:
    """The log as JSON lines, each with its number and hash. Redacted lines say so, because they no longer match their
    hash.

    Turns that were recorded together share one number and one hash, and have a ``part`` each.
    """
    async for item in lines_of(store, since):
        try:
            line = item.line
        except msgspec.MsgspecError:  # export the rest anyway; verify reports this one
            yield msgspec.json.encode({"number": item.number, "previous": item.previous, "hash": item.hash}) + b"\n"
            continue
        if until is not None and line.at > until:
            return
        together = line.kind == TURNS
        for part, answer in enumerate(expand(line), 1):
            yield _exported(item, answer, redacted(answer, redact, secret), part if together else 0)


async def lines_of(store: Store, since: int = 0) -> AsyncIterator[ChainedLine]:
    """Every entry after this number, in order, as stored."""
    while lines := await store.audit_lines(since, _PAGE):
        for line in lines:
            yield line
        since = lines[-1].number


def _exported(place: ChainedLine, answer: AuditLine, line: AuditLine, part: int) -> bytes:
    values = {"number": place.number, **msgspec.to_builtins(line), "previous": place.previous, "hash": place.hash}
    if part:
        values["part"] = part
    if line is not answer:
        values["redacted"] = True
    return msgspec.json.encode(values) + b"\n"


def redacted(line: AuditLine, fields: tuple[str, ...], secret: bytes) -> AuditLine:
    """An entry with these fields hidden."""
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
    """Remove entries older than this. An entry about the removal is written first, so that ``verify`` knows."""
    before = (time.time() if now is None else now) - days * 86400.0
    last: ChainedLine | None = None
    async for line in lines_of(store):
        try:
            if line.line.at >= before:
                break
        except msgspec.MsgspecError:
            break  # evidence is not removed
        last = line
    if last is None:
        return 0
    detail = {"through": last.number, "hash": last.hash, "days": days}
    await store.audit(AuditLine(time.time() if now is None else now, RETENTION, "gateway", detail=detail))
    return await store.audit_prune(last.number)


# -- flood ----------------------------------------------------------------------------------------


class AuditThrottle:
    """Lets a number of refusals of a kind into the log per minute and counts the rest, so that a flood neither fills
    the disk nor goes unnoticed."""

    def __init__(
        self, per_minute: int = 60, *, limit: int = 10_000, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._per_minute = per_minute
        self._limit = limit
        self._clock = clock
        self._seen: OrderedDict[tuple[str, ...], list[float]] = OrderedDict()  # start, written, left out

    def admit(self, line: AuditLine, address: str = "") -> AuditLine | None:
        """The entry to write, with the number of similar ones left out before; None if this one is left out, too."""
        key = (line.kind, line.outcome, line.door, line.caller, rate_limit_key(address))
        now = self._clock()
        seen = self._seen.get(key)
        is_new = seen is None or now - seen[0] >= 60.0
        if seen is not None and not is_new and seen[1] >= self._per_minute:  # checked first: a flood must cost little
            seen[2] += 1
            return None
        if address:  # a rejected caller is often unknown, but has an address
            line = msgspec.structs.replace(line, detail={**line.detail, "address": address})
        if seen is None or is_new:
            left_out = seen[2] if seen is not None else 0.0
            self._seen[key] = [now, 1.0, 0.0]
            self._seen.move_to_end(key)
            if len(self._seen) > self._limit:
                self._seen.popitem(last=False)
            return _counting(line, left_out)
        seen[1] += 1
        return line

    def left_out(self) -> list[AuditLine]:
        """Counts that have not been written yet; used periodically and at the end."""
        entries: list[AuditLine] = []
        for (kind, outcome, door, caller, address), seen in self._seen.items():
            if seen[2]:
                line = AuditLine(time.time(), kind, caller, door, outcome=outcome, detail={"address": address})
                entries.append(_counting(line, seen[2]))
                seen[2] = 0.0
        return entries


class AuditBuffer:
    """Audit entries of turns that are not recorded otherwise, written together a moment later.

    A commit for each would cost more than most such turns. If the process is killed, the entries of that moment are
    lost; entries of recorded turns are in the same commit as the turn.
    """

    def __init__(self, store: Store | None = None, *, seconds: float = 0.1, limit: int = 100_000) -> None:
        self._store = store
        self._seconds = seconds
        self._limit = limit  # while the store is unavailable
        self._noted: list[Note] = []
        self._lost = 0
        self._writing: asyncio.Task[None] | None = None

    def add(self, turn: Turn, door: str, size: int) -> None:
        if len(self._noted) >= self._limit:
            self._lost += 1
            return
        used = turn.used_detail if turn.used else None
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
            except StoreUnavailable as exc:
                if not exc.detail:  # otherwise the store has logged it
                    logger.warning("%s turns wait for their audit entry: %s", len(noted), exc)
                self._noted = noted + self._noted
                return
            self._lost = 0
            del noted[:_TOGETHER]

    async def close(self) -> None:
        """Write what is left."""
        await cancel_and_wait([self._writing])
        await self._write()


def expand(line: AuditLine) -> list[AuditLine]:
    """Expand an entry for many turns into one for each."""
    if line.kind != TURNS:
        return [line]
    lines = []
    for at, caller, door, agent, turn_id, size, used in line.detail.get("turns", ()):
        lines.append(AuditLine(at, "turn", caller, door, agent, "ok", turn_id, detail={"bytes": size, **(used or {})}))
    if left_out := line.detail.get("left_out"):
        lines.append(AuditLine(line.at, TURNS, line.caller, detail={"left_out": left_out}))
    return lines


def gathered(lines: Sequence[AuditLine]) -> AuditLine:
    """The entry that was expanded into these."""
    turns: list[Note] = []
    detail: dict[str, Any] = {"turns": turns}
    for line in lines:
        if line.kind == TURNS:
            detail.update(line.detail)
            continue
        used = {name: value for name, value in line.detail.items() if name != "bytes"}
        note = (line.at, line.caller, line.door, line.agent, line.turn, line.detail.get("bytes", 0), used or None)
        turns.append(note)
    return AuditLine(lines[-1].at, TURNS, "gateway", detail=detail)


def turn_entry(turn: Turn, door: str, size: int, turn_id: str = "", conversation: str = "") -> AuditLine:
    """The entry of a turn that was answered."""
    detail: dict[str, Any] = {"bytes": size, **turn.used_detail}
    return AuditLine(
        time.time(), "turn", turn.caller.id, door, turn.agent, "ok", turn_id or turn.id, conversation, detail
    )


class AuditedRequest(Protocol):
    """What is known of a request so far; an ``EventSink`` is one."""

    @property
    def caller(self) -> Caller | None: ...

    @property
    def turn(self) -> Turn | None: ...


def failure_entry(
    exc: SabirError, door: str, agent: str, caller: Caller | None, asked: AuditedRequest | None
) -> AuditLine:
    """The entry of a rejected request, or of a turn that failed.

    A caller over a quota counts as rejected, even if its turn had started.
    """
    turn = asked.turn if asked is not None else None
    if caller is None and asked is not None:
        caller = asked.caller
    kind = "refused" if turn is None or isinstance(exc, RateLimited) else "failed"
    who = caller.id if caller is not None else "unknown"
    if turn is None:
        return AuditLine(time.time(), kind, who, door, agent, type(exc).__name__)
    return AuditLine(time.time(), kind, who, door, agent, type(exc).__name__, turn.id, detail=turn.used_detail)


def _counting(line: AuditLine, left_out: float) -> AuditLine:
    if not left_out:
        return line
    return msgspec.structs.replace(line, detail={**line.detail, "left_out": int(left_out)})
