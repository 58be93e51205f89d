"""``sabir mcp [sabir.yaml]``: the agents as MCP tools over standard input and output, for desktop clients and IDEs."""

from __future__ import annotations

import argparse
import asyncio
import importlib
import sys

from ..config import file_of, gateway_of, load
from ..errors import BadSetup, MissingExtra
from ..gateway import Gateway
from .serve import set_up_logging


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("config", nargs="?", help="configuration file (default: sabir.yaml, if it is there)")
    parser.add_argument("--agent", metavar="NAME", help="offer this agent alone")
    parser.add_argument("--home", metavar="DIR", help="where state is kept (default ./.sabir)")
    parser.add_argument("--store", metavar="URL", help="memory:, sqlite:///path or postgresql://…")
    parser.add_argument("--log-level", choices=["debug", "info", "warning", "error"], default="warning")


def run(arguments: argparse.Namespace) -> int:
    if sys.stdin is None:  # closed before we began: nobody is there
        return 0
    flags = {"home": arguments.home, "store": arguments.store, "log": {"level": arguments.log_level}}
    settings = load(arguments.config, flags=flags)
    set_up_logging(settings)  # to standard error: standard output is the protocol's
    gateway = gateway_of(settings, file_of(arguments.config))
    try:
        asyncio.run(_speak(gateway, arguments.agent))
    except* BrokenPipeError:
        raise BrokenPipeError from None  # the client has gone, and does not hear the rest
    return 0


async def _speak(gateway: Gateway, agent: str | None) -> None:
    try:
        speak = importlib.import_module("sabir.doors.mcp").speak
    except ModuleNotFoundError as missing:
        raise MissingExtra(f"MCP ({missing.name})", "mcp") from missing
    await gateway.start()
    try:
        if agent is not None and agent not in gateway.agents:
            raise BadSetup(f"there is no agent {agent!r}; there are {', '.join(gateway.agents)}")
        await speak(gateway.house, agent)
    finally:
        await gateway.stop()
