"""The options of a gateway, as one value.

Pass them one by one, ``Gateway(echo, home="state")``, or together, ``Gateway(echo,
options=GatewayOptions(home="state"))``.
If both are given, the single ones win.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

from sabir.agents.concierge import Reader
from sabir.bus import Bus
from sabir.errors import ConfigError
from sabir.federation.gateways import RemoteGateway
from sabir.guard import Authenticator, Filters, Quotas, Rights
from sabir.guard.build import GuardSettings
from sabir.guard.ecma434 import SecuritySettings
from sabir.http.door import MakeDoor
from sabir.limits import LIMITS, Limits
from sabir.observe.settings import ObserveSettings
from sabir.protocols.nlip.wire.envelope import EnvelopeOptions
from sabir.server.settings import Serving
from sabir.stores import Store, open_store
from sabir.stores.sealing import EncryptionSettings, cipher_of
from sabir.tasks import TaskSettings
from sabir.uploads import UploadLimits


@dataclass(frozen=True, kw_only=True)
class GatewayOptions:
    """Everything that a gateway can be given besides its agents."""

    default: str | None = None  # the agent that answers if the request names none; None: the first
    home: Path | str | None = None  # the folder for state; None: SABIR_HOME, or .sabir
    store: Store | str | None = None  # ``memory:``, ``sqlite:///path``, ``postgresql://…``; None: SQLite in ``home``
    encryption: EncryptionSettings | None = None  # the key that seals contents in the store
    durability: str = "process"  # what a commit survives: ``process`` (kill -9) or ``power`` (power loss)
    bus: Bus | str | None = None  # to other nodes: ``memory:`` or ``nats://…``
    node: str = ""  # the name of this node; "": a random one
    gateways: Mapping[str, RemoteGateway | str] | None = None  # other gateways, whose agents are listed here
    limits: Limits = LIMITS  # on the size, depth and count of input
    quotas: Quotas | None = None  # rates and daily limits
    identity: Authenticator | None = None  # who callers are; None: from ``guard``
    rights: Rights | None = None  # who may use what; None: from ``guard``
    filters: Filters | None = None  # what may pass; None: from ``guard``
    guard: GuardSettings | None = None  # identity, rights, quotas, filters, audit and egress as settings
    secrets: Sequence[str] | None = None  # secrets that seal tokens, newest first; None: generated and kept in ``home``
    security: SecuritySettings | None = None  # the ECMA-434 profile that must hold
    observe: ObserveSettings | None = None  # metrics and traces
    tasks: TaskSettings | None = None
    uploads: UploadLimits | None = None
    doors: Mapping[str, Any] | None = None  # settings by door; ``False`` closes one
    extra_doors: Iterable[MakeDoor] = ()
    beside: Iterable[AbstractAsyncContextManager[object]] = ()  # opened and closed with the gateway, such as an index
    serving: Serving | None = None  # where and how to listen; None: SABIR_HOST and SABIR_PORT, or 127.0.0.1:8080
    public_url: str | None = None  # the address in cards and links; None: from ``serving``
    hosts: Iterable[str] = ()  # further names accepted in the Host header
    origins: Iterable[str] = ()  # web origins that may call
    facts: Mapping[str, Any] | None = None  # what the gateway publishes about itself: policies, contact, ethics
    control_reader: Reader | None = None  # reads control messages; None: the built-in rules
    envelope: EnvelopeOptions | None = None  # how messages of the MassGen design are answered
    infer_control: bool = False  # whether messages that are clearly control are treated as such without a messagetype


class OptionNames(TypedDict, total=False):
    """The same options as keyword arguments of ``Gateway(…, **options)``. A test keeps the two in step."""

    default: str | None
    home: Path | str | None
    store: Store | str | None
    encryption: EncryptionSettings | None
    durability: str
    bus: Bus | str | None
    node: str
    gateways: Mapping[str, RemoteGateway | str] | None
    limits: Limits
    quotas: Quotas | None
    identity: Authenticator | None
    rights: Rights | None
    filters: Filters | None
    guard: GuardSettings | None
    secrets: Sequence[str] | None
    security: SecuritySettings | None
    observe: ObserveSettings | None
    tasks: TaskSettings | None
    uploads: UploadLimits | None
    doors: Mapping[str, Any] | None
    extra_doors: Iterable[MakeDoor]
    beside: Iterable[AbstractAsyncContextManager[object]]
    serving: Serving | None
    public_url: str | None
    hosts: Iterable[str]
    origins: Iterable[str]
    facts: Mapping[str, Any] | None
    control_reader: Reader | None
    envelope: EnvelopeOptions | None
    infer_control: bool


def store_of(options: GatewayOptions, home: Path) -> Store:
    """The configured store, not yet opened.

    Raises:
        ConfigError: the address is invalid, or the store cannot be encrypted.
    """
    given, cipher = options.store, cipher_of(options.encryption)
    if given is not None and not isinstance(given, str):
        if cipher is not None:
            raise ConfigError("encryption: requires the address of a store, not an open one")
        return given
    address = given or f"sqlite:///{home / 'sabir.db'}"
    return open_store(address, durability=options.durability, cipher=cipher)
