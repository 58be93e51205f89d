"""A gateway inside another program: ``serve()``, ``async with``, notebooks."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx2
import pytest

from free_ports import free_port
from sabir import Gateway, agent
from sabir.server.settings import Serving
from sabir.turn import Turn


@agent
async def counter(turn: Turn) -> str:
    return f"turn {len(turn.conversation.turns) + 1}"


async def test_a_gateway_is_served_in_a_running_loop(tmp_path: Path) -> None:
    async with Gateway(counter, home=tmp_path).serving_at(port=0) as url, httpx2.AsyncClient() as client:
        reply = await client.post(f"{url}/nlip", json={"format": "text", "subformat": "english", "content": "hi"})
        assert reply.json()["content"] == "turn 1"
    with pytest.raises(httpx2.TransportError):
        httpx2.get(f"{url}/health")


async def test_serve_runs_until_it_is_cancelled(tmp_path: Path) -> None:
    gateway = Gateway(counter, home=tmp_path)
    task = asyncio.create_task(gateway.serve(port=free_port()))
    async with httpx2.AsyncClient() as client:
        while True:
            try:
                health = await client.get(f"{gateway.public_url}/health/ready")
            except httpx2.TransportError:  # it does not listen yet
                await asyncio.sleep(0.01)
                continue
            assert health.status_code == 200
            break
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_async_with_serves_while_the_block_runs(tmp_path: Path) -> None:
    async with Gateway(counter, home=tmp_path, serving=Serving(port=free_port(), home=str(tmp_path))) as gateway:
        async with httpx2.AsyncClient() as client:
            assert (await client.get(f"{gateway.public_url}/health")).json()["status"] == "ok"
