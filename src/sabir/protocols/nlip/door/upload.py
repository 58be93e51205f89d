"""Uploads over HTTP: where the concierge sends callers with large data (CORE-6.4, D-25).

``/nlip/upload/{place}`` with a sealed place; ``POST /nlip/upload/`` creates one in a new conversation:

- ``POST`` or ``PUT``: the whole content, as ``multipart/form-data`` (field ``contents`` or ``file``) or raw.
- ``HEAD``: ``Upload-Offset`` says how much has arrived; ``Upload-Length`` how much was announced.
- ``PATCH`` with ``Upload-Offset: N``, or ``PUT`` with ``Content-Range: bytes N-M/T``: resume from there, raw.
- ``GET``: the content, with ``Range``; for replies that are too large for a message.
- ``DELETE``: discard the upload.

It uses the gateway's own port, or a separate one (``doors: {upload: {port: 8081}}``, HTTP-6.1.1), to keep bulk traffic
apart from messages.

``Repr-Digest: sha-256=:…:`` (RFC 9530) is checked against the content. Bodies are streamed to disk; if a connection
breaks, what has arrived is kept. Multipart cannot be resumed. Every answer with a body except a download is NLIP.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import os
import re
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from email.message import Message as Headers
from typing import Annotated, Final
from urllib.parse import urlsplit
from uuid import uuid4

import msgspec
import uvicorn
from python_multipart.multipart import MultipartParser
from starlette.applications import Starlette
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.types import Message as Packet

from sabir.aio import cancel_and_wait
from sabir.errors import (
    BadMessage,
    BadMethod,
    ConfigError,
    Conflict,
    NotFound,
    SabirError,
    StoreUnavailable,
    Unreadable,
)
from sabir.exchange.conversations import Tokens
from sabir.guard.quotas.rates import is_loopback
from sabir.http.admission import NO_AGENT, Admission
from sabir.http.door import Door, MakeServer, typed
from sabir.http.request import check_content_encoding, credentials_of, headers_of
from sabir.http.response import refusal_headers, send_json
from sabir.message import MEDIA, Message, Part, json_part, media_of, printable, uri_part
from sabir.numerals import whole_number
from sabir.protocols.nlip.door.context import UploadContext
from sabir.protocols.nlip.wire import json as nlip
from sabir.turn import Caller
from sabir.uploads import BLOCK, PATH, Upload, Uploads, Writing, open_kept

DOOR: Final = "upload"
SWEEP_SECONDS: Final = 60.0
IDLE_SECONDS: Final = 60.0
FIELDS: Final = frozenset({"contents", "file"})
METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
_RANGE: Final = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18}|\*)")
_WANTED: Final = re.compile(r"bytes=(\d{1,18})-(\d{0,18})")


class UploadDoor(Door):
    """The door. The data is in ``sabir.uploads``."""

    name = DOOR

    def __init__(self, services: UploadContext) -> None:
        self.services = services
        self.uploads: Uploads = services.uploads
        self.listener = listener_of(services.settings.get(DOOR), behind_proxy=services.behind_proxy)
        self._sweeping: asyncio.Task[None] | None = None
        self._own: Listening | None = None

    def routes(self) -> Sequence[BaseRoute]:
        return self._routes() if self.listener is None else []

    def _routes(self) -> list[BaseRoute]:
        app = _UploadApp(self)
        return [Route(path, app, methods=None) for path in (PATH.rstrip("/"), PATH, PATH + "{place}")]

    async def start(self) -> None:
        self.uploads.public_url = self.services.public_url
        if self.listener is not None:
            names = [name] if (name := urlsplit(self.listener.public_url).hostname) else []
            app = self.services.with_checks(Starlette(routes=self._routes()), self.listener.host, names)
            self._own = Listening(app, self.listener, self.services.make_server)
            self.uploads.public_url = await self._own.start()
        self._sweeping = asyncio.create_task(self._sweep())

    async def stop(self) -> None:
        if self._own is not None:
            await self._own.stop()
        await cancel_and_wait([self._sweeping])

    async def _sweep(self) -> None:
        while True:
            with suppress(StoreUnavailable, OSError):
                await self.uploads.sweep()
            await asyncio.sleep(SWEEP_SECONDS)

    # -- one request ------------------------------------------------------------------------------

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        credentials = credentials_of(scope, behind_proxy=self.services.behind_proxy)
        admission = Admission(self.services, DOOR, credentials, NO_AGENT)
        send = admission.with_rate_limit_headers(send)
        try:
            caller = await admission.authenticate_and_charge()
            options = parse_headers(scope)
            place = scope.get("path_params", {}).get("place", "")
            if place:
                await self._answer(scope["method"], place, caller, options, receive, send)
            else:
                await self._without_place(scope["method"], caller, options, receive, send)
        except SabirError as exc:
            await _refuse(send, await admission.rejected(exc))

    async def _without_place(
        self, method: str, caller: Caller, options: UploadOptions, receive: Receive, send: Send
    ) -> None:
        """An upload without a control message before it, as nlip.js and nlip-server do: it starts a conversation."""
        if method not in ("POST", "PUT"):
            raise NotFound("request an upload address with a control message, or POST a file here")
        conversation = uuid4().hex
        path, upload = await self.uploads.offer(conversation, caller)
        token = self.services.conversations.token(conversation, caller, Tokens())
        await self._take(method, path.removeprefix(PATH), upload, options, receive, send, token)

    async def _answer(
        self, method: str, place: str, caller: Caller, options: UploadOptions, receive: Receive, send: Send
    ) -> None:
        upload = await self.uploads.at(place, caller)
        match method:
            case "HEAD":
                await _say(send, 200, None, _state(self.uploads, upload))
            case "GET":
                await self._give(upload, options, send)
            case "POST" | "PUT" | "PATCH":
                await self._take(method, place, upload, options, receive, send)
            case "DELETE":
                await self.uploads.drop(upload)
                await _say(send, 200, Message.text("The upload is discarded."))
            case _:
                raise BadMethod("upload", "method", ", ".join(METHODS))

    async def _take(
        self,
        method: str,
        place: str,
        upload: Upload,
        options: UploadOptions,
        receive: Receive,
        send: Send,
        token: Part | None = None,
    ) -> None:
        multipart = _boundary(options.content_type)
        offset, total = options.span(method)
        if multipart is not None and (offset or method == "PATCH"):
            raise BadMessage("upload", "Content-Type", "raw bytes, as multipart cannot be resumed")
        if multipart is not None:
            total = None  # the announced length includes the multipart framing
        async with self.uploads.begin(upload, offset, total) as writing:
            if multipart is None:
                await _raw(receive, writing)
                name, kind = options.name, options.content_type
            else:
                form = Form(multipart)
                await form.read(receive, writing)
                name, kind = form.name, form.kind
            done = await writing.finish(options.digest, _subformat(kind), name) if writing.is_whole else None
        if done is None:  # reported once the bytes are on disk and the upload can be resumed
            state = {"offset": writing.received, "length": writing.upload.total}
            said = Message.text(f"{writing.received} bytes are here.").with_part(json_part(state, label="upload"))
            return await _say(send, 200, said, [(b"upload-offset", str(writing.received).encode())])
        address = self.uploads.public_url + PATH + place
        said = _done_message(done, address)
        headers = [*_state(self.uploads, done), (b"location", address.encode())]
        await _say(send, 201, said if token is None else said.with_part(token), headers)

    async def _give(self, upload: Upload, options: UploadOptions, send: Send) -> None:
        if upload.size is None:
            raise Conflict("this upload is not complete")
        wanted = options.wanted(upload.size)
        if wanted is None:
            error = Message.error(str(BadMessage("upload", "Range", f"a range within {upload.size} bytes")))
            return await _say(send, 416, error, [(b"content-range", f"bytes */{upload.size}".encode())])
        first, last = wanted
        headers = [
            *_state(self.uploads, upload),
            # Whatever it is, a browser must not execute it.
            (b"content-type", b"application/octet-stream"),
            (b"content-disposition", b"attachment"),
            (b"x-content-type-options", b"nosniff"),
            (b"accept-ranges", b"bytes"),
            (b"content-length", str(max(0, last - first + 1)).encode()),
        ]
        status = 200
        if (first, last) != (0, upload.size - 1):
            status = 206
            headers.append((b"content-range", f"bytes {first}-{last}/{upload.size}".encode()))
        handle = await asyncio.to_thread(open_kept, self.uploads.file(upload))
        try:
            await send({"type": "http.response.start", "status": status, "headers": headers})
            while first <= last:
                block = await asyncio.to_thread(os.pread, handle, min(BLOCK, last - first + 1), first)
                first += len(block) or last - first + 1
                await send({"type": "http.response.body", "body": block, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        finally:
            os.close(handle)


class Listener(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A separate address for uploads."""

    port: Annotated[int, msgspec.Meta(ge=0, le=65535)]
    host: str = "127.0.0.1"
    public_url: str = ""
    tls_cert: str | None = None
    tls_key: str | None = None


