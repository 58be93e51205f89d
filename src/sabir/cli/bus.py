"""``sabir bus waiting|dead|replay|bury``: what waits for an agent, and what could not be handled."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from typing import Any, Final

import msgspec

from ..bus import Bus, DeadLetter, open_bus
from ..config import load
from ..errors import BadSetup

ACTIONS: Final = {
    "waiting": "say how much waits in the inbox of a name",
    "dead": "list the letters to a name or group that could not be handled; without a name, who has any",
    "replay": "send dead letters again",
    "bury": "throw dead letters away",
}
_MOST: Final = 100_000  # dead letters of a name that are looked at
_LISTED: Final = 1000


def add(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for action, text in ACTIONS.items():
        command = actions.add_parser(action, help=text)
        nargs = "?" if action == "dead" else None
        command.add_argument("name", metavar="NAME", nargs=nargs, help="of an agent or a group")
        if action == "replay":
            command.add_argument("numbers", nargs="*", type=int, metavar="NUMBER", help="which (default: all)")
        if action == "bury":
            command.add_argument("numbers", nargs="*", type=int, metavar="NUMBER", help="which; or --all")
            command.add_argument("--all", action="store_true", help="all that are dead")
        command.add_argument("--bus", metavar="URL", help="nats://host:port (default: the bus of the configuration)")
        command.add_argument(
            "--config", metavar="FILE", help="configuration file (default: sabir.yaml, if it is there)"
        )
        command.add_argument("--json", action="store_true", help="for programs")


def run(arguments: argparse.Namespace) -> int:
    if arguments.action == "bury" and bool(arguments.numbers) == arguments.all:
        raise BadSetup("bury: say which dead letters by their numbers, or --all")
    return asyncio.run(_run(arguments))


async def _run(arguments: argparse.Namespace) -> int:
    address = load(arguments.config, flags={"bus": arguments.bus}).bus
    if address is None:
        raise BadSetup("bus: none is configured; give --bus nats://host:port")
    bus = open_bus(address)
    try:
        await bus.open()
        result = await _done(bus, arguments)
    finally:
        await bus.close()
    missing = result.get("missing", []) if isinstance(result, dict) else []
    print(msgspec.json.encode(result).decode() if arguments.json else _in_words(arguments, result))
    if missing:
        told = ", ".join(map(str, missing))
        print(f"sabir: {told}: no dead letter to {arguments.name} has this number", file=sys.stderr)
    return 1 if missing else 0


async def _done(bus: Bus, arguments: argparse.Namespace) -> Any:
    match arguments.action:
        case "waiting":
            return {"frames": await bus.waiting(arguments.name)}
        case "dead" if arguments.name is None:
            return [{"name": name, "dead": count} for name, count in (await bus.graves()).items()]
        case "dead":
            return [_row(dead) for dead in await bus.dead(arguments.name, limit=_LISTED)]
    numbers = dict.fromkeys(arguments.numbers)
    there = {dead.number for dead in await bus.dead(arguments.name, limit=_MOST)} if numbers else set()
    missing = [number for number in numbers if number not in there]
    chosen = [number for number in numbers if number in there]
    done, act = ("replayed", bus.replay) if arguments.action == "replay" else ("buried", bus.bury)
    count = await act(arguments.name, *chosen) if chosen or not numbers else 0
    return {done: count, **({"missing": missing} if missing else {})}


def _row(dead: DeadLetter) -> dict[str, Any]:
    """What is shown of a dead letter: everything but what it says."""
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
            return "\n".join(line for row in result for line in _told(row)) or f"No dead letters to {arguments.name}."
    what, count = next(iter(result.items()))
    return f"{_several(count, 'letter')} {what}"


def _told(row: dict[str, Any]) -> tuple[str, str]:
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(row["at"]))
    who = f" from {row['sender']}" if "sender" in row else ""
    member = f" for {row['member']}" if "member" in row else ""
    size = f"{_several(row['bytes'], 'byte')}, {_several(row['attempts'], 'attempt')}"
    return f"{row['number']:>6}  {at}Z  {row['id']}{who}{member}, {size}", f"        {row['reason']}"


def _several(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
