"""Where a request ends is never in doubt: raw bytes to the gateway alone, and through nginx that keeps connections.

Defects of issue 11, D 12.
A request that hides in the body of another must not be run. ``/health?hidden`` is what the attacker hides; it is
answered with 200 and ``"status"`` if it is run.
"""

from __future__ import annotations

import json
import select
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from conftest import Served, serving
from free_ports import free_port
from sabir import Gateway
from sabir.agents.echo import echo

BODY = json.dumps({"format": "text", "subformat": "english", "content": "hello"}).encode()
SILENCE = 0.5  # seconds after which what did not come is not coming: an answer takes milliseconds
HIDDEN = b"GET /health?hidden HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
NGINX = """
daemon off; master_process off; worker_processes 1; pid {home}/pid; error_log {home}/error.log;
events {{ worker_connections 64; }}
http {{
  access_log off; client_body_temp_path {home}/b; proxy_temp_path {home}/p; fastcgi_temp_path {home}/f;
  uwsgi_temp_path {home}/u; scgi_temp_path {home}/s;
  upstream gateway {{ server 127.0.0.1:{upstream}; keepalive 1; }}
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://gateway; proxy_http_version 1.1; proxy_request_buffering off;
      proxy_set_header Host 127.0.0.1; proxy_set_header Connection $http_connection;
      proxy_set_header Upgrade $http_upgrade;
    }}
  }}
}}
"""


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(Gateway(echo, home=tmp_path_factory.mktemp("home"))) as served:
        yield served


@contextmanager
def nginx(upstream: int, home: Path) -> Iterator[int]:
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if program is None:
        pytest.skip("nginx is not installed; scripts/services installs it")
    port = free_port()
    (home / "nginx.conf").write_text(NGINX.format(home=home, upstream=upstream, port=port))
    command = [program, "-c", str(home / "nginx.conf"), "-p", str(home), "-e", str(home / "error.log")]
    process = subprocess.Popen(command)
    try:
        for _ in range(200):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert process.poll() is None, (home / "error.log").read_text()
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(0.05)
        yield port
    finally:
        process.terminate()
        process.wait(10)


