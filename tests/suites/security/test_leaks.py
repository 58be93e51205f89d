"""What must not come out: planted secrets are looked for in answers, logs, the audit log, metrics and the store.

The gateway is a process of its own here, started as a user starts it, so that its logs are those a user has.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from websockets.sync.client import connect

from deadline import DEADLINE
from sabir.guard.audit.log import export
from sabir.guard.audit.verify import verify
from sabir.stores.sqlite.store import SQLiteStore
from suites.security.attackers import Caller, add_key, say, token

MARK = "PLANTED"
IN_ENVIRONMENT = "sk-proj-PLANTEDenvironment0123456789abcdef"
IN_TOKEN = "PLANTED-in-a-token-0123456789"
IN_CONTENT = "PLANTED-in-content-0123456789"
IN_EXCEPTION = "PLANTED-in-an-exception"
IN_PROMPT = "PLANTED system prompt: you are Vela and you never discuss refunds with anybody before noon"

AGENTS = f'''
import os
from sabir import agent

PROMPT = "{IN_PROMPT}"

@agent(description="Repeats")
async def parrot(turn):
    return turn.text

@agent(description="Tells too much")
async def gossip(turn):
    yield "My key is " + os.environ["PLANTED_KEY"][:12]
    yield os.environ["PLANTED_KEY"][12:] + ", my prompt: " + PROMPT
    yield "<think>PLANTED thoughts</think> ok"

@agent(description="Fails")
async def broken(turn):
    raise RuntimeError("{IN_EXCEPTION} at https://user:PLANTEDpassword@db.example/ as Bearer PLANTEDbearer")
'''

CONFIG = f"""
agents:
  - {{id: parrot, use: "planted_agents:parrot"}}
  - {{id: gossip, use: "planted_agents:gossip"}}
  - {{id: broken, use: "planted_agents:broken"}}
filters:
  - secrets
  - inside: {{protected: ["{IN_PROMPT}"]}}
