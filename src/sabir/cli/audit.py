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
from ..errors import BadSetup
from ..guard.audit import check_redacted, export
from ..guard.seal import keys_from
from ..guard.verifying import Verdict, verify, verify_export
from ..stores import Store, open_store
from ..stores.open import is_there, shown


def add(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    verifying = actions.add_parser("verify", help="find lines that were removed, changed or moved")
    verifying.add_argument(
        "file", nargs="?", metavar="FILE", help="a log that export wrote, or a part of one; - reads it from the input"
    )
    verifying.add_argument(
        "--anchor", metavar="N:HASH", help="what an earlier verify printed: shows also a log that was cut off or remade"
    )
    verifying.add_argument("--json", action="store_true", help="for programs")
    exporting = actions.add_parser("export", help="write the log as JSON lines")
    exporting.add_argument("--since", type=int, default=0, metavar="N", help="only lines behind this number")
    exporting.add_argument(
        "--redact",
        metavar="FIELD",
        type=field,
        action="append",
        help="hide this field (default: what the configuration says)",
    )
    for each in (verifying, exporting):
        where(each)


def field(text: str) -> str:
    """A field that can be hidden, as it is written on the command line."""
    try:
        check_redacted([text])
    except ValueError as wrong:
        raise argparse.ArgumentTypeError(str(wrong).removeprefix("redact: ")) from None
    return text


def where(parser: argparse.ArgumentParser) -> None:
    """The arguments that say whose store is meant."""
    parser.add_argument("--config", metavar="FILE", help="configuration file (default: sabir.yaml, if it is there)")
    parser.add_argument("--home", metavar="DIR", help="where state is kept (default ./.sabir)")
    parser.add_argument("--store", metavar="URL", help="sqlite:///path or postgresql://…")


@asynccontextmanager
async def opened(arguments: argparse.Namespace, *, make: bool = False) -> AsyncIterator[tuple[Store, Settings]]:
    """The store that the arguments and the configuration mean, open.

    Raises:
        BadSetup: there is none, and none is to be made.
    """
    settings = load(arguments.config, flags={"home": arguments.home, "store": arguments.store})
    address = address_of(settings)
    if not make and not await is_there(address):
        raise BadSetup(f"there is no store at {shown(address)}; say where it is with --config, --home or --store")
    store = open_store(address)
    await store.open()
    try:
        yield store, settings
    finally:
        await store.close()


def address_of(settings: Settings) -> str:
    """Where the store of a gateway with these settings is."""
    return settings.store or f"sqlite:///{Path(settings.home) / 'sabir.db'}"


def run(arguments: argparse.Namespace) -> int:
    if arguments.action == "export":
        return asyncio.run(_export(arguments))
    verdict = _verified_file(arguments) if arguments.file is not None else asyncio.run(_verified_store(arguments))
    if arguments.json:
        print(msgspec.json.encode(verdict).decode())
        return 0 if verdict.whole else 1
    for each in verdict.broken:
        print(f"sabir: audit: {each}", file=sys.stderr)
    if verdict.whole:
        _say_whole(verdict)
    return 0 if verdict.whole else 1


async def _verified_store(arguments: argparse.Namespace) -> Verdict:
    async with opened(arguments) as (store, _):
        return await verify(store, anchor=arguments.anchor)


def _verified_file(arguments: argparse.Namespace) -> Verdict:
    if arguments.file == "-":
        return verify_export(sys.stdin.buffer, anchor=arguments.anchor)
    try:
        with Path(arguments.file).open("rb") as file:
            return verify_export(file, anchor=arguments.anchor)
    except OSError as wrong:
        raise BadSetup(f"{arguments.file}: {wrong.strerror or wrong}") from wrong


def _say_whole(verdict: Verdict) -> None:
    count = "1 line" if verdict.lines == 1 else f"{verdict.lines} lines"
    which = f" ({verdict.first} to {verdict.last})" if verdict.first > 1 else ""
    print(f"{count}{which}, unbroken. Keep this elsewhere for the next time: --anchor {verdict.anchor}")
    if verdict.redacted:
        print(f"{verdict.redacted} of them are redacted: they are in their places, what they say cannot be checked.")


async def _export(arguments: argparse.Namespace) -> int:
    async with opened(arguments) as (store, settings):
        redact = settings.audit.redact if arguments.redact is None else tuple(arguments.redact)
        secret = keys_from(Path(settings.home), settings.secrets)[0] if redact else b""
        async for line in export(store, redact=redact, secret=secret, since=arguments.since):
            sys.stdout.buffer.write(line)
        sys.stdout.flush()
    return 0
