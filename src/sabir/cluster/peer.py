"""An agent on another node, reached by name over the bus, as an Agent."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Final

from sabir.aio import Closing
from sabir.bus.base import Bus
from sabir.card import Card
from sabir.errors import (
    BusUnavailable,
    NotFound,
    PeerUnavailable,
    PeerUnreadable,
    StoreUnavailable,
    TurnFailed,
    Unavailable,
    Unreadable,
)
from sabir.events import Event, Fault, Question, Reply
from sabir.exchange.request import EventSink
from sabir.message import Message
from sabir.stores.base import Record, Store
from sabir.turn import Turn

from . import wire as nodes

TRACE: Final = "traceparent"
_TRIES: Final = 3  # nodes that a turn is offered to
WAITING: Final = "waiting"  # conversation → the node on which its turn waits for an answer


def address(agent: str) -> str:
    """The name on the bus under which an agent's turns are served."""
    return f"agent.{agent}"


class _NotBegun(Exception):
    """The node that was asked is stopping, and has not started the turn."""


class BusPeer:
    """An agent that runs on another node of this gateway.

    Its turn runs there: output is streamed back, questions are asked here, and cancelling the turn or its deadline ends
    it there, too. The conversation so far and the caller's identity go with it; credentials do not.
    """

    protocol = "bus"

    def __init__(self, bus: Bus, card: Card) -> None:
        self.bus = bus
        self.card = card

    def __repr__(self) -> str:
        return f"<agent {self.card.name} on another node>"

    async def __call__(self, turn: Turn, /) -> AsyncIterator[Event]:
        """Forward the turn; to another node if the first is stopping, or is lost and the agent is repeatable."""
        asked = nodes.encode(nodes.NodeRequest.of(turn))
        for left in range(_TRIES - 1, -1, -1):
            begun = False
            try:
                async with Closing(self._talk(turn, asked)) as events:
                    async for event in events:
                        begun = True
                        yield event
                return
            except _NotBegun:
                if not left:
                    raise PeerUnavailable(self.card.name, "all nodes that serve it are stopping") from None
            except (PeerUnavailable, Unavailable):
                if begun or not left or not self.card.repeatable:
                    raise

    async def propose_anonymous(self, conversation: str) -> str | None:
        """Ask the node on which the agent runs: it may pass questions on to others (PAPER-ANON).

        Raises:
            SabirError: no node answers for it.
        """
        proposal = nodes.encode(nodes.AnonymityProposal(conversation))
        for _ in range(_TRIES):
            async with self.bus.call(address(self.card.name), proposal) as call:
                async for piece in call:
                    if piece == nodes.ELSEWHERE:
                        break
                    return nodes.decode_anonymity(piece).objection
        raise PeerUnavailable(self.card.name, "all nodes that serve it are stopping")

    async def _talk(self, turn: Turn, asked: bytes) -> AsyncIterator[Event]:
        name = self.card.name
        headers = {TRACE: turn.trace} if turn.trace else {}
        end: Event | None = None
        asked_back = False
        try:
            async with self.bus.call(address(name), asked, headers=headers) as call:
                async for piece in call:
                    if piece == nodes.ELSEWHERE:
                        raise _NotBegun
                    event = nodes.decode_said(piece)
                    if isinstance(event, nodes.NodeUsage):
                        turn.used.extend(event.tools)
                        turn.meter.elsewhere(event.calls, event.tokens, event.cost)
                    elif isinstance(event, Question):
                        asked_back = True
                        await call.send(nodes.encode(await turn.ask(event)))
                    elif isinstance(event, Reply | Fault):
                        end = event
                        break
                    else:
                        yield event
        except (BusUnavailable, PeerUnavailable) as away:
            if asked_back:
                raise TurnFailed(f"the node that asked for {name} is gone; ask again") from away
            if isinstance(away, BusUnavailable) or not self.bus.up:
                raise BusUnavailable(
                    f"{name} is on another node, and the bus between the nodes is unavailable"
                ) from away
            raise PeerUnavailable(name, "no node answers for it now") from away
        except Unreadable as exc:
            raise PeerUnreadable(name, str(exc)) from exc
        if end is None:
            raise PeerUnreadable(name, "the other node ended without a reply")
        yield end


def node_address(node: str) -> str:
    """The bus name of one node."""
    return f"node.{node}"


class OtherNodes:
    """Access to turns suspended on other nodes: the store knows the node, the answer goes over the bus."""

    def __init__(self, bus: Bus, store: Store, node: str) -> None:
        self.bus = bus
        self.store = store
        self.node = node

    async def note(self, conversation: str, seconds: float) -> None:
        until = time.time() + seconds
        await self.store.put(Record(WAITING, conversation, self.node.encode(), expires=until))

    async def forget(self, conversation: str) -> None:
        with suppress(StoreUnavailable):  # a request with an answer learns that nobody waits
            known = await self.store.get(WAITING, conversation)
            if known is not None and known.value == self.node.encode():
                await self.store.delete(WAITING, conversation)

    async def cancel(self, conversation: str) -> bool:
        node = await self._node_of(conversation)
        if node is None:
            return False
        try:
            async with self.bus.call(node_address(node), nodes.encode(nodes.NodeAnswer(conversation))) as call:
                async for _ in call:
                    pass
        except (NotFound, PeerUnavailable):
            await self.store.delete(WAITING, conversation)
            return False
        return True

    async def bring(self, conversation: str, message: Message, line: EventSink, agent: str | None = None) -> bool:
        node = await self._node_of(conversation)
        if node is None:
            return False
        answer = nodes.encode(nodes.NodeAnswer(conversation, message, agent))
        try:
            async with self.bus.call(node_address(node), answer) as call:
                async for piece in call:
                    event = nodes.decode_event(piece)
                    if isinstance(event, Reply):
                        event = Reply(event.message.with_parts(line.tokens))
                    await line.send(event)
        except (NotFound, PeerUnavailable):
            # It no longer waits, or its node died and the turn with it: the message starts a new one.
            # a control message often does not answer the question, so the turn keeps waiting
            if not message.is_control:
                await self.store.delete(WAITING, conversation)
            return False
        return True

    async def _node_of(self, conversation: str) -> str | None:
        """The other node on which a turn of this conversation waits."""
        known = await self.store.get(WAITING, conversation)
        node = known.value.decode() if known is not None else self.node
        return None if node == self.node else node
