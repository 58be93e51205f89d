"""The available suites, and how one runs against an address.

A protocol names its suite in its registration; ``BINDINGS`` are the parts of the NLIP suite.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final
from urllib.parse import urlsplit

import httpx2
import msgspec

from sabir.errors import ConfigError, MissingExtra, PeerError, PeerRefused
from sabir.protocols.protocol import load
from sabir.protocols.registry import protocols

from . import http_target, nlip_http, nlip_ws, nlweb
from .base import (
    Check,
    CheckFailed,
    CheckOutcome,
    CheckPace,
    CheckReport,
    Declined,
    Level,
    Skipped,
    Wire,
    choose,
    run_checks,
)
from .core import CoreTarget, Samples
from .messages import HELLO

OnOutcome = Callable[[CheckOutcome], None]
MAX_PAUSE: Final = 5.0  # seconds between checks over WebSocket, where a refusal does not say how long to wait


class Options:
    """The options of a run."""

    def __init__(
        self,
        *,
        level: Level = "ours",
        pause: float = 0.0,
        seconds: float = 15.0,
        patience: float = http_target.PATIENCE,
        authorization: str | None = None,
        trust: ssl.SSLContext | None = None,
        only: Sequence[str] = (),
        on_outcome: OnOutcome | None = None,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        self.level, self.pause, self.seconds, self.patience = level, pause, seconds, patience
        self.authorization, self.trust, self.only, self.on_outcome = authorization, trust, only, on_outcome
        self.transport = transport  # the HTTP transport, if it is not httpx2's default

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
            transport=self.transport,
        )


async def show_credentials(url: str, options: Options) -> None:
    """Try the credentials once before the checks: a server may block callers that keep sending invalid ones.

    Raises:
        PeerRefused: they are not accepted.
        PeerUnavailable: no answer.
    """
    if options.authorization is None:
        return
    async with options.client() as client:
        target = http_target.HttpTarget(client, url, Wire())
        body = msgspec.json.encode({**HELLO, "query": {"text": "Hello"}})  # an NLIP and an NLWeb question
        try:
            answer = await target.send("POST", url, body, {"content-type": "application/json"})
        except (CheckFailed, Declined):  # the checks report what is wrong
            return
    if answer.status == 401:
        raise PeerRefused(
            url, "the server does not accept these credentials; SABIR_TOKEN may be mistyped, expired or revoked"
        )


def _over_http(url: str) -> str:
    """The HTTP address for messages, given the address of a WebSocket or of a whole server."""
    parts = urlsplit(url)
    if parts.scheme in ("ws", "wss"):
        return f"{'https' if parts.scheme == 'wss' else 'http'}://{parts.netloc}/nlip"
    return url if parts.path not in ("", "/") else f"{parts.scheme}://{parts.netloc}/nlip"


# -- the bindings of NLIP ---------------------------------------------------------------------------

Connect = Callable[[Wire], Awaitable[Any]]


class Opened:
    """A binding ready to run: its checks, how each gets its target, and the pause between them."""

    def __init__(self, checks: Sequence[Check[Any]], connect: Connect, *, note: str = "", pause: float = 0.0) -> None:
        self.checks, self.connect, self.note, self.pause = checks, connect, note, pause


@asynccontextmanager
async def _open_http(url: str, options: Options, pace: CheckPace) -> AsyncIterator[Opened]:
    samples = Samples()
    async with options.client() as client:
        place, note = await http_target.end_point(client, url)

        async def connect(wire: Wire) -> http_target.HttpTarget:
            return http_target.HttpTarget(client, place, wire, samples, options.patience)

        yield Opened(nlip_http.SUITE.checks, connect, note=note)


@asynccontextmanager
async def _open_websocket(url: str, options: Options, pace: CheckPace) -> AsyncIterator[Opened]:
    absent: set[str] = set()
    samples = Samples()

    async def connect(wire: Wire) -> nlip_ws.WsTarget:
        base = nlip_ws.base_of(url)
        return nlip_ws.WsTarget(base, wire, options.trust, absent, options.authorization, samples)

    yield Opened(nlip_ws.SUITE.checks, connect, pause=min(pace.longest, MAX_PAUSE))


@asynccontextmanager
async def _open_amqp(url: str, options: Options, pace: CheckPace) -> AsyncIterator[Opened]:
    """The address is ``amqp://user:password@broker/address-of-the-agent``."""
    try:
        from . import nlip_amqp  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as exc:
        raise MissingExtra("checking over AMQP", "amqp") from exc
    session = nlip_amqp.AmqpSession(url)

    async def connect(wire: Wire) -> nlip_amqp.AmqpTarget:
        return await nlip_amqp.AmqpTarget.open(session, wire)

    try:
        yield Opened(nlip_amqp.SUITE.checks, connect)
    finally:
        await session.close()


