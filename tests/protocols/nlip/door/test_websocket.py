"""NLIP over WebSocket: what the vectors do not show. Real sockets."""

from __future__ import annotations

import asyncio
import json
import threading
import time
import zlib
from pathlib import Path
from typing import Any

import cbor2
import httpx2
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from conftest import Serve
from deadline import DEADLINE
from sabir import Gateway, Turn, agent
from sabir.agents.echo import echo
from sabir.protocols.nlip.door import subscription, websocket
from sabir.protocols.nlip.wire import cbor
from sabir.protocols.nlip.wire import json as nlip


def text(said: str, *parts: dict[str, Any], **more: Any) -> str:
    message = {"format": "text", "subformat": "english", "content": said, **more}
    return json.dumps({**message, "submessages": list(parts)} if parts else message)


def test_a_subprotocol_of_the_client_is_confirmed_and_none_is_offered(serve: Serve, home: Path) -> None:
    """D-30."""
    url = serve(Gateway(echo, home=home)).ws_url + "/nlip/ws"
    with connect(url, subprotocols=["nlip.v1"]) as socket:  # type: ignore[list-item]
        assert socket.subprotocol == "nlip.v1"
    with connect(url) as socket:
        assert socket.subprotocol is None


def test_a_ping_is_answered(serve: Serve, home: Path) -> None:
    """WS-10."""
    with connect(serve(Gateway(echo, home=home)).ws_url + "/nlip/ws") as socket:
        assert socket.ping().wait(DEADLINE)


def test_an_agent_is_reached_by_its_name(serve: Serve, home: Path) -> None:
    @agent
    async def other(turn: Turn) -> str:
        return "the other one"

    with connect(serve(Gateway(echo, other, home=home)).ws_url + "/nlip/other/ws") as socket:
        socket.send(text("hi"))
        assert "the other one" in socket.recv(timeout=DEADLINE)


def test_compressed_frames_are_read_and_a_bomb_is_not_inflated(serve: Serve, home: Path) -> None:
    """WS-9: permessage-deflate, with a cap on the inflated size."""
    url = serve(Gateway(echo, home=home)).ws_url + "/nlip/ws"
    with connect(url, compression="deflate", max_size=None) as socket:
        socket.send(cbor2.dumps({"format": "text", "subformat": "english", "content": "a" * 50_000}))
        assert len(cbor.decode(bytes(socket.recv(timeout=DEADLINE))).text) > 50_000
        bomb = b"\x00" * 50_000_000
        assert len(zlib.compress(bomb)) < 100_000
        with pytest.raises(ConnectionClosed) as closed:
            socket.send(bomb)
            socket.recv(timeout=DEADLINE)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1009


def test_repeated_invalid_frames_close_the_connection_with_1007(serve: Serve, home: Path) -> None:
    """D-33."""
    with connect(serve(Gateway(echo, home=home)).ws_url + "/nlip/ws") as socket:
        with pytest.raises(ConnectionClosed) as closed:
            for _ in range(20):
                socket.send(b"\xff")
                reply = nlip.decode(str(socket.recv(timeout=DEADLINE)).encode())
                assert reply.is_error
                assert any(part.kind == "uri" and "/nlip/ws/text" in part.content for part in reply.parts)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1007


def test_conversations_on_one_connection_do_not_wait_for_each_other(serve: Serve, home: Path) -> None:
    """TR-7.2.2-a: several at a time; each conversation in order."""
    first_may_end = threading.Event()

    @agent
    async def waiting(turn: Turn) -> str:
        if turn.text == "slow":
            await asyncio.get_running_loop().run_in_executor(None, first_may_end.wait, DEADLINE)
        return f"done {turn.text}"

    with connect(serve(Gateway(waiting, home=home)).ws_url + "/nlip/ws/text") as socket:
        one = {"format": "token", "subformat": "conversation_c", "content": "conversation-one-of-this-client"}
        two = {"format": "token", "subformat": "conversation_c", "content": "conversation-two-of-this-client"}
        socket.send(text("slow", one))
        socket.send(text("fast", two))
        assert "done fast" in socket.recv(timeout=DEADLINE)
        first_may_end.set()
        assert "done slow" in socket.recv(timeout=DEADLINE)


