"""Lists the agents of another gateway: over NLIP and NLWeb here, over A2A and MCP in the neighbouring files.

Whatever a list says, agents are only reached at the address that the operator configured: a list that names other
addresses does not lead there.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

import msgspec

from sabir.card import Card, Policy
from sabir.errors import PeerRefused, PeerUnreadable
from sabir.guard.egress.addresses import GuardedClient, Outbound, OutboundRules
from sabir.message import Part, json_part
from sabir.misfits import NOT_JSON
from sabir.protocols.nlip.peer.http import NlipHttpPeer
from sabir.protocols.peer import without_credentials
from sabir.protocols.registry import protocols

MAX_AGENTS: Final = 1000
SECONDS: Final = 20.0  # time limit of a list
CARD: Final = "/.well-known/agent-card.json"
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_ASK: Final = re.compile(rf"/ask(/{NAME.pattern})?/?$")
_MAX_BYTES: Final = 16 * 1024 * 1024


class Listed(msgspec.Struct, frozen=True, omit_defaults=True):
    """One agent of another gateway: its description, and how to reach it."""

    card: Card
    place: str
    labels: dict[str, str] = {}  # names of its skills on the wire, if they differ from their ids
    tools: dict[str, dict[str, Any]] = {}  # over MCP: its tools, the one that takes text first


class AgentListing(msgspec.Struct, frozen=True, omit_defaults=True):
    """The list of a gateway. ``gateway`` is its own name, ``protocol`` the one used."""

    gateway: str
    protocol: str
    agents: tuple[Listed, ...] = ()


@dataclass(frozen=True, slots=True)
class GatewayAddress:
    """The gateway that is asked, and our credentials for it."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    seconds: float = SECONDS

    @property
    def address(self) -> str:
        return without_credentials(self.url)

    @property
    def base(self) -> str:
        """The address without a suffix that names a protocol or a card."""
        parts = urlsplit(self.url)
        path = parts.path.rstrip("/").removesuffix(CARD)
        for protocol in protocols().values():
            path = path.removesuffix(f"/{protocol.path}")
        return urlunsplit(parts._replace(path=path, query="", fragment="")).rstrip("/")

    def end_point(self, protocol: str) -> str:
        return f"{self.base}/{protocols()[protocol].path}"

    def gateway_id_of(self, given: object) -> str:
        """The name of a gateway; one without a name is known by its address, which cards must not show."""
        if isinstance(given, str) and given:
            return given[:64]
        return hashlib.sha256(self.base.encode()).hexdigest()[:24]

    def fetcher(self) -> GuardedClient:
        """A client for documents of this address only: a redirect could lead inside our network."""
        rules = OutboundRules(private=True)  # configured by the operator
        return GuardedClient(Outbound(rules), max_bytes=_MAX_BYTES, redirects=0, seconds=self.seconds)

    async def json(
        self, fetcher: GuardedClient, method: str, url: str, body: Any = None, more: Mapping[str, str] | None = None
    ) -> Any:
        """The JSON document at a URL.

        Raises:
            PeerError: it cannot be fetched.
        """
        headers = {"accept": "application/json", "content-type": "application/json", **self.headers, **(more or {})}
        content = msgspec.json.encode(body) if body is not None else None
        answer = await fetcher.send(method, url, headers=headers, body=content)
        if not 200 <= answer.status < 300:
            raise PeerRefused(self.address, f"it answered {answer.status}", answer.status)
        try:
            return msgspec.json.decode(answer.body)
        except NOT_JSON:
            raise PeerUnreadable(self.address, "its answer is not JSON") from None


def readable(rows: Iterable[Any]) -> list[Card]:
    """The readable cards; an unreadable one is no reason to drop the others."""
    cards: list[Card] = []
    for row in rows:
        try:
            cards.append(msgspec.convert(row, Card))
        except (msgspec.ValidationError, ValueError):
            continue
        if len(cards) >= MAX_AGENTS:
            break
    return cards


async def by_nlip(where: GatewayAddress) -> AgentListing:
    """Over NLIP, by the control message that asks for capabilities.

    Raises:
        PeerError: it cannot be asked, or has no list.
    """
    place = where.end_point("nlip")
    async with NlipHttpPeer(place, seconds=where.seconds, headers=where.headers, retries=0) as peer:
        answer = await peer.control("What are your capabilities?", json_part({}, label="capabilities"))
        stated: Part | None = None
        with suppress(PeerRefused, PeerUnreadable):  # without a statement, none are required
            asked = await peer.control("What are your policies?", json_part({}, label="policy"))
            stated = asked.labelled("policy")
    part = answer.labelled("capabilities")
    result = part.value if part is not None and isinstance(part.value, dict) else {}
    if not isinstance(result.get("agents"), list):
        raise PeerUnreadable(where.address, "it does not list its agents over NLIP")
    cards = readable(result["agents"])
    own = _own_policies(stated.value if stated is not None else None, cards)
    cards = [msgspec.structs.replace(card, policies=(*card.policies, *own)) if own else card for card in cards]
    agents = tuple(Listed(card, f"{place}/{card.name}") for card in cards)
    return AgentListing(where.gateway_id_of(result.get("gateway")), "nlip", agents)


def _own_policies(stated: Any, cards: Iterable[Card]) -> tuple[Policy, ...]:
    """The gateway's own policies: all that it states, except those on agents' cards."""
    of_agents = {policy.kind for card in cards for policy in card.policies}
    found: list[Policy] = []
    for kind, answer in stated.items() if isinstance(stated, dict) else ():
        if kind in of_agents or not isinstance(answer, dict) or answer.get("require") is not True:
            continue
        offer = dict(answer["offer"]) if isinstance(answer.get("offer"), dict) else {}
        found.append(Policy(str(kind)[:64], str(offer.pop("text", "")), offer, required=True))
    return tuple(found)


async def by_nlweb(where: GatewayAddress) -> AgentListing:
    """Over NLWeb, by ``/who`` without a query, which matches everybody. NLWeb has no data for skills, so they are only
    named.

    Raises:
        PeerError: it cannot be asked, or has no list.
    """
    body = {"query": {"text": "", "type": "nlweb"}, "meta": {"max_results": 2 * MAX_AGENTS}}
    async with where.fetcher() as fetcher:
        answer = await where.json(fetcher, "POST", f"{where.base}/who", body)
    rows = answer.get("results") if isinstance(answer, dict) else None
    if not isinstance(rows, list):
        raise PeerUnreadable(where.address, "its /who does not list agents")
    found: dict[str, Listed] = {}
    for row in rows:
        place = _ask_place(row, where)
        for card in readable([row.get("definition")]) if place is not None else ():
            skills = tuple(msgspec.structs.replace(s, input_schema=None, output_schema=None) for s in card.skills)
            found[card.name] = Listed(msgspec.structs.replace(card, skills=skills), place or "")
    meta = answer.get("_meta")
    gateway = where.gateway_id_of(meta.get("gateway") if isinstance(meta, dict) else None)
    return AgentListing(gateway, "nlweb", tuple(found.values())[:MAX_AGENTS])


def _ask_place(row: Any, where: GatewayAddress) -> str | None:
    """The URL of a row's agent: its ``/ask``, at the address of its gateway. None if it is elsewhere."""
    if not isinstance(row, dict) or str(row.get("protocol", "nlweb")).lower() != "nlweb":
        return None
    try:
        path = urlsplit(str(row.get("endpoint", ""))).path
    except ValueError:
        return None
    found = _ASK.search(path)
    return None if found is None else where.end_point("nlweb") + (found.group(1) or "")
