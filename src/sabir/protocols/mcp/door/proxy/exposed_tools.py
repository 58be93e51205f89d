"""Tools of MCP servers behind the gateway, listed at ``/mcp`` as their servers describe them, with unchanged results.

A server under ``expose`` is not translated: names get a prefix, and schemas, annotations, results and errors stay as
they are. A call is still a turn of the exchange, so rights, limits, filters, records and audit apply; with a filter,
the result is what the filters let through.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Annotated, Any, Final

import msgspec
from mcp.shared.exceptions import MCPError
from msgspec import Meta

from sabir.card import Skill
from sabir.errors import ConfigError, PeerError, PeerRefused, PeerUnavailable, suggestion
from sabir.exchange.request import TurnRequest
from sabir.http.door import DoorContext, settings_for
from sabir.message import Message, Part, token_part
from sabir.protocols.mcp.door.handlers import McpTool
from sabir.protocols.mcp.door.response import DOOR, McpRequestContext
from sabir.protocols.mcp.door.tasks import TASK_AFTER, TOOL, created, knows_tasks
from sabir.protocols.mcp.door.turns import Context, Turns
from sabir.protocols.mcp.peer.peer import AS_IT_CAME, McpPeer
from sabir.protocols.mcp.wire import cards as mcp_card
from sabir.protocols.mcp.wire import content as wire
from sabir.stores.base import TaskRow
from sabir.turn import Caller

from .server_contents import ServerContents

logger = logging.getLogger("sabir")

Json = dict[str, Any]
RETRY: Final = (1.0, 2.0, 5.0, 10.0, 30.0)  # seconds between attempts to reach an unavailable server
_MAX_OPEN: Final = 10_000
_SERVER: Final = "io.modelcontextprotocol/serverInfo"  # to the client, the server is this gateway
_NOT_OURS: Final = frozenset({"execution", "_meta"})  # about the server's own tasks, and for its own clients


class Expose(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"except_": "except"}):
    """Which tools of one server are exposed, and their names here."""

    only: tuple[str, ...] = ("*",)
    except_: tuple[str, ...] = ()
    prefix: str | None = None  # None: the server's name and a hyphen
    refresh: Annotated[float, Meta(gt=0)] = 60.0  # seconds between polls of the server's list


class ExposeSettings(msgspec.Struct, frozen=True):
    """The settings under ``doors: {mcp: …}``."""

    task_after: Annotated[float, Meta(ge=0)] = TASK_AFTER  # seconds after which a call becomes a task
    authorization_servers: tuple[str, ...] = ()  # where clients get tokens, if not from the issuers of identity
    scopes: tuple[str, ...] = ()
    expose: tuple[str, ...] | dict[str, tuple[str, ...] | Expose | None] = ()  # servers, and which of their tools


def settings_of(services: DoorContext) -> ExposeSettings:
    """The settings of the door.

    Raises:
        ConfigError: a key or value is invalid; names the nearest known key.
    """
    given = services.settings.get(DOOR)
    exposed = given.get("expose") if isinstance(given, Mapping) else None
    known = Expose.__struct_encode_fields__
    for server, rules in exposed.items() if isinstance(exposed, Mapping) else ():
        for key in rules if isinstance(rules, Mapping) else ():
            if key not in known:
                raise ConfigError(f"unknown key doors.{DOOR}.expose.{server}.{key}: {suggestion(key, known)}")
    return settings_for(DOOR, ExposeSettings, services)


def _rules(settings: ExposeSettings) -> dict[str, Expose]:
    named = settings.expose if isinstance(settings.expose, dict) else dict.fromkeys(settings.expose)
    return {
        server: Expose() if rules is None else Expose(rules) if isinstance(rules, tuple) else rules
        for server, rules in named.items()
    }


class Exposed:
    """The exposed tools that each caller may use."""

    def __init__(self, services: DoorContext, turns: Turns, settings: ExposeSettings, only: str | None = None) -> None:
        """``only``: all tools of this one server, under their own names.

        Raises:
            ConfigError: there is no such server.
        """
        self.services = services
        self.rules = _rules(settings) if only is None else {only: Expose(prefix="")}
        self._only = only
        self.contents = ServerContents(services, self.prefix, only)
        self._turns = turns
        self._task_after = settings.task_after
        self._made_of: list[object] = []
        self._made: list[OneTool] = []
        self._clashes: set[str] = set()
        self._open: OrderedDict[str, Raw] = OrderedDict()  # results of suspended turns, by their state
        servers = [name for name, agent in services.agents.items() if isinstance(agent, McpPeer)]
        for server in self.rules:
            if server not in servers:
                hint = suggestion(server, servers, "choose from")
                raise ConfigError(f"doors.{DOOR}.expose: there is no MCP server {server!r} among the agents: {hint}")

    def prefix(self, server: str) -> str:
        """The prefix of a server's tools and prompts."""
        rules = self.rules.get(server)
        return f"{server}-" if rules is None or rules.prefix is None else rules.prefix

    def __call__(self, caller: Caller) -> list[McpTool]:
        allows = self.services.rights.allows
        return [
            tool
            for tool in self._tools()
            if allows(caller, agent=tool.server, door=DOOR, tool=tool.tool, skill=tool.tool)
        ]

    def _tools(self) -> list[OneTool]:
        """All of them; recomputed when an agent or a server's list has changed."""
        peers = {server: peer for server in self.rules if isinstance(peer := self.services.agents.get(server), McpPeer)}
        others = self.services.agents.items() if self._only is None else ()
        cards = [agent.card for name, agent in others if name not in self.rules]
        made_of: list[object] = [*cards, *(peer.tools for peer in peers.values())]
        if len(made_of) == len(self._made_of) and all(a is b for a, b in zip(made_of, self._made_of, strict=True)):
            return self._made
        taken = {name: f"the agent {card.name}" for card in cards for name in mcp_card.tools_of(card)}
        made: list[OneTool] = []
        for server, peer in peers.items():
            for tool in self._chosen(server, peer):
                if tool.name in taken:
                    self._clash(tool, taken[tool.name])
                else:
                    taken[tool.name] = f"{tool.tool} of {server}"
                    made.append(tool)
        self._made_of, self._made = made_of, made
        return made

    def _chosen(self, server: str, peer: McpPeer) -> Iterator[OneTool]:
        rules = self.rules[server]
        for name, described in peer.tools.items():
            if any(fnmatchcase(name, item) for item in rules.only) and not any(
                fnmatchcase(name, item) for item in rules.except_
            ):
                yield OneTool(self, server, name, self._name(server, name), described)

    def _name(self, server: str, tool: str) -> str:
        if self._only is not None:
            return tool
        return re.sub(r"[^A-Za-z0-9_-]", "-", self.prefix(server) + tool)[:64]

    def _clash(self, tool: OneTool, by: str) -> None:
        said = f"doors.{DOOR}.expose: {tool.tool} of {tool.server} is left out: {tool.name} is {by}; choose a prefix"
        if said not in self._clashes:
            self._clashes.add(said)
            logger.warning("%s", said)

    # -- calling --------------------------------------------------------------------------------------

    async def call(self, tool: OneTool, ctx: Context, context: McpRequestContext, arguments: Json) -> Json:
        """The result of a call, as the server returned it.

        Raises:
            SabirError: rejected.
            MCPError: the server rejected it, with this code.
        """
        ask = tool.ask(context, arguments)
        state = (ctx.params or {}).get("requestState")
        raw = self._open.pop(state, None) if isinstance(state, str) else None
        raw = raw or Raw()
        passes = not self.services.filters.filters

        def finish(reply: Message) -> Json:
            result = raw.result if raw.result is not None and passes else wire.result_of(reply, tool.skill)
            return self.contents.with_readable_links(tool.server, result)

        before = AS_IT_CAME.set(raw.take)
        try:
            result = await self._answer(tool, ctx, context, ask, finish)
        except PeerRefused as refused:
            if isinstance(refused.status, int) and refused.status < 0:
                said = refused.reason.removeprefix(f"{refused.peer}: ")
                raise MCPError(refused.status, said, raw.about if passes else None) from None
            return wire.failed_result(str(refused))
        except PeerUnavailable as away:
            return wire.failed_result(f"{tool.name} is unavailable: {away}")
        except wire.TOLD_AS_RESULT as exc:
            return raw.result if raw.result is not None and passes else wire.failed_result(str(exc))
        finally:
            AS_IT_CAME.reset(before)
        if result.get("resultType") == "input_required":
            self._open[str(result.get("requestState"))] = raw
            if len(self._open) > _MAX_OPEN:
                self._open.popitem(last=False)
        return result

    async def _answer(
        self,
        tool: OneTool,
        ctx: Context,
        context: McpRequestContext,
        ask: TurnRequest,
        finish: Callable[[Message], Json],
    ) -> Json:
        if not knows_tasks(ctx):
            return await self._turns.answer(ctx, context, ask, finish)
        detail = {TOOL: tool.name}
        outcome = await self._turns.answer_within(ctx, context, ask, finish, self._task_after, detail)
        return created(outcome) if isinstance(outcome, TaskRow) else outcome

    # -- what changes ---------------------------------------------------------------------------------

    async def follow(self, server: str, changed: Callable[[], Awaitable[None]]) -> None:
        """Poll a server's list and report changes, endlessly."""
        await follow(lambda: self.services.agents.get(server), server, self.rules[server].refresh, changed)


