"""A server under test over HTTP: what is sent and received, recorded as evidence."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

import httpx2

from sabir.errors import PeerUnavailable
from sabir.http.connect_errors import why_no_connection

from .answer import CheckedAnswer, from_json
from .base import CheckFailed, Declined, Exchanged, Wire, demand
from .core import Samples
from .messages import HELLO

PATIENCE: Final = 10.0  # how long a deferred answer may take
MAX_READ: Final = 4 * 1024 * 1024  # bytes of an answer
BY_POLICY: Final = {401: "authentication required", 403: "these credentials have no access"}


class Response:
    """A server's response."""

    def __init__(self, status: int, headers: httpx2.Headers, body: bytes, version: str = "HTTP/1.1") -> None:
        self.status, self.headers, self.body, self.version = status, headers, body, version

    @property
    def kind(self) -> str:
        """The media type, without parameters."""
        return str(self.headers.get("content-type", "")).partition(";")[0].strip().lower()

    @property
    def charset(self) -> str:
        """The charset in the content type, if there is one."""
        for parameter in str(self.headers.get("content-type", "")).split(";")[1:]:
            name, _, value = parameter.partition("=")
            if name.strip().lower() == "charset":
                return value.strip().strip('"').lower()
        return ""

    def applied(self) -> set[str]:
        """The preferences that it reports as applied (RFC 7240 3), without the quotes of their values."""
        said = ",".join(self.headers.get_list("preference-applied"))
        return {item.strip().lower().replace('"', "") for item in said.split(",") if item.strip()}

    def answer(self) -> CheckedAnswer:
        """The NLIP message in the body; for a refusal, if there is one.

        Raises:
            Failed: the status is a success, but the body is not a JSON object.
        """
        refusal = f"HTTP {self.status}" if self.status >= 300 else ""
        broken = self.status >= 500
        try:
            return from_json(self.body, refusal=refusal, broken=broken)
        except CheckFailed:
            if not refusal:
                raise
            return CheckedAnswer(None, refusal=refusal, broken=broken)


class HttpTarget:
    """One server, by its NLIP address."""

    def __init__(
        self,
        client: httpx2.AsyncClient,
        url: str,
        wire: Wire,
        samples: Samples | None = None,
        patience: float = PATIENCE,
    ) -> None:
        self._client = client
        self.url = url
        self._wire = wire
        self.samples = samples if samples is not None else Samples()
        self.patience = patience

    def evidence(self) -> list[Exchanged]:
        return self._wire.log

    async def exchange(self, message: Any) -> CheckedAnswer:
        return (await self.post(message)).answer()

    async def send(self, method: str, url: str, body: bytes, headers: dict[str, str]) -> Response:
        """One request; repeated after a while if the server asks to slow down.

        Raises:
            Declined: 429 for too long.
        """
        while (response := await self._once(method, url, body, headers)).status == 429:
            await self._wire.slow_down(response.headers.get("retry-after"))
        return response

    async def _once(self, method: str, url: str, body: bytes, headers: dict[str, str]) -> Response:
        sent = _request(method, url, headers, body)
        content = _halves(body) if "transfer-encoding" in headers else body
        try:
            async with self._client.stream(method, url, content=content, headers=headers) as response:
                received = await _bounded(response)
        except httpx2.TransportError as exc:
            self._wire.keep(sent, f"no answer: {exc}".encode())
            raise PeerUnavailable(url, why_no_connection(exc, str(exc) or type(exc).__name__)) from None
        except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as exc:
            self._wire.keep(sent, str(exc).encode())
            raise CheckFailed(f"{url!r:.200} cannot be requested: {exc}") from None
        head = f"HTTP {response.status_code}\n" + "".join(f"{k}: {v}\n" for k, v in response.headers.items())
        self._wire.keep(sent, head.encode() + b"\n" + received)
        return Response(response.status_code, response.headers, received, response.http_version)

    async def post(self, body: Any, **headers: str) -> Response:
        """Post a body to the endpoint; a refusal by policy ends the check.

        Raises:
            Declined: 401, 403, or 429 for too long.
        """
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        response = await self.send("POST", self.url, data, {"content-type": "application/json", **named})
        if response.status in BY_POLICY:
            raise Declined(f"HTTP {response.status}: {BY_POLICY[response.status]}")
        return response


async def _halves(body: bytes) -> AsyncIterator[bytes]:
    """The body in two chunks."""
    middle = len(body) // 2
    yield body[:middle]
    yield body[middle:]


async def _bounded(response: httpx2.Response) -> bytes:
    """The body, up to a limit: the server under test may send without end."""
    pieces, size = [], 0
    async for piece in response.aiter_bytes():
        pieces.append(piece)
        size += len(piece)
        demand(size <= MAX_READ, f"the answer is longer than {MAX_READ} bytes")
    return b"".join(pieces)


def _request(method: str, url: str, headers: dict[str, str], body: bytes) -> bytes:
    lines = "".join(f"{name}: {value}\n" for name, value in headers.items())
    return f"{method} {urlsplit(url).path or '/'}\n{lines}\n".encode() + body


def joined(base: str, place: str) -> str:
    """The absolute URL of an address from a server.

    Raises:
        Failed: it is not a valid address.
    """
    try:
        full = urljoin(base, place)
        urlsplit(full)
    except ValueError:
        raise CheckFailed(f"{place!r:.200} is not a valid address") from None
    return full


async def end_point(client: httpx2.AsyncClient, url: str) -> tuple[str, str]:
    """Where messages go, and a note if that is not the default path.

    Raises:
        PeerUnavailable: no answer.
    """
    parts = urlsplit(url)
    base = url if parts.path not in ("", "/") else urljoin(url, "/nlip")
    target = HttpTarget(client, base, Wire())
    try:
        return await _looked(target, base)
    except (CheckFailed, Declined):  # the checks report what is wrong
        return base, ""


async def _looked(target: HttpTarget, base: str) -> tuple[str, str]:
    response = await target.send("POST", base, json.dumps(HELLO).encode(), {"content-type": "application/json"})
    if response.status in (307, 308) and "location" in response.headers:
        moved = joined(base, response.headers["location"])
        if urlsplit(moved).netloc == urlsplit(base).netloc:
            return moved, f"{urlsplit(base).path} is redirected to {urlsplit(moved).path}; the checks use that"
    if response.status in (404, 405) and not base.endswith("/"):
        again = await target.send("POST", base + "/", json.dumps(HELLO).encode(), {"content-type": "application/json"})
        if again.status < 400:
            return base + "/", f"{urlsplit(base).path} is not there; the checks use {urlsplit(base).path}/"
    return base, ""
