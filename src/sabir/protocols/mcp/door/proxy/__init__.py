"""Proxies for MCP servers: by message, by raw HTTP, or for selected tools."""
