"""Every vendor's own HTTP API: words, tools, images, shapes, usage, retries and deadlines (MW-39, MW-40)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from starlette.responses import JSONResponse, Response, StreamingResponse

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
async def test_an_error_in_the_stream_is_reported(vendor: str) -> None:
    step = Response(ERRORS_IN_STREAMS[vendor], media_type="text/event-stream")
    with model_server(vendor, step) as server, pytest.raises(PeerRefused, match="overloaded"):
        await heard(agent(server))


async def test_a_question_that_gemini_blocks_is_reported() -> None:
    step = Response('data: {"promptFeedback": {"blockReason": "SAFETY"}}\n\n', media_type="text/event-stream")
    with model_server("gemini", step) as server, pytest.raises(PeerRefused, match=r"blocked the question \(SAFETY\)"):
        await heard(agent(server))


_INVALID = {
    "claude": (
        'data: {"type": "content_block_start", "index": 0,'
        ' "content_block": {"type": "tool_use", "name": "weather"}}\n\n'
        'data: {"type": "content_block_delta", "delta": {"type": "input_json_delta", "partial_json": "[1"}}\n\n'
        'data: {"type": "message_stop"}\n\n'
    ),
    "openai": (
        'data: {"choices": [{"delta": {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "weather",'
        ' "arguments": "[1"}}]}, "finish_reason": "tool_calls"}]}\n\n'
    ),
}


@pytest.mark.parametrize("vendor", _INVALID)
async def test_a_model_that_writes_invalid_arguments_may_call_again(vendor: str) -> None:
    step = Response(_INVALID[vendor], media_type="text/event-stream")
    with model_server(vendor, step, calls(("weather", {"town": "Oslo"})), "Fine") as server:
        events = await heard(agent(server, tools=[weather]))
    assert reply(events).text.strip() == "Fine"
    assert server.requests[1].results == ["Error: the arguments are not a JSON object"]


@VENDORS
async def test_a_web_page_instead_of_an_answer_is_reported_as_one(vendor: str) -> None:
    step = Response("<html>Welcome</html>", media_type="text/html; charset=utf-8")
    with model_server(vendor, step) as server, pytest.raises(PeerUnreadable, match="a web page; check base_url"):
        await heard(agent(server))
    assert len(server.requests) == 1


def _openai(choice: str) -> Response:
    return Response(f'data: {{"choices": [{choice}]}}\n\n', media_type="text/event-stream")


async def test_a_service_that_does_not_stream_is_understood() -> None:
    whole = {"choices": [{"message": {"role": "assistant", "content": "Paris"}, "finish_reason": "stop"}]}
    with model_server("openai", JSONResponse(whole)) as server:
        assert reply(await heard(agent(server))).text == "Paris"


async def test_a_model_that_refuses_says_so() -> None:
    with model_server("openai", _openai('{"delta": {"refusal": "I may not."}, "finish_reason": "stop"}')) as server:
        assert reply(await heard(agent(server))).text == "I may not."


async def test_an_answer_that_the_service_filters_is_reported() -> None:
    step = _openai('{"delta": {}, "finish_reason": "content_filter"}')
    with model_server("openai", step) as server, pytest.raises(PeerRefused, match="content filter blocked the answer"):
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
    response = {**body, **body.get("generationConfig", {}), **body.get("options", {})}
    assert response["temperature"] == 0.5
    assert 77 in (response.get("max_tokens"), response.get("maxOutputTokens"), response.get("num_predict"))


# -- what services do that their documentation does not say -----------------------------------------------


def chunks(*values: Any) -> Response:
    lines = "".join(f"data: {json.dumps(value)}\n\n" for value in values)
    return Response(f"{lines}data: [DONE]\n\n", media_type="text/event-stream")


def fragments(*deltas: dict[str, Any]) -> Response:
    end = {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}
    return chunks(*({"choices": [{"delta": {"tool_calls": [delta]}}]} for delta in deltas), end)


ODD_PIECES = {
    "one character at a time": [
        {"index": 0, "id": "a", "function": {"name": "weather", "arguments": None}},
        *({"index": 0, "function": {"arguments": letter}} for letter in json.dumps({"town": "Oslo"})),
    ],
    "arguments before the name": [
        {"index": 0, "id": "a", "function": {"arguments": '{"town": '}},
        {"index": 0, "function": {"name": "weather", "arguments": '"Oslo"}'}},
    ],
    "a piece without a function": [
        {"index": 0, "id": "a", "function": {"name": "weather", "arguments": '{"town": "Oslo"}'}},
        {"index": 0, "function": None},
    ],
    "no index and no id": [{"function": {"name": "weather", "arguments": '{"town": "Oslo"}'}}],
}


@pytest.mark.parametrize("kind", list(ODD_PIECES))
async def test_a_call_in_odd_pieces_is_put_together(kind: str) -> None:
    with model_server("openai", fragments(*ODD_PIECES[kind]), "Rain.") as server:
        events = await heard(agent(server, tools=[weather]))
    assert reply(events).text.strip() == "Rain."
    assert json.loads(server.requests[1].results[0])["town"] == "Oslo"


async def test_calls_that_all_have_the_index_0_stay_apart() -> None:
    towns = ("Oslo", "Rome")
    pieces = [
        {"index": 0, "id": f"id-{town}", "function": {"name": "weather", "arguments": json.dumps({"town": town})}}
        for town in towns
    ]
    with model_server("openai", fragments(*pieces), "Rain.") as server:
        await heard(agent(server, tools=[weather]))
    assert [json.loads(result)["town"] for result in server.requests[1].results] == list(towns)


async def test_usage_that_comes_with_every_piece_is_counted_once() -> None:
    usage = [{"prompt_tokens": 30, "completion_tokens": count, "total_tokens": 30 + count} for count in (1, 2, 12)]
    values = [{"choices": [{"delta": {"content": "a"}}], "usage": item} for item in usage]
    end = {"choices": [{"delta": {}, "finish_reason": "stop"}]}
    turn = Turn(Message.text("Hi"))
    with model_server("openai", chunks(*values, end)) as server:
        await heard(agent(server), turn)
    assert turn.meter.tokens == 42


BROKEN_OFF = {
    "gemini": 'data: {"candidates": [{"content": {"parts": [{"text": "a"}]}}], "usageMetadata": '
    '{"promptTokenCount": 30, "candidatesTokenCount": 12, "totalTokenCount": 42}}\n\n',
    "claude": 'data: {"type": "message_start", "message": {"usage": {"input_tokens": 30, "output_tokens": 12}}}\n\n',
}


@pytest.mark.parametrize("vendor", list(BROKEN_OFF))
async def test_what_an_answer_that_broke_off_has_used_is_on_the_account(vendor: str) -> None:
    turn = Turn(Message.text("Hi"))
    step = Response(BROKEN_OFF[vendor], media_type="text/event-stream")
    with model_server(vendor, step) as server, pytest.raises(PeerUnreadable, match="stopped in the middle"):
        await heard(agent(server), turn)
    assert turn.meter.tokens == 42


@pytest.mark.parametrize("later", ["0", "0.01", "Wed, 21 Oct 2015 07:28:00 GMT", "soon"])
async def test_every_form_of_retry_after_is_honoured(later: str) -> None:
    busy = DIALECTS["openai"].refuses(429, "busy", **{"retry-after": later})
    with model_server("openai", busy, "Now") as server:
        assert reply(await heard(agent(server))).text.strip() == "Now"


@pytest.mark.parametrize("later", ["3600", "Wed, 21 Oct 2099 07:28:00 GMT"])
async def test_a_service_that_wants_to_be_left_alone_for_long_is_not_waited_for(later: str) -> None:
    busy = DIALECTS["openai"].refuses(429, "busy", **{"retry-after": later})
    with model_server("openai", busy, "Now") as server, pytest.raises(PeerRefused, match="busy"):
        await heard(agent(server))
    assert len(server.requests) == 1


@pytest.mark.parametrize("key", ["message", "detail", "error"])
async def test_errors_are_read_in_every_form(key: str) -> None:
    step = JSONResponse({key: "no such model"}, 404)
    with model_server("openai", step) as server, pytest.raises(PeerRefused, match="no such model"):
        await heard(agent(server))
