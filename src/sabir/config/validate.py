"""Checks on settings beyond their types: rejects values that would be accepted and have no effect.

One table: the path of a value in the file, which values are valid, and the error text. ``[]`` stands for each item of a
list, ``{}`` for each value of a mapping. Rules that involve several values follow below.
"""

from __future__ import annotations

import fnmatch
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from ipaddress import ip_network
from typing import Any, Final, TypeAlias
from urllib.parse import SplitResult, urlsplit

import msgspec

from sabir.errors import ConfigError, suggestion
from sabir.guard.quotas.rates import is_loopback
from sabir.guard.seal import HOW_TO_MAKE_ONE, LEAST_SECRET
from sabir.stores.open import has_ports

Test: TypeAlias = Callable[[Any], bool]
Expected: TypeAlias = tuple[str, Test, str]  # path, test for valid values, description

POLICIES: Final = ("privacy", "retention", "regulatory", "attributes", "ethics")
LEVELS: Final = ("debug", "info", "warning", "error", "critical")
_AGENT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_HOST: Final = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9._-]{0,251}[A-Za-z0-9_])?\.?")
_HEADER: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}")


def _positive(value: float) -> bool:
    return value > 0


def _not_negative(value: float) -> bool:
    return value >= 0


def _share(value: float) -> bool:
    return 0 <= value <= 1


def _said(value: str) -> bool:
    return bool(value.strip())


def one_of(*choices: object) -> tuple[Test, str]:
    """One of a few values, with the error text."""
    *others, last = (str(choice) for choice in choices)
    return lambda value: value in choices, f"{', '.join(others)} or {last}"


def _split(text: str) -> SplitResult | None:
    """An HTTP address without credentials; None if it is invalid."""
    try:
        parts = urlsplit(text)
        there = parts.hostname is not None and (parts.port or 1) > 0
    except ValueError:
        return None
    plain = text.isprintable() and " " not in text and "@" not in parts.netloc
    return parts if there and plain and parts.scheme in ("http", "https") else None


def is_url(text: str) -> bool:
    return _split(text) is not None


def is_base(text: str) -> bool:
    parts = _split(text)
    return parts is not None and not parts.query and not parts.fragment


def is_trusted(text: str) -> bool:
    """Whether content read from there cannot be modified in transit: TLS, or loopback."""
    parts = _split(text)
    return parts is not None and (parts.scheme == "https" or is_here(parts.hostname or ""))


def is_here(host: str) -> bool:
    return host == "localhost" or is_loopback(host)


def is_host(text: str) -> bool:
    """Whether it is a host name or address without scheme, port or path."""
    if text.startswith("[") and text.endswith("]"):
        return _network(text[1:-1]) and "/" not in text
    return _HOST.fullmatch(text) is not None


def is_place(text: str) -> bool:
    """Whether it is a host, ``host:port``, an address or a network."""
    host, colon, port = text.strip().rpartition(":")
    return _network(text.strip()) or is_host(text.strip()) or (bool(colon) and is_host(host) and _port(port))


def _network(text: str) -> bool:
    try:
        ip_network(text, strict=False)
    except ValueError:
        return False
    return True


def _port(text: str) -> bool:
    return text.isascii() and text.isdigit() and 0 < int(text) <= 65535


def _server(address: str, *schemes: str) -> bool:
    scheme, _, rest = address.partition("://")
    return scheme in schemes and bool(rest.strip("/")) and has_ports(address)


def _postgres(address: str) -> bool:
    return address.startswith(("postgresql://", "postgres://")) and has_ports(address)  # PGHOST may supply the rest


def _store(address: str) -> bool:
    return address.partition(":")[0] in ("memory", "sqlite") or _postgres(address)


def _bus(address: str) -> bool:
    return address in ("memory:", "store:") or _server(address, "nats", "tls") or _store(address)


def is_origin(text: str) -> bool:
    parts = urlsplit(text) if text != "*" else None
    return parts is None or (bool(parts.scheme and parts.netloc) and parts.path in ("", "/") and not parts.query)


def _key_set(keys: Mapping[str, Any]) -> bool:
    listed = keys.get("keys")
    return isinstance(listed, list) and bool(listed) and all(isinstance(item, dict) for item in listed)


def _secret(text: str) -> bool:
    return len(text) >= LEAST_SECRET or (text.startswith("env:") and len(text) > 4)


