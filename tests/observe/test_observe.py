"""Metrics, traces and logs: numbers and names, no content."""

from __future__ import annotations

import io
import json
import logging
import os
import re
import threading
from pathlib import Path
from typing import Any

import httpx2
import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from conftest import Serve
from sabir import Turn, agent
from sabir.gateway.gateway import Gateway
from sabir.guard.build import GuardSettings
from sabir.message import Message
from sabir.observe.logs import JsonLines, Scrub, scrubbed
from sabir.observe.metrics import MAX_SERIES, Counter, Gauge, Histogram, Metrics
from sabir.observe.settings import ObserveSettings
from sabir.observe.traces import Observer, provider_of
from sabir.protocols.connect import connect
from sabir.server import Serving
from sabir.stores.base import TaskRow

TRACE = re.compile(r"00-[0-9a-f]{32}-[0-9a-f]{16}-0[01]")


def new_trace() -> str:
    """A sampled trace context."""
    return f"00-{os.urandom(16).hex()}-{os.urandom(8).hex()}-01"


@agent(description="Repeats")
async def parrot(turn: Turn) -> str:
    turn.spend(tokens=7, cost=0.25)
    return turn.text


@agent(description="Fails")
async def broken(turn: Turn) -> str:
    raise ValueError("inside")


def say(url: str, text: str, **headers: str) -> httpx2.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    message = {"format": "text", "subformat": "english", "content": text}
    return httpx2.post(url, json=message, headers=named, trust_env=False)


# -- metrics --------------------------------------------------------------------------------------


def test_metrics_are_written_as_prometheus_reads_them() -> None:
    counter = Counter("a_total", "As.", ("kind",))
    counter.add('x"\\\n')
    counter.add("y", by=2.5)
    assert list(counter.lines()) == ['a_total{kind="x\\"\\\\\\n"} 1', 'a_total{kind="y"} 2.5']
    gauge = Gauge("g", "G.", read=lambda: 4)
    assert list(gauge.lines()) == ["g 4"]
    histogram = Histogram("h", "H.", bounds=(1.0, 2.5))
    for value in (0.5, 1.0, 2.0, 9.0):
        histogram.add(value)
    assert list(histogram.lines()) == [
        'h_bucket{le="1"} 2', 'h_bucket{le="2.5"} 3', 'h_bucket{le="+Inf"} 4', "h_sum 12.5", "h_count 4",
    ]  # fmt: skip


def test_labels_from_outside_do_not_fill_the_memory() -> None:
    counter = Counter("a_total", "As.", ("kind",))
    for number in range(MAX_SERIES * 2):
        counter.add(str(number))
    assert counter.value("other") == MAX_SERIES
    assert len(list(counter.lines())) == MAX_SERIES + 1


def test_two_metrics_of_one_name_are_a_mistake() -> None:
    metrics = Metrics()
    with pytest.raises(ValueError):
        metrics.counter("sabir_turns_total", "again")


def test_the_gateway_counts_its_turns(serve: Serve, home: Path) -> None:
    served = serve(Gateway(parrot, broken, home=home, observe=ObserveSettings(metrics=True)))
    say(f"{served.url}/nlip", "PLANTED-content")
    say(f"{served.url}/nlip/broken", "x")
    say(f"{served.url}/nlip/PLANTED-name", "x")
    answer = httpx2.get(f"{served.url}/metrics", trust_env=False)
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = answer.text.splitlines()
    assert 'sabir_turns_total{door="nlip-http",agent="parrot",outcome="ok"} 1' in lines
    assert 'sabir_turns_total{door="nlip-http",agent="broken",outcome="TurnFailed"} 1' in lines
    assert 'sabir_turns_total{door="nlip-http",agent="unknown",outcome="NotFound"} 1' in lines
    assert 'nlip_prompt_tokens_total{agent="parrot"} 7' in lines
    assert 'nlip_inference_cost_usd_total{agent="parrot"} 0.25' in lines
    assert 'sabir_turn_seconds_count{door="nlip-http",agent="parrot"} 1' in lines
    assert "# TYPE sabir_turn_seconds histogram" in lines and "sabir_turns_running 0" in lines
    assert "PLANTED" not in answer.text
    read = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    assert 0 < int(read["sabir_store_commits_total"]) <= int(read["sabir_store_writes_total"])
    assert float(read["sabir_store_batch_size"]) >= 1.0
    assert {name: read[name] for name in ("sabir_store_waiting", "sabir_tasks_running", "sabir_peers_open")} == {
        "sabir_store_waiting": "0", "sabir_tasks_running": "0", "sabir_peers_open": "0",
    }  # fmt: skip


async def test_tasks_that_wait_for_somebody_are_counted(home: Path) -> None:
    gateway = Gateway(parrot, home=home, observe=ObserveSettings(metrics=True))
    await gateway.start()
    row = TaskRow("t1", "ada", "an agent of another node", "submitted", 1.0, 1.0, 4e9, Message.text("x"))
    await gateway.store.put_task(row, expect=0)
    transport = httpx2.ASGITransport(gateway)
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080") as client:
        assert "sabir_tasks_waiting 1" in (await client.get("/metrics")).text.splitlines()
    await gateway.stop()


def test_metrics_are_off_unless_asked_for(serve: Serve, home: Path) -> None:
    served = serve(Gateway(parrot, home=home))
    assert served.gateway.exchange.observer is None
    assert httpx2.get(f"{served.url}/metrics", trust_env=False).status_code == 404


