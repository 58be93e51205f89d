"""``sabir check`` finds every planted fault over WebSocket, by the clause it breaks and by no other.

Defects of issue 11, item C 10b.
"""

from __future__ import annotations

import pytest

from conformance.reference.mutants import WEBSOCKET, Mutant
from conformance.reference.run import assert_found, reports_over_sockets
from sabir.conformance.base import CheckReport


@pytest.fixture(scope="module")
def reports() -> dict[str, CheckReport]:
    return reports_over_sockets(WEBSOCKET)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("mutant", WEBSOCKET, ids=lambda mutant: mutant.name)
def test_a_fault_fails_the_check_of_its_clause_and_no_other(mutant: Mutant, reports: dict[str, CheckReport]) -> None:
    assert_found(mutant, reports[mutant.name])
