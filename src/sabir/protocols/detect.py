"""OriginPeer: for an address without a protocol. Tries NLIP first, then detects what is there.

A server without an NLIP endpoint answers 404 and has not accepted the message, so it can be sent again over another
protocol: A2A if there is an agent card, NLWeb if there is an ``/ask``, MCP if there is an ``/mcp``.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any, Final

from sabir.errors import ConfigError, MissingExtra, PeerError, PeerRefused
from sabir.events import Event
from sabir.message import Message

from .nlip.peer.http import NlipHttpPeer
from .options import known_options
from .peer import Call, Peer, origin_of
from .protocol import Protocol, load
from .registry import protocols

_ABSENT: Final = frozenset({301, 302, 303, 404, 410, 501, 502, 503})
_NOT_HERE: Final = frozenset({404, 405, 410})


class OriginPeer(NlipHttpPeer):
    """Speaks NLIP, or whatever it detects with its first question."""

    def __init__(self, url: str, **options: Any) -> None:
        super().__init__(url, **known_options(NlipHttpPeer, options))
        self._given = options
        self._origin = origin_of(url)
        self._settled: Peer | None = None  # the peer that does the work, once it is known
        self._left_off: Mapping[str, Any] = {}  # state for that peer
        self._finding = asyncio.Lock()

    @property
    def speaks(self) -> str:
        """The detected protocol; NLIP until the first question."""
        return self._settled.protocol if self._settled is not None else self.protocol

    async def aclose(self) -> None:
        if self._settled is not None and self._settled is not self:
            await self._settled.aclose()
        await super().aclose()

    def export(self) -> dict[str, Any]:
        other = self._settled
        return super().export() if other is None or other is self else other.export()

    def resume(self, exported: Mapping[str, Any]) -> None:
        self._left_off = exported
        super().resume(exported)

    async def talk(self, message: Message, call: Call) -> AsyncGenerator[Event, None]:
        if self._settled is None:
            try:
                async with aclosing(super().talk(message, call)) as events:
                    async for event in events:
                        self._settled = self
                        yield event
                return
            except PeerRefused as exc:
                if self._settled is not None or exc.status not in _NOT_HERE:
                    raise
                found = await self._find(call)
                if found is None:
                    raise
        other = self._settled
        assert other is not None
        if message.is_control and other is not self:
            raise PeerRefused(self.address, f"it speaks {other.protocol}, which has no control messages")
        talking = super().talk(message, call) if other is self else other.talk(message, call)
        async with aclosing(talking) as events:
            async for event in events:
                yield event

    async def _find(self, call: Call) -> Peer | None:
        async with self._finding:
            if self._settled is not None:
                return self._settled
            for protocol in protocols().values():
                if not protocol.probe or not await self._shows(protocol.probe, call):
                    continue
                place = self._origin + ("" if protocol.probe_origin else protocol.probe)
                peer = self._made(protocol, place)
                if peer is not None:
                    peer.resume(self._left_off)
                    self._settled = peer
                    self.card = peer.card
                    return peer
            return None

    async def _shows(self, path: str, call: Call) -> bool:
        try:
            status = await self.look(self._origin + path, min(call.seconds, 10.0))
        except PeerError:
            return False
        return status not in _ABSENT

    def _made(self, protocol: Protocol, place: str) -> Peer | None:
        """A peer of another protocol, with all of our options that it knows; None if its extra is not installed."""
        entry = next((entry for entry in protocol.peers if "http" in entry.schemes), None)
        if entry is None:
            return None
        try:
            kind: type[Peer] = load(entry.factory, protocol.title, entry.extra)
        except MissingExtra:
            return None
        options = known_options(kind, self._given)
        options.setdefault("name", self.card.name)
        try:
            return kind(place, **options)
        except ConfigError:
            return None
