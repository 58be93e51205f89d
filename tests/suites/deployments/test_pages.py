"""Pages for operators, done as they say: PostgreSQL, the systemd unit, the container file, the deployment models.

What a page takes for granted (a database server at db.internal, a container, ``/etc/sabir``) is replaced by what is
here: a database of its own, a folder, free ports. The commands are those of the page.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import tomllib
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

import asyncpg
import pytest

from deadline import DEADLINE
from doc_pages import ROOT, blocks
from doc_shell import Session, commands
from free_ports import free_port
from stores.places import POSTGRES

DOCS = ROOT / "docs"
PROGRAMS = Path(sys.executable).parent
LISTENING = "Sabir is listening on"


# -- PostgreSQL ---------------------------------------------------------------------------------------------


@pytest.fixture
async def database(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of a database that does not exist yet; ``createdb`` reaches its server. Dropped afterwards."""
    try:
        connection = await asyncpg.connect(POSTGRES, timeout=5)
    except (OSError, asyncpg.PostgresError) as away:
        pytest.skip(f"no PostgreSQL server at {POSTGRES.rpartition('@')[2]}: {away}")
    place = urlsplit(POSTGRES)
    for name, value in {"PGHOST": place.hostname, "PGPORT": place.port, "PGUSER": place.username}.items():
        monkeypatch.setenv(name, str(value))
    name = f"test_{uuid4().hex[:16]}"
    yield name
    await connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
    await connection.close()


MOVE = re.compile(r"sabir store copy sqlite:\S+ postgresql://[\w@.]+/sabir")


@pytest.mark.skipif(shutil.which("createdb") is None, reason="the clients of PostgreSQL are not installed")
@pytest.mark.parametrize("page", ["howto/postgresql-and-nats.md", "stores.md"])
def test_an_existing_gateway_is_moved_to_postgresql(page: str, database: str, tmp_path: Path) -> None:
    """The commands of the page, and the moved gateway still knows the key that was made on SQLite.

    The command that installs the drivers is left out: it would change the environment of the tests.
    """
    address = urlsplit(POSTGRES)._replace(path=f"/{database}").geturl()

    def here(text: str) -> str:
        text = re.sub(r"postgresql://[\w@.]+/sabir", address, text)
        return re.sub(r"createdb (?:--owner sabir )?sabir", f"createdb {database}", text)

    pasted = [step for block in blocks(DOCS / page, "sh", "console") for step in commands(block)]
    prepared = [(here(command), []) for command, _ in pasted if command.startswith(("createdb", "openssl"))]
    if not prepared:
        prepared = [(f"createdb {database}", [])]
    [move] = set(MOVE.findall((DOCS / page).read_text()))
    shown = [line for command, printed in pasted if command == move for line in printed if not re.search(r"\d", line)]
    copied = (here(move), [*shown, "Also copy secret.key"])
    known = (f"sabir keys list --store {address}", ["alice"])
    Session(tmp_path).shell([("sabir keys add alice > key.txt", []), *prepared, copied, known])


# -- systemd ------------------------------------------------------------------------------------------------


@pytest.fixture
def unit() -> str:
    [block] = blocks(DOCS / "howto" / "systemd.md", "ini")
    return block.text


