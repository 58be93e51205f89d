"""``sabir check URL``: test anybody's server against the standard, clause by clause."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from pathlib import Path

from ..conformance.base import LEVELS, Outcome, Report
from ..conformance.report import as_json, as_junit, as_table
from ..conformance.suites import SUITES, Options, suite
from .ask import trust


def add(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "The variable SABIR_TOKEN holds the API key or token to show to the other side, if it wants one."
    parser.add_argument("url", metavar="URL", help="the server under test, e.g. http://127.0.0.1:8080")
    parser.add_argument("--protocol", choices=sorted(SUITES), default="nlip", help="which suite (default nlip)")
    parser.add_argument(
        "--binding",
        action="append",
        default=[],
        choices=["http", "websocket", "amqp"],
        metavar="B",
        help="only this binding: http, websocket or amqp",
    )
    parser.add_argument("--level", choices=LEVELS, default="should", help="what decides the exit code (default should)")
    parser.add_argument("--verbose", action="store_true", help="show what passed, too")
    parser.add_argument("--evidence", action="store_true", help="show the bytes of what failed")
    parser.add_argument("--json", action="store_true", help="print the report as JSON, bytes included")
    parser.add_argument("--junit", metavar="FILE", help="write a JUnit report for CI")
    parser.add_argument("--slow", type=float, default=0.0, metavar="S", help="seconds to wait between checks")
    parser.add_argument("--timeout", type=float, default=15.0, metavar="S", help="seconds for each check (default 15)")
    parser.add_argument("--ca", metavar="FILE", help="trust this certificate (PEM)")


def run(arguments: argparse.Namespace) -> int:
    token = os.environ.get("SABIR_TOKEN")
    counter = Counter() if sys.stderr.isatty() and not arguments.json else None
    options = Options(
        pause=arguments.slow,
        seconds=arguments.timeout,
        authorization=f"Bearer {token}" if token else None,
        trust=trust(arguments.ca) if arguments.ca else None,
        only=tuple(arguments.binding),
        on_outcome=counter,
    )
    url = arguments.url if "://" in arguments.url else f"http://{arguments.url}"
    report = asyncio.run(_checked(arguments.protocol, url, options))
    if counter is not None:
        counter.done()
    if arguments.junit:
        Path(arguments.junit).write_text(as_junit(report), encoding="utf-8")
    print(as_json(report) if arguments.json else as_table(report, verbose=arguments.verbose))
    failed = report.failed(arguments.level)
    if arguments.evidence and not arguments.json:
        for outcome in failed:
            print(f"\n{outcome.id}: {outcome.title}\n{outcome.reason}")
            for each in outcome.evidence:
                print("\n".join(f"  > {line}" for line in each.sent.splitlines()))
                print("\n".join(f"  < {line}" for line in each.received.splitlines()))
    return 1 if failed else 0


async def _checked(protocol: str, url: str, options: Options) -> Report:
    return await suite(protocol)(url, options)


class Counter:
    """How far it is, on one line of the terminal."""

    def __init__(self) -> None:
        self._number = 0

    def __call__(self, outcome: Outcome) -> None:
        self._number += 1
        print(f"\r\033[K{self._number} {outcome.binding} {outcome.id}", end="", file=sys.stderr, flush=True)

    def done(self) -> None:
        print("\r\033[K", end="", file=sys.stderr, flush=True)
