"""What the commands that speak ACL share: the address, who we are, and how messages are shown."""

from __future__ import annotations

import argparse
import os
from typing import Any

from sabir.protocols.acl.wire.envelope import Envelope
from sabir.protocols.peer import Identity

from .ask import service_of, trust
from .printing import show

EPILOG = "SABIR_TOKEN is the API key or token to send, if the server requires one."


def add_options(parser: argparse.ArgumentParser) -> None:
    """Flags of every command that speaks ACL."""
    parser.epilog = EPILOG
    parser.add_argument("--ca", metavar="FILE", help="trust this certificate (PEM)")
    parser.add_argument("--socket", metavar="PATH", help="connect to this Unix socket (sabir serve --socket)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--trace", action="store_true", help="show the bytes on the wire")


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


def in_a_line(envelope: Envelope) -> str:
    """A message for people: who says what to whom, and the words of it."""
    payload = envelope.payload
    words = next(
        (
            str(payload[name])
            for name in ("result_summary", "task_description", "question", "answer", "note", "partial", "reason_text",
                         "error_text", "text", "comments", "event", "proposal")
            if payload.get(name)
        ),
        "",
    )  # fmt: skip
    receiver = ", ".join(envelope.receiver_ids)
    return f"{envelope.timestamp}  {envelope.sender_id} → {receiver}  {envelope.performative}  {words}".rstrip()