async def follow(
    behind: Callable[[], object], name: str, refresh: float, changed: Callable[[], Awaitable[None]]
) -> None:
    """Poll a server's list, more often while it is unavailable, and report changes; as long as the server exists."""
    failed = 0
    while isinstance(peer := behind(), McpPeer):
        failed = max(failed, 1 if peer.unavailable is not None else 0)
        await asyncio.sleep(min(refresh, RETRY[min(failed, len(RETRY)) - 1]) if failed else refresh)
        before = peer.tools, peer.prompts, peer.resources, peer.templates
        try:
            await peer.refresh()
            failed = 0
        except PeerError as exc:
            if not failed:
                logger.warning("Tools of %s are unavailable: %s", name, exc)
            failed += 1
        if (peer.tools, peer.prompts, peer.resources, peer.templates) != before:
            await changed()


class Raw:
    """The result of one call as the server returned it, or the data of its error."""

    __slots__ = ("about", "result")

    def __init__(self) -> None:
        self.result: Json | None = None
        self.about: Any = None

    def take(self, result: Json) -> None:
        if "error" in result:
            self.about = result["error"].get("data")
            return
        passed = {name: value for name, value in result.items() if name != "resultType"}
        meta = {name: value for name, value in (passed.pop("_meta", None) or {}).items() if name != _SERVER}
        self.result = {**passed, "_meta": meta} if meta else passed


