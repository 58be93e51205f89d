"""One NLWeb request on its way through the exchange: where its events go, and when it becomes a promise."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Final
from uuid import uuid4

from starlette.types import Message as Packet
from starlette.types import Receive, Send

from ..conversations import Tokens
from ..errors import SabirError, ShuttingDown
from ..events import Delta, Event, Progress, Question, Reply
from ..exchange import Exchange
from ..guard import Credentials
from ..line import Ask, Line
from ..message import Part
from ..tasks import Tasks, key_of
from ..turn import Caller
from ..wire.nlweb_answers import Stream, Telling, code_of, encode
from ..wire.nlweb_hub import META
from ..wire.nlweb_models import Promise, Response
from .nlweb_promises import BEGAN, TELLING, remaining
from .visitor import Visitor

WATCH_AFTER: Final = 0.1  # seconds; a turn that takes longer is cancelled when its client goes away
KEEP_ALIVE: Final = 15.0  # seconds between comments on a silent event stream
Headers = Sequence[tuple[bytes, bytes]]


class Outlet:
    """The response to one request: one JSON body, or events; sent once, whoever sends it."""

    __slots__ = ("_send", "_understood", "begun", "line", "stream", "telling", "visitor")

    def __init__(self, send: Send, visitor: Visitor | None = None) -> None:
        self.visitor = visitor
        self._send = send if visitor is None else visitor.telling(send)
        self.telling = Telling()
        self.stream: Stream | None = None  # None: one JSON body
        self.line: Line | None = None
        self.begun = False
        self._understood: Part | None = None

    def tell(self, telling: Telling) -> None:
        self.telling = telling
        if self.stream is not None:
            self.stream = Stream(telling)

    @property
    def token(self) -> str | None:
        """Our own token of the conversation, as soon as it is known."""
        part = self.line.conversation if self.line is not None else None
        return part.content if part is not None and isinstance(part.content, str) else None

    @property
    def ended(self) -> bool:
        return self.begun if self.stream is None else self.stream.ended

    async def event(self, event: Event) -> None:
        """One event of the turn."""
        if isinstance(event, Delta) and event.part.label == META:
            self._understood = event.part
        if isinstance(event, Reply | Question):
            await self._end(event)
        elif (
            self.stream is not None
            and isinstance(event, Delta | Progress)
            and (piece := self.stream.piece(event, self.token))
        ):
            await self._open(200)
            await self._chunk(piece)

    async def _end(self, event: Reply | Question) -> None:
        if self.stream is None or isinstance(event, Question):
            told = (
                self.telling.reply(event.message, self.token)
                if isinstance(event, Reply)
                else self.telling.question(event, self.token, self._understood)
            )
            await self.respond(200, told)
        else:
            await self._open(200)
            await self._chunk(self.stream.reply(event.message, self.token), last=True)

    async def respond(self, status: int, response: Response, headers: Headers = ()) -> None:
        """A whole response, as JSON or as the last events."""
        if self.stream is None:
            await self.body(status, encode(response), headers)
        elif not self.stream.ended:
            await self._open(status, headers)
            await self._chunk(self.stream.response(response), last=True)

    async def body(self, status: int, body: bytes, headers: Headers = ()) -> None:
        if self.begun:
            return
        self.begun = True
        head = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), *headers]
        await self._send({"type": "http.response.start", "status": status, "headers": head})
        await self._send({"type": "http.response.body", "body": body})

    async def _open(self, status: int, headers: Headers = ()) -> None:
        if not self.begun:
            self.begun = True
            head = [
                (b"content-type", b"text/event-stream; charset=utf-8"),
                (b"cache-control", b"no-store"),
                (b"x-accel-buffering", b"no"),
                *headers,
            ]
            await self._send({"type": "http.response.start", "status": status, "headers": head})

    async def _chunk(self, body: bytes, *, last: bool = False) -> None:
        await self._send({"type": "http.response.body", "body": body, "more_body": not last})

    async def keep_alive(self) -> None:
        """A comment now and then, so that no proxy takes a silent stream for a dead one."""
        while self.stream is not None and not self.stream.ended:
            await asyncio.sleep(KEEP_ALIVE)
            if self.begun and not self.stream.ended:
                await self._chunk(b": still here\n\n")


class Asking:
    """Runs turns beside their requests, so that a turn may go on when its request has ended."""

    def __init__(self, exchange: Exchange, tasks: Tasks) -> None:
        self._exchange = exchange
        self._tasks = tasks
        self._turns: set[asyncio.Task[None]] = set()

    def stop(self) -> None:
        for turn in list(self._turns):
            turn.cancel()

    async def ask(self, ask: Ask, outlet: Outlet, receive: Receive, wait: float, *, patient: bool = False) -> None:
        """Answer; if the turn outlives ``wait`` seconds, with a promise. A ``patient`` caller gets one only if
        nothing at all was said until then: while something comes, a stream is better than a promise.

        Raises:
            SabirError: refused or failed before anything was sent.
        """
        answered = asyncio.get_running_loop().create_future()
        progress = Progress()

        async def send(event: Event) -> None:
            nonlocal progress
            if line.send is not send:  # the turn waited for this request, and both are a task now
                return await line.send(event)
            if isinstance(event, Progress):
                progress = event
            await outlet.event(event)
            if isinstance(event, Reply | Question) and not answered.done():
                answered.set_result(None)

        id = uuid4().hex + uuid4().hex
        began = time.time()
        if wait <= 0:
            return await self._later(ask, outlet, id)
        await self._prepare(ask, id, outlet)
        line = outlet.line = Line(send)
        if outlet.visitor is not None:
            outlet.visitor.line = line
        turn = self._begin(ask, line)
        waits = Waits(turn, answered, receive, outlet)
        try:
            if await waits.until(wait) or (patient and outlet.begun and await waits.until(None)):
                return await self._ended(turn, outlet)
            if waits.gone:
                turn.cancel()
                return None
            await self._admitted(line, turn)
            if turn.done() or outlet.ended:
                return await self._ended(turn, outlet)
            self._turns.discard(turn)
            detail = {TELLING: outlet.telling.kept(), BEGAN: began}
            task = await self._tasks.adopt(ask, line, turn, id=id, detail=detail, last=progress)
        except asyncio.CancelledError:
            turn.cancel()
            raise
        finally:
            waits.stop()
        await self._promised(outlet, Promise(id, remaining(task), task.note or None, task.progress))

    async def _prepare(self, ask: Ask, id: str, outlet: Outlet) -> None:
        """If it becomes a task and its node dies, its heir shall find the same conversation and the recorded turn.

        A request with a key of its own is left as it is: for a stranger, the message is part of the key.
        """
        if ask.key is not None:
            return
        ask.key = key_of(id)
        if not ask.message.tokens:
            caller = await self._known(ask, outlet)
            token = self._exchange.conversations.token(uuid4().hex, caller, Tokens())
            ask.message = ask.message.with_part(token)

    async def _known(self, ask: Ask, outlet: Outlet) -> Caller:
        caller = await self._exchange.guard.identity.caller(ask.credentials, ())
        ask.credentials = Credentials(caller.address, caller=caller)  # a proof may be good only once
        if outlet.visitor is not None:
            outlet.visitor.caller = caller
        return caller

    def _begin(self, ask: Ask, line: Line) -> asyncio.Task[None]:
        turn = asyncio.create_task(self._exchange.ask(ask, line), name="nlweb turn")
        self._turns.add(turn)
        turn.add_done_callback(self._over)
        return turn

    def _over(self, turn: asyncio.Task[None]) -> None:
        self._turns.discard(turn)
        if not turn.cancelled():
            turn.exception()  # told to whoever still waits; here it only counts as seen

    async def _ended(self, turn: asyncio.Task[None], outlet: Outlet) -> None:
        if not turn.done():
            return  # it asked back; the answer comes with a later request
        if turn.cancelled():
            raise ShuttingDown("the gateway is stopping; try again in a moment", retry_after=5.0)
        try:
            await turn
        except SabirError as wrong:
            if not outlet.begun:
                raise
            await outlet.respond(code_of(wrong)[0], outlet.telling.failure(wrong, outlet.token))

    async def _later(self, ask: Ask, outlet: Outlet, id: str) -> None:
        await self._known(ask, outlet)
        task = await self._tasks.submit(ask, id=id, detail={TELLING: outlet.telling.kept()})
        await self._promised(outlet, Promise(task.id))

    @staticmethod
    async def _admitted(line: Line, turn: asyncio.Task[None]) -> None:
        """Only an admitted turn can become somebody's task; a guard that asks far away may take its time."""
        while line.caller is None and not turn.done():
            await asyncio.sleep(0.01)

    async def _promised(self, outlet: Outlet, promise: Promise) -> None:
        headers = [(b"location", f"/await/{promise.token}".encode()), (b"retry-after", b"1")]
        await outlet.respond(202, outlet.telling.promise(promise, outlet.token), headers)


