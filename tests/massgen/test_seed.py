"""The code blocks of the MassGen design run as they stand, after ``massgen`` is replaced by ``sabir.massgen`` (MW-1).

The blocks are in ``tests/vectors/massgen``. Those that define classes are run in their package, so that every import of
theirs finds what it names; then what they do is compared with what ours do (MW-61).
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import types
from pathlib import Path
from typing import Any

import pytest

import sabir.massgen
from openai_server import calls, scripted
from sabir.massgen import agent_config, chat_agent, orchestrator, stream_chunk
from sabir.massgen.nlip import router, schema, state_manager, token_tracker
from sabir.massgen.nlip.schema import (
    NLIPControlField,
    NLIPFormatField,
    NLIPRequest,
    NLIPTokenField,
    NLIPToolCall,
)
from sabir.massgen.nlip.translator import base, builtin_translator, custom_translator, mcp_translator

BLOCKS = Path(__file__).parent.parent / "vectors" / "massgen"
NLIP = "sabir.massgen.nlip"

pytestmark = pytest.mark.filterwarnings("ignore:datetime.datetime.utcnow:DeprecationWarning")


def source(name: str) -> str:
    """A block, with the package's name replaced."""
    text = (BLOCKS / f"{name}.py.txt").read_text(encoding="utf-8")
    return re.sub(r"\bmassgen\b(?=[. ])", "sabir.massgen", text)


def defined(name: str, package: str, **more: Any) -> dict[str, Any]:
    """What a block defines when it runs as a module of a package."""
    module = types.ModuleType(f"{package}.seed_{name}")
    module.__package__ = package
    module.__dict__.update(more)
    sys.modules[module.__name__] = module  # pydantic looks its types up there
    try:
        exec(compile(source(name), f"{name}.py", "exec"), module.__dict__)
    finally:
        del sys.modules[module.__name__]
    return module.__dict__


