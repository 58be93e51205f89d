"""Our peer as the client that the official suite tests: ``suite_client.py URL``, the scenario in the environment."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

import httpx2

from sabir.errors import SabirError
from sabir.events import Question
from sabir.message import Message, json_part
from sabir.protocols.mcp.peer.oauth import oauth
from sabir.protocols.mcp.peer.peer import McpPeer

SCENARIO = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
CONTEXT: dict[str, Any] = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
VERSION = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION", "2026-07-28")
VALUES: dict[str, Any] = {"string": "text", "number": 3, "integer": 3, "boolean": True, "array": [], "object": {}}


async def visit(address: str) -> str:
    """Whoever is asked says yes at once."""
    async with httpx2.AsyncClient() as http:
        return str((await http.get(address, follow_redirects=False)).headers["location"])


async def answer(question: Question) -> Message:
    return Message.text("", parts=(json_part({}, label="answer"),))


def arguments(tool: dict[str, Any]) -> dict[str, Any]:
    schema = tool.get("inputSchema") or {}
    properties = schema.get("properties") or {}
    return {name: VALUES.get(str(properties.get(name, {}).get("type")), "text") for name in schema.get("required", ())}


async def use(peer: McpPeer) -> None:
    await peer.refresh()
    calls = CONTEXT.get("toolCalls")
    if calls is None:
        calls = [{"name": name, "arguments": arguments(tool)} for name, tool in peer.tools.items()]
    for call in calls:
        await peer.call(call["name"], call.get("arguments") or {}, ask=answer)
    if SCENARIO == "http-standard-headers":
        await peer.prompt("test_prompt")
        await peer.read("file:///path/to/file%20name.txt")


async def main(url: str) -> None:
    auth = None
    if SCENARIO.startswith("auth/"):
        auth = await oauth(
            url,
            visit,
            client_id=CONTEXT.get("client_id"),
            client_secret=CONTEXT.get("client_secret"),
            metadata_url="https://conformance-test.local/client-metadata.json",
        )
    # A version that is refused is negotiated only by who asks first; the other scenarios say which one they want.
    modern = "auto" if SCENARIO == "request-metadata" else VERSION
    version = modern if VERSION == "2026-07-28" else "legacy"
    async with McpPeer(url, name="suite", auth=auth, version=version, seconds=20) as peer:
        await use(peer)


if __name__ == "__main__":
    try:
        asyncio.run(main(sys.argv[-1]))
    except SabirError as exc:
        print(f"{SCENARIO}: {exc}", file=sys.stderr)
        sys.exit(1)
