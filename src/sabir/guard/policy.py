"""Who may do what: roles to agents, skills, tools and doors. Deny by default once any rule exists."""

from __future__ import annotations

from fnmatch import fnmatchcase

import msgspec

from ..errors import Forbidden, Unauthenticated
from ..turn import Caller


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Callers with one of ``roles`` may use these agents by these doors, and these tools and skills.

    Names may hold ``*``. The role ``anonymous`` is everybody, ``known`` is every authenticated caller;
    a caller's own id is a role too, as ``id:<id>``.
    """

    roles: tuple[str, ...]
    agents: tuple[str, ...] = ("*",)
    doors: tuple[str, ...] = ("*",)
    tools: tuple[str, ...] = ("*",)
    skills: tuple[str, ...] = ("*",)


class Rights:
    """The rules of the configuration. Without any, everybody may do everything."""

    def __init__(self, rules: tuple[Rule, ...] = (), challenge: str = "Bearer") -> None:
        self.rules = rules
        self.challenge = challenge

    def check(self, caller: Caller, *, agent: str, door: str = "", tool: str = "", skill: str = "") -> None:
        """Raises:
        Unauthenticated: an anonymous caller would have to say who it is.
        Forbidden: a known caller has no right to this.
        """
        if self.allows(caller, agent=agent, door=door, tool=tool, skill=skill):
            return
        if caller.is_anonymous:
            raise Unauthenticated(f"{agent} is only for callers who say who they are", self.challenge)
        raise Forbidden(f"no right to use {tool or skill or agent}")

    def allows(self, caller: Caller, *, agent: str, door: str = "", tool: str = "", skill: str = "") -> bool:
        if not self.rules or caller.kind == "local":
            return True
        roles = roles_of(caller)
        return any(
            not roles.isdisjoint(rule.roles)
            and _matches(agent, rule.agents)
            and _matches(door, rule.doors)
            and _matches(tool, rule.tools)
            and _matches(skill, rule.skills)
            for rule in self.rules
        )


def roles_of(caller: Caller) -> frozenset[str]:
    if caller.is_anonymous:
        return frozenset({"anonymous"})
    return caller.roles | {"anonymous", "known", f"id:{caller.id}"}


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return not name or any(fnmatchcase(name, pattern) for pattern in patterns)