@pytest.mark.skipif(shutil.which("systemctl") is None, reason="systemd is not installed")
def test_systemctl_enables_the_unit(unit: str, tmp_path: Path) -> None:
    """``systemctl enable`` needs no running systemd below another root."""
    folder = tmp_path / "etc" / "systemd" / "system"
    folder.mkdir(parents=True)
    (folder / "sabir.service").write_text(unit)
    done = subprocess.run(["systemctl", f"--root={tmp_path}", "enable", "sabir"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (folder / "multi-user.target.wants" / "sabir.service").is_symlink()


def start_line(unit: str, folder: Path) -> list[str]:
    """The command of the unit, with the folders of the machine below another one, and a free port."""
    [line] = re.findall(r"^ExecStart=(.*)$", unit, re.MULTILINE)
    words = [word.replace("/opt/sabir/.venv/bin", str(PROGRAMS)) for word in shlex.split(line)]
    for path in ("/etc/sabir", "/var/lib/sabir"):
        (folder / path[1:]).mkdir(parents=True, exist_ok=True)
        words = [word.replace(path, str(folder / path[1:])) for word in words]
    return [*words, "--port", str(free_port())]


def test_the_command_of_the_unit_serves_and_stops_in_time(unit: str, tmp_path: Path) -> None:
    command = start_line(unit, tmp_path)
    (tmp_path / "etc/sabir/sabir.yaml").write_text("agents: [{id: echo, use: 'sabir.agents.echo:echo'}]\n")
    with started(command, tmp_path / "etc/sabir") as gateway:
        assert (tmp_path / "var/lib/sabir/secret.key").exists()
        gateway.terminate()  # what `systemctl stop` sends
        [patience] = re.findall(r"^TimeoutStopSec=(\d+)$", unit, re.MULTILINE)
        assert gateway.wait(int(patience)) == 0


def test_a_wrong_configuration_ends_with_the_code_that_the_unit_does_not_restart(unit: str, tmp_path: Path) -> None:
    command = start_line(unit, tmp_path)
    (tmp_path / "etc/sabir/sabir.yaml").write_text("prot: 8080\n")
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    [code] = re.findall(r"^RestartPreventExitStatus=(\d+)$", unit, re.MULTILINE)
    assert done.returncode == int(code), done.stderr
    assert "port" in done.stderr


@contextmanager
def started(command: list[str], folder: Path, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """A gateway in a folder, from the moment it listens until the block ends."""
    log = folder / "gateway.log"
    path = f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}"
    with log.open("wb") as output:
        gateway = subprocess.Popen(
            command, cwd=folder, env={**os.environ, "PATH": path, **environment}, stdout=output, stderr=output
        )
    try:
        end = time.monotonic() + DEADLINE
        while LISTENING not in log.read_text():
            assert gateway.poll() is None and time.monotonic() < end, log.read_text()
            time.sleep(0.05)
        yield gateway
    finally:
        gateway.send_signal(signal.SIGTERM)
        gateway.wait(DEADLINE)


# -- the container file -------------------------------------------------------------------------------------


@pytest.fixture
def container() -> list[tuple[str, str]]:
    """The instructions of the container file and their arguments."""
    [block] = blocks(DOCS / "howto" / "container.md", "dockerfile")
    return [(line.split()[0], line.partition(" ")[2]) for line in block.text.replace("\\\n", " ").splitlines()]


def test_the_container_file_installs_what_there_is(container: list[tuple[str, str]]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    image = dict(container)["FROM"]
    assert re.fullmatch(r"python:3\.(\d+)-slim", image)
    assert int(image.split(".")[1].split("-")[0]) >= int(project["requires-python"].rpartition(".")[2])
    [install] = [words for name, words in container if name == "RUN" and "pip install" in words]
    [extras] = re.findall(r"/opt/sabir\[([\w,-]+)\]", install)
    assert set(extras.split(",")) <= set(project["optional-dependencies"])
    [locked] = re.findall(r"--constraint /opt/sabir/(\S+)", install)
    assert (ROOT / locked).exists()


def test_the_container_serves_is_healthy_and_keeps_its_state_in_the_volume(
    container: list[tuple[str, str]], tmp_path: Path
) -> None:
    """Its ENTRYPOINT and HEALTHCHECK, run here in a folder that stands for its WORKDIR, on a free port."""
    given = dict(container)
    port = free_port()
    [run] = [block for block in blocks(DOCS / "howto" / "container.md", "console") if "docker run" in block.text]
    [hosts] = re.findall(r"SABIR_HOSTS='([^']*)'", run.text)
    assert given["EXPOSE"] in run.text
    volume = Path(given["VOLUME"]).relative_to(given["WORKDIR"])
    with started(
        json.loads(given["ENTRYPOINT"]), tmp_path, SABIR_PORT=str(port), SABIR_HOSTS=hosts, HOME=str(tmp_path)
    ):
        check = given["HEALTHCHECK"].removeprefix("CMD ").replace(given["EXPOSE"], str(port))
        check = check.replace("python", shlex.quote(sys.executable), 1)
        healthy = subprocess.run(["sh", "-c", check], capture_output=True)
        assert healthy.returncode == 0, healthy.stderr
        assert (tmp_path / volume / "secret.key").exists()
        request = urllib.request.Request(f"http://127.0.0.1:{port}/who?query=", headers={"Host": "agents.example"})
        assert urllib.request.urlopen(request).status == 200


# -- deployment models --------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", [DOCS / "deployments.md", ROOT / "examples/deployments/README.md"], ids=str)
def test_the_middle_agent_is_in_front_of_make_run(page: Path, tmp_path: Path) -> None:
    session = Session(tmp_path)
    (session.folder / "examples").unlink()
    shutil.copytree(ROOT / "examples", session.folder / "examples")
    for program in (session.folder / "examples" / "deployments").glob("*.py"):  # with the ports of the page
        program.write_text(session.with_ports(program.read_text()))
    [block] = [block for block in blocks(page, "console") if "middle_agent.py" in block.text]
    session.shell([("sabir serve &", []), *commands(block)])
