"""Answer now or become a task: one way for all protocols, without polling (issue 11, C 9)."""

from __future__ import annotations

import ast
import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2
import pytest

import sabir
from conftest import Served, serving
from sabir import Gateway, Message, Turn, agent
from sabir.events import Event
from sabir.exchange.request import TurnRequest
from sabir.tasks import Tasks
from sabir.tasks.run_or_adopt import RunningTurn

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


@agent
async def counting(turn: Turn) -> str:
    return f"{len(turn.conversation.turns)} before"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(
        Gateway(unhurried, counting, home=tmp_path_factory.mktemp("home"), doors={"mcp": {"task_after": 10.0}})
    ) as made:
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
    answer = httpx2.post(f"{served.url}{path}", json=body, headers={**accept, **headers})
    assert "done at last" in answer.text, answer.text
    assert reads <= 5  # when it begins to wait, and when the task has changed


def test_a_new_conversation_is_not_looked_up_and_is_found_again(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The token that the A2A door had just made was opened and searched for in the store."""
    read: list[str] = []
    for name in ("conversation", "turn"):
        monkeypatch.setattr(served.gateway.store, name, _counted(getattr(served.gateway.store, name), name, read))

    def sent(**more: str) -> Any:
        message = {"messageId": uuid4().hex, "role": "ROLE_USER", "parts": [{"text": "hi"}], **more}
        call = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
        answer = httpx2.post(f"{served.url}/a2a/counting", json=call, headers={"a2a-version": "1.0"})
        return answer.json()["result"]["task"]

    first = sent()
    assert read == []
    assert first["artifacts"][0]["parts"][0]["text"] == "0 before"
    second = sent(contextId=first["contextId"])
    assert second["artifacts"][0]["parts"][0]["text"] == "1 before"
    assert "conversation" in read


def _counted(method: Callable[..., Awaitable[Any]], name: str, read: list[str]) -> Callable[..., Awaitable[Any]]:
    async def counted(*given: Any) -> Any:
        read.append(name)
        return await method(*given)

    return counted


def test_only_one_module_makes_tasks_of_running_turns() -> None:
    root = Path(sabir.__file__).parent
    adopting = {
        str(path.relative_to(root))
        for path in root.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr == "adopt" and ast.unparse(node.value).endswith("tasks")
    }
    assert adopting == {"tasks/run_or_adopt.py"}


async def test_each_waiter_of_a_turn_has_its_own_time_limit() -> None:
    """One gives up, one is cancelled, one waits for something else first; the last still learns the end."""
    run = RunningTurn(Tasks.__new__(Tasks), TurnRequest(Message.text("hi"), "nlip"), _unheard)
    ended = asyncio.Event()

    async def turn() -> None:
        await ended.wait()

    run.start(turn())
    other = asyncio.get_running_loop().create_future()
    patient, first, cancelled = (asyncio.create_task(run.wait(*w)) for w in ((None,), (None, other), (30.0,)))
    assert not await run.wait(0.01)
    cancelled.cancel()
    other.set_result(None)
    assert not await first
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    assert not patient.done()
    ended.set()
    assert await patient and await run.wait(0.0)
    run.unsettle()
    assert not await run.wait(0.0)


async def _unheard(event: Event) -> None:
    return None
