"""Memory of a crawl: a local site of many pages over HTTP, read by its links into an index without vectors.

    python bench/crawl.py [PAGES]           # default 10000

Prints the resident memory after each fifth of the pages. Exits with 1 if the last fifths grow it by more than a
quarter.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import sys
import tempfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection
from pathlib import Path

from sabir.guard.egress.addresses import GuardedClient, Outbound, OutboundRules
from sabir.search import Fetched, IngestProgress, LocalIndex, Reach, ingest

FAN = 10


def serve(pages: int, reports: Connection) -> None:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            number = int(self.path[2:]) if self.path.startswith("/p") else 0
            there = self.path == "/" or (self.path.startswith("/p") and number < pages)
            links = "".join(
                f'<a href="/p{item}">{item}</a>'
                for item in range(number * FAN + 1, number * FAN + FAN + 1)
                if item < pages
            )
            text = f"<title>Page {number}</title><main><p>{f'Words of page {number}. ' * 60}</p>{links}</main>"
            body = f"<!doctype html><html>{text}</html>".encode() if there else b""
            self.send_response(200 if there else 404)
            self.send_header("content-type", "text/html")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            return None

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    reports.send(server.server_address[1])
    server.serve_forever()


def resident() -> tuple[int, int]:
    """MiB of this process: its own memory, and mapped files, which the system may drop at any time."""
    rows = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":" in line)
    own, mapped = (int(rows[name].split()[0]) // 1024 for name in ("RssAnon", "RssFile"))
    return own, mapped


async def crawl(port: int, pages: int) -> list[int]:
    sizes: list[int] = []

    def look(progress: IngestProgress) -> None:
        if progress.done * 5 >= pages * (len(sizes) + 1):
            own, mapped = resident()
            sizes.append(own)
            print(f"{progress.done:>6} pages  {progress.rate:.0f}/s  {own} MiB, and {mapped} MiB of files", flush=True)

    outbound = Outbound(OutboundRules(allow=(f"127.0.0.1:{port}",)))
    with tempfile.TemporaryDirectory() as folder:
        async with GuardedClient(outbound) as client, LocalIndex(folder, None) as index:

            async def fetch(url: str) -> Fetched:
                got = await client.get(url)
                return Fetched(got.url, got.status, got.body, got.headers.get("content-type", ""))

            report = await ingest(
                index, f"http://127.0.0.1:{port}/", site="big", fetch=fetch, progress=look, reach=Reach(delay=0)
            )
    print(f"{report.way}: {report.documents} pages, {report.added} new, {report.not_read} skipped")
    assert report.added == pages
    return sizes


def main() -> int:
    pages = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    here, there = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(pages, there), daemon=True)
    server.start()
    try:
        sizes = asyncio.run(crawl(here.recv(), pages))
    finally:
        server.terminate()
    return int(sizes[-1] > 1.25 * sizes[1])


if __name__ == "__main__":
    sys.exit(main())
