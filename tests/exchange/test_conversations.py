"""Conversations over HTTP: tokens, memory, questions back, what one caller may not see of another."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import httpx2

from conftest import Serve
from deadline import DEADLINE
from sabir import Delta, Gateway, Message, Progress, Question, Turn, agent
from sabir.guard import Quotas
from sabir.message import token_part
from sabir.protocols.nlip.wire import json as nlip


@agent
async def counting(turn: Turn) -> str:
    earlier = [past.asked.text for past in turn.conversation.turns]
    return f"{len(earlier)} before: {', '.join(earlier)}"


def say(text: str, *tokens: dict[str, Any]) -> bytes:
    message: dict[str, Any] = {"format": "text", "subformat": "english", "content": text}
    if tokens:
        message["submessages"] = list(tokens)
    return json.dumps(message).encode()


def post(url: str, body: bytes, **headers: str) -> httpx2.Response:
    return httpx2.post(url, content=body, headers={"content-type": "application/json", **headers})


def tokens(response: httpx2.Response) -> list[dict[str, Any]]:
    return [part for part in response.json().get("submessages", []) if part["format"] == "token"]


def test_a_conversation_is_found_again_by_its_token(serve: Serve, home: Path) -> None:
    """D-16: our own token, plain ``conversation``, in every reply, once."""
    url = serve(Gateway(counting, home=home)).url + "/nlip"
    first = post(url, say("one"))
    [own] = tokens(first)
    assert own["subformat"] == "conversation"
    second = post(url, say("two", own))
    assert second.json()["content"] == "1 before: one"
    assert tokens(second) == [own]
    third = post(url, say("three", own))
    assert third.json()["content"] == "2 before: one, two"


def test_a_conversation_continues_after_a_restart(serve: Serve, home: Path) -> None:
    from conftest import serving

    with serving(Gateway(counting, home=home)) as before:
        own = tokens(post(before.url + "/nlip", say("one")))[0]
    after = serve(Gateway(counting, home=home))
    assert post(after.url + "/nlip", say("two", own)).json()["content"] == "1 before: one"


def test_a_peer_that_suffixes_its_tokens_gets_ours_with_a_suffix(serve: Serve, home: Path) -> None:
    url = serve(Gateway(counting, home=home)).url + "/nlip"
    theirs = {"format": "token", "subformat": "conversation_cli", "content": "c-1"}
    [echoed, own] = tokens(post(url, say("one", theirs)))
    assert echoed == theirs
    assert own["subformat"].startswith("conversation_")


def test_a_peers_own_long_token_finds_the_conversation_too(serve: Serve, home: Path) -> None:
    """D-16: a client that returns only its own token is found by it, if nobody could guess it."""
    url = serve(Gateway(counting, home=home)).url + "/nlip"
    long = {"format": "token", "subformat": "conversation_cli", "content": "5f0c9d7e1b2a4c3d8e9f0a1b2c3d4e5f"}
    post(url, say("one", long))
    assert post(url, say("two", long)).json()["content"] == "1 before: one"
    short = {"format": "token", "subformat": "conversation_cli", "content": "c-1"}
    post(url, say("one", short))
    assert post(url, say("two", short)).json()["content"] == "0 before: "


def test_a_forged_or_altered_token_opens_nothing_and_is_returned_unchanged(serve: Serve, home: Path) -> None:
    url = serve(Gateway(counting, home=home)).url + "/nlip"
    own = tokens(post(url, say("one")))[0]
    altered = {**own, "content": own["content"][:-2] + ("AA" if own["content"][-2:] != "AA" else "BB")}
    reply = post(url, say("two", altered))
    assert reply.json()["content"] == "0 before: "
    assert tokens(reply)[0] == altered
    assert tokens(reply)[1]["content"] != own["content"]


def test_tokens_never_reach_the_agent(serve: Serve, home: Path) -> None:
    """SG 3.5, core-154: a token is handled as a credential, not as content."""
    seen: list[Message] = []

    @agent
    async def spy(turn: Turn) -> str:
        seen.extend([turn.message, *(past.asked for past in turn.conversation.turns)])
        return "ok"

    url = serve(Gateway(spy, home=home)).url + "/nlip"
    secret = {"format": "token", "subformat": "authentication", "content": "s3cr3t"}
    own = tokens(post(url, say("one", secret)))[-1]
    post(url, say("two", secret, own))
    first_is_token = {**secret, "submessages": [{"format": "text", "subformat": "english", "content": "hello"}]}
    post(url, json.dumps(first_is_token).encode())
    assert len(seen) == 4
    assert all(not message.tokens for message in seen)
    assert seen[-1].text == "hello"


def test_the_same_idempotency_key_is_answered_once(serve: Serve, home: Path) -> None:
    calls: list[str] = []

    @agent
    async def once(turn: Turn) -> str:
        calls.append(turn.text)
        return f"call {len(calls)}"

    served = serve(Gateway(once, home=home))
    url = served.url + "/nlip"
    first = post(url, say("one"), **{"idempotency-key": "k-1"})
    again = post(url, say("one"), **{"idempotency-key": "k-1"})
    assert first.json()["content"] == again.json()["content"] == "call 1"
    follow_up = post(url, say("two", *tokens(again)))
    assert follow_up.json()["content"] == "call 2"


def test_an_agent_asks_back_and_the_answer_resumes_the_same_turn(serve: Serve, home: Path) -> None:
    """Where there is no back channel, the request ends with the question and the token finds the turn."""

    @agent
    async def barista(turn: Turn) -> str:
        size = await turn.ask(Question("Which size?"))
        milk = await turn.ask("With milk?")
        return f"{turn.text}: {size.text}, milk {milk.text}"

    url = serve(Gateway(barista, home=home)).url + "/nlip"
    question = post(url, say("coffee"))
    assert question.json()["content"] == "Which size?"
    labelled = [part for part in question.json()["submessages"] if part.get("label") == "question"]
    assert labelled[0]["content"] == {"text": "Which size?"}
    second = post(url, say("large", *tokens(question)))
    assert second.json()["content"] == "With milk?"
    done = post(url, say("yes", *tokens(second)))
    assert done.json()["content"] == "coffee: large, milk yes"


def test_a_question_and_its_answer_are_part_of_the_conversation(serve: Serve, home: Path) -> None:
    @agent
    async def shy(turn: Turn) -> str:
        if turn.text == "history":
            return " | ".join(f"{past.asked.text} -> {past.answered.text}" for past in turn.conversation.turns)
        name = await turn.ask("Who are you?")
        return f"Hello {name.text}"

    url = serve(Gateway(shy, home=home)).url + "/nlip"
    asked = post(url, say("hi"))
    answered = post(url, say("Ada", *tokens(asked)))
    assert answered.json()["content"] == "Hello Ada"
    history = post(url, say("history", *tokens(answered)))
    assert history.json()["content"] == "hi -> Who are you? | Ada -> Hello Ada"


def test_turns_of_one_conversation_run_one_after_the_other(serve: Serve, home: Path) -> None:
    running: list[int] = [0, 0]

    @agent
    async def slow(turn: Turn) -> str:
        running[0] += 1
        running[1] = max(running)
        await asyncio.sleep(0.02)
        running[0] -= 1
        return str(turn.conversation.count)

    url = serve(Gateway(slow, home=home)).url + "/nlip"
    own = tokens(post(url, say("first")))[0]
    counts: list[str] = []

    def ask() -> None:
        counts.append(post(url, say("next", own)).json()["content"])

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(counts) == ["1", "2", "3", "4", "5", "6"]
    assert running[1] == 1


def test_the_first_piece_arrives_before_the_agent_has_finished(serve: Serve, home: Path) -> None:
    """D-34: partial messages with numbers, then the last without the type; each with the tokens."""
    go_on = threading.Event()

    @agent
    async def teller(turn: Turn) -> Any:
        yield "Once "
        yield Progress(0.5, "half way")
        await asyncio.get_running_loop().run_in_executor(None, go_on.wait, DEADLINE)
        yield "upon a time"

    url = serve(Gateway(teller, home=home)).url + "/nlip"
    events: list[tuple[str, Message]] = []
    with httpx2.stream(
        "POST", url, content=say("tell"), headers={"accept": "text/event-stream"}, timeout=DEADLINE
    ) as got:
        assert got.headers["content-type"].startswith("text/event-stream")
        name = ""
        for line in got.iter_lines():
            if line.startswith("event: "):
                name = line.removeprefix("event: ")
            elif line.startswith("data: "):
                events.append((name, nlip.decode(line.removeprefix("data: ").encode())))
                go_on.set()
    assert [name for name, _ in events] == ["partial", "partial", "partial", "message"]
    assert events[0][1].messagetype == "partial"
    assert isinstance(nlip.event_of(events[0][1]), Delta)
    assert nlip.event_of(events[1][1]) == Progress(0.5, "half way")
    assert events[-1][1].text == "Once upon a time"
    assert events[-1][1].messagetype is None
    assert all(message.tokens for _, message in events)


def test_going_away_cancels_the_turn(serve: Serve, home: Path) -> None:
    cancelled = threading.Event()
    started = threading.Event()

    @agent
    async def patient(turn: Turn) -> str:
        started.set()
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return "late"

    served = serve(Gateway(patient, home=home))
    import socket

    body = say("wait")
    with socket.create_connection((served.host, served.port)) as raw:
        head = (
            f"POST /nlip HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        raw.sendall(head.replace("host: x", "host: 127.0.0.1").encode() + body)
        assert started.wait(DEADLINE)
    assert cancelled.wait(DEADLINE)


def test_a_turn_past_its_deadline_ends_with_504(serve: Serve, home: Path) -> None:
    @agent
    async def asleep(turn: Turn) -> str:
        await asyncio.sleep(30)
        return "late"

    url = serve(Gateway(asleep, home=home, quotas=Quotas(turn_seconds=0.05))).url + "/nlip"
    response = post(url, say("hello"))
    assert response.status_code == 504
    assert response.json()["messagetype"] == "error"
    assert "did not answer in time" in response.json()["content"]


def test_an_agent_that_raises_shows_nothing_from_inside(serve: Serve, home: Path) -> None:
    @agent
    async def broken(turn: Turn) -> str:
        raise RuntimeError("password is hunter2")

    response = post(serve(Gateway(broken, home=home)).url + "/nlip", say("hello"))
    assert response.status_code == 500
    assert "hunter2" not in response.text
    assert response.json()["messagetype"] == "error"


def test_the_stored_context_of_a_conversation_is_limited(serve: Serve, home: Path) -> None:
    url = serve(Gateway(counting, home=home, quotas=Quotas(context_bytes=200))).url + "/nlip"
    own = tokens(post(url, say("x" * 300)))[0]
    full = post(url, say("more", own))
    assert full.status_code == 413
    assert "start a new one" in full.json()["content"]
    assert own in tokens(full)


def test_open_conversations_of_a_caller_are_limited(serve: Serve, home: Path) -> None:
    url = serve(Gateway(counting, home=home, quotas=Quotas(conversations=2))).url + "/nlip"
    own = tokens(post(url, say("one")))[0]
    post(url, say("two"))
    refused = post(url, say("three"))
    assert refused.status_code == 429
    assert refused.headers["retry-after"]
    assert post(url, say("the first goes on", own)).status_code == 200


def test_a_control_message_is_answered_as_control_also_when_it_is_not_understood(serve: Serve, home: Path) -> None:
    """CORE-6.3."""
    url = serve(Gateway(counting, home=home)).url + "/nlip"
    body = json.dumps({"messagetype": "control", "format": "text", "subformat": "english", "content": "Frobnicate!"})
    reply = post(url, body.encode())
    assert reply.status_code == 200
    assert reply.json()["messagetype"] == "control"
    assert "understand" in reply.json()["content"].lower()


def test_an_agent_cannot_pass_on_tokens_of_a_third_party(serve: Serve, home: Path) -> None:
    """core-155, DEP-MID: tokens are hop by hop."""

    @agent
    async def middle(turn: Turn) -> Message:
        return Message.text("from beyond").with_part(token_part("of another hop"))

    reply = post(serve(Gateway(middle, home=home)).url + "/nlip", say("hello"))
    assert "of another hop" not in reply.text
