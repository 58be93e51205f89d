"""The gateway as a process: addresses, TLS, several workers, a gentle end. Real sockets, real signals."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from conftest import serving
from deadline import DEADLINE
from free_ports import free_port
from sabir import Gateway
from sabir.agents.echo import echo
from sabir.errors import ConfigError
from sabir.server import Serving, Tls
from sabir.server.server import SWITCH_SECONDS, check_exposure

SABIR = [sys.executable, "-m", "sabir"]
# What nobody here knocks at is off, because what it imports and indexes makes each start slow.
QUIET = "sites: []\ndoors: {mcp: false, a2a: false, nlip-amqp: false}\n"


class Process:
    """A gateway process and what it printed."""

    def __init__(self, process: subprocess.Popen[str], url: str, printed: list[str]) -> None:
        self.process, self.url, self.printed = process, url, printed


@contextmanager
def sabir_serve(home: Path, *arguments: str, config: str | None = None, cwd: Path | None = None) -> Iterator[Process]:
    home.mkdir(parents=True, exist_ok=True)
    command = [*SABIR, "serve", "--port", "0", "--home", str(home / "state"), *arguments]
    if config is not None:
        (home / "sabir.yaml").write_text(config)
        command.insert(len(SABIR) + 1, str(home / "sabir.yaml"))
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=cwd or home, env=clean_environment()
    )
    try:
        assert process.stdout is not None
        printed: list[str] = []
        for line in process.stdout:
            printed.append(line.rstrip())
            if line.startswith("Try:"):
                break
        assert printed, process.stderr.read() if process.stderr else ""
        url = re.search(r"https?://\S+", printed[0])
        assert url is not None, printed
        wait_ready(url.group(), home)
        yield Process(process, url.group(), printed)
    finally:
        process.kill()
        process.wait(DEADLINE)
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


def clean_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("SABIR_")}


def trust(home: Path) -> ssl.SSLContext | bool:
    cert = home / "state" / "dev-tls" / "cert.pem"
    return ssl.create_default_context(cafile=str(cert)) if cert.exists() else True


def wait_ready(url: str, home: Path) -> None:
    end = time.monotonic() + DEADLINE
    while True:
        try:
            if httpx2.get(url + "/health/ready", verify=trust(home)).status_code == 200:
                return
        except (httpx2.TransportError, ssl.SSLError, OSError):
            pass
        assert time.monotonic() < end, "not ready in time"
        time.sleep(0.05)


def say(text: str) -> bytes:
    return json.dumps({"format": "text", "subformat": "english", "content": text}).encode()


AGENTS = """
import asyncio
from pathlib import Path
from sabir import agent

@agent
async def slow(turn):
    while not Path("go").exists():
        await asyncio.sleep(0.01)
    return f"done: {turn.text}"

@agent(remembers=False)
async def pid(turn):
    import os
    return str(os.getpid())

@agent(remembers=False)
async def frozen(turn):
    import gc
    return str(gc.get_freeze_count())

@agent(remembers=False)
async def interval(turn):
    import sys
    return str(sys.getswitchinterval())
