"""Lists the agents of another gateway over MCP: its list of tools, each of which names its agent.

If the server is not a gateway, each tool is one agent.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from sabir.card import Card, Skill
from sabir.errors import PeerUnavailable
from sabir.protocols.mcp.peer.peer import McpPeer
from sabir.protocols.mcp.wire.cards import AGENT

from .listing import MAX_AGENTS, NAME, AgentListing, GatewayAddress, Listed

Json = dict[str, Any]


async def by_mcp(where: GatewayAddress) -> AgentListing:
    """Read the list of tools.

    Raises:
        PeerError: it cannot be asked.
    """
    own = urlsplit(where.url).path.strip("/") and where.base == where.url.rstrip("/")  # an endpoint with another name
    place = where.url if own else where.end_point("mcp")
    async with McpPeer(place, seconds=where.seconds, headers=where.headers) as peer:
        try:
            async with asyncio.timeout(where.seconds):
                await peer.refresh()
        except TimeoutError:
            raise PeerUnavailable(where.address, "no answer in time") from None
        tools = dict(peer.tools)
    gateway, of_agents = "", dict[str, dict[str, Json]]()
    for name, tool in tools.items():
        about = _about(tool) or {}
        gateway = gateway or str(about.get("gateway") or "")
        of_agents.setdefault(str(about.get("name") or _plain(name)), {})[name] = tool
    agents = [_of_tools(agent, its, place) for agent, its in of_agents.items() if NAME.fullmatch(agent)]
    return AgentListing(where.gateway_id_of(gateway), "mcp", tuple(agents[:MAX_AGENTS]))


def _about(tool: Mapping[str, Any]) -> Json | None:
    answer = (tool.get("_meta") or {}).get(AGENT)
    return answer if isinstance(answer, dict) else None


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-_.")[:64]


def _of_tools(agent: str, tools: Mapping[str, Json], place: str) -> Listed:
    """An agent described by its tools: the one that takes text, and one per skill."""
    words: dict[str, Json] = {}
    skills: dict[str, Skill] = {}
    labels: dict[str, str] = {}
    via: tuple[str, ...] = ()
    is_group = False
    for name, tool in tools.items():
        about = _about(tool)
        skill = about.get("skill") if about is not None else agent  # a server's own tool is treated as an agent
        is_group = is_group or (about is not None and about.get("group") is True)
        given = about.get("via") if about is not None else None
        via = tuple(str(item) for item in given) if isinstance(given, list) else via
        if isinstance(skill, str):
            skills[skill], labels[skill] = _skill(skill, tool), name
        else:
            words[name] = tool
    first = next(iter([*words.values(), *tools.values()]))
    said = str(first.get("description") or "").partition("\n- ")[0]  # the skills follow, and are listed separately
    card = Card(name=agent, description=said, skills=tuple(skills.values()), group=is_group, via=via)
    return Listed(card, place, labels, {**words, **tools})


def _skill(skill_id: str, tool: Mapping[str, Any]) -> Skill:
    return Skill(
        skill_id,
        str(tool.get("title") or skill_id),
        str(tool.get("description") or ""),
        input_schema=tool.get("inputSchema"),
        output_schema=tool.get("outputSchema"),
    )
