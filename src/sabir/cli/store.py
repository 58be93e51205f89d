"""``sabir store migrate|copy``: bring a store to this version's schema, or move it to another kind of store."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from ..config import load
from ..errors import Conflict
from ..stores import open_store
from ..stores.copying import copy
from ..stores.open import shown, sqlite_path
from ..tasks.signs import NODES, living


def add(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    migrating = actions.add_parser("migrate", help="bring the schema up to date (a starting gateway does so too)")
    migrating.add_argument("store", nargs="?", metavar="URL", help="default: the store of the configuration")
    migrating.add_argument("--config", metavar="FILE", help="configuration file (default: sabir.yaml, if it is there)")
    migrating.add_argument("--home", metavar="DIR", help="where state is kept (default ./.sabir)")
    copying = actions.add_parser("copy", help="copy all rows into an empty store, and verify that they arrived")
    copying.add_argument("source", metavar="FROM", help="sqlite:///path or postgresql://…")
    copying.add_argument("target", metavar="TO", help="sqlite:///path or postgresql://…; must be empty")
    copying.add_argument("--force", action="store_true", help="also while a gateway runs on one of them")
    for each in (migrating, copying):
        each.add_argument("--json", action="store_true", help="for programs")


def run(arguments: argparse.Namespace) -> int:
    return asyncio.run(_migrate(arguments) if arguments.action == "migrate" else _copy(arguments))


async def _migrate(arguments: argparse.Namespace) -> int:
    settings = load(arguments.config, flags={"home": arguments.home, "store": arguments.store})
    store = open_store(settings.store or f"sqlite:///{Path(settings.home) / 'sabir.db'}")
    await store.open()
    await store.close()
    before, now = store.schema
    if arguments.json:
        print(msgspec.json.encode({"before": before, "now": now}).decode())
    elif before == now:
        print(f"The store is up to date (schema {now}).")
    else:
        print(f"The store is migrated from schema {before} to {now}.")
    return 0


async def _copy(arguments: argparse.Namespace) -> int:
    if not arguments.force:
        for address, what in ((arguments.source, "what it writes meanwhile would stay behind"), (arguments.target, "")):
            await _check_quiet(address, what or "it would not know of the rows that come")
    begun = time.monotonic()
    progress = Progress(quiet=arguments.json or not sys.stderr.isatty())
    counts = await copy(arguments.source, arguments.target, progress.tell)
    progress.end()
    if arguments.json:
        print(msgspec.json.encode(counts).decode())
        return 0
    for table, count in counts.items():
        print(f"  {table:<14} {count:>12,}")
    print(f"{sum(counts.values()):,} rows copied and verified in {time.monotonic() - begun:.1f} s.")
    print("Copy secret.key, too, into the home of the new gateway (or give it the same `secrets:`):")
    print("what was sealed with it, such as the conversation tokens that clients hold, does not open without.")
    return 0


async def _check_quiet(address: str, why: str) -> None:
    """Raises:
    Conflict: a gateway runs on this store, or is about to stop.
    """
    kind = urlsplit(address).scheme
    if kind == "sqlite":
        busy = bool(living(sqlite_path(address).parent / NODES))
    elif kind in ("postgresql", "postgres"):
        busy = await _busy_postgres(address)
    else:
        return  # which copying refuses
    if busy:
        raise Conflict(f"copy: a gateway runs on {shown(address)}, and {why}; stop it first, or give --force")


async def _busy_postgres(address: str) -> bool:
    open_store(address)  # says what is wrong with the address, or not installed
    from ..stores.copying_postgres import in_use  # noqa: PLC0415 - an extra

    return await in_use(address)


class Progress:
    """A line on the terminal that says how far it is."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._shown = 0.0

    def tell(self, table: str, done: int, total: int) -> None:
        now = time.monotonic()
        if self._quiet or (done < total and now - self._shown < 0.1):
            return
        self._shown = now
        filled = 30 * done // max(total, 1)
        print(f"\r{table:<14} [{'#' * filled:<30}] {done:,} of {total:,}\033[K", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        if not self._quiet:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
