"""A server under test may be anything: ``sabir check`` reports what it does wrong, and is not harmed by it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from conftest import Serve
from sabir import Gateway
from sabir.agents.echo import echo
from sabir.conformance import http_target
from sabir.conformance.base import Check, Wire, run_checks
from sabir.conformance.http_target import HttpTarget
from sabir.conformance.report import as_table
from sabir.conformance.suites import Options, check_nlip
from sabir.errors import ConfigError
from sabir.guard.build import GuardSettings
from sabir.guard.quotas.rates import Quotas

Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def serving_bytes(answer: Answer) -> AsyncIterator[str]:
    """A server that reads a request and answers with whatever bytes it likes."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            length = [
                line.split(b":")[1] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")
            ]
            await reader.readexactly(int(length[0]) if length else 0)
            await answer(writer)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


def fixed(body: bytes, *headers: str, status: str = "200 OK") -> Answer:
    head = f"HTTP/1.1 {status}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n"
    data = head.encode() + "".join(f"{line}\r\n" for line in headers).encode() + b"\r\n" + body

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(data)

    return answer


STRANGE = {
    "a page": fixed(b"<html>hello</html>", "content-type: text/html"),
    "nothing": fixed(b"", "content-type: application/json"),
    "bytes": fixed(b"\xff\xfe\x00", "content-type: application/json"),
    "a list": fixed(b"[1, 2]", "content-type: application/json"),
    "invalid parts": fixed(
        b'{"format":"text","subformat":"english","content":"x","submessages":[1,null,"y"]}',
        "content-type: application/json",
    ),
    "an invalid address": fixed(b"{}", "location: http://[", status="202 Accepted"),
    "a redirect to nowhere": fixed(b"", "location: http://[", status="307 Temporary Redirect"),
    "a wrong encoding": fixed(b"not zipped", "content-encoding: gzip"),
}


@pytest.mark.parametrize("answer", STRANGE.values(), ids=STRANGE)
async def test_whatever_is_answered_the_report_is_complete(answer: Answer) -> None:
    async with serving_bytes(answer) as url:
        report = await check_nlip(url, Options(only=("http",), seconds=5))
    assert len(report.outcomes) > 90
    failed = {outcome.id for outcome in report.outcomes if outcome.verdict == "failed"}
    assert {"CORE-6.2", "CORE-6.3"} <= failed
    is_message = answer is STRANGE["invalid parts"]
    assert is_message or {"HTTP-6.2", "CORE-6.1"} <= failed
    assert all(outcome.evidence for outcome in report.outcomes if outcome.verdict == "failed")


async def test_a_server_that_fails_at_a_hello_is_not_checked_further() -> None:
    answer = fixed(b"Traceback (most recent call last)", status="500 Internal Server Error")
    async with serving_bytes(answer) as url:
        report = await check_nlip(url, Options(only=("http",), seconds=5))
    assert report.stopped == "A plain hello is answered with HTTP 500."
    assert [(outcome.id, outcome.verdict) for outcome in report.outcomes] == [("HTTP-6.2", "failed")]


