"""Which suites there are, and the running of them against one address."""

from __future__ import annotations

import importlib
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

import httpx2
import msgspec

from ..errors import BadSetup, MissingExtra, PeerRefused
from . import http_target, nlip_http, nlip_ws, nlweb
from .base import Declined, Failed, Level, Outcome, Pace, Report, Wire, choose, run_checks

OnOutcome = Callable[[Outcome], None]
MOST_PAUSE: Final = 5.0  # seconds between checks over WebSocket, where a refusal does not say how long to wait


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


async def show_credentials(url: str, options: Options) -> None:
    """Show the credentials once, before each check would: a server may stop to listen to who keeps showing wrong ones.

    Raises:
        PeerRefused: they are not known there.
        PeerUnavailable: nobody answers there.
    """
    if options.authorization is None:
        return
    async with options.client() as client:
        target = http_target.HttpTarget(client, url, Wire())
        body = msgspec.json.encode({**http_target.HELLO, "query": {"text": "Hello"}})  # an NLIP and an NLWeb question
        try:
            answer = await target.send("POST", url, body, {"content-type": "application/json"})
        except (Failed, Declined):  # what is wrong with it, the checks will tell
            return
    if answer.status == 401:
        raise PeerRefused(url, "these credentials are not known there; SABIR_TOKEN may be mistyped, expired or revoked")


def _over_http(url: str) -> str:
    """Where messages go over HTTP at the address of a WebSocket or of a whole server."""
    parts = urlsplit(url)
    if parts.scheme in ("ws", "wss"):
        return f"{'https' if parts.scheme == 'wss' else 'http'}://{parts.netloc}/nlip"
    return url if parts.path not in ("", "/") else f"{parts.scheme}://{parts.netloc}/nlip"


Runner = Callable[[str, Options], Awaitable[Report]]


async def check_nlip(url: str, options: Options) -> Report:
    """The NLIP suite over the bindings that the address and ``only`` name.

    Raises:
        PeerUnavailable: nobody answers there.
        PeerRefused: the credentials are not known there.
    """
    scheme = urlsplit(url).scheme
    outcomes: list[Outcome] = []
    notes: list[str] = []
    pace = Pace()
    bindings = options.only or (("amqp",) if scheme.startswith("amqp") else ("http", "websocket"))
    if scheme.startswith("amqp") != ("amqp" in bindings) or (scheme.startswith("amqp") and len(bindings) > 1):
        raise BadSetup(f"{scheme}:// is not an address for {' and '.join(bindings)}; check each binding at its own")
    if "amqp" not in bindings:
        await show_credentials(_over_http(url), options)
    if "http" in bindings:
        async with options.client() as client:
            place, note = await http_target.end_point(client, url)
            notes += [note] if note else []

            async def http(wire: Wire) -> http_target.HttpTarget:
                return http_target.HttpTarget(client, place, wire)

            checks = choose(nlip_http.SUITE.checks, options.level)
            outcomes += await run_checks(
                checks, http, pause=options.pause, seconds=options.seconds, on_outcome=options.on_outcome, pace=pace
            )
    if "websocket" in bindings:
        absent: set[str] = set()

        async def websocket(wire: Wire) -> nlip_ws.WsTarget:
            return nlip_ws.WsTarget(nlip_ws.base_of(url), wire, options.trust, absent, options.authorization)

        outcomes += await run_checks(
            choose(nlip_ws.SUITE.checks, options.level),
            websocket,
            pause=max(options.pause, min(pace.longest, MOST_PAUSE)),
            seconds=options.seconds,
            on_outcome=options.on_outcome,
            pace=pace,
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
    """The NLWeb suite, at ``/ask`` of the address.

    Raises:
        PeerRefused: the credentials are not known there.
    """
    await show_credentials(nlweb.end_point(url), options)
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
