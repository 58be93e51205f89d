"""Language models as agents: behind the HTTP APIs of OpenAI, Anthropic, Google and Ollama, or a script."""

from .agent import LLM, LLMOptions
from .claude import ClaudeModel
from .gemini import GeminiModel
from .mock import RecordingModel, ReplayingModel, ScriptedModel
from .model import Model, ModelMessage, ModelOptions, ModelUsage, Price, ToolSpec
from .ollama import OllamaModel
from .openai import OpenAIModel
from .service import ModelService, secret
from .settings import SERVICES, BackendSettings, model_agent, model_of

__all__ = [
    "LLM",
    "SERVICES",
    "BackendSettings",
    "ClaudeModel",
    "GeminiModel",
    "LLMOptions",
    "Model",
    "ModelMessage",
    "ModelOptions",
    "ModelService",
    "ModelUsage",
    "OllamaModel",
    "OpenAIModel",
    "Price",
    "RecordingModel",
    "ReplayingModel",
    "ScriptedModel",
    "ToolSpec",
    "model_agent",
    "model_of",
    "secret",
]
