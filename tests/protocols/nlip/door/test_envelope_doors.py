"""Envelopes at the doors of NLIP: HTTP, WebSocket and AMQP, answered in kind (MW-8 to MW-10, MW-53, MW-54, MW-56)."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import cbor2
import httpx2
import pytest
from websockets.sync.client import connect

from conftest import Serve, serving
from deadline import DEADLINE
from protocols.nlip.amqp.conftest import amqp_gateway, broker, prefix  # noqa: F401
from sabir import Agent, Delta, Gateway, Message, Turn, agent
from sabir.errors import TurnFailed
from sabir.events import Reply
from sabir.guard import Caller, Credentials
from sabir.message import Part
from sabir.protocols.nlip.amqp.connection import AmqpConnection, Incoming
from sabir.protocols.nlip.wire import envelope
from sabir.protocols.nlip.wire.amqp import CBOR, JSON, AmqpMessage
from sabir.protocols.nlip.wire.envelope import EnvelopeOptions


@pytest.fixture
def seen() -> list[Turn]:
    return []


@pytest.fixture
def counting(seen: list[Turn]) -> Agent:
    @agent(name="counting")
    async def counting(turn: Turn) -> str:
        seen.append(turn)
        if turn.text == "fail":
            raise TurnFailed("it broke")
        return f"{turn.text}, after {len(turn.conversation.turns)}"

    return counting


@agent(name="pieces")
async def pieces(turn: Turn) -> Any:
    for word in ("one ", "two"):
        yield Delta.text(word)
    yield Reply(Message.text("one two"))


def asking(text: str = "hi", **more: Any) -> dict[str, Any]:
    control = {"message_type": "request", "message_id": "m1", "timestamp": "2026-01-01T00:00:00Z"}
    value = {"format": {}, "control": control, "token": {}, "content": {"query": text}}
    for key, given in more.items():
        value[key] = {**value[key], **given} if key in ("format", "control", "token") else given  # type: ignore[dict-item]
    return value


def post(url: str, value: dict[str, Any], **headers: str) -> httpx2.Response:
    return httpx2.post(url, json=value, headers=headers)


def test_an_envelope_is_answered_with_an_envelope(
    serve: Serve, home: Path, counting: Agent, seen: list[Turn]
) -> None:  # MW-8
    url = serve(Gateway(counting, home=home)).url
    for path in ("/nlip", "/nlip/", "/nlip/counting"):
        response = post(url + path, asking(token={"state_token": "st", "conversation_turn": 4}))
        assert response.status_code == 200
        found = response.json()
        assert found["content"] == {"partial": False, "content": "hi, after 0", "complete": True}
        assert found["control"]["message_type"] == "response"
        assert found["control"]["correlation_id"] == "m1"
        assert found["control"]["timestamp"].endswith("Z")
        assert found["token"]["state_token"] == "st"  # G-13
        assert found["token"]["conversation_turn"] == 5
        assert found["token"]["session_id"].startswith("sb1.")
        assert found["token"]["context_token"].startswith("sb1.")
    assert all(part.subformat != "sabir.envelope" for turn in seen for part in turn.parts)


def test_a_session_and_a_context_token_find_the_conversation(serve: Serve, home: Path, counting: Agent) -> None:
    url = serve(Gateway(counting, home=home)).url + "/nlip"
    token = post(url, asking("one")).json()["token"]
    second = post(url, asking("two", token={"session_id": token["session_id"]})).json()
    assert second["content"]["content"] == "two, after 1"
    third = post(url, asking("three", token={"context_token": token["context_token"]})).json()
    assert third["content"]["content"] == "three, after 2"
    assert third["token"]["context_token"] == token["context_token"]


def test_errors_are_in_kind(serve: Serve, home: Path, counting: Agent) -> None:
    url = serve(Gateway(counting, home=home)).url + "/nlip"
    failed = post(url, asking("fail"))
    assert failed.status_code == 500
    found = failed.json()
    assert found["control"]["message_type"] == "error"
    assert found["content"] == {"error": "it broke", "original_request": "m1"}
    invalid = post(url, asking(format={"schema_version": "9"}))
    assert invalid.status_code == 400
    assert invalid.json()["content"]["error"].endswith("expected 1.0")
    assert invalid.json()["content"]["original_request"] == "m1"
    missing = post(url.removesuffix("nlip") + "nlip/nosuch", asking())
    assert missing.status_code == 404
    assert missing.json()["control"]["message_type"] == "error"


def test_pieces_are_partial_envelopes(serve: Serve, home: Path) -> None:
    url = serve(Gateway(pieces, home=home)).url + "/nlip"
    text = post(url, asking(), accept="text/event-stream").text
    found = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]
    assert [item["content"].get("content") for item in found] == ["one ", "two", "one two"]
    assert [item["content"]["partial"] for item in found] == [True, True, False]


def test_a_notification_is_accepted_and_done(
    serve: Serve, home: Path, counting: Agent, seen: list[Turn]
) -> None:  # G-11
    url = serve(Gateway(counting, home=home)).url + "/nlip"
    response = post(url, asking("note this", control={"message_type": "notification"}))
    assert response.status_code == 202
    assert response.json()["content"] == {}
    end = time.monotonic() + DEADLINE
    while not seen and time.monotonic() < end:
        time.sleep(0.01)
    assert seen[0].text == "note this"


def test_a_timeout_bounds_the_turn(serve: Serve, home: Path) -> None:
    @agent(name="slow")
    async def slow(turn: Turn) -> str:
        await asyncio.Event().wait()
        return ""

    url = serve(Gateway(slow, home=home)).url + "/nlip"
    response = post(url, asking(control={"timeout": 0.2}))
    assert response.status_code == 504
    assert response.json()["control"]["message_type"] == "error"


# -- sessions (MW-9) ------------------------------------------------------------------------------------


class Known:
    """Knows whoever sends a key."""

    anonymous = True
    schemes = ("bearer",)

    async def caller(self, credentials: Credentials, tokens: tuple[Part, ...] = ()) -> Caller:
        keys = [part.content for part in tokens if part.subformat == "authentication"]
        return Caller(id=f"key:{keys[0]}", kind="key") if keys else Caller(address=credentials.address)


def test_a_short_session_id_opens_nothing_for_strangers(serve: Serve, home: Path, counting: Agent) -> None:
    url = serve(Gateway(counting, home=home)).url + "/nlip"
    for _ in range(2):
        found = post(url, asking("x", token={"session_id": "session_123"})).json()
        assert found["content"]["content"] == "x, after 0"
        assert found["token"]["session_id"] != "session_123"
        assert "continue with the one of this answer" in found["metadata"]["session"]


def test_known_callers_find_their_session_by_their_own_id(
    serve: Serve, home: Path, counting: Agent, seen: list[Turn]
) -> None:  # MW-9, MW-10
    gateway = Gateway(counting, home=home, identity=Known())  # type: ignore[arg-type]
    url = serve(gateway).url + "/nlip"
    asked = {"token": {"session_id": "session_123"}, "control": {"authentication": "ann"}}
    for number in range(2):
        found = post(url, asking("x", **asked)).json()
        assert found["content"]["content"] == f"x, after {number}"
        assert found["token"]["session_id"] == "session_123"
        assert found["control"]["authentication"] == "ann"  # echoed (CORE-6.2)
        assert "metadata" not in found
    assert seen[0].caller.id == "key:ann"
    other = post(url, asking("x", token={"session_id": "session_123"}, control={"authentication": "bob"})).json()
    assert other["content"]["content"] == "x, after 0"


def test_a_credential_is_never_stored(home: Path, counting: Agent) -> None:  # MW-10
    with serving(Gateway(counting, home=home, identity=Known())) as served:  # type: ignore[arg-type]
        asked = asking("x", control={"authentication": "planted-credential", "message_type": "notification"})
        post(served.url + "/nlip", asked)
        post(served.url + "/nlip", asking("x", control={"authentication": "planted-credential"}))
    stored = b"".join(path.read_bytes() for path in home.rglob("*") if path.is_file())
    assert b"planted-credential" not in stored.replace(b"key:planted-credential", b"")


# -- keys -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("enabled", [True, False])
def test_enabled_decides_whether_envelopes_are_read(
    serve: Serve, home: Path, enabled: bool, counting: Agent
) -> None:  # MW-53
    options = EnvelopeOptions(enabled=enabled, agents={"pieces": not enabled})
    url = serve(Gateway(counting, pieces, home=home, envelope=options)).url
    assert post(url + "/nlip/counting", asking()).status_code == (200 if enabled else 422)
    assert post(url + "/nlip/pieces", asking()).status_code == (422 if enabled else 200)  # the agent's own word wins


@pytest.mark.parametrize("written", ["1.0", "1.1"])
def test_schema_version_is_what_answers_say(
    serve: Serve, home: Path, monkeypatch: pytest.MonkeyPatch, written: str, counting: Agent
) -> None:  # MW-53
    monkeypatch.setattr(envelope, "VERSIONS", ("1.0", "1.1"))
    url = serve(Gateway(counting, home=home, envelope=EnvelopeOptions(schema_version=written))).url + "/nlip"
    for read in envelope.VERSIONS:
        response = post(url, asking(format={"schema_version": read}))
        assert (response.status_code, response.json()["format"]["schema_version"]) == (200, written)
    unknown = post(url, asking(format={"schema_version": "2.0"}))
    assert unknown.json()["content"]["error"].endswith("$.format.schema_version: expected 1.0 or 1.1")


@pytest.mark.parametrize("on", [True, False])
def test_sessions_can_be_switched_off(serve: Serve, home: Path, on: bool, counting: Agent) -> None:  # MW-54
    url = serve(Gateway(counting, home=home, envelope=EnvelopeOptions(sessions=on))).url + "/nlip"
    first = post(url, asking("one")).json()
    assert (first["token"]["session_id"] is not None) == on
    token = {"session_id": first["token"]["session_id"] or "x" * 40}
    assert post(url, asking("two", token=token)).json()["content"]["content"] == f"two, after {int(on)}"


@pytest.mark.parametrize("on", [True, False])
def test_a_request_without_a_session_starts_one_unless_that_is_off(
    serve: Serve, home: Path, on: bool, counting: Agent
) -> None:  # MW-56
    url = serve(Gateway(counting, home=home, envelope=EnvelopeOptions(begins_sessions=on))).url + "/nlip"
    assert (post(url, asking("one")).json()["token"]["session_id"] is not None) == on
    own = {"session_id": "s" * 40}
    assert post(url, asking("one", token=own)).json()["content"]["content"] == "one, after 0"
    assert post(url, asking("two", token=own)).json()["content"]["content"] == "two, after 1"


@pytest.mark.parametrize(
    ("said", "answered"),
    [("please cap 4 KB for my messages", "Nothing was changed."),
     ("Squeeze your answers into 1,500 bytes.", "Nothing was changed."),
     ("please undo the limit of 500 bytes", "Nothing was changed."),
     ("Everything as JSON, please.", "I did not understand this control message."),
     ("Please send me the history in json", "Nothing has been said yet.")],
)  # fmt: skip
def test_what_is_only_likely_is_answered_where_nobody_can_be_asked(
    serve: Serve, home: Path, counting: Agent, caplog: pytest.LogCaptureFixture, said: str, answered: str
) -> None:
    options = EnvelopeOptions(begins_sessions=False)
    url = serve(Gateway(counting, home=home, envelope=options)).url + "/nlip"
    response = post(url, asking(said, metadata={"messagetype": "control"}))
    assert response.status_code == 200, response.text
    assert answered in response.text
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize("on", [True, False])
def test_turns_are_counted_or_not(serve: Serve, home: Path, on: bool, counting: Agent) -> None:  # MW-56
    url = serve(Gateway(counting, home=home, envelope=EnvelopeOptions(counts_turns=on))).url + "/nlip"
    assert post(url, asking(token={"conversation_turn": 3})).json()["token"]["conversation_turn"] == 3 + on


@pytest.mark.parametrize("on", [True, False])
def test_context_tokens_outlive_the_process_or_not(home: Path, on: bool, counting: Agent) -> None:  # MW-56
    options = EnvelopeOptions(keeps_context_tokens=on)
    with serving(Gateway(counting, home=home, envelope=options)) as served:
        token = post(served.url + "/nlip", asking("one")).json()["token"]
    with serving(Gateway(counting, home=home, envelope=options)) as served:
        asked = asking("two", token={"context_token": token["context_token"]})
        assert post(served.url + "/nlip", asked).json()["content"]["content"] == f"two, after {int(on)}"


# -- WebSocket and AMQP ---------------------------------------------------------------------------------


@pytest.mark.parametrize("binary", [True, False])
def test_envelopes_over_websocket(serve: Serve, home: Path, binary: bool, counting: Agent, seen: list[Turn]) -> None:
    url = serve(Gateway(counting, pieces, home=home)).url.replace("http", "ws")

    def exchange(socket: Any, value: dict[str, Any]) -> Any:
        socket.send(cbor2.dumps(value) if binary else json.dumps(value))
        return receive(socket)

    def receive(socket: Any) -> Any:
        frame = socket.recv(timeout=DEADLINE)
        return cbor2.loads(frame) if binary else json.loads(frame)

    with connect(f"{url}/nlip/ws") as socket:
        found = exchange(socket, asking("one"))
        assert found["content"]["content"] == "one, after 0"
        assert found["control"]["correlation_id"] == "m1"
        again = exchange(socket, asking("two", token={"session_id": found["token"]["session_id"]}))
        assert again["content"]["content"] == "two, after 1"
        failed = exchange(socket, asking("fail"))
        assert failed["content"]["code"] == 500
        assert failed["control"]["message_type"] == "error"
        invalid = exchange(socket, asking(control={"priority": 99}))
        assert "$.control.priority" in invalid["content"]["error"]
        note = asking("noted", control={"message_type": "notification"})
        socket.send(cbor2.dumps(note) if binary else json.dumps(note))
        assert exchange(socket, asking("three"))["content"]["content"] == "three, after 0"  # nothing came for the note
    assert any(turn.text == "noted" for turn in seen)
    with connect(f"{url}/nlip/pieces/ws") as socket:
        first = exchange(socket, asking(metadata={"stream": True}))
        assert first["content"] == {"partial": True, "content": "one "}
        assert receive(socket)["content"]["content"] == "two"
        assert receive(socket)["content"]["complete"]


@pytest.mark.parametrize("kind", [JSON, CBOR])
async def test_envelopes_over_amqp(home: Path, broker: str, prefix: str, kind: str, counting: Agent) -> None:  # noqa: F811
    address, back = f"{prefix}-envelope", f"{prefix}-envelope-back-{kind[-4:]}"
    found: asyncio.Queue[Any] = asyncio.Queue()

    def take(incoming: Incoming) -> None:
        body = incoming.letter.body
        found.put_nowait(json.loads(body) if kind == JSON else cbor2.loads(body))
        incoming.settle("accepted")

    async with amqp_gateway(home, broker, address, counting):
        connection = AmqpConnection(broker, container="t-envelope")
        await connection.open()
        try:
            await connection.receive(back, take, credit=10, max_bytes=100_000)

            async def exchange(value: dict[str, Any]) -> None:
                body = json.dumps(value).encode() if kind == JSON else cbor2.dumps(value)
                await connection.send(
                    AmqpMessage(
                        body, to=address, reply_to=back, content_type=kind, message_id=value["control"]["message_id"]
                    )
                )

            await exchange(asking("one"))
            async with asyncio.timeout(DEADLINE):
                first = await found.get()
            assert first["content"]["content"] == "one, after 0"
            await exchange(asking("noted", control={"message_type": "notification", "message_id": "m2"}))
            await exchange(asking(control={"priority": 99, "message_id": "m3"}))
            async with asyncio.timeout(DEADLINE):
                invalid = await found.get()
            assert "$.control.priority" in invalid["content"]["error"]
        finally:
            await connection.close()


def test_plain_messages_are_answered_as_before(serve: Serve, home: Path, counting: Agent) -> None:
    url = serve(Gateway(counting, home=home)).url + "/nlip"
    found = post(url, {"format": "text", "subformat": "english", "content": "hi"}).json()
    assert found["content"] == "hi, after 0"
    assert post(url, asking(), prefer="handling=strict").status_code == 422  # no envelope in the published text
    bad = post(url, {"format": 5, "control": True})
    assert bad.status_code == 422
    assert bad.json()["messagetype"] == "error" or bad.json()["content"]


async def test_many_envelopes_at_once_keep_apart(home: Path, counting: Agent) -> None:
    with serving(Gateway(counting, home=home)) as served:
        async with httpx2.AsyncClient() as client:

            async def ask(number: int) -> None:
                value = asking(f"n{number}", control={"message_id": f"m{number}"})
                found = (await client.post(served.url + "/nlip", json=value)).json()
                assert found["content"]["content"] == f"n{number}, after 0"
                assert found["control"]["correlation_id"] == f"m{number}"

            await asyncio.gather(*(ask(number) for number in range(20)))
