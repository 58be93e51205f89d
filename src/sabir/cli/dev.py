"""``sabir dev app.py``: serve the agents of a file, reload them on every change, and show their errors."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import socket
import sys
import traceback
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec
import uvicorn
from uvicorn.supervisors.statreload import StatReload

from sabir.config.app_file import is_app, load_app, path_of
from sabir.errors import ConfigError
from sabir.gateway.gateway import Gateway
from sabir.message import Message
from sabir.observe.logs import Scrub, inert
from sabir.protocols.nlip.wire import json as nlip
from sabir.server.server import bind
from sabir.server.settings import Serving, from_environment

from .log_setup import WithoutNoise
from .numbers import whole_number
from .printing import say

AGAIN: Final = "SABIR_DEV_AGAIN"  # set in a restarted program
SHOWN_FRAMES: Final = 6  # of a traceback, in the agent's own folder
RELOADED: Final = ("Stopping; no turn is running", "Stopped")  # so ends every reload, and "Reloading …" says it
SKIPPED: Final = frozenset({"node_modules", "site-packages"})


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("app", metavar="FILE", help="a Python file with agents: app.py, or app.py:name")
    parser.add_argument("--host", help="address to listen on (default: SABIR_HOST, or 127.0.0.1)")
    parser.add_argument(
        "--port", type=whole_number, help="port to listen on (default: SABIR_PORT, or 8080; 0: any free port)"
    )
    parser.add_argument("--home", metavar="DIR", help="where state is kept (default: SABIR_HOME, or ./.sabir)")
    parser.add_argument("--no-reload", action="store_true", help="do not watch the file")
    parser.add_argument(
        "--log-level",
        choices=["debug", "info", "warning", "error"],
        default="info",
        help="how much to log (default info)",
    )


def run(arguments: argparse.Namespace) -> int:
    if not is_app(arguments.app):
        raise ConfigError(f"{arguments.app}: expected a Python file, such as app.py; for a configuration: sabir serve")
    place: str = arguments.app
    if not path_of(place).is_file():
        raise ConfigError(f"{path_of(place)}: no such file; `sabir init` writes an app.py")
    sock, serving = _bound(arguments)
    if arguments.no_reload:
        return serve_app(place, serving, arguments.log_level, [sock])
    folder = path_of(place).resolve().parent
    config = uvicorn.Config("", reload=True, reload_dirs=[str(folder)], log_config=None)
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    reloader = Reloader(config, target=partial(_serve_again, place, serving, arguments.log_level), sockets=[sock])
    reloader.run()
    return 0


def _bound(arguments: argparse.Namespace) -> tuple[socket.socket, Serving]:
    """The socket to serve on, and how: the flags count before the variables.

    Raises:
        ConfigError: the port is taken, or SABIR_PORT is no number.
    """
    flags = {"host": arguments.host, "port": arguments.port, "home": arguments.home or os.environ.get("SABIR_HOME")}
    given = from_environment() | {name: value for name, value in flags.items() if value is not None}
    serving = Serving(**given, graceful_seconds=1.0)
    sock = bind(serving.host, serving.port)
    return sock, msgspec.structs.replace(serving, port=sock.getsockname()[1])


class Reloader(StatReload):
    """uvicorn's supervisor: restarts the program when a Python file of the folder changes.

    New and removed files count as changes; and the known state survives a restart, so that no change is missed while
    the program starts.
    """

    _seen: dict[Path, float] | None = None
    _gone: frozenset[Path] = frozenset()

    def should_restart(self) -> list[Path] | None:
        self.pause()
        now = {}
        for file in self.iter_py_files():
            with suppress(OSError):  # it has just been removed
                now[file] = file.stat().st_mtime
        before, self._seen = self._seen, now
        if before is None:
            return None
        gone = frozenset(file for file in before if file not in now)
        for file in gone - self._gone:
            # editors save by replacing a file: it counts only if it is still missing at the next check
            now[file] = before[file]
        self._gone = gone - self._gone
        changed = [file for file in now if now[file] != before.get(file)]
        return [*changed, *(file for file in gone if file not in now)] or None

    def iter_py_files(self) -> Iterator[Path]:
        """The Python files of the project, without virtual environments and tool folders."""
        for top in self.config.reload_dirs:
            for folder, folders, files in os.walk(top):
                folders[:] = [name for name in folders if not name.startswith((".", "_")) and name not in SKIPPED]
                if "pyvenv.cfg" in files:
                    folders.clear()
                    continue
                yield from (Path(folder, name).resolve() for name in files if name.endswith(".py"))

    def restart(self) -> None:
        say("Reloading …", flush=True)
        os.environ[AGAIN] = "1"
        super().restart()


def _serve_again(place: str, serving: Serving, level: str, sockets: list[socket.socket]) -> None:
    """Run in the restarted process: print an error, and wait for the next change."""
    try:
        sys.exit(serve_app(place, serving, level, sockets))
    except ConfigError as exc:
        print(inert(f"sabir: {exc}"), file=sys.stderr)
        say("Waiting for a change …", file=sys.stderr)
        asyncio.run(_answer_broken(sockets[0], str(exc)))


async def _answer_broken(sock: socket.socket, reason: str) -> None:
    """Answer every request with the reason until the next change, so that no caller waits in vain."""
    body = nlip.encode(Message.error(f"The agents cannot be loaded: {reason}"))
    head = f"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
    answer = f"{head}connection: close\r\n\r\n".encode() + body

    async def broken(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            await writer.drain()
        writer.close()

    async with await asyncio.start_server(broken, sock=sock) as server:
        await server.serve_forever()


def serve_app(place: str, serving: Serving, level: str, sockets: list[socket.socket]) -> int:
    """Serve the agents of a file on an open socket."""
    folder = path_of(place).resolve().parent
    set_up_logging(level, folder)
    app = load_app(place, serving.home)
    gateway = app if isinstance(app, Gateway) else Gateway(*app, home=serving.home, serving=serving)
    gateway.serving = msgspec.structs.replace(gateway.serving, graceful_seconds=serving.graceful_seconds)
    return gateway.run(serving.host, serving.port, sock=sockets[0], say=_say_shortly if AGAIN in os.environ else None)


def _say_shortly(line: str) -> None:
    """After a restart, print only the names of the agents instead of the whole banner."""
    if line.startswith("  agents:"):
        say(f"Ready:{line.removeprefix('  agents:')}", flush=True)


def set_up_logging(level: str, folder: Path) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(DevFormatter(folder))
    handler.addFilter(WithoutNoise())
    handler.addFilter(lambda record: record.getMessage() not in RELOADED)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    Scrub.openly = True  # only the developer reads it


class DevFormatter(logging.Formatter):
    """Log lines for developers: an exception with its message, and the agent's lines in the traceback."""

    def __init__(self, folder: Path) -> None:
        super().__init__("%(levelname)s %(message)s")
        self._folder = folder

    def format(self, record: logging.LogRecord) -> str:
        exception = record.exc_info[1] if record.exc_info else None
        if exception is None:
            return super().format(record)
        return f"{record.levelname} {record.getMessage()}\n{inert(self.short(exception))}"

    def short(self, exception: BaseException) -> str:
        """The frames in the agent's own folder, or all frames without any there."""
        frames: Any = traceback.extract_tb(exception.__traceback__)
        own = [frame for frame in frames if Path(frame.filename).is_relative_to(self._folder)]
        lines = [
            f"  {Path(f.filename).name}:{f.lineno} in {f.name}\n    {f.line}" for f in (own or frames)[-SHOWN_FRAMES:]
        ]
        return "\n".join([*lines, f"{type(exception).__name__}: {exception}"])
