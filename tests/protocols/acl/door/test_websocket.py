"""``WS /acl/ws/{agent}``: every act, receipts and errors as over HTTP, priorities, and reconnecting."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import pytest
from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as ws_connect

from conftest import Served
from protocols.acl.conftest import Speaker
from sabir.dialogues.states import OPENERS

ANSWERS = {
    "TASK_REQUEST": "TASK_ACCEPT",
    "QUERY_IF": "INFORM_IF",
    "QUERY_REF": "INFORM_REF",
    "QUERY_CAPABILITIES": "INFORM_CAPABILITIES",
    "CALL_FOR_PROPOSALS": "PROPOSE",
    "PROPOSE": "REJECT_PROPOSAL",
    "SUBSCRIBE": "TASK_REJECT",
}


class Line:
    """One WebSocket of one agent."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket

    async def send(self, value: Any) -> None:
        await self._socket.send(json.dumps({"send": value}))

    async def acknowledge(self, number: int) -> None:
        await self._socket.send(json.dumps({"ack": number}))

    async def frame(self, kind: str) -> dict[str, Any]:
        """The next frame of this kind; others are passed over."""
        async with asyncio.timeout(15):  # less than the lease of a letter
            while kind not in (read := json.loads(await self._socket.recv())):
                pass
        frame: dict[str, Any] = read
        return frame


@pytest.fixture
async def line(served: Served, eddy: Speaker) -> AsyncIterator[Line]:
    async with ws_connect(f"{served.ws_url}/acl/ws/{eddy.name}") as socket:
        yield Line(socket)


@pytest.mark.parametrize("act", OPENERS)
async def test_every_conversation_opens_over_a_websocket(line: Line, eddy: Speaker, act: str) -> None:  # ACL-43
    sent = eddy.message(act)
    await line.send(sent)
    assert (await line.frame("accepted"))["accepted"] == sent["message_id"]
    answer = (await line.frame("message"))["message"]
    assert (answer["performative"], answer["in_reply_to"]) == (ANSWERS[act], sent["message_id"])


async def test_a_whole_conversation_goes_over_one_websocket(line: Line, eddy: Speaker) -> None:  # ACL-43, ACL-17
    """With the acts that follow an opener: an answer, a bid that is accepted, a cancellation, a renewal."""
    await line.send(eddy.message(to="asker"))
    while (asked := (await line.frame("message"))["message"])["performative"] != "REQUEST_INPUT":
        pass
    await line.send(eddy.message("INFORM_INPUT", "asker", in_reply_to=asked["message_id"], payload={"answer": "red"}))
    assert (await line.frame("message"))["message"]["payload"]["result_summary"] == "You chose red."
    await line.send(eddy.message("CALL_FOR_PROPOSALS"))
    bid = (await line.frame("message"))["message"]
    await line.send(eddy.message("ACCEPT_PROPOSAL", in_reply_to=bid["message_id"]))
    while (ended := (await line.frame("message"))["message"])["performative"] == "INFORM_PROGRESS":
        pass
    assert ended["performative"] == "INFORM_RESULT"
    subscription = eddy.message("SUBSCRIBE", "df")
    await line.send(subscription)
    assert (await line.frame("message"))["message"]["performative"] == "TASK_ACCEPT"
    for act in ("RENEW", "CANCEL"):
        await line.send(eddy.message(act, "df", in_reply_to=subscription["message_id"]))
        assert (await line.frame("accepted"))["duplicate"] is False
    assert (await line.frame("message"))["message"]["performative"] == "INFORM_DONE"


@pytest.mark.parametrize("payload", [{"reason": 1}, {"reason_code": "parsing_error"}])
async def test_not_understood_is_not_answered_by_another(
    line: Line, eddy: Speaker, payload: dict[str, Any]
) -> None:  # ACL-13
    await line.send(eddy.message("NOT_UNDERSTOOD", payload=payload, in_reply_to="unknown"))
    error = (await line.frame("error"))["error"]
    assert ("performative" in error, error["status"]) == (False, "refused")


async def test_an_error_has_the_form_of_its_message(line: Line, eddy: Speaker) -> None:
    await line.send({"sender": eddy.name, "receiver": "jules", "performative": "HELLO", "payload": {}})
    error = (await line.frame("error"))["error"]
    assert (error["sender"], error["performative"], error["error"]["code"]) == (
        "gateway",
        "FAILURE",
        "unknown_performative",
    )


async def test_the_receipt_of_a_message_to_many_lists_them(line: Line, eddy: Speaker) -> None:  # ACL-36, A-4
    await line.send(eddy.message("QUERY_CAPABILITIES", receiver={"agent_ids": ["jules", "painter"]}))
    assert (await line.frame("accepted"))["receivers"] == ["jules", "painter"]


async def test_waiting_messages_come_by_priority_and_again_until_they_are_acknowledged(
    served: Served, eddy: Speaker
) -> None:  # ACL-34, ACL-43, A-10
    reader = Speaker(served.url, f"reader-{uuid4().hex[:8]}")
    await reader.waiting()  # known from now on, and away
    for priority in ("low", "medium", "high"):
        payload = {"task_type": "ask", "task_description": priority, "priority": priority}
        assert (await eddy.post(eddy.message(to=reader.name, payload=payload))).status_code == 202

    async def read(count: int, acknowledge: int) -> list[str]:
        async with ws_connect(f"{served.ws_url}/acl/ws/{reader.name}") as socket:
            frames = [await (line := Line(socket)).frame("message") for _ in range(count)]
            for frame in frames[:acknowledge]:
                await line.acknowledge(frame["id"])
            await line.send("nonsense")  # answered after the acknowledgements
            await line.frame("error")
        return [frame["message"]["payload"]["task_description"] for frame in frames]

    assert await read(3, 0) == ["high", "medium", "low"]
    assert await read(3, 1) == ["high", "medium", "low"]  # nothing was acknowledged before
    assert await read(2, 2) == ["medium", "low"]  # at once: an acknowledged one releases no other
    assert await reader.waiting() == []
    await reader.http.aclose()
