"""``sabir tools``: the tools at an address, whatever protocol it speaks."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import pytest

from cli.conftest import Sabir
from conftest import Serve
from sabir import Gateway, agent
from sabir.agents.echo import echo
from sabir.cli.main import OK
from sabir.turn import Turn


@agent(description="The weather of a town")
async def weather(turn: Turn, town: str, days: int = 1) -> str:
    """Tells the weather.

    Args:
        town: which town.
        days: how many days ahead.
    """
    return f"{town}: sun for {days} days"


@pytest.fixture
def url(serve: Serve, home: Path) -> str:
    return serve(Gateway(weather, echo, home=home)).url


def test_the_tools_of_a_gateway_have_their_arguments(url: str, sabir: Sabir) -> None:
    said = sabir("tools", url)
    assert said.code == OK
    assert said.out.startswith(
        "weather: The weather of a town\n  town (string): which town.\n  days (integer, default 1): how many days"
    )
    assert "\necho: " in said.out


@pytest.mark.parametrize("protocol", ["nlip", "a2a", "nlweb", "mcp", "acl"])
def test_every_protocol_lists_tools(protocol: str, url: str, sabir: Sabir) -> None:
    said = sabir("tools", url, "--protocol", protocol, "--json")
    assert said.code == OK, said.err
    [first, *_] = json.loads(said.out)
    assert first["description"] == "The weather of a town"
    assert protocol == "nlweb" or first["name"] == "weather"  # NLWeb has addresses instead of names
    if protocol in ("nlip", "mcp"):
        assert first["input_schema"]["required"] == ["town"]


def test_the_address_may_come_from_the_environment(url: str, sabir: Sabir, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SABIR_URL", url.removeprefix("http://"))
    assert "weather: The weather of a town" in sabir("tools").out
    assert "weather (default): " in sabir("agents").out or "weather: The weather" in sabir("agents").out
    assert sabir("ask", "--new", "--agent", "echo", "hi").out == "You said: hi\n"
    assert sabir("bench", "--requests", "1", "--agent", "echo").code == OK
    assert json.loads(sabir("check", "--protocol", "nlweb", "--json").out)["url"].startswith(url)


def test_a_program_lists_its_tools(sabir: Sabir, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(
        'from sabir import agent\n\n@agent(description="Says hi")\nasync def hi(turn):\n    return "hi"\n'
    )
    said = sabir("tools", f"stdio:{shlex.quote(sys.executable)} -m sabir mcp app.py")
    assert (said.code, said.out.partition("\n")[0]) == (OK, "hi: Says hi"), said.err
