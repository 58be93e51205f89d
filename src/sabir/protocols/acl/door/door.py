"""ACL over HTTP: ``POST /acl``, inboxes as SSE and WebSocket, and the paths of the two existing clients.

``POST /acl`` returns 202 with an acknowledgement once the message is stored, or the first reply with ``Prefer:
wait=N``.
``GET /acl/inbox/{agent}`` streams the inbox; an event id sent back as ``Last-Event-ID`` acknowledges it and all before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qs

import msgspec
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from sabir.bus.store import StoreBus, letter_of
from sabir.cluster.directory import Directory
from sabir.dialogues.service import Dialogues, Posted, letter_id, limits_for
from sabir.errors import BadInput, BadMessage, BadMethod, Forbidden, NotFound, SabirError, Unauthenticated, Unreadable
from sabir.http.admission import NO_AGENT, Admission
from sabir.http.disconnect import disconnected
from sabir.http.door import Door, settings_for
from sabir.http.request import accept_of, check_body_headers, credentials_of, headers_of, prefer_of, read_body
from sabir.http.request import json_of as checked_json
from sabir.http.response import COMMENT, refusal_headers, send_events, send_json, start_events
from sabir.limits import check_cost
from sabir.message import JSON
from sabir.numerals import whole_number
from sabir.protocols.acl.door.context import AclContext
from sabir.protocols.acl.wire.acts import ACTS, PROTOCOL
from sabir.protocols.acl.wire.envelope import NAME, NAME_FORM, VERSION, Envelope, json_of
from sabir.protocols.acl.wire.ide import is_ide
from sabir.protocols.acl.wire.ontologies import TERMS
from sabir.protocols.acl.wire.reasons import Rejected
from sabir.stores.letters import LetterRow, Letters
from sabir.turn import Caller

from .bridge import Bridge
from .inbox import Inbox, is_number
from .intake import DOOR, Intake, answer_of, receipt_of, shown, status_of
from .owners import DF, Owners
from .settings import AclSettings
from .websocket import AclSocket
from .yellow_pages import YellowPages

_LONGEST_WAIT: Final = 600.0
_SLOTS: Final = ("skills", "ontologies", "languages", "protocols", "groups")
_MAX_LISTED: Final = 1000


class Acl(Door):
    """The door. One instance serves all agents."""

    name = DOOR

    def __init__(self, services: AclContext) -> None:
        assert isinstance(services.store, Letters)
        self.services = services
        self.settings = settings_for(DOOR, AclSettings, services)
        longest = min(services.limits.body, self.settings.message_bytes)
        self.limits = msgspec.structs.replace(services.limits, body=longest)
        self.bus = StoreBus(services.store, limits_for(self.settings))
        self.directory = Directory(
            services.store,
            services.bus,
            node=f"acl.{services.gateway_id}",
            name_seconds=self.settings.keep_seconds,
        )
        self.dialogues = Dialogues(services.store, self.bus, self.settings)
        self.owners = Owners(services, self.directory, self.settings)
        self.intake = Intake(services, self.dialogues, self.directory, self.owners, self.settings)
        self.bridge = Bridge(services, self.dialogues, self.bus, self.settings)
        self.yellow_pages = YellowPages(services, self.dialogues, self.bus, self.directory)
        self._stopped = False

    def raw(self) -> Mapping[str, ASGIApp]:
        return {
            "/acl": self.post,
            "/acl/": self.post,
            "/.well-known/acl": self.well_known,
            "/mcp-request": self.request,
            "/mcp/send": self.post,
            "/mcp-events": self.events,
            "/mcp/sse": self.events,
        }

    def routes(self) -> Sequence[BaseRoute]:
        return [
            Route("/acl/inbox/{agent}", _App(self.inbox)),
            Route("/acl/conversations/{id}", _App(self.conversation)),
            Route("/acl/directory", _App(self.search)),
            WebSocketRoute("/acl/ws/{agent}", _App(AclSocket(self))),
            Route("/acl/{agent}", _App(self.post)),
        ]

    def addresses(self) -> Sequence[tuple[str, str]]:
        return [("ACL", "/acl"), ("ACL over WebSocket", "/acl/ws/{agent}")]

    async def start(self) -> None:
        self._stopped = False
        await self.bus.open()
        await self.dialogues.start()
        await self.bridge.start()
        await self.yellow_pages.start()

    def is_stopping(self) -> bool:
        """Whether open streams end: as soon as the gateway begins to stop, or they would delay it until its timeout."""
        return self._stopped or self.services.exchange.closing

    async def stop(self) -> None:
        self._stopped = True
        await self.yellow_pages.stop()
        await self.bridge.stop()
        await self.dialogues.stop()
        await self.directory.close()
        await self.bus.close()

    async def agents_changed(self) -> None:
        if self.bus.up:
            await self.bridge.agents_changed()

    async def publish(self, agent: str, topic: str, event: JSON, key: str) -> int:
        """Send an event to the subscribers of an agent's topic; returns how many there are."""
        return await self.bridge.publish(agent, topic, event, key)

    def admission(self, scope: Scope, agent: str | None = NO_AGENT) -> Admission:
        return Admission(self.services, DOOR, credentials_of(scope, behind_proxy=self.services.behind_proxy), agent)

    # -- messages ---------------------------------------------------------------------------------

    async def post(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A message; 202, or its first reply."""
        await self._take(scope, receive, send, prefer_of(headers_of(scope).get(b"prefer", b"")).wait, last=False)

    async def request(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A message of the IDE extension: the body of the answer is its result."""
        wait = prefer_of(headers_of(scope).get(b"prefer", b"")).wait
        await self._take(scope, receive, send, self.settings.wait_seconds if wait is None else wait, last=True)

    async def _take(self, scope: Scope, receive: Receive, send: Send, wait: float | None, *, last: bool) -> None:
        admission, value, envelope = self.admission(scope), None, None
        send = admission.with_rate_limit_headers(send)
        try:
            if scope["method"] != "POST":
                raise BadMethod(PROTOCOL, "method", "POST")
            value = await self._read(scope, receive, admission)
            caller = await admission.authenticate_and_charge()
            value = _addressed(value, scope.get("path_params", {}).get("agent"))
            envelope = self.intake.read(value)
            admission.agent = envelope.receiver_ids[0]
            posted = await self.intake.accept(envelope, caller, admission)
            await self._reply(send, envelope, posted, wait, last=last, ide=is_ide(value))
        except (SabirError, Rejected) as exc:
            await self._refuse(send, exc, admission, envelope, value)

    async def _read(self, scope: Scope, receive: Receive, admission: Admission) -> JSON:
        admission.check_open()
        check_body_headers(headers_of(scope), self.limits, PROTOCOL)
        return await self.json_in(await read_body(receive, self.limits, PROTOCOL), admission)

    async def json_in(self, body: bytes, admission: Admission, *, around: int = 2) -> JSON:
        """The JSON value of what was sent, within the limits of the gateway; ``around`` counts the levels around a
        payload. A syntax error names its line, because people write messages (ACL-6)."""
        admission.size = len(body)
        async with self.services.heavy.work(check_cost(body, self.limits, PROTOCOL), admission):
            try:
                return checked_json(body, self.limits, PROTOCOL, around=around)
            except Unreadable as exc:
                if exc.expected == "JSON":
                    json_of(body)
                raise exc from None

    async def _reply(
        self, send: Send, envelope: Envelope, posted: list[Posted], wait: float | None, *, last: bool, ide: bool
    ) -> None:
        if wait and posted:
            conversation = posted[0].dialogue.conversation  # the same for all receivers
            seconds = min(wait, _LONGEST_WAIT)
            reply = await self.dialogues.reply(
                conversation, envelope.message_id, envelope.sender_id, seconds, last=last
            )
            if reply is not None:
                await respond(send, 200, shown(reply, ide))
                # It has reached its receiver, and need not wait in the inbox for it.
                await self.dialogues.store.drop_letter(envelope.sender_id, letter_id(reply))
                return
        await respond(
            send, 202, {"status": "accepted", "message_id": envelope.message_id, **receipt_of(envelope, posted)}
        )

    async def _refuse(
        self,
        send: Send,
        exc: SabirError | Rejected,
        admission: Admission,
        envelope: Envelope | None = None,
        value: JSON = None,
    ) -> None:
        if isinstance(exc, SabirError):
            exc = await admission.rejected(exc)
        await respond(send, status_of(exc), answer_of(exc, envelope, value), refusal_headers(exc))

    # -- inboxes ----------------------------------------------------------------------------------

    async def inbox(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The inbox of an agent: as a stream, a list, or an acknowledgement."""
        agent, admission = scope["path_params"]["agent"], self.admission(scope)
        limited = admission.with_rate_limit_headers(send)
        try:
            await self.check_reader(agent, await admission.authenticate_and_charge())
            headers = headers_of(scope)
            inbox = Inbox(self.dialogues, (agent,), self.is_stopping)
            if scope["method"] == "POST":
                given = await self._read(scope, receive, admission)
                return await respond(limited, 200, {"acknowledged": await self._acknowledged(agent, inbox, given)})
            if scope["method"] != "GET":
                raise BadMethod(PROTOCOL, "method", "GET, POST")
            last = whole_number(headers.get(b"last-event-id", b"").decode("latin-1"))
            if last is not None:
                await inbox.acknowledge(last)
            if accept_of(headers.get(b"accept", b"")).wants_json:
                return await respond(limited, 200, await self._listed(agent))
            await self._stream(inbox, admission, receive, limited, ide=False)
        except (SabirError, Rejected) as exc:
            await self._refuse(limited, exc, admission)

    async def _acknowledged(self, agent: str, inbox: Inbox, given: JSON) -> int:
        """Acknowledge everything up to a number from a stream, or exactly these numbers of a list."""
        value = given if isinstance(given, dict) else {}
        through, numbers = value.get("through"), value.get("numbers")
        if is_number(through):
            return await inbox.acknowledge(through)
        if isinstance(numbers, list) and all(is_number(number) for number in numbers):
            return await inbox.drop(tuple(numbers))
        raise BadMessage(PROTOCOL, "$.through", "the number of the last message that was handled, or $.numbers")

    async def check_reader(self, agent: str, caller: Caller) -> None:
        """Check that a caller may read an inbox. Reading claims its name: programs that only receive may only poll.

        Raises:
            Forbidden: this inbox is not the caller's.
            BadMessage: it is not a valid agent name.
        """
        if not NAME.fullmatch(agent):
            raise BadMessage(PROTOCOL, "agent", NAME_FORM)
        try:
            await self.owners.check(agent, caller)
        except Forbidden:
            raise Forbidden(f"the inbox of {agent} is not yours") from None

    async def _listed(self, agent: str) -> dict[str, Any]:
        """The inbox, without taking anything."""
        store = self.dialogues.store
        rows = await store.waiting_letters(agent, limit=_MAX_LISTED)
        found = [(row.number, _message_of(row)) for row in rows]
        messages = [{"id": number, "message": message} for number, message in found if message is not None]
        return {"agent_id": agent, "messages": messages, "dead": len(await store.dead_letters(agent))}

    async def events(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Events for the two known clients: only messages addressed to this caller (ACL-44)."""
        admission = self.admission(scope)
        limited = admission.with_rate_limit_headers(send)
        try:
            if scope["method"] != "GET":
                raise BadMethod(PROTOCOL, "method", "GET")
            caller = await admission.authenticate_and_charge()
            asked = parse_qs(scope["query_string"].decode("latin-1"))
            named = next((asked[name][0] for name in ("agentId", "agent_id", "agent") if name in asked), None)
            if named is not None:
                await self.check_reader(named, caller)
            agents = [named] if named is not None else await self.owners.names_of(caller)
            inbox = Inbox(self.dialogues, agents, self.is_stopping)
            last = whole_number(headers_of(scope).get(b"last-event-id", b"").decode("latin-1"))
            if last is not None:
                await inbox.acknowledge(last)
            await self._stream(inbox, admission, receive, limited, ide=scope["path"] == "/mcp-events")
        except (SabirError, Rejected) as exc:
            await self._refuse(limited, exc, admission)

    async def _stream(self, inbox: Inbox, admission: Admission, receive: Receive, send: Send, *, ide: bool) -> None:
        await start_events(send)
        await send_events(send, COMMENT)
        streaming = asyncio.create_task(self._write(inbox, admission, send, ide=ide), name="acl inbox")
        leaving = asyncio.create_task(disconnected(receive), name="acl inbox: leaving")
        try:
            await asyncio.wait((streaming, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            streaming.cancel()
            await asyncio.gather(streaming, leaving, return_exceptions=True)
        ended = streaming.exception() if streaming.done() and not streaming.cancelled() else None
        if isinstance(ended, Unauthenticated):
            await admission.rejected(ended)
        if self.is_stopping() or ended is not None:
            await send_events(send, b"", last=True)

    async def _write(self, inbox: Inbox, admission: Admission, send: Send, *, ide: bool) -> None:
        async for item in inbox.messages():
            await admission.check_still_valid()
            if item is None:
                await send_events(send, COMMENT)
                continue
            number, envelope = item
            data = msgspec.json.encode(shown(envelope, ide))
            body = b"id: %d\nevent: message\ndata: %s\n\n" % (number, data)
            await send_events(send, body)
            if ide:  # this client sends no acknowledgements
                await inbox.drop((number,))

    # -- looking ----------------------------------------------------------------------------------

    async def conversation(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The messages of a conversation, for its participants (ACL-29)."""
        admission = self.admission(scope)
        limited = admission.with_rate_limit_headers(send)
        try:
            caller = await admission.authenticate_and_charge()
            names = None if caller.kind == "local" else set(await self.owners.names_of(caller))
            view = await self.dialogues.view(scope["path_params"]["id"], names)
            if not view["dialogues"]:
                raise NotFound("conversation not found, or not yours")
            await respond(limited, 200, view)
        except SabirError as exc:
            await self._refuse(limited, exc, admission)

    async def search(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The directory over HTTP: GET searches; POST is an action of ``df``."""
        admission = self.admission(scope)
        limited = admission.with_rate_limit_headers(send)
        try:
            caller = await admission.authenticate_and_charge()
            if scope["method"] == "POST":
                given = await self._read(scope, receive, admission)
                action = str(given.get("action", "")) if isinstance(given, dict) else ""
                parameters = given.get("parameters") if isinstance(given, dict) else None
                found = await self.yellow_pages.do(action, parameters if isinstance(parameters, dict) else {}, caller)
                return await respond(limited, 200, found)
            if scope["method"] not in ("GET", "HEAD"):
                raise BadMethod(PROTOCOL, "method", "GET, HEAD, POST")
            asked = parse_qs(scope["query_string"].decode("latin-1"))
            found = await self.yellow_pages.do("search", _search_of(asked), caller)
            await respond(limited, 200, found)
        except SabirError as exc:
            await self._refuse(limited, exc, admission)

    async def well_known(self, scope: Scope, receive: Receive, send: Send) -> None:
        """What a plugin needs to start: where to post, and which agents there are (C-11)."""
        admission = self.admission(scope)
        limited = admission.with_rate_limit_headers(send)
        try:
            if scope["method"] not in ("GET", "HEAD"):
                raise BadMethod(PROTOCOL, "method", "GET, HEAD")
            caller = await admission.authenticate_and_charge()
            self.services.rights.check_any(caller, self.services.agents, DOOR)
            base = self.services.public_url
            agents = [
                {"agent_id": card.name, "description": card.description, "endpoint": f"{base}/acl/{card.name}"}
                for card in self.services.cards(caller, DOOR)
            ]
            await respond(
                limited,
                200,
                {
                    "mcp_versions": [VERSION],
                    "endpoint": f"{base}/acl",
                    "inbox": f"{base}/acl/inbox/{{agent}}",
                    "websocket": f"{base.replace('http', 'ws', 1)}/acl/ws/{{agent}}",
                    "directory": DF,
                    "performatives": list(ACTS),
                    "ontologies": [*TERMS, *self.settings.ontologies],
                    "signatures": self.settings.signatures,
                    "gateway": self.services.gateway_id,
                    "agents": agents,
                },
            )
        except SabirError as exc:
            await self._refuse(limited, exc, admission)


@dataclass(frozen=True, slots=True)
class _App:
    """A method as an ASGI application; Starlette would take the method itself for a view."""

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.app(scope, receive, send)


async def respond(send: Send, status: int, value: JSON, headers: Sequence[tuple[bytes, bytes]] = ()) -> None:
    """A JSON answer."""
    await send_json(send, status, msgspec.json.encode(value), headers)


def _addressed(value: JSON, agent: str | None) -> JSON:
    """A message posted to ``/acl/{agent}`` goes to that agent, unless it names a receiver."""
    if agent is not None and isinstance(value, dict) and "receiver" not in value:
        return {**value, "receiver": {"agent_id": agent}}
    return value


def _search_of(asked: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """The parameters of a search from a query string: lists may be repeated or separated by commas."""
    template: dict[str, Any] = {
        name: [word for text in asked[name] for word in text.split(",")] for name in _SLOTS if name in asked
    }
    if "name" in asked:
        template["name"] = asked["name"][0]
    numbers = {name: asked[name][0] for name in ("max_results", "max_depth") if name in asked}
    return {"template": template, **numbers}


def _message_of(row: LetterRow) -> JSON | None:
    """The message of a letter; None if it is unreadable. Whoever receives it puts it among the dead letters."""
    try:
        return json_of(letter_of(row).body)
    except (msgspec.DecodeError, BadInput):
        return None
