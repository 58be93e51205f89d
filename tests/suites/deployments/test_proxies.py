"""docs/howto/nginx.md and caddy.md, done as they say: TLS, HTTP/2, a key, a stream, a WebSocket; with Caddy HTTP/3."""

from __future__ import annotations

import json
import os
import re
import shutil
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import trustme
from websockets.asyncio.client import connect

from deadline import DEADLINE
from doc_pages import ROOT, blocks
from doc_shell import commands
from free_ports import free_port

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
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
    """The gateway as clients see it: through a proxy."""

    name: str
    folder: Path
    port: int
    key: str

    def curl(self, path: str, *options: str, key: bool = True) -> str:
        """Ask for a path as agents.example; the last line is the HTTP version and the status."""
        given = ["--header", f"Authorization: Bearer {self.key}"] if key else []
        base = ["curl", "-sS", "--max-time", "30", "--cacert", str(self.folder / "ca.pem"), "--no-buffer"]
        name = ["--resolve", f"agents.example:{self.port}:127.0.0.1", "--write-out", "\n%{http_version} %{http_code}"]
        url = f"https://agents.example:{self.port}{path}"
        done = subprocess.run([*base, *name, *given, *options, url], capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr
        return done.stdout


POST = ("--header", "Content-Type: application/json", "--data", json.dumps(SAID))


class Proxy(NamedTuple):
    """A proxy of the how-to pages: its page, the kind of block that configures it, and how it is started."""

    page: Path
    kind: str
    command: list[str]
    own: Callable[[str, Path, int], str]

    def configured(self, folder: Path, port: int, inner: int) -> None:
        """Write the two blocks of the page, with ports and certificates that can be had here."""
        [config], [server] = blocks(self.page, "yaml"), blocks(self.page, self.kind)
        agents = "\nagents: [{id: echo, use: 'app:echo'}]\nidentity: {anonymous: false}\n"
        (folder / "sabir.yaml").write_text(config.text.replace("8080", str(inner)) + agents)
        (folder / "proxy.conf").write_text(self.own(server.text.replace("8080", str(inner)), folder, port))


def _nginx(text: str, folder: Path, port: int) -> str:
    text = re.sub(r"/etc/ssl/agents.example/\w+\.pem", str(folder / "all.pem"), text)
    logs = f"pid {folder}/pid;\nerror_log {folder}/error.log;\ndaemon off;\n"
    places = "\n".join(
        f"{kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    text = text.replace("listen 443", f"listen 127.0.0.1:{port}")
    return f"{logs}events {{}}\nhttp {{\naccess_log off;\n{places}\n{text}\n}}\n"


def _caddy(text: str, folder: Path, port: int) -> str:
    certificate = f"    tls {folder}/all.pem {folder}/all.pem\n"  # no authority gives one for agents.example here
    head = "{\n    admin off\n    auto_https disable_redirects\n}\n"
    return head + text.replace("agents.example {\n", f"agents.example:{port} {{\n{certificate}")


HOWTO = ROOT / "docs" / "howto"
PROXIES = {
    "nginx": Proxy(HOWTO / "nginx.md", "nginx", ["nginx", "-p", ".", "-c", "proxy.conf"], _nginx),
    "caddy": Proxy(
        HOWTO / "caddy.md", "text", ["caddy", "run", "--adapter", "caddyfile", "--config", "proxy.conf"], _caddy
    ),
}


@pytest.fixture(scope="module", params=PROXIES)
def front(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    name, proxy = request.param, PROXIES[request.param]
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    folder = tmp_path_factory.mktemp(name)
    port, inner = free_port(), free_port()
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.pem")
    authority.issue_cert("agents.example").private_key_and_cert_chain_pem.write_to_path(folder / "all.pem")
    proxy.configured(folder, port, inner)
    (folder / "app.py").write_text(AGENT)
    program, *flags = proxy.command
    command = [
        program,
        *(str(folder) if flag == "." else flag.replace("proxy.conf", f"{folder}/proxy.conf") for flag in flags),
    ]
    sabir = [sys.executable, "-m", "sabir"]
    made = subprocess.run([*sabir, "keys", "add", "alice"], cwd=folder, capture_output=True, text=True, check=True)
    environment = {**os.environ, "HOME": str(folder), "XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
    gateway = subprocess.Popen([*sabir, "serve", "sabir.yaml"], cwd=folder)
    with (folder / "error.log").open("w") as log:
        started = subprocess.Popen(command, cwd=folder, env=environment, stderr=log)
    try:
        found = Front(name, folder, port, made.stdout.split()[0])
        wait_for(found, gateway, started)
        yield found
    finally:
        for process in (started, gateway):
            process.terminate()
            process.wait(DEADLINE)


def wait_for(front: Front, *processes: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + DEADLINE
    while time.monotonic() < end:
        assert all(process.poll() is None for process in processes), (front.folder / "error.log").read_text()
        try:
            if front.curl("/health").endswith("200"):
                return
        except AssertionError:
            pass  # it does not listen yet
        time.sleep(0.1)
    raise AssertionError("the gateway behind the proxy did not answer")


def test_a_message_is_answered_over_http_2(front: Front) -> None:
    body, _, status = front.curl("/nlip", *POST).rpartition("\n")
    assert status == "2 200"
    assert json.loads(body)["content"].strip() == "You said: ahoy"


def test_a_caller_without_a_key_is_rejected(front: Front) -> None:
    assert front.curl("/nlip", *POST, key=False).endswith("\n2 401")


def test_an_answer_streams_through_the_proxy(front: Front) -> None:
    answer = front.curl("/nlip", *POST, "--header", "Accept: text/event-stream")
    assert answer.endswith("\n2 200")
    assert [piece for piece in ("You ", "said: ", "ahoy ") if f'"{piece}"' not in answer] == []


async def test_a_websocket_passes_through_the_proxy(front: Front) -> None:
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
    if front.name == "caddy":
        pytest.skip("Caddy passes no other host on")
    assert front.curl("/nlip", *POST, "--header", "Host: evil.example").rpartition(" ")[2] in {"400", "403", "421"}


async def test_caddy_answers_over_http_3(front: Front) -> None:
    if front.name != "caddy":
        pytest.skip("nginx needs a build with HTTP/3, as its page says; Debian's has none")
    pytest.importorskip("aioquic")
    from http3_client import asked

    fields = {"content-type": "application/json", "authorization": f"Bearer {front.key}"}
    url = f"https://agents.example:{front.port}/nlip"
    status, answer = await asked(url, fields, json.dumps(SAID).encode(), ca=front.folder / "ca.pem")
    assert status == "200", answer
    assert json.loads(answer)["content"].strip() == "You said: ahoy"


def test_the_commands_to_try_nginx_on_one_machine_run_as_pasted(tmp_path: Path) -> None:
    """With localhost for agents.example, as the page says; nginx listens on a free port instead of 443."""
    if shutil.which("nginx") is None or shutil.which("openssl") is None:
        pytest.skip("nginx or openssl is not installed")
    page, port, inner = PROXIES["nginx"].page, free_port(), free_port()
    [config], [server], [tried] = blocks(page, "yaml"), blocks(page, "nginx"), blocks(page, "console")
    (certificate, _), (ask, _) = commands(tried)
    subprocess.run(["bash", "-ec", certificate], cwd=tmp_path, check=True, capture_output=True)
    (tmp_path / "all.pem").write_text((tmp_path / "privkey.pem").read_text() + (tmp_path / "fullchain.pem").read_text())
    local = config.text.replace("agents.example", "localhost").replace("8080", str(inner))
    local = local.replace("https://localhost", f"https://localhost:{port}")  # as the page says of another port than 443
    (tmp_path / "sabir.yaml").write_text(f"{local}\nagents: [{{id: echo, use: echo}}]\n")
    text = _nginx(server.text.replace("8080", str(inner)), tmp_path, port).replace("agents.example", "localhost")
    (tmp_path / "proxy.conf").write_text(text)
    ask = ask.replace("https://localhost", f"https://localhost:{port}")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    programs = [
        subprocess.Popen([sys.executable, "-m", "sabir", "serve"], cwd=tmp_path),
        subprocess.Popen(["nginx", "-p", str(tmp_path), "-c", str(tmp_path / "proxy.conf")]),
    ]
    try:
        end = time.monotonic() + DEADLINE
        while True:
            done = subprocess.run(
                ["bash", "-c", ask], cwd=tmp_path, capture_output=True, text=True, env={**os.environ, "PATH": path}
            )
            if done.returncode == 0 or time.monotonic() > end:
                break
            time.sleep(0.2)  # they do not listen yet
        assert done.stdout == "You said: Hello\n", done.stderr
    finally:
        for program in reversed(programs):
            program.terminate()
            program.wait(DEADLINE)
