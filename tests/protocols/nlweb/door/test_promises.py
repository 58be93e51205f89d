"""Promises (W-9): answers that outlive their request, over real sockets and across a restart."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest

from conftest import Served, serving
from deadline import DEADLINE
from protocols.nlweb.agents import events
from sabir import Gateway, agent
from sabir.agents.echo import echo
from sabir.errors import Unauthenticated
from sabir.events import Field, Progress, Question
from sabir.guard import Authenticator, Credentials
from sabir.message import Message, Part
from sabir.protocols.nlweb.door.promises import remaining
from sabir.stores.base import TaskRow
from sabir.tasks import TaskSettings
from sabir.tasks.records import BEGAN
from sabir.turn import Caller, Turn


class ByName:
    """Knows callers by the name they say: ``Bearer anna``."""

    challenge = "Bearer"

    async def verify(self, credentials: Credentials, tokens: tuple[Part, ...]) -> Caller | None:
        if credentials.authorization is None:
            return None
        name = credentials.authorization.removeprefix("Bearer ")
        if not name:
            raise Unauthenticated
        return Caller(id=f"key:{name}", kind="key", name=name)


class Kitchen:
    """An agent that works until released, and counts how often it started and was stopped."""

    def __init__(self) -> None:
        self.ready = threading.Event()
        self.began = 0
        self.stopped = threading.Event()

    def agent(self) -> Any:
        @agent(name="kitchen", description="Cooks slowly", repeatable=True)
        async def kitchen(turn: Turn) -> AsyncIterator[Any]:
            self.began += 1
            yield Progress(0.5, "half done")
            try:
                while not self.ready.is_set():
                    await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                self.stopped.set()
                raise
            yield f"Cooked {turn.text}."

        return kitchen

    def cook(self) -> Any:
        @agent(name="cook", description="Asks, then cooks slowly")
        async def cook(turn: Turn) -> str:
            answer = await turn.ask("How?")
            while not self.ready.is_set():
                await asyncio.sleep(0.01)
            return f"Cooked it {answer.text}."

        return cook


@agent(description="Asks in the middle of long work")
async def waiter(turn: Turn) -> AsyncIterator[Any]:
    yield Progress(0.1, "looking")
    await asyncio.sleep(0.3)
    answer = await turn.ask(
        Question("Rare or done?", (Field("how", "Rare or done?", "single_select", ("rare", "done")),))
    )
    yield f"It is {answer.text}."


def made(home: Path, kitchen: Kitchen) -> Gateway:
    quick = TaskSettings(lease=1.0, look=0.05)
    return Gateway(
        kitchen.agent(), kitchen.cook(), echo, waiter, home=home, identity=Authenticator((ByName(),)), tasks=quick
    )


@contextmanager
def open_kitchen(gateway: Gateway, kitchen: Kitchen) -> Iterator[Served]:
    with serving(gateway) as served:
        yield served
        kitchen.ready.set()  # or the gateway would wait for it at its end


@pytest.fixture
def kitchen() -> Kitchen:
    return Kitchen()


def until(look: Callable[[], Any], what: str, seconds: float = DEADLINE) -> Any:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := look():
            return found
        time.sleep(0.02)
    raise AssertionError(f"not within {seconds} s: {what}")


def ask(served: Served, who: str = "anna", path: str = "/ask", **prefer: Any) -> httpx2.Response:
    body = {"query": {"text": "soup"}, "prefer": {"streaming": False, "wait": 0.2, **prefer}}
    return httpx2.post(served.url + path, json=body, headers={"authorization": f"Bearer {who}"})


def look(served: Served, token: str, action: str = "checkin", who: str = "anna", **more: Any) -> httpx2.Response:
    body = {"promise_token": token, "action": action, **more}
    return httpx2.post(served.url + "/await", json=body, headers={"authorization": f"Bearer {who}"})


@contextmanager
def process(home: Path) -> Iterator[str]:
    """The gateway of ``slow_gateway.py``; killed with SIGKILL at the end."""
    script = Path(__file__).with_name("slow_gateway.py")
    running = subprocess.Popen([sys.executable, str(script), str(home)], stdout=subprocess.PIPE, text=True)
    assert running.stdout is not None
    try:
        line = running.stdout.readline()
        url = line.rpartition(" ")[2].strip()
        until(lambda: _healthy(url), "the gateway's start")
        yield url
    finally:
        running.kill()
        running.wait()
        running.stdout.close()


def _healthy(url: str) -> bool:
    try:
        return httpx2.get(f"{url}/health").status_code == 200
    except httpx2.TransportError:
        return False


def test_slow_work_is_a_promise_with_progress_that_survives_kill_9(home: Path) -> None:
    home.mkdir()
    body = {"query": {"text": "soup"}, "prefer": {"streaming": False, "wait": 0.2, "response_format": "conv_search"}}
    with process(home) as url:
        response = httpx2.post(f"{url}/ask", json=body)
        assert response.status_code == 202
        promised = response.json()
        token = promised["promise"]["token"]
        assert promised["_meta"]["response_type"] == "Promise" and len(token) >= 43
        assert response.headers["location"] == f"/await/{token}" and response.headers["retry-after"]
        later = httpx2.get(f"{url}/await/{token}")
        assert later.status_code == 202
        assert (later.json()["promise"]["progress"], later.json()["promise"]["message"]) == (0.5, "half done")
        assert (home / "began").read_text() == "once\n"  # the turn under way became the task; none was begun anew
    (home / "ready").touch()
    with process(home) as url:
        answer = until(lambda: (r := httpx2.get(f"{url}/await/{token}")).status_code == 200 and r.json(), "the answer")
    assert answer["_meta"]["response_type"] == "Answer"
    assert answer["_meta"]["response_format"] == "conv_search"  # as it was asked for at first
    assert answer["results"][0]["text"] == "Cooked soup."
    assert answer["_meta"]["session_context"] == promised["_meta"]["session_context"]
    assert (home / "began").read_text() == "once\nonce\n"


def test_a_promise_that_is_kept_here_gives_the_answer_once_and_again(home: Path, kitchen: Kitchen) -> None:
    with open_kitchen(made(home, kitchen), kitchen) as served:
        token = ask(served).json()["promise"]["token"]
        kitchen.ready.set()
        for _ in range(2):
            got = httpx2.get(
                f"{served.url}/await/{token}",
                headers={"authorization": "Bearer anna", "prefer": "wait=10"},
                timeout=DEADLINE,
            )
            assert got.status_code == 200 and got.json()["content"][0]["text"] == "Cooked soup."
        assert kitchen.began == 1
        late = look(served, token, "cancel")
        assert late.json()["content"][0]["text"] == "Cooked soup."  # too late: it has ended


def test_cancelling_ends_the_work(home: Path, kitchen: Kitchen) -> None:
    with open_kitchen(made(home, kitchen), kitchen) as served:
        token = ask(served).json()["promise"]["token"]
        cancelled = look(served, token, "cancel")
        assert cancelled.status_code == 200 and cancelled.json()["error"]["code"] == "CANCELLED"
        assert kitchen.stopped.wait(DEADLINE)
        assert look(served, token).json()["error"]["code"] == "CANCELLED"


def test_another_caller_knows_no_such_promise(home: Path, kitchen: Kitchen) -> None:
    with open_kitchen(made(home, kitchen), kitchen) as served:
        token = ask(served, "anna").json()["promise"]["token"]
        for action in ("checkin", "cancel"):
            foreign = look(served, token, action, who="bob")
            assert foreign.status_code == 404 and foreign.json()["error"]["code"] == "UNKNOWN_PROMISE"
        unknown = look(served, "f" * 64)
        assert unknown.json()["error"] == foreign.json()["error"]
        assert look(served, token).status_code == 202


def test_respond_async_is_a_promise_at_once(home: Path, kitchen: Kitchen) -> None:
    with open_kitchen(made(home, kitchen), kitchen) as served:
        body = {"query": {"text": "soup"}, "prefer": {"streaming": False}}
        response = httpx2.post(
            served.url + "/ask/echo", json=body, headers={"prefer": "respond-async"}, timeout=DEADLINE
        )
        assert response.status_code == 202
        token = response.json()["promise"]["token"]
        got = until(
            lambda: (r := httpx2.get(f"{served.url}/await/{token}")).status_code == 200 and r.json(), "the echo"
        )
        assert got["content"][0]["text"] == "You said: soup"


def test_fast_work_is_not_a_promise(home: Path, kitchen: Kitchen) -> None:
    with open_kitchen(made(home, kitchen), kitchen) as served:
        assert ask(served, path="/ask/echo").status_code == 200


def test_a_stream_with_a_time_limit_ends_with_the_promise(home: Path, kitchen: Kitchen) -> None:
    with open_kitchen(made(home, kitchen), kitchen) as served:
        heard = events(ask(served, streaming=True).text)
        assert [name for name, _ in heard] == ["start", "progress", "promise", "complete"]
        assert heard[2][1]["promise"]["token"] and heard[2][1]["_meta"]["response_type"] == "Promise"


def test_a_stream_with_progress_continues_without_a_promise(home: Path, kitchen: Kitchen) -> None:
    gateway = made(home, kitchen)
    next(door for door in gateway.doors if door.name == "nlweb").wait = 0.2  # type: ignore[attr-defined]
    with open_kitchen(gateway, kitchen) as served:
        threading.Timer(0.6, kitchen.ready.set).start()
        body = {"query": {"text": "soup"}, "prefer": {"streaming": True}}
        heard = events(httpx2.post(served.url + "/ask", json=body).text)
        assert [name for name, _ in heard] == ["start", "progress", "content", "complete"]


def test_a_promise_that_asks_back_is_an_elicitation(home: Path, kitchen: Kitchen) -> None:
    with open_kitchen(made(home, kitchen), kitchen) as served:
        token = ask(served, path="/ask/waiter").json()["promise"]["token"]
        asked = until(lambda: (r := look(served, token)).status_code == 200 and r.json(), "the question")
        assert asked["_meta"]["response_type"] == "Elicitation"
        assert asked["elicitation"]["questions"][0]["options"] == ["rare", "done"]


def test_an_answer_whose_turn_takes_long_to_end_is_a_promise_too(home: Path, kitchen: Kitchen) -> None:
    with open_kitchen(made(home, kitchen), kitchen) as served:
        asked = ask(served, path="/ask/cook", wait=5).json()
        assert asked["_meta"]["response_type"] == "Elicitation"
        body = {
            "query": {"text": "rare"},
            "prefer": {"streaming": False, "wait": 0.2},
            "meta": {"session_context": asked["_meta"]["session_context"]},
        }
        who = {"authorization": "Bearer anna"}
        promised = httpx2.post(f"{served.url}/ask/cook", json=body, headers=who)
        assert promised.status_code == 202
        kitchen.ready.set()
        token = promised.json()["promise"]["token"]
        got = until(lambda: (r := look(served, token)).status_code != 202 and r.json(), "the answer")
        assert got["content"][0]["text"] == "Cooked it rare."


def test_a_client_that_goes_away_cancels_the_turn(home: Path, kitchen: Kitchen) -> None:
    body = b'{"query": {"text": "x"}, "prefer": {"streaming": false}}'
    head = b"POST /ask HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
    with open_kitchen(made(home, kitchen), kitchen) as served:
        with socket.create_connection((served.host, served.port)) as client:
            client.sendall(head % len(body) + body)
            until(lambda: kitchen.began, "the cook has begun")
        assert kitchen.stopped.wait(DEADLINE)


def test_broken_await_requests_name_the_invalid_part(home: Path, kitchen: Kitchen) -> None:
    with open_kitchen(made(home, kitchen), kitchen) as served:
        for body, code in (
            (b"{", "INVALID_REQUEST"),
            (b'{"action": "checkin"}', "MISSING_FIELD"),
            (b'{"promise_token": "t", "action": "eat"}', "INVALID_ACTION"),
            (b'{"promise_token": "t", "action": "checkin", "meta": {"version": "7"}}', "UNSUPPORTED_VERSION"),
        ):
            response = httpx2.post(served.url + "/await", content=body)
            assert response.status_code == 400 and response.json()["error"]["code"] == code


def test_how_long_it_will_take_yet_counts_from_when_the_work_began() -> None:
    now = time.time()
    asked = Message.text("stew")
    task = TaskRow(
        "t", "anna", "kitchen", "working", now, now, now + 60, asked, progress=0.25, detail={BEGAN: now - 10}
    )
    assert remaining(task) == 30
    assert remaining(msgspec.structs.replace(task, progress=None)) is None


@pytest.mark.parametrize(("reported", "left"), [(0.0, 30), (-5.0, 10), (-9.0, 1)])
def test_how_long_it_will_take_yet_falls_while_no_progress_is_reported(reported: float, left: int) -> None:
    now = time.time()
    row = TaskRow("t", "anna", "kitchen", "working", now - 10, now + reported, now + 60, Message.text("stew"))
    assert remaining(msgspec.structs.replace(row, progress=0.25)) == left


def test_the_estimate_never_jumps_up_while_no_progress_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    row = TaskRow("t", "anna", "kitchen", "working", 1000.0, 1010.0, 9999.0, Message.text("stew"), progress=0.5)
    passed = [11.0, 15.0, 19.0, 19.9, 20.1, 21.0, 25.0, 40.0, 100.0]
    estimates = []
    for seconds in passed:
        monkeypatch.setattr(time, "time", lambda seconds=seconds: 1000.0 + seconds)
        estimates.append(remaining(row))
    assert estimates == [9, 5, 2, 2, 2, 2, 2, 4, 10]


@pytest.mark.parametrize("progress", [5e-324, 1e-300, 1e-9])
@pytest.mark.parametrize("reported", [0.0, 5.0])
def test_the_estimate_is_bounded(progress: float, reported: float) -> None:
    now = time.time()
    row = TaskRow(
        "t", "anna", "kitchen", "working", now - 10, now - 10 + reported, now + 60, Message.text("stew"),
        progress=progress,
    )  # fmt: skip
    assert 1 <= (remaining(row) or 0) <= 7 * 86400
