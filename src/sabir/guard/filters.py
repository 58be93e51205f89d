"""Filters: what comes in and what goes out may be let through, replaced or blocked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ..errors import Forbidden, SabirError
from ..message import Message
from ..turn import Caller


class Filter(Protocol):
    """Looks at a message on its way.

    Returns it, or another one in its place; raises ``Forbidden`` to block it. A filter that fails
    blocks (fail closed).
    """

    name: str

    async def inbound(self, message: Message, caller: Caller) -> Message: ...

    async def outbound(self, message: Message, caller: Caller) -> Message: ...


class Filters:
    """Inbound in order, outbound in reverse."""

    def __init__(self, filters: Sequence[Filter] = ()) -> None:
        self.filters = tuple(filters)

    async def inbound(self, message: Message, caller: Caller) -> Message:
        for each in self.filters:
            message = await _closed(each, each.inbound(message, caller))
        return message

    async def outbound(self, message: Message, caller: Caller) -> Message:
        for each in reversed(self.filters):
            message = await _closed(each, each.outbound(message, caller))
        return message


async def _closed(each: Filter, passing: object) -> Message:
    try:
        return await passing  # type: ignore[misc, no-any-return]  # the coroutine of one of the two methods
    except SabirError:
        raise
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as wrong:
        raise Forbidden(f"the filter {each.name} could not check this message") from wrong
