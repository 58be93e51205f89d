"""Admission: authenticates a request, charges it, audits its rejection, and adds rate-limit headers.

Every door uses it, so that a rejection is one audit entry and every HTTP response has the same headers, whatever
the protocol.
"""

from __future__ import annotations

import time
from collections.abc import MutableMapping
from typing import Any, Final, TypeVar

import msgspec
from starlette.types import Send

from sabir.errors import BadInput, NotFound, RateLimited, Refused, SabirError, ShuttingDown, Unauthenticated
from sabir.exchange.request import EventSink, TurnRequest
from sabir.guard import Credentials
from sabir.guard.identity.callers import stranger_at
from sabir.guard.quotas.rates import rate_limit_key
from sabir.message import Message
from sabir.turn import Caller

from .door import EdgeContext

NO_AGENT: Final = ""  # the request is not for an agent: a task, an upload, a list
_UNREAD: Final = Message("text", "english", "")
E = TypeVar("E", bound=Exception)


class Admission(msgspec.Struct, eq=False):
    """One request at a door."""

    services: EdgeContext
    door: str
    credentials: Credentials
    agent: str | None = None  # None: the default one
    caller: Caller | None = None  # once authenticated
    line: EventSink | None = None  # of its turn, which knows the caller as well
    over: bool = False  # rejected for exceeding a rate or quota
    cost: int = 0  # of its message, if it is costly
    size: int = 0  # bytes of its message, once read
    charged: bool = False  # already charged, so a failure is not charged again

    async def authenticate_and_charge(self) -> Caller:
        """Authenticate the caller and charge the request.

        Raises:
            Unauthenticated: invalid credentials.
            RateLimited: over the rate.
        """
        self.charged = True
        return await self.services.guard.admit(self.credentials, (), self)

    async def authenticate(self) -> Caller:
        """Authenticate the caller; for requests that the exchange charges later.

        Raises:
            Unauthenticated: invalid credentials.
            RateLimited: too many failed logins from this address.
        """
        self.caller = caller = await self.services.identity.caller(self.credentials)
        return caller

    async def check_still_valid(self) -> None:
        """For connections that stay open: check again that the credentials are valid.

        Raises:
            Unauthenticated: the key was revoked, or the token has expired.
        """
        caller = self.caller
        if caller is None or caller.is_anonymous:
            return
        until = caller.claims.get("exp")
        if isinstance(until, int | float) and time.time() > until:
            raise Unauthenticated("the token of this connection has expired; open another")
        if self.credentials.scheme("dpop") is None:  # whose proof is valid only once
            await self.services.identity.caller(self.credentials)

    def check_open(self) -> None:
        """Check the rate before a body is read, so that a flood costs little. Charges nothing.

        Raises:
            RateLimited: this address has used up its rate.
        """
        self.services.rates.check_open(self.credentials.address, self.credentials.sender)

    def charge(self) -> None:
        """Charge a request that nothing else charges, once.

        Raises:
            RateLimited: over the rate.
        """
        if not self.charged and (self.line is None or self.line.caller is None):
            self.charged = True
            if self.credentials.sender is None:
                self.services.rates.check_address(self.credentials.address)
            else:
                self.services.rates.check_share(self.credentials.address, self.credentials.sender)

    def charge_cost(self, cost: int) -> None:
        """Charge a message for its cost: one more request per thousand values after the first thousand, and two more
        per content filter.
        """
        self.cost = cost
        if cost > 1000:
            guard = self.services.guard
            amount = cost // 1000 * (1 + 2 * len(guard.filters.filters))
            guard.rates.spend(self.credentials.address, self.caller, amount, self.credentials.sender)

    @property
    def paced_as(self) -> str | None:
        """The client's address, or None if it is not metered; ``Heavy`` spaces its costly messages."""
        address = self.credentials.address
        return None if not address or self.services.guard.rates.spares(address) else rate_limit_key(address)

    def check_running(self) -> None:
        """Raises:
        ShuttingDown: the gateway is stopping and accepts nothing new.
        """
        if self.services.exchange.closing:
            raise ShuttingDown

    async def rejected(self, exc: E, agent: str | None = None) -> E | RateLimited:
        """Account for a rejection, once: invalid input is charged and paced, refusals are audited.

        Returns the error to send: the same one, or RateLimited if the address is over its rate.
        """
        over: RateLimited | None = None
        if isinstance(exc, BadInput):
            try:
                self.charge()
            except RateLimited as limited:
                over = limited
        if isinstance(exc, BadInput | RateLimited):
            await self.services.heavy.rejected(self.size, self)
        if over is not None:
            await self._audit(over, agent)
            return over
        if isinstance(exc, Refused) or (isinstance(exc, NotFound) and exc.is_hidden):
            await self._audit(exc, agent)
        return exc

    async def _audit(self, exc: SabirError, agent: str | None) -> None:
        self.over = self.over or isinstance(exc, RateLimited)
        if not exc.audited:
            ask = TurnRequest(_UNREAD, self.door, self.agent if agent is None else agent, self.credentials)
            await self.services.exchange.audit(ask, exc, self.line, self.caller)

    @property
    def is_unmetered(self) -> bool:
        """Whether this client is not metered, so that there are no headers to add."""
        return self.services.guard.spares(self.credentials.address)

    async def rate_limit_headers(self) -> list[tuple[bytes, bytes]]:
        """The rate-limit headers of the caller; an anonymous caller gets them only when over a rate."""
        caller = self.caller or (self.line.caller if self.line is not None else None)
        if caller is None and self.over:
            caller = stranger_at(self.credentials.address)
        return [] if caller is None else await self.services.guard.headers(caller)

    def with_rate_limit_headers(self, send: Send) -> Send:
        """A ``send`` that adds these headers to every response."""
        if self.is_unmetered:
            return send

        async def sending(packet: MutableMapping[str, Any]) -> None:
            if packet["type"] == "http.response.start" and (left := await self.rate_limit_headers()):
                packet = {**packet, "headers": [*packet["headers"], *left]}
            await send(packet)

        return sending
