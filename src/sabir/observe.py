"""What can be seen of the gateway from outside: metrics, traces, logs. Never content, never secrets.

Metrics are numbers with a few labels of known values, written in Prometheus' text format. Traces follow the W3C
trace context and need ``pip install 'sabir[observe]'``; without it, or without an end-point for them, a context that
comes in is handed on as it is. Nothing here is called unless it is switched on.
"""

from __future__ import annotations

import bisect
import logging
import operator
import os
import re
import threading
import time
import traceback
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, Literal, Protocol, TypeVar

import msgspec

logger = logging.getLogger("sabir")

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
CLOSE_SECONDS: Final = 1.0  # for the last spans, when the gateway stops
TRIED_SECONDS: Final = 5  # for one batch of spans; what was not taken then is lost
NOWHERE: Final = object()  # where spans go of which nobody is told
MOST_SERIES: Final = 1000  # of one metric; labels from outside must not fill the memory
_TRACEPARENT: Final = re.compile(r"00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})")


class ObserveSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is shown, and to whom; as it stands in the configuration file."""

    metrics: bool = False  # GET /metrics, to this machine and to callers with the role
    metrics_role: str = "operator"
    traces: str | None = None  # an OTLP/HTTP end-point, such as http://127.0.0.1:4318/v1/traces
    service: str = "sabir"
    sample: float = 1.0  # of turns that begin here; a decision that comes in is kept


# -- metrics --------------------------------------------------------------------------------------

Labels = tuple[str, ...]
Rows = dict[Labels, list[float]]  # what a metric says: one number, or the counts of a histogram and their sum
Snapshot = dict[str, Rows]  # all metrics of one process, by name
Over = Literal["sum", "max", "min"]  # how the numbers of several processes become one
_FOLDS: Final[Mapping[Over, Callable[[float, float], float]]] = {"sum": operator.add, "max": max, "min": min}


class Counter:
    """A number that grows."""

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
        self._read = read  # asked when the metrics are, instead of being told
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
    """A number that is what it is."""

    kind = "gauge"

    def set(self, value: float, *labels: str) -> None:
        self._values[_within(self._values, labels)] = value

    def set_all(self, values: Mapping[Labels, float]) -> None:
        """These and no others."""
        self._values = {}
        for labels, value in values.items():
            self.set(value, *labels)


class Histogram:
    """How numbers are spread: latencies, batch sizes."""

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
    return labels if labels in values or len(values) < MOST_SERIES else tuple("other" for _ in labels)


def _written(names: Labels, values: Labels) -> str:
    pairs = ",".join(f'{name}="{_escaped(value)}"' for name, value in zip(names, values, strict=True))
    return f"{{{pairs}}}" if pairs else ""


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)


Kind = TypeVar("Kind", Counter, Gauge, Histogram)


class Metrics:
    """The metrics of one gateway, as far as this process knows them.

    Where several processes serve, each can take in what the others say (``text``), and what those said that are gone
    (``kept``): what is counted does not go back because a process has ended.
    """

    def __init__(self) -> None:
        self._all: dict[str, Counter | Histogram] = {}
        self._looks: list[Callable[[], Awaitable[None]]] = []
        self.kept: Snapshot = {}
        self.turns = self.counter("sabir_turns_total", "Turns, by how they ended.", ("door", "agent", "outcome"))
        self.seconds = self.histogram("sabir_turn_seconds", "Seconds a turn took.", ("door", "agent"))
        self.tokens = self.counter("nlip_prompt_tokens_total", "Tokens of language models used.", ("agent",))
        self.cost = self.counter("nlip_inference_cost_usd_total", "What language models cost.", ("agent",))
        self.started = time.time()
        words = "When the oldest process that serves began to."
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
        """What is to be looked at each time before somebody is told; it sets gauges and raises nothing."""
        self._looks.append(look)

    async def look(self) -> None:
        """Bring the numbers up to date that have to be asked for."""
        for each in self._looks:
            await each()

    def snapshot(self) -> Snapshot:
        """Everything that this process says, with what it has taken over from one that is gone."""
        mine = {name: metric.rows() for name, metric in self._all.items()}
        return {name: _folded("sum", (mine[name], self._counted(name, self.kept))) for name in mine}

    def text(self, others: Iterable[Snapshot] = (), gone: Iterable[Snapshot] = ()) -> str:
        """Everything, in Prometheus' text format; with what other processes say, and those that do not answer said."""
        said, left, mine = list(others), list(gone), self.snapshot()
        lines: list[str] = []
        for name, metric in sorted(self._all.items()):
            rows = (mine[name], *(each.get(name, {}) for each in said), *(self._counted(name, each) for each in left))
            lines += [f"# HELP {name} {metric.text}", f"# TYPE {name} {metric.kind}"]
            lines += metric.lines(_folded(metric.over, rows))
        return "\n".join(lines) + "\n"

    def _counted(self, name: str, snapshot: Snapshot) -> Rows:
        """What stays true of a process when it is gone: what it has counted."""
        return {} if self._all[name].kind == "gauge" else snapshot.get(name, {})


