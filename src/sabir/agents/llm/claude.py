"""A model behind Anthropic's Messages API (``POST /v1/messages``, https://docs.claude.com/en/api/messages).

Not all its models have a parameter for the schema of an answer; so the schema becomes a tool that the model must call,
and the arguments of that call are the answer.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncGenerator, Sequence
from typing import Any, Final

import msgspec

from sabir.errors import PeerRefused, PeerUnreadable
from sabir.misfits import NOT_JSON
from sabir.protocols.peer import Clock

from .hosted import HostedModel
from .model import ModelMessage, ModelOptions, ModelPiece, ModelUsage, call_of
from .service import ServiceProblem, events_of

PATH: Final = "/v1/messages"
VERSION: Final = {"anthropic-version": "2023-06-01"}
MAX_TOKENS: Final = 4096  # the API requires a number; this is the limit of its smallest models
SHAPED: Final = "answer_in_json"  # the tool through which a structured answer comes


class ClaudeModel(HostedModel):
    """An Anthropic model."""

    async def answer(
        self, messages: Sequence[ModelMessage], options: ModelOptions | None = None
    ) -> AsyncGenerator[ModelPiece, None]:
        chosen = options or ModelOptions()
        clock = Clock(chosen.seconds)
        reading = _Reading(self.service.place)
        async with self.service.asked(PATH, self._body(messages, chosen), clock, VERSION) as response:
            async for data in events_of(response, clock, self.service):
                text = reading.add(data)
                if text:
                    yield text
        yield reading.usage()
        for piece in reading.rest():
            yield piece

    def _body(self, messages: Sequence[ModelMessage], options: ModelOptions) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self.name,
            "max_tokens": MAX_TOKENS,
            "messages": _conversation(messages),
            "stream": True,
            **self._options,
        }
        system = "\n\n".join(message.content for message in messages if message.role == "system")
        if system:
            body["system"] = system
        tools = [
            {"name": tool.name, "description": tool.description, "input_schema": tool.schema} for tool in options.tools
        ]
        if options.schema is not None:
            words = "Gives the answer. Call it when you have everything that you need."
            tools.append({"name": SHAPED, "description": words, "input_schema": options.schema})
        if tools:
            body["tools"] = tools
            if options.must_call or options.schema is not None:
                body["tool_choice"] = {"type": "any"}
        return body


def _conversation(messages: Sequence[ModelMessage]) -> list[dict[str, Any]]:
    """The messages as blocks; all results of one round of tools go into one user message."""
    entries: list[dict[str, Any]] = []
    for message in messages:
        if message.role == "system":
            continue
        role = "assistant" if message.role == "assistant" else "user"
        blocks = _blocks(message)
        if entries and entries[-1]["role"] == role:
            entries[-1]["content"] += blocks
        else:
            entries.append({"role": role, "content": blocks})
    return entries


def _blocks(message: ModelMessage) -> list[dict[str, Any]]:
    if message.role == "tool":
        return [{"type": "tool_result", "tool_use_id": message.call_id, "content": message.content}]
    blocks: list[dict[str, Any]] = [
        {
            "type": "image",
            "source": {
                "type": "base64",
                "media_type": part.subformat,
                "data": base64.b64encode(part.content).decode(),
            },
        }
        for part in message.images
    ]
    if message.content:
        blocks.append({"type": "text", "text": message.content})
    blocks += [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments} for call in message.calls
    ]
    return blocks


class _Reading:
    """Reads the events of one answer."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._blocks: dict[int, tuple[_Block, list[str]]] = {}  # tool calls with the pieces of their arguments
        self._given = 0
        self._written = 0
        self._ended = False

    def add(self, data: bytes) -> str:
        """The text of one event, if it has any."""
        try:
            event = msgspec.json.decode(data, type=_Event)
        except NOT_JSON:
            raise PeerUnreadable(self._place, "its answer is not a stream of the Messages API") from None
        if event.type == "error":
            raise PeerRefused(self._place, event.error.message[:300] or "it failed")
        self._count(event)
        if event.type == "message_stop":
            self._ended = True
        if event.type == "content_block_start" and event.content_block.type == "tool_use":
            self._blocks[event.index] = event.content_block, []
        if event.type != "content_block_delta":
            return ""
        if event.delta.type == "text_delta":
            return event.delta.text
        if event.delta.type == "input_json_delta" and event.index in self._blocks:
            block, pieces = self._blocks[event.index]
            pieces.append(event.delta.partial_json)
            return event.delta.partial_json if block.name == SHAPED else ""
        return ""

    def _count(self, event: _Event) -> None:
        for usage in (event.usage, event.message.usage):
            self._given = max(self._given, usage.all_input)
            self._written = max(self._written, usage.output_tokens)

    def usage(self) -> ModelUsage:
        """The usage so far."""
        return ModelUsage(self._given + self._written, self._written)

    def rest(self) -> list[ModelPiece]:
        """The tool calls.

        Raises:
            PeerUnreadable: the answer broke off.
        """
        if not self._ended:
            raise PeerUnreadable(self._place, "it stopped in the middle of its answer")
        return [
            call_of(block.id or f"call_{index}", block.name, "".join(pieces))
            for index, (block, pieces) in sorted(self._blocks.items())
            if block.name != SHAPED
        ]


class _Usage(msgspec.Struct):
    input_tokens: int | None = 0
    output_tokens: int = 0
    cache_creation_input_tokens: int | None = 0
    cache_read_input_tokens: int | None = 0

    @property
    def all_input(self) -> int:
        """Cached tokens are counted separately."""
        cached = (self.cache_creation_input_tokens or 0) + (self.cache_read_input_tokens or 0)
        return (self.input_tokens or 0) + cached


class _Begun(msgspec.Struct):
    usage: _Usage = msgspec.field(default_factory=_Usage)


class _Block(msgspec.Struct):
    type: str = ""
    id: str = ""
    name: str = ""


class _BlockDelta(msgspec.Struct):
    type: str = ""
    text: str = ""
    partial_json: str = ""


class _Event(msgspec.Struct):
    type: str
    index: int = 0
    message: _Begun = msgspec.field(default_factory=_Begun)
    content_block: _Block = msgspec.field(default_factory=_Block)
    delta: _BlockDelta = msgspec.field(default_factory=_BlockDelta)
    usage: _Usage = msgspec.field(default_factory=_Usage)
    error: ServiceProblem = msgspec.field(default_factory=ServiceProblem)
