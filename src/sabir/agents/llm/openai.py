"""A model behind OpenAI's ``/chat/completions`` API, which most services and local servers support."""

from __future__ import annotations

import base64
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import msgspec

from sabir.errors import PeerRefused, PeerUnreadable
from sabir.message import Part
from sabir.misfits import NOT_JSON
from sabir.protocols.peer import Clock
from sabir.tools import ToolCall

from .hosted import HostedModel, function_tools
from .model import ModelMessage, ModelOptions, ModelPiece, ModelUsage, call_of
from .service import ServiceProblem, events_of


class OpenAIModel(HostedModel):
    """One model of one service."""

    async def answer(
        self, messages: Sequence[ModelMessage], options: ModelOptions | None = None
    ) -> AsyncGenerator[ModelPiece, None]:
        chosen = options or ModelOptions()
        clock = Clock(chosen.seconds)
        calls = _Calls()
        usage: _UsageBody | None = None  # some services repeat it with every chunk, so the last one counts
        ended = ""
        async with self.service.asked("/chat/completions", self._body(messages, chosen), clock) as response:
            async for data in events_of(response, clock, self.service):
                chunk = self._chunk(data)
                for choice in chunk.choices[:1]:
                    ended = ended or choice.finish_reason or ""
                    said = choice.message or choice.delta  # a service that does not stream sends one whole message
                    calls.add(said.tool_calls or ())
                    if words := said.content or said.refusal:
                        yield words
                usage = chunk.usage or usage
        if usage is not None:
            yield usage.total()
        if not ended:
            raise PeerUnreadable(self.service.place, "it stopped in the middle of its answer")
        if ended == "content_filter":
            raise PeerRefused(self.service.place, "its content filter blocked the answer")
        for call in calls.whole(self.service.place):
            yield call

    def _body(self, messages: Sequence[ModelMessage], options: ModelOptions) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self.name,
            "messages": [_plain(message) for message in messages],
            "stream": True,
            "stream_options": {"include_usage": True},
            **self._options,
        }
        if options.tools:
            body["tools"] = function_tools(options.tools)
            if options.must_call:
                body["tool_choice"] = "required"
        if options.schema is not None:
            body["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": "answer", "schema": options.schema},
            }
        return body

    def _chunk(self, data: bytes) -> _Chunk:
        try:
            chunk = msgspec.json.decode(data, type=_Chunk)
        except NOT_JSON:
            raise PeerUnreadable(self.service.place, "its answer is not a chat completion") from None
        if chunk.error is not None:
            words = chunk.error if isinstance(chunk.error, str) else chunk.error.message
            raise PeerRefused(self.service.place, words[:300] or "it failed")
        return chunk


def _plain(message: ModelMessage) -> dict[str, Any]:
    """A message in the service's format."""
    if message.role == "tool":
        return {"role": "tool", "tool_call_id": message.call_id, "content": message.content}
    if message.calls:
        calls = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": msgspec.json.encode(call.arguments).decode()},
            }
            for call in message.calls
        ]
        return {"role": "assistant", "content": message.content or None, "tool_calls": calls}
    if message.images:
        return {"role": message.role, "content": [{"type": "text", "text": message.content}, *_images(message.images)]}
    return {"role": message.role, "content": message.content}


def _images(parts: Sequence[Part]) -> list[dict[str, Any]]:
    return [
        {
            "type": "image_url",
            "image_url": {"url": f"data:{part.subformat};base64,{base64.b64encode(part.content).decode()}"},
        }
        for part in parts
    ]


class _Calls:
    """Collects tool calls, which arrive in fragments: the name first, then pieces of JSON text.

    Fragments of one call have the same index. Some services give every call the index 0; then a new id starts a new
    call.
    """

    def __init__(self) -> None:
        self._calls: list[_CallDelta] = []
        self._current: dict[int, _CallDelta] = {}  # by index

    def add(self, deltas: Sequence[_CallDelta]) -> None:
        for delta in deltas:
            known = self._current.get(delta.index)
            if known is None or (delta.id and known.id and delta.id != known.id):
                known = self._current[delta.index] = _CallDelta(delta.index, function=_FunctionDelta())
                self._calls.append(known)
            function, given = known.function, delta.function
            assert function is not None
            known.id = delta.id or known.id
            if given is not None:
                function.name = given.name or function.name
                function.arguments = (function.arguments or "") + (given.arguments or "")

    def whole(self, place: str) -> list[ToolCall]:
        """Raises:
        PeerUnreadable: a call has no name.
        """
        calls = []
        for number, delta in enumerate(sorted(self._calls, key=lambda call: call.index)):
            function = delta.function
            if function is None or not function.name:
                raise PeerUnreadable(place, "it called a tool without a name")
            calls.append(call_of(delta.id or f"call_{number}", function.name, function.arguments or ""))
        return calls


class _FunctionDelta(msgspec.Struct):
    name: str | None = None
    arguments: str | None = None


class _CallDelta(msgspec.Struct):
    index: int = 0
    id: str | None = None
    function: _FunctionDelta | None = None


class _Delta(msgspec.Struct):
    content: str | None = None
    refusal: str | None = None  # why the model does not answer
    tool_calls: list[_CallDelta] | None = None


class _Choice(msgspec.Struct):
    delta: _Delta = msgspec.field(default_factory=_Delta)
    message: _Delta | None = None
    finish_reason: str | None = None


class _UsageBody(msgspec.Struct):
    total_tokens: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0

    def total(self) -> ModelUsage:
        """Services omit some of the three counts, or count reasoning only in the total."""
        total = max(self.total_tokens, self.prompt_tokens + self.completion_tokens)
        written = total - self.prompt_tokens if self.prompt_tokens else self.completion_tokens
        return ModelUsage(total, written)


class _Chunk(msgspec.Struct):
    choices: list[_Choice] = []
    usage: _UsageBody | None = None
    error: ServiceProblem | str | None = None
