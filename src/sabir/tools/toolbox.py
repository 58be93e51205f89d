"""``Toolbox``: the tools of an agent, and the only way to call them.

Every call is checked against the caller's rights, confirmed if that is required, limited in time and size, filtered
before a model reads its result, and recorded for the audit. Calls made together run in parallel; their results come in
the order of the calls. A failure is a result with status ``error``, so that a model can continue.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sabir.agent import Agent
from sabir.errors import Cancelled, Refused, SabirError, TurnFailed
from sabir.events import Field, Question
from sabir.message import Message, Part
from sabir.turn import Turn, no_back_channel, unchanged

from .agents import ToolSource, tools_of
from .tool import Run, Tool, ToolCall, ToolResult, named

logger = logging.getLogger("sabir.tools")

SECONDS: Final = 30.0
RESULT_BYTES: Final = 1024 * 1024
AT_ONCE: Final = 32  # concurrent calls of one message; further ones wait
SHOWN: Final = 300  # characters of an argument in a question to the caller
PANEL_TOOLS: Final = frozenset({"vote", "new_answer"})
YES: Final = frozenset({"yes", "y", "true", "ok", "okay", "sure", "ja", "oui", "sí", "si"})


@dataclass(frozen=True, slots=True)
class CallOptions:
    """How tools are called."""

    seconds: float = SECONDS  # for each call
    retries: int = 0  # after a failure of a tool that is repeatable
    result_bytes: int = RESULT_BYTES  # longer text of a result is truncated, with a note


class Toolbox(Mapping[str, Tool]):
    """Tools by name."""

    def __init__(
        self, tools: Iterable[Tool] = (), options: CallOptions | None = None, sources: Sequence[ToolSource] = ()
    ) -> None:
        """``sources`` are asked for their tools when the toolbox is first used, and again while one is unavailable.

        Raises:
            ConfigError: two tools have the same name.
        """
        self._tools = named(tools)
        self._sources = list(sources)
        self._loading = asyncio.Lock()
        self.options = options or CallOptions()

    async def load(self) -> None:
        """Ask the sources for their tools, unless that was done. Unavailable sources are left out."""
        if not self._sources:
            return
        async with self._loading:
            found, self._sources = await tools_of(self._sources)
            self._tools = {**{tool.name: tool for tool in found}, **self._tools}

    def with_tools(self, tools: Iterable[Tool]) -> Toolbox:
        """The same tools and some more, which replace those of the same name."""
        made = Toolbox((), self.options)
        made._tools = {**self._tools, **{tool.name: tool for tool in tools}}
        return made

    def __getitem__(self, name: str) -> Tool:
        return self._tools[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)

    @property
    def agents(self) -> list[Agent]:
        """The agents that its tools ask, including the agents of sources whose tools are not listed yet."""
        found = [getattr(item, "agent", None) for item in (*self._tools.values(), *self._sources)]
        return list({id(item): item for item in found if item is not None}.values())

    def find(self, name: str) -> Tool | None:
        """The tool with this name, or None."""
        return self._tools.get(name)

    def missing(self, name: str) -> str:
        """The error for an unknown tool (MW-35)."""
        if name in PANEL_TOOLS:
            return f"{name} works only inside an ensemble"
        known = ", ".join(self._tools)
        return f"there is no tool {name!r}; {f'choose from {known}' if known else 'there are none'}"

    def allowed(self, turn: Turn) -> list[Tool]:
        """The tools that the caller of this turn may use."""
        return [tool for tool in self._tools.values() if _is_permitted(tool, turn)]

    async def call(self, turn: Turn, calls: Sequence[ToolCall], options: CallOptions | None = None) -> list[ToolResult]:
        """Run calls in parallel, and return their results in order. The caller is asked one question at a time."""
        asking = asyncio.Lock()
        free = asyncio.Semaphore(AT_ONCE)
        chosen = options or self.options
        return list(await asyncio.gather(*(self._call(turn, call, asking, free, chosen) for call in calls)))

    async def _call(
        self, turn: Turn, call: ToolCall, asking: asyncio.Lock, free: asyncio.Semaphore, options: CallOptions
    ) -> ToolResult:
        tool = self.find(call.name)
        if tool is None:
            return _failed(call, self.missing(call.name))
        if call.problem:
            return _failed(call, call.problem)
        async with free:
            return await self.call_tool(tool, turn, call, asking, options)

    async def call_tool(
        self,
        tool: Tool,
        turn: Turn,
        call: ToolCall,
        asking: asyncio.Lock,
        options: CallOptions,
        run: Run | None = None,
    ) -> ToolResult:
        """Run one call of this tool, or ``run`` in its place; ``asking`` is held while the caller is asked."""
        try:
            _permit(tool, turn)
            if (tool.confirm or call.confirm) and not call.confirmed:
                if turn.ask_back is no_back_channel:
                    return ToolResult(call.id, call.name, "pending", error=f"{call.name} waits for confirmation")
                async with asking:
                    await _confirm(turn, call)
            turn.used.append(tool.name)
            turn.spend(calls=1)
            with turn.timeline.span("tool", tool.name):
                parts = await _run(tool, run or tool.run, turn, call, options)
            return ToolResult(call.id, call.name, parts=await _screened(turn, parts, options))
        except SabirError as exc:
            return _failed(call, str(exc))


def _permit(tool: Tool, turn: Turn) -> None:
    """Whether the caller may use it; a rule may use the full name of a tool or, for an MCP server's, its own."""
    if tool.internal:
        return
    try:
        turn.permit(tool=tool.name)
    except Refused:
        if tool.own_name == tool.name:
            raise
        turn.permit(tool=tool.own_name)


