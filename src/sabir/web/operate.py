"""``/operate``: the operators' part of the page. Read the audit log and dead letters, check a server, ask any address.

Every caller may ask whether it is an operator, get trace ids, and read the timeline of a turn whose trace id it knows.
The rest is for operators.
Operators are callers on this machine and callers with the role that ``observe: {metrics_role}`` names.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from sabir.aio import cancel_and_wait
from sabir.conformance.base import CheckOutcome
from sabir.conformance.suites import Options, suite, suite_names
from sabir.errors import BadMessage, ConfigError, Forbidden, NotFound, SabirError, Unauthenticated
from sabir.events import Delta, Fault, Progress, Question, Reply
from sabir.gateway.endpoints.operators import check_operator, operator_role
from sabir.guard.audit.log import expand, lines_of
from sabir.http.admission import NO_AGENT, Admission
from sabir.http.door import Door, GatewayServices
from sabir.http.request import credentials_of, read_json
from sabir.http.response import refusal_headers
from sabir.misfits import misfit
from sabir.numerals import whole_number
from sabir.protocols.connect import kind_of
from sabir.protocols.nlip.wire import json as nlip

AUDIT_LIMIT: Final = 500
DEAD_LIMIT: Final = 100
TRACE_IDS: Final = 20  # per request
ASK_SECONDS: Final = 120.0
EVENTS: Final[Mapping[str, str]] = {"cache-control": "no-store", "x-accel-buffering": "no"}


class CheckOrder(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which server to check."""

    url: str
    protocol: str = "nlip"


