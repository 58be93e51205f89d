"""A pooled HTTP client for a service with language models.

A key comes from the configuration or the environment. It is sent to its service only, and never shown.
"""

from __future__ import annotations

import asyncio
import math
import os
import random
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from email.utils import parsedate_to_datetime
from typing import Any, Final

import httpx2
import msgspec

from sabir import _version
from sabir.errors import ConfigError, PeerRefused, PeerUnavailable, PeerUnreadable
from sabir.guard.egress.keep_alive import LiveTransport, kept_connections
from sabir.http.connect_errors import NOT_UNPACKED
from sabir.http.event_stream import stream_lines
from sabir.misfits import NOT_JSON
from sabir.protocols.peer import Clock, without_credentials

TRIES: Final = 3
ANSWER_BYTES: Final = 4 * 1024 * 1024
# Nothing was started, so a retry is safe.
_RETRIED: Final = frozenset({429, 502, 503, 529})


class ServiceProblem(msgspec.Struct):
    """The error of a service."""

    message: str = ""


class _ErrorBody(msgspec.Struct):
    error: ServiceProblem | str | None = None
    message: Any = None  # of services without ``error``
    detail: Any = None


class ModelService:
    """One service: its address, our key, and a pool of connections."""

    def __init__(
        self,
        base_url: str,
        key: str = "",
        *,
        key_name: str = "",
        key_header: str = "authorization",
        connections: int = 16,
    ) -> None:
        """
        Args:
            base_url: the address of the service.
            key: sent to the service only, and never shown.
            key_name: the name of the missing key in the error, if the service requires one.
            key_header: the header that carries the key; in ``authorization`` it is a bearer token.
            connections: how many may be open concurrently.

        Raises:
            ConfigError: the address is not an HTTP URL.
        """
        if not base_url.startswith(("http://", "https://")):
            raise ConfigError(f"base_url: expected a URL such as https://api.example.com/v1, not {base_url[:80]!r}")
        self.base_url = base_url.rstrip("/")
        self.place = without_credentials(self.base_url)
        self._key = key
        self._key_name = key_name
        self._key_header = key_header
        self._connections = connections
        self._made: httpx2.AsyncClient | None = None

    def __repr__(self) -> str:
        return f"<service {self.place}>"  # never the key

    @property
    def _client(self) -> httpx2.AsyncClient:
        if self._made is None:  # created on first use: a process that forks must not hold connections
            self._made = httpx2.AsyncClient(
                headers={"user-agent": f"sabir/{_version.__version__}", "accept-encoding": "identity"},
                follow_redirects=False,  # a redirect would send the key elsewhere
                trust_env=False,
                transport=LiveTransport(limits=kept_connections(self._connections), trust_env=False),
            )
        return self._made

    async def aclose(self) -> None:
        made, self._made = self._made, None
        if made is not None:
            await made.aclose()

    @asynccontextmanager
    async def asked(
        self, path: str, body: Any, clock: Clock, headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[httpx2.Response]:
        """Send a body and return the 2xx response, its own body unread. Retried while nothing was started.

        Raises:
            PeerError: no connection, no answer in time, or a refusal.
        """
        content = msgspec.json.encode(body)
        try:
            response = await self._answered(path, content, clock, headers or {})
            try:
                yield response
            finally:
                await response.aclose()
        except (TimeoutError, httpx2.TimeoutException):
            raise PeerUnavailable(self.place, "no answer in time") from None
        except httpx2.DecodingError:
            raise PeerUnreadable(self.place, NOT_UNPACKED) from None
        except (httpx2.TransportError, httpx2.StreamError) as exc:
            raise PeerUnavailable(self.place, f"no connection ({type(exc).__name__})") from None

    async def _answered(self, path: str, content: bytes, clock: Clock, headers: Mapping[str, str]) -> httpx2.Response:
        for attempt in range(1, TRIES + 1):
            try:
                response = await self._sent(path, content, clock, headers)
            except (httpx2.ConnectError, httpx2.ConnectTimeout):
                if attempt == TRIES:
                    raise
                await self._pause(attempt, None, clock)
                continue
            if response.is_success:
                return await self._not_a_page(response)
            refused, later = await self._refusal(response, clock), response.headers.get("retry-after")
            if response.status_code not in _RETRIED or attempt == TRIES or not _soon(later, clock):
                raise refused
            await self._pause(attempt, later, clock)
        raise PeerUnavailable(self.place, "no answer")  # unreachable: the last attempt returns or raises

    async def _not_a_page(self, response: httpx2.Response) -> httpx2.Response:
        """Raises:
        PeerUnreadable: a web page, as a proxy or a wrong address sends it.
        """
        if response.headers.get("content-type", "").startswith("text/html"):
            await response.aclose()
            raise PeerUnreadable(self.place, "it answered with a web page; check base_url")
        return response

    async def _sent(self, path: str, content: bytes, clock: Clock, more: Mapping[str, str]) -> httpx2.Response:
        headers = {"content-type": "application/json", **more}
        if self._key:
            is_bearer = self._key_header == "authorization"
            headers[self._key_header] = f"Bearer {self._key}" if is_bearer else self._key
        timeout = httpx2.Timeout(max(0.001, clock.left), connect=min(10.0, max(0.001, clock.left)))
        request = self._client.build_request(
            "POST", self.base_url + path, content=content, headers=headers, timeout=timeout
        )
        return await self._client.send(request, stream=True)

    async def _pause(self, attempt: int, later: str | None, clock: Clock) -> None:
        wanted = _seconds_in(later)
        wait = wanted if wanted is not None else 0.25 * 2**attempt * random.uniform(0.5, 1.0)
        await asyncio.sleep(min(wait, clock.left))

    async def _refusal(self, response: httpx2.Response, clock: Clock) -> PeerRefused:
        status = response.status_code
        if status in (401, 403) and not self._key and self._key_name:
            await response.aclose()
            return PeerRefused(self.place, f"it wants a key, and {self._key_name} is not set", status)
        try:
            words = _problem_in(await self.body(response, clock))
        except (*NOT_JSON, PeerUnreadable):
            words = ""
        finally:
            await response.aclose()
        if self._key:
            words = words.replace(self._key, "…")  # some services echo the key that they reject
        return PeerRefused(self.place, f"it refused ({status})" + (f": {words[:300]}" if words else ""), status)

    async def body(self, response: httpx2.Response, clock: Clock) -> bytes:
        """The whole body, within limits."""
        pieces, size = list[bytes](), 0
        async with asyncio.timeout(clock.left):
            async for piece in response.aiter_bytes():
                pieces.append(piece)
                size += len(piece)
                if size > ANSWER_BYTES:
                    raise PeerUnreadable(self.place, f"its answer is larger than {ANSWER_BYTES} bytes")
        return b"".join(pieces)


def _problem_in(body: bytes) -> str:
    """The text of an error: services send an object, a text, or a list of one object."""
    answer = msgspec.json.decode(body, type=_ErrorBody | list[_ErrorBody])
    first = answer if isinstance(answer, _ErrorBody) else next(iter(answer), _ErrorBody())
    error = first.error.message if isinstance(first.error, ServiceProblem) else first.error
    others = (words for words in (first.message, first.detail) if isinstance(words, str))
    return error or next(others, "")


async def lines_of(response: httpx2.Response, clock: Clock, service: ModelService) -> AsyncGenerator[str, None]:
    """The lines of a stream, within its time and size limits."""
    lines = stream_lines(response, service.place, ANSWER_BYTES)
    size = 0
    while True:
        async with asyncio.timeout(clock.left):
            line = await anext(lines, None)
        if line is None:
            return
        size += len(line)
        if size > ANSWER_BYTES:
            raise PeerUnreadable(service.place, f"its answer is larger than {ANSWER_BYTES} bytes")
        if line:
            yield line


async def events_of(response: httpx2.Response, clock: Clock, service: ModelService) -> AsyncGenerator[bytes, None]:
    """The data of a stream's events until ``[DONE]``; each is one line, as all services send it. A service that does
    not stream sends one JSON document."""
    if response.headers.get("content-type", "").startswith("application/json"):
        yield await service.body(response, clock)
        return
    async for line in lines_of(response, clock, service):
        if line.startswith("data:"):
            data = line[5:].strip()
            if data == "[DONE]":
                return
            yield data.encode()


def _soon(later: str | None, clock: Clock) -> bool:
    """Whether there is time to retry when the service asks for it."""
    wanted = _seconds_in(later)
    return wanted is None or wanted < min(10.0, clock.left)


def _seconds_in(later: str | None) -> float | None:
    """The seconds in ``Retry-After``, as a number or as a date; None without it."""
    if later is None:
        return None
    try:
        seconds = float(later)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(later).timestamp() - time.time()
        except ValueError:
            return None
    return max(0.0, seconds) if math.isfinite(seconds) else None


def secret(written: str | None, variable: str | None = None) -> str:
    """The configured key: the value itself, ``env:NAME``, or the variable that holds it.

    Raises:
        ConfigError: a named variable is not set.
    """
    name = written[4:] if written and written.startswith("env:") else variable if not written else None
    if name is None:
        return written or ""
    found = os.environ.get(name, "")
    if not found:
        raise ConfigError(f"the environment variable {name} is not set")
    return found
