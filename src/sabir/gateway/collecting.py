"""The gateways that a script runs, for commands that serve the script's gateway themselves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .gateway import Gateway

_collected: ContextVar[list[Gateway] | None] = ContextVar("collected", default=None)


@contextmanager
def collecting() -> Iterator[list[Gateway]]:
    """While a script is loaded in this block, ``Gateway.run`` does not serve: it adds the gateway to the list."""
    found: list[Gateway] = []
    token = _collected.set(found)
    try:
        yield found
    finally:
        _collected.reset(token)


def collect(gateway: Gateway) -> bool:
    """Add a gateway that is about to run; returns whether somebody collects."""
    found = _collected.get()
    if found is None:
        return False
    found.append(gateway)
    return True