class AskOrder(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to ask at which address; ``state`` comes from the previous answer."""

    url: str
    text: str
    protocol: str | None = None
    state: dict[str, Any] = {}


Answer = Callable[[Request, Admission], Awaitable[Response]]
Order = TypeVar("Order", CheckOrder, AskOrder)


class OperateDoor(Door):
    """The door for operators with a browser."""

    name = "operate"

    def __init__(self, services: GatewayServices) -> None:
        self.services = services
        self._role = operator_role(services)
        self._running: set[asyncio.Task[None]] = set()

    def routes(self) -> Sequence[BaseRoute]:
        return [
            Route("/operate/audit", self._for_operators(self._audit), methods=["GET"]),
            Route("/operate/dead-letters", self._for_operators(self._dead_letters), methods=["GET"]),
            Route("/operate/check", self._for_operators(self._check), methods=["POST"]),
            Route("/operate/ask", self._for_operators(self._ask), methods=["POST"]),
            Route("/operate/access", self._endpoint(self._access), methods=["GET"]),
            Route("/operate/traces", self._for_callers(self._reserve_traces), methods=["POST"]),
            Route("/operate/traces/{trace_id}", self._for_callers(self._trace), methods=["GET"]),
        ]

    async def stop(self) -> None:
        await cancel_and_wait(self._running)

    def _for_operators(self, answer: Answer) -> Callable[[Request], Awaitable[Response]]:
        """An endpoint for operators; others and bad requests get an NLIP error."""

        async def checked(request: Request, admission: Admission) -> Response:
            await check_operator(admission, self._role, "this is for operators")
            return await answer(request, admission)

        return self._endpoint(checked)

    def _for_callers(self, answer: Answer) -> Callable[[Request], Awaitable[Response]]:
        """An endpoint for every caller, within its rate."""

        async def charged(request: Request, admission: Admission) -> Response:
            await admission.authenticate_and_charge()
            return await answer(request, admission)

        return self._endpoint(charged)

    def _endpoint(self, answer: Answer) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            credentials = credentials_of(request.scope, behind_proxy=self.services.behind_proxy)
            admission = Admission(self.services, self.name, credentials, NO_AGENT)
            try:
                return await answer(request, admission)
            except SabirError as exc:
                await admission.rejected(exc)
                return error_response(exc)

        return endpoint

    async def _access(self, request: Request, admission: Admission) -> Response:
        """Whether the caller is an operator; the page shows others only what they can use."""
        try:
            await check_operator(admission, self._role, "this is for operators")
        except (Unauthenticated, Forbidden):
            return _json({"operator": False})
        return _json({"operator": True})

    # -- audit and dead letters -------------------------------------------------------------------

    async def _audit(self, request: Request, admission: Admission) -> Response:
        asked = whole_number(request.query_params.get("limit", ""))
        limit = 50 if asked is None else min(AUDIT_LIMIT, asked)
        head = await self.services.store.audit_head()
        last = head[0] if head is not None else 0
        lines: deque[dict[str, Any]] = deque(maxlen=limit)
        async for chained in lines_of(self.services.store, max(0, last - limit)):
            try:
                entries = expand(chained.line)
            except msgspec.MsgspecError:  # `sabir audit verify` reports it
                continue
            for entry in entries:
                lines.append({"number": chained.number, **msgspec.to_builtins(entry)})
        return _json({"entries": list(reversed(lines))})

    async def _dead_letters(self, request: Request, admission: Admission) -> Response:
        bus = self.services.bus
        if bus is None:
            return _json({"dead": []})
        dead = [
            {"name": name, "number": letter.number, "reason": letter.reason, "id": letter.letter.id}
            for name in await bus.dead_letter_counts()
            for letter in await bus.dead(name, DEAD_LIMIT)
        ]
        return _json({"dead": dead})

    # -- timelines --------------------------------------------------------------------------------

    async def _reserve_traces(self, request: Request, admission: Admission) -> Response:
        return _json({"trace_ids": self.services.exchange.timelines.reserve(TRACE_IDS)})

    async def _trace(self, request: Request, admission: Admission) -> Response:
        trace_id = request.path_params["trace_id"]
        hops = self.services.exchange.timelines.hops(trace_id)
        if hops is None:
            raise NotFound("no timeline has this trace id; they are kept in memory, the newest only")
        return _json({"trace_id": trace_id, "hops": hops})

    # -- checks -----------------------------------------------------------------------------------

    async def _check(self, request: Request, admission: Admission) -> Response:
        order = await _order(request, admission, CheckOrder)
        if order.protocol not in suite_names():
            raise BadMessage("operate", "$.protocol", f"one of {', '.join(sorted(suite_names()))}")
        return StreamingResponse(self._outcomes(order), media_type="text/event-stream", headers=dict(EVENTS))

    async def _outcomes(self, order: CheckOrder) -> AsyncIterator[bytes]:
        """The outcome of each check as an event, as it arrives."""
        found: asyncio.Queue[bytes | None] = asyncio.Queue()

        def show(outcome: CheckOutcome) -> None:
            found.put_nowait(_event("outcome", _shown(outcome)))

        async def run() -> None:
            try:
                report = await suite(order.protocol)(order.url, Options(on_outcome=show))
                found.put_nowait(_event("done", {"stopped": report.stopped, "notes": report.notes}))
            except SabirError as exc:
                found.put_nowait(_event("done", {"stopped": str(exc), "notes": []}))
            finally:
                found.put_nowait(None)

        task = asyncio.create_task(run())
        self._running.add(task)
        try:
            while (event := await found.get()) is not None:
                yield event
        finally:
            self._running.discard(task)
            await cancel_and_wait([task])

    # -- any address ------------------------------------------------------------------------------

    async def _ask(self, request: Request, admission: Admission) -> Response:
        order = await _order(request, admission, AskOrder)
        try:
            make = kind_of(order.url, order.protocol)
        except ConfigError as exc:
            raise BadMessage("operate", "$.url", str(exc)) from None
        peer = make(order.url, seconds=ASK_SECONDS)
        return StreamingResponse(_answers(peer, order), media_type="text/event-stream", headers=dict(EVENTS))


async def _order(request: Request, admission: Admission, kind: type[Order]) -> Order:
    value = await read_json(request.scope, request.receive, admission, "operate")
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as exc:
        raise BadMessage("operate", *misfit(exc, kind)) from None


async def _answers(peer: Any, order: AskOrder) -> AsyncIterator[bytes]:
    """The events of a remote agent as NLIP messages, and at the end the state that continues the conversation."""
    number = 0
    try:
        async with peer:
            peer.resume(order.state)
            async with aclosing(peer.stream(order.text)) as events:
                async for event in events:
                    if isinstance(event, Delta | Progress):
                        number += 1
                        yield _message("partial", nlip.partial_message(event, number))
                    elif isinstance(event, Question):
                        yield _message("message", nlip.question_message(event))
                    elif isinstance(event, Reply):
                        yield _message("message", event.message)
                    elif isinstance(event, Fault):
                        raise event.error()
            yield _event("state", peer.export())
    except SabirError as exc:
        yield _message("message", nlip.coded_error(exc))


def _shown(outcome: CheckOutcome) -> dict[str, Any]:
    return {
        "id": outcome.id,
        "clause": outcome.clause,
        "level": outcome.level,
        "binding": outcome.binding,
        "text": outcome.title,
        "state": outcome.verdict,
        "reason": outcome.reason,
    }


def error_response(exc: SabirError) -> Response:
    """An error as an NLIP message, as from every other endpoint of the gateway."""
    headers = {name.decode(): value.decode("latin-1") for name, value in refusal_headers(exc)}
    return Response(nlip.encode(nlip.error_message(exc)), nlip.CODES[type(exc)], headers, "application/json")


def _json(value: Any) -> Response:
    safe = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
    return Response(msgspec.json.encode(value), headers=safe, media_type="application/json")


def _event(name: str, value: Any) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (name.encode(), msgspec.json.encode(value))


def _message(name: str, message: Any) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (name.encode(), nlip.encode(message))
