"""A visitor: who stands at a door with one request. Every door hears who it is, refuses it and tells it what is left
here, so that a refusal is one line of the audit and an HTTP answer has the same headers, whatever the protocol."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any, Final

import msgspec
from starlette.types import Send

from ..errors import Refused, TooMany
from ..guard import Credentials
from ..guard.identity import stranger_at
from ..line import Ask, Line
from ..message import Message
from ..turn import Caller
from .base import House

NO_AGENT: Final = ""  # what is asked for is no agent's: a task, a place, a list
_UNREAD: Final = Message("text", "english", "")


class Visitor(msgspec.Struct, eq=False):
    """Known once, told what is left, and refused in one line."""

    house: House
    door: str
    credentials: Credentials
    agent: str | None = None  # None: the default one
    caller: Caller | None = None  # once it is known
    line: Line | None = None  # of its turn, which knows the caller, too
    over: bool = False  # whether it was sent away for being over a rate or quota

    async def admit(self) -> Caller:
        """Who it is, and whether it may ask now.

        Raises:
            Unauthenticated: wrong credentials.
            TooMany: over the rate.
        """
        return await self.house.guard.admit(self.credentials, (), self)

    async def known(self) -> Caller:
        """Who it is; for what is counted later, by the exchange.

        Raises:
            Unauthenticated: wrong credentials.
            TooMany: too many of those came from there.
        """
        self.caller = caller = await self.house.guard.identity.caller(self.credentials)
        return caller

    async def refused(self, wrong: Exception, agent: str | None = None) -> None:
        """Leave a line, unless the exchange has left one: for what was refused, and not for what was not understood."""
        if not isinstance(wrong, Refused):
            return
        self.over = self.over or isinstance(wrong, TooMany)
        if not wrong.audited:
            ask = Ask(_UNREAD, self.door, self.agent if agent is None else agent, self.credentials)
            await self.house.exchange.audit(ask, wrong, self.line, self.caller)

    @property
    def is_spared(self) -> bool:
        """Whether nothing is counted of it; most answers on this machine need not ask further."""
        return self.house.guard.spares(self.credentials.address)

    async def left(self) -> list[tuple[bytes, bytes]]:
        """The headers that tell what is left for it; whom nobody knows is told only when it is over a rate."""
        caller = self.caller or (self.line.caller if self.line is not None else None)
        if caller is None and self.over:
            caller = stranger_at(self.credentials.address)
        return [] if caller is None else await self.house.guard.headers(caller)

    def telling(self, send: Send) -> Send:
        """A way to send on which every answer tells what is left."""

        async def sending(packet: MutableMapping[str, Any]) -> None:
            if packet["type"] == "http.response.start" and (left := await self.left()):
                packet = {**packet, "headers": [*packet["headers"], *left]}
            await send(packet)

        return sending
