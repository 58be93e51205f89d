"""The message of the MassGen design, field by field (MW-2 to MW-6).

It is not the message of ECMA-430; ``sabir.protocols.nlip.wire.envelope`` maps the two. ``control.authentication`` is
our
addition: the design asks for a credential in the control field without naming it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from .model import MassgenModel

__all__ = [
    "NLIPControlField",
    "NLIPFormatField",
    "NLIPMessage",
    "NLIPMessageType",
    "NLIPRequest",
    "NLIPResponse",
    "NLIPTokenField",
    "NLIPToolCall",
    "NLIPToolResult",
]


class NLIPMessageType(StrEnum):
    """NLIP message types."""

    REQUEST = "request"
    RESPONSE = "response"
    NOTIFICATION = "notification"
    ERROR = "error"


class NLIPControlField(MassgenModel):
    """How a message is routed and handled."""

    message_type: NLIPMessageType
    message_id: str
    timestamp: str  # ISO 8601
    correlation_id: str | None = None  # the id of the request that a response answers
    priority: Annotated[int, Meta(ge=0, le=10)] | None = 0
    timeout: Annotated[float, Meta(gt=0)] | None = None  # seconds
    retry_count: Annotated[int, Meta(ge=0)] = 0
    authentication: str | None = None  # a credential; never stored

    def __repr__(self) -> str:
        return f"NLIPControlField(message_type={self.message_type.value!r}, message_id={self.message_id!r})"


class NLIPTokenField(MassgenModel):
    """Which conversation a message belongs to."""

    session_id: str | None = None
    context_token: str | None = None
    state_token: str | None = None
    conversation_turn: int = 0


class NLIPFormatField(MassgenModel):
    """How the content is encoded."""

    content_type: str = "application/json"
    encoding: str = "utf-8"
    schema_version: str = "1.0"
    compression: str | None = None


class NLIPToolCall(MassgenModel):
    """A request to run a tool."""

    tool_id: str
    tool_name: str
    parameters: dict[str, Any]
    require_confirmation: bool = False


class NLIPToolResult(MassgenModel):
    """The result of a tool call."""

    tool_id: str
    tool_name: str
    status: Literal["success", "error", "pending"]
    result: Any = None
    error: str | None = None
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)


class NLIPMessage(MassgenModel):
    """A whole message."""

    format: NLIPFormatField
    control: NLIPControlField
    token: NLIPTokenField
    content: dict[str, Any]
    tool_calls: list[NLIPToolCall] | None = None
    tool_results: list[NLIPToolResult] | None = None
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)


class NLIPRequest(NLIPMessage):
    """From an agent to a tool."""


class NLIPResponse(NLIPMessage):
    """From a tool to an agent."""
