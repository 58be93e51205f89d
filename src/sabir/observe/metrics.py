"""Metrics: numbers with a few labels of known values, in Prometheus' text format.

Not ``prometheus_client``, which costs two to eight times as much per turn, and whose multi-process mode has no metrics
that are read on demand (docs/decisions.md).
"""

from __future__ import annotations

import bisect
import operator
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Final, Literal, TypeVar

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
MAX_SERIES: Final = 1000  # per metric; labels from outside must not fill the memory

Labels = tuple[str, ...]
Rows = dict[Labels, list[float]]  # the values of a metric: one number, or the counts of a histogram and their sum
Snapshot = dict[str, Rows]  # all metrics of one process, by name
Over = Literal["sum", "max", "min"]  # how the values of several processes are combined
_FOLDS: Final[Mapping[Over, Callable[[float, float], float]]] = {"sum": operator.add, "max": max, "min": min}


class Counter:
    """A number that only grows."""

    kind = "counter"

    def __init__(
        self,
        name: str,
        text: str,
        labels: Labels = (),
        read: Callable[[], float] | None = None,
        over: Over = "sum",
    ) -> None:
        self.name, self.text, self.labels, self.over = name, text, labels, over
        self._read = read  # read on demand instead of being set
        self._values: dict[Labels, float] = {}

    def add(self, *labels: str, by: float = 1.0) -> None:
        key = _within(self._values, labels)
        self._values[key] = self._values.get(key, 0.0) + by

    def value(self, *labels: str) -> float:
        return self._values.get(labels, 0.0)

    def rows(self) -> Rows:
        if self._read is not None:
            self._values[()] = float(self._read())
        return {labels: [value] for labels, value in self._values.items()}

    def lines(self, rows: Rows | None = None) -> Iterator[str]:
        for labels, (value,) in sorted((self.rows() if rows is None else rows).items()):
            yield f"{self.name}{_written(self.labels, labels)} {_number(value)}"


class Gauge(Counter):
    """A number that can go up and down."""

    kind = "gauge"

    def set(self, value: float, *labels: str) -> None:
        self._values[_within(self._values, labels)] = value

    def set_all(self, values: Mapping[Labels, float]) -> None:
        """Set these values and no others."""
        self._values = {}
        for labels, value in values.items():
            self.set(value, *labels)


class Histogram:
    """A distribution: latencies, batch sizes."""

    kind = "histogram"
    over: Over = "sum"

    def __init__(self, name: str, text: str, labels: Labels = (), bounds: tuple[float, ...] = SECONDS) -> None:
        self.name, self.text, self.labels, self.bounds = name, text, labels, bounds
        self._counts: dict[Labels, list[int]] = {}
        self._sums: dict[Labels, float] = {}

    def add(self, value: float, *labels: str) -> None:
        key = _within(self._counts, labels)
        counts = self._counts.get(key)
        if counts is None:
            counts = self._counts[key] = [0] * (len(self.bounds) + 1)
        counts[bisect.bisect_left(self.bounds, value)] += 1
        self._sums[key] = self._sums.get(key, 0.0) + value

    def count(self, *labels: str) -> int:
        return sum(self._counts.get(labels, ()))

    def rows(self) -> Rows:
        return {labels: [*counts, self._sums[labels]] for labels, counts in self._counts.items()}

    def lines(self, rows: Rows | None = None) -> Iterator[str]:
        for labels, (*counts, sums) in sorted((self.rows() if rows is None else rows).items()):
            total = 0
            for bound, count in zip((*self.bounds, float("inf")), counts, strict=True):
                total += int(count)
                where = _written((*self.labels, "le"), (*labels, "+Inf" if bound == float("inf") else _number(bound)))
                yield f"{self.name}_bucket{where} {total}"
            yield f"{self.name}_sum{_written(self.labels, labels)} {_number(sums)}"
            yield f"{self.name}_count{_written(self.labels, labels)} {total}"


def _within(values: Mapping[Labels, object], labels: Labels) -> Labels:
    return labels if labels in values or len(values) < MAX_SERIES else tuple("other" for _ in labels)


