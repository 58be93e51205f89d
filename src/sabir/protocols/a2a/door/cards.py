"""Agent cards: built from Cards, limited to what the caller may know, signed if a key is configured."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec
from a2a.server.request_handlers.response_helpers import agent_card_to_dict
from a2a.types import a2a_pb2 as pb

from sabir.card import Card
from sabir.errors import BadMessage
from sabir.http.door import DoorContext
from sabir.protocols.a2a.wire import content as wire
from sabir.protocols.a2a.wire.cards import card_to, gateway_extension
from sabir.turn import ANONYMOUS, Caller

from .signing_keys import SigningKeys

DOOR: Final = "a2a"
_BINDINGS: Final = (
    ("JSONRPC", wire.VERSION),
    ("HTTP+JSON", wire.VERSION),
    ("JSONRPC", wire.OLD_VERSION),
    ("HTTP+JSON", wire.OLD_VERSION),
)
SAME_ORIGIN: Final = frozenset({"JSONRPC", "HTTP+JSON"})  # gRPC always has a separate port
_NAMES: Final = SAME_ORIGIN | {"GRPC"}


def _is_worth_logging(record: logging.LogRecord) -> bool:
    """False for the SDK's warning about a card without skills: they are left out intentionally."""
    return not (isinstance(record.args, tuple) and record.args[1:3] == ("AgentCard", "skills"))


logging.getLogger("a2a.utils.proto_utils").addFilter(_is_worth_logging)


class PublicCard(NamedTuple):
    """An agent card as it is served: its JSON, its entity tag, and when it was made."""

    body: bytes
    tag: str
    made: float


class Cards:
    """The agent card of each agent."""

    def __init__(
        self,
        services: DoorContext,
        keys: SigningKeys,
        versions: Sequence[str] = (wire.VERSION, wire.OLD_VERSION),
    ) -> None:
        self.services = services
        self._versions = versions
        self.grpc = ""  # where gRPC is served, if it is
        self.lists_grpc = False  # also on cards for clients that do not ask for it
        self._keys = keys
        # By agent and bindings: the input of the last card, and the card.
        self._made: dict[tuple[str, frozenset[str]], tuple[bytes, PublicCard]] = {}

    async def public(
        self, agent: str, caller: Caller = ANONYMOUS, bindings: frozenset[str] = frozenset()
    ) -> PublicCard:
        """The card as this caller may read it, as JSON that 1.0 and 0.3 clients understand.

        ``bindings`` limits its interfaces. gRPC has a separate port, and some clients reject a card with an interface
        on another origin, so it is on a card only if requested or configured.

        Raises:
            Unauthenticated, Forbidden: this caller may not use the agent; says the same whether or not it exists.
            NotFound: there is no such agent.
            BadMessage: unknown binding.
        """
        if not bindings <= _NAMES:
            raise BadMessage(wire.PROTOCOL, "binding", ", ".join(sorted(_NAMES)))
        rights = self.services.rights
        seen = rights.visible(caller, self.services.find(caller, agent, DOOR).card, DOOR)
        assert seen is not None  # otherwise it would not have been found
        others = self._others(agent, caller)
        open_to_all = self.services.identity.anonymous and rights.allows(ANONYMOUS, agent=agent, door=DOOR)
        made_of = msgspec.json.encode((seen, self.services.public_url, others, open_to_all))
        known = self._made.get((agent, bindings))
        if known is not None and known[0] == made_of:
            return known[1]
        made = await self._signed(self._agent_card(seen, bindings, required=not open_to_all, others=others))
        fields: dict[str, Any] = agent_card_to_dict(made)
        unsigned = {key: value for key, value in fields.items() if key != "signatures"}
        tag = f'W/"{hashlib.sha256(msgspec.json.encode(unsigned, order="sorted")).hexdigest()[:32]}"'
        public = PublicCard(msgspec.json.encode(fields), tag, time.time())
        self._made[agent, bindings] = made_of, public
        return public

    async def extended(self, agent: str, caller: Caller) -> pb.AgentCard:
        """The card for a known caller: with limits, and the skills it may use."""
        seen = self.services.rights.visible(caller, self.services.find(caller, agent, DOOR).card, DOOR)
        assert seen is not None  # otherwise it would not have been found
        others = self._others(agent, caller)
        return await self._signed(self._agent_card(seen, whole=True, others=others))

    def _others(self, agent: str, caller: Caller) -> list[str] | None:
        """All agents that a caller may use; listed on the card of the default agent, which is the gateway's card."""
        if agent != self.services.default_agent:
            return None
        return [card.name for card in self.services.cards(caller, DOOR)]

    def _agent_card(
        self,
        card: Card,
        bindings: frozenset[str] = frozenset(),
        *,
        required: bool = False,
        whole: bool = False,
        others: list[str] | None = None,
    ) -> pb.AgentCard:
        base = f"{self.services.public_url.rstrip('/')}/a2a"
        url = f"{base}/{card.name}"
        interfaces = [(binding, url, version) for binding, version in _BINDINGS]
        if self.grpc and (self.lists_grpc or "GRPC" in bindings):
            interfaces.insert(2, ("GRPC", self.grpc, wire.VERSION))
            if card.name == self.services.default_agent:  # 0.3 cannot name the agent
                interfaces.append(("GRPC", self.grpc, wire.OLD_VERSION))
        interfaces = [interface for interface in interfaces if interface[2] in self._versions]
        if bindings:
            interfaces = [interface for interface in interfaces if interface[0] in bindings]
        schemes = self._schemes() if self.services.identity.verifiers else None
        made = card_to(card, interfaces, schemes=schemes, required=required, whole=whole)
        if others is not None:
            made.capabilities.extensions.append(gateway_extension(self.services.gateway_id, others, base))
        return made

    def _schemes(self) -> dict[str, pb.SecurityScheme]:
        """How callers may authenticate."""
        challenge = self.services.identity.challenge
        found = {"bearer": pb.SecurityScheme(http_auth_security_scheme=pb.HTTPAuthSecurityScheme(scheme="Bearer"))}
        offered = challenge.lower()
        if "key" in offered:
            key = pb.APIKeySecurityScheme(location="header", name="X-API-Key")
            found["key"] = pb.SecurityScheme(api_key_security_scheme=key)
        if "mutual" in offered:
            found["certificate"] = pb.SecurityScheme(mtls_security_scheme=pb.MutualTlsSecurityScheme())
        return found

    async def _signed(self, card: pb.AgentCard) -> pb.AgentCard:
        return self._keys.sign_card(card, f"{self.services.public_url.rstrip('/')}/a2a/.well-known/jwks.json")
