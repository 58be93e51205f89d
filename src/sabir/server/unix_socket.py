"""A gateway on a Unix socket, for programs on the same machine, identified by the kernel.

The permissions of the socket file (owner and group) decide who may connect. The user of the other process comes from
the kernel (``SO_PEERCRED``), so nobody can impersonate another user.
"""

from __future__ import annotations

import asyncio
import os
import socket
import stat
import struct
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from sabir.errors import ConfigError

from .http_protocol import Http
from .websocket_protocol import WebSocket

_MODE: Final = 0o660
_LONGEST: Final = 100  # bytes of a path; the kernel takes 107
_CREDENTIALS: Final = struct.Struct("3i")  # pid, uid, gid


def bind_unix(path: str) -> socket.socket:
    """A listening Unix socket. A stale socket file is replaced.

    Raises:
        ConfigError: another file exists there, another process listens there, or the path is unusable.
    """
    if len(os.fsencode(path)) > _LONGEST:
        raise ConfigError(f"socket: expected a path of at most {_LONGEST} bytes, not {path!r}")
    _remove_stale(path)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o777 & ~_MODE)
    try:
        sock.bind(path)
        sock.listen(2048)
    except OSError as exc:
        sock.close()
        raise ConfigError(f"socket: cannot listen on {path}: {exc.strerror or exc}") from None
    finally:
        os.umask(before)
    return sock


def _remove_stale(path: str) -> None:
    try:
        kind = Path(path).lstat().st_mode
    except OSError:
        return  # nothing there; otherwise binding reports the problem
    if not stat.S_ISSOCK(kind):
        raise ConfigError(f"socket: {path} exists and is not a socket; choose another path")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            Path(path).unlink(missing_ok=True)
        except OSError as exc:
            raise ConfigError(f"socket: cannot use {path}: {exc.strerror or exc}") from None
        else:
            raise ConfigError(f"socket: another process listens on {path}")


def remove_unix(path: str) -> None:
    """Remove the file of a socket that is closed."""
    with suppress(OSError):
        Path(path).unlink(missing_ok=True)


def peer_of(transport: asyncio.BaseTransport) -> dict[str, Any]:
    """The ``unix`` extension of a connection: the user id of the client process."""
    sock = transport.get_extra_info("socket")
    if sock is None or not hasattr(socket, "SO_PEERCRED"):
        return {}
    _, uid, _ = _CREDENTIALS.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return {"unix": {"uid": uid}}


class HttpOverUnixSocket(Http):
    """One connection over a Unix socket."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.certified = peer_of(transport)
        self.ws_protocol_class = WebSocketOverUnixSocket


class WebSocketOverUnixSocket(WebSocket):
    def handle_connect(self, event: Any) -> None:
        super().handle_connect(event)
        scope: Any = getattr(self, "scope", None)  # missing if the handshake was refused
        if scope is not None:
            scope["extensions"] = {**scope["extensions"], **peer_of(self.transport)}
