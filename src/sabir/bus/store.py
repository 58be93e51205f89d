"""A bus that stores letters in the gateway's own store: durable without another process.

Any number of processes on one store share the inboxes: a receiver holds a letter under a lease, and the order of each
lane holds across all of them. Calls are answered within this process; nodes that call each other need NATS.
"""

from __future__ import annotations

import asyncio
import logging
import struct
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from itertools import chain
from typing import Final

import msgspec

from sabir.aio import cancel_and_wait
from sabir.errors import BusUnavailable, StoreUnavailable, TooLarge
from sabir.ids import new_id
from sabir.stores.base import Record, Store
from sabir.stores.letters import HIGH, LANE, LOW, MEDIUM, DeadRow, LetterNotices, LetterRow, Letters

from .base import DEFAULT, DeadLetter, Handler, Letter, LetterReceiver, Load, Receiving, Server, check_name
from .calls import BusCalling
from .delivery import Delivery, Seen
from .framing import BusLimits
from .memory import MemoryBus

logger = logging.getLogger("sabir.bus")

GROUPS: Final = "bus-groups"
PRIORITY: Final = "priority"  # the header of a letter with low, medium or high
_PRIORITIES: Final = {"low": LOW, "medium": MEDIUM, "high": HIGH}
_LOOK: Final = 0.1  # seconds between two polls for letters of other processes, if the store does not notify
_ANNOUNCED_LOOK: Final = 2.0  # and if it does: for expired leases
_LOOK_AGAIN: Final = 10  # polls after which every receiver checks for expired leases
_MAX_LETTERS: Final = 100_000

_SHARED: Final = 1  # how a row starts whose letter is followed by its body; no letter in MessagePack starts like this
_HEAD: Final = struct.Struct(">BI")  # that, and the length of the letter

_HEAD_BYTES: Final = 256  # of most letters, without their bodies

_encode = msgspec.msgpack.Encoder().encode
_encode_into = msgspec.msgpack.Encoder().encode_into
_decode = msgspec.msgpack.Decoder(Letter).decode
_Box = tuple[str, str]


def row_of(letter: Letter, limits: BusLimits, *, member: str = "") -> LetterRow:
    """A letter as the store keeps it.

    Raises:
        TooLarge: it is over the limit.
    """
    body = _encode(letter)
    _check_size(len(body), limits)
    at = time.time()
    lane = f"{letter.sender}{LANE}{letter.order}" if letter.order else ""
    expires = at + limits.keep_seconds
    return LetterRow(letter.to, letter.id, body, at, expires, letter.sender, lane, priority_of(letter), member)


def head_of(letter: Letter, limits: BusLimits) -> bytes:
    """The start of a letter's row. The store appends the letter's body.

    Raises:
        TooLarge: it is over the limit.
    """
    # A tuple is written as the letter itself would be, and costs no copy of it.
    values = (letter.to, b"", letter.id, letter.sender, letter.order, letter.headers, letter.at, letter.only)
    head = bytearray(_HEAD_BYTES)
    _encode_into(values, head, _HEAD.size)
    _HEAD.pack_into(head, 0, _SHARED, len(head) - _HEAD.size)
    _check_size(len(head) + len(letter.body), limits)
    return bytes(head)


def priority_of(letter: Letter) -> int:
    return _PRIORITIES.get(letter.headers.get(PRIORITY, ""), MEDIUM)


def _check_size(size: int, limits: BusLimits) -> None:
    if size > limits.letter_bytes:
        raise TooLarge("bus", "letter", f"at most {limits.letter_bytes} bytes, not {size}")


def letter_of(row: LetterRow | DeadRow) -> Letter:
    """The letter of a row.

    Raises:
        msgspec.DecodeError: the row is not a letter.
    """
    body = row.body
    if len(body) <= _HEAD.size or body[0] != _SHARED:
        return _decode(body)
    _, length = _HEAD.unpack_from(body)
    end = _HEAD.size + length
    return msgspec.structs.replace(_decode(body[_HEAD.size : end]), body=body[end:])


class _Parcel:
    """One letter being handled."""

    __slots__ = ("_receiver", "deliveries", "key", "letters")

    def __init__(self, receiver: LetterTaker, letter: Letter, number: int, deliveries: int) -> None:
        self._receiver = receiver
        self.key = number
        self.letters: tuple[Letter, ...] = (letter,)
        self.deliveries = deliveries

    def ack(self) -> None:
        self._receiver.bus.drop(self.key, self._receiver.box)

    async def hold(self) -> None:
        await self._receiver.bus.hold(self._receiver.holder, (self.key,))

    async def release(self) -> None:
        await self._receiver.bus.release(self._receiver.holder, (self.key,), self._receiver.box)


