"""A TCP server for tests that leaves nothing open: when its block ends, every socket and every task of it is gone."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class TcpServer:
    """Calls the handler for every connection, and closes the connection when the handler returns."""

    def __init__(self, handler: Handler, listening: socket.socket, tls: ssl.SSLContext | None = None) -> None:
        self.port: int = listening.getsockname()[1]
        self.accepted = 0
        self._handler, self._listening, self._tls = handler, listening, tls
        self._tasks: dict[asyncio.Task[None], list[asyncio.StreamWriter]] = {}
        self._cut: set[asyncio.Task[None]] = set()  # tasks whose connections are aborted, also those that join later

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def cut(self) -> int:
        """Abort all connections; returns how many there were."""
        cut = 0
        self._cut.update(self._tasks)
        for writers in self._tasks.values():
            cut += any(not writer.is_closing() for writer in writers)
            for writer in writers:
                writer.transport.abort()
        return cut

    async def drained(self) -> None:
        """Wait until all connections that are open now are closed; a client may open others meanwhile."""
        running = [task for task in self._tasks if not task.done()]
        if running:
            await asyncio.wait(running)

    def start(self) -> None:
        asyncio.get_running_loop().add_reader(self._listening, self._accept)

    async def stop(self) -> None:
        """Close everything, and raise what a handler raised."""
        asyncio.get_running_loop().remove_reader(self._listening)
        self._listening.close()
        self.cut()
        for task in self._tasks:
            task.cancel()
        for result in await asyncio.gather(*self._tasks, return_exceptions=True):
            if isinstance(result, Exception):
                raise result

    def join(self, writer: asyncio.StreamWriter) -> None:
        """Let ``cut`` abort this writer, too. To be called by a handler, which closes it with ``close_all``."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks[task].append(writer)
        if task in self._cut:  # while it was connecting
            writer.transport.abort()

    def _accept(self) -> None:
        try:
            sock, _ = self._listening.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        sock.setblocking(False)
        self.accepted += 1
        task = asyncio.create_task(self._serve(sock))
        self._tasks[task] = []
        task.add_done_callback(lambda _: sock.close())  # nobody else closes it if the task never began

    async def _serve(self, sock: socket.socket) -> None:
        reader = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(reader)
        loop = asyncio.get_running_loop()
        try:
            transport, _ = await loop.connect_accepted_socket(lambda: protocol, sock, ssl=self._tls)
        except (OSError, asyncio.CancelledError) as exc:
            while sock.fileno() >= 0:  # its transport closes it in one of the next passes of the loop
                await asyncio.sleep(0)
            if isinstance(exc, OSError):  # the client does not accept our certificate, or is gone
                return
            raise
        writer = asyncio.StreamWriter(transport, protocol, reader, loop)
        self.join(writer)
        try:
            with suppress(OSError, EOFError):  # the client is gone
                await self._handler(reader, writer)
        finally:
            await close_all(writer)


async def close_all(*writers: asyncio.StreamWriter) -> None:
    """Close these once what was written is sent, or at once if the task is cancelled meanwhile.

    It is the last thing that a task does: the cancellation ends here, and does not replace what a handler raised.
    """
    closing = [asyncio.ensure_future(writer.wait_closed()) for writer in writers]
    for writer in writers:
        writer.close()
    while not all(task.done() for task in closing):
        try:
            await asyncio.wait(closing)
        except asyncio.CancelledError:
            for writer in writers:
                writer.transport.abort()
    for task in closing:
        task.exception()  # that of a client that is gone


@asynccontextmanager
async def tcp_server(handler: Handler, *, port: int = 0, tls: ssl.SSLContext | None = None) -> AsyncIterator[TcpServer]:
    """Serve on the loopback until the block ends. An exception of the handler is raised then.

    A client that goes away is no exception: neither OSError nor EOFError is.
    """
    with socket.create_server(("127.0.0.1", port)) as listening:
        listening.setblocking(False)
        server = TcpServer(handler, listening, tls)
        server.start()
        try:
            yield server
        finally:
            await server.stop()
