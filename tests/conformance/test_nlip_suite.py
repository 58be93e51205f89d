"""``sabir check`` reports the known faults of nlip-server and no others, and ends in an exit code and a report."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import xml.etree.ElementTree as Xml
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from conftest import Serve
from deadline import DEADLINE
from free_ports import free_port
from peers_venv import python_of
from sabir import Gateway, Turn, agent
from sabir.agents.echo import echo
from sabir.cli.main import REFUSED, main
from sabir.conformance.base import Check, CheckFailed, CheckReport, Declined, Skipped, Wire, run_checks
from sabir.conformance.suites import Options, check_nlip
from sabir.guard import Rights, Rule
from sabir.guard.build import GuardSettings, IdentitySettings
from sabir.guard.identity.api_keys import ApiKeys
from sabir.stores.sqlite.store import SQLiteStore

HERE = Path(__file__).resolve().parent


@contextmanager
def nlip_server(script: str) -> Iterator[str]:
    """nlip-server from PyPI, in an environment of its own."""
    port = free_port()
    python = python_of("nlip")
    process = subprocess.Popen([python, HERE / script, str(port)])
    url = f"http://127.0.0.1:{port}"
    try:
        end = time.monotonic() + DEADLINE
        while True:
            try:
                httpx2.get(url + "/health", timeout=2)
                break
            except httpx2.TransportError:
                assert time.monotonic() < end
                time.sleep(0.05)
        yield url
    finally:
        process.kill()
        process.wait(DEADLINE)


@pytest.fixture(scope="module")
def reference() -> Iterator[str]:
    with nlip_server("reference_server.py") as url:
        yield url


@pytest.fixture(scope="module")
def reference_echo() -> Iterator[str]:
    with nlip_server("reference_echo.py") as url:
        yield url


def faults(report: CheckReport) -> set[str]:
    """What the standard demands and the server does not do."""
    return {outcome.id for outcome in report.outcomes if outcome.verdict == "failed" and outcome.level != "ours"}


# Faults of nlip-server itself, whatever runs on it.
# What it takes or refuses by the versions of the libraries it was installed with.
BY_ITS_VERSIONS = {"CORE-5.1.2-not"}
OF_THE_SERVER = {
    "CORE-5.0.2-names",  # mixed-case names are refused
    "CORE-5.0.2-upper",
    "CORE-5.0.2-parts",  # SubMessages are not read
    "CORE-5.3-structured",  # JSON arrays, numbers and truth values are refused
    "CORE-6.2.1-b",  # an integer as token is refused
    "CORE-5.3-structured-not",  # a relative URI is taken
    "CORE-5.3-location-not",  # and any kind of location
    "CORE-5.0.4-not",  # NaN: HTTP 500
    "CORE-5.3-not",  # a format outside Table 1 is taken
    "CORE-5.3-text-not",  # and text that is no string
    "CORE-5.3-binary-not",  # and binary that is not base64
    "CORE-6.2-b",  # of two tokens the second is lost
    "CORE-6.3-case",  # MessageType is not read, so control is lost
    "CORE-6.4",  # no upload place is named
    "CORE-A",  # nulls
    "WS-6",  # no WebSocket
}


@pytest.mark.timeout(900)
async def test_the_reference_server_fails_by_its_known_faults_and_no_others(reference: str) -> None:
    report = await check_nlip(reference, Options())
    assert faults(report) - BY_ITS_VERSIONS == OF_THE_SERVER | {
        "CORE-6.2-suffix",  # suffixed tokens are lost
        "CORE-6.2-auth",  # and those of other kinds
        "CORE-6.2-c",
        "CORE-6.2-many",  # ten tokens, or two with the same content, are lost
        "CORE-6.2-same",
        "CORE-6.3",  # control is not mirrored
        "CORE-6.3-first",
        "CORE-6.3-unknown",
        "CORE-6.3-upload",
    }
    assert any("redirected" in note for note in report.notes)


@pytest.mark.timeout(900)
async def test_its_own_echo_breaks_on_a_token_as_first_submessage(reference_echo: str) -> None:
    report = await check_nlip(reference_echo, Options())
    assert faults(report) - BY_ITS_VERSIONS == OF_THE_SERVER | {
        "CORE-6.2-alone",
        "CORE-5.1.2-sent",  # a format outside Table 1 is echoed
        "CORE-5.3-prog-words",  # code comes back as code, without words
        "CORE-5.3-generic-words",
    }
    [alone] = [o for o in report.outcomes if (o.binding, o.id) == ("http", "CORE-6.2-alone")]
    assert "HTTP 400" in alone.reason


async def test_a_refusal_by_policy_is_not_a_failure(serve: Serve, home: Path) -> None:
    closed = Gateway(echo, home=home, rights=Rights((Rule(roles=("known",)),)))
    report = await check_nlip(serve(closed).url, Options(only=("http",)))
    assert report.count("failed") == 0, [(o.id, o.title, o.reason) for o in report.outcomes if o.verdict == "failed"]
    assert report.count("declined") > 40


@pytest.mark.parametrize("binding", [("--binding", "http"), ("--binding", "websocket"), ("--protocol", "nlweb")])
def test_credentials_that_are_not_known_end_it_at_once(
    binding: tuple[str, str],
    serve: Serve,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("SABIR_TOKEN", "wrong")
    known = Gateway(echo, home=home, guard=GuardSettings(IdentitySettings(anonymous=False)))
    assert main(["check", serve(known).url, *binding]) == REFUSED
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert "the server does not accept these credentials" in printed.err


async def test_a_server_that_is_closed_to_known_callers_too_is_still_checked(serve: Serve, home: Path) -> None:
    guard = GuardSettings(rights=(Rule(roles=("nobody",)),))
    url = serve(Gateway(echo, home=home, guard=guard)).url
    store = SQLiteStore(home / "sabir.db")
    await store.open()
    _, key = await ApiKeys(store).add("ada")
    await store.close()
    report = await check_nlip(url, Options(only=("http",), authorization=f"Bearer {key}"))
    assert report.count("declined") > 40


def sabir_check(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "sabir", "check", *arguments], capture_output=True, text=True, timeout=600
    )


@pytest.mark.timeout(900)
def test_the_command_has_a_table_json_junit_and_an_exit_code(
    serve: Serve, home: Path, reference: str, tmp_path: Path
) -> None:
    ours = serve(Gateway(echo, home=home)).url
    table = sabir_check(ours, "--level", "ours")
    assert "the standard's must" in table.stdout
    failed = [line.split()[2] for line in table.stdout.splitlines() if line.strip().startswith("FAILED")]
    assert failed == [], table.stdout
    assert table.returncode == (1 if failed else 0)
    theirs = sabir_check(reference, "--level", "must", "--evidence", "--junit", str(tmp_path / "report.xml"))
    assert theirs.returncode == 1
    assert "FAILED" in theirs.stdout
    assert '> {"Format": "text"' in theirs.stdout
    suites = Xml.parse(tmp_path / "report.xml").getroot()
    assert int(suites[0].attrib["failures"]) > 5
    report = json.loads(sabir_check(reference, "--json", "--binding", "http").stdout)
    assert all(outcome["evidence"] for outcome in report["outcomes"] if outcome["verdict"] == "failed")
    assert sabir_check("http://127.0.0.1:9").returncode == 3


async def test_each_way_to_end_has_its_verdict() -> None:
    async def passes(_: None) -> None: ...

    async def fails(_: None) -> None:
        raise CheckFailed("it does not")

    async def declines(_: None) -> None:
        raise Declined("401")

    async def skips(_: None) -> None:
        raise Skipped("no")

    async def nothing(_: Wire) -> None:
        return None

    checks = [Check("x", "y", "must", "z", run, "http") for run in (passes, fails, declines, skips)]
    outcomes = await run_checks(checks, nothing)
    assert [outcome.verdict for outcome in outcomes] == ["passed", "failed", "declined", "skipped"]
    report = CheckReport("u", "nlip", tuple(outcomes))
    assert len(report.failed("must")) == 1


@agent
async def broken(turn: Turn) -> str:
    raise RuntimeError("the model is not loaded")


def test_an_agent_that_fails_stops_the_checks_with_the_reason(serve: Serve, home: Path) -> None:
    url = serve(Gateway(broken, home=home)).url
    table = sabir_check(url)
    assert table.returncode == 1
    assert (
        "Stopped: the agent itself fails. A plain hello is answered with HTTP 500. It says: broken failed"
        in table.stdout
    )
    assert table.stdout.count("FAILED") == 1
    report = json.loads(sabir_check(url, "--json").stdout)
    assert report["stopped"].startswith("A plain hello is answered with HTTP 500.")
    [outcome] = report["outcomes"]
    assert (outcome["id"], outcome["verdict"]) == ("HTTP-6.2", "failed")
    assert "HTTP 500" in outcome["evidence"][0]["received"]


async def test_an_agent_that_fails_stops_the_checks_over_websocket(serve: Serve, home: Path) -> None:
    report = await check_nlip(serve(Gateway(broken, home=home)).url, Options(only=("websocket",)))
    assert report.stopped.startswith("A plain hello is answered with an error message. It says: broken failed")
    assert len(report.outcomes) == 1
