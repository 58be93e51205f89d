"""Receives from NATS JetStream: frames are pulled, and acknowledged when their letters were handled."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import msgspec
import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from sabir.aio import cancel_and_wait
from sabir.errors import BusUnavailable, Unreadable

from .base import DeadLetter, Letter
from .delivery import Delivery, StoreDead
from .framing import BusLimits, letters_of

logger = logging.getLogger("sabir.bus")


@asynccontextmanager
async def translate_errors() -> AsyncIterator[None]:
    """Translate errors of NATS into errors of the bus."""
    try:
        yield
    except (TimeoutError, OSError, nats.errors.Error) as away:
        raise BusUnavailable(f"NATS does not answer ({type(away).__name__})") from away


class NatsParcel:
    """A frame delivered by JetStream."""

    __slots__ = ("_message", "deliveries", "key", "letters")

    def __init__(self, message: Msg, letters: tuple[Letter, ...]) -> None:
        self._message = message
        self.letters = letters
        self.deliveries = message.metadata.num_delivered
        self.key = message.metadata.sequence.stream

    async def ack(self) -> None:
        async with translate_errors():
            await self._message.ack()

    async def hold(self) -> None:
        async with translate_errors():
            await self._message.in_progress()

    async def release(self) -> None:
        async with translate_errors():
            await self._message.nak()


class NatsReceiver:
    """Pulls frames and hands them to their delivery; one pull request is open at a time."""

    def __init__(
        self,
        nc: Client,
        stream: str,
        durable: str,
        delivery: Delivery,
        *,
        ordered: bool,
        limits: BusLimits,
        store_dead: StoreDead,
        gone: Callable[[NatsReceiver], bool],
    ) -> None:
        self._nc = nc
        self._limits = limits
        self._store_dead = store_dead
        self._gone = gone  # returns whether it still existed
        self._delivery = delivery
        self._next = f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{durable}"
        self._batch = 1 if ordered else limits.pull_frames
        self._left = 0
        self._over = asyncio.Event()  # the open pull request is used up
        self._heard = False  # whether anything arrived since the last check
        self._inbox = nc.new_inbox()
        self._subscription: Subscription | None = None
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        self._subscription = await self._nc.subscribe(self._inbox, cb=self._came)
        self._tasks = [
            asyncio.create_task(self._pull(), name=f"pull {self._delivery.name}"),
            asyncio.create_task(self._hold(), name=f"hold {self._delivery.name}"),
        ]

    async def stop(self) -> None:
        if not self._gone(self):
            return
        await cancel_and_wait(self._tasks)
        if self._subscription is not None:
            with suppress(nats.errors.Error):
                await self._subscription.unsubscribe()
        await self._delivery.stop()

    @property
    def in_hand(self) -> int:
        return self._delivery.in_hand

    def pull_again(self) -> None:
        """Handle a request that the server has forgotten."""
        self._over.set()

    async def _pull(self) -> None:
        request = msgspec.json.encode(
            {
                "batch": self._batch,
                "expires": int(self._limits.pull_seconds * 1e9),
                "idle_heartbeat": int(self._limits.beat_seconds * 1e9),
            }
        )
        while True:
            await self._delivery.room()
            self._over.clear()
            self._left = self._batch
            try:
                await self._nc.publish(self._next, request, reply=self._inbox)
                await self._used_up()
            except nats.errors.Error:
                await asyncio.sleep(0.1)

    async def _used_up(self) -> None:
        """Wait until the open request brings no more: it is over, or lost."""
        self._heard = True
        while self._heard:
            self._heard = False
            with suppress(TimeoutError):
                async with asyncio.timeout(self._limits.lost_seconds):
                    await self._over.wait()
                    return

    async def _came(self, message: Msg) -> None:
        self._heard = True
        if not message.reply:  # a status: the request has expired, or the consumer is gone
            if (message.headers or {}).get("Status") != "100":
                if (message.headers or {}).get("Status") not in ("404", "408"):
                    await asyncio.sleep(0.1)  # 409 and the like: do not ask again at once
                self._over.set()
            return
        self._left -= 1
        if not self._left:
            self._over.set()
        try:
            letters = letters_of(message.data)
        except Unreadable as exc:
            await self._unreadable(message, exc)
            return
        await self._delivery.take(NatsParcel(message, letters))

    async def _unreadable(self, message: Msg, exc: Unreadable) -> None:
        logger.error("Discarding malformed frame for %s: %s", self._delivery.name, exc)
        letter = Letter(self._delivery.name, message.data)
        await self._store_dead(DeadLetter(letter, str(exc), 1, 0.0), message.metadata.sequence.stream)
        await message.term()

    async def _hold(self) -> None:
        while True:
            await asyncio.sleep(self._limits.ack_seconds / 3)
            for parcel in self._delivery.parcels():
                with suppress(BusUnavailable):
                    await parcel.hold()
