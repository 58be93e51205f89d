"""``sabir check`` finds nothing wrong with a server that is right: Sabir in several set-ups, and one of other code."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from conformance.reference.agent import RIGHT, Agent
from conformance.reference.broker import behind
from conformance.reference.sockets import listening
from conftest import Serve
from protocols.nlip.amqp.conftest import amqp_gateway, broker, prefix  # noqa: F401  # fixtures
from sabir import Gateway, agent
from sabir.agents.echo import echo
from sabir.agents.federation import Federation
from sabir.conformance.base import CheckReport
from sabir.conformance.suites import Options, check_nlip
from sabir.stores.memory import MemoryStore
from sabir.turn import Turn

TESTS = Path(__file__).resolve().parent.parent


def failures(report: CheckReport) -> dict[str, str]:
    assert not report.stopped
    return {outcome.id: outcome.reason for outcome in report.outcomes if outcome.verdict == "failed"}


@agent
async def words(turn: Turn) -> str:
    return "I only know these words."


@agent(name="second")
async def second(turn: Turn) -> str:
    return "A second opinion."


SET_UPS: dict[str, Callable[[Path], Gateway]] = {
    "echo": lambda home: Gateway(echo, home=home),
    "an agent that answers always the same": lambda home: Gateway(words, home=home),
    "a federation": lambda home: Gateway(Federation([words, second]), home=home),
    "memory": lambda home: Gateway(echo, home=home, store=MemoryStore()),
}


@pytest.mark.parametrize("make", SET_UPS.values(), ids=SET_UPS)
async def test_sabir_fails_nothing_over_http_and_websocket(
    make: Callable[[Path], Gateway], serve: Serve, home: Path
) -> None:
    report = await check_nlip(serve(make(home)).url, Options())
    failed = failures(report)
    assert failed == {}
    assert report.count("passed") > 270
    assert report.count("declined") == 0


async def test_a_strict_sabir_keeps_every_clause_of_the_standard(serve: Serve, home: Path) -> None:
    """Our own decisions are lenient, so that a strict door must fail those."""
    doors = {"nlip-http": {"strict": True}, "nlip-ws": {"strict": True}}
    report = await check_nlip(serve(Gateway(echo, home=home, doors=doors)).url, Options(level="should"))
    failed = failures(report)
    assert failed == {}


async def test_the_reference_server_fails_nothing_over_http_and_websocket() -> None:
    async with listening(Agent()) as url:
        report = await check_nlip(url, Options())
    assert failures(report) == {}
    assert report.count("passed") > 290


async def test_a_server_without_streams_tasks_and_control_terms_fails_nothing() -> None:
    """What a server does not offer is skipped, not failed."""
    async with listening(Agent(RIGHT, asynchronous=False, streams=False)) as url:
        report = await check_nlip(url, Options(only=("http",)))
    assert failures(report) == {}
    skipped = {outcome.id for outcome in report.outcomes if outcome.verdict == "skipped"}
    assert {"D-26-async", "CORE-6.1-async", "CORE-6.2-async", "D-34", "CORE-6.2-events"} <= skipped


async def test_the_reference_server_fails_nothing_over_amqp(broker: str, prefix: str) -> None:  # noqa: F811
    address = f"{prefix}-right"
    with behind(broker, {address: Agent()}):
        report = await check_nlip(f"{broker}/{address}", Options())
    assert failures(report) == {}
    assert report.count("passed") > 130


async def test_sabir_fails_nothing_over_amqp(home: Path, broker: str, prefix: str) -> None:  # noqa: F811
    address = f"{prefix}-words"
    async with amqp_gateway(home, broker, address, words):
        report = await check_nlip(f"{broker}/{address}", Options())
    failed = failures(report)
    assert failed == {}


def test_the_reference_server_uses_no_code_of_sabir() -> None:
    script = (
        "import sys\n"
        "import conformance.reference.agent, conformance.reference.sockets, conformance.reference.broker\n"
        "import conformance.reference.mutants\n"
        "print([name for name in sys.modules if name.partition('.')[0] == 'sabir'])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=TESTS, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
