"""``sabir bench``: bounded in time and count, on this machine unless --remote is given."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.conftest import Sabir
from conftest import Serve
from sabir import Gateway, agent
from sabir.agents.echo import echo
from sabir.cli.bench import quantile
from sabir.cli.main import BAD_USAGE, FAILED, OK
from sabir.errors import TurnFailed
from sabir.turn import Turn


@agent(name="moody")
async def moody(turn: Turn) -> str:
    if len(turn.conversation.turns) % 2:
        raise TurnFailed("not now")
    return "fine"


@pytest.fixture
def url(serve: Serve, home: Path) -> str:
    return serve(Gateway(echo, moody, home=home)).url


@pytest.mark.parametrize("protocol", ["nlip", "a2a", "nlweb", "mcp", "acl"])
def test_a_number_of_requests_is_sent_and_no_more(protocol: str, url: str, sabir: Sabir) -> None:
    said = sabir("bench", url, "--protocol", protocol, "--requests", "6", "--connections", "2", "--json")
    assert said.code == OK, said.err
    figures = json.loads(said.out)
    assert (figures["requests"], figures["errors"]) == (6, {})
    assert 0 < figures["p50_ms"] <= figures["p99_ms"] <= figures["max_ms"]
    assert figures["requests_per_second"] == pytest.approx(6 / figures["seconds"], rel=0.1)


def test_it_ends_in_time(url: str, sabir: Sabir) -> None:
    figures = json.loads(sabir("bench", url, "--seconds", "0.2", "--json").out)
    assert figures["requests"] > 0 and figures["seconds"] < 30


def test_errors_are_counted_and_fail_the_command(url: str, sabir: Sabir) -> None:
    said = sabir("bench", url, "--agent", "moody", "--requests", "4", "--connections", "1")
    assert said.code == FAILED
    assert "4 requests" in said.out
    assert "turn_failed" in said.out


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["http://agents.example"], "agents.example is another machine; add --remote"),
        (["http://127.0.0.1:9", "--seconds", "601"], "--seconds: expected a number from 0.1 to 600, not 601"),
        (["http://127.0.0.1:9", "--seconds", "nan"], "--seconds: expected"),
        (["http://127.0.0.1:9", "--connections", "0"], "--connections: expected"),
        (["http://127.0.0.1:9", "--requests", "0"], "--requests: expected"),
    ],
)
def test_a_load_without_bounds_or_on_others_is_rejected(flags: list[str], words: str, sabir: Sabir) -> None:
    said = sabir("bench", *flags)
    assert (said.code, said.out) == (BAD_USAGE, "")
    assert words in said.err


def test_quantiles() -> None:
    times = [number / 1000 for number in range(1, 101)]
    assert [quantile(times, share) for share in (0.5, 0.99, 1.0)] == [50.0, 99.0, 100.0]
    assert quantile([0.001], 0.99) == 1.0
    assert quantile([], 0.5) is None
