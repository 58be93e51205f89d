"""Builds what the settings describe: the gateway, its agents and its sites."""

from __future__ import annotations

import importlib
import logging
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from sabir.agent import Agent
from sabir.agents.echo import echo
from sabir.agents.site.settings import SearchSettings
from sabir.errors import ConfigError, MissingExtra
from sabir.guard import Quotas
from sabir.guard.build import GuardSettings
from sabir.guard.egress.addresses import Outbound
from sabir.protocols import registry
from sabir.protocols.nlip.wire.envelope import EnvelopeOptions
from sabir.server.settings import Serving
from sabir.tools.settings import NlipSettings

from .agents import ORCHESTRATOR, agent_of, build_agents
from .load import PREFIX
from .settings import Settings
from .validate import check_rights, check_start

if TYPE_CHECKING:
    from sabir.agents.site.sites import Sites
    from sabir.gateway.gateway import Gateway

__all__ = ["agent_of", "gateway_of", "guard_of", "has_sites", "serving_of", "sites_of"]

logger = logging.getLogger("sabir")

_KEYS_WITH_FLAGS: Final = frozenset(
    ("host", "port", "socket", "workers", "home", "store", "durability", "tls", "behind_tls_proxy", "log")
)


def gateway_of(settings: Settings, file: Path | None = None, own: Sequence[Agent] = ()) -> Gateway:
    """The gateway that the settings describe. Modules of agents are also looked up in the folder of ``file``; agents in
    ``own`` come first.

    Raises:
        ConfigError: a setting is invalid; names it.
    """
    with _naming(None if own else file):  # with ``own``, the file is the Python file of the agents
        return _gateway_of(settings, file, own)


def _gateway_of(settings: Settings, file: Path | None, own: Sequence[Agent]) -> Gateway:
    check_start(settings, os.environ)
    if file is not None and settings.sample is None:
        settings = msgspec.structs.replace(settings, sample=False)  # the demo is for users without a configuration file
    home = Path(settings.home)
    built = build_agents(settings, file.parent if file is not None else None)
    agents = [*own, *built.agents]
    sites = sites_of(settings, agents)
    if sites is not None:
        agents += sites.agents
    if not (own or settings.agents or settings.orchestrator or settings.sites):
        agents.append(echo)  # nothing is configured yet: somebody to talk to
    module = importlib.import_module("sabir.gateway.gateway")  # it imports the server
    gateway: Gateway = module.Gateway(
        *agents,
        default=settings.default or (ORCHESTRATOR if settings.orchestrator is not None else None),
        home=home,
        store=settings.store,
        bus=settings.bus,
        node=settings.node,
        gateways=settings.gateways,
        encryption=settings.encryption,
        durability=settings.durability,
        limits=settings.limits,
        guard=guard_of(settings),
        observe=settings.observe,
        tasks=settings.tasks,
        secrets=settings.secrets,
        doors={name: given for name, given in settings.doors.items() if given is not True},  # True is the default
        serving=serving_of(settings),
        public_url=settings.public_url,
        hosts=settings.hosts,
        origins=settings.origins,
        beside=[*built.beside, *((sites,) if sites is not None else ())],
        security=settings.security,
        uploads=settings.uploads,
        facts={"policies": settings.policies, "anonymous": settings.anonymous},
        infer_control=settings.infer_control,
        envelope=envelope_of(settings),
    )
    if settings.encryption is not None and settings.doors.get("upload") is not False:
        place = home / "uploads"
        logger.warning("encryption: uploaded files in %s are not encrypted; keep them on an encrypted disk", place)
    doors = {*settings.doors, *registry.doors(), *(door.name for door in gateway.doors)}
    elsewhere = settings.bus is not None or bool(settings.gateways)
    for problem in check_rights(settings.rights, doors, gateway.agents, elsewhere=elsewhere):
        logger.warning("%s", problem)
    if file is not None and not own and is_empty(settings, sites):
        logger.warning("%s: no agents and no sites; set agents: or sites:, or sample: true for the demo", file)
    return gateway


