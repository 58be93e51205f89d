"""The official suite ``@modelcontextprotocol/conformance``: our door, our gateway before an SDK server, our peer.

The client scenarios here are a choice; ``scripts/mcp_conformance client`` runs all that are required.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest

from conftest import Serve
from deadline import DEADLINE
from mcp_servers import everything
from mcp_servers.nursery import SDK_SERVER, Nursery
from sabir.agents.echo import echo
from sabir.gateway.gateway import Gateway
from sabir.guard import Filters
from sabir.guard.filters.base import TextFilter
from sabir.protocols.mcp.peer.peer import McpPeer, Program

ROOT = Path(__file__).resolve().parents[3]
VERSIONS = {"2025-11-25": 30, "2026-07-28": 37}
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def suite() -> ModuleType:
    """The script that runs the suite, with the suite installed."""
    loader = importlib.machinery.SourceFileLoader("mcp_conformance", str(ROOT / "scripts" / "mcp_conformance"))
    spec = importlib.util.spec_from_loader("mcp_conformance", loader)
    assert spec is not None
    script = importlib.util.module_from_spec(spec)
    loader.exec_module(script)
    try:
        script.suite()
    except (subprocess.CalledProcessError, FileNotFoundError) as exc:
        pytest.skip(f"the suite cannot be installed here: {exc}")
    return script


@pytest.fixture(scope="module")
def inspector(suite: ModuleType) -> list[str]:
    try:
        return list(suite.inspector())
    except (subprocess.CalledProcessError, FileNotFoundError) as exc:
        pytest.skip(f"the inspector cannot be installed here: {exc}")


def failures(suite: ModuleType, url: str, version: str) -> dict[str, list[str]]:
    found = suite.run("server", url, version)
    assert len(found) == VERSIONS[version]
    return {scenario: raised for scenario, raised in found.items() if raised}


@pytest.mark.parametrize("version", VERSIONS)
def test_all_required_server_scenarios_pass_at_our_door(
    suite: ModuleType, serve: Serve, tmp_path: Path, version: str
) -> None:
    served = serve(everything.gateway(str(tmp_path)))
    assert failures(suite, f"{served.url}/mcp", version) == {}


@pytest.mark.parametrize("version", VERSIONS)
def test_no_scenario_is_lost_through_a_gateway(
    suite: ModuleType, serve: Serve, tmp_path: Path, sdk_server: str, version: str
) -> None:
    assert failures(suite, sdk_server, version) == {}, "the server behind does not pass by itself"
    served = serve(Gateway(echo, McpPeer(sdk_server, name="behind"), home=tmp_path, store="memory:"))
    assert failures(suite, f"{served.url}/mcp/behind", version) == {}


class Nothing(TextFilter):
    """A filter that changes nothing: where there is one, messages are looked into."""

    name = "nothing"

    def words(self, text: str) -> str:
        return text


@pytest.mark.parametrize("filters", [None, Filters((Nothing(),))], ids=["plain", "filtered"])
@pytest.mark.parametrize("version", VERSIONS)
def test_no_scenario_is_lost_through_a_gateway_before_a_program(
    suite: ModuleType, serve: Serve, tmp_path: Path, version: str, filters: Filters | None, programs: Nursery
) -> None:
    behind = McpPeer(Program(*programs.command(SDK_SERVER, "--stdio")), name="behind")
    served = serve(Gateway(echo, behind, home=tmp_path, store="memory:", filters=filters))
    _met(behind)
    assert failures(suite, f"{served.url}/mcp/behind", version) == {}


@pytest.mark.parametrize("version", VERSIONS)
def test_no_scenario_is_lost_through_a_gateway_that_filters(
    suite: ModuleType, serve: Serve, tmp_path: Path, sdk_server: str, version: str
) -> None:
    behind = McpPeer(sdk_server, name="behind")
    served = serve(Gateway(echo, behind, home=tmp_path, store="memory:", filters=Filters((Nothing(),))))
    _met(behind)
    assert failures(suite, f"{served.url}/mcp/behind", version) == {}


def _met(peer: McpPeer) -> None:
    """The gateway has heard what the server speaks."""
    end = time.monotonic() + DEADLINE
    while not peer.tools and time.monotonic() < end:
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("version", "scenario"),
    [
        ("2025-11-25", "initialize"),
        ("2025-11-25", "elicitation-sep1034-client-defaults"),
        ("2026-07-28", "request-metadata"),
        ("2026-07-28", "sep-2322-client-request-state"),
        ("2026-07-28", "http-custom-headers"),
        ("2026-07-28", "json-schema-ref-no-deref"),
        ("2026-07-28", "auth/scope-step-up"),
        ("2026-07-28", "auth/iss-wrong-issuer"),
    ],
)
def test_client_scenarios_pass_with_our_peer(suite: ModuleType, version: str, scenario: str, tmp_path: Path) -> None:
    # The suite splits its command at blanks, and this project may stand at a path that has some.
    script = tmp_path / "client"
    client = ROOT / "tests" / "mcp_servers" / "suite_client.py"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{client}" "$@"\n')
    script.chmod(0o755)
    assert suite.run("client", str(script), version, scenario, 100.0) == {scenario: []}


@pytest.fixture(params=["http", "stdio"])
def reached(request: pytest.FixtureRequest, serve: Serve, tmp_path: Path) -> list[str]:
    """How the inspector reaches the agents: our address, or the command that speaks over stdio."""
    if request.param == "http":
        served = serve(Gateway(echo, home=tmp_path, store="memory:"))
        return [f"{served.url}/mcp", "--transport", "http"]
    config = tmp_path / "sabir.yaml"
    config.write_text("sites: []\nstore: 'memory:'\n")
    return [sys.executable, "-m", "sabir", "mcp", str(config), "--home", str(tmp_path / "home")]


def test_the_inspector_lists_and_calls_our_tools(inspector: list[str], reached: list[str], tmp_path: Path) -> None:
    def ask(*more: str) -> subprocess.CompletedProcess[str]:
        command = [*inspector, *reached, "--connect-timeout", "60000", *more]
        return subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=tmp_path, check=False)

    listed = ask("--method", "tools/list", "--strict")
    assert listed.returncode == 0, listed.stderr[-2000:]
    assert "Error: tool" not in listed.stderr
    assert "Warning: tool" not in listed.stderr
    assert '"name": "echo"' in listed.stdout
    called = ask("--method", "tools/call", "--tool-name", "echo", "--tool-arg", "text=hi")
    assert called.returncode == 0, called.stderr[-2000:]
    assert '"You said: hi"' in called.stdout
