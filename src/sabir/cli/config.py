"""``sabir config check|show [sabir.yaml]``: validates a configuration, and prints the effective settings."""

from __future__ import annotations

import argparse
import re
from typing import Any, Final

import msgspec
import yaml

from sabir.config.build import gateway_of
from sabir.config.load import file_of, load
from sabir.config.schema import schema
from sabir.config.settings import Settings

from .printing import say, say_json

HIDDEN: Final = "(hidden)"
_SECRET: Final = re.compile(r"(?:^|_)(?:key|keys|secret|secrets|password|token|api_key|authorization)$")
_CREDENTIALS: Final = re.compile(r"(?<=://)[^/@\s]+(?=@)")


def add(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    check = actions.add_parser("check", help="check a configuration file, and print its settings without secrets")
    check.add_argument("config", nargs="?", help="configuration file (default: sabir.yaml, if it exists)")
    check.add_argument("--all", action="store_true", help="also show settings that have their default value")
    check.add_argument("--json", action="store_true", help="print JSON")
    actions.add_parser("schema", help="print the JSON Schema of configuration files, for editors")


def run(arguments: argparse.Namespace) -> int:
    if arguments.action == "schema":
        say_json(msgspec.json.format(msgspec.json.encode(schema()), indent=2))
        return 0
    settings = load(arguments.config)
    file = file_of(arguments.config)
    gateway = gateway_of(settings, file)
    shown = hidden(msgspec.to_builtins(settings))
    if not arguments.all:
        shown = changed(shown, hidden(msgspec.to_builtins(Settings())))
    if arguments.json:
        say_json(msgspec.json.encode({"file": str(file) if file else None, "settings": shown}))
        return 0
    say(f"{file or 'No file: the defaults'}: valid.")
    say(f"Agents: {', '.join(gateway.agents)} (default: {gateway.default})")
    say(f"Doors: {', '.join(door.name for door in gateway.doors)}")
    for reason in gateway.absent:
        say(f"Unavailable: {reason}")
    if shown:
        say(f"\n{yaml.safe_dump(shown, sort_keys=False, allow_unicode=True).strip()}")
    return 0


def changed(shown: dict[str, Any], usual: dict[str, Any]) -> dict[str, Any]:
    """Settings that differ from their default."""
    found = {}
    for name, value in shown.items():
        default = usual.get(name)
        if value == default:
            continue
        if isinstance(value, dict) and isinstance(default, dict):
            value = changed(value, default)
        found[name] = value
    return found


def hidden(value: Any, name: str = "") -> Any:
    """The settings without their secrets; ``env:NAME`` names a variable and stays."""
    if isinstance(value, dict):
        return {key: hidden(item, str(key)) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [hidden(item, name) for item in value]
    if not isinstance(value, str):
        return value
    if _SECRET.search(name) and value and not value.startswith("env:"):
        return HIDDEN
    return _CREDENTIALS.sub(HIDDEN, value)
