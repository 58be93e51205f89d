"""Headers that hold numbers, with texts that look like numbers to Python: no door fails, and none guesses."""

from __future__ import annotations

import http.client
import json
import logging
from collections.abc import Iterator
from contextlib import closing

import pytest

from conftest import Served, serving
from edge_doors import DRIVERS, DoorDriver
from sabir import Gateway
from sabir.agents.echo import echo
from sabir.numerals import whole_number

ODD = ("²", "¼", "1²", "9" * 30, "9" * 5000, "-1", "1e999", "nan", "inf", "0x1", "1_0", " ", "")
HEADERS = (
    "prefer: wait={}",
    "x-sabir-hops: {}",
    "last-event-id: {}",
    "upload-offset: {}",
    "upload-length: {}",
    "range: bytes={}-{}",
    "content-range: bytes {}-{}/{}",
    "accept: application/json;q={}",
    "traceparent: {}",
    "mcp-session-id: {}",
    "a2a-version: {}",
)
PATHS = (
    ("GET", "/acl/inbox/echo"),
    ("GET", "/mcp-events"),
    ("GET", "/await/x"),
    ("GET", "/nlip/tasks/x"),
    ("HEAD", "/nlip/upload/x"),
    ("PATCH", "/nlip/upload/x"),
    ("GET", "/a2a/echo/tasks?pageSize={}&historyLength={}&pageToken={}"),
    ("GET", "/ask?query=x&meta.start_num={}&query.min_score={}&prefer.wait={}"),
    ("GET", "/who?query=x&meta.max_results={}"),
    ("GET", "/acl/conversations?limit={}"),
)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(Gateway(echo, home=tmp_path_factory.mktemp("home"))) as one:
        yield one


def _status(served: Served, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> int:
    with closing(http.client.HTTPConnection(served.host, served.port, timeout=20)) as connection:
        encoded = {name: value.encode("latin-1") for name, value in headers.items()}
        connection.request(method, path, body, encoded)  # type: ignore[arg-type]
        with connection.getresponse() as answer:
            return answer.status


@pytest.mark.parametrize("header", HEADERS)
@pytest.mark.parametrize("door", DRIVERS, ids=lambda door: door.name)
def test_no_header_makes_a_door_fail(
    served: Served, door: DoorDriver, header: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    name, _, form = header.partition(": ")
    statuses = {}
    for odd in ODD:
        headers = {"content-type": "application/json", **door.headers, name: form.replace("{}", odd)}
        statuses[odd[:8]] = _status(served, "POST", door.path, door.bytes(), headers)
    assert max(statuses.values()) < 500, statuses
    assert not caplog.records, caplog.text[:2000]


@pytest.mark.parametrize(("method", "path"), PATHS)
def test_no_number_of_a_request_makes_a_door_fail(
    served: Served, method: str, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    statuses = {}
    for odd in ("%C2%B2", "%D9%A3", *(odd for odd in ODD if odd.isascii() and odd.strip())):
        headers = {"accept": "application/json", "last-event-id": "1²", "upload-offset": "²", "a2a-version": "1.0"}
        statuses[odd[:8]] = _status(served, method, path.replace("{}", odd), None, headers)
    assert max(statuses.values()) < 500, statuses
    assert not caplog.records, caplog.text[:2000]


@pytest.mark.parametrize("text", [*ODD, "٣", "1" * 19, "+1", "1 "])
def test_a_text_that_is_not_a_number_is_none(text: str) -> None:
    assert whole_number(text) is None


def test_a_number_is_read() -> None:
    assert [whole_number(text) for text in ("0", "007", "9" * 18)] == [0, 7, 10**18 - 1]
    assert json.loads("9" * 18) < 2**63
