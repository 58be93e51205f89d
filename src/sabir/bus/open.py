"""Address → bus."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from sabir import plugins
from sabir.errors import ConfigError, MissingExtra
from sabir.stores import Store, open_store
from sabir.stores.letters import Letters

from .base import Bus
from .framing import BusLimits
from .memory import MemoryBus
from .store import StoreBus

OWN_STORE: Final = "store:"
_STORES: Final = ("sqlite", "postgresql", "postgres")


def open_bus(address: str, *, limits: BusLimits | None = None, store: Store | None = None) -> Bus:
    """The bus at an address: ``memory:``, ``nats://host:4222``, or a store. Not yet opened.

    A bus in a store (``sqlite:///path``, ``postgresql://…``) is durable without another process: its letters wait in
    inboxes in that store. Processes share the letters; calls stay within one process. ``store:`` is the gateway's own
    store, which the gateway opens and closes.

    A NATS address may name several servers (``nats://a:4222,b:4222``) and may end in options:
    ``?prefix=sabir`` for the names of streams and subjects, ``replicas=3`` for how many servers keep each
    letter, ``credentials=/path/to.creds``.

    Raises:
        ConfigError: unknown kind of bus.
        MissingExtra: its client is not installed.
    """
    scheme = urlsplit(address).scheme
    if address == OWN_STORE and isinstance(store, Letters):
        return StoreBus(store, limits)
    if scheme == "memory":
        return MemoryBus(limits)
    if scheme in ("nats", "tls"):
        try:
            from .nats import NatsBus  # noqa: PLC0415 - an extra
        except ImportError as missing:
            raise MissingExtra("a NATS bus", "nats") from missing
        return NatsBus(address, limits)
    if scheme in _STORES or plugins.find(plugins.STORES, scheme) is not None:
        opened = open_store(address)
        if not isinstance(opened, Letters):
            raise ConfigError(f"bus: a store of the kind {scheme} cannot keep letters")
        return StoreBus(opened, limits, own=True)
    expected = "memory:, store:, nats://host:port, sqlite:///path or postgresql://…"
    raise ConfigError(f"bus: expected {expected}, not {scheme or 'a bare word'!r}")
