"""A bus in this process: for one gateway, and for tests. Nothing survives the process."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from itertools import count

import msgspec

from sabir.aio import cancel_and_wait
from sabir.errors import BusUnavailable

from .base import DEFAULT, DeadLetter, Handler, Letter, LetterReceiver, Load, Receiving, Server, check_name
from .calls import BusCalling, Calls
from .delivery import Delivery, Seen
from .framing import BusLimits, Packet, packed

_SMALL = 4096  # a body far below every limit needs no check


class _MemoryParcel:
    """Letters taken out of a box, until they are handled."""

    __slots__ = ("box", "deliveries", "key", "letters")

    def __init__(self, key: int, letters: tuple[Letter, ...], box: _Box) -> None:
        self.key = key
        self.letters = letters
        self.box = box
        self.deliveries = 1

    def ack(self) -> None:
        self.box.out.discard(self.key)
        self.box.changed()

    async def hold(self) -> None:
        pass

    async def release(self) -> None:
        self.box.out.discard(self.key)
        self.box.waiting.extendleft(reversed(self.letters))
        self.box.changed()


class _Box:
    """An inbox, or one member's copy of a group's letters."""

    def __init__(self, name: str, member: str, limits: BusLimits) -> None:
        self.name = name
        self.member = member
        self.waiting: deque[Letter] = deque()
        self.out: set[int] = set()
        self.seen = Seen(limits.seen)
        self.limits = limits
        self._some = asyncio.Event()
        self._keys = count(1)

    def put(self, letter: Letter) -> None:
        if len(self.waiting) >= self.limits.inbox_letters:
            raise BusUnavailable(f"the inbox of {self.name} is full")
        self.waiting.append(letter)
        self._some.set()

    def changed(self) -> None:
        if self.waiting:
            self._some.set()

    async def take(self, ordered: bool) -> _MemoryParcel:
        while not self.waiting or (ordered and self.out):
            self._some.clear()
            await self._some.wait()
        waiting = self.waiting
        letters = tuple(waiting.popleft() for _ in range(min(len(waiting), self.limits.frame_letters)))
        parcel = _MemoryParcel(next(self._keys), letters, self)
        self.out.add(parcel.key)
        return parcel


class _MemoryReceiver:
    """Moves letters from a box to their handler."""

    def __init__(self, bus: MemoryBus, box: _Box, handler: Handler, receiving: Receiving) -> None:
        self._bus = bus
        self._box = box
        self._ordered = receiving.ordered
        self._delivery = Delivery(
            box.name, handler, receiving, bus.limits, seen=box.seen, store_dead=bus._store_dead, member=box.member
        )
        self._task = asyncio.create_task(self._run(), name=f"receiver of {box.name}")

    @property
    def in_hand(self) -> int:
        return self._delivery.in_hand

    async def _run(self) -> None:
        while True:
            await self._delivery.room()
            await self._delivery.take(await self._box.take(self._ordered))

    async def stop(self) -> None:
        if self in self._bus.receivers:
            self._bus.receivers.discard(self)
            await cancel_and_wait([self._task])
            await self._delivery.stop()


class _MemoryService:
    """One server of a name's calls."""

    def __init__(self, bus: MemoryBus, name: str, server: Server) -> None:
        self._bus = bus
        self._name = name
        self.server = server

    async def stop(self) -> None:
        servers = self._bus.servers.get(self._name, deque())
        if self in servers:
            servers.remove(self)


