"""NLIP over HTTP (ECMA-431): ``POST /nlip``, ``/nlip/`` and ``/nlip/{agent}``, as raw ASGI on the hot path.

Every answer is an NLIP message, errors included. ``Accept: text/event-stream`` gives partial messages and a final one;
``Prefer: respond-async`` or ``wait=N`` gives 202 and a URL to poll (D-26, D-34).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import aclosing
from typing import Final, NoReturn

import msgspec
from starlette.routing import BaseRoute, Match, NoMatchFound
from starlette.types import ASGIApp, Receive, Scope, Send

from sabir.errors import BadInput, BadMediaType, BadMessage, BadMethod, NotFound, SabirError, Unreadable
from sabir.events import Delta, Event, Fault, Progress, Question, Reply, stored_question
from sabir.exchange.request import EventSink, TurnRequest
from sabir.guard import Credentials
from sabir.http.admission import NO_AGENT, Admission
from sabir.http.disconnect import Comment, DisconnectWatcher
from sabir.http.door import Door, settings_for
from sabir.http.fallback import BROKEN
from sabir.http.request import (
    NO_PREFERENCE,
    Preferences,
    accept_of,
    check_body_headers,
    credentials_of,
    headers_of,
    hops_of,
    idempotency_key,
    media_type_of,
    prefer_of,
    read_body,
    trace_of,
)
from sabir.http.response import (
    json_headers,
    preference_applied,
    refusal_headers,
    send_events,
    start_events,
)
from sabir.limits import FEW_BYTES, check_cost
from sabir.message import Message, Part, json_part, uri_part
from sabir.protocols.nlip.door.context import NlipContext
from sabir.protocols.nlip.wire import json as nlip
from sabir.protocols.nlip.wire.rules import PROTOCOL
from sabir.stores.base import TaskRow

from .batch import Batch
from .envelope import EnvelopeTurn
from .subscription import NOTIFICATION, Subscription

logger = logging.getLogger("sabir")

DOOR: Final = "nlip-http"
NOTHING: Final = Message.text("")  # stands for the question if a request has several messages


class NlipOptions(msgspec.Struct, frozen=True):
    """The options in the headers of a request."""

    prefer: Preferences = NO_PREFERENCE
    strict: bool = False
    streams: bool = False
    key: str | None = None
    trace: str | None = None
    hops: int = 0


_SPECIAL: Final = frozenset({b"accept", b"prefer", b"idempotency-key", b"traceparent", b"x-sabir-hops"})
_PLAIN: Final = NlipOptions()
_PLAIN_STRICT: Final = NlipOptions(strict=True)


def parse_headers(headers: Mapping[bytes, bytes], *, strict: bool) -> NlipOptions:
    """Parse the options in the headers. A client may ask a lenient door to be strict, but not the other way round.

    Raises:
        BadMessage: an invalid idempotency key.
    """
    if _SPECIAL.isdisjoint(headers):
        return _PLAIN_STRICT if strict else _PLAIN
    prefer = prefer_of(headers[b"prefer"]) if b"prefer" in headers else NO_PREFERENCE
    if strict and prefer.handling != "strict":
        prefer = prefer.strictly()
    return NlipOptions(
        prefer,
        prefer.handling == "strict",
        b"accept" in headers and accept_of(headers[b"accept"]).wants_events,
        idempotency_key(headers, "nlip"),
        trace_of(headers),
        hops_of(headers[b"x-sabir-hops"]) if b"x-sabir-hops" in headers else 0,
    )


class NlipHttpSettings(msgspec.Struct, frozen=True):
    """The settings under ``doors: {nlip-http: …}``."""

    strict: bool = False  # follow the standard to the letter, whatever a client prefers


class NlipHttp(Door):
    """The door. One instance serves all agents."""

    name = DOOR

    def __init__(self, services: NlipContext) -> None:
        self.services = services
        self.settings = settings_for(DOOR, NlipHttpSettings, services)

    def raw(self) -> Mapping[str, ASGIApp]:
        return {"/nlip": self, "/nlip/": self}

    def routes(self) -> Sequence[BaseRoute]:
        return [Everything("/nlip/", self)]

    def addresses(self) -> Sequence[tuple[str, str]]:
        return [("NLIP over HTTP", "/nlip")]

    # -- one request ------------------------------------------------------------------------------

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = NlipResponse(send, receive)
        try:
            path = scope["path"]
            agent, task = (None, None) if path == "/nlip" else _place(path)
            headers = headers_of(scope)
            credentials = credentials_of(scope, behind_proxy=self.services.behind_proxy, headers=headers)
            admission = answer.admission = Admission(self.services, DOOR, credentials, agent)
            options = parse_headers(headers, strict=self.settings.strict)
            if options.strict:
                answer.applied = options.prefer.without_later().applied
            if task is not None:
                await self._task(task, scope, receive, answer, options, admission)
            elif scope["method"] != "POST":
                raise BadMethod("nlip", "method", "POST")
            else:
                message = answer.asked = await self._read(receive, headers, options, answer)
                ask = TurnRequest(message, DOOR, agent, credentials, options.key, None, options.trace, options.hops)
                if answer.batch is not None:
                    await self._answer_batch(answer.batch, ask, answer)
                    return
                if answer.envelope is not None:
                    ask = answer.envelope.adjust(ask)
                await self._answer(ask, answer, options)
        except SabirError as exc:
            await answer.refuse(exc)
        except asyncio.CancelledError:
            if answer.watcher is None or not answer.watcher.is_gone:
                raise
        except Exception:
            logger.exception("%s failed", scope["path"])
            await answer.refuse(SabirError(BROKEN))
        finally:
            answer.close()

    async def _read(
        self, receive: Receive, headers: Mapping[bytes, bytes], options: NlipOptions, answer: NlipResponse
    ) -> Message:
        """The message of a request.

        Raises:
            RateLimited: this address is over its rate; nothing is read.
            BadInput: the body is not a message.
        """
        limits, admission = self.services.limits, answer.admission
        assert admission is not None
        admission.check_open()
        check_body_headers(headers, limits, "nlip")
        packet = await receive()
        body: bytes = packet.get("body", b"")
        if packet.get("more_body") or packet["type"] == "http.disconnect":
            body = await read_body(receive, limits, "nlip", packet)
        admission.size = len(body)
        if headers.get(b"content-type") != b"application/json":
            _check_type(media_type_of(headers), body, strict=options.strict)
        try:
            if len(body) < FEW_BYTES:
                return nlip.decode(body, strict=options.strict, limits=limits)
            async with self.services.heavy.work(check_cost(body, limits, PROTOCOL), admission):
                return nlip.decode(body, strict=options.strict, limits=limits, is_counted=True)
        except BadMessage as exc:
            if options.strict:
                raise  # the standard has no envelopes
            answer.batch = Batch.read(self.services, body, exc, admission.agent)
            if answer.batch is not None:
                return NOTHING
            found = answer.envelope = EnvelopeTurn.read(self.services, body, exc, admission.agent)
            found.check()
            return found.message

    def _answer(self, ask: TurnRequest, answer: NlipResponse, options: NlipOptions) -> Awaitable[None]:
        if ask.message.messagetype is not None and options.streams:
            subscription = Subscription.of(self.services, ask.message, DOOR)
            if subscription is not None:
                return self._notify(subscription, ask.credentials, answer)
        # Control messages are never deferred: the gateway itself answers them.
        prefer = options.prefer.without_later() if ask.message.is_control else options.prefer
        answer.applied, answer.key = prefer.applied, options.key
        if prefer.later or (answer.envelope is not None and answer.envelope.is_notification):
            return self._later(ask, answer, prefer)
        if options.streams:
            return self._stream(ask, answer)
        line = EventSink(answer.event, on_slow=answer.watch)
        answer.set_line(line)
        return self.services.exchange.ask(ask, line)

    async def _notify(self, subscription: Subscription, credentials: Credentials, answer: NlipResponse) -> None:
        """Notifications as server-sent events, each with its number as id."""
        answer.watch(asyncio.current_task(), answer.comment)
        stream = EventStream(answer)
        async with aclosing(subscription.notifications(credentials)) as found:
            async for message in found:
                await stream.notify(message)
        await answer.chunk(b"", last=True)

    async def _answer_batch(self, batch: Batch, whole: TurnRequest, answer: NlipResponse) -> None:
        def request(message: Message, number: int) -> TurnRequest:
            key = f"{whole.key}:{number}" if whole.key is not None else None
            return TurnRequest(message, DOOR, whole.agent, whole.credentials, key, None, whole.trace, whole.hops)

        answer.watch(asyncio.current_task())
        await batch.answer(request, lambda body: answer.body(200, body))

    # -- streaming --------------------------------------------------------------------------------

    async def _stream(self, ask: TurnRequest, answer: NlipResponse) -> None:
        stream = EventStream(answer)
        line = EventSink(stream.event)
        answer.set_line(line)
        answer.watch(asyncio.current_task(), answer.comment)
        try:
            await self.services.exchange.ask(ask, line)
        except SabirError as exc:
            if not answer.begun:
                raise
            await stream.fault(exc)

    # -- later ------------------------------------------------------------------------------------

    async def _later(self, ask: TurnRequest, answer: NlipResponse, prefer: Preferences) -> None:
        tasks = self.services.tasks
        # Authenticated once: a one-time proof would be invalid the second time.
        caller = await self.services.identity.caller(ask.credentials, ask.message.tokens)
        ask.credentials = Credentials(caller.address, caller=caller)
        line = EventSink(answer.event, caller)
        answer.set_line(line)
        if answer.admission is not None:
            answer.admission.caller = caller
        task = await tasks.submit(ask)
        conversations = self.services.conversations
        own = conversations.sort(task.message.tokens, caller).own  # perhaps new; every answer carries it (D-16)
        line.tokens = (*conversations.sort(ask.message.tokens, caller).echo, *((own,) if own is not None else ()))
        line.conversation = own
        if answer.envelope is not None and answer.envelope.is_notification:
            await answer.message(202, Message.text("").with_parts(line.tokens))  # nobody waits for more (G-11)
            return
        if prefer.wait:
            task = await tasks.wait(task.id, caller, min(prefer.wait, 60.0))
        await answer.task(task, self.services.public_url)

    async def _task(
        self,
        task_id: str,
        scope: Scope,
        receive: Receive,
        answer: NlipResponse,
        options: NlipOptions,
        admission: Admission,
    ) -> None:
        tasks, admission.agent = self.services.tasks, NO_AGENT
        caller = await admission.authenticate_and_charge()
        answer.line = EventSink(answer.event)
        match scope["method"]:
            case "GET" | "HEAD":
                answer.applied = options.prefer.applied
                task = await tasks.wait(task_id, caller, min(options.prefer.wait or 0.0, 60.0))
            case "DELETE":
                return await answer.cancelled(await tasks.cancel(task_id, caller))
            case "POST":
                message = answer.asked = await self._read(receive, headers_of(scope), options, answer)
                task = await tasks.answer(task_id, caller, message)
            case _:
                raise BadMethod("nlip", "method", "GET, HEAD, POST, DELETE")
        await answer.task(task, self.services.public_url)


class Everything(BaseRoute):
    """Any path below this one that no other route took."""

    def __init__(self, prefix: str, app: ASGIApp) -> None:
        self.prefix = prefix
        self.app = app

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        taken = scope["type"] == "http" and scope["path"].startswith(self.prefix)
        return (Match.FULL if taken else Match.NONE), {}

    def url_path_for(self, name: str, /, **path_params: object) -> NoReturn:
        raise NoMatchFound(name, path_params)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.app(scope, receive, send)


def _place(path: str) -> tuple[str | None, str | None]:
    """The agent or task that a path names.

    Raises:
        NotFound: it names neither.
    """
    if path == "/nlip" or path == "/nlip/":
        return None, None
    steps = path.removeprefix("/nlip/").rstrip("/").split("/")
    if len(steps) == 1 and steps[0]:
        return steps[0], None
    if len(steps) == 2 and steps[0] == "tasks" and steps[1]:
        return None, steps[1]
    raise NotFound("not found; messages go to /nlip or /nlip/{agent}")


def _check_type(kind: str, body: bytes, *, strict: bool) -> None:
    if kind == "application/json":
        return
    if strict or not body.lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"{", b"[", b'"')):
        if kind or strict:
            raise BadMediaType("nlip", "Content-Type", "application/json")
        raise Unreadable("nlip", "character 0", "a JSON object")


class NlipResponse(msgspec.Struct, eq=False):
    """The response to one request, sent once."""

    _send: Send
    _receive: Receive
    admission: Admission | None = None
    key: str | None = None
    asked: Message | None = None
    applied: tuple[str, ...] = ()
    line: EventSink | None = None
    batch: Batch | None = None  # if the request has several messages
    envelope: EnvelopeTurn | None = None  # if the question came in one
    watcher: DisconnectWatcher | None = None
    begun: bool = False
    sent: bool = False

    def set_line(self, line: EventSink) -> None:
        self.line = line
        if self.envelope is not None:
            self.envelope.line = line
        if self.admission is not None:
            self.admission.line = line

    def watch(self, task: asyncio.Task[object] | None, comment: Comment | None = None) -> None:
        """Cancel this task if the client disconnects: for slow turns, and streams."""
        self.watcher = DisconnectWatcher(self._receive, self.is_sent, comment)
        self.watcher.start(task)

    def is_sent(self) -> bool:
        return self.sent

    def close(self) -> None:
        """Release the turn, to break a reference cycle."""
        if self.watcher is not None:
            self.watcher.stop()
            self.watcher = None
        if self.line is not None:
            self.line.send, self.line.on_slow = _nowhere, None

    def event(self, event: Event) -> Awaitable[None]:
        """Handle an event of the turn if only its end and its questions are shown."""
        if isinstance(event, Reply):
            return self.message(200, event.message)
        if isinstance(event, Question):
            return self.message(200, nlip.question_message(event).with_parts(self.tokens()))
        return _nowhere(event)

    def tokens(self) -> tuple[Part, ...]:
        if self.line is not None and self.line.tokens:
            return self.line.tokens
        return ()

    def message(self, status: int, message: Message, headers: Sequence[tuple[bytes, bytes]] = ()) -> Awaitable[None]:
        """Send a message, unless something was already sent. It is encoded first, so that an invalid one is not
        sent."""
        return self.body(status, b"" if self.sent else self.written(message), headers)

    async def body(self, status: int, body: bytes, headers: Sequence[tuple[bytes, bytes]] = ()) -> None:
        """Send a whole response, once."""
        if self.sent:
            return
        self.sent = self.begun = True
        start = json_headers(len(body), headers)
        if self.key is not None:  # so that a client knows that it may repeat the message
            start.append((b"idempotency-key", self.key.encode("latin-1")))
        if self.applied:
            start.extend(preference_applied(self.applied))
        if self.admission is not None and not self.admission.is_unmetered:
            start.extend(await self.admission.rate_limit_headers())
        await self._send({"type": "http.response.start", "status": status, "headers": start})
        await self._send({"type": "http.response.body", "body": body})

    def written(self, message: Message) -> bytes:
        """The message in the client's format."""
        if self.envelope is not None:
            return self.envelope.write(message)
        return nlip.encode(message, answering=self.asked)

    async def refuse(self, exc: SabirError) -> None:
        """An NLIP error with the status from the table (D-22)."""
        if self.admission is not None:
            exc = await self.admission.rejected(exc)
        if self.begun:
            return
        tokens = self.tokens()
        if not tokens and self.asked is not None:
            # Nothing was opened, so none of these is known to be ours: all are echoed (CORE-6.2).
            tokens = self.asked.tokens
        # Of the preferences, only strict handling can be the cause.
        strict = isinstance(exc, BadInput) and "handling=strict" in self.applied
        self.applied = ("handling=strict",) if strict else ()
        await self.message(nlip.CODES[type(exc)], nlip.error_message(exc, self.asked, tokens), refusal_headers(exc))

    async def task(self, task: TaskRow, public_url: str) -> None:
        """The state of a task."""
        place = f"/nlip/tasks/{task.id}"
        if task.state == "completed" and task.reply is not None:
            # The stored message lacks credentials, but they must be echoed to the sender (CORE-6.2).
            lost = [part for part in self.tokens() if part not in task.reply.tokens]
            return await self.message(200, task.reply.with_parts(lost))
        if task.fault is not None:
            return await self.refuse(Fault(task.fault, task.fault_code or "failed").error())
        if task.state == "input-required" and task.question is not None:
            question = nlip.question_message(stored_question(task.question))
            return await self.message(200, question.with_parts(self.tokens() or task.message.tokens))
        state = {"state": task.state, "progress": task.progress, "note": task.note}
        message = Message.text(task.note or f"The work is {task.state}; poll the address for its answer.")
        message = message.with_parts(
            (
                uri_part(public_url + place, label="task"),
                json_part({key: value for key, value in state.items() if value not in (None, "")}, label="progress"),
                *self.tokens(),
            )
        )
        await self.message(202, message, [(b"location", place.encode("latin-1")), (b"retry-after", b"1")])

    async def cancelled(self, task: TaskRow) -> None:
        """A task that its owner cancelled: success, not a failure."""
        state = json_part({"state": task.state}, label="progress")
        await self.message(200, Message.text("The task is cancelled.").with_parts((state, *self.tokens())))

    async def begin_stream(self) -> None:
        self.begun = True
        headers = [] if self.key is None else [(b"idempotency-key", self.key.encode("latin-1"))]
        if self.admission is not None:
            headers.extend(await self.admission.rate_limit_headers())
        await start_events(self._send, headers)

    async def comment(self, body: bytes) -> None:
        if self.begun:
            await self.chunk(body)

    async def chunk(self, body: bytes, *, last: bool = False) -> None:
        if not self.sent:
            self.sent = last
            await send_events(self._send, body, last=last)


