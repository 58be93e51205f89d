"""The router of the design: parallel calls, limits, confirmation, rights, filters, streams, plugins, keys."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from deadline import DEADLINE
from sabir import Message, Turn, plugins
from sabir.errors import ConfigError, Forbidden
from sabir.massgen.nlip.message_handler import NLIPMessageHandler
from sabir.massgen.nlip.router import NLIPRouter
from sabir.massgen.nlip.schema import (
    NLIPControlField,
    NLIPFormatField,
    NLIPMessage,
    NLIPRequest,
    NLIPResponse,
    NLIPTokenField,
    NLIPToolCall,
)
from sabir.massgen.nlip.state_manager import NLIPStateManager
from sabir.massgen.nlip.token_tracker import NLIPTokenTracker
from sabir.massgen.nlip.translator import CustomToolTranslator, MCPTranslator
from sabir.massgen.stream_chunk import StreamChunk
from sabir.massgen.tool._manager import ToolManager
from sabir.protocols.nlip.wire import envelope
from sabir.tools import Tool, tool
from sabir.tools.settings import NlipSettings


def add(a: int, b: int = 1) -> int:
    """Adds two numbers."""
    return a + b


def failing() -> str:
    raise RuntimeError("it broke")


def call(name: str, tool_id: str = "c1", confirm: bool = False, **parameters: Any) -> NLIPToolCall:
    return NLIPToolCall(tool_id=tool_id, tool_name=name, parameters=parameters, require_confirmation=confirm)


def request(*calls: NLIPToolCall, kind: str = "request", session: str | None = "s", **more: Any) -> NLIPRequest:
    control = {key: more.pop(key) for key in ("timeout", "retry_count", "priority") if key in more}
    return NLIPRequest(
        format=NLIPFormatField(),
        control=NLIPControlField(message_type=kind, message_id="m", timestamp="t", **control),  # type: ignore[arg-type]
        token=NLIPTokenField(session_id=session, context_token="c", state_token="st", conversation_turn=4),
        content={"query": "x"},
        tool_calls=list(calls) or None,
        **more,
    )


def test_the_router_takes_the_arguments_of_the_design_and_has_its_attributes() -> None:  # MW-11
    manager = ToolManager()
    router = NLIPRouter(manager)
    assert router.is_enabled() and router.enable_nlip
    assert router.tool_manager is manager
    assert router.config == {}
    assert isinstance(router.state_manager, NLIPStateManager)
    assert isinstance(router.token_tracker, NLIPTokenTracker)
    assert set(router.translators) >= {"mcp", "custom", "builtin"}
    off = NLIPRouter(manager, enable_nlip=False, config={"router": {"enable_message_tracking": False}})
    assert not off.is_enabled()
    assert off.config["router"] == {"enable_message_tracking": False}


def test_the_page_has_what_the_design_wants_documented() -> None:  # MW-64
    page = (Path(__file__).parents[2] / "docs" / "massgen.md").read_text()
    for heading in ("Mapping", "Sessions and tokens", "Configuration", "From MassGen to Sabir"):
        assert f"\n## {heading}\n" in page
    mapping = page.partition("\n## Mapping\n")[2].partition("\n## ")[0].lower()
    assert all(word in mapping for word in ("envelope", "ecma-430", "mcp", "custom", "builtin"))
    assert (Path(__file__).parents[2] / "docs" / "howto" / "from-massgen.md").exists()


async def routed(router: NLIPRouter, asked: NLIPMessage, turn: Turn | None = None) -> list[NLIPResponse]:
    return [response async for response in router.route_message(asked, turn)]


def results(responses: list[NLIPResponse]) -> list[tuple[str, Any, str | None]]:
    return [(item.status, item.result, item.error) for response in responses for item in response.tool_results or ()]


async def test_a_response_has_the_fields_that_the_design_gives_it() -> None:  # MW-13
    router = NLIPRouter(ToolManager([add]))
    [response] = await routed(router, request(call("add", a=1, b=2)))
    assert response.control.correlation_id == "m"
    assert response.control.message_id != "m"
    assert response.control.timestamp.endswith("Z")
    assert response.control.message_type == "response"
    assert response.token == NLIPTokenField(
        session_id="s", context_token="c", state_token="st", conversation_turn=5
    )  # G-13
    assert response.content == {"status": "success", "result": 3}
    assert response.tool_results is not None
    assert response.tool_results[0].tool_id == "c1"


async def test_only_requests_and_notifications_are_routed() -> None:  # MW-12
    router = NLIPRouter(ToolManager([add]))
    for kind in ("response", "error"):
        with pytest.raises(ValueError, match=f"Unsupported message type: {kind}"):
            await routed(router, request(call("add", a=1), kind=kind))
    assert await routed(router, request(kind="notification")) == []
    context = await router.state_manager.get_session_context("s")
    assert context is not None
    assert len(context["messages"]) == 3


async def test_disabled_the_tools_run_as_they_are_and_nothing_is_tracked() -> None:  # MW-12, G-10
    router = NLIPRouter(ToolManager([add]), enable_nlip=False)
    assert not router.is_enabled()
    [response] = await routed(router, request(call("add", a=1), call("failing", "c2")))
    assert [item.status for item in response.tool_results or ()] == ["success", "error"]
    assert await router.state_manager.get_session_context("s") is None
    [passed] = await routed(router, request())
    assert passed.content == {"query": "x"}


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ({"schema_version": "2.0"}, "$.format.schema_version: expected 1.0"),
        ({"encoding": "latin-1"}, "$.format.encoding: expected utf-8"),
        ({"compression": "lzma"}, "$.format.compression: expected gzip or zstd"),
    ],
)
async def test_an_unknown_format_is_rejected_with_the_known_ones(form: dict[str, str], words: str) -> None:  # MW-7
    router = NLIPRouter(ToolManager([add]))
    asked = request(call("add", a=1)).model_copy(update={"format": NLIPFormatField(**form)})
    [response] = await routed(router, asked)
    assert response.control.message_type == "error"
    assert words in response.content["error"]
    assert response.content["original_request"] == "m"
    assert response.format == NLIPFormatField()  # an answer that its reader can read


async def test_schema_version_decides_what_is_read_and_written(monkeypatch: pytest.MonkeyPatch) -> None:  # MW-53
    with pytest.raises(ConfigError, match=r"nlip_config\.schema_version: expected 1\.0, not '2\.0'"):
        NLIPRouter(ToolManager(), config={"schema_version": "2.0"})
    assert get_args(get_type_hints(NlipSettings)["schema_version"]) == envelope.VERSIONS
    monkeypatch.setattr(envelope, "VERSIONS", ("1.0", "1.1"))
    for written in envelope.VERSIONS:
        router = NLIPRouter(ToolManager([add]))
        router._response.format.schema_version = written
        for read in envelope.VERSIONS:
            asked = request(call("add", a=1)).model_copy(update={"format": NLIPFormatField(schema_version=read)})
            [response] = await routed(router, asked)
            assert (response.content["status"], response.format.schema_version) == ("success", written)


async def test_calls_run_at_once_and_are_answered_in_order() -> None:  # MW-19
    together = asyncio.Barrier(3)

    async def meet(n: int) -> int:
        await together.wait()  # passes only if all three run at the same time
        return n

    router = NLIPRouter(ToolManager([meet]))
    asked = request(*(call("meet", f"c{n}", n=n) for n in range(3)))
    responses = await routed(router, asked)
    assert [response.content["result"] for response in responses] == [0, 1, 2]


FAILURES = [
    (call("failing"), "it broke"),
    (call("nosuch"), "there is no tool 'nosuch'; choose from add, failing"),
    (call("add"), "a"),
    (call("vote"), "vote works only inside an ensemble"),  # MW-35
    (call("new_answer"), "new_answer works only inside an ensemble"),
]


@pytest.mark.parametrize(("asked", "reason"), FAILURES, ids=lambda value: getattr(value, "tool_name", ""))
async def test_whatever_goes_wrong_is_an_error_with_its_reason(asked: NLIPToolCall, reason: str) -> None:  # MW-18
    router = NLIPRouter(ToolManager([add, failing]))
    [(status, result, error)] = results(await routed(router, request(asked)))
    assert (status, result) == ("error", None)
    assert reason in (error or "")


@pytest.mark.parametrize("name", ["lookup", "read_file"])
async def test_a_result_with_a_key_error_is_not_a_failure(name: str) -> None:  # MW-18
    def lookup() -> dict[str, str]:
        return {"error": "this is what the page says"}

    manager = ToolManager()
    manager.add_tool_function(lookup, name=name)
    [(status, result, _)] = results(await routed(NLIPRouter(manager), request(call(name))))
    assert (status, result) == ("success", {"error": "this is what the page says"})


async def test_mcp_results_are_errors_if_the_server_says_so() -> None:  # MW-18, MW-26
    import mcp.types

    translator = MCPTranslator()
    failed = mcp.types.CallToolResult(content=[mcp.types.TextContent(type="text", text="no such file")], is_error=True)
    found = await translator.native_to_nlip_result("1", "mcp__a__b", failed)
    assert (found.status, found.error) == ("error", "no such file")
    image = mcp.types.ImageContent(type="image", data="aGk=", mime_type="image/png")
    good = mcp.types.CallToolResult(content=[image], structured_content={"sum": 3})
    found = await translator.native_to_nlip_result("1", "mcp__a__b", good)
    assert found.status == "success"
    assert found.result[0]["mimeType"] == "image/png"
    assert found.metadata["structuredContent"] == {"sum": 3}
    plain = await translator.native_to_nlip_result("1", "mcp__a__b", {"error": "a field of the result"})
    assert plain.status == "success"


async def test_the_timeout_of_the_message_bounds_its_calls() -> None:  # MW-19
    async def forever() -> str:
        await asyncio.Event().wait()
        return ""

    router = NLIPRouter(ToolManager([forever]))
    [(status, _, error)] = results(await routed(router, request(call("forever"), timeout=0.05)))
    assert status == "error"
    assert "did not answer" in (error or "")
    quick = NLIPRouter(ToolManager([forever]), config={"router_config": {"default_timeout": 0.05}})  # MW-57
    [(status, _, error)] = results(await routed(quick, request(call("forever"))))
    assert status == "error"
    assert "within 0.05 s" in (error or "")


@pytest.mark.parametrize(("repeatable", "runs"), [(True, 3), (False, 1)])
async def test_only_repeatable_tools_are_retried(repeatable: bool, runs: int) -> None:  # MW-19
    count = 0

    @tool(repeatable=repeatable)
    def flaky() -> str:
        nonlocal count
        count += 1
        raise RuntimeError("again")

    await routed(NLIPRouter(ToolManager([flaky])), request(call("flaky"), retry_count=2))
    assert count == runs


async def test_confirmation_is_asked_refused_and_left_pending() -> None:  # MW-20, G-9
    router = NLIPRouter(ToolManager([add]))
    asked = request(call("add", confirm=True, a=1))
    [pending] = await routed(router, asked)
    assert pending.content["status"] == "pending"
    assert pending.tool_results is not None
    assert "metadata.confirmed: ['c1']" in pending.tool_results[0].metadata["confirm"]
    again = request(call("add", confirm=True, a=1), metadata={"confirmed": ["c1"]})
    assert results(await routed(router, again)) == [("success", 2, None)]

    async def answer(question: Any) -> Message:
        return Message.text("no")

    turn = Turn(Message.text(""), ask_back=answer)
    [(status, _, error)] = results(await routed(router, asked, turn))
    assert (status, error) == ("error", "refused by the caller")


async def test_rights_are_asked_before_each_call_and_calls_are_noted() -> None:  # MW-21
    class Files:
        async def execute_tool(self, tool_name: str, parameters: dict[str, Any], **options: Any) -> Any:
            return "read"

    def permit(*, tool: str = "", skill: str = "") -> None:
        if tool not in ("read_note", "mcp__web__get"):
            raise Forbidden(f"no right to {tool}")

    turn = Turn(Message.text(""), permit=permit, used=[])
    router = NLIPRouter(Files())
    names = ("mcp__files__read_note", "mcp__web__get", "mcp__files__drop")  # by its own name, by the full one, neither
    found = results(await routed(router, request(*(call(name, name) for name in names)), turn))
    assert [status for status, _, _ in found] == ["success", "success", "error"]
    assert turn.used == ["mcp__files__read_note", "mcp__web__get"]
    assert turn.meter.calls == 2


async def test_what_a_tool_says_passes_the_filters() -> None:  # MW-22
    async def screen(message: Message) -> Message:
        return Message.text(message.text.replace("secret", "[removed]"))

    turn = Turn(Message.text(""), screen=screen)

    def leak() -> str:
        return "the secret word"

    assert results(await routed(NLIPRouter(ToolManager([leak])), request(call("leak")), turn)) == [
        ("success", "the [removed] word", None)
    ]


async def test_nothing_is_left_behind_by_finished_calls() -> None:  # MW-23
    router = NLIPRouter(ToolManager([add]), config={"tokens": {"auto_generate_sessions": False}})
    translators = dict(router.translators)
    before = messages_in_memory()
    for _ in range(3000):
        await routed(router, request(call("add", a=1), session=None))
    assert router._pending_requests == {}
    assert router.state_manager._sessions == {}
    assert router.token_tracker._sessions == {}
    assert router.translators == translators
    assert messages_in_memory() < before + 50


def messages_in_memory() -> int:
    gc.collect()
    return sum(type(item) is NLIPMessage for item in gc.get_objects())


async def test_a_builtin_name_means_the_builtin_tool(caplog: pytest.LogCaptureFixture) -> None:  # MW-15
    manager = ToolManager()
    manager.add_tool_function(add, name="vote")
    router = NLIPRouter(manager)
    assert "The tool vote has the name of a builtin tool" in caplog.text
    assert await router._detect_tool_protocol("vote") == "builtin"
    for name in ("edit_file", "read_file", "write_file", "search_files", "list_directory", "new_answer"):
        assert await router._detect_tool_protocol(name) == "builtin"


KINDS = [("mcp_enabled", "mcp__a__b", "mcp"), ("custom_tools_enabled", "add", "custom")]
KINDS.append(("builtin_tools_enabled", "read_file", "builtin"))


@pytest.mark.parametrize(("key", "name", "kind"), KINDS)
@pytest.mark.parametrize("enabled", [True, False])
async def test_a_kind_of_tools_that_is_off_has_no_translator(
    key: str, name: str, kind: str, enabled: bool
) -> None:  # MW-55, MW-14
    class Anything:
        async def execute_tool(self, tool_name: str, parameters: dict[str, Any], **options: Any) -> Any:
            return "ran"

    router = NLIPRouter(Anything(), config={"translation": {key: enabled}})
    [response] = await routed(router, request(call(name)))
    if enabled:
        assert response.content == {"status": "success", "result": "ran"}
    else:
        assert response.control.message_type == "error"
        assert response.content["error"] == f"No translator for protocol: {kind}"


TRACKED = {"enable_message_tracking": True, "enable_state_management": True}


@pytest.mark.parametrize("off", [None, "enable_message_tracking", "enable_state_management"])
async def test_sessions_are_kept_as_configured(off: str | None) -> None:  # MW-54
    config = {"router": {key: key != off for key in TRACKED}}
    router = NLIPRouter(ToolManager([add]), config=config)
    [response] = await routed(router, request(call("add", a=1)))
    kept = await router.state_manager.get_session_context("s")
    assert (kept is not None) == (off is None)
    assert (response.token.session_id is not None) == (off != "enable_state_management")


@pytest.mark.parametrize("on", [True, False])
async def test_token_keys_act(on: bool) -> None:  # MW-56
    router = NLIPRouter(
        ToolManager([add]), config={"tokens": {"auto_generate_sessions": on, "track_conversation_turns": on}}
    )
    [response] = await routed(router, request(call("add", a=1), session=None))
    assert (response.token.session_id is not None) == on
    assert response.token.conversation_turn == (5 if on else 4)


def test_an_unknown_key_is_named_with_the_nearest() -> None:  # MW-59
    with pytest.raises(ConfigError, match=r"unknown key nlip_config\.translations: did you mean translation\?"):
        NLIPRouter(ToolManager(), config={"translations": {}})


async def test_a_stream_becomes_pieces_and_a_whole() -> None:  # MW-17, G-5
    async def chunks() -> AsyncIterator[StreamChunk]:
        yield StreamChunk("content", "One. ")
        yield StreamChunk("content", "Two")
        yield StreamChunk("tool_calls", tool_calls=[{"id": "1", "function": {"name": "add", "arguments": '{"a": 1}'}}])
        yield StreamChunk("content", ".")

    router = NLIPRouter(ToolManager())
    found = [item.content async for item in router.stream_nlip_response(chunks(), request())]
    assert [item.get("content") for item in found] == ["One. ", "Two", None, ".", "One. Two."]
    assert found[2]["tool_calls"] == [
        {"tool_id": "1", "tool_name": "add", "parameters": {"a": 1}, "require_confirmation": False}
    ]
    assert found[-1] == {"partial": False, "content": "One. Two.", "complete": True}


@pytest.mark.parametrize(
    ("own", "pieces"),
    [
        ({}, ["On", "e. Tw", "o."]),
        ({"buffer_partial_responses": True}, ["One. Two."]),
        ({"enable_streaming": False}, []),
    ],
)
async def test_streaming_keys_act(own: dict[str, bool], pieces: list[str]) -> None:  # MW-57
    async def chunks() -> AsyncIterator[StreamChunk]:
        for piece in ("On", "e. Tw", "o."):
            yield StreamChunk("content", piece)

    router = NLIPRouter(ToolManager(), config={"router_config": own})
    found = [item.content async for item in router.stream_nlip_response(chunks(), request())]
    assert [item["content"] for item in found if item["partial"]] == pieces
    assert found[-1]["content"] == "One. Two."


async def test_a_long_result_streams() -> None:  # MW-62
    seen = 0

    async def pieces() -> AsyncIterator[str]:
        for _ in range(50):
            yield "x" * 100_000

    class Streaming:
        async def execute_tool(self, tool_name: str, parameters: dict[str, Any], **options: Any) -> Any:
            return pieces()

    async for response in NLIPRouter(Streaming()).route_message(request(call("long"))):
        seen += len(response.content.get("content") or "")
    assert seen == 5_000_000
    assert response.content["status"] == "success"


# -- plugins (MW-24, G-6) -------------------------------------------------------------------------------


async def test_handlers_come_before_the_router() -> None:
    async def refuse(message: NLIPMessage, router: NLIPRouter) -> AsyncIterator[NLIPResponse]:
        yield router._create_error_response(message, "not today")

    router = NLIPRouter(ToolManager([add]))
    router.message_handler.register("tool:add", refuse)
    [response] = await routed(router, request(call("add", a=1)))
    assert response.content["error"] == "not today"
    with pytest.raises(ConfigError, match="expected request, response, notification, error or tool:NAME"):
        router.message_handler.register("shout", refuse)


class Broken:
    """An entry point whose module is missing."""

    name = "broken"
    value = "no_such_module:thing"

    def load(self) -> Any:
        raise ImportError("No module named 'no_such_module'")


class Shouting:
    name = "shout"
    value = "here:Translator"

    def load(self) -> Any:
        return CustomToolTranslator


async def test_plugins_join_and_a_broken_one_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    found = {"sabir.massgen.translators": [Shouting(), Broken()], "sabir.massgen.handlers": [Broken()]}
    monkeypatch.setattr(plugins, "entry_points", lambda group: found.get(group, []))
    caplog.set_level(logging.WARNING)
    router = NLIPRouter(ToolManager([add]))
    assert set(router.translators) == {"mcp", "custom", "builtin", "shout"}
    assert caplog.text.count("Plugin broken is left out") == 2
    assert await router._detect_tool_protocol("shout__x") == "shout"
    assert NLIPMessageHandler().find(request()) is None


async def test_an_agent_is_a_tool() -> None:  # MW-27
    from sabir import agent

    @agent(name="greeter")
    async def greeter(turn: Turn) -> str:
        return f"Hello, {turn.text}"

    manager = ToolManager([greeter, Tool("plain", "", {"type": "object"}, _nothing)])
    assert manager.list()[0]["name"] == "greeter"
    [(status, result, _)] = results(await routed(NLIPRouter(manager), request(call("greeter", text="Ann"))))
    assert (status, result) == ("success", "Hello, Ann")
    assert "plain" in manager
    with pytest.raises(ConfigError, match="two tools are called 'greeter'"):
        manager.add_tool_function(greeter)


async def _nothing(turn: Turn, arguments: Any) -> tuple[()]:
    return ()


async def test_eight_tools_run_at_once() -> None:  # MW-62
    running, all_run = 0, asyncio.Event()

    async def meets() -> str:
        """Waits for seven others."""
        nonlocal running
        running += 1
        if running == 8:
            all_run.set()
        await asyncio.wait_for(all_run.wait(), DEADLINE)
        return "met"

    found = await routed(NLIPRouter(ToolManager([meets])), request(*(call("meets", f"c{n}") for n in range(8))))
    assert [(status, result) for status, result, _ in results(found)] == [("success", "met")] * 8


async def test_a_tool_is_given_the_turn_of_its_caller() -> None:
    seen: list[Turn] = []

    async def look(turn: Turn) -> str:
        seen.append(turn)
        return "seen"

    turn = Turn(Message.text("x"))
    assert results(await routed(NLIPRouter(ToolManager([look])), request(call("look")), turn)) == [
        ("success", "seen", None)
    ]
    assert seen == [turn]
