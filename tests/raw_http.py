"""A raw HTTP server that sends exact bytes of a test, and records what it received."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Heard:
    """One request as it was on the wire."""

    line: str
    headers: dict[str, str]
    body: bytes
    connection: int

    @property
    def path(self) -> str:
        return self.line.split()[1]

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def tokens(self) -> list[tuple[str, Any]]:
        return [(p["subformat"], p["content"]) for p in self.json.get("submessages", []) if p["format"] == "token"]


Respond = Callable[[Heard, int], bytes | None]  # the request and its number; None breaks the connection


@dataclass
class RawServer:
    respond: Respond
    heard: list[Heard] = field(default_factory=list)
    port: int = 0
    connections: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        connection = self.connections
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                line, *lines = head.decode("latin-1").split("\r\n")[:-2]
                headers = {k.strip().lower(): v.strip() for k, v in (item.split(":", 1) for item in lines)}
                body = await reader.readexactly(int(headers.get("content-length", "0")))
                self.heard.append(Heard(line, headers, body, connection))
                answer = self.respond(self.heard[-1], len(self.heard))
                if answer is None:
                    return
                writer.write(answer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def raw_server(respond: Respond) -> AsyncIterator[RawServer]:
    server = RawServer(respond)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()
        await listening.wait_closed()


def http(status: int, body: Any = b"", **headers: str) -> bytes:
    """A response; a dict is sent as JSON."""
    if isinstance(body, dict | list):
        body = json.dumps(body).encode()
        headers.setdefault("content_type", "application/json")
    if isinstance(body, str):
        body = body.encode()
    lines = [f"HTTP/1.1 {status} X", f"content-length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


def text(content: str, *tokens: tuple[str, str], **more: Any) -> dict[str, Any]:
    parts = [{"format": "token", "subformat": kind, "content": value} for kind, value in tokens]
    message: dict[str, Any] = {"format": "text", "subformat": "english", "content": content, **more}
    return {**message, "submessages": parts} if parts else message
