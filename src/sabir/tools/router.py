"""``Router``: runs the tool calls in a message, and passes every other message to the agent behind it (MW-11 to MW-24).

A call is a ``structured/json`` part labelled ``tool_call``, its result one labelled ``tool_result``. Calls of one
message run concurrently, and their results are in the order of the calls. Rights, confirmation, quotas, filters and the
audit come from the ``Toolbox``.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from sabir.agent import Agent, why_not_anonymous
from sabir.aio import Closing
from sabir.card import Card
from sabir.errors import BadInput
from sabir.events import Delta, Event, Fault, Progress, Reply
from sabir.message import Message, Part, json_part, text_part
from sabir.misfits import misfit
from sabir.protocols.nlip.wire import envelope
from sabir.protocols.nlip.wire.envelope import TOOL_CALL, TOOL_RESULT
from sabir.turn import Turn

from .settings import AgentRouterSettings, NlipSettings
from .tool import ToolCall, ToolResult
from .toolbox import CallOptions, Toolbox

NO_CALLS: Final = "No tool calls found in request"
BUILTIN: Final = frozenset(
    {"vote", "new_answer", "edit_file", "read_file", "write_file", "search_files", "list_directory"}
)
CONFIRMED: Final = "confirmed"  # in the metadata of an envelope: ids of calls that the user has confirmed
TOOL_RETRIES: Final = 5  # at most, whatever a message asks for
BUFFER: Final = 400  # characters that are buffered at most


class _Call(msgspec.Struct, frozen=True):
    """A tool call, as a part of a message carries it."""

    tool_id: str
    tool_name: str
    parameters: dict[str, Any] = {}
    require_confirmation: bool = False


def protocol_of(tool_name: str) -> str:
    """The kind of tool that a name means: ``mcp``, ``builtin`` or ``custom``."""
    if tool_name.startswith("mcp__"):
        return "mcp"
    return "builtin" if tool_name in BUILTIN else "custom"


@dataclass(frozen=True, slots=True)
class Routing:
    """The parts of a message that the router acts on."""

    calls: tuple[ToolCall, ...]
    timeout: float | None = None
    retries: int = 0


def routing_of(message: Message) -> Routing:
    """The tool calls of a message, with the timeout and retries of its envelope.

    Raises:
        BadInput: a call has no tool_id or no tool_name.
    """
    facts = envelope.facts_of(message) or envelope.Facts()
    confirmed = facts.metadata.get(CONFIRMED)
    agreed = frozenset(str(item) for item in confirmed) if isinstance(confirmed, list) else frozenset()
    calls = [
        _call_of(part, number, agreed)
        for number, part in enumerate(message.parts)
        if part.label == TOOL_CALL and part.format == "structured"
    ]
    timeout = facts.timeout if facts.timeout is not None and facts.timeout > 0 else None
    return Routing(tuple(calls), timeout, max(0, min(facts.retry_count, TOOL_RETRIES)))


def _call_of(part: Part, number: int, agreed: frozenset[str]) -> ToolCall:
    try:
        call = msgspec.convert(part.value, _Call)
    except msgspec.ValidationError as exc:
        raise BadInput("nlip", *misfit(exc, _Call, f"submessages[{number}].content")) from None
    return ToolCall(
        call.tool_id,
        call.tool_name,
        call.parameters,
        call.require_confirmation,
        confirmed=call.tool_id in agreed,
    )


def result_parts(result: ToolResult) -> list[Part]:
    """A result as parts: its value as JSON, followed by images and files, labelled with the id of the call."""
    files = [part for part in result.parts if part.format == "binary"]
    details: dict[str, Any] = {"tool_id": result.id, "tool_name": result.name, "status": result.status}
    if result.status == "success":
        details["result"] = value_of(result.parts)
    else:
        details["error"] = result.error
    details["metadata"] = {"protocol": protocol_of(result.name), **result.metadata}
    return [json_part(details, label=TOOL_RESULT), *(Part("binary", p.subformat, p.content, result.id) for p in files)]


def value_of(parts: Sequence[Part]) -> Any:
    """The JSON value of a tool's result: a single part as it is, several as a list; files are left out."""
    values = [part.value if part.format == "structured" else part.content for part in parts if part.format != "binary"]
    if len(values) == 1:
        return values[0]
    return values or None