class Waits:
    """Waits for the end of a turn, its question, or its client's going away."""

    def __init__(
        self, turn: asyncio.Task[None], answered: asyncio.Future[None], receive: Receive, outlet: Outlet
    ) -> None:
        self.gone = False
        self._ends: set[asyncio.Future[None]] = {turn, answered}
        self._turn = turn
        self._receive = receive
        self._outlet = outlet
        self._aside: list[asyncio.Task[None]] = []

    async def until(self, seconds: float | None) -> bool:
        """Whether the turn ended or asked back within this time, and its client is still there."""
        if not self._aside and (seconds is None or seconds > WATCH_AFTER):
            ended, _ = await asyncio.wait(self._ends, timeout=WATCH_AFTER, return_when=asyncio.FIRST_COMPLETED)
            if ended:
                return True
            self._aside = [asyncio.create_task(self._watch()), asyncio.create_task(self._outlet.keep_alive())]
            seconds = seconds - WATCH_AFTER if seconds is not None else None
        watching = {self._aside[0]} if self._aside else set()
        ended, _ = await asyncio.wait({*self._ends, *watching}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        self.gone = ended == watching and bool(ended)
        return bool(ended) and not self.gone

    async def _watch(self) -> None:
        packet: Packet = {"type": ""}
        while packet["type"] != "http.disconnect":
            packet = await self._receive()

    def stop(self) -> None:
        for task in self._aside:
            task.cancel()
