"""A language model as an agent: what goes over the wire, what comes back in pieces, and what becomes of failures."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest
import yaml
from starlette.responses import JSONResponse, Response, StreamingResponse

from conftest import Serve
from openai_server import Scripted, scripted, stream
from sabir import Gateway
from sabir.agents.llm import LLM, BackendSettings, Price, model_agent
from sabir.config.build import agent_of
from sabir.config.load import settings_of
from sabir.errors import ConfigError, PeerRefused, PeerUnavailable, PeerUnreadable, TurnFailed
from sabir.events import Delta, Event, Reply
from sabir.message import Message
from sabir.observe.settings import ObserveSettings
from sabir.turn import Conversation, Meter, PastTurn, Turn

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
    assert [item.part.content for item in heard if isinstance(item, Delta)] == ["Hello ", "there "]
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
    ("answer", "invalid", "words"),
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
async def test_failures_name_the_agent_without_key_and_address(
    server: Scripted, answer: Response, invalid: type[Exception], words: str
) -> None:
    server.script = lambda body: answer
    agent = model_agent("m", backend(server, api_key=KEY))
    with pytest.raises(invalid, match=words) as raised:
        await events(agent, Turn(Message.text("Hi")))
    assert KEY not in str(raised.value) and server.url not in str(raised.value)
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


async def test_an_unreachable_service_is_reported_after_retries(unused_url: str) -> None:
    agent = model_agent("m", BackendSettings(model="small", base_url=unused_url))
    with pytest.raises(PeerUnavailable, match="m: no connection"):
        await events(agent, Turn(Message.text("Hi")))


@pytest.fixture
def unused_url() -> str:
    with scripted() as gone:
        return gone.url


async def test_a_turns_budget_holds(server: Scripted) -> None:
    turn = Turn(Message.text("Hi"), meter=Meter(max_calls=1))
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
def test_a_wrong_backend_is_reported(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        agent_of(settings_of({"agents": [{"id": "a", "backend": given}]}).agents[0])


@pytest.mark.parametrize(
    ("price", "cost"),
    [(None, 0.0), (Price(3.0, 15.0), (30 * 3 + 12 * 15) / 1e6), (Price(0.003, 0.015, per=1000), 0.00027)],
    ids=["no price", "per million", "per thousand"],
)
async def test_an_answer_costs_what_the_price_says(server: Scripted, price: Price | None, cost: float) -> None:
    turn = Turn(Message.text("Hi"))
    await events(model_agent("m", backend(server, price=price)), turn)
    assert turn.meter.cost == pytest.approx(cost)
    assert (turn.meter.own_tokens, turn.meter.own_completion_tokens) == (42, 12)


@pytest.mark.parametrize(
    ("usage", "tokens", "written"),
    [
        ({"total_tokens": 42}, 42, 0),
        ({"prompt_tokens": 30, "completion_tokens": 12}, 42, 12),
        ({"prompt_tokens": 30, "completion_tokens": 2, "total_tokens": 42}, 42, 12),  # it thought, too
    ],
)
async def test_services_count_tokens_in_different_ways(
    server: Scripted, usage: dict[str, int], tokens: int, written: int
) -> None:
    end = {"choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": "stop"}], "usage": usage}

    async def said() -> AsyncIterator[bytes]:
        yield b"data: " + msgspec.json.encode(end) + b"\n\ndata: [DONE]\n\n"

    server.script = lambda body: StreamingResponse(said(), media_type="text/event-stream")
    turn = Turn(Message.text("Hi"))
    await events(model_agent("m", backend(server)), turn)
    assert (turn.meter.own_tokens, turn.meter.own_completion_tokens) == (tokens, written)


def test_metrics_tell_prompt_tokens_completion_tokens_and_cost(server: Scripted, home: Path, serve: Serve) -> None:
    """All tokens were counted as prompt tokens, and nothing had a cost (issue 11, D16)."""
    model = model_agent("model", backend(server, price=Price(3.0, 15.0)))
    url = serve(Gateway(model, home=home, observe=ObserveSettings(metrics=True))).url
    httpx2.post(f"{url}/nlip/model", json={"format": "text", "subformat": "english", "content": "hi"})
    lines = httpx2.get(f"{url}/metrics").text.splitlines()
    assert 'nlip_prompt_tokens_total{agent="model"} 30' in lines
    assert 'nlip_completion_tokens_total{agent="model"} 12' in lines
    assert 'nlip_inference_cost_usd_total{agent="model"} 0.00027' in lines


@pytest.mark.parametrize("invalid", ["{input: -1}", "{per: 0}", "{input: cheap}", "{inputs: 1}"])
def test_a_price_that_cannot_be_is_rejected(invalid: str) -> None:
    text = f"agents: [{{id: m, backend: {{model: small, price: {invalid}}}}}]"
    with pytest.raises(ConfigError, match=r"price"):
        settings_of(yaml.safe_load(text))


async def test_an_agreed_vocabulary_is_sent_to_the_model(server: Scripted) -> None:
    agreed = Conversation("c", agreed={"vocabulary": ["yes", "no"]})
    await events(model_agent("m", backend(server), system_message="Be brief."), Turn(Message.text("Is it?"), agreed))
    system = [line["content"] for line in server.chats[0]["messages"] if line["role"] == "system"]
    assert system == ["Be brief.", "Answer only with these words and no others: yes, no."]
