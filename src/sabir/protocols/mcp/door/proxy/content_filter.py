"""Applies the guard's filters to MCP messages that are otherwise passed on unchanged.

A message that the filters do not change is passed on unchanged, to the last field. Client data (arguments, answers)
passes the inbound filters, server data (results, questions, progress, logs, tool descriptions) the outbound ones;
names, addresses and schemas are not filtered. URL elicitation must use a web address, with filters or without.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any, Final

from sabir.errors import BadMessage, Forbidden
from sabir.guard.filters.base import Filters
from sabir.message import Message, Part, json_part
from sabir.protocols.mcp.wire import content as wire
from sabir.protocols.mcp.wire import elicitation as mcp_ask
from sabir.turn import Caller

logger = logging.getLogger("sabir")

Json = dict[str, Any]
# Where a client's values are, by method; in an answer they are the content of a form.
_SAID: Final = ("title", "description")
_GIVEN: Final[Mapping[str, str]] = {"tools/call": "arguments", "prompts/get": "arguments"}


class ContentFilter:
    """The filters, for one caller."""

    def __init__(self, filters: Filters, caller: Caller) -> None:
        self._filters = filters
        self._caller = caller

    def __bool__(self) -> bool:
        return bool(self._filters.filters)

    # -- inward -------------------------------------------------------------------------------------

    async def request(self, method: str, params: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        """Filter a client's request.

        Raises:
            Forbidden: a filter blocks it.
        """
        if not self or params is None:
            return params
        passed = dict(params)
        place = _GIVEN.get(method)
        if place is not None and isinstance(passed.get(place), dict):
            passed[place] = await self._values(passed[place])
        argument = passed.get("argument")
        if method == "completion/complete" and isinstance(argument, dict):
            passed["argument"] = await self._values(argument)
        answers = passed.get("inputResponses")
        if isinstance(answers, dict):
            passed["inputResponses"] = {key: await self.answer(item) for key, item in answers.items()}
        return passed

    async def answer(self, response: Any) -> Any:
        """Filter a client's answer to a server's question: the values of a form, or a model's output."""
        if not self or not isinstance(response, dict):
            return response
        content = response.get("content")
        if isinstance(content, dict) and "type" not in content:
            return {**response, "content": await self._values(content)}
        blocks = content if isinstance(content, list) else [content] if isinstance(content, dict) else None
        if blocks is None:
            return response
        passed = await self._blocks(blocks, inward=True)
        return {**response, "content": passed if isinstance(content, list) or len(passed) != 1 else passed[0]}

    async def _values(self, values: Json) -> Json:
        passed = (await self._filters.inbound(Message("structured", "json", values), self._caller)).first.value
        if not isinstance(passed, dict):
            raise Forbidden("a content filter removed the arguments of this call")
        return passed

    # -- outward ------------------------------------------------------------------------------------

    async def result(self, method: str, result: Json) -> Json:
        """Filter a server's result.

        Raises:
            Forbidden: a filter blocks it, or it sends people to an address that is not http or https.
        """
        for item in _asking(result):
            mcp_ask.check_address(item)
        if not self:
            return result
        passed = dict(result)
        match method:
            case "tools/call" | "tasks/result":
                passed = await self._tool_result(passed)
            case "prompts/get" if isinstance(passed.get("messages"), list):
                passed["messages"] = [await self._message(item) for item in passed["messages"]]
            case "resources/read" if isinstance(passed.get("contents"), list):
                passed["contents"] = [await self._contents(item) for item in passed["contents"]]
            case "tools/list" if isinstance(passed.get("tools"), list):
                passed["tools"] = await self.tools(passed["tools"])
            case "completion/complete" if isinstance(passed.get("completion"), dict):
                values = [await self._words(item) for item in passed["completion"].get("values") or ()]
                passed["completion"] = {**passed["completion"], "values": values}
        wanted = passed.get("inputRequests")
        if isinstance(wanted, dict):
            passed["inputRequests"] = {key: await self._wanted(item) for key, item in wanted.items()}
        return passed

    def refusal(self, data: object) -> None:
        """Filter a server's error, including addresses that people should visit before retrying."""
        sent = data.get("elicitations") if isinstance(data, dict) else None
        for item in sent if isinstance(sent, list) else ():
            mcp_ask.check_address(item if isinstance(item, dict) else {})

    async def question(self, params: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        """Filter a server's question to the client; raises as ``result`` does."""
        mcp_ask.check_address(params or {})
        if not self or params is None:
            return params
        asked = dict(params)
        if "message" in asked:
            asked["message"] = await self._words(asked["message"])
        if isinstance(asked.get("messages"), list):
            asked["messages"] = [await self._message(item) for item in asked["messages"]]
        if "systemPrompt" in asked:
            asked["systemPrompt"] = await self._words(asked["systemPrompt"])
        return asked

    async def tools(self, tools: list[Any]) -> list[Any]:
        """Filter a list of tools: models read their descriptions as well as their results."""
        passed = []
        for tool in tools if self else ():
            said = {name: tool[name] for name in _SAID if name in tool} if isinstance(tool, dict) else {}
            try:
                said = {name: await self._words(text) for name, text in said.items()}
                await self._words("\n".join(_texts(tool)))
            except Forbidden as blocked:
                logger.warning("Tool not listed because of its description: %s", blocked)
            else:
                passed.append({**tool, **said} if said else tool)
        return passed if self else tools

    async def note(self, params: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        """Filter a server's notifications: progress and logs."""
        if not self or params is None:
            return params
        said = dict(params)
        for name in ("message", "statusMessage"):
            if name in said:
                said[name] = await self._words(said[name])
        if "data" in said:
            passed = await self._filters.outbound(Message("structured", "json", said["data"]), self._caller)
            said["data"] = passed.first.value
        return said

    async def _wanted(self, request: Any) -> Any:
        if not isinstance(request, dict) or not isinstance(request.get("params"), dict):
            return request
        return {**request, "params": await self.question(request["params"])}

    async def _tool_result(self, result: Json) -> Json:
        """Filter content and structured content together: a filter sees everything."""
        blocks, structured = result.get("content"), result.get(wire.STRUCTURED)
        parts = [json_part(structured, label=wire.STRUCTURED)] if structured is not None else []
        if not isinstance(blocks, list):
            blocks = []
        passed = await self._parts([*map(_part, blocks), *parts])
        if passed is None:
            return result
        kept = [part for part in passed if part.label != wire.STRUCTURED]
        changed = {**result, "content": [wire.block_of(part, number) for number, part in enumerate(kept)]}
        found = next((part for part in passed if part.label == wire.STRUCTURED), None)
        if structured is not None and found is None:
            del changed[wire.STRUCTURED]
        elif found is not None:
            changed[wire.STRUCTURED] = found.value
        return changed

    async def _message(self, message: Any) -> Any:
        content = message.get("content") if isinstance(message, dict) else None
        blocks = content if isinstance(content, list) else [content] if isinstance(content, dict) else None
        if blocks is None:
            return message
        passed = await self._blocks(blocks)
        return {**message, "content": passed if isinstance(content, list) or len(passed) != 1 else passed[0]}

    async def _blocks(self, blocks: list[Any], *, inward: bool = False) -> list[Any]:
        passed = await self._parts([_part(block) for block in blocks], inward=inward)
        return blocks if passed is None else [wire.block_of(part, number) for number, part in enumerate(passed)]

    async def _contents(self, contents: Any) -> Any:
        if not isinstance(contents, dict):
            return contents
        passed = await self._parts([wire.part_of_contents(contents)])
        return contents if not passed else wire.contents_of(passed[0], str(contents.get("uri", "")))

    async def _parts(self, parts: list[Part], *, inward: bool = False) -> list[Part] | None:
        """The filtered parts; None if they are unchanged."""
        if not parts:
            return None
        message = Message.of(*parts)
        pass_through = self._filters.inbound if inward else self._filters.outbound
        passed = await pass_through(message, self._caller)
        return None if passed == message else list(wire.parts_of(passed))

    async def _words(self, text: Any) -> Any:
        return await self._filters.words(text, self._caller) if isinstance(text, str) else text


def _asking(result: Json) -> list[Json]:
    """The questions in a result."""
    wanted = result.get("inputRequests")
    requests = wanted.values() if isinstance(wanted, dict) else ()
    return [
        request["params"]
        for request in requests
        if isinstance(request, dict) and isinstance(request.get("params"), dict)
    ]


def _texts(described: Any) -> Iterator[str]:
    """The descriptions of a tool, its arguments and its results."""
    inner = described.values() if isinstance(described, dict) else described if isinstance(described, list) else ()
    if isinstance(described, dict):
        yield from (described[name] for name in _SAID if isinstance(described.get(name), str))
    for item in inner:
        yield from _texts(item)


def _part(block: Any) -> Part:
    """Raises:
    Forbidden: no filter can check this kind of content.
    """
    try:
        return wire.part_of(block)
    except BadMessage:
        raise Forbidden("the server answers with content of an unknown kind, which the filters cannot check") from None
