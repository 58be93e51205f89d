"""Where and how a gateway is served, as values: what ``server`` does with them needs a server to be installed."""

from __future__ import annotations

import msgspec


class Tls(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Certificates. ``dev`` makes a self-signed one; ``minimum`` is 1.3 unless 1.2 is asked for (D-53)."""

    cert: str | None = None
    key: str | None = None
    dev: bool = False
    minimum: str = "1.3"
    client_ca: str | None = None  # certificates of clients are checked against it

    @property
    def is_on(self) -> bool:
        return self.dev or self.cert is not None


class Serving(msgspec.Struct, frozen=True):
    """Where and how to serve."""

    host: str = "127.0.0.1"
    port: int = 8080
    workers: int = 1
    tls: Tls = Tls()
    behind_tls_proxy: bool = False
    home: str = ".sabir"
    max_message: int = 1024 * 1024
    graceful_seconds: float = 30.0
    idle_seconds: float = 75.0
    ws_ping_seconds: float = 20.0