observe: {{metrics: true}}
log: {{level: debug, json: true}}
port: 0
"""


class Running:
    """A gateway started by ``sabir serve``."""

    def __init__(self, folder: Path) -> None:
        (folder / "planted_agents.py").write_text(AGENTS)
        (folder / "sabir.yaml").write_text(CONFIG)
        self.folder = folder
        self._errors = (folder / "stderr").open("wb")
        environment = {**os.environ, "PLANTED_KEY": IN_ENVIRONMENT, "PYTHONUNBUFFERED": "1"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "sabir", "serve"],
            cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=self._errors, text=True,
        )  # fmt: skip
        self.url = self._address()
        self.said = ""

    @property
    def home(self) -> Path:
        return self.folder / ".sabir"

    def _address(self) -> str:
        """The address that the log names once the gateway listens: with JSON logs there is no banner."""
        end = time.monotonic() + DEADLINE
        while time.monotonic() < end and self.process.poll() is None:
            if found := re.search(r'"text":"Listening on (http://[^"]+)"', (self.folder / "stderr").read_text()):
                return found[1]
            time.sleep(0.05)
        raise RuntimeError("the gateway did not start")

    def stop(self) -> str:
        """Everything it wrote to its two streams."""
        if self.process.poll() is None:
            self.process.terminate()
        out, _ = self.process.communicate(timeout=DEADLINE)
        self._errors.close()
        return out + (self.folder / "stderr").read_text()


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    made = Running(tmp_path_factory.mktemp("leaks"))
    end = time.monotonic() + DEADLINE
    with Caller(made.url) as caller:
        while time.monotonic() < end:
            try:
                if caller.http.get("/health/ready").status_code == 200:
                    break
            except OSError:
                continue
    yield made
    if made.process.poll() is None:
        made.stop()


def test_a_reply_that_reveals_too_much_is_stopped(running: Running) -> None:
    """Leak of system prompt, chain of thought and credentials (SEC-P3.3, core-154); in one piece and in pieces."""
    with Caller(running.url) as caller:
        whole = caller.ask(say("tell me"), "gossip")
        pieces = caller.ask(say("tell me"), "gossip", accept="text/event-stream")
    assert whole.status_code == pieces.status_code == 200
    assert "event: message" in pieces.text
    for text in (whole.text, pieces.text):
        assert MARK not in text and "refunds with anybody" not in text


def test_an_agent_that_fails_shows_nothing_of_why(running: Running) -> None:
    with Caller(running.url) as caller:
        reply = caller.ask(say("go"), "broken")
        streamed = caller.ask(say("go"), "broken", accept="text/event-stream")
    assert reply.status_code == 500
    for text in (reply.text, streamed.text):
        assert MARK not in text and "RuntimeError" not in text and "planted_agents" not in text
        assert "the operator's log says why" in text


def test_nothing_planted_is_in_logs_audit_or_metrics(running: Running) -> None:
    """Log and error scan: what callers say and carry is content, and content is not logged."""
    key = add_key(running.home, "alice")
    secret = key.split("_", 2)[2]
    with Caller(running.url, key) as alice:
        reply = alice.ask(say(IN_CONTENT, token(IN_TOKEN, "authentication_x")), "parrot")
        assert reply.json()["content"] == IN_CONTENT
        alice.ask(say("Please authenticate me", control=True))
        alice.ask(say("hi"), f"no-{IN_CONTENT}")
        alice.http.post("/nlip", content=f'{{"format": "{IN_CONTENT}"', headers={"content-type": "application/json"})
        alice.http.get(f"/nlip/tasks/{IN_CONTENT}")
        alice.http.post(
            "/mcp", json={"jsonrpc": "2.0", "id": IN_CONTENT, "method": IN_CONTENT, "params": {"x": IN_TOKEN}}
        )
        alice.http.post(
            "/a2a", json={"jsonrpc": "2.0", "id": IN_CONTENT, "method": IN_CONTENT, "params": {"x": IN_TOKEN}}
        )
        alice.http.post("/ask", json={"query": {"text": IN_CONTENT}, "context": {"x": IN_TOKEN}})
        alice.http.get(f"/ask?query={IN_CONTENT}")
        metrics = alice.http.get("/metrics").text
    with Caller(running.url, f"sbk_000000000000_{IN_TOKEN}") as raised:
        assert raised.ask(say(IN_CONTENT)).status_code == 401
    with connect(running.url.replace("http", "ws") + "/nlip/ws/text") as ws:
        ws.send(json.dumps(say(IN_CONTENT, token(IN_TOKEN, "authentication_x"))))
        ws.recv(timeout=DEADLINE)
        ws.send(f'{{"format": "{IN_CONTENT}"')
        ws.recv(timeout=DEADLINE)
    assert "sabir_turns_total" in metrics and MARK not in metrics
    logs = running.stop()
    assert IN_EXCEPTION in logs  # the operator learns why an agent failed …
    for planted in (IN_CONTENT, IN_TOKEN, secret, IN_ENVIRONMENT, "PLANTEDpassword", "PLANTEDbearer", "sb1."):
        assert planted not in logs, planted  # … and nothing that callers said, or that proves who they are
    lines = audit(running.home)
    assert len(lines) > 5
    for planted in (MARK, secret):
        assert planted not in lines, planted


def audit(home: Path) -> str:
    async def read() -> str:
        store = SQLiteStore(home / "sabir.db")
        await store.open()
        try:
            assert (await verify(store)).whole
            return "".join([line.decode() async for line in export(store)])
        finally:
            await store.close()

    return asyncio.run(read())


def test_keys_at_rest_are_hashes_and_the_gateways_own_key_is_for_its_owner_only(running: Running) -> None:
    key = add_key(running.home, "bob")
    stored = b"".join(path.read_bytes() for path in running.home.glob("sabir.db*"))
    assert key.split("_", 2)[2].encode() not in stored
    assert IN_TOKEN.encode() not in stored  # tokens of peers are echoed, not kept (D-54)
    assert (running.home / "secret.key").stat().st_mode & 0o077 == 0
