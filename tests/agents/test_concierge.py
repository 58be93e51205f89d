"""Control over HTTP: what the concierge answers, and that what is agreed holds from then on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from conftest import Serve, Served
from deadline import DEADLINE
from sabir.agent import Agent, agent
from sabir.agents.control.intents import Wish
from sabir.agents.echo import echo
from sabir.card import Policy
from sabir.gateway.gateway import Gateway
from sabir.message import Message, Part, json_part, location_part, token_part
from sabir.protocols.nlip.peer.websocket import NlipWsPeer
from sabir.protocols.nlip.wire import json as nlip
from sabir.turn import Turn


@pytest.fixture
def seen() -> list[Turn]:
    return []


@pytest.fixture
def listener(seen: list[Turn]) -> Agent:
    @agent(name="listener", description="Says what it knows of the talk")
    async def listener(turn: Turn) -> str:
        seen.append(turn)
        return " | ".join([*(past.asked.text for past in turn.conversation.turns), turn.text])

    return listener


@agent(name="talker")
async def talker(turn: Turn) -> Message:
    """Answers with much."""
    return Message.text("word " * 1000).with_part(json_part({"a": 1}, label="data"))


@pytest.fixture
def careful(seen: list[Turn]) -> Agent:
    @agent(name="careful", policies=(Policy("privacy", "I keep notes.", {"jurisdiction": "EU"}, required=True),))
    async def careful(turn: Turn) -> str:
        seen.append(turn)
        return "at your service"

    return careful


class Talk:
    def __init__(self, http: httpx2.AsyncClient, url: str) -> None:
        self.http, self.url = http, url
        self.tokens: tuple[Part, ...] = ()
        self.status = 0

    async def say(self, said: str | Message, *parts: Part, control: bool = False, **headers: str) -> Message:
        message = Message.text(said) if isinstance(said, str) else said
        message = message.with_parts((*parts, *self.tokens)).with_type("control" if control else None)
        answer = await self.http.post(self.url, content=nlip.encode(message), headers=headers)
        self.status = answer.status_code
        reply = nlip.decode(answer.content)
        if control:
            assert reply.is_control  # CORE-6.3
        own = [part for part in reply.tokens if part.subformat == "conversation"]
        if own:
            self.tokens = (token_part(own[-1].content),)
        return reply.without_tokens()

    async def control(self, said: str, *parts: Part) -> Message:
        return await self.say(said, *parts, control=True)

    async def confirmed(self, said: str, *parts: Part) -> Message:
        """A wish that needs a confirmation, and the answer to its "yes"."""
        asked = await self.control(said, *parts)
        assert asked.labelled("question") is not None and asked.text.endswith("Reply yes to confirm.")
        return await self.control("yes")

    async def send_json(self, label: str, value: Any) -> Any:
        """A wish in JSON; what the part of that label answers."""
        reply = await self.control("", json_part(value, label=label))
        part = reply.labelled(label)
        assert part is not None, reply
        return part.value


@pytest.fixture
def served(serve: Serve, home: Path, listener: Agent, careful: Agent) -> Served:
    return serve(Gateway(listener, talker, careful, home=home))


@pytest.fixture
async def http() -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(trust_env=False) as client:
        yield client


@pytest.fixture
def talk(http: httpx2.AsyncClient, served: Served) -> Talk:
    return Talk(http, f"{served.url}/nlip/listener")


# -- what is answered -----------------------------------------------------------------------------


async def test_capabilities_are_listed_in_text_and_json(talk: Talk) -> None:  # XSPEC-cap, D-29
    reply = await talk.control("What can you do?")
    details = reply.labelled("capabilities")
    assert "listener" in reply.text and details is not None
    assert {card["name"] for card in details.value["agents"]} == {"listener", "talker", "careful"}
    assert "ECMA-430:2025" in details.value["editions"]


async def test_an_agent_without_a_description_is_listed_by_its_name_alone(
    serve: Serve, home: Path, http: httpx2.AsyncClient
) -> None:
    @agent
    async def barista(turn: Turn) -> str:
        return "an espresso"

    reply = await Talk(http, serve(Gateway(barista, home=home)).url + "/nlip").control("What can you do?")
    assert reply.text.startswith("Agents here: barista. ")


async def test_the_words_of_nlip_swarm_are_answered_in_its_form(talk: Talk) -> None:  # XSPEC-cap
    lines = (await talk.control("Describe your NLIP Capabilities.")).text.split("\n")
    assert lines[0] == "AGENT:listener"
    assert "CAP:listener: Says what it knows of the talk" in lines


async def test_an_unknown_request_is_answered_with_what_is_supported(talk: Talk) -> None:
    reply = await talk.control("gobbledygook")
    assert talk.status == 200
    assert reply.text.startswith("I did not understand this control message.")
    topics = reply.labelled("control")
    assert topics is not None and "limits" in topics.value["topics"]


async def test_ethics_security_and_identity_are_answered(talk: Talk) -> None:  # SEC-P1.3
    ethics = await talk.control("What is your ethics statement?")
    assert "ethics" in ethics.text.lower() and ethics.labelled("ethics") is not None
    report = await talk.control("Which ECMA-434 profile?")
    details = report.labelled("security")
    assert details is not None and details.value["standard"] == "ECMA-434:2025"
    assert all(name in report.text for name in details.value["holds"])
    assert (await talk.send_json("authentication", {}))["known"] is False


async def test_control_never_reaches_the_agent_nor_its_context(talk: Talk, seen: list[Turn]) -> None:  # PAPER-CDS
    await talk.say("one")
    await talk.control("What are your limits?")
    assert (await talk.say("two")).text == "one | two"
    assert len(seen) == 2


# -- policies -------------------------------------------------------------------------------------


async def test_no_data_reaches_the_agent_before_its_policy_is_accepted(
    http: httpx2.AsyncClient, served: Served, seen: list[Turn]
) -> None:  # TR-7.1.5.1
    talk = Talk(http, f"{served.url}/nlip/careful")
    refused = await talk.say("my secret")
    assert talk.status == 403 and "privacy" in refused.text and refused.is_control
    assert seen == []
    offered = await talk.send_json("policy", {})
    assert offered["privacy"]["require"] is True and offered["privacy"]["accept"] is False
    await talk.say("my secret again")
    assert seen == []
    accepted = await talk.confirmed("I accept your privacy policy.")
    assert accepted.text.startswith("You have accepted: privacy.")
    assert (await talk.say("hello")).text == "at your service"
    stranger = Talk(http, f"{served.url}/nlip/careful")
    await stranger.say("hello")
    assert stranger.status == 403 and len(seen) == 1


async def test_demands_that_cannot_be_met_are_refused(http: httpx2.AsyncClient, served: Served) -> None:  # TR-7.1.5.2
    talk = Talk(http, f"{served.url}/nlip/careful")
    answer = await talk.send_json(
        "policy", {"privacy": {"require": {"jurisdiction": "EU"}}, "accept": ["privacy"], "confirmed": True}
    )
    assert "refused" not in answer
    answer = await talk.send_json("policy", {"regulatory": {"require": {"jurisdiction": "Mars"}}, "accept": ["*"]})
    assert answer["refused"] == ["regulatory.jurisdiction = Mars"]
    assert answer["regulatory"]["accept"] is False


async def test_a_withheld_attribute_does_not_reach_the_agent(talk: Talk, seen: list[Turn]) -> None:  # TR-7.1.5.3
    await talk.send_json("policy", {"attributes": {"withhold": ["location"]}})
    await talk.say("where am I?", location_part(47.37, 8.54))
    assert [part.format for part in seen[0].parts] == ["text"]


# -- limits ---------------------------------------------------------------------------------------


async def test_limits_negotiated_down_hold_for_what_comes_in(talk: Talk, seen: list[Turn]) -> None:  # TR-7.3.2
    answer = await talk.send_json("limits", {"propose": {"body": 300, "submessages": 4}})
    assert answer["agreed"] == {"body": 300, "submessages": 4}
    assert (await talk.say("x" * 100)).text.endswith("x")
    await talk.say("x" * 400)
    assert talk.status == 413
    await talk.say("x", *[json_part(1)] * 5)
    assert talk.status == 413
    assert len(seen) == 1


async def test_limits_negotiated_down_hold_for_what_goes_out(http: httpx2.AsyncClient, served: Served) -> None:
    talk = Talk(http, f"{served.url}/nlip/talker")
    whole = await talk.say("go")
    assert (await talk.control("Keep your replies under 1 KB")).text.startswith("Agreed from now on: reply 1024.")
    cut = await talk.say("go")
    assert len(nlip.encode(cut)) <= 1024
    assert cut.text.startswith("word word") and whole.text.startswith(cut.text)
    link = cut.labelled("download")
    assert link is not None  # the whole of it is fetched
    assert nlip.decode((await http.get(link.content)).content) == whole


async def test_a_rate_that_was_agreed_on_holds(talk: Talk) -> None:
    await talk.send_json("limits", {"propose": {"rate_per_minute": 2}})
    statuses = []
    for _ in range(3):
        await talk.say("hi")
        statuses.append(talk.status)
    assert statuses == [200, 200, 429]


async def test_more_than_the_bound_is_answered_with_the_bound(talk: Talk) -> None:
    reply = await talk.control("", json_part({"propose": {"body": 10**9, "depth": 1, "colour": 3}}, label="limits"))
    assert "body can be at most 1048576" in reply.text
    assert "depth cannot be below 4" in reply.text
    assert "colour cannot be negotiated" in reply.text


# -- context --------------------------------------------------------------------------------------


async def test_the_keeper_of_the_context_can_change_during_a_conversation(
    talk: Talk, served: Served, seen: list[Turn]
) -> None:  # TR-7.3.1, PAPER-CTX
    await talk.say("one")
    reply = await talk.control("I will keep the context from now on")
    kept = reply.labelled("history")
    assert kept is not None
    history = list(kept.value)
    assert [entry["said"] for entry in history] == ["one", "one"]
    reply = await talk.say("two", json_part(history, label="history"))
    assert reply.text == "one | two"
    history += [{"role": "user", "said": "two"}, {"role": "agent", "speaker": "listener", "said": reply.text}]
    assert (await talk.say("without")).text == "without"  # what the client does not send is not there
    stored = await served.gateway.store.turns(seen[-1].conversation.id, 10)
    assert "two" not in [past.asked.text for past in stored]  # nothing of it was kept here
    await talk.control(
        "Please keep the context for me again",
        json_part({"keeper": "server"}, label="context"),
        json_part(history, label="history"),
    )
    assert (await talk.say("three")).text.endswith("one | two | three")


async def test_the_window_is_agreed_on(talk: Talk) -> None:
    for word in ("one", "two", "three"):
        await talk.say(word)
    assert "The last 1 turns count" in (await talk.control("Use a context window of one turn")).text
    assert (await talk.say("four")).text == "three | four"
    assert (await talk.send_json("context", {"window": 10**6}))["window"] == 20


async def test_history_is_returned_with_time_and_speaker_up_to_a_horizon(talk: Talk) -> None:  # TR-7.2.2-b
    for word in ("one", "two", "three"):
        await talk.say(word)
    answer = await talk.send_json("history", {"horizon": 2})
    assert [entry["said"] for entry in answer["turns"] if entry["role"] == "user"] == ["two", "three"]
    assert {entry["speaker"] for entry in answer["turns"]} == {"anonymous", "listener"}
    assert all(entry["at"].endswith("+00:00") for entry in answer["turns"])


# -- sessions -------------------------------------------------------------------------------------


async def test_a_session_is_ended_and_the_next_message_starts_a_new_one(talk: Talk) -> None:  # WS-10
    await talk.say("one")
    assert "ended" in (await talk.control("Close this session")).text
    assert (await talk.say("two")).text == "two"


async def test_a_conversation_is_erased_on_request(talk: Talk, served: Served, seen: list[Turn]) -> None:  # SEC-P2.6
    await talk.say("my secret")
    item_id = seen[0].conversation.id
    assert "erased" in (await talk.confirmed("Erase this conversation")).text
    stored = await served.gateway.store.turns(item_id, 10)
    assert all("secret" not in past.asked.text for past in stored)


async def test_an_anonymous_caller_sees_only_the_session_of_its_token(http: httpx2.AsyncClient, served: Served) -> None:
    one, two = (Talk(http, f"{served.url}/nlip/listener") for _ in range(2))
    await one.say("hi")
    await two.say("hi")
    assert len((await one.send_json("sessions", {}))["sessions"]) == 1
    noted = await one.send_json("sessions", {"headless": True, "name": "night run"})  # TR-7.2.2-c
    assert noted["session"] == {"headless": True, "name": "night run"}
    assert (await one.send_json("sessions", {}))["sessions"][0]["headless"] is True


# -- formats --------------------------------------------------------------------------------------


async def test_a_device_that_reads_only_json_gets_only_json(
    http: httpx2.AsyncClient, served: Served
) -> None:  # DEP-BACK
    talk = Talk(http, f"{served.url}/nlip/talker")
    await talk.control("I understand only structured json")
    reply = await talk.say("go")
    assert [(part.format, part.kind) for part in reply.parts] == [("structured", "json")] * 2
    assert reply.first.value["text"].startswith("word word")


async def test_a_client_that_reads_only_text_gets_only_text(http: httpx2.AsyncClient, served: Served) -> None:
    talk = Talk(http, f"{served.url}/nlip/talker")
    await talk.control("I can only read text")
    assert [part.content for part in (await talk.say("go")).parts][1] == '{"a":1}'


# -- anonymity ------------------------------------------------------------------------------------


async def test_anonymous_mode_hides_where_the_caller_is(talk: Talk, seen: list[Turn]) -> None:  # PAPER-ANON
    await talk.say("hi")
    assert seen[0].caller.address == "127.0.0.1"
    assert (await talk.send_json("anonymous", {"propose": True}))["accepted"] is True
    await talk.say("hi again", traceparent="00-" + "a" * 32 + "-" + "b" * 16 + "-01")
    assert (seen[1].caller.address, seen[1].trace) == ("", None)
    assert (await talk.send_json("anonymous", {"propose": False}))["refused"] == "downgrade"


async def test_a_reader_of_ones_own_is_asked_when_no_rule_knows(
    serve: Serve, home: Path, http: httpx2.AsyncClient, listener: Agent
) -> None:
    from sabir.agents.control.intents import Wish

    async def reader(text: str) -> Wish | None:
        return Wish("ethics") if "moral" in text else None

    gateway = Gateway(listener, home=home)
    gateway.exchange.concierge.services.reader = reader  # type: ignore[union-attr, attr-defined]
    talk = Talk(http, f"{serve(gateway).url}/nlip")
    assert (await talk.control("What are your morals?")).labelled("ethics") is not None
    assert "did not understand" in (await talk.control("mumble")).text


async def test_the_gateways_own_policies_hold_for_every_agent(
    serve: Serve, home: Path, http: httpx2.AsyncClient, listener: Agent
) -> None:
    stated = {"kind": "retention", "text": "Kept for a day.", "required": True}
    served = serve(Gateway(listener, home=home, facts={"policies": [stated]}))
    talk = Talk(http, f"{served.url}/nlip")
    await talk.say("hi")
    assert talk.status == 403
    assert (await talk.send_json("policy", {"accept": ["retention"], "confirmed": True}))["retention"]["accept"] is True
    assert (await talk.say("hi")).text == "hi"


async def test_what_is_agreed_holds_for_an_agent_that_remembers_nothing(
    serve: Serve, home: Path, http: httpx2.AsyncClient, seen: list[Turn]
) -> None:
    @agent(name="forgetful", remembers=False, policies=(Policy("privacy", "Nothing is kept.", required=True),))
    async def forgetful(turn: Turn) -> str:
        seen.append(turn)
        return f"{turn.text} {len(turn.conversation.turns)}"

    talk = Talk(http, f"{serve(Gateway(forgetful, home=home)).url}/nlip")
    await talk.say("too early")
    assert talk.status == 403
    await talk.confirmed("I accept your privacy policy")
    await talk.send_json("limits", {"propose": {"body": 300}})
    held = talk.tokens
    assert (await talk.say("hi")).text == "hi 0"
    assert talk.tokens == held  # our token comes back in every reply (D-16)
    await talk.say("x" * 400)
    assert talk.status == 413
    assert len(seen) == 1


# -- taking back ----------------------------------------------------------------------------------


class Work:
    """An agent at work, and when it was stopped."""

    def __init__(self) -> None:
        self.started, self.stopped = threading.Event(), threading.Event()

        @agent(name="worker")
        async def worker(turn: Turn) -> str:
            if turn.text == "quick":
                return "done"
            self.started.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.stopped.set()
            return "never"

        self.agent = worker


async def until(event: threading.Event) -> None:
    assert await asyncio.to_thread(event.wait, DEADLINE)


async def test_a_running_turn_is_cancelled_by_control_over_http(
    serve: Serve, home: Path, http: httpx2.AsyncClient
) -> None:
    work = Work()
    talk = Talk(http, f"{serve(Gateway(work.agent, home=home)).url}/nlip")
    await talk.say("quick")
    other = Talk(http, talk.url)
    other.tokens = talk.tokens
    asking = asyncio.create_task(talk.say("long"))
    await until(work.started)
    reply = await other.control("Cancel")
    details = reply.labelled("cancel")
    assert details is not None and details.value == {"cancelled": True}
    assert work.stopped.is_set()
    assert "cancelled" in (await asking).text
    assert talk.status == 409
    assert (await other.control("Cancel")).labelled("cancel").value == {"cancelled": False}  # type: ignore[union-attr]
    assert (await other.say("quick")).text == "done"


async def test_a_running_turn_is_cancelled_over_the_same_websocket(serve: Serve, home: Path) -> None:
    work = Work()
    served = serve(Gateway(work.agent, home=home))
    async with NlipWsPeer(served.ws_url) as peer:
        await peer.ask("quick")
        asking = asyncio.create_task(peer.ask("long"))
        await until(work.started)
        cancelling = asyncio.create_task(peer.control("Cancel"))
        await until(work.stopped)
        answers = await asyncio.gather(asking, cancelling, return_exceptions=True)
    assert any("cancelled" in str(answer) for answer in answers)


async def test_a_stranger_takes_back_nothing_of_others(serve: Serve, home: Path, http: httpx2.AsyncClient) -> None:
    work = Work()
    talk = Talk(http, f"{serve(Gateway(work.agent, home=home)).url}/nlip")
    asking = asyncio.create_task(talk.say("long"))
    await until(work.started)
    assert (await Talk(http, talk.url).send_json("cancel", {})) == {"cancelled": False}
    assert not work.stopped.is_set()
    asking.cancel()
    await until(work.stopped)


async def test_a_custom_reader_is_asked_what_no_rule_understands(serve: Serve, home: Path) -> None:
    """D-27: rules first, another reader second."""
    heard: list[str] = []

    async def read(text: str) -> Wish | None:
        heard.append(text)
        return Wish("limits")

    url = serve(Gateway(echo, home=home, control_reader=read)).url
    ask = {"messagetype": "control", "format": "text", "subformat": "english", "content": "Quousque tandem?"}
    async with httpx2.AsyncClient() as client:
        reply = (await client.post(url + "/nlip", json=ask)).json()
    assert heard == ["Quousque tandem?"]
    assert any(part.get("label") == "limits" for part in reply["submessages"])
