"""``sabir mcp [sabir.yaml]``: the agents as MCP tools over standard input and output, for desktop clients and IDEs."""

from __future__ import annotations

import argparse
import asyncio
import importlib
import sys

import msgspec

from sabir.config.build import gateway_of
from sabir.config.load import file_of, load
from sabir.config.settings import Settings
from sabir.errors import ConfigError, MissingExtra
from sabir.gateway.gateway import Gateway

from .serve import set_up_logging


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("config", nargs="?", help="configuration file (default: sabir.yaml, if it exists)")
    parser.add_argument("--agent", metavar="NAME", help="offer this agent alone")
    parser.add_argument("--home", metavar="DIR", help="where state is kept (default ./.sabir)")
    parser.add_argument("--store", metavar="URL", help="memory:, sqlite:///path or postgresql://…")
    parser.add_argument("--log-level", choices=["debug", "info", "warning", "error"], default="warning")


def run(arguments: argparse.Namespace) -> int:
    if sys.stdin is None:  # closed before we began: nobody is there
        return 0
    flags = {"home": arguments.home, "store": arguments.store, "log": {"level": arguments.log_level}}
    settings = load(arguments.config, flags=flags)
    file = file_of(arguments.config)
    if file is not None and arguments.home is None and settings.home == Settings().home:
        # A desktop client starts this wherever it likes: state belongs beside the configuration.
        settings = msgspec.structs.replace(settings, home=str(file.resolve().parent / settings.home))
    set_up_logging(settings)  # to standard error: standard output is the protocol's
    gateway = gateway_of(settings, file)
    try:
        asyncio.run(_speak(gateway, arguments.agent))
    except* BrokenPipeError:
        raise BrokenPipeError from None  # the client has gone, and does not hear the rest
    return 0


async def _speak(gateway: Gateway, agent: str | None) -> None:
    try:
        speak = importlib.import_module("sabir.protocols.mcp.door.door").speak
    except ModuleNotFoundError as missing:
        raise MissingExtra(f"MCP ({missing.name})", "mcp") from missing
    await gateway.start()
    try:
        if agent is not None and agent not in gateway.agents:
            raise ConfigError(f"there is no agent {agent!r}; there are {', '.join(gateway.agents)}")
        await speak(gateway.services, agent)
    finally:
        await gateway.stop()
