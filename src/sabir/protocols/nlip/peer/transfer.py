"""Large data outside messages, on the client's side (CORE-6.4): uploads to the address in a control answer, and
downloads from addresses in replies. Nothing is held in memory as a whole; broken connections resume.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urljoin, urlsplit

import httpx2

from sabir.errors import PeerRefused, PeerUnavailable, PeerUnreadable
from sabir.http.error_body import reason_in
from sabir.message import Message
from sabir.numerals import whole_number
from sabir.protocols.peer import origin_of

BLOCK: Final = 256 * 1024
ATTEMPTS: Final = 5
_READ: Final = 60.0  # seconds without a byte


class Transfer:
    """Uploads and downloads of one peer, over its pooled client."""

    def __init__(self, client: httpx2.AsyncClient, url: str, address: str, authorization: str | None) -> None:
        self._client = client
        self._url = url
        self._address = address
        self._authorization = authorization

    # -- putting ----------------------------------------------------------------------------------

    def place_in(self, answer: Message) -> str:
        """The address that an answer offers, if we may use it.

        Raises:
            PeerRefused: none is offered, or it is on another host, or it drops TLS.
        """
        part = next((p for p in answer.parts if p.kind == "uri" and p.format == "structured"), None)
        if part is None:
            raise PeerRefused(self._address, f"it offers no place: {answer.text[:200]}")
        return self.allowed(str(part.content))

    def allowed(self, uri: str) -> str:
        """The same host, perhaps another port (HTTP-6.1.1), and never from TLS to plain HTTP."""
        place, home = urlsplit(urljoin(self._url, uri)), urlsplit(self._url)
        if place.hostname != home.hostname or place.scheme not in (home.scheme, "https"):
            raise PeerRefused(self._address, "the address is at another host, or leaves TLS; it is not followed")
        return place.geturl()

    async def put(self, place: str, source: bytes | Path, content_type: str, name: str) -> None:
        """Upload the whole source; a broken connection resumes where it stopped.

        Raises:
            PeerRefused: the upload is rejected.
            PeerUnavailable: the connection broke too often.
        """
        size, digest = await asyncio.to_thread(_measured, source)
        headers = {"content-type": content_type, "repr-digest": f"sha-256=:{base64.b64encode(digest).decode()}:"}
        if name:
            headers["content-disposition"] = f'attachment; filename="{_plain(name)}"'
        offset, method = 0, "PUT"
        for attempt in range(ATTEMPTS):
            sent = {**headers, **({"upload-offset": str(offset)} if method == "PATCH" else {})}
            try:
                response = await self._send(method, place, sent, source, offset, size)
            except httpx2.TransportError:
                await asyncio.sleep(0.2 * 2**attempt)
                reached = await self._offset(place)
                if reached == size:
                    return
                offset, method = reached, "PATCH" if reached else "PUT"
                continue
            if response.is_success:
                return
            raise PeerRefused(self._address, reason_in(response.content, response.status_code), response.status_code)
        raise PeerUnavailable(self._address, "the connection broke too often during the upload")

    async def _send(
        self, method: str, place: str, headers: Mapping[str, str], source: bytes | Path, offset: int, size: int
    ) -> httpx2.Response:
        return await self._client.request(
            method,
            place,
            content=_blocks(source, offset),
            headers={**headers, **self._credentials(place), "content-length": str(size - offset)},
            timeout=httpx2.Timeout(_READ),
        )

    async def _offset(self, place: str) -> int:
        try:
            answer = await self._client.head(place, headers=self._credentials(place), timeout=httpx2.Timeout(_READ))
        except httpx2.TransportError:
            return 0
        offset = whole_number(answer.headers.get("upload-offset", "0")) or 0
        return offset if answer.is_success else 0

    def _credentials(self, place: str) -> dict[str, str]:
        """Credentials are only sent to our peer's own origin."""
        if self._authorization is None or origin_of(place) != origin_of(self._url):
            return {}
        return {"authorization": self._authorization}

    # -- fetching ---------------------------------------------------------------------------------

    async def fetch(self, uri: str, to: Path, max_bytes: int) -> Path:
        """Download an address into a file.

        Raises:
            PeerRefused: access is denied, or the address is not the peer's.
            PeerUnreadable: it is larger than ``max_bytes``, or does not match its checksum.
            PeerUnavailable: the connection broke.
        """
        place = self.allowed(uri)
        digest = hashlib.sha256()
        try:
            async with self._client.stream(
                "GET", place, headers=self._credentials(place), timeout=httpx2.Timeout(_READ)
            ) as response:
                if not response.is_success:
                    body = await response.aread()
                    raise PeerRefused(self._address, reason_in(body, response.status_code), response.status_code)
                with await asyncio.to_thread(to.open, "wb") as file:
                    async for block in response.aiter_bytes(BLOCK):
                        digest.update(block)
                        await asyncio.to_thread(file.write, block)
                        if file.tell() > max_bytes:
                            raise PeerUnreadable(self._address, f"the file is larger than {max_bytes} bytes")
        except httpx2.RequestError as exc:
            raise PeerUnavailable(self._address, f"the connection broke ({type(exc).__name__})") from None
        answer = response.headers.get("repr-digest", "")
        if "sha-256=:" in answer and base64.b64encode(digest.digest()).decode() not in answer:
            raise PeerUnreadable(self._address, "the file that arrived does not match its checksum")
        return to


def _measured(source: bytes | Path) -> tuple[int, bytes]:
    digest = hashlib.sha256()
    if isinstance(source, bytes):
        digest.update(source)
        return len(source), digest.digest()
    size = 0
    with source.open("rb") as file:
        while block := file.read(1024 * 1024):
            digest.update(block)
            size += len(block)
    return size, digest.digest()


async def _blocks(source: bytes | Path, offset: int) -> AsyncIterator[bytes]:
    if isinstance(source, bytes):
        for place in range(offset, len(source), BLOCK):
            yield source[place : place + BLOCK]
        return
    with await asyncio.to_thread(source.open, "rb") as file:
        file.seek(offset)
        while block := await asyncio.to_thread(file.read, BLOCK):
            yield block


def _plain(name: str) -> str:
    return "".join(c if c.isascii() and c.isprintable() and c not in '"\\' else "_" for c in name)[:100]
