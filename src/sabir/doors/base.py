"""What a door is, and what it stands in front of."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Scope

from ..agent import Agent
from ..card import Card
from ..exchange import Exchange
from ..guard import Credentials, Guard
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

    @property
    def agents(self) -> Mapping[str, Agent]:
        return self.exchange.agents

    def cards(self, caller: Caller, door: str) -> list[Card]:
        """The cards of the agents this caller may use by this door, the default agent first."""
        names = sorted(self.agents, key=lambda name: name != self.exchange.default)
        allows = self.guard.rights.allows
        return [self.agents[name].card for name in names if allows(caller, agent=name, door=door)]


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


MakeDoor = Callable[[House], Door]


def credentials_of(scope: Scope, *, behind_proxy: bool = False) -> Credentials:
    """What an ASGI scope tells of the other side."""
    client = scope.get("client")
    address = client[0] if client else ""
    authorization: str | None = None
    headers: dict[str, str] | None = None
    for name, value in scope["headers"]:
        if name == b"authorization":
            authorization = value.decode("latin-1")
        elif name == b"x-api-key" or name == b"dpop":
            headers = headers or {}
            headers[name.decode()] = value.decode("latin-1")
        elif behind_proxy and name == b"x-forwarded-for":
            address = value.decode("latin-1").rpartition(",")[2].strip() or address
    certificate = scope.get("extensions", {}).get("tls", {}).get("client_cert_name")
    if authorization is None and headers is None and certificate is None:
        return Credentials(address)
    return Credentials(
        address,
        authorization,
        certificate,
        headers or {},
        scope.get("method", ""),
        f"{scope['scheme']}://{_host(scope)}{scope['path']}",
    )


def _host(scope: Scope) -> str:
    for name, value in scope["headers"]:
        if name == b"host":
            return str(value.decode("latin-1"))
    return ""


Stopper = Callable[[], Awaitable[None]]
