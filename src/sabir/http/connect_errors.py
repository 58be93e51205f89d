"""Connection errors in plain words; for TLS, which check failed."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import httpx2

from sabir.errors import PeerUnavailable, PeerUnreadable

NOT_UNPACKED: Final = "its answer is not compressed as it says"


def why_no_connection(exc: BaseException, otherwise: str = "no connection") -> str:
    """The most specific cause, or ``otherwise``."""
    cause: BaseException | None = exc
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"its certificate is not accepted: {cause.verify_message}"
        if isinstance(cause, ssl.SSLError):
            return f"no connection: no TLS there ({cause.reason or 'it broke off'}); is it http:// and not https://?"
        if isinstance(cause, ConnectionRefusedError):
            return "connection refused"
        if isinstance(cause, socket.gaierror):
            return "no connection: no such host"
        cause = cause.__cause__ or cause.__context__
    return otherwise


@contextmanager
def peer_errors(address: str) -> Iterator[None]:
    """Around a request to a peer: errors of the HTTP client become errors of that peer.

    Raises:
        PeerUnavailable: no connection, or no answer in time.
        PeerUnreadable: the answer is not compressed as it says.
    """
    try:
        yield
    except (TimeoutError, httpx2.TimeoutException):
        raise PeerUnavailable(address, "no answer in time") from None
    except httpx2.DecodingError:
        raise PeerUnreadable(address, NOT_UNPACKED) from None
    except (httpx2.TransportError, httpx2.StreamError) as exc:
        words = why_no_connection(exc, f"no connection ({type(exc).__name__})")
        raise PeerUnavailable(address, words) from None