def _folded(over: Over, all_rows: Iterable[Rows]) -> Rows:
    fold, folded = _FOLDS[over], Rows()
    for rows in all_rows:
        for labels, numbers in rows.items():
            known = folded.get(labels)
            folded[labels] = numbers if known is None else [*map(fold, known, numbers)]
    return folded


# -- traces ---------------------------------------------------------------------------------------


class Asked(Protocol):
    """What a turn is asked by; ``sabir.line.Ask`` is one."""

    door: str
    trace: str | None


class Answered(Protocol):
    """Where a turn's account is found when it has ended; ``sabir.line.Line`` is one."""

    @property
    def turn(self) -> Any: ...


class Observer:
    """Sees every turn: counts it, times it, and gives it a span if traces are on."""

    def __init__(
        self, metrics: Metrics | None = None, provider: Any = None, make: Callable[[str], Any] | None = None
    ) -> None:
        self.metrics = metrics or Metrics()
        self._provider = provider  # an opentelemetry TracerProvider, or None
        self._make = make  # makes one for a node, once that has its name
        self._tracer = provider.get_tracer("sabir") if provider is not None else None
        self.running = 0
        self.metrics.gauge("sabir_turns_running", "Turns under way.", read=lambda: self.running)

    def open(self, node: str) -> None:
        """From now on spans are this node's; a process that is forked later has a name of its own."""
        if self._make is not None:
            self._provider = self._make(node)
            self._tracer = self._provider.get_tracer("sabir")

    async def watched(self, asking: Awaitable[None], ask: Asked, line: Answered, agent: str) -> None:
        """See one turn through."""
        with self.turn(ask, line, agent):
            await asking

    @contextmanager
    def turn(self, ask: Asked, line: Answered, agent: str) -> Iterator[None]:
        """Stand around one turn; its trace context becomes the one to send on.

        What leaves the block as an exception is its outcome, by its name only.
        """
        began, outcome = time.perf_counter(), "ok"
        with self._span(ask, agent) as span:
            self.running += 1
            try:
                yield
            except BaseException as wrong:
                outcome = type(wrong).__name__
                raise
            finally:
                self.running -= 1
                self._count(ask.door, agent, outcome, time.perf_counter() - began, line)
                if span is not None:
                    span.set_attribute("sabir.outcome", outcome)

    def _count(self, door: str, agent: str, outcome: str, seconds: float, line: Answered) -> None:
        metrics = self.metrics
        metrics.turns.add(door, agent, outcome)
        metrics.seconds.add(seconds, door, agent)
        meter = line.turn.meter if line.turn is not None else None
        if meter is not None and meter.own_tokens:  # what another node has used, it has counted
            metrics.tokens.add(agent, by=meter.own_tokens)
        if meter is not None and meter.own_cost:
            metrics.cost.add(agent, by=meter.own_cost)

    @contextmanager
    def _span(self, ask: Asked, agent: str) -> Iterator[Any]:
        trace = ask.trace if ask.trace is not None and _TRACEPARENT.fullmatch(ask.trace) else None
        if self._tracer is None:
            ask.trace = trace
            yield None
            return
        names = {"sabir.door": ask.door, "sabir.agent": agent}
        with self._tracer.start_as_current_span(
            f"turn {agent}", context=_context(trace), kind=_server(), attributes=names, record_exception=False
        ) as span:
            ask.trace = _traceparent(span)
            yield span

    def close(self) -> None:
        """Hand over the spans that are still here, within a moment: who stops does not wait for who does not answer."""
        if self._provider is not None:
            ending = threading.Thread(target=self._provider.shutdown, name="traces", daemon=True)
            ending.start()
            ending.join(CLOSE_SECONDS)


