"""``sabir mcp [sabir.yaml]``: the agents as MCP tools over standard input and output, for desktop clients and IDEs."""

from __future__ import annotations

import argparse
import asyncio
import importlib
import sys

import msgspec

from sabir.config.load import load
from sabir.config.settings import Settings
from sabir.errors import ConfigError, MissingExtra
from sabir.gateway.gateway import Gateway

from .failures import remark
from .mcp_clients import CLIENTS, DEFAULT, settings_for
from .printing import say, say_json
from .serve import set_up_logging
from .served import source_of


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "config", nargs="?", help="configuration file, or app.py with agents (default: sabir.yaml, if it exists)"
    )
    parser.add_argument("--agent", metavar="NAME", help="offer only this agent (default: all)")
    parser.add_argument(
        "--home", metavar="DIR", help="where state is kept (default: .sabir beside the configuration, or ./.sabir)"
    )
    parser.add_argument("--store", metavar="URL", help="the store: memory:, sqlite:///path or postgresql://…")
    parser.add_argument(
        "--log-level",
        choices=["debug", "info", "warning", "error"],
        default="warning",
        help="how much to log (default warning)",
    )
    parser.add_argument(
        "--print-config", action="store_true", help="print the settings for an MCP client as JSON, and exit"
    )
    parser.add_argument(
        "--client",
        choices=list(CLIENTS),
        default=DEFAULT,
        help=f"the client that --print-config is for (default {DEFAULT})",
    )
    parser.add_argument("--json", action="store_true", help="log as JSON lines, and report errors as JSON")


def run(arguments: argparse.Namespace) -> int:
    if arguments.print_config:
        return _print_config(arguments)
    if sys.stdin is None:  # closed by the client before we started
        return 0
    log = {"level": arguments.log_level, **({"json": True} if arguments.json else {})}
    flags = {"home": arguments.home, "store": arguments.store, "log": log}
    source = source_of(arguments.config)
    settings = load(source.file, flags=flags)
    if source.folder is not None and arguments.home is None and settings.home == Settings().home:
        # A desktop client starts this in any folder: state belongs beside the configuration.
        settings = msgspec.structs.replace(settings, home=str(source.folder.resolve() / settings.home))
    set_up_logging(settings)  # to standard error: standard output belongs to the protocol
    gateway = source.gateway(settings, {"store": arguments.store})
    try:
        asyncio.run(_speak(gateway, arguments.agent))
    except* BrokenPipeError:
        raise BrokenPipeError from None  # the client has gone
    return 0


def _print_config(arguments: argparse.Namespace) -> int:
    """Print the settings of a client on standard output, and their file on standard error."""
    client = CLIENTS[arguments.client]
    source = source_of(arguments.config)
    settings = load(source.file)
    gateway = source.gateway(
        msgspec.structs.replace(settings, store="memory:"), {}
    )  # to report configuration errors now
    if arguments.agent is not None:
        _check_agent(gateway, arguments.agent)
    name = arguments.agent or gateway.default
    found = settings_for(arguments.client, arguments, source.given, name)
    say_json(msgspec.json.format(msgspec.json.encode(found), indent=2))
    place = f"For {client.title}: {client.file}"
    if arguments.json:
        remark(place, as_json=True)
    else:
        say(place, file=sys.stderr)
    return 0


def _check_agent(gateway: Gateway, name: str) -> None:
    if name not in gateway.agents:
        raise ConfigError(f"--agent: there is no agent {name!r}; choose from {', '.join(gateway.agents)}")


async def _speak(gateway: Gateway, agent: str | None) -> None:
    try:
        speak = importlib.import_module("sabir.protocols.mcp.door.door").speak
    except ModuleNotFoundError as missing:
        raise MissingExtra(f"MCP ({missing.name})", "mcp") from missing
    await gateway.start()
    try:
        if agent is not None:
            _check_agent(gateway, agent)
        await speak(gateway.services, agent)
    finally:
        await gateway.stop()
