"""``ConfigurableAgent``: a language model with tools that takes a list of messages (MW-38)."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from types import TracebackType
from typing import Any, Self

import msgspec

from sabir.agent import Agent, why_not_anonymous
from sabir.agents.llm import LLM, LLMOptions, Price, model_of
from sabir.card import Card
from sabir.errors import BadMessage, SabirError
from sabir.events import Delta, Event, Fault
from sabir.message import Message
from sabir.tools import Toolbox, ToolCall, ToolResult
from sabir.tools.router import value_of
from sabir.tools.tool import parts_of
from sabir.tools.toolbox import CallOptions
from sabir.turn import Conversation, PastTurn, Turn

from .agent_config import AgentConfig
from .nlip.router import NLIPRouter, timestamp
from .nlip.schema import (
    NLIPControlField,
    NLIPFormatField,
    NLIPMessage,
    NLIPMessageType,
    NLIPRequest,
    NLIPTokenField,
    NLIPToolCall,
)
from .stream_chunk import StreamChunk

Messages = Sequence[Mapping[str, Any]]


class ChatAgent:
    """Anything that takes messages and answers with chunks."""

    agent_id: str
    card: Card

    def chat(
        self, messages: list[dict[str, Any]], nlip_mode: bool = False, **kwargs: Any
    ) -> AsyncGenerator[StreamChunk, None]:
        raise NotImplementedError

    def as_agent(self, *, routed: bool) -> Agent:
        """The same as an Agent of Sabir; with ``routed``, its tool calls go through its router."""
        raise NotImplementedError


class ConfigurableAgent(ChatAgent):
    """An agent described by its ``AgentConfig``. It is also an Agent of Sabir: a Gateway can serve it."""

    def __init__(self, config: AgentConfig) -> None:
        """Raises:
        ConfigError: the backend is unknown, the model is missing, or the variable of its key is not set.
        """
        self._config = config
        self.agent_id = config.agent_id
        self.model = model_of(config.agent_id, config.backend)
        self.card = self._llm(config.tool_manager.toolbox, "").card

    async def __call__(self, turn: Turn, /) -> AsyncIterator[Event]:
        async for event in self.as_agent(routed=self._config.enable_nlip)(turn):
            yield event

    async def propose_anonymous(self, conversation: str) -> str | None:
        """Agree to anonymity only if every agent that it uses as a tool does (PAPER-ANON)."""
        return await why_not_anonymous(self._config.tool_manager.toolbox.agents, conversation)

    def as_agent(self, *, routed: bool) -> LLM:
        router = self._config.nlip_router if routed else None
        return self._llm(_WatchedToolbox(self._config, router, None), "")

    def _llm(self, toolbox: Toolbox, more: str) -> LLM:
        backend = self._config.backend
        system = "\n".join(text for text in (self._config.system_message, more) if text)
        options = LLMOptions(seconds=backend.seconds, price=backend.price or Price())
        return LLM(self.agent_id, self.model, system_message=system, tools=toolbox, options=options)

    async def chat(
        self, messages: list[dict[str, Any]], nlip_mode: bool = False, **kwargs: Any
    ) -> AsyncGenerator[StreamChunk, None]:
        """Answer the messages, chunk by chunk.

        NLIP routes it if both the agent and this call enable that. ``nlip_token=`` continues a session.

        Raises:
            RuntimeError: NLIP is enabled, but there is no router.
            SabirError: the messages have no question; failures of the model are chunks.
        """
        if nlip_mode and self._config.enable_nlip:
            chunks = self._chat_nlip(messages, **kwargs)
        else:
            chunks = self._chat(messages, None)
        async with aclosing(chunks) as stream:
            async for chunk in stream:
                yield chunk

    async def _chat_nlip(
        self, messages: list[dict[str, Any]], nlip_token: NLIPTokenField | None = None, **options: Any
    ) -> AsyncGenerator[StreamChunk, None]:
        router = self._config.nlip_router
        if router is None:
            raise RuntimeError("NLIP router not initialized")
        request = _request(nlip_token or self._new_token(router), {"messages": messages, "options": options})
        router.chat = self._chat_of
        async with aclosing(router.route_message(request)) as responses:
            async for response in responses:
                for chunk in _chunks_of(response, streams=router.own.enable_streaming, source=self.agent_id):
                    yield chunk

    def _new_token(self, router: NLIPRouter) -> NLIPTokenField:
        settings = router.settings
        if settings.tokens.auto_generate_sessions and settings.router.enable_state_management:
            return router.token_tracker.create_session_token(agent_id=self.agent_id)
        return NLIPTokenField()

    def _chat_of(self, request: NLIPMessage) -> AsyncIterator[StreamChunk]:
        return self._chat(request.content.get("messages") or [], request)

    async def _chat(self, messages: Messages, request: NLIPMessage | None) -> AsyncGenerator[StreamChunk, None]:
        """The model's own answer; with a request, its tool calls go through the router in that request's session."""
        turn, system = turn_of(messages)
        chunks: asyncio.Queue[StreamChunk | None] = asyncio.Queue()
        router = self._config.nlip_router if request is not None else None
        toolbox = _WatchedToolbox(self._config, router, request, chunks)
        agent = self._llm(toolbox, system)
        running = asyncio.create_task(_pump(agent, turn, chunks, self.agent_id))
        try:
            while (chunk := await chunks.get()) is not None:
                yield msgspec.structs.replace(chunk, source=self.agent_id)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.model.aclose()


class _WatchedToolbox(Toolbox):
    """The tools of an agent. Calls go through the router as NLIP messages, if there is one, and appear as chunks."""

    def __init__(
        self,
        config: AgentConfig,
        router: NLIPRouter | None,
        request: NLIPMessage | None,
        chunks: asyncio.Queue[StreamChunk | None] | None = None,
    ) -> None:
        super().__init__()
        self._box = config.tool_manager.toolbox
        self._router = router
        self._request = request
        self._chunks = chunks

    @property
    def agents(self) -> list[Agent]:
        return self._box.agents

    async def load(self) -> None:
        await self._box.load()
        disabled = self._router.settings.translation.disabled if self._router is not None else frozenset()
        kinds = {"agent": "custom"}
        self._tools = {
            name: tool for name, tool in self._box.items() if kinds.get(tool.kind, tool.kind) not in disabled
        }

    async def call(self, turn: Turn, calls: Sequence[ToolCall], options: CallOptions | None = None) -> list[ToolResult]:
        self._emit(StreamChunk("tool_calls", tool_calls=[_native(call) for call in calls]))
        if self._router is None or any(call.name not in self._box for call in calls):  # such as an ensemble's own
            results = await super().call(turn, calls, options)
        else:
            results = await self._routed(self._router, turn, calls)
        for result in results:
            error = result.text if result.status != "success" else None
            content = result.text or str(value_of(result.parts) if result.parts else "")
            self._emit(
                StreamChunk("tool_result", content, tool_call_id=result.id, error=error, status=result.name),
            )
        return results

    async def _routed(self, router: NLIPRouter, turn: Turn, calls: Sequence[ToolCall]) -> list[ToolResult]:
        token = self._request.token if self._request is not None else NLIPTokenField()
        asked = [
            NLIPToolCall(
                tool_id=call.id, tool_name=call.name, parameters=call.arguments, require_confirmation=call.confirm
            )
            for call in calls
        ]
        request = _request(token, {}, asked)
        results = []
        async for response in router.route_message(request, turn):
            for found in response.tool_results or ():
                parts = parts_of(found.result) if found.status == "success" else ()
                results.append(
                    ToolResult(found.tool_id, found.tool_name, found.status, parts, found.error or "", found.metadata)
                )
            if response.control.message_type is NLIPMessageType.ERROR:
                call = calls[len(results)]
                results.append(ToolResult(call.id, call.name, "error", error=str(response.content.get("error"))))
        return results

    def _emit(self, chunk: StreamChunk) -> None:
        if self._chunks is not None:
            self._chunks.put_nowait(chunk)


async def _pump(agent: LLM, turn: Turn, chunks: asyncio.Queue[StreamChunk | None], source: str) -> None:
    try:
        async for event in agent(turn):
            if isinstance(event, Delta) and event.part.format == "text":
                chunks.put_nowait(StreamChunk("content", event.part.content))
            elif isinstance(event, Fault):
                chunks.put_nowait(StreamChunk("error", error=event.reason))
        chunks.put_nowait(StreamChunk("done"))
    except SabirError as exc:
        chunks.put_nowait(StreamChunk("error", error=str(exc)))
    finally:
        chunks.put_nowait(None)


def _chunks_of(response: NLIPMessage, *, streams: bool, source: str) -> list[StreamChunk]:
    """A response as chunks. The whole text at the end is included only if it was not streamed (G-5)."""
    content = response.content
    if response.control.message_type is NLIPMessageType.ERROR:
        return [StreamChunk("error", error=str(content.get("error")), source=source)]
    if response.tool_results:
        return [
            StreamChunk(
                "tool_result",
                "" if tool_result.result is None else str(tool_result.result),
                tool_call_id=tool_result.tool_id,
                error=tool_result.error,
                status=tool_result.tool_name,
                source=source,
            )
            for tool_result in response.tool_results
        ]
    if "tool_calls" in content:
        calls = [
            {"id": call["tool_id"], "function": {"name": call["tool_name"], "arguments": call["parameters"]}}
            for call in content["tool_calls"]
        ]
        return [StreamChunk("tool_calls", tool_calls=calls, source=source)]
    if content.get("complete"):
        whole = [] if streams else [StreamChunk("content", str(content.get("content", "")), source=source)]
        return [*whole, StreamChunk("done", source=source)]
    return [StreamChunk("content", str(content.get("content", "")), source=source)]


def _native(call: ToolCall) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def _request(
    token: NLIPTokenField, content: dict[str, Any], tool_calls: list[NLIPToolCall] | None = None
) -> NLIPRequest:
    return NLIPRequest(
        format=NLIPFormatField(),
        control=NLIPControlField(
            message_type=NLIPMessageType.REQUEST, message_id=str(uuid.uuid4()), timestamp=timestamp()
        ),
        token=token,
        content=content,
        tool_calls=tool_calls,
    )


def turn_of(messages: Messages) -> tuple[Turn, str]:
    """A list of messages as a turn, and the text of its system messages.

    Raises:
        BadMessage: there is no user message.
    """
    system: list[str] = []
    past: list[PastTurn] = []
    asked: str | None = None
    for number, message in enumerate(messages):
        role, words = message.get("role"), _words(message.get("content"))
        if role == "system":
            system.append(words)
        elif role == "assistant" and asked is not None:
            past.append(PastTurn(str(number), 0.0, "", Message.text(asked), Message.text(words)))
            asked = None
        elif role == "user":
            asked = words if asked is None else f"{asked}\n{words}"
    if asked is None:
        raise BadMessage("massgen", "messages", "a last message with role user")
    turn = Turn(Message.text(asked), conversation=Conversation("", tuple(past), count=len(past)))
    turn.deadline = time.monotonic() + 3600
    return turn, "\n".join(system)


def _words(content: Any) -> str:
    if isinstance(content, str):
        return content
    pieces = content if isinstance(content, list) else []
    return "\n".join(str(piece.get("text", "")) for piece in pieces if isinstance(piece, Mapping))
