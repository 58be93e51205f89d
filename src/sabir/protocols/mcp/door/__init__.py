"""MCP's inbound side."""
