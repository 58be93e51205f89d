"""MCP's codecs."""
