"""Notifications from the server about boxes that other nodes put letters into, instead of polling.

``put_letters`` sends a notification with each commit, and one connection of this process listens. While that is broken,
``live`` is false and waiters have to poll.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container

import asyncpg

from sabir.aio import cancel_and_wait

from .liveness import Connect
from .retry import ERRORS
from .schema import CHANNEL

_PAUSES = (0.1, 0.5, 2.0, 5.0)  # seconds between attempts to connect; the last repeats


class PostgresLetterNotices:
    """Calls ``notify`` with the name of a box, or with an empty one if any box may have letters."""

    def __init__(self, connect: Connect, own: Container[int], notify: Callable[[str], None]) -> None:
        """``own``: the server process ids of this node's connections, whose letters it already knows of."""
        self._connect = connect
        self._own = own
        self._notify = notify
        self._listening = asyncio.create_task(self._run(), name="inboxes: listening")
        self.live = False

    async def stop(self) -> None:
        await cancel_and_wait([self._listening])

    async def _run(self) -> None:
        failures = 0
        while True:
            try:
                connection = await self._connect()
                failures = 0
                await self._listen(connection)
            except ERRORS:  # waiters poll in the meantime, and the store reports the outage
                failures += 1
            await asyncio.sleep(_PAUSES[min(failures, len(_PAUSES) - 1)])

    async def _listen(self, connection: asyncpg.Connection[asyncpg.Record]) -> None:
        """Listen until the connection ends."""
        ended = asyncio.Event()
        try:
            channel = await connection.fetchval(f"SELECT {CHANNEL}")
            connection.add_termination_listener(lambda _: ended.set())
            await connection.add_listener(channel, self._noticed)
            self.live = True
            self._notify("")  # earlier letters are not announced
            await ended.wait()
        finally:
            self.live = False
            connection.terminate()  # nothing is pending, and an unresponsive server would not answer

    def _noticed(self, connection: object, process: int, channel: str, box: object) -> None:
        if process not in self._own:
            self._notify(str(box))
