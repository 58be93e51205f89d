"""Checks before authentication: Host and Origin, size, depth, packed bodies, broken framing.

Each cell of the table of live servers in the security list is tried against every door that takes a body.
"""

from __future__ import annotations

import gzip
import json
import socket
import zlib

import cbor2
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from conftest import Served
from deadline import DEADLINE
from suites.security.attackers import Caller, say

DOORS = ("/nlip", "/nlip/", "/nlip/memory", "/ask", "/mcp", "/a2a", "/acl")
TYPE = {"content-type": "application/json"}


@pytest.fixture(params=DOORS)
def door(request: pytest.FixtureRequest) -> str:
    return str(request.param)


# -- DNS rebinding --------------------------------------------------------------------------------


HOSTS = (
    "evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.evil.example", "169.254.169.254", "",
    "127.0.0.1, evil.example",
)  # fmt: skip


@pytest.mark.parametrize("host", HOSTS)
def test_a_host_that_is_not_ours_is_refused_by_every_door(stranger: Caller, door: str, host: str) -> None:
    """DNS rebinding: GHSA-w48q-cv73-mx4w, MCP-T."""
    reply = stranger.http.post(door, content=b"{}", headers={**TYPE, "host": host})
    assert reply.status_code in (400, 403, 421)
    assert stranger.http.get("/.well-known/agent-card.json", headers={"host": host}).status_code in (400, 403, 421)


ORIGINS = ("http://evil.example", "https://127.0.0.1.evil.example", "null", "file://", "http://127.0.0.1:1")


@pytest.mark.parametrize("origin", ORIGINS)
def test_an_origin_that_is_not_ours_is_refused_by_every_door(stranger: Caller, door: str, origin: str) -> None:
    reply = stranger.http.post(door, content=json.dumps(say("hi")), headers={**TYPE, "origin": origin})
    assert reply.status_code == 403
    assert "access-control-allow-origin" not in reply.headers
    asked = {"origin": origin, "access-control-request-method": "POST"}
    assert "access-control-allow-origin" not in stranger.http.options(door, headers=asked).headers


@pytest.mark.parametrize("path", ["/nlip/ws", "/nlip/ws/text"])
@pytest.mark.parametrize("headers", [{"Origin": "http://evil.example"}, {"Origin": "null"}])
def test_a_browser_page_of_elsewhere_opens_no_websocket(services: Served, path: str, headers: dict[str, str]) -> None:
    """WebSockets know no same-origin rule; cross-site hijacking is stopped here."""
    with (
        pytest.raises((InvalidStatus, ConnectionClosed)),
        connect(services.ws_url + path, additional_headers=headers) as ws,
    ):
        ws.send(json.dumps(say("hi")))
        ws.recv(timeout=DEADLINE)


def test_a_page_of_our_own_may_call(services: Served, stranger: Caller) -> None:
    assert stranger.ask(say("hi"), origin=services.url).status_code == 200


# -- size, depth, packing -------------------------------------------------------------------------


def survived(services: Served, stranger: Caller) -> None:
    assert stranger.ask(say("still here?")).status_code == 200


OPENINGS = (
    b"[", b'{"a":', b'[{"a":', b'{"format":"text","subformat":"english","content":',
    b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":',
)  # fmt: skip


@pytest.mark.parametrize("opening", OPENINGS)
def test_json_of_any_depth_is_refused_in_the_words_of_the_door(
    services: Served, stranger: Caller, door: str, opening: bytes
) -> None:
    times = 200_000 // len(opening)
    closing = opening[::-1].translate(bytes.maketrans(b"[{", b"]}"), bytes(set(range(256)) - set(b"[{")))
    body = opening * times + b"1" + closing * times
    reply = stranger.http.post(door, content=body, headers=TYPE)
    assert 400 <= reply.status_code < 500
    for inside in ("Traceback", "RecursionError", "recursion", "msgspec", "pydantic", "line 1 column", "File "):
        assert inside not in reply.text
    survived(services, stranger)


def test_a_body_over_the_limit_is_refused(services: Served, stranger: Caller, door: str) -> None:
    assert stranger.http.post(door, content=b'"' + b"x" * (10 << 20) + b'"', headers=TYPE).status_code == 413
    survived(services, stranger)


def test_a_body_that_does_not_say_how_long_it_is_is_cut_off_too(services: Served, stranger: Caller, door: str) -> None:
    def pieces() -> object:
        for _ in range(64):
            yield b"x" * 65536

    reply = stranger.http.post(door, content=pieces(), headers=TYPE)  # type: ignore[arg-type]
    assert reply.status_code in (400, 413)


@pytest.mark.parametrize(
    ("encoding", "packed"),
    [
        ("gzip", gzip.compress(b"\0" * 50_000_000)),
        ("deflate", zlib.compress(b"\0" * 50_000_000)),
        ("gzip, gzip", gzip.compress(gzip.compress(b"\0" * 1_000_000))),
        ("br", b"\x1b\xff\xff\xff"),
        ("gzip", b"not gzip"),
    ],
    ids=["gzip", "deflate", "gzip twice", "brotli", "not gzip"],
)
def test_a_packed_body_is_not_unpacked(
    services: Served, stranger: Caller, door: str, encoding: str, packed: bytes
) -> None:
    reply = stranger.http.post(door, content=packed, headers={**TYPE, "content-encoding": encoding})
    assert reply.status_code in (400, 413, 415)
    for inside in ("Traceback", "codec", "zlib", "Error -3"):
        assert inside not in reply.text
    survived(services, stranger)


