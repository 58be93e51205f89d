"""Agent cards: made of Cards, told by what the caller may know, signed where a key is configured."""

from __future__ import annotations

import hashlib
import logging
from typing import Any, Final

import msgspec

from ..card import Card
from ..errors import MissingExtra
from ..turn import ANONYMOUS, Caller
from ..wire import a2a as wire
from ..wire.a2a_card import card_to, gateway_extension
from .a2a_keys import Keys
from .base import House

try:
    from a2a.server.request_handlers.response_helpers import agent_card_to_dict
    from a2a.types import a2a_pb2 as pb
except ImportError as missing:
    raise MissingExtra("A2A", "a2a") from missing

DOOR: Final = "a2a"
_BINDINGS: Final = (
    ("JSONRPC", wire.VERSION),
    ("HTTP+JSON", wire.VERSION),
    ("JSONRPC", wire.OLD_VERSION),
    ("HTTP+JSON", wire.OLD_VERSION),
)


def _worth_telling(record: logging.LogRecord) -> bool:
    """Not that a stranger's card has no skills: they are left out on purpose, and the SDK would say so each time."""
    return not (isinstance(record.args, tuple) and record.args[1:3] == ("AgentCard", "skills"))


logging.getLogger("a2a.utils.proto_utils").addFilter(_worth_telling)


class Cards:
    """The agent card of each agent."""

    def __init__(self, house: House, keys: Keys) -> None:
        self.house = house
        self.grpc = ""  # where gRPC is served, if it is
        self._keys = keys
        self._made: dict[str, tuple[bytes, bytes, str]] = {}  # by agent: what the last was made of, its body and tag

    async def public(self, agent: str, caller: Caller = ANONYMOUS) -> tuple[bytes, str]:
        """The card as this caller may read it, as JSON that 1.0 and 0.3 clients understand, and its entity tag.

        Raises:
            Unauthenticated, Forbidden: the agent is not for this caller, whether it is here or not.
            NotFound: there is no such agent.
        """
        rights = self.house.guard.rights
        seen = rights.visible(caller, self.house.find(caller, agent, DOOR).card, DOOR)
        assert seen is not None  # or it would not have been found
        others = self._others(agent, caller)
        open_to_all = self.house.guard.identity.anonymous and rights.allows(ANONYMOUS, agent=agent, door=DOOR)
        made_of = msgspec.json.encode((seen, self.house.public_url, others, open_to_all))
        known = self._made.get(agent)
        if known is not None and known[0] == made_of:
            return known[1], known[2]
        made = await self._signed(self._agent_card(seen, skills=True, required=not open_to_all, others=others))
        told: dict[str, Any] = agent_card_to_dict(made)
        unsigned = {key: value for key, value in told.items() if key != "signatures"}
        tag = f'W/"{hashlib.sha256(msgspec.json.encode(unsigned, order="sorted")).hexdigest()[:32]}"'
        body = msgspec.json.encode(told)
        self._made[agent] = made_of, body, tag
        return body, tag

    async def extended(self, agent: str, caller: Caller) -> pb.AgentCard:
        """The card for a known caller: with limits, and the skills it has a right to."""
        seen = self.house.guard.rights.visible(caller, self.house.find(caller, agent, DOOR).card, DOOR)
        assert seen is not None  # or it would not have been found
        others = self._others(agent, caller)
        return await self._signed(self._agent_card(seen, skills=True, required=False, whole=True, others=others))

    def _others(self, agent: str, caller: Caller) -> list[str] | None:
        """All agents that a caller may use; told on the card of the default agent, which stands for the gateway."""
        if agent != self.house.exchange.default:
            return None
        return [card.name for card in self.house.cards(caller, DOOR)]

    def _agent_card(
        self, card: Card, *, skills: bool, required: bool, whole: bool = False, others: list[str] | None = None
    ) -> pb.AgentCard:
        base = f"{self.house.public_url.rstrip('/')}/a2a"
        url = f"{base}/{card.name}"
        interfaces = [(binding, url, version) for binding, version in _BINDINGS]
        if self.grpc:
            interfaces.insert(2, ("GRPC", self.grpc, wire.VERSION))
            if card.name == self.house.exchange.default:  # 0.3 has no word for which agent is meant
                interfaces.append(("GRPC", self.grpc, wire.OLD_VERSION))
        schemes = self._schemes()
        made = card_to(card, interfaces, schemes=schemes, required=required, skills=skills, whole=whole)
        if others is not None:
            told = gateway_extension(self.house.facts.get("gateway", ""), others, base)
            made.capabilities.extensions.append(told)
        return made

    def _schemes(self) -> dict[str, pb.SecurityScheme]:
        """How callers may say who they are."""
        challenge = self.house.guard.identity.challenge.lower()
        found = {"bearer": pb.SecurityScheme(http_auth_security_scheme=pb.HTTPAuthSecurityScheme(scheme="Bearer"))}
        if "key" in challenge:
            key = pb.APIKeySecurityScheme(location="header", name="X-API-Key")
            found["key"] = pb.SecurityScheme(api_key_security_scheme=key)
        if "mutual" in challenge:
            found["certificate"] = pb.SecurityScheme(mtls_security_scheme=pb.MutualTlsSecurityScheme())
        return found

    async def _signed(self, card: pb.AgentCard) -> pb.AgentCard:
        return self._keys.sign_card(card, f"{self.house.public_url.rstrip('/')}/a2a/.well-known/jwks.json")
