"""Agents that serve every scenario of the official MCP suite, through a Sabir gateway.

Run as a program it serves them: ``python everything.py [--port N]`` prints the address.
"""

from __future__ import annotations

import asyncio
import base64
import json
import sys
import tempfile
from collections.abc import AsyncIterator
from typing import Any

from sabir.agent import FunctionAgent, agent
from sabir.card import Card, Skill
from sabir.errors import TurnFailed
from sabir.events import Event, Progress, Question
from sabir.gateway.gateway import Gateway
from sabir.message import Message, Part, binary_part, json_part, text_part
from sabir.protocols.mcp.wire import elicitation as mcp_ask
from sabir.turn import Turn

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
WAV = base64.b64decode("UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=")
NOTHING: dict[str, Any] = {"type": "object", "properties": {}}


def takes(**properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


def tool(name: str, description: str, schema: dict[str, Any] = NOTHING) -> Any:
    """A function as an agent that is one tool."""

    def make(function: Any) -> FunctionAgent:
        skill = Skill(name, name, description, input_schema=schema)
        return FunctionAgent(function, Card(name, description, skills=(skill,)))

    return make


def arguments(turn: Turn) -> dict[str, Any]:
    given = turn.message.first.value
    return given if isinstance(given, dict) else {}


def form(**properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


def elicited(answer: Message) -> str:
    action = answer.labelled("action")
    given = answer.labelled("answer")
    how = action.value["action"] if action is not None else "accept"
    return f"action={how}, content={json.dumps(given.value if given is not None else {})}"


# -- tools ------------------------------------------------------------------------------------------


@tool("test_simple_text", "Says a sentence")
async def simple_text(turn: Turn) -> str:
    return "This is a simple text response for testing."


@tool("test_image_content", "Shows an image")
async def image_content(turn: Turn) -> Part:
    return binary_part(PNG, "image/png")


@tool("test_audio_content", "Plays a sound")
async def audio_content(turn: Turn) -> Part:
    return binary_part(WAV, "audio/wav")


def embedded(uri: str, text: str, media: str = "text/plain") -> Part:
    return Part("text", "english", text, extra={"uri": uri, "mimeType": media})


@tool("test_embedded_resource", "Hands over a resource")
async def embedded_resource(turn: Turn) -> Part:
    return embedded("test://embedded-resource", "This is an embedded resource content.")


@tool("test_multiple_content_types", "Text, an image and a resource")
async def multiple_content_types(turn: Turn) -> Message:
    data = json.dumps({"test": "data", "value": 123})
    return Message.of(
        text_part("Multiple content types test:"),
        binary_part(PNG, "image/png"),
        embedded("test://mixed-content-resource", data, "application/json"),
    )


async def notes(turn: Turn) -> AsyncIterator[Event | str]:
    for note in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        yield Progress(note=note)
        await asyncio.sleep(0.02)
    yield "Three notes were written"


tool_with_logging = tool("test_tool_with_logging", "Writes notes while it works")(notes)
logging_tool = tool("test_logging_tool", "Writes notes while it works")(notes)


@tool("test_tool_with_progress", "Says how far it is")
async def tool_with_progress(turn: Turn) -> AsyncIterator[Event | str]:
    for done in (0.0, 0.5, 1.0):
        yield Progress(done)
        await asyncio.sleep(0.02)
    yield "All done"


@tool("test_error_handling", "Always fails")
async def error_handling(turn: Turn) -> str:
    raise TurnFailed("This tool intentionally returns an error for testing")


@tool("test_sampling", "Asks the caller's model", takes(prompt={"type": "string"}))
async def sampling(turn: Turn) -> str:
    answer = await turn.ask(mcp_ask.Sampling.of(arguments(turn)["prompt"], max_tokens=100))
    return f"LLM response: {answer.text}"


@tool("test_missing_capability", "Needs the caller's model")
async def missing_capability(turn: Turn) -> str:
    return (await turn.ask(mcp_ask.Sampling.of("Are you there?"))).text


@tool("test_elicitation", "Asks the person", takes(message={"type": "string"}))
async def elicitation(turn: Turn) -> str:
    schema = form(
        username={"type": "string", "description": "User's response"},
        email={"type": "string", "description": "User's email address"},
    )
    return f"User response: {elicited(await turn.ask(Question(arguments(turn)['message'], schema=schema)))}"


@tool("test_streaming_elicitation", "Asks the person, after a note")
async def streaming_elicitation(turn: Turn) -> str:
    return (await turn.ask(Question("What is your name?", schema=form(name={"type": "string"}), id="name"))).text


@tool("test_elicitation_sep1034_defaults", "Asks with values filled in")
async def elicitation_defaults(turn: Turn) -> str:
    schema = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "default": "John Doe"},
            "age": {"type": "integer", "default": 30},
            "score": {"type": "number", "default": 95.5},
            "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
            "verified": {"type": "boolean", "default": True},
        },
    }
    return f"Elicitation completed: {elicited(await turn.ask(Question('Is this right?', schema=schema)))}"


