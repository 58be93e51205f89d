"""A channel to an MCP server on which messages pass unchanged and uninterpreted, in both directions.

For a gateway in front of a program, or of a server whose messages must pass a filter: the SDK's transports and its
matching of requests and answers, without its client.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

import anyio
import httpx2
import mcp_types as types
from mcp.shared.dispatcher import CallOptions, OnNotify, OnRequest
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher

from sabir.errors import PeerUnavailable

from .connections import until_open, why
from .limits import TOO_LARGE, is_too_large, too_large_words

CLOSE_SECONDS: Final = 5.0


class RawChannel:
    """One channel, held by its own task, because the SDK's scopes belong to the task that entered them."""

    def __init__(
        self,
        name: str,
        transport: AbstractAsyncContextManager[Any],
        on_request: OnRequest,
        on_notify: OnNotify,
        limit: int,
    ) -> None:
        self.name = name  # the name that callers know; they do not learn the address
        self.ended = False
        self.used = time.monotonic()  # when something last passed
        self.under_way = 0  # running requests
        self._transport = transport
        self._limit = limit  # bytes of a message
        self._on_request, self._on_notify = on_request, on_notify
        self._dispatcher: JSONRPCDispatcher[Any]
        self._opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._holding: asyncio.Task[None] | None = None
        self._scope: anyio.CancelScope | None = None

    async def open(self) -> None:
        """Raises:
        PeerUnavailable: the server cannot be reached or started.
        """
        self._holding = asyncio.create_task(self._hold())
        await until_open(self._opened, self.close, self.name)

    async def _hold(self) -> None:
        try:
            async with self._transport as (read, write):
                self._dispatcher = JSONRPCDispatcher(read, write)
                async with anyio.create_task_group() as group:
                    self._scope = group.cancel_scope
                    await group.start(self._dispatcher.run, self._on_request, self._on_notify)
                    self._opened.set_result(None)
        except (MCPError, OSError, httpx2.HTTPError, ExceptionGroup, ValueError) as exc:
            if not self._opened.done():
                self._opened.set_exception(PeerUnavailable(self.name, why(exc)))
        finally:
            self.ended = True
            if not self._opened.done():
                self._opened.cancel()

    async def request(self, method: str, params: Mapping[str, Any] | None, options: CallOptions) -> dict[str, Any]:
        """The result of a request, as the server returned it.

        Raises:
            MCPError: as the server raised it.
            PeerUnavailable: the channel was closed in the meantime.
        """
        self.used = time.monotonic()
        self.under_way += 1
        try:
            return await self._dispatcher.send_raw_request(method, params, options)
        except MCPError as exc:
            if is_too_large(exc.error.message):
                raise MCPError(TOO_LARGE, too_large_words(self._limit)) from None
            if exc.error.code == types.CONNECTION_CLOSED:
                self.ended = True
                raise PeerUnavailable(self.name, "the connection was closed") from None
            raise
        finally:
            self.under_way -= 1
            self.used = time.monotonic()

    async def notify(self, method: str, params: Mapping[str, Any] | None) -> None:
        self.used = time.monotonic()
        await self._dispatcher.notify(method, params)

    async def close(self) -> None:
        """Close the channel; a program is ended with it."""
        self.ended = True
        if self._holding is None:
            return
        if self._scope is not None:
            self._scope.cancel()  # not the task: the SDK still has a process to end
        _, slow = await asyncio.wait({self._holding}, timeout=CLOSE_SECONDS)
        for task in slow:
            task.cancel()
