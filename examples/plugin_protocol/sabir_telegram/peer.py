"""The peer: a remote agent that speaks Telegram, as an Agent."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import httpx2
import msgspec

from sabir import Event, Message, PeerOptions, Reply
from sabir.errors import PeerRefused, PeerUnavailable, PeerUnreadable
from sabir.extend import Call, Peer

from .wire import Telegram


class TelegramPeer(Peer):
    """Remembers one thread for each of this side's conversations."""

    protocol = "telegram"

    def __init__(self, url: str, options: PeerOptions | None = None, **named: Any) -> None:
        super().__init__(url, options, **named)
        self._client = httpx2.AsyncClient(trust_env=False)
        self._threads: dict[str, str] = {}

    async def talk(self, message: Message, call: Call) -> AsyncGenerator[Event, None]:
        sent = Telegram(message.text, self._threads.get(call.conversation))
        try:
            response = await self._client.post(
                self.url,
                content=msgspec.json.encode(sent),
                headers={"content-type": "application/json", **call.headers},
                timeout=call.seconds,
            )
        except httpx2.TransportError as exc:
            raise PeerUnavailable(self.address, f"no answer ({type(exc).__name__})") from None
        telegram = self._read(response.content)
        if telegram.problem is not None:
            raise PeerRefused(self.address, telegram.problem, response.status_code)
        if telegram.thread is not None:
            self._threads[call.conversation] = telegram.thread
        yield Reply(Message.text(telegram.text))

    def _read(self, body: bytes) -> Telegram:
        try:
            return msgspec.json.decode(body, type=Telegram)
        except msgspec.DecodeError:
            raise PeerUnreadable(self.address, "its answer is not a telegram") from None

    def _export_state(self) -> Any:
        return self._threads.get("")

    async def aclose(self) -> None:
        await self._client.aclose()
