"""A client for scripts that do not use asyncio: ``with sabir.blocking.connect(url) as peer: peer.ask("Hello")``."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from sabir.events import Event
from sabir.message import Message
from sabir.protocols.connect import connect as connect_async
from sabir.protocols.peer import Peer

T = TypeVar("T")
_ENDED: Final = object()


class BlockingPeer:
    """A remote agent whose methods wait for the answer. It may be used by one thread at a time."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="sabir-blocking", daemon=True)

    def ask(self, message: Message | str) -> Message:
        """Ask, and wait for the whole answer.

        Raises:
            PeerUnavailable: no connection, or no answer in time.
            PeerRefused: the remote agent rejected the question.
        """
        return self._wait(self._peer.ask(message))

    def stream(self, message: Message | str) -> Iterator[Event]:
        """Ask, and iterate over the events of the answer as they arrive; raises as ``ask`` does."""
        events = self._peer.stream(message)
        try:
            while (event := self._wait(_next(events))) is not _ENDED:
                yield event
        finally:
            self._wait(events.aclose())

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            self._wait(self._peer.__aenter__())
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._wait(self._peer.__aexit__(kind, value, trace))
        finally:
            self._stop()

    def _wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def connect(url: str, *, protocol: str | None = None, **options: Any) -> BlockingPeer:
    """A peer for the address, as ``sabir.connect`` returns it, for scripts without asyncio.

    Args:
        url: the address of the agent; its path or scheme names the protocol, and a bare origin is detected.
        protocol: ``nlip``, ``nlweb``, ``mcp``, ``a2a`` or ``acl``, if the address does not name it.
        options: passed to the peer, such as ``seconds`` or ``identities``.
    """
    return BlockingPeer(connect_async(url, protocol=protocol, **options))


async def _next(events: AsyncIterator[Event]) -> Any:
    return await anext(events, _ENDED)
