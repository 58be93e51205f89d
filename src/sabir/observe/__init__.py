"""What can be seen of the gateway from outside: metrics, traces, logs. Never content, never secrets.

Nothing here is called unless it is switched on.
"""

from __future__ import annotations

from . import logs  # noqa: F401 - keeps credentials out of every log line from the first one on
