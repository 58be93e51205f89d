"""Sabir: one agent, every tongue."""
