"""The machine's clock is set while the gateway runs: nothing is lost, and work goes on."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import httpx2
import pytest

import sabir.stores.sqlite.store
from conftest import Serve
from sabir import agent
from sabir.gateway.gateway import Gateway
from sabir.stores.clock import CautiousClock
from sabir.tasks import TaskSettings
from sabir.turn import Turn

HOUR, DAY = 3600.0, 86400.0


class SetClock:
    """``time.time`` as a machine has it whose clock can be set; what is steady stays so."""

    def __init__(self) -> None:
        self.off = 0.0
        self._real = time.time

    def __call__(self) -> float:
        return self._real() + self.off


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SetClock:
    made = SetClock()
    monkeypatch.setattr(time, "time", made)
    monkeypatch.setattr(sabir.stores.sqlite.store, "now", made)
    return made


def test_a_clock_that_jumps_ahead_makes_nothing_expire_before_its_time() -> None:
    wall, steady = 1000.0, 5.0
    now = CautiousClock(lambda: wall, lambda: steady)
    assert now() == 1000.0
    wall, steady = wall + 60, steady + 60
    assert now() == 1060.0
    wall += 365 * DAY
    assert now() == 1060.0
    wall -= 2 * 365 * DAY
    assert now() == 1060.0 - 365 * DAY


@agent(name="memory")
async def memory(turn: Turn) -> str:
    return f"{len(turn.conversation.turns)} turns so far"


@agent(name="slow", repeatable=True)
async def slow(turn: Turn) -> str:
    await asyncio.sleep(0.3)
    return "done"


@pytest.mark.parametrize("jump", [365 * DAY, -2 * DAY, 2 * HOUR, -HOUR / 2], ids=["year", "back", "hours", "half hour"])
async def test_a_conversation_and_a_task_continue_when_the_clock_jumps(
    jump: float, clock: SetClock, serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sabir.gateway.gateway.SWEEP_SECONDS", 0.02)
    served = serve(Gateway(memory, slow, home=tmp_path, tasks=TaskSettings(lease=0.5, look=0.05)))
    async with httpx2.AsyncClient(verify=False) as http:

        async def ask(*tokens: object) -> dict[str, object]:
            message = {"format": "text", "subformat": "english", "content": "hello", "submessages": list(tokens)}
            reply = await http.post(f"{served.url}/nlip", json=message)
            assert reply.status_code == 200, reply.text
            return reply.json()  # type: ignore[no-any-return]

        first = await ask()
        token = first["submessages"][0]  # type: ignore[index]
        message = {"format": "text", "subformat": "english", "content": "work"}
        accepted = await http.post(f"{served.url}/nlip/slow", json=message, headers={"prefer": "respond-async"})
        assert accepted.status_code == 202
        clock.off = jump
        await asyncio.sleep(0.1)  # several sweeps and looks of the worker pass
        assert (await ask(token))["content"] == "1 turns so far"
        clock.off = 0.0
        assert (await ask(token))["content"] == "2 turns so far"
        place = served.url + accepted.headers["location"]
        done = await http.get(place, headers={"prefer": "wait=10"})
        assert (done.status_code, done.json()["content"]) == (200, "done")
