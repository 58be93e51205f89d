"""Telegram: a toy protocol that shows how a third party adds one to Sabir.

A client posts ``{"text": "…", "thread": "…"}`` to ``/telegram/{agent}`` and gets ``{"text": "…", "thread": "…"}`` back,
or ``{"problem": "…"}``. A thread is a conversation.
"""

from sabir.extend import DoorEntry, PeerEntry, Protocol

PROTOCOL = Protocol(
    name="telegram",
    title="Telegram",
    doors=(DoorEntry("telegram", "sabir_telegram.door:TelegramDoor", "/telegram/{name}", "/telegram/{name}"),),
    peers=(PeerEntry(("http", "https"), "sabir_telegram.peer:TelegramPeer"),),
    path="telegram",
    wire="sabir_telegram.wire",
)
