"""Reports to ACL agents about their tasks: the events of a task become acts, from the last one sent.

The reporter of a task is recorded in the store with a lease: after a restart, or the loss of a node, another continues.
Message ids are derived from the task and the event, so that repeated ones are dropped as duplicates.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from typing import Any, Final
from uuid import UUID, uuid5

import msgspec

from sabir.aio import cancel_and_wait
from sabir.dialogues.service import Dialogues, answer_to
from sabir.errors import Conflict, NotFound, SabirError
from sabir.events import Delta, Event, Fault, Progress, Question, Reply
from sabir.http.door import DoorContext
from sabir.ids import new_id
from sabir.message import Message
from sabir.protocols.acl.wire.content import act_of
from sabir.protocols.acl.wire.envelope import Envelope, decode, encode
from sabir.stores.base import Record, TaskEvent, TaskRow
from sabir.stores.rows import value_of as record_value
from sabir.tasks import FINAL
from sabir.tasks.states import part_of
from sabir.turn import Caller

logger = logging.getLogger("sabir.acl")

SPACE: Final = "acl-tasks"
LEASE: Final = 6.0  # seconds; a reporter that does not renew loses its task to another node
TASK_TOPIC: Final = "task"  # the subscription topic for a task's events
_SPACE_ID: Final = UUID("6f1f1c39-8f5e-5b6c-9d0a-0d5c2f2f7a11")
_QUERIES: Final = ("QUERY_IF", "QUERY_REF")
_STATEMENTS: Final = {"yes": True, "true": True, "no": False, "false": False}


class ReportedTask(msgspec.Struct, frozen=True):
    """A task and who is notified of it."""

    task: str
    agent: str
    opener: bytes  # the message that requested it, or subscribed to it
    caller: Caller
    last: int = 0  # the number of the last event sent
    node: str = ""
    lease: float = 0.0


_decode = msgspec.json.Decoder(ReportedTask).decode


class TaskReports:
    """Sends the events of tasks to those who asked for them."""

    def __init__(self, services: DoorContext, dialogues: Dialogues) -> None:
        self._services = services
        self._dialogues = dialogues
        self._node = new_id()
        self._running: dict[str, asyncio.Task[None]] = {}
        self._answered: dict[str, asyncio.Event] = {}
        self._looking: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._looking = asyncio.create_task(self._look(), name="acl tasks")

    async def stop(self) -> None:
        held = tuple(self._running)
        await cancel_and_wait([self._looking, *self._running.values()])
        with suppress(SabirError):  # then the leases expire
            for key in held:
                await self._note(key, lease=0.0)

    async def begin(self, envelope: Envelope, agent: str, caller: Caller, task: TaskRow) -> None:
        """Report a task to the sender of a message."""
        key = key_of(envelope, agent)
        report = ReportedTask(task.id, agent, encode(envelope), caller, node=self._node, lease=time.time() + LEASE)
        record = Record(SPACE, key, msgspec.json.encode(report), task.owner, task.expires)
        await self._services.store.put(record)
        self._run(key)

    async def known(self, key: str) -> ReportedTask | None:
        record = await self._services.store.get(SPACE, key)
        return record_value(record, _decode) if record is not None else None

    async def end(self, key: str) -> None:
        """Stop reporting it."""
        await cancel_and_wait([self._running.pop(key, None)])
        await self._services.store.delete(SPACE, key)

    def wake(self, key: str) -> None:
        """Wake the report of a task that was answered or cancelled."""
        if key in self._answered:
            self._answered[key].set()

    async def answer(
        self, envelope: Envelope, agent: str, act: str, payload: dict[str, Any], message_id: str = ""
    ) -> None:
        """Reply to a message; a reply that is out of sequence is dropped."""
        message_id = message_id or id_of(envelope.message_id, agent, act)
        reply = answer_to(envelope, act, payload, sender=agent, message_id=message_id)
        with suppress(Conflict):
            await self._dialogues.post(reply, envelope.sender_id)

    # -- who reports ------------------------------------------------------------------------------

    def _run(self, key: str) -> None:
        running = self._running.pop(key, None)
        if running is not None:
            running.cancel()
        task = self._running[key] = asyncio.create_task(self._report(key), name="acl task")
        task.add_done_callback(lambda done: self._forget(key, done))

    def _forget(self, key: str, done: asyncio.Task[None]) -> None:
        if self._running.get(key) is done:
            del self._running[key]
        if not done.cancelled() and (exc := done.exception()) is not None:
            logger.warning("Reporting an ACL task failed; retrying shortly: %s", exc)

    async def _look(self) -> None:
        """Renew the tasks that are reported here, and take over those that nobody reports."""
        while True:
            with suppress(SabirError):
                for record in await self._services.store.list(SPACE, limit=10_000):
                    report = record_value(record, _decode)
                    if record.key in self._running:
                        await self._note(record.key)
                    elif report is not None and report.lease < time.time() and await self._take(record, report):
                        self._run(record.key)
            await asyncio.sleep(LEASE / 3)

    async def _take(self, record: Record, report: ReportedTask) -> bool:
        mine = msgspec.structs.replace(report, node=self._node, lease=time.time() + LEASE)
        changed = msgspec.structs.replace(record, value=msgspec.json.encode(mine))
        return await self._services.store.put(changed, expect=record.version)

    async def _note(self, key: str, last: int | None = None, lease: float | None = None) -> None:
        """Renew the lease, and record which event was sent last."""
        record = await self._services.store.get(SPACE, key)
        known = record_value(record, _decode) if record is not None else None
        if record is None or known is None or known.node != self._node:
            return
        until = time.time() + LEASE if lease is None else lease
        number = known.last if last is None else last
        changed = msgspec.structs.replace(known, last=number, lease=until)
        value = msgspec.json.encode(changed)
        await self._services.store.put(msgspec.structs.replace(record, value=value), expect=record.version)

    async def _report(self, key: str) -> None:
        """Report one task until it has ended, across questions."""
        report = await self.known(key)
        if report is None:
            return
        tasks, number = self._services.tasks, report.last
        answered = self._answered[key] = asyncio.Event()
        try:
            while True:
                answered.clear()
                async for event in tasks.follow(report.task, report.caller, number):
                    number = event.number
                    await self._say(report, event)
                row = await tasks.find(report.task, report.caller)
                if row.state in FINAL:
                    await self._end(report, row)
                    await self._services.store.delete(SPACE, key)
                    return
                if row.state == "input-required":
                    await self._note(key, number)
                    with suppress(TimeoutError):
                        async with asyncio.timeout(1.0):  # another node may have the answer
                            await answered.wait()
        except NotFound:  # it has expired
            await self._services.store.delete(SPACE, key)
        finally:
            self._answered.pop(key, None)

    # -- what is said -----------------------------------------------------------------------------

    async def _say(self, report: ReportedTask, event: TaskEvent) -> None:
        opener = decode(report.opener)
        if opener.performative == "SUBSCRIBE":
            return await self._notify(report, opener, {"kind": event.kind, **event.body}, str(event.number))
        made = _event_of(event)
        if made is None or opener.performative in _QUERIES:
            return None
        act, payload = act_of(made)
        return await self.answer(opener, report.agent, act, payload, id_of(report.task, str(event.number)))

    async def _notify(self, report: ReportedTask, opener: Envelope, event: dict[str, Any], name: str) -> None:
        payload = {"topic": TASK_TOPIC, "event": {"task_id": report.task, **event}}
        await self.answer(opener, report.agent, "NOTIFY", payload, id_of(opener.message_id, report.task, name))

    async def _end(self, report: ReportedTask, row: TaskRow) -> None:
        opener = decode(report.opener)
        message_id = id_of(report.task, "end")
        if opener.performative == "SUBSCRIBE":
            return await self._notify(report, opener, {"kind": "end", "state": row.state}, "end")
        if row.state == "cancelled":
            return await self._cancelled(report, opener, message_id)
        if row.reply is not None:
            return await self.answer(opener, report.agent, *_result(opener, row.reply), message_id)
        fault = Fault(row.fault or "the task failed", row.fault_code or "failed")
        if opener.performative in _QUERIES:
            return await self.answer(opener, report.agent, *_unknown(opener, fault), message_id)
        return await self.answer(opener, report.agent, *act_of(fault), message_id)

    async def _cancelled(self, report: ReportedTask, opener: Envelope, message_id: str) -> None:
        """Report a cancelled task: after CANCEL, which is answered, or after another cancellation by its owner."""
        store = self._dialogues.store
        row = await store.dialogue(opener.conversation_id or "", opener.sender_id, report.agent)
        if row is not None and row.cancel:
            said = await store.utterance(row.cancel, opener.sender_id, report.agent)
            if said is not None:
                return await self.answer(decode(said.body), report.agent, "INFORM_DONE", {}, message_id)
        payload = {"status": "failure", "error_code": "cancelled", "error_text": "the task was cancelled"}
        return await self.answer(opener, report.agent, "FAILURE", payload, message_id)


def key_of(envelope: Envelope, agent: str) -> str:
    """The key of a conversation's reported task."""
    return f"{envelope.conversation_id}/{envelope.sender_id}/{agent}"


