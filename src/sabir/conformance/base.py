"""A check, its outcome, and a runner.

A suite is a list of checks. Each has the id and clause it tests, a level, and a function that talks to the server under
test through a ``Wire`` that records what was sent and received. A check ends by returning (passed), or by raising:

    Failed    the server does not do what the clause says
    Declined  the server refused by policy (401, 403, or 429 for too long); that is not a failure
    Skipped   it does not apply here, or cannot be seen from outside

``must`` and ``should`` are the standard's words; ``ours`` are our own decisions where the standard is silent.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final, Generic, Literal, TypeVar

import msgspec

from sabir.errors import PeerError

Level = Literal["must", "should", "ours"]
LEVELS: Final[tuple[Level, ...]] = ("must", "should", "ours")
SHOWN_BYTES: Final = 4096
MAX_WAIT: Final = 60.0  # total seconds that one check waits because the server asks to slow down


class CheckFailed(Exception):
    """The server does not do what the clause says."""


class Declined(Exception):
    """The server refused by policy."""


class Skipped(Exception):
    """The check does not apply here."""


def demand(holds: object, otherwise: str) -> None:
    """Raises:
    Failed: the condition is false.
    """
    if not holds:
        raise CheckFailed(otherwise)


class Exchanged(msgspec.Struct, frozen=True):
    """What was sent and received."""

    sent: str
    received: str


class CheckPace:
    """How much the server has asked us to slow down so far."""

    def __init__(self) -> None:
        self.longest = 0.0  # seconds


class Wire:
    """Records what one check sent and received, and waits when the server asks for it."""

    def __init__(self, pace: CheckPace | None = None) -> None:
        self.log: list[Exchanged] = []
        self.clock: asyncio.Timeout | None = None  # the check's time limit
        self._pace = pace if pace is not None else CheckPace()
        self._left = MAX_WAIT

    def keep(self, sent: bytes, received: bytes) -> None:
        self.log.append(Exchanged(shown(sent), shown(received)))

    async def slow_down(self, retry_after: str | None) -> None:
        """Wait as long as a 429 asks for; this does not count towards the check's time limit.

        Raises:
            Declined: it asks for more than the maximum.
        """
        seconds = _seconds_of(retry_after)
        if seconds > self._left:
            raise Declined(f"HTTP 429: it asks to slow down, and to come back in {seconds:g} seconds")
        self._left -= seconds
        self._pace.longest = max(self._pace.longest, seconds)
        if self.clock is not None and (end := self.clock.when()) is not None:
            self.clock.reschedule(end + seconds)
        await asyncio.sleep(seconds)


def _seconds_of(retry_after: str | None) -> float:
    """The seconds in Retry-After, as a number or as a date; one second without it."""
    said = (retry_after or "").strip()
    if said.isdecimal() and len(said) < 10:
        return max(1.0, float(said))
    try:
        return max(1.0, (parsedate_to_datetime(said).astimezone(UTC) - datetime.now(UTC)).total_seconds())
    except (ValueError, OverflowError):
        return 1.0


def shown(data: bytes) -> str:
    """Bytes for people: text as text, everything else as hex, long ones truncated."""
    cut = data[:SHOWN_BYTES]
    try:
        text = cut.decode()
        text = text if "".join(text.split()).isprintable() else cut.hex(" ")
    except UnicodeDecodeError:
        text = cut.hex(" ")
    return text + (f" … ({len(data)} bytes)" if len(data) > SHOWN_BYTES else "")


Target = TypeVar("Target")


class Check(Generic[Target]):
    """One check."""

    __slots__ = ("binding", "clause", "id", "level", "run", "title")

    def __init__(
        self,
        check_id: str,
        clause: str,
        level: Level,
        title: str,
        run: Callable[[Target], Awaitable[None]],
        binding: str,
    ) -> None:
        self.id, self.clause, self.level, self.title = check_id, clause, level, title
        self.run, self.binding = run, binding


class Suite(Generic[Target]):
    """The checks of one binding; ``@suite.check(…)`` adds one."""

    def __init__(self, binding: str) -> None:
        self.binding = binding
        self.checks: list[Check[Target]] = []

    def check(
        self, check_id: str, clause: str, level: Level, title: str
    ) -> Callable[[Callable[[Target], Awaitable[None]]], Callable[[Target], Awaitable[None]]]:
        def add(run: Callable[[Target], Awaitable[None]]) -> Callable[[Target], Awaitable[None]]:
            self.checks.append(Check(check_id, clause, level, title, run, self.binding))
            return run

        return add


Verdict = Literal["passed", "failed", "declined", "skipped"]


class CheckOutcome(msgspec.Struct, frozen=True):
    """The outcome of one check."""

    id: str
    clause: str
    level: Level
    binding: str
    title: str
    verdict: Verdict
    reason: str = ""
    seconds: float = 0.0
    evidence: tuple[Exchanged, ...] = ()


class CheckReport(msgspec.Struct, frozen=True):
    """The outcomes of all checks of one server."""

    url: str
    protocol: str
    outcomes: tuple[CheckOutcome, ...]
    notes: tuple[str, ...] = ()
    stopped: str = ""  # why the checks were stopped, if they were

    def failed(self, level: Level) -> list[CheckOutcome]:
        """The failures at this level and above."""
        counted = LEVELS[: LEVELS.index(level) + 1]
        return [outcome for outcome in self.outcomes if outcome.verdict == "failed" and outcome.level in counted]

    def count(self, verdict: Verdict) -> int:
        return sum(outcome.verdict == verdict for outcome in self.outcomes)


async def run_checks(
    checks: Iterable[Check[Target]],
    connect: Callable[[Wire], Awaitable[Target]],
    *,
    pause: float = 0.0,
    seconds: float = 15.0,
    on_outcome: Callable[[CheckOutcome], None] | None = None,
    pace: CheckPace | None = None,
) -> list[CheckOutcome]:
    """Run checks one after the other, each with its own target and log, for at most ``seconds`` each."""
    outcomes = []
    for check in checks:
        outcome = await _run_one(check, connect, seconds, Wire(pace))
        outcomes.append(outcome)
        if on_outcome is not None:
            on_outcome(outcome)
        if pause:
            await asyncio.sleep(pause)
    return outcomes


async def _run_one(
    check: Check[Target], connect: Callable[[Wire], Awaitable[Target]], seconds: float, wire: Wire
) -> CheckOutcome:
    began = time.perf_counter()
    verdict: Verdict = "passed"
    reason = ""
    try:
        async with asyncio.timeout(seconds) as wire.clock:
            await check.run(await connect(wire))
    except CheckFailed as exc:
        verdict, reason = "failed", str(exc)
    except Declined as exc:
        verdict, reason = "declined", str(exc)
    except Skipped as exc:
        verdict, reason = "skipped", str(exc)
    except TimeoutError:
        verdict, reason = "failed", f"no answer within {seconds:g} seconds"
    except PeerError as exc:
        verdict, reason = "failed", str(exc)
    took = time.perf_counter() - began
    return CheckOutcome(
        check.id, check.clause, check.level, check.binding, check.title, verdict, reason, took, tuple(wire.log)
    )


def choose(checks: Sequence[Check[Target]], level: Level) -> list[Check[Target]]:
    """The checks at this level and above."""
    counted = LEVELS[: LEVELS.index(level) + 1]
    return [check for check in checks if check.level in counted]