def listener_of(given: object, *, behind_proxy: bool) -> Listener | None:
    """The listener that ``doors: {upload: …}`` configures; None: the gateway's own port.

    Raises:
        ConfigError: the settings are invalid, or it would serve plain HTTP to the network (CORE-7.1).
    """
    if not isinstance(given, Mapping) or not given:
        return None
    listener = typed(f"doors.{DOOR}", Listener, given)
    if listener.tls_cert is None and not is_loopback(listener.host) and not behind_proxy:
        raise ConfigError(
            f"doors.{DOOR}: plain HTTP on {listener.host} needs tls_cert and tls_key, or behind_tls_proxy"
        )
    return listener


class Listening:
    """The separate listener, while it runs."""

    def __init__(self, app: ASGIApp, listener: Listener, make_server: MakeServer) -> None:
        self._listener = listener
        self._server = make_server(
            uvicorn.Config(
                app,
                lifespan="off",
                log_config=None,  # otherwise it would reconfigure logging for the whole process
                log_level="warning",
                access_log=False,
                server_header=False,
                ssl_certfile=listener.tls_cert,
                ssl_keyfile=listener.tls_key,
                timeout_graceful_shutdown=5,
            )
        )
        self._running: asyncio.Task[None] | None = None

    async def start(self) -> str:
        """Listen; returns the public URL.

        Raises:
            ConfigError: the address cannot be used.
        """
        listener = self._listener
        sock = socket.socket(socket.AF_INET6 if ":" in listener.host else socket.AF_INET)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if hasattr(socket, "SO_REUSEPORT"):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)  # each worker has its own
        try:
            sock.bind((listener.host, listener.port))
        except OSError as exc:
            sock.close()
            raise ConfigError(f"doors.{DOOR}: cannot listen on port {listener.port}: {exc.strerror}") from None
        self._running = asyncio.create_task(self._server.serve(sockets=[sock]), name="upload listener")
        scheme = "https" if listener.tls_cert is not None else "http"
        return listener.public_url.rstrip("/") or f"{scheme}://{listener.host}:{sock.getsockname()[1]}"

    async def stop(self) -> None:
        self._server.should_exit = True
        if self._running is not None:
            await self._running


