"""Configuration: one YAML file, ``SABIR_…`` variables and flags → objects.

Unknown keys are errors that name the nearest known one. A flag beats a variable, a variable beats the file.
``SABIR_PORT=9000`` sets ``port``; two underscores go one level down: ``SABIR_QUOTAS__BURST=5``.
"""

from __future__ import annotations

import difflib
import importlib
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, get_args, get_origin, get_type_hints

import msgspec
import yaml
from msgspec import Meta

from .agent import Agent, FunctionAgent
from .agents.echo import echo
from .agents.llm import LLM, BackendSettings, model_agent
from .agents.sources import SearchSettings, SiteSettings
from .card import Policy
from .errors import BadSetup, MissingExtra
from .guard import AuditSettings, Quotas, Rule
from .guard.outbound import Outbound, OutboundRules
from .guard.outgoing import Service
from .guard.profile import SecuritySettings
from .guard.setup import GuardSettings, IdentitySettings
from .observe import ObserveSettings
from .peers.base import Peer
from .peers.connect import connect
from .peers.gateways import FarGateway
from .serving import Serving, Tls
from .tasks import TaskSettings
from .uploads import UploadLimits
from .wire.rules import Limits

if TYPE_CHECKING:
    from .agents.sites import Sites
    from .gateway import Gateway

DEFAULT_FILE: Final = "sabir.yaml"
PREFIX: Final = "SABIR_"


class AgentSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One agent: exactly one of ``use``, ``peer`` or ``backend`` says what it is."""

    id: str
    use: str | None = None  # a Python object: "module:name"; or the name of a builtin: "echo"
    peer: str | None = None  # the address of a remote agent
    protocol: str | None = None  # what the peer speaks, where the address does not say
    description: str | None = None
    backend: BackendSettings | None = None  # a language model
    system_message: str | None = None
    nlip: dict[str, Any] | None = None
    remembers: bool | None = None


class NlipSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The middleware of the MassGen design, as it writes it."""

    enabled: bool = True
    schema_version: str = "1.0"
    router: dict[str, Any] = {}
    translation: dict[str, Any] = {}
    tokens: dict[str, Any] = {}


