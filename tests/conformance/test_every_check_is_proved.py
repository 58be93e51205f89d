"""Every check finds a planted fault: one that cannot fail proves nothing of anybody."""

from __future__ import annotations

import pytest

from conformance.reference.mutants import AMQP, HTTP, WEBSOCKET
from sabir.conformance import nlip_amqp, nlip_http, nlip_ws
from sabir.conformance.base import Check, Wire, run_checks
from sabir.conformance.core import CHECKS
from sabir.conformance.http_target import HttpTarget
from sabir.conformance.suites import BINDINGS, Options, suite, suite_names

# Why no server with one fault stands for a check.
WITHOUT = {
    "HTTP-6.2": "nothing else can hold without it: test_strange_servers.py",
    "CORE-6.1": "nothing else can hold without it: test_strange_servers.py",
    "CORE-7.1": "it is for addresses in the network: below",
    "AMQP-1": "RabbitMQ refuses a foreign user-id itself, so that no server behind it can be wrong",
}
SUITES_OF_NLIP = {"http": nlip_http.SUITE, "websocket": nlip_ws.SUITE, "amqp": nlip_amqp.SUITE}
MUTANTS = {"http": HTTP, "websocket": WEBSOCKET, "amqp": AMQP}
LEAST = {"http": 60, "websocket": 30, "amqp": 15}  # faults


def test_every_check_of_the_core_finds_a_fault_over_some_binding() -> None:
    found = {mutant.clause for mutants in MUTANTS.values() for mutant in mutants}
    assert [check.id for check in CHECKS if check.id not in found | WITHOUT.keys()] == []


@pytest.mark.parametrize("binding", SUITES_OF_NLIP)
def test_every_check_of_a_binding_finds_a_fault_over_it(binding: str) -> None:
    core = {check.id for check in CHECKS}
    found = {mutant.clause for mutant in MUTANTS[binding]}
    own = {check.id for check in SUITES_OF_NLIP[binding].checks} - core
    assert own - found - WITHOUT.keys() == set()


def test_the_faults_are_over_every_binding_and_enough() -> None:
    assert MUTANTS.keys() == BINDINGS.keys()
    assert sum(map(len, MUTANTS.values())) >= 260


@pytest.mark.parametrize(
    ("url", "verdict"),
    [
        ("http://192.0.2.1/nlip", "failed"),
        ("http://localhost/nlip", "skipped"),
        ("http://127.0.0.1/nlip", "skipped"),
        ("http://[::1]/nlip", "skipped"),
        ("https://192.0.2.1/nlip", "passed"),
        ("https://localhost/nlip", "passed"),
        ("https://127.0.0.1/nlip", "passed"),
        ("https://[::1]/nlip", "passed"),
    ],
)
async def test_plain_http_over_the_network_is_a_failure(url: str, verdict: str) -> None:
    """CORE-7.1 looks at the address only; nothing is sent."""
    [check] = [item for item in nlip_http.SUITE.checks if item.id == "CORE-7.1"]
    async with Options().client() as client:

        async def connect(wire: Wire) -> HttpTarget:
            return HttpTarget(client, url, wire)

        [outcome] = await run_checks([check], connect)
    assert outcome.verdict == verdict


def test_every_sentence_of_a_check_is_its_own() -> None:
    for item in SUITES_OF_NLIP.values():
        checks: list[Check[object]] = list(item.checks)  # type: ignore[arg-type]
        titles = [check.title for check in checks]
        assert len(set(titles)) == len(titles)


def test_suites_are_found_by_the_name_of_their_protocol() -> None:
    assert set(suite_names()) == {"nlip", "nlweb", "acl"}
    assert len({suite(name) for name in suite_names()}) == 3