class MemoryBus:
    """Letters and calls within this process."""

    spans_nodes = True

    def __init__(self, limits: BusLimits | None = None) -> None:
        self.limits = limits or BusLimits()
        self.receivers: set[_MemoryReceiver] = set()
        self.servers: dict[str, deque[_MemoryService]] = {}
        self._inboxes: dict[str, _Box] = {}
        self._groups: dict[str, dict[str, _Box]] = {}
        self._dead: dict[str, list[DeadLetter]] = {}
        self._numbers = count(1)
        self._calls = Calls("memory", self, self.limits)
        self._open = False

    async def open(self) -> None:
        self._open = True

    async def close(self) -> None:
        self._open = False
        for receiver in list(self.receivers):
            await receiver.stop()
        await self._calls.close()

    async def ping(self) -> None:
        if not self._open:
            raise BusUnavailable("the bus is closed")

    @property
    def up(self) -> bool:
        return self._open

    def load(self) -> Load:
        in_hand = sum(receiver.in_hand for receiver in self.receivers)
        return Load(in_hand, 0, self._calls.made, self._calls.served)

    # -- letters ----------------------------------------------------------------------------------

    async def send(self, *letters: Letter) -> None:
        await self.ping()
        self._check(letters)
        crowded = False
        for letter in letters:
            box = self._inbox(letter.to)
            box.put(letter)
            crowded = crowded or len(box.waiting) > self.limits.in_hand
        if crowded:
            await asyncio.sleep(0)  # let the receivers run

    async def receive(self, name: str, handler: Handler, receiving: Receiving = DEFAULT) -> LetterReceiver:
        await self.ping()
        return self._receiver(self._inbox(check_name(name)), handler, receiving)

    async def waiting(self, name: str) -> int:
        await self.ping()
        box = self._inboxes.get(name)
        return len(box.waiting) + len(box.out) if box else 0

    async def discard(self, name: str) -> None:
        await self.ping()
        box = self._inboxes.get(name)
        if box is not None:
            box.waiting.clear()

    async def publish(self, *letters: Letter) -> None:
        await self.ping()
        self._check(letters)
        for letter in letters:
            for box in self._groups.get(letter.to, {}).values():
                box.put(letter)
        await asyncio.sleep(0)

    async def join(self, group: str, member: str, handler: Handler, receiving: Receiving = DEFAULT) -> LetterReceiver:
        await self.ping()
        check_name(member)
        boxes = self._groups.setdefault(check_name(group), {})
        box = boxes.get(member)
        if box is None:
            box = boxes[member] = _Box(group, member, self.limits)
        return self._receiver(box, handler, receiving)

    async def leave(self, group: str, member: str) -> None:
        await self.ping()
        self._groups.get(group, {}).pop(member, None)

    def _check(self, letters: tuple[Letter, ...]) -> None:
        for letter in letters:
            check_name(letter.to)
            if len(letter.body) > _SMALL or letter.headers:
                packed(letter, self.limits)

    def _inbox(self, name: str) -> _Box:
        box = self._inboxes.get(name)
        if box is None:
            box = self._inboxes[name] = _Box(name, "", self.limits)
        return box

    def _receiver(self, box: _Box, handler: Handler, receiving: Receiving) -> _MemoryReceiver:
        receiver = _MemoryReceiver(self, box, handler, receiving)
        self.receivers.add(receiver)
        return receiver

    # -- dead letters -----------------------------------------------------------------------------

    async def _store_dead(self, dead: DeadLetter, key: int) -> None:
        numbered = msgspec.structs.replace(dead, number=next(self._numbers))
        self._dead.setdefault(dead.letter.to, []).append(numbered)

    async def dead(self, name: str, limit: int = 100) -> list[DeadLetter]:
        await self.ping()
        return self._dead.get(name, [])[:limit]

    async def dead_letter_counts(self) -> dict[str, int]:
        await self.ping()
        return {name: len(dead) for name, dead in sorted(self._dead.items()) if dead}

    async def replay(self, name: str, *numbers: int) -> int:
        chosen = self._taken_out(name, numbers)
        for dead in chosen:
            if dead.member:
                box = self._groups.get(name, {}).get(dead.member)
                if box is not None:
                    box.put(msgspec.structs.replace(dead.letter, only=dead.member))
            else:
                await self.send(dead.letter)
        return len(chosen)

    async def discard_dead(self, name: str, *numbers: int) -> int:
        return len(self._taken_out(name, numbers))

    def _taken_out(self, name: str, numbers: tuple[int, ...]) -> list[DeadLetter]:
        all_dead = self._dead.get(name, [])
        chosen = [dead for dead in all_dead if not numbers or dead.number in numbers]
        self._dead[name] = [dead for dead in all_dead if dead not in chosen]
        return chosen

    # -- calls ------------------------------------------------------------------------------------

    def call(
        self,
        name: str,
        body: bytes,
        *,
        headers: Mapping[str, str] | None = None,
        seconds: float | None = None,
    ) -> BusCalling:
        return self._calls.call(check_name(name), body, headers, seconds)

    async def serve(self, name: str, server: Server) -> LetterReceiver:
        await self.ping()
        serving = _MemoryService(self, check_name(name), server)
        self.servers.setdefault(name, deque()).append(serving)
        return serving

    def ask(self, name: str, opening: Packet) -> None:
        if not self._open:
            raise BusUnavailable("the bus is closed")
        servers = self.servers.get(name)
        if not servers:
            self._calls.nobody(opening.call)
            return
        servers.rotate(-1)
        self._calls.open(name, opening, servers[-1].server)

    def back(self, instance: str, packet: Packet, *, more: bool) -> None:
        self._calls.arrived(packet)
