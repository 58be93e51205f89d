"""``sabir ingest SOURCE… --site NAME``: read files, folders, feeds or pages into a site that can be asked."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import msgspec

from ..agents.sources import FOLDER
from ..card import Card
from ..config import Settings, has_sites, load
from ..errors import BadSetup, MissingExtra, SabirError
from ..guard.outbound import Outbound

if TYPE_CHECKING:
    from ..agents.sites import HomeIndex
    from ..search import Progress, Report

_SHOWN = 20  # problems printed one by one; the rest are counted


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="SOURCE", nargs="*", help="a file, a folder or an address")
    parser.add_argument("--site", metavar="NAME", required=True, help="the site it belongs to, e.g. example.com")
    parser.add_argument("--base", metavar="URL", help="where a folder's files are published, so that answers cite that")
    parser.add_argument(
        "--map",
        metavar="PROPERTY=COLUMN",
        action="append",
        default=[],
        help="a column of a CSV file and what it is, e.g. offers.price=Cost; a constant: @type==Event",
    )
    parser.add_argument("--sync", action="store_true", help="also remove what the source no longer has")
    parser.add_argument("--delete", action="store_true", help="remove the site and all of its items")
    parser.add_argument("--home", metavar="DIR", help="where state is kept (default ./.sabir)")
    parser.add_argument("--config", metavar="FILE", help="configuration file (default: sabir.yaml, if it is there)")
    parser.add_argument("--no-vectors", action="store_true", help="do not compute vectors now; the gateway will")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")


def run(arguments: argparse.Namespace) -> int:
    if bool(arguments.source) == arguments.delete:
        raise BadSetup("give a SOURCE to read, or --delete to remove the site")
    if not arguments.delete:
        _check_name(arguments.site)
    arguments.map = mapping_of(arguments.map)
    settings = load(arguments.config, flags={"home": arguments.home})
    index = opened(settings)
    code, taken = asyncio.run(_run(arguments, index, Outbound(settings.outbound)))
    if not taken:  # what is wrong was told; where the items are served is no matter without any
        return code
    if not has_sites(settings):
        note = f"sites: [{{name: {arguments.site}}}]"
        print(f"sabir: no sites are served with this configuration; to have this one, add {note}", file=sys.stderr)
    elif _beside_sample(settings, index):
        print("sabir: the sample sites answer beside it; 'sample: false' in sabir.yaml removes them", file=sys.stderr)
    return code


def _check_name(site: str) -> None:
    """Raises:
    BadSetup: no agent can have this name, and each site is one.
    """
    try:
        Card(site)
    except ValueError as wrong:
        raise BadSetup(f"--site: {wrong}") from None


def _beside_sample(settings: Settings, index: HomeIndex) -> bool:
    """Whether the sample was read here and stays, because nothing is configured that says otherwise."""
    from ..agents.sites import SAMPLES, noted  # noqa: PLC0415  (needs the search extra)

    here = noted(index.directory)
    return settings.sample is None and settings.sites is None and any(site.name in here for site in SAMPLES)


def mapping_of(given: list[str]) -> dict[str, str]:
    """The mapping that the flags write.

    Raises:
        BadSetup: one has no equals sign.
    """
    pairs = [each.partition("=") for each in given]
    for each, (name, equals, column) in zip(given, pairs, strict=True):
        if not (name and equals and column):
            raise BadSetup(f"--map: expected PROPERTY=COLUMN such as name=Title, not {each!r}")
    return {name.strip(): column.strip() for name, _, column in pairs}


def opened(settings: Settings) -> HomeIndex:
    """The index that the settings name.

    Raises:
        MissingExtra: the search extra is not installed.
    """
    try:
        from ..agents.sites import HomeIndex  # noqa: PLC0415  (needs the search extra)
    except ModuleNotFoundError as missing:
        raise MissingExtra("search", "search") from missing
    return HomeIndex(Path(settings.home) / FOLDER, settings.search)


async def _run(arguments: argparse.Namespace, index: HomeIndex, outbound: Outbound) -> tuple[int, bool]:
    """The exit code, and whether there is anything now that was read."""
    from ..agents.sites import removed  # noqa: PLC0415  (needs the search extra)

    try:
        if arguments.delete:
            there = [site.name for site in await index.sites()]
            if arguments.site not in there:
                raise BadSetup(f"there is no site {arguments.site!r} here; there are {', '.join(there) or 'none'}")
            count = await removed(index, arguments.site)
            said = f"{count} {'item' if count == 1 else 'items'} removed"
            print(msgspec.json.encode({"removed": count}).decode() if arguments.json else said)
            return 0, False
        return await _take_in(arguments, index, outbound)
    finally:
        await index.close()


async def _take_in(arguments: argparse.Namespace, index: HomeIndex, outbound: Outbound) -> tuple[int, bool]:
    from ..agents.sites import taken_in  # noqa: PLC0415  (needs the search extra)

    failed, taken = 0, False
    for source in arguments.source:
        bar = Bar(source, sys.stderr)
        try:
            report = await taken_in(
                index,
                source,
                site=arguments.site,
                outbound=outbound,
                sync=arguments.sync,
                mapping=arguments.map or None,
                base=arguments.base or "",
                progress=bar.show,
            )
        except SabirError as wrong:
            bar.end()
            said = str(wrong)
            print(f"sabir: {said if source in said else f'{source}: {said}'}", file=sys.stderr)
            failed += 1
            continue
        bar.end()
        tell(source, report, as_json=arguments.json)
        failed += bool(report.problems) and not report.items
        taken = taken or bool(report.items)
    if taken and not arguments.no_vectors:
        if sys.stderr.isatty():
            print("computing vectors; the site can be asked already", file=sys.stderr)
        await index.settled()
    return (1 if failed else 0), taken


def tell(source: str, report: Report, *, as_json: bool) -> None:
    """What was done; what could not be read, and where it stands, on standard error."""
    if as_json:
        problems = [msgspec.to_builtins(each) for each in report.problems]
        print(msgspec.json.encode({"source": source, **msgspec.to_builtins(report), "problems": problems}).decode())
        return
    for problem in report.problems[:_SHOWN]:
        print(f"  {problem}", file=sys.stderr)
    if len(report.problems) > _SHOWN:
        print(f"  … and {len(report.problems) - _SHOWN} more problems", file=sys.stderr)
    counts = [f"{report.added} new", f"{report.updated} changed", f"{report.unchanged} unchanged"]
    counts += [f"{report.removed} removed"] if report.removed else []
    counts += [f"{len(report.problems)} not read"] if report.problems else []
    print(f"{source}: {', '.join(counts)}")


class Bar:
    """A progress bar on a terminal; silent elsewhere."""

    def __init__(self, name: str, out: TextIO, width: int = 28) -> None:
        self._name, self._out, self._width = name[-40:], out, width
        self._lives = out.isatty()

    def show(self, progress: Progress) -> None:
        if self._lives:
            self._out.write(f"\r\x1b[2K{self.line(progress)}")
            self._out.flush()

    def line(self, progress: Progress) -> str:
        """``feed.xml [#####-----] 12/24  340 items  170/s  0:02 left``."""
        full = round(progress.share * self._width)
        left = progress.remaining
        return (
            f"{self._name} [{'#' * full}{'-' * (self._width - full)}] {progress.done}/{progress.total}"
            f"  {progress.items} items  {progress.rate:.0f}/s" + (f"  {_clock(left)} left" if left is not None else "")
        )

    def end(self) -> None:
        if self._lives:
            self._out.write("\r\x1b[2K")
            self._out.flush()


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}"
