"""Subscriptions on the NLIP wire: a control message subscribes to a topic, and notifications follow (MW-70).

    {"messagetype": "control", …, "submessages": [{"format": "structured", "subformat": "json", "label": "subscribe",
     "content": {"topic": "task:ID", "since": 0, "seconds": 300}}]}

Topics are ``task:ID`` (its events), ``conversation`` (the turns of the conversation whose token is in the message),
``agent:NAME`` or ``group:NAME`` (changes of the caller's tasks there), and ``topic:NAME/TOPIC`` (what the agent of this
name publishes; ``Gateway.notify`` sends it). Events of this process are sent at once. Each notification has a number; a
client that lost the connection, or whose lease has ended, subscribes again with ``since`` and misses nothing.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from sabir.aio import until
from sabir.errors import BadMessage, NotFound, RateLimited, Unauthenticated
from sabir.exchange.request import EventSink
from sabir.guard import Credentials
from sabir.guard.quotas.rates import rate_limit_key
from sabir.message import Message, Part, json_part, text_part
from sabir.misfits import misfit
from sabir.protocols.nlip.door.context import NlipContext
from sabir.stores.base import ENDED, TaskRow
from sabir.turn import Caller

LABEL: Final = "subscribe"
NOTIFICATION: Final = "notification"
LOOK_SECONDS: Final = 0.25  # between two polls for events of other nodes
ALONE_SECONDS: Final = 2.0  # the same without a bus, for other processes on the same store
CLOSING_LOOK: Final = 0.5  # between checks whether the gateway is stopping
TASKS: Final = 100  # read at once
OVERLAP_SECONDS: Final = 60.0  # how far the clocks of nodes may differ
MAX_OPEN: Final = 100  # subscriptions of one caller; each is looked after several times a second


class SubscribeContent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of the labelled part."""

    topic: str
    since: Annotated[int, Meta(ge=0, le=2**53)] = 0  # the number of the last received notification
    seconds: Annotated[float, Meta(gt=0, le=3600)] = 300.0  # the lease


