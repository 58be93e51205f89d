"""``sabir ingest SOURCE… --site NAME``: read files, folders, feeds or pages into a searchable site."""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TextIO
from urllib.parse import urlsplit

import msgspec

from sabir.agents.site.settings import FOLDER
from sabir.aio import cancel_and_wait
from sabir.card import Card
from sabir.config.build import has_sites
from sabir.config.load import load
from sabir.config.settings import Settings
from sabir.errors import ConfigError, MissingExtra, SabirError
from sabir.guard.egress.addresses import Outbound

from .failures import failure_of, remark
from .failures import report as report_failure
from .numbers import whole_number
from .printing import say, say_json
from .seconds import pause

if TYPE_CHECKING:
    from sabir.agents.site.sites import HomeIndex
    from sabir.search import IngestProgress, IngestReport

_LOOK = 0.25  # seconds between two checks of the vectors' progress
_PRIVATE = "not on the open internet"
_SHOWN = 20  # problems printed one by one; the rest are counted


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="SOURCE", nargs="*", help="a file, a folder or an address")
    parser.add_argument(
        "--site", metavar="NAME", help="the name of the site, e.g. example.com (default: the host of the address)"
    )
    parser.add_argument("--base", metavar="URL", help="the URL at which a folder is published, for citations")
    parser.add_argument(
        "--map",
        metavar="PROPERTY=COLUMN",
        action="append",
        default=[],
        help="read a property from this column, e.g. offers.price=Cost; or set a constant: @type==Event",
    )
    parser.add_argument(
        "--crawl",
        action=argparse.BooleanOptionalAction,
        help="follow the links between the pages below the address, even if it has a sitemap "
        "(default: if the address ends in / and has no sitemap)",
    )
    parser.add_argument(
        "--max-pages", metavar="N", type=whole_number, help="read at most this many pages of a site (default 50000)"
    )
    parser.add_argument(
        "--delay", metavar="SECONDS", type=pause, help="seconds to wait between pages of one host (default 0.1)"
    )
    parser.add_argument("--sync", action="store_true", help="remove items that the source no longer has")
    parser.add_argument("--delete", action="store_true", help="remove the site and all of its items")
    parser.add_argument("--home", metavar="DIR", help="where state is kept (default ./.sabir)")
    parser.add_argument("--config", metavar="FILE", help="configuration file (default: sabir.yaml, if it exists)")
    parser.add_argument(
        "--no-vectors", action="store_true", help="do not compute vectors now; the gateway does it later"
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")


def run(arguments: argparse.Namespace) -> int:
    if bool(arguments.source) == arguments.delete:
        raise ConfigError("give a SOURCE to read, or --delete to remove the site")
    arguments.site = arguments.site or _host(arguments.source)
    if not arguments.delete:
        _check_name(arguments.site)
    _check_limits(arguments)
    arguments.map = mapping_of(arguments.map)
    settings = load(arguments.config, flags={"home": arguments.home})
    index = opened(settings)
    code, taken = asyncio.run(_run(arguments, index, Outbound(settings.outbound)))
    if not taken:  # the problem was reported; without items, the hint is pointless
        return code
    if not has_sites(settings):
        note = f"sites: [{{name: {arguments.site}}}]"
        remark(f"this configuration serves no sites; to serve this one, add {note}", as_json=arguments.json)
    elif _beside_sample(settings, index):
        note = "the sample sites are also served; 'sample: false' in sabir.yaml removes them"
        remark(note, as_json=arguments.json)
    return code


def _host(sources: list[str]) -> str:
    """The site that addresses of one host belong to.

    Raises:
        ConfigError: the addresses do not determine it.
    """
    hosts = {(urlsplit(source).hostname or "").removeprefix("www.") for source in sources}
    if len(hosts) != 1 or hosts == {""}:
        raise ConfigError("give --site NAME: the name of the site that the source belongs to")
    return hosts.pop()


def _check_limits(arguments: argparse.Namespace) -> None:
    """Raises:
    ConfigError: invalid limit.
    """
    if arguments.max_pages is not None and arguments.max_pages < 1:
        raise ConfigError(f"--max-pages: expected 1 or more, not {arguments.max_pages}")
    if arguments.delay is not None and not 0 <= arguments.delay <= 60:
        raise ConfigError(f"--delay: expected 0 to 60 seconds, not {arguments.delay:g}")


def _check_name(site: str) -> None:
    """Raises:
    ConfigError: this is not a valid agent name, and each site is an agent.
    """
    try:
        Card(site)
    except ValueError as exc:
        raise ConfigError(f"--site: {exc}") from None


def _beside_sample(settings: Settings, index: HomeIndex) -> bool:
    """Whether the sample was read here and stays, because nothing is configured."""
    from sabir.agents.site.sites import SAMPLES, noted  # noqa: PLC0415  (needs the search extra)

    here = noted(index.directory)
    return settings.sample is None and settings.sites is None and any(site.name in here for site in SAMPLES)


def mapping_of(given: list[str]) -> dict[str, str]:
    """The mapping from the flags.

    Raises:
        ConfigError: a flag has no equals sign.
    """
    pairs = [item.partition("=") for item in given]
    for item, (name, equals, column) in zip(given, pairs, strict=True):
        if not (name and equals and column):
            raise ConfigError(f"--map: expected PROPERTY=COLUMN such as name=Title, not {item!r}")
    return {name.strip(): column.strip() for name, _, column in pairs}


def opened(settings: Settings) -> HomeIndex:
    """The configured index.

    Raises:
        MissingExtra: the search extra is not installed.
    """
    try:
        from sabir.agents.site.sites import HomeIndex  # noqa: PLC0415  (needs the search extra)
    except ModuleNotFoundError as missing:
        raise MissingExtra("search", "search") from missing
    return HomeIndex(Path(settings.home) / FOLDER, settings.search)


async def _run(arguments: argparse.Namespace, index: HomeIndex, outbound: Outbound) -> tuple[int, bool]:
    """The exit code, and whether any items were read."""
    from sabir.agents.site.sites import removed  # noqa: PLC0415  (needs the search extra)

    try:
        if arguments.delete:
            there = [site.name for site in await index.sites()]
            if arguments.site not in there:
                hint = f"choose from {', '.join(there)}" if there else "no site has been ingested yet"
                raise ConfigError(f"there is no site {arguments.site!r}; {hint}")
            count = await removed(index, arguments.site)
            said = f"{count} {'item' if count == 1 else 'items'} removed"
            if arguments.json:
                say_json(msgspec.json.encode({"removed": count}))
            else:
                say(said)
            return 0, False
        return await _take_in(arguments, index, outbound)
    finally:
        await index.close()


async def _take_in(arguments: argparse.Namespace, index: HomeIndex, outbound: Outbound) -> tuple[int, bool]:
    from sabir.agents.site.sites import taken_in  # noqa: PLC0415  (needs the search extra)
    from sabir.search import Reach  # noqa: PLC0415  (needs the search extra)

    usual = Reach()
    reach = Reach(
        max_pages=usual.max_pages if arguments.max_pages is None else arguments.max_pages,
        delay=usual.delay if arguments.delay is None else arguments.delay,
        crawl=arguments.crawl,
    )
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
                reach=reach,
            )
        except SabirError as exc:
            bar.end()
            failure = failure_of(exc)
            if source not in failure.message:
                failure = failure._replace(message=f"{source}: {failure.message}")
            report_failure(failure, as_json=arguments.json)
            failed += 1
            continue
        bar.end()
        print_report(source, report, as_json=arguments.json)
        if any(problem.place == source and _PRIVATE in problem.reason for problem in report.problems):
            host = urlsplit(source).hostname or "HOST"
            remark(
                f"to read a private address, add to sabir.yaml: outbound: {{allow: [{host!r}]}}", as_json=arguments.json
            )
        failed += not report.items and not report.removed
        taken = taken or bool(report.items)
    if taken and not arguments.no_vectors:
        await _vectors(index, as_json=arguments.json)
    return (1 if failed else 0), taken


