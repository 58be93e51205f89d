"""The Door interface and the services that doors use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

import msgspec
import uvicorn
from starlette.routing import BaseRoute
from starlette.types import ASGIApp

from sabir.agent import Agent
from sabir.bus import Bus
from sabir.card import Card
from sabir.errors import ConfigError, suggestion
from sabir.exchange.conversations import Conversations
from sabir.exchange.exchange import Exchange
from sabir.exchange.topics import Topics
from sabir.guard import Authenticator, Filters, Guard, Quotas, Rates, Rights, Seal
from sabir.guard.build import GuardServices
from sabir.limits import Limits
from sabir.message import JSON
from sabir.misfits import choices, setting_in_words, words_of
from sabir.protocols.nlip.wire.envelope import EnvelopeOptions
from sabir.stores.base import Store
from sabir.tasks import Tasks
from sabir.turn import Caller
from sabir.uploads import Uploads

from .heavy import Heavy

MakeServer = Callable[[uvicorn.Config], uvicorn.Server]
# An application with the checks of host and origin in front, for the address and the names of its port.
WithChecks = Callable[[ASGIApp, str, Sequence[str]], ASGIApp]


def _unchecked(app: ASGIApp, address: str, names: Sequence[str]) -> ASGIApp:
    return app


SearchGateways = Callable[..., Awaitable[list[Any]]]


class AgentDirectory(Protocol):
    """The agents of the gateway, as one caller sees them."""

    @property
    def agents(self) -> Mapping[str, Agent]: ...

    @property
    def default_agent(self) -> str: ...

    @property
    def open_to_all(self) -> bool:
        """Whether every agent is open to everybody, so that nothing is hidden."""

    def cards(self, caller: Caller, door: str) -> list[Card]:
        """The cards of the agents that this caller may use through this door, the default agent first."""

    def find(self, caller: Caller, name: str | None, door: str) -> Agent:
        """The agent that a path names, as ``Rights.find`` returns it.

        Raises:
            Unauthenticated, Forbidden: this caller may not use it; says the same whether or not it exists.
            NotFound: there is no such agent.
        """

    def usable(self, caller: Caller, door: str) -> list[Agent]:
        """The agents that this caller may use through this door."""


class EdgeContext(Protocol):
    """What admission and the reading of requests need."""

    exchange: Exchange
    guard: Guard
    limits: Limits
    heavy: Heavy
    behind_proxy: bool

    @property
    def identity(self) -> Authenticator: ...

    @property
    def rates(self) -> Rates: ...


class DoorContext(EdgeContext, AgentDirectory, Protocol):
    """What a protocol's door may use of the gateway.

    Doors are typed with this, so mypy rejects a door that uses anything else. A door that needs more declares its own
    context.
    """

    tasks: Tasks
    store: Store
    uploads: Uploads
    doors: Sequence[Door]  # open doors, once all are built
    public_url: str
    settings: Mapping[str, Any]

    @property
    def gateway_id(self) -> str: ...

    @property
    def conversations(self) -> Conversations: ...

    @property
    def rights(self) -> Rights: ...

    @property
    def filters(self) -> Filters: ...

    @property
    def seal(self) -> Seal: ...

    @property
    def quotas(self) -> Quotas: ...


@dataclass(slots=True)
class GatewayServices:
    """The services of a gateway: its own endpoints use all of them, doors what their context names."""

    exchange: Exchange
    tasks: Tasks
    store: Store
    guard: Guard
    limits: Limits
    home: Path
    uploads: Uploads
    public_url: str = "http://127.0.0.1:8080"
    settings: Mapping[str, Any] = field(default_factory=dict)  # of all doors, by door name
    facts: dict[str, Any] = field(default_factory=dict)  # what the gateway reports about itself
    behind_proxy: bool = False
    guarded: GuardServices | None = None  # keys, passes and egress, which belong to the guard
    doors: Sequence[Door] = ()  # open doors, once all are built
    bus: Bus | None = None  # to other nodes, if any
    heavy: Heavy = field(default_factory=Heavy)
    make_server: MakeServer = uvicorn.Server  # for a door that listens on its own port
    with_checks: WithChecks = _unchecked  # and the checks of host and origin before it
    # Searches the directories of other gateways (``federation.directory_acl``, which is above this layer).
    search_gateways: SearchGateways | None = None
    # how envelopes of the MassGen design are answered
    envelope: EnvelopeOptions = field(default_factory=EnvelopeOptions)
    topics: Topics = field(init=False)  # what agents publish
    subscriptions: Counter[str] = field(default_factory=Counter)  # open ones, by caller
    group: Path | None = None  # where worker processes find each other, if there are several

    def __post_init__(self) -> None:
        self.topics = Topics(self.store)

    @property
    def gateway_id(self) -> str:
        return str(self.facts.get("gateway", ""))

    @property
    def conversations(self) -> Conversations:
        return self.exchange.conversations

    @property
    def identity(self) -> Authenticator:
        return self.guard.identity

    @property
    def rights(self) -> Rights:
        return self.guard.rights

    @property
    def rates(self) -> Rates:
        return self.guard.rates

    @property
    def quotas(self) -> Quotas:
        return self.guard.quotas

    @property
    def filters(self) -> Filters:
        return self.guard.filters

    @property
    def seal(self) -> Seal:
        return self.guard.seal

    @property
    def agents(self) -> Mapping[str, Agent]:
        return self.exchange.agents

    @property
    def default_agent(self) -> str:
        return self.exchange.default

    @property
    def issuers(self) -> Sequence[str]:
        """The authorization servers of this gateway, as configured."""
        return [issuer.issuer for issuer in self.guarded.identity.issuers] if self.guarded is not None else []

    @property
    def scopes(self) -> Sequence[str]:
        """The OAuth scopes that callers request, as configured."""
        return self.guarded.identity.scopes if self.guarded is not None else ()

    def cards(self, caller: Caller, door: str) -> list[Card]:
        names = sorted(self.agents, key=lambda name: name != self.default_agent)
        seen = (self.rights.visible(caller, self.agents[name].card, door) for name in names)
        return [card for card in seen if card is not None]

    @property
    def open_to_all(self) -> bool:
        return self.identity.anonymous and not self.rights.rules

    def find(self, caller: Caller, name: str | None, door: str) -> Agent:
        return self.rights.find(self.agents, caller, name, door, self.default_agent)

    def usable(self, caller: Caller, door: str) -> list[Agent]:
        allows = self.rights.allows
        return [agent for name, agent in self.agents.items() if allows(caller, agent=name, door=door)]


@runtime_checkable
class Publishes(Protocol):
    """A door that delivers an agent's events to subscribers."""

    async def publish(self, agent: str, topic: str, event: JSON, key: str) -> int: ...


