"""The live status of ``sabir serve`` on a terminal: each address, its usage, and errors.

Drawn by rich, if the extra ``terminal`` is installed; without it, or without a terminal, plain lines are printed.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from sabir.gateway.banner import Announcement, addresses_of
from sabir.http.door import Door
from sabir.observe.logs import inert
from sabir.observe.metrics import Metrics

try:
    from rich.console import Console
    from rich.live import Live
    from rich.table import Table
    from rich.text import Text
except ModuleNotFoundError:
    HAS_RICH = False
else:
    HAS_RICH = True

GOOD: Final = "ok"  # the outcome of a turn that was answered


class DoorUse(NamedTuple):
    """The usage of a door."""

    turns: int = 0
    errors: int = 0


class Usage:
    """Turns and errors by door, and the rate since the last update."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._before: dict[str, DoorUse] = {}
        self._at = time.monotonic()

    def look(self, now: float | None = None) -> dict[str, tuple[DoorUse, float]]:
        """The usage of each door so far, and its rate."""
        now = time.monotonic() if now is None else now
        seconds = max(now - self._at, 1e-3)
        found: dict[str, DoorUse] = {}
        for (door, _, outcome), (count,) in self._metrics.turns.rows().items():
            use = found.get(door, DoorUse())
            errors = 0 if outcome == GOOD else int(count)
            found[door] = DoorUse(use.turns + int(count), use.errors + errors)
        rates = {
            door: (use, (use.turns - self._before.get(door, DoorUse()).turns) / seconds) for door, use in found.items()
        }
        self._before = found
        self._at = now
        return rates


class Status:
    """A table of addresses that is redrawn every second below the log."""

    def __init__(self, announced: Announcement, doors: Sequence[Door], usage: Usage) -> None:
        self._announced = announced
        self._doors = [door for door in reversed(doors) if door.addresses()]
        self._usage = usage
        self._began = time.monotonic()

    def __rich__(self) -> Table:
        return self.table(self._usage.look())

    def table(self, uses: Mapping[str, tuple[DoorUse, float]]) -> Table:
        """One row per address; a door with several has its numbers in the first."""
        running = int(time.monotonic() - self._began)
        table = Table(box=None, pad_edge=False, title_justify="left", title_style="bold")
        table.title = f"Listening on {inert(self._announced.url)} for {_duration(running)}; Ctrl-C stops"
        for name, justify in (
            ("", "left"),
            ("address", "left"),
            ("turns", "right"),
            ("a second", "right"),
            ("errors", "right"),
        ):
            table.add_column(name, justify=justify, style="dim" if name == "address" else None, overflow="fold")  # type: ignore[arg-type]
        for door in self._doors:
            use, rate = uses.get(door.name, (DoorUse(), 0.0))
            numbers = [f"{use.turns:,}", f"{rate:.1f}", Text(f"{use.errors:,}", style="red" if use.errors else "")]
            for name, address in addresses_of(self._announced.public_url, [door]):
                table.add_row(Text(inert(name)), Text(inert(address)), *(numbers if use.turns else ["", "", ""]))
                numbers = ["", "", ""]
        return table


class ConsoleHandler(logging.Handler):
    """Writes log lines above the table."""

    def __init__(self, console: Any) -> None:
        super().__init__()
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._console.print(Text(inert(self.format(record))), soft_wrap=True)
        except Exception:
            self.handleError(record)


def wants_status(*, as_json: bool, workers: int) -> bool:
    """Whether there is a terminal to draw on; with several processes, plain lines are printed."""
    return HAS_RICH and not as_json and workers == 1 and sys.stdout.isatty() and sys.stderr.isatty()


class LiveStatus:
    """Draws the status from the moment the gateway answers until it stops."""

    def __init__(self, doors: Sequence[Door], metrics: Metrics, handler: logging.Handler) -> None:
        self.console = Console(stderr=True, highlight=False)
        self._doors = doors
        self._metrics = metrics
        self._handler = handler
        self._live: Any = None

    def start(self, announced: Announcement) -> None:
        """Print how to try it, and draw the table."""
        agents = ", ".join(announced.agents)
        self.console.print(Text(inert(f"Agents: {agents} (default: {announced.default})")))
        for reason in announced.unavailable:
            self.console.print(Text(inert(f"Unavailable: {reason}"), style="yellow"))
        if announced.page:
            self.console.print(Text(inert(f"Open: {announced.page}")), soft_wrap=True)
        self.console.print(Text(inert(f"Try:  {announced.command}\n")), soft_wrap=True)
        status = Status(announced, self._doors, Usage(self._metrics))
        self._live = Live(status, console=self.console, refresh_per_second=1, redirect_stdout=False)
        self._live.start()

    @contextmanager
    def around(self) -> Iterator[None]:
        """Log above the table while the gateway runs, and leave the last numbers on the screen."""
        above = ConsoleHandler(self.console)
        above.setFormatter(self._handler.formatter)
        for log_filter in self._handler.filters:
            above.addFilter(log_filter)
        root = logging.getLogger()
        root.handlers[:] = [above]
        try:
            yield
        finally:
            if self._live is not None:
                self._live.stop()
            root.handlers[:] = [self._handler]


def _duration(seconds: int) -> str:
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}"
