"""Virtual environments for the peers that benchmarks and tests run beside Sabir, made once in ``.venvs/``."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """One process at a time makes what belongs into a folder; the others wait for it."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def python_with(name: str, *packages: str) -> Path:
    """The interpreter of an environment that has these packages; made if it is not there yet."""
    folder = ROOT / ".venvs" / name
    python = folder / "bin" / "python"
    mark = folder / ".packages"
    wanted = "\n".join(sorted(packages))
    with alone(folder):
        if mark.exists() and mark.read_text() == wanted:
            return python
        if not python.exists():
            subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        subprocess.run(
            [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        mark.write_text(wanted)
    return python