ABOVE_0: Final = (_positive, "a number above 0")
FROM_0: Final = (_not_negative, "a number from 0 up")
FROM_1: Final = (lambda value: value >= 1, "a number from 1 up")
NAME: Final = (_said, "a name")
URL: Final = (is_url, "an http or https address without credentials")
TRUSTED: Final = (is_trusted, "an https address (plain http is for this machine alone)")
PLACE: Final = (is_place, "a host, host:port, an address or a network such as 10.0.0.0/8")
AGENT: Final = (
    lambda value: _AGENT.fullmatch(value) is not None,
    "1 to 64 letters, digits, dots, hyphens or underscores",
)
AT_LEAST_ONE: Final = (bool, "at least one name; '*' means all")

EXPECTED: Final[tuple[Expected, ...]] = (
    ("host", _said, "an address to listen on"),
    ("port", lambda value: 0 <= value <= 65535, "a number from 0 to 65535"),
    ("home", _said, "a folder"),
    ("node", lambda value: not value or AGENT[0](value), AGENT[1]),
    ("store", _store, "memory:, sqlite:///path or postgresql://host/database"),
    ("bus", _bus, "memory:, store:, nats://host:port, sqlite:///path or postgresql://host/database"),
    ("durability", *one_of("process", "power")),
    ("public_url", is_base, "an address such as https://agents.example.com"),
    ("default", *AGENT),
    ("hosts[]", is_host, "a name or an address, without scheme, port or path"),
    ("origins[]", is_origin, "an origin such as https://app.example.com, or '*'"),
    ("tls.minimum", *one_of("1.3", "1.2")),
    ("quotas.conversations", *FROM_1),
    ("quotas.context_bytes", *FROM_1),
    ("quotas.context_turns", *FROM_0),
    ("quotas.conversation_seconds", *ABOVE_0),
    ("quotas.anonymous_seconds", *ABOVE_0),
    ("quotas.turn_seconds", *ABOVE_0),
    ("quotas.answer_seconds", *ABOVE_0),
    ("quotas.concurrent_per_caller", *FROM_0),
    ("quotas.concurrent_per_agent", *FROM_0),
    ("quotas.daily_turns", *FROM_0),
    ("quotas.daily_bytes", *FROM_0),
    ("quotas.daily_tokens", *FROM_0),
    ("quotas.daily_cost", *FROM_0),
    ("quotas.turn_calls", *FROM_0),
    ("quotas.turn_tokens", *FROM_0),
    ("quotas.turn_cost", *FROM_0),
    ("agents[].id", *AGENT),
    ("agents[].use", *NAME),
    ("agents[].peer", *NAME),
    ("agents[].backend.temperature", *FROM_0),
    ("agents[].backend.max_tokens", *FROM_1),
    ("agents[].backend.seconds", *ABOVE_0),
    ("gateways{}.only", *AT_LEAST_ONE),
    ("sites[].name", *AGENT),
    ("sites[].base", lambda value: not value or is_base(value), "an http or https address"),
    ("search.embeddings.url", *URL),
    ("search.embeddings.model", *NAME),
    ("search.embeddings.size", *FROM_1),
    ("search.embeddings.floor", lambda value: -1 <= value < 1, "a cosine, from -1 up and below 1"),
    ("search.embeddings.seconds", *ABOVE_0),
    ("search.index", _postgres, "postgresql://host/database"),
    ("identity.keys_seconds", *FROM_0),
    ("identity.pass_seconds", *ABOVE_0),
    ("identity.scopes[]", *NAME),
    ("identity.issuers[].issuer", *TRUSTED),
    ("identity.issuers[].jwks", *TRUSTED),
    ("identity.issuers[].keys", _key_set, "a JSON Web Key Set: {keys: [{kty: …}]}"),
    ("identity.issuers[].audience[]", *NAME),
    ("identity.issuers[].leeway", *FROM_0),
    ("identity.issuers[].longest_life", *ABOVE_0),
    ("identity.issuers[].roles[]", *NAME),
    ("identity.issuers[].roles_claim", *NAME),
    ("identity.certificates{}[]", *NAME),
    ("rights[].roles", lambda value: bool(value), "at least one role"),
    ("rights[].roles[]", *NAME),
    ("rights[].agents", *AT_LEAST_ONE),
    ("rights[].doors", *AT_LEAST_ONE),
    ("rights[].tools", *AT_LEAST_ONE),
    ("rights[].skills", *AT_LEAST_ONE),
    ("outbound.schemes", bool, "at least one of http, https, ws, wss"),
    ("outbound.schemes[]", *one_of("http", "https", "ws", "wss")),
    ("outbound.allow[]", *PLACE),
    ("outbound.deny[]", *PLACE),
    ("outbound.ports[]", lambda value: 0 < value <= 65535, "a number from 1 to 65535"),
    ("services[].header", lambda value: _HEADER.fullmatch(value) is not None, "the name of a header"),
    ("services[].token_url", *TRUSTED),
    ("audit.days", *ABOVE_0),
    ("audit.refusals_per_minute", *FROM_0),
    ("observe.metrics_role", *NAME),
    ("observe.traces", is_url, "an OTLP/HTTP address such as http://127.0.0.1:4318/v1/traces"),
    ("observe.service", *NAME),
    ("observe.sample", _share, "a share from 0 to 1"),
    ("tasks.retention", *ABOVE_0),
    ("tasks.turn_seconds", *ABOVE_0),
    ("tasks.answer_seconds", *ABOVE_0),
    ("tasks.running", *FROM_1),
    ("tasks.per_owner", *FROM_1),
    ("tasks.attempts", *FROM_1),
    ("tasks.events", *FROM_1),
    ("secrets", bool, "at least one; without the key, one is made and kept in home"),
    ("secrets[]", _secret, f"env:NAME, or {LEAST_SECRET} characters or more; {HOW_TO_MAKE_ONE}"),
    ("security.profile", *one_of(1, 2, 3)),
    ("policies[].kind", *one_of(*POLICIES)),
    ("policies[].text", _said, "what the policy says"),
    ("uploads.bytes", *FROM_1),
    ("uploads.bytes_per_caller", *FROM_1),
    ("uploads.places_per_caller", *FROM_1),
    ("uploads.seconds", *ABOVE_0),
    ("doors{}", lambda value: isinstance(value, bool | Mapping), "false, true or settings"),
    ("log.level", lambda value: value.lower() in LEVELS, one_of(*LEVELS)[1]),
)
UNSHOWN: Final = frozenset({"secrets[]", "identity.issuers[].keys"})  # values never shown in errors
WITHOUT_END: Final = "quotas."  # where .inf is allowed and means no limit


