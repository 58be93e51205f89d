"""``/health`` distinguishes running turns from waiting ones."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx2
import pytest

from conftest import Serve
from free_ports import free_port
from sabir import Gateway, Turn, agent
from sabir.gateway.endpoints import metrics


@agent
async def barista(turn: Turn) -> str:
    size = await turn.ask("Which size?")
    return f"One {size.text} {turn.text}"


def test_a_turn_that_waits_for_an_answer_is_not_said_to_run(serve: Serve, home: Path) -> None:
    url = serve(Gateway(barista, home=home)).url
    said = {"format": "text", "subformat": "english", "content": "coffee"}
    asked = httpx2.post(url + "/nlip", json=said).json()
    health = httpx2.get(url + "/health").json()
    assert (health["running"], health["waiting"]) == (0, 1)
    found = {**said, "content": "small", "submessages": [p for p in asked["submessages"] if p["format"] == "token"]}
    assert httpx2.post(url + "/nlip", json=found).json()["content"] == "One small coffee"
    health = httpx2.get(url + "/health").json()
    assert (health["running"], health["waiting"]) == (0, 0)


async def test_health_answers_soon_even_while_the_store_is_slow(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "LOOK_SECONDS", 0.05)
    gateway = Gateway(barista, home=home)
    await gateway.start()
    monkeypatch.setattr(gateway.store, "ping", asyncio.Event().wait)
    transport = httpx2.ASGITransport(gateway)
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080") as client:
        response = await client.get("/health")
        assert (response.status_code, response.json()["store"], response.headers["retry-after"]) == (
            503,
            "unavailable",
            "1",
        )
        assert (await client.get("/health/live")).status_code == 200
    await gateway.stop()


def test_a_broker_that_is_unavailable_is_reported(serve: Serve, home: Path) -> None:
    """Health was ok while nothing could come in over AMQP (issue 11, D16)."""
    doors = {"nlip-amqp": {"url": f"amqp://127.0.0.1:{free_port()}", "address": "nobody"}}
    url = serve(Gateway(barista, home=home, doors=doors)).url
    for path in ("/health", "/health/ready"):
        response = httpx2.get(url + path)
        assert response.status_code == 200
        body = response.json()
        assert (body["status"], body["nlip-amqp"]) == ("degraded", "unavailable")
        assert body["reason"] == "the broker is unavailable; messages over AMQP wait there"
    assert httpx2.get(url + "/health/live").json() == {"status": "ok"}


def test_a_door_without_a_configured_broker_is_not_reported_as_unhealthy(serve: Serve, home: Path) -> None:
    url = serve(Gateway(barista, home=home)).url
    assert httpx2.get(url + "/health").json()["status"] == "ok"
