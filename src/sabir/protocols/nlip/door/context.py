"""What the NLIP doors use of the gateway beyond what every door uses."""

from __future__ import annotations

from collections import Counter
from typing import Protocol

from sabir.bus import Bus
from sabir.exchange.topics import Topics
from sabir.http.door import DoorContext, MakeServer, WithChecks
from sabir.protocols.nlip.wire.envelope import EnvelopeOptions


class NlipContext(DoorContext, Protocol):
    """Envelopes of the MassGen design, and subscriptions."""

    envelope: EnvelopeOptions
    topics: Topics
    bus: Bus | None
    subscriptions: Counter[str]  # open ones, by caller


class UploadContext(DoorContext, Protocol):
    """A separate listener, if one is configured."""

    make_server: MakeServer
    with_checks: WithChecks
