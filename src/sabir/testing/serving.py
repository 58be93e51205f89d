"""``served``: agents behind every door of a real gateway, for tests that go over the wire."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from sabir.agent import Agent
from sabir.gateway.gateway import Gateway
from sabir.server.server import Server, bind, uvicorn_config

START_SECONDS: Final = 20.0


@contextmanager
def served(*agents: Agent, home: Path | str | None = None, **options: Any) -> Iterator[str]:
    """Serve agents on a free loopback port until the block ends; yields the URL.

    ``options`` are those of ``Gateway``. Without a ``home``, nothing is kept.

    Raises:
        RuntimeError: the gateway did not start.
    """
    with tempfile.TemporaryDirectory() as folder:
        sock = bind("127.0.0.1", 0)
        url = f"http://127.0.0.1:{sock.getsockname()[1]}"
        gateway = Gateway(*agents, home=Path(home or folder), public_url=url, **options)
        server = Server(uvicorn_config(gateway, gateway.serving), gateway.exchange.close, 5.0)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]}, daemon=True)
        thread.start()
        end = time.monotonic() + START_SECONDS
        try:
            while not server.started:
                if not thread.is_alive() or time.monotonic() > end:
                    raise RuntimeError("the gateway did not start; its log says why")
                time.sleep(0.005)
            yield url
        finally:
            server.should_exit = True
            thread.join(START_SECONDS)
