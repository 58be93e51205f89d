"""A model behind Ollama's own API (``POST /api/chat``, https://docs.ollama.com/api/chat): one JSON object a line."""

from __future__ import annotations

import base64
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import msgspec

from sabir.errors import PeerRefused, PeerUnreadable
from sabir.misfits import NOT_JSON
from sabir.protocols.peer import Clock
from sabir.tools import ToolCall

from .hosted import HostedModel, function_tools
from .model import ModelMessage, ModelOptions, ModelPiece, ModelUsage
from .service import lines_of


class OllamaModel(HostedModel):
    """One model of an Ollama server."""

    max_tokens_name = "num_predict"

    async def answer(
        self, messages: Sequence[ModelMessage], options: ModelOptions | None = None
    ) -> AsyncGenerator[ModelPiece, None]:
        chosen = options or ModelOptions()
        clock = Clock(chosen.seconds)
        calls: list[_OllamaCall] = []
        last: _Line | None = None
        async with self.service.asked("/api/chat", self._body(messages, chosen), clock) as response:
            async for text in lines_of(response, clock, self.service):
                line = self._line(text)
                calls += line.message.tool_calls or ()
                if line.message.content:
                    yield line.message.content
                if line.done:
                    last = line
        if last is None:
            raise PeerUnreadable(self.service.place, "it stopped in the middle of its answer")
        for index, call in enumerate(calls):
            yield ToolCall(call.id or f"call_{index}", call.function.name, call.function.arguments)
        yield ModelUsage(last.prompt_eval_count + last.eval_count, last.eval_count)

    def _body(self, messages: Sequence[ModelMessage], options: ModelOptions) -> dict[str, Any]:
        body: dict[str, Any] = {"model": self.name, "messages": _plain(messages), "stream": True}
        if self._options:
            body["options"] = self._options
        if options.schema is not None:
            body["format"] = options.schema
        if options.tools:
            body["tools"] = function_tools(options.tools)
        return body

    def _line(self, text: str) -> _Line:
        try:
            line = msgspec.json.decode(text, type=_Line)
        except NOT_JSON:
            raise PeerUnreadable(self.service.place, "its answer is not a chat of Ollama's") from None
        if line.error:
            raise PeerRefused(self.service.place, line.error[:300])
        return line


def _plain(messages: Sequence[ModelMessage]) -> list[dict[str, Any]]:
    names: dict[str, str] = {}  # by call id; a result is sent under the name of its tool
    entries: list[dict[str, Any]] = []
    for message in messages:
        names |= {call.id: call.name for call in message.calls}
        plain: dict[str, Any] = {"role": message.role, "content": message.content}
        if message.images:
            plain["images"] = [base64.b64encode(part.content).decode() for part in message.images]
        if message.calls:
            plain["tool_calls"] = [
                {"function": {"name": call.name, "arguments": call.arguments}} for call in message.calls
            ]
        if message.role == "tool":
            plain["tool_name"] = names.get(message.call_id, message.call_id)
        entries.append(plain)
    return entries


class _Function(msgspec.Struct):
    name: str
    arguments: dict[str, Any] = {}


class _OllamaCall(msgspec.Struct):
    function: _Function
    id: str | None = None


class _OllamaMessage(msgspec.Struct):
    content: str = ""
    tool_calls: list[_OllamaCall] | None = None


class _Line(msgspec.Struct):
    message: _OllamaMessage = msgspec.field(default_factory=_OllamaMessage)
    done: bool = False
    error: str = ""
    prompt_eval_count: int = 0
    eval_count: int = 0
