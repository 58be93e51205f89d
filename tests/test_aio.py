"""Background tasks are cancelled, and waited for."""

from __future__ import annotations

import asyncio
import logging

import pytest

from sabir import aio as ending
from sabir.aio import cancel_and_wait


async def test_running_tasks_are_ended_and_tasks_that_never_began_do_no_harm() -> None:
    task = asyncio.create_task(asyncio.Event().wait())
    await cancel_and_wait([task, None])
    assert task.cancelled()


async def test_a_task_that_loses_its_cancellation_is_cancelled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ending, "AGAIN_SECONDS", 0.01)
    answer = 0

    async def deaf() -> None:
        nonlocal answer
        while answer < 3:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                answer += 1

    task = asyncio.create_task(deaf())
    await asyncio.sleep(0)
    await cancel_and_wait([task])
    assert (answer, task.done()) == (3, True)


async def test_what_a_task_failed_with_before_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def fails() -> None:
        raise ValueError("the disk is gone")

    task = asyncio.create_task(fails(), name="sweeper")
    await asyncio.wait([task])
    with caplog.at_level(logging.DEBUG, "sabir"):
        await cancel_and_wait([task])
    assert "sweeper had failed" in caplog.text and "the disk is gone" in caplog.text
