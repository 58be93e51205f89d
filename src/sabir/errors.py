"""Every exception that Sabir raises on purpose.

::

    SabirError
    ├── BadInput              the input is invalid
    │   ├── Unreadable        the bytes are not valid JSON or CBOR
    │   ├── BadMessage        valid JSON or CBOR, but not a message of the protocol
    │   ├── TooLarge          over a limit on size, depth or count
    │   ├── BadMediaType      unsupported content type
    │   ├── BadMethod         the path exists, but not with this method
    │   └── UnknownVersion    unsupported protocol version
    ├── Refused               understood, but not allowed
    │   ├── Unauthenticated   authentication required, or it failed
    │   ├── Forbidden         authenticated, but without access
    │   ├── RateLimited       over a rate or a quota; says when to retry
    │   └── PolicyRequired    a policy must be accepted first
    ├── NotFound              no such agent, conversation, task, upload or site (or not yours)
    ├── Conflict              the current state does not allow it
    ├── Cancelled             the caller cancelled the turn
    ├── TurnFailed            the agent failed
    │   └── DeadlineExceeded  the agent did not finish in time
    ├── Unavailable           the gateway cannot answer now
    │   ├── ShuttingDown      the gateway is shutting down
    │   ├── StoreUnavailable  the store does not answer
    │   └── BusUnavailable    the bus does not answer
    ├── PeerError             a remote agent failed
    │   ├── PeerUnavailable   no connection, or no answer in time
    │   ├── PeerRefused       the remote agent rejected the request
    │   └── PeerUnreadable    the answer of the remote agent is invalid
    └── ConfigError           the configuration is invalid
        └── MissingExtra      an optional dependency is not installed

The branch shows whose fault it is: ``BadInput`` and ``Refused`` are the caller's, ``TurnFailed``, ``Unavailable`` and
``ConfigError`` are ours, ``PeerError`` is a third party's. Details are in fields; the text is made in ``__str__`` and
contains no secret and no content.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from typing import Self, TypeVar

__all__ = [
    "BadInput",
    "BadMediaType",
    "BadMessage",
    "BadMethod",
    "BusUnavailable",
    "Cancelled",
    "ConfigError",
    "Conflict",
    "DeadlineExceeded",
    "ErrorTable",
    "Forbidden",
    "MissingExtra",
    "NotFound",
    "PeerError",
    "PeerRefused",
    "PeerUnavailable",
    "PeerUnreadable",
    "PolicyRequired",
    "RateLimited",
    "Refused",
    "SabirError",
    "ShuttingDown",
    "StoreUnavailable",
    "TooLarge",
    "TurnFailed",
    "Unauthenticated",
    "Unavailable",
    "UnknownVersion",
    "Unreadable",
    "tree",
]


Row = TypeVar("Row")


class SabirError(Exception):
    """The root of everything Sabir raises on purpose."""

    audited = False  # whether an audit entry was written; set once, however often it is handled

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        # Agents raise these, too, with arbitrary values; the text must be encodable.
        self.reason = str(reason).encode("utf-8", "replace").decode()

    def __str__(self) -> str:
        return self.reason or type(self).__name__


class BadInput(SabirError):
    """The input is invalid. ``where`` is a JSON path; ``expected`` says what would be valid."""

    def __init__(self, protocol: str, where: str, expected: str) -> None:
        super().__init__(f"{protocol}: at {where}: expected {expected}")
        self.protocol = protocol
        self.where = where
        self.expected = expected


class Unreadable(BadInput):
    """The bytes are not in the encoding they claim."""


class BadMessage(BadInput):
    """It can be parsed, but is not a message of the protocol."""


class TooLarge(BadInput):
    """Over a limit on size, depth or count."""


class BadMediaType(BadInput):
    """Unsupported content type."""


class BadMethod(BadInput):
    """This path does not allow this method; ``allow`` lists those it does."""

    def __init__(self, protocol: str, where: str, allow: str) -> None:
        super().__init__(protocol, where, f"method {allow}")
        self.allow = allow


class UnknownVersion(BadInput):
    """Unsupported protocol version."""


class Refused(SabirError):
    """Understood, but not allowed."""


class Unauthenticated(Refused):
    """Authentication is required, or it failed; ``challenge`` is the value of ``WWW-Authenticate``."""

    def __init__(self, reason: str = "authentication is required", challenge: str = "Bearer") -> None:
        super().__init__(reason)
        self.challenge = challenge


class Forbidden(Refused):
    """The caller is known but lacks the right."""


class RateLimited(Refused):
    """Over a rate or quota; ``retry_after`` is in seconds."""

    def __init__(self, reason: str, retry_after: float = 1.0) -> None:
        super().__init__(reason)
        self.retry_after = retry_after


class PolicyRequired(Refused):
    """A policy must be accepted first; ``policies`` names which."""

    def __init__(self, reason: str, policies: tuple[str, ...] = ()) -> None:
        super().__init__(reason)
        self.policies = policies

    @classmethod
    def of(cls, missing: Iterable[str], agent: str = "") -> Self:
        """Name the missing policies and, if it is not the agent that was asked, the agent that requires them."""
        kinds = tuple(sorted(missing))
        whose = f"{agent} requires it: " if agent else ""
        words = f"accept by a control message: {', '.join(kinds)} (ask: what are your policies?)"
        return cls(f"{whose}before data can flow, {words}", kinds)


class NotFound(SabirError):
    """Not found. "Not yours" gives the same error; only the audit log sees the difference, in ``is_hidden``."""

    def __init__(self, reason: str = "not found", *, is_hidden: bool = False) -> None:
        super().__init__(reason)
        self.is_hidden = is_hidden


class Conflict(SabirError):
    """The current state does not allow the request."""


class Cancelled(SabirError):
    """The caller cancelled the turn."""


class TurnFailed(SabirError):
    """The agent failed; the reason is safe to show."""


class DeadlineExceeded(TurnFailed):
    """The agent did not finish in time."""


class Unavailable(SabirError):
    """This gateway cannot answer now; ``retry_after`` is in seconds."""

    def __init__(self, reason: str = "the gateway is not available", retry_after: float = 1.0) -> None:
        super().__init__(reason)
        self.retry_after = retry_after


class ShuttingDown(Unavailable):
    """The gateway is shutting down."""

    def __init__(self, reason: str = "the gateway is stopping; retry shortly", retry_after: float = 5.0) -> None:
        super().__init__(reason, retry_after)


class StoreUnavailable(Unavailable):
    """The store does not answer. ``detail`` is for the operator: where it is and what is wrong; also in the log."""

    def __init__(self, reason: str = "the store is unavailable", retry_after: float = 1.0, detail: str = "") -> None:
        super().__init__(reason, retry_after)
        self.detail = detail


class BusUnavailable(Unavailable):
    """The bus does not answer."""


class PeerError(SabirError):
    """A remote agent failed. ``peer`` is its address without credentials."""

    def __init__(self, peer: str, reason: str) -> None:
        super().__init__(f"{peer}: {reason}")
        self.peer = peer


class PeerUnavailable(PeerError):
    """No connection, or no answer in time."""


class PeerRefused(PeerError):
    """It answered with a refusal. ``status`` is the protocol's own code.

    ``broken`` means that every request would be refused, because the peer itself does not work.
    """

    def __init__(self, peer: str, reason: str, status: int | str | None = None, *, broken: bool = False) -> None:
        super().__init__(peer, reason)
        self.status = status
        self.broken = broken


class PeerUnreadable(PeerError):
    """Its answer violates its protocol."""


class ConfigError(SabirError):
    """The configuration is invalid."""


class MissingExtra(ConfigError):
    """An optional dependency is not installed."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(
            f"{what} needs: pip install 'sabir[{extra}]' (in a clone: .venv/bin/pip install -e '.[{extra}]')"
        )
        self.what = what
        self.extra = extra


