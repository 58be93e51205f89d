"""Every vendor's own HTTP API: words, tools, images, shapes, usage, retries and deadlines (MW-39, MW-40)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from starlette.responses import Response, StreamingResponse

from model_servers import DIALECTS, Broken, ModelServer, Step, calls, model_server
from sabir import Message, Part, Turn
from sabir.agents.llm import LLM, SERVICES, BackendSettings, LLMOptions, Price, model_agent
from sabir.errors import PeerRefused, PeerUnavailable, PeerUnreadable
from sabir.events import Delta, Event, Reply
from sabir.message import binary_part
from sabir.tools import tool
from sabir.turn import Conversation, PastTurn

KEY = "sk-test-0123456789abcdefghij"
PNG = b"\x89PNG\r\n\x1a\n"
SHAPE = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
VENDORS = pytest.mark.parametrize("vendor", list(DIALECTS))


@tool
def weather(town: str) -> dict[str, Any]:
    """The weather of a town."""
    return {"town": town, "sky": "rain"}


def agent(server: ModelServer, **options: Any) -> LLM:
    backend = BackendSettings(
        type=server.dialect.vendor,
        model="small",
        base_url=server.url,
        api_key=KEY,
        price=Price(1.0, 2.0, 1000),
        **options.pop("backend", {}),
    )
    return model_agent("m", backend, system_message="Be brief.", **options)


async def heard(made: LLM, turn: Turn | None = None) -> list[Event]:
    async with made:
        return [event async for event in made(turn or Turn(Message.text("Hi")))]


def reply(events: list[Event]) -> Message:
    last = events[-1]
    assert isinstance(last, Reply)
    return last.message


def test_every_service_of_the_configuration_has_a_dialect_here() -> None:
    assert set(SERVICES) == set(DIALECTS)


@VENDORS
async def test_words_stream_and_tokens_and_cost_are_counted(vendor: str) -> None:
    past = PastTurn("1", 0.0, "m", Message.text("I am Ada"), Message.text("Hello Ada"))
    turn = Turn(Message.text("Who am I?"), Conversation("c", (past,)))
    with model_server(vendor, "You are Ada") as server:
        events = await heard(agent(server), turn)
    assert len([event for event in events if isinstance(event, Delta)]) == 3
    assert reply(events).text.strip() == "You are Ada"
    [asked] = server.requests
    assert asked.system == "Be brief." and len(asked.roles) == 3 and asked.roles[0] == asked.roles[2] == "user"
    assert asked.key == (f"Bearer {KEY}" if server.dialect.key_header == "authorization" else KEY)
    assert (turn.meter.tokens, turn.meter.own_completion_tokens) == (42, 12)
    assert turn.meter.cost == pytest.approx((30 * 1.0 + 12 * 2.0) / 1000)


@VENDORS
async def test_tools_are_called_and_their_results_go_back(vendor: str) -> None:
    script: list[Step] = [calls(("weather", {"town": "Bergen"}), ("weather", {"town": "Oslo"})), "Take an umbrella"]
    turn = Turn(Message.text("Weather?"))
    with model_server(vendor, *script) as server:
        events = await heard(agent(server, tools=[weather]), turn)
    assert reply(events).text.strip() == "Take an umbrella"
    first, second = server.requests
    assert first.tools == ["weather"]
    assert second.results == ['{"town":"Bergen","sky":"rain"}', '{"town":"Oslo","sky":"rain"}']
    assert turn.used == ["weather", "weather"]


@VENDORS
async def test_images_go_along(vendor: str) -> None:
    picture = Turn(Message.text("What is this?").with_part(binary_part(PNG, "image/png")))
    with model_server(vendor) as server:
        await heard(agent(server), picture)
    assert server.requests[0].images == [PNG]


@VENDORS
async def test_a_model_that_reads_no_images_says_so(vendor: str) -> None:
    picture = Turn(Message.text("What is this?").with_part(Part("binary", "image/png", PNG)))
    with model_server(vendor) as server:
        events = await heard(agent(server, backend={"images": False}), picture)
    assert server.requests[0].images == []
    assert reply(events).text.startswith("(I cannot read image/png.) ")


@VENDORS
async def test_an_answer_with_a_shape_is_a_structured_part(vendor: str) -> None:
    shaped: Step = calls(("answer_in_json", {"n": 3})) if vendor == "claude" else '{"n": 3}'
    with model_server(vendor, shaped) as server:
        events = await heard(agent(server, options=LLMOptions(schema=SHAPE)))
    assert server.requests[0].schema == SHAPE
    assert reply(events).parts[0].value == {"n": 3}


@VENDORS
async def test_what_was_not_begun_is_asked_again(vendor: str) -> None:
    busy = DIALECTS[vendor].refuses(429, "busy", **{"retry-after": "0"})
    with model_server(vendor, busy, "Now") as server:
        events = await heard(agent(server))
    assert reply(events).text.strip() == "Now" and len(server.requests) == 2


@VENDORS
async def test_a_refusal_says_why_without_key_and_address(vendor: str) -> None:
    refusal = DIALECTS[vendor].refuses(400, f"the key {KEY} is not for small")
    with model_server(vendor, refusal) as server, pytest.raises(PeerRefused) as raised:
        await heard(agent(server))
    assert "is not for small" in str(raised.value)
    assert KEY not in str(raised.value) and "127.0.0.1" not in str(raised.value)
    assert len(server.requests) == 1


@VENDORS
@pytest.mark.parametrize(
    ("step", "words"),
    [
        (Broken("You are"), "stopped in the middle"),
        (Response("data: what\n\n", media_type="text/event-stream"), "its answer is not|stopped in the middle"),
    ],
    ids=["broken", "strange"],
)
async def test_an_answer_that_cannot_be_read_is_an_error(vendor: str, step: Step, words: str) -> None:
    with model_server(vendor, step) as server, pytest.raises(PeerUnreadable, match=words):
        await heard(agent(server))


@VENDORS
async def test_a_model_that_never_ends_is_left_at_the_deadline(vendor: str) -> None:
    async def silence() -> AsyncIterator[bytes]:
        yield b": wait\n\n" if vendor != "ollama" else b'{"message": {"content": "a"}}\n'
        await asyncio.sleep(30)

    slow = StreamingResponse(silence(), media_type="text/event-stream")
    with model_server(vendor, slow) as server, pytest.raises(PeerUnavailable, match="no answer in time"):
        await heard(agent(server, backend={"seconds": 0.2}))


ERRORS_IN_STREAMS = {
    "openai": 'data: {"error": {"message": "overloaded"}}\n\n',
    "claude": 'event: error\ndata: {"type": "error", "error": {"message": "overloaded"}}\n\n',
    "gemini": 'data: {"error": {"message": "overloaded"}}\n\n',
    "ollama": '{"error": "overloaded"}\n',
}


@pytest.mark.parametrize("vendor", list(ERRORS_IN_STREAMS))
async def test_an_error_in_the_stream_is_told(vendor: str) -> None:
    step = Response(ERRORS_IN_STREAMS[vendor], media_type="text/event-stream")
    with model_server(vendor, step) as server, pytest.raises(PeerRefused, match="overloaded"):
        await heard(agent(server))


async def test_a_question_that_gemini_blocks_is_told() -> None:
    step = Response('data: {"promptFeedback": {"blockReason": "SAFETY"}}\n\n', media_type="text/event-stream")
    with model_server("gemini", step) as server, pytest.raises(PeerRefused, match=r"blocked the question \(SAFETY\)"):
        await heard(agent(server))


async def test_invalid_arguments_of_a_call_are_told() -> None:
    events = (
        'data: {"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "name": "f"}}\n\n'
        'data: {"type": "content_block_delta", "delta": {"type": "input_json_delta", "partial_json": "[1"}}\n\n'
        'data: {"type": "message_stop"}\n\n'
    )
    step = Response(events, media_type="text/event-stream")
    with model_server("claude", step) as server, pytest.raises(PeerUnreadable, match="called f with invalid arguments"):
        await heard(agent(server))


@pytest.mark.parametrize(
    ("vendor", "root"), [("claude", "/v1"), ("claude", ""), ("gemini", "/v1beta"), ("ollama", "/v1"), ("ollama", "/")]
)
async def test_an_address_may_end_with_the_root_of_the_api(vendor: str, root: str) -> None:
    with model_server(vendor) as server:
        backend = BackendSettings(type=vendor, model="small", base_url=server.url + root)
        assert reply(await heard(model_agent("m", backend))).text == "Hello there"


@VENDORS
async def test_the_options_of_the_configuration_go_along(vendor: str) -> None:
    with model_server(vendor) as server:
        await heard(agent(server, backend={"temperature": 0.5, "max_tokens": 77}))
    body = server.requests[0].body
    told = {**body, **body.get("generationConfig", {}), **body.get("options", {})}
    assert told["temperature"] == 0.5
    assert 77 in (told.get("max_tokens"), told.get("maxOutputTokens"), told.get("num_predict"))
