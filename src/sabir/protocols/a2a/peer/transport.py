"""How an A2A peer reaches its agent: the HTTP transport, errors of the SDK as peer errors, and signed cards."""

from __future__ import annotations

import asyncio
import contextvars
import json
import ssl
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, Final

import httpx
from a2a.client.errors import A2AClientError, A2AClientTimeoutError, AgentCardResolutionError
from a2a.types import a2a_pb2 as pb
from a2a.utils.errors import JSON_RPC_ERROR_CODE_MAP, A2AError
from a2a.utils.signing import NoSignatureError, create_signature_verifier
from google.protobuf.json_format import ParseError
from joserfc.errors import JoseError
from joserfc.jwk import KeySet, OctKey
from joserfc.util import urlsafe_b64decode

from sabir.aio import Closing
from sabir.errors import ConfigError, PeerError, PeerRefused, PeerUnavailable, PeerUnreadable
from sabir.guard.egress.keep_alive import IDLE_SECONDS, OpenSockets, on_live_connection
from sabir.http.connect_errors import why_no_connection
from sabir.http.error_body import reason_in
from sabir.http.wire_log import request_head, response_head
from sabir.message import printable
from sabir.protocols.peer import OnWire, origin_of, without_credentials

WELL_KNOWN: Final = "/.well-known/agent-card.json"
_ALGORITHMS: Final = ("ES256", "ES384", "ES512", "EdDSA", "RS256")
_LOST: Final = (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError)
_MAX_REASON: Final = 500  # characters of a reason that the remote agent gives
_GRPC_STATUS: Final = {"UNAUTHENTICATED": 401, "PERMISSION_DENIED": 403, "RESOURCE_EXHAUSTED": 429}
_GRPC_UNAVAILABLE: Final = frozenset({"UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED"})


_REST_SECONDS: Final = 0.5  # for the end of a stream after its last event
_OPENED: Final[ContextVar[list[httpx.AsyncByteStream] | None]] = ContextVar("opened", default=None)


