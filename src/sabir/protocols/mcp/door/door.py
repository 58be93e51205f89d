"""The MCP door: every agent is a tool, at ``/mcp`` all together and at ``/mcp/{agent}`` one alone.

Built on the official SDK: its kernel, its types, its version tables. Our limits, authentication and errors come first.
If an agent is an MCP server, ``/mcp/{agent}`` is a proxy for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Container, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Protocol

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

from sabir.aio import cancel_and_wait
from sabir.errors import NotFound, PeerError, Unauthenticated
from sabir.guard.identity.oauth import challenge, protected_resource
from sabir.http.door import Door, DoorContext
from sabir.protocols.mcp.peer.peer import McpPeer
from sabir.protocols.nlip.door.http import Everything
from sabir.turn import Caller

from .handlers import LOCAL, McpEndpoint, McpTool
from .nlweb_tools import NlwebTools
from .proxy.exposed_tools import Exposed, follow, settings_of
from .proxy.http import HttpProxy
from .proxy.messages import MessageProxy
from .proxy.server_contents import ServerContents
from .response import DOOR
from .stdio import spoken
from .streamable_http import PATH, StreamableHttpApp
from .subscriptions import ResourceWatcher, WatchedResource
from .turns import Turns

logger = logging.getLogger("sabir")

CLOSING_LOOK: Final = 0.5  # seconds between checks whether the gateway is stopping
LIST_SECONDS: Final = 60.0  # between polls of the tools of a server behind the gateway
MEETING_SECONDS: Final = 5.0  # how long the servers behind may delay the first answer over stdio
METADATA: Final = "/.well-known/oauth-protected-resource"

# What may change, and how clients are notified: an event from 2026-07-28 on, before that a notification of a session.
CHANGES: Final[Mapping[str, tuple[ServerEvent, str]]] = {
    "tools": (ToolsListChanged(), "notifications/tools/list_changed"),
    "prompts": (PromptsListChanged(), "notifications/prompts/list_changed"),
    "resources": (ResourcesListChanged(), "notifications/resources/list_changed"),
}


class McpContext(DoorContext, Protocol):
    """What the MCP door uses of the gateway beyond what every door uses: its authorization servers."""

    @property
    def issuers(self) -> Sequence[str]: ...

    @property
    def scopes(self) -> Sequence[str]: ...


class Mcp(Door):
    """The door."""

    name = DOOR

    def __init__(self, services: McpContext) -> None:
        self.services = services
        self.settings = settings_of(services)
        self.turns = Turns(services)
        self._nlweb = NlwebTools(services, self.turns)
        self.exposed = Exposed(services, self.turns, self.settings)
        self._bus = InMemorySubscriptionBus()
        self._listen = ListenHandler(self._bus)
        self._endpoints: dict[str | None, McpEndpoint] = {}
        self._proxies: dict[str, HttpProxy | MessageProxy] = {}
        self._background: set[asyncio.Task[None]] = set()
        self.app = StreamableHttpApp(services, self._server, self._schema, self.challenge)
        self.watch = ResourceWatcher(self._publish_update, self._session_subscriptions)

    def raw(self) -> Mapping[str, ASGIApp]:
        return {PATH: self.app, f"{PATH}/": self.app}

    def routes(self) -> Sequence[BaseRoute]:
        return [
            Route(METADATA, self._metadata, methods=["GET"]),
            Route(f"{METADATA}{PATH}", self._metadata, methods=["GET"]),
            Route(METADATA + PATH + "/{agent}", self._metadata, methods=["GET"]),
            Everything(f"{PATH}/", self.app),
        ]

    def addresses(self) -> Sequence[tuple[str, str]]:
        return [("MCP over HTTP", PATH)]

    async def start(self) -> None:
        """Ask the MCP servers behind agents what they offer, in the background."""
        self._in_background(self._until_closing())
        self._in_background(self.watch.run())
        for behind in self._mcp_peers():
            behind.on_changed = self._server_changed
            self._in_background(self._list_tools_of(behind))

    def _mcp_peers(self) -> list[McpPeer]:
        return [agent for agent in self.services.agents.values() if isinstance(agent, McpPeer)]

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _until_closing(self) -> None:
        """End open streams when the server starts to stop; otherwise they would delay it until its timeout."""
        while not self.services.exchange.closing:
            await asyncio.sleep(CLOSING_LOOK)
        self._listen.close()
        self.app.close()

    async def _list_tools_of(self, peer: McpPeer) -> None:
        try:
            await peer.refresh()
        except PeerError as exc:
            logger.warning("Tools of %s are unavailable: %s", peer.card.name, exc)
        else:
            await self._server_changed()
        # Servers without sessions do not notify when their tools change, nor does one that was restarted.
        name = peer.card.name
        if name in self.exposed.rules:
            await self.exposed.follow(name, self._server_changed)
        elif peer.program is None:
            await follow(lambda: self.services.agents.get(name), name, LIST_SECONDS, self._server_changed)

    async def _server_changed(self) -> None:
        """Handle a change in what a server behind the gateway offers."""
        for what in CHANGES:
            await self.changed(what)

    async def agents_changed(self) -> None:
        """Handle added or removed agents: free what belonged to removed ones, and notify clients."""
        for name in [name for name in self._endpoints if name is not None and name not in self.services.agents]:
            del self._endpoints[name]
        for name in [name for name in self._proxies if name not in self.services.agents]:
            proxy = self._proxies.pop(name)
            if isinstance(proxy, MessageProxy):
                self._in_background(proxy.aclose())
        for what in CHANGES:
            await self.changed(what)

    async def stop(self) -> None:
        await cancel_and_wait(list(self._background))  # a program that is just starting is ended
        self._listen.close()
        self.app.close()
        await self.turns.close()
        for proxy in self._proxies.values():
            if isinstance(proxy, MessageProxy):
                await proxy.aclose()
        for behind in self._mcp_peers():
            await behind.aclose()

    # -- what is offered where ------------------------------------------------------------------------

    def endpoint(self, agent: str | None = None) -> McpEndpoint:
        """The endpoint of one agent, or of all."""
        endpoint = self._endpoints.get(agent)
        if endpoint is None:
            endpoint = self._endpoints[agent] = make_endpoint(
                self.services, self.turns, self._listen, self.watch, self.exposed, self._nlweb, agent
            )
        return endpoint

    def _server(self, path: str, caller: Caller) -> Server[Any] | MessageProxy | HttpProxy:
        """Raises:
        NotFound: no agent of this path.
        Unauthenticated, Forbidden: this caller may use nothing here.
        """
        agent = _agent_in(path)
        if agent is not None:
            self.services.find(caller, agent, DOOR)
        elif caller.is_anonymous:
            self.services.rights.check_any(caller, self.services.agents, DOOR)
        proxy = self._proxy(agent) if agent is not None else None
        return proxy or self.endpoint(agent).server

    def _proxy(self, agent: str) -> HttpProxy | MessageProxy | None:
        """The proxy for an agent that is an MCP server: byte by byte; or message by message if it is a program, uses
        HTTP+SSE, or filters have to see the content."""
        behind = self.services.agents[agent]
        if not isinstance(behind, McpPeer):
            return None
        proxy = self._proxies.get(agent)
        if proxy is None or proxy.peer is not behind:
            if behind.program is not None or behind.uses_sse or self.services.filters.filters:
                proxy = MessageProxy(self.services, behind, self.endpoint(agent).server)
            else:
                proxy = HttpProxy(self.services, behind)
            self._proxies[agent] = proxy
        return proxy

    def _schema(self, path: str, tool: str) -> Mapping[str, Any] | None:
        agent = _agent_in(path)
        if agent is not None and agent not in self.services.agents:
            raise NotFound("the agent at this path was just removed")
        proxy = self._proxies.get(agent) if agent is not None else None
        if isinstance(proxy, MessageProxy):
            schema: Mapping[str, Any] | None = proxy.peer.tools.get(tool, {}).get("inputSchema")
            return schema if "x-mcp-header" in str(schema) else None
        return self.endpoint(agent).schema(tool)

    # -- what changes ---------------------------------------------------------------------------------

    async def changed(self, what: str) -> None:
        """Notify every subscribed client that the ``tools``, ``prompts`` or ``resources`` have changed."""
        event, method = CHANGES[what]
        await self._bus.publish(event)
        for session in list(self.app.sessions.values()):
            await session.notify(method, None)

    def _session_subscriptions(self) -> list[WatchedResource]:
        """The polled resources that sessions have subscribed to."""
        sessions = self.app.sessions.values()
        return [item for session in sessions for item in session.state.get("watched", {}).values()]

    async def _publish_update(self, uri: str) -> None:
        await self._bus.publish(ResourceUpdated(uri))

    async def updated(self, uri: str) -> None:
        """Notify the subscribers of a resource that it has changed."""
        await self._publish_update(uri)
        for session in list(self.app.sessions.values()):
            if uri in session.state.get("subscribed", ()):
                await session.notify("notifications/resources/updated", {"uri": uri})

    # -- who may come -----------------------------------------------------------------------------------

    def authorization_servers(self) -> list[str]:
        """Where a client gets a token for us: as configured, otherwise the issuers that our verifiers trust."""
        if self.settings.authorization_servers:
            return list(self.settings.authorization_servers)
        found = (getattr(verifier, "issuer", None) for verifier in self.services.identity.verifiers)
        return list(self.services.issuers) or [issuer for issuer in found if isinstance(issuer, str)]

    async def _metadata(self, request: Request) -> Response:
        """RFC 9728: what this resource is, and its authorization servers."""
        servers = self.authorization_servers()
        agent = request.path_params.get("agent")
        if not servers:
            return Response(status_code=404)
        # The same for every name: anonymous callers must not learn which agents exist.
        path = PATH if agent is None else f"{PATH}/{agent}"
        scopes = self.settings.scopes or self.services.scopes
        about = protected_resource(self.services.public_url + path, servers, scopes=scopes)
        return Response(
            msgspec.json.encode(about), headers={"X-Content-Type-Options": "nosniff"}, media_type="application/json"
        )

    def challenge(self, exc: Unauthenticated, path: str) -> str:
        """The challenge for a caller who must authenticate: how, and where to get a token."""
        if not self.authorization_servers():
            return exc.challenge
        return challenge(self.services.public_url + path.rstrip("/"))


def _agent_in(path: str) -> str | None:
    """The agent that a path names."""
    return path.removeprefix(PATH).strip("/") or None


MoreTools = Callable[[Caller], list[McpTool]]


def _no_tools(caller: Caller) -> list[McpTool]:
    return []


def combine_tools(first: MoreTools, second: MoreTools) -> MoreTools:
    """The tools of both; of those with the same name, the first."""

    def tools(caller: Caller) -> list[McpTool]:
        found = first(caller)
        names = {tool.name for tool in found}
        return found + [tool for tool in second(caller) if tool.name not in names]

    return tools


def make_endpoint(
    services: DoorContext,
    turns: Turns,
    listen: ListenHandler,
    watch: ResourceWatcher,
    exposed: Exposed,
    nlweb: NlwebTools,
    agent: str | None,
) -> McpEndpoint:
    """The endpoint of one agent, or of all. If the agent is an MCP server, its names stay unchanged."""
    tools: MoreTools = _no_tools
    hidden: Container[str] = ()
    if agent is None:
        tools = combine_tools(exposed, nlweb)
        hidden = exposed.rules
    elif isinstance(services.agents[agent], McpPeer):
        exposed = Exposed(services, turns, settings_of(services), only=agent)
        tools = exposed
        hidden = exposed.rules
    elif services.agents[agent].card.site is not None:
        tools = nlweb
    contents = (
        exposed.contents if agent is None or tools is exposed else ServerContents(services, exposed.prefix, agent)
    )
    return McpEndpoint(services, turns, listen, only=agent, tools=tools, without=hidden, watch=watch, contents=contents)


async def _list_all_tools(services: DoorContext) -> None:
    """Wait briefly for the lists of the servers behind: many clients ask for the tools only once."""
    behind = [agent for agent in services.agents.values() if isinstance(agent, McpPeer) and not agent.tools]
    with suppress(TimeoutError):
        async with asyncio.timeout(MEETING_SECONDS):
            await asyncio.gather(*(item.refresh() for item in behind), return_exceptions=True)


async def speak(services: DoorContext, agent: str | None = None) -> None:
    """MCP over standard input and output, until the client has gone. Whoever started this process may do everything."""
    await _list_all_tools(services)
    turns = Turns(services)
    exposed = Exposed(services, turns, settings_of(services))
    bus = InMemorySubscriptionBus()

    async def updated(uri: str) -> None:
        await bus.publish(ResourceUpdated(uri))

    watch = ResourceWatcher(updated, lambda: LOCAL.state.get("watched", {}).values())
    listen = ListenHandler(bus)
    endpoint = make_endpoint(services, turns, listen, watch, exposed, NlwebTools(services, turns), agent)
    looking = asyncio.create_task(watch.run())
    try:
        async with spoken() as (read, write):
            options = endpoint.server.create_initialization_options(NotificationOptions(True, True, True))
            await endpoint.server.run(read, write, options)
    finally:
        await cancel_and_wait([looking])
        await turns.close()
