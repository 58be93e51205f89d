"""Agents that Sabir brings along. Everything that answers is an Agent."""
