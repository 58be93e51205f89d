"""``sabir mcp``: the agents over standard input and output, with the official client."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters

from deadline import DEADLINE

AGENTS = """
from sabir.agent import agent
from sabir.events import Question

@agent(description="Repeats")
async def parrot(turn):
    print("a stray line that must not reach the client")
    return f"{turn.conversation.count + 1}: {turn.text}"

@agent(description="Asks")
async def curious(turn):
    answer = await turn.ask(Question("Which size?"))
    return f"You want {answer.text}"
"""
CONFIG = """
store: "memory:"
sites: []
agents:
  - id: parrot
    use: agents_here:parrot
  - id: curious
    use: agents_here:curious
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "agents_here.py").write_text(AGENTS)
    file = tmp_path / "sabir.yaml"
    file.write_text(CONFIG)
    return file


def server(config: Path, *more: str) -> StdioServerParameters:
    arguments = ["-m", "sabir", "mcp", str(config), "--home", str(config.parent / "home"), *more]
    env = {"PYTHONPATH": str(config.parent)}
    return StdioServerParameters(command=sys.executable, args=arguments, env=env, cwd=config.parent)


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_agents_are_tools_over_stdio(config: Path, mode: str) -> None:
    async with Client(server(config), mode=mode) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["parrot", "curious"]
        first = await client.call_tool("parrot", {"text": "one"})
        assert first.structured_content is not None
        again = {"text": "two", "conversation": first.structured_content["conversation"]}
        second = await client.call_tool("parrot", again)
        assert second.structured_content is not None
        assert second.structured_content["text"] == "2: two"


async def test_a_question_over_stdio_is_an_elicitation(config: Path) -> None:
    import mcp_types as types

    async def on_elicit(context: object, params: object) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content={"answer": "large"})

    async with Client(server(config), mode="legacy", elicitation_callback=on_elicit) as client:
        result = await client.call_tool("curious", {"text": "a shirt"})
        assert result.structured_content is not None
        assert result.structured_content["text"] == "You want large"


async def test_one_agent_alone(config: Path) -> None:
    async with Client(server(config, "--agent", "parrot")) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["parrot"]


def test_an_unknown_agent_is_reported_before_anything_starts(config: Path) -> None:
    command = server(config, "--agent", "nobody")
    done = subprocess.run([command.command, *command.args], cwd=config.parent, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert "there is no agent 'nobody'" in done.stderr


def test_only_the_protocol_is_on_standard_output(config: Path) -> None:
    command = server(config)
    begin = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    process = subprocess.Popen(
        [command.command, *command.args],
        cwd=config.parent,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdin is not None and process.stdout is not None
    say = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": begin},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "parrot", "arguments": {"text": "hi"}}},
    ]
    for message in say:
        process.stdin.write(json.dumps(message) + "\n")
        process.stdin.flush()
    answers = [json.loads(process.stdout.readline()) for _ in range(2)]
    process.stdin.close()
    assert process.wait(DEADLINE) == 0
    rest = process.stdout.read()
    process.stdout.close()
    assert [answer["id"] for answer in answers] == [1, 2]
    assert rest == ""
