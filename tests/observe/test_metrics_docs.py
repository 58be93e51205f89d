"""The list of metrics in the docs is the list of metrics."""

from __future__ import annotations

from pathlib import Path

from sabir.agents.echo import echo
from sabir.gateway.gateway import Gateway
from sabir.observe.settings import ObserveSettings

ROOT = Path(__file__).resolve().parents[2]


def test_every_metric_is_in_the_docs_unchanged(home: Path) -> None:
    gateway = Gateway(
        echo, home=home, bus="memory:", gateways={"far": "http://127.0.0.1:9"}, observe=ObserveSettings(metrics=True)
    )
    assert gateway.exchange.observer is not None
    made = []
    for metric in gateway.exchange.observer.metrics:
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        made.append(f"| `{metric.name}` | {metric.kind} | {labels} | {metric.text} | {metric.over} |")
    page = (ROOT / "docs" / "watching.md").read_text(encoding="utf-8")
    assert [line for line in page.splitlines() if line.startswith(("| `sabir_", "| `nlip_"))] == [
        line.replace("|  |", "| |") for line in made
    ]
