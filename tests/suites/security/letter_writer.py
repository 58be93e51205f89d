"""A caller who writes letters: NLIP over AMQP, with everything on the wire in reach."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from uuid import uuid4

from deadline import DEADLINE
from sabir.protocols.nlip.amqp.connection import AmqpConnection, Incoming
from sabir.protocols.nlip.wire.amqp import AmqpMessage
from suites.security.attackers import JSON


class Client:
    """One who writes letters to a gateway, and what comes back to its place."""

    def __init__(self, url: str, address: str) -> None:
        self.address = address
        self.place = f"{address}-answers-{uuid4().hex[:8]}"
        self.connection = AmqpConnection(url)
        self._answers: asyncio.Queue[AmqpMessage] = asyncio.Queue()

    async def __aenter__(self) -> Client:
        await self.connection.open()
        await self.connection.receive(self.place, self._came)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.connection.close()

    def _came(self, incoming: Incoming) -> None:
        self._answers.put_nowait(incoming.letter)
        incoming.settle("accepted")

    async def write(self, body: bytes, to: str = "", **properties: Any) -> None:
        place = f"{self.address}/{to}" if to else self.address
        letter = AmqpMessage(body, to=place, reply_to=self.place, content_type="application/json", **properties)
        await self.connection.send(letter)

    async def answer(self) -> JSON:
        letter = await asyncio.wait_for(self._answers.get(), DEADLINE)
        found: JSON = json.loads(letter.body)
        return found

    async def ask(self, message: JSON, to: str = "", **properties: Any) -> JSON:
        await self.write(json.dumps(message).encode(), to, **properties)
        return await self.answer()

    @property
    def unread(self) -> int:
        return self._answers.qsize()
