"""A server written with the official SDK alone, whose tools have all that a tool and a result can have.

As a program it speaks over standard input and output; ``running`` serves it over HTTP. The file that is named gets a
line for each cancelled call.
"""

from __future__ import annotations

import asyncio
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import mcp_types as types
import uvicorn
from mcp.server.caching import CacheHint
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
MODERN = "2026-07-28"
Json = dict[str, Any]
NOTHING: Json = {"type": "object", "properties": {}}
BOOK: Json = {"type": "object", "properties": {"title": {"type": "string"}, "pages": {"type": "integer"}}}
LOOKUP: Json = {
    "name": "lookup",
    "title": "Look a book up",
    "description": "Finds a book by its number",
    "inputSchema": {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]},
    "outputSchema": BOOK,
    "annotations": {"readOnlyHint": True, "openWorldHint": False, "title": "Lookup"},
    "icons": [{"src": "https://shelf.example/icon.png", "mimeType": "image/png"}],
    "_meta": {"shelf.example/rack": 7},
}
FOUND: Json = {
    "content": [
        {"type": "text", "text": "Herons", "annotations": {"audience": ["user"], "priority": 0.5}},
        {"type": "resource_link", "uri": "shelf://books/1", "name": "Herons", "mimeType": "text/plain"},
        {"type": "resource", "resource": {"uri": "shelf://books/1", "mimeType": "text/plain", "text": "Chapter one"}},
    ],
    "structuredContent": {"title": "Herons", "pages": 2**53 + 1},
    "_meta": {"shelf.example/rack": 7},
}
PICTURE: Json = {"content": [{"type": "image", "data": PNG, "mimeType": "image/png"}]}
TORN: Json = {
    "content": [{"type": "text", "text": "page 7 is torn"}, {"type": "text", "text": "so is page 8"}],
    "structuredContent": {"pages": [7, 8]},
    "isError": True,
}
FORM: Json = {"type": "object", "properties": {"sure": {"type": "boolean"}}, "required": ["sure"]}
SIGN: Json = {
    "mode": "url",
    "message": "Sign in at the library",
    "url": "https://shelf.example/sign",
    "elicitationId": "e-1",
}
QUESTION: Json = {"message": "Are you sure?", "requestedSchema": FORM}


def plain(name: str) -> Json:
    return {"name": name, "description": f"The tool {name}", "inputSchema": NOTHING}


class Shelf:
    """The handlers."""

    def __init__(self, notes: Path | None) -> None:
        self.notes = notes
        self.tools: list[Json] = [LOOKUP, *map(plain, ("picture", "torn", "locked", "slow", "burn", "grow", "sign"))]
        self.server: Server[Any] = Server(
            "shelf",
            version="1.0",
            cache_hints=dict.fromkeys(("tools/list", "server/discover"), CacheHint(0, "public")),
            on_list_tools=self.list_tools,  # type: ignore[arg-type]
            on_call_tool=self.call_tool,  # type: ignore[arg-type]
        )

    async def list_tools(self, ctx: Any, params: Any) -> Json:
        return {"tools": self.tools, "resultType": "complete"}

    async def call_tool(self, ctx: Any, params: types.CallToolRequestParams) -> Json:
        match params.name:
            case "lookup":
                return {**FOUND, "resultType": "complete"}
            case "picture":
                return {**PICTURE, "resultType": "complete"}
            case "torn":
                return {**TORN, "resultType": "complete"}
            case "locked":
                raise MCPError(-32050, "the shelf is locked", {"until": "noon"})
            case "slow":
                return await self.slow(ctx)
            case "burn":
                return await self.burn(ctx)
            case "sign":
                return await self.sign(ctx)
            case "grow":
                self.tools.append(plain(f"new{len(self.tools)}"))
                if ctx.protocol_version != MODERN:
                    await ctx.session.send_notification(types.ToolListChangedNotification())
                return {"content": [{"type": "text", "text": "grown"}], "resultType": "complete"}
            case _:
                raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name}")

    async def slow(self, ctx: Any) -> Json:
        try:
            await ctx.session.report_progress(1, 4, "one of four")
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            if self.notes is not None:
                with self.notes.open("a") as file:
                    file.write("cancelled\n")
            raise
        return {"content": [], "resultType": "complete"}

    async def sign(self, ctx: Any) -> Json:
        if ctx.protocol_version == MODERN:
            answer = ((ctx.params or {}).get("inputResponses") or {}).get("signed")
            if not isinstance(answer, dict):
                asked = {"method": "elicitation/create", "params": SIGN}
                return {"resultType": "input_required", "inputRequests": {"signed": asked}}
        else:
            request = types.ElicitRequest(params=types.ElicitRequestURLParams.model_validate(SIGN))
            metadata = ServerMessageMetadata(related_request_id=ctx.request_id)
            reply = await ctx.session.send_request(request, types.ElicitResult, metadata=metadata)
            answer = reply.model_dump(mode="json", by_alias=True, exclude_none=True)
        words = f"{answer['action']} {answer.get('content')}"
        return {"content": [{"type": "text", "text": words}], "resultType": "complete"}

    async def burn(self, ctx: Any) -> Json:
        if ctx.protocol_version == MODERN:
            answer = ((ctx.params or {}).get("inputResponses") or {}).get("sure")
            if not isinstance(answer, dict):
                asked = {"method": "elicitation/create", "params": {"mode": "form", **QUESTION}}
                return {"resultType": "input_required", "inputRequests": {"sure": asked}}
        else:
            request = types.ElicitRequest(params=types.ElicitRequestFormParams.model_validate(QUESTION))
            metadata = ServerMessageMetadata(related_request_id=ctx.request_id)
            reply = await ctx.session.send_request(request, types.ElicitResult, metadata=metadata)
            answer = reply.model_dump(mode="json", by_alias=True, exclude_none=True)
        sure = (answer.get("content") or {}).get("sure")
        if not sure:
            return {**TORN, "resultType": "complete"}
        return {**FOUND, "resultType": "complete"}


async def over_stdio(shelf: Shelf) -> None:
    async with stdio_server() as (read, write):
        options = shelf.server.create_initialization_options(NotificationOptions(True, True, True))
        await shelf.server.run(read, write, options)


def running(notes: Path | None = None, port: int = 0) -> AbstractContextManager[str]:
    """Serve it over HTTP until the block ends; gives its address."""
    return in_thread(Shelf(notes).server, port)


@contextmanager
def in_thread(served: Server[Any], port: int = 0) -> Iterator[str]:
    """Serve over HTTP, in a thread of its own, until the block ends; gives the address."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("127.0.0.1", port))
    app = served.streamable_http_app()
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", ws="none", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.001)
    try:
        yield f"http://127.0.0.1:{sock.getsockname()[1]}/mcp"
    finally:
        server.should_exit = server.force_exit = True
        thread.join(20)


if __name__ == "__main__":
    asyncio.run(over_stdio(Shelf(Path(sys.argv[1]) if len(sys.argv) > 1 else None)))
