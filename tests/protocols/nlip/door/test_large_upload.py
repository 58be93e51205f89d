"""One GiB through a gateway of its own process: its memory does not grow with what passes through it."""

from __future__ import annotations

import asyncio
import hashlib
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx2
import pytest

from deadline import DEADLINE
from sabir.message import Message, token_part, uri_part
from sabir.protocols.nlip.wire import json as nlip

SIZE = 1024**3
BLOCK = bytes(range(256)) * 4096

SERVER = """
import hashlib, sys
from sabir.agent import agent
from sabir.gateway import Gateway

@agent(name="reader")
async def reader(turn):
    (attached,) = await turn.attachments.all(turn.message)
    digest = hashlib.sha256()
    async for block in attached.chunks():
        digest.update(block)
    return f"{attached.size} {digest.hexdigest()}"

Gateway(reader, home=sys.argv[1]).run(port=0)
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[str, int]]:
    """Its URL and its process id."""
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER, str(tmp_path / "home")], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdout is not None
    line = process.stdout.readline().decode()
    found = re.search(r"http://\S+", line)
    assert found is not None, line
    try:
        yield found.group(), process.pid
    finally:
        process.terminate()
        process.wait(DEADLINE)
        process.stdout.close()


def resident(pid: int) -> int:
    """Bytes of memory that a process holds now."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) * 1024


async def blocks(size: int) -> AsyncIterator[bytes]:
    while size > 0:
        yield BLOCK[: min(size, len(BLOCK))]
        size -= len(BLOCK)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
async def test_a_gibibyte_passes_in_two_pieces_and_memory_stays_flat(server: tuple[str, int]) -> None:
    url, pid = server
    wanted = hashlib.sha256()
    for _ in range(SIZE // len(BLOCK)):
        wanted.update(BLOCK)
    async with httpx2.AsyncClient(trust_env=False, timeout=600) as http:
        while True:
            try:
                asked = await http.post(
                    f"{url}/nlip", content=nlip.encode(Message.text("upload?", messagetype="control"))
                )
                break
            except httpx2.ConnectError:
                await asyncio.sleep(0.05)
        reply = nlip.decode(asked.content)
        place = reply.labelled("upload")
        assert place is not None
        before = peak = resident(pid)
        half = SIZE // 2

        async def watched(size: int) -> AsyncIterator[bytes]:
            nonlocal peak
            async for number in _numbered(size):
                if number[0] % 32 == 0:
                    peak = max(peak, resident(pid))
                yield number[1]

        one = await http.put(
            str(place.content),
            content=watched(half),
            headers={"content-range": f"bytes 0-{half - 1}/{SIZE}", "content-length": str(half)},
        )
        assert one.headers["upload-offset"] == str(half)
        two = await http.patch(
            str(place.content),
            content=watched(half),
            headers={"upload-offset": str(half), "content-length": str(half)},
        )
        assert two.status_code == 201
        said = Message.text("read").with_parts((uri_part(str(place.content)), token_part(reply.tokens[-1].content)))
        answer = nlip.decode((await http.post(f"{url}/nlip", content=nlip.encode(said))).content)
        peak = max(peak, resident(pid))
    assert answer.text == f"{SIZE} {wanted.hexdigest()}"
    print(f"grew by {(peak - before) / 1024**2:.1f} MiB")
    assert peak - before < 64 * 1024**2, f"grew by {(peak - before) / 1024**2:.1f} MiB"


async def _numbered(size: int) -> AsyncIterator[tuple[int, bytes]]:
    number = 0
    async for block in blocks(size):
        number += 1
        yield number, block
