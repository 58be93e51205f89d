"""Metrics aggregated over all worker processes.

Each process claims a slot in a shared folder, keeps its last values there in a file, and listens on a socket. The
process that Prometheus asks collects from the others. Values are written to the file first, so that counters do not go
back when a process dies: its replacement continues from there.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Final

import msgspec

from sabir.observe.metrics import Metrics, Snapshot

ANSWER_SECONDS: Final = 5.0  # time limit for another process; after that its file is used
_PLACE: Final = ".place"
_encode = msgspec.msgpack.Encoder().encode
_List = dict[str, list[tuple[tuple[str, ...], list[float]]]]
_decode = msgspec.msgpack.Decoder(_List).decode


class WorkerGroup:
    """The worker processes, as seen by one of them."""

    def __init__(self, folder: Path, metrics: Metrics) -> None:
        self._folder = folder
        self._metrics = metrics
        self._lock = -1  # held for the lifetime of this process
        self._mine = folder
        self._server: asyncio.Server | None = None

    async def join(self) -> None:
        """Claim a free slot, and continue from the counts stored there."""
        self._lock, self._mine = self._place()
        self._metrics.kept = self._said(self._mine)
        socket = self._mine.with_suffix(".sock")
        with suppress(FileNotFoundError):
            socket.unlink()
        self._server = await asyncio.start_unix_server(self._asked, socket)

    async def leave(self) -> None:
        """Write the final values; from now on the file is used."""
        if self._server is not None:
            self._server.close()
            self._keep()
            os.close(self._lock)

    async def text(self) -> str:
        """The metrics of all workers together."""
        places = [item.with_suffix("") for item in self._folder.glob(f"*{_PLACE}")]
        others = [place for place in places if place != self._mine]
        _, *answers = await asyncio.gather(self._metrics.look(), *(self._ask(item) for item in others))
        numbers = [answer for answer in answers if answer is not None]
        gone = [self._said(other) for other, item in zip(others, answers, strict=True) if item is None]
        self._keep()
        return self._metrics.text(numbers, gone)

    def _place(self) -> tuple[int, Path]:
        for number in count():
            lock = os.open(self._folder / f"{number}{_PLACE}", os.O_CREAT | os.O_RDWR, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(lock)
            else:
                return lock, self._folder / str(number)
        raise AssertionError("numbers do not end")

    async def _asked(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._metrics.look()
        with suppress(OSError):  # the reader has disconnected
            writer.write(self._keep())
            await writer.drain()
        writer.close()

    async def _ask(self, place: Path) -> Snapshot | None:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                reader, writer = await asyncio.open_unix_connection(place.with_suffix(".sock"))
                try:
                    return _read(await reader.read())
                finally:
                    writer.close()
        except (OSError, TimeoutError, msgspec.MsgspecError):
            return None

    def _keep(self) -> bytes:
        data = _encode({name: list(rows.items()) for name, rows in self._metrics.snapshot().items()})
        fresh = self._mine.with_suffix(".new")
        fresh.write_bytes(data)
        fresh.replace(self._mine)  # atomic for readers
        return data

    def _said(self, place: Path) -> Snapshot:
        """The last values of a process."""
        try:
            return _read(place.read_bytes())
        except (OSError, msgspec.MsgspecError):
            return {}


def _read(data: bytes) -> Snapshot:
    return {name: dict(rows) for name, rows in _decode(data).items()}
