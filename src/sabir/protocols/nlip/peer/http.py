"""A remote NLIP endpoint over HTTP (ECMA-431).

One pooled client per peer. A redirect is followed only within the same origin, so no token goes elsewhere and TLS is
never downgraded (D-20). Error bodies of any kind are tolerated (D-22). A message is repeated only if that is safe: it
was never sent, the server said that it did not accept it, or the server honours its ``Idempotency-Key``.
"""

from __future__ import annotations

import asyncio
import functools
import random
import ssl
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Unpack
from urllib.parse import urljoin, urlsplit, urlunsplit
from uuid import uuid4

import httpx2

from sabir.aio import Closing
from sabir.errors import BadInput, ConfigError, PeerError, PeerRefused, PeerUnavailable, PeerUnreadable
from sabir.events import Event, Reply
from sabir.http.client import http_client
from sabir.http.connect_errors import NOT_UNPACKED, why_no_connection
from sabir.http.error_body import is_nlip, reason_in
from sabir.http.event_stream import read_events
from sabir.http.wire_log import request_head, response_head
from sabir.ids import new_id
from sabir.limits import Limits
from sabir.message import Message, Part, json_part, uri_part
from sabir.numerals import whole_number
from sabir.protocols.nlip.wire import json as nlip
from sabir.protocols.peer import Call, Clock, PeerOptions, choose, origin_of, without_credentials
from sabir.turn import OpensUploads, Turn

from .base import NlipOptionNames, NlipPeer
from .enveloped import enveloped, from_envelope, plain_error, shown_answer
from .transfer import Transfer

# A peer's answer may be larger than input from unknown callers.
REPLY_LIMITS: Final = Limits(body=64 * 1024 * 1024, values=10_000_000, tokens=64, submessages=4096)
MAX_REDIRECTS: Final = 3
_MAX_CARRIED: Final = 4 * 1024**3  # bytes of one forwarded download
_JSON: Final = "application/json"
_SSE: Final = "text/event-stream"
# With these the server says that it did not accept the message.
_NOT_TAKEN: Final = frozenset({429, 503})


