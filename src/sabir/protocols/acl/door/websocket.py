"""``WS /acl/ws/{agent}``: messages in both directions over one connection.

The client sends ``{"send": <message>}`` and ``{"ack": <number>}``; the gateway sends ``{"id": n, "message": …}`` for
waiting messages, ``{"accepted": <message_id>, "conversation_id": …}`` for stored ones, and ``{"error": <message>}``.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import msgspec
from starlette.types import Receive, Scope, Send

from sabir.errors import BadMessage, SabirError, TooLarge, Unauthenticated
from sabir.http.admission import NO_AGENT, Admission
from sabir.message import JSON
from sabir.protocols.acl.wire.acts import PROTOCOL
from sabir.protocols.acl.wire.envelope import Envelope, plain
from sabir.protocols.acl.wire.reasons import Rejected
from sabir.turn import Caller

from .inbox import Inbox, is_number
from .intake import DOOR, answer_of, receipt_of

if TYPE_CHECKING:
    from .door import Acl

_NOT_YOURS: Final = 1008


class AclSocket:
    """Serves WebSocket connections."""

    def __init__(self, door: Acl) -> None:
        self._door = door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        agent, admission = scope["path_params"]["agent"], self._door.admission(scope)
        await receive()
        try:
            caller = await admission.authenticate_and_charge()
            await self._door.check_reader(agent, caller)
        except SabirError as exc:
            await admission.rejected(exc)
            await send({"type": "websocket.close", "code": _NOT_YOURS, "reason": str(exc)[:120]})
            return
        await send({"type": "websocket.accept"})
        await _Connection(self._door, agent, caller, admission, send).run(receive)


class _Connection:
    """One connection of one agent."""

    def __init__(self, door: Acl, agent: str, caller: Caller, admission: Admission, send: Send) -> None:
        self._door = door
        self._agent = agent
        self._caller = caller
        self._opened = admission
        self._credentials = admission.credentials
        self._send = send
        self._inbox = Inbox(door.dialogues, (agent,), door.is_stopping)

    async def run(self, receive: Receive) -> None:
        writing = asyncio.create_task(self._write(), name="acl websocket")
        reading = asyncio.create_task(self._read(receive), name="acl websocket: reading")
        try:
            await asyncio.wait((writing, reading), return_when=asyncio.FIRST_COMPLETED)
        finally:
            writing.cancel()
            reading.cancel()
            await asyncio.gather(writing, reading, return_exceptions=True)
        if self._door.is_stopping():
            await self._send({"type": "websocket.close", "code": 1001, "reason": "the gateway stops"})
        elif writing.done() and not writing.cancelled() and isinstance(exc := writing.exception(), Unauthenticated):
            await self._opened.rejected(exc)
            await self._send({"type": "websocket.close", "code": _NOT_YOURS, "reason": str(exc)[:120]})

    async def _write(self) -> None:
        async for item in self._inbox.messages():
            await self._opened.check_still_valid()
            if item is not None:
                number, envelope = item
                await self._frame({"id": number, "message": plain(envelope)})

    async def _read(self, receive: Receive) -> None:
        while True:
            packet = await receive()
            if packet["type"] == "websocket.disconnect":
                return
            text = packet.get("text")
            await self._take(text.encode() if text is not None else packet.get("bytes") or b"")

    async def _take(self, text: bytes) -> None:
        """Each frame counts as one request, as over HTTP: read within the limits, charged, paced."""
        admission = Admission(self._door.services, DOOR, self._credentials, NO_AGENT, self._caller)
        envelope: Envelope | None = None
        value: JSON = None
        try:
            await self._opened.check_still_valid()
            frame = await self._value(text, admission)
            if isinstance(frame, dict) and is_number(frame.get("ack")):
                await self._inbox.acknowledge(frame["ack"])
                if "send" not in frame:
                    return
            if not isinstance(frame, dict) or "send" not in frame:
                raise BadMessage(PROTOCOL, "$", '{"send": message} or {"ack": number}')
            value = frame["send"]
            admission.charge()
            self._door.services.rates.check_caller(self._caller)
            envelope = self._door.intake.read(value)
            admission.agent = envelope.receiver_ids[0]
            posted = await self._door.intake.accept(envelope, self._caller, admission)
            await self._frame({"accepted": envelope.message_id, **receipt_of(envelope, posted)})
        except (SabirError, Rejected) as exc:
            if isinstance(exc, SabirError):
                exc = await admission.rejected(exc)
            await self._frame({"error": answer_of(exc, envelope, value)})

    async def _value(self, text: bytes, admission: Admission) -> JSON:
        admission.check_open()
        if len(text) > self._door.limits.body:
            admission.size = len(text)
            raise TooLarge(PROTOCOL, "$", f"a message of at most {self._door.limits.body} bytes")
        return await self._door.json_in(text, admission, around=3)

    async def _frame(self, value: JSON) -> None:
        await self._send({"type": "websocket.send", "text": msgspec.json.encode(value).decode()})
