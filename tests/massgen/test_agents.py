"""``AgentConfig``, ``ConfigurableAgent`` and ``Orchestrator`` of the design (MW-36 to MW-38, MW-42)."""

from __future__ import annotations

from typing import Any

import pytest

from sabir import Message, Turn, agent
from sabir.agent import reply_of
from sabir.errors import BadMessage, ConfigError
from sabir.massgen import AgentConfig, ConfigurableAgent, Orchestrator, StreamChunk
from sabir.massgen.nlip.schema import NLIPTokenField
from sabir.massgen.orchestrator import NLIPSiblings

HELLO = [{"role": "user", "content": "Hello"}]


def calling(name: str, **arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [{"name": name, "arguments": arguments}]}


def made(*script: Any, **more: Any) -> ConfigurableAgent:
    return ConfigurableAgent(AgentConfig({"type": "mock", "script": list(script)}, **more))


async def chunks(asked: ConfigurableAgent | Orchestrator, messages: Any = HELLO, **more: Any) -> list[StreamChunk]:
    return [chunk async for chunk in asked.chat(messages, **more)]


def words(found: list[StreamChunk]) -> str:
    return "".join(chunk.content for chunk in found if chunk.type == "content")


def add(a: int, b: int) -> int:
    return a + b


@pytest.mark.parametrize("nlip_mode", [False, True])
async def test_text_is_sent_once_and_tool_results_are_chunks(nlip_mode: bool) -> None:  # MW-38, G-5
    asked = made(calling("add", a=1, b=2), "It is three.", enable_nlip=True, tools=[add], agent_id="sum")
    found = await chunks(asked, nlip_mode=nlip_mode)
    assert words(found) == "It is three."
    assert [chunk.type for chunk in found if chunk.type != "content"] == ["tool_calls", "tool_result", "done"]
    [called] = [chunk for chunk in found if chunk.type == "tool_result"]
    assert (called.content, called.error, called.source) == ("3", None, "sum")
    assert called.tool_call_id
    assert all(isinstance(chunk.content, str) for chunk in found)


@pytest.mark.parametrize(("enabled", "mode", "routed"), [(True, True, 2), (True, False, 0), (False, True, 0)])
async def test_nlip_routes_only_if_both_say_so(enabled: bool, mode: bool, routed: int) -> None:  # MW-38
    asked = made(calling("add", a=1, b=2), "Three.", enable_nlip=True, tools=[add])
    router = asked._config.nlip_router
    assert router is not None
    asked._config.enable_nlip = enabled
    seen = []
    track = router._track_message

    async def tracking(message: Any) -> None:
        seen.append(message)
        await track(message)

    router._track_message = tracking  # type: ignore[method-assign]
    assert words(await chunks(asked, nlip_mode=mode)) == "Three."
    assert len(seen) == routed  # the question, and the tool call


async def test_a_token_continues_its_session() -> None:
    asked = made("One.", "Two.", enable_nlip=True)
    router = asked._config.nlip_router
    assert router is not None
    token = NLIPTokenField(session_id="mine")
    await chunks(asked, nlip_mode=True, nlip_token=token)
    await chunks(asked, nlip_mode=True, nlip_token=token)
    context = await router.state_manager.get_session_context("mine")
    assert context is not None
    assert len(context["messages"]) == 2


async def test_without_a_router_nlip_mode_is_an_error() -> None:
    asked = made("Hi", enable_nlip=True)
    asked._config.nlip_router = None
    with pytest.raises(RuntimeError, match="NLIP router not initialized"):
        await chunks(asked, nlip_mode=True)


@pytest.mark.parametrize("nlip_mode", [False, True])
async def test_a_failing_model_is_an_error_chunk(nlip_mode: bool) -> None:
    found = await chunks(made({"error": "overloaded"}, enable_nlip=True), nlip_mode=nlip_mode)
    assert any(chunk.type == "error" and "overloaded" in (chunk.error or "") for chunk in found)


@pytest.mark.parametrize("enabled", [True, False])
async def test_tools_of_a_kind_that_is_off_are_not_offered(enabled: bool) -> None:  # MW-55
    config = {"translation": {"custom_tools_enabled": enabled}}
    asked = made(calling("add", a=1, b=2), "Done.", enable_nlip=True, nlip_config=config, tools=[add])
    [called] = [chunk for chunk in await chunks(asked, nlip_mode=True) if chunk.type == "tool_result"]
    assert (called.error is None) == enabled


