"""``ProtocolTranslator``: between a tool call of the design and what a kind of tool takes and returns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from ..schema import NLIPToolCall, NLIPToolResult


class ProtocolTranslator(ABC):
    """The interface of a translator. They keep no state, so that one of each kind serves every call."""

    @abstractmethod
    async def nlip_to_native_call(self, nlip_call: NLIPToolCall) -> dict[str, Any]:
        """The call as the tool's own protocol writes it, with ``parameters`` and perhaps ``options`` beside."""

    @abstractmethod
    async def native_to_nlip_result(self, tool_id: str, tool_name: str, native_result: Any) -> NLIPToolResult:
        """What the tool returned as a result of the design."""

    @abstractmethod
    async def nlip_to_native_params(self, nlip_params: dict[str, Any]) -> dict[str, Any]:
        """The parameters alone."""
