"""Large answers of MCP servers: they pass up to a limit, and above it they end one call and nothing else.

Defects of issue 11, item E 17.
"""

from __future__ import annotations

import asyncio
import time
import tracemalloc
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from conftest import Served
from mcp_servers import ways
from mcp_servers.nursery import Nursery
from mcp_servers.ways import WAYS, client, words
from sabir.protocols.mcp.peer.limits import MAX_MESSAGE, Lines, LongLine

MIB = 1024 * 1024
UNBOUNDED = "passed on byte by byte"  # nothing of it is kept, so there is no need of a limit


@pytest.fixture(params=WAYS)
def way(
    request: pytest.FixtureRequest, tmp_path: Path, memory_server: str, programs: Nursery
) -> Iterator[tuple[Served, str, str]]:
    with ways.way(request.param, tmp_path, memory_server, programs) as made:
        yield made


async def outcome(made: Client, tool: str, size: int) -> str:
    """What a call says, be it a result, a failed one or an error."""
    try:
        return words(await made.call_tool(tool, {"bytes": size}))
    except MCPError as exc:
        return exc.error.message


async def test_a_result_above_one_mebibyte_passes(way: tuple[Served, str, str]) -> None:
    served, path, prefix = way
    async with client(served, path) as made:
        assert len(await outcome(made, f"{prefix}large", 3 * MIB)) == 3 * MIB


@pytest.mark.parametrize("way", [item for item in WAYS if item != UNBOUNDED], indirect=True)
async def test_results_above_the_limit_say_so_and_leave_the_server_usable(way: tuple[Served, str, str]) -> None:
    served, path, prefix = way
    async with client(served, path) as made:
        for _ in range(6):  # one more than opens the circuit, if they counted as failures of the server
            assert f"larger than {MAX_MESSAGE} bytes" in await outcome(made, f"{prefix}large", MAX_MESSAGE + 1)
        assert words(await made.call_tool(f"{prefix}echo", {"text": "still here"})) == "still here"


@pytest.mark.quiet
async def test_a_result_of_20_megabytes_stalls_nobody(tmp_path: Path, programs: Nursery) -> None:
    """What is measured is how long a call takes, but not longer than this process worked meanwhile, gateway and client:
    other programs on the machine, the one that writes the result among them, must not decide. The best of a few rounds
    counts, each beside its own look at the quiet gateway."""
    with ways.way("a tool at /mcp, of a program", tmp_path, "", programs) as (served, _, _):
        async with client(served, "/mcp") as greedy, client(served, "/mcp") as polite:

            async def p99_beside(other: Callable[[], Coroutine[Any, Any, None]]) -> float:
                """Of enough calls for a hundredth of them to be several; ``other`` runs again and again meanwhile."""
                times: list[float] = []
                while len(times) < 400:
                    running = asyncio.ensure_future(other())
                    while not running.done():
                        began, worked = time.perf_counter(), time.process_time()
                        await polite.call_tool("echo", {"text": "hello"})
                        times.append(min(time.perf_counter() - began, time.process_time() - worked))
                    await running
                return sorted(times)[int(len(times) * 0.99)]

            async def nothing() -> None:
                await asyncio.sleep(0.1)

            async def large() -> None:
                assert "larger than" in await outcome(greedy, "memory-large", 20_000_000)

            assert await outcome(greedy, "memory-large", 3) == "xxx"  # its program runs
            rounds = []
            while len(rounds) < 12:  # other work on the machine makes single rounds slower, never faster
                rounds.append((await p99_beside(nothing), await p99_beside(large)))
                if any(loaded < 2 * quiet for quiet, loaded in rounds):
                    break
    print(
        "p99 of others, quiet and beside a result of 20 MB:", *(f"{q * 1e3:.1f} → {b * 1e3:.1f} ms" for q, b in rounds)
    )
    assert any(loaded < 2 * quiet for quiet, loaded in rounds)


# -- lines ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [1, 2, 3, 7, 100])
def test_lines_are_the_same_however_they_are_cut(step: int) -> None:
    sent = b'{"a":1}\n\n{"b":"\xc3\xa4"}\nrest'
    lines = Lines(100)
    got = [line for at in range(0, len(sent), step) for line in lines.feed(sent[at : at + step])]
    assert got == [b'{"a":1}', b"", b'{"b":"\xc3\xa4"}']


@pytest.mark.parametrize(
    ("line", "request_id"),
    [
        (b'{"jsonrpc":"2.0","id":7,"result":{"content":"%s"}}', 7),
        (b'{"result":{"id":3,"content":"%s"},"jsonrpc":"2.0","id":"seven"}', "seven"),
        (b'{"id": 7, "jsonrpc": "2.0", "result": "%s"}', 7),
        (b'{"result": "%s", "id": 7, "jsonrpc": "2.0"}', 7),
        (b'{"result":{"content":"%s","id":7}}', None),
    ],
)
@pytest.mark.parametrize("step", [10, 5000, 10**6])
def test_a_line_that_is_too_long_becomes_the_error_of_its_request(line: bytes, request_id: Any, step: int) -> None:
    sent = line % (b"x" * 20_000) + b"\n" + b'{"next":1}\n'
    lines = Lines(10_000)
    got = [item for at in range(0, len(sent), step) for item in lines.feed(sent[at : at + step])]
    long, after = got
    assert isinstance(long, LongLine)
    error = long.error()
    assert (error.id if error is not None else None) == request_id
    assert after == b'{"next":1}'


def test_reading_a_long_line_takes_linear_time() -> None:
    def seconds(size: int) -> float:
        lines, chunk = Lines(10**9), b"x" * 65_536
        began = time.process_time()
        for _ in range(size // len(chunk)):
            lines.feed(chunk)
        lines.feed(b"\n")
        return time.process_time() - began

    small = min(seconds(4 * MIB) for _ in range(3))
    assert min(seconds(32 * MIB) for _ in range(3)) < 8 * small * 4 + 0.05  # quadratic: 64 times as long


def test_a_line_that_is_too_long_is_not_kept() -> None:
    """While 20 MB pass, no more than the limit is held, and nothing of it afterwards."""
    chunk = b"x" * 65_536
    lines = Lines(MIB)
    tracemalloc.start()
    try:
        for _ in range(20_000_000 // len(chunk)):
            lines.feed(chunk)
        [long] = lines.feed(b"\n")
        held, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert isinstance(long, LongLine)
    assert peak < 3 * MIB
    assert held < MIB // 4
