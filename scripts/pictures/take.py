"""Takes the pictures of the README: three of the page in Chromium, and one of a terminal session.

``take.py [FOLDER]``. The commands of the session are really run, and the SVG shows what they printed, line by line.
"""

from __future__ import annotations

import html
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent
PROGRAMS = Path(sys.executable).parent
CLIENT = ROOT / "tests" / "web" / "client"
READY = "Sabir is listening on"
PORT = "8090"  # in the picture; a free one is used
SESSION = (
    f"sabir init taxi --name taxi --kind function --port {PORT}",
    "cd taxi",
    f"sabir dev app.py --port {PORT} &",
    f'sabir ask http://127.0.0.1:{PORT}/nlip "Hello"',
    f'sabir ask http://127.0.0.1:{PORT}/mcp "Hello"',
    f'sabir ask http://127.0.0.1:{PORT}/a2a "Hello"',
    f'sabir ask http://127.0.0.1:{PORT}/ask "Hello"',
    "python -m pytest -q -p no:asyncio -p no:cacheprovider",
)
COLUMNS, LINE, MARGIN, CHARACTER = 92, 19, 16, 8.4
TYPING, PAUSE, END = 0.03, 0.6, 4.0  # seconds: for each letter, after each command, before it starts over


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def environment(home: Path) -> dict[str, str]:
    path = f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "HOME": str(home), "SABIR_LOG__LEVEL": "warning", "COLUMNS": str(COLUMNS)}


@contextmanager
def gateway(home: Path) -> Iterator[str]:
    """The gateway of the pictures, on a free port, until the block ends."""
    port = free_port()
    command = [str(PROGRAMS / "sabir"), "serve", str(HERE / "sabir.yaml"), "--port", str(port)]
    log = home / "serve.log"
    with log.open("w") as output:
        settings = {**environment(home), "SABIR_HOME": str(home / "state")}
        server = subprocess.Popen(command, env=settings, stdout=output, stderr=subprocess.STDOUT)
    try:
        while READY not in log.read_text():
            if server.poll() is not None:
                raise SystemExit(log.read_text())
            time.sleep(0.1)
        url = f"http://127.0.0.1:{port}"
        wait_for_the_index(url)
        yield url
    finally:
        server.terminate()
        server.wait()


def wait_for_the_index(url: str) -> None:
    """Wait until the sample site is searched by meaning, too; before, the page says that it is still being indexed."""
    while True:
        answer = httpx2.get(f"{url}/ask", params={"query.text": "soup", "prefer.streaming": "false"}, timeout=30).json()
        if "coverage" not in answer["_meta"]:
            return
        time.sleep(1)


def take_page(folder: Path, home: Path) -> None:
    """The pictures of the page."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome") or "chromium"
    if not (CLIENT / "node_modules").exists():
        subprocess.run(["npm", "ci", "--no-audit", "--no-fund", "--loglevel=error"], cwd=CLIENT, check=True)
    with gateway(home) as url:
        subprocess.run(["node", "pictures.mjs", chromium, url, str(folder)], cwd=CLIENT, check=True)


def run_session(home: Path) -> list[tuple[str, list[str]]]:
    """Each command of the session with its output."""
    port, folder, found = free_port(), home / "session", []
    folder.mkdir()
    servers = []
    try:
        for command in SESSION:
            real = command.replace(PORT, str(port))
            if command.startswith("cd "):
                folder /= command.removeprefix("cd ")
                printed = ""
            elif command.endswith(" &"):
                server, printed = start(real.removesuffix(" &"), folder, home)
                servers.append(server)
            else:
                done = subprocess.run(
                    real, shell=True, cwd=folder, env=environment(home), capture_output=True, text=True
                )
                printed = done.stdout + done.stderr
                assert done.returncode == 0, f"{command}\n{printed}"
            printed = re.sub(r"\x1b\[[0-9;]*m", "", printed).replace(str(port), PORT).replace(f"{PROGRAMS}/", "")
            found.append(
                (
                    re.sub(r" -p no:\w+", "", command),
                    [line[:COLUMNS] for line in printed.strip("\n").rstrip().splitlines()],
                )
            )
    finally:
        for server in servers:
            server.terminate()
            server.wait()
    return found


def start(command: str, folder: Path, home: Path) -> tuple[subprocess.Popen[str], str]:
    """A server in the background, and its output until it listens."""
    log = home / "dev.log"
    with log.open("w") as output:
        server = subprocess.Popen(
            command.split(), cwd=folder, env=environment(home), stdout=output, stderr=subprocess.STDOUT, text=True
        )
    while READY not in log.read_text():
        assert server.poll() is None, log.read_text()
        time.sleep(0.1)
    return server, next(line for line in log.read_text().splitlines() if READY in line)


def svg(session: list[tuple[str, list[str]]]) -> str:
    """The session as an animated picture: commands are typed, their output follows."""
    rows: list[tuple[float, str, str]] = []  # when, class, text
    now = 0.5
    for command, printed in session:
        rows.append((now, "typed", f"$ {command}"))
        now += TYPING * len(command) + PAUSE / 2
        for line in printed:
            rows.append((now, "said", line))
            now += 0.05
        now += PAUSE
    whole = now + END
    width, height = COLUMNS * CHARACTER + 2 * MARGIN, len(rows) * LINE + 2 * MARGIN + 24
    lines = [drawn(number, row, whole) for number, row in enumerate(rows)]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" role="img" '
        'aria-label="A terminal: sabir init, sabir dev, sabir ask over four protocols, pytest">\n'
        "<style>text{font:14px ui-monospace,Menlo,Consolas,monospace;white-space:pre}"
        ".typed{fill:#7ee0d2}.said{fill:#e6edeb}</style>\n"
        f'<rect width="100%" height="100%" rx="10" fill="#101514"/>\n'
        '<circle cx="20" cy="18" r="5" fill="#e06c60"/><circle cx="38" cy="18" r="5" fill="#dfb14c"/>'
        '<circle cx="56" cy="18" r="5" fill="#63b26a"/>\n' + "\n".join(lines) + "\n</svg>\n"
    )


def drawn(number: int, row: tuple[float, str, str], whole: float) -> str:
    when, kind, text = row
    share = when / whole
    y = MARGIN + 24 + LINE * number + 12
    # If animation is not supported, every line is shown.
    steps = f'values="0;0;1;1" keyTimes="0;{share:.4f};{min(share + 0.0001, 1):.4f};1"'
    animation = f'<animate attributeName="opacity" {steps} dur="{whole:.1f}s" repeatCount="indefinite"/>'
    return f'<text class="{kind}" x="{MARGIN}" y="{y}">{html.escape(text)}{animation}</text>'


def main() -> int:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "docs" / "pictures").resolve()
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as home:
        (folder / "terminal.svg").write_text(svg(run_session(Path(home))), encoding="utf-8")
        take_page(folder, Path(home))
    for path in sorted(folder.iterdir()):
        print(f"{path.name}: {path.stat().st_size // 1024} KB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
