"""NLIP over HTTP (ECMA-431): ``POST /nlip``, ``/nlip/`` and ``/nlip/{agent}``, as raw ASGI on the hot path.

Every answer is an NLIP message, errors too. ``Accept: text/event-stream`` gives partial messages and a
final one; ``Prefer: respond-async`` or ``wait=N`` gives 202 and a place to look (D-26, D-34).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Mapping, Sequence
from functools import lru_cache
from typing import Final, NoReturn

import msgspec
from starlette.routing import BaseRoute, Match, NoMatchFound
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.types import Message as Packet

from ..errors import (
    BadInput,
    BadMediaType,
    BadMessage,
    BadMethod,
    NotFound,
    SabirError,
    TooBig,
    Unreadable,
)
from ..events import Delta, Event, Fault, Progress, Question, Reply
from ..guard import Credentials
from ..line import Ask, Line
from ..message import Message, Part, json_part, uri_part
from ..stores.base import TaskRow
from ..wire import nlip
from .base import House, credentials_of, headers_of, hops_of, refusal_headers, settings_for
from .visitor import NO_AGENT, Visitor

logger = logging.getLogger("sabir")

DOOR: Final = "nlip-http"
BROKEN: Final = "something here failed; the operator's log says why"
KEEP_ALIVE: Final = 15.0  # seconds between comments on a silent event stream
MAX_KEY: Final = 256  # characters of an idempotency key
_JSON: Final = (b"content-type", b"application/json")
_SSE: Final = (b"content-type", b"text/event-stream; charset=utf-8")


class Wishes(msgspec.Struct, frozen=True):
    """What the headers of a request ask for."""

    content_type: str = ""
    length: int | None = None
    streams: bool = False
    strict: bool = False
    handling: str = ""
    respond_async: bool = False
    wait: float | None = None
    key: str | None = None
    trace: str | None = None
    hops: int = 0
    encoding: str = ""
    applied: tuple[str, ...] = ()


_SPECIAL: Final = frozenset(
    {b"accept", b"prefer", b"idempotency-key", b"traceparent", b"x-sabir-hops", b"content-encoding"}
)


def wishes_of(headers: Mapping[bytes, bytes]) -> Wishes:
    """What these headers ask for.

    Raises:
        BadMessage: an idempotency key that is too long.
    """
    plain = _plain(headers.get(b"content-type", b""), headers.get(b"content-length", b""))
    if _SPECIAL.isdisjoint(headers):
        return plain
    handling, respond_async, wait, applied = _prefer(headers.get(b"prefer", b"").decode("latin-1"))
    key = headers.get(b"idempotency-key")
    if key is not None and len(key) > MAX_KEY:  # cut short, two keys could become one
        raise BadMessage("nlip", "Idempotency-Key", f"at most {MAX_KEY} characters")
    trace = headers.get(b"traceparent")
    return Wishes(
        plain.content_type,
        plain.length,
        streams=b"text/event-stream" in headers.get(b"accept", b""),
        strict=handling == "strict",
        handling=handling,
        respond_async=respond_async,
        wait=wait,
        key=None if key is None else key.decode("latin-1"),
        trace=None if trace is None else trace.decode("latin-1")[:64],
        hops=hops_of(headers.get(b"x-sabir-hops", b"")),
        encoding=headers.get(b"content-encoding", b"").decode("latin-1").strip().lower(),
        applied=applied,
    )


@lru_cache(maxsize=1024)
def _plain(content_type: bytes, length: bytes) -> Wishes:
    return Wishes(content_type.decode("latin-1"), int(length) if length.isdigit() and len(length) < 19 else None)


def _prefer(value: str) -> tuple[str, bool, float | None, tuple[str, ...]]:
    """Handling, respond-async and wait of RFC 7240, as D-26 reads it, and which of them were understood."""
    handling, respond_async, wait = "", False, None
    applied: list[str] = []
    for item in value.split(","):
        name, _, argument = item.partition(";")[0].partition("=")
        name, argument = name.strip().lower(), argument.strip().strip('"').lower()
        if name == "handling" and argument in ("strict", "lenient") and not handling:
            handling = argument
            applied.append(f"handling={argument}")
        elif name == "respond-async" and not respond_async:
            respond_async = True
            applied.append("respond-async")
        elif name == "wait" and argument.isdigit() and wait is None and len(argument) < 7:
            wait = float(argument)
            applied.append(f"wait={argument}")
    return handling, respond_async, wait, tuple(applied)


def _at_once(wishes: Wishes) -> Wishes:
    """Control is no work that could be left for later: the gateway itself answers, and only then is it agreed."""
    if not wishes.respond_async and wishes.wait is None:
        return wishes
    applied = tuple(each for each in wishes.applied if each.startswith("handling"))
    return msgspec.structs.replace(wishes, respond_async=False, wait=None, applied=applied)


def _strictly(wishes: Wishes) -> Wishes:
    """A client may ask a lenient door to be strict, and not the other way round: the stricter setting wins."""
    applied = tuple(each for each in wishes.applied if each != "handling=lenient")
    return msgspec.structs.replace(wishes, strict=True, handling="strict", applied=applied)


class Settings(msgspec.Struct, frozen=True):
    """What stands under ``doors: {nlip-http: …}``."""

    strict: bool = False  # follow the published text to the letter, whatever a client prefers


class NlipHttp:
    """The door. One instance serves all agents."""

    name = DOOR

    def __init__(self, house: House) -> None:
        self.house = house
        self.settings = settings_for(DOOR, Settings, house)

    def raw(self) -> Mapping[str, ASGIApp]:
        return {"/nlip": self, "/nlip/": self}

    def routes(self) -> Sequence[BaseRoute]:
        return [Everything("/nlip/", self)]

    def addresses(self) -> Sequence[tuple[str, str]]:
        return [("NLIP over HTTP", "/nlip")]

    async def start(self) -> None:
        return None

    async def stop(self) -> None:
        return None

    # -- one request ------------------------------------------------------------------------------

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        house = self.house
        answer = Answer(send)
        slow: Slow | None = None
        try:
            path = scope["path"]
            agent, task = (None, None) if path == "/nlip" else _place(path)
            headers = headers_of(scope)
            credentials = credentials_of(scope, behind_proxy=house.behind_proxy, headers=headers)
            answer.visitor = Visitor(house, DOOR, credentials, agent)
            wishes = wishes_of(headers)
            if self.settings.strict and not wishes.strict:
                wishes = _strictly(wishes)
            if task is not None:
                return await self._task(task, scope, receive, answer, wishes, answer.visitor)
            if scope["method"] != "POST":
                raise BadMethod("nlip", "method", "POST")
            try:
                self._check_head(wishes, credentials.address)
                packet = await receive()
                body: bytes = packet.get("body", b"")
                if packet.get("more_body"):
                    body = await read_body(receive, house.limits.body, packet)
                message = self._read(body, wishes)
                wishes = _at_once(wishes) if message.is_control else wishes
            except BadInput:
                house.guard.rates.check_address(credentials.address)  # a flood of nonsense is a flood
                raise
            answer.asked, answer.applied, answer.key = message, wishes.applied, wishes.key
            ask = Ask(message, DOOR, agent, credentials, wishes.key, None, wishes.trace, wishes.hops)
            if wishes.respond_async or wishes.wait is not None:
                await self._later(ask, answer, wishes)
            elif wishes.streams:
                await self._stream(ask, answer, receive)
            else:
                slow = Slow(receive, answer)
                answer.visitor.line = answer.line = Line(answer.event, on_slow=slow)
                await house.exchange.ask(ask, answer.line)
        except SabirError as wrong:
            await answer.refuse(wrong)
        except asyncio.CancelledError:
            if slow is None or not slow.is_gone:
                raise
        except Exception:
            logger.exception("%s failed", scope["path"])
            await answer.refuse(SabirError(BROKEN))
        finally:
            if slow is not None:
                slow.stop()
            if answer.line is not None:  # or they would hold each other until the garbage is collected
                answer.line.send, answer.line.on_slow = _nowhere, None

    def _check_head(self, wishes: Wishes, address: str) -> None:
        self.house.guard.rates.check_open(address)
        if wishes.length is not None and wishes.length > self.house.limits.body:
            raise TooBig("nlip", "$", f"at most {self.house.limits.body} bytes")
        if wishes.encoding not in ("", "identity"):
            raise BadMediaType("nlip", "Content-Encoding", "identity")

    def _read(self, body: bytes, wishes: Wishes) -> Message:
        if wishes.content_type != "application/json":
            _check_type(wishes, body)
        return nlip.decode(body, strict=wishes.strict, limits=self.house.limits)

    # -- streaming --------------------------------------------------------------------------------

    async def _stream(self, ask: Ask, answer: Answer, receive: Receive) -> None:
        stream = EventStream(answer)
        line = Line(stream.event)
        answer.line = line
        if answer.visitor is not None:
            answer.visitor.line = line
        watch = Watch(receive, answer, asyncio.current_task())
        beat = asyncio.create_task(stream.keep_alive())
        try:
            await self.house.exchange.ask(ask, line)
        except SabirError as wrong:
            if not answer.begun:
                raise
            await stream.fault(wrong)
        except asyncio.CancelledError:
            if not watch.gone:
                raise
        finally:
            beat.cancel()
            watch.stop()

    # -- later ------------------------------------------------------------------------------------

    async def _later(self, ask: Ask, answer: Answer, wishes: Wishes) -> None:
        tasks = self.house.tasks
        # Asked once: a proof that is good once would not be good a second time.
        caller = await self.house.guard.identity.caller(ask.credentials, ask.message.tokens)
        ask.credentials = Credentials(caller.address, caller=caller)
        answer.line = Line(answer.event, caller)
        if answer.visitor is not None:
            answer.visitor.caller = caller
        task = await tasks.submit(ask)
        conversations = self.house.exchange.conversations
        own = conversations.sort(task.message.tokens, caller).own  # new, perhaps: it is told with every answer (D-16)
        answer.line.tokens = (
            *conversations.sort(ask.message.tokens, caller).echo,
            *((own,) if own is not None else ()),
        )
        seconds = wishes.wait if wishes.wait is not None else 0.0
        if seconds > 0:
            task = await tasks.wait(task.id, caller, min(seconds, 60.0))
        await answer.task(task, self.house.public_url)

    async def _task(
        self, id: str, scope: Scope, receive: Receive, answer: Answer, wishes: Wishes, visitor: Visitor
    ) -> None:
        tasks, visitor.agent = self.house.tasks, NO_AGENT
        caller = await visitor.admit()
        answer.line = Line(answer.event)
        match scope["method"]:
            case "GET":
                answer.applied = wishes.applied
                task = await tasks.wait(id, caller, min(wishes.wait or 0.0, 60.0))
            case "DELETE":
                return await answer.taken_back(await tasks.cancel(id, caller))
            case "POST":
                try:
                    self._check_head(wishes, caller.address)
                    message = answer.asked = self._read(await read_body(receive, self.house.limits.body), wishes)
                except BadInput:
                    self.house.guard.rates.check_address(caller.address)
                    raise
                task = await tasks.answer(id, caller, message)
            case _:
                raise BadMethod("nlip", "method", "GET, POST, DELETE")
        await answer.task(task, self.house.public_url)


class Everything(BaseRoute):
    """Whatever begins with this path and no other route took."""

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
    """The agent or the task that a path names.

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
    raise NotFound("there is nothing at this path; messages go to /nlip or /nlip/{agent}")


