"""Receiving from NATS JetStream: frames are pulled, and acknowledged when their letters were handled."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

import msgspec
import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from ..errors import BusUnavailable, Unreadable
from .base import DeadLetter, Letter
from .delivery import Bury, Delivery
from .framing import Limits, letters_of

logger = logging.getLogger("sabir.bus")

_PULL_SECONDS: Final = 30.0  # how long one pull request stands
_PULL_FRAMES: Final = 32


@asynccontextmanager
async def told() -> AsyncIterator[None]:
    """What NATS raises, as what a bus raises."""
    try:
        yield
    except (TimeoutError, OSError, nats.errors.Error) as away:
        raise BusUnavailable(f"NATS does not answer ({type(away).__name__})") from away


class NatsParcel:
    """A frame that JetStream has given us."""

    __slots__ = ("_message", "deliveries", "key", "letters")

    def __init__(self, message: Msg, letters: tuple[Letter, ...]) -> None:
        self._message = message
        self.letters = letters
        self.deliveries = message.metadata.num_delivered
        self.key = message.metadata.sequence.stream

    async def ack(self) -> None:
        async with told():
            await self._message.ack()

    async def hold(self) -> None:
        async with told():
            await self._message.in_progress()

    async def release(self) -> None:
        async with told():
            await self._message.nak()


class NatsReceiver:
    """Pulls frames and hands them to their delivery; one pull request stands at a time."""

    def __init__(
        self,
        nc: Client,
        stream: str,
        durable: str,
        delivery: Delivery,
        *,
        ordered: bool,
        limits: Limits,
        bury: Bury,
        gone: Callable[[NatsReceiver], bool],
    ) -> None:
        self._nc = nc
        self._limits = limits
        self._bury = bury
        self._gone = gone  # says whether it was still there
        self._delivery = delivery
        self._next = f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{durable}"
        self._batch = 1 if ordered else _PULL_FRAMES
        self._left = 0
        self._over = asyncio.Event()  # the standing pull request is used up
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
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        if self._subscription is not None:
            with suppress(nats.errors.Error):
                await self._subscription.unsubscribe()
        await self._delivery.stop()

    @property
    def in_hand(self) -> int:
        return self._delivery.in_hand

    def pull_again(self) -> None:
        """The server has forgotten our request."""
        self._over.set()

    async def _pull(self) -> None:
        request = msgspec.json.encode({"batch": self._batch, "expires": int(_PULL_SECONDS * 1e9)})
        while True:
            await self._delivery.room()
            self._over.clear()
            self._left = self._batch
            try:
                await self._nc.publish(self._next, request, reply=self._inbox)
                # Longer than the request stands: only if its end was lost does the time run out here.
                async with asyncio.timeout(_PULL_SECONDS + 5):
                    await self._over.wait()
            except (TimeoutError, nats.errors.Error):
                await asyncio.sleep(0.1)

    async def _came(self, message: Msg) -> None:
        if not message.reply:  # a status: the request has run out, or the consumer is gone
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
        except Unreadable as wrong:
            await self._unreadable(message, wrong)
            return
        await self._delivery.take(NatsParcel(message, letters))

    async def _unreadable(self, message: Msg, wrong: Unreadable) -> None:
        logger.error("a frame for %s is not one: %s", self._delivery.name, wrong)
        letter = Letter(self._delivery.name, message.data)
        await self._bury(DeadLetter(letter, str(wrong), 1, 0.0), message.metadata.sequence.stream)
        await message.term()

    async def _hold(self) -> None:
        while True:
            await asyncio.sleep(self._limits.ack_seconds / 3)
            for parcel in self._delivery.parcels():
                with suppress(BusUnavailable):
                    await parcel.hold()
