"""Calls: questions to a name, with streamed answers, a way back, and signs of life. Both sides, over any post.

A bus gives ``Calls`` a way to post packets and hands it those that arrive; everything else is here. Pieces are
numbered, so that a lost one ends the call instead of leaving a hole; the server sends at most
``Limits.window`` pieces ahead of the caller; a side that gives no sign of life is gone.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from itertools import count
from types import TracebackType

from ..ending import end
from ..errors import BusUnavailable, Cancelled, DeadlineExceeded, PeerUnavailable, SabirError, TooBig
from ..events import Fault
from .base import Server
from .framing import Kind, Limits, Packet, chunks

logger = logging.getLogger("sabir.bus")

Post = Callable[[str, Packet], Awaitable[None]]


class _Pieces:
    """Pieces that arrive in numbered packets, put together and waited for."""

    __slots__ = ("_chunks", "_limits", "_number", "_waiter", "over", "ready", "wrong")

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._chunks: list[bytes] = []
        self._number = 0
        self._waiter: asyncio.Future[None] | None = None
        self.ready: deque[bytes] = deque()
        self.wrong: SabirError | None = None
        self.over = False

    def add(self, packet: Packet, peer: str) -> None:
        if self.over:
            return
        self._number += 1
        if packet.number != self._number:
            self.end(PeerUnavailable(peer, "a piece of the answer was lost on the way"))
            return
        if packet.kind is Kind.MORE:
            self._chunks.append(packet.body)
            if sum(map(len, self._chunks)) > self._limits.piece_bytes:
                self.end(TooBig("bus", "piece", f"at most {self._limits.piece_bytes} bytes"))
            return
        self.ready.append(b"".join((*self._chunks, packet.body)) if self._chunks else packet.body)
        self._chunks.clear()
        self._wake()

    def end(self, wrong: SabirError | None = None) -> None:
        if not self.over:
            self.over, self.wrong = True, wrong
            self._wake()

    def interrupt(self, wrong: SabirError) -> None:
        """Who waits now is told this; others may wait again."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(wrong)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def next(self) -> bytes | None:
        """The next piece, or None after the last."""
        while not self.ready:
            if self.wrong is not None:
                raise self.wrong
            if self.over:
                return None
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        return self.ready.popleft()


