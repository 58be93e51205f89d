"""Subscriptions on the NLIP wire over SSE, WebSocket and AMQP (MW-70); groups of agents (MW-71)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from websockets.sync.client import connect

from conftest import Serve, Served
from deadline import DEADLINE
from protocols.nlip.amqp.conftest import amqp_gateway, broker, prefix  # noqa: F401
from sabir import Gateway, Message, Progress, Turn, agent
from sabir.agents.group import AgentGroup
from sabir.card import Card
from sabir.config.agents import build_agents
from sabir.config.load import settings_of
from sabir.errors import ConfigError, TurnFailed, Unauthenticated
from sabir.events import Reply
from sabir.guard import Caller, Credentials, Rights, Rule
from sabir.message import Part
from sabir.protocols.nlip.amqp.connection import AmqpConnection, Incoming
from sabir.protocols.nlip.door import subscription
from sabir.protocols.nlip.wire.amqp import JSON, AmqpMessage


@agent(name="stepping")
async def stepping(turn: Turn) -> Any:
    for number in range(3):
        yield Progress(number / 3, f"step {number}")
    yield Reply(Message.text(f"done with {turn.text}"))


class Known:
    """Knows whoever names itself."""

    anonymous = True
    schemes = ("bearer",)
    revoked = False

    async def caller(self, credentials: Credentials, tokens: tuple[Part, ...] = ()) -> Caller:
        if self.revoked:
            raise Unauthenticated("unknown key")
        names = [part.content for part in tokens if part.subformat == "authentication"]
        return Caller(id=f"key:{names[0]}", kind="key") if names else Caller(address=credentials.address)


def token(content: str, subformat: str = "conversation") -> dict[str, Any]:
    return {"format": "token", "subformat": subformat, "content": content}


def subscribe(topic: str, *tokens: dict[str, Any], **more: Any) -> dict[str, Any]:
    part = {
        "format": "structured",
        "subformat": "json",
        "label": "subscribe",
        "content": {"topic": topic, "seconds": 1, **more},
    }
    words = {"messagetype": "control", "format": "text", "subformat": "english", "content": "Tell me."}
    return {**words, "submessages": [part, *tokens]}


def say(text: str, *tokens: dict[str, Any]) -> dict[str, Any]:
    return {"format": "text", "subformat": "english", "content": text, "submessages": list(tokens)}


def events(url: str, message: dict[str, Any]) -> list[dict[str, Any]]:
    text = httpx2.post(url, json=message, headers={"accept": "text/event-stream"}).text
    return [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]


def labelled(message: dict[str, Any], label: str) -> Any:
    found = [part["content"] for part in message["submessages"] if part.get("label") == label]
    return json.loads(found[0]) if found and isinstance(found[0], str) else found[0] if found else None


def submit(url: str, *tokens: dict[str, Any], text: str = "work") -> str:
    response = httpx2.post(url, json=say(text, *tokens), headers={"prefer": "respond-async"})
    return str(response.headers["location"]).rpartition("/")[2]


def test_the_events_of_a_task_are_notified_and_resumed(serve: Serve, home: Path) -> None:
    gateway = Gateway(stepping, home=home, identity=Known())  # type: ignore[arg-type]
    url = serve(gateway).url + "/nlip"
    ann = token("ann", "authentication")
    task = submit(url, ann)
    found = events(url, subscribe(f"task:{task}", ann, seconds=10))
    assert all(item["messagetype"] == "notification" for item in found)
    kinds = [labelled(item, "event")["kind"] for item in found[:-1]]
    assert kinds.count("progress") == 3
    assert kinds[-1] in ("reply", "state")
    last = labelled(found[-1], "subscribe")
    assert last["ended"] == "It has ended"
    assert last["since"] == len(kinds)
    resumed = events(url, subscribe(f"task:{task}", ann, since=2))
    assert len(resumed) == len(found) - 2
    stranger = httpx2.post(
        url,
        json=subscribe(f"task:{task}", token("bob", "authentication")),
        headers={"accept": "text/event-stream"},
        timeout=DEADLINE,
    )
    assert stranger.status_code == 404


def test_the_turns_of_a_conversation_are_notified_until_the_lease_ends(serve: Serve, home: Path) -> None:
    url = serve(Gateway(stepping, home=home)).url + "/nlip"
    first = httpx2.post(url, json=say("one")).json()
    [own] = [part for part in first["submessages"] if part["format"] == "token"]
    httpx2.post(url, json=say("two", own))
    found = events(url, subscribe("conversation", own))
    assert [labelled(item, "event")["asked"] for item in found[:-1]] == ["one", "two"]
    assert labelled(found[-1], "subscribe") == {"topic": "conversation", "since": 2, "ended": "The lease has ended"}
    again = events(url, subscribe("conversation", own, since=1))
    assert [labelled(item, "event")["asked"] for item in again[:-1]] == ["two"]
    other = httpx2.post(
        url, json=subscribe("conversation", token("x" * 40)), headers={"accept": "text/event-stream"}, timeout=DEADLINE
    )
    assert other.status_code == 404


def test_the_turns_of_a_long_conversation_are_notified_once_each(serve: Serve, home: Path) -> None:
    url = serve(Gateway(stepping, home=home)).url + "/nlip"
    first = httpx2.post(url, json=say("0")).json()
    [own] = [part for part in first["submessages"] if part["format"] == "token"]
    for begin in (1, 56):
        batch = [say(str(number), own) for number in range(begin, begin + 55)]
        assert httpx2.post(url, json={"batch": batch}, timeout=DEADLINE).status_code == 200
    found = events(url, subscribe("conversation", own))
    asked = [labelled(item, "event")["asked"] for item in found[:-1]]
    assert sorted(asked, key=int) == [str(number) for number in range(111)]
    assert labelled(found[-1], "subscribe")["since"] == 111
    again = events(url, subscribe("conversation", own, since=7))
    assert [labelled(item, "event")["asked"] for item in again[:-1]] == asked[7:]


def test_a_caller_with_many_tasks_is_notified_of_all(serve: Serve, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscription, "TASKS", 3)
    url = serve(Gateway(stepping, weather, home=home, identity=Known())).url  # type: ignore[arg-type]
    ann = token("ann", "authentication")
    tasks = {submit(f"{url}/nlip/stepping", ann) for _ in range(5)}
    others = {submit(f"{url}/nlip/weather", ann) for _ in range(5)}
    for name, wanted in (("stepping", tasks), ("weather", others)):
        found = events(f"{url}/nlip", subscribe(f"agent:{name}", ann))
        assert {labelled(item, "event")["task"] for item in found[:-1]} == wanted


@pytest.mark.parametrize("topic", ["agent:weather", "group:weather", "topic:weather/storms"])
def test_a_subscription_needs_the_right_to_use_the_agent_through_this_door(
    serve: Serve, home: Path, topic: str
) -> None:
    rules = (
        Rule(roles=("known",), agents=("weather",), doors=("mcp",)),
        Rule(roles=("known",), agents=("stepping",)),
    )
    gateway = Gateway(stepping, weather, home=home, identity=Known(), rights=Rights(rules))  # type: ignore[arg-type]
    asked = subscribe(topic, token("ann", "authentication"))
    answer = httpx2.post(serve(gateway).url + "/nlip", json=asked, headers={"accept": "text/event-stream"})
    assert answer.status_code == 403


def test_nothing_is_notified_once_a_key_is_revoked(serve: Serve, home: Path) -> None:
    identity = Known()
    served = serve(Gateway(weather, home=home, identity=identity))  # type: ignore[arg-type]
    with connect(served.url.replace("http", "ws") + "/nlip/ws/text") as socket:
        socket.send(json.dumps(subscribe("topic:weather/storms", token("ann", "authentication"), seconds=60)))
        while not notify(served, 10):  # until somebody listens
            pass
        assert labelled(json.loads(socket.recv(timeout=DEADLINE)), "event")["event"] == {"wind": 10}
        identity.revoked = True
        notify(served, 11)
        last = json.loads(socket.recv(timeout=DEADLINE))
        assert labelled(last, "subscribe")["ended"] == "The credentials are no longer valid"


@pytest.mark.parametrize("kind", ["agent", "group"])
def test_the_tasks_at_an_agent_are_notified_to_their_owner(serve: Serve, home: Path, kind: str) -> None:
    crew = AgentGroup([stepping], name="crew")
    gateway = Gateway(stepping, crew, home=home, identity=Known())  # type: ignore[arg-type]
    base = serve(gateway).url
    name = "stepping" if kind == "agent" else "crew"
    ann = token("ann", "authentication")
    task = submit(f"{base}/nlip/{name}", ann)
    found = events(f"{base}/nlip", subscribe(f"{kind}:{name}", ann))
    assert {labelled(item, "event")["task"] for item in found[:-1]} == {task}
    others = events(f"{base}/nlip", subscribe(f"{kind}:{name}", token("bob", "authentication")))
    assert len(others) == 1
    nobody = httpx2.post(
        f"{base}/nlip", json=subscribe(f"{kind}:{name}"), headers={"accept": "text/event-stream"}, timeout=DEADLINE
    )
    assert nobody.status_code == 401


@agent(card=Card("weather", "Watches the sky", publishes=("storms",)))
async def weather(turn: Turn) -> str:
    return "sunny"


def notify(served: Served, wind: int, key: str = "") -> int:
    loop = served.server.loop
    assert loop is not None
    sending = served.gateway.notify("weather", "storms", {"wind": wind}, key=key)
    return asyncio.run_coroutine_threadsafe(sending, loop).result(DEADLINE)


def test_what_an_agent_publishes_is_notified_once_and_resumed(serve: Serve, home: Path) -> None:  # MW-70
    served = serve(Gateway(weather, home=home))
    url = served.url + "/nlip"
    assert [notify(served, 10, "one"), notify(served, 10, "one"), notify(served, 11)] == [0, 0, 0]
    found = events(url, subscribe("topic:weather/storms"))
    answer = [labelled(item, "event") for item in found[:-1]]
    assert [item["event"] for item in answer] == [{"wind": 10}, {"wind": 11}]
    assert answer[0]["kind"] == "published"
    notify(served, 12)
    again = events(url, subscribe("topic:weather/storms", since=labelled(found[-1], "subscribe")["since"]))
    assert [labelled(item, "event")["event"] for item in again[:-1]] == [{"wind": 12}]
    unknown = httpx2.post(
        url, json=subscribe("topic:weather/gossip"), headers={"accept": "text/event-stream"}, timeout=DEADLINE
    )
    assert unknown.status_code == 404
    assert "it publishes storms" in unknown.text


def test_what_an_agent_publishes_comes_at_once_over_websocket(
    serve: Serve, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # MW-70
    monkeypatch.setattr(subscription, "ALONE_SECONDS", 600.0)  # so that nothing comes by looking
    served = serve(Gateway(weather, home=home))
    with connect(served.url.replace("http", "ws") + "/nlip/ws/text") as socket:
        socket.send(json.dumps(subscribe("topic:weather/storms", seconds=60)))
        while not notify(served, 10):  # until somebody listens
            pass
        body = labelled(json.loads(socket.recv(timeout=DEADLINE)), "event")
        assert body["event"] == {"wind": 10}


@pytest.mark.parametrize(
    "content",
    [
        {"topic": "weather"},
        {"topic": "topic:weather"},
        {"topic": "task:"},
        {},
        {"topic": "conversation", "since": -1},
        {"topic": "conversation", "since": 2**63},
    ],
)
def test_an_invalid_topic_is_an_error(serve: Serve, home: Path, content: dict[str, Any]) -> None:
    url = serve(Gateway(stepping, home=home)).url + "/nlip"
    message = subscribe("x")
    message["submessages"][0]["content"] = content
    response = httpx2.post(url, json=message, headers={"accept": "text/event-stream"})
    assert response.status_code == 422
    assert response.json()["messagetype"] == "control"


def test_notifications_over_websocket_do_not_hold_up_what_is_said(
    serve: Serve, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscription, "ALONE_SECONDS", 600.0)  # so that nothing comes by looking
    url = serve(Gateway(stepping, home=home)).url.replace("http", "ws")
    with connect(f"{url}/nlip/ws/text") as socket:

        def receive(is_wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
            while True:
                found: dict[str, Any] = json.loads(socket.recv(timeout=DEADLINE))
                if is_wanted(found):
                    return found

        socket.send(json.dumps(say("one")))
        first = receive(lambda item: True)
        [own] = [part for part in first["submessages"] if part["format"] == "token"]
        socket.send(json.dumps(subscribe("conversation", own, seconds=5)))
        one = receive(lambda entry: entry.get("messagetype") == "notification")
        assert labelled(one, "event")["asked"] == "one"
        socket.send(json.dumps(say("two", own)))
        two = receive(lambda value: value.get("messagetype") == "notification")
        assert labelled(two, "event")["asked"] == "two"


async def test_notifications_over_amqp(home: Path, broker: str, prefix: str) -> None:  # noqa: F811
    address, back = f"{prefix}-subscribe", f"{prefix}-subscribe-back"
    found: asyncio.Queue[Any] = asyncio.Queue()

    def take(incoming: Incoming) -> None:
        found.put_nowait(json.loads(incoming.letter.body))
        incoming.settle("accepted")

    async with amqp_gateway(home, broker, address, stepping):
        connection = AmqpConnection(broker, container="t-subscribe")
        await connection.open()
        try:
            await connection.receive(back, take, credit=10, max_bytes=100_000)

            async def send(message: dict[str, Any], message_id: str) -> None:
                body = json.dumps(message).encode()
                await connection.send(
                    AmqpMessage(body, to=address, reply_to=back, content_type=JSON, message_id=message_id)
                )

            async with asyncio.timeout(DEADLINE):
                await send(say("one"), "1")
                first = await found.get()
                [own] = [part for part in first["submessages"] if part["format"] == "token"]
                await send(subscribe("conversation", own), "2")
                one = await found.get()
                assert labelled(one, "event")["asked"] == "one"
                last = await found.get()
                assert labelled(last, "subscribe")["ended"] == "The lease has ended"
        finally:
            await connection.close()


async def test_a_defect_is_answered_over_amqp_and_shows_nothing(
    home: Path,
    broker: str,  # noqa: F811
    prefix: str,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("the password is hunter2")

    monkeypatch.setattr(subscription.Subscription, "of", fails)
    address, back = f"{prefix}-defect", f"{prefix}-defect-back"
    found: asyncio.Queue[bytes] = asyncio.Queue()

    def take(incoming: Incoming) -> None:
        found.put_nowait(incoming.letter.body)
        incoming.settle("accepted")

    async with amqp_gateway(home, broker, address, stepping):
        connection = AmqpConnection(broker, container="t-defect")
        await connection.open()
        try:
            await connection.receive(back, take, credit=10, max_bytes=100_000)
            body = json.dumps({**say("hi"), "messagetype": "control"}).encode()
            await connection.send(AmqpMessage(body, to=address, reply_to=back, content_type=JSON, message_id="1"))
            async with asyncio.timeout(DEADLINE):
                answer = await found.get()
        finally:
            await connection.close()
    assert b"something here failed" in answer
    assert b"hunter2" not in answer


# -- groups (MW-71) -------------------------------------------------------------------------------------


@agent(name="failing")
async def failing(turn: Turn) -> str:
    raise TurnFailed("it broke")


def test_a_group_answers_with_a_part_for_each_member(serve: Serve, home: Path) -> None:
    url = serve(Gateway(stepping, failing, AgentGroup([stepping, failing], name="crew"), home=home)).url
    found = httpx2.post(f"{url}/nlip/crew", json=say("tea")).json()
    assert found["content"] == "stepping: done with tea\nfailing failed: it broke"
    assert labelled(found, "failed") == {"failing": "it broke"}
    parts = {part.get("label"): part["content"] for part in found["submessages"]}
    assert parts["stepping"] == "done with tea"


def test_a_group_of_yaml_has_members() -> None:
    values = {
        "agents": [
            {"id": "a", "backend": {"type": "mock", "script": ["A"]}},
            {"id": "crew", "group": {"members": ["a", "echo"]}},
        ]
    }
    made = build_agents(settings_of(values)).agents[1]
    assert isinstance(made, AgentGroup)
    assert [member.card.name for member in made.members] == ["a", "echo"]
    with pytest.raises(ConfigError, match="a group needs members"):
        AgentGroup([])
