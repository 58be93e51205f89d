"""``StreamChunk``: one piece of what an agent says or does (MW-36)."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

__all__ = ["StreamChunk"]

ChunkType = Literal["content", "tool_calls", "tool_result", "error", "done", "agent_status"]


class StreamChunk(msgspec.Struct):
    """A piece. ``content`` is text, empty where a piece has none, so that it can be printed as it comes."""

    type: ChunkType
    content: str = ""
    tool_calls: list[dict[str, Any]] | None = None  # as OpenAI writes them
    tool_call_id: str | None = None  # of a tool_result
    source: str | None = None  # the agent that it comes from
    error: str | None = None
    status: str | None = None
