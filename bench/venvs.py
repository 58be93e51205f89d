"""Virtual environments for programs that benchmarks and tests run alongside Sabir, created once in ``.venvs/``.

``python bench/venvs.py`` creates those that the tests need.
"""

from __future__ import annotations

import fcntl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# The environments of the tests. Each takes half a minute to create, so they are shared where possible.
TESTED = {
    "nlip": ("nlip-server==0.1.3", "nlip-sdk==0.1.3", "uvloop", "httptools", "ag2>=1.2"),
    "mcp-servers": ("mcp-server-time>=2026.10", "mcp-server-git>=2026.10"),
    "fastmcp": ("fastmcp>=4.1",),
    "nlweb-network": ("nlweb-core==0.7.0", "nlweb-network==0.7.0"),
}


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """One process at a time fills a folder; the others wait for it."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def python_of(peer: str) -> Path:
    """The interpreter of an environment that tests need."""
    return python_with(peer, *TESTED[peer])


def python_with(name: str, *packages: str) -> Path:
    """The interpreter of an environment with these packages; created if it does not exist."""
    folder = ROOT / ".venvs" / name
    python = folder / "bin" / "python"
    mark = folder / ".packages"
    with alone(folder):
        if mark.exists() and set(packages) <= set(mark.read_text().splitlines()):
            return python
        if not python.exists():
            subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
        install = ["install", "--quiet", "--quiet", "--disable-pip-version-check", "--no-compile", *packages]
        subprocess.run(
            [sys.executable, "-m", "pip", "--python", str(python), *install], check=True, stdout=subprocess.DEVNULL
        )
        mark.write_text("\n".join(sorted(packages)))
    return python


if __name__ == "__main__":
    for item in TESTED:
        python_of(item)
