"""``sabir store migrate|copy|backup|restore``: migrate, move, back up and restore a store."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from sabir.config.load import load
from sabir.errors import Conflict
from sabir.stores import open_store
from sabir.stores.backup import backup, restore
from sabir.stores.copy import copy
from sabir.stores.open import shown, sqlite_path
from sabir.stores.sealing import ContentCipher, EncryptionSettings, cipher_of
from sabir.tasks.liveness import NODES, living

from .printing import say, say_json


def add(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    migrating = actions.add_parser("migrate", help="update the schema of the store, as a gateway does when it starts")
    migrating.add_argument("store", nargs="?", metavar="URL", help="the store (default: the one in the configuration)")
    migrating.add_argument("--config", metavar="FILE", help="configuration file (default: sabir.yaml, if it exists)")
    migrating.add_argument("--home", metavar="DIR", help="where state is kept (default ./.sabir)")
    copying = actions.add_parser("copy", help="copy all rows into an empty store, and verify that they arrived")
    copying.add_argument("source", metavar="FROM", help="the store to copy: sqlite:///path or postgresql://…")
    copying.add_argument("target", metavar="TO", help="the new, empty store: sqlite:///path or postgresql://…")
    copying.add_argument("--from-key", metavar="KEY", help="key of FROM, if it is encrypted: env:NAME")
    copying.add_argument("--to-key", metavar="KEY", help="key to encrypt TO with: env:NAME")
    copying.add_argument("--force", action="store_true", help="copy even if a gateway uses one of the stores")
    backing = actions.add_parser("backup", help="write all state into one file; the gateway may keep running")
    backing.add_argument("file", metavar="FILE", help="the file to write, such as sabir-backup.tar.gz")
    backing.add_argument("--force", action="store_true", help="overwrite an existing file")
    restoring = actions.add_parser("restore", help="restore a backup into an empty home")
    restoring.add_argument("file", metavar="FILE", help="a file that `sabir store backup` wrote")
    for command in (backing, restoring):
        command.add_argument("--home", metavar="DIR", help="where state is kept (default ./.sabir)")
        command.add_argument("--config", metavar="FILE", help="configuration file (default: sabir.yaml, if it exists)")
    for command in (migrating, copying, backing, restoring):
        command.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    if arguments.action in ("backup", "restore"):
        return _backup(arguments) if arguments.action == "backup" else _restore(arguments)
    return asyncio.run(_migrate(arguments) if arguments.action == "migrate" else _copy(arguments))


def _backup(arguments: argparse.Namespace) -> int:
    settings = load(arguments.config, flags={"home": arguments.home})
    report = backup(Path(settings.home), Path(arguments.file), settings.store, overwrite=arguments.force)
    if arguments.json:
        say_json(msgspec.json.encode(report))
        return 0
    held = f"{report.files} files of {settings.home}, {report.bytes:,} bytes"
    say(f"{arguments.file}: {held}. It holds secret.key: keep it safe.")
    return 0


def _restore(arguments: argparse.Namespace) -> int:
    settings = load(arguments.config, flags={"home": arguments.home})
    report = restore(Path(arguments.file), Path(settings.home))
    if arguments.json:
        say_json(msgspec.json.encode(report))
        return 0
    say(f"{settings.home}: {report.files} files, {report.bytes:,} bytes. Start the gateway with this home.")
    return 0


async def _migrate(arguments: argparse.Namespace) -> int:
    settings = load(arguments.config, flags={"home": arguments.home, "store": arguments.store})
    store = open_store(settings.store or f"sqlite:///{Path(settings.home) / 'sabir.db'}")
    await store.open()
    await store.close()
    before, now = store.schema
    if arguments.json:
        say_json(msgspec.json.encode({"before": before, "now": now}))
    elif before == now:
        say(f"The store is up to date (schema {now}).")
    else:
        say(f"The store is migrated from schema {before} to {now}.")
    return 0


async def _copy(arguments: argparse.Namespace) -> int:
    if not arguments.force:
        for address, what in (
            (arguments.source, "what it writes during the copy would be missing"),
            (arguments.target, ""),
        ):
            await _check_quiet(address, what or "it would not see the copied rows")
    began = time.monotonic()
    progress = CopyProgress(quiet=arguments.json or not sys.stderr.isatty())
    opens, seals = (_cipher(key) for key in (arguments.from_key, arguments.to_key))
    counts = await copy(arguments.source, arguments.target, progress.show_progress, opens=opens, seals=seals)
    progress.end()
    if arguments.json:
        say_json(msgspec.json.encode(counts))
        return 0
    for table, count in counts.items():
        say(f"  {table:<14} {count:>12,}")
    say(f"{sum(counts.values()):,} rows copied and verified in {time.monotonic() - began:.1f} s.")
    say("Also copy secret.key into the home of the new gateway (or give it the same `secrets:`):")
    say("without it, tokens that clients hold, such as conversation tokens, cannot be opened.")
    return 0


def _cipher(key: str | None) -> ContentCipher | None:
    return cipher_of(EncryptionSettings(key)) if key else None


async def _check_quiet(address: str, why: str) -> None:
    """Raises:
    Conflict: a gateway runs on this store, or is stopping.
    """
    kind = urlsplit(address).scheme
    if kind == "sqlite":
        busy = bool(living(sqlite_path(address).parent / NODES))
    elif kind in ("postgresql", "postgres"):
        busy = await _busy_postgres(address)
    else:
        return  # which the copy itself rejects
    if busy:
        raise Conflict(f"copy: a gateway runs on {shown(address)}, and {why}; stop it first, or give --force")


async def _busy_postgres(address: str) -> bool:
    open_store(address)  # reports an invalid address, or a missing extra
    from sabir.stores.postgres.copy import in_use  # noqa: PLC0415 - an extra

    return await in_use(address)


class CopyProgress:
    """A progress line on the terminal."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._shown = 0.0

    def show_progress(self, table: str, done: int, total: int) -> None:
        now = time.monotonic()
        if self._quiet or (done < total and now - self._shown < 0.1):
            return
        self._shown = now
        filled = 30 * done // max(total, 1)
        print(f"\r{table:<14} [{'#' * filled:<30}] {done:,} of {total:,}\033[K", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        if not self._quiet:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
