"""One NLWeb request on its way through the exchange: where its events go, and when it becomes a promise."""

from __future__ import annotations

import asyncio
from typing import Final

from starlette.types import Receive, Send

from sabir.errors import SabirError
from sabir.events import Delta, Event, Progress, Question, Reply
from sabir.exchange.request import EventSink, TurnRequest
from sabir.http.admission import Admission
from sabir.http.disconnect import DisconnectWatcher
from sabir.http.response import Headers, send_events, send_json, start_events
from sabir.message import Part
from sabir.protocols.nlweb.wire.mapping import META
from sabir.protocols.nlweb.wire.models import Promise, Response
from sabir.protocols.nlweb.wire.responses import ResponseFormat, Stream, code_of, encode
from sabir.tasks import Tasks
from sabir.tasks.records import BEGAN
from sabir.tasks.run_or_adopt import RunningTurn, authenticate, is_final, new_task_id

from .promises import FORMAT, remaining

WATCH_AFTER: Final = 0.1  # seconds; a turn that takes longer is cancelled when its client disconnects


class NlwebResponse:
    """The response to one request, as one JSON body or as events. It is sent once."""

    __slots__ = ("_send", "_understood", "admission", "begun", "line", "response_format", "stream")

    def __init__(self, send: Send, admission: Admission | None = None) -> None:
        self.admission = admission
        self._send = send if admission is None else admission.with_rate_limit_headers(send)
        self.response_format = ResponseFormat()
        self.stream: Stream | None = None  # None: one JSON body
        self.line: EventSink | None = None
        self.begun = False
        self._understood: Part | None = None

    def set_line(self, line: EventSink) -> None:
        self.line = line
        if self.admission is not None:
            self.admission.line = line

    def set_format(self, response_format: ResponseFormat) -> None:
        self.response_format = response_format
        if self.stream is not None:
            self.stream = Stream(response_format)

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
            answer = (
                self.response_format.reply(event.message, self.token)
                if isinstance(event, Reply)
                else self.response_format.question(event, self.token, self._understood)
            )
            await self.respond(200, answer)
        else:
            await self._open(200)
            await self._chunk(self.stream.reply(event.message, self.token), last=True)

    async def respond(self, status: int, response: Response, headers: Headers = ()) -> None:
        """Send a whole response, as JSON or as the last events."""
        if self.stream is None:
            await self.body(status, encode(response), headers)
        elif not self.stream.ended:
            await self._open(status, headers)
            await self._chunk(self.stream.response(response), last=True)

    async def body(self, status: int, body: bytes, headers: Headers = ()) -> None:
        if not self.begun:
            self.begun = True
            await send_json(self._send, status, body, headers)

    async def _open(self, status: int, headers: Headers = ()) -> None:
        if not self.begun:
            self.begun = True
            await start_events(self._send, headers, status)

    async def _chunk(self, body: bytes, *, last: bool = False) -> None:
        await send_events(self._send, body, last=last)

    async def comment(self, body: bytes) -> None:
        if self.begun and self.stream is not None:
            await self._chunk(body)

    def is_answered(self) -> bool:
        return self.ended


class Asking:
    """Runs turns beside their requests, so that a turn can outlive its request."""

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks
        self._turns: set[asyncio.Task[None]] = set()

    def stop(self) -> None:
        for turn in list(self._turns):
            turn.cancel()

    async def ask(
        self, ask: TurnRequest, response: NlwebResponse, receive: Receive, wait: float, *, patient: bool = False
    ) -> None:
        """Answer; if the turn outlives ``wait`` seconds, with a promise. A ``patient`` caller gets one only if nothing
        was sent until then: while something comes, a stream is better than a promise.

        Raises:
            SabirError: rejected or failed before anything was sent.
        """
        caller = await authenticate(self._tasks, ask)
        if response.admission is not None:
            response.admission.caller = caller
        if wait <= 0:
            task = await self._tasks.submit(
                ask, task_id=new_task_id(), detail={FORMAT: response.response_format.to_dict()}
            )
            return await self._promised(response, Promise(task.id))
        run = self._started(ask, response)
        watcher = DisconnectWatcher(receive, response.is_answered, response.comment)
        watcher.start_after(WATCH_AFTER, run.task)
        try:
            settled = await run.wait(wait) or (patient and response.begun and await run.wait(None))
            if watcher.is_gone:
                return None
            if settled or response.ended:
                return await self._ended(run, response)
            assert run.task is not None
            self._turns.discard(run.task)
            task = await run.adopt({FORMAT: response.response_format.to_dict(), BEGAN: run.began})
        except asyncio.CancelledError:
            run.cancel()
            raise
        finally:
            watcher.stop()
        await self._promised(response, Promise(run.id, remaining(task), task.note or None, task.progress))

    def _started(self, ask: TurnRequest, response: NlwebResponse) -> RunningTurn:
        async def send(event: Event) -> None:
            await response.event(event)
            if is_final(event):
                run.settle()

        run = RunningTurn(self._tasks, ask, send)
        run.make_findable()
        response.set_line(run.line)
        turn = run.start()
        self._turns.add(turn)
        turn.add_done_callback(self._turns.discard)
        return run

    @staticmethod
    async def _ended(run: RunningTurn, response: NlwebResponse) -> None:
        try:
            await run.result()
        except SabirError as exc:
            if not response.begun:
                raise
            await response.respond(code_of(exc)[0], response.response_format.failure(exc, response.token))

    async def _promised(self, response: NlwebResponse, promise: Promise) -> None:
        await response.respond(202, response.response_format.promise(promise, response.token), promise_headers(promise))


def promise_headers(promise: Promise) -> list[tuple[bytes, bytes]]:
    return [(b"location", f"/await/{promise.token}".encode()), (b"retry-after", b"1")]
