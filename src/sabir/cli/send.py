"""``sabir send URL [FILE]``: send an ACL message. The JSON may have comments, like the draft's examples."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from pathlib import Path
from typing import Any

import msgspec

from sabir.errors import BadMessage, ConfigError
from sabir.ids import ordered_uuid
from sabir.protocols.acl.peer.link import Link
from sabir.protocols.acl.wire.acts import PROTOCOL
from sabir.protocols.acl.wire.comments import without_comments
from sabir.protocols.acl.wire.envelope import Envelope, envelope_of, json_of, plain, stamp

from .acl_options import add_address, add_options, in_a_line, link_options, settle_address
from .numbers import whole_number
from .printing import say, say_json
from .wrapping import wrapped


def add(parser: argparse.ArgumentParser) -> None:
    add_address(parser)
    parser.add_argument(
        "file",
        metavar="FILE",
        nargs="?",
        default="-",
        help="file with the message as JSON, which may have comments (default: standard input)",
    )
    parser.add_argument("--wait", metavar="SECONDS", type=whole_number, help="wait for the first reply, and print it")
    parser.add_argument("--sender", metavar="NAME", help="the sender, if the message has none")
    parser.add_argument("--to", metavar="AGENT", help="the receiver, if the message has none")
    add_options(parser)


def run(arguments: argparse.Namespace) -> int:
    settle_address(arguments, "file", "-")
    envelope = message_of(_text(arguments.file), arguments)
    answer = asyncio.run(_send(arguments, envelope))
    if arguments.json:
        say_json(msgspec.json.encode(answer))
    elif "performative" in answer:
        reply = envelope_of(answer)
        say(in_a_line(reply))
        say_json(msgspec.json.encode(reply.payload))
    else:
        if answer.get("duplicate"):
            say(f"Message {answer.get('message_id')} was accepted before; nothing was sent again.")
        else:
            accepted = f"Accepted: message {answer.get('message_id')} of conversation {answer.get('conversation_id')}"
            say(wrapped(accepted, indent="  "))
    return 0


def _text(name: str) -> str:
    if name == "-":
        if sys.stdin.isatty():
            say("Type the message as JSON, then Ctrl-D:", file=sys.stderr)
        return sys.stdin.read()
    try:
        return Path(name).read_text(encoding="utf-8")
    except OSError as exc:
        raise ConfigError(f"{name}: {exc.strerror}; expected a file with the message as JSON") from None


def message_of(text: str, arguments: argparse.Namespace) -> Envelope:
    """The message in a text, with missing fields filled in where possible.

    Raises:
        BadInput: it is not a message; says where.
    """
    value = json_of(without_comments(text))
    if not isinstance(value, dict):
        raise BadMessage(PROTOCOL, "$", "an object")
    known: dict[str, Any] = {"message_id": ordered_uuid(), "timestamp": stamp(time.time())}
    if arguments.sender:
        known["sender"] = {"agent_id": arguments.sender}
    if arguments.to:
        known["receiver"] = {"agent_id": arguments.to}
    return envelope_of({**known, **value})


async def _send(arguments: argparse.Namespace, envelope: Envelope) -> dict[str, Any]:
    link = Link(arguments.url, **link_options(arguments, arguments.url))
    try:
        if arguments.wait is None:
            return await link.post(envelope)
        answer = await link.post(envelope, wait=arguments.wait, seconds=arguments.wait + 30.0)
    finally:
        await link.close()
    if "performative" in answer:
        return plain(envelope_of(answer))
    return answer
