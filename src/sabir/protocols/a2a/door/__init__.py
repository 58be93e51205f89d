"""A2A's inbound side."""
