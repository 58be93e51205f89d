"""The pieces of a call, in either direction, each in one packet or several."""

from __future__ import annotations

import asyncio

from sabir.errors import PeerUnavailable, SabirError, TooLarge

from .framing import BusLimits, Kind, Packet


class Pieces:
    """Reassembles pieces from numbered packets, and lets a reader wait for them."""

    __slots__ = ("_chunks", "_limits", "_number", "_waiter", "error", "over", "ready")

    def __init__(self, limits: BusLimits) -> None:
        self._limits = limits
        self._chunks: list[bytes] | None = None  # of a multi-packet piece
        self._number = 0
        self._waiter: asyncio.Future[None] | None = None
        self.ready: list[bytes] = []
        self.error: SabirError | None = None
        self.over = False

    def add(self, packet: Packet, peer: str) -> None:
        if self.over:
            return
        self._number += 1
        if packet.number != self._number:
            self._lost(peer)
            return
        if packet.kind is Kind.MORE:
            if self._chunks is None:
                self._chunks = []
            self._chunks.append(packet.body)
            if sum(map(len, self._chunks)) > self._limits.piece_bytes:
                self.end(TooLarge("bus", "piece", f"at most {self._limits.piece_bytes} bytes"))
            return
        self.ready.append(b"".join((*self._chunks, packet.body)) if self._chunks else packet.body)
        self._chunks = None
        self._wake()

    def check(self, number: int, peer: str) -> None:
        """Note that this many packets were sent so far: a lost last packet would not be noticed otherwise."""
        if number != self._number and not self.over:
            self._lost(peer)

    def last(self, number: int, peer: str) -> None:
        """Note the end, after this many packets."""
        self.check(number, peer)
        self.end()

    def _lost(self, peer: str) -> None:
        self.end(PeerUnavailable(peer, "a piece was lost on the way"))

    def end(self, exc: SabirError | None = None) -> None:
        if not self.over:
            self.over, self.error = True, exc
            self._wake()

    def interrupt(self, exc: SabirError) -> None:
        """Raise this for the current waiter; later ones may wait again."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(exc)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def next(self) -> bytes | None:
        """The next piece, or None after the last."""
        while not self.ready:
            if self.error is not None:
                raise self.error
            if self.over:
                return None
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        return self.ready.pop(0)