PLAIN_DOORS: Final = ("health", "well-known", "protected-resource", "web", "metrics", "bus")  # on or off only


def check(settings: msgspec.Struct) -> None:
    """Raises:
    ConfigError: a value is invalid; says where, and what was expected.
    """
    for place, number in _numbers(settings, ""):
        if math.isnan(number) or (math.isinf(number) and not place.startswith(WITHOUT_END)):
            raise ConfigError(f"{place}: expected a number, not {number}")
    for where, right, expected in EXPECTED:
        for place, value in at(settings, where):
            if not right(value):
                seen = "" if where in UNSHOWN else _seen(value)
                raise ConfigError(f"{place}: expected {expected}{seen}")
    for rule in TOGETHER:
        for problem in rule(settings):
            raise ConfigError(problem)


def at(value: Any, where: str, place: str = "") -> Iterator[tuple[str, Any]]:
    """The values at a path with their exact paths; nothing for keys that are left out."""
    if value is None:
        return
    if not where:
        yield place, value
    elif where.startswith("[]"):
        for number, item in enumerate(value):
            yield from at(item, where[2:], f"{place}[{number}]")
    elif where == "{}":
        yield from ((f"{place}.{name}", item) for name, item in value.items())
    elif where.startswith("{}"):
        for name, item in value.items():
            yield from at(item, where[2:], f"{place}.{name}")
    elif isinstance(value, msgspec.Struct):  # otherwise a short form was given, such as only an address
        name, rest = re.fullmatch(r"\.?(\w+)(.*)", where).groups()  # type: ignore[union-attr]
        yield from at(getattr(value, name), rest, f"{place}.{name}" if place else name)


def _numbers(value: Any, place: str) -> Iterator[tuple[str, float]]:
    if isinstance(value, float):
        yield place, value
    elif isinstance(value, msgspec.Struct):
        for field in msgspec.structs.fields(value):
            yield from _numbers(getattr(value, field.name), f"{place}.{field.encode_name}".lstrip("."))
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield from _numbers(item, f"{place}.{name}")
    elif isinstance(value, tuple | list):
        for number, item in enumerate(value):
            yield from _numbers(item, f"{place}[{number}]")


def _seen(value: object) -> str:
    if value in ("", (), {}):
        return "; it is empty"
    text = re.sub(r"(?<=://)[^/\s@]*@", "", repr(value))  # may contain a secret
    return f", not {text if len(text) <= 80 else f'{text[:77]}…'}"


