"""Configuration: one YAML file, ``SABIR_…`` variables and flags → objects.

Unknown keys are errors that name the nearest known one. A flag beats a variable, a variable beats the file.
``SABIR_PORT=9000`` sets ``port``; two underscores go one level down: ``SABIR_QUOTAS__BURST=5``.
"""

from __future__ import annotations

import difflib
import importlib
import logging
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
from .expectations import LEVELS, check, check_rights, check_start
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

logger = logging.getLogger("sabir")

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
    level: Annotated[str, Meta(extra_json_schema={"pattern": f"^(?i:{'|'.join(LEVELS)})$"})] = "info"
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
    secrets: tuple[str, ...] | None = None  # newest first; may be written env:NAME. None: one is made and kept in home
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
    file = file_of(path)
    values = _read(file) if file is not None else {}
    settings = settings_of(values, str(file))
    if more := _environment(os.environ):  # each by itself, so that an error names where the value came from
        _merge(values, more)
        settings = settings_of(values, _variable)
    if more := {key: value for key, value in (flags or {}).items() if value is not None}:
        _merge(values, more)
        settings = settings_of(values, "flags")
    return settings


def file_of(path: Path | str | None = None) -> Path | None:
    """The file that is read: the one that is given, or what ``SABIR_CONFIG`` names, or ``sabir.yaml`` if it is here."""
    path = path if path is not None else os.environ.get("SABIR_CONFIG")
    if path is not None:
        return Path(path)
    return Path(DEFAULT_FILE) if Path(DEFAULT_FILE).exists() else None


def settings_of(values: Mapping[str, Any], source: str | Callable[[str], str] = "settings") -> Settings:
    """Typed settings of plain values.

    Raises:
        BadSetup: a key or a value is wrong; says where they came from, which it is and what was expected.
    """
    try:
        return _typed(values)
    except BadSetup as wrong:
        told = source if isinstance(source, str) else source(_place_in(str(wrong)))
        raise BadSetup(f"{told}: {wrong}") from None


def _typed(values: Mapping[str, Any]) -> Settings:
    _check_keys(values, Settings, "")
    try:
        settings = msgspec.convert(values, Settings, strict=False)
    except msgspec.ValidationError as wrong:
        raise BadSetup(_readable(str(wrong), values)) from None
    check(settings)
    return settings


def gateway_of(settings: Settings, file: Path | None = None) -> Gateway:
    """The gateway that the settings describe. Agents that it uses are looked for in the folder of ``file``, too.

    Raises:
        BadSetup: there is no such gateway; says which setting does not fit.
    """
    check_start(settings, os.environ)
    home = Path(settings.home)
    agents = [agent_of(each, file.parent if file is not None else None) for each in settings.agents]
    sites = sites_of(settings, agents)
    if sites is not None:
        agents += sites.agents
    if not any(agent.card.name == echo.card.name for agent in agents):
        agents.append(echo)  # always there: scripts and newcomers rely on it
    module = importlib.import_module("sabir.gateway")  # it brings the server with it
    gateway: Gateway = module.Gateway(
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
        doors={name: given for name, given in settings.doors.items() if given is not True},  # as they are anyway
        serving=serving_of(settings),
        public_url=settings.public_url,
        hosts=settings.hosts,
        origins=settings.origins,
        beside=[*(each for each in agents if isinstance(each, Peer | LLM)), *((sites,) if sites is not None else ())],
        security=settings.security,
        uploads=settings.uploads,
        facts={"policies": settings.policies, "anonymous": settings.anonymous},
    )
    optional = (name.replace("_", "-") for name, _, _ in module.OPTIONAL_DOORS)
    doors = {*settings.doors, *optional, *(door.name for door in gateway.doors)}
    elsewhere = settings.bus is not None or bool(settings.gateways)
    for each in check_rights(settings.rights, doors, gateway.agents, elsewhere=elsewhere):
        logger.warning("%s", each)
    return gateway


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


def agent_of(settings: AgentSettings, beside: Path | None = None) -> Agent:
    """The agent that one entry describes; a module that it uses is looked for in the folder ``beside``, first.

    Raises:
        BadSetup: it describes none, or what it names cannot be had.
    """
    kinds = [kind for kind in ("use", "peer", "backend") if getattr(settings, kind) is not None]
    if len(kinds) != 1:
        raise BadSetup(f"agents: {settings.id!r} needs exactly one of use, peer or backend")
    if settings.backend is not None:
        words = {"system_message": settings.system_message or "", "description": settings.description or ""}
        model = model_agent(settings.id, settings.backend, **words)
        if settings.remembers is not None:
            model.card = msgspec.structs.replace(model.card, remembers=settings.remembers)
        return model
    if settings.peer is not None:
        return connect(settings.peer, protocol=settings.protocol, name=settings.id)
    found = BUILTIN.get(settings.use or "") or _imported(settings, beside)
    changes = {"name": settings.id, "description": settings.description, "remembers": settings.remembers}
    try:
        card = msgspec.structs.replace(found.card, **{k: v for k, v in changes.items() if v is not None})
    except ValueError as wrong:
        raise BadSetup(f"agents: {settings.id!r}: {wrong}") from None
    if card == found.card:
        return found
    return FunctionAgent(found.function if isinstance(found, FunctionAgent) else found, card)


