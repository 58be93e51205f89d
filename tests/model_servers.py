"""Servers with each vendor's API, on a real socket: requests are recorded, answers are scripted.

A script is a list of steps, one a request: a text, ``Calls``, ``Broken`` (it stops in the middle) or a Response.
"""

from __future__ import annotations

import base64
import functools
import json
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from deadline import DEADLINE
from openai_server import calls as openai_calls
from openai_server import stream as openai_stream

GIVEN, WRITTEN = 30, 12  # tokens of every answer


@dataclass
class Calls:
    """An answer that calls tools."""

    wanted: tuple[tuple[str, dict[str, Any]], ...]


def calls(*wanted: tuple[str, dict[str, Any]]) -> Calls:
    return Calls(wanted)


@dataclass
class Broken:
    """An answer that stops in the middle."""

    text: str


Step = str | Calls | Broken | Response


@dataclass
class Heard:
    """A request in words that all vendors share."""

    path: str
    key: str | None
    system: str
    roles: list[str]
    tools: list[str]
    images: list[bytes]
    results: list[str]
    schema: Any
    body: dict[str, Any] = field(repr=False)


class Dialect:
    """How one vendor's server reads and speaks."""

    vendor: ClassVar[str]
    root: ClassVar[str] = ""  # behind the address that is configured
    path: ClassVar[str]
    key_header: ClassVar[str] = "authorization"

    def heard(self, body: dict[str, Any]) -> dict[str, Any]:
        raise NotImplementedError

    def says(self, step: str | Calls | Broken) -> Response:
        raise NotImplementedError

    def refuses(self, status: int, message: str, **headers: str) -> Response:
        return JSONResponse({"error": {"message": message}}, status, headers)


def _sse(events: Sequence[dict[str, Any]], *, named: bool = False) -> Response:
    lines = []
    for event in events:
        lines += [f"event: {event['type']}"] if named else []
        lines += [f"data: {json.dumps(event)}", ""]
    return Response("\n".join([*lines, ""]), media_type="text/event-stream")


def _words(step: str | Broken) -> list[str]:
    text = step if isinstance(step, str) else step.text
    return [word if number == 0 else f" {word}" for number, word in enumerate(text.split(" "))]


class OpenAI(Dialect):
    vendor, root, path = "openai", "/v1", "/v1/chat/completions"

    def heard(self, body: dict[str, Any]) -> dict[str, Any]:
        messages = body["messages"]
        blocks = [block for message in messages if isinstance(message["content"], list) for block in message["content"]]
        urls = [block["image_url"]["url"] for block in blocks if block["type"] == "image_url"]
        return {
            "system": "".join(message["content"] for message in messages if message["role"] == "system"),
            "roles": [message["role"] for message in messages if message["role"] != "system"],
            "tools": [tool["function"]["name"] for tool in body.get("tools", ())],
            "images": [base64.b64decode(url.partition("base64,")[2]) for url in urls],
            "results": [message["content"] for message in messages if message["role"] == "tool"],
            "schema": body.get("response_format", {}).get("json_schema", {}).get("schema"),
        }

    def says(self, step: str | Calls | Broken) -> Response:
        if isinstance(step, Calls):
            return openai_calls(*step.wanted)
        return openai_stream(step) if isinstance(step, str) else openai_stream(step.text, whole=False)


class LmStudio(OpenAI):
    vendor = "lmstudio"


class Claude(Dialect):
    vendor, path, key_header = "claude", "/v1/messages", "x-api-key"

    def heard(self, body: dict[str, Any]) -> dict[str, Any]:
        blocks = [block for message in body["messages"] for block in message["content"]]
        tools = {tool["name"]: tool["input_schema"] for tool in body.get("tools", ())}
        schema = tools.pop("answer_in_json", None)
        assert body["max_tokens"] > 0
        assert schema is None or body["tool_choice"] == {"type": "any"}
        return {
            "system": body.get("system", ""),
            "roles": [item["role"] for item in body["messages"]],
            "tools": list(tools),
            "images": [base64.b64decode(item["source"]["data"]) for item in blocks if item["type"] == "image"],
            "results": [item["content"] for item in blocks if item["type"] == "tool_result"],
            "schema": schema,
        }

    def says(self, step: str | Calls | Broken) -> Response:
        usage = {"input_tokens": GIVEN - 10, "cache_read_input_tokens": 10, "output_tokens": 1}
        events: list[dict[str, Any]] = [{"type": "message_start", "message": {"usage": usage}}, {"type": "ping"}]
        if isinstance(step, Calls):
            for index, (name, arguments) in enumerate(step.wanted):
                block = {"type": "tool_use", "id": f"toolu_{index}", "name": name, "input": {}}
                events.append({"type": "content_block_start", "index": index, "content_block": block})
                text = json.dumps(arguments)
                for at in range(0, len(text), 5):
                    delta = {"type": "input_json_delta", "partial_json": text[at : at + 5]}
                    events.append({"type": "content_block_delta", "index": index, "delta": delta})
        else:
            events.append({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}})
            for word in _words(step):
                delta = {"type": "text_delta", "text": word}
                events.append({"type": "content_block_delta", "index": 0, "delta": delta})
        if not isinstance(step, Broken):
            events.append({"type": "message_delta", "delta": {"stop_reason": "x"}, "usage": {"output_tokens": WRITTEN}})
            events.append({"type": "message_stop"})
        return _sse(events, named=True)

    def refuses(self, status: int, message: str, **headers: str) -> Response:
        return JSONResponse({"type": "error", "error": {"type": "some_error", "message": message}}, status, headers)