class ResponseStream:
    """The events of one call through the SDK, and what the call has opened.

    The SDK nests generators and closes only the outermost; the response would stay open until the garbage is collected.
    """

    def __init__(self, events: AsyncIterator[pb.StreamResponse]) -> None:
        self._events = events
        self._opened: list[httpx.AsyncByteStream] = []

    def first(self) -> asyncio.Task[pb.StreamResponse | None]:
        """Send the request; returns the task that waits for the first event. None is the end of the stream."""
        context = contextvars.copy_context()
        context.run(_OPENED.set, self._opened)
        return asyncio.get_running_loop().create_task(self.next(), context=context)

    async def next(self) -> pb.StreamResponse | None:
        return await anext(self._events, None)

    async def read_rest(self) -> None:
        """Read the end of the stream after its last event: only then can the connection be used again.

        A server that keeps the stream open is not waited for.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(_REST_SECONDS):
                while await self.next() is not None:
                    pass

    async def aclose(self) -> None:
        async with Closing(self._events):
            pass
        for response in self._opened:
            await response.aclose()


class LimitedTransport(httpx.AsyncHTTPTransport):
    """An HTTP transport that limits the size of responses and rejects compressed ones, whose size is unknown."""

    def __init__(self, tls: ssl.SSLContext, connections: int, max_bytes: int, on_wire: OnWire | None = None) -> None:
        limits = httpx.Limits(
            max_connections=connections, max_keepalive_connections=connections, keepalive_expiry=IDLE_SECONDS
        )
        super().__init__(verify=tls, limits=limits, trust_env=False)
        self._max_bytes = max_bytes
        self._on_wire = on_wire
        self._sockets = OpenSockets()

    async def aclose(self) -> None:
        await super().aclose()
        await self._sockets.aclose()

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if self._on_wire is not None:
            self._on_wire("sent", request_head(request) + await request.aread())
        send = super().handle_async_request
        response = await on_live_connection(send, request, _LOST, httpx.ByteStream, self._sockets)
        if self._on_wire is not None:
            self._on_wire("received", response_head(response))
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            await response.aclose()
            raise httpx.DecodingError("the response is compressed", request=request)
        assert isinstance(response.stream, httpx.AsyncByteStream)
        response.stream = _CountedStream(response.stream, self._max_bytes, request, self._on_wire)
        opened = _OPENED.get()
        if opened is not None:
            opened.append(response.stream)
        return response


class _CountedStream(httpx.AsyncByteStream):
    def __init__(
        self, inner: httpx.AsyncByteStream, max_bytes: int, request: httpx.Request, on_wire: OnWire | None
    ) -> None:
        self._inner = inner
        self._on_wire = on_wire
        self._left = max_bytes
        self._request = request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._inner:
            if self._on_wire is not None:
                self._on_wire("received", piece)
            self._left -= len(piece)
            if self._left < 0:
                raise httpx.DecodingError("the response is too long", request=self._request)
            yield piece

    async def aclose(self) -> None:
        await self._inner.aclose()


# -- errors -------------------------------------------------------------------------------------


@contextmanager
def translate_errors(address: str) -> Iterator[None]:
    """Raise what the SDK raises as peer errors; its texts are cut short and made printable."""
    try:
        yield
    except (A2AError, httpx.HTTPError, ParseError, ValueError, RecursionError) as exc:
        raise _peer_error(address, exc) from None


def _peer_error(address: str, exc: Exception) -> PeerError:
    for read in (_grpc_error, _http_error, _connection_error, _a2a_error):
        found = read(address, exc)
        if found is not None:
            return found
    return PeerUnreadable(address, "its answer is not A2A")


def _grpc_error(address: str, exc: Exception) -> PeerError | None:
    cause: Any = exc.__cause__
    code = getattr(cause, "code", None)
    word = code().name if callable(code) else ""
    if word in _GRPC_STATUS:
        reason = printable(cause.details() or "", _MAX_REASON)
        return PeerRefused(address, f"it answered {word}{f': {reason}' if reason else ''}", _GRPC_STATUS[word])
    return PeerUnavailable(address, "the connection failed") if word in _GRPC_UNAVAILABLE else None


def _http_error(address: str, exc: Exception) -> PeerError | None:
    cause = exc.__cause__
    if isinstance(cause, httpx.HTTPStatusError):
        status = cause.response.status_code
        is_of_agent = type(exc) in JSON_RPC_ERROR_CODE_MAP  # and not of a proxy in front of it
        is_broken = status == 503 or (status >= 500 and not is_of_agent)
        return PeerRefused(address, reason_in(cause.response.content, status), status, broken=is_broken)
    if isinstance(exc, AgentCardResolutionError) and exc.status_code is not None:
        status = exc.status_code
        return PeerRefused(address, f"it answered {status} for its card", status, broken=status >= 500)
    return None


def _connection_error(address: str, exc: Exception) -> PeerError | None:
    cause = exc.__cause__
    if isinstance(exc, A2AClientTimeoutError | httpx.TimeoutException):
        return PeerUnavailable(address, "no answer in time")
    if isinstance(cause, httpx.DecodingError) or isinstance(exc, httpx.DecodingError):
        return PeerUnreadable(address, "its answer is compressed or too long")
    if isinstance(cause, httpx.RequestError) or isinstance(exc, httpx.HTTPError):
        return PeerUnavailable(address, why_no_connection(exc, "the connection failed"))
    return None


def _a2a_error(address: str, exc: Exception) -> PeerError | None:
    if isinstance(exc, A2AError) and type(exc) in JSON_RPC_ERROR_CODE_MAP:
        return PeerRefused(address, printable(exc.message, _MAX_REASON), JSON_RPC_ERROR_CODE_MAP[type(exc)])
    if isinstance(exc, A2AClientError):
        return PeerUnreadable(address, printable(exc.message, _MAX_REASON))
    return None


# -- signed cards -------------------------------------------------------------------------------


def card_verifier(keys: Mapping[str, Any]) -> Callable[[pb.AgentCard], None]:
    """A check that one of these keys has signed a card.

    Raises:
        ConfigError: this is not a key set.
    """
    try:
        known = KeySet.import_key_set({"keys": list(keys["keys"])}).keys
        pems = {key.kid: key.as_pem(private=False) for key in known if not isinstance(key, OctKey)}
    except (JoseError, ValueError, TypeError, KeyError):
        raise ConfigError("card_keys: expected a JSON Web Key Set") from None

    def key_of(kid: str | None, jku: str | None) -> bytes:
        return pems[kid]  # never from ``jku``: anybody could have put a key there

    verify = create_signature_verifier(key_of, list(_ALGORITHMS))

    def verified(card: pb.AgentCard) -> None:
        ours = [signature for signature in card.signatures if _key_id(signature) in pems]
        if not ours:
            raise NoSignatureError("no signature by a known key")
        checked = pb.AgentCard()
        checked.CopyFrom(card)
        del checked.signatures[:]
        checked.signatures.extend(ours)
        verify(checked)

    return verified


def _key_id(signature: pb.AgentCardSignature) -> str | None:
    try:
        header = json.loads(urlsafe_b64decode(signature.protected.encode()))
    except ValueError:
        return None
    kid = header.get("kid") if isinstance(header, dict) else None
    return kid if isinstance(kid, str) else None


# -- addresses ----------------------------------------------------------------------------------


def card_location(url: str) -> tuple[str, str]:
    """The base URL and the path of the card of an agent's address."""
    parts = httpx.URL(url)
    path = parts.path.rstrip("/")
    if path.endswith(".json"):
        return str(parts.copy_with(path="/", query=None)).rstrip("/"), path
    return str(parts.copy_with(path=path or "/", query=None)).rstrip("/"), WELL_KNOWN


def service_origin(url: str) -> str:
    """Scheme and host as identities name a service: without the default port."""
    return origin_of(without_credentials(url)).removesuffix(":443" if url.startswith("https:") else ":80")


def origin_or_none(url: str) -> str | None:
    try:
        return origin_of(url)
    except ConfigError:
        return None
