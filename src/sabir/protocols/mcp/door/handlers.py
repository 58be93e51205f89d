"""What an MCP endpoint offers: the tools, prompts and resources of its agents, as handlers of the SDK.

An agent is a tool, and so is a skill with an input schema; a skill tagged ``prompt`` or ``resource`` is what its tag
says.
All of them are turns of the exchange: rights, limits, records and audit are the same as through any other door.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container, Iterator, Mapping
from typing import Any, Final, TypeVar

import mcp_types as types
from mcp.server.caching import CacheHint
from mcp.server.context import CallNext, HandlerResult
from mcp.server.lowlevel import Server
from mcp.server.subscriptions import ListenHandler
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel

from sabir import _version
from sabir.card import Card, Skill
from sabir.errors import SabirError
from sabir.exchange.request import TurnRequest
from sabir.guard import Credentials
from sabir.http.door import DoorContext
from sabir.message import Message
from sabir.protocols.mcp.wire import cards as mcp_card
from sabir.protocols.mcp.wire import content as wire
from sabir.stores.base import TaskRow
from sabir.turn import Caller

from .proxy.content_filter import ContentFilter
from .proxy.server_contents import ADDRESS, ServerContents
from .resources import Resources, start_of
from .response import DOOR, McpRequestContext
from .subscriptions import ResourceWatcher, WatchedResource
from .tasks import EXTENSION, TASK_AFTER, TOOL, GetTask, McpTasks, UpdateTask, created, knows_tasks
from .tasks_2025_11 import OPTIONAL, OldTasks, has_tasks, wants_task, with_tasks_capability
from .turns import Context, Finish, Turns, can_fill_in

Json = dict[str, Any]
PAGE: Final = 500  # entries of a list page
MAX_SUBSCRIBED: Final = 1000
MAX_URI: Final = 4096  # characters of a URI that a session keeps
OURS: Final = "sabir://"
_HINT: Final = CacheHint(ttl_ms=30_000, scope="private")
_HINTS: Final[dict[Any, CacheHint]] = dict.fromkeys(
    ("tools/list", "prompts/list", "resources/list", "resources/templates/list"), _HINT
) | {"resources/read": CacheHint(0, "private"), "server/discover": _HINT}
ParamsT = TypeVar("ParamsT", bound=BaseModel)
Handler = Callable[[Context, McpRequestContext, ParamsT], Awaitable[Json]]


class McpTool:
    """A tool that is not an agent's own and answers a call itself, such as NLWeb's and the gateway's."""

    skill: Skill | None = None  # its input and output, if its results are kept for later
    server = tool = ""  # whose tool it is, and its name there

    def __init__(self, described: Json, call: Callable[[Context, McpRequestContext, Json], Awaitable[Json]]) -> None:
        self.described = described
        self.name: str = described["name"]
        self.call = call

    def ask(self, context: McpRequestContext, arguments: Json) -> TurnRequest | None:
        """The turn of a call to it, if it is one and may become a task."""
        return None