def _imported(settings: AgentSettings, beside: Path | None) -> Agent:
    place, _, name = (settings.use or "").partition(":")
    if not name:
        known = ", ".join(BUILTIN)
        raise BadSetup(f"agents: {settings.id!r}: use: expected module:name or one of {known}, not {settings.use!r}")
    folders = [str(each) for each in dict.fromkeys([(beside or Path()).resolve(), Path.cwd()])]
    before = sys.path[:]
    sys.path[:0] = folders
    try:
        made = getattr(importlib.import_module(place), name)
    except (ImportError, AttributeError) as wrong:
        absent = isinstance(wrong, ModuleNotFoundError) and wrong.name == place.partition(".")[0]
        looked = f"; looked in {', in '.join(folders)} and among what is installed" if absent else ""
        raise BadSetup(f"agents: {settings.id!r}: cannot import {settings.use}: {wrong}{looked}") from wrong
    finally:
        sys.path[:] = before
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
    except UnicodeDecodeError as wrong:
        raise BadSetup(f"{path}: expected UTF-8; byte {wrong.start} is not") from None
    try:
        values = yaml.load(text, _Once)
    except yaml.YAMLError as wrong:
        mark = getattr(wrong, "problem_mark", None)
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark is not None else ""
        raise BadSetup(f"{path}: {where}{getattr(wrong, 'problem', None) or 'not YAML'}") from wrong
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise BadSetup(f"{path}: expected keys and values, such as 'port: 8080'")
    return values


class _Once(yaml.SafeLoader):
    """As YAML is read, but a key stands once: of two, the first would be lost without a word."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value != "<<":
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"the key {key.value!r} stands here a second time", key.start_mark
                    )
                seen.add(key.value)
        return super().construct_mapping(node, deep)


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
        if inner is None or (isinstance(value, Mapping) and _is_list(known[key])):  # which is told by its type
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


def _is_list(hint: Any) -> bool:
    return any(get_origin(each) is tuple for each in (hint, *get_args(hint)))


def _struct_in(hint: Any) -> type | None:
    if isinstance(hint, type) and get_origin(hint) is None:
        return hint if issubclass(hint, msgspec.Struct) else None
    return next((found for arg in get_args(hint) if (found := _struct_in(arg)) is not None), None)


_PLACE: Final = re.compile(r" - at `\$\.?([^`]*)`$")
_INNER: Final = re.compile(r"([a-z_]+): (?=expected )")


def _readable(text: str, values: Mapping[str, Any]) -> str:
    """msgspec's words with the place in front: ``port: expected `int`, got `str```."""
    match = _PLACE.search(text)
    if match is None:
        return text
    place, said = match.group(1), text[: match.start()]
    said = said.removeprefix(f"{re.split(r'[.[]', place)[0]}: ")  # what checks itself may say where it stands, too
    if inner := _INNER.match(said):
        place, said = f"{place}.{inner.group(1)}", said[inner.end() :]
    if said.startswith("Invalid enum value"):
        said = f"expected {_choices(place)}, not {said.removeprefix('Invalid enum value ')}"
    if said.startswith("Expected `str`, got `") and said.endswith(("`int`", "`float`", "`bool`")):
        said += "; write it in quotes"
    return f"{_exact(place, text, values)}: {said[0].lower()}{said[1:]}"


def _exact(place: str, text: str, values: Mapping[str, Any]) -> str:
    """The place with the name that the file chose for it; msgspec writes ``gateways[...].url``."""
    before, dots, after = place.partition("[...]")
    if not dots:
        return place
    *way, last = before.split(".")
    inside: Any = values
    for step in way:
        inside = inside[step]
    for name in inside[last]:
        less: dict[str, Any] = {last: {name: inside[last][name]}}
        for step in reversed(way):
            less = {step: less}
        try:
            msgspec.convert(less, Settings, strict=False)
        except msgspec.ValidationError as wrong:
            if str(wrong) == text:
                return f"{before}.{name}{after}"
    return place


def _choices(place: str) -> str:
    """What may stand at a place where only some words may."""
    hint: Any = Settings
    for step in re.findall(r"\w+", place):
        kind = _struct_in(hint)
        if kind is not None:
            hint = get_type_hints(kind, include_extras=True)[step]
    *most, last = (str(each) for each in get_args(hint))
    return f"{', '.join(most)} or {last}"


_FIRST: Final = re.compile(r"(?:unknown key )?([\w.\[\]-]+): ")


def _place_in(said: str) -> str:
    match = _FIRST.match(said)
    return match.group(1) if match else ""


def _variable(place: str) -> str:
    """The variables that may have brought what is wrong at a place."""
    found = []
    for name in os.environ:
        if name.startswith(PREFIX) and not name.startswith(NOT_SETTINGS):
            path = name.removeprefix(PREFIX).lower().replace("__", ".")
            if re.match(rf"{re.escape(path)}(?![\w-])", place) or path.startswith(f"{place}."):
                found.append(name)
    return ", ".join(sorted(found)) or "SABIR_… variables"


Loader = Callable[[], Settings]
