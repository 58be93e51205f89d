"""A language model as an agent: what goes over the wire, what comes back in pieces, and what becomes of failures."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.responses import JSONResponse, Response, StreamingResponse

from sabir.agents.llm import LLM, BackendSettings, model_agent
from sabir.config import agent_of, settings_of
from sabir.errors import BadSetup, PeerRefused, PeerUnavailable, PeerUnreadable, TurnFailed
from sabir.events import Delta, Event, Reply
from sabir.message import Message
from sabir.turn import Conversation, Meter, PastTurn, Turn

from .openai_server import Scripted, scripted, stream

KEY = "sk-test-0123456789abcdefghij"


@pytest.fixture
def server() -> Iterator[Scripted]:
    with scripted() as made:
        yield made


def backend(server: Scripted, **more: Any) -> BackendSettings:
    return BackendSettings(model="small", base_url=server.url, **more)


async def events(agent: LLM, turn: Turn) -> list[Event]:
    async with agent:
        return [event async for event in agent(turn)]


async def test_an_answer_comes_in_pieces_and_then_whole(server: Scripted) -> None:
    turn = Turn(Message.text("Hi"))
    heard = await events(model_agent("m", backend(server, api_key=KEY), system_message="Be brief."), turn)
    assert [each.part.content for each in heard if isinstance(each, Delta)] == ["Hello ", "there "]
    assert isinstance(heard[-1], Reply) and heard[-1].message.text == "Hello there "
    [body] = server.chats
    assert body["messages"] == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    assert (body["model"], body["stream"]) == ("small", True)
    assert server.keys == [f"Bearer {KEY}"]
    assert (turn.meter.calls, turn.meter.tokens) == (1, 42)


async def test_the_conversation_so_far_goes_along(server: Scripted) -> None:
    past = PastTurn("1", 0.0, "m", Message.text("My name is Ada"), Message.text("Hello Ada"))
    await events(model_agent("m", backend(server)), Turn(Message.text("Who am I?"), Conversation("c", (past,))))
    assert [line["content"] for line in server.chats[0]["messages"]] == ["My name is Ada", "Hello Ada", "Who am I?"]
    assert server.keys == [None]  # no key was given, and the vendor's own does not go to somebody else


async def test_what_was_not_begun_is_asked_again(server: Scripted) -> None:
    answers: list[str | Response] = [
        JSONResponse({"error": {"message": "slow down"}}, 429, headers={"retry-after": "0"}),
        JSONResponse({"error": {"message": "overloaded"}}, 503),
        "At last",
    ]
    server.script = lambda body: answers.pop(0)
    heard = await events(model_agent("m", backend(server)), Turn(Message.text("Hi")))
    assert isinstance(heard[-1], Reply) and len(server.chats) == 3


@pytest.mark.parametrize(
    ("answer", "wrong", "words"),
    [
        (JSONResponse({"error": {"message": f"bad key {KEY}"}}, 401), PeerRefused, r"m: it refused \(401\): bad key …"),
        (Response("<html>", 500), PeerRefused, r"m: it refused \(500\)"),
        (stream("half of", whole=False), PeerUnreadable, "m: it stopped in the middle"),
        (Response("data: nonsense\n\n", 200), PeerUnreadable, "m: its answer is not a chat completion"),
        (Response('data: {"error": {"message": "no credit"}}\n\n', 200), PeerRefused, "m: no credit"),
        (Response("", 200), PeerUnreadable, "m: it stopped"),
        (Response(None, 307, headers={"location": "http://127.0.0.1:1/"}), PeerRefused, r"m: it refused \(307\)"),
    ],
)
async def test_failures_are_told_by_the_agents_name_without_key_and_address(
    server: Scripted, answer: Response, wrong: type[Exception], words: str
) -> None:
    server.script = lambda body: answer
    agent = model_agent("m", backend(server, api_key=KEY))
    with pytest.raises(wrong, match=words) as told:
        await events(agent, Turn(Message.text("Hi")))
    assert KEY not in str(told.value) and server.url not in str(told.value)
    assert len(server.chats) == 1
    assert KEY not in repr(agent.model) + repr(vars(agent)) + repr(backend(server, api_key=KEY))


async def test_a_model_that_does_not_end_is_left_at_the_deadline(server: Scripted) -> None:
    async def endless() -> Any:
        while True:
            yield b'data: {"choices": [{"delta": {"content": "and "}}]}\n\n'
            await asyncio.sleep(0.01)

    server.script = lambda body: StreamingResponse(endless(), media_type="text/event-stream")
    with pytest.raises(PeerUnavailable, match="m: no answer in time"):
        await events(model_agent("m", backend(server, seconds=0.2)), Turn(Message.text("Hi")))


async def test_nobody_there_is_told_after_trying(unused_url: str) -> None:
    agent = model_agent("m", BackendSettings(model="small", base_url=unused_url))
    with pytest.raises(PeerUnavailable, match="m: no connection"):
        await events(agent, Turn(Message.text("Hi")))


@pytest.fixture
def unused_url() -> str:
    with scripted() as gone:
        return gone.url


async def test_a_turns_budget_holds(server: Scripted) -> None:
    turn = Turn(Message.text("Hi"), meter=Meter(most_calls=1))
    agent = model_agent("m", backend(server))
    async with agent:
        assert [event async for event in agent(turn)]
        with pytest.raises(TurnFailed, match="budget of 1 calls"):
            assert [event async for event in agent(turn)]
    assert len(server.chats) == 1


def test_an_agent_of_the_configuration_is_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    given = {"type": "openai", "model": "small", "base_url": "http://127.0.0.1:9/v1", "api_key_env": "MY_KEY"}
    settings = settings_of({"agents": [{"id": "writer", "backend": given, "system_message": "Be brief."}]})
    agent = agent_of(settings.agents[0])
    assert isinstance(agent, LLM) and agent.card.name == "writer"
    assert KEY not in repr(settings)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"model": "x", "api_key_env": "NO_SUCH_KEY"}, "the environment variable NO_SUCH_KEY is not set"),
        ({"type": "oracle", "model": "x"}, "backend.type: expected one of openai, claude"),
        ({"type": "openai"}, "backend.model: expected the name of a model"),
        ({"modle": "x"}, r"unknown key agents\[0\].backend.modle: did you mean agents\[0\].backend.model"),
        ({"model": "x", "base_url": "ftp://x"}, "base_url: expected a URL"),
    ],
)
def test_a_wrong_backend_is_told(given: dict[str, Any], words: str) -> None:
    with pytest.raises(BadSetup, match=words):
        agent_of(settings_of({"agents": [{"id": "a", "backend": given}]}).agents[0])
