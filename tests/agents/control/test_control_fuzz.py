"""Whatever a stranger puts into a control part, the answer is control in words, and never a failure of ours."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from sabir.agents.control.intents import TOPICS
from sabir.agents.echo import echo
from sabir.errors import Refused, TooLarge
from sabir.events import Event, Question, Reply
from sabir.exchange.request import EventSink, TurnRequest
from sabir.gateway.gateway import Gateway
from sabir.message import Message, json_part, token_part

KEYS = st.sampled_from(
    ["propose", "accept", "require", "privacy", "regulatory", "attributes", "withhold", "keeper", "window", "horizon",
     "resume", "formats", "languages", "end", "erase", "confirmed", "words",
     "headless", "name", "on", "is", "body", "reply", "depth"]
)  # fmt: skip
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20)
    | st.sampled_from(["client", "server", "both", "privacy", "text", "structured/json", "*"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS | st.text(max_size=8), inner, max_size=5),
    max_leaves=12,
)


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


@pytest.fixture(scope="module")
def gateway(loop: asyncio.AbstractEventLoop, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    made = Gateway(
        echo, home=Path(tmp_path_factory.mktemp("fuzz")), store="memory:", doors={"mcp": False, "a2a": False}
    )
    loop.run_until_complete(made.start())
    yield made
    loop.run_until_complete(made.stop())


async def say(gateway: Gateway, message: Message) -> Message:
    got: list[Event] = []

    async def keep(event: Event) -> None:
        got.append(event)
        if isinstance(event, Question):
            line.answer(Message.text("yes"))

    line = EventSink(keep)
    await gateway.exchange.ask(TurnRequest(message, "test"), line)
    assert isinstance(got[-1], Reply)
    return got[-1].message


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(topic=st.sampled_from(sorted(TOPICS)), value=VALUES, words=st.text(max_size=200), data=st.text(max_size=50))
@example(topic="accept", value={"languages": 5, "formats": 7}, words="", data="x")
@example(topic="accept", value={"formats": [[], {}, None]}, words="", data="x")
@example(
    topic="policy", value={"accept": {"a": 1}, "privacy": [], "attributes": {"withhold": "all"}}, words="", data="x"
)
@example(topic="policy", value={"privacy": {"require": {"retention_days": [[]]}}}, words="", data="x")
@example(topic="limits", value={"propose": {"body": True, "reply": -1, "depth": 1e300}}, words="", data="x" * 50)
@example(topic="context", value={"keeper": ["client"], "window": -5}, words="", data="x")
@example(topic="context", value={"window": 0}, words="", data="x")
@example(topic="sessions", value={"name": {"a": [1] * 100}, "headless": "yes"}, words="", data="x")
@example(topic="history", value={"horizon": 10**18}, words="", data="x")
def test_any_wish_is_answered_and_what_follows_is_answered_too(
    loop: asyncio.AbstractEventLoop, gateway: Gateway, topic: str, value: object, words: str, data: str
) -> None:
    async def talk() -> None:
        wish = Message.text(words, messagetype="control", parts=[json_part(value, label=topic)])
        answer = await say(gateway, wish)
        assert answer.is_control and answer.format == "text"
        follow = Message.text(data).with_part(token_part(answer.tokens[-1].content))
        try:
            reply = await say(gateway, follow)
        except (TooLarge, Refused):
            return  # as it was agreed on
        assert not reply.is_control

    loop.run_until_complete(talk())
