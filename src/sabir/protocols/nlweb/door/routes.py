"""NLWeb: ``/ask``, ``/await``, ``/who``, ``/sites`` and ``/openapi.json``, for any agent of the gateway.

``POST /ask`` asks the default agent, or the one that answers for ``query.site``; ``/ask/{agent}`` asks one by name. The
answer is one JSON body, or server-sent events if the caller wants a stream (W-3). Work that outlives the caller's time
limit becomes a task of the gateway, and the answer a promise (W-9). Every body is NLWeb, errors included (W-6).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Protocol, runtime_checkable
from urllib.parse import parse_qsl

import msgspec
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from sabir.card import Card
from sabir.errors import BadMethod, NotFound, SabirError, TooLarge, Unreadable
from sabir.exchange.request import TurnRequest
from sabir.guard import Credentials
from sabir.http.admission import NO_AGENT, Admission
from sabir.http.door import Door, DoorContext, settings_for
from sabir.http.request import (
    EVENTS,
    Accept,
    Preferences,
    accept_of,
    credentials_of,
    headers_of,
    hops_of,
    idempotency_key,
    json_of,
    prefer_of,
    read_json,
    trace_of,
)
from sabir.http.response import refusal_headers
from sabir.limits import check_cost
from sabir.protocols.nlweb.wire.mapping import message_of
from sabir.protocols.nlweb.wire.models import PROTOCOL, AskRequest, Meta, PromiseResponse, Response, WhoRequest
from sabir.protocols.nlweb.wire.requests import ask_of, ask_of_pairs, await_of, merged, who_of_pairs
from sabir.protocols.nlweb.wire.responses import UNKNOWN_PROMISE, ResponseFormat, Stream, code_of, status_of
from sabir.turn import ANONYMOUS, Caller

from .ask import Asking, NlwebResponse, promise_headers
from .openapi import document
from .promises import Promises
from .who import MAX_READ, answer_of, found

DOOR: Final = "nlweb"
WAIT: Final = 10.0  # seconds after which a promise is better than silence (W-9)
LONGEST_WAIT: Final = 600.0


class HasSites(Protocol):
    async def sites(self) -> Sequence[Any]: ...


@runtime_checkable
class OfSites(Protocol):
    """What a site agent exposes: its index, and its one site, if it has only one."""

    engine: HasSites
    site: str | None

    async def held(self, text: str) -> Mapping[str, float]: ...


@dataclass(frozen=True, slots=True)
class NlwebOptions:
    """The options in the headers of a request."""

    accept: Accept
    prefer: Preferences
    key: str | None
    trace: str | None
    hops: int
    languages: str

    def streams(self, given: bool | None) -> bool:
        """Whether the answer is a stream: as ``prefer.streaming`` says, otherwise unless JSON is requested or a stream
        is not accepted (W-3)."""
        if given is not None:
            return given
        return self.accept.wants_events or (not self.accept.wants_json and self.accept.weight(EVENTS) > 0)


def parse_headers(headers: Mapping[bytes, bytes]) -> NlwebOptions:
    """Raises:
    BadMessage: an invalid idempotency key.
    """
    return NlwebOptions(
        accept_of(headers.get(b"accept", b"")),
        prefer_of(headers.get(b"prefer", b"")),
        idempotency_key(headers, PROTOCOL),
        trace_of(headers),
        hops_of(headers.get(b"x-sabir-hops", b"")),
        headers.get(b"accept-language", b"").decode("latin-1")[:256],
    )


class NlwebSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The settings under ``doors: {nlweb: …}``."""

    wait: Annotated[float, msgspec.Meta(ge=0, le=LONGEST_WAIT)] = WAIT  # seconds before a promise is given