def new_trace(sampled: bool = True) -> str:
    """The trace context of something that begins here."""
    return f"00-{os.urandom(16).hex()}-{os.urandom(8).hex()}-{'01' if sampled else '00'}"


def child_trace(trace: str | None) -> str:
    """The context for a call out of this hop: the same trace, a new parent. One that cannot be read begins anew."""
    match = _TRACEPARENT.fullmatch(trace or "")
    return new_trace() if match is None else f"00-{match[1]}-{os.urandom(8).hex()}-{match[3]}"


def _context(trace: str | None) -> Any:
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415  # an extra

    return TraceContextTextMapPropagator().extract({"traceparent": trace} if trace else {})


def _traceparent(span: Any) -> str:
    context = span.get_span_context()
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


def _server() -> Any:
    from opentelemetry.trace import SpanKind  # noqa: PLC0415  # an extra

    return SpanKind.SERVER


class Collector:
    """Hands spans to an OTLP end-point. One that is away is told to the log once, and that it is back."""

    def __init__(self, exporter: Any, endpoint: str) -> None:
        self._exporter = exporter  # opentelemetry's, which tries again for a while and tells each try
        self._endpoint = endpoint
        self._away = False
        logging.getLogger(type(exporter).__module__).addFilter(_untold)

    def export(self, spans: Any) -> Any:
        outcome = self._exporter.export(spans)
        away = outcome.name != "SUCCESS"
        if away and not self._away:
            logger.warning("no traces are taken at %s; spans are lost until they are", self._endpoint)
        elif self._away and not away:
            logger.info("traces are taken at %s again", self._endpoint)
        self._away = away
        return outcome

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        return bool(self._exporter.force_flush(timeout_millis))


def _untold(record: logging.LogRecord) -> bool:
    """What opentelemetry says of each try is for those who look for it."""
    return logging.getLogger("sabir").isEnabledFor(logging.DEBUG)


def observer_of(settings: ObserveSettings) -> Observer:
    """The observer that the settings describe; its spans have a name once it is opened.

    Raises:
        ImportError: traces are asked for, and the extra is not installed.
    """
    if settings.traces is None:
        return Observer()
    provider_of(settings, NOWHERE).shutdown()  # what is not installed is told now
    return Observer(make=lambda node: provider_of(settings, node=node))


def provider_of(settings: ObserveSettings, exporter: Any = None, node: str = "") -> Any:
    """An opentelemetry TracerProvider that hands its spans to the exporter, or to the end-point of the settings.

    Raises:
        ImportError: the extra is not installed.
    """
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
        from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased  # noqa: PLC0415
    except ImportError as missing:
        raise ImportError("traces need: pip install 'sabir[observe]'") from missing
    names = {"service.name": settings.service, **({"service.instance.id": node} if node else {})}
    provider = TracerProvider(
        resource=Resource.create(names),
        sampler=ParentBased(TraceIdRatioBased(settings.sample)),
        shutdown_on_exit=False,
    )
    if exporter is None:
        exporter = Collector(OTLPSpanExporter(endpoint=settings.traces, timeout=TRIED_SECONDS), str(settings.traces))
    if exporter is not NOWHERE:
        provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider


# -- logs -----------------------------------------------------------------------------------------

