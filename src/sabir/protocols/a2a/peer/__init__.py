"""A2A's outbound side: a remote A2A agent as an Agent."""
