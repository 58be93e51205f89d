"""MCP over standard input and output; at the end of the input, pending requests are still answered.

The SDK drops pending requests when its input ends. A client that has asked and closes its end of the pipe, as ``printf
… | sabir mcp`` does, still reads; it is answered, if that does not take long.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import anyio
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCRequest, JSONRPCResponse

SECONDS: Final = 10.0  # that answers may take after the end of the input


class _Answers:
    """The output, and which requests are still unanswered."""

    def __init__(self, write: Any) -> None:
        self._write = write
        self._open: set[str | int] = set()
        self._changed = asyncio.Event()

    def asked(self, item: SessionMessage | Exception) -> None:
        if isinstance(item, SessionMessage) and isinstance(item.message, JSONRPCRequest):
            self._open.add(item.message.id)

    async def given(self) -> None:
        """Wait until all requests are answered."""
        while self._open:
            self._changed.clear()
            await self._changed.wait()

    async def send(self, item: SessionMessage) -> None:
        await self._write.send(item)
        if isinstance(item.message, JSONRPCResponse | JSONRPCError) and item.message.id is not None:
            self._open.discard(item.message.id)
            self._changed.set()

    async def __aenter__(self) -> _Answers:
        await self._write.__aenter__()
        return self

    async def __aexit__(self, *exc: Any) -> None:
        await self._write.__aexit__(*exc)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._write, name)


@asynccontextmanager
async def spoken() -> AsyncIterator[tuple[Any, Any]]:
    """The incoming messages, and the stream for outgoing ones."""
    async with stdio_server() as (read, write):
        answers = _Answers(write)
        passing, passed = anyio.create_memory_object_stream[SessionMessage | Exception](0)

        async def pass_on() -> None:
            async with passing, read:
                async for item in read:
                    answers.asked(item)
                    await passing.send(item)
                with suppress(TimeoutError):
                    async with asyncio.timeout(SECONDS):
                        await answers.given()

        async with anyio.create_task_group() as group:
            group.start_soon(pass_on)
            yield passed, answers
            group.cancel_scope.cancel()
