"""Answer now or become a task: one way for all protocols, without polling (issue 11, C 9)."""

from __future__ import annotations

import ast
import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

import sabir
from conftest import Served, serving
from sabir import Gateway, Turn, agent

CLIENT = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
}
MESSAGE = {"messageId": "1", "role": "ROLE_USER", "parts": [{"text": "hi"}]}
ASKED: dict[str, tuple[str, dict[str, Any], dict[str, str]]] = {
    "nlweb": ("/ask/unhurried", {"query": {"text": "hi"}, "prefer": {"streaming": False}}, {"prefer": "wait=20"}),
    "mcp": (
        "/mcp",
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": "unhurried", "arguments": {"text": "hi"}, "_meta": CLIENT},
        },
        {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "unhurried"},
    ),
    "a2a": (
        "/a2a/unhurried",
        {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": MESSAGE}},
        {"a2a-version": "1.0"},
    ),
}


@agent
async def unhurried(turn: Turn) -> str:
    await asyncio.sleep(1.0)
    return "done at last"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(Gateway(unhurried, home=tmp_path_factory.mktemp("home"), doors={"mcp": {"task_after": 10.0}})) as made:
        yield made


@pytest.mark.parametrize("protocol", ASKED)
def test_a_request_that_waits_for_its_turn_does_not_poll(
    protocol: str, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = 0
    store = served.gateway.store
    read = store.task

    async def counted(task_id: str) -> Any:
        nonlocal reads
        reads += 1
        return await read(task_id)

    monkeypatch.setattr(store, "task", counted)
    path, body, headers = ASKED[protocol]
    accept = {"accept": "application/json, text/event-stream" if protocol == "mcp" else "application/json"}
    answer = httpx2.post(f"{served.url}{path}", json=body, headers={**accept, **headers}, timeout=30)
    assert "done at last" in answer.text, answer.text
    assert reads <= 5  # when it begins to wait, and when the task has changed


def test_only_one_module_makes_tasks_of_running_turns() -> None:
    root = Path(sabir.__file__).parent
    adopting = {
        str(path.relative_to(root))
        for path in root.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr == "adopt" and ast.unparse(node.value).endswith("tasks")
    }
    assert adopting == {"tasks/run_or_adopt.py"}