class NlipHttpPeer(NlipPeer):
    """``async with NlipHttpPeer("https://example.com/nlip") as peer: await peer.ask("hello")``."""

    def __init__(
        self,
        url: str,
        options: PeerOptions | None = None,
        *,
        retries: int = 2,
        repeatable: bool | None = None,
        certificate: tuple[str, str] | None = None,
        respond_async: bool = False,
        limits: Limits = REPLY_LIMITS,
        **named: Unpack[NlipOptionNames],
    ) -> None:
        """Args besides those of every NLIP peer:

        repeatable: the server returns the recorded answer for a repeated key; None: assumed once it has shown that.
        certificate: paths of our own certificate and key, for mutual TLS.
        respond_async: let the server work in the background and poll for the answer; for work that outlives a
        connection.
        """
        super().__init__(_endpoint(url), options, **named)
        options = self.options
        self.identities = options.identities
        self.retries = retries
        self.repeatable = repeatable
        self._authorization = choose(options.identities, _short_origin(self.url), None)
        self._certified = certificate is not None or any("cookie" in name.lower() for name in options.headers or ())
        self._respond_async = respond_async
        self._limits = limits
        self._on_wire = options.on_wire
        self._client = http_client(options, verify=_context(options.verify, certificate, self.url))

    async def aclose(self) -> None:
        await self._client.aclose()

    @property
    def shows_itself(self) -> bool:
        return self._certified

    # -- beside the messages ----------------------------------------------------------------------

    async def upload(
        self,
        source: bytes | Path,
        content_type: str = "application/octet-stream",
        name: str = "",
        *,
        conversation: str = "",
    ) -> Part:
        """Upload something large for the agent; returns the part to send with the next message.

        Raises:
            PeerRefused: no upload is offered, or it is rejected.
            PeerUnavailable: no connection, or it broke too often.
        """
        answer = await self.control(
            "I have a large file; where can I upload it?", json_part({}, label="upload"), conversation=conversation
        )
        transfer = self._transfer(conversation)
        place = transfer.place_in(answer)
        await transfer.put(place, source, content_type, name)
        return uri_part(place, label=name or None)

    async def fetch(
        self, reference: Part | str, to: Path, *, max_bytes: int = 4 * 1024**3, conversation: str = ""
    ) -> Path:
        """Download what a reply refers to into a file. Raises as ``ask`` does."""
        uri = reference if isinstance(reference, str) else str(reference.content)
        return await self._transfer(conversation).fetch(uri, to, max_bytes)

    async def __call__(self, turn: Turn, /) -> AsyncIterator[Event]:
        """As every peer; and transfers uploads in both directions, because neither side can reach the other's
        addresses."""
        if turn.attachments is None:
            async with Closing(super().__call__(turn)) as events:
                async for event in events:
                    yield event
            return
        try:
            turn.message = await self._carried(turn, turn.attachments)
            async with Closing(super().__call__(turn)) as events:
                async for event in events:
                    yield (
                        Reply(await self._brought(event.message, turn, turn.attachments))
                        if isinstance(event, Reply)
                        else event
                    )
        except PeerError as exc:
            raise self._without_address(exc) from None

    async def _carried(self, turn: Turn, uploads: OpensUploads) -> Message:
        """The message with our callers' uploads transferred to the next hop."""
        message: Message = turn.message
        if not uploads.refers(message):
            return message
        parts = []
        for part in message.parts:
            if uploads.is_ours(part):
                held = await uploads.open(part)
                name = held.name or (part.label or "")
                part = await self.upload(held.path, held.subformat, name, conversation=turn.conversation.id)
            parts.append(part)
        return Message.of(*parts, messagetype=message.messagetype)

    async def _brought(self, reply: Message, turn: Turn, uploads: OpensUploads) -> Message:
        """The reply with the next hop's downloads fetched and offered here."""
        given = [part for part in reply.parts if part.label == "download" and part.kind == "uri"]
        if not given:
            return reply
        parts = []
        transfer = self._transfer(turn.conversation.id)
        for part in reply.parts:
            if part in given:
                with TemporaryDirectory(prefix="sabir-") as folder:
                    file = await transfer.fetch(str(part.content), Path(folder) / "given", _MAX_CARRIED)
                    part = await uploads.give(file)
            parts.append(part)
        return Message.of(*parts, messagetype=reply.messagetype)

    def _transfer(self, conversation: str) -> Transfer:
        shown = None if conversation in self._anonymous else self._authorization
        return Transfer(self._client, self.url, self.address, shown)

    # -- one message ------------------------------------------------------------------------------

    async def exchange(self, message: Message, call: Call) -> AsyncGenerator[Message, None]:
        body = enveloped(message, new_id()) if self.envelope else nlip.encode(message)
        out = OutgoingRequest(body, self._headers(call), Clock(call.seconds), call.anonymous)
        async with self._response(out) as response:
            if response.status_code == 202 and "location" in response.headers:
                yield self._shown(await self._poll(response, out, call), message)
            elif _kind(response) == _SSE:
                async with aclosing(self._events(response, out.clock)) as events:
                    async for event in events:
                        yield self._shown(event, message)
            else:
                async with asyncio.timeout(out.clock.left):
                    body = await self._body(response)
                yield self._shown(self._message(body, response), message)

    @asynccontextmanager
    async def _response(self, out: OutgoingRequest) -> AsyncIterator[httpx2.Response]:
        """The 2xx response to the message, after redirects, login and retries."""
        attempt = 0
        while True:
            try:
                response = await self._follow(out)
            except (_NoConnection, PeerUnavailable) as gone:
                attempt += 1
                again = isinstance(gone, _NoConnection) or self.repeatable is True
                if again and attempt <= self.retries and await _pause(attempt, None, out.clock):
                    continue
                if isinstance(gone, PeerUnavailable):
                    raise
                raise PeerUnavailable(self.address, gone.reason) from None
            try:
                if response.status_code in _NOT_TAKEN and attempt < self.retries:
                    attempt += 1
                    if await _pause(attempt, response.headers.get("retry-after"), out.clock):
                        continue
                if not response.is_success:
                    raise await self._refusal(response)
                if "idempotency-key" in response.headers and self.repeatable is None:
                    self.repeatable = True
                yield response
                return
            except (TimeoutError, httpx2.TimeoutException):
                raise PeerUnavailable(self.address, "it did not finish its answer in time") from None
            except httpx2.DecodingError:
                raise PeerUnreadable(self.address, NOT_UNPACKED) from None
            except (httpx2.TransportError, httpx2.StreamError) as exc:
                raise PeerUnavailable(self.address, f"the connection broke ({type(exc).__name__})") from None
            finally:
                await response.aclose()

    async def _follow(self, out: OutgoingRequest) -> httpx2.Response:
        """Post, following what may be followed: same-origin redirects, the other slash form, one login."""
        url, tried_slash, tried_login, redirects = self.url, False, False, 0
        while True:
            response = await self._request("POST", url, out)
            status = response.status_code
            if status in (307, 308):
                url = await self._redirect(response, url)
                redirects += 1
                if redirects > MAX_REDIRECTS:
                    raise PeerRefused(self.address, "it redirects in circles", status)
            elif status == 404 and not tried_slash:
                tried_slash = True
                await self._drop(response)
                url = _other_form(url)
            elif status == 401 and not tried_login and not out.anonymous:
                tried_login = True
                wanted = choose(self.identities, _short_origin(url), response.headers.get("www-authenticate", ""))
                if wanted is None or wanted == self._authorization:
                    return response
                await self._drop(response)
                self._authorization = wanted
            else:
                if response.is_success:
                    self.url = url
                return response

    async def _poll(self, accepted: httpx2.Response, out: OutgoingRequest, call: Call) -> Message:
        """Poll the URL of a 202 until the answer is there (D-26)."""
        await self._drop(accepted)
        place = urljoin(self.url, accepted.headers["location"])
        if origin_of(place) != origin_of(self.url):
            raise PeerRefused(self.address, "it keeps the answer at another origin, where tokens must not go", 202)
        while True:
            wait = max(1, min(30, int(out.clock.left)))
            headers = {**call.headers, "accept": _JSON, "prefer": f"wait={wait}"}  # the caller's own headers
            looking = OutgoingRequest(b"", headers, out.clock, out.anonymous)
            response = await self._request("GET", place, looking)
            try:
                if not response.is_success:
                    raise await self._refusal(response)
                if response.status_code != 202:
                    return self._message(await self._body(response), response)
                if not await _pause(1, response.headers.get("retry-after"), out.clock):
                    raise PeerUnavailable(self.address, f"no answer in time; it will be at {place}")
            finally:
                await response.aclose()

    async def look(self, url: str, seconds: float) -> int:
        """The status of a GET, the body unread.

        Raises:
            PeerUnavailable: no connection, or no answer in time.
        """
        looking = OutgoingRequest(b"", {"accept": "*/*"}, Clock(seconds), anonymous=True)
        try:
            response = await self._request("GET", url, looking)
        except _NoConnection as gone:
            raise PeerUnavailable(self.address, gone.reason) from None
        await response.aclose()
        return response.status_code

    async def _redirect(self, response: httpx2.Response, url: str) -> str:
        target = urljoin(url, response.headers.get("location", ""))
        await self._drop(response)
        if origin_of(target) != origin_of(url):
            raise PeerRefused(
                self.address,
                f"it redirects to another origin, {without_credentials(target)[:200]}, where tokens must not go",
                response.status_code,
            )
        return target

    async def _request(self, method: str, url: str, out: OutgoingRequest) -> httpx2.Response:
        headers, clock = out.headers, out.clock
        if self._authorization is not None and not out.anonymous:
            headers = {"authorization": self._authorization, **headers}  # credentials of this caller take precedence
        request = self._client.build_request(
            method,
            url,
            content=out.body,
            headers=headers,
            timeout=httpx2.Timeout(clock.left, connect=min(clock.left, 10.0)),
        )
        self._show_request(request, out.body)
        try:
            async with asyncio.timeout(clock.left):
                response = await self._client.send(request, stream=True)
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as exc:
            slow = isinstance(exc, httpx2.TimeoutException)
            raise _NoConnection(why_no_connection(exc, f"no connection{' in time' if slow else ''}")) from None
        except (TimeoutError, httpx2.TimeoutException):
            raise PeerUnavailable(self.address, "no answer in time") from None
        except httpx2.TransportError as exc:
            raise PeerUnavailable(self.address, f"the connection broke ({type(exc).__name__})") from None
        self._show_response(response)
        return response

    def _headers(self, call: Call) -> dict[str, str]:
        headers = {
            "content-type": _JSON,
            "accept": f"{_SSE}, {_JSON}" if call.pieces else _JSON,
            "idempotency-key": call.key or uuid4().hex,
        }
        if self._respond_async:
            headers["prefer"] = "respond-async"
        if call.trace is not None:
            headers["traceparent"] = call.trace
        if call.hops:
            headers["x-sabir-hops"] = str(call.hops)
        headers.update(call.headers)
        return headers

    # -- reading ----------------------------------------------------------------------------------

    async def _body(self, response: httpx2.Response) -> bytes:
        pieces: list[bytes] = []
        size = 0
        async for piece in response.aiter_bytes():
            self._show("received", piece)
            pieces.append(piece)
            size += len(piece)
            if size > self._limits.body:
                raise PeerUnreadable(self.address, f"its answer is larger than {self._limits.body} bytes")
        return b"".join(pieces)

    def _shown(self, reply: Message, asked: Message) -> Message:
        return shown_answer(reply, asked) if self.envelope else reply

    def _message(self, body: bytes, response: httpx2.Response) -> Message:
        try:
            if self.envelope and (found := from_envelope(body, self._limits)) is not None:
                return found
            return nlip.decode(body, limits=self._limits)
        except BadInput as exc:
            kind = _kind(response) or "without a type"
            raise PeerUnreadable(self.address, f"its answer ({kind}) is not an NLIP message: {exc}") from None

    async def _events(self, response: httpx2.Response, clock: Clock) -> AsyncGenerator[Message, None]:
        """The messages of an event stream."""
        events = read_events(
            response,
            self.address,
            self._limits.body,
            left=lambda: clock.left,
            on_line=lambda line: self._show("received", line),
        )
        async with aclosing(events):
            async for event in events:
                yield self._message(event.data.encode(), response)

    async def _refusal(self, response: httpx2.Response) -> PeerError:
        try:
            body = await self._body(response)
        except (PeerUnreadable, httpx2.HTTPError):
            body = b""
        status = response.status_code
        if self.envelope:
            body = plain_error(body, self._limits)
        return PeerRefused(self.address, reason_in(body, status), status, broken=_is_broken(status, body))

    async def _drop(self, response: httpx2.Response) -> None:
        """Read a short body to its end, so that the connection can be reused."""
        try:
            await self._body(response)
        except (httpx2.HTTPError, PeerUnreadable):
            pass
        finally:
            await response.aclose()

    # -- the wire, for those who look -------------------------------------------------------------

    def _show(self, direction: str, data: bytes) -> None:
        if self._on_wire is not None and data:
            self._on_wire("sent" if direction == "sent" else "received", data)

    def _show_request(self, request: httpx2.Request, body: bytes) -> None:
        if self._on_wire is not None:
            self._on_wire("sent", request_head(request) + body)

    def _show_response(self, response: httpx2.Response) -> None:
        if self._on_wire is not None:
            self._on_wire("received", response_head(response))


