"""The address of an AMQP broker and how we authenticate to it (SASL): decided before anything is sent.

If a broker does not offer the configured mechanism, the connection is closed with an error that names what was expected
and what was offered: a connection configured to authenticate must not fall back to anonymous, and a password is only
sent where nobody else can read it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from urllib.parse import unquote, urlsplit

import msgspec
import proton

from sabir.errors import ConfigError
from sabir.guard.quotas.rates import is_loopback
from sabir.protocols.peer import without_credentials

_GREETING: Final = b"AMQP\x03\x01\x00\x00"  # sent by a broker that requires authentication
_NO_SASL: Final = b"AMQP\x00\x01\x00\x00"
_MECHANISMS: Final = 0x40
_MAX_OFFER: Final = 4096  # bytes of an offer; the standard says that 512 are enough
_SHOWN: Final = 8  # mechanisms of an offer that an error lists

_WORDS: Final = {
    "PLAIN": "PLAIN (the user and password of the address)",
    "EXTERNAL": "EXTERNAL (our certificate)",
    "ANONYMOUS": "ANONYMOUS (the address names no user)",
}


class Broker(msgspec.Struct, frozen=True):
    """A parsed ``amqp`` or ``amqps`` address."""

    address: str  # without credentials
    host: str
    port: int
    encrypted: bool
    user: str
    password: str
    mechanisms: tuple[str, ...]  # it must offer one of them

    @classmethod
    def at(cls, url: str, *, external: bool = False) -> Broker:
        """``external``: our certificate authenticates us, if the address names no user.

        Raises:
            ConfigError: invalid address, or one over which a secret would be sent in the clear.
        """
        address, parts = without_credentials(url), urlsplit(url)
        try:
            host, port = parts.hostname, parts.port
        except ValueError:
            host, port = None, None
        if parts.scheme not in ("amqp", "amqps") or not host:
            raise ConfigError(f"{address!r} is not an amqp or amqps address")
        user, password, encrypted = (
            unquote(parts.username or ""),
            unquote(parts.password or ""),
            parts.scheme == "amqps",
        )
        if password and not encrypted and not is_loopback(host) and host != "localhost":
            raise ConfigError(f"{address}: a password goes over amqps only, unless to this machine")
        if external and not user and not encrypted:
            raise ConfigError(f"{address}: a certificate is shown over amqps only")
        ways = ("EXTERNAL",) if external else ("EXTERNAL", "ANONYMOUS") if encrypted else ("ANONYMOUS",)
        port = port or (5671 if encrypted else 5672)
        return cls(address, host, port, encrypted, user, password, ("PLAIN",) if user else ways)

    def why_not(self, offered: Sequence[str] | None) -> str | None:
        """Why we cannot authenticate with these mechanisms; None if we can, or if they are not known yet."""
        if offered is None or any(mechanism in offered for mechanism in self.mechanisms):
            return None
        expected = " or ".join(_WORDS[mechanism] for mechanism in self.mechanisms)
        return f"expected {expected} as the way to show who we are; it offers {_printable_names(offered)}"


class BrokerOffer:
    """Parses the mechanisms that a broker offers from the first bytes it sends."""

    def __init__(self) -> None:
        self._read = bytearray()

    def take(self, data: bytes) -> tuple[str, ...] | None:
        """The offered mechanisms once they have arrived; empty if no authentication is required; None while unknown.

        Also None for invalid data: the engine reports what is wrong with it.
        """
        self._read += data[: _MAX_OFFER - len(self._read)]
        read = bytes(self._read)
        if read[:8] == _NO_SASL:
            return ()
        size = int.from_bytes(read[8:12], "big")
        if read[:8] != _GREETING or len(read) < 16 or not 16 <= 8 + size <= len(read):
            return None
        return _offered(read[8 + 4 * read[12] : 8 + size])


def _offered(performative: bytes) -> tuple[str, ...] | None:
    data = proton.Data()
    try:
        data.decode(performative)
        data.rewind()
        data.next()
        frame = data.get_object()
    except (proton.ProtonException, ValueError):
        return None
    if not isinstance(frame, proton.Described) or frame.descriptor != _MECHANISMS or not isinstance(frame.value, list):
        return None
    first = frame.value[0] if frame.value else None
    listed = first.elements if isinstance(first, proton.Array) else [first]
    return tuple(str(item) for item in listed if isinstance(item, proton.symbol))


def _printable_names(offered: Sequence[str]) -> str:
    """Names from the wire, safe to log."""
    plain = [item[:20] for item in offered if item.isascii() and item.isprintable()][:_SHOWN]
    return ", ".join(plain) or "none"
