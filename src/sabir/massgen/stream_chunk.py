"""``StreamChunk``: one piece of an agent's output (MW-36)."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

__all__ = ["StreamChunk"]

ChunkType = Literal["content", "tool_calls", "tool_result", "error", "done", "agent_status"]


class StreamChunk(msgspec.Struct):
    """A chunk. ``content`` is always text, perhaps empty, so that it can be printed directly."""

    type: ChunkType
    content: str = ""
    tool_calls: list[dict[str, Any]] | None = None  # in OpenAI's format
    tool_call_id: str | None = None  # of a tool_result
    source: str | None = None  # the agent it comes from
    error: str | None = None
    status: str | None = None
