"""Prompts and resources of MCP servers behind the gateway, combined at one endpoint.

Like tools, prompts get their server's prefix. An address may mean different things on different servers, so a resource
is
``sabir://servers/{server}/{its address}`` here, in lists, templates and the links of results; its own address also
works if only one server has it. At the endpoint of a single server, everything keeps its name. Each request is
forwarded with the rights, rate limit, filters and audit of the proxies.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import mcp_types as types
from mcp.shared.exceptions import MCPError

from sabir.errors import PeerRefused, SabirError
from sabir.http.door import DoorContext
from sabir.protocols.mcp.door.response import DOOR, McpRequestContext
from sabir.protocols.mcp.peer.peer import McpPeer, owner_of_caller
from sabir.protocols.mcp.wire import cards as mcp_card
from sabir.turn import Caller

from .content_filter import ContentFilter
from .http import ProxyBase

Json = dict[str, Any]
ADDRESS: Final = "sabir://servers/"
_WEB: Final = ("http://", "https://")


class ServerContents:
    """What the servers of an endpoint offer besides tools; ``prefix`` returns the prefix of a server."""

    def __init__(self, services: DoorContext, prefix: Callable[[str], str], only: str | None = None) -> None:
        self.services = services
        self._prefix = prefix
        self._only = only

    def servers(self, caller: Caller) -> Iterable[tuple[str, McpPeer]]:
        """The servers that this caller may use here."""
        allows = self.services.rights.allows
        for name, peer in self.services.agents.items():
            if isinstance(peer, McpPeer) and self._only in (None, name) and allows(caller, agent=name, door=DOOR):
                yield name, peer

    def _may_use(self, caller: Caller, server: str, what: str) -> bool:
        return self.services.rights.allows(caller, agent=server, door=DOOR, skill=what)

    # -- names --------------------------------------------------------------------------------------

    def _prompt_name(self, server: str, name: str) -> str:
        return name if self._only is not None else re.sub(r"[^A-Za-z0-9_-]", "-", self._prefix(server) + name)[:64]

    def _address(self, server: str, uri: str) -> str:
        return uri if self._only is not None else f"{ADDRESS}{server}/{uri}"

    def with_readable_links(self, server: str, result: Json) -> Json:
        """A result whose links to resources of its server work here."""
        peer = self.services.agents.get(server)
        blocks = result.get("content")
        if self._only is not None or not isinstance(peer, McpPeer) or not peer.has_resources:
            return result
        if not isinstance(blocks, list) or not any(isinstance(block, dict) and _uri_of(block) for block in blocks):
            return result
        return {**result, "content": [self._readable(server, peer, block) for block in blocks]}

    def _readable(self, server: str, peer: McpPeer, block: Any) -> Any:
        uri = _uri_of(block) if isinstance(block, dict) else None
        if uri is None or (uri.startswith(_WEB) and uri not in peer.resources):  # web addresses are read from the web
            return block
        if block["type"] == "resource_link":
            return {**block, "uri": self._address(server, uri)}
        return {**block, "resource": {**block["resource"], "uri": self._address(server, uri)}}

    # -- lists --------------------------------------------------------------------------------------

    def prompts(self, caller: Caller) -> list[Json]:
        return [
            {**prompt, "name": self._prompt_name(server, name)}
            for server, peer in self.servers(caller)
            for name, prompt in peer.prompts.items()
            if self._may_use(caller, server, name)
        ]

    def resources(self, caller: Caller) -> list[Json]:
        return [
            {**resource, "uri": self._address(server, uri)}
            for server, peer in self.servers(caller)
            for uri, resource in peer.resources.items()
            if self._may_use(caller, server, uri)
        ]

    def templates(self, caller: Caller) -> list[Json]:
        return [
            {**template, "uriTemplate": self._address(server, uri)}
            for server, peer in self.servers(caller)
            for uri, template in peer.templates.items()
            if self._may_use(caller, server, uri)
        ]

    # -- finding ------------------------------------------------------------------------------------

    def _prompt(self, caller: Caller, name: str) -> tuple[McpPeer, str] | None:
        for server, peer in self.servers(caller):
            for prompt in peer.prompts:
                if self._prompt_name(server, prompt) == name and self._may_use(caller, server, prompt):
                    return peer, prompt
        return None

    def _resource(self, caller: Caller, uri: str) -> tuple[McpPeer, str] | None:
        """The server of a resource, and its address there."""
        servers = [(name, peer) for name, peer in self.servers(caller) if peer.has_resources]
        if uri.startswith(ADDRESS):
            server, _, own = uri.removeprefix(ADDRESS).partition("/")
            found = [(peer, own) for name, peer in servers if name == server and self._may_use(caller, name, own)]
        else:
            found = [(peer, uri) for name, peer in servers if _has(peer, uri) and self._may_use(caller, name, uri)]
        return found[0] if len(found) == 1 else None

    # -- asking -------------------------------------------------------------------------------------

    async def get_prompt(self, context: McpRequestContext, name: str, arguments: Mapping[str, str]) -> Json | None:
        """A prompt of a server; None if no server has it for this caller."""
        found = self._prompt(context.caller, name)
        if found is None:
            return None
        peer, own = found
        return await self._ask(context, peer, "prompts/get", {"name": own, "arguments": dict(arguments)})

    async def read(self, context: McpRequestContext, uri: str) -> Json | None:
        """A resource of a server; None if no server has it for this caller."""
        found = self._resource(context.caller, uri)
        if found is None:
            return None
        peer, own = found
        result = await self._ask(context, peer, "resources/read", {"uri": own})
        contents = [
            {**item, "uri": uri if item.get("uri") == own else self._address(peer.card.name, str(item.get("uri")))}
            for item in result.get("contents") or ()
        ]
        return {**result, "contents": contents}

    async def complete(self, context: McpRequestContext, params: types.CompleteRequestParams) -> Json | None:
        """Completions for an argument of a prompt or a template of a server; None if no server has it."""
        # Without the client information in _meta: a server of an older version rejects it.
        asked = params.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"meta"})
        if isinstance(params.ref, types.PromptReference):
            found = self._prompt(context.caller, params.ref.name)
            key = "name"
        else:
            found = self._resource(context.caller, params.ref.uri)
            key = "uri"
        if found is None:
            return None
        peer, own = found
        return await self._ask(context, peer, "completion/complete", {**asked, "ref": {**asked["ref"], key: own}})

    async def _ask(self, context: McpRequestContext, peer: McpPeer, method: str, params: Json) -> Json:
        """Raises:
        MCPError: the server's error.
        SabirError: not allowed, or the server is unavailable.
        """
        proxy = ProxyBase(self.services, peer)
        body = {"id": 0, "method": method, "params": params}
        proxy.check(context, body)
        contents = ContentFilter(self.services.filters, context.caller)
        try:
            passed = await contents.request(method, params)
            shown = await proxy.identity_headers(context)
            result = await peer.request(method, dict(passed or {}), shown=shown, owner=owner_of_caller(context.caller))
            result = await contents.result(method, result)
        except PeerRefused as exc:
            await proxy.audit(context, body, str(exc.status))
            if isinstance(exc.status, int) and exc.status < 0:
                raise MCPError(exc.status, exc.reason.removeprefix(f"{exc.peer}: ")) from None
            raise
        except SabirError as exc:
            await proxy.audit(context, body, type(exc).__name__)
            raise
        await proxy.audit(context, body, "ok")
        return result


def _uri_of(block: Json) -> str | None:
    """The address in a content block that names a resource."""
    inner = block.get("resource") if block.get("type") == "resource" else block
    uri = inner.get("uri") if isinstance(inner, dict) and block.get("type") in ("resource", "resource_link") else None
    return uri if isinstance(uri, str) else None


def _has(peer: McpPeer, uri: str) -> bool:
    if uri in peer.resources or uri in peer.templates:
        return True
    return any(mcp_card.matched(template, uri) is not None for template in peer.templates)
