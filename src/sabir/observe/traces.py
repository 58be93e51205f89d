"""The observer of turns, which counts each and gives it a span; and traces in the W3C trace context.

Spans need ``pip install 'sabir[observe]'``; without it, or without an endpoint, an incoming context is passed on
unchanged.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Protocol

from .metrics import Metrics
from .settings import ObserveSettings

logger = logging.getLogger("sabir")

CLOSE_SECONDS: Final = 1.0  # for the last spans, when the gateway stops
TRIED_SECONDS: Final = 5  # for one batch of spans; if it was not accepted by then, it is lost
NO_CONVERSATION: Final = object()  # an exporter that drops its spans
_TRACEPARENT: Final = re.compile(r"00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})")


class TracedRequest(Protocol):
    """A request; ``sabir.exchange.request.TurnRequest`` is one."""

    door: str
    trace: str | None


class AnsweredTurn(Protocol):
    """Where a turn's meter is found when it has ended; ``sabir.exchange.request.EventSink`` is one."""

    @property
    def turn(self) -> Any: ...


class Observer:
    """Observes every turn: counts it, times it, and gives it a span if traces are enabled."""

    def __init__(
        self, metrics: Metrics | None = None, provider: Any = None, make: Callable[[str], Any] | None = None
    ) -> None:
        self.metrics = metrics or Metrics()
        self._provider = provider  # an opentelemetry TracerProvider, or None
        self._make = make  # makes one for a node, once that has its name
        self._tracer = provider.get_tracer("sabir") if provider is not None else None
        self.running = 0
        self.metrics.gauge("sabir_turns_running", "Turns that are running.", read=lambda: self.running)

    def open(self, node: str) -> None:
        """Use this node's name for spans; a process that is forked later has its own."""
        if self._make is not None:
            self._provider = self._make(node)
            self._tracer = self._provider.get_tracer("sabir")

    async def watched(self, asking: Awaitable[None], ask: TracedRequest, line: AnsweredTurn, agent: str) -> None:
        """Observe one turn."""
        with self.turn(ask, line, agent):
            await asking

    @contextmanager
    def turn(self, ask: TracedRequest, line: AnsweredTurn, agent: str) -> Iterator[None]:
        """Context manager around one turn; its trace context becomes the one to send on.

        An exception that leaves the block is the outcome, by its class name only.
        """
        began, outcome = time.perf_counter(), "ok"
        with self._span(ask, agent) as span:
            self.running += 1
            try:
                yield
            except BaseException as exc:
                outcome = type(exc).__name__
                raise
            finally:
                self.running -= 1
                self._count(ask.door, agent, outcome, time.perf_counter() - began, line)
                if span is not None:
                    span.set_attribute("sabir.outcome", outcome)

    def _count(self, door: str, agent: str, outcome: str, seconds: float, line: AnsweredTurn) -> None:
        metrics = self.metrics
        metrics.turns.add(door, agent, outcome)
        metrics.seconds.add(seconds, door, agent)
        meter = line.turn.meter if line.turn is not None else None
        if meter is None:
            return
        if meter.own_tokens:  # another node has counted its own usage
            metrics.prompt_tokens.add(agent, by=meter.own_tokens - meter.own_completion_tokens)
            metrics.completion_tokens.add(agent, by=meter.own_completion_tokens)
        if meter.own_cost:
            metrics.cost.add(agent, by=meter.own_cost)

    @contextmanager
    def _span(self, ask: TracedRequest, agent: str) -> Iterator[Any]:
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
        """Flush remaining spans with a short timeout, so that shutdown never blocks on the collector."""
        if self._provider is not None:
            ending = threading.Thread(target=self._provider.shutdown, name="traces", daemon=True)
            ending.start()
            ending.join(CLOSE_SECONDS)


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
    """Sends spans to an OTLP endpoint. Logs once when it becomes unavailable, and when it is available again."""

    def __init__(self, exporter: Any, endpoint: str) -> None:
        self._exporter = exporter  # opentelemetry's, which retries for a while and logs each attempt
        self._endpoint = endpoint
        self._away = False
        logging.getLogger(type(exporter).__module__).addFilter(_drop_exporter_noise)

    def export(self, spans: Any) -> Any:
        outcome = self._exporter.export(spans)
        away = outcome.name != "SUCCESS"
        if away and not self._away:
            logger.warning("Trace collector at %s is unavailable; spans are lost until it is back", self._endpoint)
        elif self._away and not away:
            logger.info("Trace collector at %s available again", self._endpoint)
        self._away = away
        return outcome

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        return bool(self._exporter.force_flush(timeout_millis))


def _drop_exporter_noise(record: logging.LogRecord) -> bool:
    """Hide opentelemetry's own log of each attempt, unless debugging."""
    return logging.getLogger("sabir").isEnabledFor(logging.DEBUG)


def observer_of(settings: ObserveSettings) -> Observer:
    """The observer that the settings describe; its spans have a name once it is opened.

    Raises:
        ImportError: traces are configured, but the extra is not installed.
    """
    if settings.traces is None:
        return Observer()
    provider_of(settings, NO_CONVERSATION).shutdown()  # report a missing extra now
    return Observer(make=lambda node: provider_of(settings, node=node))


def provider_of(settings: ObserveSettings, exporter: Any = None, node: str = "") -> Any:
    """An opentelemetry TracerProvider with this exporter, or with the configured endpoint.

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
    if exporter is not NO_CONVERSATION:
        provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider
