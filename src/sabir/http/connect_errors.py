"""Connection errors in plain words; for TLS, which check failed."""

from __future__ import annotations

import socket
import ssl
from typing import Final

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
