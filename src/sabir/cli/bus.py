"""``sabir bus waiting|dead|replay|bury``: what waits for an agent, and what could not be handled."""

from __future__ import annotations

import argparse
import asyncio
import time
from typing import Any

import msgspec

from ..bus import Bus, DeadLetter, open_bus
from ..config import load
from ..errors import BadSetup

ACTIONS = {
    "waiting": "say how much waits in the inbox of a name",
    "dead": "list the letters to a name or group that could not be handled",
    "replay": "send dead letters again",
    "bury": "throw dead letters away",
}


def add(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for action, text in ACTIONS.items():
        command = actions.add_parser(action, help=text)
        command.add_argument("name", metavar="NAME", help="of an agent or a group")
        if action in ("replay", "bury"):
            command.add_argument("numbers", nargs="*", type=int, metavar="NUMBER", help="which (default: all)")
        command.add_argument("--bus", metavar="URL", help="nats://host:port (default: the bus of the configuration)")
        command.add_argument(
            "--config", metavar="FILE", help="configuration file (default: sabir.yaml, if it is there)"
        )
        command.add_argument("--json", action="store_true", help="for programs")


def run(arguments: argparse.Namespace) -> int:
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
    print(msgspec.json.encode(result).decode() if arguments.json else _in_words(arguments, result))
    return 0


async def _done(bus: Bus, arguments: argparse.Namespace) -> Any:
    match arguments.action:
        case "waiting":
            return {"frames": await bus.waiting(arguments.name)}
        case "dead":
            return [_row(dead) for dead in await bus.dead(arguments.name, limit=1000)]
        case "replay":
            return {"replayed": await bus.replay(arguments.name, *arguments.numbers)}
        case _:
            return {"buried": await bus.bury(arguments.name, *arguments.numbers)}


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
    if arguments.action != "dead":
        ((what, count),) = result.items()
        return f"{count} {what}"
    if not result:
        return f"No dead letters to {arguments.name}."
    lines = []
    for row in result:
        at = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(row["at"]))
        who = f" from {row['sender']}" if "sender" in row else ""
        member = f" for {row['member']}" if "member" in row else ""
        lines.append(f"{row['number']:>6}  {at}Z{who}{member}, {row['bytes']} bytes, {row['attempts']} attempts")
        lines.append(f"        {row['reason']}")
    return "\n".join(lines)
