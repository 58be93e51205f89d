"""Confirmed agreements take effect: streaming, keepers, policies, anonymity, sizes, vocabulary.

Defects of issue 11, item A 2 and 3, B 6 and 7, C 10a.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from websockets.asyncio.client import ClientConnection, connect

from agents.test_concierge import Talk
from conftest import Serve
from deadline import DEADLINE
from sabir.agent import agent
from sabir.agents.back_level import BackLevel
from sabir.agents.confirm import Confirm
from sabir.agents.ensemble import Ensemble
from sabir.agents.federation import Federation
from sabir.agents.group import AgentGroup
from sabir.agents.llm import LLM
from sabir.agents.llm.mock import ScriptedModel
from sabir.card import Card, Policy
from sabir.config.build import gateway_of
from sabir.config.load import settings_of
from sabir.gateway.gateway import Gateway
from sabir.guard.build import GuardSettings
from sabir.guard.rights import Rule
from sabir.massgen.agent_config import AgentConfig
from sabir.massgen.chat_agent import ConfigurableAgent
from sabir.massgen.orchestrator import Orchestrator
from sabir.message import Message, Part, binary_part, json_part, text_part, token_part
from sabir.protocols.nlip.wire import json as nlip
from sabir.tools import McpTools, Tool, Toolbox, agent_tool
from sabir.tools.router import Router
from sabir.turn import Turn


@pytest.fixture
async def http() -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(trust_env=False) as client:
        yield client


@agent(name="echo")
async def echo(turn: Turn) -> str:
    return turn.text


@agent(name="teller")
async def teller(turn: Turn) -> Any:
    yield "Once "
    yield "upon a time"


@agent(name="careful", policies=(Policy("privacy", "I keep notes.", required=True),))
async def careful(turn: Turn) -> str:
    return "at your service"


# -- policies and anonymity where they are asked for (item 2) ---------------------------------------


@pytest.mark.parametrize(
    ("place", "text"),
    [("/nlip/echo", None), ("/nlip/careful", "To ask an agent, first accept: privacy."),
     ("/nlip", "To ask careful, first accept: privacy.")],
)  # fmt: skip
async def test_a_policy_is_shown_as_required_only_where_it_is(
    serve: Serve, home: Path, http: httpx2.AsyncClient, place: str, text: str | None
) -> None:
    talk = Talk(http, serve(Gateway(echo, careful, home=home)).url + place)
    reply = await talk.control("What are your policies?")
    lines = [line for line in reply.text.split("\n") if "first accept" in line]
    assert lines == ([text] if text else [])
    part = reply.labelled("policy")
    assert part is not None and part.value["privacy"]["require"] is (text is not None)
    assert part.value["privacy"].get("agents") == (["careful"] if place == "/nlip" else None)


class Passing:
    """An agent that passes questions on, and is asked before anonymity is agreed on."""

    def __init__(self, name: str, why_not: str | None) -> None:
        self.card = Card(name)
        self.why_not = why_not
        self.asked = 0

    async def __call__(self, turn: Turn, /) -> Any:
        async for event in echo(turn):
            yield event

    async def propose_anonymous(self, conversation: str) -> str | None:
        self.asked += 1
        return self.why_not


async def test_only_agents_of_the_interaction_are_asked_for_anonymity(  # PAPER-ANON
    serve: Serve, home: Path, http: httpx2.AsyncClient
) -> None:
    willing, unwilling = Passing("willing", None), Passing("unwilling", "it must know who asks")
    group = Federation([willing, unwilling], name="group")
    url = serve(Gateway(echo, willing, unwilling, group, home=home)).url
    talk = Talk(http, f"{url}/nlip/willing")
    assert (await talk.send_json("anonymous", {"propose": True}))["accepted"] is True
    assert (willing.asked, unwilling.asked) == (1, 0)
    assert (await talk.say("hi")).text == "hi"
    talk.url = f"{url}/nlip/unwilling"  # it was not asked, so this conversation is not for it
    assert "has not agreed" in (await talk.say("hi")).text and talk.status == 403
    assert "does not agree" in (await talk.control("I want to stay anonymous")).text
    for place in ("/nlip/group", "/nlip"):
        refused = await Talk(http, url + place).send_json("anonymous", {"propose": True})
        assert "it must know who asks" in refused["refused"]


# Agents that pass questions to others, here to these two. All of them pass on whatever is asked.
TOGETHER: dict[str, Callable[[Any, Any], Any]] = {
    "federation": lambda one, other: Federation([one, other], name="both"),
    "integrator": lambda one, other: Federation([one], integrator=other, name="both"),
    "ensemble": lambda one, other: Ensemble([one, other], name="both"),
    "group": lambda one, other: AgentGroup([one, other], name="both"),
    "nested": lambda one, other: AgentGroup([Federation([one, other], name="inner")], name="both"),
}
CALLS = {**TOGETHER, "call": lambda one, other: calling("other"), "listed": lambda one, other: None}


def calling(other: str) -> Any:
    @agent(name="both")
    async def both(turn: Turn) -> str:
        return (await turn.call(other, turn.message)).text

    return both


@pytest.mark.parametrize("kind", CALLS)
async def test_a_required_policy_is_not_evaded_through_an_agent_that_passes_questions_on(
    serve: Serve, home: Path, http: httpx2.AsyncClient, kind: str
) -> None:
    came: list[str] = []

    @agent(name="other", policies=(Policy("privacy", "I keep notes.", required=True),))
    async def other(turn: Turn) -> str:
        came.append(turn.text)
        return "at your service"

    both = CALLS[kind](echo, other)
    doors = {"acl": {"groups": {"both": ["echo", "other"]}}} if both is None else {}
    gateway = Gateway(echo, other, *([both] if both is not None else ()), home=home, doors=doors)
    talk = Talk(http, f"{serve(gateway).url}/nlip/both")
    shown = (await talk.control("What are your policies?")).labelled("policy")
    assert shown is not None and shown.value["privacy"]["require"] is (kind in TOGETHER)
    refused = await talk.say("hi")
    assert came == []
    assert "before data can flow, accept" in refused.text and (talk.status == 403) is (kind != "listed")
    await talk.control("", json_part({"accept": ["privacy"], "confirmed": True}, label="policy"))
    await talk.say("hi")
    assert came and talk.status == 200


def model_with(*tools: Tool, sources: tuple[Any, ...] = ()) -> LLM:
    return LLM("both", ScriptedModel(), tools=Toolbox(tools, sources=sources))


def massgen(*agents: Any) -> ConfigurableAgent:
    return ConfigurableAgent(AgentConfig({"type": "mock", "script": ["Done."]}, "both", tools=agents))


# All that stands before other agents, or uses them as tools.
BEFORE_OTHERS: dict[str, Callable[[Any, Any], Any]] = {
    **TOGETHER,
    "integrator of a group": lambda one, other: Federation([one], integrator=AgentGroup([other]), name="both"),
    "model": lambda one, other: model_with(agent_tool(one), agent_tool(other)),
    "model in a group": lambda one, other: AgentGroup([model_with(agent_tool(one), agent_tool(other))], name="both"),
    "model with a server of tools": lambda one, other: model_with(sources=(McpTools(other, "far"),)),
    "model with final tools": lambda one, other: model_with(agent_tool(other)).with_final_tools([]),
    "router": lambda one, other: Router(other, Toolbox([agent_tool(one)])),
    "router's tool": lambda one, other: Router(one, Toolbox([agent_tool(other)])),
    "router without an agent": lambda one, other: Router(None, Toolbox([agent_tool(other)]), name="both"),
    "confirmation": lambda one, other: Confirm(AgentGroup([one, other]), parse=str, name="both"),
    "back level": lambda one, other: BackLevel(Federation([one, other]), name="both"),
    "MassGen agent": lambda one, other: massgen(one, other),
    "MassGen orchestrator": lambda one, other: Orchestrator([one, other], orchestrator_id="both"),
}


@pytest.mark.parametrize("kind", BEFORE_OTHERS)
async def test_every_agent_behind_another_is_asked_for_anonymity(  # PAPER-ANON
    serve: Serve, home: Path, http: httpx2.AsyncClient, kind: str
) -> None:
    unwilling = Passing("unwilling", "it must know who asks")
    both = BEFORE_OTHERS[kind](Passing("willing", None), unwilling)
    url = serve(Gateway(both, home=home)).url
    refused = await Talk(http, f"{url}/nlip").send_json("anonymous", {"propose": True})
    assert "it must know who asks" in refused["refused"] and unwilling.asked == 1
    unwilling.why_not = None
    assert (await Talk(http, f"{url}/nlip").send_json("anonymous", {"propose": True}))["accepted"] is True


@pytest.mark.parametrize("kind", [*TOGETHER, "listed", "MassGen orchestrator"])
async def test_composite_agents_do_not_name_members_that_the_caller_may_not_use(
    serve: Serve, home: Path, http: httpx2.AsyncClient, kind: str
) -> None:
    vault, hidden = Passing("vault", None), Passing("oubliette", None)
    both = {**BEFORE_OTHERS, **CALLS}[kind](vault, hidden)
    doors = {"acl": {"groups": {"both": ["vault", "oubliette"]}}} if both is None else {}
    guard = GuardSettings(rights=(Rule(("anonymous",), agents=("both",)),))
    gateway = Gateway(vault, hidden, *([both] if both is not None else ()), home=home, doors=doors, guard=guard)
    url = serve(gateway).url
    paths = ("/who?query=both", "/.well-known/nlip", "/a2a/both/.well-known/agent-card.json")
    shown = [(await http.get(url + path)).text for path in paths]
    shown.append(str((await Talk(http, f"{url}/nlip").control("What can you do?")).parts))
    shown.append(str(gateway.agents["both"].card.description))
    if kind == "listed":
        headers = {"accept": "text/event-stream"}
        for messagetype in (None, "notification"):
            said = nlip.encode(Message("text", "english", "hi", messagetype=messagetype))
            shown.append((await http.post(f"{url}/nlip/both", content=said, headers=headers)).text)
    assert any("both" in text for text in shown)
    assert not [text for text in shown if "vault" in text or "oubliette" in text]


# -- streaming (item 3) -----------------------------------------------------------------------------


async def heard(socket: ClientConnection, said: Message) -> tuple[list[str], Message]:
    """What comes for a message: the kinds of the messages, and the last one."""
    await socket.send(nlip.encode(said).decode())
    kinds: list[str] = []
    async with asyncio.timeout(DEADLINE):
        while True:
            message = nlip.decode(str(await socket.recv()).encode())
            kinds.append(message.messagetype or "")
            if kinds[-1] != "partial":
                return kinds, message


def with_token(said: Message, reply: Message) -> Message:
    own = [part for part in reply.tokens if part.subformat == "conversation"]
    return said.with_parts((token_part(own[-1].content),))


WHOLE, PIECES = [""], ["partial", "partial", ""]
Wish = tuple[str, Any]


@pytest.mark.parametrize(
    ("wishes", "comes"),
    [([("Please stream your answers", None)], PIECES), ([("", {"on": True})], PIECES),
     ([("", {"partial": True})], PIECES),
     ([("", True)], PIECES), ([("Bitte streame deine Antworten.", None)], PIECES), ([("Do you stream?", None)], WHOLE),
     ([("", {"on": True}), ("", {"on": False})], WHOLE), ([("", True), ("Stop streaming", None)], WHOLE),
     ([("", {"on": True}), ("", {"partial": False})], WHOLE), ([("", True), ("Do you stream?", None)], PIECES)],
)  # fmt: skip
@pytest.mark.parametrize("keeps", [True, False], ids=["with-token", "without-token"])
async def test_what_is_confirmed_about_streaming_happens(
    serve: Serve, home: Path, wishes: list[Wish], comes: list[str], keeps: bool
) -> None:
    url = serve(Gateway(teller, home=home)).ws_url + "/nlip/ws/text"
    async with connect(url, proxy=None) as socket:
        kinds, reply = await heard(socket, Message.text("tell"))
        assert kinds == WHOLE
        for words, value in wishes:
            parts = [json_part(value, label="stream")] if value is not None else []
            wish = Message.text(words, messagetype="control", parts=parts)
            _, reply = await heard(socket, with_token(wish, reply) if keeps else wish)
            details = reply.labelled("stream")
            assert reply.is_control and details is not None
        said = Message.text("tell")
        kinds, _ = await heard(socket, with_token(said, reply) if keeps else said)
        assert kinds == comes


async def test_streaming_is_agreed_for_the_conversation_and_not_for_the_connection_alone(
    serve: Serve, home: Path
) -> None:
    url = serve(Gateway(teller, home=home)).ws_url + "/nlip/ws/text"
    async with connect(url, proxy=None) as socket:
        _, reply = await heard(socket, Message.text("Please stream your answers", messagetype="control"))
    async with connect(url, proxy=None) as socket:
        assert (await heard(socket, with_token(Message.text("tell"), reply)))[0] == PIECES
        assert (await heard(socket, Message.text("tell")))[0] == WHOLE


async def test_no_pieces_come_over_sse_once_only_whole_answers_are_agreed(
    serve: Serve, home: Path, http: httpx2.AsyncClient
) -> None:
    talk = Talk(http, serve(Gateway(teller, home=home)).url + "/nlip")

    async def names() -> list[str]:
        body = nlip.encode(Message.text("tell").with_parts(talk.tokens))
        answer = await http.post(talk.url, content=body, headers={"accept": "text/event-stream"})
        return [line.removeprefix("event: ") for line in answer.text.splitlines() if line.startswith("event: ")]

    assert (await names()).count("partial") == 2
    await talk.control("Stop streaming")
    assert await names() == ["message"]


# -- who keeps the context (item 3) -----------------------------------------------------------------


@agent(name="listener")
async def listener(turn: Turn) -> str:
    """Says what it heard in this conversation."""
    return " | ".join([*(past.asked.text for past in turn.conversation.turns), turn.text])


async def test_words_change_the_keeper_although_the_returned_history_comes_along(
    serve: Serve, home: Path, http: httpx2.AsyncClient
) -> None:
    talk = Talk(http, serve(Gateway(listener, home=home)).url + "/nlip")
    await talk.say("one")
    handed = (await talk.control("I will keep the context")).labelled("history")
    assert handed is not None
    reply = await talk.control("Please keep the context for me", json_part(handed.value, label="history"))
    details = reply.labelled("context")
    assert details is not None and details.value["keeper"] == "server"
    assert (await talk.say("two")).text == "one | two"


async def test_a_history_that_comes_back_is_stored_once_and_without_gaps(
    serve: Serve, home: Path, http: httpx2.AsyncClient
) -> None:
    talk = Talk(http, serve(Gateway(listener, home=home)).url + "/nlip")
    await talk.say("one")
    handed = (await talk.control("I will keep the context")).labelled("history")
    assert handed is not None
    kept = [*handed.value, {"role": "user", "said": "two"}, {"role": "agent", "said": "one | two"}]
    assert (await talk.say("two", json_part(handed.value, label="history"))).text == "one | two"
    await talk.control("Please keep the context for me", json_part(kept, label="history"))
    assert (await talk.say("three")).text == "one | two | three"


# -- federations (item 6) ---------------------------------------------------------------------------


async def test_members_of_a_federation_are_given_the_earlier_turns(
    serve: Serve, home: Path, http: httpx2.AsyncClient
) -> None:
    @agent(name="counter")
    async def counter(turn: Turn) -> str:
        return f"turn {len(turn.conversation.turns) + 1} of {turn.conversation.count + 1}"

    @agent(name="writer")
    async def writer(turn: Turn) -> str:
        return f"{len(turn.conversation.turns)}: {turn.parts[2].content}"

    inner = Federation([counter], name="inner", integrator=writer)
    talk = Talk(http, serve(Gateway(Federation([inner], name="outer"), home=home)).url + "/nlip")
    replies = [(await talk.say("go")).content for _ in range(3)]
    assert replies == ["inner: 0: turn 1 of 1", "inner: 1: turn 2 of 2", "inner: 2: turn 3 of 3"]


# -- sizes (item 7) ---------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [512, 600, 1024])
@pytest.mark.parametrize("echoed", [(), ("k" * 40,)], ids=["own-token", "peer-token-too"])
async def test_an_agreed_reply_limit_counts_the_tokens(
    serve: Serve, home: Path, http: httpx2.AsyncClient, limit: int, echoed: tuple[str, ...]
) -> None:
    @agent(name="talker")
    async def talker(turn: Turn) -> str:
        return "word " * 1000

    talk = Talk(http, serve(Gateway(talker, home=home)).url + "/nlip")
    assert (await talk.send_json("limits", {"propose": {"reply": limit}}))["agreed"] == {"reply": limit}
    parts = tuple(token_part(item, "session_peer") for item in echoed)
    body = nlip.encode(Message.text("go").with_parts((*parts, *talk.tokens)))
    answer = await http.post(talk.url, content=body)
    assert len(answer.content) <= limit
    reply = nlip.decode(answer.content)
    assert [part.content for part in reply.tokens if part.subformat == "session_peer"] == list(echoed)  # CORE-6.2
    assert reply.text.startswith("word") or limit == 512


# -- what an agent does not read (item 7) -----------------------------------------------------------

PICTURE = binary_part(b"\x89PNG", "image/png")
CODE = Part("structured", "cobol", "STOP RUN.")
UNREAD: list[tuple[str, Card, Message, str]] = [
    ("format", Card("a", reads=("text",)), Message.of(PICTURE), "I do not read binary; I read text."),
    ("format beside words", Card("a", reads=("text",)), Message.text("what is this?", parts=[PICTURE]),
     "I did not read binary; I read text."),
    ("language", Card("a", languages=("german",)), Message.of(Part("text", "finnish", "hei")),
     "I do not read finnish; I read german, english."),
    ("code", Card("a", code=("python",)), Message.of(CODE), "I do not know the language cobol."),
    ("extension", Card("a", extensions=("chess",)), Message.of(Part("generic", "poker", {"bet": 1})),
     "The extension poker is not supported here."),
]  # fmt: skip


@pytest.mark.parametrize(("card", "message", "text"), [row[1:] for row in UNREAD], ids=[row[0] for row in UNREAD])
@pytest.mark.parametrize("inside", [False, True], ids=["alone", "in-a-federation"])
async def test_an_agent_says_in_text_what_it_cannot_read(  # CORE-5.3
    serve: Serve, home: Path, http: httpx2.AsyncClient, card: Card, message: Message, text: str, inside: bool
) -> None:
    @agent(card=card)
    async def limited(turn: Turn) -> str:
        return "answered"

    members = Federation([limited, echo], name="both") if inside else limited
    talk = Talk(http, serve(Gateway(members, home=home)).url + "/nlip")
    reply = await talk.say(message)
    assert text in reply.text or any(text in json.dumps(part.value) for part in reply.parts if part.label == "sources")


async def test_what_an_agent_says_it_did_not_read_is_within_the_agreements(
    serve: Serve, home: Path, http: httpx2.AsyncClient
) -> None:
    @agent(card=Card("a", reads=("text",)))
    async def limited(turn: Turn) -> str:
        return "word " * 200

    talk = Talk(http, serve(Gateway(limited, home=home)).url + "/nlip")
    await talk.send_json("limits", {"propose": {"reply": 600}})
    for words in ("go", "go on"):
        body = nlip.encode(Message.text(words, parts=[PICTURE]).with_parts(tuple(talk.tokens)))
        assert len((await http.post(talk.url, content=body)).content) <= 600


@pytest.mark.parametrize("at", [10**400, -(10**400), "0001-01-01T00:00:00", "9999-12-31T23:59:59+00:00", True, "soon"])
async def test_a_returned_history_may_have_any_times(
    serve: Serve, home: Path, http: httpx2.AsyncClient, at: object
) -> None:
    @agent(name="counter", remembers=True)
    async def counter(turn: Turn) -> str:
        return f"{len(turn.conversation.turns)} turns before"

    talk = Talk(http, serve(Gateway(counter, home=home)).url + "/nlip")
    await talk.send_json("context", {"keeper": "client"})
    history = json_part(
        {"turns": [{"role": "user", "said": "a"}, {"role": "agent", "said": "b", "at": at}]}, label="history"
    )
    assert (await talk.say(Message.text("go", parts=[history]))).text == "1 turns before"


def test_an_agent_that_reads_everything_leaves_nothing_out() -> None:
    assert Card("a").leaves_out(Message.of(PICTURE, CODE)) is None
    assert Card("a", reads=("text",)).leaves_out(Message.text("words", parts=[text_part("more")])) is None


# -- nlip_swarm (item 7) ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words", ["What are your NLIP Capabilities?", "Describe your NLIP Capabilities.", "what are your nlip capabilities"]
)
async def test_nlip_swarm_is_answered_in_lines_that_it_reads(
    serve: Serve, home: Path, http: httpx2.AsyncClient, words: str
) -> None:
    url = serve(Gateway(echo, careful, teller, home=home)).url
    for place, name in (("/nlip", "echo"), ("/nlip/teller", "teller")):
        lines = (await Talk(http, url + place).control(words)).text.split("\n")
        assert lines[0] == f"AGENT:{name}"
        assert all(line.startswith("CAP:") and line[4:] for line in lines[1:])
        assert f"CAP:{name}" in lines[1]


# -- a limited vocabulary (item 10a) ----------------------------------------------------------------


def saying(words: str) -> Callable[[Turn], Any]:
    @agent(name="said")
    async def said(turn: Turn) -> Any:
        for piece in words.split("|"):
            yield piece

    return said


@pytest.mark.parametrize(
    ("says", "comes"),
    [("Yes, it is|, I think.", "yes"), ("no", "no"), ("The answer is yes.", "yes"), ("NO!", "NO!"),
     ("I would not say yes.", ""), ("It depends: yes or no.", ""), ("Perhaps.", ""), ("Nobody knows", "")],
)  # fmt: skip
@pytest.mark.parametrize(
    "wish",
    ["Answer only with yes or no.", json_part({"words": ["yes", "no"]}, label="vocabulary")],
    ids=["words", "part"],
)
async def test_replies_have_the_agreed_words_only(
    serve: Serve, home: Path, http: httpx2.AsyncClient, says: str, comes: str, wish: str | Part
) -> None:
    talk = Talk(http, serve(Gateway(saying(says), home=home)).url + "/nlip")
    agreed = await (talk.control(wish) if isinstance(wish, str) else talk.control("", wish))
    assert agreed.text == "From now on I answer only with: yes, no."
    reply = await talk.say("Is it?", accept="application/json")
    assert reply.text == comes
    details = reply.labelled("vocabulary")
    assert (details is not None and details.value["unmatched"]) is (comes == "")
    assert (await talk.send_json("vocabulary", {"words": []})) == {"words": []}
    assert (await talk.say("Is it?")).text == says.replace("|", "")


# -- control that does not say so (item 10a) --------------------------------------------------------

INFERRED = ["Please limit messages to 2,000 bytes", "What are your limits?", "How long do you keep our conversation?",
            "Bitte begrenze Nachrichten auf 2.000 Bytes.", "Please stream your answers"]  # fmt: skip
NOT_INFERRED = ["Do not limit messages to 2,000 bytes.", "How long is the Nile?", "What are the limits of knowledge?",
                "If I erase this conversation, what is lost?", "Tell me about privacy policies in hospitals",
                "Translate: Erase this conversation.", "What happens if I delete our chat?",
                "Was passiert, wenn ich diese Unterhaltung lösche?", "¿Qué pasa si borro esta conversación?",
                "Que se passe-t-il si j'efface cette conversation ?"]  # fmt: skip


@pytest.mark.parametrize("said", [*INFERRED, *NOT_INFERRED])
@pytest.mark.parametrize("infers", [False, True], ids=["off", "on"])
async def test_control_is_inferred_only_where_that_is_switched_on_and_clear(
    serve: Serve, home: Path, http: httpx2.AsyncClient, said: str, infers: bool
) -> None:
    url = serve(Gateway(echo, home=home, infer_control=infers)).url + "/nlip"
    answer = nlip.decode((await http.post(url, content=nlip.encode(Message.text(said)))).content)
    assert answer.is_control is (infers and said in INFERRED)
    assert (answer.text == said) is not answer.is_control


async def test_an_answer_to_an_agents_question_is_never_inferred_to_be_control(
    serve: Serve, home: Path, http: httpx2.AsyncClient
) -> None:
    @agent(name="asker")
    async def asker(turn: Turn) -> str:
        return f"you said: {(await turn.ask('What shall I write?')).text}"

    talk = Talk(http, serve(Gateway(asker, home=home, infer_control=True)).url + "/nlip")
    assert (await talk.say("write")).text == "What shall I write?"
    assert (await talk.say("What are your limits?")).text == "you said: What are your limits?"


@pytest.mark.parametrize("values", [{}, {"infer_control": True}], ids=["by-default", "switched-on"])
def test_inferring_control_is_a_setting_that_is_off_by_default(home: Path, values: dict[str, Any]) -> None:
    settings = settings_of({"home": str(home), "agents": [{"id": "echo", "use": "echo"}], **values})
    gateway = gateway_of(settings)
    assert (gateway.exchange.infer is not None) is bool(values)
