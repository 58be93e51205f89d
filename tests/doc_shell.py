"""Runs the marked blocks of a page as a reader would paste them, and compares what they print."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

from deadline import DEADLINE
from doc_pages import ROOT, Block
from free_ports import free_port

READY = "Sabir is listening on\\|Uvicorn running on"
_PORT = re.compile(r"\b(?:80[89]\d|8443)\b")
_SERVER = re.compile(r"sabir (?:dev|serve)\b")  # in the foreground, it has a terminal of its own until the next server
_WAIT = f"""
front=
begin() {{  # starts a server in the background, instead of the one in the foreground, and waits until it listens
  [ -z "$front" ] || {{ kill $front; wait $front || true; front=; }}
  : >server.log  # or the words of the server before it would be read
  "$@" >server.log 2>&1 &
  for _ in $(seq 600); do grep -q "{READY}" server.log && cat server.log && return; kill -0 $! || break; sleep 0.1; done
  cat server.log; exit 1
}}
"""


class Session:
    """A folder in which the blocks of one page run, with ports of their own."""

    def __init__(self, folder: Path, remote: str = "") -> None:
        self.remote = remote  # the address that stands for https://example.com where it is asked
        self.folder = folder / "clone"  # a page may leave it
        self.folder.mkdir()
        self.ports: dict[str, str] = {}
        for name in (".venv", "examples"):  # as in a clone
            (self.folder / name).symlink_to(ROOT / name)

    def with_ports(self, text: str) -> str:
        return _PORT.sub(lambda found: self.ports.setdefault(found[0], str(free_port())), text)

    def _here(self, command: str) -> str:
        return self.with_ports(command).replace("sabir ask https://example.com", f"sabir ask {self.remote}")

    def steps(self, block: Block) -> list[tuple[str, list[str]]]:
        """What a marked block does, as commands with what they must print."""
        if block.mark.startswith("file:"):
            path = shlex.quote(str(self.folder / block.mark.removeprefix("file:").strip()))
            return [(f"mkdir -p $(dirname {path}); cat > {path} <<'PASTED'\n{block.text}PASTED", [])]
        if block.mark == "run" and block.kind == "python":
            return [(f"cat > pasted.py <<'PASTED'\n{block.text}PASTED\npython pasted.py", [])]
        mark, _, given = block.mark.partition(" after: ")
        assert mark == "run", f"{block.name}: unknown mark {block.mark!r}"
        return [*([(given, [])] if given else []), *commands(block)]

    def shell(self, lines: list[tuple[str, list[str]]]) -> None:
        """Run commands in one shell; each is given with the lines that it must print."""
        script = ["set -e", _WAIT]
        for number, (command, _) in enumerate(lines):
            command, background = re.subn(r"\s&(\s+#.*)?$", "", self._here(command))
            serves = _SERVER.match(command)
            script += [f"printf '\\n=== {number}\\n'", f"begin {command}" if background or serves else command]
            script += ["front=$!"] if serves and not background else []
        printed = self._run(["bash", "-c", "\n".join(script)])
        outputs = re.split(r"^=== \d+\n", printed, flags=re.MULTILINE)[1:]
        for (command, expected), output in zip(lines, outputs, strict=True):
            shown = [self.with_ports(line).partition("…")[0].strip() for line in expected]  # "…": and so on
            missing = [line for line in shown if line not in output]
            assert not missing, f"$ {command}\nprinted:\n{output}\ninstead of:\n" + "\n".join(missing)

    def _run(self, command: list[str]) -> str:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path, "HOME": str(self.folder), "PYTHONWARNINGS": "ignore"}
        if "8080" in self.ports:
            environment["SABIR_PORT"] = self.ports["8080"]  # the port that a program takes where nothing names one
        process = subprocess.Popen(
            command,
            cwd=self.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            process.wait(100)
        finally:
            try:
                os.killpg(process.pid, signal.SIGTERM)  # what was started in the background
            except ProcessLookupError:
                pass
        printed, _ = process.communicate(timeout=DEADLINE)
        assert process.returncode == 0, f"{shlex.join(command)}\n{printed}"
        return printed


def commands(block: Block) -> list[tuple[str, list[str]]]:
    """The commands of a console block, each with what it prints; of a shell block, each command."""
    found: list[tuple[str, list[str]]] = []
    for line in block.text.replace("\\\n", " ").splitlines():
        if found and not _is_whole(found[-1][0]):
            found[-1] = (f"{found[-1][0]}\n{line}", [])
        elif block.kind == "sh":
            found += [(line, [])] if line.strip() else []
        elif line.startswith("$ "):
            found.append((line[2:], []))
        elif found and line.strip():
            found[-1][1].append(line)
    return found


def _is_whole(command: str) -> bool:
    """Whether the next line does not belong to the command: no quotation is open, and nothing is piped on."""
    try:
        shlex.split(command, comments=True)
    except ValueError:
        return False
    return not command.rstrip().endswith("|")
