"""Agents of other gateways, listed here as our own: with a prefix, a filter and periodic refreshes.

Each is asked over the protocol by which its gateway listed it. Agents that appear or disappear there do so here; if a
gateway cannot be reached, its known agents stay and report why they cannot answer. Our own agents are never imported
back, and agents that a gateway has from others only within ``depth``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, MutableMapping
from contextlib import suppress
from fnmatch import fnmatchcase
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from sabir.agent import Agent
from sabir.aio import Closing, cancel_and_wait
from sabir.card import Card
from sabir.cluster.peer import BusPeer
from sabir.errors import (
    ConfigError,
    Forbidden,
    MissingExtra,
    PeerRefused,
    PeerUnavailable,
    PeerUnreadable,
    SabirError,
    StoreUnavailable,
)
from sabir.events import Event
from sabir.guard.egress.credentials import OutgoingCredentials
from sabir.guard.seal import Seal
from sabir.message import Message, Part, json_part
from sabir.observe.metrics import Metrics
from sabir.protocols.connect import speakers
from sabir.protocols.nlip.peer.base import NlipPeer
from sabir.protocols.nlip.peer.token_store import KeptTokens
from sabir.protocols.peer import SECONDS, Call, Peer, without_credentials
from sabir.protocols.protocol import load
from sabir.protocols.registry import protocols
from sabir.stores.base import Record, Store
from sabir.turn import Caller, Turn

from .listing import AgentListing, GatewayAddress, Listed

logger = logging.getLogger("sabir")

SPACE: Final = "gateways"  # in the store: the last list of each gateway
START_SECONDS: Final = 2.0  # how long a start waits for reachable gateways
STOP_SECONDS: Final = 1.0  # how long a refresh may take when the gateway stops
# seconds between attempts to reach one that is unavailable; the last repeats
RETRY: Final = (1.0, 2.0, 5.0, 10.0, 30.0)
_FORBIDDEN: Final = 403  # NLIP's status for, among others, a policy that must be accepted first
_NOT_HERE: Final = frozenset({404, 405, 410, 415, 501})
_OURSELVES: Final = Caller(id="local:gateway", kind="local", name="gateway")


class RemoteGateway(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"except_": "except"}):
    """Another gateway, and which of its agents are listed here; a section of the configuration file."""

    url: str
    protocol: str = "auto"  # or the name of a protocol that lists agents
    prefix: str | None = None  # before the names of its agents; None: its name and a hyphen
    only: tuple[str, ...] = ("*",)  # which of its agents, by their remote names
    except_: tuple[str, ...] = ()
    refresh: Annotated[float, Meta(gt=0)] = 60.0  # seconds between refreshes
    depth: Annotated[int, Meta(ge=1, le=8)] = 1  # how many gateways away an agent may be; 1: it is that gateway's own
    seconds: Annotated[float, Meta(gt=0)] = SECONDS  # time limit of an answer


class RemoteAgent:
    """An agent of another gateway."""

    def __init__(self, gateway: Neighbour, peer: Peer, place: str) -> None:
        self.card = peer.card
        self.peer = peer
        self.place = place
        self.labels: Mapping[str, str] = {}
        self._gateway = gateway
        self._running = 0
        self._gone = False

    async def __call__(self, turn: Turn, /) -> AsyncIterator[Event]:
        """Ask the remote agent.

        Raises:
            PeerError: as the peer raises it; says so if the whole gateway is unavailable.
        """
        turn.message = self._addressed(turn.message)
        self._running += 1
        try:
            async with Closing(self._asked(turn)) as events:
                async for event in events:
                    yield event
        except PeerUnavailable as away:
            why = away.reason.removeprefix(f"{away.peer}: ")
            text = f"unavailable: its gateway {self._gateway.name} does not answer ({why})"
            raise PeerUnavailable(self.card.name, text) from None
        finally:
            self._running -= 1
            if self._gone and not self._running:
                await self.peer.aclose()

    async def _asked(self, turn: Turn) -> AsyncIterator[Event]:
        try:
            async with Closing(self.peer(turn)) as events:
                async for event in events:
                    yield event
        except PeerRefused as refused:
            if refused.status != _FORBIDDEN or not await self._accepted(turn):
                raise
            async with Closing(self.peer(turn)) as events:
                async for event in events:
                    yield event

    async def _accepted(self, turn: Turn) -> bool:
        """Accept at the remote gateway, for the same conversation, the policies that our caller has accepted here."""
        accepted = turn.conversation.agreed.get("policy", {}).get("accepted", ())
        kinds = sorted({policy.kind for policy in self.card.policies}.intersection(accepted))
        peer = self.peer
        if not kinds or not isinstance(peer, NlipPeer):
            return False
        shows = peer.outgoing is not None and not turn.conversation.agreed.get("anonymous")
        headers = await peer.outgoing.headers(peer.url, turn.caller) if peer.outgoing is not None and shows else {}
        words = f"I accept your policies: {', '.join(kinds)}."
        said = Message.text(words, parts=(json_part({"accept": kinds, "confirmed": True}, label="policy"),)).with_type(
            "control"
        )
        call = Call(turn.conversation.id, peer.seconds, hops=turn.hops + 1, headers=headers)
        part = (await peer.settle(said, call)).labelled("policy")
        value = part.value if part is not None and isinstance(part.value, dict) else {}
        return all(isinstance(value.get(kind), dict) and value[kind].get("accept") is True for kind in kinds)

    async def propose_anonymous(self, conversation: str) -> str | None:
        """Whether it agrees to anonymity. Raises as the peer does."""
        return await self.peer.propose_anonymous(conversation)

    async def let_go(self) -> None:
        """Remove the agent; running turns finish."""
        self._gone = True
        if not self._running:
            await self.peer.aclose()

    def _addressed(self, message: Message) -> Message:
        """The message with its data labelled by the remote name of the skill."""
        if not any(part.label in self.labels for part in message.parts):
            return message
        parts = (_relabelled(part, self.labels) for part in message.parts)
        return Message.of(*parts, messagetype=message.messagetype)

    def __repr__(self) -> str:
        return f"<agent {self.card.name} of the gateway {self._gateway.name}>"


def _relabelled(part: Part, labels: Mapping[str, str]) -> Part:
    label = labels.get(part.label or "")
    return part if label is None else Part(part.format, part.subformat, part.content, label)


class _Remembered(msgspec.Struct, frozen=True):
    """The last list of a gateway, and its address then."""

    url: str
    listing: AgentListing


class Neighbour:
    """One other gateway."""

    def __init__(self, name: str, settings: RemoteGateway, gateways: RemoteGateways) -> None:
        self.name = name
        self.settings = settings
        self.prefix = f"{name}-" if settings.prefix is None else settings.prefix
        self.agents: dict[str, RemoteAgent] = {}
        self.id = ""  # its own name
        self.protocol = ""  # the protocol last used
        self.unavailable: str | None = "it has not answered yet"
        self.left_out: dict[str, str] = {}  # its agents that are not listed here, and why
        self._gateways = gateways

    @property
    def address(self) -> str:
        return without_credentials(self.settings.url)

    async def look(self) -> bool:
        """Refresh its list and update our agents; returns whether anything changed."""
        try:
            listing = await self._fetch_listing()
        except SabirError as exc:
            why = str(exc)
            if self.unavailable != why:
                logger.warning("Gateway %s is unavailable: %s", self.name, why)
            self.unavailable = why
            return False
        if self.unavailable is not None:
            logger.info("Gateway %s lists %d agents over %s", self.name, len(listing.agents), listing.protocol)
            for agent in self.agents.values():
                agent.peer.breaker.succeeded()  # it is back, so callers may ask again
        self.unavailable = None
        changed = await self.take(listing)
        if changed:
            await self._gateways.remember(self.name, _Remembered(self.settings.url, listing))
        return changed

    async def _fetch_listing(self) -> AgentListing:
        where = GatewayAddress(self.settings.url, await self._shown())
        listing = await listed(where, self.settings.protocol)
        if listing.gateway == self._gateways.gateway:
            raise PeerRefused(where.address, "this is the gateway's own address; it serves these agents already")
        return listing

    async def _shown(self) -> dict[str, str]:
        """Our credentials for it, if they are configured and do not depend on the caller."""
        try:
            return await self._gateways.outgoing.headers(self.settings.url, _OURSELVES)
        except Forbidden:
            return {}

    async def take(self, listing: AgentListing) -> bool:
        """Add the agents of a list, and remove those that are not in it."""
        self.id, self.protocol = listing.gateway, listing.protocol
        wanted: dict[str, Listed] = {}
        left_out: dict[str, str] = {}
        for found in listing.agents:
            name, why = self.prefix + found.card.name, self._why_not(found.card)
            if why is None and name in wanted:
                why = "two of its agents would have this name"
            if why is None:
                wanted[name] = found
            elif why:
                left_out[name] = why
        for name, why in left_out.items():
            if self.left_out.get(name) != why:
                logger.warning("gateways.%s: %s is left out: %s", self.name, name, why)
        self.left_out = left_out
        before = {name: agent.card for name, agent in self.agents.items()}
        for name in [name for name in self.agents if name not in wanted]:
            await self._drop(name)
        for name, found in wanted.items():
            await self._keep(name, found)
        return before != {name: agent.card for name, agent in self.agents.items()}

    def _why_not(self, card: Card) -> str | None:
        """Why one of its agents is not listed here: None if it is listed, an empty text if that needs no log line."""
        rules, name = self.settings, self.prefix + card.name
        if not _matches(card.name, rules.only) or _matches(card.name, rules.except_):
            return ""
        if self._gateways.gateway in card.via or len(card.via) >= rules.depth:
            return ""
        if any(other.id in card.via for other in self._gateways if other is not self and other.id):
            return ""  # that gateway is asked directly
        known = self._gateways.into.get(name)
        brought = isinstance(known, BusPeer) and known.card.via  # imported by another node; we reach it directly
        if name not in self.agents and known is not None and not brought:
            return "an agent of this name is here already; choose another prefix"
        if name in self._gateways.reserved:
            return f"the path /nlip/{name} is taken"
        try:
            msgspec.structs.replace(card, name=name)
        except ValueError as exc:
            return str(exc)
        return None

    async def _keep(self, name: str, found: Listed) -> None:
        known = self.agents.get(name)
        if known is not None and (known.peer.protocol != self.protocol or known.place != found.place):
            await self._drop(name)  # it is now reached in another way
            known = None
        if known is None:
            known = RemoteAgent(self, self._peer(name, found), found.place)
        elif self.protocol == "mcp":
            _know_tools(known.peer, found)
        card = self._ours(name, found.card)
        known.labels = {**found.labels, name: found.labels.get(found.card.name, found.card.name)}
        if known.card != card:
            known.card = card
        self._gateways.into[name] = self.agents[name] = known

    def _peer(self, name: str, found: Listed) -> Peer:
        peer = peer_for(found, self.protocol, name, self.settings.seconds)
        peer.outgoing = self._gateways.outgoing
        if isinstance(peer, NlipPeer):
            peer.kept = self._gateways.kept
        return peer

    def _ours(self, name: str, card: Card) -> Card:
        """Its card as ours: our name for it, the path to it, and no site that is already here."""
        skills = tuple(msgspec.structs.replace(s, id=name) if s.id == card.name else s for s in card.skills)
        sites = {agent.card.site for other, agent in self._gateways.into.items() if other != name}
        return msgspec.structs.replace(
            card,
            name=name,
            skills=skills,
            policies=card.policies if self.protocol == "nlip" else (),  # other protocols have no way to accept them
            limits={},  # limited remotely
            remembers=True,
            site=None if card.site in sites else card.site,
            via=(*card.via, self.id),
        )

    async def _drop(self, name: str) -> None:
        agent = self.agents.pop(name)
        if self._gateways.into.get(name) is agent:
            del self._gateways.into[name]
        await agent.let_go()

    async def close(self) -> None:
        for agent in self.agents.values():
            await agent.peer.aclose()


class RemoteGateways:
    """All other gateways of this one, and the tasks that keep their agents up to date."""

    def __init__(
        self,
        gateways: Mapping[str, RemoteGateway | str],
        into: MutableMapping[str, Agent],
        changed: Callable[[], Awaitable[None]],
        gateway: str = "",
        reserved: Iterable[str] = (),
    ) -> None:
        """``into`` gets the agents, ``changed`` notifies the doors, ``gateway`` is our own name.

        Raises:
            ConfigError: an address or a prefix is invalid.
        """
        self.into = into
        self.gateway = gateway
        self.reserved = frozenset(reserved)
        self.outgoing = OutgoingCredentials()
        self.kept: KeptTokens | None = None
        self._store: Store | None = None
        self._changed = changed
        self._known = {name: Neighbour(name, _checked(name, item), self) for name, item in gateways.items()}
        self._following: list[asyncio.Task[None]] = []
        self._stopping = asyncio.Event()

    def attach(self, outgoing: OutgoingCredentials, store: Store, seal: Seal) -> None:
        """Set our credentials for them, and where their lists and tokens are kept."""
        self.outgoing, self._store, self.kept = outgoing, store, KeptTokens(store, seal)

    def show(self, metrics: Metrics) -> None:
        """Report in the metrics how many of them are unavailable."""
        if self._known:
            words = "Other gateways that are unavailable."
            metrics.gauge("sabir_gateways_unavailable", words, read=self._away, over="max")

    def _away(self) -> int:
        return sum(item.unavailable is not None for item in self._known.values())

    def __iter__(self) -> Iterator[Neighbour]:
        return iter(self._known.values())

    def __getitem__(self, name: str) -> Neighbour:
        return self._known[name]

    async def start(self) -> None:
        """Restore what was known of them, then ask them; slow ones are not waited for."""
        self._stopping.clear()
        looked = []
        for neighbour in self._known.values():
            remembered = await self._remembered(neighbour)
            if remembered is not None and await neighbour.take(remembered.listing):
                await self._changed()
            looked.append(event := asyncio.Event())
            self._following.append(
                asyncio.create_task(self._follow(neighbour, event), name=f"gateway {neighbour.name}")
            )
        with suppress(TimeoutError):
            async with asyncio.timeout(START_SECONDS):
                for event in looked:
                    await event.wait()

    async def stop(self) -> None:
        self._stopping.set()
        if self._following:  # a running refresh may finish, as long as it does not delay the shutdown
            await asyncio.wait(self._following, timeout=STOP_SECONDS)
            await cancel_and_wait(self._following)
        self._following.clear()
        for neighbour in self._known.values():
            await neighbour.close()

    async def _follow(self, neighbour: Neighbour, looked: asyncio.Event) -> None:
        failed = 0
        while not self._stopping.is_set():
            if await neighbour.look():
                await self._changed()
            looked.set()
            refresh = neighbour.settings.refresh
            if neighbour.unavailable is None:
                failed, pause = 0, refresh
            else:
                pause = min(refresh, RETRY[min(failed, len(RETRY) - 1)])
                failed += 1
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._stopping.wait()

    async def remember(self, name: str, answer: _Remembered) -> None:
        if self._store is None:
            return
        with suppress(StoreUnavailable):  # only needed for the next start
            await self._store.put(Record(SPACE, name, msgspec.json.encode(answer)))

    async def _remembered(self, neighbour: Neighbour) -> _Remembered | None:
        record = await self._store.get(SPACE, neighbour.name) if self._store is not None else None
        if record is None:
            return None
        try:
            known = msgspec.json.decode(record.value, type=_Remembered)
        except (msgspec.MsgspecError, ValueError):
            return None
        return known if known.url == neighbour.settings.url else None


def _checked(name: str, given: RemoteGateway | str) -> RemoteGateway:
    settings = RemoteGateway(given) if isinstance(given, str) else given
    try:
        parts = urlsplit(settings.url)
        host = parts.hostname if parts.scheme.lower() in ("http", "https") else None
    except ValueError:
        host = None
    if not host:
        shown = without_credentials(settings.url) if "://" in settings.url else settings.url
        raise ConfigError(f"gateways.{name}.url: expected an http or https address, not {shown!r}")
    if "@" in parts.netloc:
        raise ConfigError(f"gateways.{name}.url: credentials do not belong in an address; set them under services")
    listing = [protocol.name for protocol in protocols().values() if protocol.listing]
    if settings.protocol not in ("auto", *listing):
        expected = ", ".join(["auto", *listing])
        raise ConfigError(f"gateways.{name}.protocol: expected one of {expected}, not {settings.protocol!r}")
    prefix = f"{name}-" if settings.prefix is None else settings.prefix
    try:
        Card(name=f"{prefix}a")
    except ValueError:
        raise ConfigError(f"gateways.{name}.prefix: no agent can be called {prefix + 'a'!r}") from None
    return settings


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


# -- by protocol --------------------------------------------------------------------------------------


async def listed(where: GatewayAddress, protocol: str) -> AgentListing:
    """The agents of a gateway, over one protocol or, with ``auto``, over the first that lists them.

    Raises:
        PeerError: it cannot be reached, refuses, or has no list.
        MissingExtra: the extra of the protocol is not installed.
    """
    if protocol != "auto":
        return await _list(protocol)(where)
    said: list[str] = []
    for item in (protocol.name for protocol in protocols().values() if protocol.listing):
        try:
            return await _list(item)(where)
        except PeerRefused as exc:
            if exc.status not in _NOT_HERE:
                raise
            said.append(f"{item}: {exc}")
        except (PeerUnreadable, MissingExtra) as exc:
            said.append(f"{item}: {exc}")
        except PeerUnavailable as away:
            if not said:
                raise  # the address is unreachable over any protocol
            said.append(f"{item}: {away}")
    raise PeerUnreadable(where.address, f"it lists its agents over no protocol ({'; '.join(said)})")


def _list(protocol: str) -> Callable[[GatewayAddress], Awaitable[AgentListing]]:
    """The function that lists a gateway's agents over this protocol.

    Raises:
        MissingExtra: its extra is not installed.
    """
    known = protocols()[protocol]
    found: Callable[[GatewayAddress], Awaitable[AgentListing]] = load(known.listing, known.title, known.extra)
    return found


def peer_for(found: Listed, protocol: str, name: str, seconds: float) -> Peer:
    """The peer of a listed agent, called ``name`` here."""
    known, entry = speakers("http")[protocol]
    made: Peer = load(entry.factory, known.title, entry.extra)(found.place, name=name, seconds=seconds)
    if found.tools:
        _know_tools(made, found)
    return made


def _know_tools(peer: Any, found: Listed) -> None:
    """The tools are already known; the agent need not ask for them."""
    peer.tools, peer.tool = dict(found.tools), next(iter(found.tools), None)
