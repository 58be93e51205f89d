"""Clients that begin to say something and never end: each costs a connection, until patience ends (issue 11, D 16)."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import Served, serving
from deadline import DEADLINE
from sabir import Turn, agent
from sabir.gateway.gateway import Gateway
from sabir.server.http_protocol import SlowClientReaper
from sabir.server.server import Server
from suites.security.attackers import Caller, say

HEAD = b"POST /nlip HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"


@agent(description="Repeats")
async def parrot(turn: Turn) -> str:
    return turn.text


@pytest.fixture
def impatient(home: Path) -> Iterator[Served]:
    with serving(Gateway(parrot, home=home)) as served:
        assert isinstance(served.server, Server)
        served.server.reaper = SlowClientReaper(head=0.5, body=1.0, every=1)
        yield served


def opened(served: Served, begun: bytes) -> socket.socket:
    sock = socket.create_connection((served.host, served.port), timeout=DEADLINE)
    sock.sendall(begun)
    return sock


def ended(sock: socket.socket) -> bool:
    """Whether the gateway ends the connection without an answer."""
    try:
        return sock.recv(1) == b""
    except ConnectionResetError:
        return True
    finally:
        sock.close()


@pytest.mark.parametrize(
    "begun",
    [
        b"",
        b"POST /nl",
        HEAD,
        HEAD + b"Content-Length: 100\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nab",
    ],
    ids=["nothing", "half a line", "half a head", "no body", "half a chunk"],
)
def test_a_client_that_never_finishes_its_request_is_disconnected(impatient: Served, begun: bytes) -> None:
    waiting = [opened(impatient, begun) for _ in range(20)]
    with Caller(impatient.url) as other:
        assert other.ask(say("still here?")).status_code == 200
    assert all(ended(sock) for sock in waiting)


def test_a_slow_client_that_keeps_sending_is_answered(impatient: Served) -> None:
    """A body that comes in pieces, each in time, though all together take longer than any pause may."""
    body = json.dumps(say("a slow word")).encode()
    sock = opened(impatient, HEAD + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body))
    step = len(body) // 12 + 1
    for at in range(0, len(body), step):
        time.sleep(0.12)  # the pauses are what is tested
        sock.sendall(body[at : at + step])
    answer = b"".join(iter(lambda: sock.recv(65536), b""))
    sock.close()
    assert answer.startswith(b"HTTP/1.1 200") and b"a slow word" in answer


def test_a_connection_that_owes_nothing_stays_open(impatient: Served) -> None:
    body = json.dumps(say("one")).encode()
    request = HEAD + b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
    sock = opened(impatient, request)
    assert sock.recv(65536).startswith(b"HTTP/1.1 200")
    time.sleep(1.2)  # longer than patience, and than its looks are apart
    sock.sendall(request)
    assert sock.recv(65536).startswith(b"HTTP/1.1 200")
    sock.close()


ASKED = json.dumps(say("and then silence")).encode()


def test_an_idle_client_is_disconnected_after_its_answer(home: Path) -> None:
    with serving(Gateway(parrot, home=home)) as served:
        assert isinstance(served.server, Server)
        served.server.reaper = SlowClientReaper(idle=0.5, every=1)
        sock = opened(served, HEAD + b"Content-Length: %d\r\n\r\n%s" % (len(ASKED), ASKED))
        assert sock.recv(65536).startswith(b"HTTP/1.1 200 OK\r\n")
        assert ended(sock)


def test_a_body_that_trickles_is_cut_off(home: Path) -> None:
    """Issue 11, D 16: a byte now and then kept a connection for ever; a minimum rate ends it."""
    with serving(Gateway(parrot, home=home)) as served:
        assert isinstance(served.server, Server)
        served.server.reaper = SlowClientReaper(grace=0.3, rate=500.0, every=1)
        sock = opened(served, HEAD + b"Content-Length: 100000\r\n\r\n")
        sock.settimeout(0.05)
        for _ in range(400):
            try:
                sock.sendall(b" ")
                if sock.recv(1) == b"":
                    break
            except TimeoutError:
                continue
            except OSError:
                break
        else:
            pytest.fail("the trickle was heard for 20 seconds")
        sock.close()
