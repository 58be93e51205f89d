"""Where an AMQP broker is and how we show it who we are (SASL): decided before anything is sent.

A broker that does not offer the way that was configured is left, with what was expected and what it offered: who is
configured to be known must not turn into nobody, and a password goes only where it can be read by nobody else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from urllib.parse import unquote, urlsplit

import msgspec

from sabir.errors import ConfigError, MissingExtra
from sabir.guard.quotas.rates import is_loopback
from sabir.protocols.peer import without_credentials

try:
    import proton
except ImportError as missing:
    raise MissingExtra("NLIP over AMQP", "amqp") from missing

_GREETING: Final = b"AMQP\x03\x01\x00\x00"  # of one who wants to know who we are
_NO_SASL: Final = b"AMQP\x00\x01\x00\x00"
_MECHANISMS: Final = 0x40
_MAX_OFFER: Final = 4096  # bytes of an offer; the standard has it that 512 are enough
_SHOWN: Final = 8  # mechanisms of an offer that an error lists

_WORDS: Final = {
    "PLAIN": "PLAIN (the user and password of the address)",
    "EXTERNAL": "EXTERNAL (our certificate)",
    "ANONYMOUS": "ANONYMOUS (the address names no user)",
}


class Broker(msgspec.Struct, frozen=True):
    """An ``amqp`` or ``amqps`` address, read."""

    address: str  # without credentials
    host: str
    port: int
    encrypted: bool
    user: str
    password: str
    mechanisms: tuple[str, ...]  # one of which it has to offer

    @classmethod
    def at(cls, url: str, *, external: bool = False) -> Broker:
        """``external``: a certificate says who we are, where the address names no user.

        Raises:
            ConfigError: no address, or one by which a secret would go in the clear.
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
        """Why we cannot show who we are in one of these ways; None if we can, or if they are not known yet."""
        if offered is None or any(mechanism in offered for mechanism in self.mechanisms):
            return None
        expected = " or ".join(_WORDS[mechanism] for mechanism in self.mechanisms)
        return f"expected {expected} as the way to show who we are; it offers {_printable_names(offered)}"


class BrokerOffer:
    """The mechanisms that a broker offers, read from the first bytes that it sends."""

    def __init__(self) -> None:
        self._read = bytearray()

    def take(self, data: bytes) -> tuple[str, ...] | None:
        """What is offered, once that has come; nothing, where nobody is asked; None while it is not known.

        Returns None for anything else, too: the engine reports what is wrong with it.
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
    """Names from the wire, as they may stand in a log."""
    plain = [item[:20] for item in offered if item.isascii() and item.isprintable()][:_SHOWN]
    return ", ".join(plain) or "none"