class EventStream:
    """Partial messages as server-sent events, then the final one (D-34)."""

    def __init__(self, answer: NlipResponse) -> None:
        self._answer = answer
        self._number = 0

    async def event(self, event: Event) -> None:
        answer = self._answer
        if isinstance(event, Reply):
            await self._put("message", event.message, last=True)
        elif isinstance(event, Question):
            await self._put("question", nlip.question_message(event).with_parts(answer.tokens()), last=True)
        elif isinstance(event, Delta | Progress):
            self._number += 1
            await self._put("partial", nlip.partial_message(event, self._number).with_parts(answer.tokens()))

    async def notify(self, message: Message) -> None:
        """A notification; its number is the id from which a client resumes."""
        await self._put(NOTIFICATION, message, number=message.label)

    async def fault(self, exc: SabirError) -> None:
        await self._put("error", nlip.coded_error(exc, self._answer.asked, self._answer.tokens()), last=True)

    async def _put(self, name: str, message: Message, *, last: bool = False, number: str | None = None) -> None:
        body = self._answer.written(message)
        if not self._answer.begun:
            await self._answer.begin_stream()
        mark = b"id: %s\n" % number.encode() if number is not None else b""
        await self._answer.chunk(b"%sevent: %s\ndata: %s\n\n" % (mark, name.encode(), body), last=last)


async def _nowhere(event: Event) -> None:
    return None
