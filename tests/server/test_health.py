"""``/health`` tells who works from who waits."""

from __future__ import annotations

from pathlib import Path

import httpx2

from conftest import Serve
from sabir import Gateway, Turn, agent


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
    told = {**said, "content": "small", "submessages": [p for p in asked["submessages"] if p["format"] == "token"]}
    assert httpx2.post(url + "/nlip", json=told).json()["content"] == "One small coffee"
    health = httpx2.get(url + "/health").json()
    assert (health["running"], health["waiting"]) == (0, 0)
