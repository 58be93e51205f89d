"""Uploads over real sockets: asked for by control, put by HTTP, referred to in the conversation (CORE-6.4, D-25)."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from conftest import Serve, Served
from sabir.agent import agent
from sabir.gateway.gateway import Gateway
from sabir.guard.build import filters_of
from sabir.message import Message, Part, token_part, uri_part
from sabir.protocols.nlip.wire import json as nlip
from sabir.turn import Turn
from sabir.uploads import UploadLimits


@agent(name="reader")
async def reader(turn: Turn) -> str:
    """Says what is attached, without loading it."""
    received = []
    for attached in await turn.attachments.all(turn.message):
        digest = hashlib.sha256()
        async for block in attached.chunks():
            digest.update(block)
        received.append(f"{attached.size} {attached.subformat} {attached.name} {digest.hexdigest()}")
    return "; ".join(received) or "nothing"


@agent(name="giver")
async def giver(turn: Turn) -> Message:
    """Answers with something large."""

    async def blocks() -> AsyncIterator[bytes]:
        for number in range(10):
            yield bytes([number]) * 100_000

    return Message.text("here").with_part(await turn.attachments.give(blocks(), "generic/dump", "dump.bin"))


@pytest.fixture
def served(serve: Serve, home: Path) -> Served:
    return serve(Gateway(reader, giver, home=home))


@pytest.fixture
async def http() -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(trust_env=False) as client:
        yield client


class Talk:
    """A conversation by hand: the wire is in sight."""

    def __init__(self, http: httpx2.AsyncClient, served: Served, agent: str = "reader") -> None:
        self.http, self.url, self.token = http, f"{served.url}/nlip/{agent}", ()

    async def say(self, message: Message) -> Message:
        answer = await self.http.post(self.url, content=nlip.encode(message.with_parts(self.token)))
        reply = nlip.decode(answer.content)
        own = [part for part in reply.tokens if part.subformat == "conversation"]
        self.token = (token_part(own[-1].content),) if own else self.token
        return reply

    async def place(self) -> str:
        reply = await self.say(Message.text("I have a large file; where can I upload it?", messagetype="control"))
        part = reply.labelled("upload")
        assert isinstance(part, Part) and part.kind == "uri"
        return str(part.content)

    async def refer(self, uri: str) -> Message:
        return await self.say(Message.text("read this").with_part(uri_part(uri)))


def digest_of(data: bytes) -> str:
    return f"sha-256=:{base64.b64encode(hashlib.sha256(data).digest()).decode()}:"


async def test_a_raw_upload_reaches_the_agent_of_its_conversation(served: Served, http: httpx2.AsyncClient) -> None:
    talk = Talk(http, served)
    uri = await talk.place()
    data = b"\x89PNG" * 1000
    put = await http.put(uri, content=data, headers={"content-type": "image/png", "repr-digest": digest_of(data)})
    assert put.status_code == 201
    assert nlip.decode(put.content).labelled("upload") == uri_part(uri, label="upload")
    assert (await talk.refer(uri)).text == f"4000 image/png  {hashlib.sha256(data).hexdigest()}"


@pytest.mark.parametrize("field", ["contents", "file"])
async def test_a_multipart_upload_is_accepted_under_both_names(  # D-25
    served: Served, http: httpx2.AsyncClient, field: str
) -> None:
    talk = Talk(http, served)
    uri = await talk.place()
    files = {"note": (None, b"hello"), field: ("../../x/cat.jpg", b"abc", "image/jpeg")}
    assert (await http.post(uri, files=files)).status_code == 201
    assert (await talk.refer(uri)).text.startswith("3 image/jpeg cat.jpg ")


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"--x\r\nContent-Disposition: form-data; name=other\r\n\r\nabc\r\n--x--\r\n", 422),
        (b"no multipart at all", 400),
        (b'--x\r\nContent-Disposition: form-data; name="file"\r\n\r\na\r\n'
         b'--x\r\nContent-Disposition: form-data; name="file"\r\n\r\nb\r\n--x--\r\n', 422),
    ],
)  # fmt: skip
async def test_a_form_without_one_file_is_refused(
    served: Served, http: httpx2.AsyncClient, body: bytes, status: int
) -> None:
    uri = await Talk(http, served).place()
    answer = await http.post(uri, content=body, headers={"content-type": "multipart/form-data; boundary=x"})
    assert answer.status_code == status
    assert nlip.decode(answer.content).is_error


async def test_a_broken_connection_resumes_where_it_stopped(served: Served, http: httpx2.AsyncClient) -> None:
    talk = Talk(http, served)
    uri = await talk.place()
    data = bytes(range(256)) * 8192
    half = len(data) // 2
    path = uri.removeprefix(served.url)
    with socket.create_connection((served.host, served.port)) as broken:
        head = f"PUT {path} HTTP/1.1\r\nhost: {served.host}:{served.port}\r\ncontent-length: {len(data)}\r\n\r\n"
        broken.sendall(head.encode() + data[:half])
        while int((await http.head(uri)).headers["upload-offset"]) == 0:
            pass  # the first block is on disk
    offset = 0
    while offset != half:  # the rest of it is, once the server saw the connection go
        offset = int((await http.head(uri)).headers["upload-offset"])
    assert (await http.head(uri)).headers["upload-length"] == str(len(data))
    early = await talk.refer(uri)
    assert early.is_error and "not complete" in early.text
    raised = await http.patch(uri, content=data[half - 1 :], headers={"upload-offset": str(half - 1)})
    assert raised.status_code == 409
    rest = await http.patch(uri, content=data[half:], headers={"upload-offset": str(half)})
    assert rest.status_code == 201
    assert rest.headers["repr-digest"] == digest_of(data)
    assert (await talk.refer(uri)).text.endswith(hashlib.sha256(data).hexdigest())


async def test_pieces_come_by_content_range(served: Served, http: httpx2.AsyncClient) -> None:
    uri = await Talk(http, served).place()
    first = await http.put(uri, content=b"abc", headers={"content-range": "bytes 0-2/6"})
    assert (first.status_code, first.headers["upload-offset"]) == (200, "3")
    last = await http.put(uri, content=b"def", headers={"content-range": "bytes 3-5/6"})
    assert (last.status_code, last.headers["repr-digest"]) == (201, digest_of(b"abcdef"))
    assert (await http.put(uri, content=b"x", headers={"content-range": "bytes 9-9"})).status_code == 422


async def test_a_wrong_checksum_is_refused_and_nothing_kept(served: Served, http: httpx2.AsyncClient) -> None:
    uri = await Talk(http, served).place()
    bad = await http.put(uri, content=b"abc", headers={"repr-digest": digest_of(b"abd")})
    assert bad.status_code == 422
    assert (await http.head(uri)).headers["upload-offset"] == "0"
    assert (await http.put(uri, content=b"abc", headers={"repr-digest": digest_of(b"abc")})).status_code == 201


async def test_what_is_replayed_tampered_with_or_made_up_is_refused(served: Served, http: httpx2.AsyncClient) -> None:
    uri = await Talk(http, served).place()
    assert (await http.put(uri, content=b"abc")).status_code == 201
    assert (await http.put(uri, content=b"evil")).status_code == 409  # replayed
    flipped = uri[:-3] + ("A" if uri[-3] != "A" else "B") + uri[-2:]
    assert (await http.put(flipped, content=b"abc")).status_code == 404
    assert (await http.get(f"{served.url}/nlip/upload/sb1.AAAA")).status_code == 404
    assert (await http.get(f"{served.url}/nlip/upload/")).status_code == 404
    assert (await http.request("TRACE", uri)).status_code == 405


@pytest.mark.parametrize("path", ["/nlip/upload/", "/nlip/upload"])
async def test_a_file_without_a_place_begins_a_conversation(
    served: Served, http: httpx2.AsyncClient, path: str
) -> None:
    """As ``uploadFile()`` of nlip.js and the clients of nlip-server do it (issue 11, B 7)."""
    reply = await http.post(f"{served.url}{path}", files={"contents": ("a.txt", b"some words", "text/plain")})
    assert reply.status_code == 201
    parts = reply.json()["submessages"]
    uri = next(part["content"] for part in parts if part.get("label") == "upload")
    assert (await http.get(uri)).content == b"some words"
    assert [part["subformat"] for part in parts if part["format"] == "token"] == ["conversation"]


async def test_a_place_of_another_conversation_is_refused(served: Served, http: httpx2.AsyncClient) -> None:
    mine, other = Talk(http, served), Talk(http, served)
    uri = await mine.place()
    await http.put(uri, content=b"abc")
    await other.say(Message.text("hi"))
    refused = await other.refer(uri)
    assert refused.is_error and "not of this conversation" in refused.text
    assert (await mine.refer(uri)).text.startswith("3 ")


async def test_what_has_expired_is_refused_and_swept(serve: Serve, home: Path, http: httpx2.AsyncClient) -> None:
    gateway = Gateway(reader, home=home)
    gateway.uploads.limits = UploadLimits(seconds=0.3)
    served = serve(gateway)
    talk = Talk(http, served)
    uri = await talk.place()
    await http.put(uri, content=b"abc")
    while (await http.head(uri)).status_code != 404:
        pass
    refused = await talk.refer(uri)
    assert refused.is_error and "expired" in refused.text
    (file,) = (home / "uploads").iterdir()
    import os

    os.utime(file, (0, 0))
    assert await gateway.uploads.sweep() == 1
    assert list((home / "uploads").iterdir()) == []


async def test_more_than_the_place_takes_is_refused(serve: Serve, home: Path, http: httpx2.AsyncClient) -> None:
    gateway = Gateway(reader, home=home)
    gateway.uploads.limits = UploadLimits(bytes=1000)
    served = serve(gateway)
    talk = Talk(http, served)
    assert (await http.put(await talk.place(), content=b"x" * 1001)).status_code == 413

    async def unannounced() -> AsyncIterator[bytes]:
        for _ in range(20):
            yield b"x" * 100

    assert (await http.put(await talk.place(), content=unannounced())).status_code == 413


async def test_a_large_reply_goes_out_as_an_address(served: Served, http: httpx2.AsyncClient) -> None:
    talk = Talk(http, served, "giver")
    reply = await talk.say(Message.text("give"))
    part = reply.labelled("download")
    assert part is not None
    whole = await http.get(part.content)
    assert len(whole.content) == 1_000_000
    assert whole.headers["repr-digest"] == digest_of(whole.content)
    assert whole.headers["content-disposition"] == "attachment"
    piece = await http.get(part.content, headers={"range": "bytes=99999-100000"})
    assert (piece.status_code, piece.content, piece.headers["content-range"]) == (
        206,
        b"\x00\x01",
        "bytes 99999-100000/1000000",
    )
    assert (await http.put(part.content, content=b"x")).status_code == 409


async def test_a_place_can_be_given_up(served: Served, http: httpx2.AsyncClient) -> None:
    uri = await Talk(http, served).place()
    await http.put(uri, content=b"abc")
    assert (await http.delete(uri)).status_code == 200
    assert (await http.get(uri)).status_code == 404


async def test_what_a_caller_may_put_is_bounded(serve: Serve, home: Path, http: httpx2.AsyncClient) -> None:
    gateway = Gateway(reader, home=home)
    gateway.uploads.limits = UploadLimits(bytes_per_caller=5, places_per_caller=3)
    talk = Talk(http, serve(gateway))
    assert (await http.put(await talk.place(), content=b"abcde")).status_code == 201
    used = await talk.say(Message.text("upload?", messagetype="control"))
    assert "used up" in used.text and used.is_control
    assert used.labelled("upload") is None


async def test_places_taken_beforehand_take_no_more_together(
    serve: Serve, home: Path, http: httpx2.AsyncClient
) -> None:
    """Each place was offered while nothing was used; what is put to all of them counts together."""
    gateway = Gateway(reader, home=home)
    gateway.uploads.limits = UploadLimits(bytes_per_caller=3000)
    talk = Talk(http, serve(gateway))
    places = [await talk.place() for _ in range(4)]

    async def unannounced() -> AsyncIterator[bytes]:
        for _ in range(10):
            yield b"x" * 100

    answers = [(await http.put(place, content=unannounced())).status_code for place in places[:3]]
    assert answers == [201, 201, 201]
    assert (await http.put(places[3], content=b"x")).status_code == 429
    assert (await http.delete(places[0])).status_code == 200
    assert (await http.put(places[3], content=b"x")).status_code == 201
    files = sum(path.stat().st_size for path in (home / "uploads").iterdir())
    assert files == 2001


async def test_places_written_at_once_take_no_more_together(serve: Serve, home: Path, http: httpx2.AsyncClient) -> None:
    gateway = Gateway(reader, home=home)
    gateway.uploads.limits = UploadLimits(bytes_per_caller=1_000_000)
    talk = Talk(http, serve(gateway))
    places = [await talk.place() for _ in range(5)]
    answers = await asyncio.gather(*(http.put(place, content=bytes(400_000)) for place in places))
    assert sorted(answer.status_code for answer in answers) == [201, 201, 429, 429, 429]
    assert sum(path.stat().st_size for path in (home / "uploads").iterdir()) <= 1_000_000


async def test_the_address_of_an_anonymous_caller_is_not_stored(
    serve: Serve, home: Path, http: httpx2.AsyncClient
) -> None:  # PAPER-ANON
    talk = Talk(http, serve(Gateway(reader, home=home)))
    await talk.say(Message.text("I want to stay anonymous", messagetype="control"))
    place = await talk.place()
    assert (await http.put(place, content=b"abc")).status_code == 201
    assert not (await talk.refer(place)).is_error
    written = b"".join(path.read_bytes() for path in home.rglob("*") if path.is_file())
    assert b"anonymous@127" not in written


async def test_two_connections_do_not_write_one_place_at_once(served: Served, http: httpx2.AsyncClient) -> None:
    uri = await Talk(http, served).place()
    path = uri.removeprefix(served.url)
    with socket.create_connection((served.host, served.port)) as slow:
        head = f"PUT {path} HTTP/1.1\r\nhost: {served.host}:{served.port}\r\ncontent-length: 2000000\r\n\r\n"
        slow.sendall(head.encode() + bytes(1_500_000))
        while (await http.head(uri)).headers["upload-offset"] == "0":
            pass
        assert (await http.put(uri, content=b"mine")).status_code == 409
        assert (await http.delete(uri)).status_code == 409


async def test_uploads_have_a_port_of_their_own_when_asked_for(  # HTTP-6.1.1
    serve: Serve, home: Path, http: httpx2.AsyncClient
) -> None:
    served = serve(Gateway(reader, giver, home=home, doors={"upload": {"port": 0}}))
    talk = Talk(http, served)
    uri = await talk.place()
    assert not uri.startswith(served.url)
    assert (await http.put(uri, content=b"abc")).status_code == 201
    assert (await talk.refer(uri)).text.startswith("3 ")
    here = served.url + uri[uri.index("/nlip/upload") :]
    assert (await http.put(here, content=b"abc")).status_code in (404, 405)  # and not on the port for talk
    given = (await Talk(http, served, "giver").say(Message.text("give"))).labelled("download")
    assert given is not None
    assert len((await http.get(given.content)).content) == 1_000_000


OTHERS = (
    {"host": "evil.example"},
    {"host": "127.0.0.1.evil.example:80"},
    {"host": "127.0.0.1, evil.example"},
    {"origin": "http://evil.example"},
    {"origin": "null"},
    {"sec-fetch-site": "cross-site"},
)


@pytest.mark.parametrize("headers", OTHERS, ids=str)
@pytest.mark.parametrize("doors", [{}, {"upload": {"port": 0}}], ids=["same port", "own port"])
async def test_other_hosts_and_pages_of_other_sites_reach_no_upload_port(
    serve: Serve, home: Path, http: httpx2.AsyncClient, doors: dict[str, object], headers: dict[str, str]
) -> None:
    served = serve(Gateway(reader, home=home, doors=doors))
    uri = await Talk(http, served).place()
    reply = await http.put(uri, content=b"abc", headers=headers)
    assert reply.status_code in (400, 403)
    assert "access-control-allow-origin" not in reply.headers
    assert (await http.put(uri, content=b"abc")).status_code == 201


async def test_a_page_of_an_allowed_origin_uploads_to_its_own_port(
    serve: Serve, home: Path, http: httpx2.AsyncClient
) -> None:
    page = "https://shop.example"
    served = serve(Gateway(reader, home=home, origins=[page], doors={"upload": {"port": 0}}))
    uri = await Talk(http, served).place()
    asked = {"origin": page, "access-control-request-method": "PUT"}
    assert (await http.options(uri, headers=asked)).headers["access-control-allow-origin"] == page
    reply = await http.put(uri, content=b"abc", headers={"origin": page})
    assert (reply.status_code, reply.headers["access-control-allow-origin"]) == (201, page)


def test_a_listener_in_the_clear_is_refused_outside_this_machine(home: Path) -> None:  # CORE-7.1
    from sabir.errors import ConfigError

    with pytest.raises(ConfigError, match=r"plain HTTP on 0\.0\.0\.0"):
        Gateway(reader, home=home, doors={"upload": {"port": 0, "host": "0.0.0.0"}})
    with pytest.raises(ConfigError, match=r"doors\.upload"):
        Gateway(reader, home=home, doors={"upload": {"prot": 1}})


async def test_the_filter_for_secrets_leaves_the_address_of_an_upload(serve: Serve, home: Path) -> None:
    """The address holds a sealed token; it is for the caller, so it is no secret that leaks."""
    gateway = Gateway(reader, home=home, filters=filters_of(["secrets", "pii", "inside"]))
    url = serve(gateway).url
    ask = {"messagetype": "control", "format": "text", "subformat": "english", "content": "Where can I upload a file?"}
    async with httpx2.AsyncClient() as client:
        reply = (await client.post(url + "/nlip", json=ask)).json()
        [place] = [part["content"] for part in reply["submessages"] if part["subformat"] == "uri"]
        stored = await client.put(place, content=b"x" * 1000)
    assert stored.status_code < 300, stored.text


@pytest.mark.parametrize(
    ("wanted", "status", "text"),
    [
        ("bytes=1-2", 206, "bytes 1-2/5"),
        ("bytes=4-99", 206, "bytes 4-4/5"),
        ("bytes=5-", 416, "bytes */5"),
        ("bytes=99-100", 416, "bytes */5"),
        ("bytes=3-1", 200, None),
        ("lines=1-2", 200, None),
    ],
)
async def test_a_range_that_is_not_there_is_reported_the_size(
    served: Served, http: httpx2.AsyncClient, wanted: str, status: int, text: str | None
) -> None:
    put = await http.put(f"{served.url}/nlip/upload/", content=b"hello")
    assert put.status_code == 201
    answer = await http.get(put.headers["location"], headers={"range": wanted})
    assert (answer.status_code, answer.headers.get("content-range")) == (status, text)
