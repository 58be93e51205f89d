"""The interface of every language model: its input and its output."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from typing import Annotated, Any, Final, Literal, Protocol

import msgspec
from msgspec import Meta

from sabir.message import Part
from sabir.misfits import NOT_JSON
from sabir.tools import ToolCall

SECONDS: Final = 60.0  # time limit of one answer


class ModelMessage(msgspec.Struct, frozen=True, omit_defaults=True):
    """One message to a model, with its role."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str = ""
    images: tuple[Part, ...] = ()  # binary parts of a user's message
    calls: tuple[ToolCall, ...] = ()  # that the assistant made
    call_id: str = ""  # the call that this is the result of


class ToolSpec(msgspec.Struct, frozen=True):
    """A tool as a model sees it."""

    name: str
    description: str
    schema: Mapping[str, Any]


class ModelUsage(msgspec.Struct, frozen=True):
    """The tokens that an answer used."""

    tokens: int = 0  # all of them
    completion_tokens: int = 0  # those the model wrote

    @property
    def prompt_tokens(self) -> int:
        """The input tokens."""
        return self.tokens - self.completion_tokens


class Price(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The price of a model's tokens, in US dollars."""

    input: Annotated[float, Meta(ge=0)] = 0.0  # for what the model is given
    output: Annotated[float, Meta(ge=0)] = 0.0  # for what it writes
    per: Annotated[int, Meta(ge=1)] = 1_000_000  # tokens

    def __post_init__(self) -> None:
        if self.input < 0 or self.output < 0:
            raise ValueError("price: expected input and output of at least 0")
        if self.per < 1:
            raise ValueError("price: expected per to be a number of tokens, such as 1000 or 1000000")

    def of(self, usage: ModelUsage) -> float:
        """The cost of an answer."""
        return (usage.prompt_tokens * self.input + usage.completion_tokens * self.output) / self.per


class ModelOptions(msgspec.Struct, frozen=True, omit_defaults=True):
    """Limits and format of one answer."""

    seconds: float = SECONDS
    tools: tuple[ToolSpec, ...] = ()
    schema: Mapping[str, Any] | None = None  # JSON Schema of the answer, if it must be structured
    must_call: bool = False  # whether the answer must be a tool call


ModelPiece = str | ToolCall | ModelUsage


class Model(Protocol):
    """A language model."""

    def answer(
        self, messages: Sequence[ModelMessage], options: ModelOptions | None = None
    ) -> AsyncGenerator[ModelPiece, None]:
        """Stream the answer: text as it arrives, then tool calls, ``ModelUsage`` last if the service reports it.

        Raises:
            PeerError: no connection, no answer in time, a refusal, or an invalid answer.
        """
        ...

    @property
    def reads_images(self) -> bool: ...

    async def aclose(self) -> None: ...


def specs_of(tools: Iterable[Any]) -> tuple[ToolSpec, ...]:
    """Tools as a model sees them."""
    return tuple(ToolSpec(tool.name, tool.description, tool.schema) for tool in tools)


def call_of(call_id: str, tool: str, text: str) -> ToolCall:
    """A call with its arguments as JSON text; if that is not a JSON object, the model learns so, and may call again."""
    try:
        return ToolCall(call_id, tool, msgspec.json.decode(text or "{}", type=dict[str, Any]))
    except NOT_JSON:
        return ToolCall(call_id, tool, problem="the arguments are not a JSON object")
