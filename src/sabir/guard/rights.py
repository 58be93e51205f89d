"""Authorization: which roles may use which agents, skills, tools and doors. Deny by default once any rule exists."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fnmatch import translate
from typing import Final, TypeVar

import msgspec

from sabir.card import Card
from sabir.errors import Forbidden, NotFound, Refused, Unauthenticated
from sabir.turn import Caller

Found = TypeVar("Found")


_OWN: Final = frozenset({"anonymous", "known", "local"})
_OWN_BEGIN: Final = ("id:", "scope:")


def is_given_here(role: str) -> bool:
    """Whether only the gateway itself assigns this role. No issuer may grant it: it would impersonate another caller,
    or grant rights that were never given."""
    return role in _OWN or role.startswith(_OWN_BEGIN)


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Callers with one of ``roles`` may use these agents through these doors, with these tools and skills.

    Names may contain ``*``. The role ``anonymous`` is everybody, ``known`` is every authenticated caller; a caller's
    own id is a role, too, as ``id:<id>``. Rules only add rights; none removes any.
    """

    roles: tuple[str, ...]
    agents: tuple[str, ...] = ("*",)
    doors: tuple[str, ...] = ("*",)
    tools: tuple[str, ...] = ("*",)
    skills: tuple[str, ...] = ("*",)


class Rights:
    """The configured rules. Without any, everybody may do everything."""

    def __init__(self, rules: tuple[Rule, ...] = (), challenge: str = "Bearer") -> None:
        self.rules = rules
        self.challenge = challenge
        self._compiled = tuple(_Compiled(rule) for rule in rules)

    def check(self, caller: Caller, *, agent: str, door: str = "", tool: str = "", skill: str = "") -> None:
        """Raises:
        Unauthenticated: the caller is anonymous and would have to authenticate.
        Forbidden: a known caller has no right to this.
        """
        if not self._compiled or self.allows(caller, agent=agent, door=door, tool=tool, skill=skill):
            return
        raise self._refusal(caller, agent, tool or skill)

    def find(self, agents: Mapping[str, Found], caller: Caller, name: str | None, door: str, default: str) -> Found:
        """The agent of a name, or the default one; every door looks up agents here.

        A caller without access gets the same error whether or not the agent exists, and never the name of the default
        agent.

        Raises:
            Unauthenticated, Forbidden: as above.
            NotFound: it does not exist, and the caller could use it if it did.
        """
        if self._compiled and not self.allows(caller, agent=name or default, door=door):
            raise self._refusal(caller, "this agent")
        found = agents.get(name or default)
        if found is None:
            raise NotFound(f"there is no agent {(name or default)[:64]!r} here")
        return found

    def _refusal(self, caller: Caller, agent: str, part: str = "") -> Refused:
        if caller.is_anonymous:
            return Unauthenticated(f"{agent} requires authentication", self.challenge)
        return Forbidden(f"no right to use {part or agent}")

    def allows(self, caller: Caller, *, agent: str, door: str = "", tool: str = "", skill: str = "") -> bool:
        if not self._compiled or caller.kind == "local":
            return True
        roles = caller.effective_roles
        return any(rule.allows(roles, agent, door, tool, skill) for rule in self._compiled)

    def check_any(self, caller: Caller, agents: Iterable[str], door: str = "") -> None:
        """Whether a caller may use at least one of these agents, and may therefore ask about the gateway itself.

        Raises:
            Unauthenticated, Forbidden: as above; the error names no agent, because the caller may not know of any.
        """
        if not self._compiled or any(self.allows(caller, agent=name, door=door) for name in agents):
            return
        if caller.is_anonymous:
            raise Unauthenticated("authentication required", self.challenge)
        raise Forbidden("no right to use any agent here")

    def visible(self, caller: Caller, card: Card, door: str = "") -> Card | None:
        """What a caller sees of a card: None if it may not use the agent, otherwise the skills and tools it may use."""
        if not self._compiled or caller.kind == "local":
            return card
        if not self.allows(caller, agent=card.name, door=door):
            return None
        usable = tuple(
            s for s in card.skills if self.allows(caller, agent=card.name, door=door, skill=s.id, tool=s.tool)
        )
        return card if len(usable) == len(card.skills) else msgspec.structs.replace(card, skills=usable)


class _Compiled:
    """A rule with compiled patterns, which are matched in every turn."""

    __slots__ = ("_agents", "_doors", "_roles", "_skills", "_tools")

    def __init__(self, rule: Rule) -> None:
        self._roles = frozenset(rule.roles)
        self._agents, self._doors = _pattern(rule.agents), _pattern(rule.doors)
        self._tools, self._skills = _pattern(rule.tools), _pattern(rule.skills)

    def allows(self, roles: frozenset[str], agent: str, door: str, tool: str, skill: str) -> bool:
        # Without a name, the question is not about it. Written out, because every turn comes by here several times.
        return (
            not self._roles.isdisjoint(roles)
            and (self._agents is None or not agent or self._agents.match(agent) is not None)
            and (self._doors is None or not door or self._doors.match(door) is not None)
            and (self._tools is None or not tool or self._tools.match(tool) is not None)
            and (self._skills is None or not skill or self._skills.match(skill) is not None)
        )


def _pattern(names: tuple[str, ...]) -> re.Pattern[str] | None:
    return None if "*" in names else re.compile("|".join(translate(name) for name in names) or r"(?!)")
