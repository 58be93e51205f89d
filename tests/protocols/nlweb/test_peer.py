"""A remote ``/ask`` as an agent: ours, and servers of every version as they really answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from conftest import Served
from sabir.errors import PeerRefused, PeerUnavailable, PeerUnreadable
from sabir.events import Delta, Progress, Question, Reply
from sabir.message import Message, json_part, text_part
from sabir.protocols.connect import connect
from sabir.protocols.nlweb.peer import NlwebPeer
from sabir.protocols.nlweb.wire.mapping import notes_of, results_of

Answer = tuple[int, str, str]  # status, content type, body


class Server:
    """An HTTP server with configured answers that records its requests."""

    def __init__(self, answer: Callable[[str, dict[str, Any]], Answer]) -> None:
        asked = self.asked = list[tuple[str, dict[str, Any]]]()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                asked.append((self.path, body))
                status, kind, text = answer(self.path, body)
                raw = text.encode()
                self.send_response(status)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(raw)))
                self.end_headers()
                self.wfile.write(raw)

            def log_message(self, *_: object) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def server() -> Iterator[Callable[..., Server]]:
    made: list[Server] = []

    def make(answer: Callable[[str, dict[str, Any]], Answer]) -> Server:
        made.append(Server(answer))
        return made[-1]

    yield make
    for item in made:
        item.close()


def in_json(value: Any, status: int = 200) -> Answer:
    return status, "application/json", json.dumps(value)


async def test_our_own_site_is_asked_and_its_results_come_as_parts(gateway: Served) -> None:
    async with connect(gateway.url, protocol="nlweb") as peer:
        assert isinstance(peer, NlwebPeer)
        reply = await peer.ask("pumpkin soup")
        pieces = [event async for event in peer.stream("pumpkin pie")]
    items = results_of(reply)
    assert items and all(item["site"] == "pumpkins-r-us.com" for item in items)
    assert (notes := notes_of(reply)) is not None and notes.total == len(items)
    assert sum(isinstance(event, Delta) for event in pieces) > 1 and isinstance(pieces[-1], Reply)


async def test_filters_and_follow_ups_go_along(gateway: Served) -> None:
    async with connect(f"{gateway.url}/ask", protocol="nlweb") as peer:
        ask = json_part({"filters": {"price": "less than $9", "wavelength": "5 nm"}}, label="ask")
        reply = await peer.ask(Message.of(text_part("pumpkin"), ask))
        assert all(item["offers"]["price"] < 9 for item in results_of(reply))
        assert (notes := notes_of(reply)) is not None and [entry.name for entry in notes.ignored] == ["wavelength"]
        again = notes_of(await peer.ask("without nuts"))
    assert again is not None and "pumpkin" in again.question


async def test_nothing_found_is_an_answer_and_no_error(gateway: Served) -> None:
    async with connect(gateway.url, protocol="nlweb") as peer:
        reply = await peer.ask(
            Message.of(text_part("x"), json_part({"filters": {"price": "over $99999"}}, label="ask"))
        )
    assert results_of(reply) == [] and "nothing" in reply.text


async def test_a_question_back_comes_as_a_question(gateway: Served) -> None:
    async with connect(f"{gateway.url}/ask/asker", protocol="nlweb") as peer:
        question, _ = [event async for event in peer.stream("paint")]
        assert isinstance(question, Question) and question.fields[0].options == ("red", "blue")
        reply = await peer.ask(Message.of(text_part("that"), json_part({"colour": "red"}, label="answer")))
    assert "You chose red." in reply.text


async def test_a_server_of_0_54_with_unnamed_events_is_read(server: Callable[..., Server]) -> None:
    stream = "".join(
        f"data: {json.dumps(data)}\n\n"
        for data in (
            {"_meta": {"response_type": "Answer", "version": "0.54"}},
            {"results": [{"@type": "Recipe", "@id": "1", "name": "Soup", "score": 80}]},
            {"results": [{"@type": "Summary", "text": "It is soup."}]},
        )
    )
    remote = server(lambda path, body: (200, "text/event-stream", stream))
    async with connect(remote.url, protocol="nlweb") as peer:
        events = [event async for event in peer.stream("soup")]
    assert isinstance(events[0], Delta) and isinstance(events[-1], Reply)
    reply = events[-1].message
    assert [item["name"] for item in results_of(reply)] == ["Soup"] and "It is soup." in reply.text
    assert remote.asked[0][1]["query"] == {"text": "soup"} and remote.asked[0][1]["meta"]["api_version"] == "0.54"


async def test_a_server_of_0_55_is_spoken_to_in_its_version(server: Callable[..., Server]) -> None:
    def answer(path: str, body: dict[str, Any]) -> Answer:
        if body["meta"]["version"] != "0.55":
            meta = {"response_type": "failure", "version": "0.55"}
            return in_json({"_meta": meta, "error": {"code": "UNSUPPORTED_VERSION", "message": "0.55"}}, 400)
        meta = {"response_type": "answer", "version": "0.55", "session_context": {"conversation_id": "c"}}
        return in_json({"_meta": meta, "results": [{"@type": "SearchSummary", "text": "All."}, {"@id": "1"}]})

    remote = server(answer)
    async with connect(remote.url, protocol="nlweb") as peer:
        assert "All." in (await peer.ask("one")).text
        await peer.ask("two")
    assert len(remote.asked) == 3  # refused once; what worked is kept
    assert remote.asked[2][1]["meta"]["session_context"] == {"conversation_id": "c"}


async def test_a_server_of_0_5_is_asked_flat_and_read(server: Callable[..., Server]) -> None:
    def answer(path: str, body: dict[str, Any]) -> Answer:
        if isinstance(body["query"], dict):
            return 500, "text/plain", "Internal Server Error"
        data = {
            "@type": "Item",
            "url": "u",
            "name": "Soup",
            "score": 7,
            "schema_object": {"@type": "Recipe", "cookTime": "PT5M"},
        }
        content = [{"type": "text", "text": "One."}, {"type": "resource", "resource": {"data": data}}]
        return in_json({"_meta": {"version": "0.5"}, "content": content})

    remote = server(answer)
    async with connect(remote.url, protocol="nlweb") as peer:
        reply = await peer.ask(Message.of(text_part("soup"), json_part({"filters": {"site": "a"}}, label="ask")))
    assert remote.asked[-1][1] == {"query": "soup", "site": "a", "streaming": False}
    assert reply.text == "One."
    assert results_of(reply)[0]["@type"] == "Recipe" and results_of(reply)[0]["cookTime"] == "PT5M"


async def test_the_messages_of_the_oldest_servers_are_read(server: Callable[..., Server]) -> None:
    stream = "".join(
        f"data: {json.dumps(data)}\n\n"
        for data in (
            {"message_type": "begin-nlweb-response"},
            {"message_type": "result_batch", "results": [{"url": "u", "name": "Soup"}]},
            {"message_type": "summary", "content": "Soup it is."},
            {"message_type": "complete"},
        )
    )
    remote = server(lambda path, body: (200, "text/event-stream", stream))
    async with connect(remote.url, protocol="nlweb") as peer:
        reply = await peer.ask("soup")
    assert results_of(reply)[0]["name"] == "Soup" and "Soup it is." in reply.text


async def test_a_promise_is_waited_for_with_its_progress(server: Callable[..., Server]) -> None:
    looks = iter([{"token": "t", "progress": 0.5}, None])

    def answer(path: str, body: dict[str, Any]) -> Answer:
        promise = {"token": "t"} if path == "/ask" else next(looks)
        if promise is not None:
            return in_json({"_meta": {"response_type": "Promise", "version": "0.54"}, "promise": promise}, 202)
        return in_json(
            {"_meta": {"response_type": "Answer", "version": "0.54"}, "results": [{"@id": "1", "name": "Soup"}]}
        )

    remote = server(answer)
    async with connect(remote.url, protocol="nlweb") as peer:
        events = [event async for event in peer.stream("soup")]
    assert [e.fraction for e in events if isinstance(e, Progress)] == [None, 0.5]
    assert isinstance(events[-1], Reply) and results_of(events[-1].message)[0]["name"] == "Soup"
    assert [path for path, _ in remote.asked] == ["/ask", "/await", "/await"]


async def test_a_promise_that_nobody_waits_for_is_cancelled(server: Callable[..., Server]) -> None:
    promise = {"_meta": {"response_type": "Promise", "version": "0.54"}, "promise": {"token": "t"}}
    remote = server(lambda path, body: in_json(promise, 202))
    async with connect(remote.url, protocol="nlweb") as peer:
        with pytest.raises(PeerUnavailable, match="did not resolve before the deadline"):
            await peer.ask("soup", seconds=0.5)
    assert remote.asked[-1] == ("/await", {"promise_token": "t", "action": "cancel"})


@pytest.mark.parametrize(
    ("answer", "kind", "says"),
    [
        (in_json({"_meta": {"response_type": "Failure"}, "error": {"code": "RATE_LIMITED", "message": "slow"}}, 429),
         PeerRefused, "RATE_LIMITED: slow"),
        (in_json({"_meta": {"response_type": "Failure"}, "error": {"code": "INTERNAL_ERROR", "message": "no"}}, 500),
         PeerRefused, "INTERNAL_ERROR: no"),
        (in_json({"_meta": {"response_type": "Failure"}, "error": {"code": "GONE", "message": "away"}}),
         PeerRefused, "GONE: away"),
        ((404, "text/html", "<h1>Not here</h1>"), PeerRefused, "404"),
        ((200, "text/html", "<h1>Hello</h1>"), PeerUnreadable, "not JSON"),
        (in_json({"hello": 1}), PeerUnreadable, "not NLWeb"),
    ],
)  # fmt: skip
async def test_failures_say_whose_they_are(
    server: Callable[..., Server], answer: Answer, kind: type[Exception], says: str
) -> None:
    remote = server(lambda path, body: answer)
    async with connect(remote.url, protocol="nlweb") as peer:
        with pytest.raises(kind, match=says):
            await peer.ask("x")
    assert len(remote.asked) == 1


async def test_nobody_there_is_unavailable() -> None:
    async with connect("http://127.0.0.1:9", protocol="nlweb") as peer:
        with pytest.raises(PeerUnavailable, match="connection refused"):
            await peer.ask("x")
