"""Functions as tools."""

from __future__ import annotations

from typing import Any

from ..schema import NLIPToolCall, NLIPToolResult
from .base import ProtocolTranslator


class CustomToolTranslator(ProtocolTranslator):
    """Between the design and a function. Any return value is a success; failures raise."""

    async def nlip_to_native_call(self, nlip_call: NLIPToolCall) -> dict[str, Any]:
        return {
            "function": {"name": nlip_call.tool_name, "arguments": nlip_call.parameters},
            "parameters": nlip_call.parameters,
            "options": {},
        }

    async def native_to_nlip_result(self, tool_id: str, tool_name: str, native_result: Any) -> NLIPToolResult:
        return NLIPToolResult(
            tool_id=tool_id,
            tool_name=tool_name,
            status="success",
            result=native_result,
            metadata={"protocol": "custom", "tool_type": "massgen_custom"},
        )

    async def nlip_to_native_params(self, nlip_params: dict[str, Any]) -> dict[str, Any]:
        return nlip_params
