"""What a filter takes out of a message is not stored with a task either, whichever door it came through."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest

from conftest import serving
from deadline import DEADLINE
from sabir import Gateway, agent
from sabir.guard.filters.base import Filters
from sabir.message import Message
from sabir.turn import Caller, Turn

KEY = "AKIAIOSFODNN7EXAMPLE"
SAID = f"my key is {KEY}"
PART = {"kind": "text", "text": SAID}
LATER = {"prefer": "respond-async"}
CASES: dict[str, tuple[str, dict[str, Any], dict[str, str]]] = {
    "nlip": ("/nlip", {"format": "text", "subformat": "english", "content": SAID}, LATER),
    "nlweb": ("/ask/listener", {"query": {"text": SAID}}, LATER),
    "a2a, ended at once": ("/a2a/listener", {"message": {"parts": [PART]}}, {}),
    "a2a, adopted": ("/a2a/listener", {"message": {"parts": [PART]}, "configuration": {"blocking": False}}, {}),
}


class Masking:
    """A filter of one's own, which takes the key out before the agent gets the message."""

    name = "masking"

    async def inbound(self, message: Message, caller: Caller) -> Message:
        return msgspec.structs.replace(message, content=message.text.replace(KEY, "…"))

    async def outbound(self, message: Message, caller: Caller) -> Message:
        return message


def written(home: Path) -> bytes:
    """Everything that the gateway has written, its write-ahead log too."""
    return b"".join(path.read_bytes() for path in home.rglob("*") if path.is_file())


@pytest.mark.parametrize("case", CASES)
async def test_what_a_filter_takes_out_is_not_stored_with_a_task(case: str, home: Path) -> None:
    heard: list[str] = []

    @agent
    async def listener(turn: Turn) -> str:
        heard.append(turn.text)
        return "heard"

    path, body, headers = CASES[case]
    if path.startswith("/a2a"):
        message = {"kind": "message", "role": "user", "messageId": "m1", **body["message"]}
        body = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {**body, "message": message}}
    gateway = Gateway(listener, home=home, filters=Filters([Masking()]))
    with serving(gateway) as served:
        async with httpx2.AsyncClient(trust_env=False) as http:
            answer = await http.post(served.url + path, json=body, headers=headers)
            assert answer.is_success, answer.text
        async with asyncio.timeout(DEADLINE):
            while not heard:
                await asyncio.sleep(0.01)
        assert KEY not in heard[0]
        stored = written(home)
    assert b"my key is" in stored
    assert KEY.encode() not in stored
