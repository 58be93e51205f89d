"""Runs ``sabir check`` against many servers at a time, in one process and over real sockets."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence
from uuid import uuid4

import httpx2

from sabir.conformance.base import CheckReport
from sabir.conformance.suites import Options, check_nlip

from .agent import Agent
from .broker import behind
from .mutants import Mutant
from .sockets import listening

AT_A_TIME = 8
PATIENCE = 2.0  # seconds that an answer which was promised for later may take
TRUST = ssl.create_default_context()  # made once, because it takes long


class PlainTransport(httpx2.AsyncBaseTransport):
    """HTTP/1.1 over one kept connection, for servers that say Content-Length; httpx2's own takes longer."""

    def __init__(self) -> None:
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if self._streams is None:
            self._streams = await asyncio.open_connection(request.url.host, request.url.port)
        reader, writer = self._streams
        lines = [f"{request.method} {request.url.raw_path.decode()} HTTP/1.1".encode()]
        lines += [name + b": " + value for name, value in request.headers.raw]
        body = await request.aread()
        if "transfer-encoding" in request.headers:
            body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
        writer.write(b"\r\n".join(lines) + b"\r\n\r\n" + body)
        head = await reader.readuntil(b"\r\n\r\n")
        first, *fields = head[:-4].split(b"\r\n")
        version, status, _ = first.split(b" ", 2)
        headers = [(name, value.strip()) for name, _, value in (field.partition(b":") for field in fields)]
        length = next(int(value) for name, value in headers if name.lower() == b"content-length")
        received = await reader.readexactly(length)
        if version == b"HTTP/1.0":
            await self.aclose()
        return httpx2.Response(int(status), headers=headers, content=received, extensions={"http_version": version})

    async def aclose(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
        self._streams = None


def options(binding: str) -> Options:
    return Options(only=(binding,), patience=PATIENCE, trust=TRUST, transport=PlainTransport())


def reports_over_sockets(mutants: Sequence[Mutant]) -> dict[str, CheckReport]:
    """What the suite finds of each server over HTTP or WebSocket."""

    async def of(mutant: Mutant, turn: asyncio.Semaphore) -> CheckReport:
        async with turn, listening(Agent(mutant.faults)) as url:
            return await check_nlip(url, options(mutant.binding))

    async def of_all() -> list[CheckReport]:
        turn = asyncio.Semaphore(AT_A_TIME)
        return await asyncio.gather(*(of(mutant, turn) for mutant in mutants))

    return dict(zip((mutant.name for mutant in mutants), asyncio.run(of_all()), strict=True))


def reports_over_amqp(mutants: Sequence[Mutant], broker: str) -> dict[str, CheckReport]:
    """What the suite finds of each server behind this broker."""
    addresses = [f"t-sabir-{uuid4().hex[:8]}" for _ in mutants]

    async def of(address: str, turn: asyncio.Semaphore) -> CheckReport:
        async with turn:
            return await check_nlip(f"{broker}/{address}", options("amqp"))

    async def of_all() -> list[CheckReport]:
        turn = asyncio.Semaphore(AT_A_TIME)
        return await asyncio.gather(*(of(address, turn) for address in addresses))

    with behind(broker, {address: Agent(m.faults) for address, m in zip(addresses, mutants, strict=True)}):
        reports = asyncio.run(of_all())
    return dict(zip((mutant.name for mutant in mutants), reports, strict=True))


def assert_found(mutant: Mutant, report: CheckReport) -> None:
    """A fault fails the checks of the clauses that it breaks, and no others."""
    failed = {outcome.id: outcome.reason for outcome in report.outcomes if outcome.verdict == "failed"}
    assert failed.keys() == {mutant.clause} | mutant.also, failed
    assert not report.stopped