class Log(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    level: Annotated[str, Meta(pattern="^(?i:debug|info|warning|error|critical)$")] = "info"
    json: bool = False


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything that can be configured."""

    host: str = "127.0.0.1"
    port: int = 8080
    home: str = ".sabir"
    workers: Annotated[int, Meta(ge=1)] = 1
    store: str | None = None
    bus: str | None = None  # nats://…: many nodes as one gateway
    node: str = ""  # what this one is called among them; made up if empty
    durability: str = "process"
    public_url: str | None = None
    default: str | None = None
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    behind_tls_proxy: bool = False
    graceful_seconds: Annotated[float, Meta(ge=0)] = 30.0
    tls: Tls = Tls()
    limits: Limits = Limits()
    quotas: Quotas = Quotas()
    agents: tuple[AgentSettings, ...] = ()
    gateways: dict[str, str | FarGateway] = {}  # others, whose agents are listed here as our own
    sites: tuple[SiteSettings, ...] | None = None  # None: the sample sites, unless agents are configured
    sample: bool | None = None  # whether the sample sites are here; None: only without sites and agents of one's own
    search: SearchSettings = SearchSettings()
    identity: IdentitySettings = IdentitySettings()
    rights: tuple[Rule, ...] = ()
    filters: tuple[str | dict[str, Any], ...] = ()
    outbound: OutboundRules = OutboundRules()
    services: tuple[Service, ...] = ()
    audit: AuditSettings = AuditSettings()
    observe: ObserveSettings = ObserveSettings()
    tasks: TaskSettings = TaskSettings()
    secrets: tuple[str, ...] = ()
    security: SecuritySettings = SecuritySettings()
    policies: tuple[Policy, ...] = ()  # the gateway's own; required ones are accepted before data flows
    anonymous: bool = True  # whether anonymous mode can be agreed on
    uploads: UploadLimits = UploadLimits()
    doors: dict[str, Any] = {}
    log: Log = Log()
    nlip: NlipSettings = NlipSettings()
    orchestrator: dict[str, Any] = {}


def load(path: Path | str | None = None, *, flags: Mapping[str, Any] | None = None) -> Settings:
    """The settings: defaults, then the file, then the environment, then the flags.

    Without a path, what ``SABIR_CONFIG`` names is read, or ``sabir.yaml`` in the current folder if it is there.

    Raises:
        BadSetup: the file cannot be read, or a key or value is wrong; says which and what was expected.
    """
    values: dict[str, Any] = {}
    path = path if path is not None else os.environ.get("SABIR_CONFIG")
    file = Path(path) if path is not None else Path(DEFAULT_FILE)
    if path is not None or file.exists():
        values = _read(file)
    settings = settings_of(values, str(file))
    for source, more in (
        ("SABIR_… variables", _environment(os.environ)),
        ("flags", {key: value for key, value in (flags or {}).items() if value is not None}),
    ):
        if more:  # each by itself, so that an error names where the value came from
            _merge(values, more)
            settings = settings_of(values, source)
    return settings


def settings_of(values: Mapping[str, Any], source: str = "settings") -> Settings:
    """Typed settings of plain values."""
    try:
        _check_keys(values, Settings, "")
        return msgspec.convert(values, Settings, strict=False)
    except BadSetup as wrong:
        raise BadSetup(f"{source}: {wrong}") from None
    except msgspec.ValidationError as wrong:
        raise BadSetup(f"{source}: {_readable(str(wrong))}") from None


def gateway_of(settings: Settings) -> Gateway:
    """The gateway that the settings describe."""
    home = Path(settings.home)
    agents = [agent_of(each) for each in settings.agents]
    sites = sites_of(settings, agents)
    if sites is not None:
        agents += sites.agents
    if not any(agent.card.name == echo.card.name for agent in agents):
        agents.append(echo)  # always there: scripts and newcomers rely on it
    gateway: type[Gateway] = importlib.import_module("sabir.gateway").Gateway  # it brings the server with it
    return gateway(
        *agents,
        default=settings.default,
        home=home,
        store=settings.store,
        bus=settings.bus,
        node=settings.node,
        gateways=settings.gateways,
        durability=settings.durability,
        limits=settings.limits,
        guard=guard_of(settings),
        observe=settings.observe,
        tasks=settings.tasks,
        secrets=settings.secrets,
        doors=settings.doors,
        serving=serving_of(settings),
        public_url=settings.public_url,
        hosts=settings.hosts,
        origins=settings.origins,
        beside=[*(each for each in agents if isinstance(each, Peer | LLM)), *((sites,) if sites is not None else ())],
        security=settings.security,
        uploads=settings.uploads,
        facts={"policies": settings.policies, "anonymous": settings.anonymous},
    )


def has_sites(settings: Settings) -> bool:
    """Whether sites are wanted here: the sample too, but not beside agents of one's own."""
    if settings.sample:
        return True
    if settings.sites is None:
        return not settings.agents or settings.search != SearchSettings()
    return settings.sites != ()


def sites_of(settings: Settings, agents: Sequence[Agent] = ()) -> Sites | None:
    """The sites that are searched here; none if none are wanted, or if the search extra is not installed.

    Raises:
        MissingExtra: sites are configured, and the extra is not installed.
        BadSetup: a site's model is no agent.
    """
    if not has_sites(settings):
        return None
    wanted = settings.sites
    searched = settings.search != SearchSettings()
    try:
        sites = importlib.import_module("sabir.agents.sites")
    except ModuleNotFoundError as missing:
        if wanted is not None or searched:
            raise MissingExtra("a searchable site", "search") from missing
        return None
    made: Sites = sites.Sites(
        Path(settings.home),
        () if wanted is None and settings.agents else wanted,
        Outbound(settings.outbound),
        search=settings.search,
        agents={agent.card.name: agent for agent in agents},
        sample=settings.sample,
    )
    return made


def guard_of(settings: Settings) -> GuardSettings:
    return GuardSettings(
        settings.identity,
        settings.rights,
        settings.quotas,
        settings.filters,
        settings.outbound,
        settings.services,
        settings.audit,
    )


def serving_of(settings: Settings) -> Serving:
    return Serving(
        host=settings.host,
        port=settings.port,
        workers=settings.workers,
        tls=settings.tls,
        behind_tls_proxy=settings.behind_tls_proxy,
        home=settings.home,
        max_message=settings.limits.body,
        graceful_seconds=settings.graceful_seconds,
    )


BUILTIN: Final[Mapping[str, Agent]] = {"echo": echo}


def agent_of(settings: AgentSettings) -> Agent:
    """The agent that one entry describes.

    Raises:
        BadSetup: it describes none, or what it names cannot be had.
    """
    kinds = [kind for kind in ("use", "peer", "backend") if getattr(settings, kind) is not None]
    if len(kinds) != 1:
        raise BadSetup(f"agents: {settings.id!r} needs exactly one of use, peer or backend")
    if settings.backend is not None:
        words = {"system_message": settings.system_message or "", "description": settings.description or ""}
        return model_agent(settings.id, settings.backend, **words)
    if settings.peer is not None:
        return connect(settings.peer, protocol=settings.protocol, name=settings.id)
    found = BUILTIN.get(settings.use or "") or _imported(settings)
    changes = {"name": settings.id, "description": settings.description, "remembers": settings.remembers}
    try:
        card = msgspec.structs.replace(found.card, **{k: v for k, v in changes.items() if v is not None})
    except ValueError as wrong:
        raise BadSetup(f"agents: {settings.id!r}: {wrong}") from None
    if card == found.card:
        return found
    return FunctionAgent(found.function if isinstance(found, FunctionAgent) else found, card)


def _imported(settings: AgentSettings) -> Agent:
    place, _, name = (settings.use or "").partition(":")
    if not name:
        known = ", ".join(BUILTIN)
        raise BadSetup(f"agents: {settings.id!r}: use: expected module:name or one of {known}, not {settings.use!r}")
    sys.path.insert(0, "")
    try:
        made = getattr(importlib.import_module(place), name)
    except (ImportError, AttributeError) as wrong:
        raise BadSetup(f"agents: {settings.id!r}: cannot import {settings.use}: {wrong}") from wrong
    finally:
        sys.path.remove("")
    if not isinstance(made, Agent):
        raise BadSetup(f"agents: {settings.id!r}: {settings.use} is not an agent; decorate it with @agent")
    return made


def schema() -> dict[str, Any]:
    """The JSON Schema of the configuration file, for editors."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **msgspec.json.schema(Settings)}


# -- reading ------------------------------------------------------------------------------------


def _read(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as wrong:
        raise BadSetup(f"{path}: {wrong.strerror or wrong}") from wrong
    try:
        values = yaml.safe_load(text)
    except yaml.YAMLError as wrong:
        mark = getattr(wrong, "problem_mark", None)
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark is not None else ""
        raise BadSetup(f"{path}: {where}{getattr(wrong, 'problem', None) or 'not YAML'}") from wrong
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise BadSetup(f"{path}: expected keys and values, such as 'port: 8080'")
    return values


def _environment(environ: Mapping[str, str]) -> dict[str, Any]:
    """``SABIR_A__B=c`` as ``{"a": {"b": "c"}}``; values are read as YAML, so numbers and lists work."""
    values: dict[str, Any] = {}
    for name, text in environ.items():
        if not name.startswith(PREFIX) or name.startswith(NOT_SETTINGS):
            continue
        *steps, last = name.removeprefix(PREFIX).lower().split("__")
        place = values
        for step in steps:
            place = place.setdefault(step, {})
            if not isinstance(place, dict):
                raise BadSetup(f"{name}: another variable gives {step} a value of its own")
        try:
            place[last] = yaml.safe_load(text) if text else None
        except yaml.YAMLError:
            place[last] = text
    return values


# Read by commands, and by our own tests, and not part of the file.
NOT_SETTINGS: Final = ("SABIR_TOKEN", "SABIR_CONFIG", "SABIR_TEST_", "SABIR_COVERAGE", "SABIR_CRANFIELD")


def _merge(values: dict[str, Any], more: Mapping[str, Any]) -> None:
    for key, value in more.items():
        if isinstance(value, Mapping) and isinstance(values.get(key), dict):
            _merge(values[key], value)
        else:
            values[key] = dict(value) if isinstance(value, Mapping) else value


def _check_keys(values: Mapping[str, Any], kind: type, place: str) -> None:
    """Every key is a known one, at every level that has a type.

    Raises:
        BadSetup: one is not; names the nearest that is.
    """
    hints = get_type_hints(kind)
    known = {each.encode_name: hints[each.name] for each in msgspec.structs.fields(kind)}
    for key, value in values.items():
        name = f"{place}{key}"
        if key not in known:
            near = difflib.get_close_matches(str(key), known, n=1, cutoff=0.5)
            hint = f"did you mean {place}{near[0]}?" if near else f"known here are {', '.join(sorted(known))}"
            raise BadSetup(f"unknown key {name}: {hint}")
        inner = _struct_in(known[key])
        if inner is None:
            continue
        if isinstance(value, Mapping) and get_origin(known[key]) is dict:  # by names that the file chooses
            for each, item in value.items():
                if isinstance(item, Mapping):
                    _check_keys(item, inner, f"{name}.{each}.")
        elif isinstance(value, Mapping):
            _check_keys(value, inner, f"{name}.")
        elif isinstance(value, list | tuple):
            for index, item in enumerate(value):
                if isinstance(item, Mapping):
                    _check_keys(item, inner, f"{name}[{index}].")


def _struct_in(hint: Any) -> type | None:
    if isinstance(hint, type) and get_origin(hint) is None:
        return hint if issubclass(hint, msgspec.Struct) else None
    return next((found for arg in get_args(hint) if (found := _struct_in(arg)) is not None), None)


_PLACE = re.compile(r" - at `\$\.?([^`]*)`$")


def _readable(text: str) -> str:
    """msgspec's words with the place in front: ``port: expected `int`, got `str```."""
    match = _PLACE.search(text)
    if match is None:
        return text
    said = text[: match.start()]
    return f"{match.group(1)}: {said[0].lower()}{said[1:]}"


Loader = Callable[[], Settings]
