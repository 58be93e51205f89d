"""Calls: questions to a name, with streamed answers, a way to send more, and keep-alives. Both sides, over any
transport.

A bus gives ``Calls`` a transport for packets and passes it those that arrive; everything else is here. Pieces are
numbered, so that a lost one ends the call instead of leaving a gap; the server sends at most ``Limits.window`` pieces
ahead of the caller; a side that sends no keep-alive is considered gone.

What a server sends is held until the end of the current pass of the event loop, because most answers are one piece
followed by the end: then one packet accepts the call, carries the answer, and ends it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Coroutine, Mapping
from contextlib import suppress
from itertools import count
from math import inf
from types import TracebackType
from typing import Final, Protocol

from sabir.aio import cancel_and_wait
from sabir.errors import BusUnavailable, Cancelled, DeadlineExceeded, PeerUnavailable, SabirError
from sabir.events import Fault

from .base import Server
from .framing import BusLimits, Kind, Packet, chunks
from .pieces import Pieces

logger = logging.getLogger("sabir.bus")

_PIECES: Final = frozenset({Kind.MORE, Kind.DATA, Kind.LAST})
_NO_MORE: Final[list[tuple[Kind, bytes]]] = []
_LATE_SECONDS: Final = 0.01  # how often overdue calls are looked for, at most


class BusPost(Protocol):
    """How packets are sent. The result is awaited if the bus is behind; usually there is nothing to wait for."""

    def ask(self, name: str, opening: Packet) -> Awaitable[None] | None:
        """Send a question to one of the servers of a name."""

    def back(self, instance: str, packet: Packet, *, more: bool) -> Awaitable[None] | None:
        """Send a packet to a node; ``more`` means that another one follows in this pass, and can share a publish."""


class BusCalling:
    """A call, on the caller's side."""

    __slots__ = (
        "_body", "_calls", "_headers", "_limits", "_pieces", "_seconds", "_sent", "_server", "_taken", "_uncredited",
        "_uncredited_bytes", "_used", "end", "id", "left", "missed", "name",
    )  # fmt: skip

    def __init__(
        self, calls: Calls, name: str, body: bytes, headers: Mapping[str, str] | None, seconds: float | None
    ) -> None:
        self.name = name
        self.id = calls.new_id()
        self.missed = 0
        self.left = False
        self.end: float | None = None  # its deadline, once it was sent
        self._calls = calls
        self._limits = calls.limits
        self._body = body
        self._headers = headers
        self._seconds = seconds
        self._pieces = Pieces(calls.limits)
        self._taken: asyncio.Event | None = None  # created by whoever waits for it
        self._server = ""  # the node that accepted it, where further packets go
        self._sent = self._used = 0
        self._uncredited = self._uncredited_bytes = 0  # consumed, but not yet reported to the server

    async def __aenter__(self) -> BusCalling:
        if self._seconds is not None:
            self.end = asyncio.get_running_loop().time() + self._seconds
        first, rest = self._body, _NO_MORE
        if len(first) > self._limits.chunk_bytes:
            (_, first), *rest = chunks(first, self._limits)
        self._calls.add_calling(self)
        headers = dict(self._headers) if self._headers else {}
        opening = Packet(Kind.OPEN, self.id, 1 + len(rest), first, self._calls.instance, headers)
        try:
            if (wait := self._calls.post.ask(self.name, opening)) is not None:
                await wait
            for kind, body in rest:
                await self._post_more(kind, body)
        except BaseException:
            await self.__aexit__(None, None, None)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.left = True
        self._calls.drop_calling(self)
        if self._server and not self._pieces.over:
            await self._cancel()

    @property
    def lingers(self) -> bool:
        """Whether nobody has accepted it; if so, possible servers must be notified that it was abandoned."""
        return not self._server and not self._pieces.over

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        pieces = self._pieces
        if pieces.ready:
            piece: bytes | None = pieces.ready.pop(0)
        else:
            if self.end is not None and not pieces.over:
                self._calls.until(self.end, self)
            piece = await pieces.next()
        if piece is None:
            raise StopAsyncIteration
        self._used += 1
        self._uncredited += 1
        self._uncredited_bytes += len(piece)
        limits = self._limits
        if self._uncredited * 2 >= limits.window or self._uncredited_bytes * 2 >= limits.window_bytes:
            await self._credit()
        return piece

    async def _credit(self) -> None:
        if self._server and not self._pieces.over:
            self._uncredited = self._uncredited_bytes = 0
            with suppress(BusUnavailable):  # it is sent again
                await self._post(Kind.CREDIT, self._used)

    def late(self) -> DeadlineExceeded:
        """Time out; whoever waits for it gets an error."""
        exc = DeadlineExceeded(f"{self.name} did not answer in time")
        self._pieces.interrupt(exc)
        return exc

    async def send(self, body: bytes) -> None:
        for kind, chunk in chunks(body, self._limits):
            await self._post_more(kind, chunk)

    async def _post_more(self, kind: Kind, body: bytes) -> None:
        if not self._server and not self._pieces.over:
            if self._taken is None:
                self._taken = asyncio.Event()
            await self._taken.wait()
        if self._pieces.error is not None:
            raise self._pieces.error
        self._sent += 1
        await self._post(kind, self._sent, body)

    async def _cancel(self) -> None:
        with suppress(BusUnavailable):  # the server notices by itself that we are gone
            await self._post(Kind.CANCEL)

    async def _post(self, kind: Kind, number: int = 0, body: bytes = b"") -> None:
        packet = Packet(kind, f"{self._calls.instance}/{self.id}", number, body)
        if (wait := self._calls.post.back(self._server, packet, more=False)) is not None:
            await wait

    def arrived(self, packet: Packet) -> None:
        self.missed = 0
        if packet.address and not self._server:
            self._was_taken(packet.address)
        match packet.kind:
            case Kind.LAST:
                self._pieces.add(packet, self.name)
                self._pieces.end()
            case Kind.DATA | Kind.MORE:
                self._pieces.add(packet, self.name)
            case Kind.END:
                self._pieces.last(packet.number, self.name)
            case Kind.FAIL:
                self.fail(Fault(packet.reason, packet.code).error())
            case Kind.ALIVE:
                self._pieces.check(packet.number, self.name)
                self._calls.later(self._credit())  # again, because the last credit may have been lost
            case _:
                pass  # TAKEN: only acknowledges the call

    def _was_taken(self, address: str) -> None:
        self._server = address
        if self._taken is not None:
            self._taken.set()
        if self.left:
            self._calls.later(self._cancel())

    def fail(self, exc: SabirError) -> None:
        self._pieces.end(exc)
        if self._taken is not None:
            self._taken.set()

    async def tick(self) -> None:
        self.missed += 1
        if self.missed > self._limits.missed:
            self.fail(PeerUnavailable(self.name, "the node that answered is gone"))
        else:
            await self.sign()

    async def sign(self) -> None:
        """Send a keep-alive with what was sent so far; the other side answers with one."""
        if self._server and not self._pieces.over:
            await self._post(Kind.ALIVE, self._sent)


