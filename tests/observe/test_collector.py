"""Spans over the wire to a collector: their owner, their kind, and what happens while the collector is unavailable."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import httpx2
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from conftest import Serve
from deadline import DEADLINE
from free_ports import free_port
from sabir import Turn, agent
from sabir.gateway.gateway import Gateway
from sabir.observe import traces
from sabir.observe.settings import ObserveSettings

SERVER_KIND = 2  # of OTLP


@agent(description="Repeats")
async def parrot(turn: Turn) -> str:
    return turn.text


@contextmanager
def collecting(port: int) -> Iterator[list[ExportTraceServiceRequest]]:
    """An OTLP/HTTP end-point."""
    taken: list[ExportTraceServiceRequest] = []

    class Takes(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = ExportTraceServiceRequest()
            request.ParseFromString(self.rfile.read(int(self.headers["content-length"])))
            taken.append(request)
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *args: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", port), Takes)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield taken
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")  # milliseconds between two batches


def say(url: str) -> None:
    message = {"format": "text", "subformat": "english", "content": "hello"}
    assert httpx2.post(f"{url}/nlip", json=message, trust_env=False).status_code == 200


def until(holds: Any) -> None:
    end = time.monotonic() + DEADLINE
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


def traced(home: Path, port: int) -> Gateway:
    return Gateway(
        parrot, home=home, node="harbour", observe=ObserveSettings(traces=f"http://127.0.0.1:{port}/v1/traces")
    )


def test_a_span_says_which_node_it_is_of_and_that_it_was_served(serve: Serve, home: Path) -> None:
    port = free_port()
    with collecting(port) as taken:
        served = serve(traced(home, port))
        say(served.url)
        until(lambda: taken)
    (of_resource,) = taken[0].resource_spans
    names = {attribute.key: attribute.value.string_value for attribute in of_resource.resource.attributes}
    assert (names["service.name"], names["service.instance.id"]) == ("sabir", "harbour")
    (span,) = of_resource.scope_spans[0].spans
    assert (span.name, span.kind) == ("turn parrot", SERVER_KIND)


async def test_an_unavailable_collector_is_logged_once_and_blocks_nobody(
    home: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(traces, "TRIED_SECONDS", 1)
    caplog.set_level(logging.INFO)
    port = free_port()
    gateway = traced(home, port)
    await gateway.start()
    transport = httpx2.ASGITransport(gateway)
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080") as client:
        message = {"format": "text", "subformat": "english", "content": "hello"}

        async def turns_until(words: str) -> None:
            end = time.monotonic() + DEADLINE
            while words not in caplog.text:
                assert (await client.post("/nlip", json=message)).status_code == 200
                assert time.monotonic() < end

        await turns_until("is unavailable; spans are lost")
        with collecting(port):
            await turns_until("again")
        caplog.clear()
        await turns_until("is unavailable; spans are lost")
        for _ in range(20):
            await client.post("/nlip", json=message)
    begun = time.monotonic()
    await gateway.stop()
    assert time.monotonic() - begun < 10.0
    logged = [
        f"{record.levelname} {record.getMessage()}" for record in caplog.records if not record.name.startswith("httpx2")
    ]
    assert logged == [
        f"WARNING Trace collector at http://127.0.0.1:{port}/v1/traces is unavailable; spans are lost until it is back"
    ]