class Gemini(Dialect):
    vendor, path, key_header = "gemini", "/v1beta/models/small:streamGenerateContent", "x-goog-api-key"

    def heard(self, body: dict[str, Any]) -> dict[str, Any]:
        parts = [part for content in body["contents"] for part in content["parts"]]
        declared = [item for tool in body.get("tools", ()) for item in tool["functionDeclarations"]]
        system = body.get("systemInstruction", {"parts": ()})
        for part in parts:
            assert "functionCall" not in part or part["thoughtSignature"] == "c2lnbmVk"
        return {
            "system": "".join(part["text"] for part in system["parts"]),
            "roles": [item["role"] for item in body["contents"]],
            "tools": [item["name"] for item in declared],
            "images": [base64.b64decode(item["inlineData"]["data"]) for item in parts if "inlineData" in item],
            "results": [item["functionResponse"]["response"]["result"] for item in parts if "functionResponse" in item],
            "schema": body.get("generationConfig", {}).get("responseJsonSchema"),
        }

    def says(self, step: str | Calls | Broken) -> Response:
        if isinstance(step, Calls):
            parts = [
                {"functionCall": {"name": name, "args": arguments}, "thoughtSignature": "c2lnbmVk"}
                for name, arguments in step.wanted
            ]
            chunks: list[dict[str, Any]] = [{"candidates": [{"content": {"role": "model", "parts": parts}}]}]
        else:
            thought = {"text": "Let me think.", "thought": True}
            chunks = [
                {"candidates": [{"content": {"role": "model", "parts": [thought, {"text": word}]}}]}
                for word in _words(step)
            ]
        if not isinstance(step, Broken):
            counts = {"promptTokenCount": GIVEN, "candidatesTokenCount": WRITTEN - 2, "thoughtsTokenCount": 2}
            chunks.append(
                {"candidates": [{"finishReason": "STOP"}], "usageMetadata": {**counts, "totalTokenCount": 42}}
            )
        return _sse(chunks)

    def refuses(self, status: int, message: str, **headers: str) -> Response:
        return JSONResponse([{"error": {"code": status, "message": message, "status": "X"}}], status, headers)


class Ollama(Dialect):
    vendor, path = "ollama", "/api/chat"

    def heard(self, body: dict[str, Any]) -> dict[str, Any]:
        messages = body["messages"]
        return {
            "system": "".join(message["content"] for message in messages if message["role"] == "system"),
            "roles": [message["role"] for message in messages if message["role"] != "system"],
            "tools": [tool["function"]["name"] for tool in body.get("tools", ())],
            "images": [base64.b64decode(image) for message in messages for image in message.get("images", ())],
            "results": [
                message["content"] for message in messages if message["role"] == "tool" and message["tool_name"]
            ],
            "schema": body.get("format"),
        }

    def says(self, step: str | Calls | Broken) -> Response:
        if isinstance(step, Calls):
            made = [{"function": {"name": name, "arguments": arguments}} for name, arguments in step.wanted]
            lines = [{"message": {"role": "assistant", "content": "", "tool_calls": made}, "done": False}]
        else:
            lines = [{"message": {"role": "assistant", "content": word}, "done": False} for word in _words(step)]
        if not isinstance(step, Broken):
            counts = {"prompt_eval_count": GIVEN, "eval_count": WRITTEN}
            lines.append({"message": {"role": "assistant", "content": ""}, "done": True, **counts})
        return Response("".join(f"{json.dumps(line)}\n" for line in lines), media_type="application/x-ndjson")

    def refuses(self, status: int, message: str, **headers: str) -> Response:
        return JSONResponse({"error": message}, status, headers)


DIALECTS: dict[str, Dialect] = {item.vendor: item for item in (OpenAI(), Claude(), Gemini(), Ollama(), LmStudio())}


@dataclass
class ModelServer:
    """The server of one vendor, for one test."""

    url: str
    dialect: Dialect
    script: list[Step] = field(default_factory=list)
    requests: list[Heard] = field(default_factory=list)

    async def answer(self, request: Request) -> Response:
        body = await request.json()
        key = request.headers.get(self.dialect.key_header)
        self.requests.append(Heard(request.url.path, key, body=body, **self.dialect.heard(body)))
        step = self.script.pop(0) if self.script else "Hello there"
        return step if isinstance(step, Response) else self.dialect.says(step)


class _Host:
    """One real server for all vendors and all tests of a process, each vendor below a path of its own."""

    def __init__(self) -> None:
        self.current: dict[str, ModelServer] = {}
        sock = socket.socket()
        sock.bind(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{sock.getsockname()[1]}"
        routes = [Route(f"/{name}{dialect.path}", self._answer, methods=["POST"]) for name, dialect in DIALECTS.items()]
        server = uvicorn.Server(uvicorn.Config(Starlette(routes=routes), log_config=None, ws="none"))
        threading.Thread(target=server.run, kwargs={"sockets": [sock]}, daemon=True).start()
        end = time.monotonic() + DEADLINE
        while not server.started and time.monotonic() < end:
            time.sleep(0.005)

    async def _answer(self, request: Request) -> Response:
        return await self.current[request.url.path.split("/")[1]].answer(request)


@functools.cache
def _host() -> _Host:
    return _Host()


@contextmanager
def model_server(vendor: str, *script: Step) -> Iterator[ModelServer]:
    """A server that follows this script until the block ends."""
    host = _host()
    made = ModelServer(f"{host.url}/{vendor}{DIALECTS[vendor].root}", DIALECTS[vendor], list(script))
    host.current[vendor] = made
    yield made