"""


def test_serve_prints_where_everything_is_and_always_has_echo(tmp_path: Path) -> None:
    with sabir_serve(tmp_path) as running:
        assert "listening on http://127.0.0.1:" in running.printed[0]
        assert any(running.url + "/nlip" in line for line in running.printed)
        reply = httpx2.post(running.url + "/nlip/echo", content=say("hi"))
        assert reply.json()["content"] == "You said: hi"
        assert (tmp_path / "state" / "sabir.db").exists()


def test_a_second_gateway_on_the_same_port_says_so_in_one_line(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        (tmp_path / "sabir.yaml").write_text(QUIET)
        done = subprocess.run(
            [*SABIR, "serve", "--port", str(port)], capture_output=True, text=True, cwd=tmp_path, timeout=600
        )
    assert done.returncode == 2
    assert done.stderr.strip().splitlines()[-1].startswith(f"sabir: cannot listen on 127.0.0.1:{port}")


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--port", "99999"], "port: expected a number from 0 to 65535, not 99999"),
        (["--tls-key", "key.pem"], "a key but no certificate"),
        (["--tls-cert", "absent.pem"], "tls.cert: there is no file absent.pem"),
        (["--tls-cert", "sabir.yaml", "--tls-key", "absent.pem"], "tls.key: there is no file absent.pem"),
    ],
)
def test_what_cannot_be_served_is_reported_in_one_line_and_nothing_else(
    tmp_path: Path, flags: list[str], said: str
) -> None:
    (tmp_path / "sabir.yaml").write_text(QUIET)
    done = subprocess.run([*SABIR, "serve", *flags], capture_output=True, text=True, cwd=tmp_path, timeout=600)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_plain_function_must_be_decorated() -> None:
    async def hello(turn: object) -> str:
        return "hello"

    with pytest.raises(ConfigError, match="'hello' is not an agent; decorate it with @agent"):
        Gateway(hello)  # type: ignore[arg-type]


def test_running_turns_finish_and_new_ones_get_503(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(AGENTS)
    config = f"{QUIET}agents: [{{id: slow, use: 'mine:slow'}}]\n"
    with sabir_serve(tmp_path, config=config) as running, httpx2.Client() as other:
        assert other.get(running.url + "/health/live").status_code == 200
        host, port = running.url.removeprefix("http://").split(":")
        body = say("work")
        with socket.create_connection((host, int(port))) as raw:
            head = f"POST /nlip/slow HTTP/1.1\r\nhost: {host}\r\ncontent-length: {len(body)}\r\n\r\n"
            raw.sendall(head.encode() + body)
            end = time.monotonic() + DEADLINE
            while other.get(running.url + "/health").json()["running"] == 0:
                assert time.monotonic() < end
            running.process.send_signal(signal.SIGTERM)
            while other.get(running.url + "/health/ready").status_code != 503:
                assert time.monotonic() < end
            refused = other.post(running.url + "/nlip/echo", content=say("too late"))
            assert refused.status_code == 503
            assert int(refused.headers["retry-after"]) >= 1
            assert refused.json()["messagetype"] == "error"
            (tmp_path / "go").touch()
            raw.settimeout(20)
            answer = b""
            while b"done: work" not in answer and (piece := raw.recv(65536)):
                answer += piece
            assert b"done: work" in answer
        assert running.process.wait(DEADLINE) in (0, -signal.SIGTERM)
        assert running.process.stderr is not None
        printed = running.process.stderr.read()
        assert re.search(r"INFO Stopping; waiting up to 30 s for 1 running turn\n(?s:.*)INFO Stopped\n$", printed), (
            printed
        )


def test_a_gateway_with_nothing_to_do_says_that_it_stops_and_has_stopped(tmp_path: Path) -> None:
    with sabir_serve(tmp_path, config=QUIET) as running:
        running.process.send_signal(signal.SIGTERM)
        running.process.wait(DEADLINE)
        assert running.process.stderr is not None
        lines = [line.partition(" INFO ")[2] for line in running.process.stderr.read().splitlines()]
        assert lines == ["Stopping; no turn is running", "Stopped"]


def test_the_collector_passes_over_what_was_there_at_the_start(tmp_path: Path) -> None:
    """Full collections of all that a gateway imports stopped it again and again, which was the tail of its answers."""
    (tmp_path / "mine.py").write_text(AGENTS)
    with sabir_serve(tmp_path, config=f"{QUIET}agents: [{{id: frozen, use: 'mine:frozen'}}]\n") as running:
        body = httpx2.post(running.url + "/nlip/frozen", content=say("how many?")).json()["content"]
    assert int(body) > 50_000


def test_threads_take_turns_sooner_than_python_lets_them(tmp_path: Path) -> None:
    """A busy event loop kept the store's thread waiting for Python's 5 ms, several times for each commit."""
    (tmp_path / "mine.py").write_text(AGENTS)
    with sabir_serve(tmp_path, config=f"{QUIET}agents: [{{id: interval, use: 'mine:interval'}}]\n") as running:
        interval = httpx2.post(running.url + "/nlip/interval", content=say("how long?")).json()["content"]
    assert float(interval) == pytest.approx(SWITCH_SECONDS)
    assert sys.getswitchinterval() > SWITCH_SECONDS


def test_several_workers_serve_one_port_and_die_together(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(AGENTS)
    config = f"{QUIET}workers: 2\nagents: [{{id: pid, use: 'mine:pid'}}]\n"
    with sabir_serve(tmp_path, config=config) as running:
        pids: set[str] = set()
        end = time.monotonic() + DEADLINE
        while len(pids) < 2 and time.monotonic() < end:
            pids.add(httpx2.post(running.url + "/nlip/pid", content=say("who?")).json()["content"])
        assert len(pids) == 2
        victim = int(pids.pop())
        os.kill(victim, signal.SIGKILL)
        while time.monotonic() < end:  # a new one takes its place
            try:
                seen = httpx2.post(running.url + "/nlip/pid", content=say("who?")).json()["content"]
            except httpx2.TransportError:
                continue
            if seen not in {str(victim), *pids}:
                break
        else:
            pytest.fail("no new worker came")
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(DEADLINE) == 0


def counted(url: str) -> int:
    """How many turns ``/metrics`` tells of."""
    shown = httpx2.get(url + "/metrics").text
    return sum(int(line.rpartition(" ")[2]) for line in shown.splitlines() if line.startswith("sabir_turns_total{"))


def test_metrics_tell_of_all_workers_and_what_a_dead_one_counted_stays_counted(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(AGENTS)
    config = f"{QUIET}workers: 2\nobserve: {{metrics: true}}\nagents: [{{id: pid, use: 'mine:pid'}}]\n"
    with sabir_serve(tmp_path, config=config) as running:
        asked, pids = 0, set[str]()
        end = time.monotonic() + DEADLINE

        def ask() -> None:
            nonlocal asked
            pids.add(httpx2.post(running.url + "/nlip/pid", content=say("who?")).json()["content"])
            asked += 1

        while len(pids) < 2 and time.monotonic() < end:
            ask()
        assert {counted(running.url) for _ in range(20)} == {asked}  # whichever of them is asked
        victim = pids.pop()
        os.kill(int(victim), signal.SIGKILL)
        pids.add(victim)
        while len(pids) < 3 and time.monotonic() < end:  # until a new one has taken its place
            try:
                answer = counted(running.url)
                assert answer == asked
                ask()
            except httpx2.TransportError:
                continue
        assert len(pids) == 3
        assert {counted(running.url) for _ in range(20)} == {asked}


def test_workers_whose_process_was_killed_stop_too_and_free_the_port(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(AGENTS)
    with sabir_serve(tmp_path, config=f"{QUIET}workers: 2\nagents: [{{id: pid, use: 'mine:pid'}}]\n") as running:
        pass  # killed by kill -9, as a machine that is short of memory would
    end = time.monotonic() + DEADLINE
    while time.monotonic() < end:
        try:
            httpx2.get(running.url + "/health/live")
        except httpx2.ConnectError:
            return
        except httpx2.TransportError:
            pass
        time.sleep(0.05)
    raise AssertionError("a worker still answers")


NEVER_CLOSES = """
import asyncio, sys
import sabir.server.server
from sabir import Gateway, agent
from sabir.server import Serving