class Calling:
    """A call, on the caller's side."""

    def __init__(self, calls: Calls, name: str, body: bytes, headers: Mapping[str, str], seconds: float | None) -> None:
        self.name = name
        self.id = calls.new_id()
        self.missed = 0
        self._calls = calls
        self._limits = calls.limits
        self._body = body
        self._headers = dict(headers)
        self._seconds = seconds
        self._end: float | None = None
        self._pieces = _Pieces(calls.limits)
        self._taken = asyncio.Event()
        self._server = self._handle = ""  # where more goes, and what the server calls this call
        self._sent = self._used = 0
        self.left = False

    async def __aenter__(self) -> Calling:
        if self._seconds is not None:
            self._end = asyncio.get_running_loop().time() + self._seconds
        pieces = list(chunks(self._body, self._limits))
        self._calls.add_calling(self)
        first, rest = pieces[0][1], pieces[1:]
        opening = Packet(Kind.OPEN, self.id, len(pieces), first, self._calls.instance, self._headers)
        try:
            await self._calls.post(f"call:{self.name}", opening)
            for kind, body in rest:
                await self._post_more(kind, body)
        except BaseException:
            await self.__aexit__(None, None, None)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, wrong: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.left = True
        self._calls.drop_calling(self)
        if self._server and not self._pieces.over:
            await self._cancel()

    @property
    def lingers(self) -> bool:
        """Whether nobody has taken it yet: who still may is to be told that it was left."""
        return not self._server and not self._pieces.over

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        pieces = self._pieces
        if self._end is None or pieces.over or pieces.ready:  # then nothing is waited for, or without end
            piece = await pieces.next()
        else:  # a timer, because asyncio.timeout costs as much as all the rest
            late = asyncio.get_running_loop().call_at(self._end, self._late)
            try:
                piece = await pieces.next()
            finally:
                late.cancel()
        if piece is None:
            raise StopAsyncIteration
        self._used += 1
        if self._server and self._used % max(1, self._limits.window // 2) == 0:
            await self._calls.post(self._server, Packet(Kind.CREDIT, self._handle, self._used))
        return piece

    def _late(self) -> None:
        self._pieces.interrupt(DeadlineExceeded(f"{self.name} did not answer in time"))

    async def send(self, body: bytes) -> None:
        for kind, chunk in chunks(body, self._limits):
            await self._post_more(kind, chunk)

    async def _post_more(self, kind: Kind, body: bytes) -> None:
        await self._taken.wait()
        if self._pieces.wrong is not None:
            raise self._pieces.wrong
        self._sent += 1
        await self._calls.post(self._server, Packet(kind, self._handle, self._sent, body))

    async def _cancel(self) -> None:
        with suppress(BusUnavailable):  # the server finds out by itself that we are gone
            await self._calls.post(self._server, Packet(Kind.CANCEL, self._handle))

    def arrived(self, packet: Packet) -> None:
        self.missed = 0
        match packet.kind:
            case Kind.TAKEN:
                instance, _, self._handle = packet.address.partition("/")
                self._server = f"back:{instance}"
                self._taken.set()
                if self.left:
                    self._calls.later(self._cancel())
            case Kind.DATA | Kind.MORE:
                self._pieces.add(packet, self.name)
            case Kind.END:
                self._pieces.end()
            case Kind.FAIL:
                self.fail(Fault(packet.reason, packet.code).error())
            case _:
                pass  # ALIVE: that it came is all it says

    def fail(self, wrong: SabirError) -> None:
        self._pieces.end(wrong)
        self._taken.set()

    async def tick(self) -> None:
        self.missed += 1
        if self.missed > self._limits.missed:
            self.fail(PeerUnavailable(self.name, "the one who answered is gone"))
        elif self._server and not self._pieces.over:
            await self._calls.post(self._server, Packet(Kind.ALIVE, self._handle))


class Served:
    """A call, on the server's side."""

    def __init__(self, calls: Calls, name: str, opening: Packet) -> None:
        self.name = name
        self.id = opening.call
        self.body = opening.body
        self.headers: Mapping[str, str] = opening.headers
        self.handle = calls.new_id()
        self.missed = 0
        self.instance = opening.address
        self._caller = f"back:{opening.address}"
        self.task: asyncio.Task[None] | None = None
        self._chunks_to_come = opening.number - 1
        self._calls = calls
        self._limits = calls.limits
        self._pieces = _Pieces(calls.limits)
        self._sent = self._ahead = self._credit = 0
        self._credited = asyncio.Event()
        self._over = False

    async def send(self, body: bytes) -> None:
        while self._ahead - self._credit >= self._limits.window and not self._over:
            self._credited.clear()
            await self._credited.wait()
        if self._over:
            raise Cancelled("the caller has left")
        self._ahead += 1
        for kind, chunk in chunks(body, self._limits):
            self._sent += 1
            await self._post(Packet(kind, self.id, self._sent, chunk))

    async def receive(self) -> bytes:
        piece = await self._pieces.next()
        if piece is None:
            raise PeerUnavailable(self.name, "the caller sends no more")
        return piece

    async def run(self, server: Server) -> None:
        """Answer the call; whatever goes wrong is told to the caller."""
        await self._post(Packet(Kind.TAKEN, self.id, address=f"{self._calls.instance}/{self.handle}"))
        try:
            if self._chunks_to_come:
                self.body += await self.receive()
            await server(self)
        except SabirError as wrong:
            fault = Fault.of(wrong)
            await self._post(Packet(Kind.FAIL, self.id, reason=fault.reason, code=fault.code))
        else:
            await self._post(Packet(Kind.END, self.id))

    async def failed(self, reason: str, code: str) -> None:
        with suppress(BusUnavailable):
            await self._post(Packet(Kind.FAIL, self.id, reason=reason, code=code))

    def arrived(self, packet: Packet) -> None:
        self.missed = 0
        match packet.kind:
            case Kind.DATA | Kind.MORE:
                self._pieces.add(packet, self.name)
            case Kind.CREDIT:
                self._credit = max(self._credit, packet.number)
                self._credited.set()
            case Kind.CANCEL:
                self.cancel()
            case _:
                pass  # ALIVE

    def cancel(self) -> None:
        self.end()
        if self.task is not None:
            self.task.cancel()

    def end(self) -> None:
        """Nothing more goes back; other tasks that still send are told."""
        self._over = True
        self._credited.set()

    async def tick(self) -> None:
        self.missed += 1
        if self.missed > self._limits.missed:
            self.cancel()
        else:
            await self._post(Packet(Kind.ALIVE, self.id))

    async def _post(self, packet: Packet) -> None:
        await self._calls.post(self._caller, packet)


class Calls:
    """All calls of one bus, made and served."""

    def __init__(self, instance: str, post: Post, limits: Limits) -> None:
        self.instance = instance  # where packets for us go
        self.post = post
        self.limits = limits
        self._made: dict[str, Calling] = {}
        self._served: dict[str, Served] = {}
        self._open: set[str] = set()
        self._numbers = count(1)
        self._ending: set[asyncio.Task[None]] = set()
        self._pulse: asyncio.Task[None] | None = None

    def new_id(self) -> str:
        """An id that no other call here has; with the instance it is unique everywhere."""
        return f"{next(self._numbers):x}"

    @property
    def made(self) -> int:
        return len(self._made)

    @property
    def served(self) -> int:
        return len(self._served)

    def call(self, name: str, body: bytes, headers: Mapping[str, str] | None, seconds: float | None) -> Calling:
        return Calling(self, name, body, headers or {}, seconds)

    def add_calling(self, call: Calling) -> None:
        self._made[call.id] = call
        self._start_pulse()

    def drop_calling(self, call: Calling) -> None:
        if not call.lingers:
            self._made.pop(call.id, None)

    def open(self, name: str, opening: Packet, server: Server) -> None:
        """Serve a call that has come in."""
        opened = f"{opening.address}/{opening.call}"
        if opened in self._open:
            return  # the same packet twice
        self._open.add(opened)
        served = Served(self, name, opening)
        self._served[served.handle] = served
        served.task = asyncio.create_task(served.run(server), name=f"call of {name}")
        served.task.add_done_callback(lambda task: self._ended(served, task))
        self._start_pulse()

    def arrived(self, packet: Packet) -> None:
        """A packet for one of our calls; those of calls that are over are dropped."""
        served = self._served.get(packet.call)
        if served is not None:
            served.arrived(packet)
        elif (made := self._made.get(packet.call)) is not None:
            made.arrived(packet)
            if made.left:
                self.drop_calling(made)

    def nobody(self, call: str) -> None:
        """The post found nobody who serves this call's name."""
        made = self._made.get(call)
        if made is not None:
            made.fail(PeerUnavailable(made.name, "nobody serves this name now"))
            if made.left:
                self.drop_calling(made)

    async def close(self) -> None:
        await end([self._pulse])
        for made in self._made.values():
            made.fail(BusUnavailable("the bus is closed"))
        tasks = [served.task for served in self._served.values() if served.task is not None]
        if tasks:
            await end(tasks)
            await asyncio.sleep(0)  # the callbacks that tell the callers run now
        if self._ending:
            await asyncio.wait(self._ending)

    def _ended(self, served: Served, task: asyncio.Task[None]) -> None:
        served.end()
        del self._served[served.handle]
        self._open.discard(f"{served.instance}/{served.id}")
        if task.cancelled():
            told = served.failed(f"{served.name} is stopping", "unavailable")
        elif (wrong := task.exception()) is None or isinstance(wrong, BusUnavailable):
            return
        else:
            logger.error("the server of %s failed", served.name, exc_info=wrong)
            told = served.failed(f"{served.name} failed", "failed")
        self.later(told)

    def later(self, told: Coroutine[None, None, None]) -> None:
        """Tell the other side something that nobody here waits for."""
        ending = asyncio.create_task(told)
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)

    def _start_pulse(self) -> None:
        if self._pulse is None or self._pulse.done():
            self._pulse = asyncio.create_task(self._beat(), name="signs of life")

    async def _beat(self) -> None:
        while self._made or self._served:
            await asyncio.sleep(self.limits.alive_seconds)
            sides: list[Calling | Served] = [*self._made.values(), *self._served.values()]
            for side in sides:
                with suppress(BusUnavailable):
                    await side.tick()
            for made in list(self._made.values()):
                if made.left:
                    self.drop_calling(made)
