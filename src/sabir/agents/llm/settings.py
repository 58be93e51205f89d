"""The configuration of a language model."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from sabir.errors import ConfigError
from sabir.tools import Tool, Toolbox
from sabir.tools.settings import CustomTools, McpServer

from .agent import LLM, LLMOptions
from .claude import ClaudeModel
from .gemini import GeminiModel
from .mock import ScriptedModel
from .model import SECONDS, Model, Price
from .ollama import OllamaModel
from .openai import OpenAIModel
from .service import ModelService, secret


class Vendor(msgspec.Struct, frozen=True):
    """A service that a configuration can name: its address, how its key is sent, and its API."""

    address: str
    model: Callable[..., Model]
    key_variable: str = ""
    key_header: str = "authorization"
    root: str = ""  # of its paths; an address that ends with it is accepted, too


SERVICES: Final[Mapping[str, Vendor]] = {
    "openai": Vendor("https://api.openai.com/v1", OpenAIModel, "OPENAI_API_KEY"),
    "claude": Vendor("https://api.anthropic.com", ClaudeModel, "ANTHROPIC_API_KEY", "x-api-key", "/v1"),
    "gemini": Vendor(
        "https://generativelanguage.googleapis.com", GeminiModel, "GEMINI_API_KEY", "x-goog-api-key", "/v1beta"
    ),
    "ollama": Vendor("http://127.0.0.1:11434", OllamaModel, root="/v1"),
    "lmstudio": Vendor("http://127.0.0.1:1234/v1", OpenAIModel),
}
_LLM_OPTIONS: Final = ("steps", "past_turns", "context_tokens", "context_policy", "schema")
MOCK: Final = "mock"  # answers from a script, without a service


class BackendSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The settings of a language model."""

    type: str = "openai"  # one of SERVICES; for any other service with OpenAI's API: openai, with base_url
    model: str = ""
    base_url: str | None = None
    api_key: str | None = None  # may be env:NAME
    api_key_env: str | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    seconds: float = SECONDS
    price: Price | None = None  # without it, the cost of answers is unknown
    images: bool = True  # whether the model reads images
    steps: Annotated[int, Meta(ge=1)] | None = None  # model answers in one turn, tool calls included
    past_turns: Annotated[int, Meta(ge=0)] | None = None  # earlier turns that the model gets
    context_tokens: Annotated[int, Meta(ge=1)] | None = None  # size of its context window; None: everything is sent
    context_policy: Literal["truncate", "summarise"] | None = None  # for what does not fit
    schema: dict[str, Any] | None = None  # JSON Schema of its answers, if they must be structured
    script: tuple[Any, ...] = ()  # of the mock: its answers, in order
    custom_tools: tuple[CustomTools, ...] = ()  # in MassGen's notation; agents[].tools is shorter
    mcp_servers: tuple[McpServer, ...] | dict[str, McpServer] = ()  # in MassGen's notation

    def __repr__(self) -> str:
        return f"BackendSettings(type={self.type!r}, model={self.model!r})"  # never the key


def model_of(name: str, backend: BackendSettings) -> Model:
    """The model that a configuration describes; ``name`` is the agent's, for errors.

    Raises:
        ConfigError: the model is missing, the service is unknown, or the variable of its key is not set.
    """
    if backend.type == MOCK:
        return ScriptedModel(backend.script)
    if backend.type not in SERVICES:
        known = ", ".join([*SERVICES, MOCK])
        raise ConfigError(f"agents: {name!r}: backend.type: expected one of {known}, not {backend.type!r}")
    if not backend.model:
        raise ConfigError(f"agents: {name!r}: backend.model: expected the name of a model")
    vendor = SERVICES[backend.type]
    variable = vendor.key_variable
    base_url = os.environ.get(variable.replace("_API_KEY", "_BASE_URL"), "") if variable else ""
    base_url = base_url or vendor.address  # an operator's proxy, from the variable that the vendors' own libraries read
    if backend.api_key or backend.api_key_env:
        key = secret(backend.api_key, backend.api_key_env)
    else:
        # The vendor's own key is sent to the vendor only.
        key = os.environ.get(variable, "") if variable and backend.base_url is None else ""
    service = ModelService(
        (backend.base_url or base_url).rstrip("/").removesuffix(vendor.root or "/"),
        key,
        key_name=variable if backend.base_url is None else "api_key",
        key_header=vendor.key_header,
    )
    return vendor.model(
        service,
        backend.model,
        temperature=backend.temperature,
        max_tokens=backend.max_tokens,
        images=backend.images,
    )


def model_agent(
    name: str,
    backend: BackendSettings,
    *,
    system_message: str = "",
    description: str = "",
    tools: Iterable[Tool] | Toolbox = (),
    options: LLMOptions | None = None,
) -> LLM:
    """The agent that a configuration describes; raises as ``model_of`` does."""
    chosen = msgspec.structs.replace(options or LLMOptions(), seconds=backend.seconds, price=backend.price or Price())
    details = {name: getattr(backend, name) for name in _LLM_OPTIONS}
    chosen = msgspec.structs.replace(chosen, **{name: value for name, value in details.items() if value is not None})
    model = model_of(name, backend)
    return LLM(name, model, system_message=system_message, description=description, tools=tools, options=chosen)
