"""What the ACL commands share: the address, our identity, and how messages are shown."""

from __future__ import annotations

import argparse
import os
from datetime import datetime
from typing import Any, Final

from sabir.protocols.acl.wire.envelope import Envelope, time_of
from sabir.protocols.peer import Identity

from .address import WEB, address_of
from .ask import service_of, trust
from .printing import show

EPILOG = "SABIR_URL is the default address; SABIR_TOKEN is the API key or token to send."


def add_options(parser: argparse.ArgumentParser) -> None:
    """Flags of every ACL command."""
    parser.epilog = EPILOG
    parser.add_argument("--ca", metavar="FILE", help="trust this certificate (PEM)")
    parser.add_argument("--socket", metavar="PATH", help="connect to this Unix socket (sabir serve --socket)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--trace", action="store_true", help="show the bytes on the wire")


def add_address(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "url", metavar="URL", nargs="?", help="the ACL address of a gateway, e.g. http://127.0.0.1:8080/acl"
    )


def settle_address(arguments: argparse.Namespace, following: str, default: str | None = None) -> None:
    """Resolve the address; if SABIR_URL is set, a single argument is the one after the address.

    Raises:
        ConfigError: there is no address.
    """
    given = arguments.url
    is_lone = getattr(arguments, following) == default
    if given is not None and "://" not in given and is_lone and os.environ.get("SABIR_URL"):
        setattr(arguments, following, given)
        given = None
    arguments.url = address_of(given, WEB)


def link_options(arguments: argparse.Namespace, url: str) -> dict[str, Any]:
    """The options of a ``Link`` or a ``Messenger``."""
    options: dict[str, Any] = {}
    if os.environ.get("SABIR_TOKEN"):
        options["identities"] = (Identity(service_of(url), f"Bearer {os.environ['SABIR_TOKEN']}", at_once=True),)
    if arguments.ca:
        options["verify"] = trust(arguments.ca)
    if arguments.socket:
        options["socket"] = arguments.socket
    if arguments.trace:
        options["on_wire"] = show
    return options


_WORDS: Final = (
    "result_summary", "task_description", "question", "answer", "note", "partial", "reason_text", "error_text", "text",
    "comments", "event", "proposal", "condition", "reference", "value", "result", "query_type", "topic",
)  # fmt: skip
_LONGEST: Final = 300  # characters of a message in a line


def in_a_line(envelope: Envelope) -> str:
    """A message for people: time, sender and receiver, the act, and its text."""
    payload = envelope.payload
    words = next((str(payload[name]) for name in _WORDS if payload.get(name) not in (None, "", {}, [])), "")
    words = " ".join(words.split())
    if len(words) > _LONGEST:
        words = f"{words[:_LONGEST]}…"
    parties = f"{envelope.sender_id} → {', '.join(envelope.receiver_ids)}"
    return f"{moment(envelope.timestamp)}  {parties:<20}  {envelope.performative:<15}  {words}".rstrip()


def moment(stamp: str) -> str:
    """A message's time for people: today without the date."""
    at = time_of(stamp)
    if at is None:
        return stamp
    local = datetime.fromtimestamp(at).astimezone()
    is_today = local.date() == datetime.now().astimezone().date()
    return f"{local:%H:%M:%S}" if is_today else f"{local:%Y-%m-%d %H:%M}"
