"""A model behind Google's Gemini API (``:streamGenerateContent``, https://ai.google.dev/api/generate-content)."""

from __future__ import annotations

import base64
from collections.abc import AsyncGenerator, Sequence
from typing import Any
from urllib.parse import quote

import msgspec

from sabir.errors import PeerRefused, PeerUnreadable
from sabir.misfits import NOT_JSON
from sabir.protocols.peer import Clock
from sabir.tools import ToolCall

from .hosted import HostedModel
from .model import ModelMessage, ModelOptions, ModelPiece, ModelUsage
from .service import ServiceProblem, events_of


class GeminiModel(HostedModel):
    """A Gemini model."""

    max_tokens_name = "maxOutputTokens"

    async def answer(
        self, messages: Sequence[ModelMessage], options: ModelOptions | None = None
    ) -> AsyncGenerator[ModelPiece, None]:
        chosen = options or ModelOptions()
        clock = Clock(chosen.seconds)
        calls: list[ToolCall] = []
        usage = ModelUsage()
        ended = False
        path = f"/v1beta/models/{quote(self.name, safe='.-_')}:streamGenerateContent?alt=sse"
        async with self.service.asked(path, self._body(messages, chosen), clock) as response:
            async for data in events_of(response, clock, self.service):
                chunk = self._chunk(data)
                usage = chunk.usageMetadata.total() or usage
                for candidate in chunk.candidates[:1]:
                    ended = ended or candidate.finishReason is not None
                    for part in candidate.content.parts:
                        if part.functionCall is not None:
                            calls.append(part.functionCall.call(len(calls), part.thoughtSignature))
                        elif part.text and not part.thought:
                            yield part.text
        yield usage
        if not ended:
            raise PeerUnreadable(self.service.place, "it stopped in the middle of its answer")
        for call in calls:
            yield call

    def _body(self, messages: Sequence[ModelMessage], options: ModelOptions) -> dict[str, Any]:
        body: dict[str, Any] = {"contents": _contents(messages)}
        system = [{"text": message.content} for message in messages if message.role == "system"]
        if system:
            body["systemInstruction"] = {"parts": system}
        generation: dict[str, Any] = dict(self._options)
        if options.schema is not None:
            generation |= {"responseMimeType": "application/json", "responseJsonSchema": options.schema}
        if generation:
            body["generationConfig"] = generation
        if options.tools:
            declared = [
                {"name": tool.name, "description": tool.description, "parametersJsonSchema": tool.schema}
                for tool in options.tools
            ]
            body["tools"] = [{"functionDeclarations": declared}]
            if options.must_call:
                body["toolConfig"] = {"functionCallingConfig": {"mode": "ANY"}}
        return body

    def _chunk(self, data: bytes) -> _GeminiChunk:
        try:
            chunk = msgspec.json.decode(data, type=_GeminiChunk)
        except NOT_JSON:
            raise PeerUnreadable(self.service.place, "its answer is not generated content") from None
        if chunk.error is not None:
            raise PeerRefused(self.service.place, chunk.error.message[:300] or "it failed")
        if chunk.promptFeedback.blockReason:
            raise PeerRefused(self.service.place, f"it blocked the question ({chunk.promptFeedback.blockReason})")
        return chunk


def _contents(messages: Sequence[ModelMessage]) -> list[dict[str, Any]]:
    """The messages as contents; all results of one round of tools go into one content."""
    entries: list[dict[str, Any]] = []
    names: dict[str, str] = {}  # by call id; a result is sent under the name of its function
    for message in messages:
        if message.role == "system":
            continue
        names |= {call.id: call.name for call in message.calls}
        role = "model" if message.role == "assistant" else "user"
        parts = _parts(message, names)
        if entries and entries[-1]["role"] == role:
            entries[-1]["parts"] += parts
        else:
            entries.append({"role": role, "parts": parts})
    return entries


def _parts(message: ModelMessage, names: dict[str, str]) -> list[dict[str, Any]]:
    if message.role == "tool":
        response = {"name": names.get(message.call_id, message.call_id), "response": {"result": message.content}}
        return [{"functionResponse": response}]
    parts: list[dict[str, Any]] = [{"text": message.content}] if message.content else []
    parts += [
        {"inlineData": {"mimeType": part.subformat, "data": base64.b64encode(part.content).decode()}}
        for part in message.images
    ]
    for call in message.calls:
        part: dict[str, Any] = {"functionCall": {"name": call.name, "args": call.arguments}}
        if call.mark:
            part["thoughtSignature"] = call.mark  # newer models reject their own calls without it
        parts.append(part)
    return parts


class _FunctionCall(msgspec.Struct):
    name: str
    args: dict[str, Any] = {}
    id: str | None = None

    def call(self, index: int, mark: str) -> ToolCall:
        return ToolCall(self.id or f"call_{index}", self.name, self.args, mark=mark)


class _Part(msgspec.Struct):
    text: str = ""
    thought: bool = False
    thoughtSignature: str = ""  # the names are those of the API
    functionCall: _FunctionCall | None = None


class _Content(msgspec.Struct):
    parts: list[_Part] = []


class _GeminiCandidate(msgspec.Struct):
    content: _Content = msgspec.field(default_factory=_Content)
    finishReason: str | None = None


class _Feedback(msgspec.Struct):
    blockReason: str = ""


class _GeminiUsage(msgspec.Struct):
    promptTokenCount: int = 0
    totalTokenCount: int = 0
    candidatesTokenCount: int = 0
    thoughtsTokenCount: int = 0

    def total(self) -> ModelUsage | None:
        """Reasoning counts as output; None if this chunk has no counts."""
        written = self.candidatesTokenCount + self.thoughtsTokenCount
        total = max(self.totalTokenCount, self.promptTokenCount + written)
        return ModelUsage(total, max(written, total - self.promptTokenCount)) if total else None


class _GeminiChunk(msgspec.Struct):
    candidates: list[_GeminiCandidate] = []
    usageMetadata: _GeminiUsage = msgspec.field(default_factory=_GeminiUsage)
    promptFeedback: _Feedback = msgspec.field(default_factory=_Feedback)
    error: ServiceProblem | None = None