async def test_earlier_messages_are_the_conversation() -> None:
    asked = made("Bergen.", system_message="Be brief.")
    messages = [
        {"role": "system", "content": "Speak English."},
        {"role": "user", "content": "I live in Bergen."},
        {"role": "assistant", "content": "Nice."},
        {"role": "user", "content": [{"type": "text", "text": "Where do I live?"}]},
    ]
    await chunks(asked, messages)
    given = [(item.role, item.content) for item in asked.model.asked[0]]  # type: ignore[attr-defined]
    assert given == [
        ("system", "Be brief.\nSpeak English."),
        ("user", "I live in Bergen."),
        ("assistant", "Nice."),
        ("user", "Where do I live?"),
    ]
    with pytest.raises(BadMessage, match="a last message with role user"):
        await chunks(asked, [{"role": "system", "content": "x"}])


def test_a_configuration_without_an_id_is_named_by_its_model() -> None:  # MW-37
    config = AgentConfig(backend_params={"type": "openai", "model": "gpt-4"})
    assert config.agent_id == "openai_gpt-4"
    assert not config.enable_nlip
    assert config.nlip_router is None
    with pytest.raises(ConfigError, match=r"unknown key backend_params\.modle: did you mean model\?"):
        AgentConfig(backend_params={"type": "mock", "modle": "x"})


async def test_an_agent_of_the_design_is_an_agent_of_ours() -> None:
    asked = made(calling("add", a=2, b=2), "Four.", enable_nlip=True, tools=[add])
    assert (await reply_of(asked(Turn(Message.text("2 + 2"))))).text == "Four."


def voter(name: str, answer: str) -> ConfigurableAgent:
    def step(messages: Any) -> Any:
        text = messages[-1].content
        if "There are no answers yet." in text:
            return calling("new_answer", content=answer)
        return "Final." if "your answer won" in text else calling("vote", agent_id="agent1")

    made_agent = made(agent_id=name)
    made_agent.model._script = [step] * 9  # type: ignore[attr-defined]
    return made_agent


@pytest.mark.parametrize("nlip", [False, True])
async def test_an_orchestrator_votes_and_one_presents(nlip: bool) -> None:  # MW-42
    members = {name: voter(name, name) for name in ("ann", "bob")}
    panel = Orchestrator(members, enable_nlip=nlip, interrupt=False)
    found = await chunks(panel, nlip_mode=nlip)
    assert words(found) == "Final."
    assert {chunk.source for chunk in found if chunk.type == "agent_status"} >= {"ann", "bob"}
    assert found[-1].type == "done"
    assert all(member._config.enable_nlip == nlip for member in members.values())
    if nlip:
        assert all(member._config.nlip_router is not None for member in members.values())


async def test_an_orchestrator_and_any_agent_can_be_a_member() -> None:
    @agent(name="plain")
    async def plain(turn: Turn) -> str:
        return "VOTE: agent1" if "agent1 says" in turn.text else "Plain answer."

    inner = Orchestrator([voter("ann", "x")], orchestrator_id="inner")
    panel = Orchestrator([plain, inner], seconds=20)
    assert panel.card.name == "orchestrator"
    assert words(await chunks(panel))
    assert (await reply_of(panel(Turn(Message.text("Hi"))))).text
    with pytest.raises(ConfigError, match=r"unknown key orchestrator\.secnds: did you mean seconds\?"):
        Orchestrator([plain], secnds=3)


@pytest.mark.parametrize("coordinate", [True, False])
async def test_members_talk_by_nlip_messages_if_configured(
    coordinate: bool, monkeypatch: pytest.MonkeyPatch
) -> None:  # MW-45, MW-58
    sent: list[str] = []
    dispatch = NLIPSiblings.dispatch

    async def noting(self: NLIPSiblings, name: str, turn: Turn) -> Message:
        reply = await dispatch(self, name, turn)
        sent.extend(str(item.metadata["to"]) for item in self.sent[-1:])
        return reply

    monkeypatch.setattr(NLIPSiblings, "dispatch", noting)
    members = [made(*["Answer.", *["VOTE: agent1"] * 9], agent_id=f"m{n}") for n in range(2)]
    panel = Orchestrator(members, enable_nlip=True, nlip_config={"coordinate_via_nlip": coordinate}, present=False)
    found = await chunks(panel, nlip_mode=True)
    assert (bool(sent)) == coordinate
    assert found[-1].type in ("done", "error")
    if coordinate:
        with pytest.raises(Exception, match="there is no agent 'x'; choose from m0"):
            NLIPSiblings({"m0": members[0]}).find("x")
