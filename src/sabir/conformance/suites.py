"""Which suites there are, and the running of them against one address."""

from __future__ import annotations

import importlib
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

import httpx2

from ..errors import BadSetup, MissingExtra
from . import http_target, nlip_http, nlip_ws, nlweb
from .base import Level, Outcome, Report, Wire, choose, run_checks

OnOutcome = Callable[[Outcome], None]


class Options:
    """How to check."""

    def __init__(
        self,
        *,
        level: Level = "ours",
        pause: float = 0.0,
        seconds: float = 15.0,
        authorization: str | None = None,
        trust: ssl.SSLContext | None = None,
        only: Sequence[str] = (),
        on_outcome: OnOutcome | None = None,
    ) -> None:
        self.level, self.pause, self.seconds = level, pause, seconds
        self.authorization, self.trust, self.only, self.on_outcome = authorization, trust, only, on_outcome

    def client(self) -> httpx2.AsyncClient:
        headers = {"user-agent": "sabir-check", "accept-encoding": "identity"}
        if self.authorization is not None:
            headers["authorization"] = self.authorization
        return httpx2.AsyncClient(
            verify=self.trust if self.trust is not None else True,
            headers=headers,
            follow_redirects=False,
            trust_env=False,
            timeout=self.seconds,
        )


Runner = Callable[[str, Options], Awaitable[Report]]


async def check_nlip(url: str, options: Options) -> Report:
    """The NLIP suite over the bindings that the address and ``only`` name.

    Raises:
        PeerUnavailable: nobody answers there.
    """
    scheme = urlsplit(url).scheme
    outcomes: list[Outcome] = []
    notes: list[str] = []
    bindings = options.only or (("amqp",) if scheme.startswith("amqp") else ("http", "websocket"))
    if scheme.startswith("amqp") != ("amqp" in bindings) or (scheme.startswith("amqp") and len(bindings) > 1):
        raise BadSetup(f"{scheme}:// is not an address for {' and '.join(bindings)}; check each binding at its own")
    if "http" in bindings:
        async with options.client() as client:
            place, note = await http_target.end_point(client, url)
            notes += [note] if note else []

            async def http(wire: Wire) -> http_target.HttpTarget:
                return http_target.HttpTarget(client, place, wire)

            checks = choose(nlip_http.SUITE.checks, options.level)
            outcomes += await run_checks(
                checks, http, pause=options.pause, seconds=options.seconds, on_outcome=options.on_outcome
            )
    if "websocket" in bindings:
        absent: set[str] = set()

        async def websocket(wire: Wire) -> nlip_ws.WsTarget:
            return nlip_ws.WsTarget(nlip_ws.base_of(url), wire, options.trust, absent, options.authorization)

        outcomes += await run_checks(
            choose(nlip_ws.SUITE.checks, options.level),
            websocket,
            pause=options.pause,
            seconds=options.seconds,
            on_outcome=options.on_outcome,
        )
    if "amqp" in bindings:
        outcomes += await _check_amqp(url, options)
    return Report(url.rpartition("@")[2] if "@" in url else url, "nlip", tuple(outcomes), tuple(notes))


async def _check_amqp(url: str, options: Options) -> list[Outcome]:
    """The AMQP suite; the address is ``amqp://user:password@broker/address-of-the-agent``."""
    try:
        suite = importlib.import_module("sabir.conformance.nlip_amqp")
    except ModuleNotFoundError as missing:
        raise MissingExtra("checking over AMQP", "amqp") from missing
    opened: list[Any] = []

    async def connect(wire: Wire) -> Any:
        opened.append(await suite.AmqpTarget(url, wire).open())
        return opened[-1]

    checks = choose(suite.SUITE.checks, options.level)
    try:
        return await run_checks(
            checks, connect, pause=options.pause, seconds=options.seconds, on_outcome=options.on_outcome
        )
    finally:
        for target in opened:
            await target.close()


async def check_nlweb(url: str, options: Options) -> Report:
    """The NLWeb suite, at ``/ask`` of the address."""
    async with options.client() as client:
        outcomes = await nlweb.run_suite(
            client,
            url,
            level=options.level,
            pause=options.pause,
            seconds=options.seconds,
            on_outcome=options.on_outcome,
        )
    return Report(url.rpartition("@")[2] if "@" in url else url, "nlweb", tuple(outcomes))


SUITES: Final[Mapping[str, Runner]] = {"nlip": check_nlip, "nlweb": check_nlweb}


def suite(protocol: str) -> Runner:
    """Raises:
    BadSetup: there is no suite for it.
    """
    runner = SUITES.get(protocol)
    if runner is None:
        raise BadSetup(f"there is no suite for {protocol}; there are {', '.join(SUITES)}")
    return runner
