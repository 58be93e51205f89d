"""The incoming side of the HTTP edge, shared by all doors: headers, ``Prefer``, ``Accept``, the body and its limits."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from ipaddress import ip_address
from typing import Any, Final

import msgspec
from starlette.types import Message as Packet
from starlette.types import Receive, Scope

from sabir.errors import BadMediaType, BadMessage, TooLarge, Unreadable
from sabir.guard import Credentials
from sabir.guard.identity.callers import credentials_of_user, no_credentials
from sabir.limits import Limits, check_cost, depth_of
from sabir.numerals import whole_number

from .admission import Admission

MAX_KEY: Final = 256  # characters of an idempotency key
MAX_TRACE: Final = 64
EVENTS: Final = "text/event-stream"
JSON: Final = "application/json"
PROOFS: Final = frozenset({b"authorization", b"x-api-key", b"dpop"})
_AT_BYTE: Final = re.compile(r"\(byte (\d+)\)")


# -- headers --------------------------------------------------------------------------------------


def headers_of(scope: Scope) -> dict[bytes, bytes]:
    """The headers by name; repeated ones are joined as HTTP defines."""
    known: dict[bytes, bytes] | None = scope.get("sabir.headers")
    if known is not None:
        return known
    listed = scope["headers"]
    headers = scope["sabir.headers"] = dict(listed)
    if len(headers) != len(listed):
        headers.clear()
        for name, value in listed:
            headers[name] = headers[name] + b", " + value if name in headers else value
    return headers


def hops_of(value: object) -> int:
    """How many agents a question has passed, from a header or property; overlong numbers count as too many."""
    if isinstance(value, int):
        return max(0, value)
    text = value.decode("latin-1") if isinstance(value, bytes) else str(value)
    return whole_number(text[:4]) or 0


def trace_of(headers: Mapping[bytes, bytes]) -> str | None:
    """The W3C trace context, or None."""
    trace = headers.get(b"traceparent")
    return None if trace is None else trace.decode("latin-1")[:MAX_TRACE]


def credentials_of(
    scope: Scope, *, behind_proxy: bool = False, headers: Mapping[bytes, bytes] | None = None
) -> Credentials:
    """What an ASGI scope says about the client: its address, and its credentials if it sent any."""
    client = scope.get("client")
    address = client[0] if client else ""
    headers = headers or headers_of(scope)
    if behind_proxy and b"x-forwarded-for" in headers:
        address = forwarded_address(headers[b"x-forwarded-for"]) or address
    extensions = scope.get("extensions") or {}
    certificate = extensions.get("tls", {}).get("client_cert_name")
    if certificate is None and headers.keys().isdisjoint(PROOFS):
        user = extensions.get("unix", {}).get("uid")
        return no_credentials(address) if user is None else credentials_of_user(user)
    authorization = headers.get(b"authorization")
    return Credentials(
        address,
        None if authorization is None else authorization.decode("latin-1"),
        certificate,
        {name.decode(): headers[name].decode("latin-1") for name in PROOFS if name in headers},
        scope.get("method", ""),
        f"{scope['scheme']}://{headers.get(b'host', b'').decode('latin-1')}{scope['path']}",
    )


def forwarded_address(value: bytes) -> str:
    """The client address that the nearest proxy reported, last in ``X-Forwarded-For``; empty if it is not an address.

    The port is dropped: it differs for each connection, which would count as another caller.
    """
    text = value.decode("latin-1").rpartition(",")[2].strip().strip('"')
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        return str(ip_address(text))
    except ValueError:
        return ""


class Preferences(msgspec.Struct, frozen=True):
    """The preferences of RFC 7240 that are honoured here (D-26)."""

    handling: str = ""  # strict, lenient or nothing
    respond_async: bool = False
    wait: float | None = None
    applied: tuple[str, ...] = ()  # those that were understood, for ``Preference-Applied``

    @property
    def later(self) -> bool:
        """Whether the caller accepts a deferred answer."""
        return self.respond_async or self.wait is not None

    def without_later(self) -> Preferences:
        """The same, for work that is never deferred."""
        return Preferences(self.handling, applied=tuple(item for item in self.applied if item.startswith("handling=")))

    def strictly(self) -> Preferences:
        """The same, for a gateway that is strict anyway: the stricter of two settings wins."""
        applied = tuple(item for item in self.applied if item != "handling=lenient")
        return msgspec.structs.replace(self, handling="strict", applied=applied)


NO_PREFERENCE: Final = Preferences()


@lru_cache(maxsize=256)
def prefer_of(value: bytes) -> Preferences:
    """Parse a ``Prefer`` header. The first of two equal preferences counts, as RFC 7240 says."""
    handling, respond_async, wait = "", False, None
    applied: list[str] = []
    for item in value.decode("latin-1").split(","):
        name, _, argument = item.partition(";")[0].partition("=")
        name, argument = name.strip().lower(), argument.strip().strip('"').lower()
        if name == "handling" and argument in ("strict", "lenient") and not handling:
            handling = argument
            applied.append(f"handling={argument}")
        elif name == "respond-async" and not respond_async:
            respond_async = True
            applied.append(name)
        elif name == "wait" and wait is None and len(argument) < 7 and (seconds := whole_number(argument)) is not None:
            wait = float(seconds)
            applied.append(f"wait={argument}")
    return Preferences(handling, respond_async, wait, tuple(applied))


class Accept(msgspec.Struct, frozen=True):
    """The media ranges of an ``Accept`` header with their weights."""

    ranges: tuple[tuple[str, float], ...] = ()

    def names(self, media: str) -> bool:
        """Whether the type itself is listed with a weight above zero."""
        return any(listed == media and weight > 0 for listed, weight in self.ranges)

    def weight(self, media: str) -> float:
        """The weight of a type by the most specific range that covers it; 1 without a header."""
        if not self.ranges:
            return 1.0
        wildcard = media.partition("/")[0] + "/*"
        for wanted in (media, wildcard, "*/*"):
            for listed, weight in self.ranges:
                if listed == wanted:
                    return weight
        return 0.0

    @property
    def wants_events(self) -> bool:
        """Whether server-sent events are requested by name and JSON is not preferred."""
        return self.names(EVENTS) and self.weight(EVENTS) >= self.weight(JSON)

    @property
    def wants_json(self) -> bool:
        """Whether JSON is requested by name and events are not preferred."""
        return self.names(JSON) and self.weight(JSON) >= self.weight(EVENTS)


@lru_cache(maxsize=256)
def accept_of(value: bytes) -> Accept:
    """Parse an ``Accept`` header (RFC 9110, 12.5.1); a weight that is not a number counts as 1."""
    ranges = []
    for item in value.decode("latin-1").lower().split(","):
        media, *parameters = (piece.strip() for piece in item.split(";"))
        weight = 1.0
        for parameter in parameters:
            name, _, number = parameter.partition("=")
            if name.strip() == "q":
                weight = _weight(number.strip())
        if media:
            ranges.append((media, weight))
    return Accept(tuple(ranges))


def _weight(text: str) -> float:
    return float(text) if re.fullmatch(r"[01](\.\d{0,3})?", text) else 1.0


def idempotency_key(headers: Mapping[bytes, bytes], protocol: str) -> str | None:
    """The caller's idempotency key.

    Raises:
        BadMessage: it is empty or too long; truncating could make two keys equal.
    """
    key = headers.get(b"idempotency-key")
    if key is None:
        return None
    if not 0 < len(key) <= MAX_KEY:
        raise BadMessage(protocol, "Idempotency-Key", f"1 to {MAX_KEY} characters")
    return key.decode("latin-1")


def media_type_of(headers: Mapping[bytes, bytes]) -> str:
    """The media type of a body without parameters, or an empty text."""
    return _media_type(headers.get(b"content-type", b""))


@lru_cache(maxsize=256)
def _media_type(value: bytes) -> str:
    return value.decode("latin-1").partition(";")[0].strip().lower()


# -- the body -------------------------------------------------------------------------------------


def check_body_headers(headers: Mapping[bytes, bytes], limits: Limits, protocol: str) -> None:
    """Check a body before it is read.

    Raises:
        TooLarge: its announced length is over the limit.
        BadMediaType: it is compressed, or not in UTF-8.
    """
    length = headers.get(b"content-length")
    if length is not None and (len(length) > 18 or (length.isdigit() and int(length) > limits.body)):
        raise TooLarge(protocol, "$", f"at most {limits.body} bytes")
    if b"content-encoding" in headers:
        check_content_encoding(headers, protocol)
    content_type = headers.get(b"content-type", b"")
    if b";" in content_type and _charset(content_type) not in ("", "utf-8", "utf8", "us-ascii"):
        raise BadMediaType(protocol, "Content-Type", "charset=utf-8")


def check_content_encoding(headers: Mapping[bytes, bytes], protocol: str) -> None:
    """Raises:
    BadMediaType: the body is compressed.
    """
    encoding = headers.get(b"content-encoding")
    if encoding is not None and encoding.strip().lower() not in (b"", b"identity"):
        raise BadMediaType(protocol, "Content-Encoding", "identity")


@lru_cache(maxsize=256)
def _charset(content_type: bytes) -> str:
    for parameter in content_type.decode("latin-1").split(";")[1:]:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset":
            return value.strip().strip('"').lower()
    return ""


async def read_body(receive: Receive, limits: Limits, protocol: str, first: Packet | None = None) -> bytes:
    """The whole body; its first chunk may have been received already.

    Raises:
        TooLarge: it is over the limit; the rest stays unread, which closes the connection.
        Unreadable: the client disconnected before the end of the body.
    """
    packet = first or await receive()
    body: bytes = packet.get("body", b"")
    if packet.get("more_body"):
        pieces, size = [body], len(body)
        while packet.get("more_body") and size <= limits.body:
            packet = await receive()
            pieces.append(packet.get("body", b""))
            size += len(pieces[-1])
        body = b"".join(pieces)
    if packet["type"] == "http.disconnect":
        raise Unreadable(protocol, "$", "the whole body")
    if len(body) > limits.body:
        raise TooLarge(protocol, "$", f"at most {limits.body} bytes")
    return body


async def read_json(
    scope: Scope,
    receive: Receive,
    admission: Admission,
    protocol: str,
    *,
    types: tuple[str, ...] | None = ("", JSON),
    around: int = 0,
    weight: int = 1,
) -> Any:
    """The JSON value of a body. ``around`` is the number of levels that the protocol adds around the content,
    ``weight`` how much more a value costs than elsewhere.

    Raises:
        RateLimited: the address is over its rate; nothing is read.
        BadMediaType: it is compressed, not in UTF-8, or not one of ``types``.
        TooLarge: it is too long, too deep, or has too many values; the rest stays unread.
        Unreadable: it is not JSON.
    """
    headers, services = headers_of(scope), admission.services
    admission.check_open()
    if types is not None and media_type_of(headers) not in types:
        raise BadMediaType(protocol, "Content-Type", " or ".join(name for name in types if name))
    check_body_headers(headers, services.limits, protocol)
    body = await read_body(receive, services.limits, protocol)
    admission.size = len(body)
    async with services.heavy.work(check_cost(body, services.limits, protocol, weight=weight), admission):
        return json_of(body, services.limits, protocol, around=around)


def json_of(body: bytes, limits: Limits, protocol: str, *, around: int = 0) -> Any:
    """The JSON value of these bytes; raises as ``read_json`` does. No error quotes a library's message."""
    depth = limits.depth + around
    try:
        value = msgspec.json.decode(body)
    except RecursionError:
        raise TooLarge(protocol, "$", f"at most {depth} levels of nesting") from None
    except UnicodeDecodeError as exc:
        raise Unreadable(protocol, f"byte {exc.start}", "UTF-8") from None
    except msgspec.DecodeError as exc:
        raise _malformed(body, str(exc), protocol) from None
    except ValueError:
        raise Unreadable(protocol, "$", "JSON whose numbers have fewer digits") from None
    if body.count(b"{") + body.count(b"[") > depth and depth_of(value, depth) > depth:
        raise TooLarge(protocol, "$", f"at most {depth} levels of nesting")
    return value


def _malformed(body: bytes, reason: str, protocol: str) -> Unreadable:
    try:
        body.decode()
    except UnicodeDecodeError as exc:
        return Unreadable(protocol, f"byte {exc.start}", "UTF-8")
    place = _AT_BYTE.search(reason)
    where = f"byte {place.group(1)}" if place is not None else "the end" if body.strip() else "byte 0"
    return Unreadable(protocol, where, "JSON")