@tool("test_elicitation_sep1330_enums", "Asks with every kind of choice")
async def elicitation_enums(turn: Turn) -> str:
    three = ["option1", "option2", "option3"]
    titled = [{"const": f"value{n}", "title": title} for n, title in ((1, "First"), (2, "Second"), (3, "Third"))]
    named = {"enum": ["opt1", "opt2", "opt3"], "enumNames": ["Option One", "Option Two", "Option Three"]}
    schema = {
        "type": "object",
        "properties": {
            "untitledSingle": {"type": "string", "enum": three},
            "titledSingle": {"type": "string", "oneOf": titled},
            "legacyEnum": {"type": "string", **named},
            "untitledMulti": {"type": "array", "items": {"type": "string", "enum": three}},
            "titledMulti": {"type": "array", "items": {"anyOf": titled}},
        },
    }
    return f"Elicitation completed: {elicited(await turn.ask(Question('Choose', schema=schema)))}"


# -- input as a result (2026-07-28) -------------------------------------------------------------------


@tool("test_input_required_result_elicitation", "Asks for a name")
async def wants_name(turn: Turn) -> str:
    answer = await turn.ask(Question("What is your name?", schema=form(name={"type": "string"}), id="user_name"))
    return f"Hello, {answer.text}!"


@tool("test_input_required_result_sampling", "Asks the model for a capital")
async def wants_sample(turn: Turn) -> str:
    question = mcp_ask.Sampling.of("What is the capital of France?", max_tokens=100, question_id="capital_question")
    return (await turn.ask(question)).text


@tool("test_input_required_result_list_roots", "Asks for the roots")
async def wants_roots(turn: Turn) -> str:
    return f"Roots: {(await turn.ask(mcp_ask.Roots('Which directories?', id='client_roots'))).text}"


async def confirms(turn: Turn) -> str:
    await turn.ask(Question("Please confirm", schema=form(ok={"type": "boolean"}), id="confirm"))
    return "state-ok"


wants_state = tool("test_input_required_result_request_state", "Keeps state")(confirms)
tampered_state = tool("test_input_required_result_tampered_state", "Keeps state that is sealed")(confirms)


def several() -> mcp_ask.Several:
    return mcp_ask.Several.of(
        Question("What is your name?", schema=form(name={"type": "string"}), id="user_name"),
        mcp_ask.Sampling.of("Generate a greeting", max_tokens=50, question_id="greeting"),
        mcp_ask.Roots("Which directories?", id="client_roots"),
    )


@tool("test_input_required_result_multiple_inputs", "Asks three things at once")
async def wants_several(turn: Turn) -> str:
    answer = await turn.ask(several())
    return f"Got {', '.join(part.label or '' for part in answer.parts)}"


@tool("test_input_required_result_capabilities", "Asks what the client can answer")
async def wants_possible(turn: Turn) -> str:
    return f"Got {(await turn.ask(several())).text}"


