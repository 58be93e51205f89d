"""Runs a Python program in a separate process, with limits on time, memory, files and network."""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

SECONDS = 5
MEMORY = 256 * 1024 * 1024
FILE_BYTES = 1024 * 1024

# Prepended to the program. The program cannot remove an audit hook.
GUARD = """
import os as _os
import sys as _sys
def _guard(event, arguments, _here=_os.path.realpath(_sys.argv[1]) + "/", _real=_os.path.realpath):
    if event.split(".")[0] in ("socket", "subprocess", "ctypes", "ftplib", "smtplib", "urllib"):
        raise PermissionError("the sandbox allows no " + event)
    if event in ("os.system", "os.exec", "os.posix_spawn", "os.fork", "os.forkpty", "os.spawn", "os.kill"):
        raise PermissionError("the sandbox allows no " + event)
    if event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wax+"):
        if not _real(str(arguments[0])).startswith(_here):
            raise PermissionError("the sandbox allows no writing outside its folder")
    if event in ("os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.chmod", "shutil.rmtree"):
        raise PermissionError("the sandbox allows no " + event)
_sys.addaudithook(_guard)
_sys.argv = _sys.argv[:1]
exec(compile(open("program.py").read(), "program.py", "exec"), {"__name__": "__main__"})
"""


@dataclass(frozen=True)
class Outcome:
    """How a program ended."""

    ok: bool
    output: str
    error: str = ""  # the last line of the traceback, such as "IndexError: list index out of range"
    line: int = 0  # of the program, where it was raised
    crashed: bool = False  # the sandbox ended it: too much time or memory


def _limits() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES, FILE_BYTES))
    resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def run(code: str) -> Outcome:
    """Run a program and report how it ended."""
    with tempfile.TemporaryDirectory(prefix="sandbox-") as folder:
        Path(folder, "program.py").write_text(code, encoding="utf-8")
        try:
            done = subprocess.run(
                [sys.executable, "-I", "-S", "-c", GUARD, folder],
                cwd=folder,
                env={"PATH": "/nonexistent", "HOME": folder},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=SECONDS + 1,
                preexec_fn=_limits,
            )
        except subprocess.TimeoutExpired:
            return Outcome(False, "", f"it ran for more than {SECONDS} seconds", crashed=True)
    if done.returncode < 0:
        return Outcome(False, done.stdout, f"it was ended by signal {-done.returncode}", crashed=True)
    if done.returncode == 0:
        return Outcome(True, done.stdout)
    lines = done.stderr.strip().splitlines()
    places = [line for line in lines if 'File "program.py", line ' in line]
    line = int(places[-1].split("line ")[1].split(",")[0]) if places else 0
    return Outcome(False, done.stdout, lines[-1] if lines else "it failed without a word", line)
