"""``sabir check URL``: test anybody's server against the standard, clause by clause."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from pathlib import Path
from typing import Final

from sabir.conformance.base import LEVELS, CheckOutcome, CheckReport
from sabir.conformance.report import INDENT, as_evidence, as_json, as_junit, as_table
from sabir.conformance.suites import BINDINGS, Options, suite, suite_names

from .address import address_of
from .ask import trust
from .printing import say, say_json
from .seconds import pause, seconds
from .wrapping import wrapped

SCHEMES: Final = ("http", "https", "ws", "wss", "amqp", "amqps")


def add(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "SABIR_URL is the default address; SABIR_TOKEN is the API key or token to send."
    parser.add_argument("url", metavar="URL", nargs="?", help="the server under test, e.g. http://127.0.0.1:8080")
    parser.add_argument(
        "--protocol", choices=sorted(suite_names()), default="nlip", help="the protocol to test (default nlip)"
    )
    parser.add_argument(
        "--binding",
        action="append",
        default=[],
        choices=list(BINDINGS),
        metavar="B",
        help=f"test only this binding of NLIP: {', '.join(BINDINGS)}",
    )
    parser.add_argument(
        "--level",
        choices=LEVELS,
        default="should",
        help="count failures of this level and of stricter ones: must and should are words of the standard, ours are "
        "decisions of this project (default should)",
    )
    parser.add_argument("--verbose", action="store_true", help="list every check, including those that passed")
    parser.add_argument("--evidence", action="store_true", help="show the bytes of the checks that failed")
    parser.add_argument("--json", action="store_true", help="print the report as JSON, including the bytes")
    parser.add_argument("--junit", metavar="FILE", help="write a JUnit report for CI")
    parser.add_argument("--slow", type=pause, default=0.0, metavar="S", help="seconds to wait between checks")
    parser.add_argument(
        "--timeout", type=seconds, default=15.0, metavar="S", help="seconds that a check may take (default 15)"
    )
    parser.add_argument("--ca", metavar="FILE", help="trust this certificate (PEM)")


def run(arguments: argparse.Namespace) -> int:
    url = address_of(arguments.url, SCHEMES)
    token = os.environ.get("SABIR_TOKEN")
    counter = CheckProgress() if sys.stderr.isatty() and not arguments.json else None
    options = Options(
        pause=arguments.slow,
        seconds=arguments.timeout,
        authorization=f"Bearer {token}" if token else None,
        trust=trust(arguments.ca) if arguments.ca else None,
        only=tuple(arguments.binding),
        on_outcome=counter,
    )
    report = asyncio.run(_checked(arguments.protocol, url, options))
    if counter is not None:
        counter.done()
    if arguments.junit:
        Path(arguments.junit).write_text(as_junit(report), encoding="utf-8")
    if arguments.json:
        say_json(as_json(report).encode())
    else:
        say(wrapped(as_table(report, verbose=arguments.verbose), indent=INDENT))
    failed = report.failed(arguments.level)
    if arguments.evidence and not arguments.json:
        say(as_evidence(failed))
    return 1 if failed or report.stopped else 0


async def _checked(protocol: str, url: str, options: Options) -> CheckReport:
    return await suite(protocol)(url, options)


class CheckProgress:
    """Shows the progress on one line of the terminal."""

    def __init__(self) -> None:
        self._number = 0

    def __call__(self, outcome: CheckOutcome) -> None:
        self._number += 1
        print(f"\r\033[K{self._number} {outcome.binding} {outcome.id}", end="", file=sys.stderr, flush=True)

    def done(self) -> None:
        print("\r\033[K", end="", file=sys.stderr, flush=True)
