"""The NLIP layer of the design: messages, router, translators, state and tokens."""

from .message_handler import NLIPMessageHandler
from .router import NLIPRouter
from .schema import (
    NLIPControlField,
    NLIPFormatField,
    NLIPMessage,
    NLIPMessageType,
    NLIPRequest,
    NLIPResponse,
    NLIPTokenField,
    NLIPToolCall,
    NLIPToolResult,
)
from .state_manager import NLIPStateManager
from .token_tracker import NLIPTokenTracker
from .translator import BuiltinToolTranslator, CustomToolTranslator, MCPTranslator, ProtocolTranslator

__all__ = [
    "BuiltinToolTranslator",
    "CustomToolTranslator",
    "MCPTranslator",
    "NLIPControlField",
    "NLIPFormatField",
    "NLIPMessage",
    "NLIPMessageHandler",
    "NLIPMessageType",
    "NLIPRequest",
    "NLIPResponse",
    "NLIPRouter",
    "NLIPStateManager",
    "NLIPTokenField",
    "NLIPTokenTracker",
    "NLIPToolCall",
    "NLIPToolResult",
    "ProtocolTranslator",
]
