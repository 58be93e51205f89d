"""``sabir check --protocol nlweb``: all of it passes here, and it names the known faults of the reference server."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from conftest import Served, serving
from peers_venv import python_of
from sabir import Gateway, Turn, agent
from sabir.cli import main
from sabir.conformance.base import Wire
from sabir.conformance.nlweb import SUITE, NlwebAnswer, Target
from sabir.conformance.suites import Options, suite

pytestmark = pytest.mark.timeout(900)  # the first run makes an environment
# What shared/spec/nlweb.md, section 2, tells of nlweb-network 0.7.0, by the check that sees it.
KNOWN_FAULTS = {
    "NLWEB-8": "chatgpt_app is never produced",
    "NLWEB-14": "the seed's own filters are refused",
    "NLWEB-17": "session_context is ignored",
    "NLWEB-18": "broken JSON gives a 500 in plain text",
    "NLWEB-20": "_meta and error come in different events",
    "NLWEB-25": "it fetches any site a caller names",
    "NLWEB-27": "promises are a placeholder that never ends",
}


@pytest.fixture(scope="module")
def reference() -> Iterator[str]:
    python = python_of("nlweb-network")
    script = Path(__file__).with_name("reference_server.py")
    running = subprocess.Popen(
        [str(python), "-W", "ignore", str(script)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert running.stdout is not None
    try:
        yield running.stdout.readline().strip()
    finally:
        running.kill()
        running.wait()
        running.stdout.close()


async def test_every_check_passes_here(gateway: Served) -> None:
    report = await suite("nlweb")(gateway.url, Options())
    assert [(o.id, o.reason) for o in report.outcomes if o.verdict != "passed"] == []
    assert len(report.outcomes) == 30


class SlowToCancel(Target):
    """Cancels the first promises only after they were kept."""

    cancelled = 0

    async def post(self, body: Any, path: str = "", **headers: str) -> NlwebAnswer:
        if body.get("action") == "cancel":
            self.cancelled += 1
            while self.cancelled <= 3:
                answer = await super().post({**body, "action": "checkin"}, path)
                if "promise" not in answer.json():
                    break
        return await super().post(body, path, **headers)


async def test_a_promise_that_is_kept_too_soon_is_asked_for_again(home: Path) -> None:
    """The check of cancelling was skipped where the first promise was kept before its cancellation arrived."""
    turns: list[str] = []

    @agent(description="Answers three times at once, then never")
    async def hasty(turn: Turn) -> str:
        turns.append(turn.text)
        if len(turns) > 3:
            await asyncio.Event().wait()
        return "done"

    (check,) = [check for check in SUITE.checks if check.id == "NLWEB-29"]
    with serving(Gateway(hasty, home=home)) as served:
        async with httpx2.AsyncClient() as client:
            await check.run(SlowToCancel(client, f"{served.url}/ask", Wire()))
    assert len(turns) == 4


async def test_the_known_faults_of_the_reference_server_are_named(reference: str) -> None:
    report = await suite("nlweb")(reference, Options())
    failed = {outcome.id for outcome in report.outcomes if outcome.verdict == "failed"}
    assert failed >= set(KNOWN_FAULTS)
    passed = {outcome.id for outcome in report.outcomes if outcome.verdict == "passed"}
    assert {"NLWEB-1", "NLWEB-2", "NLWEB-3", "NLWEB-4", "NLWEB-7", "NLWEB-10", "NLWEB-11"} <= passed


def test_the_exit_code_says_whether_the_server_passed(gateway: Served, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--protocol", "nlweb", "--json", gateway.url]) == 0
    report = json.loads(capsys.readouterr().out)
    assert len(report["outcomes"]) == 30