sabir.server.server.CLOSE_SECONDS = 0.3

class Stuck:
    async def __aenter__(self):
        return self
    async def __aexit__(self, *exc):
        await asyncio.Event().wait()

@agent
def echo(turn):
    return turn.text

serving = Serving(port=0, workers=int(sys.argv[1]), graceful_seconds=0.2)
sys.exit(Gateway(echo, home="state", beside=[Stuck()], serving=serving).run())
"""


@pytest.mark.parametrize(("workers", "code"), [("1", 1), ("2", 0)])
def test_a_stopping_gateway_ends_even_if_a_part_of_it_never_does(tmp_path: Path, workers: str, code: int) -> None:
    (tmp_path / "stuck.py").write_text(NEVER_CLOSES)
    process = subprocess.Popen(
        [sys.executable, "stuck.py", workers],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path, env=clean_environment(),
    )  # fmt: skip
    try:
        assert process.stdout is not None
        url = process.stdout.readline().rpartition(" ")[2].strip()
        wait_ready(url, tmp_path)
        process.send_signal(signal.SIGTERM)
        _, complaint = process.communicate(timeout=DEADLINE)
    finally:
        process.kill()
    assert process.returncode == code
    assert "Shutdown timed out" in complaint


def test_a_gateway_that_ended_in_time_leaves_the_process_it_ran_in_alone(home: Path) -> None:
    with serving(Gateway(echo, home=home)) as served:
        served.server.handle_exit(signal.SIGTERM, None)
        assert any(isinstance(item, threading.Timer) for item in threading.enumerate())
    end = time.monotonic() + DEADLINE
    while any(isinstance(item, threading.Timer) for item in threading.enumerate()):
        assert time.monotonic() < end, "the watch would end this process"
        time.sleep(0.01)


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_gateway_that_cannot_start_ends_with_exit_3_and_never_says_that_it_listens(
    tmp_path: Path, workers: str
) -> None:
    """Workers are tried again, and then it is given up and told: a supervisor can start the whole anew."""
    port = free_port()
    nobody = f"postgresql://ann:s3cret@127.0.0.1:{port}/none"
    (tmp_path / "sabir.yaml").write_text(f"{QUIET}store: {nobody}\n")
    done = subprocess.run(
        [*SABIR, "serve", "--port", "0", "--workers", workers],
        capture_output=True, text=True, cwd=tmp_path, env=clean_environment(), timeout=600,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (3, ""), done.stderr
    assert f"PostgreSQL at 127.0.0.1:{port}, database none: connection refused" in done.stderr
    assert "s3cret" not in done.stderr
    assert ("restarting it" in done.stderr) == (workers == "2")


def test_a_start_with_invalid_settings_ends_with_exit_2_and_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    (tmp_path / "sabir.yaml").write_text(f"{QUIET}store: sqlite:///file/sabir.db\n")
    done = subprocess.run(
        [*SABIR, "serve", "--port", "0"],
        capture_output=True, text=True, cwd=tmp_path, env=clean_environment(), timeout=600,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert "ERROR store: file/sabir.db: " in done.stderr
    assert "Traceback" not in done.stderr and "lifespan" not in done.stderr


def test_a_start_that_the_disk_refuses_is_reported_in_a_line(tmp_path: Path) -> None:
    """Whatever part of it: here, the folder in which it notes what it has begun to read."""
    page = tmp_path / "page.html"
    page.write_text("<html><title>Bread</title><p>Rye bread of the day.</p></html>")
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "index").symlink_to(tmp_path / "nowhere" / "at all")
    (tmp_path / "sabir.yaml").write_text(f"sites: [{{name: bakery, source: {page.name}}}]\nhome: state\n")
    done = subprocess.run(
        [*SABIR, "serve", "--port", "0"],
        capture_output=True, text=True, cwd=tmp_path, env=clean_environment(), timeout=600,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (3, ""), done.stderr
    assert "ERROR state/index: " in done.stderr
    assert "Traceback" not in done.stderr and "lifespan" not in done.stderr


OPENS = """
import sys
from sabir import Gateway, agent
from sabir.server import Serving

