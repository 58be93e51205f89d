"""The outcome of a question is reported alike over every protocol: the exit code, and what to do about it."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.conftest import PROTOCOLS, Sabir, ServeEverywhere
from sabir import Turn, agent
from sabir.agents.echo import echo
from sabir.cli.main import FAILED, OK, REFUSED, UNREACHABLE
from sabir.errors import Forbidden, TurnFailed, Unavailable
from sabir.guard import Quotas, Rule
from sabir.guard.build import GuardSettings


@agent(name="broken")
async def broken(turn: Turn) -> str:
    raise ValueError("a secret of the inside")


@agent(name="failing")
async def failing(turn: Turn) -> str:
    raise TurnFailed("the oven is cold")


@agent(name="busy")
async def busy(turn: Turn) -> str:
    raise Unavailable("the kitchen is closed")


@agent(name="picky")
async def picky(turn: Turn) -> str:
    raise Forbidden("not for you")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_exit_code_of_an_outcome_is_the_same_by_every_protocol(
    protocol: str, everywhere: ServeEverywhere, sabir: Sabir
) -> None:
    places = everywhere(echo, broken, failing, busy, picky, amqp=protocol == "amqp")
    outcomes = {"echo": OK, "broken": FAILED, "failing": FAILED, "busy": FAILED, "picky": REFUSED, "nobody": REFUSED}
    if protocol == "amqp":  # a letter that nobody takes, or not now, waits at the broker
        del outcomes["nobody"], outcomes["busy"]
    for more in ([], ["--stream"]):
        said = {name: sabir("ask", places.of(protocol, name), "hi", "--new", *more) for name in outcomes}
        assert {name: item.code for name, item in said.items()} == outcomes, said
        assert said["echo"].out == "You said: hi\n"
        assert "the oven is cold" in said["failing"].err
        assert protocol == "amqp" or "the kitchen is closed" in said["busy"].err
        assert "not for you" in said["picky"].err
        assert "secret" not in said["broken"].err
        assert not any(said[name].out.strip() for name in outcomes if name != "echo")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_protocol_says_how_to_authenticate(
    protocol: str, everywhere: ServeEverywhere, home: Path, sabir: Sabir
) -> None:
    key = sabir("keys", "add", "ann", "--role", "cook", "--home", str(home)).out.split()[0]
    other = sabir("keys", "add", "bob", "--home", str(home)).out.split()[0]
    guard = GuardSettings(rights=(Rule(roles=("cook",)),))
    url = everywhere(echo, amqp=protocol == "amqp", guard=guard).of(protocol, "echo")
    if protocol == "amqp":
        url = url.replace("guest:guest@", "")  # else the broker says who we are
    nobody = sabir("ask", url, "hi")
    assert (nobody.code, nobody.out) == (REFUSED, "")
    assert "authentication" in nobody.err
    assert nobody.err.endswith("set SABIR_TOKEN to your API key or token\n")
    raised = sabir("ask", url, "hi", token="sk-wrong")
    assert raised.code == REFUSED
    assert raised.err.endswith("the key or token in SABIR_TOKEN is not accepted\n")
    assert sabir("ask", url, "hi", token=other).code == REFUSED
    assert sabir("ask", url, "hi", token=key).out == "You said: hi\n"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_used_up_quota_does_not_suggest_logging_in(protocol: str, everywhere: ServeEverywhere, sabir: Sabir) -> None:
    guard = GuardSettings(quotas=Quotas(daily_turns=1))
    url = everywhere(echo, amqp=protocol == "amqp", guard=guard).of(protocol, "echo")
    assert sabir("ask", url, "hi", "--new").code == OK
    said = sabir("ask", url, "hi", "--new")
    assert (said.code, said.out) == (REFUSED, "")
    assert said.err.endswith("the quota of 1 turns a day is used up\n"), "and no advice that does not help"


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:9/nlip",
        "ws://127.0.0.1:9/nlip/ws",
        "amqp://127.0.0.1:9/nlip",
        "http://127.0.0.1:9/ask",
        "http://127.0.0.1:9/mcp",
        "http://127.0.0.1:9/a2a",
    ],
)
def test_where_nobody_listens_is_unreachable_by_every_protocol(url: str, sabir: Sabir) -> None:
    said = sabir("ask", url, "hi")
    assert (said.code, said.out) == (UNREACHABLE, "")
    hint = "Is it running? `sabir serve` or `sabir dev app.py` starts a gateway"
    assert said.err == f"sabir: {url}: connection refused\n       {hint}\n"
