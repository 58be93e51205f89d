"""A gateway with agents, and clients that speak ACL to it by hand."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from acl_messages import message
from conftest import Served, serving
from deadline import DEADLINE
from gates import Gate
from sabir.agent import FunctionAgent, agent
from sabir.card import Card, Skill
from sabir.events import Fault, Field, Progress, Question
from sabir.gateway.gateway import Gateway
from sabir.message import Message, binary_part, json_part, text_part
from sabir.turn import Turn

PNG = b"\x89PNG\r\n\x1a\n"


def agents(gate: Gate) -> list[FunctionAgent]:
    skills = (
        Skill("EXECUTE_DELEGATED_CODING_TASK", "coding", "Debugs code", tags=("Python", "debugging")),
        Skill("explain", "Explain code", "Explains code", input_schema={"type": "object"}),
    )

    @agent(card=Card("jules", "Debugs and explains code", skills=skills))
    async def jules(turn: Turn) -> AsyncIterator[Any]:
        yield Progress(0.5, "half way")
        yield f"You said: {turn.text}"

    @agent(description="Asks which colour")
    async def asker(turn: Turn) -> str:
        colour = Field("colour", "Colour", "single_select", ("red", "blue"))
        answer = await turn.ask(Question("Which colour?", (colour,)))
        return f"You chose {answer.text}."

    @agent(description="Paints")
    async def painter(turn: Turn) -> Message:
        return Message.of(text_part("A heron."), json_part({"size": 8}), binary_part(PNG, "image/png"))

    @agent(description="Takes its time")
    async def slow(turn: Turn) -> str:
        await gate.passed()
        return "done at last"

    @agent(description="Fails")
    async def broken(turn: Turn) -> Fault:
        return Fault("the sandbox crashed")

    @agent(description="Tries and does not succeed")
    async def unlucky(turn: Turn) -> Message:
        return Message.of(text_part("Bug not found."), json_part({"task_status": "failure", "analysis": "none"}))

    @agent(description="Counts the turns of a conversation")
    async def counter(turn: Turn) -> str:
        return f"turn {len(turn.conversation.turns) + 1}"

    @agent(card=Card("german", "Reads German only in its own ontology", languages=("german",), ontologies=("my:term",)))
    async def german(turn: Turn) -> str:
        return f"Sie sagten: {turn.text}"

    return [jules, asker, painter, slow, broken, unlucky, counter, german]


@pytest.fixture(scope="session")
def gate() -> Gate:
    return Gate()


@pytest.fixture(scope="session")
def served(gate: Gate, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(Gateway(*agents(gate), home=tmp_path_factory.mktemp("acl"))) as served:
        yield served


class Speaker:
    """An agent that speaks ACL by hand: plain HTTP and JSON."""

    def __init__(self, url: str, name: str, **headers: str) -> None:
        self.url = url
        self.name = name
        self.http = httpx.AsyncClient(base_url=url, trust_env=False, headers=headers)

    async def post(self, value: Any, path: str = "/acl", **headers: str) -> httpx.Response:
        content = value if isinstance(value, str | bytes) else json.dumps(value)
        return await self.http.post(path, content=content, headers={"content-type": "application/json", **headers})

    def message(self, act: str = "TASK_REQUEST", to: str = "jules", **more: Any) -> dict[str, Any]:
        given = {"message_id": str(uuid4()), "sender": {"agent_id": self.name}, "receiver": {"agent_id": to}, **more}
        return message(act, **{"ontology": "elizaos:coding", **given})

    async def ask(self, to: str, text: str = "hello", wait: int = 20, **more: Any) -> dict[str, Any]:
        """The result of a request, or what else ends it."""
        payload = more.pop("payload", {"task_type": "ask", "task_description": text})
        value = self.message(to=to, payload=payload, **more)
        response = await self.post(value, "/mcp-request", prefer=f"wait={wait}")
        body: dict[str, Any] = response.json()
        return body

    async def say(self, act: str, to: str, payload: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
        """Send one act; the first reply."""
        given = {"payload": payload} if payload is not None else {}
        response = await self.post(self.message(act, to, **given, **more), prefer="wait=20")
        body: dict[str, Any] = response.json()
        return body

    @asynccontextmanager
    async def inbox(self, last: int | None = None) -> AsyncIterator[AsyncIterator[tuple[int, dict[str, Any]]]]:
        headers = {"accept": "text/event-stream", **({"last-event-id": str(last)} if last is not None else {})}
        async with self.http.stream("GET", f"/acl/inbox/{self.name}", headers=headers) as response:
            assert response.status_code == 200, await response.aread()
            yield _events(response)

    async def read(self, count: int, last: int | None = None) -> list[tuple[int, dict[str, Any]]]:
        """So many messages of the inbox."""
        async with asyncio.timeout(DEADLINE), self.inbox(last) as events:
            return [await anext(events) for _ in range(count)]

    async def waiting(self) -> list[dict[str, Any]]:
        response = await self.http.get(f"/acl/inbox/{self.name}", headers={"accept": "application/json"})
        return [item["message"] for item in response.json()["messages"]]


async def _events(response: httpx.Response) -> AsyncIterator[tuple[int, dict[str, Any]]]:
    number = 0
    async for line in response.aiter_lines():
        if line.startswith("id:"):
            number = int(line[3:])
        elif line.startswith("data:"):
            yield number, json.loads(line[5:])


@pytest.fixture
async def eddy(served: Served) -> AsyncIterator[Speaker]:
    speaker = Speaker(served.url, f"eddy-{uuid4().hex[:8]}")
    yield speaker
    await speaker.http.aclose()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"
