"""``NLIPRouter``: runs the tool calls of a message, with one response for each (MW-11 to MW-24).

Rights, confirmation, time limits, retries, filters and the audit come from ``sabir.tools.Toolbox``. A gateway routes
with ``sabir.tools.router.Router`` instead.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing
from copy import copy
from datetime import UTC, datetime
from typing import Any, Final, Protocol

import msgspec

from sabir.aio import cancel_and_wait
from sabir.errors import BadInput
from sabir.guard.seal import Seal
from sabir.http.door import typed
from sabir.ids import new_id
from sabir.message import Message
from sabir.misfits import NOT_JSON
from sabir.protocols.nlip.wire.envelope import check_format
from sabir.stores.base import Store
from sabir.tools.router import BUILTIN, CONFIRMED, NO_CALLS, TOOL_RETRIES, protocol_of, value_of
from sabir.tools.settings import AgentRouterSettings, NlipSettings
from sabir.tools.tool import ToolResult
from sabir.tools.toolbox import AT_ONCE, CallOptions
from sabir.turn import Turn

from ..stream_chunk import StreamChunk
from .managed import ManagedToolbox, Outcome
from .message_handler import NLIPMessageHandler, loaded
from .schema import (
    NLIPControlField,
    NLIPFormatField,
    NLIPMessage,
    NLIPMessageType,
    NLIPResponse,
    NLIPTokenField,
    NLIPToolCall,
    NLIPToolResult,
)
from .state_manager import NLIPStateManager
from .token_tracker import NLIPTokenTracker
from .translator import BuiltinToolTranslator, CustomToolTranslator, MCPTranslator, ProtocolTranslator

__all__ = ["NLIPRouter"]

TRANSLATORS: Final = "sabir.massgen.translators"  # entry points of packages with their own translators
DEFAULT_HOURS: Final = 24.0
logger = logging.getLogger("sabir.massgen")


class ExecutesTools(Protocol):
    """What the router needs from a tool manager (G-4)."""

    async def execute_tool(self, tool_name: str, parameters: dict[str, Any], **options: Any) -> Any: ...


Chat = Callable[[NLIPMessage], AsyncIterator[StreamChunk]]


class NLIPRouter:
    """Routes messages to tools and, if there is a model, everything else to it."""

    def __init__(
        self,
        tool_manager: ExecutesTools,
        enable_nlip: bool = True,
        config: Mapping[str, Any] | None = None,
        *,
        chat: Chat | None = None,
        store: Store | None = None,
        seal: Seal | None = None,
        holder: str = "",
    ) -> None:
        """
        Args:
            tool_manager: runs the tools.
            enable_nlip: False passes calls to the tools unchanged.
            config: the keys of ``nlip`` in a configuration file, and ``router_config``.
            chat: answers requests without tool calls; None: they are an error.
            store: where sessions are kept, and context tokens if ``persist_context_tokens`` is set.
            seal: seals persistent context tokens.
            holder: the caller that tokens are bound to.

        Raises:
            ConfigError: a key is unknown, or a value is invalid.
        """
        self.tool_manager = tool_manager
        self.enable_nlip = enable_nlip
        self.config = dict(config or {})
        own = self.config.get("router_config") or {}
        rest = {key: value for key, value in self.config.items() if key != "router_config"}
        self.settings = typed("nlip_config", NlipSettings, rest)
        self.own = typed("nlip_config.router_config", AgentRouterSettings, own)
        self.chat = chat
        hours = self.settings.router.session_timeout_hours or DEFAULT_HOURS
        persists = self.settings.tokens.persist_context_tokens
        self.state_manager = NLIPStateManager(store=store, timeout_hours=hours)
        self.token_tracker = NLIPTokenTracker(seal=seal if persists else None, holder=holder, timeout_hours=hours)
        self.message_handler = NLIPMessageHandler()
        self.translators = self._made_translators()
        self._toolbox = ManagedToolbox(tool_manager, self.translators)
        self._options = CallOptions(self.own.default_timeout or self._toolbox.options.seconds)
        self._response = NLIPResponse(
            format=NLIPFormatField(schema_version=self.settings.schema_version),
            control=NLIPControlField(message_type=NLIPMessageType.RESPONSE, message_id="", timestamp=""),
            token=NLIPTokenField(),
            content={},
        )
        router = self.settings.router
        self._tracks = router.enable_message_tracking and router.enable_state_management
        self._pending_requests: dict[str, NLIPMessage] = {}
        self._warn_of_clashes()

    def _made_translators(self) -> dict[str, ProtocolTranslator]:
        made: dict[str, ProtocolTranslator] = {
            "mcp": MCPTranslator(),
            "custom": CustomToolTranslator(),
            "builtin": BuiltinToolTranslator(),
        }
        for name, kind in loaded(TRANSLATORS).items():
            if isinstance(kind, type) and issubclass(kind, ProtocolTranslator):
                made[name] = kind()
            else:
                logger.warning("Plugin %s is left out: expected a class under ProtocolTranslator", name)
        return {name: item for name, item in made.items() if name not in self.settings.translation.disabled}

    def _warn_of_clashes(self) -> None:
        """The name of a builtin tool always means that tool (MW-15)."""
        held = getattr(self.tool_manager, "toolbox", None)
        for name in sorted(BUILTIN & set(held or ())):
            if held is not None and held[name].kind == "custom":
                logger.warning("The tool %s has the name of a builtin tool and is routed as that", name)

    def is_enabled(self) -> bool:
        """Whether messages are routed."""
        return self.enable_nlip

    # -- routing ----------------------------------------------------------------------------------

    async def route_message(self, message: NLIPMessage, turn: Turn | None = None) -> AsyncGenerator[NLIPResponse, None]:
        """The responses to a message. Inside a gateway, ``turn`` holds the caller and the deadline.

        Raises:
            ValueError: the message is neither a request nor a notification.
        """
        if not self.enable_nlip:
            yield await self._passthrough_execution(message)
            return
        if (invalid := _invalid_format(message.format)) is not None:
            yield self._create_error_response(message, invalid)
            return
        kind = message.control.message_type
        handler = self.message_handler.find(message)
        await self._track_message(message)
        try:
            if handler is not None:
                responses = handler(message, self)
            elif kind is NLIPMessageType.REQUEST:
                calls = message.tool_calls
                if calls and len(calls) == 1:  # needs no separate task
                    outcome = await self._run_call(message, calls[0], self._turn_of(message, turn), asyncio.Lock())
                    if outcome.pieces is None:
                        yield self._last_response(message, outcome)
                        return
                    responses = self._responses_of(message, outcome)
                else:
                    responses = self._handle_calls(message, turn) if calls else self._handle_chat(message)
            elif kind is NLIPMessageType.NOTIFICATION:
                return
            else:
                raise ValueError(f"Unsupported message type: {kind}")
            async for response in responses:
                yield response
        finally:
            self._pending_requests.pop(message.control.message_id, None)

    async def _handle_chat(self, request: NLIPMessage) -> AsyncGenerator[NLIPResponse, None]:
        """A request without tool calls goes to the model, if there is one."""
        if self.chat is None:
            yield self._create_error_response(request, NO_CALLS)
            return
        async with aclosing(self.stream_nlip_response(self.chat(request), request)) as responses:
            async for response in responses:
                yield response

    async def _handle_calls(self, request: NLIPMessage, turn: Turn | None) -> AsyncGenerator[NLIPResponse, None]:
        """Run the calls of a request concurrently; one response for each, in order."""
        turn = self._turn_of(request, turn)
        asking = asyncio.Lock()
        free = asyncio.Semaphore(AT_ONCE)

        async def run(call: NLIPToolCall) -> Outcome:
            async with free:
                return await self._run_call(request, call, turn, asking)

        running = [asyncio.create_task(run(call), name=call.tool_name) for call in request.tool_calls or ()]
        try:
            for task in running:
                async for response in self._responses_of(request, await task):
                    yield response
        finally:
            await cancel_and_wait(running)

    async def _run_call(self, request: NLIPMessage, call: NLIPToolCall, turn: Turn, asking: asyncio.Lock) -> Outcome:
        """Run one call; one of a disabled kind has no result."""
        kind = self._kind_of(call.tool_name)
        if kind not in self.translators:
            return Outcome(call, kind)
        options = self._options
        if request.control.retry_count:
            options = CallOptions(options.seconds, min(request.control.retry_count, TOOL_RETRIES))
        agreed = request.metadata.get(CONFIRMED)
        confirmed = isinstance(agreed, list | tuple) and call.tool_id in agreed
        return await self._toolbox.run_one(turn, Outcome(call, kind, confirmed), asking, options)

    async def _responses_of(self, request: NLIPMessage, outcome: Outcome) -> AsyncGenerator[NLIPResponse, None]:
        if outcome.pieces is not None:
            async for piece in outcome.pieces:
                details = {"partial": True, "content": piece, "tool_id": outcome.call.tool_id}
                yield self._create_response(request, details)
        yield self._last_response(request, outcome)

    def _last_response(self, request: NLIPMessage, outcome: Outcome) -> NLIPResponse:
        if outcome.result is None:
            return self._create_error_response(request, f"No translator for protocol: {outcome.kind}")
        return self._create_tool_response(request, _nlip_result(outcome.result, outcome.kind, outcome.translated))

    def _turn_of(self, request: NLIPMessage, turn: Turn | None) -> Turn:
        turn = turn if turn is not None else Turn(Message.text(""))
        if request.control.timeout is not None:
            limit = time.monotonic() + request.control.timeout
            turn = msgspec.structs.replace(turn, deadline=min(turn.deadline, limit))
        return turn

    async def _detect_tool_protocol(self, tool_name: str) -> str:
        """``mcp``, ``builtin`` or ``custom``; a package's own translator is chosen by its prefix ``name__``."""
        return self._kind_of(tool_name)

    def _kind_of(self, tool_name: str) -> str:
        prefix, separator, _ = tool_name.partition("__")
        return prefix if separator and prefix in self.translators else protocol_of(tool_name)

    async def _passthrough_execution(self, message: NLIPMessage) -> NLIPResponse:
        """Without NLIP, tools run as they are: nothing is translated, tracked or charged (G-10)."""
        calls = message.tool_calls or []
        if not calls:
            return self._create_response(message, message.content)
        results = [await self._run_plainly(call) for call in calls]
        return self._create_response(message, _content_of(results), results)

    async def _run_plainly(self, call: NLIPToolCall) -> NLIPToolResult:
        known: dict[str, Any] = {"tool_id": call.tool_id, "tool_name": call.tool_name}
        try:
            found = await self.tool_manager.execute_tool(tool_name=call.tool_name, parameters=call.parameters)
        except Exception as exc:
            logger.exception("Tool %s failed", call.tool_name)
            return NLIPToolResult(**known, status="error", error=str(exc))
        return NLIPToolResult(**known, status="success", result=found)

    async def _track_message(self, message: NLIPMessage) -> None:
        """Record a request until it is answered, and the message in its session, as configured."""
        if message.control.message_type is NLIPMessageType.REQUEST:
            self._pending_requests[message.control.message_id] = message
        if message.token.session_id and self._tracks:
            await self.state_manager.update_session(message.token.session_id, message)

    # -- responses --------------------------------------------------------------------------------

    def _create_response(
        self, request: NLIPMessage, content: dict[str, Any], tool_results: list[NLIPToolResult] | None = None
    ) -> NLIPResponse:
        # Copies of validated values, which need no validation again.
        made = copy(self._response)
        made.format = copy(self._response.format)
        made.control = self._control(request, NLIPMessageType.RESPONSE)
        made.token = self._following(request.token)
        made.content = content
        made.tool_results = tool_results
        made.metadata = {}
        return made

    def _control(self, request: NLIPMessage, kind: NLIPMessageType) -> NLIPControlField:
        made = copy(self._response.control)
        made.message_type = kind
        made.message_id = new_id()
        made.correlation_id = request.control.message_id
        made.timestamp = timestamp()
        return made

    def _following(self, token: NLIPTokenField) -> NLIPTokenField:
        """The tokens of a response: the request's tokens, one turn later."""
        if not self.settings.router.enable_state_management:
            return NLIPTokenField(conversation_turn=token.conversation_turn)
        session = token
        if token.session_id is None and self.settings.tokens.auto_generate_sessions:
            session = self.token_tracker.create_session_token()
        following = copy(session)
        following.state_token = token.state_token
        following.conversation_turn = token.conversation_turn + self.settings.tokens.track_conversation_turns
        return following

    def _create_tool_response(self, request: NLIPMessage, tool_result: NLIPToolResult) -> NLIPResponse:
        return self._create_response(request, _content_of([tool_result]), [tool_result])

    def _create_error_response(self, request: NLIPMessage, error_message: str) -> NLIPResponse:
        return NLIPResponse(
            format=self._response.format if _invalid_format(request.format) else request.format,
            control=self._control(request, NLIPMessageType.ERROR),
            token=request.token,
            content={"error": error_message, "original_request": request.control.message_id},
        )

    async def stream_nlip_response(
        self, native_stream: AsyncIterator[StreamChunk], request: NLIPMessage
    ) -> AsyncGenerator[NLIPResponse, None]:
        """A model's stream as responses: deltas, tool calls, tool results, and at the end the whole text."""
        said: list[str] = []
        waiting: list[str] = []
        async for chunk in native_stream:
            if chunk.type == "content" and chunk.content:
                said.append(chunk.content)
                waiting.append(chunk.content)
                if self.own.enable_streaming and self._is_due(waiting):
                    yield self._create_response(request, {"partial": True, "content": "".join(waiting)})
                    waiting.clear()
                continue
            if waiting and self.own.enable_streaming:
                yield self._create_response(request, {"partial": True, "content": "".join(waiting)})
                waiting.clear()
            if (response := await self._of_chunk(chunk, request)) is not None:
                yield response
        if waiting and self.own.enable_streaming:
            yield self._create_response(request, {"partial": True, "content": "".join(waiting)})
        yield self._create_response(request, {"partial": False, "content": "".join(said), "complete": True})

    async def _of_chunk(self, chunk: StreamChunk, request: NLIPMessage) -> NLIPResponse | None:
        if chunk.type == "tool_calls" and chunk.tool_calls:
            calls = await self._convert_tool_calls_to_nlip(chunk.tool_calls)
            return self._create_response(request, {"tool_calls": calls})
        if chunk.type == "tool_result":
            result = NLIPToolResult(
                tool_id=chunk.tool_call_id or "",
                tool_name=chunk.status or "",
                status="error" if chunk.error is not None else "success",
                result=chunk.content,
                error=chunk.error,
            )
            return self._create_tool_response(request, result)
        return self._create_error_response(request, chunk.error or chunk.content) if chunk.type == "error" else None

    def _is_due(self, waiting: list[str]) -> bool:
        """Whether the buffer is sent: at once, or sentence by sentence."""
        if not self.own.buffer_partial_responses:
            return True
        text = "".join(waiting)
        return len(text) >= 400 or text.rstrip(" ").endswith((".", "!", "?", "\n"))

    async def _convert_tool_calls_to_nlip(self, native_tool_calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Tool calls in OpenAI's format, with arguments as an object or as JSON text."""
        return [
            {
                "tool_id": call.get("id") or str(uuid.uuid4()),
                "tool_name": (call.get("function") or {}).get("name", ""),
                "parameters": _arguments((call.get("function") or {}).get("arguments")),
                "require_confirmation": False,
            }
            for call in native_tool_calls
        ]


def _invalid_format(form: NLIPFormatField) -> str | None:
    """Why a message cannot be read: its version, encoding or compression is unknown (MW-7); None if it can."""
    try:
        check_format(form.schema_version, form.encoding, form.compression)
    except BadInput as exc:
        return str(exc)
    return None


def _arguments(given: Any) -> dict[str, Any]:
    if isinstance(given, str):
        try:
            given = msgspec.json.decode(given)
        except NOT_JSON:
            return {}
    return given if isinstance(given, dict) else {}


def _nlip_result(result: ToolResult, kind: str, translated: NLIPToolResult | None) -> NLIPToolResult:
    if translated is not None and result.status == "success":
        translated.result = value_of(result.parts)
        return translated
    metadata = translated.metadata if translated is not None else {"protocol": kind}
    if result.status == "pending":
        metadata = {**metadata, "confirm": f"send the request again with metadata.{CONFIRMED}: [{result.id!r}]"}
    return NLIPToolResult(
        tool_id=result.id, tool_name=result.name, status=result.status, error=result.error or None, metadata=metadata
    )


def _content_of(results: list[NLIPToolResult]) -> dict[str, Any]:
    if len(results) == 1:
        return {"status": results[0].status, "result": results[0].result}
    whole = "success" if all(result.status == "success" for result in results) else "error"
    return {"status": whole, "result": [result.result for result in results]}


def timestamp() -> str:
    """The current time in the design's format."""
    return f"{datetime.now(UTC).isoformat().removesuffix('+00:00')}Z"
