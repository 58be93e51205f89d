"""The lists of an MCP server: its tools, prompts, resources and templates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import mcp_types as types
from mcp.client import ClientSession
from mcp.shared.exceptions import MCPError

MAX_ENTRIES: Final = 10_000  # of one list
# The lists of a server: the session's method, the key of its entries, and what identifies an entry.
_LISTS: Final[Mapping[str, tuple[str, str, str]]] = {
    "tools": ("list_tools", "tools", "name"),  # from which the session also learns which arguments go into headers
    "prompts": ("list_prompts", "prompts", "name"),
    "resources": ("list_resources", "resources", "uri"),
    "templates": ("list_resource_templates", "resourceTemplates", "uriTemplate"),
}


async def listed(session: ClientSession, what: str) -> dict[str, dict[str, Any]]:
    """All entries of one of the server's lists, by name or address; empty if it does not have the list."""
    method, name, key = _LISTS[what]
    entries: dict[str, dict[str, Any]] = {}
    cursor: str | None = None
    while len(entries) <= MAX_ENTRIES:
        try:
            page = await getattr(session, method)(params=types.PaginatedRequestParams(cursor=cursor))
        except MCPError as exc:
            if what != "tools" and exc.error.code == types.METHOD_NOT_FOUND:
                break
            raise
        for entry in page.model_dump(mode="json", by_alias=True, exclude_none=True)[name]:
            entries[str(entry[key])] = entry
        cursor = page.next_cursor
        if not cursor:
            break
    return entries
