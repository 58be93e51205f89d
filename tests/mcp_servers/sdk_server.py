"""A server written with the official SDK alone, which serves every scenario of the official suite.

It is what the gateway is put in front of: ``python sdk_server.py [--port N]`` prints its address; ``--stdio`` speaks
over standard input and output.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import socket
import sys
from typing import Any

import mcp_types as types
import uvicorn
from mcp.server.caching import CacheHint
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, PromptsListChanged, ToolsListChanged
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
WAV = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
KEY = b"a key of the test server"
BUS = InMemorySubscriptionBus()
NOTHING: dict[str, Any] = {"type": "object", "properties": {}}
MODERN = "2026-07-28"

Json = dict[str, Any]


def takes(*names: str) -> Json:
    return {"type": "object", "properties": {name: {"type": "string"} for name in names}, "required": list(names)}


TOOLS: dict[str, Json] = dict.fromkeys(
    (
        "test_simple_text",
        "test_image_content",
        "test_audio_content",
        "test_embedded_resource",
        "test_multiple_content_types",
        "test_tool_with_logging",
        "test_logging_tool",
        "test_tool_with_progress",
        "test_error_handling",
        "test_missing_capability",
        "test_streaming_elicitation",
        "test_elicitation_sep1034_defaults",
        "test_elicitation_sep1330_enums",
        "test_input_required_result_elicitation",
        "test_input_required_result_sampling",
        "test_input_required_result_list_roots",
        "test_input_required_result_request_state",
        "test_input_required_result_tampered_state",
        "test_input_required_result_multiple_inputs",
        "test_input_required_result_capabilities",
        "test_input_required_result_multi_round",
        "test_trigger_tool_change",
        "test_trigger_prompt_change",
    ),
    NOTHING,
)
TOOLS["test_sampling"] = takes("prompt")
TOOLS["test_elicitation"] = takes("message")
TOOLS["echo"] = takes("text")
TOOLS["slow"] = NOTHING


def text(words: str) -> Json:
    return {"type": "text", "text": words}


def said(*blocks: Json) -> Json:
    return {"content": list(blocks), "resultType": "complete"}


def form(message: str, **properties: Json) -> Json:
    schema = {"type": "object", "properties": properties}
    return {"method": "elicitation/create", "params": {"mode": "form", "message": message, "requestedSchema": schema}}


def sample(words: str, limit: int) -> Json:
    messages = [{"role": "user", "content": text(words)}]
    return {"method": "sampling/createMessage", "params": {"messages": messages, "maxTokens": limit}}


def signed(state: str) -> str:
    return f"{state}.{hmac.new(KEY, state.encode(), hashlib.sha256).hexdigest()}"


def opened(state: str | None) -> str | None:
    if state is None:
        return None
    inner = state.rpartition(".")[0]
    if not hmac.compare_digest(signed(inner), state):
        raise MCPError(types.INVALID_PARAMS, "requestState was changed")
    return inner


def wanted(state: str | None = None, **requests: Json) -> Json:
    result: Json = {"resultType": "input_required", "inputRequests": requests}
    if state is not None:
        result["requestState"] = signed(state)
    return result


RESOURCES = {
    "test://static-text": ("text/plain", "This is the content of the static text resource."),
    "test://watched-resource": ("text/plain", "Nothing has changed yet."),
}


class Everything:
    """The handlers."""

    def __init__(self) -> None:
        hint = CacheHint(1000, "public")
        self.server: Server[Any] = Server(
            "sdk-server",
            version="1.0",
            cache_hints={
                "tools/list": hint,
                "prompts/list": hint,
                "resources/list": hint,
                "resources/templates/list": hint,
                "resources/read": hint,
                "server/discover": hint,
            },
            on_list_tools=self.list_tools,  # type: ignore[arg-type]
            on_call_tool=self.call_tool,  # type: ignore[arg-type]
            on_list_prompts=self.list_prompts,  # type: ignore[arg-type]
            on_get_prompt=self.get_prompt,  # type: ignore[arg-type]
            on_list_resources=self.list_resources,  # type: ignore[arg-type]
            on_list_resource_templates=self.list_templates,  # type: ignore[arg-type]
            on_read_resource=self.read,  # type: ignore[arg-type]
            on_subscribe_resource=self.nothing,  # type: ignore[arg-type]
            on_unsubscribe_resource=self.nothing,  # type: ignore[arg-type]
            on_completion=self.complete,  # type: ignore[arg-type]
            on_subscriptions_listen=ListenHandler(BUS),
        )
        self.server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, self.nothing)

    async def nothing(self, ctx: Any, params: Any) -> Json:
        return {}

    async def list_tools(self, ctx: Any, params: Any) -> Json:
        tools = [{"name": n, "description": f"The tool {n}", "inputSchema": schema} for n, schema in TOOLS.items()]
        return {"tools": tools, "resultType": "complete"}

    async def ask(self, ctx: Any, request: Json) -> Json:
        kinds: Any = {
            "elicitation/create": (types.ElicitRequest, types.ElicitResult),
            "sampling/createMessage": (types.CreateMessageRequest, types.CreateMessageResult),
        }
        kind, result = kinds[request["method"]]
        answer = await ctx.session.send_request(
            kind.model_validate(request), result, metadata=ServerMessageMetadata(related_request_id=ctx.request_id)
        )
        answered: Json = answer.model_dump(mode="json", by_alias=True, exclude_none=True)
        return answered

    async def note(self, ctx: Any, words: str) -> None:
        if ctx.protocol_version != MODERN:
            params = types.LoggingMessageNotificationParams(level="info", data=words)
            note = types.LoggingMessageNotification(params=params)
            await ctx.session.send_notification(note, related_request_id=ctx.request_id)

    async def call_tool(self, ctx: Any, params: types.CallToolRequestParams) -> Json:
        given = (ctx.params or {}).get("inputResponses") or {}
        state = opened(params.request_state)
        arguments = params.arguments or {}
        name = params.name
        if name.startswith("test_input_required"):
            return self.input_required(name, given, state, ctx)
        match name:
            case "echo":
                return said(text(str(arguments["text"])))
            case "slow":
                await asyncio.sleep(30)
                return said(text("late"))
            case "test_simple_text":
                return said(text("This is a simple text response for testing."))
            case "test_image_content":
                return said({"type": "image", "data": PNG, "mimeType": "image/png"})
            case "test_audio_content":
                return said({"type": "audio", "data": WAV, "mimeType": "audio/wav"})
            case "test_embedded_resource":
                inner = {"uri": "test://embedded-resource", "mimeType": "text/plain", "text": "This is embedded."}
                return said({"type": "resource", "resource": inner})
            case "test_multiple_content_types":
                data = json.dumps({"test": "data", "value": 123})
                inner = {"uri": "test://mixed-content-resource", "mimeType": "application/json", "text": data}
                image = {"type": "image", "data": PNG, "mimeType": "image/png"}
                return said(text("Multiple content types test:"), image, {"type": "resource", "resource": inner})
            case "test_tool_with_logging" | "test_logging_tool":
                for words in ("Tool execution started", "Tool processing data", "Tool execution completed"):
                    await self.note(ctx, words)
                    await asyncio.sleep(0.02)
                return said(text("Three notes were written"))
            case "test_tool_with_progress":
                for done in (0, 50, 100):
                    await ctx.session.report_progress(done, 100)
                    await asyncio.sleep(0.02)
                return said(text("All done"))
            case "test_error_handling":
                return {**said(text("This tool intentionally returns an error for testing")), "isError": True}
            case "test_missing_capability":
                if getattr(ctx.session.client_capabilities, "sampling", None) is None:
                    raise MCPError(-32021, "sampling is needed", {"requiredCapabilities": {"sampling": {}}})
                return said(text("it is there"))
            case "test_sampling":
                answer = await self.ask(ctx, sample(arguments["prompt"], 100))
                return said(text(f"LLM response: {answer['content']['text']}"))
            case "test_elicitation":
                fields = {"username": {"type": "string"}, "email": {"type": "string"}}
                answer = await self.ask(ctx, form(arguments["message"], **fields))
                return said(text(f"User response: {answer}"))
            case "test_streaming_elicitation":
                return wanted(name=form("What is your name?", name={"type": "string"}))
            case "test_elicitation_sep1034_defaults":
                answer = await self.ask(
                    ctx,
                    form(
                        "Is this right?",
                        name={"type": "string", "default": "John Doe"},
                        age={"type": "integer", "default": 30},
                        score={"type": "number", "default": 95.5},
                        status={"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
                        verified={"type": "boolean", "default": True},
                    ),
                )
                return said(text(f"Elicitation completed: {answer}"))
            case "test_elicitation_sep1330_enums":
                three = ["option1", "option2", "option3"]
                titled = [{"const": f"value{n}", "title": f"Value {n}"} for n in (1, 2, 3)]
                names = ["Option One", "Option Two", "Option Three"]
                answer = await self.ask(
                    ctx,
                    form(
                        "Choose",
                        untitledSingle={"type": "string", "enum": three},
                        titledSingle={"type": "string", "oneOf": titled},
                        legacyEnum={"type": "string", "enum": ["opt1", "opt2", "opt3"], "enumNames": names},
                        untitledMulti={"type": "array", "items": {"type": "string", "enum": three}},
                        titledMulti={"type": "array", "items": {"anyOf": titled}},
                    ),
                )
                return said(text(f"Elicitation completed: {answer}"))
            case "test_trigger_tool_change":
                await BUS.publish(ToolsListChanged())
                return said(text("told"))
            case "test_trigger_prompt_change":
                await BUS.publish(PromptsListChanged())
                return said(text("told"))
            case _:
                raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {name}")

    def input_required(self, name: str, given: Json, state: str | None, ctx: Any) -> Json:
        who = form("What is your name?", name={"type": "string"})
        roots = {"method": "roots/list", "params": {}}
        match name.removeprefix("test_input_required_result_"):
            case "elicitation":
                answer = given.get("user_name")
                if not isinstance(answer, dict):
                    return wanted(user_name=who)
                return said(text(f"Hello, {answer.get('content', {}).get('name')}!"))
            case "sampling":
                if "capital_question" not in given:
                    return wanted(capital_question=sample("What is the capital of France?", 100))
                return said(text(given["capital_question"]["content"]["text"]))
            case "list_roots":
                if "client_roots" not in given:
                    return wanted(client_roots=roots)
                return said(text(str(given["client_roots"]["roots"])))
            case "request_state" | "tampered_state":
                if state is None:
                    return wanted("kept", confirm=form("Please confirm", ok={"type": "boolean"}))
                return said(text("state-ok"))
            case "multiple_inputs":
                if not {"user_name", "greeting", "client_roots"} <= given.keys():
                    return wanted("all", user_name=who, greeting=sample("Generate a greeting", 50), client_roots=roots)
                return said(text("got them all"))
            case "capabilities":
                return wanted(greeting=sample("Generate a greeting", 50))
            case _:
                if state is None:
                    return wanted("1", step1=form("Step 1: What is your name?", name={"type": "string"}))
                if state == "1":
                    return wanted("2", step2=form("Step 2: What is your favorite color?", color={"type": "string"}))
                return said(text("thank you"))

    async def list_prompts(self, ctx: Any, params: Any) -> Json:
        needs: dict[str, tuple[str, ...]] = {
            "test_simple_prompt": (),
            "test_prompt_with_arguments": ("arg1", "arg2"),
            "test_prompt_with_embedded_resource": ("resourceUri",),
            "test_prompt_with_image": (),
            "test_input_required_result_prompt": (),
        }
        prompts = [
            {"name": n, "description": n, "arguments": [{"name": a, "description": a, "required": True} for a in args]}
            for n, args in needs.items()
        ]
        return {"prompts": prompts, "resultType": "complete"}

    async def get_prompt(self, ctx: Any, params: types.GetPromptRequestParams) -> Json:
        arguments = params.arguments or {}
        given = (ctx.params or {}).get("inputResponses") or {}
        match params.name:
            case "test_prompt_with_arguments":
                words = f"Prompt with arguments: arg1='{arguments['arg1']}', arg2='{arguments['arg2']}'"
                blocks = [text(words)]
            case "test_prompt_with_embedded_resource":
                inner = {"uri": arguments["resourceUri"], "mimeType": "text/plain", "text": "Embedded."}
                blocks = [{"type": "resource", "resource": inner}, text("Please process the embedded resource above.")]
            case "test_prompt_with_image":
                image = {"type": "image", "data": PNG, "mimeType": "image/png"}
                blocks = [image, text("Please analyze the image above.")]
            case "test_input_required_result_prompt" if "user_context" not in given:
                return wanted(user_context=form("What context should the prompt use?", context={"type": "string"}))
            case _:
                blocks = [text("This is a simple prompt for testing.")]
        return {"messages": [{"role": "user", "content": block} for block in blocks], "resultType": "complete"}

    async def list_resources(self, ctx: Any, params: Any) -> Json:
        listed = [{"uri": uri, "name": uri, "mimeType": media} for uri, (media, _) in RESOURCES.items()]
        listed.append({"uri": "test://static-binary", "name": "binary", "mimeType": "image/png"})
        return {"resources": listed, "resultType": "complete"}

    async def list_templates(self, ctx: Any, params: Any) -> Json:
        template = {"uriTemplate": "test://template/{id}/data", "name": "template", "mimeType": "application/json"}
        return {"resourceTemplates": [template], "resultType": "complete"}

    async def read(self, ctx: Any, params: types.ReadResourceRequestParams) -> Json:
        uri = str(params.uri)
        if uri in RESOURCES:
            media, words = RESOURCES[uri]
            contents: Json = {"uri": uri, "mimeType": media, "text": words}
        elif uri == "test://static-binary":
            contents = {"uri": uri, "mimeType": "image/png", "blob": PNG}
        elif uri.startswith("test://template/"):
            id = uri.split("/")[3]
            data = json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})
            contents = {"uri": uri, "mimeType": "application/json", "text": data}
        else:
            raise MCPError(types.INVALID_PARAMS, "Resource not found", {"uri": uri})
        return {"contents": [contents], "resultType": "complete"}

    async def complete(self, ctx: Any, params: types.CompleteRequestParams) -> Json:
        values = [item for item in ("paris", "park", "party") if item.startswith(params.argument.value)]
        return {"completion": {"values": values, "total": len(values), "hasMore": False}, "resultType": "complete"}


async def over_stdio() -> None:
    server = Everything().server
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options(NotificationOptions(True, True, True)))


def over_http(port: int) -> None:
    app = Everything().server.streamable_http_app()
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("127.0.0.1", port))
    sock.listen(128)  # from now on nobody is refused
    print(f"http://127.0.0.1:{sock.getsockname()[1]}/mcp", flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="warning", ws="none", timeout_graceful_shutdown=1)).run([sock])


assert base64.b64decode(PNG)

if __name__ == "__main__":
    if "--stdio" in sys.argv:
        asyncio.run(over_stdio())
    else:
        over_http(int(sys.argv[sys.argv.index("--port") + 1]) if "--port" in sys.argv else 0)
