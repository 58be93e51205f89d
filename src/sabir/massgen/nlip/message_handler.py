"""``NLIPMessageHandler``: custom handlers by message type or tool name, which run before the router (G-6).

A handler is an async generator function of the message and the router that yields responses. Packages register them by
the entry point ``sabir.massgen.handlers``, named ``request``, ``notification`` or ``tool:NAME``.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any, Final

from sabir import plugins
from sabir.errors import ConfigError

from .schema import NLIPMessage, NLIPMessageType, NLIPResponse

if TYPE_CHECKING:
    from .router import NLIPRouter

HANDLERS: Final = "sabir.massgen.handlers"
TOOL: Final = "tool:"
logger = logging.getLogger("sabir.massgen")

Handler = Callable[[NLIPMessage, "NLIPRouter"], AsyncIterator[NLIPResponse]]


class NLIPMessageHandler:
    """Handlers by message type or tool."""

    def __init__(self, *, load_plugins: bool = True) -> None:
        """With ``load_plugins``, includes the handlers of installed packages. If one cannot be loaded, this is logged
        and it is skipped."""
        self._handlers: dict[str, Handler] = {}
        if load_plugins:
            for name, handler in loaded(HANDLERS).items():
                try:
                    self.register(name, handler)
                except ConfigError as exc:
                    logger.warning("Plugin %s: %s", name, exc)

    def register(self, name: str, handler: Handler) -> None:
        """Register a handler for messages of a type, or for calls of a tool (``tool:NAME``).

        Raises:
            ConfigError: unknown name.
        """
        known = [item.value for item in NLIPMessageType]
        if name not in known and not name.startswith(TOOL):
            raise ConfigError(f"handlers: expected {', '.join(known)} or tool:NAME, not {name!r}")
        self._handlers[name] = handler

    def find(self, message: NLIPMessage) -> Handler | None:
        """The handler of a message: by its only tool first, then by its type."""
        if not self._handlers:
            return None
        calls = message.tool_calls or []
        if len(calls) == 1 and (found := self._handlers.get(f"{TOOL}{calls[0].tool_name}")) is not None:
            return found
        return self._handlers.get(message.control.message_type.value)


def loaded(group: str) -> dict[str, Any]:
    """The loadable plugins of a group; the log names the others."""
    found: dict[str, Any] = {}
    try:
        names = plugins.names(group)
    except ConfigError as exc:
        logger.warning("Plugins of %s are left out: %s", group, exc)
        return found
    for name in names:
        try:
            found[name] = plugins.find(group, name)
        except ConfigError as exc:
            logger.warning("Plugin %s is left out: %s", name, exc)
    return found
