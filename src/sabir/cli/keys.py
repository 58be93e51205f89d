"""``sabir keys add|list|revoke``: API keys of the gateway whose store this is."""

from __future__ import annotations

import argparse
import asyncio
import time
from datetime import UTC, datetime

import msgspec

from ..guard.keys import ApiKey, Keys
from .audit import opened, where

_MOST_DAYS = 36_500.0


def add(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    making = actions.add_parser("add", help="make a key and print it, once")
    making.add_argument("name", metavar="NAME", help="whose it is, for people")
    making.add_argument("--role", metavar="R", action="append", default=[], help="a role it has; may be repeated")
    making.add_argument("--days", type=days, metavar="N", help="how long it lives (default: until it is revoked)")
    listing = actions.add_parser("list", help="show the keys there are, without the keys themselves")
    taking = actions.add_parser("revoke", help="take a key back")
    taking.add_argument("id", metavar="ID", help="its id, as list shows it")
    for each in (making, listing, taking):
        where(each)
        each.add_argument("--json", action="store_true", help="for programs")


def days(text: str) -> float:
    """How long a key lives, as it is written on the command line."""
    try:
        count = float(text)
    except ValueError:
        count = 0.0
    if not 0 < count <= _MOST_DAYS:
        raise argparse.ArgumentTypeError(f"expected days above 0 and up to {_MOST_DAYS:.0f}, not {text!r}")
    return count


def run(arguments: argparse.Namespace) -> int:
    return asyncio.run(_run(arguments))


async def _run(arguments: argparse.Namespace) -> int:
    async with opened(arguments, make=arguments.action == "add") as (store, _):
        keys = Keys(store)
        match arguments.action:
            case "add":
                expires = time.time() + arguments.days * 86400.0 if arguments.days else 0.0
                key, text = await keys.add(arguments.name, roles=tuple(arguments.role), expires=expires)
                _show_new(key, text, arguments.json)
            case "list":
                _show(await keys.list(), arguments.json)
            case "revoke":
                key = await keys.revoke(arguments.id)
                _show([key], True) if arguments.json else print(f"revoked {key.id} ({key.name})")
    return 0


def _show_new(key: ApiKey, text: str, as_json: bool) -> None:
    if as_json:
        print(msgspec.json.encode({**_told(key), "key": text}).decode())
    else:
        print(f"{text}\n\nThis is the key of {key.name} ({key.id}). It is not kept here and cannot be shown again.")


def _show(keys: list[ApiKey], as_json: bool) -> None:
    if as_json:
        print("\n".join(msgspec.json.encode(_told(key)).decode() for key in keys))
        return
    for key in keys:
        until = "for ever" if not key.expires else f"until {_day(key.expires)}"
        state = " (expired)" if key.expired(time.time()) else ""
        print(f"{key.id}  {key.name:<24}  {', '.join(key.roles) or '-':<24}  {until}{state}")
    if not keys:
        print("There are no keys. Make one with: sabir keys add NAME")


def _told(key: ApiKey) -> dict[str, object]:
    return {name: value for name, value in msgspec.structs.asdict(key).items() if name != "hash"}


def _day(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")
