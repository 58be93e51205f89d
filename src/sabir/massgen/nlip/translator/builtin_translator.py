"""The tools that are part of MassGen: files, and the two of the ensemble."""

from __future__ import annotations

from typing import Any

from ..schema import NLIPToolCall, NLIPToolResult
from .base import ProtocolTranslator


class BuiltinToolTranslator(ProtocolTranslator):
    """Between the design and a builtin tool."""

    async def nlip_to_native_call(self, nlip_call: NLIPToolCall) -> dict[str, Any]:
        return {
            "tool_name": nlip_call.tool_name,
            "parameters": nlip_call.parameters,
            "options": {"require_confirmation": nlip_call.require_confirmation},
        }

    async def native_to_nlip_result(self, tool_id: str, tool_name: str, native_result: Any) -> NLIPToolResult:
        return NLIPToolResult(
            tool_id=tool_id,
            tool_name=tool_name,
            status="success",
            result=native_result,
            metadata={"protocol": "builtin", "tool_category": "massgen_builtin"},
        )

    async def nlip_to_native_params(self, nlip_params: dict[str, Any]) -> dict[str, Any]:
        return nlip_params
