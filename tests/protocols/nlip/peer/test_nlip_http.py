"""The NLIP peer over HTTP, against raw sockets that say what real servers say."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from raw_http import Heard, http, raw_server, text
from sabir.agent import reply_of
from sabir.errors import ConfigError, PeerRefused, PeerUnavailable, PeerUnreadable
from sabir.events import Delta, Progress, Question, Reply
from sabir.message import Message
from sabir.protocols.connect import connect
from sabir.protocols.nlip.peer.http import NlipHttpPeer
from sabir.protocols.nlip.peer.tokens import PeerTokens
from sabir.protocols.peer import Identity
from sabir.turn import Conversation, Turn


async def test_a_question_is_answered_over_http() -> None:
    async with raw_server(lambda heard, n: http(200, text("You said: " + heard.json["content"]))) as server:
        async with connect(server.url) as peer:
            reply = await peer.ask("hello")
    assert reply.text == "You said: hello"
    heard = server.heard[0]
    assert heard.line == "POST /nlip HTTP/1.1"
    assert heard.headers["content-type"] == "application/json"
    assert heard.headers["idempotency-key"]


async def test_the_connection_is_kept_for_the_next_question() -> None:
    async with raw_server(lambda heard, n: http(200, text(str(n)))) as server:
        async with connect(server.url) as peer:
            for _ in range(5):
                await peer.ask("again")
    assert server.connections == 1


# -- tokens ---------------------------------------------------------------------------------------


async def test_the_servers_token_goes_first_and_ours_behind_it_with_a_suffix() -> None:  # D-16, http-033
    async with raw_server(lambda heard, n: http(200, text("ok", ("conversation", "srv-1")))) as server:
        async with connect(server.url, identity="cli") as peer:
            await peer.ask("first")
            await peer.ask("next")
    (first_own,) = server.heard[0].tokens
    assert first_own[0] == "conversation_cli"
    assert server.heard[1].tokens == [("conversation", "srv-1"), first_own]


async def test_every_token_of_the_server_is_returned_until_it_is_replaced() -> None:  # D-17, XSPEC-tokpol
    said = {
        1: [("conversation", "a"), ("authentication_x", "k"), ("group", "g")],
        2: [],
        3: [("conversation", "b")],
        4: [],
    }
    async with raw_server(lambda heard, n: http(200, text("ok", *said[n]))) as server:
        async with connect(server.url, identity="cli") as peer:
            for _ in range(4):
                await peer.ask("x")
    shown = [[t for t in heard.tokens if t[0] != "conversation_cli"] for heard in server.heard]
    assert shown == [
        [],
        [("conversation", "a"), ("authentication_x", "k"), ("group", "g")],
        [("conversation", "a"), ("authentication_x", "k"), ("group", "g")],
        [("authentication_x", "k"), ("group", "g"), ("conversation", "b")],
    ]


async def test_an_echo_of_our_own_token_is_not_taken_for_the_servers() -> None:  # CORE-6.2
    def echo(heard: Heard, n: int) -> bytes:
        return http(200, text("ok", *heard.tokens))

    async with raw_server(echo) as server, connect(server.url, identity="cli") as peer:
        await peer.ask("one")
        await peer.ask("two")
    assert len(server.heard[1].tokens) == 1


async def test_a_conversation_can_be_taken_up_later() -> None:
    async with raw_server(lambda heard, n: http(200, text("ok", ("conversation", f"srv-{n}")))) as server:
        async with NlipHttpPeer(server.url) as peer:
            await peer.ask("one")
            kept = peer.conversation.export()
        async with NlipHttpPeer(server.url, conversation=PeerTokens.restore(kept)) as later:
            await later.ask("two")
    assert server.heard[1].tokens == [("conversation", "srv-1"), server.heard[0].tokens[0]]


async def test_tokens_are_not_part_of_the_answer() -> None:
    async with raw_server(lambda heard, n: http(200, text("ok", ("conversation", "secret")))) as server:
        async with connect(server.url) as peer:
            assert (await peer.ask("hi")).tokens == ()


@pytest.mark.parametrize(
    "parts", [None, [{"format": "token", "subformat": "conversation", "content": "T", "label": None}]]
)
async def test_the_nulls_of_the_reference_server_are_read(parts: Any) -> None:  # D-08: core-080, core-081
    wire = {"messagetype": None, "format": "text", "subformat": "english", "content": "ok", "label": None}
    async with raw_server(lambda heard, n: http(200, {**wire, "submessages": parts})) as server:
        async with connect(server.url) as peer:
            assert (await peer.ask("hi")).text == "ok"


# -- places (D-20) --------------------------------------------------------------------------------


async def test_a_redirect_on_the_same_origin_is_followed_and_kept() -> None:  # http-030
    def slash(heard: Heard, n: int) -> bytes:
        return http(200, text("ok")) if heard.path == "/nlip/" else http(307, location="/nlip/")

    async with raw_server(slash) as server, connect(server.url) as peer:
        await peer.ask("one")
        await peer.ask("two")
    assert [heard.path for heard in server.heard] == ["/nlip", "/nlip/", "/nlip/"]


@pytest.mark.parametrize("location", ["http://other.example/nlip/", "https://127.0.0.1/nlip", "//other.example/", ""])
async def test_a_redirect_to_another_origin_is_not_followed(location: str) -> None:  # http-031
    async with raw_server(lambda heard, n: http(307, location=location)) as server:
        async with connect(server.url, retries=0) as peer:
            with pytest.raises(PeerRefused) as refused:
                await peer.ask("secret")
    assert refused.value.status == 307
    assert len(server.heard) <= 4


async def test_the_other_slash_form_is_tried_once_on_404() -> None:
    def only_slash(heard: Heard, n: int) -> bytes:
        return http(200, text("ok")) if heard.path == "/nlip/" else http(404, "no")

    async with raw_server(only_slash) as server, connect(server.url) as peer:
        assert (await peer.ask("x")).text == "ok"
    async with raw_server(lambda heard, n: http(404, "no")) as server, connect(server.url + "/nlip") as peer:
        with pytest.raises(PeerRefused) as refused:
            await peer.ask("x")
    assert refused.value.status == 404
    assert len(server.heard) == 2


# -- failures (D-22) ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"detail": [{"loc": ["body", "subformat"], "msg": "Field required"}]}, "body.subformat: Field required"),
        ({"detail": "no such thing"}, "no such thing"),
        ({"error": {"code": 7, "message": "over quota"}}, "over quota"),
        (text("I do not read this", messagetype="error"), "I do not read this"),
        ("<html><title>Oops</title><script>x()</script><h1>It broke</h1>", "Oops It broke"),
        (b"\xff\xfe\x00", ""),
        (b"[" * 100_000, ""),
        ("", "Unprocessable"),
    ],
)  # fmt: skip
async def test_error_bodies_of_others_are_reported_and_do_no_harm(body: Any, said: str) -> None:  # http-029
    async with raw_server(lambda heard, n: http(422, body)) as server, connect(server.url) as peer:
        with pytest.raises(PeerRefused) as refused:
            await peer.ask("hi")
    assert refused.value.status == 422
    assert said in str(refused.value)


@pytest.mark.parametrize("body", ["<h1>It works</h1>", "", "[]", '{"hello": "world"}', b"\x00\x01"])
async def test_an_answer_that_is_not_nlip_is_a_protocol_error(body: Any) -> None:  # http-032, CORE-6.1
    async with raw_server(lambda heard, n: http(200, body, content_type="text/html")) as server:
        async with connect(server.url) as peer:
            with pytest.raises(PeerUnreadable, match="not an NLIP message"):
                await peer.ask("hi")


async def test_an_error_message_with_status_200_is_a_refusal_too() -> None:
    async with raw_server(lambda heard, n: http(200, text("cannot", messagetype="Error"))) as server:
        async with connect(server.url) as peer:
            with pytest.raises(PeerRefused, match="cannot"):
                await peer.ask("hi")


async def test_an_answer_larger_than_the_limit_is_cut_off() -> None:
    from sabir.limits import Limits

    async with raw_server(lambda heard, n: http(200, text("x" * 5000))) as server:
        async with connect(server.url, limits=Limits(body=1000)) as peer:
            with pytest.raises(PeerUnreadable, match="larger than 1000"):
                await peer.ask("hi")


async def test_a_refused_connection_is_unavailable() -> None:
    async with raw_server(lambda heard, n: None) as server:
        url = server.url
    async with connect(url, retries=1) as peer:
        with pytest.raises(PeerUnavailable, match="connection refused"):
            await peer.ask("hi")


async def test_no_answer_in_time_is_unavailable() -> None:
    silent = asyncio.Event()

    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await silent.wait()
        writer.close()

    listening = await asyncio.start_server(hold, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    async with connect(f"http://127.0.0.1:{port}") as peer:
        with pytest.raises(PeerUnavailable, match="in time"):
            await peer.ask("hi", seconds=0.2)
    silent.set()
    listening.close()
    await listening.wait_closed()


# -- sending again --------------------------------------------------------------------------------


async def test_a_message_that_may_have_arrived_is_not_sent_again() -> None:
    async with raw_server(lambda heard, n: None) as server, connect(server.url) as peer:
        with pytest.raises(PeerUnavailable):
            await peer.ask("pay 100")
    assert len(server.heard) == 1


async def test_a_message_is_sent_again_under_its_key_where_the_server_honours_it() -> None:
    def breaks_once(heard: Heard, n: int) -> bytes | None:
        return None if n == 1 else http(200, text("paid"))

    async with raw_server(breaks_once) as server, connect(server.url, repeatable=True) as peer:
        assert (await peer.ask("pay 100")).text == "paid"
    assert len({heard.headers["idempotency-key"] for heard in server.heard}) == 1
    assert len(server.heard) == 2


async def test_a_server_that_is_busy_is_asked_again_when_it_says_so() -> None:
    def busy_once(heard: Heard, n: int) -> bytes:
        return http(503, text("later"), retry_after="0") if n == 1 else http(200, text("now"))

    async with raw_server(busy_once) as server, connect(server.url) as peer:
        assert (await peer.ask("x")).text == "now"
    async with raw_server(lambda heard, n: http(429, text("no"), retry_after="3600")) as server:
        async with connect(server.url) as peer:
            with pytest.raises(PeerRefused) as refused:
                await peer.ask("x")
    assert refused.value.status == 429
    assert len(server.heard) == 1


# -- identity -------------------------------------------------------------------------------------


def locked(heard: Heard, n: int) -> bytes:
    known = heard.headers.get("authorization") == "Bearer blue"
    return http(200, text("in")) if known else http(401, text("who?"), www_authenticate='Bearer realm="x"')


async def test_401_is_answered_from_the_configured_identities_and_then_at_once() -> None:  # TR-7.1.4
    async with raw_server(locked) as server:
        mine = (Identity("https://bank.example", "Bearer red"), Identity(server.url, "Bearer blue"))
        async with connect(server.url, identities=mine) as peer:
            await peer.ask("one")
            await peer.ask("two")
    shown = [heard.headers.get("authorization") for heard in server.heard]
    assert shown == [None, "Bearer blue", "Bearer blue"]


async def test_an_identity_of_another_service_is_never_shown() -> None:
    async with raw_server(locked) as server:
        async with connect(server.url, identities=(Identity("https://bank.example", "Bearer blue"),)) as peer:
            with pytest.raises(PeerRefused) as refused:
                await peer.ask("one")
    assert refused.value.status == 401
    assert all("authorization" not in heard.headers for heard in server.heard)


async def test_cookies_are_not_kept() -> None:  # CORE-6.2-a
    async with raw_server(lambda heard, n: http(200, text("ok"), set_cookie="session=1")) as server:
        async with connect(server.url) as peer:
            await peer.ask("one")
            await peer.ask("two")
    assert "cookie" not in server.heard[1].headers


def test_credentials_in_the_address_are_refused() -> None:
    with pytest.raises(ConfigError, match="do not belong in a URL"):
        connect("http://user:secret@example.com/nlip")
    with pytest.raises(ConfigError, match="unsupported URL scheme 'gopher'"):
        connect("gopher://example.com")


# -- the wire, shown ------------------------------------------------------------------------------


async def test_the_wire_is_shown_without_credentials() -> None:
    seen: list[tuple[str, bytes]] = []
    async with raw_server(locked) as server:
        mine = (Identity("*", "Bearer blue", at_once=True),)
        async with connect(server.url, identities=mine, on_wire=lambda way, data: seen.append((way, data))) as peer:
            await peer.ask("hello")
    sent = b"".join(data for way, data in seen if way == "sent")
    received = b"".join(data for way, data in seen if way == "received")
    assert sent.startswith(b"POST /nlip HTTP/1.1\r\n") and b'"content":"hello"' in sent
    assert received.startswith(b"HTTP/1.1 200 X\r\n") and b'"content": "in"' in received
    assert b"blue" not in sent and b"(hidden)" in sent


# -- streaming and turns --------------------------------------------------------------------------

STREAM = (
    b'event: partial\ndata: {"messagetype":"partial","format":"text","subformat":"english","content":"half",'
    b'"submessages":[{"format":"structured","subformat":"json","content":{"fraction":0.5,"note":"half"},'
    b'"label":"progress"}]}\n\n: still here\n\n'
    b'data: {"messagetype":"partial","format":"text","subformat":"english","content":"","submessages":'
    b'[{"format":"text","subformat":"english","content":"Hel","label":"1"}]}\n\n'
    b'data: {"format":"text","subformat":"english",\ndata: "content":"Hello"}\n\n'
)


async def test_pieces_come_before_the_answer() -> None:  # D-34
    async with raw_server(lambda heard, n: http(200, STREAM, content_type="text/event-stream")) as server:
        async with connect(server.url) as peer:
            events = [event async for event in peer.stream("go")]
    assert events == [Progress(0.5, "half"), Delta.text("Hel"), Reply(Message.text("Hello"))]
    assert "text/event-stream" in server.heard[0].headers["accept"]


async def test_a_stream_that_breaks_off_is_reported() -> None:
    broken = STREAM[: STREAM.rindex(b"data: {")]
    async with raw_server(lambda heard, n: http(200, broken, content_type="text/event-stream")) as server:
        async with connect(server.url) as peer:
            with pytest.raises(PeerUnreadable, match="without an answer"):
                _ = [event async for event in peer.stream("go")]


async def test_a_peer_is_an_agent_and_each_conversation_has_its_own_tokens() -> None:  # DEP-MID
    async with raw_server(lambda heard, n: http(200, text("ok", ("conversation", f"srv-{n}")))) as server:
        async with connect(server.url, name="far") as peer:
            for conversation in ("a", "b", "a"):
                turn = Turn(
                    Message.text("hi"), Conversation(conversation), trace="00-" + "a" * 32 + "-" + "b" * 16 + "-01"
                )
                assert (await reply_of(peer(turn))).text == "ok"
    plain = [[value for kind, value in heard.tokens if kind == "conversation"] for heard in server.heard]
    assert plain == [[], [], ["srv-1"]]
    own = [[value for kind, value in heard.tokens if kind != "conversation"] for heard in server.heard]
    assert own[0] == own[2] != own[1]
    assert server.heard[0].headers["traceparent"].startswith("00-aaaa")
    assert server.heard[0].headers["x-sabir-hops"] == "1"


async def test_what_the_remote_agent_asks_back_is_asked_of_the_caller() -> None:
    question = {"format": "structured", "subformat": "json", "label": "question", "content": {"text": "Which city?"}}

    def asks(heard: Heard, n: int) -> bytes:
        if n == 1:
            return http(200, text("Which city?") | {"submessages": [question]})
        return http(200, text(f"Sunny in {heard.json['content']}"))

    asked: list[Question] = []

    async def answer(question: Question) -> Message:
        asked.append(question)
        return Message.text("Geneva")

    async with raw_server(asks) as server, connect(server.url) as peer:
        reply = await reply_of(peer(Turn(Message.text("weather?"), ask_back=answer)))
    assert reply.text == "Sunny in Geneva"
    assert asked[0].text == "Which city?"


async def test_a_remote_failure_is_reported_to_our_caller_without_the_address() -> None:
    async with raw_server(lambda heard, n: http(500, text("broken"))) as server:
        async with connect(server.url, name="far") as peer:
            with pytest.raises(PeerRefused, match="broken") as refused:
                await reply_of(peer(Turn(Message.text("hi"))))
    assert str(refused.value) == "far: it answered 500: broken"
    assert refused.value.status == 500


async def test_an_answer_kept_at_another_origin_is_not_fetched() -> None:  # D-20
    elsewhere = http(202, text("later"), location="http://other.example/tasks/1")
    async with raw_server(lambda heard, n: elsewhere) as server, connect(server.url) as peer:
        with pytest.raises(PeerRefused, match="another origin"):
            await peer.ask("x")
    assert len(server.heard) == 1


async def test_a_refusal_that_says_the_same_twice_is_reported_once() -> None:  # D-12
    twice = text("who are you?", messagetype="control")
    twice["submessages"] = [{"format": "text", "subformat": "english", "content": "who are you?", "label": "error"}]
    async with raw_server(lambda heard, n: http(403, twice)) as server, connect(server.url) as peer:
        with pytest.raises(PeerRefused) as refused:
            await peer.ask("x")
    assert str(refused.value).endswith("it answered 403: who are you?")
