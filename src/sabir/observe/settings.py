"""What the gateway shows about itself, and to whom."""

from __future__ import annotations

import msgspec


class ObserveSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is shown, and to whom; a section of the configuration file."""

    metrics: bool = False  # GET /metrics, to this machine and to callers with the role
    metrics_role: str = "operator"
    traces: str | None = None  # an OTLP/HTTP endpoint, such as http://127.0.0.1:4318/v1/traces
    service: str = "sabir"
    sample: float = 1.0  # share of turns that start here; an incoming decision is kept
