"""The door: one HTTP endpoint on Sabir's shared edge, which limits, authenticates, charges and audits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from sabir import Event, Message, Question, Reply, SabirError
from sabir.errors import BadMethod, TurnFailed
from sabir.extend import (
    Admission,
    DisconnectWatcher,
    Door,
    DoorContext,
    EventSink,
    TurnRequest,
    credentials_of,
    headers_of,
    idempotency_key,
    read_json,
    refusal_headers,
    send_json,
)

from . import wire

NAME: Final = "telegram"


class TelegramDoor(Door):
    """Accepts telegrams for every agent."""

    name = NAME

    def __init__(self, services: DoorContext) -> None:
        self._services = services

    def routes(self) -> Sequence[BaseRoute]:
        return [Route("/telegram/{agent}", _Endpoint(self._services))]

    def addresses(self) -> Sequence[tuple[str, str]]:
        return [("Telegram", "/telegram/{agent}")]


class _Endpoint:
    """An ASGI application: one telegram in, one out."""

    def __init__(self, services: DoorContext) -> None:
        self._services = services

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        credentials = credentials_of(scope, behind_proxy=self._services.behind_proxy)
        admission = Admission(self._services, NAME, credentials, scope["path_params"]["agent"])
        send = admission.with_rate_limit_headers(send)
        try:
            if scope["method"] != "POST":
                raise BadMethod(wire.PROTOCOL, "method", "POST")
            key = idempotency_key(headers_of(scope), wire.PROTOCOL)
            message = wire.message_of(await read_json(scope, receive, admission, wire.PROTOCOL))
            answer = await self._ask(message, admission, key, receive)
            await send_json(send, 200, wire.encode(answer))
        except SabirError as exc:
            error = await admission.rejected(exc)
            await send_json(send, wire.status_of(error), wire.encode_problem(error), refusal_headers(error))

    async def _ask(self, message: Message, admission: Admission, key: str | None, receive: Receive) -> Message:
        answers: list[Message] = []

        async def collect(event: Event) -> None:
            if isinstance(event, Reply):
                answers.append(event.message)
            elif isinstance(event, Question):  # the next telegram of this thread answers it
                answers.append(Message.text(event.text, parts=list(sink.tokens)))

        sink = EventSink(collect)
        watcher = DisconnectWatcher(receive, lambda: bool(answers))
        sink.on_slow = watcher.start
        admission.line = sink
        request = TurnRequest(message, NAME, admission.agent, admission.credentials, key)
        try:
            await self._services.exchange.ask(request, sink)
        finally:
            watcher.stop()
        if not answers:
            raise TurnFailed("the agent ended without an answer")
        return answers[-1]
