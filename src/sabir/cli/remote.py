"""What the commands that list things at an address share: how to connect, and how to read the cards."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from sabir.card import Card
from sabir.errors import ConfigError, MissingExtra, PeerRefused, PeerUnreadable
from sabir.message import CONTROL, Message
from sabir.protocols.connect import kind_of
from sabir.protocols.options import known_options
from sabir.protocols.peer import Identity, Peer, origin_of

from .address import PROGRAM
from .ask import trust
from .seconds import seconds

QUESTION: Final = "What are your capabilities?"
NOT_ALLOWED: Final = (401, 403)
EPILOG: Final = "SABIR_URL is the default address; SABIR_TOKEN is the API key or token to send."


def add_options(parser: argparse.ArgumentParser) -> None:
    """Flags of every command that lists things at an address."""
    parser.epilog = EPILOG
    parser.add_argument("--ca", metavar="FILE", help="trust this certificate (PEM)")
    parser.add_argument("--timeout", type=seconds, default=30.0, metavar="S", help="seconds to wait (default 30)")


async def remote_cards(
    url: str, arguments: argparse.Namespace, order: Sequence[str], protocol: str | None = None
) -> Sequence[Mapping[str, Any]]:
    """The cards of the agents at an address; ``order`` are the protocols to try if the address names none.

    Raises:
        PeerError: no answer, or a refusal.
    """
    options: dict[str, Any] = {"seconds": arguments.timeout}
    if os.environ.get("SABIR_TOKEN") and not url.startswith(PROGRAM):
        options["identities"] = (Identity(origin_of(url), f"Bearer {os.environ['SABIR_TOKEN']}", at_once=True),)
    if arguments.ca:
        options["verify"] = trust(arguments.ca)
    names_protocol = bool(urlsplit(url).path.strip("/")) or not url.startswith("http")
    first_error: PeerRefused | PeerUnreadable | None = None
    for tried in (protocol,) if names_protocol or protocol else order:
        try:
            make = kind_of(url, tried)
            async with make(url, **known_options(make, options)) as peer:
                return await _cards(peer)
        except MissingExtra:
            if protocol:
                raise
        except (PeerRefused, PeerUnreadable) as exc:
            if isinstance(exc, PeerRefused) and exc.status in NOT_ALLOWED:
                raise
            first_error = first_error or exc
    raise first_error or ConfigError(f"{url}: no installed protocol can list what is there")


async def _cards(peer: Peer) -> Sequence[Mapping[str, Any]]:
    """The cards of all agents if the gateway lists them, otherwise that of the one agent."""
    if peer.protocol == "nlip":
        reply = await peer.ask(Message.text(QUESTION, messagetype=CONTROL))
        part = reply.labelled("capabilities")
        value = part.value if part is not None else None
        agents = value.get("agents") if isinstance(value, Mapping) else None
        if isinstance(agents, Sequence) and all(isinstance(item, Mapping) and "name" in item for item in agents):
            return agents
        return [{"name": peer.card.name, "description": reply.text}]
    listing = getattr(peer, "refresh", None)  # an MCP server lists its tools
    await (listing() if listing is not None else peer.discover())
    card = card_data(peer.card)
    agent = getattr(peer, "agent", None)  # over ACL, the name of the agent at the address
    return [{**card, "name": agent} if isinstance(agent, str) and agent else card]


def card_data(card: Card, *, default: bool = False) -> dict[str, Any]:
    """A card as plain data."""
    data: dict[str, Any] = msgspec.to_builtins(card)
    return {**data, "default": True} if default else data
