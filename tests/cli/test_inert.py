"""What others say does nothing to the terminal of whoever asks (issue 11, D16)."""

from __future__ import annotations

import ast
import json
import unicodedata
from pathlib import Path

import pytest

import sabir.cli
from cli.conftest import Sabir, ServeEverywhere
from sabir import Turn, agent
from sabir.errors import TurnFailed
from sabir.events import Field, Question
from sabir.message import Message, Part, json_part
from sabir.observe.logs import inert, scrubbed

CLEAR = "\x1b[2J\x1b]0;owned\x07"
ACTING = f"a{CLEAR}b\x9b31mc\u202egnp.exe\u2066d\r\x08e\x00\U000e0041"
HARMLESS = "naïve – 日本語 مرحبا नमस्ते 👩\u200d👩\u200d👧 می\u200cخواهم 1\u00a0000\tx\ny"


def is_quiet(text: str) -> bool:
    """Whether nothing in it acts: no controls but line breaks and tabs, no overrides of the direction."""
    allowed = "\n\t\u200d\u200c"
    return not [c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") and c not in allowed]


@agent(name="loud")
async def loud(turn: Turn) -> Message:
    found = {"name": ACTING, "url": f"https://x.example/{ACTING}", "description": ACTING}
    result = json_part(found, label="result")
    return Message.text(ACTING, parts=[Part("structured", "uri", ACTING), result, json_part({ACTING: ACTING})])


@agent(name="broken")
async def broken(turn: Turn) -> str:
    raise TurnFailed(ACTING)


@agent(name="asking")
async def asking(turn: Turn) -> str:
    return (await turn.ask(Question(ACTING, (Field("a", ACTING, options=(ACTING, "y")),)))).text


@pytest.mark.parametrize("protocol", ["nlip", "ws", "nlweb", "mcp", "a2a"])
@pytest.mark.parametrize("flag", ["", "--stream", "--json", "--trace"])
def test_what_a_remote_agent_says_is_printed_and_does_nothing(
    everywhere: ServeEverywhere, sabir: Sabir, protocol: str, flag: str
) -> None:
    places = everywhere(loud, broken, asking)
    for name in ("loud", "broken", "asking"):
        said = sabir("ask", places.of(protocol, name), "hi", *([flag] if flag else []), "--new")
        assert is_quiet(said.out), said.out
        assert is_quiet(said.err), said.err
        assert said.out or said.err
        if flag == "--json" and said.out:
            json.loads(said.out)


def test_letters_that_scripts_need_stay() -> None:
    assert inert(HARMLESS) == HARMLESS
    assert is_quiet(inert(ACTING)) and is_quiet(scrubbed(ACTING))
    assert inert("a\x1b[1mb\u202ec") == "a\\x1b[1mb\\u202ec"


def test_every_command_prints_by_say() -> None:
    """``print`` itself is for progress bars, whose escape sequences are ours, and for texts made inert on the spot."""
    for path in Path(sabir.cli.__file__).parent.glob("*.py"):
        if path.name == "printing.py":
            continue
        source = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
                printed = ast.get_source_segment(source, node) or ""
                assert "\\033[K" in printed or "print(inert(" in printed, f"{path.name}:{node.lineno}"
