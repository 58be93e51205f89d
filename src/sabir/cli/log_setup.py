"""Logging of the commands: lines for people, or only JSON."""

from __future__ import annotations

import logging
import sys
import sysconfig
import threading
from types import TracebackType
from typing import Any, Final

from sabir.config.settings import Settings
from sabir.observe.logs import JsonLines, Scrub

logger = logging.getLogger("sabir")

LINE: Final = "%(asctime)s %(levelname)s %(message)s"
_INSTALLED: Final = tuple(
    dict.fromkeys(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib"))
)


class WithoutNoise(logging.Filter):
    """Drops what libraries log below WARNING; records of Sabir and of the agents pass."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno >= logging.WARNING or record.name == "sabir" or record.name.startswith("sabir."):
            return True
        return not record.pathname.startswith(_INSTALLED)


def set_up_logging(settings: Settings) -> logging.Handler:
    """Log to standard error as configured; returns the handler."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if settings.log.json else logging.Formatter(LINE))
    install(handler, settings.log.level)
    if settings.log.json:
        log_everything()
    return handler


def install(handler: logging.Handler, level: str) -> None:
    """Make this the only handler of the process."""
    handler.addFilter(WithoutNoise())
    handler.addFilter(Scrub())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())


def log_everything() -> None:
    """Log what Python would print to standard error itself: warnings and uncaught exceptions."""
    logging.captureWarnings(True)
    sys.excepthook = _uncaught
    threading.excepthook = _uncaught_in_thread


def _uncaught(kind: type[BaseException], exc: BaseException, trace: TracebackType | None) -> None:
    logger.critical("Uncaught %s", kind.__name__, exc_info=(kind, exc, trace))


def _uncaught_in_thread(arguments: Any) -> None:
    _uncaught(arguments.exc_type, arguments.exc_value, arguments.exc_traceback)