class McpEndpoint:
    """One endpoint: all agents that its caller may use, or a single one."""

    def __init__(
        self,
        services: DoorContext,
        turns: Turns,
        listen: ListenHandler,
        *,
        only: str | None = None,
        tools: Callable[[Caller], list[McpTool]] = lambda caller: [],
        without: Container[str] = (),  # agents that are not offered here
        watch: ResourceWatcher,
        contents: ServerContents,
    ) -> None:
        self.services = services
        self._contents = contents
        self._without = without
        self.only = only
        self._turns = turns
        self._tools = tools
        self._watch = watch
        self._listen = listen
        settings = services.settings.get(DOOR)
        after = settings.get("task_after") if isinstance(settings, Mapping) else None
        self._task_after = float(after) if after is not None else TASK_AFTER
        self._resources = Resources(services, self.cards, owned=only is None)
        self._known: dict[str, tuple[Card, tuple[Mapping[str, Skill | None], str]]] = {}
        card = services.agents[only].card if only is not None else None
        self.server: Server[Any] = Server(
            only or "sabir",
            version=card.version if card is not None else _version.__version__,
            title=only,
            description=card.description if card is not None else "Agents behind a Sabir gateway",
            instructions=_INSTRUCTIONS,
            cache_hints=_HINTS,
        )
        self.server.middleware[:] = [self._with_old_tasks]  # the exchange handles the trace
        self._old_tasks = OldTasks(services, self._kept_result)
        self._register()

    def _register(self) -> None:
        add = self.server.add_request_handler
        add("tools/list", types.PaginatedRequestParams, self._with_jsonrpc_errors(self._list_tools))
        add("tools/call", types.CallToolRequestParams, self._with_jsonrpc_errors(self._call_tool))
        add("prompts/list", types.PaginatedRequestParams, self._with_jsonrpc_errors(self._list_prompts))
        add("prompts/get", types.GetPromptRequestParams, self._with_jsonrpc_errors(self._get_prompt))
        add("resources/list", types.PaginatedRequestParams, self._with_jsonrpc_errors(self._list_resources))
        add("resources/templates/list", types.PaginatedRequestParams, self._with_jsonrpc_errors(self._list_templates))
        add("resources/read", types.ReadResourceRequestParams, self._with_jsonrpc_errors(self._read_resource))
        add("resources/subscribe", types.SubscribeRequestParams, self._with_jsonrpc_errors(self._subscribe))
        add("resources/unsubscribe", types.UnsubscribeRequestParams, self._with_jsonrpc_errors(self._unsubscribe))
        add("completion/complete", types.CompleteRequestParams, self._with_jsonrpc_errors(self._complete))
        add("logging/setLevel", types.SetLevelRequestParams, self._with_jsonrpc_errors(self._set_level))
        tasks, old = McpTasks(self.services, self._kept_result), self._old_tasks
        add("tasks/get", GetTask, self._with_jsonrpc_errors(_by_version(old.get, tasks.get)))
        add("tasks/update", UpdateTask, self._with_jsonrpc_errors(tasks.update))
        add("tasks/cancel", GetTask, self._with_jsonrpc_errors(_by_version(old.cancel, tasks.cancel)))
        add("tasks/result", GetTask, self._with_jsonrpc_errors(old.result))
        add("tasks/list", types.PaginatedRequestParams, self._with_jsonrpc_errors(old.list))
        self.server.extensions[EXTENSION] = {}
        add("subscriptions/listen", types.SubscriptionsListenRequestParams, self._subscriptions_listen)

    def _with_jsonrpc_errors(self, handler: Handler[ParamsT]) -> Callable[[Context, ParamsT], Awaitable[Json]]:
        """The handler with its failures as JSON-RPC errors; the context keeps the reason, for the HTTP status."""

        async def run(ctx: Context, params: ParamsT) -> Json:
            context = ctx.request if ctx.request is not None else LOCAL
            try:
                result = await handler(ctx, context, params)
                if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
                    result.setdefault("resultType", "complete")
                return result
            except SabirError as exc:
                if context.admission is not None:
                    exc = await context.admission.rejected(exc)
                context.refused = exc if type(exc) in wire.STATUS else None
                raise MCPError(wire.CODES[type(exc)], str(exc)) from None

        return run

    async def _with_old_tasks(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Handle what the SDK's tables lack of the tasks of 2025-11-25."""
        if ctx.method == "initialize":
            caller = ctx.request.caller if ctx.request is not None else LOCAL.caller
            return with_tasks_capability(await call_next(ctx), caller)
        if wants_task(ctx):
            params = types.CallToolRequestParams.model_validate(ctx.params, by_name=False)
            return await self._with_jsonrpc_errors(self._call_as_task)(ctx, params)
        return await call_next(ctx)

    # -- who offers what ----------------------------------------------------------------------------

    def cards(self, caller: Caller) -> list[Card]:
        cards = self.services.cards(caller, DOOR)
        return [card for card in cards if self.only in (None, card.name) and card.name not in self._without]

    def _skills(self, caller: Caller, tag: str) -> Iterator[tuple[Card, Skill]]:
        for card in self.cards(caller):
            for skill in card.skills:
                if tag in skill.tags:
                    yield card, skill

    def schema(self, name: str) -> Mapping[str, Any] | None:
        """The input schema of a tool, if any of its arguments is also sent as a header."""
        for agent in self.services.agents.values():
            skill = mcp_card.tools_of(agent.card).get(name)
            if skill is not None and skill.input_schema is not None and "x-mcp-header" in str(skill.input_schema):
                return skill.input_schema
        return None

    def _ask(self, context: McpRequestContext, message: Message, agent: str) -> TurnRequest:
        return TurnRequest(message, DOOR, agent, context.credentials, trace=context.trace, hops=context.hops)

    # -- tools --------------------------------------------------------------------------------------

    async def _list_tools(self, ctx: Context, context: McpRequestContext, params: types.PaginatedRequestParams) -> Json:
        self._admit(context)
        tools = [
            mcp_card.tool(name, card, skill, self.services.gateway_id)
            for card in self.cards(context.caller)
            for name, skill in mcp_card.tools_of(card).items()
        ]
        optional = OPTIONAL if has_tasks(ctx) else {}
        tools = [{**tool, **optional} for tool in tools]
        for other in self._tools(context.caller):
            tools.append({**other.described, **optional} if other.skill is not None else other.described)
        tools = await ContentFilter(self.services.filters, context.caller).tools(tools)
        return _page("tools", tools, params.cursor)

    async def _call_as_task(
        self, ctx: Context, context: McpRequestContext, params: types.CallToolRequestParams
    ) -> Json:
        found = self._tool(context.caller, params.name)
        arguments = params.arguments or {}
        if found is None:
            other = next((tool for tool in self._tools(context.caller) if tool.name == params.name), None)
            if other is None:
                raise await self._no_tool(context, params.name)
            ask = other.ask(context, arguments)
            if ask is None:
                raise MCPError(wire.METHOD_NOT_FOUND, f"{params.name[:64]} cannot be called as a task")
            return await self._old_tasks.create(ask, params.name)
        card, skill = found
        wire.check_arguments(wire.INPUT if skill is None else skill.input_schema, arguments)
        return await self._old_tasks.create(self._ask(context, wire.asked(arguments, skill), card.name), params.name)

    async def _call_tool(self, ctx: Context, context: McpRequestContext, params: types.CallToolRequestParams) -> Json:
        arguments = params.arguments or {}
        found = self._tool(context.caller, params.name)
        if found is None:
            for tool in self._tools(context.caller):
                if tool.name == params.name:
                    return await tool.call(ctx, context, arguments)
            raise await self._no_tool(context, params.name)
        card, skill = found
        try:
            is_asked = skill is not None and skill.asks and can_fill_in(ctx)
            wire.check_arguments(
                wire.INPUT if skill is None else skill.input_schema, arguments, missing_is_asked=is_asked
            )
            ask = self._ask(context, wire.asked(arguments, skill), card.name)

            def finish(reply: Message) -> Json:
                return self._contents.with_readable_links(card.name, wire.result_of(reply, skill))

            if not knows_tasks(ctx):
                return await self._turns.answer(ctx, context, ask, finish)
            detail = {TOOL: params.name}
            outcome = await self._turns.answer_within(ctx, context, ask, finish, self._task_after, detail)
            return created(outcome) if isinstance(outcome, TaskRow) else outcome
        except wire.TOLD_AS_RESULT as exc:
            return wire.failed_result(str(exc))

    def _tool(self, caller: Caller, name: str) -> tuple[Card, Skill | None] | None:
        """The tool of a name, as this caller sees it. Rights are asked only for agents that may have it."""
        for card in self._all_cards():
            tools, own_name = self._tools_of(card)
            if name not in tools and name != own_name:
                continue
            seen = self.services.rights.visible(caller, card, DOOR)
            if seen is None:
                continue
            if seen is not card:
                tools = mcp_card.tools_of(seen)
            if name in tools:
                return seen, tools[name]
        return None

    def _all_cards(self) -> Iterator[Card]:
        """The cards of all agents that are offered here, whoever asks; the default agent first."""
        agents, default = self.services.agents, self.services.default_agent
        names = (default, *(name for name in agents if name != default)) if self.only is None else (self.only,)
        return (agents[name].card for name in names if name in agents and name not in self._without)

    async def _no_tool(self, context: McpRequestContext, name: str) -> MCPError:
        found = self._tool(LOCAL.caller, name)
        other = next((tool for tool in self._tools(LOCAL.caller) if tool.name == name), None)
        if found is not None:
            await self._audit_hidden(context, found[0].name, skill=found[1].id if found[1] is not None else "")
        elif other is not None and other.server:
            await self._audit_hidden(context, other.server, tool=other.tool, skill=other.tool)
        return MCPError(wire.INVALID_PARAMS, f"there is no tool {name[:64]!r} here")

    async def _audit_hidden(self, context: McpRequestContext, agent: str, *, tool: str = "", skill: str = "") -> None:
        """Report something this caller has no access to: the caller gets "not found", and the audit records a
        refusal."""
        try:
            self.services.rights.check(context.caller, agent=agent, door=DOOR, tool=tool, skill=skill)
        except SabirError as exc:
            if context.admission is not None:
                await context.admission.rejected(exc, agent)

    def _kept_result(self, caller: Caller, tool: str, reply: Message) -> Json:
        """The result of a call that has become a task."""
        found = self._tool(caller, tool)
        other = None
        if found is None:
            other = next((item for item in self._tools(caller) if item.name == tool), None)
        skill = found[1] if found is not None else other.skill if other is not None else None
        server = found[0].name if found is not None else other.server if other is not None else ""
        return self._contents.with_readable_links(server, wire.result_of(reply, skill))

    def _tools_of(self, card: Card) -> tuple[Mapping[str, Skill | None], str]:
        """The tools of a whole card, and the name of the agent, which is itself a tool for callers who may use none of
        its skills. Cached; a changed peer has another card."""
        known = self._known.get(card.name)
        if known is None or known[0] is not card:
            known = self._known[card.name] = (card, (mcp_card.tools_of(card), mcp_card.tool_name(card.name)))
        return known[1]

    # -- prompts ------------------------------------------------------------------------------------

    async def _list_prompts(
        self, ctx: Context, context: McpRequestContext, params: types.PaginatedRequestParams
    ) -> Json:
        self._admit(context)
        prompts = [mcp_card.prompt(skill) for _, skill in self._skills(context.caller, mcp_card.PROMPT)]
        names = {prompt["name"] for prompt in prompts}
        prompts += [prompt for prompt in self._contents.prompts(context.caller) if prompt["name"] not in names]
        return _page("prompts", prompts, params.cursor)

    async def _get_prompt(self, ctx: Context, context: McpRequestContext, params: types.GetPromptRequestParams) -> Json:
        for card, skill in self._skills(context.caller, mcp_card.PROMPT):
            if skill.id == params.name:
                arguments = params.arguments or {}
                wire.check_arguments(skill.input_schema, arguments)
                message = Message("structured", "json", dict(arguments), label=skill.id)
                finish = _prompt_finish(skill)
                return await self._turns.answer(ctx, context, self._ask(context, message, card.name), finish)
        result = await self._contents.get_prompt(context, params.name, params.arguments or {})
        if result is not None:
            return result
        for card, skill in self._skills(LOCAL.caller, mcp_card.PROMPT):
            if skill.id == params.name:
                await self._audit_hidden(context, card.name, skill=skill.id)
        raise MCPError(wire.INVALID_PARAMS, f"there is no prompt {params.name[:64]!r} here")

    async def _complete(self, ctx: Context, context: McpRequestContext, params: types.CompleteRequestParams) -> Json:
        self._admit(context)
        wanted = params.ref.name if isinstance(params.ref, types.PromptReference) else params.ref.uri
        tag = mcp_card.PROMPT if isinstance(params.ref, types.PromptReference) else mcp_card.RESOURCE
        for _, skill in self._skills(context.caller, tag):
            if skill.id == wanted:
                values = mcp_card.completions(skill.input_schema, params.argument.name, params.argument.value)
                return _completed(values)
        result = await self._contents.complete(context, params)
        if result is not None:
            return result
        if tag == mcp_card.RESOURCE:
            known = (params.context.arguments if params.context is not None else None) or {}
            argument, value = params.argument.name, params.argument.value
            proposed = await self._resources.complete(context.caller, wanted, argument, value, known)
            if proposed is not None:
                return _completed(proposed)
        raise MCPError(wire.INVALID_PARAMS, f"there is no {tag} {wanted[:64]!r} here")

    # -- resources ----------------------------------------------------------------------------------

    async def _list_resources(
        self, ctx: Context, context: McpRequestContext, params: types.PaginatedRequestParams
    ) -> Json:
        self._admit(context)
        skills = self._skills(context.caller, mcp_card.RESOURCE)
        resources = [mcp_card.resource(skill) for _, skill in skills if not mcp_card.is_template(skill.id)]
        resources += self._contents.resources(context.caller)
        start = start_of(params.cursor)
        entries, more = await self._resources.page(resources, context.caller, start, PAGE)
        return {"resources": entries, **({"nextCursor": str(start + PAGE)} if more else {})}

    async def _list_templates(
        self, ctx: Context, context: McpRequestContext, params: types.PaginatedRequestParams
    ) -> Json:
        self._admit(context)
        skills = self._skills(context.caller, mcp_card.RESOURCE)
        templates = [mcp_card.resource(skill) for _, skill in skills if mcp_card.is_template(skill.id)]
        templates += self._contents.templates(context.caller)
        templates += await self._resources.templates(context.caller)
        return _page("resourceTemplates", templates, params.cursor)

    async def _read_resource(
        self, ctx: Context, context: McpRequestContext, params: types.ReadResourceRequestParams
    ) -> Json:
        uri = str(params.uri)
        for card, skill in self._skills(context.caller, mcp_card.RESOURCE):
            variables: Mapping[str, str] | None = mcp_card.matched(skill.id, uri)
            if variables is not None:
                message = Message("structured", "json", {"uri": uri, **variables}, label=skill.id)
                finish = _resource_finish(uri)
                return await self._turns.answer(ctx, context, self._ask(context, message, card.name), finish)
        result = await self._contents.read(context, uri)
        if result is not None:
            return result
        self._admit(context)
        contents = await self._resources.read(context.caller, uri)
        if contents is None:
            for card, skill in self._skills(LOCAL.caller, mcp_card.RESOURCE):
                if mcp_card.matched(skill.id, uri) is not None:
                    await self._audit_hidden(context, card.name, skill=skill.id)
            raise _no_resource(uri)
        return contents

    async def _subscribe(self, ctx: Context, context: McpRequestContext, params: types.SubscribeRequestParams) -> Json:
        self._admit(context)
        subscribed: set[str] = context.state.setdefault("subscribed", set())
        if len(subscribed) >= MAX_SUBSCRIBED:
            raise MCPError(wire.INVALID_REQUEST, f"at most {MAX_SUBSCRIBED} subscriptions a session")
        uri = str(params.uri)
        if len(uri) > MAX_URI:
            raise MCPError(wire.INVALID_PARAMS, f"mcp: at $.params.uri: expected at most {MAX_URI} characters")
        watched = await self._watched(context, uri, _resource_notifier(context, ctx))
        if watched is not None:
            context.state.setdefault("watched", {})[uri] = watched
        elif uri.startswith(ADDRESS):
            raise MCPError(wire.INVALID_REQUEST, "a server's resource is subscribed to at /mcp/{server}")
        elif uri.startswith(OURS):
            raise _no_resource(uri)
        subscribed.add(uri)
        return {}

    async def _unsubscribe(
        self, ctx: Context, context: McpRequestContext, params: types.UnsubscribeRequestParams
    ) -> Json:
        context.state.get("subscribed", set()).discard(str(params.uri))
        context.state.get("watched", {}).pop(str(params.uri), None)
        return {}

    async def _watched(
        self, context: McpRequestContext, uri: str, notify: Callable[[str], Awaitable[None]]
    ) -> WatchedResource | None:
        """A resource of the gateway in its current state; None if this caller has none at this address."""

        def mark() -> Awaitable[object]:
            return self._resources.mark(context.caller, uri)

        now = await mark()
        return WatchedResource(uri, mark, now, notify) if now is not None else None

    async def _subscriptions_listen(
        self, ctx: Context, params: types.SubscriptionsListenRequestParams
    ) -> HandlerResult:
        """The same from 2026-07-28 on: while the request is open. Resources that its caller may not read are left
        out."""
        context = ctx.request if ctx.request is not None else LOCAL
        wished = params.notifications.resource_subscriptions or []
        watched: dict[str, WatchedResource] = {}
        for uri in wished[:MAX_SUBSCRIBED]:
            found = await self._watched(context, uri, self._watch.notify)
            if found is not None:
                watched[uri] = found
        kept = [uri for uri in wished if uri in watched or not uri.startswith(OURS)]
        about = params.notifications.model_copy(update={"resource_subscriptions": kept or None})
        with self._watch.listening(watched.values()):
            return await self._listen(ctx, params.model_copy(update={"notifications": about}))

    # -- the rest -----------------------------------------------------------------------------------

    async def _set_level(self, ctx: Context, context: McpRequestContext, params: types.SetLevelRequestParams) -> Json:
        context.state["level"] = params.level
        return {}

    def _admit(self, context: McpRequestContext) -> None:
        """Raises:
        RateLimited: over the rate. The exchange charges turns; this is for requests answered here.
        """
        context.charge(self.services.rates)


_INSTRUCTIONS: Final = (
    "Each agent is a tool that takes text. Its result has a 'conversation'; pass it as an argument to continue it."
)
_LOCAL_CALLER: Final = Caller(id="local", kind="local", name="this machine")
LOCAL: Final = McpRequestContext(
    Credentials(caller=_LOCAL_CALLER), _LOCAL_CALLER
)  # whoever runs `sabir mcp` on this machine


def _resource_notifier(context: McpRequestContext, ctx: Context) -> Callable[[str], Awaitable[None]]:
    """How a session is notified that a resource has changed."""
    session = context.session

    async def notify(uri: str) -> None:
        if session is not None:
            await session.notify("notifications/resources/updated", {"uri": uri})
        else:
            await ctx.session.send_resource_updated(uri)

    return notify


def _prompt_finish(skill: Skill) -> Finish:
    return lambda reply: mcp_card.prompt_result(reply, skill.description)


def _resource_finish(uri: str) -> Finish:
    return lambda reply: mcp_card.resource_result(reply, uri)


def _no_resource(uri: str) -> MCPError:
    return MCPError(wire.INVALID_PARAMS, "resource not found", {"uri": uri[:2048]})


def _by_version(old: Handler[ParamsT], new: Handler[ParamsT]) -> Handler[ParamsT]:
    """A method with different meanings in 2025-11-25 and in the later extension."""
    return lambda ctx, context, params: (old if has_tasks(ctx) else new)(ctx, context, params)


def _completed(values: list[str]) -> Json:
    return {"completion": {"values": values, "total": len(values), "hasMore": False}}


def _page(name: str, entries: list[Json], cursor: str | None) -> Json:
    """One page of a list, and the cursor of the next.

    Raises:
        NotFound: invalid cursor.
    """
    if cursor is None and len(entries) <= PAGE:
        return {name: entries}
    start = start_of(cursor)
    page: Json = {name: entries[start : start + PAGE]}
    if start + PAGE < len(entries):
        page["nextCursor"] = str(start + PAGE)
    return page