@dataclass(frozen=True, slots=True)
class OutgoingRequest:
    """One message, ready to be posted."""

    body: bytes
    headers: dict[str, str]
    clock: Clock
    anonymous: bool


class _NoConnection(Exception):
    """No connection was made, so the message cannot have arrived."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def _kind(response: httpx2.Response) -> str:
    return str(response.headers.get("content-type", "")).partition(";")[0].strip().lower()


def _is_broken(status: int, body: bytes) -> bool:
    """Whether a refusal is about the server and not about this message: it says so, or it does not come from an
    agent."""
    return status == 503 or (status >= 500 and not is_nlip(body))


async def _pause(attempt: int, retry_after: str | None, clock: Clock) -> bool:
    """Wait before retrying; False if the remaining time is too short."""
    backoff = 0.1 * 2**attempt * (0.5 + random.random() / 2)
    wanted = whole_number(retry_after.strip()) if retry_after is not None else None
    seconds = backoff if wanted is None else float(wanted)
    if seconds >= clock.left:
        return False
    await asyncio.sleep(seconds)
    return True


def _endpoint(url: str) -> str:
    """The URL that messages are posted to; a bare origin means its ``/nlip`` (HTTP-6.1)."""
    parts = urlsplit(url)
    if parts.scheme.lower() not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"{without_credentials(url)!r} is not an http or https address")
    if "@" in parts.netloc:
        raise ConfigError("credentials do not belong in a URL; pass them as identities")
    return urlunsplit(parts._replace(path="/nlip" if parts.path in ("", "/") else parts.path, fragment=""))


def _other_form(url: str) -> str:
    """``/nlip`` for ``/nlip/`` and back (D-20)."""
    parts = urlsplit(url)
    path = parts.path.rstrip("/") if parts.path.endswith("/") else f"{parts.path}/"
    return urlunsplit(parts._replace(path=path))


def _short_origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme.lower()}://{parts.netloc.lower()}"


def _context(verify: ssl.SSLContext | None, certificate: tuple[str, str] | None, url: str) -> ssl.SSLContext | bool:
    if verify is not None:
        return verify
    if certificate is not None:
        context = ssl.create_default_context()
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.load_cert_chain(*certificate)
        return context
    return _system_trust() if url.startswith("https") else _no_tls()


@functools.cache
def _system_trust() -> ssl.SSLContext:
    """Made once: loading the system's certificates takes tens of milliseconds. TLS 1.3 only (D-53)."""
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    return context


@functools.cache
def _no_tls() -> ssl.SSLContext:
    """A context that trusts nobody, for peers without TLS; cheap to create."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
