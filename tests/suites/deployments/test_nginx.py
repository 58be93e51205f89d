"""docs/howto/nginx.md, done as it says: a gateway behind nginx with TLS and HTTP/2, a key, a stream and a WebSocket."""

from __future__ import annotations

import json
import os
import re
import shutil
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import trustme
from websockets.asyncio.client import connect

from doc_pages import ROOT, blocks
from free_ports import free_port

pytestmark = pytest.mark.skipif(
    shutil.which("nginx") is None or shutil.which("curl") is None, reason="nginx or curl is not installed"
)
PAGE = ROOT / "docs" / "howto" / "nginx.md"
AGENT = """
import asyncio
from sabir import agent

@agent
async def echo(turn):
    for word in ("You", "said:", turn.text):
        yield word + " "
        await asyncio.sleep(0)
"""
SAID = {"format": "text", "subformat": "english", "content": "ahoy"}


class Front(NamedTuple):
    """The gateway as clients see it: through nginx."""

    folder: Path
    port: int
    key: str

    def curl(self, path: str, *options: str, key: bool = True) -> str:
        """Ask for a path as agents.example; the last line is the HTTP version and the status."""
        given = ["--header", f"Authorization: Bearer {self.key}"] if key else []
        base = ["curl", "-sS", "--max-time", "30", "--cacert", str(self.folder / "ca.pem"), "--no-buffer"]
        name = ["--resolve", f"agents.example:{self.port}:127.0.0.1", "--write-out", "\n%{http_version} %{http_code}"]
        url = f"https://agents.example:{self.port}{path}"
        done = subprocess.run([*base, *name, *given, *options, url], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout


POST = ("--header", "Content-Type: application/json", "--data", json.dumps(SAID))


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    folder = tmp_path_factory.mktemp("nginx")
    port, inner = free_port(), free_port()
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.pem")
    authority.issue_cert("agents.example").private_key_and_cert_chain_pem.write_to_path(folder / "all.pem")
    [config], [server] = blocks(PAGE, "yaml"), blocks(PAGE, "nginx")
    own = "\nagents: [{id: echo, use: 'app:echo'}]\nidentity: {anonymous: false}\n"
    (folder / "sabir.yaml").write_text(config.text.replace("8080", str(inner)) + own)
    (folder / "app.py").write_text(AGENT)
    conf = server.text.replace("8080", str(inner)).replace("listen 443", f"listen 127.0.0.1:{port}")
    conf = re.sub(r"/etc/ssl/agents.example/\w+\.pem", str(folder / "all.pem"), conf)
    logs = f"pid {folder}/pid;\nerror_log {folder}/error.log;\ndaemon off;\n"
    places = "\n".join(
        f"{kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (folder / "nginx.conf").write_text(f"{logs}events {{}}\nhttp {{\naccess_log off;\n{places}\n{conf}\n}}\n")
    sabir = [sys.executable, "-m", "sabir"]
    made = subprocess.run([*sabir, "keys", "add", "alice"], cwd=folder, capture_output=True, text=True, check=True)
    gateway = subprocess.Popen([*sabir, "serve", "sabir.yaml"], cwd=folder, env=os.environ)
    nginx = subprocess.Popen(["nginx", "-p", str(folder), "-c", str(folder / "nginx.conf")])
    try:
        found = Front(folder, port, made.stdout.split()[0])
        wait_for(found, gateway, nginx)
        yield found
    finally:
        for process in (nginx, gateway):
            process.terminate()
            process.wait(30)


def wait_for(front: Front, *processes: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        assert all(process.poll() is None for process in processes), (front.folder / "error.log").read_text()
        try:
            if front.curl("/health").endswith("200"):
                return
        except AssertionError:
            pass  # nginx does not listen yet
        time.sleep(0.1)
    raise AssertionError("the gateway behind nginx did not answer")


def test_a_message_is_answered_over_http_2(front: Front) -> None:
    body, _, status = front.curl("/nlip", *POST).rpartition("\n")
    assert status == "2 200"
    assert json.loads(body)["content"].strip() == "You said: ahoy"


def test_a_caller_without_a_key_is_rejected(front: Front) -> None:
    assert front.curl("/nlip", *POST, key=False).endswith("\n2 401")


def test_an_answer_streams_through_nginx(front: Front) -> None:
    answer = front.curl("/nlip", *POST, "--header", "Accept: text/event-stream")
    assert answer.endswith("\n2 200")
    assert [piece for piece in ("You ", "said: ", "ahoy ") if f'"{piece}"' not in answer] == []


async def test_a_websocket_passes_through_nginx(front: Front) -> None:
    context = ssl.create_default_context(cafile=str(front.folder / "ca.pem"))
    headers = {"Authorization": f"Bearer {front.key}"}
    url = f"wss://agents.example:{front.port}/nlip/ws/text"
    async with connect(url, host="127.0.0.1", port=front.port, ssl=context, additional_headers=headers) as socket:
        await socket.send(json.dumps(SAID))
        assert json.loads(await socket.recv())["content"].strip() == "You said: ahoy"


def test_the_card_names_the_public_address_and_the_page_is_served(front: Front) -> None:
    card = json.loads(front.curl("/.well-known/agent-card.json").rpartition("\n")[0])
    assert "https://agents.example" in json.dumps(card) and "127.0.0.1" not in json.dumps(card)
    assert "<title>Sabir</title>" in front.curl("/")


def test_another_host_is_rejected(front: Front) -> None:
    assert front.curl("/nlip", *POST, "--header", "Host: evil.example").rpartition(" ")[2] in {"400", "403", "421"}
