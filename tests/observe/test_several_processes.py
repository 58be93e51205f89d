"""Worker processes report combined metrics: counters are added up, and never go back."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from sabir.agents.echo import echo
from sabir.gateway.endpoints.metrics_workers import WorkerGroup
from sabir.gateway.gateway import Gateway
from sabir.observe.metrics import Metrics
from sabir.observe.settings import ObserveSettings


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="sabir ") as found:  # short: a socket is to be in it
        yield Path(found)


def metrics(turns: int, seconds: tuple[float, ...] = (), up: float = 1.0, waiting: float = 0.0) -> Metrics:
    made = Metrics()
    made.turns.add("nlip-http", "echo", "ok", by=turns)
    for second in seconds:
        made.seconds.add(second, "nlip-http", "echo")
    made.gauge("up", "Up.", read=lambda: up, over="min")
    made.gauge("waiting", "Waiting.", read=lambda: waiting)
    return made


def lines(text: str, *names: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith(names)]


async def test_counters_and_histograms_are_added_and_gauges_folded_as_they_say(folder: Path) -> None:
    one = WorkerGroup(folder, metrics(16, (0.001, 0.3), waiting=2.0))
    two = WorkerGroup(folder, metrics(4, (0.3,), up=0.0, waiting=3.0))
    await one.join()
    await two.join()
    for group in (one, two):
        answer = await group.text()
        assert lines(answer, "sabir_turns_total{") == [
            'sabir_turns_total{door="nlip-http",agent="echo",outcome="ok"} 20'
        ]
        assert lines(answer, "up ", "waiting ") == ["up 0", "waiting 5"]
        (count,) = lines(answer, "sabir_turn_seconds_count")
        (total,) = lines(answer, "sabir_turn_seconds_sum")
        (half,) = [line for line in lines(answer, "sabir_turn_seconds_bucket") if 'le="0.25"' in line]
        assert [item.rpartition(" ")[2] for item in (count, total, half)] == ["3", "0.601", "1"]
    await one.leave()
    await two.leave()


async def test_the_counts_of_an_ended_process_stay_and_are_not_counted_twice_by_its_successor(
    folder: Path,
) -> None:
    one, two = WorkerGroup(folder, metrics(16, waiting=1.0)), WorkerGroup(folder, metrics(4, waiting=1.0))
    await one.join()
    await two.join()
    await two.leave()
    answer = await one.text()
    assert lines(answer, "sabir_turns_total{", "waiting ")[0].endswith(" 20")
    assert "waiting 1\n" in answer  # nobody waits at one that is gone
    three = WorkerGroup(folder, metrics(2))
    await three.join()
    for group in (one, three):
        assert lines(await group.text(), "sabir_turns_total{")[0].endswith(" 22")
    await three.leave()
    assert lines(await one.text(), "sabir_turns_total{")[0].endswith(" 22")
    await one.leave()


async def test_processes_that_cannot_meet_report_only_themselves(
    tmp_path: Path, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    gateway = Gateway(echo, home=home, observe=ObserveSettings(metrics=True))
    gateway.services.group = tmp_path / ("long" * 30)  # more than a socket may be called
    gateway.services.group.mkdir()
    await gateway.start()
    transport = httpx2.ASGITransport(gateway)
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080") as client:
        assert "sabir_turns_running 0" in (await client.get("/metrics")).text
    await gateway.stop()
    assert "/metrics covers only one worker" in caplog.text
