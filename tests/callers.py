"""Who calls, for tests in which only that they differ matters."""

from __future__ import annotations

from sabir.guard import Credentials
from sabir.message import Part
from sabir.turn import Caller


class ByName:
    """Whoever says a name is believed: ``Bearer ada``. Who says none is a stranger."""

    challenge = "Bearer"

    async def verify(self, credentials: Credentials, tokens: tuple[Part, ...]) -> Caller | None:
        name = (credentials.authorization or "").removeprefix("Bearer ")
        return Caller(id=name, kind="subject") if name else None