def test_behind_a_proxy_metrics_need_the_role(serve: Serve, home: Path) -> None:
    """There everybody seems to come from this machine."""
    gateway = Gateway(
        parrot, home=home, guard=GuardSettings(), observe=ObserveSettings(metrics=True),
        serving=Serving(behind_tls_proxy=True, home=str(home)),
    )  # fmt: skip
    served = serve(gateway)
    assert httpx2.get(f"{served.url}/metrics", trust_env=False).status_code == 401
    forwarded = {"x-forwarded-for": "203.0.113.9, 127.0.0.1"}
    assert httpx2.get(f"{served.url}/metrics", headers=forwarded, trust_env=False).status_code == 401


# -- traces ---------------------------------------------------------------------------------------


def observed(gateway: Gateway, spans: InMemorySpanExporter) -> Gateway:
    gateway.exchange.observer = Observer(provider=provider_of(ObserveSettings(traces="-"), spans))
    return gateway


def test_spans_join_over_two_hops(serve: Serve, home: Path, tmp_path: Path) -> None:
    """SEC-P2.4, OBS-1: one trace from the caller through two gateways, by the W3C header (D-55)."""
    one, two = InMemorySpanExporter(), InMemorySpanExporter()
    heard: list[str | None] = []

    @agent(description="Remembers the context")
    async def far(turn: Turn) -> str:
        heard.append(turn.trace)
        return turn.text

    behind = serve(observed(Gateway(far, home=tmp_path / "two"), two))
    front = serve(observed(Gateway(connect(f"{behind.url}/nlip", name="far"), home=home), one))
    caller = new_trace()
    assert say(f"{front.url}/nlip", "PLANTED", traceparent=caller).status_code == 200
    for served in (front, behind):
        observer = served.gateway.exchange.observer
        assert observer is not None
        observer.close()
    trace, parent = caller.split("-")[1:3]
    # The front also asks, when it starts, what the far agent can do: a trace of its own.
    [first], [second] = (
        [span for span in spans.get_finished_spans() if f"{span.context.trace_id:032x}" == trace]
        for spans in (one, two)
    )
    assert first.parent is not None and f"{first.parent.span_id:016x}" == parent
    assert second.parent is not None and second.parent.span_id == first.context.span_id
    assert heard[-1:] == [f"00-{trace}-{second.context.span_id:016x}-01"]
    assert dict(first.attributes or {}) == {"sabir.door": "nlip-http", "sabir.agent": "far", "sabir.outcome": "ok"}
    assert "PLANTED" not in str([span.to_json() for span in (first, second)])


def test_a_failed_turn_is_seen_by_its_kind_only(serve: Serve, home: Path) -> None:
    spans = InMemorySpanExporter()
    served = serve(observed(Gateway(broken, home=home), spans))
    say(f"{served.url}/nlip", "x", traceparent="not a context")
    observer = served.gateway.exchange.observer
    assert observer is not None
    observer.close()
    [span] = spans.get_finished_spans()
    assert dict(span.attributes or {})["sabir.outcome"] == "TurnFailed"
    assert span.events == () and span.parent is None
    assert "inside" not in span.to_json()


def test_without_traces_a_context_is_handed_on_if_it_is_one(serve: Serve, home: Path) -> None:
    heard: list[str | None] = []

    @agent(description="Remembers the context")
    async def spy(turn: Turn) -> str:
        heard.append(turn.trace)
        return ""

    served = serve(Gateway(spy, home=home, observe=ObserveSettings(metrics=True)))
    good = new_trace()
    for trace in (good, f"00-{'0' * 32}-{'1' * 16}-01", "00-x", f"{good}\tPLANTED"):
        say(f"{served.url}/nlip", "x", traceparent=trace)
    assert heard == [good, None, None, None]


# -- logs -----------------------------------------------------------------------------------------


def logged(formatter: logging.Formatter, text: str, *args: Any, exc: BaseException | None = None) -> str:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter)
    handler.addFilter(Scrub())
    logger = logging.Logger(f"test {threading.get_ident()}")
    logger.addHandler(handler)
    logger.warning(text, *args, exc_info=exc)
    return stream.getvalue()


@pytest.mark.parametrize(
    "secret",
    ["sbk_0123456789ab_abcdefgh12345678", "sb1.abcdefgh12345678", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abcdefgh",
     "sk-abcdefghijklmnop1234", "Bearer abcdefgh12345678", "https://user:hunter22@host/x", "https://host/?token=abcdefgh"],
)  # fmt: skip
def test_credentials_do_not_reach_a_log_whoever_logs_them(secret: str) -> None:
    core = secret.removeprefix("Bearer ").removeprefix("https://user:").removeprefix("https://host/?token=")
    for text in (logged(JsonLines(), f"sent {secret}"), logged(JsonLines(), "sent %s to %d", secret, 7)):
        assert core.partition("@")[0] not in text and "[redacted]" in text
    try:
        raise ValueError(f"could not use {secret}")
    except ValueError as exc:
        line = json.loads(logged(JsonLines(), "failed", exc=exc))
    assert core.partition("@")[0] not in line["trace"] and "ValueError" in line["trace"]


def test_a_line_stays_one_line() -> None:
    text = logged(logging.Formatter("%(levelname)s %(message)s"), "agent %s", "x\nERROR forged\x1b[2J\r")
    assert text == "WARNING agent x\\nERROR forged\\x1b[2J\\r\n"
    assert scrubbed("Grüße, 世界") == "Grüße, 世界"


def test_json_lines_are_json() -> None:
    line = json.loads(logged(JsonLines(), "turn %s took %d ms", "t1", 12))
    assert line["text"] == "turn t1 took 12 ms" and line["level"] == "WARNING" and line["at"] > 1.7e9