@pytest.fixture(scope="module")
def proxied(alone: Served, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with nginx(alone.port, tmp_path_factory.mktemp("nginx")) as port:
        yield port


@pytest.fixture(params=["alone", "behind nginx"])
def port(request: pytest.FixtureRequest, alone: Served) -> int:
    return alone.port if request.param == "alone" else request.getfixturevalue("proxied")


def exchange(port: int, *pieces: bytes) -> bytes:
    """All that comes back on one connection until it is closed, or is silent after what was sent last."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        answer = b""
        for number, piece in enumerate(pieces):
            try:
                connection.sendall(piece)
            except (BrokenPipeError, ConnectionResetError):
                break
            if number < len(pieces) - 1:
                answer += first_answer(connection)
        try:
            connection.settimeout(SILENCE if answer else 10)
            while data := connection.recv(65536):
                answer += data
                connection.settimeout(SILENCE)
        except (TimeoutError, ConnectionResetError):
            pass
        return answer


def first_answer(connection: socket.socket) -> bytes:
    """The first piece that comes back, if something does within a moment."""
    connection.settimeout(SILENCE)
    try:
        return connection.recv(65536)
    except TimeoutError:
        return b""


def post(path: bytes, body_length: int, *headers: bytes) -> bytes:
    lines = (b"POST %s HTTP/1.1" % path, b"Host: 127.0.0.1", b"Content-Type: application/json", *headers)
    return b"\r\n".join(lines) + b"\r\nContent-Length: %d\r\n\r\n" % body_length


def test_the_rest_of_a_body_that_was_answered_early_is_not_a_request(port: int) -> None:
    """Issue 11, D 12: ``\\r\\nUpgrade: h2c\\r\\n`` was cut out of the body, and the rest moved up by so much."""
    padding = b"x" * 13 + b"\r\nUpgrade: h2c\r\n"
    body = padding + HIDDEN
    answer = exchange(port, post(b"/nowhere", len(body)), body)
    assert answer.startswith(b"HTTP/1.1 404 ")
    assert answer.count(b"HTTP/1.1 ") == 1


def test_nothing_behind_a_body_that_was_answered_early_is_read_from_its_middle(alone: Served) -> None:
    """The body lost the 14 bytes of its offer, and the next request its first 14 bytes to it: the rest was run."""
    body = b"x" * 13 + b"\r\nUpgrade: h2c\r\n\r\n" + b"x" * 20
    swallowed = b"GET /nowhere?x"
    assert len(swallowed) == len(b"\r\nUpgrade: h2c")
    answer = exchange(alone.port, post(b"/nowhere", len(body)), body + swallowed + HIDDEN)
    assert answer.startswith(b"HTTP/1.1 404 ")
    assert answer.count(b"HTTP/1.1 ") == 1


def test_a_request_that_is_answered_before_its_body_ends_the_connection(alone: Served) -> None:
    answer = exchange(alone.port, post(b"/nowhere", len(BODY)), BODY + HIDDEN)
    assert b"\r\nconnection: close\r\n" in answer
    assert answer.count(b"HTTP/1.1 ") == 1


@pytest.mark.parametrize("offer", [b"h2c", b"foo", b"websocket, foo", b"TLS/1.0", b"WebSocket/13"])
@pytest.mark.parametrize("in_one_piece", [True, False], ids=["whole", "in pieces"])
def test_an_offer_of_another_protocol_does_not_make_the_body_a_request(
    port: int, offer: bytes, in_one_piece: bool
) -> None:
    """uvicorn's issue 2722: with ``Connection: upgrade`` the parser takes the body for what comes next."""
    head = post(b"/nlip", len(HIDDEN), b"Connection: upgrade", b"Upgrade: " + offer)
    answer = exchange(port, head + HIDDEN) if in_one_piece else exchange(port, head, HIDDEN)
    assert answer.startswith(b"HTTP/1.1 400 ") and b'"messagetype":"error"' in answer
    assert answer.count(b"HTTP/1.1 ") == 1


@pytest.mark.parametrize("offer", [b"h2c", b"foo", b"websocket, foo"])
def test_a_request_that_offers_another_protocol_keeps_its_body_and_its_connection(alone: Served, offer: bytes) -> None:
    first = post(b"/nlip", len(BODY), b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: " + offer) + BODY
    second = post(b"/nlip", len(BODY), b"Connection: close") + BODY
    for pieces in ((first, second), (first + second,)):
        answer = exchange(alone.port, *pieces)
        assert answer.count(b"HTTP/1.1 200 ") == 2
        assert answer.count(b"You said: hello") == 2


def test_a_chunked_body_with_an_offer_is_read_as_one(port: int) -> None:
    head = b"POST /nlip HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: upgrade\r\nUpgrade: foo\r\n"
    chunked = head + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)
    answer = exchange(port, chunked)
    assert answer.count(b"HTTP/1.1 ") == 1 and b"You said: hello" in answer


def test_the_next_caller_behind_a_proxy_gets_its_own_answer(proxied: int) -> None:
    """The proxy reuses one connection to the gateway: whatever was left on it would answer the next caller."""
    body = b"x" * 13 + b"\r\nUpgrade: h2c\r\n" + HIDDEN
    attacks = [
        (post(b"/nowhere", len(body)), body),
        (post(b"/nlip", len(HIDDEN), b"Connection: upgrade", b"Upgrade: foo"), HIDDEN),
    ]
    for pieces in attacks:
        exchange(proxied, *pieces)
        answer = exchange(proxied, post(b"/nlip", len(BODY), b"Connection: close") + BODY)
        assert answer.startswith(b"HTTP/1.1 200 ") and b"You said: hello" in answer


TRAILER = b"0\r\nX-Api-Key: stolen\r\nHost: evil.example\r\n\r\n"


def test_a_trailer_is_not_a_header(alone: Served) -> None:
    head = b"POST /nlip HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    answer = exchange(alone.port, head + b"%x\r\n%s\r\n" % (len(BODY), BODY) + TRAILER)
    assert answer.startswith(b"HTTP/1.1 200 ")


HEAD = b"POST /nlip HTTP/1.1\r\nHost: 127.0.0.1\r\n"
UNFIT = {
    "10,000 headers": (b"431", HEAD + b"A: b\r\n" * 10_000 + b"\r\n"),
    "no version": (b"400", b"GET /health\r\n\r\n"),
    "version 0.9": (b"400", b"GET /health HTTP/0.9\r\nHost: 127.0.0.1\r\n\r\n"),
    "CONNECT": (b"400", b"CONNECT 127.0.0.1:80 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"),
    "length 2^63-1": (b"413", HEAD + b"Content-Length: 9223372036854775807\r\n\r\n{"),
    "length 2^64-1": (b"413", HEAD + b"Content-Length: 18446744073709551615\r\n\r\n{"),
    "length 2^64": (b"400", HEAD + b"Content-Length: 18446744073709551616\r\n\r\n{"),
    "8 MiB of chunk extension": (
        b"400",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n1;" + b"a" * (8 << 20) + b"\r\n{\r\n0\r\n\r\n",
    ),
    "1 MiB of trailers": (
        b"400",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n0\r\n" + b"A: b\r\n" * 180_000 + b"\r\n",
    ),
}


UNFIT |= {f"{method} *": (b"404", f"{method} * HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
          for method in ("GET", "OPTIONS")}  # fmt: skip

SHAKE = b"Host: 127.0.0.1\r\nConnection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
SHAKE += b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
HANDSHAKE = b"GET /nlip/ws HTTP/1.1\r\n" + SHAKE
UNFIT |= {  # they were never answered, and their connections stayed open
    "WebSocket, 200 headers": (b"431", HANDSHAKE + b"A: b\r\n" * 200 + b"\r\n"),
    "WebSocket, a long header": (b"431", HANDSHAKE + b"Cookie: %s\r\n\r\n" % (b"a" * 9000)),
    "WebSocket, a long path": (b"431", b"GET /nlip/ws?%s HTTP/1.1\r\n%s\r\n" % (b"a" * 9000, SHAKE)),
    "WebSocket, a body": (b"400", HANDSHAKE + b"Content-Length: 2\r\n\r\n{}"),
    "WebSocket, a chunked body": (b"400", HANDSHAKE + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    "WebSocket, POST with a body": (b"400", b"POST /nlip HTTP/1.1\r\n" + SHAKE + b"Content-Length: 2\r\n\r\n{}"),
}


@pytest.mark.parametrize(("status", "sent"), UNFIT.values(), ids=UNFIT.keys())
def test_a_request_that_no_door_should_see_is_rejected_in_nlip(alone: Served, status: bytes, sent: bytes) -> None:
    answer = exchange(alone.port, sent)
    assert answer[9:12] == status, answer[:200]
    assert answer.count(b"HTTP/1.1 ") == 1
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["messagetype"] == "error"


CODINGS = [b"gzip, chunked", b"gzip,chunked", b"deflate", b"x-unknown, chunked", b"identity", b"chunked, chunked"]


@pytest.mark.parametrize("coding", CODINGS)
def test_a_transfer_coding_that_we_do_not_know_is_rejected_and_ends_the_connection(port: int, coding: bytes) -> None:
    """RFC 9112, 6.1. ``gzip, chunked`` was read as if it were only chunked, so the agent got compressed bytes."""
    head = HEAD + b"Transfer-Encoding: " + coding
    answer = exchange(port, head + b"\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY) + HIDDEN)
    assert answer[9:12] in (b"501", b"400"), answer[:200]  # 400: what the parser cannot read at all
    assert answer.count(b"HTTP/1.1 ") == 1
    assert b"You said" not in answer and b"connection: close" in answer.lower()


@pytest.mark.parametrize("lines", [b"gzip, chunked", b"gzip\r\nTransfer-Encoding: chunked"], ids=["list", "two lines"])
def test_gzip_as_a_transfer_coding_is_not_implemented(alone: Served, lines: bytes) -> None:
    head = HEAD + b"Transfer-Encoding: " + lines
    answer = exchange(alone.port, head + b"\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY))
    assert answer.startswith(b"HTTP/1.1 501 ") and answer.count(b"HTTP/1.1 ") == 1


def test_garbage_behind_a_request_does_not_take_the_place_of_its_answer(alone: Served) -> None:
    answer = exchange(alone.port, post(b"/nlip", len(BODY)) + BODY + b"\x00\x01 garbage\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200 ") and b"You said: hello" in answer
    assert answer.count(b"HTTP/1.1 ") == 1


UPGRADE = (
    b"GET /nlip/ws/text HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


@pytest.mark.parametrize(
    ("begin", "rest", "code"),
    [
        (b"\x82\xff" + (2 << 20).to_bytes(8, "big") + bytes(4), b"x" * (2 << 20), 1009),
        (b"\x81\x82" + bytes(4) + b"\xff\xfe", b"\x81\xfe\xff\xff" + bytes(4) + b"x" * 0xFFFF, 1007),
    ],
    ids=["too large", "not UTF-8"],
)
def test_a_close_frame_arrives_although_the_client_still_sends(port: int, begin: bytes, rest: bytes, code: int) -> None:
    """The connection was reset while the rest came in, and the reset overtook the close frame (WS-7.0 behind nginx)."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(UPGRADE)
        assert b"101 " in connection.recv(65536)
        connection.sendall(begin)
        select.select([connection], [], [], 10)  # the close frame is here, and is not read yet
        for start in range(0, len(rest), 65536):
            connection.sendall(rest[start : start + 65536])
        frame = connection.recv(65536)
        assert frame[0] == 0x88 and frame[2:4] == code.to_bytes(2, "big")
        connection.sendall(b"\x88\x82" + bytes(4) + code.to_bytes(2, "big"))  # the client closes, too
        connection.settimeout(4)  # the gateway does not wait for its timer
        assert connection.recv(65536) == b""