class LetterTaker:
    """Moves letters from a box to their handler."""

    def __init__(self, bus: StoreBus, box: _Box, handler: Handler, receiving: Receiving) -> None:
        self.bus = bus
        self.box = box
        self.holder = new_id()  # its own: the order of a lane also holds among receivers
        self.idle_seconds = receiving.idle_seconds
        name, member = box
        self._delivery = Delivery(
            name, handler, receiving, bus.limits, seen=bus.seen(box), store_dead=bus.store_dead, member=member
        )
        self.wake = asyncio.Event()
        self._task = asyncio.create_task(self._run(), name=f"receiver of {name}")

    @property
    def in_hand(self) -> int:
        return self._delivery.in_hand

    @property
    def held(self) -> tuple[int, ...]:
        return tuple(parcel.key for parcel in self._delivery.parcels())

    async def _run(self) -> None:
        while True:
            await self._delivery.room()
            self.wake.clear()
            rows: list[LetterRow] = []
            with suppress(BusUnavailable):  # then poll again later
                rows = await self._taken()
            if not rows:
                await self.wake.wait()
            for row in rows:
                try:
                    letter = letter_of(row)
                except msgspec.DecodeError as exc:
                    await self.bus.set_aside(row, f"cannot be read from the store: {exc}")
                else:
                    await self._delivery.take(_Parcel(self, letter, row.number, row.deliveries))

    @property
    def has_room(self) -> bool:
        return self._delivery.has_room

    def hand(self, letter: Letter, number: int) -> bool:
        """Handle a letter that the store has put into the box for this receiver, under this number.

        False if the receiver was stopped since then: the letter is for other receivers.
        """
        if self in self.bus.receivers:
            self._delivery.begin(_Parcel(self, letter, number, 1))
            return True
        return False

    async def _taken(self) -> list[LetterRow]:
        """Take some letters. If stopped meanwhile, release them: cut off, they might still be taken."""
        taking = asyncio.ensure_future(self.bus.take(self.holder, self.box))
        try:
            return await asyncio.shield(taking)
        except asyncio.CancelledError:
            with suppress(BusUnavailable):
                rows = await taking
                await self.bus.release(self.holder, tuple(row.number for row in rows), self.box)
            raise

    async def stop(self) -> None:
        if self in self.bus.receivers:
            self.bus.leave_box(self)
            await cancel_and_wait([self._task])
            await self._delivery.stop()
            await self.bus.settle()