class Nlweb(Door):
    """The door. One instance serves all agents."""

    name = DOOR

    def __init__(self, services: DoorContext) -> None:
        self.services = services
        self.wait = settings_for(DOOR, NlwebSettings, services).wait
        self.asking = Asking(services.tasks)
        self.promises = Promises(services.tasks)

    def raw(self) -> Mapping[str, ASGIApp]:
        return {"/ask": self.ask, "/ask/": self.ask, "/await": self.check_in, "/who": self.who, "/sites": self.sites}

    def routes(self) -> Sequence[BaseRoute]:
        return [
            Route("/ask/{agent}", _NlwebApp(self.ask)),
            Route("/await/{token}", _NlwebApp(self.check_in)),
            Route("/openapi.json", _NlwebApp(self.openapi), methods=["GET"]),
        ]

    def addresses(self) -> Sequence[tuple[str, str]]:
        return [("NLWeb", "/ask")]

    async def stop(self) -> None:
        self.asking.stop()

    # -- /ask -------------------------------------------------------------------------------------

    async def ask(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = headers_of(scope)
        admission = self._admission(scope, scope.get("path_params", {}).get("agent"))
        outlet = NlwebResponse(send, admission)
        outlet.stream = Stream(ResponseFormat()) if accept_of(headers.get(b"accept", b"")).wants_events else None
        try:
            options = parse_headers(headers)
            request = await self._request(scope, receive, outlet, admission)
            outlet.set_format(ResponseFormat.of(request))
            try:
                await self._answer(request, scope, receive, outlet, options, admission)
            except NotFound as exc:
                if not request.query.site or "agent" in scope.get("path_params", {}):
                    raise
                # A site is a filter, and a filter is never an error: nothing here matches it (W-5, W-13).
                await outlet.respond(200, outlet.response_format.no_results(str(exc)))
        except SabirError as exc:
            await self.refuse(outlet, exc)

    async def _request(self, scope: Scope, receive: Receive, outlet: NlwebResponse, admission: Admission) -> AskRequest:
        pairs = self._pairs(scope)
        if scope["method"] == "GET":
            named = {name.removeprefix("meta."): text for name, text in pairs if name.startswith("meta.")}
            outlet.set_format(ResponseFormat.guess({"meta": named}))
            return ask_of_pairs(pairs)
        if scope["method"] != "POST":
            raise BadMethod(PROTOCOL, "method", "GET, POST")
        value = merged(pairs, await read_json(scope, receive, admission, PROTOCOL, types=None))
        # An error is streamed only to clients that explicitly asked for a stream.
        prefer = value.get("prefer") if isinstance(value, dict) else None
        said = prefer.get("streaming") if isinstance(prefer, dict) else None
        if isinstance(said, bool):
            outlet.stream = Stream(ResponseFormat()) if said else None
        outlet.set_format(ResponseFormat.guess(value))
        return ask_of(value)

    def _pairs(self, scope: Scope) -> list[tuple[str, str]]:
        """The URL parameters; JSON in them has the limits of a body.

        Raises:
            TooLarge: one of them is too deep, or has too many values.
            Unreadable: they are not UTF-8, or one starts like JSON and is not valid.
        """
        limits = self.services.limits
        try:
            pairs = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True, errors="strict")
        except UnicodeDecodeError:
            raise Unreadable(PROTOCOL, "$", "URL parameters in UTF-8") from None
        for name, text in pairs:
            if name.count(".") > limits.depth:
                raise TooLarge(PROTOCOL, "$", f"at most {limits.depth} levels of nesting")
            if text.lstrip().startswith("{"):
                check_cost(text.encode(), limits, PROTOCOL)
                json_of(text.encode(), limits, PROTOCOL)
        return pairs

    async def _answer(
        self,
        request: AskRequest,
        scope: Scope,
        receive: Receive,
        outlet: NlwebResponse,
        options: NlwebOptions,
        admission: Admission,
    ) -> None:
        credentials, agent, card = await self._found(request, scope, admission)
        if request.prefer.accept_language is None and options.languages and self._is_site(card):
            prefer = msgspec.structs.replace(request.prefer, accept_language=options.languages)
            request = msgspec.structs.replace(request, prefer=prefer)
        response_format = ResponseFormat.of(request, card.site or card.name)
        outlet.set_format(response_format)
        # A client without a version may not know elicitations: a site gives it results along with the question.
        knows_questions = request.meta.api_version is not None or not self._is_site(card)
        ask = TurnRequest(
            message_of(request, questions=knows_questions),
            DOOR,
            agent,
            credentials,
            options.key,
            trace=options.trace,
            hops=options.hops,
        )
        later = options.prefer
        asked = request.prefer.wait if request.prefer.wait is not None else later.wait
        wait = 0.0 if later.respond_async else self.wait
        if asked is not None:
            wait = min(max(0.0, asked), LONGEST_WAIT)
        streams = options.streams(request.prefer.streaming)
        outlet.stream = Stream(response_format) if streams else None
        patient = streams and asked is None and not later.respond_async
        await self.asking.ask(ask, outlet, receive, wait, patient=patient)

    async def _found(
        self, request: AskRequest, scope: Scope, admission: Admission
    ) -> tuple[Credentials, str | None, Card]:
        """The caller, if it matters, and the agent: its name (None for the default agent) and its card."""
        known = admission.credentials
        if not self.services.open_to_all:
            known = Credentials(known.address, caller=await admission.authenticate())
        return known, *self.agent_for(request, scope, known.caller or ANONYMOUS)

    def agent_for(self, request: AskRequest, scope: Scope, caller: Caller) -> tuple[str | None, Card]:
        """The agent that is asked: by the path; by the site; otherwise the default. None for the name is the default.

        Raises:
            Unauthenticated, Forbidden: this caller may not use the agent; says the same whether or not it exists.
            NotFound: there is no such agent, or no such site for this caller.
        """
        agents, default = self.services.agents, self.services.default_agent
        if self.services.rights.rules:
            agents = {agent.card.name: agent for agent in self.services.usable(caller, DOOR)}
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
        found = self.services.find(caller, named, DOOR)
        return (None if named in (None, default) else named), found.card

    def _is_site(self, card: Card) -> bool:
        return card.site is not None or isinstance(self.services.agents.get(card.name), OfSites)

    async def site_names(self, caller: Caller) -> list[str]:
        """The sites that this caller can ask here."""
        names: list[str] = []
        for card in self.services.cards(caller, DOOR):
            agent = self.services.agents[card.name]
            if card.site is not None:
                names.append(card.site)
            elif isinstance(agent, OfSites):
                names += [site.name for site in await agent.engine.sites()]
        return list(dict.fromkeys(names))

    # -- /await -----------------------------------------------------------------------------------

    async def check_in(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = headers_of(scope)
        accept, prefer = accept_of(headers.get(b"accept", b"")), prefer_of(headers.get(b"prefer", b""))
        admission = self._admission(scope, NO_AGENT)
        outlet = NlwebResponse(send, admission)
        outlet.stream = Stream(ResponseFormat()) if accept.wants_events and not accept.wants_json else None
        try:
            token, action, meta = await self._await_request(scope, receive, admission)
            outlet.set_format(ResponseFormat.of_meta(meta))
            caller = await admission.authenticate_and_charge()
            response = await self.promises.look(
                token, action, caller, outlet.response_format, min(prefer.wait or 0.0, 60.0)
            )
            await self._respond(outlet, response)
        except NotFound as missing:
            await admission.rejected(missing)
            exc = NotFound("promise not found, expired, or not yours")
            await outlet.respond(404, outlet.response_format.failure(exc, code=UNKNOWN_PROMISE))
        except SabirError as exc:
            await self.refuse(outlet, exc)

    async def _await_request(self, scope: Scope, receive: Receive, admission: Admission) -> tuple[str, str, Meta]:
        token = scope.get("path_params", {}).get("token")
        method = scope["method"]
        if token is None:
            if method != "POST":
                raise BadMethod(PROTOCOL, "method", "POST")
            request = await_of(await read_json(scope, receive, admission, PROTOCOL, types=None))
            return request.promise_token, request.action, request.meta
        if method not in ("GET", "HEAD", "DELETE"):
            raise BadMethod(PROTOCOL, "method", "GET, HEAD, DELETE")
        return token, "cancel" if method == "DELETE" else "checkin", Meta()

    async def _respond(self, outlet: NlwebResponse, response: Response) -> None:
        headers = promise_headers(response.promise) if isinstance(response, PromiseResponse) else ()
        await outlet.respond(status_of(response), response, headers)

    # -- discovery --------------------------------------------------------------------------------

    async def who(self, scope: Scope, receive: Receive, send: Send) -> None:
        admission = self._admission(scope, NO_AGENT)
        outlet = NlwebResponse(send, admission)
        try:
            if scope["method"] not in ("GET", "HEAD", "POST"):
                raise BadMethod(PROTOCOL, "method", "GET, HEAD, POST")
            body: object = {}
            if scope["method"] == "POST":
                body = await read_json(scope, receive, admission, PROTOCOL, types=None)
            request = who_of_pairs(self._pairs(scope), body)
            caller = await admission.authenticate_and_charge()
            held = await self.held(request, self.services.cards(caller, DOOR))
            answer = answer_of(found(request, self.services, caller, held), request)
            answer["_meta"]["gateway"] = self.services.gateway_id
            await outlet.body(200, msgspec.json.encode(answer))
        except SabirError as exc:
            await self.refuse(outlet, exc)

    async def held(self, request: WhoRequest, cards: Sequence[Card]) -> dict[str, float]:
        """How well the sites of these cards match a query: the best score, by the name of the card."""
        text = request.text[:MAX_READ]
        if not text.strip():
            return {}
        agents = {card.name: self.services.agents[card.name] for card in cards}
        engines: dict[int, Mapping[str, float]] = {}
        scores: dict[str, float] = {}
        for name, agent in agents.items():
            if isinstance(agent, OfSites):
                if id(agent.engine) not in engines:
                    engines[id(agent.engine)] = await agent.held(text)
                best = engines[id(agent.engine)]
                scores[name] = max(best.values(), default=0.0) if agent.site is None else best.get(agent.site, 0.0)
        return scores

    async def sites(self, scope: Scope, receive: Receive, send: Send) -> None:
        admission = self._admission(scope, NO_AGENT)
        outlet = NlwebResponse(send, admission)
        try:
            if scope["method"] not in ("GET", "HEAD", "POST"):
                raise BadMethod(PROTOCOL, "method", "GET, HEAD, POST")
            names = await self.site_names(await admission.authenticate_and_charge())
            await outlet.body(200, msgspec.json.encode({"message-type": "sites", "sites": names}))
        except SabirError as exc:
            await self.refuse(outlet, exc)

    async def openapi(self, scope: Scope, receive: Receive, send: Send) -> None:
        await NlwebResponse(send).body(200, msgspec.json.encode(document(self.services.public_url)))

    def _admission(self, scope: Scope, agent: str | None) -> Admission:
        return Admission(self.services, DOOR, credentials_of(scope, behind_proxy=self.services.behind_proxy), agent)

    async def refuse(self, outlet: NlwebResponse, exc: SabirError) -> None:
        if outlet.admission is not None:
            exc = await outlet.admission.rejected(exc)
        await outlet.respond(code_of(exc)[0], outlet.response_format.failure(exc), refusal_headers(exc))


@dataclass(frozen=True, slots=True)
class _NlwebApp:
    """A method as an ASGI application; Starlette would take the method itself for a view."""

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.app(scope, receive, send)
