"""The directories of other gateways, searched over ACL."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

import msgspec

from sabir.cluster.directory import Entry, Template
from sabir.errors import SabirError
from sabir.turn import Caller

from .gateways import Neighbour, RemoteGateways
from .listing import GatewayAddress

logger = logging.getLogger("sabir.acl")


async def search_gateways(
    gateways: RemoteGateways, template: Template, caller: Caller, *, limit: int, depth: int, via: Sequence[str]
) -> list[Entry]:
    """The entries of other gateways for a template, and, within ``depth``, of gateways that they know.

    ``via`` lists the gateways that were already asked. One that does not answer, or does not speak ACL, contributes
    nothing.
    """
    asked = [gateway for gateway in gateways if gateway.id not in via]
    parameters = {
        "template": msgspec.to_builtins(template),
        "max_results": limit,
        "max_depth": depth - 1,
        "via": [*via, gateways.gateway],
    }
    found = await asyncio.gather(*(_search(gateways, item, parameters, caller) for item in asked))
    return [entry for entries in found for entry in entries][:limit]


async def _search(
    gateways: RemoteGateways, neighbour: Neighbour, parameters: dict[str, Any], caller: Caller
) -> list[Entry]:
    try:
        headers = await gateways.outgoing.headers(neighbour.settings.url, caller)
        where = GatewayAddress(neighbour.settings.url, headers, seconds=neighbour.settings.seconds)
        async with where.fetcher() as fetcher:
            body = {"action": "search", "parameters": parameters}
            answer = await where.json(fetcher, "POST", f"{where.end_point('acl')}/directory", body)
        rows = answer.get("entries") if isinstance(answer, dict) else None
        return msgspec.convert(rows or [], list[Entry])
    except (SabirError, msgspec.ValidationError) as exc:
        logger.info("The directory of the gateway %s was not searched: %s", neighbour.name, exc)
        return []