def _client_certificates(settings: Any) -> Iterator[str]:
    tls = settings.tls
    if tls.client_ca is not None and not tls.is_on:
        yield "tls.client_ca: requires tls.cert or tls.dev; without TLS there are no client certificates"


def _webhook_addresses(settings: Any) -> Iterator[str]:
    a2a = settings.doors.get("a2a")
    webhooks: Any = a2a.get("push") if isinstance(a2a, Mapping) else None
    for key in ("allow", "deny") if isinstance(webhooks, Mapping) else ():
        for number, address in enumerate(webhooks.get(key) or ()):
            if not (isinstance(address, str) and is_place(address)):
                yield f"doors.a2a.push.{key}[{number}]: expected {PLACE[1]}{_seen(address)}"


def _plain_doors(settings: Any) -> Iterator[str]:
    for name in PLAIN_DOORS:
        if isinstance(settings.doors.get(name), Mapping):
            yield f"doors.{name}: expected true or false; it has no settings"


def _keys_of_agents(settings: Any) -> Iterator[str]:
    for number, agent in enumerate(settings.agents):
        for key, required in (("protocol", "peer"), ("version", "peer"), ("system_message", "backend")):
            if getattr(agent, key) is not None and getattr(agent, required) is None:
                yield f"agents[{number}].{key}: requires {required}"
        if agent.remembers is not None and agent.peer is not None:
            yield f"agents[{number}].remembers: requires use or backend; a peer decides this itself"


def _keys_of_services(settings: Any) -> Iterator[str]:
    for number, service in enumerate(settings.services):
        for name in ("client", "secret", "audience", "scope", "exchange"):
            if service.token_url is None and getattr(service, name):
                yield f"services[{number}].{name}: requires token_url"


def _duplicates(settings: Any) -> Iterator[str]:
    for key, names in (
        ("agents", [agent.id for agent in settings.agents]),
        ("sites", [site.name for site in settings.sites or ()]),
        ("identity.issuers", [issuer.issuer for issuer in settings.identity.issuers]),
        ("services", [service.origin for service in settings.services]),
    ):
        twice = next((number for number, name in enumerate(names) if name in names[:number]), None)
        if twice is not None:
            yield f"{key}[{twice}]: {names[twice]!r} is a duplicate"


# Values that are valid one by one but not together.
TOGETHER: Final[tuple[Callable[[Any], Iterator[str]], ...]] = (
    _client_certificates,
    _webhook_addresses,
    _plain_doors,
    _keys_of_agents,
    _keys_of_services,
    _duplicates,
)


def check_start(settings: Any, environment: Mapping[str, str]) -> None:
    """Check what a gateway needs at start beyond its settings.

    Raises:
        ConfigError: a variable that should hold a secret is not set.
    """
    places = [f"services[].{name}" for name in ("token", "key", "secret")]
    for where in ("secrets[]", *places, "search.embeddings.key", "agents[].backend.api_key"):
        for place, written in at(settings, where):
            if written.startswith("env:") and not environment.get(written[4:]):
                raise ConfigError(f"{place}: expected the environment variable {written[4:]} to be set; it is not")
    for place, backend in at(settings, "agents[].backend"):
        name = backend.api_key_env
        if name and not backend.api_key and not environment.get(name):
            raise ConfigError(f"{place}.api_key_env: expected the environment variable {name} to be set; it is not")


def check_rights(rules: Iterable[Any], doors: Iterable[str], agents: Iterable[str], *, elsewhere: bool) -> list[str]:
    """Check that rules name existing doors and agents: a misspelt name would silently allow less than intended.

    Agents that may run elsewhere, on other nodes or gateways, are returned as warnings to log.

    Raises:
        ConfigError: the door does not exist; or the agent does not, and there are no other nodes or gateways.
    """
    unknown: list[str] = []
    for number, rule in enumerate(rules):
        for kind, names, known in (("door", rule.doors, sorted(doors)), ("agent", rule.agents, list(agents))):
            for name in names:
                if fnmatch.filter(known, name):
                    continue
                hint = suggestion(name, known, "choose from")
                problem = f"rights[{number}].{kind}s: there is no {kind} {name!r}"
                if kind == "door" or not elsewhere:
                    raise ConfigError(f"{problem}; {hint}")
                near = suggestion(name, known, otherwise="")
                unknown.append(f"{problem} here; {near or 'it may run on another node or gateway'}")
    return unknown
