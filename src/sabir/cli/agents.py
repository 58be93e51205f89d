"""``sabir agents [URL]``: which agents there are, at an address or in a configuration, and what they can do."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from sabir.card import Card
from sabir.config.agents import ORCHESTRATOR, build_agents
from sabir.config.load import file_of, load
from sabir.errors import ConfigError, MissingExtra, PeerRefused, PeerUnreadable
from sabir.message import CONTROL, Message
from sabir.protocols.connect import kind_of
from sabir.protocols.options import known_options
from sabir.protocols.peer import Identity, Peer, origin_of

from .ask import trust
from .printing import say, say_json

QUESTION: Final = "What are your capabilities?"
TRIED: Final = ("nlip", "a2a", "mcp", "nlweb")  # at an address that does not say what is spoken there


def add(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "SABIR_TOKEN is the API key or token to send, if the server requires one."
    parser.add_argument(
        "place",
        metavar="URL",
        nargs="?",
        help="a gateway or an agent of any protocol, or a configuration file (default: sabir.yaml, if it exists)",
    )
    parser.add_argument("--ca", metavar="FILE", help="trust this certificate (PEM)")
    parser.add_argument("--json", action="store_true", help="print the cards as JSON")
    parser.add_argument("--timeout", type=float, default=30.0, metavar="S", help="seconds to wait (default 30)")


def run(arguments: argparse.Namespace) -> int:
    place = arguments.place
    if place is not None and "://" in place:
        cards = asyncio.run(_remote(arguments))
    else:
        cards = _configured(place)
    if arguments.json:
        say_json(msgspec.json.encode(cards))
        return 0
    for card in cards:
        say(_line(card))
        for skill in card.get("skills", ()):
            say(f"  {skill['id']}: {skill.get('description') or skill.get('name', '')}")
    return 0


def _configured(file: str | None) -> list[Mapping[str, Any]]:
    settings = load(file)
    found = file_of(file)
    agents = build_agents(settings, found.parent if found is not None else None).agents
    default = settings.default or (ORCHESTRATOR if settings.orchestrator is not None else None)
    if default is None and agents:
        default = agents[0].card.name
    return [_as_data(agent.card, default=agent.card.name == default) for agent in agents]


async def _remote(arguments: argparse.Namespace) -> Sequence[Mapping[str, Any]]:
    url = arguments.place
    options: dict[str, Any] = {"seconds": arguments.timeout}
    if os.environ.get("SABIR_TOKEN"):
        options["identities"] = (Identity(origin_of(url), f"Bearer {os.environ['SABIR_TOKEN']}", at_once=True),)
    if arguments.ca:
        options["verify"] = trust(arguments.ca)
    says_what = bool(urlsplit(url).path.strip("/")) or not url.startswith("http")
    refused: PeerRefused | PeerUnreadable | None = None
    for protocol in (None,) if says_what else TRIED:
        try:
            make = kind_of(url, protocol)
            async with make(url, **known_options(make, options)) as peer:
                return await _cards(peer)
        except MissingExtra:
            continue
        except (PeerRefused, PeerUnreadable) as exc:
            if isinstance(exc, PeerRefused) and exc.status in (401, 403):
                raise
            refused = refused or exc
    raise refused or ConfigError(f"{url}: no protocol is installed that could ask there")


async def _cards(peer: Peer) -> Sequence[Mapping[str, Any]]:
    """The cards of all agents where the gateway says so, else that of the one agent."""
    if peer.protocol == "nlip":
        reply = await peer.ask(Message.text(QUESTION, messagetype=CONTROL))
        part = reply.labelled("capabilities")
        value = part.value if part is not None else None
        agents = value.get("agents") if isinstance(value, Mapping) else None
        if isinstance(agents, Sequence) and all(isinstance(agent, Mapping) and "name" in agent for agent in agents):
            return agents
        return [{"name": peer.card.name, "description": reply.text}]
    listing = getattr(peer, "refresh", None)  # an MCP server lists its tools
    await (listing() if listing is not None else peer.discover())
    return [_as_data(peer.card)]


def _as_data(card: Card, *, default: bool = False) -> dict[str, Any]:
    data: dict[str, Any] = msgspec.to_builtins(card)
    return {**data, "default": True} if default else data


def _line(card: Mapping[str, Any]) -> str:
    mark = " (default)" if card.get("default") else ""
    return f"{card['name']}{mark}: {card.get('description', '')}".rstrip(": ")