class Served:
    """A call, on the server's side."""

    __slots__ = (
        "_acknowledged", "_ahead", "_ahead_bytes", "_calls", "_changed", "_chunks_to_come", "_credit", "_held",
        "_limits", "_long", "_over", "_pieces", "_sent", "body", "headers", "id", "instance", "key", "missed",
        "name", "task",
    )  # fmt: skip

    def __init__(self, calls: Calls, key: str, name: str, opening: Packet) -> None:
        self.name = name
        self.id = opening.call
        self.body = opening.body
        self.headers: Mapping[str, str] = opening.headers
        self.key = key  # its key here; the caller numbers calls by its own node
        self.missed = 0
        self.instance = opening.address  # of the caller
        self.task: asyncio.Task[None] | None = None
        self._chunks_to_come = opening.number - 1
        self._calls = calls
        self._limits = calls.limits
        self._pieces: Pieces | None = None  # what the caller sends after its question, if anything
        self._held: bytes | None = None  # what was sent last, until the end of this pass
        self._acknowledged = False  # whether the caller knows that its call was accepted
        self._sent = self._credit = 0
        self._ahead: list[int] = []  # the lengths of pieces that the caller has not consumed
        self._ahead_bytes = 0
        self._changed: asyncio.Event | None = None  # created by whoever waits for it
        self._long = False  # whether a multi-packet piece is being sent
        self._over = False

    async def run(self, server: Server) -> None:
        """Answer the call; errors go to the caller."""
        self._calls.soon(self)
        try:
            if self._chunks_to_come:
                self.body += await self.receive()
            await server(self)
        except SabirError as exc:
            fault = Fault.of(exc)
            await self.failed(fault.reason, fault.code)
        else:
            body, self._held = self._held, None
            wait = self._post(Kind.END) if body is None else self._post(Kind.LAST, body)
            if wait is not None:
                await wait

    async def send(self, body: bytes) -> None:
        while (self._long or self._is_far_ahead) and not self._over:
            await self._change()
        if self._over:
            raise Cancelled("the caller has left")
        self._ahead.append(len(body))
        self._ahead_bytes += len(body)
        if len(body) > self._limits.chunk_bytes:
            body = await self._send_long(body)
        held, self._held = self._held, body
        if held is None:
            self._calls.soon(self)
        elif (wait := self._post(Kind.DATA, held, more=True)) is not None:
            await wait

    @property
    def _is_far_ahead(self) -> bool:
        return len(self._ahead) >= self._limits.window or self._ahead_bytes >= self._limits.window_bytes

    async def _send_long(self, body: bytes) -> bytes:
        """Send all but the last chunk of a piece; other senders wait for it."""
        *chunked, (_, last) = chunks(body, self._limits)
        self._long = True
        try:
            if (wait := self._let_go(more=True)) is not None:
                await wait
            for kind, chunk in chunked:
                if (wait := self._post(kind, chunk, more=True)) is not None:
                    await wait
        finally:
            self._long = False
            self._wake()
        return last

    async def receive(self) -> bytes:
        piece = await self._received().next()
        if piece is None:
            raise PeerUnavailable(self.name, "the caller sends no more")
        return piece

    def _received(self) -> Pieces:
        if self._pieces is None:
            self._pieces = Pieces(self._limits)
        return self._pieces

    async def failed(self, reason: str, code: str) -> None:
        with suppress(BusUnavailable):  # the caller notices by itself that we are gone
            for wait in (self._let_go(more=True), self._post(Kind.FAIL, reason=reason, code=code)):
                if wait is not None:
                    await wait

    @property
    def owes(self) -> bool:
        """Whether something has not been sent to the caller yet."""
        return self._held is not None or not self._acknowledged

    def moment_over(self, *, more: bool) -> Awaitable[None] | None:
        """Send it: the last piece, or at least that the call was accepted."""
        return self._post(Kind.TAKEN, more=more) if self._held is None else self._let_go(more=more)

    def _let_go(self, *, more: bool) -> Awaitable[None] | None:
        body, self._held = self._held, None
        return None if body is None else self._post(Kind.DATA, body, more=more)

    def _post(
        self, kind: Kind, body: bytes = b"", *, reason: str = "", code: str = "", more: bool = False
    ) -> Awaitable[None] | None:
        if kind in _PIECES:
            self._sent += 1
        address = "" if self._acknowledged else self._calls.instance
        self._acknowledged = True
        packet = Packet(kind, self.id, self._sent, body, address, {}, reason, code)
        return self._calls.post.back(self.instance, packet, more=more)

    def arrived(self, packet: Packet) -> None:
        self.missed = 0
        match packet.kind:
            case Kind.DATA | Kind.MORE:
                self._received().add(packet, self.name)
            case Kind.CREDIT:
                while self._credit < packet.number and self._ahead:
                    self._credit += 1
                    self._ahead_bytes -= self._ahead.pop(0)
                self._wake()
            case Kind.ALIVE:
                self._received().check(packet.number, self.name)
                self._calls.later(self.sign())  # with what was sent so far, because some of it may have been lost
            case Kind.CANCEL:
                self.cancel()
            case _:
                pass  # not meant for a server

    def cancel(self) -> None:
        self.end()
        if self.task is not None:
            self.task.cancel()

    def end(self) -> None:
        """Stop sending; other tasks that still send get an error."""
        self._over = True
        self._wake()

    async def tick(self) -> None:
        self.missed += 1
        if self.missed > self._limits.missed:
            self.cancel()
        else:
            await self.sign()

    async def sign(self) -> None:
        with suppress(BusUnavailable):
            if not self._over and (wait := self._post(Kind.ALIVE)) is not None:
                await wait

    async def _change(self) -> None:
        if self._changed is None:
            self._changed = asyncio.Event()
        self._changed.clear()
        await self._changed.wait()

    def _wake(self) -> None:
        if self._changed is not None:
            self._changed.set()


