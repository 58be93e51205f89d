"""In front of a whole MCP server: what its clients and it say to each other is passed on as it is.

Nothing is translated, so nothing is lost: prompts, completion, subscriptions, sampling, and methods that were not
thought of yet. The gateway adds who may use which tool, how much, what was done, and one address; it keeps back the
client's credentials and the server's session ids, which the client only sees sealed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any, Final

import httpx2
import msgspec
from starlette.types import Receive, Send

from ..errors import Forbidden, NotFound, PeerUnavailable, Refused
from ..peers.mcp import McpPeer
from ..stores.base import AuditLine
from ..turn import MAX_HOPS
from .base import House
from .mcp_stream import DOOR, Answer, Attendance, Visit

_SEALED: Final = "mcp-relay"
_SESSION: Final = "mcp-session-id"
_PASSED_IN: Final = frozenset({"mcp-method", "mcp-name", "mcp-protocol-version", "traceparent"})
_PASSED_OUT: Final = frozenset({"content-type", "cache-control", "x-accel-buffering"})


class Watched:
    """What every relay to a server does beside passing on: who may, how much, in whose name, and what was done."""

    def __init__(self, house: House, peer: McpPeer) -> None:
        self.house = house
        self.peer = peer

    def check(self, visit: Visit, body: Any) -> None:
        """Raises:
        TooMany: over the rate.
        Refused: it has passed too many gateways.
        Forbidden: no right to this tool.
        """
        guard = self.house.guard
        guard.rates.check(visit.caller)
        if visit.hops >= MAX_HOPS:
            raise Refused(f"the request passed {MAX_HOPS} gateways; a loop is likely")
        if isinstance(body, dict) and body.get("method") == "tools/call":
            params = body.get("params")
            name = params.get("name") if isinstance(params, dict) else None
            if isinstance(name, str):
                guard.rights.check(visit.caller, agent=self.peer.card.name, door=DOOR, tool=name)

    async def shown(self, visit: Visit) -> dict[str, str]:
        """Who we are to the server for this caller, where that is configured."""
        outgoing = self.peer.outgoing
        return await outgoing.headers(self.peer.url, visit.caller) if outgoing is not None else {}

    async def audit(self, visit: Visit, body: Any, outcome: str) -> None:
        """One line for each request; what is no request (an answer, a stream) is part of one."""
        if not isinstance(body, dict) or "method" not in body or "id" not in body:
            return
        method, params = str(body["method"]), body.get("params")
        name = params.get("name") if isinstance(params, dict) else None
        detail = {"method": method[:64]} | ({"tool": name[:64]} if isinstance(name, str) else {})
        line = AuditLine(time.time(), "relay", visit.caller.id, DOOR, self.peer.card.name, outcome, "", "", detail)
        await self.house.store.audit(line)


class Relay(Watched):
    """Passes requests on to one server over HTTP, byte by byte."""

    async def __call__(
        self, method: str, visit: Visit, headers: Mapping[str, str], body: Any, receive: Receive, send: Send
    ) -> None:
        """Pass one request on and its answer back.

        Raises:
            SabirError: not allowed, or the server is not there.
        """
        self.check(visit, body)
        answer = Passing(send)
        attendance = Attendance(receive, answer)
        try:
            await self._pass(method, visit, headers, body, answer)
        except asyncio.CancelledError:
            if not attendance.gone:
                raise
            task = asyncio.current_task()
            if task is not None:
                task.uncancel()
            await self.audit(visit, body, "Cancelled")
        finally:
            attendance.stop()

    async def _pass(self, method: str, visit: Visit, headers: Mapping[str, str], body: Any, answer: Passing) -> None:
        request = self.peer.http.build_request(
            method,
            self.peer.url,
            headers={**self._inward(visit, headers), **await self.shown(visit)},
            content=msgspec.json.encode(body) if method == "POST" else None,
        )
        try:
            response = await self.peer.http.send(request, stream=True)
        except httpx2.HTTPError as wrong:
            await self.audit(visit, body, "PeerUnavailable")
            raise PeerUnavailable(self.peer.card.name, f"no connection ({type(wrong).__name__})") from None
        outcome = "ok" if response.status_code < 400 else str(response.status_code)
        try:
            if response.status_code in (401, 403):
                # It refuses our own credentials, not the caller's: its challenge is not for the caller.
                await self.audit(visit, body, outcome)
                refused = Forbidden("the server behind the gateway refuses it")
                refused.audited = True
                raise refused
            await answer.begin(response.status_code, self._outward(visit, response.headers))
            async for chunk in response.aiter_raw():
                await answer.chunk(chunk)
        except httpx2.HTTPError:
            outcome = "PeerUnavailable"  # it went away in the middle: the stream ends here too
        finally:
            await response.aclose()
        await self.audit(visit, body, outcome)  # before the last byte: what was answered is on record
        await answer.chunk(b"", last=True)

    def _inward(self, visit: Visit, headers: Mapping[str, str]) -> dict[str, str]:
        passed = passed_in(headers, visit)
        passed |= {name: headers[name] for name in ("accept", "content-type", "last-event-id") if name in headers}
        passed["accept-encoding"] = "identity"
        if _SESSION in headers:
            opened = self.house.guard.seal.open(_SEALED, headers[_SESSION], visit.caller.id)
            if opened is None:
                raise NotFound("there is no such session; begin a new one with initialize")
            passed[_SESSION] = opened.decode()
        return passed

    def _outward(self, visit: Visit, headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
        passed = [(k.encode(), v.encode("latin-1")) for k, v in headers.items() if k.lower() in _PASSED_OUT]
        session = headers.get(_SESSION)
        if session is not None:
            sealed = self.house.guard.seal.seal(_SEALED, session.encode(), visit.caller.id)
            passed.append((_SESSION.encode(), sealed.encode()))
        return passed


class Passing(Answer):
    """An answer whose bytes come from elsewhere."""

    __slots__ = ()

    async def begin(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        self.begun = True
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def chunk(self, body: bytes, *, last: bool = False) -> None:
        if self.sent:
            return
        self.sent = last
        await self._send({"type": "http.response.body", "body": body, "more_body": not last})

    async def ping(self) -> None:
        return None  # the server behind keeps its own streams alive


def passed_in(headers: Mapping[str, str], visit: Visit) -> dict[str, str]:
    """The headers of a client that a server behind us gets to see, and how many gateways it was."""
    passed = {k: v for k, v in headers.items() if k in _PASSED_IN or k.startswith("mcp-param-")}
    return {**passed, "x-sabir-hops": str(visit.hops + 1)}
