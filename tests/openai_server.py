"""A server with OpenAI's API, on a real socket, with scripted answers."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from deadline import DEADLINE
from sabir.search.query.words import content_words

SIZE = 64

Script = Callable[[dict[str, Any]], str | Response]


@dataclass
class Scripted:
    """The server, and what it was asked."""

    url: str
    script: Script
    chats: list[dict[str, Any]] = field(default_factory=list)
    embedded: list[str] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    away: bool = False  # answers embeddings with 500

    async def chat(self, request: Request) -> Response:
        body = await request.json()
        self.chats.append(body)
        self.keys.append(request.headers.get("authorization"))
        said = self.script(body)
        return said if isinstance(said, Response) else stream(said)

    async def embeddings(self, request: Request) -> Response:
        body = await request.json()
        self.keys.append(request.headers.get("authorization"))
        if self.away:
            return JSONResponse({"error": {"message": "overloaded"}}, 500)
        self.embedded += body["input"]
        rows = [{"index": at, "embedding": vector(text)} for at, text in enumerate(body["input"])]
        return JSONResponse({"data": rows[::-1], "model": body["model"]})  # an order is not promised


def vector(text: str) -> list[float]:
    """Likeness by common words, but for one pair that only a model would know."""
    row = [0.0] * SIZE
    for word in content_words(text.replace("automobile", "car")) or ["empty"]:
        row[sum(word.encode()) % SIZE] += 1.0
    return row


def stream(text: str, *, whole: bool = True) -> Response:
    """A chat completion, a word at a time; one that is not whole breaks off."""

    async def events() -> AsyncIterator[bytes]:
        for word in text.split(" "):
            piece = {"choices": [{"index": 0, "delta": {"content": f"{word} "}, "finish_reason": None}]}
            yield b"data: " + json.dumps(piece).encode() + b"\n\n"
        if whole:
            end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
            yield b"data: " + json.dumps(end).encode() + b"\n\n"
            usage = {"prompt_tokens": 30, "completion_tokens": 12, "total_tokens": 42}
            yield (
                b"data: "
                + json.dumps({"choices": [], "usage": usage}).encode()
                + b"\n\n: a comment\n\ndata: [DONE]\n\n"
            )

    return StreamingResponse(events(), media_type="text/event-stream")


def calls(*wanted: tuple[str, dict[str, Any]]) -> Response:
    """A chat completion that calls tools, in the fragments in which services send them."""

    async def events() -> AsyncIterator[bytes]:
        for index, (name, arguments) in enumerate(wanted):
            text = json.dumps(arguments)
            first = {
                "index": index,
                "id": f"call-{index}",
                "type": "function",
                "function": {"name": name, "arguments": ""},
            }
            rest = [{"index": index, "function": {"arguments": text[at : at + 5]}} for at in range(0, len(text), 5)]
            for fragment in (first, *rest):
                piece = {"choices": [{"index": 0, "delta": {"tool_calls": [fragment]}, "finish_reason": None}]}
                yield b"data: " + json.dumps(piece).encode() + b"\n\n"
        end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}
        yield b"data: " + json.dumps(end).encode() + b"\n\ndata: [DONE]\n\n"

    return StreamingResponse(events(), media_type="text/event-stream")


@contextmanager
def scripted(script: Script = lambda body: "Hello there") -> Iterator[Scripted]:
    """Serve until the block ends."""
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    made = Scripted(f"http://127.0.0.1:{sock.getsockname()[1]}/v1", script)
    routes = [
        Route("/v1/chat/completions", made.chat, methods=["POST"]),
        Route("/v1/embeddings", made.embeddings, methods=["POST"]),
    ]
    server = uvicorn.Server(uvicorn.Config(Starlette(routes=routes), log_config=None, ws="none"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]}, daemon=True)
    thread.start()
    end = time.monotonic() + DEADLINE
    while not server.started and time.monotonic() < end:
        time.sleep(0.005)
    try:
        yield made
    finally:
        server.should_exit = True
        thread.join(DEADLINE)