def id_of(*names: str) -> str:
    """A message id derived from what it answers, so that it is the same when it is sent again."""
    return str(uuid5(_SPACE_ID, "/".join(names)))


def _event_of(event: TaskEvent) -> Event | None:
    """The event that is reported while a task runs."""
    match event.kind:
        case "delta":
            return Delta(part_of(event.body))
        case "progress":
            return Progress(event.body.get("fraction"), str(event.body.get("note") or ""))
        case "question":
            return msgspec.convert(event.body, Question)
    return None


def _unknown(opener: Envelope, fault: Fault) -> tuple[str, dict[str, Any]]:
    """An agent that cannot answer a query does not know (ACL-10)."""
    if opener.performative == "QUERY_IF":
        return "INFORM_IF", {"result": None, "explanation": fault.reason}
    return "FAILURE", {"status": "failure", "error_code": "unsupported_value", "error_text": fault.reason}


def _result(opener: Envelope, reply: Message) -> tuple[str, dict[str, Any]]:
    """The act that carries the reply to a request or a query."""
    said = reply.without_tokens()
    data = next((part.value for part in said.parts if part.format == "structured" and part.kind == "json"), None)
    if opener.performative == "QUERY_IF":
        if isinstance(data, dict) and isinstance(data.get("result"), bool | None):
            return "INFORM_IF", {"result": data.get("result"), "explanation": said.text}
        word = said.text.strip().rstrip(".!").lower()
        return "INFORM_IF", {"result": _STATEMENTS.get(word), "explanation": said.text}
    if opener.performative == "QUERY_REF":
        value = data if data is not None else said.text
        return "INFORM_REF", {"reference": opener.payload.get("reference", opener.payload.get("text")), "value": value}
    return act_of(Reply(said))