class _UploadApp:
    """An ASGI application that Starlette does not take for a view function."""

    def __init__(self, door: UploadDoor) -> None:
        self._door = door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._door.handle(scope, receive, send)


# -- the headers ----------------------------------------------------------------------------------


@dataclass(slots=True)
class UploadOptions:
    """The headers of an upload."""

    content_type: str = ""
    length: int | None = None
    offset: int | None = None
    range: tuple[int, int, int | None] | None = None
    announced: int | None = None
    digest: str | None = None
    name: str = ""
    want: str = ""

    def span(self, method: str) -> tuple[int, int | None]:
        """Where the body starts, and the total length, if it is known."""
        if self.range is not None:
            first, last, total = self.range
            if self.length is not None and self.length != last - first + 1:
                raise BadMessage("upload", "Content-Range", f"a range of {self.length} bytes")
            return first, total
        if method == "PATCH":
            if self.offset is None:
                raise BadMessage("upload", "Upload-Offset", "the offset to resume from")
            return self.offset, self.announced
        return 0, self.announced if self.announced is not None else self.length

    def wanted(self, size: int) -> tuple[int, int] | None:
        """First and last byte of a download; None if it begins behind the end. An invalid range is ignored."""
        match = _WANTED.fullmatch(self.want)
        if match is None:
            return 0, size - 1
        first, last = int(match.group(1)), int(match.group(2) or max(size - 1, int(match.group(1))))
        if last < first:
            return 0, size - 1
        return (first, min(last, size - 1)) if first < size else None


