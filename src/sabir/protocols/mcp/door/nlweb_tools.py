"""NLWeb's tools over MCP: ``ask``, ``await``, ``list_sites`` and ``who``, if there is a site.

Results are valid MCP, unlike the results of NLWeb's own server: text for people in ``content``, and the whole NLWeb
body in ``structuredContent``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sabir.errors import NotFound, SabirError
from sabir.exchange.request import TurnRequest
from sabir.http.door import DoorContext
from sabir.message import Message
from sabir.protocols.mcp.wire import cards as mcp_card
from sabir.protocols.mcp.wire import content as wire
from sabir.protocols.nlweb.door.promises import FORMAT, Promises, response_of
from sabir.protocols.nlweb.door.routes import LONGEST_WAIT, WAIT, Nlweb, OfSites
from sabir.protocols.nlweb.door.who import answer_of, found
from sabir.protocols.nlweb.wire.mapping import message_of
from sabir.protocols.nlweb.wire.models import FailureResponse, Response, plain
from sabir.protocols.nlweb.wire.requests import ask_of, await_of, who_of
from sabir.protocols.nlweb.wire.responses import UNKNOWN_PROMISE, ResponseFormat
from sabir.stores.base import TaskRow
from sabir.turn import Caller

from .handlers import McpTool
from .response import DOOR, McpRequestContext
from .turns import Context, Turns

Json = dict[str, Any]
_OBJECT: Final = {"type": "object"}
_SITE: Final = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
_QUERY: Final = {
    "description": "What to find: words, or an object with text, site and any further attribute as a filter",
    "anyOf": [
        {"type": "string"},
        {
            "type": "object",
            "properties": {"text": {"type": "string"}, "site": _SITE},
            "required": ["text"],
        },
    ],
}
_ASK: Final[Json] = {
    "name": "ask",
    "title": "Ask a site",
    "description": "Finds what suits a question in natural language, with filters, and answers in lists or words.",
    "inputSchema": {
        "type": "object",
        "properties": {"query": _QUERY, "context": _OBJECT, "prefer": _OBJECT, "meta": _OBJECT},
        "required": ["query"],
    },
    "outputSchema": _OBJECT,
}
_AWAIT: Final[Json] = {
    "name": "await",
    "title": "Await a promise",
    "description": "Polls or cancels a promise of ask; returns its answer, or another promise.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "promise_token": {"type": "string"},
            "action": {"type": "string", "enum": ["checkin", "cancel"]},
            "meta": _OBJECT,
        },
        "required": ["promise_token"],
    },
    "outputSchema": _OBJECT,
}
_SITES: Final[Json] = {
    "name": "list_sites",
    "title": "List sites",
    "description": "The sites that can be asked here.",
    "inputSchema": {"type": "object", "properties": {}},
    "outputSchema": _OBJECT,
}
_WHO: Final[Json] = {
    "name": "who",
    "title": "Who can answer",
    "description": "Which agents here suit a question, and where they are.",
    "inputSchema": {"type": "object", "properties": {"query": _QUERY, "meta": _OBJECT}, "required": ["query"]},
    "outputSchema": _OBJECT,
}


class NlwebTools:
    """The four tools, over the same turns, tasks and cards as the NLWeb door."""

    def __init__(self, services: DoorContext, turns: Turns) -> None:
        self.services = services
        self._turns = turns
        self._nlweb = Nlweb(services)
        self._promises = Promises(services.tasks)
        self._tools = [
            McpTool(_ASK, self._ask),
            McpTool(_AWAIT, self._await),
            McpTool(_SITES, self._sites),
            McpTool(_WHO, self._who),
        ]

    def __call__(self, caller: Caller) -> list[McpTool]:
        """The tools, if there is a site that this caller may ask. An agent of the same name takes precedence."""
        cards = self.services.cards(caller, DOOR)
        if not any(card.site is not None or isinstance(self.services.agents[card.name], OfSites) for card in cards):
            return []
        taken = {name for card in cards for name in mcp_card.tools_of(card)}
        return [tool for tool in self._tools if tool.name not in taken]

    async def _ask(self, ctx: Context, context: McpRequestContext, arguments: Json) -> Json:
        try:
            request = ask_of(_nested(arguments), lenient=True)
            agent, card = self._nlweb.agent_for(request, {}, context.caller)
            response_format = ResponseFormat.of(request, card.site or card.name)
        except SabirError as exc:
            return _result(ResponseFormat().failure(exc))
        ask = TurnRequest(message_of(request), DOOR, agent, context.credentials, trace=context.trace, hops=context.hops)

        def finish(reply: Message) -> Json:
            return _result(response_format.reply(reply.without_tokens(), wire.conversation_of(reply)))

        wait = request.prefer.wait if request.prefer.wait is not None else WAIT
        try:
            outcome = await self._turns.answer_within(
                ctx, context, ask, finish, min(max(0.0, wait), LONGEST_WAIT), {FORMAT: response_format.to_dict()}
            )
        except wire.TOLD_AS_RESULT as exc:
            return _result(response_format.failure(exc))
        return _result(response_of(outcome, response_format)) if isinstance(outcome, TaskRow) else outcome

    async def _await(self, ctx: Context, context: McpRequestContext, arguments: Json) -> Json:
        response_format = ResponseFormat()
        try:
            request = await_of({"action": "checkin", **arguments})
            response_format = ResponseFormat.of_meta(request.meta)
            caller = await self.services.guard.admit(context.credentials, ())
            response = await self._promises.look(request.promise_token, request.action, caller, response_format, 0.0)
        except NotFound:
            missing = NotFound("promise not found, expired, or not yours")
            return _result(response_format.failure(missing, code=UNKNOWN_PROMISE))
        except wire.TOLD_AS_RESULT as exc:
            return _result(response_format.failure(exc))
        return _result(response)

    async def _sites(self, ctx: Context, context: McpRequestContext, arguments: Json) -> Json:
        caller = await self.services.guard.admit(context.credentials, ())
        names = await self._nlweb.site_names(caller)
        return _shown(", ".join(names) or "No sites.", {"message-type": "sites", "sites": names})

    async def _who(self, ctx: Context, context: McpRequestContext, arguments: Json) -> Json:
        caller = await self.services.guard.admit(context.credentials, ())
        try:
            request = who_of(arguments)
        except wire.TOLD_AS_RESULT as exc:
            return wire.failed_result(str(exc))
        held = await self._nlweb.held(request, self.services.cards(caller, DOOR))
        rows = found(request, self.services, caller, held)
        words = "\n".join(f"{row['definition']['name']}: {row['endpoint']}" for row in rows)
        return _shown(words or "No matching agent.", answer_of(rows, request))


def _nested(arguments: Mapping[str, Any]) -> Json:
    """Over MCP the query may also be plain text."""
    query = arguments.get("query")
    given = {name: value for name, value in arguments.items() if name in ("query", "context", "prefer", "meta")}
    return {**given, "query": {"text": query}} if isinstance(query, str) else given


def _result(response: Response) -> Json:
    """An NLWeb body as the result of a tool call; ``NO_RESULTS`` and the like are failures that a model can act on."""
    body: Json = plain(response)
    result = _shown(_words(body), body)
    if isinstance(response, FailureResponse):
        result["isError"] = response.error.code != "NO_RESULTS"
    return result


def _shown(words: str, body: Json) -> Json:
    return {"content": [{"type": "text", "text": words}], "structuredContent": body}


def _words(body: Mapping[str, Any]) -> str:
    """The text of an NLWeb body, for people."""
    if "error" in body:
        return str(body["error"].get("message", ""))
    if "elicitation" in body:
        asked = body["elicitation"]
        return "\n".join([str(asked.get("text", "")), *(str(q.get("text", "")) for q in asked.get("questions", ()))])
    if "promise" in body:
        return f"Not yet. Await the promise {body['promise']['token']}."
    texts = [str(item.get("text", "")) for item in body.get("content") or () if isinstance(item, Mapping)]
    named = (f"{n}. {item.get('name', '')}: {item.get('description', '')}" for n, item in _numbered(body))
    return "\n".join(text for text in (*texts, *(() if texts else named)) if text.strip())


def _numbered(body: Mapping[str, Any]) -> list[tuple[int, Mapping[str, Any]]]:
    return list(enumerate((item for item in body.get("results") or () if isinstance(item, Mapping)), 1))
