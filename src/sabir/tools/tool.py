"""``Tool``: a name, a description, a JSON Schema, and something that runs."""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, overload

import msgspec

from sabir.agent import Agent, in_thread
from sabir.errors import ConfigError, TurnFailed
from sabir.message import JSON, Message, Part, json_part, text_part
from sabir.signature import Signature
from sabir.turn import Turn

Kind = Literal["custom", "mcp", "builtin", "agent"]
Status = Literal["success", "error", "pending"]
TURN = "turn"  # a parameter of this name gets the Turn and is not part of the schema


class ToolCall(msgspec.Struct, frozen=True, omit_defaults=True):
    """A request to run a tool."""

    id: str
    name: str
    arguments: dict[str, Any] = {}
    confirm: bool = False  # whether the caller must agree first
    mark: str = ""  # set by the model's service, which expects it back with the result
    confirmed: bool = False  # whether the caller has agreed, in an earlier answer to ``pending``
    problem: str = ""  # why the call cannot be run; the model gets it as the result


class ToolResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """The result of a call. A failure is also a result."""

    id: str
    name: str
    status: Status = "success"
    parts: tuple[Part, ...] = ()
    error: str = ""
    metadata: dict[str, Any] = {}

    @property
    def text(self) -> str:
        """The result as text, for a model."""
        if self.status == "error":
            return f"Error: {self.error}"
        if self.status == "pending":
            return self.error or "Waiting for confirmation."
        return Message.of(*self.parts).text if self.parts else ""


Run = Callable[[Turn, Mapping[str, Any]], Awaitable[tuple[Part, ...]]]


@dataclass(frozen=True, slots=True)
class Tool:
    """Something that can be called by name with arguments."""

    name: str
    description: str
    schema: Mapping[str, Any]
    run: Run = field(repr=False)  # raises ``SabirError`` if it fails
    kind: Kind = "custom"
    server: str = ""  # the MCP server or the agent that it belongs to
    repeatable: bool = False  # running it twice does no harm, so it may be retried
    confirm: bool = False  # whether each call needs the caller's consent
    internal: bool = False  # part of how agents work together; callers need no right to it
    output_schema: Mapping[str, Any] | None = None
    agent: Agent | None = field(default=None, repr=False)  # to whom it passes what it is asked

    @property
    def own_name(self) -> str:
        """The name without the prefix of its server: ``read_note`` of ``mcp__files__read_note``."""
        prefix = f"mcp__{self.server}__"
        return self.name.removeprefix(prefix) if self.server else self.name


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...
@overload
def tool(
    *, name: str | None = None, description: str | None = None, repeatable: bool = False, confirm: bool = False
) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    repeatable: bool = False,
    confirm: bool = False,
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a Tool of a function, sync or async.

    Its parameters become the schema; one called ``turn`` gets the Turn instead. It may return text, a JSON value, a
    Part or a Message, or yield pieces of these.

    Raises:
        ConfigError: a parameter cannot be described in JSON Schema.
    """

    def make(function: Callable[..., Any]) -> Tool:
        signature = Signature.of(function, without=frozenset({TURN}))
        return Tool(
            name or function.__name__,
            description if description is not None else signature.summary,
            signature.schema,
            _runner(function, signature),
            repeatable=repeatable,
            confirm=confirm,
        )

    return make if function is None else make(function)


def _runner(function: Callable[..., Any], signature: Signature) -> Run:
    wants_turn = TURN in inspect.signature(function).parameters
    is_async = inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)

    async def run(turn: Turn, arguments: Mapping[str, Any]) -> tuple[Part, ...]:
        given = signature.read(arguments)
        if wants_turn:
            given[TURN] = turn
        if is_async:
            made = function(**given)
        else:
            made = await in_thread(functools.partial(function, **given))
        return await _collected(made)

    return run


async def _collected(made: Any) -> tuple[Part, ...]:
    if isinstance(made, AsyncIterator):
        return tuple([part async for piece in made for part in parts_of(piece)])
    if inspect.isawaitable(made):
        made = await made
    if inspect.isgenerator(made):
        pieces = await in_thread(list, made)
        return tuple(part for piece in pieces for part in parts_of(piece))
    return parts_of(made)


def parts_of(value: Any) -> tuple[Part, ...]:
    """The return value of a tool, as Parts.

    Raises:
        TurnFailed: a message cannot carry it.
    """
    if value is None:
        return ()
    if isinstance(value, str):
        if not _is_unicode(value):
            raise TurnFailed("the tool returned text that is not valid Unicode")
        return (text_part(value),)
    if isinstance(value, Part):
        return (value,)
    if isinstance(value, Message):
        return value.without_tokens().parts
    if isinstance(value, tuple) and value and all(isinstance(item, Part) for item in value):
        return value
    try:
        plain: JSON = msgspec.to_builtins(value)
    except TypeError:
        raise TurnFailed(f"the tool returned a {type(value).__name__}, which a message cannot carry") from None
    return (json_part(plain),)


def _is_unicode(text: str) -> bool:
    """Whether a message can carry the text: not with lone surrogates, as file names may have."""
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False


def named(tools: Iterable[Tool]) -> dict[str, Tool]:
    """Tools by name.

    Raises:
        ConfigError: two have the same name.
    """
    found: dict[str, Tool] = {}
    for item in tools:
        if item.name in found:
            raise ConfigError(f"two tools are called {item.name!r}")
        found[item.name] = item
    return found