class Slow:
    async def __aenter__(self):
        print("opened", flush=True)
        return self
    async def __aexit__(self, *exc):
        pass

@agent
def echo(turn):
    return turn.text

serving = Serving(port=0, workers=int(sys.argv[1]), graceful_seconds=0.2)
sys.exit(Gateway(echo, home="state", beside=[Slow()], serving=serving).run())
"""


@pytest.mark.parametrize("workers", [1, 3])
def test_where_it_listens_is_said_once_and_when_every_worker_answers(tmp_path: Path, workers: int) -> None:
    (tmp_path / "opens.py").write_text(OPENS)
    command = [sys.executable, "opens.py", str(workers)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path, env=clean_environment()) as process:
        try:
            assert process.stdout is not None
            for _ in range(workers):
                assert process.stdout.readline() == "opened\n"
            said = process.stdout.readline()
            assert said.startswith("Sabir is listening on http://127.0.0.1:")
            url = said.split()[-1]
            assert httpx2.get(f"{url}/health/ready").status_code == 200  # the first that asks is answered
            process.send_signal(signal.SIGTERM)
            rest, _ = process.communicate(timeout=DEADLINE)
        finally:
            process.kill()
    assert process.returncode == 0
    assert "listening" not in rest and "opened" not in rest


def test_dev_tls_speaks_tls_1_3_and_nothing_older(tmp_path: Path) -> None:
    """D-53, SEC-P1.1."""
    with sabir_serve(tmp_path, "--dev-tls", config=QUIET) as running:
        assert running.url.startswith("https://")
        hint = running.printed[-1]
        assert hint.endswith(
            f" --ca '{tmp_path / 'state' / 'dev-tls' / 'cert.pem'}'" if " " in str(tmp_path) else ".pem"
        )
        tried = subprocess.run(hint.removeprefix("Try:"), shell=True, capture_output=True, text=True, cwd=tmp_path)
        assert tried.returncode == 0 and tried.stdout, tried.stderr
        context = trust(tmp_path)
        reply = httpx2.post(running.url + "/nlip", content=say("hi"), verify=context)
        assert reply.status_code == 200
        host, port = running.url.removeprefix("https://").split(":")
        old = ssl.create_default_context(cafile=str(tmp_path / "state" / "dev-tls" / "cert.pem"))
        old.maximum_version = ssl.TLSVersion.TLSv1_2
        with socket.create_connection((host, int(port))) as raw, pytest.raises(ssl.SSLError):
            old.wrap_socket(raw, server_hostname="127.0.0.1")
        done = subprocess.run(
            [*SABIR, "ask", running.url, "hello", "--agent", "echo",
             "--ca", str(tmp_path / "state" / "dev-tls" / "cert.pem")],
            capture_output=True, text=True, cwd=tmp_path, timeout=600,
        )  # fmt: skip
        assert "hello" in done.stdout, done.stderr


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7"])
def test_plain_http_on_the_network_is_refused_unless_a_proxy_has_tls(host: str) -> None:
    """CORE-7.1, D-28."""
    with pytest.raises(ConfigError, match="--behind-tls-proxy"):
        check_exposure(Serving(host=host))
    check_exposure(Serving(host=host, behind_tls_proxy=True))
    check_exposure(Serving(host=host, tls=Tls(dev=True)))
    check_exposure(Serving(host="127.0.0.1"))


def test_a_foreign_host_or_origin_is_refused_on_loopback(tmp_path: Path) -> None:
    """DNS rebinding: a page of another site must not reach a gateway on this machine."""
    with sabir_serve(tmp_path, config=QUIET) as running:
        ok = httpx2.post(running.url + "/nlip", content=say("hi"), headers={"origin": running.url})
        assert ok.status_code == 200
        for header in ({"host": "evil.example"}, {"origin": "https://evil.example"}, {"origin": "null"}):
            refused = httpx2.post(running.url + "/nlip", content=say("hi"), headers=header)
            assert refused.status_code == 403, header
            assert refused.json()["messagetype"] == "error"