@tool("test_input_required_result_multi_round", "Asks twice")
async def asks_twice(turn: Turn) -> str:
    name = await turn.ask(Question("Step 1: What is your name?", schema=form(name={"type": "string"}), id="step1"))
    color = await turn.ask(
        Question("Step 2: What is your favorite color?", schema=form(color={"type": "string"}), id="step2")
    )
    return f"{name.text} likes {color.text}"


# -- prompts and resources ------------------------------------------------------------------------------


def prompt(id: str, description: str, schema: dict[str, Any] | None = None) -> Skill:
    return Skill(id, id, description, ("prompt",), input_schema=schema)


def resource(uri: str, name: str, media: str) -> Skill:
    return Skill(uri, name, f"{name} of the suite", ("resource",), output_schema={"contentMediaType": media})


PROMPTS = (
    prompt("test_simple_prompt", "A prompt without arguments"),
    prompt(
        "test_prompt_with_arguments",
        "A prompt with two arguments",
        takes(arg1={"type": "string", "examples": ["paris", "park", "party"]}, arg2={"type": "string"}),
    ),
    prompt("test_prompt_with_embedded_resource", "Embeds", takes(resourceUri={"type": "string"})),
    prompt("test_prompt_with_image", "Shows an image"),
    prompt("test_input_required_result_prompt", "Asks before it prompts"),
)
RESOURCES = (
    resource("test://static-text", "Static text", "text/plain"),
    resource("test://static-binary", "Static image", "image/png"),
    resource("test://watched-resource", "Watched", "text/plain"),
    resource("test://template/{id}/data", "Template", "application/json"),
)


@agent(card=Card("library", "Prompts and resources", skills=(*PROMPTS, *RESOURCES)))
async def library(turn: Turn) -> Message | str | Part:
    given, wanted = arguments(turn), turn.message.label
    match wanted:
        case "test_simple_prompt":
            return "This is a simple prompt for testing."
        case "test_prompt_with_arguments":
            return f"Prompt with arguments: arg1='{given['arg1']}', arg2='{given['arg2']}'"
        case "test_prompt_with_embedded_resource":
            whole = embedded(given["resourceUri"], "Embedded resource content for testing.")
            return Message.of(whole, text_part("Please process the embedded resource above."))
        case "test_prompt_with_image":
            return Message.of(binary_part(PNG, "image/png"), text_part("Please analyze the image above."))
        case "test_input_required_result_prompt":
            schema = form(context={"type": "string"})
            answer = await turn.ask(Question("What context should the prompt use?", schema=schema, id="user_context"))
            return f"Use this context: {answer.text}"
        case "test://static-text":
            return "This is the content of the static text resource."
        case "test://static-binary":
            return binary_part(PNG, "image/png")
        case "test://watched-resource":
            return "Nothing has changed yet."
        case _:
            id = given["id"]
            return Message.of(json_part({"id": id, "templateTest": True, "data": f"Data for ID: {id}"}))


def gateway(home: str) -> Gateway:
    """A gateway with all of these agents behind its MCP door."""
    doors: list[Any] = []

    @tool("test_trigger_tool_change", "Tells that the tools have changed")
    async def trigger_tools(turn: Turn) -> str:
        await doors[0].changed("tools")
        return "told"

    @tool("test_trigger_prompt_change", "Tells that the prompts have changed")
    async def trigger_prompts(turn: Turn) -> str:
        await doors[0].changed("prompts")
        return "told"

    made = [item for item in globals().values() if isinstance(item, FunctionAgent)]
    built = Gateway(*made, trigger_tools, trigger_prompts, home=home, store="memory://")
    doors.extend(door for door in built.doors if door.name == "mcp")
    return built


if __name__ == "__main__":
    port = int(sys.argv[sys.argv.index("--port") + 1]) if "--port" in sys.argv else 0
    with tempfile.TemporaryDirectory() as directory:
        sys.exit(gateway(directory).run(port=port))