class OneTool(McpTool):
    """One tool of one server."""

    def __init__(self, exposed: Exposed, server: str, tool: str, name: str, described: Mapping[str, Any]) -> None:
        self._exposed = exposed
        self.server = server
        self.tool = tool
        given, gives = described.get("inputSchema"), described.get("outputSchema")
        self.skill: Skill = Skill(tool, str(described.get("title") or tool), input_schema=given, output_schema=gives)
        gateway = exposed.services.gateway_id
        own = {key: value for key, value in described.items() if key not in _NOT_OURS}
        meta = {**(described.get("_meta") or {}), mcp_card.AGENT: {"name": server, "skill": tool, "gateway": gateway}}
        super().__init__({**own, "name": name, "_meta": meta}, self._call)

    async def _call(self, ctx: Context, context: McpRequestContext, arguments: Json) -> Json:
        return await self._exposed.call(self, ctx, context, arguments)

    def ask(self, context: McpRequestContext, arguments: Json) -> TurnRequest:
        asked = self.asked(arguments)
        return TurnRequest(asked, DOOR, self.server, context.credentials, trace=context.trace, hops=context.hops)

    def asked(self, arguments: Json) -> Message:
        """The message that calls it. ``conversation`` continues one of ours, unless the tool itself has this
        argument."""
        given: Json = dict(arguments)
        tokens: tuple[Part, ...] = ()
        if "conversation" not in ((self.skill.input_schema or {}).get("properties") or {}):
            token = given.pop("conversation", None)
            tokens = (token_part(token),) if isinstance(token, str) and token else ()
        return Message("structured", "json", given, label=self.tool, submessages=tokens)