@contextmanager
def _naming(file: Path | None) -> Iterator[None]:
    """Begin an error about a setting with the configuration file, unless a variable or a flag may have set it.

    Raises:
        ConfigError: the block raised one.
    """
    try:
        yield
    except MissingExtra:
        raise  # about the installation, not the file
    except ConfigError as exc:
        if file is None or _may_be_from_elsewhere(str(exc)):
            raise
        raise ConfigError(f"{file}: {exc}") from exc.__cause__


def _may_be_from_elsewhere(problem: str) -> bool:
    key = re.sub(r"^unknown key ", "", problem)
    key = re.split(r"\W", key, maxsplit=1)[0]
    return key in _KEYS_WITH_FLAGS or any(name.startswith(f"{PREFIX}{key.upper()}") for name in os.environ)


def has_sites(settings: Settings) -> bool:
    """Whether sites are served: configured ones, or the sample if no agents are configured."""
    if settings.sample:
        return True
    if settings.sites is None:
        return not settings.agents or settings.search != SearchSettings()
    return settings.sites != ()


def is_empty(settings: Settings, sites: Sites | None) -> bool:
    """Whether a file configures nothing to serve. ``sites: []`` and a previously ingested site count as something."""
    if settings.agents or settings.orchestrator is not None or settings.gateways or settings.sites is not None:
        return False
    if settings.search != SearchSettings():
        return False  # the index may be shared and filled by others
    return sites is None or len(sites.agents) == 1  # the one that searches all sites


def sites_of(settings: Settings, agents: Sequence[Agent] = ()) -> Sites | None:
    """The sites that are searched here; None if none are configured, or if the search extra is not installed.

    Raises:
        MissingExtra: sites are configured but the extra is not installed.
        ConfigError: a site's model is not an agent.
    """
    if not has_sites(settings):
        return None
    wanted = settings.sites
    searched = settings.search != SearchSettings()
    try:
        sites = importlib.import_module("sabir.agents.site.sites")
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
        quotas_of(settings),
        settings.filters,
        settings.outbound,
        settings.services,
        settings.audit,
    )


def envelope_of(settings: Settings) -> EnvelopeOptions:
    """The envelope options: the keys of ``nlip``, and which agents accept envelopes (MW-53, MW-54, MW-56, MW-59)."""
    nlip, orchestrator = settings.nlip or NlipSettings(), settings.orchestrator
    enabled = nlip.enabled
    if orchestrator is not None and (orchestrator.nlip.enabled or orchestrator.enable_nlip):
        enabled = True  # for all
    agents = {}
    for entry in settings.agents:
        own = entry.nlip.enabled if entry.nlip is not None else None
        own = own if entry.enable_nlip is None else entry.enable_nlip
        if own is not None:
            agents[entry.id] = own
    return EnvelopeOptions(
        enabled=enabled,
        agents=agents,
        schema_version=nlip.schema_version,
        sessions=nlip.router.enable_state_management,
        begins_sessions=nlip.tokens.auto_generate_sessions,
        counts_turns=nlip.tokens.track_conversation_turns,
        keeps_context_tokens=nlip.tokens.persist_context_tokens,
    )


def quotas_of(settings: Settings) -> Quotas:
    """The quotas; ``nlip.router.session_timeout_hours`` shortens the lifetime of an idle conversation (MW-54)."""
    hours = settings.nlip.router.session_timeout_hours if settings.nlip is not None else None
    if hours is None:
        return settings.quotas
    seconds = hours * 3600
    return msgspec.structs.replace(
        settings.quotas,
        conversation_seconds=min(settings.quotas.conversation_seconds, seconds),
        anonymous_seconds=min(settings.quotas.anonymous_seconds, seconds),
    )


def serving_of(settings: Settings) -> Serving:
    return Serving(
        host=settings.host,
        port=settings.port,
        workers=settings.workers,
        socket=settings.socket,
        tls=settings.tls,
        behind_tls_proxy=settings.behind_tls_proxy,
        home=settings.home,
        max_message=settings.limits.body,
        graceful_seconds=settings.graceful_seconds,
        access_log=settings.log.access,
    )
