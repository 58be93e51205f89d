"""A Chromium, the npm packages that drive it, and what tests of pages share."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

CLIENT = Path(__file__).with_name("client")
PACKAGES = ("playwright-core", "axe-core")
Drive = Callable[..., dict[str, Any]]


@pytest.fixture(scope="session")
def chromium() -> str:
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None or shutil.which("npm") is None:
        pytest.skip("needs a Chromium and npm: apt-get install chromium npm")
    with (CLIENT / "package.json").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # of several processes that run tests, one installs
        if not all((CLIENT / "node_modules" / name).exists() for name in PACKAGES):
            done = subprocess.run(["npm", "ci", "--no-audit", "--no-fund", "--loglevel=error"], cwd=CLIENT, timeout=600)
            if done.returncode:
                pytest.skip("needs packages from the npm registry, and npm ci cannot have them here")
    return found


@pytest.fixture(scope="session")
def drive() -> Drive:
    """Runs a script of the client folder; its last line is what it found, as JSON."""

    def run(script: str, *arguments: str) -> dict[str, Any]:
        done = subprocess.run(["node", script, *arguments], cwd=CLIENT, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr[-3000:]
        return dict(json.loads(done.stdout.splitlines()[-1]))

    return run


@pytest.fixture(scope="session")
def shots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where screenshots go; SABIR_SHOTS names a folder to look at afterwards."""
    keep = os.environ.get("SABIR_SHOTS")
    folder = Path(keep) if keep else tmp_path_factory.mktemp("shots")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        return


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """A web server of another origin, and the folder that it serves."""
    folder = tmp_path_factory.mktemp("elsewhere")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=str(folder)))
    thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", folder
    server.shutdown()
    server.server_close()
    thread.join()
