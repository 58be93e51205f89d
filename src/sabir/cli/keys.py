"""``sabir keys add|list|revoke``: API keys in the store of a gateway."""

from __future__ import annotations

import argparse
import asyncio
import time
from datetime import UTC, datetime

import msgspec

from sabir.config.settings import Settings
from sabir.errors import suggestion
from sabir.guard.identity.api_keys import ApiKey, ApiKeys
from sabir.stores.open import shown

from .audit import address_of, opened, where
from .failures import remark
from .printing import say, say_json

_MAX_DAYS = 36_500.0


def add(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    making = actions.add_parser("add", help="create a key, and print it (it cannot be shown again)")
    making.add_argument("name", metavar="NAME", help="a name for the key, such as the name of its owner")
    making.add_argument(
        "--role", metavar="R", action="append", default=[], help="give the key this role; may be repeated"
    )
    making.add_argument("--days", type=days, metavar="N", help="days until it expires (default: never)")
    listing = actions.add_parser("list", help="list keys by name and id; the keys themselves are not stored")
    taking = actions.add_parser("revoke", help="revoke a key")
    taking.add_argument("id", metavar="ID", help="the id that `sabir keys list` shows")
    for item in (making, listing, taking):
        where(item)
        item.add_argument("--json", action="store_true", help="print JSON")


def days(text: str) -> float:
    """The lifetime of a key, as given on the command line."""
    try:
        count = float(text)
    except ValueError:
        count = 0.0
    if not 0 < count <= _MAX_DAYS:
        raise argparse.ArgumentTypeError(f"expected days above 0 and up to {_MAX_DAYS:.0f}, not {text!r}")
    return count


def run(arguments: argparse.Namespace) -> int:
    return asyncio.run(_run(arguments))


async def _run(arguments: argparse.Namespace) -> int:
    async with opened(arguments, make=arguments.action == "add") as (store, settings):
        keys, place = ApiKeys(store), shown(address_of(settings))
        match arguments.action:
            case "add":
                expires = time.time() + arguments.days * 86400.0 if arguments.days else 0.0
                key, text = await keys.add(arguments.name, roles=tuple(arguments.role), expires=expires)
                if arguments.json:
                    say_json(_as_json(key, place, key=text))
                else:
                    _show_new(key, text, place, is_new=store.schema[0] == 0)
                _remark(arguments.role, settings, as_json=arguments.json)
            case "list":
                _show(await keys.list(), place, arguments.json)
            case "revoke":
                key, seconds = await keys.revoke(arguments.id), settings.identity.keys_seconds
                if arguments.json:
                    say_json(_as_json(key, place))
                else:
                    say(f"revoked {key.id} ({key.name}) in {place}")
                    say(f"A gateway that has just used it may accept it for up to {seconds:g} seconds more.")
    return 0


def _show_new(key: ApiKey, text: str, place: str, *, is_new: bool) -> None:
    say(f"{text}\n\nThis is the key of {key.name} ({key.id}). It is not stored and cannot be shown again.")
    made = ", which was just created" if is_new else ""
    say(f"It is valid for gateways whose store is {place}{made}.")


def _remark(roles: list[str], settings: Settings, *, as_json: bool) -> None:
    """Warn about a role that no rule names: once there are rules, it grants nothing."""
    known = {settings.observe.metrics_role, *(role for rule in settings.rights for role in rule.roles)}
    for role in roles if settings.rights else ():
        if role not in known:
            hint = suggestion(role, sorted(known), "they know")
            remark(f"no rule of the configuration knows the role {role!r}; {hint}", as_json=as_json)


def _show(keys: list[ApiKey], place: str, as_json: bool) -> None:
    if as_json:
        for key in keys:
            say_json(_as_json(key, place))
        return
    for key in keys:
        until = "for ever" if not key.expires else f"until {_day(key.expires)}"
        state = " (expired)" if key.expired(time.time()) else ""
        say(f"{key.id}  {key.name:<24}  {', '.join(key.roles) or '-':<24}  {until}{state}")
    count = f"{len(keys)} key{'s' if len(keys) > 1 else ''}"
    say(f"{count} in {place}" if keys else f"There are no keys in {place}. Make one with: sabir keys add NAME")


def _as_json(key: ApiKey, place: str, /, **more: str) -> bytes:
    data = {name: value for name, value in msgspec.structs.asdict(key).items() if name != "hash"}
    return msgspec.json.encode({**data, **more, "store": place})


def _day(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")
