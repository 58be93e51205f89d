"""``sabir audit verify|export``: whether the audit log is as it was written, and the log itself as JSON lines."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from ..config import Settings, load
from ..guard.audit import export, verify
from ..guard.seal import keys_from
from ..stores import Store, open_store


def add(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    verifying = actions.add_parser("verify", help="find lines that were removed, changed or moved")
    verifying.add_argument(
        "--anchor", metavar="N:HASH", help="what an earlier verify printed: shows also a log that was cut off or remade"
    )
    verifying.add_argument("--json", action="store_true", help="for programs")
    exporting = actions.add_parser("export", help="write the log as JSON lines")
    exporting.add_argument("--since", type=int, default=0, metavar="N", help="only lines behind this number")
    exporting.add_argument(
        "--redact", metavar="FIELD", action="append", help="hide this field (default: what the configuration says)"
    )
    for each in (verifying, exporting):
        where(each)


def where(parser: argparse.ArgumentParser) -> None:
    """The arguments that say whose store is meant."""
    parser.add_argument("--config", metavar="FILE", help="configuration file (default: sabir.yaml, if it is there)")
    parser.add_argument("--home", metavar="DIR", help="where state is kept (default ./.sabir)")
    parser.add_argument("--store", metavar="URL", help="sqlite:///path or postgresql://…")


@asynccontextmanager
async def opened(arguments: argparse.Namespace) -> AsyncIterator[tuple[Store, Settings]]:
    """The store that the arguments and the configuration mean, open."""
    settings = load(arguments.config, flags={"home": arguments.home, "store": arguments.store})
    store = open_store(settings.store or f"sqlite:///{Path(settings.home) / 'sabir.db'}")
    await store.open()
    try:
        yield store, settings
    finally:
        await store.close()


def run(arguments: argparse.Namespace) -> int:
    return asyncio.run(_verify(arguments) if arguments.action == "verify" else _export(arguments))


async def _verify(arguments: argparse.Namespace) -> int:
    async with opened(arguments) as (store, _):
        verdict = await verify(store, anchor=arguments.anchor)
    if arguments.json:
        print(msgspec.json.encode(verdict).decode())
        return 0 if verdict.whole else 1
    for each in verdict.broken:
        print(f"sabir: audit: {each}", file=sys.stderr)
    if verdict.whole:
        count = "1 line" if verdict.lines == 1 else f"{verdict.lines} lines"
        print(f"{count}, unbroken. Keep this elsewhere for the next time: --anchor {verdict.anchor}")
    return 0 if verdict.whole else 1


async def _export(arguments: argparse.Namespace) -> int:
    async with opened(arguments) as (store, settings):
        redact = settings.audit.redact if arguments.redact is None else tuple(arguments.redact)
        secret = keys_from(Path(settings.home), settings.secrets)[0] if redact else b""
        async for line in export(store, redact=redact, secret=secret, since=arguments.since):
            sys.stdout.buffer.write(line)
        sys.stdout.flush()
    return 0
