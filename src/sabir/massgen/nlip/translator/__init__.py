"""Translators between the design's tool calls and the protocols of tools."""

from .base import ProtocolTranslator
from .builtin_translator import BuiltinToolTranslator
from .custom_translator import CustomToolTranslator
from .mcp_translator import MCPTranslator

__all__ = ["BuiltinToolTranslator", "CustomToolTranslator", "MCPTranslator", "ProtocolTranslator"]