async def test_an_answer_without_end_is_read_up_to_a_limit_only(monkeypatch: pytest.MonkeyPatch) -> None:
    limit = 128 * 1024
    monkeypatch.setattr(http_target, "MAX_READ", limit)
    sent = 0

    async def endless(writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n")
        while True:
            writer.write(b"x" * 65536)
            await writer.drain()
            sent += 65536

    async with serving_bytes(endless) as url:
        report = await check_nlip(url, Options(only=("http",), seconds=10))
    reasons = {outcome.reason for outcome in report.outcomes if outcome.verdict == "failed"}
    assert f"the answer is longer than {limit} bytes" in reasons
    assert sent < 32 * limit * (len(report.outcomes) + 10)


async def test_the_upload_place_of_another_host_is_not_touched() -> None:
    touched = []

    async def other(writer: asyncio.StreamWriter) -> None:
        touched.append(1)

    async with serving_bytes(other) as elsewhere:
        place = elsewhere.replace("127.0.0.1", "localhost")
        reply = (
            '{"messagetype":"control","format":"text","subformat":"english","content":"there",'
            f'"submessages":[{{"format":"structured","subformat":"uri","content":"{place}/up"}}]}}'
        )
        async with serving_bytes(fixed(reply.encode(), "content-type: application/json")) as url:
            report = await check_nlip(url, Options(only=("http",)))
    [upload] = [outcome for outcome in report.outcomes if outcome.id == "HTTP-6.1.1"]
    assert upload.verdict == "skipped"
    assert touched == []


async def test_a_binding_is_checked_at_its_own_address() -> None:
    with pytest.raises(ConfigError):
        await check_nlip("http://127.0.0.1:9", Options(only=("amqp",)))
    with pytest.raises(ConfigError):
        await check_nlip("amqp://127.0.0.1/agent", Options(only=("http",)))


async def test_it_goes_slowly_on_request(serve: Serve, home: object) -> None:
    """So many checks at so many seconds apart take that long at least; nothing runs at the same time."""
    began = asyncio.get_running_loop().time()
    report = await check_nlip(
        serve(Gateway(echo, home=home)).url, Options(only=("websocket",), level="must", pause=0.01)
    )  # type: ignore[arg-type]
    assert asyncio.get_running_loop().time() - began >= 0.01 * len(report.outcomes)


async def test_a_server_that_asks_to_slow_down_is_given_time(serve: Serve, home: Path) -> None:
    """It takes 20 requests at once and 30 a second after that: every check is made all the same."""
    quotas = Quotas(rate_per_caller=30.0, rate_per_address=30.0, burst=20.0)
    served = serve(Gateway(echo, home=home, guard=GuardSettings(quotas=quotas)))
    report = await check_nlip(served.url, Options(only=("http",), level="must"))
    found = [item for outcome in report.outcomes for item in outcome.evidence if "HTTP 429" in item.received]
    assert found
    assert {o.id for o in report.outcomes if o.verdict in ("failed", "declined")} == set()


async def test_a_check_s_own_time_stands_still_while_it_waits() -> None:
    asked = 0

    async def busy(writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        asked += 1
        refused = fixed(b"", "retry-after: 2", status="429 Too Many Requests")
        await (refused if asked == 1 else fixed(b"{}"))(writer)

    async def ask(target: HttpTarget) -> None:
        assert (await target.post(b"{}")).status == 200

    async with serving_bytes(busy) as url, Options().client() as client:

        async def connect(wire: Wire) -> HttpTarget:
            return HttpTarget(client, url, wire)

        [outcome] = await run_checks([Check("x", "x", "must", "x", ask, "http")], connect, seconds=1.9)
    assert (outcome.verdict, asked) == ("passed", 2)


@pytest.mark.parametrize("later", ["86400", "Fri, 01 Jan 2100 00:00:00 GMT"])
async def test_a_server_that_asks_for_a_day_is_not_waited_for(later: str) -> None:
    async with serving_bytes(fixed(b"", f"retry-after: {later}", status="429 Too Many Requests")) as url:
        report = await check_nlip(url, Options(only=("http",)))
    assert {outcome.verdict for outcome in report.outcomes} <= {"declined", "skipped"}
    assert "come back in" in report.outcomes[0].reason


async def test_many_checks_skipped_for_one_reason_are_one_line() -> None:
    answer = fixed(b'{"format":"text","subformat":"english","content":"x"}', "content-type: application/json")
    async with serving_bytes(answer) as url:
        report = await check_nlip(url, Options(only=("websocket",), seconds=5))
    reason = "nothing answers at /nlip/ws"
    skipped = sum(outcome.reason == reason for outcome in report.outcomes)
    assert skipped > 50
    short = as_table(report).splitlines()
    assert [line for line in short if line.endswith(reason)] == [f"  skipped   {skipped} checks: {reason}"]
    failed = [outcome for outcome in report.outcomes if outcome.verdict == "failed"]
    assert failed and all(any(outcome.id in line for line in short) for outcome in failed)
    every = as_table(report, verbose=True)
    assert all(outcome.title in every for outcome in report.outcomes)
