"""MCP's outbound side: an MCP server as an Agent."""
