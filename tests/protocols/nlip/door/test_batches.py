"""Several messages in one request, answered in order (MW-72)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import cbor2
import httpx2
import pytest
from websockets.sync.client import connect

from conftest import Serve
from deadline import DEADLINE
from protocols.nlip.amqp.conftest import amqp_gateway, broker, prefix  # noqa: F401
from sabir import Gateway, Question, Turn, agent
from sabir.errors import TurnFailed
from sabir.protocols.nlip.amqp.connection import AmqpConnection, Incoming
from sabir.protocols.nlip.wire.amqp import JSON, AmqpMessage


@agent(name="counting")
async def counting(turn: Turn) -> str:
    if turn.text == "fail":
        raise TurnFailed("it broke")
    return f"{turn.text}, after {len(turn.conversation.turns)}"


def plain(text: str, session: str | None = None) -> dict[str, Any]:
    message: dict[str, Any] = {"format": "text", "subformat": "english", "content": text}
    if session is not None:
        message["submessages"] = [{"format": "token", "subformat": "conversation", "content": session}]
    return message


def enveloped(text: str, **control: Any) -> dict[str, Any]:
    return {
        "format": {},
        "control": {"message_type": "request", "message_id": text, **control},
        "token": {},
        "content": {"query": text},
    }


MIXED = [
    plain("one"),
    enveloped("two"),
    plain("fail"),
    {"format": 5},
    enveloped("note", message_type="notification"),
    enveloped("bad", priority=99),
]


def check(whole: dict[str, Any]) -> None:
    assert list(whole) == ["batch"]
    answers = whole["batch"]
    assert answers[0]["content"] == "one, after 0"
    assert answers[1]["content"]["content"] == "two, after 0"
    assert answers[1]["control"]["correlation_id"] == "two"
    assert (answers[2]["messagetype"], answers[2]["content"]) == ("error", "it broke")
    assert answers[3]["messagetype"] == "error"
    assert answers[4]["content"] == {}
    assert "$.control.priority" in answers[5]["content"]["error"]
    assert len(answers) == 6


def test_a_batch_over_http_is_answered_in_order(serve: Serve, home: Path) -> None:
    url = serve(Gateway(counting, home=home)).url + "/nlip"
    response = httpx2.post(url, json={"batch": MIXED})
    assert response.status_code == 200
    check(response.json())
    session = "s" * 40
    answers = httpx2.post(url, json={"batch": [plain(f"n{n}", session) for n in range(5)]}).json()["batch"]
    assert [answer["content"] for answer in answers] == [f"n{n}, after {n}" for n in range(5)]


def test_a_batch_is_written_in_few_commits(serve: Serve, home: Path) -> None:  # MW-72, G-17
    gateway = Gateway(counting, home=home)
    url = serve(gateway).url + "/nlip"
    httpx2.post(url, json=plain("first"))
    store: Any = gateway.store
    before = store.writing()
    answers = httpx2.post(url, json={"batch": [plain(f"n{n}") for n in range(40)]}).json()["batch"]
    assert len(answers) == 40
    after = store.writing()
    assert after[1] - before[1] >= 40
    assert after[0] - before[0] < 20


def test_a_batch_repeated_with_its_key_is_not_run_again(serve: Serve, home: Path) -> None:
    url = serve(Gateway(counting, home=home)).url + "/nlip"
    asked, headers = {"batch": [plain("one"), plain("two")]}, {"idempotency-key": "k1"}
    first = httpx2.post(url, json=asked, headers=headers).json()["batch"]
    assert httpx2.post(url, json=asked, headers=headers).json()["batch"][0]["content"] == first[0]["content"]


def test_a_batch_has_a_limit_and_is_not_empty(serve: Serve, home: Path) -> None:
    url = serve(Gateway(counting, home=home)).url + "/nlip"
    assert httpx2.post(url, json={"batch": [plain("x")] * 65}).status_code == 413
    assert httpx2.post(url, json={"batch": []}).status_code == 422
    strict = httpx2.post(url, json={"batch": [plain("x")]}, headers={"prefer": "handling=strict"})
    assert strict.status_code == 422


@agent(name="curious")
async def curious(turn: Turn) -> str:
    if turn.text == "plain":
        return "no question"
    answer = await turn.ask(Question("Which colour?"))
    return f"painted {answer.text}"


ASKING = {"batch": [plain("paint"), plain("plain"), plain("paint")]}


def answers_to(whole: dict[str, Any]) -> list[dict[str, Any]]:
    """The messages that answer the questions of a batch."""
    first, second, third = whole["batch"]
    assert second["content"] == "no question"
    assert first["content"] == third["content"] == "Which colour?"
    tokens = [[part for part in item["submessages"] if part["format"] == "token"] for item in (first, third)]
    return [{**plain(colour), "submessages": own} for colour, own in zip(("red", "blue"), tokens, strict=True)]


def test_a_batch_over_http_whose_turns_ask_back_is_answered_by_the_questions(serve: Serve, home: Path) -> None:
    url = serve(Gateway(curious, home=home)).url + "/nlip"
    answers = answers_to(httpx2.post(url, json=ASKING).json())
    assert [httpx2.post(url, json=answer).json()["content"] for answer in answers] == [
        "painted red",
        "painted blue",
    ]


@pytest.mark.parametrize("binary", [True, False])
def test_a_batch_over_websocket_whose_turns_ask_back_is_answered_by_the_questions(
    serve: Serve, home: Path, binary: bool
) -> None:
    write, read = (cbor2.dumps, cbor2.loads) if binary else (json.dumps, json.loads)
    url = serve(Gateway(curious, home=home)).url.replace("http", "ws")
    with connect(f"{url}/nlip/ws") as socket:
        socket.send(write(ASKING))
        red, blue = answers_to(read(socket.recv(timeout=DEADLINE)))
        socket.send(write(red))
        assert read(socket.recv(timeout=DEADLINE))["content"] == "painted red"
    with connect(f"{url}/nlip/ws") as another:  # the answer may come over another connection
        another.send(write(blue))
        assert read(another.recv(timeout=DEADLINE))["content"] == "painted blue"


@pytest.mark.parametrize("binary", [True, False])
def test_a_batch_over_websocket(serve: Serve, home: Path, binary: bool) -> None:
    url = serve(Gateway(counting, home=home)).url.replace("http", "ws")
    with connect(f"{url}/nlip/ws") as socket:
        socket.send(cbor2.dumps({"batch": MIXED}) if binary else json.dumps({"batch": MIXED}))
        frame = socket.recv(timeout=DEADLINE)
        check(cbor2.loads(frame) if binary else json.loads(frame))  # type: ignore[arg-type]


@pytest.mark.parametrize("asking", [False, True])
async def test_a_batch_over_amqp(home: Path, broker: str, prefix: str, asking: bool) -> None:  # noqa: F811
    address, back = f"{prefix}-batch", f"{prefix}-batch-back"
    found: asyncio.Queue[Any] = asyncio.Queue()

    def take(incoming: Incoming) -> None:
        found.put_nowait(json.loads(incoming.letter.body))
        incoming.settle("accepted")

    async def said(value: Any, message_id: str) -> Any:
        letter = AmqpMessage(
            json.dumps(value).encode(), to=address, reply_to=back, content_type=JSON, message_id=message_id
        )
        await connection.send(letter)
        async with asyncio.timeout(DEADLINE):
            return await found.get()

    async with amqp_gateway(home, broker, address, curious if asking else counting):
        connection = AmqpConnection(broker, container="t-batch")
        await connection.open()
        try:
            await connection.receive(back, take, credit=10, max_bytes=100_000)
            if not asking:
                check(await said({"batch": MIXED}, "b"))
                return
            answers = answers_to(await said(ASKING, "b"))
            assert [(await said(answer, f"a{n}"))["content"] for n, answer in enumerate(answers)] == [
                "painted red",
                "painted blue",
            ]
        finally:
            await connection.close()