class StoreBus:
    """Letters in the store; calls within this process."""

    spans_nodes = False

    def __init__(self, store: Store, limits: BusLimits | None = None, *, own: bool = False) -> None:
        """``own``: the bus opens and closes the store."""
        assert isinstance(store, Letters)
        self._store = store
        self._letters: Letters = store
        self._own = own
        self.limits = limits or BusLimits()
        self.receivers: set[LetterTaker] = set()
        self._by_box: dict[_Box, set[LetterTaker]] = {}
        self._handled: dict[_Box, list[int]] = {}  # in this pass of the event loop; removed together at its end
        self._drops: set[asyncio.Task[None]] = set()
        self._seen: dict[_Box, Seen] = {}
        self._calls = MemoryBus(self.limits)
        self._notices: LetterNotices | None = None
        self._on_letters: list[Callable[[str], None]] = []
        self._watching: asyncio.Task[None] | None = None
        self._holding: asyncio.Task[None] | None = None
        self._open = False

    async def open(self) -> None:
        if self._own and not self._open:
            await self._store.open()
        self._open = True
        await self._calls.open()
        if self._watching is None:
            with suppress(StoreUnavailable):
                self._notices = await self._letters.notice_letters(self._noticed)
            self._watching = asyncio.create_task(self._watch(), name="inboxes: looking")
            self._holding = asyncio.create_task(self._keep(), name="inboxes: holding")

    async def close(self) -> None:
        was_open, self._open = self._open, False
        for receiver in list(self.receivers):
            await receiver.stop()
        await cancel_and_wait([self._watching, self._holding])
        self._watching = self._holding = None
        if self._notices is not None:
            await self._notices.stop()
            self._notices = None
        await self._calls.close()
        if self._own and was_open:
            await self._store.close()

    async def ping(self) -> None:
        if not self._open:
            raise BusUnavailable("the bus is closed")

    @property
    def up(self) -> bool:
        return self._open

    def load(self) -> Load:
        in_hand = sum(receiver.in_hand for receiver in self.receivers)
        return msgspec.structs.replace(self._calls.load(), in_hand=in_hand)

    # -- letters ----------------------------------------------------------------------------------

    async def send(self, *letters: Letter) -> None:
        await self.ping()
        for letter in letters:
            check_name(letter.to)
        await self._put([row_of(letter, self.limits) for letter in letters])

    async def receive(self, name: str, handler: Handler, receiving: Receiving = DEFAULT) -> LetterReceiver:
        await self.ping()
        return self._receiver((check_name(name), ""), handler, receiving)

    async def waiting(self, name: str) -> int:
        await self.ping()
        return sum((await self._letters.count_letters(name)).values())

    async def discard(self, name: str) -> None:
        await self.ping()
        await self._letters.clear_letters(name)

    async def publish(self, *letters: Letter) -> None:
        await self.ping()
        rows: list[LetterRow] = []
        for letter in letters:
            members = await self.members(check_name(letter.to))
            rows += [row_of(letter, self.limits, member=member) for member in members]
        await self._put(rows)

    async def members(self, group: str) -> list[str]:
        """The members of a group."""
        prefix = f"{group}{LANE}"
        records = await self._store.list(GROUPS, prefix=prefix, limit=_MAX_LETTERS)
        return [record.key.removeprefix(prefix) for record in records]

    async def join(self, group: str, member: str, handler: Handler, receiving: Receiving = DEFAULT) -> LetterReceiver:
        await self.ping()
        await self._be_member(check_name(group), check_name(member), receiving.idle_seconds)
        return self._receiver((group, member), handler, receiving)

    async def _be_member(self, group: str, member: str, idle_seconds: float | None) -> None:
        expires = 0.0 if idle_seconds is None else time.time() + idle_seconds
        await self._store.put(Record(GROUPS, f"{group}{LANE}{member}", b"", expires=expires))

    async def leave(self, group: str, member: str) -> None:
        await self.ping()
        await self._store.delete(GROUPS, f"{group}{LANE}{member}")
        await self._letters.clear_letters(group, member)

    async def _put(self, rows: list[LetterRow]) -> None:
        if rows:
            try:
                await self._letters.put_letters(tuple(rows))
            except StoreUnavailable as exc:
                raise BusUnavailable(exc.reason) from exc
            self.wake((row.box, row.member) for row in rows)

    def wake(self, boxes: Iterable[_Box]) -> None:
        """Wake the receivers of boxes that letters were put into."""
        for box in boxes:
            for receiver in self._by_box.get(box, ()):
                receiver.wake.set()

    def taker(self, name: str) -> LetterTaker | None:
        """A receiver of a name in this process with room for one more."""
        for receiver in self._by_box.get((name, ""), ()):
            if receiver.has_room:
                return receiver
        return None

    def _receiver(self, box: _Box, handler: Handler, receiving: Receiving) -> LetterTaker:
        receiver = LetterTaker(self, box, handler, receiving)
        self.receivers.add(receiver)
        self._by_box.setdefault(box, set()).add(receiver)
        return receiver

    def leave_box(self, receiver: LetterTaker) -> None:
        """Remove a receiver."""
        self.receivers.discard(receiver)
        here = self._by_box[receiver.box]
        here.discard(receiver)
        if not here:
            del self._by_box[receiver.box]

    # -- for receivers ----------------------------------------------------------------------------

    def seen(self, box: _Box) -> Seen:
        return self._seen.setdefault(box, Seen(self.limits.seen))

    async def take(self, holder: str, box: _Box) -> list[LetterRow]:
        """Raises:
        BusUnavailable: the store does not answer.
        """
        try:
            return await self._letters.take_letters(*box, holder, self.limits.ack_seconds, self.limits.frame_letters)
        except StoreUnavailable as exc:
            raise BusUnavailable(exc.reason) from exc

    def drop(self, number: int, box: _Box) -> None:
        """Mark a letter as handled. It is held until it is removed, soon, together with others."""
        if not self._handled:
            asyncio.get_running_loop().call_soon(self._drop_soon)
        numbers = self._handled.get(box)
        if numbers is None:
            self._handled[box] = [number]
        else:
            numbers.append(number)

    def _drop_soon(self) -> None:
        if self._handled:
            handled, self._handled = self._handled, {}
            task = asyncio.create_task(self._drop(handled), name="inboxes: dropping")
            self._drops.add(task)
            task.add_done_callback(self._drops.discard)

    async def _drop(self, handled: dict[_Box, list[int]]) -> None:
        with suppress(StoreUnavailable):  # then they are delivered again, and recognised
            await self._letters.finish_letters(tuple(chain.from_iterable(handled.values())))
        for box in handled:
            if len(self._by_box.get(box, ())) > 1:  # another receiver may take the next of a lane now
                self.wake([box])

    async def settle(self) -> None:
        """Wait until all handled letters are removed."""
        self._drop_soon()
        if self._drops:
            await asyncio.wait(tuple(self._drops))

    async def hold(self, holder: str, numbers: tuple[int, ...]) -> None:
        await self._letters.hold_letters(holder, numbers, self.limits.ack_seconds)

    async def release(self, holder: str, numbers: tuple[int, ...], box: _Box) -> None:
        try:
            await self._letters.hold_letters(holder, numbers, 0.0)
        except StoreUnavailable as exc:
            raise BusUnavailable(exc.reason) from exc
        self.wake([box])

    def release_soon(self, holder: str, box: str, letter_id: str) -> None:
        """Release a letter that nobody waits for any more; it may still be handed to this holder."""
        task = asyncio.create_task(self._release_one(holder, box, letter_id), name="inboxes: releasing")
        self._drops.add(task)
        task.add_done_callback(self._drops.discard)

    async def _release_one(self, holder: str, box: str, letter_id: str) -> None:
        with suppress(StoreUnavailable):  # then its lease expires
            await self._letters.release_letter(holder, box, letter_id)
        self.wake([(box, "")])

    async def set_aside(self, row: LetterRow, reason: str) -> None:
        """Move unreadable letters to the dead letters."""
        logger.error("Letter %s to %s is dead: %s", row.id, row.box, reason)
        dead = DeadRow(row.box, row.body, reason, row.deliveries, time.time(), row.member)
        with suppress(StoreUnavailable):  # then it is delivered again
            await self._letters.move_to_dead(row.number, dead)

    async def store_dead(self, dead: DeadLetter, key: int) -> None:
        row = DeadRow(dead.letter.to, _encode(dead.letter), dead.reason, dead.attempts, dead.at, dead.member)
        try:
            await self._letters.move_to_dead(key, row)
        except StoreUnavailable as exc:
            raise BusUnavailable(exc.reason) from exc

    @property
    def look_seconds(self) -> float:
        """How long to wait before polling for letters of other processes."""
        return _ANNOUNCED_LOOK if self._notices is not None and self._notices.live else _LOOK

    def on_letters(self, notify: Callable[[str], None]) -> None:
        """Call this with each box that another process puts letters into, if the store notifies.

        An empty name means that any box may have some.
        """
        self._on_letters.append(notify)

    def _noticed(self, box: str) -> None:
        self.wake([taken for taken in self._by_box if box in ("", taken[0])])
        for notify in self._on_letters:
            notify(box)

    async def _watch(self) -> None:
        """Poll for letters of other processes, and for their expired leases."""
        last = looks = 0
        while True:
            await asyncio.sleep(self.look_seconds)
            if not self.receivers:
                continue
            if self.look_seconds > _LOOK:
                self.wake([receiver.box for receiver in self.receivers])
                continue
            looks += 1
            with suppress(StoreUnavailable):
                number = await self._letters.last_letter()
                if number != last or looks % _LOOK_AGAIN == 0:
                    last = number
                    self.wake([receiver.box for receiver in self.receivers])

    async def _keep(self) -> None:
        """Renew what is being handled, and stay a member of groups that forget."""
        while True:
            await asyncio.sleep(self.limits.ack_seconds / 3)
            for receiver in list(self.receivers):
                with suppress(StoreUnavailable):
                    if held := receiver.held:
                        await self.hold(receiver.holder, held)
                    if receiver.idle_seconds is not None:
                        await self._be_member(*receiver.box, receiver.idle_seconds)

    # -- dead letters -----------------------------------------------------------------------------

    async def dead(self, name: str, limit: int = 100) -> list[DeadLetter]:
        await self.ping()
        return [_dead_of(row) for row in await self._letters.dead_letters(name, limit)]

    async def dead_letter_counts(self) -> dict[str, int]:
        await self.ping()
        return await self._letters.count_dead()

    async def replay(self, name: str, *numbers: int) -> int:
        await self.ping()
        rows = [
            row for row in await self._letters.dead_letters(name, _MAX_LETTERS) if not numbers or row.number in numbers
        ]
        letters = [(letter_of(row), row.member) for row in rows]
        again = [
            row_of(msgspec.structs.replace(letter, only=member), self.limits, member=member)
            for letter, member in letters
        ]
        await self._put(again)  # first: if the process dies in between, they are duplicated, not lost
        await self._letters.take_dead(name, tuple(row.number for row in rows) or (0,))
        return len(rows)

    async def discard_dead(self, name: str, *numbers: int) -> int:
        await self.ping()
        return len(await self._letters.take_dead(name, numbers))

    # -- calls ------------------------------------------------------------------------------------

    def call(
        self,
        name: str,
        body: bytes,
        *,
        headers: Mapping[str, str] | None = None,
        seconds: float | None = None,
    ) -> BusCalling:
        return self._calls.call(name, body, headers=headers, seconds=seconds)

    async def serve(self, name: str, server: Server) -> LetterReceiver:
        await self.ping()
        return await self._calls.serve(name, server)


def _dead_of(row: DeadRow) -> DeadLetter:
    try:
        letter = letter_of(row)
    except msgspec.DecodeError:
        letter = Letter(row.box, row.body)
    return DeadLetter(letter, row.reason, row.attempts, row.at, row.member, row.number)
