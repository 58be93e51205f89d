"""``sabir check --protocol acl``: passes on ours, and fails on planted faults for the right clause."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest
import uvicorn

from conftest import Served
from deadline import DEADLINE
from free_ports import free_port
from gates import Gate
from sabir.conformance.acl import SUITE, check_acl
from sabir.conformance.base import CheckReport
from sabir.conformance.suites import Options
from sabir.gateway.gateway import Gateway

from .conftest import agents
from .faulty_servers import AGENT, FAULTS, Fault, FaultyServers, slug


async def test_the_suite_passes_on_our_own_end_point(served: Served) -> None:  # ACL-53
    report = await check_acl(f"{served.url}/acl/jules", Options())
    assert [(outcome.id, outcome.reason) for outcome in report.outcomes if outcome.verdict != "passed"] == []


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    gateway = Gateway(*agents(Gate()), home=tmp_path_factory.mktemp("faulty"))
    port = free_port()
    config = uvicorn.Config(FaultyServers(gateway), port=port, lifespan="on", log_config=None)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        thread.join(0.01)
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join(DEADLINE)


@pytest.fixture(scope="module")
def reports(faulty: str) -> dict[str, CheckReport]:
    """What the suite says of each server; all are asked at once."""

    async def check_all() -> dict[str, CheckReport]:
        room = asyncio.Semaphore(8)

        async def one(fault: Fault) -> tuple[str, CheckReport]:
            async with room:
                return fault.name, await check_acl(f"{faulty}/{slug(fault)}/acl/{AGENT}", Options())

        return dict(await asyncio.gather(*(one(fault) for fault in FAULTS)))

    return asyncio.run(check_all())


@pytest.mark.timeout(900)
@pytest.mark.parametrize("fault", FAULTS, ids=slug)
def test_a_fault_fails_the_check_of_its_clause_and_no_other(
    fault: Fault, reports: dict[str, CheckReport]
) -> None:  # ACL-53
    failed = {outcome.id: outcome.reason for outcome in reports[fault.name].outcomes if outcome.verdict == "failed"}
    assert fault.clause in failed
    assert failed.keys() <= {fault.clause} | fault.may_also, failed


def test_every_check_finds_a_fault() -> None:  # ACL-53
    assert {check.id for check in SUITE.checks} == {fault.clause for fault in FAULTS}
    assert len(FAULTS) >= 20
