"""What every language model is asked, and what it answers."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from typing import Any, Final, Literal, Protocol

import msgspec

from sabir.errors import PeerUnreadable
from sabir.message import Part
from sabir.tools import ToolCall

SECONDS: Final = 60.0  # how long a model may take for one answer


class ModelMessage(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing said to a model, and by whom."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str = ""
    images: tuple[Part, ...] = ()  # binary parts, beside the words of a user
    calls: tuple[ToolCall, ...] = ()  # that the assistant made
    call_id: str = ""  # of the call that this is the result of


class ToolSpec(msgspec.Struct, frozen=True):
    """A tool as a model sees it."""

    name: str
    description: str
    schema: Mapping[str, Any]


class ModelUsage(msgspec.Struct, frozen=True):
    """What an answer took."""

    tokens: int = 0  # all of them
    completion_tokens: int = 0  # those that the model wrote

    @property
    def prompt_tokens(self) -> int:
        """Those that the model was given."""
        return self.tokens - self.completion_tokens


class Price(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What tokens of a model cost, in US dollars."""

    input: float = 0.0  # for what the model is given
    output: float = 0.0  # for what it writes
    per: int = 1_000_000  # tokens

    def __post_init__(self) -> None:
        if self.input < 0 or self.output < 0:
            raise ValueError("price: expected input and output of at least 0")
        if self.per < 1:
            raise ValueError("price: expected per to be a number of tokens, such as 1000 or 1000000")

    def of(self, usage: ModelUsage) -> float:
        """What an answer cost."""
        return (usage.prompt_tokens * self.input + usage.completion_tokens * self.output) / self.per


class ModelOptions(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one answer may use and must look like."""

    seconds: float = SECONDS
    tools: tuple[ToolSpec, ...] = ()
    schema: Mapping[str, Any] | None = None  # JSON Schema of the answer, where it has a shape
    must_call: bool = False  # whether the answer has to be a tool call


ModelPiece = str | ToolCall | ModelUsage


class Model(Protocol):
    """A language model."""

    def answer(
        self, messages: Sequence[ModelMessage], options: ModelOptions | None = None
    ) -> AsyncGenerator[ModelPiece, None]:
        """The answer in pieces: text as it comes, then tool calls, ``ModelUsage`` last where the service reports it.

        Raises:
            PeerError: no connection, no answer in time, a refusal, or not an answer.
        """
        ...

    @property
    def reads_images(self) -> bool: ...

    async def aclose(self) -> None: ...


def specs_of(tools: Iterable[Any]) -> tuple[ToolSpec, ...]:
    """Tools as a model sees them."""
    return tuple(ToolSpec(tool.name, tool.description, tool.schema) for tool in tools)


def arguments_of(tool: str, text: str, place: str) -> dict[str, Any]:
    """The arguments of a call that came as JSON text; ``place`` is the service, for errors.

    Raises:
        PeerUnreadable: they are not a JSON object.
    """
    try:
        return msgspec.json.decode(text or "{}", type=dict[str, Any])
    except msgspec.DecodeError:
        raise PeerUnreadable(place, f"it called {tool} with invalid arguments") from None
