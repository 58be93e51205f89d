"""``sabir sites``: lists the index of this home folder."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from sabir.agents.site.settings import FOLDER
from sabir.config.load import load
from sabir.errors import ConfigError

from .ingest import opened
from .printing import say, say_json

if TYPE_CHECKING:
    from sabir.agents.site.sites import HomeIndex
    from sabir.search import IndexedSite

_TYPES = 4  # most frequent types that are shown


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--home", metavar="DIR", help="where state is kept (default ./.sabir)")
    parser.add_argument("--config", metavar="FILE", help="configuration file (default: sabir.yaml, if it exists)")
    parser.add_argument("--json", action="store_true", help="print the sites as JSON")


def run(arguments: argparse.Namespace) -> int:
    settings = load(arguments.config, flags={"home": arguments.home})
    if arguments.home is not None and not Path(arguments.home).is_dir():
        raise ConfigError(f"--home: {arguments.home} does not exist")
    there = (Path(settings.home) / FOLDER).exists() or settings.search.index is not None
    sites = asyncio.run(_sites(opened(settings))) if there else ()  # imported late: the search engine is slow to load
    if arguments.json:
        say_json(msgspec.json.encode(sites))
        return 0
    if not sites:
        say("No site has been ingested yet. Start with: sabir ingest SOURCE --site NAME")
        return 0
    width = max(len(site.name) for site in sites)
    for site in sites:
        say(line(site, width))
    return 0


async def _sites(index: HomeIndex) -> tuple[IndexedSite, ...]:
    try:
        return await index.sites()
    finally:
        await index.close()


def line(site: IndexedSite, width: int = 0) -> str:
    """One site for people: its name, its number of items, and their most frequent types."""
    types = sorted(site.types.items(), key=lambda pair: -pair[1])
    shown = ", ".join(f"{count} {name}" for name, count in types[:_TYPES])
    more = ", …" if len(types) > _TYPES else ""
    return f"{site.name:<{width}}  {site.items:>6} {'item ' if site.items == 1 else 'items'}  {shown}{more}"
