"""The system under test of the official A2A TCK: an agent behind a Sabir gateway, on all three bindings.

The TCK chooses what the agent does by a prefix of ``messageId``. Start it by ``scripts/a2a_tck``, or by hand:
``python tests/protocols/a2a/tck_agent.py PORT GRPC_PORT HOME``.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from sabir import Gateway, agent
from sabir.card import Card, Skill
from sabir.events import Delta, Fault, Progress, Question, Reply
from sabir.guard import Authenticator, Quotas
from sabir.message import Message, Part, binary_part, json_part, text_part, uri_part
from sabir.protocols.a2a.wire.content import note, said_of
from sabir.protocols.a2a.wire.parts import keep
from sabir.turn import Turn

LONG: Final = 8.0  # seconds that the task of the resubscription test works
FILE: Final = binary_part(b"Generated file content", "generic/plain", label="output.txt")
CARD: Final = Card(
    name="tck",
    description="The system under test of the A2A TCK",
    skills=(Skill("tck", "TCK", "Does what the TCK asks for", ("tck",)),),
)

# What is said for a prefix of messageId, the longest first: pieces of the answer, sent one by one after a status.
ANSWERS: Final[Mapping[str, tuple[Part, ...]]] = {
    "tck-artifact-file-url": (
        keep(uri_part("https://example.com/output.txt", label="output.txt"), mediaType="text/plain"),
    ),
    "tck-artifact-file": (FILE,),
    "tck-artifact-text": (text_part("Generated text content"),),
    "tck-artifact-data": (json_part({"key": "value", "count": 42}),),
    "tck-stream-artifact-file": (FILE,),
    "tck-stream-artifact-text": (text_part("Streamed text content"),),
    "tck-stream-artifact-chunked": (text_part("chunk-1 "), text_part("chunk-2")),
    "tck-stream-ordering-001": (text_part("Ordered output"),),
    "tck-stream-001": (text_part("Stream hello from TCK"),),
    "tck-stream-003": (text_part("Stream task lifecycle"),),
    "test-resubscribe-message-id": (text_part("Long work is done"),),
}
DEFAULT: Final = (text_part("Hello from TCK"),)


@agent(card=CARD)
async def tck(turn: Turn) -> AsyncIterator[Any]:
    id_ = str(said_of(turn.message).get("messageId", ""))
    if id_.startswith("tck-reject-task"):
        yield Fault("rejected", "refused")
        return
    if id_.startswith("tck-input-required"):
        answer = await turn.ask(Question("Please give more input."))
        while str(said_of(answer).get("messageId", "")).startswith("tck-input-required"):
            answer = await turn.ask(Question("Please give more input."))
        yield Reply(Message.text(f"You said: {answer.text}"))
        return
    if id_.startswith("tck-message-response"):
        yield Reply(note(Message.text("Direct message response"), direct=True))
        return
    parts = next((parts for prefix, parts in ANSWERS.items() if id_.startswith(prefix)), DEFAULT)
    if id_.startswith(("tck-stream", "test-resubscribe")):
        yield Progress(None, "Working")
        if id_.startswith("test-resubscribe"):
            await asyncio.sleep(LONG)
        for part in parts:
            yield Delta(part)
    yield Reply(Message.of(*parts))


def main(port: int, grpc_port: int, home: str) -> None:
    # The TCK knows 1.0 only, and rejects a card that also has the fields of 0.3.
    settings = {"grpc": {"port": grpc_port, "listed": True}, "push": {"private": True}, "card_versions": ["1.0"]}
    unlimited = Quotas(rate_per_address=1000.0, burst=1000)  # the TCK asks much in a short time
    public_url = f"http://127.0.0.1:{port}"
    nobody = Authenticator()  # the TCK shows no credentials, so there is no extended card either
    gateway = Gateway(tck, home=home, quotas=unlimited, identity=nobody, doors={"a2a": settings}, public_url=public_url)
    gateway.run("127.0.0.1", port)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
