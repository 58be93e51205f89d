"""Clients of A2A 0.3: no version header, other names, other spellings; answered in kind."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from a2a.client import ClientConfig, ClientFactory
from a2a.client.card_resolver import parse_agent_card
from a2a.types import a2a_pb2 as pb

from conftest import Served
from protocols.a2a.a2a_bench import said, saying, text_of


def send(text: str, **message: Any) -> dict[str, Any]:
    part = {"kind": "text", "text": text}
    return {"message": {"kind": "message", "messageId": "1", "role": "user", "parts": [part], **message}}


async def rpc(http: httpx.AsyncClient, url: str, method: str, params: Any) -> dict[str, Any]:
    request = {"jsonrpc": "2.0", "id": "r1", "method": method, "params": params}
    answer = await http.post(url, json=request)
    body: dict[str, Any] = answer.json()
    assert (answer.status_code, body["id"], body["jsonrpc"]) == (200, "r1", "2.0")
    return body


async def test_a_message_is_answered_in_the_spelling_of_0_3(shared: Served, http: httpx.AsyncClient) -> None:
    task = (await rpc(http, f"{shared.url}/a2a/echo", "message/send", send("hello")))["result"]
    assert task["kind"] == "task"
    assert task["status"]["state"] == "completed"
    assert task["artifacts"][0]["parts"] == [{"kind": "text", "text": "hello"}]
    assert task["history"][0]["role"] == "user"
    again = (await rpc(http, f"{shared.url}/a2a/echo", "tasks/get", {"id": task["id"]}))["result"]
    assert again == task


async def test_a_stream_ends_with_a_final_status(shared: Served, http: httpx.AsyncClient) -> None:
    request = {"jsonrpc": "2.0", "id": 5, "method": "message/stream", "params": send("go")}
    events = []
    async with http.stream("POST", f"{shared.url}/a2a/pieces", json=request) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        async for line in answer.aiter_lines():
            if line.startswith("data: "):
                events.append(json.loads(line[6:]))
    assert all(event["id"] == 5 for event in events)
    kinds = [event["result"]["kind"] for event in events]
    assert kinds == ["task", "artifact-update", "status-update", "artifact-update", "artifact-update", "status-update"]
    assert (events[-1]["result"]["final"], events[-1]["result"]["status"]["state"]) == (True, "completed")


async def test_a_question_is_asked_and_answered_in_0_3(shared: Served, http: httpx.AsyncClient) -> None:
    place = f"{shared.url}/a2a/asker"
    asking = (await rpc(http, place, "message/send", send("paint")))["result"]
    assert asking["status"]["state"] == "input-required"
    assert asking["status"]["message"]["parts"][0]["text"] == "Which colour?"
    done = (await rpc(http, place, "message/send", send("blue", taskId=asking["id"])))["result"]
    assert done["artifacts"][0]["parts"][0]["text"] == "You chose blue."


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("message/send", {}, -32602),
        ("message/send", {"message": {"role": "user"}}, -32602),
        ("message/send", send("x", parts=[{"kind": "file", "file": {"bytes": "!", "name": "x"}}]), -32602),
        ("tasks/get", {"id": "nope"}, -32001),
        ("tasks/cancel", {"id": "nope"}, -32001),
        ("tasks/get", {}, -32602),
        ("tasks/unknown", {}, -32601),
    ],
)
async def test_bad_requests_of_0_3(
    shared: Served, http: httpx.AsyncClient, method: str, params: Any, code: int
) -> None:
    answer = await rpc(http, f"{shared.url}/a2a/echo", method, params)
    assert answer["error"]["code"] == code
    assert "pydantic" not in json.dumps(answer)


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
async def test_the_sdk_s_0_3_client_works_from_our_card(shared: Served, binding: str) -> None:
    """The client is given the card as a 0.3 client reads it: only the fields that 0.3 has."""
    async with httpx.AsyncClient(trust_env=False) as http:
        card = (await http.get(f"{shared.url}/a2a/asker/.well-known/agent-card.json")).json()
        assert card["protocolVersion"] == "0.3"
        assert card["url"] == f"{shared.url}/a2a/asker"
        del card["supportedInterfaces"]
        config = ClientConfig(httpx_client=http, supported_protocol_bindings=[binding])
        client = ClientFactory(config).create(parse_agent_card(card))
        assert type(client._transport).__name__.startswith("Compat")
        *_, asking = await said(client, saying("paint"))
        assert asking.status_update.status.state == pb.TASK_STATE_INPUT_REQUIRED
        *_, done = await said(client, saying("red", task=asking.status_update.task_id))
        assert done.status_update.status.state == pb.TASK_STATE_COMPLETED
        task = await client.get_task(pb.GetTaskRequest(id=asking.status_update.task_id))
        assert text_of(task) == "You chose red."


async def test_0_3_over_plain_http(shared: Served, http: httpx.AsyncClient) -> None:
    place = f"{shared.url}/a2a/echo/v1"
    message = {"messageId": "1", "role": "ROLE_USER", "content": [{"text": "hi"}]}
    answer = await http.post(f"{place}/message:send", json={"request": message})
    task = answer.json()["task"]
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert task["artifacts"][0]["parts"][0]["text"] == "hi"
    assert (await http.get(f"{place}/tasks/{task['id']}")).json()["id"] == task["id"]
    answer = await http.get(f"{place}/tasks/nope")
    assert (answer.status_code, answer.json()["error"]["details"][0]["reason"]) == (404, "TASK_NOT_FOUND")
    assert (await http.post(f"{place}/tasks/{task['id']}")).status_code == 405
    assert (await http.get(f"{place}/nothing")).status_code == 404