async def _vectors(index: HomeIndex, *, as_json: bool) -> None:
    """Wait until every vector is computed, and show the progress; the site can already be asked."""
    bar = Bar("vectors", sys.stderr)
    settling = asyncio.create_task(index.settled())
    try:
        while not settling.done():
            bar.show_share(await index.coverage())
            await asyncio.wait({settling}, timeout=_LOOK)
        await settling
    finally:
        bar.end()
        await cancel_and_wait([settling])
    share = await index.coverage()
    if share < 1:
        remark(f"vectors: {share:.0%} computed; a running gateway computes the rest", as_json=as_json)


def print_report(source: str, report: IngestReport, *, as_json: bool) -> None:
    """Print the result; on standard error, what could not be read and where."""
    if as_json:
        problems = [msgspec.to_builtins(item) for item in report.problems]
        say_json(msgspec.json.encode({"source": source, **msgspec.to_builtins(report), "problems": problems}))
        return
    for problem in report.problems[:_SHOWN]:
        say(f"  {problem}", file=sys.stderr)
    for line in _details(report):
        say(f"  {line}", file=sys.stderr)
    counts = [f"{report.read} read"]
    counts += [f"{report.added} new", f"{report.updated} changed", f"{report.unchanged} unchanged"]
    counts += [f"{report.removed} removed"] if report.removed else []
    counts += [f"{report.merged} merged"] if report.merged else []
    counts += [f"{report.not_read} skipped"] if report.not_read else []
    say(f"{source}: {', '.join(counts)}")


