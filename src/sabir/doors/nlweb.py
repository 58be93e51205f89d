"""NLWeb: ``/ask``, ``/await``, ``/who``, ``/sites`` and ``/openapi.json``, for any agent of the gateway.

``POST /ask`` asks the default agent, or the one that answers for ``query.site``; ``/ask/{agent}`` asks one by
name. The answer is one JSON body, or server-sent events if the caller wants a stream (W-3). Work that outlives
the time the caller gives it becomes a task of the gateway, and the answer a promise of it (W-9). Every body is
NLWeb, refusals too (W-6).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Protocol, runtime_checkable
from urllib.parse import parse_qsl

import msgspec
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from ..card import Card
from ..errors import (
    BadMethod,
    NotFound,
    SabirError,
    TooBig,
    Unreadable,
)
from ..guard import Credentials
from ..line import Ask
from ..turn import ANONYMOUS, Caller
from ..wire.nlweb_answers import UNKNOWN_PROMISE, Stream, Telling, code_of, status_of
from ..wire.nlweb_hub import message_of
from ..wire.nlweb_models import PROTOCOL, AskRequest, Meta, Promise, PromiseResponse, Response, WhoRequest
from ..wire.nlweb_requests import ask_of, ask_of_pairs, await_of, json_of, who_of
from .base import House, credentials_of, headers_of, hops_of, refusal_headers, settings_for
from .nlweb_openapi import document
from .nlweb_promises import Promises
from .nlweb_turn import Asking, Outlet
from .nlweb_who import answer_of, found
from .visitor import NO_AGENT, Visitor

DOOR: Final = "nlweb"
WAIT: Final = 10.0  # seconds after which a promise is better than silence (W-9)
LONGEST_WAIT: Final = 600.0
_JSON: Final = b"application/json"
_SSE: Final = b"text/event-stream"


class HasSites(Protocol):
    async def sites(self) -> Sequence[Any]: ...


@runtime_checkable
class OfSites(Protocol):
    """What a site agent shows: the index that it answers from, and the one site it is for, if it is for one."""

    engine: HasSites
    site: str | None

    async def held(self, text: str) -> Mapping[str, float]: ...


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the headers of a request ask for."""

    accepts_json: bool
    accepts_events: bool
    respond_async: bool
    wait: float | None
    key: str | None
    trace: str | None
    hops: int
    languages: str

    @classmethod
    def of(cls, headers: Mapping[bytes, bytes]) -> Wishes:
        accept = headers.get(b"accept", b"").lower()
        respond_async, wait = _prefer(headers.get(b"prefer", b"").decode("latin-1"))
        return cls(
            _JSON in accept,
            _SSE in accept,
            respond_async,
            wait,
            headers[b"idempotency-key"].decode("latin-1")[:256] if b"idempotency-key" in headers else None,
            headers[b"traceparent"].decode("latin-1")[:64] if b"traceparent" in headers else None,
            hops_of(headers.get(b"x-sabir-hops", b"")),
            headers.get(b"accept-language", b"").decode("latin-1")[:256],
        )

    def streams(self, said: bool | None) -> bool:
        """Whether the answer is a stream: what ``prefer.streaming`` says, else unless only JSON is accepted (W-3)."""
        return said if said is not None else self.accepts_events or not self.accepts_json


def _prefer(value: str) -> tuple[bool, float | None]:
    """``respond-async`` and ``wait=N`` of RFC 7240."""
    respond_async, wait = False, None
    for item in value.split(","):
        name, _, argument = item.partition(";")[0].partition("=")
        argument = argument.strip().strip('"')
        if name.strip().lower() == "respond-async":
            respond_async = True
        elif name.strip().lower() == "wait" and argument.isdigit() and len(argument) < 7:
            wait = float(argument)
    return respond_async, wait


class NlwebSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What can be configured under ``doors: {nlweb: …}``."""

    wait: Annotated[float, msgspec.Meta(ge=0, le=LONGEST_WAIT)] = WAIT  # seconds before a promise is given


class Nlweb:
    """The door. One instance serves all agents."""

    name = DOOR

    def __init__(self, house: House) -> None:
        self.house = house
        self.wait = settings_for(DOOR, NlwebSettings, house).wait
        self.asking = Asking(house.exchange, house.tasks)
        self.promises = Promises(house.tasks)

    def raw(self) -> Mapping[str, ASGIApp]:
        return {"/ask": self.ask, "/ask/": self.ask, "/await": self.check_in, "/who": self.who, "/sites": self.sites}

    def routes(self) -> Sequence[BaseRoute]:
        return [
            Route("/ask/{agent}", _App(self.ask)),
            Route("/await/{token}", _App(self.check_in)),
            Route("/openapi.json", _App(self.openapi)),
        ]

    def addresses(self) -> Sequence[tuple[str, str]]:
        return [("NLWeb", "/ask")]

    async def start(self) -> None:
        return None

    async def stop(self) -> None:
        self.asking.stop()

    # -- /ask -------------------------------------------------------------------------------------

    async def ask(self, scope: Scope, receive: Receive, send: Send) -> None:
        wishes = Wishes.of(headers_of(scope))
        visitor = self._visitor(scope, scope.get("path_params", {}).get("agent"))
        outlet = Outlet(send, visitor)
        outlet.stream = Stream(Telling()) if wishes.accepts_events else None
        try:
            request = await self._request(scope, receive, outlet)
            outlet.tell(Telling.of(request))
            try:
                await self._answer(request, scope, receive, outlet, wishes, visitor)
            except NotFound as wrong:
                if not request.query.site or "agent" in scope.get("path_params", {}):
                    raise
                # A site is a filter, and a filter is never refused: nothing here meets it (W-5, W-13).
                await outlet.respond(200, outlet.telling.no_results(str(wrong)))
        except SabirError as wrong:
            await self.refuse(outlet, wrong)

    async def _request(self, scope: Scope, receive: Receive, outlet: Outlet) -> AskRequest:
        if scope["method"] == "GET":
            pairs = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
            named = {name.removeprefix("meta."): text for name, text in pairs if name.startswith("meta.")}
            outlet.tell(Telling.hinted({"meta": named}))
            return ask_of_pairs(pairs)
        if scope["method"] != "POST":
            raise BadMethod(PROTOCOL, "method", "GET, POST")
        value = json_of(await read_body(receive, self.house.limits.body))
        # A refusal is streamed only to those who asked for a stream in so many words.
        prefer = value.get("prefer") if isinstance(value, dict) else None
        said = prefer.get("streaming") if isinstance(prefer, dict) else None
        if isinstance(said, bool):
            outlet.stream = Stream(Telling()) if said else None
        outlet.tell(Telling.hinted(value))
        return ask_of(value)

    async def _answer(
        self, request: AskRequest, scope: Scope, receive: Receive, outlet: Outlet, wishes: Wishes, visitor: Visitor
    ) -> None:
        credentials, agent, card = await self._found(request, scope, visitor)
        if request.prefer.accept_language is None and wishes.languages and self._is_site(card):
            prefer = msgspec.structs.replace(request.prefer, accept_language=wishes.languages)
            request = msgspec.structs.replace(request, prefer=prefer)
        telling = Telling.of(request, card.site or card.name)
        outlet.tell(telling)
        ask = Ask(
            message_of(request),
            DOOR,
            agent,
            credentials,
            wishes.key,
            trace=wishes.trace,
            hops=wishes.hops,
        )
        asked = request.prefer.wait if request.prefer.wait is not None else wishes.wait
        wait = min(max(0.0, asked), LONGEST_WAIT) if asked is not None else 0.0 if wishes.respond_async else self.wait
        streams = wishes.streams(request.prefer.streaming)
        outlet.stream = Stream(telling) if streams else None
        patient = streams and asked is None and not wishes.respond_async
        await self.asking.ask(ask, outlet, receive, wait, patient=patient)

    async def _found(self, request: AskRequest, scope: Scope, visitor: Visitor) -> tuple[Credentials, str | None, Card]:
        """Who asks, as far as it matters, and who is asked: its name, None for the default agent, and its card."""
        known = visitor.credentials
        if not self.house.open_to_all:
            known = Credentials(known.address, caller=await visitor.known())
        return known, *self.agent_for(request, scope, known.caller or ANONYMOUS)

    def agent_for(self, request: AskRequest, scope: Scope, caller: Caller) -> tuple[str | None, Card]:
        """Who is asked: by the path; by the site; else the default agent. None for the name is the default.

        Raises:
            Unauthenticated, Forbidden: the agent is not for this caller, whether it is here or not.
            NotFound: there is no such agent, or no such site for this caller.
        """
        agents, default = self.house.agents, self.house.exchange.default
        if self.house.guard.rights.rules:
            agents = {agent.card.name: agent for agent in self.house.usable(caller, DOOR)}
        named = scope.get("path_params", {}).get("agent")
        sites = request.query.site
        if named is None and sites:
            of_one = [name for name, agent in agents.items() if agent.card.site in sites]
            of_any = [name for name, agent in agents.items() if isinstance(agent, OfSites) and agent.site is None]
            if len(sites) == 1 and of_one:
                named = of_one[0]
            elif of_any:
                named = default if default in of_any else of_any[0]
            elif of_one:
                named = of_one[0]
            elif any(agent.card.site for agent in agents.values()):
                raise NotFound(f"there is no site {sites[0][:64]!r} here")
        found = self.house.find(caller, named, DOOR)
        return (None if named in (None, default) else named), found.card

    def _is_site(self, card: Card) -> bool:
        return card.site is not None or isinstance(self.house.agents.get(card.name), OfSites)

    async def site_names(self, caller: Caller) -> list[str]:
        """The sites that this caller can ask here."""
        names: list[str] = []
        for card in self.house.cards(caller, DOOR):
            agent = self.house.agents[card.name]
            if card.site is not None:
                names.append(card.site)
            elif isinstance(agent, OfSites):
                names += [site.name for site in await agent.engine.sites()]
        return list(dict.fromkeys(names))

    # -- /await -----------------------------------------------------------------------------------

    async def check_in(self, scope: Scope, receive: Receive, send: Send) -> None:
        wishes = Wishes.of(headers_of(scope))
        visitor = self._visitor(scope, NO_AGENT)
        outlet = Outlet(send, visitor)
        outlet.stream = Stream(Telling()) if wishes.accepts_events and not wishes.accepts_json else None
        try:
            token, action, meta = await self._await_request(scope, receive)
            outlet.tell(Telling.of_meta(meta))
            caller = await visitor.admit()
            response = await self.promises.look(token, action, caller, outlet.telling, min(wishes.wait or 0.0, 60.0))
            await self._respond(outlet, response)
        except NotFound:
            wrong = NotFound("there is no such promise, or it is not yours, or it has expired")
            await outlet.respond(404, outlet.telling.failure(wrong, code=UNKNOWN_PROMISE))
        except SabirError as wrong:
            await self.refuse(outlet, wrong)

    async def _await_request(self, scope: Scope, receive: Receive) -> tuple[str, str, Meta]:
        token = scope.get("path_params", {}).get("token")
        method = scope["method"]
        if token is None:
            if method != "POST":
                raise BadMethod(PROTOCOL, "method", "POST")
            request = await_of(json_of(await read_body(receive, self.house.limits.body)))
            return request.promise_token, request.action, request.meta
        if method not in ("GET", "DELETE"):
            raise BadMethod(PROTOCOL, "method", "GET, DELETE")
        return token, "checkin" if method == "GET" else "cancel", Meta()

    async def _respond(self, outlet: Outlet, response: Response) -> None:
        headers = promise_headers(response.promise) if isinstance(response, PromiseResponse) else ()
        await outlet.respond(status_of(response), response, headers)

    # -- discovery --------------------------------------------------------------------------------

    async def who(self, scope: Scope, receive: Receive, send: Send) -> None:
        visitor = self._visitor(scope, NO_AGENT)
        outlet = Outlet(send, visitor)
        try:
            if scope["method"] == "GET":
                pairs = dict(parse_qsl(scope["query_string"].decode("latin-1")))
                request = who_of({"query": pairs.get("query", pairs.get("query.text", ""))})
            elif scope["method"] == "POST":
                request = who_of(json_of(await read_body(receive, self.house.limits.body)))
            else:
                raise BadMethod(PROTOCOL, "method", "GET, POST")
            caller = await visitor.admit()
            held = await self.held(request, self.house.cards(caller, DOOR))
            told = answer_of(found(request, self.house, caller, held), request)
            told["_meta"]["gateway"] = self.house.facts.get("gateway", "")
            await outlet.body(200, msgspec.json.encode(told))
        except SabirError as wrong:
            await self.refuse(outlet, wrong)

    async def held(self, request: WhoRequest, cards: Sequence[Card]) -> dict[str, float]:
        """What the sites of these cards hold for a query: the best score, by the name of the card."""
        if not request.text.strip():
            return {}
        agents = {card.name: self.house.agents[card.name] for card in cards}
        engines: dict[int, Mapping[str, float]] = {}
        scores: dict[str, float] = {}
        for name, agent in agents.items():
            if isinstance(agent, OfSites):
                if id(agent.engine) not in engines:
                    engines[id(agent.engine)] = await agent.held(request.text)
                best = engines[id(agent.engine)]
                scores[name] = max(best.values(), default=0.0) if agent.site is None else best.get(agent.site, 0.0)
        return scores

    async def sites(self, scope: Scope, receive: Receive, send: Send) -> None:
        visitor = self._visitor(scope, NO_AGENT)
        outlet = Outlet(send, visitor)
        try:
            if scope["method"] not in ("GET", "POST"):
                raise BadMethod(PROTOCOL, "method", "GET, POST")
            names = await self.site_names(await visitor.admit())
            await outlet.body(200, msgspec.json.encode({"message-type": "sites", "sites": names}))
        except SabirError as wrong:
            await self.refuse(outlet, wrong)

    async def openapi(self, scope: Scope, receive: Receive, send: Send) -> None:
        await Outlet(send).body(200, msgspec.json.encode(document(self.house.public_url)))

    def _visitor(self, scope: Scope, agent: str | None) -> Visitor:
        return Visitor(self.house, DOOR, credentials_of(scope, behind_proxy=self.house.behind_proxy), agent)

    async def refuse(self, outlet: Outlet, wrong: SabirError) -> None:
        if outlet.visitor is not None:
            await outlet.visitor.refused(wrong)
        await outlet.respond(code_of(wrong)[0], outlet.telling.failure(wrong), refusal_headers(wrong))


@dataclass(frozen=True, slots=True)
class _App:
    """A method as an ASGI application; Starlette would take the method itself for a view."""

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.app(scope, receive, send)


async def read_body(receive: Receive, most: int) -> bytes:
    """The whole body.

    Raises:
        TooBig: it is over the limit; the rest is left unread.
        Unreadable: the client went away before its end.
    """
    pieces: list[bytes] = []
    size = 0
    more = True
    while more:
        packet: Mapping[str, Any] = await receive()
        if packet["type"] == "http.disconnect":
            raise Unreadable(PROTOCOL, "$", "the whole body")
        pieces.append(packet.get("body", b""))
        size += len(pieces[-1])
        if size > most:
            raise TooBig(PROTOCOL, "$", f"at most {most} bytes")
        more = packet.get("more_body", False)
    return b"".join(pieces)


def promise_headers(promise: Promise) -> list[tuple[bytes, bytes]]:
    return [(b"location", f"/await/{promise.token}".encode()), (b"retry-after", b"1")]
