"""Lists the agents of another gateway over A2A: the card of its default agent names the others."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import msgspec
from a2a.client.card_resolver import parse_agent_card
from a2a.types import a2a_pb2 as pb
from google.protobuf.json_format import ParseError

from sabir.card import Card
from sabir.errors import PeerRefused, PeerUnreadable
from sabir.guard.egress.addresses import GuardedClient
from sabir.protocols.a2a.wire.cards import card_from, gateway_of, site_of

from .listing import CARD, MAX_AGENTS, NAME, AgentListing, GatewayAddress, Listed

_AT_ONCE: Final = 8  # cards that are read concurrently


async def by_a2a(where: GatewayAddress) -> AgentListing:
    """A card that names no others is a single agent. With credentials, the extended cards are read.

    Raises:
        PeerError: there is no card, or it cannot be read.
    """
    async with where.fetcher() as fetcher:
        first = await _read(fetcher, where, where.base + CARD, f"{where.base}/a2a")
        answer = gateway_of(first)
        if answer is None:
            return AgentListing(where.gateway_id_of(None), "a2a", (Listed(_card(first), where.base),))
        gateway, names = answer
        room = asyncio.Semaphore(_AT_ONCE)

        async def one(name: str) -> Listed | None:
            place = f"{where.base}/a2a/{name}"
            async with room:
                try:
                    card = _card(await _read(fetcher, where, place + CARD, place))
                except PeerRefused:  # removed since, or not for us
                    return None
            return Listed(msgspec.structs.replace(card, name=name), place)

        usable = [name for name in names if NAME.fullmatch(name)][:MAX_AGENTS]
        found = await asyncio.gather(*(one(name) for name in usable))
    return AgentListing(where.gateway_id_of(gateway), "a2a", tuple(item for item in found if item is not None))


def _card(card: pb.AgentCard) -> Card:
    return msgspec.structs.replace(card_from(card), site=site_of(card))


async def _read(fetcher: GuardedClient, where: GatewayAddress, place: str, rpc: str) -> pb.AgentCard:
    text: Any = None
    if where.headers:
        body = {"jsonrpc": "2.0", "id": 1, "method": "GetExtendedAgentCard", "params": {}}
        try:
            answer = await where.json(fetcher, "POST", rpc, body, {"a2a-version": "1.0"})
            text = answer.get("result") if isinstance(answer, dict) else None
        except PeerRefused:
            text = None  # then use the public card
    if text is None:
        text = await where.json(fetcher, "GET", place)
    try:
        card = parse_agent_card(text)
    except (ParseError, ValueError, TypeError):
        raise PeerUnreadable(where.address, "its agent card cannot be read") from None
    if not card.name or not card.supported_interfaces:
        raise PeerUnreadable(where.address, "its agent card names no agent")
    return card
