"""Lists the agents of another gateway over ACL: its ``/.well-known/acl``."""

from __future__ import annotations

from typing import Any

from sabir.card import Card
from sabir.errors import PeerUnreadable

from .listing import MAX_AGENTS, NAME, AgentListing, GatewayAddress, Listed


async def by_acl(where: GatewayAddress) -> AgentListing:
    """Read ``/.well-known/acl``; the skills of each agent are read when it is contacted.

    Raises:
        PeerError: it cannot be asked, or has no list.
    """
    async with where.fetcher() as fetcher:
        answer = await where.json(fetcher, "GET", f"{where.base}/.well-known/acl")
    rows = answer.get("agents") if isinstance(answer, dict) else None
    if not isinstance(rows, list):
        raise PeerUnreadable(where.address, "its /.well-known/acl does not list agents")
    agents = tuple(_listed(row, where) for row in rows[:MAX_AGENTS] if _is_named(row))
    return AgentListing(where.gateway_id_of(answer.get("gateway")), "acl", agents)


def _is_named(row: Any) -> bool:
    return (
        isinstance(row, dict) and isinstance(row.get("agent_id"), str) and NAME.fullmatch(row["agent_id"]) is not None
    )


def _listed(row: dict[str, Any], where: GatewayAddress) -> Listed:
    name = row["agent_id"]
    return Listed(Card(name, str(row.get("description", ""))), f"{where.end_point('acl')}/{name}")
