"""The HTTP side of an ACL endpoint: messages are sent by POST, the inbox is read as SSE and acknowledged."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, Mapping
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

import httpx2
import msgspec

from sabir.errors import PeerRefused, PeerUnavailable, PeerUnreadable
from sabir.guard.egress.keep_alive import LiveTransport, kept_connections
from sabir.http.client import http_client
from sabir.http.connect_errors import NOT_UNPACKED, peer_errors, why_no_connection
from sabir.http.error_body import reason_in
from sabir.http.event_stream import read_events
from sabir.http.wire_log import request_head, response_head
from sabir.misfits import NOT_JSON
from sabir.numerals import whole_number
from sabir.protocols.acl.wire.envelope import Envelope, encode
from sabir.protocols.options import PeerOptions
from sabir.protocols.peer import Identity, OnWire, choose, origin_of, without_credentials

MAX_BYTES: Final = 16 * 1024 * 1024
_SILENT: Final = 45.0  # seconds without a sign of life, after which a stream is reopened


class Link:
    """One ACL endpoint, for one identity."""

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        identities: tuple[Identity, ...] = (),
        verify: ssl.SSLContext | None = None,
        on_wire: OnWire | None = None,
        socket: str | None = None,
    ) -> None:
        """``socket`` is the path of the endpoint's Unix socket, if that is used."""
        self.base = endpoint_of(url)
        self.address = without_credentials(self.base)
        self._identities = identities
        self._origin = origin_of(self.base)
        self._authorization = choose(identities, self._origin, None)
        self._on_wire = on_wire
        transport = {} if socket is None else {"transport": LiveTransport(uds=socket, limits=kept_connections(None))}
        self._client = http_client(PeerOptions(headers=headers, verify=verify), **transport)

    async def close(self) -> None:
        await self._client.aclose()

    async def post(self, envelope: Envelope, *, seconds: float = 30.0, wait: int | None = None) -> dict[str, Any]:
        """Send a message; returns the acknowledgement once it is stored remotely, or, with ``wait``, the first reply.

        Raises:
            PeerUnavailable: no answer, or it is busy.
            PeerRefused: the message is rejected; ``status`` is the reason code.
        """
        prefer = {} if wait is None else {"prefer": f"wait={wait}"}
        return await self._json("POST", self.base, encode(envelope), seconds, prefer)

    async def waiting(self, agent: str) -> dict[str, Any]:
        """The content of an inbox, without taking it."""
        return await self._json("GET", f"{self.base}/inbox/{agent}", b"", 30.0)

    async def acknowledge(self, agent: str, through: int) -> None:
        """Acknowledge everything in the inbox up to this number."""
        await self._json("POST", f"{self.base}/inbox/{agent}", msgspec.json.encode({"through": through}), 30.0)

    async def acknowledge_numbers(self, agent: str, numbers: list[int]) -> None:
        """Acknowledge these messages of an inbox."""
        await self._json("POST", f"{self.base}/inbox/{agent}", msgspec.json.encode({"numbers": numbers}), 30.0)

    async def conversation(self, conversation_id: str) -> dict[str, Any]:
        return await self._json("GET", f"{self.base}/conversations/{conversation_id}", b"", 30.0)

    async def about(self) -> dict[str, Any]:
        """The endpoint's description of itself."""
        parts = urlsplit(self.base)
        before = parts.path.removesuffix("/acl")
        return await self._json("GET", urlunsplit(parts._replace(path=f"{before}/.well-known/acl")), b"", 30.0)

    async def events(self, agent: str, last: int | None = None) -> AsyncGenerator[tuple[int, bytes], None]:
        """The messages for an agent as they arrive, with their numbers. Ends when the stream does.

        Raises:
            PeerUnavailable: no connection, or silence for too long.
            PeerRefused: the inbox is not ours.
        """
        headers = {"accept": "text/event-stream"}
        if last is not None:
            headers["last-event-id"] = str(last)
        try:
            response = await self._send("GET", f"{self.base}/inbox/{agent}", b"", headers, _SILENT)
            try:
                if not response.is_success:
                    raise self._refusal(response.status_code, await self._content(response))
                events = read_events(
                    response, self.address, MAX_BYTES, on_line=lambda line: self._show("received", line)
                )
                async for event in events:
                    yield whole_number(event.id) or 0, event.data.encode()
            finally:
                await response.aclose()
        except httpx2.DecodingError:
            raise PeerUnreadable(self.address, NOT_UNPACKED) from None
        except (httpx2.TransportError, httpx2.StreamError, TimeoutError) as exc:
            raise PeerUnavailable(self.address, why_no_connection(exc, "the stream was lost")) from None

    async def _content(self, response: httpx2.Response) -> bytes:
        content = bytearray()
        async for piece in response.aiter_bytes():
            content += piece
            if len(content) > MAX_BYTES:
                raise PeerUnreadable(self.address, f"its answer is larger than {MAX_BYTES} bytes")
        return bytes(content)

    async def _json(
        self, method: str, url: str, body: bytes, seconds: float, more: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        with peer_errors(self.address):
            async with asyncio.timeout(seconds):
                response = await self._send(method, url, body, {"accept": "application/json", **(more or {})}, seconds)
                try:
                    content = await self._content(response)
                finally:
                    await response.aclose()
        self._show("received", content)
        if not response.is_success:
            raise self._refusal(response.status_code, content)
        try:
            return msgspec.json.decode(content, type=dict[str, Any])
        except NOT_JSON:
            raise PeerUnreadable(self.address, "its answer is not JSON") from None

    async def _send(
        self, method: str, url: str, body: bytes, headers: dict[str, str], seconds: float
    ) -> httpx2.Response:
        response = await self._try(method, url, body, headers, seconds)
        if response.status_code == 401:
            wanted = choose(self._identities, self._origin, response.headers.get("www-authenticate", ""))
            if wanted is not None and wanted != self._authorization:
                await response.aclose()
                self._authorization = wanted
                response = await self._try(method, url, body, headers, seconds)
        return response

    async def _try(
        self, method: str, url: str, body: bytes, headers: dict[str, str], seconds: float
    ) -> httpx2.Response:
        shown = {**headers, "content-type": "application/json"}
        if self._authorization is not None:
            shown["authorization"] = self._authorization
        timeout = httpx2.Timeout(seconds, connect=10.0)
        request = self._client.build_request(method, url, content=body or None, headers=shown, timeout=timeout)
        self._show("sent", request_head(request) + body)
        response = await self._client.send(request, stream=True)
        self._show("received", response_head(response))
        return response

    def _refusal(self, status: int, content: bytes) -> PeerRefused | PeerUnavailable:
        code, text = _reason(content)
        if code == "busy":
            return PeerUnavailable(self.address, text)
        if text:
            # "unauthorized" stands for several refusals; the status says whether the credentials are unknown.
            return PeerRefused(self.address, text, status if status == 401 else code, broken=status >= 500)
        return PeerRefused(self.address, reason_in(content, status), status, broken=status >= 500)

    def _show(self, direction: Any, data: bytes) -> None:
        if self._on_wire is not None and data:
            self._on_wire(direction, data)


def _reason(content: bytes) -> tuple[str, str]:
    """The code and text of a FAILURE, TASK_REJECT or NOT_UNDERSTOOD."""
    try:
        value = msgspec.json.decode(content)
    except NOT_JSON:
        return "", ""
    payload = value.get("payload") if isinstance(value, dict) else None
    if not isinstance(payload, dict):
        return "", ""
    code = payload.get("error_code") or payload.get("reason_code") or ""
    return str(code), str(payload.get("error_text") or payload.get("reason_text") or code)


def endpoint_of(url: str) -> str:
    """The address of ``/acl``, without what follows, such as an agent."""
    parts = urlsplit(url)
    path = parts.path.rstrip("/")
    before, found, _ = f"{path}/".partition("/acl/")
    if path.endswith("/.well-known/acl"):
        before, found = path.removesuffix("/.well-known/acl"), "/acl/"
    return urlunsplit(parts._replace(path=(f"{before}/acl" if found else f"{path}/acl"), query="", fragment=""))


def agent_in(url: str) -> str | None:
    """The agent that an address names: ``jules`` of ``/acl/jules``."""
    _, found, rest = urlsplit(url).path.partition("/acl/")
    return rest.strip("/") or None if found else None
