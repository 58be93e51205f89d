"""What operators see of the gateway: metrics, traces, logs. Never content, never secrets.

Nothing here runs unless it is enabled.
"""

from __future__ import annotations

from . import logs  # noqa: F401 - keeps credentials out of every log line from the first one on
