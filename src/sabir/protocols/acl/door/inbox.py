"""An inbox as a stream: messages are held while they are read, and removed when the reader acknowledges them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from typing import Final, TypeGuard

import msgspec

from sabir.bus.store import letter_of
from sabir.dialogues.service import Dialogues
from sabir.errors import BadInput, StoreUnavailable
from sabir.ids import new_id
from sabir.protocols.acl.wire.envelope import Envelope, decode
from sabir.stores.letters import HIGH, DeadRow, LetterRow

LEASE: Final = 30.0  # seconds; renewed while the stream is open
_BEAT: Final = 15.0  # seconds after which a silent stream sends a keep-alive
_AT_ONCE: Final = 64


def is_number(value: object) -> TypeGuard[int]:
    """Whether this can be the number of a message."""
    return type(value) is int and 0 <= value < 2**63


class Inbox:
    """The inboxes of some agents, read by one reader. Yields ``None`` when there was nothing for a while."""

    def __init__(self, dialogues: Dialogues, agents: Sequence[str], is_stopping: Callable[[], bool]) -> None:
        self._dialogues = dialogues
        self._agents = agents
        self._is_stopping = is_stopping
        self._holder = new_id()
        self._held: dict[int, int] = {}  # the priorities of the letters held, by their numbers
        self._renewed = time.monotonic()

    async def acknowledge(self, through: int) -> int:
        """Acknowledge everything up to this number."""
        count = 0
        for agent in self._agents:
            count += await self._dialogues.store.acknowledge_letters(agent, through)
        least = self._held.get(through, HIGH)  # letters of a lower priority stay, as in the store
        self._held = {
            number: priority for number, priority in self._held.items() if number > through or priority < least
        }
        return count

    async def drop(self, numbers: tuple[int, ...]) -> int:
        """Acknowledge exactly these."""
        for number in numbers:
            self._held.pop(number, None)
        return sum([await self._dialogues.store.drop_letters(numbers, agent) for agent in self._agents])

    async def messages(self) -> AsyncIterator[tuple[int, Envelope] | None]:
        """Each message with its number, as it arrives."""
        quiet = time.monotonic()
        try:
            while not self._is_stopping():
                found = False
                for agent in self._agents:
                    for row in await self._take(agent):
                        envelope = await self._read(row)
                        if envelope is not None:
                            found = True
                            yield row.number, envelope
                await self._renew()
                if found:
                    quiet = time.monotonic()
                    continue
                if time.monotonic() - quiet > _BEAT:
                    quiet = time.monotonic()
                    yield None
                await self._wait()
        finally:
            await self._release()

    async def _take(self, agent: str) -> list[LetterRow]:
        store = self._dialogues.store
        taking = asyncio.ensure_future(store.take_letters(agent, "", self._holder, LEASE, _AT_ONCE))
        try:
            rows = await asyncio.shield(taking)
        except StoreUnavailable:
            return []  # try again later
        except asyncio.CancelledError:  # cut off, they might still be taken, and nobody would have them
            with suppress(StoreUnavailable):
                self._held.update((row.number, row.priority) for row in await taking)
            raise
        self._held.update((row.number, row.priority) for row in rows)
        return rows

    async def _read(self, row: LetterRow) -> Envelope | None:
        try:
            envelope = decode(letter_of(row).body)
        except (msgspec.DecodeError, BadInput) as exc:
            dead = DeadRow(row.box, row.body, f"cannot be read: {exc}", row.deliveries, time.time())
            await self._dialogues.store.move_to_dead(row.number, dead)
            self._held.pop(row.number, None)
            return None
        if row.deliveries > self._dialogues.bus.limits.deliveries:
            reason = f"was delivered {row.deliveries - 1} times and never acknowledged"
            dead = DeadRow(row.box, row.body, reason, row.deliveries, time.time())
            await self._dialogues.store.move_to_dead(row.number, dead)
            self._held.pop(row.number, None)
            return None
        if row.deliveries == 1:
            self._dialogues.log("RECEIVED", envelope)
        return envelope

    async def _renew(self) -> None:
        if self._held and time.monotonic() - self._renewed > LEASE / 3:
            self._renewed = time.monotonic()
            with suppress(StoreUnavailable):
                await self._dialogues.store.hold_letters(self._holder, tuple(self._held), LEASE)

    async def _wait(self) -> None:
        with self._dialogues.watch(self._agents) as woken, suppress(TimeoutError):
            async with asyncio.timeout(self._dialogues.bus.look_seconds):  # for letters of other processes
                await woken.wait()

    async def _release(self) -> None:
        """Release unacknowledged messages for the next reader."""
        if self._held:
            with suppress(StoreUnavailable):
                await asyncio.shield(self._dialogues.store.hold_letters(self._holder, tuple(self._held), 0.0))
            self._dialogues.wake_readers(self._agents)
