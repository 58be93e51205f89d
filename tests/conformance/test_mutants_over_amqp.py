"""``sabir check`` finds every planted fault behind a real broker, by the clause it breaks and by no other.

Defects of issue 11, item C 10b.
"""

from __future__ import annotations

import pytest

from conformance.reference.mutants import AMQP, Mutant
from conformance.reference.run import assert_found, reports_over_amqp
from protocols.nlip.amqp.conftest import broker, prefix  # noqa: F401  # fixtures
from sabir.conformance.base import CheckReport


@pytest.fixture(scope="module")
def reports(broker: str, prefix: str) -> dict[str, CheckReport]:  # noqa: F811
    return reports_over_amqp(AMQP, broker)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("mutant", AMQP, ids=lambda mutant: mutant.name)
def test_a_fault_fails_the_check_of_its_clause_and_no_other(mutant: Mutant, reports: dict[str, CheckReport]) -> None:
    assert_found(mutant, reports[mutant.name])
