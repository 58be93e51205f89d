"""Address → bus."""

from __future__ import annotations

from urllib.parse import urlsplit

from ..errors import BadSetup, MissingExtra
from .base import Bus
from .framing import Limits
from .memory import MemoryBus


def open_bus(address: str, *, limits: Limits | None = None) -> Bus:
    """The bus at an address: ``memory:`` or ``nats://host:4222``. Not yet opened.

    A NATS address may name several servers (``nats://a:4222,b:4222``) and may end in options:
    ``?prefix=sabir`` for the names of streams and subjects, ``replicas=3`` for how many servers keep each
    letter, ``credentials=/path/to.creds``.

    Raises:
        BadSetup: the address names no kind of bus.
        MissingExtra: its client is not installed.
    """
    scheme = urlsplit(address).scheme
    if scheme == "memory":
        return MemoryBus(limits)
    if scheme in ("nats", "tls"):
        try:
            from .nats import NatsBus  # noqa: PLC0415 - an extra
        except ImportError as missing:
            raise MissingExtra("a NATS bus", "nats") from missing
        return NatsBus(address, limits)
    raise BadSetup(f"bus: expected memory: or nats://host:port, not {scheme or 'a bare word'!r}")
