"""The gateway: agents, doors and state in one ASGI application."""

from .gateway import Gateway

__all__ = ["Gateway"]