async def read_body(receive: Receive, most: int, packet: Packet | None = None) -> bytes:
    """The whole body, as long as it is within the limit; its first piece may be here already.

    Raises:
        TooBig: it is not; the rest is left unread.
    """
    packet = packet or await receive()
    body: bytes = packet.get("body", b"")
    if not packet.get("more_body"):
        if len(body) > most:
            raise TooBig("nlip", "$", f"at most {most} bytes")
        return body
    pieces, size = [body], len(body)
    while packet.get("more_body"):
        packet = await receive()
        if packet["type"] == "http.disconnect":
            raise Unreadable("nlip", "$", "the whole body")
        pieces.append(packet.get("body", b""))
        size += len(pieces[-1])
        if size > most:
            raise TooBig("nlip", "$", f"at most {most} bytes")
    return b"".join(pieces)


def _check_type(wishes: Wishes, body: bytes) -> None:
    kind = wishes.content_type.partition(";")[0].strip().lower()
    if kind == "application/json":
        return
    if wishes.strict or not body.lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"{", b"[", b'"')):
        if kind or wishes.strict:
            raise BadMediaType("nlip", "Content-Type", "application/json")
        raise Unreadable("nlip", "character 0", "a JSON object")


class Answer(msgspec.Struct, eq=False):
    """The response to one request: sent once, whoever sends it."""

    _send: Send
    visitor: Visitor | None = None
    key: str | None = None
    asked: Message | None = None
    applied: tuple[str, ...] = ()
    line: Line | None = None
    begun: bool = False
    sent: bool = False

    def event(self, event: Event) -> Awaitable[None]:
        """An event of the turn, where only its end and its questions are shown."""
        if isinstance(event, Reply):
            return self.message(200, event.message)
        if isinstance(event, Question):
            return self.message(200, nlip.question_message(event).with_parts(self.tokens()))
        return _nowhere(event)

    def tokens(self) -> tuple[Part, ...]:
        if self.line is not None and self.line.tokens:
            return self.line.tokens
        return ()

    async def message(self, status: int, message: Message, headers: Sequence[tuple[bytes, bytes]] = ()) -> None:
        if self.sent:
            return
        body = nlip.encode(message, answering=self.asked)  # first: what cannot be written is not sent
        self.sent = self.begun = True
        start: list[tuple[bytes, bytes]] = [_JSON, (b"content-length", str(len(body)).encode())]
        if self.key is not None:  # told, so that a client knows that it may send the message again
            start.append((b"idempotency-key", self.key.encode("latin-1")))
        if self.applied:
            start.append((b"preference-applied", ", ".join(self.applied).encode("latin-1")))
        start.extend(headers)
        if self.visitor is not None and not self.visitor.is_spared:
            start.extend(await self.visitor.left())
        at_once = getattr(getattr(self._send, "__self__", None), "answer_at_once", None)  # of our own server
        if at_once is not None and at_once(status, tuple(start), body):
            return
        await self._send({"type": "http.response.start", "status": status, "headers": start})
        await self._send({"type": "http.response.body", "body": body})

    async def refuse(self, wrong: SabirError) -> None:
        """A failure in NLIP, with the status that the table gives it (D-22)."""
        if self.visitor is not None:
            await self.visitor.refused(wrong)
        if self.begun:
            return
        tokens = self.tokens()
        if not tokens and self.asked is not None:
            # Nothing was opened, so none of these is known to be ours: all go back (CORE-6.2).
            tokens = self.asked.tokens
        self.applied = ()
        await self.message(
            nlip.CODES[type(wrong)], nlip.error_message(wrong, self.asked, tokens), refusal_headers(wrong)
        )

    async def task(self, task: TaskRow, public_url: str) -> None:
        """Where a task stands."""
        place = f"/nlip/tasks/{task.id}"
        if task.state == "completed" and task.reply is not None:
            # What is stored lacks credentials, and yet they go back to who sent them (CORE-6.2).
            lost = [part for part in self.tokens() if part not in task.reply.tokens]
            return await self.message(200, task.reply.with_parts(lost))
        if task.fault is not None:
            return await self.refuse(Fault(task.fault, task.fault_code or "failed").error())
        if task.state == "input-required" and task.question is not None:
            question = nlip.question_message(Question(str(task.question.get("text", ""))))
            return await self.message(200, question.with_parts(self.tokens()))
        state = {"state": task.state, "progress": task.progress, "note": task.note}
        message = Message.text(task.note or f"The work is {task.state}; look at the address for its answer.")
        message = message.with_parts(
            (
                uri_part(public_url + place, label="task"),
                json_part({key: value for key, value in state.items() if value not in (None, "")}, label="progress"),
                *self.tokens(),
            )
        )
        await self.message(202, message, [(b"location", place.encode("latin-1")), (b"retry-after", b"1")])

    async def taken_back(self, task: TaskRow) -> None:
        """A task that its owner has ended: that it did is what was asked for, and no failure."""
        state = json_part({"state": task.state}, label="progress")
        await self.message(200, Message.text("The task is taken back.").with_parts((state, *self.tokens())))

    async def begin_stream(self) -> None:
        self.begun = True
        headers = [_SSE, (b"cache-control", b"no-store"), (b"x-accel-buffering", b"no")]
        if self.key is not None:
            headers.append((b"idempotency-key", self.key.encode("latin-1")))
        if self.visitor is not None:
            headers.extend(await self.visitor.left())
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})

    async def chunk(self, body: bytes, *, last: bool = False) -> None:
        if not self.sent:
            self.sent = last
            await self._send({"type": "http.response.body", "body": body, "more_body": not last})


