"""Ways to stand in front of an MCP server: whole messages, raw HTTP, chosen tools."""
