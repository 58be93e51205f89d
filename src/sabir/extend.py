"""The names for packages that add a protocol to Sabir; see ``docs/plugins.md`` and ``examples/plugin_protocol``.

Everything else of Sabir may move between minor versions; these names stay.
"""

from __future__ import annotations

from sabir.exchange.request import EventSink, TurnRequest
from sabir.http.admission import Admission
from sabir.http.disconnect import DisconnectWatcher
from sabir.http.door import Door, DoorContext
from sabir.http.request import credentials_of, headers_of, idempotency_key, read_json
from sabir.http.response import refusal_headers, send_json
from sabir.protocols.nlip.wire import json as nlip
from sabir.protocols.peer import Call, Peer
from sabir.protocols.protocol import DoorEntry, PeerEntry, Protocol

__all__ = [
    "Admission",
    "Call",
    "DisconnectWatcher",
    "Door",
    "DoorContext",
    "DoorEntry",
    "EventSink",
    "Peer",
    "PeerEntry",
    "Protocol",
    "TurnRequest",
    "credentials_of",
    "headers_of",
    "idempotency_key",
    "nlip",
    "read_json",
    "refusal_headers",
    "send_json",
]
