"""``sabir serve [sabir.yaml]``: run the gateway in the foreground until SIGINT or SIGTERM."""

from __future__ import annotations

import argparse
import logging
import sys
from typing import Any

from sabir.config.build import gateway_of
from sabir.config.load import file_of, load
from sabir.config.settings import Settings
from sabir.observe.logs import JsonLines, Scrub


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("config", nargs="?", help="configuration file (default: sabir.yaml, if it exists)")
    parser.add_argument("--host", help="address to listen on (default 127.0.0.1)")
    parser.add_argument("--port", type=int, help="port to listen on (default 8080; 0: any free port)")
    parser.add_argument("--socket", metavar="PATH", help="also listen on a Unix socket, for programs on this machine")
    parser.add_argument("--workers", type=int, metavar="N", help="processes to serve with (default 1)")
    parser.add_argument("--home", metavar="DIR", help="where state is kept (default ./.sabir)")
    parser.add_argument("--store", metavar="URL", help="memory:, sqlite:///path or postgresql://…")
    parser.add_argument("--durability", choices=["process", "power"], help="survive kill -9 (default), or power loss")
    parser.add_argument("--tls-cert", metavar="FILE", help="certificate chain (PEM); turns TLS on")
    parser.add_argument("--tls-key", metavar="FILE", help="its private key (PEM)")
    parser.add_argument("--dev-tls", action="store_true", default=None, help="TLS with a self-signed certificate")
    parser.add_argument(
        "--behind-tls-proxy",
        action="store_true",
        default=None,
        help="serve plain HTTP: a proxy in front terminates TLS",
    )
    parser.add_argument("--log-level", choices=["debug", "info", "warning", "error"], help="default: info")


def run(arguments: argparse.Namespace) -> int:
    settings = load(arguments.config, flags=flags_of(arguments))
    set_up_logging(settings)
    return gateway_of(settings, file_of(arguments.config)).run()


def flags_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """The flags as settings of the file; those not given are left out."""
    names = ("host", "port", "socket", "workers", "home", "store", "durability", "behind_tls_proxy")
    flags = {name: getattr(arguments, name) for name in names}
    tls = {"cert": arguments.tls_cert, "key": arguments.tls_key, "dev": arguments.dev_tls}
    given = {name: value for name, value in tls.items() if value is not None}
    return {**flags, "tls": given or None, "log": {"level": arguments.log_level} if arguments.log_level else None}


def set_up_logging(settings: Settings) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        JsonLines() if settings.log.json else logging.Formatter("%(asctime)s %(levelname)s %(message)s")
    )
    handler.addFilter(Scrub())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(settings.log.level.upper())
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    logging.getLogger("httpx2").setLevel(logging.WARNING)
