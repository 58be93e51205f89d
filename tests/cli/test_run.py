"""``sabir run`` and ``sabir agents``, and the examples of the MassGen design offline (MW-60)."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from conftest import Served, serving
from sabir import Gateway, Turn, agent
from sabir.agents.ensemble.state import MemberAnswered, MemberFailed, MemberInterrupted, MemberVoted, PanelEnded
from sabir.cli.live_view import LiveView
from sabir.cli.main import main

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "massgen"


@dataclass
class Done:
    returncode: int
    stdout: str
    stderr: str


Sabir = Callable[..., Done]


@pytest.fixture
def sabir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Sabir]:
    """The command line, in this process."""
    monkeypatch.chdir(tmp_path)
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level

    def run(*arguments: str, stdin: str = "") -> Done:
        monkeypatch.setattr("sys.stdin", io.StringIO(stdin))
        code = main(arguments)
        said = capsys.readouterr()
        return Done(code, said.out, said.err)

    yield run
    root.handlers[:] = handlers
    root.setLevel(level)


def test_it_is_a_command_of_its_own(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sabir", "run", str(EXAMPLES / "nlip_basic.yaml"), "What does tea cost?"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=600)
    assert (done.returncode, done.stdout) == (0, "Tea is 3 euros.\n"), done.stderr


@pytest.mark.parametrize(
    ("name", "question", "answer", "shown"),
    [
        ("nlip_basic", "What does tea cost?", "Tea is 3 euros.", "Calling price"),
        ("nlip_multi_agent", "Which river?", "The Rhine: 865 km of it are in Germany.", "writer votes for researcher"),
        ("nlip_advanced", "Summarise the notes", "The meeting is on Monday.", "second_reader votes for reader"),
    ],
)
def test_an_example_of_the_design_runs_offline(
    sabir: Sabir, tmp_path: Path, name: str, question: str, answer: str, shown: str
) -> None:
    done = sabir("run", str(EXAMPLES / f"{name}.yaml"), question)
    assert (done.returncode, done.stdout) == (0, f"{answer}\n"), done.stderr
    assert shown in done.stderr
    assert list(tmp_path.iterdir()) == [], "nothing is kept without --home"


TOOLS = """
from sabir import agent
from sabir.tools import tool

@tool(confirm=True)
def pay(amount: int) -> str:
    return f"paid {amount}"

@agent
async def clerk(turn):
    size = await turn.ask("Which size?")
    return {"size": size.text}
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(TOOLS)
    file = tmp_path / "sabir.yaml"
    script = [
        {"when": "paid 5", "say": "It is paid."},
        {"when": "refused", "say": "As you wish."},
        {"when": "Pay", "tool_calls": [{"name": "pay", "arguments": {"amount": 5}}]},
    ]
    agents = [
        {"id": "clerk", "use": "shop:clerk"},
        {"id": "till", "backend": {"type": "mock", "script": script}, "tools": ["shop:pay"]},
    ]
    file.write_text(yaml.safe_dump({"agents": agents}))
    return file


def test_questions_are_answered_from_the_command_line(sabir: Sabir, config: Path) -> None:
    done = sabir("run", str(config), "A pizza", "--answer", "M", "--json", "--quiet")
    assert json.loads(done.stdout)["content"] == {"size": "M"} and done.stderr == ""
    done = sabir("run", str(config), "-", "--agent", "till", "--answer", "yes", stdin="Pay")
    assert done.stdout == "It is paid.\n", done.stderr


def test_a_question_without_an_answer_and_an_unknown_agent_are_errors(sabir: Sabir, config: Path) -> None:
    done = sabir("run", str(config), "A pizza")
    assert done.returncode == 1 and "clerk asks: Which size? (give --answer)" in done.stderr
    done = sabir("run", str(config), "Hi", "--agent", "clrk")
    assert done.returncode == 2 and "there is no agent 'clrk'; choose from clerk, till" in done.stderr


# -- the live view --------------------------------------------------------------------------------------


def test_a_terminal_shows_one_table_that_is_drawn_again() -> None:
    out = io.StringIO()
    view = LiveView(["alice", "bob"], out, redraws=True)
    view.start()
    for event in (
        MemberAnswered(0, "Use\na queue.", tokens=7),
        MemberInterrupted(1),
        MemberVoted(1, 0, "it is short"),
        MemberAnswered(0, "x" * 500),
        MemberVoted(1, 0),
        MemberFailed(0, "gone"),
    ):
        view.show(event)
    view.show(PanelEnded("all members have voted", 0))
    frames = [frame.splitlines() for frame in out.getvalue().split("\x1b[2F\x1b[0J")]
    words = [[" ".join(line.split()) for line in frame] for frame in frames]
    assert words[0] == ["alice thinks 0 tokens", "bob thinks 0 tokens"]  # before anything has happened
    assert words[1][0] == "alice answers: Use a queue. 7 tokens"
    assert words[2][1] == "bob thinks again, with the answer of alice 0 tokens"
    assert words[3][1] == "bob votes for alice because it is short 0 tokens"
    assert words[4][0].startswith("alice answers again: xxxx") and "thinks again" in words[4][1]  # the vote is over
    assert len({len(line) for frame in frames for line in frame[:2]}) == 1  # no line wraps, whatever is in it
    last = frames[-1]
    assert "failed: gone" in last[0] and "votes for alice" in last[1]
    assert last[2] == "  All members have voted. alice presents the answer."


def test_what_a_member_says_does_nothing_to_the_terminal() -> None:
    out = io.StringIO()
    LiveView(["alice"], out, redraws=False).show(MemberFailed(0, "bad \x1b[2Jwords"))
    assert "\x1b" not in out.getvalue()


# -- sabir agents ---------------------------------------------------------------------------------------


@agent
async def weather(turn: Turn, town: str) -> str:
    """Tells the weather of a town."""
    return f"Rain in {town}"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(Gateway(weather, home=tmp_path_factory.mktemp("home"))) as made:
        yield made


def test_agents_of_a_configuration_are_listed(sabir: Sabir, config: Path) -> None:
    done = sabir("agents")
    assert done.stdout.splitlines()[0] == "clerk (default)" and "till: Answers with a language model" in done.stdout
    cards = json.loads(sabir("agents", str(config), "--json").stdout)
    assert [card["name"] for card in cards] == ["clerk", "till"]


@pytest.mark.parametrize("path", ["", "/nlip", "/a2a/weather", "/mcp/weather"])
def test_agents_at_an_address_are_listed(sabir: Sabir, served: Served, path: str) -> None:
    done = sabir("agents", served.url + path)
    assert done.returncode == 0, done.stderr
    assert "weather" in done.stdout and "Tells the weather of a town." in done.stdout


def test_an_unreachable_address_is_reported(sabir: Sabir) -> None:
    done = sabir("agents", "http://127.0.0.1:9", "--timeout", "2")
    assert done.returncode == 3 and "127.0.0.1:9" in done.stderr


def test_no_agents_is_said_with_what_to_do(sabir: Sabir, tmp_path: Path) -> None:
    empty = tmp_path / "empty.yaml"
    empty.write_text("agents: []\n")
    done = sabir("agents", str(empty))
    assert (done.returncode, done.stdout) == (0, "")
    assert "empty.yaml has no agents. Give the address of a gateway or a configuration file." in done.stderr
    assert json.loads(sabir("agents", str(empty), "--json").stdout) == []