class EventStream:
    """Partial messages as server-sent events, then the final one (D-34)."""

    def __init__(self, answer: Answer) -> None:
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

    async def fault(self, wrong: SabirError) -> None:
        await self._put("error", nlip.coded_error(wrong, self._answer.asked, self._answer.tokens()), last=True)

    async def _put(self, name: str, message: Message, *, last: bool = False) -> None:
        body = nlip.encode(message, answering=self._answer.asked)
        if not self._answer.begun:
            await self._answer.begin_stream()
        await self._answer.chunk(b"event: %s\ndata: %s\n\n" % (name.encode(), body), last=last)

    async def keep_alive(self) -> None:
        while not self._answer.sent:
            await asyncio.sleep(KEEP_ALIVE)
            if self._answer.begun:
                await self._answer.chunk(b": still here\n\n")


async def _nowhere(event: Event) -> None:
    return None


class Slow:
    """What is done when a turn takes a while: its client is watched."""

    __slots__ = ("_answer", "_receive", "_watch")

    def __init__(self, receive: Receive, answer: Answer) -> None:
        self._receive, self._answer = receive, answer
        self._watch: Watch | None = None

    def __call__(self, task: asyncio.Task[object] | None) -> None:
        self._watch = Watch(self._receive, self._answer, task)

    @property
    def is_gone(self) -> bool:
        """Whether the client has gone away."""
        return self._watch is not None and self._watch.gone

    def stop(self) -> None:
        if self._watch is not None:
            self._watch.stop()


class Watch:
    """Cancels the request's coroutine when its client goes away.

    Most turns end before anyone could: the watching starts only with those that take a while.
    """

    __slots__ = ("_answer", "_receive", "_task", "_watching", "gone")

    def __init__(self, receive: Receive, answer: Answer, task: asyncio.Task[object] | None) -> None:
        self.gone = False
        self._receive = receive
        self._answer = answer
        self._task = task
        self._watching = asyncio.get_running_loop().create_task(self._watch())

    async def _watch(self) -> None:
        packet: Packet = {"type": ""}
        while packet["type"] != "http.disconnect":
            packet = await self._receive()
        # Answered already (a question went back): the turn waits for a later request, not for this one.
        if not self._answer.sent and self._task is not None:
            self.gone = True
            self._task.cancel("the client went away")

    def stop(self) -> None:
        self._watching.cancel()
