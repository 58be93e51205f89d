"""Receives push notifications about our remote tasks. A notification only triggers a poll.

Its body is never read or trusted, so a forged notification costs one poll.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass(slots=True)
class Hook:
    """One task's webhook: its address, and its token."""

    url: str
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    _rung: asyncio.Event = field(default_factory=asyncio.Event, repr=False)

    async def rung(self, seconds: float) -> None:
        """Wait until it is called, or the time is over: a notification can get lost."""
        try:
            async with asyncio.timeout(seconds):
                await self._rung.wait()
        except TimeoutError:
            pass
        self._rung.clear()


class Hooks:
    """The webhooks of all tasks that this gateway waits for; a door serves them below ``url``."""

    def __init__(self) -> None:
        self.url = ""  # set by the door, when its own address is known
        self.received = 0  # valid notifications received
        self._hooks: dict[str, Hook] = {}

    @contextmanager
    def opened(self) -> Iterator[Hook]:
        """A webhook, for as long as somebody waits for it."""
        secret = secrets.token_urlsafe(24)
        hook = self._hooks[secret] = Hook(f"{self.url}/{secret}")
        try:
            yield hook
        finally:
            del self._hooks[secret]

    def ring(self, secret: str, token: str) -> bool:
        """Handle a notification; returns whether anybody waits for it."""
        hook = self._hooks.get(secret)
        if hook is None or not hmac.compare_digest(hook.token.encode(), token.encode()):
            return False
        self.received += 1
        hook._rung.set()
        return True