def _written(names: Labels, values: Labels) -> str:
    pairs = ",".join(f'{name}="{_escaped(value)}"' for name, value in zip(names, values, strict=True))
    return f"{{{pairs}}}" if pairs else ""


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)


Kind = TypeVar("Kind", Counter, Gauge, Histogram)


class Metrics:
    """The metrics of one gateway, as known to this process.

    With several processes, each can include the values of the others (``text``), and of those that have ended
    (``kept``): a counter does not go back because a process has ended.
    """

    def __init__(self) -> None:
        self._all: dict[str, Counter | Histogram] = {}
        self._looks: list[Callable[[], Awaitable[None]]] = []
        self.kept: Snapshot = {}
        self.turns = self.counter("sabir_turns_total", "Turns, by how they ended.", ("door", "agent", "outcome"))
        self.seconds = self.histogram("sabir_turn_seconds", "How many seconds turns took.", ("door", "agent"))
        self.prompt_tokens = self.counter("nlip_prompt_tokens_total", "Tokens sent to language models.", ("agent",))
        self.completion_tokens = self.counter(
            "nlip_completion_tokens_total", "Tokens that language models wrote.", ("agent",)
        )
        self.cost = self.counter(
            "nlip_inference_cost_usd_total",
            "What language models cost, where the configuration has a price.",
            ("agent",),
        )
        self.started = time.time()
        words = "Start time of the oldest serving process."
        self.gauge("sabir_start_time_seconds", words, read=lambda: self.started, over="min")

    def counter(self, name: str, text: str, labels: Labels = (), read: Callable[[], float] | None = None) -> Counter:
        return self._add(Counter(name, text, labels, read))

    def gauge(
        self,
        name: str,
        text: str,
        labels: Labels = (),
        read: Callable[[], float] | None = None,
        over: Over = "sum",
    ) -> Gauge:
        return self._add(Gauge(name, text, labels, read, over))

    def histogram(self, name: str, text: str, labels: Labels = (), bounds: tuple[float, ...] = SECONDS) -> Histogram:
        return self._add(Histogram(name, text, labels, bounds))

    def _add(self, metric: Kind) -> Kind:
        if metric.name in self._all:
            raise ValueError(f"there is a metric {metric.name} already")
        self._all[metric.name] = metric
        return metric

    def __iter__(self) -> Iterator[Counter | Histogram]:
        return iter(metric for _, metric in sorted(self._all.items()))

    def before(self, look: Callable[[], Awaitable[None]]) -> None:
        """Register a function that runs before each read; it sets gauges and raises nothing."""
        self._looks.append(look)

    async def look(self) -> None:
        """Update the values that are read on demand."""
        for item in self._looks:
            await item()

    def snapshot(self) -> Snapshot:
        """All values of this process, including those taken over from one that has ended."""
        mine = {name: metric.rows() for name, metric in self._all.items()}
        return {name: _folded("sum", (mine[name], self._counted(name, self.kept))) for name in mine}

    def text(self, others: Iterable[Snapshot] = (), gone: Iterable[Snapshot] = ()) -> str:
        """Everything in Prometheus' text format, including other processes, with a note about those that do not
        answer."""
        said, left, mine = list(others), list(gone), self.snapshot()
        lines: list[str] = []
        for name, metric in sorted(self._all.items()):
            rows = (mine[name], *(item.get(name, {}) for item in said), *(self._counted(name, item) for item in left))
            lines += [f"# HELP {name} {metric.text}", f"# TYPE {name} {metric.kind}"]
            lines += metric.lines(_folded(metric.over, rows))
        return "\n".join(lines) + "\n"

    def _counted(self, name: str, snapshot: Snapshot) -> Rows:
        """The part of a process's values that remains valid after its end: its counters."""
        return {} if self._all[name].kind == "gauge" else snapshot.get(name, {})


def _folded(over: Over, all_rows: Iterable[Rows]) -> Rows:
    fold, folded = _FOLDS[over], Rows()
    for rows in all_rows:
        for labels, numbers in rows.items():
            known = folded.get(labels)
            folded[labels] = numbers if known is None else [*map(fold, known, numbers)]
    return folded
