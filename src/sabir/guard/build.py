"""Builds the guard that the configuration file describes."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from sabir import plugins
from sabir.errors import ConfigError
from sabir.stores.base import Store

from . import Guard
from .audit.log import AuditBuffer, AuditSettings, AuditThrottle
from .egress.addresses import GuardedClient, Outbound, OutboundRules
from .egress.credentials import OutgoingCredentials, Service
from .filters.base import Filter, Filters
from .filters.html import Html
from .filters.injection import ACTIONS, PromptInjection
from .filters.secrets import Inside, PersonalData, Secrets
from .identity.api_keys import ApiKeys, KeyVerifier
from .identity.callers import Authenticator, CertificateVerifier, Fetches, Verifier
from .identity.issuer import Issuer, SubjectTokens
from .identity.oauth import challenge, protected_resource
from .identity.passes import Passes
from .quotas.daily import DailyUsage
from .quotas.rates import Quotas, Rates
from .rights import Rights, Rule
from .seal import Seal


class IdentitySettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which callers are known, and how they authenticate."""

    anonymous: bool = True  # False: requests without credentials are rejected
    keys: bool = True  # API keys: sabir keys add
    keys_seconds: float = 5.0  # how long a key that was revoked on another node may still work
    issuers: tuple[Issuer, ...] = ()  # authorization servers whose tokens are accepted
    certificates: dict[str, tuple[str, ...]] | None = None  # subjects of client certificates, and their roles
    pass_seconds: float = 600.0  # lifetime of the authentication tokens that we issue
    scopes: tuple[str, ...] = ()  # published in the protected-resource metadata


class GuardSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The settings of the guard; each is a key of the configuration file."""

    identity: IdentitySettings = IdentitySettings()
    rights: tuple[Rule, ...] = ()
    quotas: Quotas = Quotas()
    filters: tuple[str | dict[str, Any], ...] = ()
    outbound: OutboundRules = OutboundRules()
    services: tuple[Service, ...] = ()
    audit: AuditSettings = AuditSettings()


@dataclass(frozen=True, slots=True)
class GuardServices:
    """The guard and the services that belong to it."""

    guard: Guard
    keys: ApiKeys
    passes: Passes
    outbound: Outbound  # for addresses from outside: private ones are refused
    fetcher: GuardedClient
    outgoing: OutgoingCredentials
    trusted: GuardedClient  # for addresses that the operator configured: issuers and token endpoints
    identity: IdentitySettings  # as configured, for the metadata that doors publish
    verifiers: tuple[Verifier, ...] = ()  # as configured

    def metadata(self, resource: str) -> dict[str, Any] | None:
        """The RFC 9728 document of a resource of this gateway; None if no authorization server is configured."""
        issuers = self.identity.issuers
        if not issuers:
            return None
        bound = all(issuer.dpop for issuer in issuers)
        return protected_resource(resource, [i.issuer for i in issuers], scopes=self.identity.scopes, dpop=bound)

    async def close(self) -> None:
        for verifier in self.verifiers:
            if isinstance(verifier, Fetches):
                await verifier.close()
        await self.fetcher.close()
        await self.trusted.close()


def build_guard(
    settings: GuardSettings, store: Store, seal: Seal, *, public_url: str = "", behind_proxy: bool = False
) -> GuardServices:
    """Build the guard.

    Raises:
        ConfigError: a setting is invalid; names it.
    """
    outbound = Outbound(settings.outbound)
    trusted = GuardedClient(Outbound(OutboundRules(private=True)), max_bytes=1024 * 1024, seconds=10.0)
    keys, subjects = ApiKeys(store), SubjectTokens()
    known = KeyVerifier(keys, seconds=settings.identity.keys_seconds) if settings.identity.keys else None
    passes = Passes(seal, seconds=settings.identity.pass_seconds, keys=known)
    answer = challenge(f"{public_url}/nlip" if settings.identity.issuers and public_url else None)
    verifiers = _verifiers(settings.identity, store, known, passes, trusted, subjects, answer, public_url)
    # Without configuration a gateway is open, so a token meant for a proxy in front of it does no harm.
    strict = bool(settings.rights or settings.identity != IdentitySettings())
    identity = Authenticator(verifiers, anonymous=settings.identity.anonymous, strict=strict)
    guard = Guard(
        seal,
        settings.quotas,
        identity,
        Rights(settings.rights, answer),
        filters_of(settings.filters),
        DailyUsage(settings.quotas, store),
        AuditThrottle(settings.audit.refusals_per_minute),
        AuditBuffer(store),
        Rates(settings.quotas, behind_proxy=behind_proxy),
    )
    outgoing = OutgoingCredentials(settings.services, trusted, subjects)
    return GuardServices(
        guard, keys, passes, outbound, GuardedClient(outbound), outgoing, trusted, settings.identity, tuple(verifiers)
    )


def _verifiers(
    settings: IdentitySettings,
    store: Store,
    keys: KeyVerifier | None,
    passes: Passes,
    fetcher: GuardedClient,
    subjects: SubjectTokens,
    text: str,
    public_url: str,
) -> list[Verifier]:
    verifiers: list[Verifier] = [passes]
    if keys is not None:
        verifiers.append(keys)
    if settings.issuers:
        jwt = importlib.import_module("sabir.guard.identity.jwt")
        dpop = importlib.import_module("sabir.guard.identity.dpop")
        proofs = dpop.Dpop(store, public_url=public_url)
        for issuer in settings.issuers:
            source = jwt.KeySource(issuer, fetcher)
            verifiers.append(jwt.JwtVerifier(issuer, source, challenge=text, dpop=proofs, subjects=subjects))
    if settings.certificates is not None:
        verifiers.append(CertificateVerifier(settings.certificates))
    return verifiers


# The names of filters in the configuration file. ``{name: options}`` sets options.
FILTERS: Final[Mapping[str, Callable[..., Filter]]] = {
    "prompt-injection": PromptInjection,
    "secrets": Secrets,
    "pii": PersonalData,
    "inside": Inside,
    "html": Html,
}


def _texts(least: int) -> Callable[[Any], bool]:
    return lambda value: (
        isinstance(value, list | tuple)
        and bool(value)
        and all(isinstance(item, str) and len(item) >= least for item in value)
    )


# Known options; any other would be accepted and filter nothing.
OPTIONS: Final[Mapping[str, tuple[Callable[[Any], bool], str]]] = {
    "action": (lambda value: value in ACTIONS, f"one of {', '.join(ACTIONS)}"),
    "replies": (lambda value: isinstance(value, bool), "true or false"),
    "kinds": (
        lambda value: _texts(1)(value) and set(value) <= set(PersonalData.SHAPES),
        f"a list of some of {', '.join(PersonalData.SHAPES)}",
    ),
    "markers": (_texts(6), "a list of texts of 6 characters or more"),
    "protected": (_texts(Inside.LEAST), f"a list of texts of {Inside.LEAST} characters or more"),
}


def filters_of(written: Sequence[str | Mapping[str, Any]]) -> Filters:
    """The filters of the configuration: names, or names with options.

    Raises:
        ConfigError: unknown filter or option.
    """
    made: list[Filter] = []
    for number, entry in enumerate(written):
        pairs = [(entry, {})] if isinstance(entry, str) else list(entry.items())
        for name, options in pairs:
            made.append(_filter(f"filters[{number}]", name, options or {}))
    return Filters(made)


def _filter(place: str, name: str, options: Any) -> Filter:
    make = FILTERS.get(name) or plugins.find(plugins.FILTERS, name)
    if make is None:
        known_names = ", ".join([*FILTERS, *plugins.names(plugins.FILTERS)])
        raise ConfigError(f"{place}: there is no filter {name!r}; choose from {known_names}")
    known = list(inspect.signature(make).parameters)
    if not isinstance(options, Mapping):
        raise ConfigError(f"{place}.{name}: expected options such as {{{known[0] if known else 'name'}: …}}")
    for option, value in options.items():
        if option not in known:
            hint = f"choose from {', '.join(known)}" if known else "this filter has no options"
            raise ConfigError(f"unknown key {place}.{name}.{option}: {hint}")
        if name in FILTERS and not OPTIONS[option][0](value):
            raise ConfigError(f"{place}.{name}.{option}: expected {OPTIONS[option][1]}")
    made: Filter = make(**options)
    return made
