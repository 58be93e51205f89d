"""ECMA-434 security profiles: each control is a hook that is on or off, and the report is made from the hooks that run.

A control (SCO, "security countermeasure or objective") holds or does not; nobody just claims it. Profile 1 is the
minimum: all of it must hold, or no profile does. Above it, *full* means all controls, *partial* at least one (D-51).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from sabir.errors import ConfigError

from . import Guard
from .filters.injection import PromptInjection
from .filters.secrets import Inside, PersonalData, Secrets


class SecuritySettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``production: true`` refuses to start unless this gateway meets the profile."""

    profile: int | None = None
    production: bool = False


@dataclass(frozen=True, slots=True)
class Running:
    """What the controls look at: the guard, and how the gateway is reached."""

    guard: Guard
    encrypted: bool  # TLS here, or at a declared proxy
    ethics: bool  # the statement is served
    disclosure: bool
    retention: bool  # stored data expires
    limited: bool  # turns and hops have limits
    throttled: bool  # the request rate is limited, except for this machine


@dataclass(frozen=True, slots=True)
class ProfileControl:
    """One SCO."""

    id: str
    clause: str
    profile: int
    title: str
    holds: Callable[[Running], bool]


def _filters(running: Running, *kinds: type) -> bool:
    return any(isinstance(item, kinds) for item in running.guard.filters.filters)


CONTROLS: Final[tuple[ProfileControl, ...]] = (
    ProfileControl("SEC-P1.1", "7.1.1", 1, "TLS with message integrity", lambda r: r.encrypted),
    ProfileControl(
        "SEC-P1.2", "7.1.2", 1, "the client can authenticate the agent by its certificate", lambda r: r.encrypted
    ),
    ProfileControl("SEC-P1.3", "7.1.3", 1, "a public ethics statement", lambda r: r.ethics),
    ProfileControl("SEC-P2.1", "7.2.1", 2, "clients are authenticated", lambda r: _knows_callers(r.guard)),
    ProfileControl("SEC-P2.2", "7.2.2", 2, "actions are authorized", lambda r: bool(r.guard.rights.rules)),
    ProfileControl(
        "SEC-P2.3", "7.2.3", 2, "no privilege is lent: an agent acts with its caller's rights", lambda r: True
    ),
    ProfileControl("SEC-P2.4", "7.2.4", 2, "behaviour is traceable: a chained audit log", lambda r: True),
    ProfileControl("SEC-P2.5", "7.2.5", 2, "clients are throttled", lambda r: r.throttled),
    ProfileControl("SEC-P2.6", "7.2.6", 2, "stored data expires", lambda r: r.retention),
    ProfileControl("SEC-P2.7", "7.2.7", 2, "a public disclosure policy", lambda r: r.disclosure),
    ProfileControl("SEC-P3.1", "7.3.1", 3, "prompt injection is filtered", lambda r: _filters(r, PromptInjection)),
    ProfileControl("SEC-P3.2", "7.3.2", 3, "turns, hops and fan-out are limited at run time", lambda r: r.limited),
    ProfileControl(
        "SEC-P3.3", "7.3.3", 3, "outputs are checked for leaks", lambda r: _filters(r, Secrets, PersonalData, Inside)
    ),
)


def _knows_callers(guard: Guard) -> bool:
    """True if anonymous access is disabled: anonymous callers are rejected, or have no right to any agent."""
    identity = guard.identity
    if not identity.verifiers:
        return False
    return not identity.anonymous or bool(guard.rights.rules)


def report(running: Running) -> dict[str, Any]:
    """What holds now: the profile, full or partial, and each control by name."""
    held = {control.id: control.holds(running) for control in CONTROLS}
    profile, degree = level_of(held)
    return {
        "standard": "ECMA-434:2025",
        "profile": profile,
        "degree": degree,
        "holds": [control.id for control in CONTROLS if held[control.id]],
        "controls": [
            {"id": c.id, "clause": c.clause, "profile": c.profile, "title": c.title, "holds": held[c.id]}
            for c in CONTROLS
        ],
    }


def level_of(held: dict[str, bool]) -> tuple[int | None, str | None]:
    """The highest profile that holds, and how completely (SEC-C, D-51)."""
    of = {number: [held[c.id] for c in CONTROLS if c.profile == number] for number in (1, 2, 3)}
    if not all(of[1]):
        return None, None
    if any(of[3]) and any(of[2]):
        return 3, "full" if all(of[2]) and all(of[3]) else "partial"
    if any(of[2]):
        return 2, "full" if all(of[2]) else "partial"
    return 1, "full"


def require(settings: SecuritySettings, details: dict[str, Any]) -> None:
    """Refuse to start with a required profile that is not met (CORE-2.3).

    Raises:
        ConfigError: names the missing controls.
    """
    if settings.production and settings.profile is None:
        raise ConfigError("security.production needs security.profile: 1, 2 or 3 (ECMA-434)")
    if settings.profile is None:
        return
    if settings.profile not in (1, 2, 3):
        raise ConfigError("security.profile: expected 1, 2 or 3")
    if not settings.production or (details["profile"] or 0) >= settings.profile:
        return
    missing = [
        f"{c['id']} ({c['title']})" for c in details["controls"] if not c["holds"] and c["profile"] <= settings.profile
    ]
    raise ConfigError(f"security.profile {settings.profile} is not met; missing: {'; '.join(missing)}")
