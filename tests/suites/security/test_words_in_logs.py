"""Content from callers does not reach the log through an agent's exception, except at level debug."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import sabir
from deadline import DEADLINE
from sabir.observe.logs import LOGGERS, UNTOLD, without_words
from suites.security.attackers import Caller, say

SAID = "PLANTED-what-a-caller-said"
AGENT = """
from sabir import Gateway, agent

@agent(description="Fails, and repeats its input")
async def boom(turn):
    try:
        raise KeyError(turn.text)
    except KeyError as wrong:
        raise ValueError("cannot do " + turn.text) from wrong

if __name__ == "__main__":
    Gateway(boom).run(port=0)
"""
SERVE = [sys.executable, "-m", "sabir", "serve", "--port", "0"]
SCRIPT = [sys.executable, "failing.py"]


def log_of(folder: Path, command: list[str]) -> str:
    """What a gateway wrote to its two streams while an agent of it failed."""
    (folder / "failing.py").write_text(AGENT)
    (folder / "sabir.yaml").write_text('agents: [{id: boom, use: "failing:boom"}]\n')
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONPATH": str(folder)}
    with (folder / "stderr").open("wb") as errors:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True
        )
        try:
            assert process.stdout is not None
            found = re.search(r"listening on (http://\S+)", process.stdout.readline())
            assert found is not None
            with Caller(found[1]) as caller:
                assert caller.ask(say(SAID)).status_code == 500
        finally:
            process.terminate()
            out, _ = process.communicate(timeout=DEADLINE)
    return out + (folder / "stderr").read_text()


@pytest.mark.parametrize("command", [SERVE, SCRIPT], ids=["sabir serve", "Gateway(…).run()"])
def test_a_failing_agent_puts_nothing_that_a_caller_said_into_the_log(tmp_path: Path, command: list[str]) -> None:
    log = log_of(tmp_path, command)
    assert SAID not in log
    assert f"ValueError ({UNTOLD})" in log and f"KeyError ({UNTOLD})" in log
    assert "failing.py" in log and "in boom" in log


def test_at_level_debug_the_log_says_what_the_exception_says(tmp_path: Path) -> None:
    log = log_of(tmp_path, [*SERVE, "--log-level", "debug"])
    assert f"ValueError: cannot do {SAID}" in log and UNTOLD not in log


def test_several_failures_at_once_are_reported_by_their_kinds() -> None:
    answer = without_words(ExceptionGroup(SAID, [ValueError(SAID), OSError(SAID)]))
    assert SAID not in answer and "ExceptionGroup of ValueError, OSError" in answer


def test_every_logger_of_the_library_has_the_filter() -> None:
    named: set[str] = set()
    for path in Path(sabir.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "logging.getLogger":
                named |= {arg.value for arg in node.args if isinstance(arg, ast.Constant)}
    assert {name for name in named if name.startswith("sabir")} == set(LOGGERS)
