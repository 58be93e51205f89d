"""An HTTP server on the loopback, for tests of what fetches."""

from __future__ import annotations

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from deadline import DEADLINE

Answer = tuple[int, dict[str, str], bytes]


class Site:
    """An HTTP server on the loopback whose answers are functions of the path; it keeps what it heard."""

    def __init__(self, port: int = 0) -> None:
        self.answers: dict[str, Callable[[bytes, dict[str, str]], Answer]] = {}
        self.heard: list[tuple[str, dict[str, str], bytes]] = []
        site = self

        class Handler(BaseHTTPRequestHandler):
            def handle_one(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                headers = {name.lower(): value for name, value in self.headers.items()}
                site.heard.append((self.path, headers, body))
                answer = site.answers.get(self.path)
                status, sent, said = answer(body, headers) if answer else (404, {}, b"")
                self.send_response(status)
                for name, value in {"content-length": str(len(said)), **sent}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(said)

            do_GET = do_POST = handle_one

            def log_message(self, *_: object) -> None:
                return None

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def says(self, path: str, body: bytes = b"ok", status: int = 200, **headers: str) -> None:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        self.answers[path] = lambda *_: (status, sent, body)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(DEADLINE)
