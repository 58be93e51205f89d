"""The cost of an idle conversation in the gateway's process: at most 1 KB of memory each, for 100,000 of them.

    python bench/idle_conversations.py [--conversations 100000]

A real gateway (SQLite) is asked over HTTP until that many conversations exist, each with a recorded turn and a token
that its client keeps; then one in a thousand is continued, to show that all still exist. The growth of the process in
resident memory is divided by their number.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time

import msgspec

TO_REACH = 1024  # bytes each
CONNECTIONS = 16
WARM_UP = 5_000  # requests before the first measurement: until caches, pools and arenas have reached their size


def resident(process: int) -> int:
    """Resident memory of a process, in bytes."""
    try:
        with open(f"/proc/{process}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except FileNotFoundError:
        return int(subprocess.check_output(["ps", "-o", "rss=", "-p", str(process)])) * 1024


class Connection:
    """One kept-alive connection; as simple as possible, so that the client is not the bottleneck."""

    def __init__(self, port: int) -> None:
        self.port = port

    async def open(self) -> None:
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)

    async def ask(self, text: str, token: object = None) -> dict[str, object]:
        message: dict[str, object] = {"format": "text", "subformat": "english", "content": text}
        if token is not None:
            message["submessages"] = [token]
        body = msgspec.json.encode(message)
        self.writer.write(
            f"POST /nlip/echo HTTP/1.1\r\nhost: 127.0.0.1:{self.port}\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\n\r\n".encode()
            + body
        )
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        reply = await self.reader.readexactly(int(length.partition(b":")[2]))
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(reply.decode())
        return msgspec.json.decode(reply)  # type: ignore[no-any-return]


async def converse(connections: list[Connection], count: int, keep: list[object]) -> None:
    """Start this many conversations; the tokens of one in a thousand are kept."""
    left = iter(range(count))

    async def one(connection: Connection) -> None:
        for number in left:
            reply = await connection.ask(f"conversation {number}")
            if number % 1000 == 0:
                keep.extend(part for part in reply["submessages"] if part["format"] == "token")  # type: ignore[attr-defined]

    await asyncio.gather(*(one(connection) for connection in connections))


async def run(count: int) -> bool:
    with tempfile.TemporaryDirectory(prefix="sabir-idle-") as home:
        gateway = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "sabir", "serve", "--port", "0", "--home", home, "--log-level", "error",
            stdout=asyncio.subprocess.PIPE, cwd=home, env={**os.environ, "SABIR_SITES": "[]"},  # only echo
        )  # fmt: skip
        try:
            assert gateway.stdout is not None
            port = int((await gateway.stdout.readline()).decode().rstrip().rpartition(":")[2])
            connections = [Connection(port) for _ in range(CONNECTIONS)]
            while True:
                try:
                    await asyncio.gather(*(connection.open() for connection in connections))
                    break
                except ConnectionRefusedError:
                    await asyncio.sleep(0.05)
            tokens: list[object] = []
            await converse(connections, WARM_UP, tokens)
            before = resident(gateway.pid)
            tokens.clear()
            begun = time.perf_counter()
            await converse(connections, count, tokens)
            took = time.perf_counter() - begun
            after = resident(gateway.pid)
            for token in tokens:
                reply = await connections[0].ask("are you still there?", token)
                assert token in reply["submessages"]  # type: ignore[operator]
        finally:
            gateway.kill()
            await gateway.wait()
    item = (after - before) / count
    print(f"{count:,} conversations in {took:.0f} s ({count / took:,.0f} a second), {len(tokens)} of them gone on with")
    print(f"resident memory: {before / 2**20:.1f} MiB before, {after / 2**20:.1f} MiB after: {item:,.0f} bytes each")
    print(f"at most {TO_REACH} bytes each: {'reached' if item <= TO_REACH else 'NOT reached'}")
    return item <= TO_REACH


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--conversations", type=int, default=100_000)
    return 0 if asyncio.run(run(parser.parse_args().conversations)) else 1


if __name__ == "__main__":
    raise SystemExit(main())
