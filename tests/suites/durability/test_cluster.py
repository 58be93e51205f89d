"""Two nodes on one PostgreSQL and one NATS; one is killed in mid-task (``scripts/cluster_durability.py``)."""

from __future__ import annotations

import subprocess
import sys

import pytest

from suites.durability.scripts import SCRIPTS


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_five_kills_of_a_node_lose_nothing_and_its_tasks_are_finished_by_the_other() -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPTS / "cluster_durability.py"), "--runs", "5"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 2:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stdout + done.stderr
    assert "none lost, none doubled" in done.stdout
