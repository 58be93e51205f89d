"""How a command reports a failure: one line for people, one JSON object for programs."""

from __future__ import annotations

import importlib
import json
import re
import sys
from typing import NamedTuple
from urllib.parse import urlsplit

from sabir.errors import (
    ConfigError,
    PeerRefused,
    PeerUnavailable,
    PeerUnreadable,
    SabirError,
    for_operator,
)
from sabir.observe.logs import inert

from .colours import RED, YELLOW, coloured
from .wrapping import wrapped

_NAME = "sabir:"
_INDENT = " " * (len(_NAME) + 1)
_NOT_FOUND = 404
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


BAD_USAGE = "bad_usage"
OS_ERROR = "os_error"
INTERRUPTED = "interrupted"
INTERNAL = "internal_error"
CODES = (BAD_USAGE, OS_ERROR, INTERRUPTED, INTERNAL)  # besides those of the errors


class CommandFailure(NamedTuple):
    """A failure: a word for programs, a sentence for people, and the next step if it is known."""

    code: str
    message: str
    hint: str = ""


def code_of(kind: type[BaseException]) -> str:
    """The error code in JSON: ``PeerUnavailable`` is ``peer_unavailable``."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind.__name__).lower()


def failure_of(exc: BaseException) -> CommandFailure:
    """The failure for an exception."""
    if isinstance(exc, SabirError):
        return CommandFailure(code_of(type(exc)), for_operator(exc), hint_of(exc))
    if isinstance(exc, OSError) and exc.strerror:
        return CommandFailure(OS_ERROR, f"{exc.filename}: {exc.strerror}" if exc.filename else exc.strerror)
    if isinstance(exc, KeyboardInterrupt | EOFError):
        return CommandFailure(INTERRUPTED, "interrupted")
    return CommandFailure(
        "internal_error", f"{type(exc).__name__}: {exc}", "this is a defect of Sabir: please report it"
    )


def hint_of(exc: SabirError) -> str:
    """The next step after an error; empty if the message already names it."""
    if isinstance(exc, PeerUnavailable):
        return _unreachable(exc)
    if isinstance(exc, PeerUnreadable):
        return "Is it another protocol? --protocol says which one to use"
    if isinstance(exc, PeerRefused) and exc.status == _NOT_FOUND:
        if urlsplit(exc.peer).path.rstrip("/").endswith("/ws"):
            return "Is it a WebSocket? Its address starts with ws:// or wss://"
        return "`sabir agents URL` lists the agents at an address"
    if isinstance(exc, PeerRefused):
        # Imported late: it needs the protocols, and most failures do not.
        words: str = importlib.import_module(f"{__package__}.refusals").hint(exc)
        return words
    if isinstance(exc, ConfigError) and "sabir.yaml" in str(exc) and "unknown key" in str(exc):
        return "docs/configuration.md lists every key"
    return ""


def _unreachable(exc: PeerUnavailable) -> str:
    words = str(exc)
    if "certificate" in words:
        return "--ca FILE trusts a certificate, such as .sabir/dev-tls/cert.pem of `sabir serve --dev-tls`"
    if "refused" in words and urlsplit(exc.peer).hostname in _LOOPBACK:
        return "Is it running? `sabir serve` or `sabir dev app.py` starts a gateway"
    if "in time" in words:
        return "--timeout S waits longer"
    return ""


def report(failure: CommandFailure, *, as_json: bool) -> None:
    """Print a failure on standard error; every command reports failures this way."""
    if as_json:
        error = {"code": failure.code, "message": failure.message, "hint": failure.hint}
        print(inert(json.dumps({"error": error})), file=sys.stderr)
        return
    _print_line(failure.message, RED)
    if failure.hint:
        sys.stderr.write(wrapped(f"{_INDENT}{inert(failure.hint)}\n", sys.stderr))


def remark(text: str, *, as_json: bool) -> None:
    """Print on standard error what is worth knowing and is no failure."""
    if as_json:
        print(inert(json.dumps({"note": text})), file=sys.stderr)
    else:
        _print_line(text, YELLOW)


def _print_line(text: str, colour: str) -> None:
    line = wrapped(f"{_NAME} {inert(text)}\n", sys.stderr, indent=_INDENT)
    # Not by ``say``, which would spell out the colour.
    sys.stderr.write(line.replace(_NAME, coloured(_NAME, colour, sys.stderr), 1))