# What looks like a credential does not reach a log, whoever logs it.
_CREDENTIALS: Final = re.compile(
    r"\bsb1\.[A-Za-z0-9_-]{8,}|\bsbk_[0-9a-f]{4,32}_[A-Za-z0-9_-]{8,}|\beyJ[\w-]{8,}\.[\w-]{4,}\.[\w-]{4,}"
    r"|\bsk-[A-Za-z0-9_-]{16,}|(?<=[Bb]earer )[A-Za-z0-9._~+/=-]{8,}|(?<=://)[^\s/:@]{1,128}:[^\s/:@]{1,256}(?=@)"
    r"|(?<=[?&]token=)[^\s&]{4,}|(?<=[?&]key=)[^\s&]{4,}"
)
UNTOLD: Final = "its words are told at level debug"


_LINE: Final = 300  # characters of what an exception says


def scrubbed(text: str) -> str:
    """A text for the log: without credentials, and on one line."""
    clean = _CREDENTIALS.sub("[redacted]", text)
    return clean if clean.isprintable() else clean.replace("\r", "\\r").replace("\n", "\\n").replace("\x1b", "\\x1b")


def without_words(wrong: BaseException) -> str:
    """What failed and where, as a traceback tells it, but not what exceptions say: that may be what a caller said."""
    chain: list[BaseException] = []
    each: BaseException | None = wrong
    while each is not None and each not in chain:
        chain.append(each)
        each = each.__cause__ or (None if each.__suppress_context__ else each.__context__)
    told: list[str] = []
    for each in reversed(chain):
        kind = f"{type(each).__module__}.{type(each).__qualname__}".removeprefix("builtins.")
        within = (
            ", ".join(type(one).__qualname__ for one in each.exceptions) if isinstance(each, BaseExceptionGroup) else ""
        )
        frames = "".join(traceback.format_tb(each.__traceback__))
        told.append(f"Traceback (most recent call last):\n{frames}{kind}{f' of {within}' if within else ''} ({UNTOLD})")
    return "\n\n".join(told)


def in_a_line(wrong: BaseException) -> str:
    """The same in a line: what failed and where, and what it says only where the log is open to that."""
    kind = type(wrong).__qualname__
    if logging.getLogger("sabir").isEnabledFor(logging.DEBUG):
        return f"{kind}: {scrubbed(str(wrong))[:_LINE]}"
    where = traceback.extract_tb(wrong.__traceback__)[-1:]
    return kind + "".join(f" in {each.name}, {os.path.basename(each.filename)}:{each.lineno}" for each in where)


class Scrub(logging.Filter):
    """Takes credentials out of log records, and out of exceptions what they say: that only at level debug."""

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        clean = scrubbed(text)
        if clean != text:
            record.msg, record.args = clean, ()
        if record.exc_info and record.exc_info[1] is not None and not record.exc_text:
            openly = logging.getLogger("sabir").isEnabledFor(logging.DEBUG)
            said = logging.Formatter().formatException(record.exc_info) if openly else without_words(record.exc_info[1])
            record.exc_text = _CREDENTIALS.sub("[redacted]", said)
        return True


# Here and not only where a log is set up: a program around ``Gateway(…).run()`` has handlers of its own, or none.
LOGGERS: Final = ("sabir", "sabir.a2a", "sabir.bus", "sabir.guard", "sabir.mcp", "sabir.search", "sabir.store")
for _name in LOGGERS:
    logging.getLogger(_name).addFilter(Scrub())


class JsonLines(logging.Formatter):
    """One JSON object a line. Fields given as ``extra={"fields": {…}}`` stand beside the text."""

    def format(self, record: logging.LogRecord) -> str:
        line = {"at": record.created, "level": record.levelname, "logger": record.name, "text": record.getMessage()}
        line.update(getattr(record, "fields", {}))
        if record.exc_text or record.exc_info:
            line["trace"] = record.exc_text or self.formatException(record.exc_info)  # type: ignore[arg-type]
        return msgspec.json.encode(line).decode()
