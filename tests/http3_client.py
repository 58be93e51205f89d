"""A client that speaks HTTP/3, which Debian's curl does not: one POST to a server on this machine."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from aioquic.asyncio.client import connect
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import QuicEvent

from deadline import DEADLINE


async def asked(url: str, fields: Mapping[str, str], body: bytes, *, ca: Path) -> tuple[str, bytes]:
    """The status and the body of the answer. The server is on 127.0.0.1, whatever name it has."""
    place = urlsplit(url)
    configuration = QuicConfiguration(is_client=True, alpn_protocols=H3_ALPN, server_name=place.hostname)
    configuration.load_verify_locations(str(ca))
    head = {":method": "POST", ":scheme": "https", ":authority": place.netloc, ":path": place.path, **fields}
    head["content-length"] = str(len(body))
    headers = [(name.encode(), value.encode()) for name, value in head.items()]
    options: dict[str, Any] = {"configuration": configuration, "create_protocol": Http3}
    async with asyncio.timeout(DEADLINE), connect("127.0.0.1", place.port or 443, **options) as http:
        assert isinstance(http, Http3)
        return await http.answer(headers, body)


class Http3(QuicConnectionProtocol):
    """One request over one connection."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._http = H3Connection(self._quic)
        self._status, self._body = "", b""
        self._done = asyncio.Event()

    async def answer(self, headers: list[tuple[bytes, bytes]], body: bytes) -> tuple[str, bytes]:
        stream = self._quic.get_next_available_stream_id()
        self._http.send_headers(stream, headers)
        self._http.send_data(stream, body, end_stream=True)
        self.transmit()
        await self._done.wait()
        return self._status, self._body

    def quic_event_received(self, event: QuicEvent) -> None:
        for item in self._http.handle_event(event):
            if isinstance(item, HeadersReceived):
                self._status = dict(item.headers)[b":status"].decode()
            if isinstance(item, DataReceived):
                self._body += item.data
            if getattr(item, "stream_ended", False):
                self._done.set()
