"""Eddy: delegates a debugging task to Jules over ACL, and reports what it thinks on the way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sabir import Messenger

ONTOLOGY = "elizaos:ontology:code/python/debug_request"
FAILING = """\
def last_pair(numbers):
    total = 0
    for i in range(len(numbers) + 1):
        total += numbers[i]
    return total


print(last_pair([1, 2, 3]))
"""


async def delegate_coding_task_to_jules(
    eddy: Messenger, code: str, error_log: str = "", *, think: Callable[[str], None] = print
) -> dict[str, Any]:
    """The action DELEGATE_CODING_TASK_TO_JULES; returns the payload of the last message."""
    parameters = {
        "code_to_debug": code,
        "programming_language": "python",
        "desired_outcome": "Identify and fix the bug, or provide analysis if not fixable.",
    }
    if error_log:
        parameters["error_log"] = error_log
    conversation = await eddy.request(
        "Jules",
        "Debug the provided Python script to fix the 'IndexError'.",
        parameters,
        task_type="debug_code",
        ontology=ONTOLOGY,
        priority="medium",
    )
    asked = conversation.opener.message_id
    ended: dict[str, Any] = {}
    async for message in conversation:
        if message.performative == "TASK_ACCEPT":
            think(f"Received TASK_ACCEPT from Jules for message_id {asked}. Now awaiting INFORM_RESULT.")
        elif message.performative == "INFORM_RESULT":
            think(f"Received INFORM_RESULT from Jules for message_id {asked}. Forwarding result to user.")
        ended = {"performative": message.performative, "ontology": message.ontology, **message.payload}
    return ended
