"""A server under test over HTTP: what is sent, what comes back, and both kept as evidence."""

from __future__ import annotations

import json
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

import httpx2
import msgspec

from ..errors import BadInput, PeerUnavailable
from ..message import Message
from ..wire import nlip
from .base import Declined, Failed, Wire, demand

MOST_READ: Final = 4 * 1024 * 1024  # bytes of an answer
BY_POLICY: Final = {401: "it asks who you are", 403: "it says no right to this"}


class Response:
    """What a server answered."""

    def __init__(self, status: int, headers: httpx2.Headers, body: bytes) -> None:
        self.status, self.headers, self.body = status, headers, body

    def message(self) -> Message:
        """The NLIP message it is.

        Raises:
            Failed: it is none.
        """
        try:
            return nlip.decode(self.body)
        except BadInput as wrong:
            raise Failed(f"the answer is not an NLIP message ({wrong})") from None

    def plain(self) -> dict[str, Any]:
        """The answer as JSON has it.

        Raises:
            Failed: it is no JSON object.
        """
        try:
            return msgspec.json.decode(self.body, type=dict[str, Any])
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise Failed("the answer is not a JSON object") from None


class HttpTarget:
    """One server, by its NLIP address."""

    def __init__(self, client: httpx2.AsyncClient, url: str, wire: Wire) -> None:
        self._client = client
        self.url = url
        self._wire = wire

    async def send(self, method: str, url: str, body: bytes, headers: dict[str, str]) -> Response:
        """One request; sent again after a while where the server asks to slow down.

        Raises:
            Declined: 429 for too long.
        """
        while (response := await self._once(method, url, body, headers)).status == 429:
            await self._wire.slow_down(response.headers.get("retry-after"))
        return response

    async def _once(self, method: str, url: str, body: bytes, headers: dict[str, str]) -> Response:
        sent = _request(method, url, headers, body)
        try:
            async with self._client.stream(method, url, content=body, headers=headers) as response:
                received = await _bounded(response)
        except httpx2.TransportError as wrong:
            self._wire.keep(sent, f"no answer: {wrong}".encode())
            raise PeerUnavailable(url, str(wrong) or type(wrong).__name__) from None
        except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as wrong:
            self._wire.keep(sent, str(wrong).encode())
            raise Failed(f"{url!r:.200} cannot be asked: {wrong}") from None
        head = f"HTTP {response.status_code}\n" + "".join(f"{k}: {v}\n" for k, v in response.headers.items())
        self._wire.keep(sent, head.encode() + b"\n" + received)
        return Response(response.status_code, response.headers, received)

    async def post(self, body: bytes | dict[str, Any] | list[Any], **headers: str) -> Response:
        """Post a body to the end-point; a policy's refusal ends the check.

        Raises:
            Declined: 401, 403, or 429 for too long.
        """
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        response = await self.send("POST", self.url, data, {"content-type": "application/json", **named})
        if response.status in BY_POLICY:
            raise Declined(f"HTTP {response.status}: {BY_POLICY[response.status]}")
        return response

    async def ask(self, body: dict[str, Any], what: str = "it") -> Message:
        """Post a message that must be answered, and return the answer.

        Raises:
            Failed: it is refused, or the answer is no NLIP message.
        """
        response = await self.post(body)
        demand(response.status < 300, f"{what} is refused with HTTP {response.status}")
        return response.message()


async def _bounded(response: httpx2.Response) -> bytes:
    """The body, as far as anybody would read it: the server under test may be out of its mind."""
    pieces, size = [], 0
    async for piece in response.aiter_bytes():
        pieces.append(piece)
        size += len(piece)
        demand(size <= MOST_READ, f"the answer is longer than {MOST_READ} bytes")
    return b"".join(pieces)


def _request(method: str, url: str, headers: dict[str, str], body: bytes) -> bytes:
    lines = "".join(f"{name}: {value}\n" for name, value in headers.items())
    return f"{method} {urlsplit(url).path or '/'}\n{lines}\n".encode() + body


def joined(base: str, place: str) -> str:
    """The full address of a place that a server names.

    Raises:
        Failed: it is no address.
    """
    try:
        full = urljoin(base, place)
        urlsplit(full)
    except ValueError:
        raise Failed(f"{place!r:.200} is no address") from None
    return full


async def end_point(client: httpx2.AsyncClient, url: str) -> tuple[str, str]:
    """Where messages go, and a note if that is not where one would look first.

    Raises:
        PeerUnavailable: nobody answers there.
    """
    parts = urlsplit(url)
    base = url if parts.path not in ("", "/") else urljoin(url, "/nlip")
    target = HttpTarget(client, base, Wire())
    try:
        return await _looked(target, base)
    except (Failed, Declined):  # what is wrong with it, the checks will tell
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


HELLO: Final = {"format": "text", "subformat": "english", "content": "Hello"}


def text(content: str = "Hello", *parts: dict[str, Any], **more: Any) -> dict[str, Any]:
    message: dict[str, Any] = {**HELLO, "content": content, **more}
    return {**message, "submessages": list(parts)} if parts else message


def token(subformat: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"format": "token", "subformat": subformat, "content": content, **more}


def has_token(reply: Message, sent: dict[str, Any]) -> bool:
    return any(
        part.subformat == sent["subformat"]
        and part.content == sent["content"]
        and ("label" not in sent or part.label == sent["label"])
        for part in reply.tokens
    )
