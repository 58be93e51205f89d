"""A remote NLWeb server as an Agent: its ``/ask``, and ``/await`` for promises.

Supports servers of 0.5, 0.54 and 0.55: the request is sent as 0.54, and in another version's form if the server rejects
that; what worked is remembered. The server's ``session_context`` is kept per conversation and sent back unchanged.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any, Final, Unpack
from urllib.parse import urlsplit, urlunsplit

import httpx2
import msgspec

from sabir.errors import Cancelled, PeerError, PeerRefused, PeerUnavailable, PeerUnreadable, Unavailable
from sabir.events import Event, Fault, Progress, Reply
from sabir.http.client import http_client
from sabir.http.connect_errors import peer_errors
from sabir.http.error_body import reason_in
from sabir.http.event_stream import read_events
from sabir.http.wire_log import request_head, response_head
from sabir.message import Message
from sabir.misfits import NOT_JSON
from sabir.protocols.nlip.wire.json import question_message
from sabir.protocols.peer import Call, Clock, Peer, PeerOptionNames, PeerOptions, choose, origin_of

from .wire.client import VERSIONS, ResponseReader, events_in, request_of
from .wire.models import Error, Json, Promise
from .wire.responses import CODES

MAX_BYTES: Final = 64 * 1024 * 1024
POLLS: Final = (0.1, 0.2, 0.5, 1.0, 2.0)  # seconds between polls of a promise; the last one repeats
_CANCEL_SECONDS: Final = 2.0  # seconds that cancelling a promise may take
_MAX_CONVERSATIONS: Final = 10_000
# With these a server says that it did not understand the form of the request; another form may work. A 500 does so only
# if its body is not NLWeb: old servers crash on unknown input.
_OTHER_FORM: Final = frozenset(
    {400, 415, 422, 500, "INVALID_REQUEST", "MISSING_FIELD", "UNSUPPORTED_VERSION", "UNSUPPORTED_FORMAT"}
)


class NlwebPeer(Peer):
    """``async with NlwebPeer("https://example.com/ask") as peer: await peer.ask("pumpkin soup")``."""

    protocol = "nlweb"

    def __init__(
        self,
        url: str,
        options: PeerOptions | None = None,
        *,
        max_bytes: int = MAX_BYTES,
        version: str | None = None,
        **named: Unpack[PeerOptionNames],
    ) -> None:
        """Args besides those of every peer:

        url: the address of the server, or of its ``/ask``.
        version: the only version to use; None: the one that the server understands.
        """
        super().__init__(_endpoint(url), options, **named)
        self._sessions: OrderedDict[str, Json] = OrderedDict()
        self._versions: tuple[str, ...] = (version,) if version is not None else VERSIONS
        self._identities = self.options.identities
        self._origin = origin_of(self.url)
        self._authorization = choose(self._identities, self._origin, None)
        self._max_bytes = max_bytes
        self._on_wire = self.options.on_wire
        self._client = http_client(self.options)

    async def aclose(self) -> None:
        await self._client.aclose()

    async def discover(self) -> None:
        """Ask ``/who`` which agents there are; ours is the one at this address."""
        call, clock, url = Call(), Clock(self.seconds), _beside(self.url, "who")
        async with self._response("POST", url, {"query": {"text": ""}}, call, clock, "application/json") as response:
            answer = await self._json(response, clock)
        rows = answer.get("results") if isinstance(answer, dict) else None
        for row in rows if isinstance(rows, list) else ():
            about = row.get("definition") if isinstance(row, dict) and row.get("endpoint") == self.url else None
            if isinstance(about, dict) and isinstance(about.get("description"), str):
                self.card = msgspec.structs.replace(self.card, description=about["description"])
                return

    # -- talking ----------------------------------------------------------------------------------

    async def talk(self, message: Message, call: Call) -> AsyncGenerator[Event, None]:
        clock = Clock(call.seconds)
        reader = ResponseReader()
        async with aclosing(self._asked(message, call, clock, reader)) as pieces:
            async for piece in pieces:
                yield piece
        if reader.promise is not None and reader.error is None and reader.asked is None:
            async with aclosing(self._kept(reader.promise, call, clock)) as later:
                async for event in later:
                    if isinstance(event, ResponseReader):
                        reader = event
                    else:
                        yield event
        if reader.session is not None:
            self._keep(call.conversation, reader.session)
        if reader.asked is not None:
            yield reader.asked
            yield Reply(question_message(reader.asked))  # for callers that only read the reply
        else:
            yield self._final(reader)

    async def _asked(
        self, message: Message, call: Call, clock: Clock, reader: ResponseReader
    ) -> AsyncGenerator[Event, None]:
        """The pieces of the answer, in the first version that the server understands."""
        said = message.without_tokens()
        for place, version in enumerate(self._versions):
            body = request_of(said, version, self._sessions.get(call.conversation), streams=call.pieces)
            try:
                async with aclosing(self._said(body, call, clock, reader)) as pieces:
                    async for piece in pieces:
                        yield piece
            except PeerRefused as refused:
                if refused.status not in _OTHER_FORM or place + 1 == len(self._versions):
                    raise
                continue
            if reader.error is not None and reader.error.code in _OTHER_FORM and place + 1 < len(self._versions):
                reader.error = None
                continue
            self._versions = (version, *(item for item in self._versions if item != version))
            return

    async def _said(self, body: Json, call: Call, clock: Clock, reader: ResponseReader) -> AsyncGenerator[Event, None]:
        accept = "text/event-stream, application/json" if call.pieces else "application/json"
        async with self._response("POST", self.url, body, call, clock, accept) as response:
            if _kind(response) == "text/event-stream":
                async with aclosing(self._events(response, clock)) as events:
                    async for name, data in events:
                        for piece in reader.feed(data, name):
                            yield piece
            else:
                for piece in reader.feed(await self._json(response, clock)):
                    yield piece
        if not reader.known:
            raise PeerUnreadable(self.address, "its answer is not NLWeb")

    async def _kept(self, promise: Promise, call: Call, clock: Clock) -> AsyncGenerator[Event | ResponseReader, None]:
        """Progress until the promise resolves, then its response. An abandoned promise is cancelled."""
        url, polls, kept = _beside(self.url, "await"), 0, False
        try:
            while True:
                yield Progress(promise.progress, promise.message or "")
                await asyncio.sleep(min(POLLS[min(polls, len(POLLS) - 1)], clock.left))
                if clock.left <= 0:
                    raise PeerUnavailable(self.address, "the promise did not resolve before the deadline")
                polls += 1
                reader = ResponseReader()
                request = {"promise_token": promise.token, "action": "checkin", "meta": {"api_version": "0.54"}}
                async with self._response("POST", url, request, call, clock, "application/json") as response:
                    list(reader.feed(await self._json(response, clock)))
                if reader.promise is None:
                    kept = True
                    yield reader
                    return
                promise = reader.promise
        finally:
            if not kept:
                await self._let_go(url, promise, call)

    async def _let_go(self, url: str, promise: Promise, call: Call) -> None:
        request = {"promise_token": promise.token, "action": "cancel"}
        with suppress(PeerError, TimeoutError):
            async with asyncio.timeout(_CANCEL_SECONDS):
                async with self._response("POST", url, request, call, Clock(_CANCEL_SECONDS), "application/json"):
                    pass

    def _final(self, reader: ResponseReader) -> Event:
        if reader.error is None or reader.found_nothing:
            return Reply(reader.reply())
        error = reader.error
        if error.code == "CANCELLED":
            return Fault.of(Cancelled(error.message))
        raise self._no(error)

    def _no(self, error: Error) -> PeerRefused:
        words = f"{error.code}: {error.message}"[:500]
        return PeerRefused(self.address, words, error.code, broken=error.code == CODES[Unavailable][1])

    def _keep(self, conversation: str, session: Json) -> None:
        self._sessions[conversation] = session
        self._sessions.move_to_end(conversation)
        if len(self._sessions) > _MAX_CONVERSATIONS:
            self._sessions.popitem(last=False)

    def _left(self) -> Any:
        return self._sessions.get("")

    def _restore_state(self, left: Any) -> None:
        if left is not None:
            self._sessions[""] = msgspec.convert(left, Json)

    # -- HTTP -------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _response(
        self, method: str, url: str, body: Json, call: Call, clock: Clock, accept: str
    ) -> AsyncIterator[httpx2.Response]:
        """The response to a request, after login; its status is 2xx, or it has an NLWeb body to read.

        Raises:
            PeerError: no answer, or a refusal.
        """
        with peer_errors(self.address):
            async with asyncio.timeout(clock.left):
                response = await self._send(method, url, body, call, clock, accept)
                if response.status_code == 401 and not call.anonymous:
                    wanted = choose(self._identities, self._origin, response.headers.get("www-authenticate", ""))
                    if wanted is not None and wanted != self._authorization:
                        await response.aclose()
                        self._authorization = wanted
                        response = await self._send(method, url, body, call, clock, accept)
            try:
                if not response.is_success:
                    raise await self._refusal(response, clock)
                yield response
            finally:
                await response.aclose()

    async def _send(self, method: str, url: str, body: Json, call: Call, clock: Clock, accept: str) -> httpx2.Response:
        headers = {"accept": accept, "content-type": "application/json", "x-sabir-hops": str(call.hops)}
        if call.trace:
            headers["traceparent"] = call.trace
        if call.key:
            headers["idempotency-key"] = call.key
        if self._authorization is not None and not call.anonymous:
            headers["authorization"] = self._authorization
        headers.update(call.headers)
        content = msgspec.json.encode(body)
        request = self._client.build_request(
            method, url, content=content, headers=headers, timeout=httpx2.Timeout(clock.left, connect=10.0)
        )
        self._show("sent", request_head(request) + content)
        response = await self._client.send(request, stream=True)
        self._show("received", response_head(response))
        return response

    async def _refusal(self, response: httpx2.Response, clock: Clock) -> PeerRefused:
        try:
            body = await self._body(response, clock)
        except (PeerUnreadable, httpx2.HTTPError):
            body = b""
        reader = ResponseReader()
        with suppress(*NOT_JSON):
            if _kind(response) == "text/event-stream":
                for name, data in events_in(body):
                    list(reader.feed(data, name))
            else:
                list(reader.feed(msgspec.json.decode(body)))
        if reader.error is not None and b'"_meta"' in body:
            return self._no(reader.error)
        status = response.status_code
        return PeerRefused(self.address, reason_in(body, status), status, broken=status >= 500)

    async def _json(self, response: httpx2.Response, clock: Clock) -> Any:
        try:
            return msgspec.json.decode(await self._body(response, clock))
        except NOT_JSON:
            raise PeerUnreadable(self.address, f"its answer ({_kind(response)}) is not JSON") from None

    async def _body(self, response: httpx2.Response, clock: Clock) -> bytes:
        pieces: list[bytes] = []
        size = 0
        async with asyncio.timeout(clock.left):
            async for piece in response.aiter_bytes():
                self._show("received", piece)
                pieces.append(piece)
                size += len(piece)
                if size > self._max_bytes:
                    raise PeerUnreadable(self.address, f"its answer is larger than {self._max_bytes} bytes")
        return b"".join(pieces)

    async def _events(self, response: httpx2.Response, clock: Clock) -> AsyncGenerator[tuple[str, Any], None]:
        """Names and data of the events; data that is not JSON is skipped."""
        events = read_events(
            response,
            self.address,
            self._max_bytes,
            left=lambda: clock.left,
            on_line=lambda line: self._show("received", line),
        )
        size = 0
        async for event in events:
            size += len(event.data)
            if size > self._max_bytes:
                raise PeerUnreadable(self.address, f"its answer is larger than {self._max_bytes} bytes")
            with suppress(*NOT_JSON):
                yield event.name, msgspec.json.decode(event.data)

    def _show(self, direction: Any, data: bytes) -> None:
        if self._on_wire is not None and data:
            self._on_wire(direction, data)


def _endpoint(url: str) -> str:
    """The address of ``/ask``: as given if it has a path, otherwise below the server's root."""
    parts = urlsplit(url)
    return url if parts.path.strip("/") else urlunsplit(parts._replace(path="/ask"))


def _beside(url: str, name: str) -> str:
    """The address of ``/await`` that belongs to this ``/ask``."""
    parts = urlsplit(url)
    before = parts.path.partition("/ask")[0]
    return urlunsplit(parts._replace(path=f"{before}/{name}", query=""))


def _kind(response: httpx2.Response) -> str:
    return str(response.headers.get("content-type", "")).partition(";")[0].strip().lower()
