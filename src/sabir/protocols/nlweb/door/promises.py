"""Promises: what a task of the gateway looks like to NLWeb."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

from sabir.errors import Conflict
from sabir.events import Fault, Question, stored_question
from sabir.protocols.nlweb.wire.models import Promise, Response
from sabir.protocols.nlweb.wire.responses import ResponseFormat
from sabir.stores.base import TaskRow
from sabir.tasks import FINAL, Tasks
from sabir.tasks.records import BEGAN
from sabir.turn import Caller

FORMAT: Final = "nlweb"  # the key of a task's detail for the format of its answer
_LONGEST: Final = 7 * 86400.0  # seconds that an estimate may say


class Promises:
    """Handles promises: ``checkin`` and ``cancel``."""

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks

    async def look(
        self, token: str, action: str, caller: Caller, response_format: ResponseFormat, seconds: float
    ) -> Response:
        """The state of a promise, or its end if it is cancelled; waits up to ``seconds`` for its end.

        Raises:
            NotFound: there is no such promise, or it belongs to another caller.
        """
        if action == "cancel":
            try:
                task = await self._tasks.cancel(token, caller)
            except Conflict:  # it has ended: its outcome is the answer
                task = await self._tasks.find(token, caller)
        else:
            task = await self._tasks.wait(token, caller, seconds)
        return response_of(task, response_format)


def response_of(task: TaskRow, response_format: ResponseFormat) -> Response:
    """A task in NLWeb: its answer, its failure, its question, or another promise."""
    response_format = response_format.restored(task.detail.get(FORMAT))
    token = task.conversation or None
    if task.state == "completed" and task.reply is not None:
        return response_format.reply(task.reply, token)
    if task.state in FINAL:
        return response_format.failure(Fault(task.fault or task.state, task.fault_code or "failed").error(), token)
    if task.state == "input-required" and task.question is not None:
        return response_format.question(question_in(task.question), token)
    return response_format.promise(Promise(task.id, remaining(task), task.note or None, task.progress), token)


def remaining(task: TaskRow) -> int | None:
    """The remaining seconds of a task, if its progress allows an estimate.

    While no progress is reported, the estimate falls to a tenth of the time that has gone, and then grows slowly.
    """
    if not task.progress or not 0.0 < task.progress < 1.0:
        return None
    began = float(task.detail.get(BEGAN, task.created))
    whole = max(0.0, task.updated - began) / task.progress
    passed = max(0.0, time.time() - began)
    return max(1, round(min(max(whole - passed, passed / 10), _LONGEST)))


def question_in(stored: Mapping[str, Any]) -> Question:
    """The Question that a task waits on."""
    return stored_question(stored)