def _is_permitted(tool: Tool, turn: Turn) -> bool:
    try:
        _permit(tool, turn)
    except Refused:
        return False
    return True


async def _confirm(turn: Turn, call: ToolCall) -> None:
    arguments = ", ".join(f"{name}={_shown(value)}" for name, value in call.arguments.items())
    question = Question(
        f"Run {call.name}({arguments})? Reply yes to confirm.", (Field("confirm", "Run it?", "boolean"),)
    )
    answer = await turn.ask(question)
    if not says_yes(answer):
        raise Cancelled("refused by the caller")


def _shown(value: object) -> str:
    words = repr(value)
    return words if len(words) <= SHOWN else f"{words[:SHOWN]}… ({len(words)} characters)"


def says_yes(answer: Message) -> bool:
    """Whether an answer confirms: a part with ``confirm: true`` (over NLWeb ``"yes"``), or a plain yes."""
    for part in answer.parts:
        if part.format == "structured" and isinstance(part.content, Mapping) and "confirm" in part.content:
            given = part.content["confirm"]
            return given is True or (isinstance(given, str) and _is_yes(given))
    return _is_yes(answer.text)


def _is_yes(text: str) -> bool:
    return text.strip().strip(".!").casefold() in YES


async def _run(tool: Tool, run: Run, turn: Turn, call: ToolCall, options: CallOptions) -> tuple[Part, ...]:
    attempts = 1 + (options.retries if tool.repeatable else 0)
    for attempt in range(1, attempts + 1):
        seconds = min(options.seconds, turn.remaining)
        try:
            async with asyncio.timeout(seconds):
                return await run(turn, call.arguments)
        except TimeoutError:
            error: SabirError = TurnFailed(f"{tool.name} did not answer within {seconds:.3g} s")
        except SabirError as exc:
            error = exc
        except Exception:
            logger.exception("Tool %s failed", tool.name)
            error = TurnFailed(f"{tool.name} failed; the operator's log has the reason")
        if attempt == attempts or turn.remaining <= 0:
            raise error
    raise TurnFailed(f"{tool.name} was not called")


async def _screened(turn: Turn, parts: tuple[Part, ...], options: CallOptions) -> tuple[Part, ...]:
    """Parts for a model to read: filtered, and truncated if too long."""
    if not parts:
        return parts
    if turn.screen is not unchanged:
        parts = (await turn.screen(Message.of(*parts))).parts
    return tuple(_cut(part, options.result_bytes) for part in parts)


def _cut(part: Part, limit: int) -> Part:
    if part.format != "text" or len(part.content) <= limit:
        return part
    return Part(
        part.format, part.subformat, f"{part.content[:limit]}\n[cut: {len(part.content)} characters]", part.label
    )


def _failed(call: ToolCall, reason: str) -> ToolResult:
    return ToolResult(call.id, call.name, "error", error=reason)
