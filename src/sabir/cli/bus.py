"""``sabir bus waiting|dead|replay|discard``: letters that wait for an agent, and letters that could not be handled."""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final

import msgspec

from sabir.bus import Bus, DeadLetter, open_bus
from sabir.bus.open import OWN_STORE
from sabir.bus.store import StoreBus
from sabir.config.load import load
from sabir.errors import ConfigError

from .audit import opened, where
from .failures import CommandFailure, code_of, report
from .numbers import whole_number
from .printing import say, say_json

ACTIONS: Final = {
    "waiting": "count the batches of messages that wait for an agent or a group",
    "dead": "list the messages that an agent or a group could not handle; without a name, list who has such messages",
    "replay": "send dead letters again",
    "discard": "delete dead letters",
}

_MAX_DEAD: Final = 100_000  # dead letters of a name that are read
_LISTED: Final = 1000


def add(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for action, text in ACTIONS.items():
        command = actions.add_parser(action, help=text)
        nargs = "?" if action == "dead" else None
        command.add_argument("name", metavar="NAME", nargs=nargs, help="name of an agent or a group")
        if action == "replay":
            command.add_argument(
                "numbers",
                nargs="*",
                type=whole_number,
                metavar="NUMBER",
                help="numbers of the dead letters (default: all)",
            )
        if action == "discard":
            command.add_argument(
                "numbers", nargs="*", type=whole_number, metavar="NUMBER", help="numbers of the dead letters, or --all"
            )
            command.add_argument("--all", action="store_true", help="all dead letters")
        command.add_argument(
            "--bus",
            metavar="URL",
            help="nats://host:port, or `store:` for ACL inboxes in the store (default: the configured bus, or store:)",
        )
        where(command)
        command.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    if arguments.action == "discard" and bool(arguments.numbers) == arguments.all:
        raise ConfigError("discard: name the dead letters by number, or use --all")
    return asyncio.run(_run(arguments))


async def _run(arguments: argparse.Namespace) -> int:
    async with _opened(arguments) as bus:
        result = await _done(bus, arguments)
    missing = result.get("missing", []) if isinstance(result, dict) else []
    if arguments.json:
        say_json(msgspec.json.encode(result))
    else:
        say(_in_words(arguments, result))
    if missing:
        numbers = ", ".join(map(str, missing))
        missed = f"{numbers}: no dead letter to {arguments.name} has this number"
        hint = f"`sabir bus dead {arguments.name}` lists them"
        report(CommandFailure(code_of(ConfigError), missed, hint), as_json=arguments.json)
    return 1 if missing else 0


@asynccontextmanager
async def _opened(arguments: argparse.Namespace) -> AsyncIterator[Bus]:
    """The chosen bus, open."""
    address = arguments.bus
    if address != OWN_STORE:
        address = load(arguments.config, flags={"bus": address}).bus or OWN_STORE  # which validates it
    async with AsyncExitStack() as exits:
        if address == OWN_STORE:
            store, _ = await exits.enter_async_context(opened(arguments))
            bus: Bus = StoreBus(store)
        else:
            bus = open_bus(address)
        exits.push_async_callback(bus.close)
        await bus.open()
        yield bus


async def _done(bus: Bus, arguments: argparse.Namespace) -> Any:
    match arguments.action:
        case "waiting":
            return {"frames": await bus.waiting(arguments.name)}
        case "dead" if arguments.name is None:
            return [{"name": name, "dead": count} for name, count in (await bus.dead_letter_counts()).items()]
        case "dead":
            return [_row(dead) for dead in await bus.dead(arguments.name, limit=_LISTED)]
    numbers = dict.fromkeys(arguments.numbers)
    there = {dead.number for dead in await bus.dead(arguments.name, limit=_MAX_DEAD)} if numbers else set()
    missing = [number for number in numbers if number not in there]
    chosen = [number for number in numbers if number in there]
    done, act = ("replayed", bus.replay) if arguments.action == "replay" else ("discarded", bus.discard_dead)
    count = await act(arguments.name, *chosen) if chosen or not numbers else 0
    return {done: count, **({"missing": missing} if missing else {})}


def _row(dead: DeadLetter) -> dict[str, Any]:
    """A dead letter for display: everything but its content."""
    letter = dead.letter
    row = {
        "number": dead.number,
        "id": letter.id,
        "sender": letter.sender,
        "order": letter.order,
        "member": dead.member,
        "bytes": len(letter.body),
        "attempts": dead.attempts,
        "at": dead.at,
        "reason": dead.reason,
    }
    return {key: value for key, value in row.items() if value != ""}


def _in_words(arguments: argparse.Namespace, result: Any) -> str:
    match arguments.action:
        case "waiting":
            return _several(result["frames"], "frame")
        case "dead" if arguments.name is None:
            width = max((len(row["name"]) for row in result), default=0)
            lines = [f"{row['name']:<{width}}  {_several(row['dead'], 'dead letter')}" for row in result]
            return "\n".join(lines) or "No dead letters."
        case "dead":
            return (
                "\n".join(line for row in result for line in _format_dead_letter(row))
                or f"No dead letters to {arguments.name}."
            )
    what, count = next(iter(result.items()))
    return f"{_several(count, 'letter')} {what}"


def _format_dead_letter(row: dict[str, Any]) -> tuple[str, str]:
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(row["at"]))
    who = f" from {row['sender']}" if "sender" in row else ""
    member = f" for {row['member']}" if "member" in row else ""
    size = f"{_several(row['bytes'], 'byte')}, {_several(row['attempts'], 'attempt')}"
    return f"{row['number']:>6}  {at}Z  {row['id']}{who}{member}, {size}", f"        {row['reason']}"


def _several(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
