"""The door between nodes: turns that other nodes ask agents of this node for, over the bus.

A node lists its agents in the directory, under a lease, and serves their turns. It adds the agents of other nodes to
its own, so that every node answers for every agent. It also accepts answers to questions that its turns asked, if those
answers arrived at another node.

An expired lease means that a node could not renew it, not that it is gone: the store may have been unavailable, or
unreachable for that node alone. So the node is asked over the bus, which also carries its turns, and an agent stays as
long as a node answers for it. An entry that a node removes itself is gone at once.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from sabir.agent import Agent
from sabir.aio import cancel_and_wait
from sabir.bus.base import Bus, Called, LetterReceiver
from sabir.errors import Cancelled, DeadlineExceeded, NotFound, PeerUnavailable, SabirError, StoreUnavailable
from sabir.events import Event, Question, Reply
from sabir.exchange.request import EventSink, TurnRequest
from sabir.guard import Credentials
from sabir.http.door import Door, GatewayServices
from sabir.message import Message
from sabir.observe.metrics import Metrics

from . import wire as nodes
from .directory import LEASE_SECONDS, NODE_OWNER, Directory, Entry, Template
from .peer import TRACE, BusPeer, OtherNodes, address, node_address

logger = logging.getLogger("sabir.bus")

# Bus metrics at /metrics: the fields of Load.
DEPTHS: Final[Mapping[str, str]] = {
    "in_hand": "Letters taken from the bus and not handled yet.",
    "sending": "Letters that the bus has not acknowledged yet.",
    "calls": "Calls to agents on other nodes that have not ended.",
    "serving": "Calls from other nodes that this node is answering.",
}
AGAIN_SECONDS: Final = 1.0  # until the next attempt to renew, while the store is unavailable
LOOK_SECONDS: Final = 2.0  # for the bus to count dead letters
ANSWER_SECONDS: Final = 5.0  # for a node to confirm that it serves an agent
_TRIES: Final = 3  # nodes that are asked; earlier ones were stopping
_OFFERED: Final = Template(owner=NODE_OWNER, protocols=("bus",))


class BusDoor(Door):
    """Serves this node's agents to other nodes, and adds theirs here."""

    name = "bus"

    def __init__(
        self,
        services: GatewayServices,
        bus: Bus,
        directory: Directory,
        agents: dict[str, Agent],
        *,
        lease: float = LEASE_SECONDS,
    ) -> None:
        self.services = services
        self.bus = bus
        self.directory = directory
        self.lease = lease
        self._agents = agents  # of the exchange; remote ones are added and removed
        self._own = {name: agent for name, agent in agents.items() if not isinstance(agent, BusPeer)}
        self._receivers: dict[str, LetterReceiver] = {}  # by bus name
        self.unlisted: set[str] = set()  # remote agents without a lease that a node still answers for
        self._ran_out = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        if services.exchange.observer is not None:
            self._show(services.exchange.observer.metrics)

    @property
    def node(self) -> str:
        return self.directory.node

    def addresses(self) -> Sequence[tuple[str, str]]:
        return [("Bus", f"node {self.node}")]

    async def start(self) -> None:
        """Serve and list this node's agents; add the agents of other nodes.

        Raises:
            BusUnavailable: the bus does not answer.
        """
        await self.bus.open()
        if not self.bus.spans_nodes:
            return  # other nodes could see these agents but not call them
        self.services.exchange.waits.elsewhere = OtherNodes(self.bus, self.services.store, self.node)
        own = node_address(self.node)
        self._receivers[own] = await self.bus.serve(own, self._answered)
        for name in self._own:
            await self._serve(name)
        await self._offer()
        offered = await self.directory.search(_OFFERED, max_results=10_000)
        for entry in offered:
            self._found(entry)
        self._tasks = [
            asyncio.create_task(self._keep_offering(), name="bus: lease"),
            asyncio.create_task(self._follow(offered), name="bus: directory"),
            asyncio.create_task(self._look_after_unlisted(), name="bus: unlisted"),
        ]

    async def stop(self) -> None:
        await cancel_and_wait(self._tasks)
        with suppress(StoreUnavailable):  # then the leases expire; do not wait once per agent
            for name in self._own:
                with suppress(NotFound):
                    await self.directory.deregister(name, NODE_OWNER, node=self.node)
        await self._serve_no_more()
        await self.directory.close()
        await self.bus.close()

    def _show(self, metrics: Metrics) -> None:
        for what, text in DEPTHS.items():
            metrics.gauge(f"sabir_bus_{what}", text, read=partial(self._load, what))
        words = "Letters that could not be handled, by the name they were sent to."
        dead = metrics.gauge("sabir_bus_dead_letters", words, ("name",), over="max")

        async def look() -> None:
            with suppress(SabirError, TimeoutError):  # then the last value stays
                async with asyncio.timeout(LOOK_SECONDS):
                    dead.set_all(
                        {(name,): float(count) for name, count in (await self.bus.dead_letter_counts()).items()}
                    )

        metrics.before(look)
        metrics.gauge(
            "sabir_bus_up", "1 if the bus is connected, otherwise 0.", read=lambda: float(self.bus.up), over="min"
        )

    def _load(self, what: str) -> float:
        return float(getattr(self.bus.load(), what))

    # -- other nodes ask ----------------------------------------------------------------------------

    async def _asked(self, called: Called) -> None:
        """Serve a turn of another node for an agent of this one."""
        if self.services.exchange.closing:
            # Other nodes with this agent take over; the caller can try them, because nothing has started here.
            await self._serve_no_more()
            await called.send(nodes.ELSEWHERE)
            return
        if called.body == nodes.ANYBODY:
            await called.send(nodes.HERE)
            return
        name = called.name.removeprefix(address(""))
        proposal = nodes.decode_proposal(called.body)
        if proposal is not None:
            objection = await self._objection(name, proposal.conversation)
            await called.send(nodes.encode(nodes.AnonymityAnswer(objection)))
            return
        asked = nodes.decode_asked(called.body)
        quotas = self.services.quotas

        async def send(event: Event) -> None:
            if isinstance(event, Reply):
                await report_usage()
            await called.send(nodes.encode_event(event))

        async def report_usage() -> None:
            if line.turn is not None and (used := nodes.NodeUsage.of(line.turn, asked.meter)):
                await called.send(nodes.encode_used(used))

        line = EventSink(send)

        async def ask_back(question: Question) -> Message:
            line.extend(quotas.answer_seconds)
            await send(question)
            answer = nodes.decode_message(await called.receive())
            line.extend(asked.seconds if asked.seconds is not None else quotas.turn_seconds)
            return answer

        ask = TurnRequest(
            asked.message,
            asked.door or self.name,
            name,
            Credentials(caller=asked.as_caller()),
            seconds=asked.seconds,
            trace=called.headers.get(TRACE),
            hops=asked.hops,
            seen=asked.seen[:-1],  # the exchange adds the agent's own name
            conversation=asked.conversation,
            ask_back=ask_back,
            meter=asked.meter,
        )
        try:
            await self.services.exchange.ask(ask, line)
        except SabirError:
            await report_usage()
            raise

    async def _objection(self, name: str, conversation: str) -> str | None:
        """Why an agent of this node does not agree to anonymity; None if it agrees."""
        agent = self._own.get(name)
        if agent is None:
            raise NotFound(f"{name} is not on this node")
        propose = getattr(agent, "propose_anonymous", None)
        return await propose(conversation) if propose is not None else None

    async def _answered(self, called: Called) -> None:
        """Accept an answer that arrived at another node, for a turn suspended on this one."""
        answer = nodes.decode_answer(called.body)
        waits = self.services.exchange.waits
        if answer.message is None:
            if not waits.cancel(answer.conversation):
                raise NotFound("no turn waits on this")
            return

        async def send(event: Event) -> None:
            with suppress(Cancelled):  # the request that brought the answer has gone; the turn continues without it
                await called.send(nodes.encode_event(event))

        if not await waits.bring_here(answer.conversation, answer.message, EventSink(send), answer.agent):
            raise NotFound("no turn waits for this")

    async def agents_changed(self) -> None:
        """Announce agents of other gateways that came or went here; other nodes reach them through this one."""
        own = {name: agent for name, agent in self._agents.items() if not isinstance(agent, BusPeer)}
        gone = [name for name in self._own if name not in own]
        come = [name for name in own if name not in self._own]
        self._own = own
        try:
            for name in come:
                await self._serve(name)
            for name in gone:
                receiver = self._receivers.pop(address(name), None)
                if receiver is not None:
                    await receiver.stop()
                await self.directory.deregister(name, NODE_OWNER, node=self.node)
            await self._offer()
        except SabirError as exc:  # announced again with the next lease
            logger.warning("Could not announce changes to other nodes: %s", exc)

    async def _serve(self, name: str) -> None:
        self._receivers[address(name)] = await self.bus.serve(address(name), self._asked)

    async def _serve_no_more(self) -> None:
        receivers, self._receivers = self._receivers, {}
        for receiver in receivers.values():
            await receiver.stop()

    # -- what is offered ----------------------------------------------------------------------------

    async def _offer(self) -> None:
        for agent in list(self._own.values()):
            entry = Entry.of(agent.card, node=self.node, addresses={"bus": address(agent.card.name)})
            await self.directory.register(entry, NODE_OWNER, lease=self.lease)

    async def _keep_offering(self) -> None:
        renewed = True
        while True:
            await asyncio.sleep(self.lease / 3 if renewed else min(self.lease / 3, AGAIN_SECONDS))
            try:
                await self._renew()
                renewed = True
            except StoreUnavailable as exc:
                if renewed and not exc.detail:  # otherwise the store has logged it
                    logger.warning("Could not renew the listing of our agents for other nodes: %s", exc)
                renewed = False

    async def _renew(self) -> None:
        for name in list(self._own):
            try:
                await self.directory.renew(name, NODE_OWNER, node=self.node, lease=self.lease)
            except NotFound:
                await self._offer_again()
            except StoreUnavailable:
                raise
            except SabirError as exc:
                logger.warning("Could not renew the lease of %s: %s", name, exc)

    async def _offer_again(self) -> None:
        try:
            await self._offer()
        except StoreUnavailable:
            raise
        except SabirError as exc:
            logger.warning("Could not re-register agents whose lease expired: %s", exc)

    async def _follow(self, seen: Sequence[Entry]) -> None:
        async for change in self.directory.changes(_OFFERED, seen):
            if change.kind == "deregistered":
                await self._lost(change.entry)
            else:
                self._found(change.entry)

    def _found(self, entry: Entry) -> None:
        self.unlisted.discard(entry.name)
        known = self._agents.get(entry.name)
        if entry.card is not None and (known is None or isinstance(known, BusPeer)):
            self._agents[entry.name] = BusPeer(self.bus, entry.card)

    async def _lost(self, entry: Entry) -> None:
        if not isinstance(self._agents.get(entry.name), BusPeer):
            return
        while True:
            try:
                others = await self.directory.find(entry.name)
                break
            except StoreUnavailable:  # keep it until it is known that nobody offers it
                await asyncio.sleep(1.0)
        if any("bus" in other.protocols for other in others):
            return
        if 0 < entry.until <= time.time():
            self.unlisted.add(entry.name)
            self._ran_out.set()
        else:
            self._agents.pop(entry.name, None)

    async def _look_after_unlisted(self) -> None:
        """Remove agents without a lease once no node answers for them."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self.lease / 3 if self.unlisted else None):
                    await self._ran_out.wait()
            self._ran_out.clear()
            names = list(self.unlisted)
            answered = await asyncio.gather(*(self._is_answered_for(name) for name in names))
            for name, is_there in zip(names, answered, strict=True):
                if not is_there and name in self.unlisted:  # it may have been listed again meanwhile
                    self.unlisted.discard(name)
                    if isinstance(self._agents.get(name), BusPeer):
                        self._agents.pop(name)

    async def _is_answered_for(self, name: str) -> bool:
        """Whether a node serves an agent, as far as can be known."""
        try:
            for _ in range(_TRIES):
                async with self.bus.call(address(name), nodes.ANYBODY, seconds=ANSWER_SECONDS) as call:
                    if await anext(aiter(call), nodes.ELSEWHERE) != nodes.ELSEWHERE:
                        return True
        except (PeerUnavailable, DeadlineExceeded):
            pass
        except SabirError:  # the bus is unavailable, or the node did not understand
            return True
        return False
