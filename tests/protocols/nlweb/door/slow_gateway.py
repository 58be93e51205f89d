"""A gateway in a process of its own, to be killed: its agent works until ``ready`` is in the home folder."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from sabir import Gateway, agent
from sabir.events import Progress
from sabir.server import Serving
from sabir.tasks import TaskSettings
from sabir.turn import Turn

HOME = Path(sys.argv[1])


@agent(description="Cooks slowly", repeatable=True)
async def kitchen(turn: Turn) -> AsyncIterator[Any]:
    with (HOME / "began").open("a") as log:
        log.write("once\n")
    yield Progress(0.5, "half done")
    while not (HOME / "ready").exists():
        await asyncio.sleep(0.02)
    yield f"Cooked {turn.text}."


if __name__ == "__main__":
    serving = Serving(port=0, home=str(HOME))
    Gateway(kitchen, home=HOME, serving=serving, tasks=TaskSettings(lease=1.0, look=0.1)).run()
