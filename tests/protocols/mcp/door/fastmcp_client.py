"""A client that we did not write: run by test_fastmcp.py in an environment that has ``fastmcp`` alone."""

import asyncio
import json
import sys

from fastmcp import Client


async def main(url: str) -> dict[str, object]:
    received = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        if total is not None:  # the others are pieces of the answer
            received.append([progress, total])

    async def on_elicit(message: str, response_type: object, params: object, context: object) -> object:
        return {"size": "large"}

    async with Client(url, elicitation_handler=on_elicit, progress_handler=on_progress) as client:
        tools = [tool.name for tool in await client.list_tools()]
        echoed = await client.call_tool("echo", {"text": "hi"})
        asked = await client.call_tool("curious", {"text": "a shirt"})
        await client.call_tool("slow", {"text": "go"})
        failed = await client.call_tool("broken", {"text": "go"}, raise_on_error=False)
        call = asyncio.ensure_future(client.call_tool("endless", {"text": "go"}))
        while len(received) < 3:  # the last is its first
            await asyncio.sleep(0.01)
        call.cancel()
        after = await client.call_tool("echo", {"text": "still here"})
    return {
        "tools": tools,
        "echoed": echoed.structured_content["text"],
        "asked": asked.structured_content["text"],
        "told": received,
        "failed": failed.is_error,
        "after": after.structured_content["text"],
    }


print(json.dumps(asyncio.run(main(sys.argv[1]))))
