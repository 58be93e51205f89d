"""``sabir check amqp://…`` against our own door, through the real broker."""

from __future__ import annotations

from pathlib import Path

from protocols.nlip.amqp.conftest import amqp_gateway
from sabir.agents.echo import echo
from sabir.conformance.suites import Options, check_nlip


async def test_ours_fails_nothing_over_amqp(home: Path, broker: str, prefix: str) -> None:
    address = f"{prefix}-check"
    async with amqp_gateway(home, broker, address, echo):
        report = await check_nlip(f"{broker}/{address}", Options())
    assert {o.id for o in report.outcomes if o.verdict != "passed"} == set()
    assert len(report.outcomes) >= 20
    assert "guest" not in report.url
