"""What the ``kill -9`` checks share: a gateway process, a conversation with it, and the check of its audit log."""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import signal
import sys
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar
from uuid import uuid4

import httpx2
import msgspec

from sabir.errors import BusUnavailable
from sabir.stores.base import ChainedLine, Store, chain

START_SECONDS = 60.0


class GatewayProcess:
    """``sabir serve`` with a configuration; it can be killed and restarted."""

    def __init__(self, config: Path, *options: str, name: str = "gateway") -> None:
        self.name = name
        self.port = 0
        self._command = [sys.executable, "-m", "sabir", "serve", str(config), "--log-level", "error", *options]
        self._folder = config.parent  # agents of the configuration may be modules in it
        self._process: asyncio.subprocess.Process | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        path = os.pathsep.join(filter(None, (str(self._folder), os.environ.get("PYTHONPATH"))))
        self._process = await asyncio.create_subprocess_exec(
            *(*self._command, "--port", str(self.port)),
            stdout=asyncio.subprocess.PIPE,
            cwd=self._folder,
            env={**os.environ, "PYTHONPATH": path, "NODE": self.name},
        )
        assert self._process.stdout is not None
        async with asyncio.timeout(START_SECONDS):
            greeting = (await self._process.stdout.readline()).decode()
            if "listening on" not in greeting:
                raise RuntimeError(f"{self.name} did not start: {greeting!r}")
            self.port = int(greeting.rstrip().rpartition(":")[2])
            async with httpx2.AsyncClient(verify=False) as http:
                while not await self._ready(http):
                    await asyncio.sleep(0.01)

    async def _ready(self, http: httpx2.AsyncClient) -> bool:
        try:
            return (await http.get(f"{self.url}/health/ready")).status_code == 200
        except httpx2.TransportError:
            return False

    async def kill(self, how: signal.Signals = signal.SIGKILL) -> None:
        if self._process is not None and self._process.returncode is None:
            os.kill(self._process.pid, how)
            await self._process.wait()
            self._process._transport.close()  # type: ignore[attr-defined]  # the pipe, which nobody reads any more


def message(text: str, token: dict[str, Any] | None = None) -> dict[str, Any]:
    said: dict[str, Any] = {"format": "text", "subformat": "english", "content": text}
    return {**said, "submessages": [token]} if token is not None else said


@dataclass
class Talk:
    """One conversation: its questions, and the answers so far."""

    turns: ClassVar[int]

    token: dict[str, Any] | None = None
    answered: list[str] = field(default_factory=list)
    questions: list[str] = field(init=False)
    keys: list[str] = field(init=False)

    def __post_init__(self) -> None:
        self.questions = [f"{n} {uuid4().hex}" for n in range(self.turns)]
        self.keys = [uuid4().hex for _ in range(self.turns)]

    def next_turn(self) -> dict[str, Any]:
        """The current request, the same each time until it is answered."""
        turn = len(self.answered)
        return {
            "json": message(self.questions[turn], self.token),
            "headers": {"idempotency-key": self.keys[turn]},
        }

    def hears(self, reply: httpx2.Response) -> None:
        assert reply.status_code == 200, f"HTTP {reply.status_code}: {reply.text[:200]}"
        said = reply.json()
        self.answered.append(said["content"])
        self.token = next(part for part in said["submessages"] if part["format"] == "token")


async def stored_as_answered(store: Store, talk: Talk, ids: Sequence[str], audited: dict[str, int]) -> None:
    """Check that its conversation has its turns once and in order, with their answers, each with one audit entry."""
    first = await store.turn(ids[0])
    assert first is not None
    stored = await store.turns(first.conversation, 100)
    assert [turn.asked.text for turn in stored] == talk.questions, "turns are lost, doubled or out of order"
    assert [turn.answered.text for turn in stored] == talk.answered, "an answer is not the one that the client got"
    row = await store.conversation(first.conversation)
    assert row is not None and row.turns == talk.turns
    for turn in stored:
        assert audited.get(turn.id) == 1, f"{audited.get(turn.id, 0)} audit lines for a turn"


def once(rows: Sequence[Sequence[object]], question: str) -> str:
    """The id in the only row found for a question."""
    assert len(rows) == 1, f"{question!r} is recorded {len(rows)} times"
    return str(rows[0][0])


async def audit_of(store: Store, since: ChainedLine | None) -> tuple[dict[str, int], ChainedLine | None]:
    """How many entries each turn has, after checking the chain from an entry on."""
    lines = [since] if since is not None else []
    while page := await store.audit_lines(lines[-1].number if lines else 0):
        lines += page
    for before, line in pairwise(lines):
        assert line.number == before.number + 1 and line.previous == before.hash, "the audit chain is broken"
    counts: dict[str, int] = {}
    for line in lines:
        assert line.hash == chain(line.previous, msgspec.json.encode(line.line)), "an audit line was changed"
        if line.line.kind == "turn":
            counts[line.line.turn] = counts.get(line.line.turn, 0) + 1
    return counts, lines[-1] if lines else None


def show(number: int, runs: int, every: int) -> None:
    """Show the progress: in place on a terminal, occasionally in a log."""
    if sys.stdout.isatty() or number % every == 0 or number == runs:
        print(f"\r{number} of {runs} runs", end="" if sys.stdout.isatty() else "\n", flush=True)


def options_of(doc: str | None, runs: int) -> argparse.ArgumentParser:
    """The options that all checks have."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=runs)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    return parser


def enough_kills(within: int, runs: int) -> int:
    """The exit status: 1 if too few kills came during a conversation."""
    if runs >= 10 and within < runs // 4:
        print("too few kills came during a conversation for this to prove anything", file=sys.stderr)
        return 1
    return 0


def outcome(check: Coroutine[Any, Any, int], seed: int) -> int:
    """Run a check; its exit status: 1 for a failure, 2 if a server is missing."""
    try:
        return asyncio.run(check)
    except (OSError, BusUnavailable) as exc:
        print(f"a server is missing: {exc}", file=sys.stderr)
        return 2
    except AssertionError as exc:
        print(f"\nseed {seed}: {exc}", file=sys.stderr)
        return 1
