"""Agent cards: made of Cards, told by what the caller may know, signed where a key is configured."""

from __future__ import annotations

import hashlib
import logging
from typing import Any, Final

import msgspec

from ..card import Card
from ..errors import MissingExtra, NotFound
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
        self._made: dict[str, tuple[bytes, bytes, str]] = {}  # by agent: what it was made of, the body, its tag

    async def public(self, agent: str) -> tuple[bytes, str]:
        """The card that anybody may read, as JSON that 1.0 and 0.3 clients understand, and its entity tag.

        Raises:
            NotFound: there is no such agent.
        """
        card = self._card(agent)
        others = self._others(agent, ANONYMOUS)
        made_of = msgspec.json.encode((card, self.house.public_url, others))
        known = self._made.get(agent)
        if known is not None and known[0] == made_of:
            return known[1], known[2]
        seen = self.house.guard.rights.visible(ANONYMOUS, card, DOOR)
        public = self._agent_card(seen or card, skills=seen is not None, required=seen is None, others=others)
        made = await self._signed(public)
        told: dict[str, Any] = agent_card_to_dict(made)
        unsigned = {key: value for key, value in told.items() if key != "signatures"}
        tag = f'W/"{hashlib.sha256(msgspec.json.encode(unsigned, order="sorted")).hexdigest()[:32]}"'
        body = msgspec.json.encode(told)
        self._made[agent] = made_of, body, tag
        return body, tag

    async def extended(self, agent: str, caller: Caller) -> pb.AgentCard:
        """The card for a known caller: with limits, and the skills it has a right to."""
        self.house.guard.rights.check(caller, agent=agent, door=DOOR)
        seen = self.house.guard.rights.visible(caller, self._card(agent), DOOR)
        assert seen is not None  # or the check would have refused
        others = self._others(agent, caller)
        return await self._signed(self._agent_card(seen, skills=True, required=False, whole=True, others=others))

    def _others(self, agent: str, caller: Caller) -> list[str] | None:
        """All agents that a caller may use; told on the card of the default agent, which stands for the gateway."""
        if agent != self.house.exchange.default:
            return None
        return [card.name for card in self.house.cards(caller, DOOR)]

    def _card(self, agent: str) -> Card:
        found = self.house.agents.get(agent)
        if found is None:
            raise NotFound(f"there is no agent {agent[:64]!r} here")
        return found.card

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