async def run(name: str) -> None:
    """Run a block that awaits at its top level."""
    code = compile(source(name), f"{name}.py", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    made = types.FunctionType(code, {"__name__": name})()
    if inspect.isawaitable(made):
        await made


def request(*tool_names: str, **control: Any) -> NLIPRequest:
    return NLIPRequest(
        format=NLIPFormatField(),
        control=NLIPControlField(message_type="request", message_id="m1", timestamp="2026-01-01T00:00:00Z", **control),
        token=NLIPTokenField(session_id="session_123", context_token="ctx_456", conversation_turn=1),
        content={"query": "x"},
        tool_calls=[NLIPToolCall(tool_id=f"c{n}", tool_name=name, parameters={"n": n}) for n, name in
                    enumerate(tool_names)],
    )  # fmt: skip


class MockToolManager:
    """What the design's unit test calls so, and does not show: it has ``execute_tool`` and nothing else (MW-16)."""

    async def execute_tool(self, tool_name: str, parameters: dict[str, Any], **options: Any) -> Any:
        return {"tool": tool_name, "parameters": parameters}


# -- definitions ----------------------------------------------------------------------------------------

# Of what begins with an underscore, only what the requirements or the design's own tests name.
NAMED = ("__init__", "_detect_tool_protocol", "_convert_tool_calls_to_nlip")
CLASSES = [
    ("schema", NLIP, schema),
    ("router", NLIP, router),
    ("translator_base", f"{NLIP}.translator", base),
    ("translator_mcp", f"{NLIP}.translator", mcp_translator),
    ("translator_custom", f"{NLIP}.translator", custom_translator),
    ("translator_builtin", f"{NLIP}.translator", builtin_translator),
    ("state_manager", NLIP, state_manager),
    ("token_tracker", NLIP, token_tracker),
]


@pytest.mark.parametrize(("name", "package", "ours"), CLASSES, ids=lambda value: str(value)[:20])
def test_every_class_of_the_design_is_here_with_its_methods(name: str, package: str, ours: types.ModuleType) -> None:
    seed = defined(name, package)
    classes = {n: item for n, item in seed.items() if isinstance(item, type) and "seed_" in item.__module__}
    assert classes
    for class_name, theirs in classes.items():
        mine = getattr(ours, class_name)
        for method, function in vars(theirs).items():
            if not inspect.isfunction(function) or (method.startswith("_") and method not in NAMED):
                continue
            assert hasattr(mine, method), f"{class_name}.{method}"
            wanted = inspect.signature(function).parameters
            given = inspect.signature(getattr(mine, method)).parameters
            positional = [p for p in given.values() if p.kind is not p.KEYWORD_ONLY]
            assert [p.name for p in positional][: len(wanted)] == list(wanted), f"{class_name}.{method}"


def test_the_schema_has_the_fields_of_the_design() -> None:  # MW-2 to MW-6
    seed = defined("schema", NLIP)
    for name in ("NLIPControlField", "NLIPTokenField", "NLIPFormatField", "NLIPToolCall", "NLIPToolResult"):
        fields = set(seed[name].model_fields)
        assert fields <= set(getattr(schema, name).__struct_fields__)
        extra = set(getattr(schema, name).__struct_fields__) - fields
        assert extra <= {"authentication"}
    assert set(seed["NLIPMessage"].model_fields) == set(schema.NLIPMessage.__struct_fields__)
    assert [item.value for item in seed["NLIPMessageType"]] == [item.value for item in schema.NLIPMessageType]


def test_a_message_of_the_design_is_read_and_written_alike() -> None:
    seed = defined("schema", NLIP)
    ours = request("add", "mcp__x")
    theirs = seed["NLIPRequest"].model_validate(ours.model_dump(mode="json"))
    written = theirs.model_dump(mode="json")
    mine = ours.model_dump(mode="json")
    del mine["control"]["authentication"]
    assert mine == written
    assert schema.NLIPRequest.model_validate(written) == ours


WRONG: list[tuple[str, dict[str, Any]]] = [
    ("NLIPControlField", {"message_type": "request", "message_id": "1", "timestamp": "x", "priority": 11}),
    ("NLIPControlField", {"message_type": "request", "message_id": "1", "timestamp": "x", "priority": -1}),
    ("NLIPControlField", {"message_type": "request", "message_id": "1", "timestamp": "x", "retry_count": -1}),
    ("NLIPControlField", {"message_type": "shout", "message_id": "1", "timestamp": "x"}),
    ("NLIPControlField", {"message_type": "request", "message_id": 5, "timestamp": []}),
    ("NLIPToolResult", {"tool_id": "1", "tool_name": "t", "status": "maybe"}),
    ("NLIPToolCall", {"tool_id": "1", "tool_name": "t", "parameters": "none"}),
    ("NLIPTokenField", {"conversation_turn": "many"}),
]


@pytest.mark.parametrize(("name", "values"), WRONG)
def test_a_wrong_value_raises_when_the_message_is_made(name: str, values: dict[str, Any]) -> None:  # MW-3, G-2
    seed = defined("schema", NLIP)
    for cls in (seed[name], getattr(schema, name)):
        with pytest.raises(ValueError, match=name):
            cls(**values)
    with pytest.raises(ValueError, match=name):
        getattr(schema, name).model_validate(values)


@pytest.mark.parametrize("tool_name", ["mcp__web_search", "custom_analyzer", "read_file"])
async def test_our_router_answers_as_the_router_of_the_design(tool_name: str) -> None:  # MW-13, MW-25
    seed = defined("router", NLIP)["NLIPRouter"](MockToolManager())
    ours = router.NLIPRouter(MockToolManager())
    asked = request(tool_name, tool_name)
    found = []
    for item in (seed, ours):
        responses = [response async for response in item.route_message(asked)]
        found.append([response.model_dump(mode="json") for response in responses])
    for response in (*found[0], *found[1]):
        del response["control"]["message_id"], response["control"]["timestamp"]
    assert found[0] == found[1]


async def test_an_error_is_answered_as_in_the_design() -> None:  # MW-14
    seed = defined("router", NLIP)["NLIPRouter"](MockToolManager())
    for item in (seed, router.NLIPRouter(MockToolManager())):
        [response] = [response async for response in item.route_message(request())]
        assert response.control.message_type == "error"
        assert response.content == {"error": "No tool calls found in request", "original_request": "m1"}
        assert response.token == request().token


@pytest.mark.parametrize("name", ["translator_mcp", "translator_custom", "translator_builtin"])
async def test_translators_give_the_dicts_of_the_design(name: str) -> None:  # MW-25, G-16
    seed = defined(name, f"{NLIP}.translator")
    [theirs] = [item for n, item in seed.items() if n.endswith("Translator") and n != "ProtocolTranslator"]
    ours = getattr(sys.modules[f"{NLIP}.translator"], theirs.__name__)
    call = NLIPToolCall(tool_id="1", tool_name="t", parameters={"a": 1}, require_confirmation=True)
    assert await theirs().nlip_to_native_call(call) == await ours().nlip_to_native_call(call)
    assert await theirs().nlip_to_native_params({"a": 1}) == await ours().nlip_to_native_params({"a": 1})
    for native in ("words", {"content": [{"type": "text", "text": "x"}]}, {"sum": 3}, None, [1, 2]):
        assert await theirs().native_to_nlip_result("1", "t", native) == await ours().native_to_nlip_result(
            "1", "t", native
        )


async def test_the_chat_of_the_design_runs_on_our_router() -> None:
    """Its ``ConfigurableAgent`` adds to one that is there already: to ours."""
    names = {"ChatAgent": chat_agent.ConfigurableAgent, "StreamChunk": stream_chunk.StreamChunk}
    generic = dict.fromkeys(("List", "Dict", "AsyncGenerator"), dict)
    seed = defined("chat_agent", "sabir.massgen", Any=Any, **names, **generic)
    config = agent_config.AgentConfig(backend_params={"type": "mock", "script": ["Hello"]}, enable_nlip=True)
    assert config.nlip_router is not None
    agent = seed["ConfigurableAgent"](config)
    config.nlip_router.chat = agent._chat_of
    said = [chunk.content async for chunk in agent.chat([{"role": "user", "content": "Hi"}], nlip_mode=True)]
    assert "".join(said) == "HelloHello"  # the design says everything twice (G-5); ours does not


def test_the_orchestrator_of_the_design_turns_nlip_on_for_our_agents() -> None:
    generic = {"List": list, "Dict": dict, "Optional": Any, "Any": Any, "ConfigurableAgent": Any}
    text = source("orchestrator")
    assert "_init_nlip_routing" in text
    namespace: dict[str, Any] = {**generic, "Optional": type("Optional", (), {"__class_getitem__": lambda item: item})}
    exec(compile(f"from __future__ import annotations\n{text}", "orchestrator.py", "exec"), namespace)
    config = agent_config.AgentConfig(backend_params={"type": "mock"})
    made = namespace["Orchestrator"]
    instance = made.__new__(made)
    instance.agents, instance.nlip_config = [chat_agent.ConfigurableAgent(config)], {}
    instance._init_nlip_routing()
    assert config.enable_nlip
    assert config.nlip_router is not None


def test_the_configuration_class_has_what_the_design_adds() -> None:
    """This block is not Python (``def __init__(self, ...)``), so its names are looked for."""
    text = source("agent_config")
    for name in ("enable_nlip", "nlip_config", "nlip_router", "tool_manager"):
        assert name in text
        assert hasattr(agent_config.AgentConfig(backend_params={"type": "mock"}), name)
    assert hasattr(agent_config.AgentConfig, "_init_nlip_router")


# -- examples -------------------------------------------------------------------------------------------


def answering(body: dict[str, Any]) -> Any:
    """A model that answers, or votes if there is an answer."""
    tools = [tool["function"]["name"] for tool in body.get("tools", ())]
    if "vote" in tools:
        return calls(("vote", {"agent_id": "agent1", "reason": "good"}))
    if "new_answer" in tools:
        return calls(("new_answer", {"content": "Forty-two."}))
    return "Forty-two."  # the same with one answer, which is not presented again, as with two


@pytest.fixture
def openai(monkeypatch: pytest.MonkeyPatch) -> Any:
    with scripted(answering) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
        yield server


async def test_the_example_of_an_agent_runs(openai: Any, capsys: pytest.CaptureFixture[str]) -> None:
    await run("example_agent")
    assert capsys.readouterr().out.strip() == "Forty-two."
    assert openai.chats[0]["model"] == "gpt-4"


async def test_the_example_of_a_tool_call_runs(capsys: pytest.CaptureFixture[str]) -> None:
    await run("example_tool_call")
    assert "Tool mcp__web_search: error" in capsys.readouterr().out  # there is no such tool, and it says so (MW-18)


async def test_the_example_of_an_orchestrator_runs(openai: Any, capsys: pytest.CaptureFixture[str]) -> None:
    await run("example_orchestrator")
    assert capsys.readouterr().out.strip() == "Forty-two."
    assert len(openai.chats) >= 5


# -- its tests, verbatim --------------------------------------------------------------------------------

_TESTS = defined(
    "test_router", "sabir.massgen.tests", MockToolManager=MockToolManager, create_test_nlip_request=lambda: request("x")
)
_TESTS |= defined(
    "test_integration",
    "sabir.massgen.tests",
    pytest=pytest,
    AgentConfig=sabir.massgen.AgentConfig,
    ConfigurableAgent=sabir.massgen.ConfigurableAgent,
)


@pytest.mark.parametrize("name", [name for name in _TESTS if name.startswith("test_")])
async def test_the_tests_of_the_design_pass(name: str) -> None:  # MW-61
    await _TESTS[name]()


def test_the_design_has_four_tests() -> None:
    assert len([name for name in _TESTS if name.startswith("test_")]) == 4


def test_the_modules_are_where_the_design_has_them() -> None:
    assert orchestrator.Orchestrator is sabir.massgen.Orchestrator
    assert chat_agent.ConfigurableAgent is sabir.massgen.ConfigurableAgent


def test_messages_dump_copy_and_validate_as_pydantic_models_do() -> None:  # MW-6
    message = request("add")
    assert "correlation_id" not in message.model_dump(exclude_none=True)["control"]
    assert schema.NLIPRequest.model_validate_json(message.model_dump_json()) == message
    assert schema.NLIPRequest.model_validate(message) is message
    assert "NLIPToolCall" in str(schema.NLIPRequest.model_json_schema())
    deep = message.model_copy(deep=True)
    deep.content["query"] = "changed"
    assert message.content == {"query": "x"}
    with pytest.raises(ValueError, match="NLIPRequest"):
        schema.NLIPRequest.model_validate_json("{")
    assert "secret" not in repr(message.control.model_copy(update={"authentication": "secret"}))
