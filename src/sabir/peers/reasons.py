"""Why no connection came about, in words for people; of TLS failures, which check failed."""

from __future__ import annotations

import socket
import ssl


def why_no_connection(wrong: BaseException, otherwise: str = "no connection") -> str:
    """The cause that says most, or ``otherwise``."""
    cause: BaseException | None = wrong
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"its certificate is not accepted: {cause.verify_message}"
        if isinstance(cause, ssl.SSLError):
            return f"no connection: no TLS there ({cause.reason or 'it broke off'}); is it http:// and not https://?"
        if isinstance(cause, ConnectionRefusedError):
            return "no connection: nobody listens there"
        if isinstance(cause, socket.gaierror):
            return "no connection: no such host"
        cause = cause.__cause__ or cause.__context__
    return otherwise