@pytest.mark.parametrize("numbers", ["1e400", "-1e400", "9" * 5000, "NaN", "Infinity"])
def test_invalid_numbers_do_no_harm(stranger: Caller, door: str, numbers: str) -> None:
    body = f'{{"format":"structured","subformat":"json","content":{{"a":{numbers}}}}}'
    assert stranger.http.post(door, content=body, headers=TYPE).status_code < 500


def test_a_websocket_frame_over_the_limits_does_not_end_the_gateway(services: Served, stranger: Caller) -> None:
    deep = b"\x81" * 200_000 + b"\x00"  # CBOR: an array in an array in an array
    huge = b"\x5b\x7f\xff\xff\xff\xff\xff\xff\xff"  # a byte string that claims 8 EiB
    many = b"\x9b\x00\x00\x00\xff\xff\xff\xff\xff"  # an array that claims 2^40 items
    with connect(services.ws_url + "/nlip/ws") as ws:
        for frame in (deep, huge, many, b"\xff", b"", cbor2.dumps({"a": "b"})):
            ws.send(frame)
            answer = ws.recv(timeout=DEADLINE)
            text = answer if isinstance(answer, str) else str(cbor2.loads(answer))
            assert "error" in text and "Traceback" not in text
    with pytest.raises(ConnectionClosed) as closed, connect(services.ws_url + "/nlip/ws", max_size=None) as ws:
        ws.send(b"\x00" * (2 << 20))
        ws.recv(timeout=DEADLINE)
    assert closed.value.rcvd is not None and closed.value.rcvd.code == 1009
    survived(services, stranger)


def test_a_compressed_websocket_bomb_is_stopped_at_the_limit(services: Served, stranger: Caller) -> None:
    with (
        pytest.raises(ConnectionClosed) as closed,
        connect(services.ws_url + "/nlip/ws/text", compression="deflate") as ws,
    ):
        ws.send(" " * (64 << 20))  # 64 MiB of blanks are 64 KiB on the wire
        ws.recv(timeout=DEADLINE)
    assert closed.value.rcvd is None or closed.value.rcvd.code == 1009
    survived(services, stranger)


# -- framing --------------------------------------------------------------------------------------


def raw(services: Served, request: bytes) -> bytes:
    with socket.create_connection((services.host, services.port), timeout=DEADLINE) as sock:
        sock.sendall(request)
        answer = b""
        try:
            while piece := sock.recv(65536):
                answer += piece
        except (TimeoutError, ConnectionResetError):
            pass  # what came until then is what counts
        return answer


HEAD = b"POST /nlip HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nConnection: close\r\n"


@pytest.mark.parametrize(
    "framing",
    [
        b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"Content-Length: 4\r\nContent-Length: 5\r\n\r\n{}{}{",
        b"Content-Length: -1\r\n\r\n",
        b"Content-Length: 0x10\r\n\r\n{}",
        b"Transfer-Encoding: chunked\r\n\r\nZZ\r\n{}\r\n0\r\n\r\n",
        b"Transfer-Encoding: xchunked\r\nContent-Length: 2\r\n\r\n{}",
        b"X: a\r\n b: folded\r\nContent-Length: 2\r\n\r\n{}",
        b"Bad Header: x\r\nContent-Length: 2\r\n\r\n{}",
        b"X: " + b"a" * 200_000 + b"\r\nContent-Length: 2\r\n\r\n{}",
    ],
    ids=["both", "two lengths", "negative", "hex", "bad chunk", "odd coding", "folded", "blank in name", "long"],
)
def test_a_request_whose_end_is_in_doubt_is_not_answered_as_if_it_were_not(
    services: Served, stranger: Caller, framing: bytes
) -> None:
    """Request smuggling: what two readers could read differently gets an error and the connection ends."""
    answer = raw(services, HEAD + framing)
    assert not answer.startswith(b"HTTP/1.1 2")
    survived(services, stranger)


def test_bytes_after_a_rejected_body_are_not_a_second_request(services: Served) -> None:
    inner = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    body = inner + b"x" * (2 << 20)
    answer = raw(services, HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body)
    assert answer.count(b"HTTP/1.1 ") == 1 and answer.startswith(b"HTTP/1.1 413")


PATHS = (
    "/nlip/../secret.key", "/nlip/%2e%2e/secret.key", "//etc/passwd", "/nlip/a\x00b", "/nlip/" + "a" * 9000,
    "/nlip/%ff%fe",
)  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
def test_a_path_is_only_a_name(services: Served, stranger: Caller, path: str) -> None:
    answer = raw(
        services,
        b"POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"
        % path.encode("latin-1"),
    )
    assert answer[9:12] in (b"400", b"404", b"414", b"401", b"422")
    assert b"Traceback" not in answer
    survived(services, stranger)


def test_names_from_the_wire_do_not_write_headers_or_log_lines(
    services: Served, stranger: Caller, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("x%0d%0aSet-Cookie:%20a=b", "x%0aERROR%20forged"):
        reply = stranger.http.post(f"/nlip/{name}", content=json.dumps(say("hi")), headers=TYPE)
        assert "set-cookie" not in reply.headers and reply.status_code in (401, 404)
    assert "\nERROR forged" not in caplog.text
    survived(services, stranger)


def test_the_page_runs_nothing_of_elsewhere_and_cannot_be_framed(stranger: Caller) -> None:
    """What agents and peers say is shown by this page; it must not become part of it."""
    page = stranger.http.get("/")
    policy = page.headers["content-security-policy"]
    for rule in ("default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'"):
        assert rule in policy
    assert "unsafe" not in policy and "*" not in policy
    assert page.headers["x-content-type-options"] == "nosniff"
    assert "<script>" not in page.text and "onclick=" not in page.text
