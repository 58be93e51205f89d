"""Eddy delegates a failing program to Jules, in one command::

    python examples/eddy_and_jules/run.py

Jules is an agent of a gateway; Eddy is a client of it. The log shows the three messages of the draft, each sent and
received.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from eddy import FAILING, delegate_coding_task_to_jules
from jules import jules

from sabir import Gateway, Messenger


async def delegate(home: str, code: str) -> dict[str, Any]:
    """Serve Jules on a free port while Eddy delegates to it."""
    gateway = Gateway(jules, home=home, doors={"acl": {"log_messages": "all"}})
    async with gateway.serving_at(port=0) as url, Messenger(f"{url}/acl", "Eddy") as eddy:
        return await delegate_coding_task_to_jules(eddy, code, think=lambda thought: print(f"Eddy thinks: {thought}"))


def main() -> None:
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    logging.getLogger("sabir.acl").setLevel(logging.INFO)
    code = Path(sys.argv[1]).read_text(encoding="utf-8") if len(sys.argv) > 1 else FAILING
    with tempfile.TemporaryDirectory() as home:
        ended = asyncio.run(delegate(home, code))
    print(ended.get("result_summary", ended))
    details = ended.get("result_details", {})
    for name in ("explanation", "diff", "error_encountered", "analysis"):
        if details.get(name):
            print(f"\n{name}:\n{details[name]}")


if __name__ == "__main__":
    main()