def _details(report: IngestReport) -> Iterator[str]:
    """Notes that the counts do not cover."""
    yield from report.notes
    shown = Counter(problem.reason for problem in report.problems[:_SHOWN])
    for reason, count in list(report.skipped.items())[:_SHOWN]:
        if count > shown[reason]:
            yield f"{count} skipped: {reason}"
    if report.unknown_columns:
        columns = ", ".join(report.unknown_columns)
        yield f"unknown columns, kept under their own names: {columns} (--map PROPERTY=COLUMN says what one is)"
    if not report.items and not report.not_read:
        yield "it contains nothing that can be read"


class Bar:
    """A progress bar on a terminal; silent elsewhere."""

    def __init__(self, name: str, out: TextIO, width: int = 28) -> None:
        self._name = name
        self._out = out
        self._width = width
        self._lives = out.isatty()

    def show(self, progress: IngestProgress) -> None:
        if self._lives:
            self._write(self._state(progress))

    def show_share(self, share: float) -> None:
        """The same if only a share is known: ``vectors [#####-----] 50 %``."""
        if self._lives:
            full = round(share * self._width)
            self._write(f" [{'#' * full}{'-' * (self._width - full)}] {share:.0%}")

    def _write(self, state: str) -> None:
        """Replace the line. It has to fit, because only one line can be replaced: a long name loses its front."""
        columns = shutil.get_terminal_size().columns - 1
        room = max(1, columns - len(state))
        name = self._name if len(self._name) <= room else f"…{self._name[len(self._name) - room + 1 :]}"
        self._out.write(f"\r\x1b[2K{f'{name}{state}'[:columns]}")
        self._out.flush()

    def _state(self, progress: IngestProgress) -> str:
        """The text after the name: `` [#####-----] 12/24  340 items  170/s  0:02 left``."""
        full = round(progress.share * self._width)
        left = progress.remaining
        return (
            f" [{'#' * full}{'-' * (self._width - full)}] {progress.done}/{progress.total}"
            f"  {progress.items} items  {progress.rate:.0f}/s" + (f"  {_clock(left)} left" if left is not None else "")
        )

    def end(self) -> None:
        if self._lives:
            self._out.write("\r\x1b[2K")
            self._out.flush()


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}"
