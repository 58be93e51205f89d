"""The proxy that other tests put between a client and a server: what it passes on, and that it leaves nothing open."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path

import pytest

from certificates import Authority
from deadline import DEADLINE
from tcp_proxy import tcp_proxy
from tcp_server import TcpServer, tcp_server


def open_sockets() -> set[str]:
    links = []
    for name in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # that of the listing itself
            links.append(str(name.readlink()))
    return {link for link in links if link.startswith("socket:")}


@pytest.fixture
async def echo() -> AsyncIterator[TcpServer]:
    """A server that sends back what it receives; all sockets that a test opens are closed when it ends."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()

    before = open_sockets()
    async with tcp_server(handle) as server:
        yield server
    assert not open_sockets() - before


class Client:
    """A blocking socket without a loop, so that only the proxy can leave something open in it."""

    def __init__(self, port: int, tls: ssl.SSLContext | None = None) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=DEADLINE)
        if tls is not None:
            self._socket = tls.wrap_socket(self._socket, server_hostname="127.0.0.1")

    def ask(self, sent: bytes) -> bytes:
        self._socket.sendall(sent)
        return self._socket.recv(65536)

    def reset(self) -> None:
        """Close as the system does for a program that is killed while bytes for it are under way."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()

    def close(self) -> None:
        self._socket.close()


async def test_bytes_pass_both_ways_and_filters_change_them(echo: TcpServer) -> None:
    async with tcp_proxy(
        ("127.0.0.1", echo.port),
        to_server=lambda data, number: data.upper() + b"%d" % number,
        to_client=lambda data, number: data.replace(b"L", b"1"),
    ) as proxy:
        for number in (1, 2):
            client = await asyncio.to_thread(Client, proxy.port)
            assert await asyncio.to_thread(client.ask, b"hello") == b"HE11O%d" % number
            client.close()
        assert proxy.accepted == 2
    with pytest.raises(ConnectionRefusedError):
        Client(proxy.port)


async def test_the_target_may_depend_on_the_number_of_the_connection(echo: TcpServer) -> None:
    async with tcp_proxy(lambda number: ("127.0.0.1", echo.port if number % 2 else 9)) as proxy:
        answers = []
        for _ in range(4):
            client = await asyncio.to_thread(Client, proxy.port)
            try:
                answers.append(await asyncio.to_thread(client.ask, b"hello"))
            except OSError:
                answers.append(b"")
            client.close()
    assert answers == [b"hello", b"", b"hello", b""]


async def test_a_filter_that_returns_nothing_closes_the_connection(echo: TcpServer) -> None:
    async with tcp_proxy(("127.0.0.1", echo.port), to_client=lambda data, number: None) as proxy:
        client = await asyncio.to_thread(Client, proxy.port)
        assert await asyncio.to_thread(client.ask, b"hello") == b""
        client.close()
        await proxy.drained()
        assert proxy.cut() == 0


async def test_cut_aborts_all_connections_and_counts_them(echo: TcpServer) -> None:
    async with tcp_proxy(("127.0.0.1", echo.port)) as proxy:
        clients = [await asyncio.to_thread(Client, proxy.port) for _ in range(3)]
        for client in clients:
            assert await asyncio.to_thread(client.ask, b"hello") == b"hello"
        assert proxy.cut() == 3
        await proxy.drained()
        assert proxy.cut() == 0
        for client in clients:
            with suppress(ConnectionError):
                assert await asyncio.to_thread(client.ask, b"x") == b""
            client.close()


async def test_a_client_that_comes_back_is_not_waited_for(echo: TcpServer) -> None:
    """The inbox stream of an ACL client comes back at once and stays open: ``drained`` then never returned."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(65536)
        clients.append(Client(server.port))  # before this connection has ended

    clients: list[Client] = []
    async with tcp_server(handle) as server:
        clients.append(Client(server.port))
        while not server.accepted:
            await asyncio.sleep(0)
        assert server.cut() <= 1
        async with asyncio.timeout(DEADLINE):
            while not clients[1:]:
                await asyncio.sleep(0)
            await server.drained()
        for client in clients:
            client.close()


async def test_a_connection_that_is_cut_while_it_connects_is_closed(echo: TcpServer) -> None:
    async with tcp_proxy(("127.0.0.1", echo.port)) as proxy:
        client = Client(proxy.port)
        while not proxy.accepted:
            await asyncio.sleep(0)
        proxy.cut()  # its handler has not begun
        async with asyncio.timeout(DEADLINE):
            await proxy.drained()
        client.close()


async def test_tls_ends_at_the_proxy_and_the_target_sees_the_local_address(tmp_path: Path) -> None:
    seen: list[str] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(writer.get_extra_info("peername")[0])
        writer.write(await reader.read(100))

    authority = Authority(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.make("server"))
    before = open_sockets()
    async with tcp_server(handle) as server:
        async with tcp_proxy(("127.0.0.1", server.port), tls=context, local_host="127.0.0.7") as proxy:
            with pytest.raises(ssl.SSLCertVerificationError):
                await asyncio.to_thread(Client, proxy.port, ssl.create_default_context())
            client = await asyncio.to_thread(Client, proxy.port, authority.context())
            assert await asyncio.to_thread(client.ask, b"hello") == b"hello"
            client.close()
    assert seen == ["127.0.0.7"]
    assert not open_sockets() - before


@pytest.mark.parametrize("end", [Client.close, Client.reset, lambda client: None], ids=["closed", "reset", "open"])
async def test_nothing_is_left_open_however_a_client_ends(echo: TcpServer, end: Callable[[Client], None]) -> None:
    clients = []
    with pytest.raises(KeyError):  # nor when the block ends by an exception
        async with tcp_proxy(("127.0.0.1", echo.port)) as proxy:
            for asks in (0, 1, 2):
                client = await asyncio.to_thread(Client, proxy.port)
                clients.append(client)
                for _ in range(asks):
                    await asyncio.to_thread(client.ask, b"x" * 60_000)
                client._socket.sendall(b"x" * 100_000)  # nobody reads the answer
                end(client)
            raise KeyError
    await echo.drained()
    for client in clients:
        client.close()


async def test_what_a_filter_raises_fails_the_test_that_uses_it(echo: TcpServer) -> None:
    def check(data: bytes, number: int) -> bytes:
        assert data == b"expected"
        return data

    with pytest.raises(AssertionError):
        async with tcp_proxy(("127.0.0.1", echo.port), to_server=check) as proxy:
            client = await asyncio.to_thread(Client, proxy.port)
            assert await asyncio.to_thread(client.ask, b"something else") == b""
            client.close()
