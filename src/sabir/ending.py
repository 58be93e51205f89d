"""Ending tasks of the event loop: they are told to stop, and waited for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Any, Final

logger = logging.getLogger("sabir")

AGAIN_SECONDS: Final = 3.0


async def end(tasks: Iterable[asyncio.Task[Any] | None]) -> None:
    """Cancel tasks, and wait until all have ended.

    A cancellation can be lost: ``asyncio.wait_for`` of Python 3.11 drops it if what it waits for comes at the same
    moment, and libraries use it. So whoever goes on is told again. What a task had failed with before that is
    logged, because nobody else looks.
    """
    ending = {task for task in tasks if task is not None}
    for task in ending:
        if task.done() and not task.cancelled() and (wrong := task.exception()) is not None:
            logger.error("%s had failed", task.get_name(), exc_info=wrong)
    pending = {task for task in ending if not task.done()}
    while pending:
        for task in pending:
            task.cancel()
        ended, pending = await asyncio.wait(pending, timeout=AGAIN_SECONDS)
        for task in ended:
            task.cancelled() or task.exception()  # looked at, so that asyncio does not complain
