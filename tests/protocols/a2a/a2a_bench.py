"""Agents behind the A2A door, and the official SDK's client in front of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import httpx
from a2a.client import Client, ClientConfig, ClientFactory
from a2a.types import a2a_pb2 as pb

from gates import Gate
from sabir.agent import FunctionAgent, agent
from sabir.card import Card, Skill
from sabir.errors import Unauthenticated
from sabir.events import Fault, Field, Progress, Question
from sabir.guard import Credentials
from sabir.message import Message, Part, binary_part, json_part, text_part
from sabir.turn import Caller, Turn

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(64))


@dataclass
class Bench:
    """The agents that the tests talk to."""

    gate: Gate = field(default_factory=Gate)
    repeatable: bool = True

    def agents(self) -> list[FunctionAgent]:
        gate = self.gate

        @agent(description="Says it back")
        async def echo(turn: Turn) -> Any:
            return Message.of(*turn.parts)

        @agent(description="Counts the turns of a conversation")
        async def counter(turn: Turn) -> str:
            return f"turn {len(turn.conversation.turns) + 1}: {turn.text}"

        @agent(description="Answers in pieces")
        async def pieces(turn: Turn) -> AsyncIterator[Any]:
            yield "one, "
            yield Progress(0.5, "half way")
            yield "two"
            yield json_part({"three": 3})

        @agent(description="Asks which colour", repeatable=self.repeatable)
        async def asker(turn: Turn) -> str:
            field = Field("colour", "Colour", "single_select", ("red", "blue"))
            answer = await turn.ask(Question("Which colour?", (field,), id="q1"))
            return f"You chose {answer.text}."

        @agent(description="Takes until the gate opens", repeatable=self.repeatable)
        async def slow(turn: Turn) -> AsyncIterator[Any]:
            yield "first "
            await gate.passed()
            yield "last"

        @agent(description="Fails")
        async def broken(turn: Turn) -> str:
            raise RuntimeError("secret inside /etc/shadow")

        @agent(description="Says no")
        async def refuser(turn: Turn) -> Fault:
            return Fault("not on a Sunday", "refused")

        painter_card = Card(
            name="painter",
            description="Paints",
            skills=(Skill("paint", "Paint", "Paints what you say", ("art",), ("a heron",)),),
            says=("text", "binary", "structured"),
            languages=("english", "french"),
            limits={"pixels": 100},
        )

        @agent(card=painter_card)
        async def painter(turn: Turn) -> Message:
            parts: list[Part] = [text_part("voilà", "french"), binary_part(PNG, "image/png", label="heron.png")]
            return Message.of(*parts, json_part({"size": [8, 8], "id": 2**60}))

        return [echo, counter, pieces, asker, slow, broken, refuser, painter]


class Keys:
    """Knows two callers by their bearer tokens."""

    challenge = "Bearer"

    async def verify(self, credentials: Credentials, tokens: tuple[Part, ...]) -> Caller | None:
        if credentials.authorization is None:
            return None
        known = {"Bearer alice": "alice", "Bearer bob": "bob"}.get(credentials.authorization)
        if known is None:
            raise Unauthenticated("these credentials are not known here", "Bearer")
        return Caller(id=known, kind="key", name=known)


async def connected(url: str, agent: str, binding: str = "JSONRPC", as_: str | None = None, **config: Any) -> Client:
    """The SDK's client for one agent."""
    headers = {"authorization": f"Bearer {as_}"} if as_ else {}
    http = httpx.AsyncClient(trust_env=False, headers=headers)
    settings = ClientConfig(httpx_client=http, supported_protocol_bindings=[binding], **config)
    return await ClientFactory(settings).create_from_url(f"{url}/a2a/{agent}")


async def closed(client: Client) -> None:
    await client._transport.httpx_client.aclose()  # type: ignore[attr-defined]


def saying(
    *parts: str | pb.Part, context: str = "", task: str = "", item_id: str | None = None, **configuration: Any
) -> pb.SendMessageRequest:
    made = [pb.Part(text=part) if isinstance(part, str) else part for part in parts]
    message = pb.Message(
        message_id=item_id or uuid4().hex, role=pb.ROLE_USER, parts=made, context_id=context, task_id=task
    )
    request = pb.SendMessageRequest(message=message)
    if configuration:
        request.configuration.CopyFrom(pb.SendMessageConfiguration(**configuration))
    return request


async def said(client: Client, request: pb.SendMessageRequest) -> list[pb.StreamResponse]:
    return [response async for response in client.send_message(request)]


async def task_of(client: Client, request: pb.SendMessageRequest) -> pb.Task:
    """The task that a message began, as it is when the answer is there."""
    responses = await said(client, request)
    return await client.get_task(pb.GetTaskRequest(id=responses[0].task.id))


def text_of(task: pb.Task) -> str:
    return "".join(part.text for artifact in task.artifacts for part in artifact.parts)
