"""``sabir``: finds the command, runs it, and reports failures in one line."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NoReturn

from sabir import _version
from sabir.errors import (
    BadInput,
    BusUnavailable,
    ConfigError,
    PeerRefused,
    PeerUnavailable,
    Refused,
    SabirError,
    StoreUnavailable,
    suggestion,
)
from sabir.observe.logs import inert

from . import failures
from .failures import CommandFailure, failure_of, report

# Each is a module in this folder, with add(parser) and run(arguments) -> exit code. It is imported on demand: importing
# all of them takes longer than most of them run.
COMMANDS: Final[Mapping[str, str]] = {
    "init": "Create a new project.",
    "dev": "Serve the agents of a Python file, and reload them when the file changes.",
    "serve": "Run a gateway: serve your agents over every protocol.",
    "ask": "Ask an agent something, over NLIP, NLWeb, MCP, A2A or ACL.",
    "run": "Ask an agent of a configuration file once, without a server.",
    "agents": "List the agents at an address or in a configuration, and what they can do.",
    "tools": "List the tools that an address offers, over any protocol.",
    "chat": "Talk to an agent in the terminal.",
    "ingest": "Read a feed, a folder of pages or a schema.org file into the search index.",
    "sites": "List the ingested sites.",
    "check": "Test any server against a standard, clause by clause.",
    "keys": "Create, list and revoke API keys.",
    "audit": "Verify the audit log, or export it.",
    "config": "Check a configuration file, or print its JSON Schema.",
    "store": "Migrate, copy, back up or restore the state of a gateway.",
    "bus": "Inspect messages between agents: those that wait, and those that failed (dead letters).",
    "send": "Send an ACL message to an agent.",
    "inbox": "Show the ACL inbox of an agent, or one of its conversations.",
    "ide": "Ask a coding agent about part of a file, as an editor plugin does; prints suggestions as diffs.",
    "mcp": "Serve your agents as MCP tools over standard input and output, or print the settings for an MCP client.",
    "bench": "Measure how fast an address answers: requests per second, latencies, errors.",
    "completion": "Print a script that completes commands and flags in bash, zsh or fish.",
}

WELCOME: Final = """\
Sabir: one agent, every tongue.

  sabir serve                                    run the sample site, or the gateway of sabir.yaml
  sabir init my-agent                            create a project; asks three questions
  sabir dev app.py                               serve the agents of a file, and reload on every change
  sabir ask http://127.0.0.1:8080 "Hello"        ask an agent, over any protocol
  sabir chat http://127.0.0.1:8080               talk to it in the terminal
  sabir check http://127.0.0.1:8080              test a server against the standard

`sabir --help` lists every command; `sabir COMMAND --help` lists the options of one."""

# The contract with scripts.
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
    (ConfigError, BAD_USAGE),
    (BadInput, BAD_USAGE),
    (SabirError, FAILED),
)


EPILOG: Final = """\
Exit codes: 0 success, 1 failed, 2 invalid usage or configuration, 3 unreachable, 4 refused, 130 interrupted.
With --json, an error is one line of JSON on standard error: {"error": {"code", "message", "hint"}}.
Variables: SABIR_URL is the default address, SABIR_TOKEN is the API key or token to send, NO_COLOR turns colour off."""


class BadUsage(Exception):
    """The command line is invalid; ``parser`` is that of the command."""

    def __init__(self, parser: argparse.ArgumentParser, message: str) -> None:
        super().__init__(message)
        self.parser = parser


class Parser(argparse.ArgumentParser):
    """A parser that suggests the nearest known word for an unknown one."""

    def error(self, message: str) -> NoReturn:
        """Raises:
        BadUsage: always.
        """
        raise BadUsage(self, message)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Raises:
        ArgumentError: not one of the choices.
        """
        if action.choices is not None and value not in action.choices:
            hint = suggestion(value, map(str, action.choices), otherwise="")
            if hint:
                raise argparse.ArgumentError(action, f"invalid choice: {value!r}; {hint}")
        super()._check_value(action, value)

    def hint(self, rest: Sequence[str]) -> str:
        """A suggestion for the first unknown flag."""
        unknown = next((word.partition("=")[0] for word in rest if word.startswith("-")), "")
        known = [flag for action in self._actions for flag in action.option_strings]
        hint = suggestion(unknown, known, otherwise="")
        return f"; {hint}" if hint else ""


class Command(Parser):
    """One command: flags may be between its arguments, and an error shows the command's own usage."""

    load: Callable[[], None] | None = None  # adds the arguments, on first use
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
        self._mixing = True  # argparse calls this method for flags and for the others
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
        description="One agent, every tongue: serve agents over NLIP, NLWeb, MCP, A2A and ACL, and call other agents.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"sabir {_version.__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", parser_class=Command)
    for name, about in COMMANDS.items():
        command = commands.add_parser(name, help=about, description=about)
        command.load = partial(_load, name, command)
    return top


def _load(name: str, command: Command) -> None:
    module = importlib.import_module(f"{__package__}.{name}")
    module.add(command)
    command.set_defaults(run=module.run)
    _describe_actions(command)
    for leaf in leaves(command):
        if "--json" not in leaf._option_string_actions:
            leaf.add_argument("--json", action="store_true", help="report errors as JSON")


def _describe_actions(command: argparse.ArgumentParser) -> None:
    """Begin the help of each action, such as ``sabir keys add --help``, with its line in the list of actions."""
    for action in command._actions:
        if isinstance(action, argparse._SubParsersAction):
            for listed in action._choices_actions:
                text = listed.help or ""
                action.choices[listed.dest].description = f"{text[:1].upper()}{text[1:]}."


def leaves(command: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    """The parsers of a command's flags: its own, or those of its actions."""
    for action in command._actions:
        if isinstance(action, argparse._SubParsersAction):
            return list(action.choices.values())
    return [command]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    as_json = "--json" in words[: words.index("--")] if "--" in words else "--json" in words
    try:
        chosen = parser().parse_args(words)  # imports the command, which may need an extra
        if chosen.command is None:
            print(inert(WELCOME))
            return OK
        return int(chosen.run(chosen))
    except BadUsage as exc:
        return _bad_usage(exc, as_json=as_json)
    except SabirError as exc:
        report(failure_of(exc), as_json=as_json)
        return next(code for kind, code in EXIT_CODES if isinstance(exc, kind))
    except (KeyboardInterrupt, EOFError) as exc:
        if as_json:
            report(failure_of(exc), as_json=True)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has gone (`sabir … | head`); this is not an error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except Exception as exc:
        if not (as_json or isinstance(exc, OSError)):
            raise  # a defect: its traceback is needed
        report(failure_of(exc), as_json=as_json)
        return FAILED


def _bad_usage(exc: BadUsage, *, as_json: bool) -> int:
    if as_json:
        report(
            CommandFailure(failures.BAD_USAGE, str(exc), f"`{exc.parser.prog} --help` shows how to use it"),
            as_json=True,
        )
        return BAD_USAGE
    exc.parser.print_usage(sys.stderr)
    print(inert(f"{exc.parser.prog}: error: {exc}"), file=sys.stderr)
    return BAD_USAGE
