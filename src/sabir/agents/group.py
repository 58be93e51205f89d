"""``AgentGroup``: one message to several agents, one reply with each of their answers (MW-71).

    AgentGroup([alice, bob], name="crew")

Unlike a federation it does not judge: every answer, and every failure, is a part labelled with its member.
A notification does not wait for answers: if the gateway has a bus, it is published there, and each member gets a copy.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from sabir.agent import Agent, why_not_anonymous
from sabir.card import Card, Policy, required_policies
from sabir.errors import ConfigError, Forbidden, SabirError, Unauthenticated
from sabir.events import Event, Progress, Reply
from sabir.message import Message, Part, json_part, text_part
from sabir.turn import Turn

NOTIFICATION: Final = "notification"  # the type of a message without a reply
FAILED: Final = "failed"  # label of the part that says which members failed, and why


class AgentGroup:
    """Several agents under one name."""

    def __init__(self, members: Sequence[Agent], *, name: str = "group", description: str = "") -> None:
        """Raises:
        ConfigError: it has no members, or two have the same name.
        """
        names = [member.card.name for member in members]
        if not members or len(set(names)) != len(names):
            raise ConfigError("a group needs members with unique names")
        self.members = tuple(members)
        self.publish: Callable[[Turn], Awaitable[None]] | None = None  # if there is a bus
        words = description or f"Asks {len(names)} agents and returns what each of them says"
        self.card = Card(name, words, policies=self._required(), group=True)

    def _required(self) -> tuple[Policy, ...]:
        return required_policies(member.card for member in self.members)

    async def propose_anonymous(self, conversation: str) -> str | None:
        """Agree to anonymity only if every member that forwards questions does (PAPER-ANON)."""
        return await why_not_anonymous(self.members, conversation)

    async def __call__(self, turn: Turn, /) -> AsyncIterator[Event]:
        names = self._whom()
        if turn.message.messagetype == NOTIFICATION and self.publish is not None:
            await self.publish(turn)
            yield Reply(Message.text(f"Sent to {names}"))
            return
        yield Progress(note=f"Asking {names}")
        answers = await asyncio.gather(*(self._ask(turn, member) for member in self.members))
        parts: list[Part] = []
        failed: dict[str, str] = {}
        for member, answer in zip(self.members, answers, strict=True):
            name = member.card.name
            if answer is None:
                continue
            if isinstance(answer, SabirError):
                failed[name] = str(answer)
            else:
                parts += [Part(part.format, part.subformat, part.content, name) for part in answer.parts]
        words = [f"{part.label}: {part.content}" for part in parts if part.format == "text"]
        words += [f"{name} failed: {reason}" for name, reason in failed.items()]
        if failed:
            parts.append(json_part(failed, label=FAILED))
        yield Reply(Message.of(text_part("\n".join(words)), *parts))

    def _whom(self) -> str:
        """Who is asked, for a note to the caller."""
        return ", ".join(member.card.name for member in self.members)

    async def _ask(self, turn: Turn, member: Agent) -> Message | SabirError | None:
        """A member's answer, or why it failed; None if the caller may not use this member."""
        try:
            return await turn.call(member, turn.message, history=True)
        except SabirError as exc:
            return exc


class ListedGroup(AgentGroup):
    """A group of ``doors.acl.groups``, reachable through every door as over ACL (MW-71).

    Over ACL a message reaches the members that its sender may use, and the same holds here: each member is asked
    through the exchange, with the caller's rights, and a member that the caller may not use is not mentioned.
    """

    def _required(self) -> tuple[Policy, ...]:
        return ()  # a caller may be unable to use the member that requires something; the exchange checks each of them

    def _whom(self) -> str:
        return f"the members of {self.card.name}"

    async def _ask(self, turn: Turn, member: Agent) -> Message | SabirError | None:
        sub = turn.sub(turn.message, member, history=True, checked=True)
        try:
            return await turn.siblings.dispatch(member.card.name, sub)
        except (Forbidden, Unauthenticated):
            return None
        except SabirError as exc:
            return exc


def with_listed_groups(agents: Sequence[Agent], doors: Mapping[str, Any] | None) -> list[Agent]:
    """The agents, and the groups under ``doors.acl.groups`` whose name is free and that have members here.

    Members that are not agents of this gateway are ACL agents with an inbox; only ACL messages reach them.
    """
    acl = (doors or {}).get("acl")
    groups = acl.get("groups") if isinstance(acl, Mapping) else None
    known = {agent.card.name: agent for agent in agents if isinstance(agent, Agent)}
    made: list[Agent] = []
    for name, names in groups.items() if isinstance(groups, Mapping) else ():
        members = [known[member] for member in dict.fromkeys(names) if member in known]
        if members and name not in known:
            made.append(ListedGroup(members, name=name))
    return [*agents, *made]
