"""What may say no: who asks, how much, and whether it is allowed."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..message import Part
from ..turn import Caller
from .filters import Filter, Filters
from .identity import Credentials, Identity, Verifier
from .limits import Quotas, Rates
from .policy import Rights, Rule
from .seal import Seal, keys_from

__all__ = [
    "Credentials",
    "Filter",
    "Filters",
    "Guard",
    "Identity",
    "Quotas",
    "Rates",
    "Rights",
    "Rule",
    "Seal",
    "Verifier",
    "keys_from",
]


@dataclass(slots=True)
class Guard:
    """Every hook that may refuse, in the order in which they are asked."""

    seal: Seal
    quotas: Quotas = field(default_factory=Quotas)
    identity: Identity = field(default_factory=Identity)
    rights: Rights = field(default_factory=Rights)
    filters: Filters = field(default_factory=Filters)
    rates: Rates = None  # type: ignore[assignment]  # made of the quotas

    def __post_init__(self) -> None:
        if self.rates is None:
            self.rates = Rates(self.quotas)

    async def admit(self, credentials: Credentials, tokens: tuple[Part, ...]) -> Caller:
        """Who asks, and whether they may ask now.

        Raises:
            Unauthenticated: wrong credentials.
            TooMany: over the rate.
        """
        caller = await self.identity.caller(credentials, tokens)
        self.rates.check(caller)
        return caller
