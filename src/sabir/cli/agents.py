"""``sabir agents [URL]``: lists the agents at an address or in a configuration, and their skills."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from sabir.config.agents import ORCHESTRATOR, build_agents
from sabir.config.load import file_of, load

from .address import PROGRAM, address_of
from .printing import say, say_json
from .remote import add_options, card_data, remote_cards
from .wrapping import wrapped

ORDER: Final = ("nlip", "a2a", "mcp", "nlweb", "acl")  # for an address that names no protocol
SUFFIXES: Final = (".yaml", ".yml")


def add(parser: argparse.ArgumentParser) -> None:
    add_options(parser)
    parser.add_argument(
        "place",
        metavar="URL",
        nargs="?",
        help="address of a gateway or an agent, or a configuration file (default: SABIR_URL, or sabir.yaml)",
    )
    parser.add_argument("--json", action="store_true", help="print the cards as JSON")


def run(arguments: argparse.Namespace) -> int:
    place = arguments.place or os.environ.get("SABIR_URL")
    if place is not None and is_address(place):
        cards = asyncio.run(remote_cards(address_of(place), arguments, ORDER))
    else:
        cards = _configured(place)
    if arguments.json:
        say_json(msgspec.json.encode(cards))
        return 0
    if not cards:
        say(_nothing_in(place), file=sys.stderr)
    for card in cards:
        say(wrapped(_line(card), indent="  "))
        for skill in card.get("skills", ()):
            say(wrapped(f"  {skill['id']}: {skill.get('description') or skill.get('name', '')}", indent="    "))
    return 0


def _nothing_in(place: str | None) -> str:
    """What to do if there are no agents."""
    file = place or file_of(None)
    where = f"{file} has no agents" if file is not None else "there is no sabir.yaml here"
    return f"{where[:1].upper()}{where[1:]}. Give the address of a gateway or a configuration file."


def _configured(file: str | None) -> list[Mapping[str, Any]]:
    settings = load(file)
    found = file_of(file)
    agents = build_agents(settings, found.parent if found is not None else None).agents
    default = settings.default or (ORCHESTRATOR if settings.orchestrator is not None else None)
    if default is None and agents:
        default = agents[0].card.name
    return [card_data(agent.card, default=agent.card.name == default) for agent in agents]


def is_address(place: str) -> bool:
    """Whether an argument is an address and not a file: ``localhost:8080`` is, ``sabir.yaml`` is not."""
    if "://" in place or place.startswith(PROGRAM):
        return True
    return not (place.endswith(SUFFIXES) or Path(place).exists() or "/" in place.partition(":")[0])


def _line(card: Mapping[str, Any]) -> str:
    mark = " (default)" if card.get("default") else ""
    return f"{card['name']}{mark}: {card.get('description', '')}".rstrip(": ")
