"""A task outlives the server that took it: stopped in order, or killed in the middle of its work."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest
from a2a.client import Client
from a2a.types import a2a_pb2 as pb

from conftest import serving
from deadline import DEADLINE
from free_ports import free_port
from gates import Gate
from protocols.a2a.a2a_bench import Bench, Keys, closed, connected, said, saying, text_of
from sabir.gateway.gateway import Gateway
from sabir.guard import Authenticator
from sabir.server import Serving
from sabir.tasks import TaskSettings

QUICK = TaskSettings(lease=0.5, look=0.05)

SCRIPT = """
import asyncio, sys
from pathlib import Path
from sabir import Gateway, agent
from sabir.tasks import TaskSettings

home, port = Path(sys.argv[1]), int(sys.argv[2])

@agent(description="SuspendedTurns for a file", repeatable=True)
async def slow(turn):
    yield "first "
    (home / "entered").touch()
    while not (home / "go").exists():
        await asyncio.sleep(0.01)
    yield "last"

Gateway(slow, home=home, tasks=TaskSettings(lease=0.5, look=0.05)).run(port=port, say=print)
"""


@contextmanager
def process(home: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    running = subprocess.Popen([sys.executable, "-c", SCRIPT, str(home), str(port)], stdout=subprocess.DEVNULL)
    try:
        end = time.monotonic() + DEADLINE
        while time.monotonic() < end:
            try:
                urlopen(f"http://127.0.0.1:{port}/.well-known/agent-card.json", timeout=1).read()
                break
            except OSError:
                time.sleep(0.05)
        yield running
    finally:
        running.kill()
        running.wait(DEADLINE)


async def ended(client: Client, task: str) -> pb.Task:
    while True:
        found = await client.get_task(pb.GetTaskRequest(id=task))
        if found.status.state not in (pb.TASK_STATE_SUBMITTED, pb.TASK_STATE_WORKING):
            return found
        await asyncio.sleep(0.02)


async def test_a_task_is_finished_after_kill_9(home: Path, unused_port: int) -> None:
    home.mkdir()
    with process(home, unused_port) as first:
        url = f"http://127.0.0.1:{unused_port}"
        client = await connected(url, "slow", streaming=False)
        (begun,) = await said(client, saying("work", return_immediately=True))
        while not (home / "entered").exists():
            await asyncio.sleep(0.01)
        first.send_signal(signal.SIGKILL)
        await asyncio.to_thread(first.wait, DEADLINE)
        await closed(client)
    with process(home, unused_port):
        client = await connected(url, "slow")
        again = client.subscribe(pb.SubscribeToTaskRequest(id=begun.task.id))
        assert (await anext(again)).task.context_id == begun.task.context_id
        (home / "go").touch()
        *_, last = [response async for response in again]
        assert last.status_update.status.state == pb.TASK_STATE_COMPLETED
        task = await client.get_task(pb.GetTaskRequest(id=begun.task.id))
        assert text_of(task) == "first last"
        (listed,) = (await client.list_tasks(pb.ListTasksRequest(context_id=task.context_id))).tasks
        assert listed.id == task.id
        await closed(client)


def made(bench: Bench, home: Path, **more: object) -> Gateway:
    serving = Serving(home=str(home), graceful_seconds=0.1)  # a turn that still runs is cut off
    known = Authenticator((Keys(),))
    return Gateway(*bench.agents(), home=home, identity=known, tasks=QUICK, serving=serving, **more)  # type: ignore[arg-type]


async def test_a_question_can_be_answered_after_a_restart(home: Path) -> None:
    bench = Bench(repeatable=True)
    with serving(made(bench, home)) as served:
        client = await connected(served.url, "asker", as_="alice", streaming=False)
        (asking,) = await said(client, saying("paint"))
        assert asking.task.status.state == pb.TASK_STATE_INPUT_REQUIRED
        await closed(client)
    with serving(made(bench, home)) as served:
        client = await connected(served.url, "asker", as_="alice", streaming=False)
        found = await client.get_task(pb.GetTaskRequest(id=asking.task.id))
        assert found.status.message.parts[0].text == "Which colour?"
        await said(client, saying("blue", task=asking.task.id))
        done = await ended(client, asking.task.id)
        assert text_of(done) == "You chose blue."
        assert [m.parts[0].text for m in done.history] == ["paint", "Which colour?", "blue"]
        bob = await connected(served.url, "asker", as_="bob", streaming=False)
        assert not (await bob.list_tasks(pb.ListTasksRequest())).tasks
        for item in (client, bob):
            await closed(item)


async def test_work_that_must_not_be_done_twice_fails_and_says_why(home: Path) -> None:
    bench = Bench(repeatable=False)
    with serving(made(bench, home)) as served:
        client = await connected(served.url, "slow", streaming=False)
        (begun,) = await said(client, saying("work", return_immediately=True))
        assert await asyncio.to_thread(bench.gate.entered.wait, DEADLINE)
        await closed(client)
    bench.gate = Gate()
    with serving(made(bench, home)) as served:
        client = await connected(served.url, "slow", streaming=False)
        task = await ended(client, begun.task.id)
        assert task.status.state == pb.TASK_STATE_FAILED
        assert "not repeatable" in task.status.message.parts[0].text
        await closed(client)


@pytest.fixture
def unused_port() -> int:
    return free_port()
