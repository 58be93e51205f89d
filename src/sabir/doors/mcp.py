"""The MCP door: every agent a tool, at ``/mcp`` all together and at ``/mcp/{agent}`` one alone.

Built on the official SDK: its kernel, its types, its tables of versions. In front of it stand our limits, our
identity and our errors. Where a whole MCP server is behind an agent, ``/mcp/{agent}`` passes on what it says.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from ..ending import end
from ..errors import NotFound, PeerError, Unauthenticated
from ..guard.oauth import challenge, protected_resource
from ..peers.mcp import McpPeer
from ..turn import Caller
from .base import House
from .mcp_expose import Exposed, follow, settings_of
from .mcp_http import PATH, Entrance
from .mcp_nlweb import NlwebTools
from .mcp_offer import LOCAL, Offer, Tool
from .mcp_pipes import Pipes
from .mcp_relay import Relay
from .mcp_stdio import spoken
from .mcp_stream import DOOR
from .mcp_turns import Turns
from .mcp_watch import Watch, Watched
from .nlip_http import Everything

logger = logging.getLogger("sabir")

CLOSING_LOOK: Final = 0.5  # seconds between looks whether the gateway is stopping
LIST_SECONDS: Final = 60.0  # between looks at the tools of a server behind
MEETING_SECONDS: Final = 5.0  # that the servers behind may take before the first client over stdio is answered
METADATA: Final = "/.well-known/oauth-protected-resource"

# What may change, and how it is told: as an event from 2026-07-28 on, as a notification of a session before.
CHANGES: Final[Mapping[str, tuple[ServerEvent, str]]] = {
    "tools": (ToolsListChanged(), "notifications/tools/list_changed"),
    "prompts": (PromptsListChanged(), "notifications/prompts/list_changed"),
    "resources": (ResourcesListChanged(), "notifications/resources/list_changed"),
}


class Mcp:
    """The door."""

    name = DOOR

    def __init__(self, house: House) -> None:
        self.house = house
        self.settings = settings_of(house)
        self.turns = Turns(house)
        self._nlweb = NlwebTools(house, self.turns)
        self.exposed = Exposed(house, self.turns, self.settings)
        self._bus = InMemorySubscriptionBus()
        self._listen = ListenHandler(self._bus)
        self._offers: dict[str | None, Offer] = {}
        self._relays: dict[str, Relay | Pipes] = {}
        self._meeting: set[asyncio.Task[None]] = set()
        self.entrance = Entrance(house, self._server, self._schema, self.challenge)
        self.watch = Watch(self._listeners_told, self._subscribed)

    def raw(self) -> Mapping[str, ASGIApp]:
        return {PATH: self.entrance, f"{PATH}/": self.entrance}

    def routes(self) -> Sequence[BaseRoute]:
        return [
            Route(METADATA, self._metadata, methods=["GET"]),
            Route(f"{METADATA}{PATH}", self._metadata, methods=["GET"]),
            Route(METADATA + PATH + "/{agent}", self._metadata, methods=["GET"]),
            Everything(f"{PATH}/", self.entrance),
        ]

    def addresses(self) -> Sequence[tuple[str, str]]:
        return [("MCP over HTTP", PATH)]

    async def start(self) -> None:
        """Ask the MCP servers behind agents what they offer, without waiting for them."""
        self._aside(self._until_closing())
        self._aside(self.watch.run())
        for behind in self._behind():
            behind.on_changed = self._tools_changed
            self._aside(self._meet(behind))

    def _behind(self) -> list[McpPeer]:
        return [each for each in self.house.agents.values() if isinstance(each, McpPeer)]

    def _aside(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._meeting.add(task)
        task.add_done_callback(self._meeting.discard)

    async def _until_closing(self) -> None:
        """Open streams would keep the server from stopping until its patience ends; they end when it begins to stop."""
        while not self.house.exchange.closing:
            await asyncio.sleep(CLOSING_LOOK)
        self._listen.close()
        self.entrance.close()

    async def _meet(self, peer: McpPeer) -> None:
        try:
            await peer.refresh()
        except PeerError as wrong:
            logger.warning("the tools of %s are not available: %s", peer.card.name, wrong)
        else:
            await self.changed("tools")
        # Servers of versions without sessions do not tell that their tools are others, nor does one that comes back.
        name = peer.card.name
        if name in self.exposed.rules:
            await self.exposed.follow(name, self._tools_changed)
        elif peer.program is None:
            await follow(lambda: self.house.agents.get(name), name, LIST_SECONDS, self._tools_changed)

    async def _tools_changed(self) -> None:
        await self.changed("tools")

    async def agents_changed(self) -> None:
        """Agents have come or gone: what was made for those that are gone is let go, and clients are told."""
        for name in [name for name in self._offers if name is not None and name not in self.house.agents]:
            del self._offers[name]
        for name in [name for name in self._relays if name not in self.house.agents]:
            relay = self._relays.pop(name)
            if isinstance(relay, Pipes):
                self._aside(relay.aclose())
        for what in CHANGES:
            await self.changed(what)

    async def stop(self) -> None:
        await end(list(self._meeting))  # a program that is just being met is ended
        self._listen.close()
        self.entrance.close()
        await self.turns.close()
        for relay in self._relays.values():
            if isinstance(relay, Pipes):
                await relay.aclose()
        for behind in self._behind():
            await behind.aclose()

    # -- what is offered where ------------------------------------------------------------------------

    def offer(self, agent: str | None = None) -> Offer:
        """The end-point of one agent, or of all."""
        offer = self._offers.get(agent)
        if offer is None:
            more: MoreTools = _no_more
            if agent is None:
                more = together(self.exposed, self._nlweb)
            elif self.house.agents[agent].card.site is not None:
                more = self._nlweb
            hidden = self.exposed.rules if agent is None else ()
            only, listen = agent, self._listen
            offer = Offer(self.house, self.turns, listen, only=only, tools=more, without=hidden, watch=self.watch)
            self._offers[agent] = offer
        return offer

    def _server(self, path: str, caller: Caller) -> Server[Any] | Pipes | Relay:
        """Raises:
        NotFound: no agent of this path.
        Unauthenticated, Forbidden: nothing here is for this caller.
        """
        agent = _named(path)
        if agent is not None:
            self.house.find(caller, agent, DOOR)
        elif caller.is_anonymous:
            self.house.guard.rights.check_any(caller, self.house.agents, DOOR)
        relay = self._relay(agent) if agent is not None else None
        return relay or self.offer(agent).server

    def _relay(self, agent: str) -> Relay | Pipes | None:
        """Where a whole MCP server is behind the agent, it speaks for itself: byte by byte, or, if it is a program or a
        filter must see what is said, message by message."""
        behind = self.house.agents[agent]
        if not isinstance(behind, McpPeer):
            return None
        relay = self._relays.get(agent)
        if relay is None or relay.peer is not behind:
            if behind.program is not None or self.house.guard.filters.filters:
                relay = Pipes(self.house, behind, self.offer(agent).server)
            else:
                relay = Relay(self.house, behind)
            self._relays[agent] = relay
        return relay

    def _schema(self, path: str, tool: str) -> Mapping[str, Any] | None:
        agent = _named(path)
        if agent is not None and agent not in self.house.agents:
            raise NotFound("the agent at this path has just gone")
        relay = self._relays.get(agent) if agent is not None else None
        if isinstance(relay, Pipes) and relay.peer.stateless:
            schema: Mapping[str, Any] | None = relay.peer.tools.get(tool, {}).get("inputSchema")
            return schema if "x-mcp-header" in str(schema) else None
        return self.offer(agent).schema(tool)

    # -- what changes ---------------------------------------------------------------------------------

    async def changed(self, what: str) -> None:
        """Tell every client that listens that the ``tools``, ``prompts`` or ``resources`` are others now."""
        event, method = CHANGES[what]
        await self._bus.publish(event)
        for session in list(self.entrance.sessions.values()):
            await session.notify(method, None)

    def _subscribed(self) -> list[Watched]:
        """What sessions have subscribed to, of what is looked at."""
        sessions = self.entrance.sessions.values()
        return [each for session in sessions for each in session.state.get("watched", {}).values()]

    async def _listeners_told(self, uri: str) -> None:
        await self._bus.publish(ResourceUpdated(uri))

    async def updated(self, uri: str) -> None:
        """Tell those who subscribed to a resource that it has changed."""
        await self._listeners_told(uri)
        for session in list(self.entrance.sessions.values()):
            if uri in session.state.get("subscribed", ()):
                await session.notify("notifications/resources/updated", {"uri": uri})

    # -- who may come -----------------------------------------------------------------------------------

    def authorization_servers(self) -> list[str]:
        """Where a client gets a token for us: as configured, else the issuers that our verifiers trust."""
        if self.settings.authorization_servers:
            return list(self.settings.authorization_servers)
        guarded = self.house.guarded
        issuers = [each.issuer for each in guarded.identity.issuers] if guarded is not None else []
        found = (getattr(verifier, "issuer", None) for verifier in self.house.guard.identity.verifiers)
        return issuers or [issuer for issuer in found if isinstance(issuer, str)]

    async def _metadata(self, request: Request) -> Response:
        """RFC 9728: what this resource is, and who gives tokens for it."""
        servers = self.authorization_servers()
        agent = request.path_params.get("agent")
        if not servers:
            return Response(status_code=404)
        # The same of every name: that an agent is here is not for those to know who have not said who they are.
        path = PATH if agent is None else f"{PATH}/{agent}"
        guarded = self.house.guarded
        scopes = self.settings.scopes or (guarded.identity.scopes if guarded is not None else ())
        about = protected_resource(self.house.public_url + path, servers, scopes=scopes)
        return Response(msgspec.json.encode(about), media_type="application/json")

    def challenge(self, wrong: Unauthenticated, path: str) -> str:
        """What to say to a caller who must say who it is: how, and where a token comes from."""
        if not self.authorization_servers():
            return wrong.challenge
        return challenge(self.house.public_url + path.rstrip("/"))


def _named(path: str) -> str | None:
    """The agent that a path names."""
    return path.removeprefix(PATH).strip("/") or None


MoreTools = Callable[[Caller], list[Tool]]


def _no_more(caller: Caller) -> list[Tool]:
    return []


def together(first: MoreTools, second: MoreTools) -> MoreTools:
    """The tools of both; of those that have one name, the first."""

    def tools(caller: Caller) -> list[Tool]:
        found = first(caller)
        names = {tool.name for tool in found}
        return found + [tool for tool in second(caller) if tool.name not in names]

    return tools


async def _met(house: House) -> None:
    """Wait for what the servers behind offer, but not for long: many a client asks for the tools only once."""
    behind = [each for each in house.agents.values() if isinstance(each, McpPeer) and not each.tools]
    with suppress(TimeoutError):
        async with asyncio.timeout(MEETING_SECONDS):
            await asyncio.gather(*(each.refresh() for each in behind), return_exceptions=True)


async def speak(house: House, agent: str | None = None) -> None:
    """MCP over standard input and output, until the client is gone. Whoever started this process may do everything."""
    await _met(house)
    turns = Turns(house)
    exposed = Exposed(house, turns, settings_of(house))
    more = together(exposed, NlwebTools(house, turns)) if agent is None else _no_more
    hidden = exposed.rules if agent is None else ()
    bus = InMemorySubscriptionBus()

    async def updated(uri: str) -> None:
        await bus.publish(ResourceUpdated(uri))

    watch = Watch(updated, lambda: LOCAL.state.get("watched", {}).values())
    listen = ListenHandler(bus)
    offer = Offer(house, turns, listen, only=agent, tools=more, without=hidden, watch=watch)
    looking = asyncio.create_task(watch.run())
    try:
        async with spoken() as (read, write):
            options = offer.server.create_initialization_options(NotificationOptions(True, True, True))
            await offer.server.run(read, write, options)
    finally:
        await end([looking])
        await turns.close()