class Calls:
    """All calls of one bus, made and served."""

    def __init__(self, instance: str, post: BusPost, limits: BusLimits) -> None:
        self.instance = instance  # this node: where packets for us go
        self.post = post
        self.limits = limits
        self._made: dict[str, BusCalling] = {}
        self._served: dict[str, Served] = {}
        self._numbers = count(1)
        self._ending: set[asyncio.Task[None]] = set()
        self._pulse: asyncio.Task[None] | None = None
        self._soon: dict[Served, None] = {}  # those with something to send at the end of this pass
        self._late_at = inf  # when the next call is due, if one has a deadline
        self._late: asyncio.TimerHandle | None = None

    def new_id(self) -> str:
        """An id that no other call here has; unique everywhere together with the instance."""
        return f"{next(self._numbers):x}"

    @property
    def made(self) -> int:
        return len(self._made)

    @property
    def served(self) -> int:
        return len(self._served)

    def call(self, name: str, body: bytes, headers: Mapping[str, str] | None, seconds: float | None) -> BusCalling:
        return BusCalling(self, name, body, headers, seconds)

    def add_calling(self, call: BusCalling) -> None:
        self._made[call.id] = call
        self._start_pulse()

    def drop_calling(self, call: BusCalling) -> None:
        if not call.lingers:
            self._made.pop(call.id, None)

    def open(self, name: str, opening: Packet, server: Server) -> None:
        """Serve a call that has come in."""
        key = f"{opening.address}/{opening.call}"
        if key in self._served:
            return  # a duplicate packet
        served = self._served[key] = Served(self, key, name, opening)
        served.task = asyncio.get_running_loop().create_task(served.run(server))
        served.task.add_done_callback(lambda task: self._ended(served, task))
        self._start_pulse()

    def arrived(self, packet: Packet) -> None:
        """Handle a packet for one of our calls; packets for ended calls are dropped."""
        made = self._made.get(packet.call)
        if made is not None:
            made.arrived(packet)
            if made.left:
                self.drop_calling(made)
        elif (served := self._served.get(packet.call)) is not None:
            served.arrived(packet)

    def soon(self, served: Served) -> None:
        """Let a call send what it has, at the end of this pass."""
        if not self._soon:
            asyncio.get_running_loop().call_soon(self._moment_over)
        self._soon[served] = None

    def _moment_over(self) -> None:
        soon, self._soon = [served for served in self._soon if served.owes], {}
        for number, served in enumerate(soon, 1):
            with suppress(BusUnavailable):  # its caller notices, too
                if (wait := served.moment_over(more=number < len(soon))) is not None:
                    self.later(_awaited(wait))

    def until(self, end: float, call: BusCalling) -> None:
        """Wake this call at its deadline. One timer for all: one each costs as much as the rest of a call.

        Raises:
            DeadlineExceeded: the deadline has passed.
        """
        loop = asyncio.get_running_loop()
        if end <= loop.time():
            raise call.late()
        if end < self._late_at:
            if self._late is not None:
                self._late.cancel()
            self._late_at, self._late = end, loop.call_at(end, self._wake_late)

    def _wake_late(self) -> None:
        loop = asyncio.get_running_loop()
        now, following = loop.time(), inf
        for made in self._made.values():
            if made.end is not None and made.end <= now:
                made.late()
            elif made.end is not None:
                following = min(following, made.end)
        self._late_at, self._late = inf, None
        if following < inf:
            self._late_at = max(following, now + _LATE_SECONDS)
            self._late = loop.call_at(self._late_at, self._wake_late)

    def nobody(self, call: str) -> None:
        """Fail a call whose name nobody serves, as the transport reported."""
        made = self._made.get(call)
        if made is not None:
            made.fail(PeerUnavailable(made.name, "no node serves this name now"))
            if made.left:
                self.drop_calling(made)

    async def close(self) -> None:
        await cancel_and_wait([self._pulse])
        if self._late is not None:
            self._late.cancel()
        for made in self._made.values():
            made.fail(BusUnavailable("the bus is closed"))
        tasks = [served.task for served in self._served.values() if served.task is not None]
        if tasks:
            await cancel_and_wait(tasks)
            await asyncio.sleep(0)  # let the callbacks that notify the callers run
        if self._ending:
            await asyncio.wait(self._ending)

    def _ended(self, served: Served, task: asyncio.Task[None]) -> None:
        served.end()
        del self._served[served.key]
        if task.cancelled():
            report = served.failed(f"{served.name} is stopping", "unavailable")
        elif (exc := task.exception()) is None or isinstance(exc, BusUnavailable):
            return
        else:
            logger.error("The server of %s failed", served.name, exc_info=exc)
            report = served.failed(f"{served.name} failed", "failed")
        self.later(report)

    def later(self, report: Coroutine[None, None, None]) -> None:
        """Send something in the background."""
        ending = asyncio.create_task(report)
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)

    def _start_pulse(self) -> None:
        if self._pulse is None or self._pulse.done():
            self._pulse = asyncio.create_task(self._beat(), name="signs of life")

    async def reconnected(self) -> None:
        """The connection was interrupted: send keep-alives now, by which lost packets are noticed."""
        for side in self._sides():
            with suppress(BusUnavailable):
                await side.sign()

    def _sides(self) -> list[BusCalling | Served]:
        return [*self._made.values(), *self._served.values()]

    async def _beat(self) -> None:
        while self._made or self._served:
            await asyncio.sleep(self.limits.alive_seconds)
            for side in self._sides():
                with suppress(BusUnavailable):
                    await side.tick()
            for made in list(self._made.values()):
                if made.left:
                    self.drop_calling(made)


async def _awaited(wait: Awaitable[None]) -> None:
    with suppress(BusUnavailable):
        await wait
