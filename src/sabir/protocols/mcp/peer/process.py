"""A program with MCP over its standard input and output, as the streams that the SDK's client uses.

The SDK's own transport is not used, because it joins an unfinished line with every piece that arrives, which takes
quadratic time, and has no size limit; and because here a program inherits its three standard streams and no other file
of the gateway.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, TextIO

import anyio
from mcp import StdioServerParameters
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage

from .limits import Lines, message_in

logger = logging.getLogger("sabir.mcp")

_CHUNK: Final = 64 * 1024
_PAUSE: Final = 0.001  # after a full chunk, so that one large result leaves most of the loop to other calls
_FLUSH_SECONDS: Final = 2.0
_POLL: Final = 0.01
# How a program is ended: its input is closed, then it and its children are terminated, then killed.
_ENDING: Final = ((None, 2.0), (signal.SIGTERM, 2.0), (signal.SIGKILL, 2.0))


@asynccontextmanager
async def program_streams(
    parameters: StdioServerParameters, errors: TextIO, limit: int
) -> AsyncIterator[tuple[Any, Any]]:
    """Start a program; yields the streams for incoming and outgoing messages.

    Raises:
        OSError: it cannot be started.
    """
    process = subprocess.Popen(  # noqa: ASYNC220  # a fork and exec; the loop's own spawning keeps inheritable files
        [parameters.command, *parameters.args],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        env=get_default_environment() | (parameters.env or {}),
        cwd=parameters.cwd,
        start_new_session=True,
        close_fds=True,
    )
    program = _Program(process, limit)
    async with anyio.create_task_group() as group:
        try:
            await program.open()
            group.start_soon(program.read)
            group.start_soon(program.write)
            yield program.incoming, program.outgoing
        finally:
            with anyio.CancelScope(shield=True):
                await program.close()
            group.cancel_scope.cancel()


class _Program:
    """A running program and its two pipes."""

    def __init__(self, process: subprocess.Popen[bytes], limit: int) -> None:
        self._process = process
        self._limit = limit
        self._received, self.incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        self.outgoing, self._to_send = anyio.create_memory_object_stream[SessionMessage](0)
        self._flushed = asyncio.Event()
        self._reader = asyncio.StreamReader(limit=_CHUNK)
        self._output: asyncio.ReadTransport | None = None
        self._input: asyncio.StreamWriter | None = None

    async def open(self) -> None:
        loop = asyncio.get_running_loop()
        protocol = asyncio.StreamReaderProtocol(self._reader)
        self._output, _ = await loop.connect_read_pipe(lambda: protocol, self._process.stdout)
        flow = asyncio.StreamReaderProtocol(asyncio.StreamReader())  # for the writer's drain()
        pipe, _ = await loop.connect_write_pipe(lambda: flow, self._process.stdin)
        self._input = asyncio.StreamWriter(pipe, flow, None, loop)

    async def read(self) -> None:
        """Pass on the program's messages; once nobody reads, its output is dropped, so that it can end."""
        lines = Lines(self._limit)
        async with self._received:
            with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError, OSError, EOFError):
                while chunk := await self._reader.read(_CHUNK):
                    for line in lines.feed(chunk):
                        await self._received.send(message_in(line))
                    if len(chunk) == _CHUNK:
                        await asyncio.sleep(_PAUSE)
        with suppress(OSError):
            while await self._reader.read(_CHUNK):
                pass

    async def write(self) -> None:
        assert self._input is not None
        try:
            async with self._to_send:
                async for item in self._to_send:
                    line = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                    self._input.write(line.encode() + b"\n")
                    await self._input.drain()
        except OSError:
            await self._received.aclose()  # waiters learn that it has ended
        finally:
            self._flushed.set()

    async def close(self) -> None:
        """End the program, and wait until it has ended."""
        self.incoming.close()
        self.outgoing.close()
        if self._input is not None:
            with anyio.move_on_after(_FLUSH_SECONDS):
                await self._flushed.wait()
            self._input.close()
        elif self._process.stdin is not None:
            self._process.stdin.close()
        for how, seconds in _ENDING:
            if how is not None:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(self._process.pid, how)
            if await self._has_ended(seconds):
                break
        else:
            logger.warning("The MCP server process %d is still running after it was killed", self._process.pid)
        if self._output is not None:
            self._output.close()
        self._received.close()
        self._to_send.close()

    async def _has_ended(self, seconds: float) -> bool:
        with anyio.move_on_after(seconds):
            while self._process.poll() is None:
                await anyio.sleep(_POLL)
        return self._process.poll() is not None