def test_pieces_are_sent_once_the_client_asked_for_them_by_control(serve: Serve, home: Path) -> None:
    """D-34."""

    @agent
    async def teller(turn: Turn) -> Any:
        yield "Once "
        yield "upon a time"

    with connect(serve(Gateway(teller, home=home)).ws_url + "/nlip/ws/text") as socket:
        socket.send(text("tell"))
        assert nlip.decode(str(socket.recv(timeout=DEADLINE)).encode()).text == "Once upon a time"
        wish = {"format": "structured", "subformat": "json", "content": {"partial": True}, "label": "stream"}
        socket.send(text("Please stream your answers.", wish, messagetype="control"))
        assert nlip.decode(str(socket.recv(timeout=DEADLINE)).encode()).is_control
        socket.send(text("tell"))
        got = [nlip.decode(str(socket.recv(timeout=DEADLINE)).encode()) for _ in range(3)]
        assert [message.messagetype for message in got] == ["partial", "partial", None]
        assert [message.submessages[0].label for message in got[:2]] == ["1", "2"]


def test_a_question_is_answered_on_the_same_connection(serve: Serve, home: Path) -> None:
    @agent
    async def shy(turn: Turn) -> str:
        name = await turn.ask("Who are you?")
        return f"Hello {name.text}"

    with connect(serve(Gateway(shy, home=home)).ws_url + "/nlip/ws/text") as socket:
        socket.send(text("hi"))
        question = json.loads(socket.recv(timeout=DEADLINE))
        assert question["content"] == "Who are you?"
        token = next(part for part in question["submessages"] if part["format"] == "token")
        socket.send(text("Ada", token))
        assert json.loads(socket.recv(timeout=DEADLINE))["content"] == "Hello Ada"