def parse_headers(scope: Scope) -> UploadOptions:
    check_content_encoding(headers_of(scope), "upload")
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    options = UploadOptions(headers.get("content-type", ""), _number(headers, "content-length"))
    options.offset = _number(headers, "upload-offset")
    options.announced = _number(headers, "upload-length")
    options.want = headers.get("range", "").strip()
    given = headers.get("content-range")
    if given is not None:
        match = _RANGE.fullmatch(given.strip())
        if match is None:
            raise BadMessage("upload", "Content-Range", "bytes FIRST-LAST/TOTAL")
        total = match.group(3)
        options.range = int(match.group(1)), int(match.group(2)), None if total == "*" else int(total)
    options.digest = _digest(headers.get("repr-digest") or headers.get("digest"))
    options.name = _file_name(headers.get("content-disposition", ""))
    return options


def _number(headers: Mapping[str, str], name: str) -> int | None:
    value = headers.get(name)
    if value is None:
        return None
    number = whole_number(value)
    if number is None:
        raise BadMessage("upload", name, "a number")
    return number


def _digest(value: str | None) -> str | None:
    """The hex SHA-256 in ``Repr-Digest: sha-256=:base64:``, or None for another algorithm."""
    match = re.search(r"sha-256=:?([A-Za-z0-9+/=]+):?", value or "", re.IGNORECASE)
    if match is None:
        return None
    try:
        return base64.b64decode(match.group(1), validate=True).hex()
    except (binascii.Error, ValueError):
        raise BadMessage("upload", "Repr-Digest", "sha-256 in base64") from None


def _options(value: str) -> Headers:
    headers = Headers()
    headers["content-type"] = value
    return headers


def _boundary(content_type: str) -> str | None:
    if content_type.partition(";")[0].strip().lower() != "multipart/form-data":
        return None
    boundary = _options(content_type).get_param("boundary")
    if not isinstance(boundary, str) or not boundary or len(boundary) > 200:
        raise BadMessage("upload", "Content-Type", "multipart/form-data with a boundary")
    return boundary


def _file_name(disposition: str) -> str:
    """The last segment of a file name, safe to show; no file here has this name."""
    name = _options(disposition.replace("form-data", "x/y", 1).replace("attachment", "x/y", 1)).get_param("filename")
    return printable(re.split(r"[/\\]", name)[-1], 100) if isinstance(name, str) else ""


def _subformat(content_type: str) -> str:
    kind = content_type.partition(";")[0].strip().lower()
    if not kind or kind in ("multipart/form-data", "application/offset+octet-stream"):
        return ""
    group, _, encoding = kind.partition("/")
    return kind if group in MEDIA else f"generic/{encoding or media_of(kind)[1]}"


# -- bodies ---------------------------------------------------------------------------------------


async def _next(receive: Receive) -> Packet:
    """The next piece of the body; a silent client is disconnected, and may resume.

    Raises:
        Unreadable: the connection was lost, or is silent.
    """
    try:
        async with asyncio.timeout(IDLE_SECONDS):
            packet = await receive()
    except TimeoutError:
        raise Unreadable("upload", "body", f"some of it every {IDLE_SECONDS:g} seconds") from None
    if packet["type"] == "http.disconnect":
        raise Unreadable("upload", "body", "the whole body")
    return packet


