"""How long tests wait for what must happen: for ever, almost, because a busy machine makes everything slow."""

from __future__ import annotations

from typing import Final

# Seconds. It only ends a hang: no test takes this long, and none shows with it that something is fast.
DEADLINE: Final = 180.0
