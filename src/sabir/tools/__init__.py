"""Tools that an agent may call: one ``Tool`` type for a function, an MCP server, a file tool or an agent."""

from sabir.signature import Signature

from .agents import McpTools, ToolSource, agent_tool
from .tool import Tool, ToolCall, ToolResult, tool
from .toolbox import CallOptions, Toolbox

__all__ = [
    "CallOptions",
    "McpTools",
    "Signature",
    "Tool",
    "ToolCall",
    "ToolResult",
    "ToolSource",
    "Toolbox",
    "agent_tool",
    "tool",
]