async def _raw(receive: Receive, writing: Writing) -> None:
    while True:
        packet = await _next(receive)
        await writing.write(packet.get("body", b""))
        if not packet.get("more_body"):
            return


@dataclass(slots=True)
class Form:
    """Reads one file field from a multipart body as it arrives."""

    boundary: str
    name: str = ""
    kind: str = ""
    _pending: list[bytes] = field(default_factory=list)
    _headers: dict[str, str] = field(default_factory=dict)
    _key: bytes = b""
    _value: bytes = b""
    _taking: bool = False
    _taken: bool = False

    async def read(self, receive: Receive, writing: Writing) -> None:
        """Raises:
        BadMessage: there is no field with the right name, or more than one.
        """
        parser = self._parser()
        more = True
        while more:
            packet = await _next(receive)
            more = packet.get("more_body", False)
            try:
                parser.write(packet.get("body", b""))
            except ValueError:
                raise Unreadable("upload", "body", "multipart/form-data") from None
            for data in self._pending:
                await writing.write(data)
            self._pending.clear()
        if not self._taken:
            raise BadMessage("upload", "body", "a field named contents or file")

    def _parser(self) -> MultipartParser:
        return MultipartParser(
            self.boundary,
            {
                "on_part_begin": self._begin,
                "on_header_field": self._header_field,
                "on_header_value": self._header_value,
                "on_header_end": self._header_end,
                "on_headers_finished": self._headers_done,
                "on_part_data": self._data,
                "on_part_end": self._end,
            },
        )

    def _begin(self) -> None:
        self._headers, self._key, self._value = {}, b"", b""

    def _header_field(self, data: bytes, start: int, end: int) -> None:
        self._key += data[start:end]

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _header_end(self) -> None:
        self._headers[self._key.decode("latin-1").lower()] = self._value.decode("utf-8", "replace")
        self._key = self._value = b""

    def _headers_done(self) -> None:
        disposition = self._headers.get("content-disposition", "")
        called = _options(disposition.replace("form-data", "x/y", 1)).get_param("name")
        if called not in FIELDS:
            return
        if self._taken:
            raise BadMessage("upload", "body", "one file for one place")
        self._taking = self._taken = True
        self.name = _file_name(disposition)
        self.kind = self._headers.get("content-type", "")

    def _data(self, data: bytes, start: int, end: int) -> None:
        if self._taking:
            self._pending.append(data[start:end])

    def _end(self) -> None:
        self._taking = False


# -- answers --------------------------------------------------------------------------------------


def _state(uploads: Uploads, upload: Upload) -> list[tuple[bytes, bytes]]:
    length = upload.size if upload.size is not None else upload.total
    headers = [(b"upload-offset", str(uploads.offset(upload)).encode()), (b"cache-control", b"no-store")]
    if length is not None:
        headers.append((b"upload-length", str(length).encode()))
    if upload.sha256:
        headers.append((b"repr-digest", b"sha-256=:%s:" % base64.b64encode(bytes.fromhex(upload.sha256))))
    return headers


def _done_message(upload: Upload, uri: str) -> Message:
    details = {"bytes": upload.size, "sha256": upload.sha256, "subformat": upload.subformat, "name": upload.name}
    text = f"{upload.size} bytes are here. Refer to them by this address in the conversation."
    return Message.text(text, parts=(uri_part(uri, label="upload"), json_part(details, label="upload-terms")))


async def _refuse(send: Send, exc: SabirError) -> None:
    await _say(send, nlip.CODES[type(exc)], Message.error(str(exc)), refusal_headers(exc))


async def _say(send: Send, status: int, message: Message | None, headers: Sequence[tuple[bytes, bytes]] = ()) -> None:
    body = b"" if message is None else nlip.encode(message)
    with suppress(OSError):  # the connection may be what broke
        await send_json(send, status, body, headers)