class Door(Protocol):
    """The inbound side of a protocol. Doors inherit what they do not need.

    ``raw`` maps exact paths to ASGI applications for the hot ones; everything else is Starlette routes.
    """

    name: str

    def raw(self) -> Mapping[str, ASGIApp]:
        return {}

    def routes(self) -> Sequence[BaseRoute]:
        return []

    def addresses(self) -> Sequence[tuple[str, str]]:
        """Its name and address for people: ``("NLIP over HTTP", "/nlip")``."""
        return []

    async def start(self) -> None:
        return None

    async def stop(self) -> None:
        return None


@runtime_checkable
class Follows(Protocol):
    """A door that is notified when agents are added, removed or changed."""

    async def agents_changed(self) -> None: ...


@runtime_checkable
class ReportsHealth(Protocol):
    """A door that depends on something outside this process, such as a broker."""

    def trouble(self) -> str | None:
        """What is unavailable, and the consequence; None if all is well."""


MakeDoor = Callable[[GatewayServices], Door]


class HasSettings(Protocol):
    """The settings of all doors, by door name."""

    settings: Mapping[str, Any]


S = TypeVar("S", bound=msgspec.Struct)


def settings_for(door: str, kind: type[S], services: HasSettings) -> S:
    """The settings under ``doors: {door: …}``, typed; raises as ``typed`` does."""
    given = services.settings.get(door)
    return typed(f"doors.{door}", kind, given if isinstance(given, Mapping) else {})


def typed(place: str, kind: type[S], given: Mapping[str, Any]) -> S:
    """A section of the configuration, typed.

    Raises:
        ConfigError: invalid key or value; says where, and names the nearest known key.
    """
    known = kind.__struct_encode_fields__
    for key in given:
        if key not in known:
            raise ConfigError(f"unknown key {place}.{key}: {suggestion(key, known)}")
    # YAML reads a bare ``off`` as false.
    given = {key: "off" if value is False and "off" in words_of(kind, key) else value for key, value in given.items()}
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as exc:
        said, _, where = str(exc).partition(" - at `$")
        where = where.rstrip("`")
        if said.startswith("Invalid enum value"):
            said = f"expected {choices(kind, where)}, not {said.removeprefix('Invalid enum value ')}"
        raise ConfigError(f"{place}{where}: {setting_in_words(said)}") from None
