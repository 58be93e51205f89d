"""Where and how a gateway is served, as plain values that can be read without a server installed."""

from __future__ import annotations

import logging
import os
import sys
from types import TracebackType
from typing import Any, Final

import msgspec

from sabir.errors import ConfigError

LOG_LEVELS: Final = ("debug", "info", "warning", "error")
WRONG_USE: Final = 2  # the exit code for invalid arguments or settings


class Tls(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Certificates. ``dev`` generates a self-signed one; ``minimum`` is 1.3 unless 1.2 is configured (D-53)."""

    cert: str | None = None
    key: str | None = None
    dev: bool = False
    minimum: str = "1.3"
    client_ca: str | None = None  # the CA that client certificates must chain to

    @property
    def is_on(self) -> bool:
        return self.dev or self.cert is not None


class Serving(msgspec.Struct, frozen=True):
    """Where and how to serve."""

    host: str = "127.0.0.1"
    port: int = 8080
    workers: int = 1
    socket: str | None = None  # path of a Unix socket to listen on as well
    tls: Tls = Tls()
    behind_tls_proxy: bool = False
    home: str = ".sabir"
    max_message: int = 1024 * 1024
    graceful_seconds: float = 30.0
    idle_seconds: float = 75.0
    ws_ping_seconds: float = 20.0
    access_log: bool = False


def from_environment() -> dict[str, Any]:
    """The serving settings from environment variables, for a gateway without a configuration.

    Raises:
        ConfigError: SABIR_PORT is not a port number.
    """
    details: dict[str, Any] = {}
    if host := os.environ.get("SABIR_HOST"):
        details["host"] = host
    if port := os.environ.get("SABIR_PORT"):
        if not (port.isascii() and port.isdigit()):
            raise ConfigError(f"SABIR_PORT: expected a number from 0 to 65535, not {port[:20]!r}")
        details["port"] = int(port)
    return details


def set_log_level(level: str | None) -> None:
    """Set up logging for a script at this level, or at SABIR_LOG__LEVEL; does nothing if neither is given.

    Raises:
        ConfigError: unknown level.
    """
    level = level or os.environ.get("SABIR_LOG__LEVEL")
    if level is None:
        return
    if level not in LOG_LEVELS:
        raise ConfigError(f"log level: expected {', '.join(LOG_LEVELS)}, not {level[:20]!r}")
    if not logging.getLogger().handlers:
        logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("sabir").setLevel(level.upper())


def print_in_one_line(exc: ConfigError) -> None:
    """Print an uncaught ConfigError as one line without a traceback."""
    before = sys.excepthook

    def print_it(kind: type[BaseException], value: BaseException, trace: TracebackType | None) -> None:
        if value is exc:
            print(f"sabir: {exc}", file=sys.stderr)
            raise SystemExit(WRONG_USE)
        before(kind, value, trace)

    sys.excepthook = print_it