def for_operator(exc: SabirError) -> str:
    """The error for the operator; callers get no more than its text."""
    return (exc.detail if isinstance(exc, StoreUnavailable) else "") or str(exc)


def tree(root: type[SabirError] = SabirError) -> Iterator[type[SabirError]]:
    """Every error class of this module under ``root``, itself first; the error tables are tested against it."""
    yield root
    for child in root.__subclasses__():
        if child.__module__ == __name__:
            yield from tree(child)


class ErrorTable(dict[type[SabirError], Row]):
    """A protocol's value for each error. An error class without a row uses that of its nearest base class."""

    def __missing__(self, kind: type[SabirError]) -> Row:
        return self[next(base for base in kind.__mro__[1:] if base in self)]


def suggestion(given: object, known: Iterable[str], otherwise: str = "choose from", place: str = "") -> str:
    """A suggestion for an unknown name: the nearest known one, or all of them.

    With an empty ``otherwise``, the result is empty if no name is similar.
    """
    names = list(known)
    bare = {name.lstrip("-"): name for name in reversed(names)}  # the dashes of flags are no likeness
    near = difflib.get_close_matches(str(given).lstrip("-"), list(bare), n=1, cutoff=0.5)
    if near:
        return f"did you mean {place}{bare[near[0]]}?"
    if not otherwise:
        return ""
    return f"{otherwise} {', '.join(names)}" if names else "there are none"
