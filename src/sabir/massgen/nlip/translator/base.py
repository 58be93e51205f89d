"""``ProtocolTranslator``: converts between a tool call of the design and a kind of tool."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from ..schema import NLIPToolCall, NLIPToolResult


class ProtocolTranslator(ABC):
    """The interface of a translator. Translators are stateless, so that one of each kind serves every call."""

    @abstractmethod
    async def nlip_to_native_call(self, nlip_call: NLIPToolCall) -> dict[str, Any]:
        """The call in the tool's own protocol, with ``parameters`` and optional ``options``."""

    @abstractmethod
    async def native_to_nlip_result(self, tool_id: str, tool_name: str, native_result: Any) -> NLIPToolResult:
        """The tool's return value as a result of the design."""

    @abstractmethod
    async def nlip_to_native_params(self, nlip_params: dict[str, Any]) -> dict[str, Any]:
        """Only the parameters."""
