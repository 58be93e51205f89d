"""Tools of MCP servers. A failure is marked by the server (``isError``), not by a key ``error`` in the result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..schema import NLIPToolCall, NLIPToolResult
from .base import ProtocolTranslator


class MCPTranslator(ProtocolTranslator):
    """Between the design and MCP. Results may be the SDK's ``CallToolResult``, or the same as plain values."""

    async def nlip_to_native_call(self, nlip_call: NLIPToolCall) -> dict[str, Any]:
        return {
            "type": "tool_use",
            "id": nlip_call.tool_id,
            "name": nlip_call.tool_name,
            "input": nlip_call.parameters,
            "parameters": nlip_call.parameters,
        }

    async def native_to_nlip_result(self, tool_id: str, tool_name: str, native_result: Any) -> NLIPToolResult:
        metadata: dict[str, Any] = {"protocol": "mcp", "original_format": "mcp_tool_result"}
        found = _plain(native_result)
        if not isinstance(found, Mapping):
            return NLIPToolResult(
                tool_id=tool_id, tool_name=tool_name, status="success", result=found, metadata=metadata
            )
        structured = found.get("structuredContent")
        if structured is not None:
            metadata["structuredContent"] = structured
        result = found["content"] if found.get("content") else structured if structured is not None else dict(found)
        if found.get("isError") or found.get("is_error"):
            error = _words(found.get("content")) or str(found.get("error") or "the tool failed")
            return NLIPToolResult(
                tool_id=tool_id, tool_name=tool_name, status="error", result=result, error=error, metadata=metadata
            )
        return NLIPToolResult(tool_id=tool_id, tool_name=tool_name, status="success", result=result, metadata=metadata)

    async def nlip_to_native_params(self, nlip_params: dict[str, Any]) -> dict[str, Any]:
        return nlip_params


def _plain(value: Any) -> Any:
    """A type of the MCP SDK as plain values, under its wire names."""
    dump = getattr(value, "model_dump", None)
    return dump(mode="json", by_alias=True, exclude_none=True) if callable(dump) else value


def _words(content: Any) -> str:
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, Sequence) else ()
    return "\n".join(str(block["text"]) for block in blocks if isinstance(block, Mapping) and "text" in block)
