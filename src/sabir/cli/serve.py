"""``sabir serve [sabir.yaml | app.py]``: run the gateway in the foreground until SIGINT or SIGTERM."""

from __future__ import annotations

import argparse
import importlib
import logging
from collections.abc import Mapping
from typing import Any, Final

from sabir.config.app_file import is_app
from sabir.config.load import load
from sabir.config.settings import Settings
from sabir.errors import ConfigError, SabirError
from sabir.gateway.banner import Announcement
from sabir.gateway.gateway import Gateway
from sabir.observe.settings import ObserveSettings
from sabir.observe.traces import observer_of

from .failures import failure_of, report
from .log_setup import set_up_logging
from .numbers import whole_number
from .served import GatewaySource, source_of
from .status import LiveStatus, wants_status

__all__ = ["add", "run", "set_up_logging"]

logger = logging.getLogger("sabir")

MISCONFIGURED: Final = 2


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "config",
        nargs="?",
        help="configuration file, or Python file with agents: app.py or app.py:name (default: sabir.yaml, if any)",
    )
    parser.add_argument("--host", help="address to listen on (default 127.0.0.1)")
    parser.add_argument("--port", type=whole_number, help="port to listen on (default 8080; 0: any free port)")
    parser.add_argument("--socket", metavar="PATH", help="also listen on a Unix socket, for programs on this machine")
    parser.add_argument("--workers", type=whole_number, metavar="N", help="number of processes (default 1)")
    parser.add_argument("--home", metavar="DIR", help="where state is kept (default ./.sabir)")
    parser.add_argument("--store", metavar="URL", help="the store: memory:, sqlite:///path or postgresql://…")
    parser.add_argument(
        "--durability",
        choices=["process", "power"],
        help="what data survives: the death of the process (default), or also a power failure",
    )
    parser.add_argument("--tls-cert", metavar="FILE", help="certificate chain (PEM); turns TLS on")
    parser.add_argument("--tls-key", metavar="FILE", help="private key of the certificate (PEM)")
    parser.add_argument("--dev-tls", action="store_true", default=None, help="TLS with a self-signed certificate")
    parser.add_argument(
        "--behind-tls-proxy",
        action="store_true",
        default=None,
        help="serve plain HTTP, because a proxy in front terminates TLS",
    )
    parser.add_argument(
        "--reload", action="store_true", help="reload a Python file when it changes, as `sabir dev` does"
    )
    parser.add_argument(
        "--log-level", choices=["debug", "info", "warning", "error"], help="how much to log (default info)"
    )
    parser.add_argument("--access-log", action="store_true", default=None, help="log every request")
    parser.add_argument("--plain", action="store_true", help="print plain lines instead of the live status")
    parser.add_argument("--json", action="store_true", default=None, help="log JSON lines only")


def run(arguments: argparse.Namespace) -> int:
    if arguments.reload:
        return _reloading(arguments)
    source = source_of(arguments.config)
    settings = load(source.file, flags=flags_of(arguments))
    handler = set_up_logging(settings)
    listen = {"host": arguments.host, "port": arguments.port, "workers": arguments.workers}
    if settings.log.json:
        return _serve_in_json(source, settings, arguments, listen)
    gateway = source.gateway(settings, _settings_only(arguments))
    workers = arguments.workers or gateway.serving.workers
    if arguments.plain or not wants_status(as_json=False, workers=workers):
        return gateway.run(**listen)
    return _serve_with_status(gateway, handler, listen)


def _settings_only(arguments: argparse.Namespace) -> dict[str, object]:
    """The flags that a gateway made in Python has no place for."""
    names = ("socket", "store", "durability", "tls_cert", "tls_key", "dev_tls", "behind_tls_proxy", "access_log")
    return {name: getattr(arguments, name) for name in names}


def _serve_in_json(
    source: GatewaySource, settings: Settings, arguments: argparse.Namespace, listen: Mapping[str, Any]
) -> int:
    """Serve with a JSON-only log, including a failure to start."""
    try:
        return source.gateway(settings, _settings_only(arguments)).run(on_ready=_log_ready, **listen)
    except SabirError as exc:
        report(failure_of(exc), as_json=True)
        return MISCONFIGURED if isinstance(exc, ConfigError) else 1


def _log_ready(announced: Announcement) -> None:
    logger.info("Listening on %s", announced.url, extra={"fields": announced.data()})


def _serve_with_status(gateway: Gateway, handler: logging.Handler, listen: Mapping[str, Any]) -> int:
    observer = gateway.exchange.observer
    if observer is None:  # /metrics stays as configured: only the screen reads these
        observer = gateway.exchange.observer = observer_of(ObserveSettings(metrics=True))
    status = LiveStatus(gateway.doors, observer.metrics, handler)
    with status.around():
        return gateway.run(on_ready=status.start, **listen)


def _reloading(arguments: argparse.Namespace) -> int:
    """``serve app.py --reload`` is ``dev app.py``."""
    if not is_app(arguments.config):
        raise ConfigError("--reload: expected a Python file with agents, such as app.py")
    dev = importlib.import_module(f"{__package__}.dev")
    given = argparse.Namespace(
        app=arguments.config,
        host=arguments.host,
        port=arguments.port,
        home=arguments.home,
        no_reload=False,
        log_level=arguments.log_level or "info",
        json=bool(arguments.json),
    )
    return int(dev.run(given))


def flags_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """The flags as settings of the file; those not given are left out."""
    names = ("host", "port", "socket", "workers", "home", "store", "durability", "behind_tls_proxy")
    flags = {name: getattr(arguments, name) for name in names}
    tls = {"cert": arguments.tls_cert, "key": arguments.tls_key, "dev": arguments.dev_tls}
    log = {"level": arguments.log_level, "json": arguments.json, "access": arguments.access_log}
    return {**flags, "tls": _given(tls), "log": _given(log)}


def _given(values: dict[str, Any]) -> dict[str, Any] | None:
    return {name: value for name, value in values.items() if value is not None} or None
