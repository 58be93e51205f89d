"""``sabir``: finds the command, runs it, and tells failures in one line."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from typing import Any, Final

from .. import _version
from ..errors import (
    BadInput,
    BadSetup,
    BusUnavailable,
    PeerRefused,
    PeerUnavailable,
    Refused,
    SabirError,
    StoreUnavailable,
    for_operator,
)

# Each is a module beside this one, with add(parser) and run(arguments) -> exit code; loaded when it is wanted, because
# what all of them need takes longer to load than most of them run.
COMMANDS: Final[Mapping[str, str]] = {
    "serve": "Run the gateway: your agents behind every door.",
    "ask": "Ask an agent something, over NLIP, NLWeb, MCP or A2A.",
    "ingest": "Read a feed, a folder of pages or a schema.org file into a site that can be asked.",
    "sites": "List the sites that were ingested here.",
    "check": "Test a server against the standard: which clause holds, with the bytes as evidence.",
    "keys": "Make, list and take back API keys.",
    "audit": "Verify the audit log, or export it.",
    "store": "Migrate a store to this version, or copy it to another kind of store.",
    "bus": "Look at the letters that wait for an agent or a group; list, replay and bury the dead ones.",
    "mcp": "Speak MCP over standard input and output: your agents as tools.",
}

# What scripts can rely on.
OK: Final = 0
FAILED: Final = 1
BAD_USAGE: Final = 2
UNREACHABLE: Final = 3
REFUSED: Final = 4
INTERRUPTED: Final = 130

EXIT_CODES: Final = (
    (PeerUnavailable, UNREACHABLE),
    (StoreUnavailable, UNREACHABLE),
    (BusUnavailable, UNREACHABLE),
    (PeerRefused, REFUSED),
    (Refused, REFUSED),
    (BadSetup, BAD_USAGE),
    (BadInput, BAD_USAGE),
    (SabirError, FAILED),
)


class Parser(argparse.ArgumentParser):
    """A parser that names the nearest right word for a wrong one."""

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Raises:
        ArgumentError: it is none of the choices.
        """
        if action.choices is not None and value not in action.choices:
            near = get_close_matches(str(value), [str(each) for each in action.choices], 1)
            if near:
                raise argparse.ArgumentError(action, f"invalid choice: {value!r}; did you mean {near[0]}?")
        super()._check_value(action, value)

    def hint(self, rest: Sequence[str]) -> str:
        """What may have been meant by the first flag that is not known."""
        wrong = next((each.partition("=")[0] for each in rest if each.startswith("-")), "")
        near = get_close_matches(wrong, [flag for action in self._actions for flag in action.option_strings], 1)
        return f"; did you mean {near[0]}?" if near else ""


class Command(Parser):
    """One command: flags may stand between its arguments, and its own usage is shown when something is wrong."""

    load: Callable[[], None] | None = None  # adds the arguments, when they are first needed
    _mixing = False

    def _ready(self) -> None:
        load, self.load = self.load, None
        if load is not None:
            load()

    def format_help(self) -> str:
        self._ready()
        return super().format_help()

    def parse_known_args(  # type: ignore[override]  # as a subparser it is given a list and no namespace
        self, args: list[str], namespace: Any = None
    ) -> tuple[Any, list[str]]:
        self._ready()
        if self._mixing or any(action.nargs == argparse.PARSER for action in self._actions):
            return super().parse_known_args(args, namespace)
        self._mixing = True  # it calls this method for flags and for the others
        try:
            known, rest = self.parse_known_intermixed_args(args, namespace)
        finally:
            self._mixing = False
        if rest:
            self.error(f"unrecognized arguments: {' '.join(rest)}{self.hint(rest)}")
        return known, rest


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    top = Parser(
        prog="sabir",
        description="One agent, every tongue: serve an agent over NLIP and more, and talk to others.",
        epilog="Exit codes: 0 done, 1 failed, 2 wrong use or configuration, 3 unreachable, 4 refused.",
    )
    top.add_argument("--version", action="version", version=f"sabir {_version.__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=Command)
    for name, about in COMMANDS.items():
        command = commands.add_parser(name, help=about, description=about)
        command.load = partial(_load, name, command)
    return top


def _load(name: str, command: Command) -> None:
    module = importlib.import_module(f"{__package__}.{name}")
    module.add(command)
    command.set_defaults(run=module.run)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    chosen = parser().parse_args(arguments)
    try:
        return int(chosen.run(chosen))
    except SabirError as wrong:
        print(f"sabir: {for_operator(wrong)}", file=sys.stderr)
        if isinstance(wrong, PeerRefused) and (told := importlib.import_module(f"{__package__}.refusals").hint(wrong)):
            print(f"       {told}", file=sys.stderr)
        return next(code for kind, code in EXIT_CODES if isinstance(wrong, kind))
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has gone (`sabir … | head`); nothing is wrong.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
