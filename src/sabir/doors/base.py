"""What a door is, and what it stands in front of."""

from __future__ import annotations

import difflib
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar, runtime_checkable

import msgspec
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Scope

from ..agent import Agent
from ..bus import Bus
from ..card import Card
from ..errors import BadMethod, BadSetup, TooMany, Unauthenticated, Unavailable
from ..exchange import Exchange
from ..guard import Credentials, Guard
from ..guard.identity import no_credentials
from ..guard.setup import Guarded
from ..stores.base import Store
from ..tasks import Tasks
from ..turn import Caller
from ..wire.rules import Limits


@dataclass(slots=True)
class House:
    """What every door stands in front of."""

    exchange: Exchange
    tasks: Tasks
    store: Store
    guard: Guard
    limits: Limits
    home: Path
    public_url: str = "http://127.0.0.1:8080"
    settings: Mapping[str, Any] = field(default_factory=dict)  # of all doors, by door name
    facts: dict[str, Any] = field(default_factory=dict)  # what the gateway knows of itself, for reports
    behind_proxy: bool = False
    guarded: Guarded | None = None  # keys, passes, the way out: what goes with the guard
    doors: Sequence[Door] = ()  # that are open, once all are made
    bus: Bus | None = None  # to other nodes, if there are any
    group: Path | None = None  # where the processes that serve together find each other, if there are several

    @property
    def agents(self) -> Mapping[str, Agent]:
        return self.exchange.agents

    def cards(self, caller: Caller, door: str) -> list[Card]:
        """The cards of the agents this caller may use by this door, the default agent first."""
        names = sorted(self.agents, key=lambda name: name != self.exchange.default)
        seen = (self.guard.rights.visible(caller, self.agents[name].card, door) for name in names)
        return [card for card in seen if card is not None]

    @property
    def open_to_all(self) -> bool:
        """Whether every agent is for everybody, so that there is nothing to hide."""
        return self.guard.identity.anonymous and not self.guard.rights.rules

    def find(self, caller: Caller, name: str | None, door: str) -> Agent:
        """The agent that a path names, as ``Rights.find`` has it.

        Raises:
            Unauthenticated, Forbidden: this caller may not use it, whether it is here or not.
            NotFound: it is not here.
        """
        return self.guard.rights.find(self.agents, caller, name, door, self.exchange.default)

    def usable(self, caller: Caller, door: str) -> list[Agent]:
        """The agents this caller may use by this door."""
        allows = self.guard.rights.allows
        return [each for name, each in self.agents.items() if allows(caller, agent=name, door=door)]


class Door(Protocol):
    """The inbound side of a protocol.

    ``raw`` maps exact paths to ASGI applications for the hot ones; everything else is Starlette routes.
    """

    name: str

    def raw(self) -> Mapping[str, ASGIApp]: ...

    def routes(self) -> Sequence[BaseRoute]: ...

    def addresses(self) -> Sequence[tuple[str, str]]:
        """What it is called and where it is, for people: ``("NLIP over HTTP", "/nlip")``."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


@runtime_checkable
class Follows(Protocol):
    """A door that wants to know when agents come, go or say other things of themselves."""

    async def agents_changed(self) -> None: ...


MakeDoor = Callable[[House], Door]

S = TypeVar("S", bound=msgspec.Struct)


def settings_for(door: str, kind: type[S], house: House) -> S:
    """What stands under ``doors: {door: …}``, typed; raises as ``typed`` does."""
    given = house.settings.get(door)
    return typed(f"doors.{door}", kind, given if isinstance(given, Mapping) else {})


def typed(place: str, kind: type[S], given: Mapping[str, Any]) -> S:
    """What stands at a place of the configuration, typed.

    Raises:
        BadSetup: a key or a value is wrong; says where, and names the nearest key that is known.
    """
    known = [each.encode_name for each in msgspec.structs.fields(kind)]
    for key in given:
        if key not in known:
            near = difflib.get_close_matches(str(key), known, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]}?" if near else f"known here are {', '.join(known)}"
            raise BadSetup(f"unknown key {place}.{key}: {hint}")
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as wrong:
        said, _, where = str(wrong).partition(" - at `$")
        raise BadSetup(f"{place}{where.rstrip('`')}: {said[0].lower()}{said[1:]}") from None


def headers_of(scope: Scope) -> dict[bytes, bytes]:
    """The headers by name; those that stand several times are joined as HTTP says."""
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


def refusal_headers(wrong: Exception) -> list[tuple[bytes, bytes]]:
    """What HTTP adds to a refusal: when to come back, who to be, which method to use."""
    if isinstance(wrong, TooMany | Unavailable):
        return [(b"retry-after", str(max(1, math.ceil(wrong.retry_after))).encode())]
    if isinstance(wrong, Unauthenticated):
        return [(b"www-authenticate", wrong.challenge.encode("latin-1"))]
    if isinstance(wrong, BadMethod):
        return [(b"allow", wrong.allow.encode())]
    return []


def hops_of(told: object) -> int:
    """How many agents a question has passed, as a header or property tells it; too many to count are too many."""
    if isinstance(told, int):
        return max(0, told)
    text = told.decode("latin-1") if isinstance(told, bytes) else str(told)
    return int(text[:4]) if text.isascii() and text.isdigit() else 0


def credentials_of(
    scope: Scope, *, behind_proxy: bool = False, headers: Mapping[bytes, bytes] | None = None
) -> Credentials:
    """What an ASGI scope tells of the other side."""
    client = scope.get("client")
    address = client[0] if client else ""
    headers = headers or headers_of(scope)
    if behind_proxy and b"x-forwarded-for" in headers:
        address = headers[b"x-forwarded-for"].decode("latin-1").rpartition(",")[2].strip() or address
    certificate = scope["extensions"].get("tls", {}).get("client_cert_name") if "extensions" in scope else None
    if certificate is None and headers.keys().isdisjoint(PROOFS):
        return no_credentials(address)
    authorization = headers.get(b"authorization")
    return Credentials(
        address,
        None if authorization is None else authorization.decode("latin-1"),
        certificate,
        {name.decode(): headers[name].decode("latin-1") for name in PROOFS if name in headers},
        scope.get("method", ""),
        f"{scope['scheme']}://{headers.get(b'host', b'').decode('latin-1')}{scope['path']}",
    )


PROOFS: Final = frozenset({b"authorization", b"x-api-key", b"dpop"})

Stopper = Callable[[], Awaitable[None]]