class Router:
    """An Agent that runs the tool calls of a message itself, and passes other messages on."""

    def __init__(
        self,
        agent: Agent | None,
        toolbox: Toolbox,
        *,
        settings: NlipSettings | None = None,
        own: AgentRouterSettings | None = None,
        name: str = "router",
    ) -> None:
        """Without an agent, a message without tool calls is an error."""
        self.settings = settings or NlipSettings()
        self.own = own or AgentRouterSettings()
        self.agent = agent
        self.toolbox = toolbox
        card = agent.card if agent is not None else Card(name, "Runs tools")
        router = self.settings.router
        keeps = router.enable_message_tracking and router.enable_state_management
        self.card = card if keeps else msgspec.structs.replace(card, remembers=False)

    async def __call__(self, turn: Turn, /) -> AsyncIterator[Event]:
        routing = routing_of(turn.message)
        if routing.calls:
            yield Progress(note=f"Calling {', '.join(call.name for call in routing.calls)}")
            yield Reply(await self._run(turn, routing))
            return
        if self.agent is None:
            yield Fault(NO_CALLS, "invalid")
            return
        async with Closing(self.agent(turn)) as events, Closing(self._passed_on(events)) as passed:
            async for event in passed:
                yield event

    async def propose_anonymous(self, conversation: str) -> str | None:
        """Agree to anonymity only if its agent, and every agent that it uses as a tool, does (PAPER-ANON)."""
        asked = (*((self.agent,) if self.agent is not None else ()), *self.toolbox.agents)
        return await why_not_anonymous(asked, conversation)

    async def _run(self, turn: Turn, routing: Routing) -> Message:
        results = await self.results(turn, routing)
        parts = [part for result in results for part in result_parts(result)]
        return Message.text("\n".join(result.text for result in results), parts=parts)

    async def results(self, turn: Turn, routing: Routing) -> list[ToolResult]:
        """The results of the calls, in order; a disabled kind of tool is an error."""
        await self.toolbox.load()
        disabled = self.settings.translation.disabled
        enabled = [call for call in routing.calls if protocol_of(call.name) not in disabled]
        if routing.timeout is not None:
            turn.deadline = min(turn.deadline, time.monotonic() + routing.timeout)
        options = self.toolbox.options
        seconds = self.own.default_timeout or options.seconds
        chosen = CallOptions(seconds, max(options.retries, routing.retries), options.result_bytes)
        found = iter(await self.toolbox.call(turn, enabled, chosen))
        results = []
        for call in routing.calls:
            kind = protocol_of(call.name)
            if kind in disabled:
                results.append(ToolResult(call.id, call.name, "error", error=f"No translator for protocol: {kind}"))
            else:
                results.append(next(found))
        return results

    async def _passed_on(self, events: AsyncIterator[Event]) -> AsyncIterator[Event]:
        """The events of the agent; deltas are dropped or buffered if configured."""
        waiting: list[str] = []
        async for event in events:
            if not isinstance(event, Delta):
                if waiting:
                    yield Delta(text_part("".join(waiting)))
                    waiting.clear()
                yield event
            elif not self.own.enable_streaming:
                continue
            elif self.own.buffer_partial_responses and event.part.format == "text":
                waiting.append(event.part.content)
                if _is_whole("".join(waiting)):
                    yield Delta(text_part("".join(waiting)))
                    waiting.clear()
            else:
                yield event


def _is_whole(text: str) -> bool:
    """Whether the text ends a sentence or a line, or is long enough to be sent."""
    return len(text) >= BUFFER or text.rstrip(" ").endswith((".", "!", "?", "\n"))
