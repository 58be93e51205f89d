"""``GroupDoor``: notifications to a group of agents go over the bus, a copy to each member (MW-71).

The sender does not wait. A copy is kept until it has become a task of its member, on whichever node takes it; nodes
with the same group share its copies.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import Final

import msgspec

from sabir.bus import Bus, Letter
from sabir.bus.base import LetterReceiver
from sabir.cluster import wire as nodes
from sabir.errors import NotFound, Refused
from sabir.exchange.request import TurnRequest
from sabir.guard import Credentials
from sabir.http.door import Door, GatewayServices
from sabir.turn import Turn

from .group import AgentGroup

logger = logging.getLogger("sabir.bus")

PREFIX: Final = "group:"  # of names on the bus


class GroupDoor(Door):
    """Delivers messages published to a group to the members on this node."""

    name = "groups"

    def __init__(self, services: GatewayServices, bus: Bus) -> None:
        self._services = services
        self._bus = bus
        self._receivers: list[LetterReceiver] = []

    async def start(self) -> None:
        """Join each group as each of its members. The bus is already open.

        Raises:
            BusUnavailable: the bus does not answer.
        """
        agents = self._services.agents
        for name, group in list(agents.items()):
            if not isinstance(group, AgentGroup) or any(item.card.name not in agents for item in group.members):
                continue  # only agents of the gateway have tasks
            for item in group.members:
                member = item.card.name
                receiver = await self._bus.join(f"{PREFIX}{name}", member, partial(self._take, member))
                self._receivers.append(receiver)
            group.publish = partial(self._publish, name)

    async def stop(self) -> None:
        receivers, self._receivers = self._receivers, []
        for receiver in receivers:
            await receiver.stop()

    async def _publish(self, name: str, turn: Turn) -> None:
        asked = msgspec.structs.replace(nodes.NodeRequest.of(turn), conversation=turn.conversation_for_others())
        body = nodes.encode(asked)
        await self._bus.publish(Letter(f"{PREFIX}{name}", body, turn.id, order=turn.conversation.id))

    async def _take(self, member: str, letter: Letter) -> None:
        """Turn a copy into a task. A duplicate has the same key, and becomes the same task."""
        asked = nodes.decode_asked(letter.body)
        ask = TurnRequest(
            asked.message.without_tokens(),
            asked.door or self.name,
            member,
            Credentials(caller=asked.as_caller()),
            f"{letter.id}/{member}",
            hops=asked.hops,
            seen=asked.seen,
            agreed=asked.conversation.agreed,
        )
        try:
            await self._services.tasks.submit(ask)
        except (Refused, NotFound) as exc:  # it is in the audit log; another attempt would fail, too
            logger.warning("%s does not get a notification of %s: %s", member, letter.to, exc)
