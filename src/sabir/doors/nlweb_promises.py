"""Promises: what a task of the gateway looks like to NLWeb."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

from ..errors import Conflict
from ..events import Fault, Field, Question
from ..stores.base import TaskRow
from ..tasks import FINAL, Tasks
from ..turn import Caller
from ..wire.nlweb_answers import Telling
from ..wire.nlweb_models import Promise, Response

TELLING: Final = "nlweb"  # under which a task keeps how its answer shall be told
BEGAN: Final = "began"  # and when its work began, which was before it became a task


class Promises:
    """Looks after promises: ``checkin`` and ``cancel``."""

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks

    async def look(self, token: str, action: str, caller: Caller, telling: Telling, seconds: float) -> Response:
        """How a promise stands, or stood when it was cancelled; waits up to ``seconds`` for its end.

        Raises:
            NotFound: there is no such promise, or it is another's.
        """
        if action == "cancel":
            try:
                task = await self._tasks.cancel(token, caller)
            except Conflict:  # it has ended: how it ended is the answer
                task = await self._tasks.find(token, caller)
        else:
            task = await self._tasks.wait(token, caller, seconds)
        return told(task, telling)


def told(task: TaskRow, telling: Telling) -> Response:
    """A task in NLWeb: its answer, its failure, its question, or another promise."""
    telling = telling.as_kept(task.detail.get(TELLING))
    token = task.conversation or None
    if task.state == "completed" and task.reply is not None:
        return telling.reply(task.reply, token)
    if task.state in FINAL:
        return telling.failure(Fault(task.fault or task.state, task.fault_code or "failed").error(), token)
    if task.state == "input-required" and task.question is not None:
        return telling.question(question_in(task.question), token)
    return telling.promise(Promise(task.id, remaining(task), task.note or None, task.progress), token)


def remaining(task: TaskRow) -> int | None:
    """Seconds that a task will need yet, if its progress allows a guess."""
    if not task.progress or not 0.0 < task.progress < 1.0:
        return None
    began = float(task.detail.get(BEGAN, task.created))
    whole = max(0.0, task.updated - began) / task.progress
    return max(1, round(whole - (time.time() - began)))


def question_in(stored: Mapping[str, Any]) -> Question:
    """The Question that a task waits on."""
    fields = tuple(
        Field(f["id"], f["text"], f.get("kind", "text"), tuple(f.get("options", ()))) for f in stored.get("fields", ())
    )
    return Question(str(stored.get("text", "")), fields, id=str(stored.get("id", "")))