def test_any_number_of_questions_wait_without_holding_up_their_answers(
    serve: Serve, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(websocket, "MAX_UNDER_WAY", 3)

    @agent
    async def shy(turn: Turn) -> str:
        return f"Hello {(await turn.ask('Who are you?')).text}"

    with connect(serve(Gateway(shy, home=home)).ws_url + "/nlip/ws/text") as socket:
        questions = []
        for _ in range(5):
            socket.send(text("hi"))
            questions.append(json.loads(socket.recv(timeout=DEADLINE)))
        socket.send(json.dumps({"batch": [json.loads(text("hi")), json.loads(text("hi"))]}))
        questions += json.loads(socket.recv(timeout=DEADLINE))["batch"]
        for number, question in enumerate(questions):
            assert question["content"] == "Who are you?"
            token = next(part for part in question["submessages"] if part["format"] == "token")
            socket.send(text(f"Ada {number}", token))
            assert json.loads(socket.recv(timeout=DEADLINE))["content"] == f"Hello Ada {number}"


def test_subscriptions_hold_up_nothing_and_are_limited(
    serve: Serve, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(websocket, "MAX_UNDER_WAY", 3)
    monkeypatch.setattr(subscription, "MAX_OPEN", 5)
    served = serve(Gateway(echo, home=home))
    content = {"topic": "conversation", "since": 1, "seconds": 600}
    wish = {"format": "structured", "subformat": "json", "label": "subscribe", "content": content}
    with connect(served.ws_url + "/nlip/ws/text") as socket:
        socket.send(text("one"))
        own = next(p for p in json.loads(socket.recv(timeout=DEADLINE))["submessages"] if p["format"] == "token")
        message = text("Tell me.", wish, own, messagetype="control")
        for _ in range(6):
            socket.send(message)
        refused = json.loads(socket.recv(timeout=DEADLINE))
        assert refused["content"] == "at most 5 subscriptions of one caller"
        socket.send(text("still there?"))
        assert json.loads(socket.recv(timeout=DEADLINE))["content"] == "You said: still there?"
        over_http = httpx2.post(served.url + "/nlip", content=message, headers={"accept": "text/event-stream"})
        assert over_http.status_code == 429
    end = time.monotonic() + DEADLINE
    while served.gateway.services.subscriptions:  # nobody listens any more
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_defect_is_answered_and_shows_nothing(
    serve: Serve, home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("the password is hunter2")

    monkeypatch.setattr(subscription.Subscription, "of", fails)
    with connect(serve(Gateway(echo, home=home)).ws_url + "/nlip/ws/text") as socket:
        socket.send(text("hi", messagetype="control"))
        answer = str(socket.recv(timeout=DEADLINE))
        assert "something here failed" in answer and "hunter2" not in answer
        monkeypatch.undo()
        socket.send(text("hi"))
        assert json.loads(socket.recv(timeout=DEADLINE))["content"] == "You said: hi"
    assert [record.message for record in caplog.records] == ["a message over WebSocket failed"]


def test_going_away_cancels_what_is_under_way(serve: Serve, home: Path) -> None:
    started, cancelled = threading.Event(), threading.Event()

    @agent
    async def patient(turn: Turn) -> str:
        started.set()
        try:
            await asyncio.sleep(30)
        finally:
            cancelled.set()
        return "late"

    with connect(serve(Gateway(patient, home=home)).ws_url + "/nlip/ws/text") as socket:
        socket.send(text("wait"))
        assert started.wait(DEADLINE)
    assert cancelled.wait(DEADLINE)


def test_an_idle_connection_is_closed(serve: Serve, home: Path) -> None:
    """WS-10: idle peers do not stay for ever."""
    gateway = Gateway(echo, home=home, doors={"nlip-ws": {"idle_seconds": 0.2}})
    with connect(serve(gateway).ws_url + "/nlip/ws") as socket, pytest.raises(ConnectionClosed) as closed:
        socket.recv(timeout=DEADLINE)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1001


# -- what HTTP says in headers ------------------------------------------------------------------------

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
OTHER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@agent(name="traced")
async def traced(turn: Turn) -> str:
    return f"{turn.trace} {turn.hops} {turn.message.extra}"


@pytest.mark.parametrize("notation", ["json", "cbor"])
def test_each_message_may_say_which_trace_it_belongs_to(serve: Serve, home: Path, notation: str) -> None:
    """A connection is shared by many turns, so its handshake speaks only for those that do not speak for themselves."""

    def ask(socket: Any, **fields: Any) -> str:
        said = {"format": "text", "subformat": "english", "content": "x", **fields}
        socket.send(json.dumps(said) if notation == "json" else cbor2.dumps(said))
        came = socket.recv(timeout=DEADLINE)
        return (nlip.decode(came.encode()) if notation == "json" else cbor.decode(came)).text

    url = serve(Gateway(traced, home=home)).ws_url + "/nlip/ws"
    with connect(url, additional_headers={"traceparent": TRACE, "x-sabir-hops": "2"}) as socket:
        assert socket.response is not None
        assert socket.response.headers["x-sabir-fields"] == "traceparent, x-sabir-hops"
        assert ask(socket) == f"{TRACE} 2 None"
        assert ask(socket, traceparent=OTHER) == f"{OTHER} 2 None"
        assert ask(socket, traceparent=5, colour="red") == f"{TRACE} 2 {{'colour': 'red'}}"
        assert ask(socket, **{"x-sabir-hops": 3}) == f"{TRACE} 3 None"
        assert ask(socket, **{"x-sabir-hops": {"a": 1}}) == f"{TRACE} 2 None"
        assert "a loop is likely" in ask(socket, **{"x-sabir-hops": 10**9})
    with connect(url) as socket:
        assert ask(socket) == "None 0 None"
    with connect(url, additional_headers={"x-sabir-hops": "99"}) as socket:
        assert "a loop is likely" in ask(socket, **{"x-sabir-hops": 0})


@pytest.mark.parametrize("compression", ["deflate", None])
def test_a_long_answer_comes_in_fragments_and_whole(serve: Serve, home: Path, compression: Any) -> None:
    """Compressing 900 KB in one piece kept everybody else waiting for up to 40 ms (issue 11, D15)."""
    words = "".join(f"{n} ü " for n in range(60_000))
    url = serve(Gateway(echo, home=home)).ws_url + "/nlip/ws/text"
    with connect(url, compression=compression, max_size=None) as socket:
        socket.send(text(words))
        pieces = list(socket.recv_streaming())
        assert len(pieces) > 4
        assert words in json.loads("".join(str(piece) for piece in pieces))["content"]
        socket.send(text("short"))
        assert "short" in socket.recv(timeout=DEADLINE)


def test_answers_on_one_connection_do_not_mix_their_fragments(serve: Serve, home: Path) -> None:
    """Conversations run at the same time; the frames of a message must not."""
    with connect(serve(Gateway(echo, home=home)).ws_url + "/nlip/ws/text", max_size=None) as socket:
        tokens = []
        for _ in range(4):
            socket.send(text("hi"))
            tokens.append(next(part for part in json.loads(socket.recv(timeout=DEADLINE))["submessages"]))
        for number, token in enumerate(tokens):
            socket.send(text(str(number) * (300_000 if number % 2 else 5), token))
        answers = [json.loads(socket.recv(timeout=DEADLINE))["content"] for _ in tokens]
        assert sorted(len(answer) > 200_000 for answer in answers) == [False, False, True, True]
