"""A PostgreSQL server of one's own: a free port, its own folder, to be stopped, killed and started again."""

from __future__ import annotations

import glob
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

import asyncpg
import pytest

from free_ports import free_port


class PrivatePostgres:
    """One cluster in a temporary folder. PostgreSQL refuses to run as root, so root runs it as ``postgres``."""

    def __init__(self) -> None:
        found = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb")) or [shutil.which("initdb") or ""]
        if not found[-1]:
            pytest.skip("no PostgreSQL to start: initdb is not installed")
        self._bin = Path(found[-1]).parent
        self._user: str | None = None
        if os.geteuid() == 0:
            try:
                self._user = pwd.getpwnam("postgres").pw_name
            except KeyError:
                pytest.skip("root cannot run PostgreSQL, and there is no user postgres")
        self._folder = Path(tempfile.mkdtemp(prefix="sabir-pg-"))
        if self._user is not None:
            shutil.chown(self._folder, self._user)
        self._port = free_port()
        self._run("initdb", "-D", f"{self._folder}/data", "-A", "trust", "-U", "postgres", "--no-sync")

    @property
    def address(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self._port}/postgres"

    def __enter__(self) -> PrivatePostgres:
        self.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self.remove()

    async def schema(self, name: str) -> str:
        """The address of an empty schema; it goes with the server."""
        named = f"{name}_{uuid4().hex[:12]}"
        connection = await asyncpg.connect(self.address)
        await connection.execute(f"CREATE SCHEMA {named}")
        await connection.close()
        return f"{self.address}?search_path={named}"

    def start(self) -> None:
        options = f"-p {self._port} -k {self._folder} -c listen_addresses=127.0.0.1"
        self._run("pg_ctl", "-D", f"{self._folder}/data", "-l", f"{self._folder}/log", "-o", options, "-w", "start")

    def stop(self, mode: str = "fast") -> None:
        """``fast`` ends sessions in order; ``immediate`` is a crash, with recovery at the next start."""
        self._run("pg_ctl", "-D", f"{self._folder}/data", "-m", mode, "-w", "stop")

    def pause(self) -> None:
        """Let all its processes stand still: what is sent to it is taken, and nothing is answered."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, which: signal.Signals) -> None:
        main = int((self._folder / "data" / "postmaster.pid").read_text().split()[0])
        children = Path(f"/proc/{main}/task/{main}/children").read_text().split()
        for pid in (main, *map(int, children)):
            with suppress(ProcessLookupError):  # a session may end in between
                os.kill(pid, which)

    @contextmanager
    def asking_for_passwords(self) -> Iterator[None]:
        """Trust nobody for a while."""
        rules = self._folder / "data" / "pg_hba.conf"
        before = rules.read_text()
        try:
            rules.write_text("host all all 127.0.0.1/32 scram-sha-256\n")
            self._run("pg_ctl", "-D", f"{self._folder}/data", "reload")
            yield
        finally:
            rules.write_text(before)
            self._run("pg_ctl", "-D", f"{self._folder}/data", "reload")

    def remove(self) -> None:
        if (self._folder / "data" / "postmaster.pid").exists():
            self.stop("immediate")
        shutil.rmtree(self._folder)

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [str(self._bin / program), *arguments],
            user=self._user,
            cwd=self._folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            check=False,
            timeout=600,
        )
        assert done.returncode == 0, done.stderr.decode()