OpenBinding = Callable[[str, Options, CheckPace], AbstractAsyncContextManager[Opened]]
BINDINGS: Final[Mapping[str, OpenBinding]] = {
    "http": _open_http,
    "websocket": _open_websocket,
    "amqp": _open_amqp,
}


# -- the suites -------------------------------------------------------------------------------------

Runner = Callable[[str, Options], Awaitable[CheckReport]]


async def check_nlip(url: str, options: Options) -> CheckReport:
    """Run the NLIP suite over the bindings that the address and ``only`` name; stops if the agent itself fails.

    Raises:
        PeerUnavailable: no answer.
        PeerRefused: the credentials are not accepted.
    """
    bindings = _bindings(url, options)
    if "amqp" not in bindings:
        await show_credentials(_over_http(url), options)
    outcomes: list[CheckOutcome] = []
    notes: list[str] = []
    stopped = ""
    pace = CheckPace()
    for binding in bindings:
        async with BINDINGS[binding](url, options, pace) as opened:
            notes += [opened.note] if opened.note else []
            checks = choose(opened.checks, options.level)
            stopped, wire = await _agent_failure(opened.connect, pace)
            if stopped:
                outcomes.append(_given_up(checks[0], stopped, wire))
                break
            outcomes += await run_checks(
                checks,
                opened.connect,
                pause=max(options.pause, opened.pause),
                seconds=options.seconds,
                on_outcome=options.on_outcome,
                pace=pace,
            )
    return CheckReport(_without_password(url), "nlip", tuple(outcomes), tuple(notes), stopped)


def _bindings(url: str, options: Options) -> Sequence[str]:
    """Raises:
    ConfigError: the address does not match the requested bindings.
    """
    scheme = urlsplit(url).scheme
    is_broker = scheme.startswith("amqp")
    bindings = options.only or (("amqp",) if is_broker else ("http", "websocket"))
    if is_broker != ("amqp" in bindings) or (is_broker and len(bindings) > 1):
        raise ConfigError(f"{scheme}:// is not an address for {' and '.join(bindings)}; check each binding at its own")
    return bindings


async def _agent_failure(connect: Connect, pace: CheckPace) -> tuple[str, Wire]:
    """Why no check would be meaningful: the agent behind the server fails at a plain hello. Empty if it works."""
    wire = Wire(pace)
    try:
        target: CoreTarget = await connect(wire)
        answer = await target.exchange(HELLO)
    except (CheckFailed, Declined, Skipped, PeerError):  # the checks report what is wrong
        return "", wire
    if not answer.broken and not answer.is_error:
        return "", wire
    words = f" It says: {answer.text[:500]}" if answer.text else ""
    return f"A plain hello is answered with {answer.refusal.partition(':')[0]}.{words}", wire


def _given_up(check: Check[Any], reason: str, wire: Wire) -> CheckOutcome:
    return CheckOutcome(
        check.id, check.clause, check.level, check.binding, check.title, "failed", reason, evidence=tuple(wire.log)
    )


def _without_password(url: str) -> str:
    return url.rpartition("@")[2] if "@" in url else url


async def check_nlweb(url: str, options: Options) -> CheckReport:
    """The NLWeb suite, at ``/ask`` of the address.

    Raises:
        PeerRefused: the credentials are not accepted.
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
    return CheckReport(_without_password(url), "nlweb", tuple(outcomes))


def suite_names() -> list[str]:
    """The protocols that have a suite."""
    return [protocol.name for protocol in protocols().values() if protocol.suite]


def suite(protocol: str) -> Runner:
    """The suite of a protocol, as its registration names it.

    Raises:
        ConfigError: it has none.
        MissingExtra: what it needs is not installed.
    """
    known = protocols().get(protocol)
    if known is None or not known.suite:
        raise ConfigError(f"there is no suite for {protocol}; choose from {', '.join(suite_names())}")
    runner: Runner = load(known.suite, f"checking {known.title}", known.extra)
    return runner