class Subscription:
    """One subscription of one client."""

    def __init__(self, services: NlipContext, asked: Message, content: SubscribeContent, door: str) -> None:
        self._services = services
        self._door = door
        self._asked = asked
        self._content = content
        self._look = ALONE_SECONDS if services.bus is None else LOOK_SECONDS

    @classmethod
    def of(cls, services: NlipContext, message: Message, door: str) -> Subscription | None:
        """The subscription that a message asks for, or None.

        Raises:
            BadMessage: the part is invalid.
        """
        part = message.labelled(LABEL) if message.is_control else None
        if part is None or part.format != "structured":
            return None
        try:
            content = msgspec.convert(part.value, SubscribeContent)
        except msgspec.ValidationError as exc:
            raise BadMessage("nlip", *misfit(exc, SubscribeContent, LABEL)) from None
        return cls(services, message, content, door)

    async def notifications(self, credentials: Credentials) -> AsyncGenerator[Message, None]:
        """The events as messages; the last one says why there are no more.

        Raises:
            SabirError: the caller is not admitted, or has no access to this topic.
        """
        caller = await self._services.guard.admit(credentials, self._asked.tokens, EventSink(_nowhere))
        number = self._content.since
        events = self._events(caller)
        end = time.monotonic() + self._content.seconds
        why = "The lease has ended"
        with self._counted(caller):
            try:
                while True:
                    async with asyncio.timeout(max(0.0, end - time.monotonic())) as lease:
                        async with self._ended_by_closing(lease):
                            number, body = await anext(events)
                    await self._check_still_valid(credentials, caller)
                    words = str(body.get("note") or body.get("kind") or "")
                    yield self._message(number, words, json_part(body, label="event"))
            except StopAsyncIteration:
                why = "It has ended"
            except TimeoutError:
                if self._services.exchange.closing:
                    why = "The gateway is stopping"
            except _NoLongerValid:
                why = "The credentials are no longer valid"
        facts = {"topic": self._content.topic, "since": number, "ended": why}
        yield self._message(number, f"{why}; subscribe again with since={number}.", json_part(facts, label=LABEL))

    @contextmanager
    def _counted(self, caller: Caller) -> Iterator[None]:
        """Raises:
        RateLimited: this caller has too many.
        """
        open_ones = self._services.subscriptions
        key = rate_limit_key(caller.address) if caller.is_anonymous else caller.id
        if open_ones[key] >= MAX_OPEN:
            raise RateLimited(f"at most {MAX_OPEN} subscriptions of one caller", retry_after=60.0)
        open_ones[key] += 1
        try:
            yield
        finally:
            open_ones[key] -= 1
            if not open_ones[key]:
                del open_ones[key]

    async def _check_still_valid(self, credentials: Credentials, caller: Caller) -> None:
        """Check again who asks, before something is sent to a caller who asked long ago.

        Raises:
            _NoLongerValid: the key was revoked, or the token has expired.
        """
        until = caller.claims.get("exp")
        if isinstance(until, int | float) and time.time() > until:
            raise _NoLongerValid
        if caller.is_anonymous or credentials.caller is not None or credentials.scheme("dpop") is not None:
            return
        try:
            await self._services.identity.caller(credentials, self._asked.tokens)
        except Unauthenticated:
            raise _NoLongerValid from None

    @asynccontextmanager
    async def _ended_by_closing(self, lease: asyncio.Timeout) -> AsyncIterator[None]:
        """End the lease when the gateway begins to stop; otherwise this stream would delay it until its timeout."""

        async def look() -> None:
            while not self._services.exchange.closing:
                await asyncio.sleep(CLOSING_LOOK)
            lease.reschedule(asyncio.get_running_loop().time())

        looking = asyncio.create_task(look(), name="subscription: looking")
        try:
            yield
        finally:
            looking.cancel()

    def _message(self, number: int, words: str, part: Part) -> Message:
        made = Message.of(text_part(words, label=str(number)), part, messagetype=NOTIFICATION)
        return made.with_parts(self._asked.tokens)

    def _events(self, caller: Caller) -> AsyncIterator[tuple[int, dict[str, Any]]]:
        kind, _, name = self._content.topic.partition(":")
        if kind == "task" and name:
            return self._task(name, caller)
        if kind == "conversation":
            return self._conversation(caller)
        if kind in ("agent", "group") and name:
            return self._agent(name, caller)
        if kind == "topic" and "/" in name:
            agent, _, topic = name.rpartition("/")
            return self._published(agent, topic, caller)
        expected = "task:ID, conversation, agent:NAME, group:NAME or topic:NAME/TOPIC"
        raise BadMessage("nlip", f"{LABEL}.topic", expected)

    async def _published(self, agent: str, topic: str, caller: Caller) -> AsyncIterator[tuple[int, dict[str, Any]]]:
        """What an agent publishes under a topic of its card."""
        known = self._services.find(caller, agent, self._door).card.publishes
        if topic not in known:
            words = f"{agent} does not publish {topic!r}; it publishes {', '.join(known) or 'nothing'}"
            raise NotFound(words)
        topics = self._services.topics
        async for number, event in topics.follow(agent, topic, self._content.since, self._look):
            yield number, {"kind": "published", "agent": agent, "topic": topic, "event": event}

    async def _task(self, task_id: str, caller: Caller) -> AsyncIterator[tuple[int, dict[str, Any]]]:
        async for event in self._services.tasks.follow(task_id, caller, self._content.since):
            yield event.number, {"kind": event.kind, "at": event.at, "body": event.body}

    async def _conversation(self, caller: Caller) -> AsyncIterator[tuple[int, dict[str, Any]]]:
        conversations, store = self._services.conversations, self._services.store
        where = await conversations.find(conversations.sort(self._asked.tokens, caller), caller)
        row = await store.conversation(where) if where is not None else None
        if row is None or row.owner != caller.id:
            raise NotFound("conversation not found, or not yours")
        seen = self._content.since
        with conversations.changes.watch(row.id) as changed:
            while row is not None and not row.ended:
                changed.clear()
                turns = await store.turns(row.id, max(0, row.turns - seen))
                count, row = row.turns, await store.conversation(row.id)
                if row is None or row.turns != count:
                    continue  # others came meanwhile, so these may not be the ones that were asked for
                for turn in turns:
                    seen += 1
                    body = {"kind": "turn", "agent": turn.agent, "asked": turn.asked.text}
                    yield seen, {**body, "answered": turn.answered.text}
                await until(changed, self._look)
                row = await store.conversation(row.id)

    async def _agent(self, name: str, caller: Caller) -> AsyncIterator[tuple[int, dict[str, Any]]]:
        """Changes of the caller's tasks at an agent. The number is the time of the change, in milliseconds."""
        if caller.is_anonymous:
            raise Unauthenticated("the tasks at an agent are shown to known callers; subscribe to task:ID")
        self._services.find(caller, name, self._door)
        seen: dict[str, float] = {}
        since = self._content.since / 1000
        with self._services.tasks.changes() as changed:
            while True:
                changed.clear()
                tasks = await self._tasks_since(caller, since)
                for task in tasks:
                    number = int(task.updated * 1000)
                    if task.agent != name or number <= self._content.since or seen.get(task.id) == task.updated:
                        continue
                    seen[task.id] = task.updated
                    note = task.note if task.state not in ENDED else ""
                    yield number, {"kind": "state", "task": task.id, "state": task.state, "note": note}
                if tasks:
                    since = max(since, tasks[-1].updated - OVERLAP_SECONDS)
                await until(changed, self._look)

    async def _tasks_since(self, caller: Caller, since: float) -> list[TaskRow]:
        """The caller's tasks that changed after this time, in the order of their changes."""
        found: dict[str, TaskRow] = {}
        before: float | None = None
        while True:
            rows = await self._services.store.tasks(owner=caller.id, limit=TASKS, before=before)
            new = {row.id: row for row in rows if row.id not in found}
            found.update(new)
            if len(rows) < TASKS or not new or rows[-1].updated <= since:
                changed = [row for row in found.values() if row.updated > since]
                return sorted(changed, key=lambda row: row.updated)
            before = math.nextafter(rows[-1].updated, math.inf)  # others may have changed at the same time


class _NoLongerValid(Exception):
    """The caller's key was revoked, or its token has expired."""


async def _nowhere(event: object) -> None:
    return None
