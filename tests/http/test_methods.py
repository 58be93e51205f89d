"""What each path does with each method: HEAD where GET reads, and 405 with Allow where a method means nothing."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import httpx2
import pytest

from conftest import Served, serving
from deadline import DEADLINE
from sabir import Gateway
from sabir.agents.echo import echo

READ = (  # paths that GET reads
    "/",
    "/health",
    "/.well-known/nlip",
    "/.well-known/acl",
    "/.well-known/agent-card.json",
    "/openapi.json",
    "/who?query=echo",
    "/sites",
    "/acl/directory",
    "/acl/conversations/nothing",
    "/await/nothing",
    "/nlip/tasks/nothing",
    "/a2a/echo/tasks",
    "/a2a/echo/tasks/nothing",
    "/a2a/echo/v1/tasks/nothing",
)
STREAMS = ("/ask?query=hello", "/mcp-events", "/acl/inbox/nobody", "/a2a/echo/tasks/nothing:subscribe")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(Gateway(echo, home=tmp_path_factory.mktemp("home"))) as one:
        yield one


def _sent(served: Served, method: str, path: str) -> httpx2.Response:
    version = "0.3" if "/v1/" in path else "1.0"
    return httpx2.request(method, served.url + path, headers={"a2a-version": version})


@pytest.mark.parametrize("path", READ)
def test_head_answers_as_get_does_without_the_body(served: Served, path: str) -> None:
    whole, head = _sent(served, "GET", path), _sent(served, "HEAD", path)
    assert head.status_code == whole.status_code
    assert head.content == b""
    assert head.headers["content-type"] == whole.headers["content-type"]


@pytest.mark.parametrize("path", READ)
@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_a_method_that_means_nothing_is_reported_which_do(served: Served, method: str, path: str) -> None:
    answer = _sent(served, method, path)
    if answer.status_code != 404:  # of what is not there
        assert answer.status_code == 405
        assert {"GET", "HEAD"} <= {name.strip() for name in answer.headers["allow"].split(",")}


@pytest.mark.parametrize("path", STREAMS)
def test_head_runs_no_turn_and_opens_no_stream(served: Served, path: str) -> None:
    answer = _sent(served, "HEAD", path)
    assert answer.status_code == 405
    assert "HEAD" not in answer.headers["allow"]


@pytest.mark.parametrize("hosts", [b"", b"Host: 127.0.0.1\r\nHost: localhost\r\n"], ids=["none", "two"])
def test_a_request_needs_one_host(served: Served, hosts: bytes) -> None:
    with socket.create_connection((served.host, served.port), timeout=DEADLINE) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\n" + hosts + b"Connection: close\r\n\r\n")
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"at Host: expected one header with one host name" in answer
