"""A server that keeps its client's messages in its session, sets cookies, and answers as largely as requested.

``python memory_server.py`` prints its address; with ``--sse`` it speaks HTTP+SSE there, the transport of 2024-11-05;
``--stdio`` speaks over standard input and output.
"""

from __future__ import annotations

import asyncio
import itertools
import socket
import sys
from typing import Any

import mcp_types as types
import uvicorn
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.sse import SseServerTransport
from mcp.server.stdio import stdio_server
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route

Json = dict[str, Any]
REMEMBERED: dict[str, str] = {}  # by session
NUMBERS = itertools.count(1)
TOOLS = {
    "roots": {},  # asks for the client's roots and remembers them
    "recall": {},  # what is remembered of this session
    "cookie": {},  # the cookies that came with the request
    "large": {"bytes": {"type": "integer"}},
    "link": {},  # a link to a memo, and a memo itself
    "odd.name": {},
    "careful": {},  # asks, and goes on without an answer if it cannot
    "echo": {"text": {"type": "string"}},
}


def session_of(ctx: Any) -> str:
    if ctx.request is None:
        return ""
    return str(ctx.request.headers.get("mcp-session-id") or ctx.request.query_params.get("session_id", ""))


async def listed(ctx: Any, params: Any) -> types.ListToolsResult:
    return types.ListToolsResult(
        tools=[
            types.Tool(name=name, input_schema={"type": "object", "properties": takes}) for name, takes in TOOLS.items()
        ]
    )


async def called(ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
    given = params.arguments or {}
    if params.name == "link":
        link = types.ResourceLink(type="resource_link", uri="memo://2", name="second memo")
        memo = types.TextResourceContents(uri="memo://3", mime_type="text/plain", text="memo 3")
        return types.CallToolResult(content=[link, types.EmbeddedResource(type="resource", resource=memo)])
    match params.name:
        case "roots":
            roots = (await ctx.session.list_roots()).roots
            words = REMEMBERED[session_of(ctx)] = ", ".join(str(root.uri) for root in roots)
        case "careful":
            try:
                schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
                answer = await ctx.session.elicit("Who are you?", schema)
                words = f"Hello, {(answer.content or {}).get('name')}"
            except Exception:  # as such tools are written: whatever it is, they go on
                words = "Hello, stranger"
        case "recall":
            words = REMEMBERED.get(session_of(ctx), "nothing")
        case "cookie":
            words = ctx.request.headers.get("cookie", "none") if ctx.request is not None else "none"
        case "large":
            words = "x" * int(given["bytes"])
        case _:
            words = str(given.get("text", ""))
    return types.CallToolResult(content=[types.TextContent(type="text", text=words)])


async def prompts(ctx: Any, params: Any) -> types.ListPromptsResult:
    who = types.PromptArgument(name="who", required=True)
    return types.ListPromptsResult(prompts=[types.Prompt(name="greet", description="Greets", arguments=[who])])


async def prompt(ctx: Any, params: types.GetPromptRequestParams) -> types.GetPromptResult:
    who = (params.arguments or {}).get("who", "nobody")
    said = [("user", f"Greet {who}"), ("assistant", f"Hello, {who}!")]
    messages = [
        types.PromptMessage(role=role, content=types.TextContent(type="text", text=text))  # type: ignore[arg-type]
        for role, text in said
    ]
    return types.GetPromptResult(messages=messages)


async def resources(ctx: Any, params: Any) -> types.ListResourcesResult:
    return types.ListResourcesResult(resources=[types.Resource(uri="memo://1", name="first memo")])


async def templates(ctx: Any, params: Any) -> types.ListResourceTemplatesResult:
    made = types.ResourceTemplate(uri_template="memo://{id}", name="a memo")
    return types.ListResourceTemplatesResult(resource_templates=[made])


async def read(ctx: Any, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
    uri = str(params.uri)
    return types.ReadResourceResult(
        contents=[types.TextResourceContents(uri=uri, mime_type="text/plain", text=f"memo {uri.rpartition('/')[2]}")]
    )


async def complete(ctx: Any, params: Any) -> types.CompleteResult:
    return types.CompleteResult(completion=types.Completion(values=[f"{params.argument.value}da"]))


def with_cookies(app: Any) -> Any:
    """Whoever brings no cookie gets one of its own."""

    async def answer(scope: Json, receive: Any, send: Any) -> None:
        brought = any(name == b"cookie" for name, _ in scope.get("headers", ()))

        async def sending(message: Json) -> None:
            if message["type"] == "http.response.start" and not brought:
                message["headers"] = [*message["headers"], (b"set-cookie", b"visitor=%d; Path=/" % next(NUMBERS))]
            await send(message)

        await app(scope, receive, sending)

    return answer


def over_sse(server: Server[Any]) -> Any:
    """HTTP+SSE, the transport of 2024-11-05."""
    transport = SseServerTransport("/messages/")

    async def speak(request: Request) -> Response:
        async with transport.connect_sse(request.scope, request.receive, request._send) as (read, write):
            await server.run(read, write, server.create_initialization_options(NotificationOptions()))
        return Response()

    return Starlette(routes=[Route("/sse", speak), Mount("/messages/", transport.handle_post_message)])


def main() -> None:
    server: Server[Any] = Server(
        "memory",
        on_list_tools=listed,
        on_call_tool=called,
        on_list_prompts=prompts,
        on_get_prompt=prompt,
        on_list_resources=resources,
        on_list_resource_templates=templates,
        on_read_resource=read,
        on_completion=complete,
    )
    if "--stdio" in sys.argv:

        async def speak() -> None:
            async with stdio_server() as (read, write):
                await server.run(read, write, server.create_initialization_options(NotificationOptions()))

        asyncio.run(speak())
        return
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    sock.listen(128)
    sse = "--sse" in sys.argv
    print(f"http://127.0.0.1:{sock.getsockname()[1]}/{'sse' if sse else 'mcp'}", flush=True)
    app = with_cookies(over_sse(server) if sse else server.streamable_http_app())
    uvicorn.Server(uvicorn.Config(app, log_level="critical", ws="none", timeout_graceful_shutdown=1)).run([sock])


if __name__ == "__main__":
    main()
