"""A gateway inside another ASGI application, below any path: ``app.mount("/agents", gateway)``."""

from __future__ import annotations

import logging
from typing import Any
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Receive, Scope, Send

logger = logging.getLogger("sabir")


class Mounting:
    """Strips the mount path from requests, and adds it to addresses in responses."""

    def __init__(self, app: ASGIApp, public_url: str) -> None:
        self._app = app
        self._path = urlsplit(public_url).path.rstrip("/")
        self._warned = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        root: str = scope.get("root_path", "").rstrip("/")
        if not root or not scope["path"].startswith(root):
            await self._app(scope, receive, send)
            return
        self._check(root)
        path = scope["path"][len(root) :] or "/"
        inner = {**scope, "path": path, "raw_path": path.encode(), "root_path": ""}
        await self._app(inner, receive, _below(root, send))

    def _check(self, root: str) -> None:
        """Warn if ``public_url`` does not end with the mount path: cards and links would be wrong."""
        if root != self._path and not self._warned:
            self._warned = True
            logger.warning(
                "This gateway is mounted at %s, but its cards name another address: give "
                "Gateway(public_url='https://your.host%s')",
                root,
                root,
            )


def _below(root: str, send: Send) -> Send:
    async def sending(packet: Any) -> None:
        if packet["type"] == "http.response.start":
            packet["headers"] = [_moved(name, value, root) for name, value in packet["headers"]]
        await send(packet)

    return sending


def _moved(name: bytes, value: bytes, root: str) -> tuple[bytes, bytes]:
    if name == b"location" and value.startswith(b"/"):
        return name, root.encode() + value
    return name, value
