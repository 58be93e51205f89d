"""``sabir audit verify|export``: checks that the audit log is unchanged, or exports it as JSON lines."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from sabir.config.load import load
from sabir.config.settings import Settings
from sabir.errors import ConfigError
from sabir.guard.audit.log import check_redacted, export
from sabir.guard.audit.verify import Verdict, verify, verify_export
from sabir.guard.seal import keys_from
from sabir.stores import Store, open_store
from sabir.stores.open import is_there, shown
from sabir.stores.sealing import cipher_of

from .numbers import whole_number
from .printing import say, say_json


def add(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    verifying = actions.add_parser("verify", help="find entries that were removed, changed or moved")
    verifying.add_argument(
        "file",
        nargs="?",
        metavar="FILE",
        help="an exported log, or part of one; - reads standard input (default: the log in the store)",
    )
    verifying.add_argument(
        "--anchor",
        metavar="N:HASH",
        help="the anchor that an earlier verify printed; with it, a rewritten log or a truncated export is detected "
        "as well",
    )
    verifying.add_argument("--json", action="store_true", help="print JSON")
    exporting = actions.add_parser("export", help="write the log as JSON lines")
    exporting.add_argument("--since", type=whole_number, default=0, metavar="N", help="only entries after this number")
    exporting.add_argument(
        "--redact",
        metavar="FIELD",
        type=field,
        action="append",
        help="hide this field; may be repeated (default: as configured)",
    )
    for item in (verifying, exporting):
        where(item)


def field(text: str) -> str:
    """A field that can be hidden, as given on the command line."""
    try:
        check_redacted([text])
    except ValueError as exc:
        raise argparse.ArgumentTypeError(str(exc).removeprefix("redact: ")) from None
    return text


def where(parser: argparse.ArgumentParser) -> None:
    """The arguments that choose the store."""
    parser.add_argument("--config", metavar="FILE", help="configuration file (default: sabir.yaml, if it exists)")
    parser.add_argument("--home", metavar="DIR", help="where state is kept (default ./.sabir)")
    parser.add_argument("--store", metavar="URL", help="the store: sqlite:///path or postgresql://…")


@asynccontextmanager
async def opened(arguments: argparse.Namespace, *, make: bool = False) -> AsyncIterator[tuple[Store, Settings]]:
    """The open store that the arguments and the configuration describe.

    Raises:
        ConfigError: there is no store, and none may be created.
    """
    settings = load(arguments.config, flags={"home": arguments.home, "store": arguments.store})
    address = address_of(settings)
    if not make and not await is_there(address):
        raise ConfigError(f"there is no store at {shown(address)}; say where it is with --config, --home or --store")
    store = open_store(address, cipher=cipher_of(settings.encryption))
    await store.open()
    try:
        yield store, settings
    finally:
        await store.close()


def address_of(settings: Settings) -> str:
    """The address of the store of a gateway with these settings."""
    return settings.store or f"sqlite:///{Path(settings.home) / 'sabir.db'}"


def run(arguments: argparse.Namespace) -> int:
    if arguments.action == "export":
        return asyncio.run(_export(arguments))
    verdict = _verified_file(arguments) if arguments.file is not None else asyncio.run(_verified_store(arguments))
    if arguments.json:
        say_json(msgspec.json.encode(verdict))
        return 0 if verdict.whole else 1
    for item in verdict.broken:
        say(f"sabir: audit: {item}", file=sys.stderr)
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
    except OSError as exc:
        raise ConfigError(f"{arguments.file}: {exc.strerror or exc}") from exc


def _say_whole(verdict: Verdict) -> None:
    count = "1 line" if verdict.lines == 1 else f"{verdict.lines} lines"
    which = f" ({verdict.first} to {verdict.last})" if verdict.first > 1 else ""
    say(f"{count}{which}, unbroken. Keep this anchor elsewhere for the next check: --anchor {verdict.anchor}")
    if verdict.redacted:
        say(f"{verdict.redacted} of them are redacted: their order is intact, but their content cannot be checked.")


async def _export(arguments: argparse.Namespace) -> int:
    async with opened(arguments) as (store, settings):
        redact = settings.audit.redact if arguments.redact is None else tuple(arguments.redact)
        secret = keys_from(Path(settings.home), settings.secrets)[0] if redact else b""
        async for line in export(store, redact=redact, secret=secret, since=arguments.since):
            sys.stdout.buffer.write(line)
        sys.stdout.flush()
    return 0
