"""What the models of all services share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .model import ToolSpec
from .service import ModelService


class HostedModel:
    """One model of one service; each kind of service adds ``answer``."""

    max_tokens_name = "max_tokens"  # as the service spells it

    def __init__(
        self,
        service: ModelService,
        model: str,
        *,
        temperature: float | None = None,
        max_tokens: int | None = None,
        images: bool = True,
    ) -> None:
        self.service = service
        self.name = model
        self.reads_images = images
        options = {"temperature": temperature, self.max_tokens_name: max_tokens}
        self._options: dict[str, Any] = {name: value for name, value in options.items() if value is not None}

    async def aclose(self) -> None:
        await self.service.aclose()


def function_tools(tools: Iterable[ToolSpec]) -> list[dict[str, Any]]:
    """Tools as OpenAI spells them; Ollama does, too."""
    return [
        {
            "type": "function",
            "function": {"name": tool.name, "description": tool.description, "parameters": tool.schema},
        }
        for tool in tools
    ]
