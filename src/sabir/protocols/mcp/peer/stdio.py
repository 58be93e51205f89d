"""A program with MCP over its standard input and output: started, read from, and the end of its standard error kept."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any, Final

from mcp import StdioServerParameters
from mcp.shared.message import SessionMessage

from sabir.message import printable
from sabir.protocols.options import Direction, OnWire

from .process import program_streams

logger = logging.getLogger("sabir.mcp")

LAST_WORDS: Final = "; its last words: "
_LENGTH: Final = 199  # characters of them, and an ellipsis
_KEPT: Final = 4096  # bytes of an unfinished line
_SECONDS: Final = 1.0  # for its last output to arrive after it has ended


class Complaints(asyncio.Protocol):
    """A program's standard error: copied to ours, and the last line kept."""

    def __init__(self, name: str) -> None:
        self.last = ""
        self.expected = True  # whether it may end: it has not started, or we have ended it
        self._name = name
        self._rest = b""
        self._listens = False
        self._ended = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._listens = True

    def data_received(self, data: bytes) -> None:
        if sys.stderr is not None:
            sys.stderr.write(data.decode("utf-8", "replace"))
            sys.stderr.flush()
        *lines, self._rest = (self._rest + data)[-_KEPT:].split(b"\n")
        self._keep(lines)

    def connection_lost(self, exc: Exception | None) -> None:
        self._keep([self._rest])
        self._ended.set()
        if not self.expected:
            logger.warning("%s ended%s", self._name, f"{LAST_WORDS}{self.last}" if self.last else "")

    def _keep(self, lines: list[bytes]) -> None:
        said = [line for line in lines if line.strip()]
        if said:
            self.last = printable(said[-1].decode("utf-8", "replace").strip(), _LENGTH)

    async def after(self, words: str) -> str:
        """Why it failed, with its last output."""
        if self._listens:
            try:
                async with asyncio.timeout(_SECONDS):
                    await self._ended.wait()
            except TimeoutError:
                pass  # it is still running
        return f"{words}{LAST_WORDS}{self.last}" if self.last else words


@asynccontextmanager
async def started(
    parameters: StdioServerParameters, complaints: Complaints, on_wire: OnWire | None, limit: int
) -> AsyncIterator[tuple[Any, Any]]:
    """The program's messages in and out, each of at most ``limit`` bytes; at the end of the block the program ends,
    too.

    Raises:
        OSError: it cannot be started.
    """
    reading, writing = os.pipe()
    async with AsyncExitStack() as stack:
        with os.fdopen(writing, "w") as errlog:  # closed here once the program has it, so that its end is noticed
            listening, _ = await asyncio.get_running_loop().connect_read_pipe(
                lambda: complaints, os.fdopen(reading, "rb", 0)
            )
            stack.callback(listening.close)
            _keep_descriptors()
            read, write = await stack.enter_async_context(program_streams(parameters, errlog, limit))
        complaints.expected = False
        try:
            yield (read, write) if on_wire is None else (_Seen(read, on_wire), _Seen(write, on_wire))
        finally:
            complaints.expected = True


def _keep_descriptors() -> None:
    """Let no child process inherit open files of this process besides its standard streams.

    uvloop starts programs without closing descriptors, so every inheritable one would be passed on, including those
    that our own parent left open.
    """
    try:
        opened = [int(name) for name in os.listdir("/dev/fd")]
    except OSError:  # not on this system; Python makes its own descriptors uninheritable
        return
    for descriptor in opened:
        if descriptor > 2:
            with suppress(OSError):  # the listing's own, which is closed by now
                os.set_inheritable(descriptor, False)


class _Seen:
    """A stream of the SDK that logs its messages, one per line."""

    def __init__(self, inner: Any, on_wire: OnWire) -> None:
        self._inner = inner
        self._on_wire = on_wire

    def _show(self, direction: Direction, item: SessionMessage | Exception) -> None:
        if isinstance(item, SessionMessage):
            self._on_wire(direction, item.message.model_dump_json(by_alias=True, exclude_unset=True).encode())

    async def send(self, item: SessionMessage) -> None:
        self._show("sent", item)
        await self._inner.send(item)

    async def receive(self) -> SessionMessage | Exception:
        item: SessionMessage | Exception = await self._inner.receive()
        self._show("received", item)
        return item

    def __aiter__(self) -> AsyncIterator[SessionMessage | Exception]:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        item: SessionMessage | Exception = await self._inner.__anext__()
        self._show("received", item)
        return item

    async def __aenter__(self) -> _Seen:
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *exc: Any) -> None:
        await self._inner.__aexit__(*exc)

    def __getattr__(self, name: str) -> Any:  # closing, and other attributes that the SDK uses
        return getattr(self._inner, name)
